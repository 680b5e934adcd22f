"""When in training heads take on a role: measures over a run's attention snapshots, and marks.

Axes: P points of the run, L layers, H heads, Q queries, K keys, R roles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.analysis import roles
from core.frozen import Bools, Doubles, Frozen
from core.kinds import KINDS, Kind
from core.record.attention_snapshots import ROLES, AttentionSnapshots, Floats

SHARE = 0.3
"""A role's weight from which a head can have it; the explorer's captions use the same limit."""
MARGIN = 0.1
"""A role's weight must also exceed that of step 0 and of uniform attention by this much."""
ALIGNING_MARGIN = 0.2
"""The share of one-to-one queries must exceed that of random keys by this much."""
AGREEMENT = 0.5
"""Share of queries whose largest weight is on the same key as in the last snapshot."""
NEXT = "next token"
"""Measured on the maps: snapshots do not hold it, as they hold the roles of ROLES."""
ONE_TO_ONE = "one-to-one"
SETTLED = "as at the end"
ALIGNING = "aligning"


@dataclass(frozen=True, eq=False)
class Measure(Frozen):
    """One measure of each head at each point: `values` [P, L, H], 0 to 1.

    `chance` is the value of a head without the role: of uniform weights, or for maxima of random
    keys; None if there is none to compare with. `level` [L, H] is what a head with the role must
    reach; None if no mark depends on this measure.
    """

    name: str
    values: Doubles
    chance: float | None = None
    level: Doubles | None = None


@dataclass(frozen=True)
class Mark:
    """The first point from which a head keeps a role until the end of the run.

    `point` is an index into the snapshots' steps; layer and head are counted from 0. `last` is the
    role's measure at the last point. `diagonal`, for aligning heads alone: the share of queries
    whose largest weight is then at most one token away from the diagonal.
    """

    kind: Kind
    role: str
    layer: int
    head: int
    point: int
    last: float
    diagonal: float | None = None


def role_shares(kind: Kind, maps: Sequence[Floats]) -> Floats:
    """Return the mean weight on the keys of each role in ROLES, over sentences: [R, L, H].

    `maps` are one kind's weights per sentence, [L, H, Q, K]. Decoder queries before the third are
    skipped for "itself": with so few unmasked keys every head would score high.
    """
    means = []
    for m in maps:
        if kind == "cross":
            means.append([roles.on_column(m, -1)])
        else:
            first = 2 if kind == "decoder" else 0
            column = 0 if kind == "decoder" else -1
            shares = roles.on_previous(m), roles.on_itself(m, first), roles.on_column(m, column)
            means.append(list(shares))
    return np.mean(means, axis=0)


def uniform_shares(snapshots: AttentionSnapshots, kind: Kind) -> Floats:
    """Return the share of each role if every query spreads its weight evenly: [R]."""
    maps = []
    for sentence in snapshots.sentences:
        unmasked = np.ones(sentence.map_sizes[kind])
        if kind == "decoder":
            unmasked = np.tril(unmasked)
        maps.append((unmasked / unmasked.sum(-1, keepdims=True))[None, None])
    return role_shares(kind, maps)[:, 0, 0]


def next_shares(snapshots: AttentionSnapshots) -> Doubles:
    """Return the mean weight of encoder queries on the next token, over sentences: [P, L, H]."""
    return np.mean([_on_next(m.astype(np.float64)) for m in snapshots.maps["encoder"]], axis=0)


def uniform_next(snapshots: AttentionSnapshots) -> float:
    """Return `next_shares` of queries that spread their weight evenly."""
    lengths = [len(sentence.source) for sentence in snapshots.sentences]
    return float(np.mean([1 / K if K > 1 else 0 for K in lengths]))


def _on_next(maps_PLHQK: Floats) -> Floats:
    return np.stack([roles.on_next(maps_LHQK) for maps_LHQK in maps_PLHQK])


def one_to_one(snapshots: AttentionSnapshots) -> Doubles:
    """Return the share of queries whose largest weight is on a key of their own: [P, L, H].

    In cross-attention, over all sentences: queries whose most attended source token is no other
    query's. A head that links each word to its translation scores high; one that looks at `<eos>`
    or spreads its attention evenly scores low, in any word order.
    """
    shares = []
    for top, m in zip(_tops(snapshots), snapshots.maps["cross"], strict=True):
        counts = (top[..., None, :] == np.arange(m.shape[-1])[:, None]).sum(-1)  # [P, L, H, K]
        shares.append(np.take_along_axis(counts, top, -1) == 1)
    return np.concatenate(shares, -1).mean(-1)


def random_one_to_one(snapshots: AttentionSnapshots) -> float:
    """Return the expected `one_to_one` of queries that each pick one key at random."""
    sizes = [sentence.map_sizes["cross"] for sentence in snapshots.sentences]
    return sum(Q * (1 - 1 / K) ** (Q - 1) for Q, K in sizes) / sum(Q for Q, _ in sizes)


