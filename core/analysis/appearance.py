"""Find when heads take on a role in training, from the attention snapshots of a run.

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
"""The least mean weight on a role's keys; the explorer's captions use this limit too."""
MARGIN = 0.1
"""The weight must also exceed its value at step 0 and the value for uniform attention by this."""
ALIGNING_MARGIN = 0.2
"""An aligning head's share of one-to-one queries must exceed that of random keys by this much."""
AGREEMENT = 0.5
"""An aligning head: at least this share of queries has the same top key as in the last snapshot."""
NEXT = "next token"
"""A role that is measured on the maps, because snapshots hold only the roles in ROLES."""
ONE_TO_ONE = "one-to-one"
SETTLED = "as at the end"
ALIGNING = "aligning"


@dataclass(frozen=True, eq=False)
class Measure(Frozen):
    """One measure of each head at each point: `values` [P, L, H], 0 to 1.

    `chance` is the value expected if a head attends uniformly or, for measures of each query's
    top key, if that key is random. `chance` is None if no such value is known.
    `level` [L, H] is what a head with the role must reach, or None if no mark uses this measure.
    """

    name: str
    values: Doubles
    chance: float | None = None
    level: Doubles | None = None


@dataclass(frozen=True)
class Mark:
    """The first point from which a head keeps a role until the end of the run.

    `point` is an index into the snapshots' steps; layer and head are counted from 0. `last` is the
    role's measure at the last point. `diagonal` is set for aligning heads only. It is the share of
    queries whose largest weight, at the last point, is at most one token away from the diagonal.
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

    `maps` are one kind's weights per sentence, [L, H, Q, K]. For "itself", the first two decoder
    queries are skipped, unless there is no other: they have so few unmasked keys that every head
    would score high.
    """
    means = []
    for m in maps:
        if kind == "cross":
            means.append([roles.on_column(m, -1)])
        else:
            first = min(2, m.shape[-2] - 1) if kind == "decoder" else 0
            column = 0 if kind == "decoder" else -1
            shares = roles.on_previous(m), roles.on_itself(m, first), roles.on_column(m, column)
            means.append(list(shares))
    return np.mean(means, axis=0)


def uniform_shares(snapshots: AttentionSnapshots, kind: Kind) -> Floats:
    """Return each role's share if every query spreads its weight evenly over unmasked keys: [R]."""
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
    """Return the value of `next_shares` for queries that spread their weight evenly."""
    lengths = [len(sentence.source) for sentence in snapshots.sentences]
    return float(np.mean([1 / K if K > 1 else 0 for K in lengths]))


def _on_next(maps_PLHQK: Floats) -> Floats:
    return np.stack([roles.on_next(maps_LHQK) for maps_LHQK in maps_PLHQK])


def one_to_one(snapshots: AttentionSnapshots) -> Doubles:
    """Return the share of cross-attention queries that attend most to an unshared key: [P, L, H].

    A key is unshared if no other query of the sentence attends most to it. The share is over the
    queries of all sentences. A head that links each word to its translation scores high, whatever
    the word order. A head that attends to `<eos>` or spreads its attention evenly scores low.
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
    """Return the share of queries that attend most to the same key as in the last snapshot.

    Computed for cross-attention, over all sentences: [P, L, H]. It is 1 at the last point.
    """
    return np.concatenate([top == top[-1] for top in _tops(snapshots)], -1).mean(-1)


def near_diagonal(snapshots: AttentionSnapshots) -> Doubles:
    """Return the share of queries whose largest weight is at most one token off the diagonal.

    Computed for cross-attention at the last point: [L, H]. The diagonal of query q is at key
    q·(K−1)/(Q−1).
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
    """Return the measures of each kind: entropy, roles, and those computed from the maps.

    The latter are NEXT for the encoder, and `one_to_one` and `agreement` for cross-attention.
    Raises ValueError without sentences or points.
    """
    if not snapshots.sentences or not len(snapshots.steps):
        raise ValueError("the snapshots hold no sentences or no points: train again to record some")
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
    """Return the larger of chance and the value at step 0, [L, H]; chance if there is no step 0."""
    untrained = values[0] if snapshots.steps[0] == 0 else np.zeros(values.shape[1:])
    return np.maximum(chance, untrained)


def marks(snapshots: AttentionSnapshots) -> tuple[Mark, ...]:
    """Return a mark for each role that a head keeps, sorted by kind, role, point, layer and head.

    A head takes on a role of ROLES, or NEXT, at the first point from which its share stays at or
    above the measure's level until the end. For aligning heads, this must hold for both
    `one_to_one` and `agreement`. No manual alignment is involved: the mark says that a
    cross-attention head links tokens one to one, not that the links are right.
    """
    found = []
    for kind, of_kind in measures(snapshots).items():
        by_name = {measure.name: measure for measure in of_kind}
        for name in (*ROLES[kind], *((NEXT,) if kind == "encoder" else ())):
            found += marks_of(kind, name, by_name[name])
        if kind == "cross":
            diagonal = near_diagonal(snapshots)
            distinct, kept = by_name[ONE_TO_ONE], by_name[SETTLED]
            found += marks_of(kind, ALIGNING, distinct, _reached(kept), diagonal)
    return tuple(found)


def _reached(measure: Measure) -> Bools:
    assert measure.level is not None
    return measure.values >= measure.level


def marks_of(
    kind: Kind,
    role: str,
    measure: Measure,
    also: Bools | bool = True,
    diagonal: Doubles | None = None,
) -> list[Mark]:
    """Return a mark for each head that reaches the measure's level and keeps it to the end.

    `also` [P, L, H] is a further condition.
    """
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
    return sorted(found, key=lambda mark: mark.point)  # stable, so ties stay by layer and head
