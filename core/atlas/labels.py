"""Decide which roles a head may be labelled with: those whose score exceeds both nulls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.atlas.atlas import Atlas
from core.frozen import Doubles
from core.kinds import KINDS, Kind

MARGIN = 0.1
"""How far a score's lower bound must exceed both nulls, as a share of attention.

Nulls are estimates too: the highest score of three random networks is not the highest of all. Of 51
others of the shipped shapes (2,448 heads), the highest exceeded its nulls by 0.051 in any role, so
0.1 is twice what chance reached. Heads of much smaller networks differ more: of 180 networks of
width 16, one had a head with a label. Voita et al. 2019 (§5.2) likewise ask a head to exceed its
baseline by 10 points.
"""


@dataclass(frozen=True)
class Label:
    """A role that a head may be labelled with, and by how much its score exceeds its nulls."""

    role: str
    excess: float


def labels(atlas: Atlas) -> tuple[tuple[Label, ...], ...]:
    """Return each head's labels, in the order of axis N, and often none.

    The first exceeds its nulls most. A role is a label if the lower bound of its score exceeds both
    nulls by more than MARGIN; without an interval there is no label.
    """
    found: list[tuple[Label, ...]] = []
    for kind in KINDS:
        roles = atlas.roles[kind] if f"role_{kind}" in atlas.arrays else ()
        excesses = [excess_over_nulls(atlas, kind, o) for o in range(len(roles))]
        for head in range(atlas.layers[kind] * atlas.num_heads):
            of_head = [
                Label(role, float(excess_n3[head, 0]))
                for role, excess_n3 in zip(roles, excesses, strict=True)
                if excess_n3[head, 1] > MARGIN
            ]
            found.append(tuple(sorted(of_head, key=lambda label: -label.excess)))
    return tuple(found)


def excess_over_nulls(atlas: Atlas, kind: Kind, role: int) -> Doubles:
    """Return a role's score and its bounds, less the larger of the two nulls, per head: [n, 3]."""
    shuffled_n = atlas.arrays[f"role_{kind}_shuffled"][role].astype(np.float64)
    random = np.float64(atlas.arrays[f"role_{kind}_random"][role])
    return atlas.arrays[f"role_{kind}"][role] - np.maximum(shuffled_n, random)[:, None]
