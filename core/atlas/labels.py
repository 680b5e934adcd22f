"""Decide which roles a head may be labelled with: roles whose score exceeds all nulls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.atlas.atlas import Atlas
from core.frozen import Doubles
from core.kinds import KINDS, Kind

MARGIN = 0.1
"""How far a score's lower bound must exceed each null, as a share of attention.

One null is the highest score of any head in three random networks; other random networks may score
higher. In 51 further random networks of the shipped sizes (2,448 heads), no head exceeded its nulls
by more than 0.051 in any role, so 0.1 is about twice what chance reached. Heads of much smaller
networks differ more: of 180 random networks of width 16, one had a head with a label. Voita et al.
2019 (§5.2) also require a head to exceed its baseline by 10 points.
"""

FLOOR = 0.3
"""The share of attention that a score's lower bound must reach, by convention."""

ROWS = 0.1
"""The least share of rows in which a role must be measured: a label describes a head in general."""


@dataclass(frozen=True)
class Label:
    """A role that a head may be labelled with, and by how much its score exceeds its nulls."""

    role: str
    excess: float


def labels(atlas: Atlas) -> tuple[tuple[Label, ...], ...]:
    """Return each head's labels (often none), with the heads in the order of axis N.

    Labels are sorted by excess over the nulls; the first is shown as the head's role. A role is a
    label if it is measured in at least ROWS of all rows and the lower bound of its score both
    reaches FLOOR and exceeds every null by more than MARGIN. A score without an interval therefore
    gives no label.
    """
    found: list[tuple[Label, ...]] = []
    for kind in KINDS:
        roles = atlas.roles[kind] if f"role_{kind}" in atlas.arrays else ()
        excesses = [excess_over_nulls(atlas, kind, o) for o in range(len(roles))]
        for head in range(atlas.layers[kind] * atlas.num_heads):
            of_head = [
                Label(role, float(excess_n3[head, 0]))
                for o, (role, excess_n3) in enumerate(zip(roles, excesses, strict=True))
                if excess_n3[head, 1] > MARGIN
                and atlas.arrays[f"role_{kind}"][o, head, 1] >= FLOOR
                and atlas.arrays[f"role_{kind}_rows"][o] >= ROWS
            ]
            found.append(tuple(sorted(of_head, key=lambda label: -label.excess)))
    return tuple(found)


def excess_over_nulls(atlas: Atlas, kind: Kind, role: int) -> Doubles:
    """Return each head's score in a role and its bounds, minus the largest null: [n, 3].

    The nulls are the score of shuffled rows, the highest score in random networks and, unless the
    role is positional, the score of the head's distance profile.
    """
    random = np.float64(atlas.arrays[f"role_{kind}_random"][role])
    shuffled_n, profile_n = (
        atlas.arrays[f"role_{kind}_{null}"][role].astype(np.float64)
        for null in ("shuffled", "profile")
    )
    nulls_n = np.fmax(np.maximum(shuffled_n, random), profile_n)
    return atlas.arrays[f"role_{kind}"][role] - nulls_n[:, None]
