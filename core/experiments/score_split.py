"""Decompose one attention score over the components that wrote its query and its key.

Axes: C component, Q query, K key, N position, D d_model, E size of one head.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from core.analysis.inside_head import heads_of
from core.analysis.residual_stream import Component, Stream, Trace, What, check_index
from core.experiments.experiment import model_inputs, of_pass
from core.experiments.site import double
from core.experiments.tracing import traces
from core.frozen import Doubles, Frozen
from core.kinds import Kind
from core.model.interface import Seq2Seq
from core.record.capture import before_attention
from core.record.editing import edited
from core.record.edits import Edits

End = Literal["query", "key"]
ENDS: tuple[End, ...] = ("query", "key")


@dataclass(frozen=True)
class Move:
    """The change in a cell's score, and in its weight after the softmax."""

    score: float
    weight: float


@dataclass(frozen=True)
class Removal:
    """The change in a cell when one component is removed from its query, or from the row's keys.

    `predicted` keeps the norm's actual scale. For `true`, the component is removed from this
    attention's input and the norm is recomputed. `whole` is the change when a head is ablated in
    the whole pass, at every position and with all downstream effects; None if the component is not
    a head.
    """

    end: End
    component: Component
    predicted: Move
    true: Move
    whole: Move | None


@dataclass(frozen=True, eq=False)
class ScoreSplit(Frozen):
    """One cell's score q·k/√d_k before masking, as terms [query component, key component].

    `score` is recomputed from the attention's input; it is the sum of all terms and of `distance`,
    the bias by distance, which is 0 in most networks. `weight` is the weight in the pass. Norms are
    linearised at their actual scale (core.analysis.residual_stream). The last components are the
    biases of the two projections.
    """

    kind: Kind
    layer: int
    head: int
    query: int
    key: int
    query_components: tuple[Component, ...]
    key_components: tuple[Component, ...]
    terms: Doubles
    score: float
    weight: float
    distance: float = 0.0
    removals: tuple[Removal, ...] = ()

    def components(self, end: End) -> tuple[Component, ...]:
        return self.query_components if end == "query" else self.key_components

    def by_component(self, end: End) -> Doubles:
        """Return each query (or key) component's sum of terms: [C], without `distance`."""
        return self.terms.sum(1 if end == "query" else 0)

    def largest(self, count: int) -> list[tuple[Component, Component, float]]:
        """Return the largest terms by magnitude: query component, key component, term."""
        order = np.argsort(-np.abs(self.terms), axis=None, kind="stable")[:count]
        cells = zip(*np.unravel_index(order, self.terms.shape), strict=True)
        return [
            (self.query_components[q], self.key_components[k], float(self.terms[q, k]))
            for q, k in cells
        ]

    def by_group(self) -> tuple[list[str], list[str], Doubles]:
        """Sum the terms by component group.

        Return the names of the query's groups, those of the key's groups, and the sums
        [query group, key group].
        """
        queries, keys = ([c.group for c in self.components(end)] for end in ENDS)
        rows, columns = list(dict.fromkeys(queries)), list(dict.fromkeys(keys))
        sums = np.zeros((len(rows), len(columns)))
        at = np.ix_([rows.index(name) for name in queries], [columns.index(name) for name in keys])
        np.add.at(sums, at, self.terms)
        return rows, columns, sums

    @property
    def largest_error(self) -> float:
        """The deviation of the sum of the terms from the score."""
        return abs(float(self.terms.sum()) + self.distance - self.score)


@of_pass
@torch.inference_mode()
def score_split(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    kind: Kind,
    layer: int,
    head: int,
    query: int,
    key: int,
    removals: int = 6,
) -> ScoreSplit:
    """Decompose the score of one cell, and remove its largest components one at a time.

    Positions, layers and heads are counted from 0; a decoder row has the position of the token fed
    in. Call it with (translator, record, …), or with (model, source, target, …) and ids that end
    with <eos>, holding the model's lock. Raises a one-line ValueError for a cell out of range.
    """
    row = _Row(traces(model, [source], [target])[0], kind, layer, head, query)
    check_index("key", key, len(row.scores_K))
    q_CE, k_CE = row.parts["query"][:, 0], row.parts["key"][:, key]
    split = ScoreSplit(
        kind=kind,
        layer=layer,
        head=head,
        query=query,
        key=key,
        query_components=row.components("query"),
        key_components=row.components("key"),
        terms=q_CE @ k_CE.T / row.divisor,
        distance=float(row.distance_K[key]),
        score=float(row.scores_K[key]),
        weight=row.recorded[key],
    )
    ends = [(end, c) for end in ENDS for c in range(len(row.components(end)))]
    sizes = np.concatenate([np.abs(split.by_component(end)) for end in ENDS])
    largest = [ends[i] for i in np.argsort(-sizes, kind="stable")[:removals]]
    chosen = [(end, c, row.components(end)[c]) for end, c in largest]
    heads = list(dict.fromkeys(x for _, _, x in chosen if x.head is not None))
    whole = dict(zip(heads, _ablated(model, source, target, heads, row), strict=True))
    made = []
    for end, c, component in chosen:
        off = row.move(whole[component], key) if component in whole else None
        held, recomputed = row.without(end, c)
        made.append(Removal(end, component, row.move(held, key), row.move(recomputed, key), off))
    return replace(split, removals=tuple(made))


