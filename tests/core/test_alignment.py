"""Word alignments: parsing, error rate, words from tokens, and scoring heads."""

import numpy as np
import pytest

from core.analysis.alignment import (
    AlignmentScore,
    Gold,
    align_sentence,
    by_word,
    links,
    read_gold,
    score,
)
from core.checkpoint.folder import load
from core.experiments.aligning import align, best
from core.record.capture import Captured
from core.text.line import tokens_and_words

PAIRS = [("Ein Hund läuft .", "A dog runs ."), ("Eine Frau liest .", "A woman reads .")]
GOLD = [Gold.parse("0-0 1-1 2-2 3-3"), Gold.parse("0-0 1?1 2-2 3p3")]


def test_gold_links_are_parsed():
    assert Gold.parse("0-1 2?3 4p5") == Gold(
        frozenset({(0, 1)}), frozenset({(0, 1), (2, 3), (4, 5)})
    )
    assert Gold.parse("1-2 3?4", one_based=True) == Gold.parse("0-1 2?3")
    assert Gold.parse("1-0 3?2", target_first=True) == Gold.parse("0-1 2?3")
    assert Gold.parse("") == Gold(frozenset(), frozenset())
    assert Gold.parse("0-1/S 2-3/P 4-5:0.9") == Gold(
        frozenset({(0, 1), (4, 5)}), frozenset({(0, 1), (2, 3), (4, 5)})
    )


@pytest.mark.parametrize("line", ["0-1 2", "a-b", "0--1", "-1-2"])
def test_malformed_links_are_rejected(line):
    with pytest.raises(ValueError, match="is not a link: write i-j"):
        Gold.parse(line)
    with pytest.raises(ValueError, match="counted from 1"):
        Gold.parse("0-1", one_based=True)


def test_aer_precision_and_recall():
    """Of 4 found links, 2 are sure and 3 possible; gold has 3 sure: 1 − (2 + 3) / (4 + 3)."""
    gold = Gold.parse("0-0 1-1 2-2 3?3 3?4")
    found = frozenset({(0, 0), (1, 1), (3, 3), (0, 4)})
    assert score([found], [gold]) == AlignmentScore(1 - 5 / 7, 3 / 4, 2 / 3)
    empty = frozenset()
    assert score([empty], [gold]) == AlignmentScore(1.0, 0.0, 0.0)
    both = score([found, frozenset({(0, 0)})], [gold, Gold.parse("0-0")])  # counts are summed
    assert both.aer == pytest.approx(1 - (3 + 4) / (5 + 4))
    with pytest.raises(ValueError, match="no link to score"):
        score([empty], [Gold.parse("")])


def test_word_maps_sum_keys_and_average_queries():
    map_QK = np.array([[0.1, 0.2, 0.7], [0.5, 0.1, 0.4], [0.3, 0.3, 0.4]])
    found = by_word(map_QK, [0, 0, 1], [0, 0, 1])
    assert np.allclose(found, [[0.45, 0.55], [0.6, 0.4]])
    assert links(found) == frozenset({(1, 0), (0, 1)})
    # Links are (source, target): target words 0 and 1 both attend most to source word 2.
    assert links(np.array([[0.1, 0.2, 0.7], [0.3, 0.1, 0.6]])) == frozenset({(2, 0), (2, 1)})


def test_the_two_readings_use_different_rows(checkpoint_folder, monkeypatch):
    """In the planted maps, head 0 is perfect when read as `input`, head 1 as `output`."""
    checkpoint = load(checkpoint_folder)
    words_s = tokens_and_words(checkpoint.source_tokenizer, PAIRS[0][0])[1]
    words_t = tokens_and_words(checkpoint.target_tokenizer, PAIRS[0][1])[1]

    original = Captured.of_kind

    def planted(captured, kind):
        for call in original(captured, kind):
            call.weights.zero_()
            for row in range(call.weights.shape[2]):
                for head, word in ((0, row - 1), (1, row)):
                    inside = 0 <= word < len(words_t)
                    key = words_s.index(words_t[word]) if inside else len(words_s)
                    call.weights[0, head, row, key] = 1
        return original(captured, kind)

    monkeypatch.setattr(Captured, "of_kind", planted)
    rows = {
        (r.reading, r.quantity, r.layer, r.head): r.score.aer
        for r in align(checkpoint, PAIRS[:1], GOLD[:1])
    }
    for layer in (0, 1):
        assert rows["input", "weights", layer, 0] == 0 == rows["output", "weights", layer, 1]
        assert rows["input", "weights", layer, 1] > 0.4 < rows["output", "weights", layer, 0]
        assert rows["input", "norms", layer, 0] == 0 == rows["output", "norms", layer, 1]


