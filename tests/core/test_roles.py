"""Head roles: planted heads are found, with the right shares."""

import numpy as np
import pytest

from core.analysis.roles import on_cells, on_column, on_itself, on_previous, positions, strongest
from core.record.record import RecordToken


def tokens(*pieces: str) -> list[RecordToken]:
    """Build tokens: `_x` continues a word, `<x>` is special."""
    return [
        RecordToken(5, p, p.lstrip("_"), not p.startswith("_"), p.startswith("<"), False)
        for p in pieces
    ]


def test_planted_heads_are_found():
    maps = np.full((2, 3, 5, 5), 0.2, np.float32)
    maps[1, 2] = 0.05
    for query in range(1, 5):
        maps[1, 2, query, query - 1] = 0.8
    found = strongest(on_previous(maps))
    assert (found.layer, found.head, found.share) == (1, 2, pytest.approx(0.8))
    maps[0, 0] = np.eye(5) * [0.1, 0.1, 0.6, 0.7, 0.8]
    found = strongest(on_itself(maps, 2))
    assert (found.layer, found.head, found.share) == (0, 0, pytest.approx(0.7))
    assert on_itself(maps)[0, 0] == pytest.approx(0.46)
    with pytest.raises(ValueError, match="first is 5, but the map has only 5 queries"):
        on_itself(maps, 5)
    maps[0, 1, :, 4] = [0.5, 0.6, 0.7, 0.8, 0.9]
    found = strongest(on_column(maps, 4))
    assert (found.layer, found.head, found.share) == (0, 1, pytest.approx(0.7))


def test_cells_sum_over_keys_and_average_over_queries():
    maps = np.zeros((1, 1, 3, 4), np.float32)
    maps[0, 0] = [[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0, 0, 1, 0]]
    assert on_cells(maps, [(0, [1, 2]), (2, [2])])[0, 0] == pytest.approx((0.5 + 1) / 2)
    with pytest.raises(ValueError, match="no cells given"):
        on_cells(maps, [])


def test_a_word_is_found_at_all_its_positions():
    sentence = tokens("Ein", "Stra", "_ßen", "_musiker", "_,", "_Ein", "Stra", "_.", "<eos>")
    assert positions(sentence, "Straßenmusiker") == [[1, 2, 3]]
    assert positions(sentence, "Ein") == [[0], [5]]
    assert positions(sentence, "Stra") == [[6]]
    assert positions(sentence, "<eos>") == [[8]]
    assert positions(sentence, "Hund") == []
