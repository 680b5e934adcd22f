"""The first cell to show: planted cells are found, uninformative ones are skipped."""

import dataclasses

import numpy as np
import pytest

from core.analysis.first_cell import first_cell, whole_words
from core.record.record import RecordToken

LAYERS, HEADS = 3, 2


def tokens(*texts: str) -> tuple[RecordToken, ...]:
    """Build tokens: `-x` continues a word, `<eos>` is special."""
    return tuple(
        RecordToken(
            id=10 + place,
            piece=text,
            text=text.removeprefix("-"),
            starts_word=not text.startswith("-"),
            special=text.startswith("<"),
            unknown=False,
        )
        for place, text in enumerate(texts)
    )


SOURCE = tokens("Ein", "Hemd", "ist", "blau", "-er", "Park", ".", "<eos>")
PRODUCED = tokens("Some", "shirt", "is", "blue", "-ish", "park", "blauer", "<eos>")


def maps(*planted: tuple[int, int, int, int, float]) -> np.ndarray:
    """Return uniform maps in which each planted (layer, head, query, key, weight) stands out."""
    shape = LAYERS, HEADS, len(PRODUCED), len(SOURCE)
    found = np.full(shape, 1 / len(SOURCE), dtype=np.float32)
    for layer, head, query, key, weight in planted:
        found[layer, head, query] = (1 - weight) / (len(SOURCE) - 1)
        found[layer, head, query, key] = weight
    return found


RANKED = {
    "a planted cell": ([(2, 1, 1, 1, 0.97)], (2, 1, 1, 1)),
    "a weight below the minimum": ([(0, 0, 1, 1, 0.7)], None),
    "the head with the largest weight": ([(0, 0, 1, 1, 0.93), (2, 0, 1, 1, 0.98)], (2, 0, 1, 1)),
    "a much larger mean beats a slightly larger weight": (
        [(0, 0, 1, 1, 0.93), (0, 1, 1, 1, 0.5), (1, 0, 0, 1, 0.99)], (0, 0, 1, 1)),
    "a larger weight beats a slightly larger mean": (
        [(0, 0, 1, 1, 0.91), (0, 1, 1, 1, 0.21), (1, 0, 0, 1, 0.99)], (1, 0, 0, 1)),
}  # fmt: skip


@pytest.mark.parametrize(("planted", "expected"), RANKED.values(), ids=RANKED)
def test_weight_and_mean_weight_decide(planted, expected):
    found = first_cell(maps(*planted), SOURCE, PRODUCED)
    assert (found and (found.layer, found.head, found.query, found.key)) == expected
    assert found is None or found.weight == pytest.approx(
        max(cell[4] for cell in planted if cell[:4] == expected)
    )


@pytest.mark.parametrize(
    ("why", "query", "key"),
    [
        ("a word on <eos>", 1, 7),
        ("<eos> on a word", 7, 1),
        ("a word on punctuation", 1, 6),
        ("a short word", 2, 1),
        ("a word on a short word", 1, 2),
        ("a word on the first part of another", 1, 3),
        ("the first part of a word on a word", 3, 1),
        ("a later part of a word on a word", 4, 1),
        ("a word on itself", 5, 5),
    ],
)
def test_uninformative_cells_are_skipped(why, query, key):
    nothing = first_cell(maps((0, 0, query, key, 0.99)), SOURCE, PRODUCED)
    assert nothing is None, why
    both = maps((0, 0, query, key, 0.99), (1, 1, 0, 1, 0.92))
    found = first_cell(both, SOURCE, PRODUCED)
    assert found is not None and (found.query, found.key) == (0, 1), why


def test_whole_words_are_known_words_of_one_token():
    row = tokens("Hemd", "-.", "Park", "-haus", "2024", "Łódź", "ende", "Dame", "<eos>", "Wort")
    changes = {5: {"unknown": True}, 6: {"special": True}, 8: {"starts_word": False}}
    row = tuple(dataclasses.replace(t, **changes.get(at, {})) for at, t in enumerate(row))
    assert [row[at].text for at in whole_words(row)] == ["Hemd", "Dame", "Wort"]


@pytest.mark.parametrize(("others", "key"), [(5, 5), (-1, None)], ids=["a word", "<eos>"])
def test_the_mean_over_heads_must_agree(others, key):
    """One head attends to a word, but the heads of the other layers attend elsewhere."""
    planted = maps((0, 0, 1, 1, 0.95))
    planted[1:, :, 1] = 0
    planted[1:, :, 1, others] = 1
    found = first_cell(planted, SOURCE, PRODUCED)
    assert (found and found.key) == key


def test_differently_spelled_words_come_first():
    alike = tokens("Some", "shirt", "is", "blue", "Parks", "park", "blauer", "<eos>")
    found = first_cell(maps((0, 0, 4, 5, 0.99), (1, 1, 1, 1, 0.93)), SOURCE, alike)
    assert (found.query, found.key) == (1, 1)
