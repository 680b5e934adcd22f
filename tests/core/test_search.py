"""Greedy and beam search against recomputation and against trying everything."""

import itertools

import pytest
import torch
from torch.testing import assert_close

from core.config import DecodeConfig
from core.data.batches import pad
from core.model.build import build
from core.search.beam import (
    Candidate,
    _advance,
    beam,
    first_beam_state,
    greedy,
    length_limit,
    penalised,
    search,
    steps,
)
from core.text.tokenizer import BOS, EOS, PAD
from tests import small


def model(seed: int = 0, **changes):
    torch.manual_seed(seed)
    found = build("scratch", small.config(**changes)).double().eval()
    with torch.no_grad():
        for parameter in found.parameters():  # sharper than fresh weights, so that choices differ
            parameter.mul_(1.5)
    return found


def log_prob(network, source: list[int], ids: tuple[int, ...]) -> float:
    logits = network(torch.tensor([source]), torch.tensor([[BOS, *ids[:-1]]]))
    chosen = logits.log_softmax(-1)[0].gather(1, torch.tensor(ids)[:, None])
    return chosen.sum().item()


def test_cached_steps_equal_full_recomputation():
    for norm_first in (False, True):
        network = model(norm_first=norm_first)
        source, target = small.batch(padding=True)[0], small.ids(3, 7, first=BOS)
        state = network.start(source)
        full = network(source, target)
        for t in range(7):
            logits, state = network.step(target[:, t], state)
            assert_close(logits, full[:, t], rtol=0, atol=1e-12)


def test_selecting_rows_of_a_state_selects_hypotheses():
    network = model()
    source, target = small.batch(padding=True)[0], small.ids(3, 4, first=BOS)
    state = network.start(source)
    for t in range(3):
        _, state = network.step(target[:, t], state)
    rows = torch.tensor([2, 0, 2, 1])
    picked, _ = network.step(target[rows, 3], state.select(rows))
    plain, _ = network.step(target[:, 3], state)
    assert_close(picked, plain[rows], rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_beam_of_one_equals_greedy(seed):
    network = model(seed)
    source = pad([small.source_row(n) for n in (4, 9, 6)])
    one = beam(network, source, DecodeConfig(beam=1))
    assert [h[0].ids for h in one] == [h[0].ids for h in greedy(network, source)]
    assert [h[0].ids for h in search(network, source, DecodeConfig(beam=1))] == [
        h[0].ids for h in one
    ]


@pytest.mark.parametrize("size", [1, 3, 5])
def test_scores_recompute_and_are_in_order(size):
    network = model(3)
    rows = [small.source_row(n) for n in (5, 8)]
    for source, hypotheses in zip(
        rows, search(network, pad(rows), DecodeConfig(beam=size)), strict=True
    ):
        assert len({h.ids for h in hypotheses}) == len(hypotheses) <= size
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        for h in hypotheses:
            assert h.log_prob == pytest.approx(log_prob(network, source, h.ids), rel=1e-12)
            alpha = 0.0 if size == 1 else DecodeConfig().length_penalty
            assert h.score == pytest.approx(h.log_prob / ((5 + len(h.ids)) / 6) ** alpha)
            assert PAD not in h.ids and BOS not in h.ids and EOS not in h.ids[:-1]


def test_company_and_order_change_nothing():
    network = model(5)
    rows = [small.source_row(n) for n in (3, 10, 7, 5)]
    decode = DecodeConfig(beam=4)
    together = [[h.ids for h in hs] for hs in search(network, pad(rows), decode)]
    alone = [[h.ids for h in search(network, pad([row]), decode)[0]] for row in rows]
    backwards = [[h.ids for h in hs] for hs in search(network, pad(rows[::-1]), decode)][::-1]
    assert together == alone == backwards


@pytest.mark.parametrize("size", [1, 4])
def test_a_finished_sentence_costs_no_further_step(monkeypatch, size):
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


def test_a_wide_beam_finds_what_trying_everything_finds(monkeypatch):
    """Six words and at most three tokens: every translation can be scored."""
    monkeypatch.setattr("core.search.beam.length_limit", lambda *_: 3)
    network = model(2, target_vocab_size=7)
    source = small.source_row(5)
    words = [i for i in range(7) if i not in (PAD, BOS, EOS)]
    everything = [
        (*prefix, EOS) for n in range(3) for prefix in itertools.product(words, repeat=n)
    ] + list(itertools.product(words, repeat=3))
    alpha = DecodeConfig().length_penalty
    scored = {ids: penalised(log_prob(network, source, ids), len(ids), alpha) for ids in everything}
    best = sorted(scored, key=lambda ids: -scored[ids])[:5]
    found = beam(network, torch.tensor([source]), DecodeConfig(beam=16))[0]
    assert [h.ids for h in found][:5] == best


def test_a_search_that_settles_finds_the_translation_of_one_that_never_does(monkeypatch):
    rows, took = [small.source_row(n) for n in (3, 6, 9)], []
    for settles in (True, False):
        if not settles:
            monkeypatch.setattr("core.search.beam._settled", lambda *_: False)
        found, count = [], 0
        for seed in range(6):
            network = model(seed)
            network.embeddings.classifier.bias.data[EOS] += 4  # beams fill before the limit
            for row in rows:
                *_, (_, _, [state]) = walk = list(steps(network, pad([row]), DecodeConfig(beam=3)))
                found.append(state.finished[0].ids)
                count += len(walk)
        took.append((found, count))
    (early, few), (late, many) = took
    assert early == late
    assert few < many


def test_lengths_are_limited():
    assert length_limit(10, 256) == 40
    assert length_limit(60, 256) == 110
    assert length_limit(220, 256) == 256
    network = model(0)
    network.embeddings.classifier.bias.data[EOS] = -1e4  # it never wants to stop
    for size in (1, 3):
        found = search(network, pad([small.source_row(4)]), DecodeConfig(beam=size))[0]
        assert {len(h.ids) for h in found} == {28}


def test_the_beams_size_has_limits():
    for size in (0, 17):
        with pytest.raises(ValueError, match="beam"):
            DecodeConfig(beam=size)


def test_an_end_counts_only_among_the_k_best_of_its_step():
    """A beam of two: an <eos> of rank 1 is finished, one of rank 2 is dropped."""
    start, config = first_beam_state(2), DecodeConfig(beam=2)
    within = [Candidate(-0.5, 0, 5), Candidate(-0.6, 0, EOS), Candidate(-0.7, 0, 6)]
    below = [Candidate(-0.5, 0, 5), Candidate(-0.6, 0, 6), Candidate(-0.7, 0, EOS)]
    found = _advance(start, within, 1, 10, config)
    assert [(h.ids, h.log_prob) for h in found.finished] == [((EOS,), -0.6)]
    found = _advance(start, below, 1, 10, config)
    assert found.finished == [] and found.prefixes == ((5,), (6,)) and found.totals == (-0.5, -0.6)
