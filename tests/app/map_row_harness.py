"""Mounts two rows of synthetic maps: weights with their difference, and causally masked scores.

Neighbouring numbers differ, so that tests notice a wrong layer, head, map or axis.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from app.components.map_row.payload import Difference, Map, MapRow, Scale, sides
from core.record.record import RecordToken

LAYERS, HEADS = 2, 3
LIMITS = Scale("score", np.array([[6.0, 7.0, 8.0]]))  # [layer, head]
WORDS = ["in", "dem", "Haus", "<b>in</b>", "in", "$x$ & so", "a\u200bb", "<eos>"]


def tokens(count: int) -> list[RecordToken]:
    return [
        RecordToken(
            id=place,
            piece=text,
            text=text,
            starts_word=True,
            special=text == "<eos>",
            unknown=False,
        )
        for place, text in enumerate((WORDS * count)[:count])
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


def main() -> None:
    import streamlit as st

    from app.components.map_row import map_row

    st.set_page_config(page_title="Map row harness", layout="wide")
    count = int(st.query_params.get("tokens", 8))
    map_row(weights_row(count), key="weights")
    map_row(scores_row(count), key="scores")


if __name__ == "__main__":
    main()
