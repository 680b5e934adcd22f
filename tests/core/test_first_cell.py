"""The cell that tells most: a planted one is found, and what tells nothing is left out."""

import dataclasses

import numpy as np
import pytest

from core.analysis.first_cell import first_cell, whole_words
from core.record.record import RecordToken

LAYERS, HEADS = 3, 2


def tokens(*texts: str) -> tuple[RecordToken, ...]:
    """Read words; `-x` continues the word before it, `<eos>` is special."""
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


def maps(**planted: tuple[int, int, int, int, float]) -> np.ndarray:
    """Even maps, in which each planted (layer, head, query, key, weight) is the row's largest."""
    shape = LAYERS, HEADS, len(PRODUCED), len(SOURCE)
    found = np.full(shape, 1 / len(SOURCE), dtype=np.float32)
    for layer, head, query, key, weight in planted.values():
        found[layer, head, query] = (1 - weight) / (len(SOURCE) - 1)
        found[layer, head, query, key] = weight
    return found


def test_the_planted_word_and_its_head_are_found():
    found = first_cell(maps(shirt=(2, 1, 1, 1, 0.97)), SOURCE, PRODUCED)
    assert (found.layer, found.head, found.query, found.key) == (2, 1, 1, 1)
    assert found.weight == pytest.approx(0.97)


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
def test_what_tells_nothing_is_left_out(why, query, key):
    nothing = first_cell(maps(only=(0, 0, query, key, 0.99)), SOURCE, PRODUCED)
    assert nothing is None, why
    both = maps(more=(0, 0, query, key, 0.99), less=(1, 1, 0, 1, 0.92))
    found = first_cell(both, SOURCE, PRODUCED)
    assert found is not None and (found.query, found.key) == (0, 1), why


def test_whole_words_are_words_by_themselves():
    row = tokens("Hemd", "-.", "Park", "-haus", "2024", "Łódź", "ende", "Dame", "<eos>", "Wort")
    changes = {5: {"unknown": True}, 6: {"special": True}, 8: {"starts_word": False}}
    row = tuple(dataclasses.replace(t, **changes.get(at, {})) for at, t in enumerate(row))
    assert [row[at].text for at in whole_words(row)] == ["Hemd", "Dame", "Wort"]


def test_a_row_that_is_not_sharp_is_left_out():
    assert first_cell(maps(soft=(0, 0, 1, 1, 0.7)), SOURCE, PRODUCED) is None


def test_a_head_against_all_others_is_left_out():
    one_against_five = maps(one=(0, 0, 1, 1, 0.95))
    one_against_five[1:, :, 1] = 0
    one_against_five[1:, :, 1, 5] = 1
    found = first_cell(one_against_five, SOURCE, PRODUCED)
    assert found is not None and found.key == 5


def test_a_head_against_others_that_tell_nothing_is_left_out():
    one_against_five = maps(one=(0, 0, 1, 1, 0.95))
    one_against_five[1:, :, 1] = 0
    one_against_five[1:, :, 1, -1] = 1  # <eos>
    assert first_cell(one_against_five, SOURCE, PRODUCED) is None


@pytest.mark.parametrize(
    ("shirt", "more", "some", "query"),
    [
        (0.93, 0.5, 0.99, 1),  # the larger mean outdoes a little more weight in one head
        (0.91, 0.21, 0.99, 0),  # and much more weight a mean that is a little larger
    ],
)
def test_weight_and_mean_weight_count_both(shirt, more, some, query):
    found = first_cell(
        maps(a=(0, 0, 1, 1, shirt), b=(0, 1, 1, 1, more), c=(1, 0, 0, 1, some)), SOURCE, PRODUCED
    )
    assert (found.query, found.key) == (query, 1)


def test_of_two_words_the_one_that_is_spelled_differently_comes_first():
    alike = tokens("Some", "shirt", "is", "blue", "Parks", "park", "blauer", "<eos>")
    found = first_cell(maps(alike=(0, 0, 4, 5, 0.99), other=(1, 1, 1, 1, 0.93)), SOURCE, alike)
    assert (found.query, found.key) == (1, 1)


def test_the_head_with_most_weight_says_it():
    found = first_cell(maps(a=(0, 0, 1, 1, 0.93), b=(2, 0, 1, 1, 0.98)), SOURCE, PRODUCED)
    assert (found.layer, found.head) == (2, 0)
