"""The mapping between the two models' state dicts."""

from dataclasses import dataclass

import torch

from core.config import ModelConfig
from core.model.baseline import Baseline, scratch_names
from core.model.transformer import Transformer


@dataclass(frozen=True)
class MapRow:
    """A baseline parameter and its counterparts in the scratch model, all of `scratch_shape`."""

    baseline: str
    baseline_shape: tuple[int, ...]
    scratch: tuple[str, ...]
    scratch_shape: tuple[int, ...]


def state_dict_map(config: ModelConfig) -> list[MapRow]:
    """Return the mapping in the baseline's order, without allocating weights."""
    with torch.device("meta"):
        baseline, scratch = Baseline(config), Transformer(config)
    ours = {name: tuple(p.shape) for name, p in scratch.named_parameters()}
    rows = []
    for name, parameter in baseline.named_parameters():
        names = scratch_names(name)
        rows.append(MapRow(name, tuple(parameter.shape), names, ours[names[0]]))
    return rows