def agreement(snapshots: AttentionSnapshots) -> Doubles:
    """Return the share of queries that look most at the same key as in the last snapshot.

    Over all sentences, in cross-attention: [P, L, H]; 1 at the last point.
    """
    return np.concatenate([top == top[-1] for top in _tops(snapshots)], -1).mean(-1)


def near_diagonal(snapshots: AttentionSnapshots) -> Doubles:
    """Return the share of queries whose largest weight is at most one token off the diagonal.

    At the last point, in cross-attention: [L, H]. The diagonal of query q is q·(K−1)/(Q−1).
    """
    near = []
    for top, m in zip(_tops(snapshots), snapshots.maps["cross"], strict=True):
        Q, K = m.shape[-2:]
        diagonal = np.arange(Q) * (K - 1) / max(1, Q - 1)
        near.append(np.abs(top[-1] - diagonal) <= 1)
    return np.concatenate(near, -1).mean(-1)


def _tops(snapshots: AttentionSnapshots) -> list[NDArray[np.intp]]:
    """Return the key with the largest weight of each cross-attention query, [P, L, H, Q]."""
    return [m.argmax(-1) for m in snapshots.maps["cross"]]


def measures(snapshots: AttentionSnapshots) -> dict[Kind, tuple[Measure, ...]]:
    """Return the measures of each kind: its entropy, its roles, and those that need the maps.

    The encoder has NEXT, cross-attention `one_to_one` and `agreement`. Raises ValueError
    without sentences or points.
    """
    if not snapshots.sentences or not len(snapshots.steps):
        raise ValueError("the snapshots hold no sentence or no point: train again to make some")
    found = {}
    for kind in KINDS:
        uniform = uniform_shares(snapshots, kind)
        shares = snapshots.roles[kind].astype(np.float64)  # [P, R, L, H]
        found[kind] = (
            Measure("entropy", snapshots.entropy[kind].astype(np.float64), 1.0),
            *(
                Measure(
                    name,
                    shares[:, r],
                    float(uniform[r]),
                    np.maximum(SHARE, _start(snapshots, shares[:, r], uniform[r]) + MARGIN),
                )
                for r, name in enumerate(ROLES[kind])
            ),
        )
    after, even = next_shares(snapshots), uniform_next(snapshots)
    needed = np.maximum(SHARE, _start(snapshots, after, even) + MARGIN)
    found["encoder"] += (Measure(NEXT, after, even, needed),)
    distinct, chance = one_to_one(snapshots), random_one_to_one(snapshots)
    level = np.maximum(chance + ALIGNING_MARGIN, _start(snapshots, distinct, chance) + MARGIN)
    kept = agreement(snapshots)
    found["cross"] += (
        Measure(ONE_TO_ONE, distinct, chance, level),
        Measure(SETTLED, kept, None, np.full(kept.shape[1:], AGREEMENT)),
    )
    return found


def _start(snapshots: AttentionSnapshots, values: Doubles, chance: float) -> Doubles:
    """Return the larger of chance and the value before training, [L, H]."""
    untrained = values[0] if snapshots.steps[0] == 0 else np.zeros(values.shape[1:])
    return np.maximum(chance, untrained)


def marks(snapshots: AttentionSnapshots) -> tuple[Mark, ...]:
    """Return where each head takes on a role for good, by kind, role, point, layer and head.

    A head has a role of ROLES, or NEXT, from the first point at which its share reaches the level
    of the measure and never falls below it again. A cross-attention head is aligning from the first
    point at which that holds for both `one_to_one` and `agreement`. This needs no manual alignment,
    so it says that a head links tokens one to one, not that the links are right.
    """
    found = []
    for kind, of_kind in measures(snapshots).items():
        by_name = {measure.name: measure for measure in of_kind}
        for name in (*ROLES[kind], *((NEXT,) if kind == "encoder" else ())):
            found += _marks_of(kind, name, by_name[name])
        if kind == "cross":
            diagonal = near_diagonal(snapshots)
            distinct, kept = by_name[ONE_TO_ONE], by_name[SETTLED]
            found += _marks_of(kind, ALIGNING, distinct, _reached(kept), diagonal)
    return tuple(found)


def _reached(measure: Measure) -> Bools:
    assert measure.level is not None
    return measure.values >= measure.level


def _marks_of(
    kind: Kind,
    role: str,
    measure: Measure,
    also: Bools | bool = True,
    diagonal: Doubles | None = None,
) -> list[Mark]:
    """Return the marks of one role; `also` [P, L, H] is a further condition."""
    holds = _reached(measure) & also
    lasting = np.logical_and.accumulate(holds[::-1])[::-1]  # from here to the end
    found = [
        Mark(
            kind,
            role,
            int(layer),
            int(head),
            int(lasting[:, layer, head].argmax()),
            float(measure.values[-1, layer, head]),
            None if diagonal is None else float(diagonal[layer, head]),
        )
        for layer, head in zip(*lasting[-1].nonzero(), strict=True)
    ]
    return sorted(found, key=lambda mark: mark.point)  # stable: then by layer and head
