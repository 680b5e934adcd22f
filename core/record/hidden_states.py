"""Hidden states and attention scores of one pass, in NumPy only.

Axes: L layers, H heads, S source tokens, T target tokens, D d_model, Q query, K key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.frozen import Floats, Frozen
from core.kinds import Kind
from core.record.edits import Edits
from core.record.softmax import error_limits, weights_of

_AXES = {
    "source_embeddings": "SD",
    "target_embeddings": "TD",
    "encoder_states": "e2SD",
    "decoder_states": "d3TD",
    "encoder_output": "SD",
    "decoder_output": "TD",
    "encoder_scores": "eHSS",
    "decoder_scores": "dHTT",
    "cross_scores": "dHTS",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Activations(Frozen):
    """Hidden states and scores of one teacher-forced pass, float32 and read-only.

    `source_embeddings` [S, D] and `target_embeddings` [T, D] include positions and enter the first
    layers. `encoder_states` [L, 2, S, D] are the residual stream after each layer's self-attention
    and feed-forward sub-layers. `decoder_states` [L, 3, T, D] are the decoder's, after
    self-attention, cross-attention and feed-forward. `encoder_output` [S, D] and `decoder_output`
    [T, D] are the outputs of the stacks after the final norm, that is, the inputs of
    cross-attention and of the classifier. The scores are q·k/√d_k before any mask, [L, H, Q, K],
    computed in float64 from the inputs of each attention. Masked cells have scores too.
    """

    source_embeddings: Floats
    target_embeddings: Floats
    encoder_states: Floats
    decoder_states: Floats
    encoder_output: Floats
    decoder_output: Floats
    encoder_scores: Floats
    decoder_scores: Floats
    cross_scores: Floats

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths = {"2": 2, "3": 3}
        for name, axes in _AXES.items():
            array = getattr(self, name)
            if array.dtype != np.float32 or array.ndim != len(axes):
                raise ValueError(f"{name} is {array.dtype} {array.shape}, not float32 {axes}")
            for axis, length in zip(axes, array.shape, strict=True):
                if lengths.setdefault(axis, length) != length:
                    raise ValueError(f"{name} {array.shape}: axis {axis} should be {lengths[axis]}")

    def __repr__(self) -> str:
        arrays = (f"{f.name} {getattr(self, f.name).shape}" for f in dataclasses.fields(self))
        return f"Activations({', '.join(arrays)})"

    def scores(self, kind: str) -> Floats:
        """Return the scores of a kind before any mask, [layer, head, query, key]."""
        return getattr(self, f"{kind}_scores")

    def check(
        self,
        weights: Mapping[Kind, Floats],
        masks: Mapping[Kind, NDArray[np.bool_]],
        edits: Edits = Edits(),
    ) -> None:
        """Raise ValueError unless softmax(scores + mask), under edits, equals the weights.

        See `error_limits` in core.record.softmax for the tolerance.
        """
        for kind, mask in masks.items():
            scores, shown = self.scores(kind), weights[kind]
            if scores.shape != shown.shape:
                raise ValueError(f"{kind} scores are {scores.shape}, its weights {shown.shape}")
            expected = weights_of(scores, mask, kind, edits)
            rows = mask.any(-1)  # fully masked rows have no softmax
            differences = np.abs(expected - shown)[..., rows, :]
            if not (differences <= error_limits(scores, mask, kind, edits)).all():
                off = differences.max()
                raise ValueError(f"the softmax of the {kind} scores is {off:.1e} off the weights")
