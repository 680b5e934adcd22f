"""The attention of each step of `generate`, with its layout checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.kinds import Kind
from core.record.adapters.values import dense, shape_of
from core.record.limits import MAX_RECORD_MAPS, MAX_RECORD_TOKENS

_EAGER = (
    'no attention: load the model with attn_implementation="eager" and call '
    "generate(…, output_attentions=True, return_dict_in_generate=True)"
)


@dataclass(frozen=True, eq=False)
class Steps:
    """Weights by kind, step and layer, each [row, head, query, key].

    All have `rows` rows. The first step has `prefix` queries, one per token fed in first; a later
    step has the newest query or, without a KV cache, all so far. `source` is the number of keys of
    cross-attention.
    """

    layers: dict[Kind, Sequence[Sequence[Any]]]
    rows: int
    prefix: int
    source: int

    @property
    def count(self) -> int:
        """The number of steps: one per produced token."""
        return len(self.layers["cross"])

    def join(self, kind: Kind, path: np.ndarray) -> np.ndarray:
        """Join the steps of a sequence into maps, [layer, head, query, key].

        At step t, the sequence is in row `path[t]` of the batch. A static cache has more keys than
        tokens were fed in: the rest is dropped. Shorter rows are padded with 0.
        """
        longest = self.source if kind == "cross" else self.prefix + len(path) - 1
        joined = []
        for t, row in enumerate(path):
            keys = self.source if kind == "cross" else self.prefix + t
            layers = [dense(layer[int(row)], kind) for layer in self.layers[kind][t]]
            step = np.stack(layers)[..., :keys]
            step = np.pad(step, [(0, 0)] * 3 + [(0, longest - step.shape[-1])])
            joined.append(step[:, :, -1:] if t else step)
        return np.concatenate(joined, axis=2)


def steps_of(outputs: Any) -> Steps:
    """Return the steps of the outputs of generate.

    Raises ValueError, in one line, for outputs without attention or of another function, and for
    steps that do not follow each other.
    """
    if not hasattr(outputs, "sequences"):
        if hasattr(outputs, "cross_attentions"):
            raise ValueError(
                "these are the outputs of a forward pass, not of generate: pass its maps to "
                "from_arrays, such as cross=outputs.cross_attentions"
            )
        raise ValueError(
            f"outputs is {type(outputs).__name__}, without sequences and attention: call "
            "generate(…, output_attentions=True, return_dict_in_generate=True)"
        )
    if not hasattr(outputs, "cross_attentions") and hasattr(outputs, "attentions"):
        raise ValueError("these outputs are of a decoder alone: an encoder-decoder is needed")
    layers: dict[Kind, Sequence[Sequence[Any]]] = {}
    for kind in ("decoder", "cross"):
        steps = getattr(outputs, f"{kind}_attentions", None)
        listed = isinstance(steps, list | tuple)
        if is_missing(steps) or (listed and is_missing(steps[0])):
            raise ValueError(_EAGER)
        if not listed or not all(isinstance(step, list | tuple) for step in steps):
            raise ValueError(
                f"{kind}_attentions has no layers within its steps: pass the outputs of generate, "
                "or maps of a forward pass to from_arrays"
            )
        if len(steps) > MAX_RECORD_TOKENS or max(map(len, steps)) > MAX_RECORD_MAPS:
            raise ValueError(
                f"{kind}_attentions has {len(steps):,} steps: the limits are {MAX_RECORD_TOKENS} "
                f"tokens and {MAX_RECORD_MAPS:,} maps"
            )
        layers[kind] = steps
    own, cross = layers["decoder"], layers["cross"]
    if len(own) != len(cross):
        raise ValueError(
            f"the decoder has attention of {len(own)} steps, but cross-attention of {len(cross)}: "
            "pass the outputs of generate unchanged"
        )
    first = shape_of(cross[0][0], "cross_attentions")
    if len(first) != 4:
        raise ValueError(f"cross_attentions holds {first}, not [row, head, query, key]")
    result = Steps(layers, first[0], first[2], first[3])
    for kind in layers:
        _check(result, kind)
    return result


def is_missing(attentions: Any) -> bool:
    """Return whether attention was not recorded: None, (), or a layer that is None."""
    if not isinstance(attentions, list | tuple):
        return attentions is None
    return any(one is None for one in attentions or (None,))


def _check(steps: Steps, kind: Kind) -> None:
    """Check that each step continues the one before, with the same layers, heads and rows."""
    by_step = steps.layers[kind]
    count, heads = len(by_step[0]), shape_of(by_step[0][0], kind)[1:2]
    for t, layers in enumerate(by_step):
        fed = steps.prefix + t
        shapes = [shape_of(layer, kind) for layer in layers]
        for shape in shapes:
            fits = len(shape) == 4 and (shape[0], shape[1:2], len(shapes)) == (
                steps.rows,
                heads,
                count,
            )
            if not fits or not _continues(shape, kind, t, fed, steps.source):
                raise ValueError(
                    f"{kind}_attentions of step {t + 1} holds {shape} in {len(shapes)} layers, "
                    f"which does not continue the steps before ({steps.rows} rows, {fed} tokens "
                    "fed in): pass the outputs of generate unchanged"
                )


def _continues(shape: tuple[int, ...], kind: Kind, t: int, fed: int, source: int) -> bool:
    _, _, queries, keys = shape
    newest = queries == fed or (t > 0 and queries == 1)
    return newest and (keys == source if kind == "cross" else keys >= fed)
