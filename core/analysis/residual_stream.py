"""Residual-stream decomposition by source: token, position, heads and feed-forward layers.

Axes: C component, H head, Q query, K key, N position in the sentence, D d_model, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from core.analysis.inside_head import Site, heads_of
from core.config import Norm as NormForm
from core.frozen import Doubles, Frozen
from core.kinds import Kind, Side

What = Literal[
    "token",
    "position",
    "head",
    "output bias",
    "feed-forward",
    "norm shift",
    "feed-forward norm shift",
    "final norm shift",
    "embedding norm shift",
    "query bias",
    "key bias",
    "classifier bias",
]

SUBLAYERS: dict[Side, tuple[Kind | None, ...]] = {
    "encoder": ("encoder", None),
    "decoder": ("decoder", "cross", None),
}
"""The sub-layers of a layer, in order: an attention's kind, or None for feed-forward."""


EMBEDDING = -1
"""The `layer` of the norm after a side's embeddings."""


def check_index(name: str, index: int, count: int) -> None:
    """Raise a one-line ValueError unless 0 ≤ index < count."""
    if not 0 <= index < count:
        raise ValueError(f"{name} {index} does not exist: counted from 0, the last is {count - 1}")


@dataclass(frozen=True)
class Component:
    """The source of a part of the stream; layer and head are counted from 0.

    `kind` is the attention's kind; for a feed-forward layer and its norm, it is the side. A norm
    shift is the β of the norm that belongs to the named sub-layer. `key` is set when a head's
    output is split by key.
    """

    what: What
    kind: Kind | None = None
    layer: int | None = None
    head: int | None = None
    key: int | None = None

    @property
    def place(self) -> tuple[Kind, int, int]:
        """(kind, layer, head), as in `Edits`. Raises ValueError unless this is a head."""
        if self.kind is None or self.layer is None or self.head is None:
            raise ValueError(f"{self.label} is not a head")
        return self.kind, self.layer, self.head

    @property
    def label(self) -> str:
        """The user-facing label, counted from 1: "cross layer 3 head 1", "token"."""
        kind = "" if self.kind is None else f"{self.kind} "
        layer = "" if self.layer is None else f"layer {self.layer + 1} "
        return kind + layer + (self.what if self.head is None else f"head {self.head + 1}")

    @property
    def group(self) -> str:
        """The group that the component belongs to, over all layers.

        Groups are "token", "position", "feed-forward", and "encoder heads" and so on for each kind.
        "norms, biases" holds all other components, which do not depend on any word.
        """
        if self.what in ("token", "position", "feed-forward"):
            return self.what
        return f"{self.kind} heads" if self.what == "head" else "norms, biases"


@dataclass(frozen=True, eq=False)
class Norm(Frozen):
    """A norm as it ran: γ [D] (`gain_D`), β [D] (`shift_D`), eps, input and output [N, D].

    It belongs to an attention (kind and layer), to a feed-forward layer (no kind), to the end of
    a side's stack (no layer), or to the embeddings (layer EMBEDDING). A norm of the form "rms" has
    no mean and no β; see `core.config.ModelConfig` for the forms.
    """

    side: Side
    kind: Kind | None
    layer: int | None
    gain_D: Doubles
    shift_D: Doubles
    eps: float
    input_ND: Doubles
    output_ND: Doubles
    form: NormForm = "layer"

    @property
    def shift(self) -> Component:
        """The component for β."""
        if self.layer is None:
            return Component("final norm shift", self.side)
        if self.layer == EMBEDDING:
            return Component("embedding norm shift", self.side)
        if self.kind is None:
            return Component("feed-forward norm shift", self.side, self.layer)
        return Component("norm shift", self.kind, self.layer)

    def linearised(self, parts: Doubles) -> Doubles:
        """Return γ(x − mean x)/σ of parts [..., N, D], with σ fixed to that of the actual input."""
        return self.gain_D * self._centred(parts) / self._scale(self.input_ND)

    def recomputed(self, x: Doubles) -> Doubles:
        """Apply the norm to another input [..., N, D], with the σ of that input."""
        return self.gain_D * self._centred(x) / self._scale(x) + self.shift_D

    def _centred(self, x: Doubles) -> Doubles:
        return x if self.form == "rms" else x - x.mean(-1, keepdims=True)

    def _scale(self, x: Doubles) -> Doubles:
        if self.form == "deviation":
            return x.std(-1, ddof=1, keepdims=True) + self.eps
        square = self._centred(x) ** 2
        return np.sqrt(square.mean(-1, keepdims=True) + self.eps)

    def at(self, positions: slice) -> Norm:
        return replace(self, input_ND=self.input_ND[positions], output_ND=self.output_ND[positions])


