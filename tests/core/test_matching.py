"""Planted head permutations and largest differences are found; bad input is rejected."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from core.analysis.difference import KINDS, SAME, differences, largest_difference
from core.analysis.matching import Matching, match_heads
from core.record.record import TranslationRecord
from core.translator import Translator
from tests.small import refused

LAYERS, HEADS = 3, 4
SHAPES = ((5, 5), (7, 7), (3, 3))


def corpus(seed: int, shapes: tuple[tuple[int, int], ...] = SHAPES) -> list[np.ndarray]:
    """Return random maps [L, H, Q, K], one per sentence; each head has its own preferred keys."""
    rng = np.random.default_rng(seed)
    preference = rng.normal(size=(LAYERS, HEADS, 1, 16))
    found = []
    for q, k in shapes:
        scores = 2 * preference[..., :k] + rng.normal(size=(LAYERS, HEADS, q, k))
        weights = np.exp(scores)
        found.append((weights / weights.sum(-1, keepdims=True)).astype(np.float32))
    return found


def shuffled(maps: list[np.ndarray], order: np.ndarray) -> list[np.ndarray]:
    """Permute the heads, also across layers."""
    return [m.reshape(-1, *m.shape[2:])[order].reshape(m.shape) for m in maps]


@pytest.mark.parametrize("seed", range(10))
def test_planted_permutations_are_recovered(seed):
    maps = corpus(seed)
    order = np.random.default_rng(100 + seed).permutation(LAYERS * HEADS)
    matching = match_heads(maps, shuffled(maps, order))
    assert list(matching.partner) == np.argsort(order).tolist()
    assert matching.matched == pytest.approx(np.ones(LAYERS * HEADS), abs=1e-6)
    for original, other in zip(maps, shuffled(maps, order), strict=True):
        assert np.array_equal(matching.reordered(other), original)
    layer, head = matching.of(2, 1)
    assert order[layer * HEADS + head] == 2 * HEADS + 1


def test_similarity_is_the_share_of_attention_in_common():
    first = np.array([[[[1, 0], [0.5, 0.5]], [[0, 1], [0, 1]]]], np.float32)
    second = np.array([[[[0.25, 0.75], [0.5, 0.5]], [[1, 0], [1, 0]]]], np.float32)
    matching = match_heads([first], [second])
    assert matching.similarity == pytest.approx(
        np.array([[(0.25 + 1) / 2, (1 + 0.5) / 2], [(0.75 + 0.5) / 2, 0]])
    )
    assert matching.partner == (1, 0) and matching.kept == 0


def test_two_matched_heads_cannot_share_a_partner():
    """A greedy choice would give both heads the same partner."""
    same = np.array([[[[1, 0]], [[0.9, 0.1]]]], np.float32)
    other = np.array([[[[1, 0]], [[0, 1]]]], np.float32)
    assert sorted(match_heads([same], [other]).partner) == [0, 1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (corpus(0), corpus(0)[:2]),
        ([], []),
        (corpus(0), [m[:, :2] for m in corpus(0)]),
        (corpus(0), [m[:2] for m in corpus(0)]),
        (corpus(0), corpus(0, ((5, 5), (7, 7), (3, 4)))),
        ([corpus(0)[0], corpus(0)[1][:2]],) * 2,
        ([corpus(0)[0][0]],) * 2,
    ],
    ids="fewer none heads layers tokens mixed axes".split(),
)
def test_unequal_shapes_are_rejected(first, second):
    with refused("matched"):
        match_heads(first, second)


def test_a_matching_is_one_to_one():
    with pytest.raises(ValueError, match="each head with one partner"):
        Matching(1, 2, (0, 0), np.zeros((2, 2)))


@pytest.fixture(scope="module")
def translator(checkpoint_folder) -> Translator:
    return Translator.load(checkpoint_folder, device="cpu")


@pytest.fixture(scope="module")
def records(translator) -> tuple[TranslationRecord, TranslationRecord]:
    """Inspect one sentence and target with a model and its other implementation."""
    source, target = "Ein Hund läuft über die Wiese.", "A dog runs across the meadow."
    return translator.inspect(source, target), translator.other_implementation().inspect(
        source, target
    )


def test_both_implementations_differ_only_by_rounding(records):
    largest = largest_difference(*records)
    assert abs(largest.difference) <= SAME
    every = [np.abs(differences(*records, kind)).max() for kind in KINDS]
    assert abs(largest.difference) == max(every)


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_cell_is_the_largest_difference(records, kind):
    first, second = records
    layers, heads, queries, _ = second.maps(kind).shape
    at = (layers - 1, heads - 2, queries - 1)
    key = int(second.maps(kind)[at].argmin())
    # Two cells together lose what the planted cell gains, so the largest difference is known.
    changed = second.maps(kind).copy()
    row = changed[at]
    by_size = row.argsort()
    row[by_size[-1]] -= 0.006
    row[by_size[-2]] -= 0.004
    row[key] += 0.01
    altered = dataclasses.replace(second, **{kind: changed})
    largest = largest_difference(first, altered)
    assert (largest.kind, largest.layer, largest.head) == (kind, *at[:2])
    assert (largest.query, largest.key) == (at[2], key)
    assert (largest.second_layer, largest.second_head) == at[:2]
    assert largest.first == first.maps(kind)[(*at, key)]
    assert largest.second == altered.maps(kind)[(*at, key)]
    assert largest.difference == pytest.approx(-0.01, abs=1e-5)


def test_matched_heads_are_compared_with_their_partners(records):
    first, second = records
    moved = {kind: second.maps(kind)[::-1, ::-1].copy() for kind in KINDS}
    turned = dataclasses.replace(second, **moved)
    assert abs(largest_difference(first, turned).difference) > 1e-3
    matchings = {kind: match_heads([first.maps(kind)], [turned.maps(kind)]) for kind in KINDS}
    largest = largest_difference(first, turned, matchings)
    assert abs(largest.difference) <= SAME
    layers, heads = first.maps(largest.kind).shape[:2]
    there = (largest.second_layer, largest.second_head)
    assert there == (layers - 1 - largest.layer, heads - 1 - largest.head)


def test_records_that_cannot_be_subtracted_are_rejected(translator, records):
    """The same pieces with other ids mean other vocabularies; equal token counts go unmentioned."""
    first, second = records
    moved = tuple(dataclasses.replace(token, id=token.id + 1) for token in first.source)
    other = (dataclasses.replace(first.source[0], piece="x"), *first.source[1:])
    fewer = {kind: second.maps(kind)[:, :1].copy() for kind in KINDS}
    for wrong, message in (
        (translator.inspect(first.source_text, "A dog."), "different tokens .* cannot be"),
        (dataclasses.replace(first, source=moved), "their vocabularies differ: .* cannot be"),
        (dataclasses.replace(first, source=other), "into different tokens: their maps cannot"),
        (dataclasses.replace(second, **fewer), "choose two models of the same shape"),
    ):
        with refused(message):
            largest_difference(first, wrong)
