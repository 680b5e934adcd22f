"""Build a network by the name of its architecture."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch.overrides import TorchFunctionMode

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


class WithoutInitialising(TorchFunctionMode):
    """Inside the block, modules are built without drawing their weights, which are then arbitrary.

    For networks that are filled at once: drawing 600 million weights takes 20 seconds.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func.__name__ in ("normal_", "uniform_", "kaiming_uniform_"):  # of Tensor and nn.init
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
