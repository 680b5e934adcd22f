"""Two rows of synthetic maps: weights with their difference, and causally masked scores.

Neighbouring numbers differ, so that tests notice a wrong layer, head, map or axis.
"""

from __future__ import annotations

import numpy as np

from app.components.map_row.payload import Difference, Map, MapRow, Scale, sides
from core.record.record import RecordToken

LAYERS, HEADS = 2, 3
LIMITS = Scale("score", np.array([[6.0, 7.0, 8.0]]))  # [layer, head]
WORDS = ["in", "dem", "Haus", "<b>in</b>", "in", "$x$ & so", "a\u200bb", "<eos>"]


def tokens(count: int) -> list[RecordToken]:
    words = (WORDS * count)[:count]
    return [
        RecordToken(n, text, text, True, text == "<eos>", False) for n, text in enumerate(words)
    ]


def weights_row(count: int = 8) -> MapRow:
    random = np.random.default_rng(count)
    first, second = random.dirichlet(np.ones(count), (2, LAYERS, HEADS, count)).astype(np.float32)
    maps = [
        Map("As trained", "as trained", "untouched", first),
        Map("Edited", "edited", "the same words", second),
        Difference("Edited − as trained", "difference", 1, 0),
    ]
    both = sides(tokens(count), range(1, count + 1), "German")
    return MapRow("Encoder", range(LAYERS), *both, maps)


def scores_row(count: int = 8) -> MapRow:
    random = np.random.default_rng(7)
    one, two = random.uniform(-3, 3, (2, 1, HEADS, count, count))
    maps = [
        Map("Part", "part", "", one, LIMITS),
        Map("The score", "the score", "a sum", one + two, LIMITS),
    ]
    both = sides(tokens(count), range(count), "English")
    return MapRow("Decoder", [0], *both, maps, np.tri(count, dtype=bool))
