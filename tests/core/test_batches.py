"""Pairs of ids on disk, and batches planned from their lengths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.data.batches import EncodedPairs, encode_pairs, pair_lengths, plan
from core.text.subwords import SubwordTokenizer
from core.text.tokenizer import EOS
from tests import small

side = st.lists(st.integers(0, 70_000), min_size=1, max_size=9)


@given(st.lists(st.tuples(side, side), max_size=30))
def test_pairs_on_disk_round_trip(pairs):
    stored = EncodedPairs(iter(pairs))
    assert list(stored) == pairs
    assert stored[: len(pairs) // 2] == pairs[: len(pairs) // 2]
    assert stored.lengths.tolist() == [[len(s), len(t)] for s, t in pairs]
    if pairs:
        assert stored[-1] == pairs[-1]
    with pytest.raises(IndexError):
        stored[len(pairs)]


@given(st.lists(st.tuples(side, side), max_size=40), st.integers(9, 60))
def test_a_plan_is_the_same_from_disk_and_from_memory(pairs, budget):
    assert plan(EncodedPairs(pairs), budget, seed=5) == plan(pairs, budget, seed=5)


def test_a_plan_reads_no_ids(monkeypatch):
    stored = EncodedPairs([([7] * n, [8] * (n + 1)) for n in range(1, 9)])
    monkeypatch.setattr(EncodedPairs, "__getitem__", lambda self, i: pytest.fail("read"))
    assert sorted(i for batch in plan(stored, 20) for i in batch) == list(range(8))
    assert pair_lengths(stored) is stored.lengths


def test_batches_contain_little_padding():
    """With lengths like those of captions, less than 5 % of the tokens are padding."""
    random = np.random.default_rng(0)
    source = np.exp(random.normal(2.6, 0.3, 29_000)).astype(int) + 2
    target = np.maximum(2, source + random.normal(0, 2.2, 29_000).astype(int))
    pairs = [([7] * s, [8] * t) for s, t in zip(source.tolist(), target.tolist(), strict=True)]
    lengths = pair_lengths(pairs)
    cells = sum(len(batch) * lengths[batch].max(0).sum() for batch in plan(pairs, 4096, seed=1))
    assert 1 - lengths.sum() / cells < 0.05


def test_pairs_are_encoded_lazily():
    tokenizer = SubwordTokenizer.train([s for pair in small.SENTENCES for s in pair], 200)
    taken = []

    def text():
        for pair in small.SENTENCES:
            taken.append(pair)
            yield pair

    first = next(encode_pairs(text(), tokenizer, tokenizer))
    assert taken == small.SENTENCES[:1]
    assert [side[-1] for side in first] == [EOS, EOS]
    assert np.array_equal(first[0][:-1], [t.id for t in tokenizer.encode(small.SENTENCES[0][0])])