def test_links_of_one_sentence():
    """The target lacks <eos>, so its last row produces z, and no row is fed z.

    Source: a·b c <eos>. Target: x y·z. A dot joins the tokens of a word.
    """

    source, target = ((0, 1), (2,)), ((0,), (1, 2))
    map_QK = np.array([[0.3, 0.3, 0.4, 0.0], [0.1, 0.1, 0.6, 0.2], [0.0, 0.1, 0.0, 0.9]])
    map_LHQK = np.stack([np.zeros((2, 3, 4)), [np.zeros((3, 4)), map_QK]])
    found = align_sentence(map_LHQK, [(1, 1)], "output", source, target)
    assert (found.source, found.target) == (((0, 1), (2,)), ((0,), (1, 2)))
    assert found.values == pytest.approx({(0, 0): 0.6, (1, 1): 0.3})
    fed = align_sentence(map_LHQK, [(1, 1)], "input", source, target)
    assert fed.values == pytest.approx({(1, 0): 0.6, (0, 1): 0.1}), "of y·z, only y is fed"
    alone = ((0,), (1,), (2,))
    assert set(align_sentence(map_LHQK, [(1, 1)], "input", source, alone).values) == {
        (1, 0),
        (0, 1),
    }
    halved = align_sentence(map_LHQK, [(1, 1), (0, 0)], "output", source, target)
    assert halved.values == pytest.approx({(0, 0): 0.3, (1, 1): 0.15})
    assert align_sentence(map_LHQK, [(1, 1)], "input", source, ()).values == {}
    assert align_sentence(map_LHQK, [(1, 1)], "output", (), target).values == {}
    empty = align_sentence(map_LHQK, [(1, 1)], "output", ((0, 1), (), (2,)), ((), (0,), (1, 2)))
    assert empty.values == pytest.approx({(0, 1): 0.6, (2, 2): 0.6 / 2})


def test_rows_cover_layers_heads_and_means(checkpoint_folder):
    checkpoint = load(checkpoint_folder)
    counts = []
    rows = align(checkpoint, PAIRS, GOLD, on_progress=counts.append)
    L, H = 2, 2
    assert len(rows) == 2 * 2 * (L + 1) * (H + 1) and sum(counts) == 2
    assert best(rows).score.aer == min(row.score.aer for row in rows)


@pytest.mark.parametrize(
    ("pairs", "gold", "message"),
    [
        (PAIRS, GOLD[:1], "2 sentence pairs and 1 alignments"),
        (PAIRS, [GOLD[0], Gold.parse("4-0")], r"sentence 2: .* links word 4 to word 0"),
        ([("", "A dog .")], GOLD[:1], "sentence 1: a side is empty"),
        ([("Hund " * 300, "A dog .")], GOLD[:1], r"sentence 1: \d+ tokens .*: the limit is 256"),
    ],
)
def test_inconsistent_inputs_are_rejected(checkpoint_folder, pairs, gold, message):
    with pytest.raises(ValueError, match=message):
        align(load(checkpoint_folder), pairs, gold)


def test_naacl_files_are_parsed():
    lines = ["1 1 2 S", "", "1 3 1 P", "3 2 2"]
    first = Gold(frozenset({(0, 1)}), frozenset({(0, 1), (2, 0)}))
    third = Gold(frozenset({(1, 1)}), frozenset({(1, 1)}))
    assert read_gold(lines, 3) == [first, Gold.parse(""), third]
    turned = Gold(frozenset({(1, 0)}), frozenset({(1, 0), (0, 2)}))
    assert read_gold(lines, 3, target_first=True)[0] == turned
    assert read_gold(["", "1-2 3?4"], 2, one_based=True) == [Gold.parse(""), Gold.parse("0-1 2?3")]


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["1 1 1 S", "0-0"], "gold line 2: '0-0' is not in the format of line 1"),
        (["0-0", "1 1 1 S"], "gold line 2: '1' is not a link"),
        (["1 1 0 S"], "gold line 1: .* counted from 1"),
        (["4 1 1 S"], "gold line 1 refers to sentence 4, but there are only 3"),
    ],
)
def test_mixed_formats_are_rejected_with_the_line_number(lines, line):
    with pytest.raises(ValueError, match=line):
        read_gold(lines, 3, "gold")
