"""Greedy and beam search agree with recomputed scores and exhaustive search."""

import pytest
import torch

from core.config import DecodeConfig
from core.data.batches import pad
from core.search.beam import (
    beam,
    greedy,
    length_limit,
    search,
)
from core.text.tokenizer import BOS, EOS, PAD
from tests import small

model = small.sharp


def log_prob(network, source: list[int], ids: tuple[int, ...]) -> float:
    logits = network(torch.tensor([source]), torch.tensor([[BOS, *ids[:-1]]]))
    chosen = logits.log_softmax(-1)[0].gather(1, torch.tensor(ids)[:, None])
    return chosen.sum().item()


@pytest.mark.parametrize("seed", range(4))
def test_beam_of_one_equals_greedy(seed):
    network = model(seed)
    source = pad([small.source_row(n) for n in (4, 9, 6)])
    one = beam(network, source, DecodeConfig(beam=1))
    assert [h[0].ids for h in one] == [h[0].ids for h in greedy(network, source)]
    assert [h[0].ids for h in search(network, source, DecodeConfig(beam=1))] == [
        h[0].ids for h in one
    ]


@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
@pytest.mark.parametrize(("size", "alpha"), [(1, 1.0), (3, 0.0), (3, 0.6), (5, 1.0)])
def test_scores_recompute_and_are_in_order(architecture, size, alpha):
    network = model(3, architecture)
    rows = [small.source_row(n) for n in (5, 8)]
    decode = DecodeConfig(beam=size, length_penalty=alpha)
    for source, hypotheses in zip(rows, search(network, pad(rows), decode), strict=True):
        assert len({h.ids for h in hypotheses}) == len(hypotheses) <= size
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        for h in hypotheses:
            assert h.log_prob == pytest.approx(log_prob(network, source, h.ids), rel=1e-12)
            expected = h.log_prob / ((5 + len(h.ids)) / 6) ** (0.0 if size == 1 else alpha)
            assert h.score == pytest.approx(expected, rel=1e-12)
            assert PAD not in h.ids and BOS not in h.ids and EOS not in h.ids[:-1]


def test_batching_and_order_change_nothing():
    network = model(5)
    rows = [small.source_row(n) for n in (3, 10, 7, 5)]
    decode = DecodeConfig(beam=4)
    together = [[h.ids for h in hs] for hs in search(network, pad(rows), decode)]
    alone = [[h.ids for h in search(network, pad([row]), decode)[0]] for row in rows]
    backwards = [[h.ids for h in hs] for hs in search(network, pad(rows[::-1]), decode)][::-1]
    assert together == alone == backwards


@pytest.mark.parametrize("size", [1, 4])
def test_finished_sentences_leave_the_batch(monkeypatch, size):
    network = model(5)
    rows = [small.source_row(n) for n in (3, 10, 7, 5)]
    stepped: list[int] = []
    step = network.step
    monkeypatch.setattr(network, "step", lambda t, state: stepped.append(len(t)) or step(t, state))
    for row in rows:
        search(network, pad([row]), DecodeConfig(beam=size))
    alone = sum(stepped)
    stepped.clear()
    search(network, pad(rows), DecodeConfig(beam=size))
    assert sum(stepped) == alone
    assert stepped[-1] < stepped[0]


def test_the_length_limit_follows_the_source_and_ends_the_search():
    assert length_limit(10, 256) == 40
    assert length_limit(60, 256) == 110
    assert length_limit(220, 256) == 256
    network = model(0)
    network.embeddings.classifier.bias.data[EOS] = -1e4  # never generate <eos>
    for size in (1, 3):
        found = search(network, pad([small.source_row(4)]), DecodeConfig(beam=size))[0]
        assert {len(h.ids) for h in found} == {28}
