"""The residual stream of one pass, taken apart into what token, position, heads and layers wrote.

Axes: C component, H head, Q query, K key, N place in the sentence, D d_model, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.analysis.inside_head import Site, heads_of
from core.frozen import Frozen
from core.kinds import Kind

Floats = NDArray[np.float64]
Side = Literal["encoder", "decoder"]
What = Literal[
    "token",
    "position",
    "head",
    "output bias",
    "feed-forward",
    "norm shift",
    "feed-forward norm shift",
    "final norm shift",
    "query bias",
    "key bias",
    "classifier bias",
]

SUBLAYERS: dict[Side, tuple[Kind | None, ...]] = {
    "encoder": ("encoder", None),
    "decoder": ("decoder", "cross", None),
}
"""What a layer of a side does, in its order: an attention by its kind, or, None, feed-forward."""


@dataclass(frozen=True)
class Component:
    """What wrote a part of the stream; layer and head are counted from 0.

    `kind` is the attention's, of a feed-forward layer and its norm the side. A norm's shift is its
    β, named by the sub-layer that the norm belongs to. A head that is split has a `key`: what it
    took from there.
    """

    what: What
    kind: Kind | None = None
    layer: int | None = None
    head: int | None = None
    key: int | None = None

    @property
    def place(self) -> tuple[Kind, int, int]:
        """(kind, layer, head), as edits name a head. Raises ValueError for what is no head."""
        if self.kind is None or self.layer is None or self.head is None:
            raise ValueError(f"{self.label} is no head")
        return self.kind, self.layer, self.head

    @property
    def label(self) -> str:
        """What a person reads, counted from 1: "cross layer 3 head 1", "token"."""
        kind = "" if self.kind is None else f"{self.kind} "
        layer = "" if self.layer is None else f"layer {self.layer + 1} "
        return kind + layer + (self.what if self.head is None else f"head {self.head + 1}")

    @property
    def group(self) -> str:
        """Its kind, over all layers: token, position, cross heads, feed-forward; norms, biases.

        A bias belongs to no word: neither does what a norm adds.
        """
        if self.what in ("token", "position", "feed-forward"):
            return self.what
        return f"{self.kind} heads" if self.what == "head" else "norms, biases"


@dataclass(frozen=True, eq=False)
class Norm(Frozen):
    """A layer norm as it ran: γ, β, eps, and what it was fed and gave, [N, D].

    It belongs to the attention of a kind and layer; to a feed-forward layer, without a kind; or
    stands behind a side's stack, without a layer.
    """

    side: Side
    kind: Kind | None
    layer: int | None
    gain_D: Floats
    shift_D: Floats
    eps: float
    fed_ND: Floats
    gave_ND: Floats

    @property
    def shift(self) -> Component:
        """β as a component of what comes out."""
        if self.layer is None:
            return Component("final norm shift", self.side)
        if self.kind is None:
            return Component("feed-forward norm shift", self.side, self.layer)
        return Component("norm shift", self.kind, self.layer)

    def held(self, parts: Floats) -> Floats:
        """γ(x − mean x)/σ of parts [..., N, D], with the σ of all that was really fed."""
        return self.gain_D * (parts - parts.mean(-1, keepdims=True)) / self._scale(self.fed_ND)

    def anew(self, x: Floats) -> Floats:
        """The whole norm of another input [..., N, D], by its own σ."""
        return self.gain_D * (x - x.mean(-1, keepdims=True)) / self._scale(x) + self.shift_D

    def _scale(self, x: Floats) -> Floats:
        return np.sqrt(x.var(-1, keepdims=True) + self.eps)

    def at(self, places: slice) -> Norm:
        return replace(self, fed_ND=self.fed_ND[places], gave_ND=self.gave_ND[places])


@dataclass(frozen=True, eq=False)
class Stream(Frozen):
    """What a sub-layer, or the classifier, is fed: parts [C, N, D] that add up to it.

    Layer norm is taken at its actual scale: each part is centred, divided by the σ of the whole
    input and multiplied by γ, which is linear; β is a component of its own, the last. `norm` is the
    norm through which the parts came last, `before` the parts as they came to it.
    """

    components: tuple[Component, ...]
    parts: Floats
    norm: Norm | None = None
    before: Floats | None = None

    def plus(self, components: Sequence[Component], parts: Floats) -> Stream:
        """The stream behind a sub-layer that wrote these parts."""
        return Stream((*self.components, *components), np.concatenate((self.parts, parts)))

    def through(self, norm: Norm) -> Stream:
        """The stream behind a norm."""
        shift = np.broadcast_to(norm.shift_D, (1, *self.parts.shape[1:]))
        parts = np.concatenate((norm.held(self.parts), shift))
        return Stream((*self.components, norm.shift), parts, norm, self.parts)

    def without(self, component: int) -> Floats:
        """What would be fed if this component's part were 0 and the last norm taken anew: [N, D].

        A norm's own shift, and a stream that comes through no norm, only lose the part.
        """
        if self.norm is None or self.before is None or component == len(self.before):
            return self.parts.sum(0) - self.parts[component]
        return self.norm.anew(self.before.sum(0) - self.before[component])

    def largest_error(self, fed_ND: Floats) -> float:
        """How far the sum of the parts is from what was really fed, of its largest number."""
        return float(np.abs(self.parts.sum(0) - fed_ND).max() / np.abs(fed_ND).max())


@dataclass(frozen=True, eq=False)
class Trace(Frozen):
    """All that one sentence's pass wrote, in float64, from which any stream is put together.

    `embedded` are token and position [2, N, D] of each side. `norms` are in the order in which they
    ran, one a sub-layer; `last` is the one behind the stack, if there is one, and `ends` are what
    came out of the last layer and what the stack handed on, [N, D]. `logits_TV` are the pass's own.
    """

    norm_first: bool
    embedded: dict[Side, Floats]
    sites: dict[tuple[Kind, int], Site]
    norms: dict[Side, tuple[Norm, ...]]
    last: dict[Side, Norm | None]
    ends: dict[Side, tuple[Floats, Floats]]
    logits_TV: Floats

    def site(self, kind: Kind, layer: int) -> Site:
        """One attention. Raises ValueError for one that the network does not have."""
        if (kind, layer) not in self.sites:
            layers = sum(k == kind for k, _ in self.sites)
            raise ValueError(
                f"{kind} layer {layer} is not there: counted from 0, the layers end at {layers - 1}"
            )
        return self.sites[kind, layer]

    def queries(self, kind: Kind, layer: int, places: slice = slice(None)) -> Stream:
        """What an attention's queries are made from, at these places."""
        return self._stream("encoder" if kind == "encoder" else "decoder", places, (kind, layer))

    def keys(self, kind: Kind, layer: int) -> Stream:
        """What an attention's keys are made from: of cross-attention, what the encoder gives."""
        return self.final("encoder") if kind == "cross" else self.queries(kind, layer)

    def final(self, side: Side, places: slice = slice(None), by_key: bool = False) -> Stream:
        """What a stack hands on, behind its norm; `by_key` splits its heads by their keys."""
        return self._stream(side, places, by_key=by_key)

    def _stream(
        self,
        side: Side,
        places: slice,
        stop: tuple[Kind, int] | None = None,
        by_key: bool = False,
    ) -> Stream:
        first = Component("token"), Component("position")
        stream = Stream(first, self.embedded[side][:, places])
        for i, norm in enumerate(self.norms[side]):
            kind, layer = norm.kind, norm.layer
            if (kind, layer) == stop:
                return stream.through(norm.at(places)) if self.norm_first else stream
            if kind is None:
                added_ND = (self._after(side, i) - self._before(side, i))[None, places]
                stream = stream.plus([Component("feed-forward", side, layer)], added_ND)
            else:
                assert layer is not None  # only the norm behind the stack has none
                written = _attended(self.sites[kind, layer], kind, layer, places, by_key)
                stream = stream.plus(*written)
            if not self.norm_first:
                stream = stream.through(norm.at(places))
        last = self.last[side]
        return stream if last is None else stream.through(last.at(places))

    def _before(self, side: Side, i: int) -> Floats:
        """The stream [N, D] that sub-layer i is added to."""
        return self.norms[side][i].fed_ND if self.norm_first else self.norms[side][i - 1].gave_ND

    def _after(self, side: Side, i: int) -> Floats:
        """The stream [N, D] with what sub-layer i added to it."""
        norms = self.norms[side]
        if not self.norm_first:
            return norms[i].fed_ND
        return norms[i + 1].fed_ND if i + 1 < len(norms) else self.ends[side][0]


def values(site: Site) -> Floats:
    """v_k W_h^O: what each key gives to the output at a weight of 1, [H, K, D]."""
    v_HKE = heads_of(site.memory_KD @ site.to_value.T + site.value_bias, site.num_heads)
    return v_HKE @ heads_of(site.to_output, site.num_heads).swapaxes(1, 2)


def _attended(
    site: Site, kind: Kind, layer: int, places: slice, by_key: bool
) -> tuple[list[Component], Floats]:
    """What an attention adds to the stream at some places: its components and parts [C, N, D]."""
    weights_HNK, values_HKD = site.maps_HQK[:, places].astype(np.float64), values(site)
    components = [Component("head", kind, layer, h) for h in range(site.num_heads)]
    parts = weights_HNK @ values_HKD
    if by_key:
        keys = range(values_HKD.shape[1])
        components = [replace(head, key=key) for head in components for key in keys]
        split_HKND = weights_HNK.swapaxes(1, 2)[..., None] * values_HKD[:, :, None]
        parts = split_HKND.reshape(-1, *split_HKND.shape[2:])
    bias_1ND = np.broadcast_to(site.output_bias, (1, *parts.shape[1:]))
    return [*components, Component("output bias", kind, layer)], np.concatenate((parts, bias_1ND))
