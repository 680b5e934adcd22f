"""The map between the two models' state dicts: which parameters hold the same numbers."""

from dataclasses import dataclass

import torch

from core.config import ModelConfig
from core.model.baseline import Baseline, scratch_names
from core.model.transformer import Transformer


@dataclass(frozen=True)
class MapRow:
    """One parameter of the baseline, and the scratch parameters that hold the same numbers."""

    baseline: str
    baseline_shape: tuple[int, ...]
    scratch: tuple[str, ...]
    scratch_shape: tuple[int, ...]


def state_dict_map(config: ModelConfig) -> list[MapRow]:
    """Both models' parameters side by side, in the baseline's order; no weights are made."""
    with torch.device("meta"):
        baseline, scratch = Baseline(config), Transformer(config)
    ours = {name: tuple(p.shape) for name, p in scratch.named_parameters()}
    rows = []
    for name, parameter in baseline.named_parameters():
        names = scratch_names(name)
        rows.append(MapRow(name, tuple(parameter.shape), names, ours[names[0]]))
    return rows
