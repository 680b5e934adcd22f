"""Heads as word aligners over a corpus: error, nulls, intervals and the best set of heads."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from core.analysis.alignment import Gold
from core.atlas.aligners import (
    CHOSEN_ON,
    COMBINATIONS,
    HeadLinks,
    aligner_arrays,
    best_heads,
    check_gold,
    diagonal,
)
from core.atlas.corpus import corpus
from core.atlas.shards import in_process
from core.atlas.sums import Sums
from core.checkpoint.folder import load
from core.experiments.aligning import align
from tests.generated_language import ENTRIES, language, plant

SIZE = 2, 2  # layers and heads of the planted networks


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A network in which head 1 of layer 2 aligns all words."""
    folder = tmp_path_factory.mktemp("planted") / "one-xx-yy"
    plant(folder, {(1, 0): range(ENTRIES)})
    return load(folder)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A network with two aligning heads in different layers, each for half of the words."""
    folder = tmp_path_factory.mktemp("planted") / "two-xx-yy"
    plant(folder, {(0, 1): range(0, ENTRIES, 2), (1, 0): range(1, ENTRIES, 2)})
    return load(folder)


@pytest.fixture(scope="module")
def text():
    """Pairs and their alignments; every third link is only possible."""
    drawn = language().pairs(30)
    gold = [
        Gold.of((i, j, n % 3 > 0) for n, (i, j) in enumerate(sorted(g.possible))) for _, g in drawn
    ]
    return [pair for pair, _ in drawn], gold


def total(checkpoint, pairs, gold, size=25) -> Sums:
    sentences = corpus(checkpoint, pairs, gold).sentences
    chunks = [sentences[start : start + size] for start in range(0, len(sentences), size)]
    return Sums.total(HeadLinks()(checkpoint, chunk) for chunk in chunks)


def find(checkpoint, pairs, gold, **options):
    text = corpus(checkpoint, pairs, gold)
    return best_heads(in_process(checkpoint), checkpoint.card.folder, text, SIZE, **options)


def error(links: list[set], gold: list[Gold], weights=None) -> float:
    """Return the AER by its definition; weights say how often each sentence counts."""
    weights = np.ones(len(gold)) if weights is None else weights
    rows = zip(weights, links, gold, strict=True)
    parts = [
        (w * (len(a & g.sure) + len(a & g.possible)), w * (len(a) + len(g.sure)))
        for w, a, g in rows
    ]
    found, all_links = map(sum, zip(*parts, strict=True))
    return 1 - found / all_links


def draws(index: int) -> np.ndarray:
    """Return how often a sentence counts in each of 1000 bootstrap replicates."""
    return np.random.default_rng((48, index)).poisson(1.0, 1000)


def test_a_planted_head_has_no_error_in_one_reading_only(planted):
    drawn = language().pairs(30)
    pairs, gold = [pair for pair, _ in drawn], [right for _, right in drawn]
    tokens = [len(planted.source_tokenizer.encode(word)) for word in pairs[0][0].split()]
    assert max(tokens) > 1, "words of several tokens"
    aer = aligner_arrays(total(planted, pairs, gold))["aer"][..., 0]
    for quantity in (0, 1):
        assert aer[1, quantity, 1, 0] == 0
        assert aer[0, quantity, 1, 0] > 0.5
        assert aer[:, quantity, 0].min() > 0.5 and aer[:, quantity, 1, 1].min() > 0.5


def test_error_precision_and_recall_are_those_of_each_head(planted, text):
    pairs, gold = text
    found = aligner_arrays(total(planted, pairs, gold))
    assert {name: array.shape for name, array in found.items()} == {
        "aer": (2, 2, 3, 3, 3),
        "precision": (2, 2, 3, 3),
        "recall": (2, 2, 3, 3),
        "aer_diagonal": (3,),
        "aer_random": (3,),
    }
    rows = align(planted, pairs, gold)
    random = []
    for row in rows:
        at = (
            ("output", "input").index(row.reading),
            ("weights", "norms").index(row.quantity),
            2 if row.layer is None else row.layer,
            2 if row.head is None else row.head,
        )
        assert found["aer"][at][0] == pytest.approx(row.score.aer)
        assert found["precision"][at] == pytest.approx(row.score.precision)
        assert found["recall"][at] == pytest.approx(row.score.recall)
        random += [row.score.aer] if None not in (row.layer, row.head) else []
    assert len(random) == 16 and found["aer_random"][0] == pytest.approx(np.mean(random))
    assert found["aer_random"][1] < found["aer_random"][0] < found["aer_random"][2]


def test_intervals_resample_sentences(planted, text):
    """The monotone diagonal needs no network, so its interval is computed here from its links."""
    pairs, gold = text
    links = []
    for source, target in pairs:
        S, T = len(source.split()), len(target.split())
        steps = [t * (S - 1) / (T - 1) if T > 1 else 0 for t in range(T)]
        links.append({(int(np.floor(at + 0.5)), t) for t, at in enumerate(steps)})
    weights_BR = np.array([draws(index) for index in range(len(pairs))])
    resampled = [error(links, gold, weights_B) for weights_B in weights_BR.T]
    expected = error(links, gold), *np.quantile(resampled, (0.025, 0.975))
    assert aligner_arrays(total(planted, pairs, gold))["aer_diagonal"] == pytest.approx(expected)
    assert diagonal(5, 3).tolist() == [0, 1, 1, 2, 2]
    assert diagonal(3, 5).tolist() == [0, 2, 4] and diagonal(1, 7).tolist() == [0]


def test_sentences_without_gold_do_not_count(planted, text):
    pairs, gold = text
    sentences = corpus(planted, pairs, gold).sentences
    some = [s if s.index < 9 else dataclasses.replace(s, gold=None) for s in sentences]
    found = aligner_arrays(HeadLinks()(planted, tuple(some)))
    assert (
        found["aer"].tolist() == aligner_arrays(total(planted, pairs[:9], gold[:9]))["aer"].tolist()
    )
    with pytest.raises(ValueError, match="no sentence has a sure gold link"):
        aligner_arrays(HeadLinks()(planted, tuple(some[9:])))


def test_the_best_set_is_what_was_planted(planted, shared):
    drawn = language().pairs(40)
    pairs, gold = [pair for pair, _ in drawn], [right for _, right in drawn]
    one = find(planted, pairs, gold)
    assert (one.heads, one.reading, one.quantity) == (((1, 0),), "input", "weights")
    assert (one.aer, one.low, one.high) == (0, 0, 0)
    two = find(shared, pairs, gold, combinations=COMBINATIONS)
    assert set(two.heads) == {(0, 1), (1, 0)} and two.reading == "input" and two.aer == 0
    within = find(shared, pairs, gold, one_layer=True)
    assert len({layer for layer, _ in within.heads}) == 1 and within.aer > 0.1


def test_one_half_chooses_and_the_other_half_scores(planted):
    """In the scoring half, the gold is shifted by one word, so the planted head errs there."""
    drawn = language().pairs(40)
    pairs, gold = [pair for pair, _ in drawn], [right for _, right in drawn]
    shifted = [
        right
        if n % 2 == CHOSEN_ON
        else Gold.of((max(0, i - 1), j, True) for i, j in sorted(right.sure))
        for n, right in enumerate(gold)
    ]
    links = [set(right.sure) for right in gold[1::2]]  # the planted head finds the true links
    found = find(planted, pairs, shifted)
    assert found.heads == ((1, 0),)
    assert found.aer == pytest.approx(error(links, shifted[1::2])) and found.aer > 0.5
    resampled = [
        error(links, shifted[1::2], weights)
        for weights in np.array([draws(index) for index in range(1, 40, 2)]).T
    ]
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(resampled, (0.025, 0.975))))


def test_too_few_sentences_cannot_choose_and_score(planted, text):
    """One of three sentences scores, too few for an interval; empty gold does not count."""
    pairs, gold = text
    assert find(planted, pairs[:3], gold[:3]) is None
    assert find(planted, pairs[:4], [*gold[:3], Gold.parse("")]) is None
    four = find(planted, pairs[:4], gold[:4])
    assert four is not None and four.heads == ((1, 0),) and four.low <= four.aer <= four.high
    bounds = aligner_arrays(total(planted, pairs[:1], gold[:1]))["aer"][..., 1:]
    assert np.isnan(bounds).all(), "one sentence says nothing about others"


def test_gold_that_does_not_fit_is_named(planted, text):
    pairs, gold = text
    wrong = [*gold[:4], Gold.parse("70-0"), *gold[5:]]
    with pytest.raises(ValueError, match="sentence 5: its alignment links word 70 to word 0"):
        check_gold(planted, corpus(planted, pairs, wrong))
    check_gold(planted, corpus(planted, pairs, gold))
    with pytest.raises(ValueError, match="the gold alignments have no sure link"):
        check_gold(planted, corpus(planted, pairs, [Gold.parse("0?0")] * len(pairs)))
