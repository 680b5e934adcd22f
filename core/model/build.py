"""Build an untrained network by the name of its architecture."""

from core.config import ModelConfig
from core.model.baseline import Baseline
from core.model.transformer import Transformer

Model = Transformer | Baseline

ARCHITECTURES: dict[str, type[Transformer] | type[Baseline]] = {
    "scratch": Transformer,
    "baseline": Baseline,
}


def build(architecture: str, config: ModelConfig) -> Model:
    """Return an untrained "scratch" or "baseline" network. Raises ValueError for another name."""
    if architecture not in ARCHITECTURES:
        raise ValueError(
            f"unknown model {architecture!r}: choose one of {', '.join(ARCHITECTURES)}"
        )
    return ARCHITECTURES[architecture](config)