def _ablated(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    heads: Sequence[Component],
    row: "_Row",
) -> list[Doubles]:
    """Return a row's scores [K] for each of `heads`, with that head ablated in the whole pass."""
    source_1S, target_in_1T = model_inputs(model, source, target)
    (site,) = [s for s in model.attention_sites() if (s.kind, s.layer) == (row.kind, row.layer)]
    unedited = model.encode(source_1S)
    fed: list[tuple[Tensor, Tensor]] = []
    with before_attention([site], lambda site, call: fed.append(call.args[:2])):
        for head in heads:
            with edited(model, Edits(heads_off=frozenset({head.place}))):
                memory = model.encode(source_1S) if head.kind == "encoder" else unedited
                if row.kind != "encoder":
                    model.decode(target_in_1T, *memory)
    return [row.scores(double(query[0]), double(memory[0])) for query, memory in fed]


class _Row:
    """One query of one head: its scores over all keys [K]; query and key parts, each [C, N, E]."""

    def __init__(self, trace: Trace, kind: Kind, layer: int, head: int, query: int) -> None:
        site = trace.site(kind, layer)
        H, Q, _ = site.maps_HQK.shape
        check_index("head", head, H)
        check_index("query", query, Q)
        self.kind, self.layer, self._query = kind, layer, query
        self.recorded = site.maps_HQK[head, query].tolist()
        self._open_K = site.mask_QK[query]
        self.divisor = site.divisor
        bias_HQK = site.bias_HQK
        self.distance_K = np.zeros(len(self._open_K)) if bias_HQK is None else bias_HQK[head, query]
        self._streams: dict[End, Stream] = {
            "query": trace.queries(kind, layer, slice(query, query + 1)),
            "key": trace.keys(kind, layer),
        }
        self._to: dict[End, tuple[Doubles, Doubles]] = {
            "query": _head(site.to_query, site.query_bias, H, head),
            "key": _head(site.to_key, site.key_bias, H, head),
        }
        self._fed = self._projected(site.inputs_QD, site.memory_KD)
        self.parts = {end: self._split(end) for end in ENDS}
        self.scores_K = self._scores(self._fed)
        self.weights_K = self._weights(self.scores_K)

    def components(self, end: End) -> tuple[Component, ...]:
        what: What = "query bias" if end == "query" else "key bias"
        return (*self._streams[end].components, Component(what, self.kind, self.layer))

    def without(self, end: End, component: int) -> tuple[Doubles, Doubles]:
        """Return the scores without one component: with the norm's scale kept, and recomputed."""
        held = recomputed = self._fed[end] - self.parts[end][component]
        if component < len(self._streams[end].components):
            recomputed = self._project(end, self._streams[end].without(component))
        return self._scores(self._fed | {end: held}), self._scores(self._fed | {end: recomputed})

    def move(self, scores_K: Doubles, key: int) -> Move:
        """Return the change at one key from the row's own scores to `scores_K`."""
        score, weight = (
            float(after[key] - before[key])
            for after, before in (
                (scores_K, self.scores_K),
                (self._weights(scores_K), self.weights_K),
            )
        )
        return Move(score, weight)

    def scores(self, inputs_QD: Doubles, memory_KD: Doubles) -> Doubles:
        """Return the query's scores [K] for other inputs of the attention."""
        return self._scores(self._projected(inputs_QD, memory_KD))

    def _scores(self, ends: dict[End, Doubles]) -> Doubles:
        (q_E,), k_KE = ends["query"], ends["key"]
        return k_KE @ q_E / self.divisor + self.distance_K

    def _projected(self, inputs_QD: Doubles, memory_KD: Doubles) -> dict[End, Doubles]:
        q_1E = self._project("query", inputs_QD[self._query : self._query + 1])
        return {"query": q_1E, "key": self._project("key", memory_KD)}

    def _project(self, end: End, x_ND: Doubles) -> Doubles:
        weight_DE, bias_E = self._to[end]
        return x_ND @ weight_DE + bias_E

    def _split(self, end: End) -> Doubles:
        """Project each component; the last part is the bias: [C, N, E]."""
        weight_DE, bias_E = self._to[end]
        parts = self._streams[end].parts @ weight_DE
        return np.concatenate((parts, np.broadcast_to(bias_E, (1, *parts.shape[1:]))))

    def _weights(self, scores_K: Doubles) -> Doubles:
        open_K = np.where(self._open_K, scores_K, -np.inf)
        shares = np.exp(open_K - open_K.max())
        return shares / shares.sum()


def _head(weight: Doubles, bias: Doubles, num_heads: int, head: int) -> tuple[Doubles, Doubles]:
    """Return one head's slice of a projection: W [D, E] and b [E]."""
    return heads_of(weight.T, num_heads)[head], heads_of(bias, num_heads)[head]