@dataclass(frozen=True, eq=False)
class Stream(Frozen):
    """The input of a sub-layer or of the classifier, as parts [C, N, D] that add up to it.

    Layer norm is linearised at its actual scale: each part is centred, divided by the σ of the
    whole input and multiplied by γ. β becomes the last component. `norm` is the last norm that the
    parts went through, and `before` are the parts before that norm.
    """

    components: tuple[Component, ...]
    parts: Doubles
    norm: Norm | None = None
    before: Doubles | None = None

    def plus(self, components: Sequence[Component], parts: Doubles) -> Stream:
        """Return the stream after a sub-layer that wrote these parts."""
        return Stream((*self.components, *components), np.concatenate((self.parts, parts)))

    def through(self, norm: Norm) -> Stream:
        """Return the stream after a norm; a norm without β adds no component."""
        if norm.form == "rms":
            return Stream(self.components, norm.linearised(self.parts), norm, self.parts)
        shift = np.broadcast_to(norm.shift_D, (1, *self.parts.shape[1:]))
        parts = np.concatenate((norm.linearised(self.parts), shift))
        return Stream((*self.components, norm.shift), parts, norm, self.parts)

    def without(self, component: int) -> Doubles:
        """Return the input without one component, with the last norm recomputed: [N, D].

        If there is no last norm, or the component is that norm's shift, the part is subtracted.
        """
        if self.norm is None or self.before is None or component >= len(self.before):
            return self.parts.sum(0) - self.parts[component]
        return self.norm.recomputed(self.before.sum(0) - self.before[component])

    def largest_error(self, input_ND: Doubles) -> float:
        """Return the largest |sum of the parts − input|, relative to the largest |input|."""
        return float(np.abs(self.parts.sum(0) - input_ND).max() / np.abs(input_ND).max())


@dataclass(frozen=True, eq=False)
class Trace(Frozen):
    """The states of one sentence's pass, in float64, from which any stream can be built.

    By side, `embedded` holds the token and position embeddings [2, N, D], `first` the norm after
    them, if any, and `norms` one norm per sub-layer in execution order. `last` is the final norm of
    each side, if any. `ends` holds two arrays [N, D]: the output of the last layer, and that output
    after the final norm, if any. `logits_TV` are the logits of the pass.
    """

    norm_first: bool
    embedded: dict[Side, Doubles]
    first: dict[Side, Norm | None]
    sites: dict[tuple[Kind, int], Site]
    norms: dict[Side, tuple[Norm, ...]]
    last: dict[Side, Norm | None]
    ends: dict[Side, tuple[Doubles, Doubles]]
    logits_TV: Doubles

    def site(self, kind: Kind, layer: int) -> Site:
        """Return one attention sub-layer. Raises ValueError if the model has no such layer."""
        check_index(f"{kind} layer", layer, sum(k == kind for k, _ in self.sites))
        return self.sites[kind, layer]

    def queries(self, kind: Kind, layer: int, positions: slice = slice(None)) -> Stream:
        """Return the stream at `positions` that an attention's queries are computed from."""
        return self._stream("encoder" if kind == "encoder" else "decoder", positions, (kind, layer))

    def keys(self, kind: Kind, layer: int) -> Stream:
        """Return the stream that an attention's keys are computed from."""
        return self.final("encoder") if kind == "cross" else self.queries(kind, layer)

    def final(self, side: Side, positions: slice = slice(None), by_key: bool = False) -> Stream:
        """Return the stream at `positions` at the end of a stack, after its final norm.

        `by_key` splits each head's part by key.
        """
        return self._stream(side, positions, by_key=by_key)

    def _stream(
        self,
        side: Side,
        positions: slice,
        stop: tuple[Kind, int] | None = None,
        by_key: bool = False,
    ) -> Stream:
        first = Component("token"), Component("position")
        stream = Stream(first, self.embedded[side][:, positions])
        if norm := self.first[side]:
            stream = stream.through(norm.at(positions))
        for i, norm in enumerate(self.norms[side]):
            kind, layer = norm.kind, norm.layer
            if (kind, layer) == stop:
                return stream.through(norm.at(positions)) if self.norm_first else stream
            if kind is None:
                added_ND = (self._after(side, i) - self._before(side, i))[None, positions]
                stream = stream.plus([Component("feed-forward", side, layer)], added_ND)
            else:
                assert layer is not None  # only the final norm has none
                written = _attended(self.sites[kind, layer], kind, layer, positions, by_key)
                stream = stream.plus(*written)
            if not self.norm_first:
                stream = stream.through(norm.at(positions))
        last = self.last[side]
        return stream if last is None else stream.through(last.at(positions))

    def _before(self, side: Side, i: int) -> Doubles:
        """Return the stream [N, D] before sub-layer i is added."""
        return (
            self.norms[side][i].input_ND if self.norm_first else self.norms[side][i - 1].output_ND
        )

    def _after(self, side: Side, i: int) -> Doubles:
        """Return the stream [N, D] after sub-layer i is added."""
        norms = self.norms[side]
        if not self.norm_first:
            return norms[i].input_ND
        return norms[i + 1].input_ND if i + 1 < len(norms) else self.ends[side][0]


def values(site: Site) -> Doubles:
    """Return v_k W_h^O, each key's contribution to the output at a weight of 1: [H, K, D]."""
    v_HKE = heads_of(site.memory_KD @ site.to_value.T + site.value_bias, site.num_heads)
    return v_HKE @ heads_of(site.to_output, site.num_heads).swapaxes(1, 2)


def _attended(
    site: Site, kind: Kind, layer: int, positions: slice, by_key: bool
) -> tuple[list[Component], Doubles]:
    """Return the components of an attention's output and their parts [C, N, D]."""
    weights_HNK, values_HKD = site.maps_HQK[:, positions].astype(np.float64), values(site)
    components = [Component("head", kind, layer, h) for h in range(site.num_heads)]
    parts = weights_HNK @ values_HKD
    if by_key:
        keys = range(values_HKD.shape[1])
        components = [replace(head, key=key) for head in components for key in keys]
        split_HKND = weights_HNK.swapaxes(1, 2)[..., None] * values_HKD[:, :, None]
        parts = split_HKND.reshape(-1, *split_HKND.shape[2:])
    bias_1ND = np.broadcast_to(site.output_bias, (1, *parts.shape[1:]))
    return [*components, Component("output bias", kind, layer)], np.concatenate((parts, bias_1ND))
