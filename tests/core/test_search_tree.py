"""The search tree has the results of a plain search, and its numbers equal recomputed ones."""

from itertools import pairwise

import pytest
import torch

from core.config import DecodeConfig
from core.search.beam import search
from core.search.tree import ALTERNATIVES, SearchTree, search_tree
from core.text.tokenizer import BOS, EOS, PAD
from tests import small

BEAMS = (1, 2, 5)
model = small.sharp


def traced(
    network, length: int, beam: int, prefix: tuple[int, ...] = ()
) -> tuple[SearchTree, list[int]]:
    source = small.source_row(length)
    return search_tree(network, torch.tensor([source]), DecodeConfig(beam=beam), prefix), source


def log_probs(network, source: list[int], paths: list[tuple[int, ...]]) -> torch.Tensor:
    """Return log-probabilities of each next id after paths of equal length: [paths, ids]."""
    target_in = torch.tensor([[BOS, *ids] for ids in paths])
    logits = network(torch.tensor([source] * len(paths)), target_in)
    return logits[:, -1].log_softmax(-1)


@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
@pytest.mark.parametrize("beam", BEAMS)
def test_the_tree_has_the_results_of_a_plain_search(beam, architecture):
    for seed in range(3):
        network = model(seed, architecture)
        tree, source = traced(network, 6, beam)
        untraced = search(network, torch.tensor([source]), DecodeConfig(beam=beam))[0]
        assert list(tree.hypotheses) == untraced  # the same ids and the same floats
        assert [tree.ids(end) for end in tree.ends] == [h.ids for h in untraced]


@pytest.mark.parametrize("beam", BEAMS)
def test_every_score_recomputes(beam):
    network = model(1)
    tree, source = traced(network, 7, beam)
    alpha = 0.0 if beam == 1 else DecodeConfig().length_penalty
    again = {}
    for step in range(tree.nodes[-1].step):
        asked = [i for i, node in enumerate(tree.nodes) if node.step == step and node.next]
        found = log_probs(network, source, [tree.ids(i) for i in asked])
        again |= dict(zip(asked, found, strict=True))
    for index, node in enumerate(tree.nodes[1:], start=1):
        path = tree.path(index)
        assert len(path) == node.step and path[-1] == index
        total = sum(tree.nodes[i].log_prob for i in path)
        assert node.total == pytest.approx(total, rel=0, abs=1e-9)
        divisor = ((5 + node.step) / 6) ** alpha
        assert node.score == pytest.approx(total / divisor, rel=0, abs=1e-9)
        behind = again[node.parent]
        assert node.log_prob == pytest.approx(behind[node.id].item(), rel=0, abs=1e-9)
        parent = tree.nodes[node.parent]
        assert parent.next == tuple(sorted(parent.next, key=lambda pair: -pair[1]))
        assert len(parent.next) == ALTERNATIVES
        for id, log_prob in parent.next:
            assert id not in (PAD, BOS)
            assert log_prob == pytest.approx(behind[id].item(), rel=0, abs=1e-9)
            assert log_prob >= node.log_prob or node.id in dict(parent.next)


@pytest.mark.parametrize("beam", BEAMS)
def test_ranks_follow_totals_and_statuses_follow_the_results(beam):
    tree, _ = traced(model(2), 6, beam)
    results = {h.ids for h in tree.hypotheses}
    parents = {node.parent for node in tree.nodes}
    last = tree.nodes[-1].step
    for step in range(1, last + 1):
        found = [(i, node) for i, node in enumerate(tree.nodes) if node.step == step]
        assert [node.rank for _, node in found] == list(range(len(found)))
        assert all(a.total >= b.total for (_, a), (_, b) in pairwise(found))
        standing = [(i, node) for i, node in found if node.status in ("open", "left")]
        assert len(standing) == beam or step == tree.limit
        worst = min((node.total for _, node in standing), default=0.0)
        for index, node in found:
            assert (node.status == "open") == bool(node.next)
            assert index not in parents or node.status == "open"
            assert (tree.ids(index) in results) == (node.status == "finished")
            if node.status == "left":
                assert step == last
            if node.status == "pruned":
                assert node.total <= worst or (node.id == EOS and node.rank >= beam)
            if node.status == "overtaken":
                assert all(h.score >= node.score for h in tree.hypotheses)
                assert len(tree.hypotheses) == beam


def test_greedy_shows_its_alternatives():
    tree, _ = traced(model(3), 5, 1)
    for step in range(1, tree.nodes[-1].step + 1):
        found = [node for node in tree.nodes if node.step == step]
        assert len(found) == 5
        assert tuple((node.id, node.log_prob) for node in found) == tree.nodes[found[0].parent].next


@pytest.mark.parametrize("beam", BEAMS)
def test_the_search_continues_a_forced_prefix(beam):
    network = model(4)
    free, source = traced(network, 6, beam)
    last = free.hypotheses[0].ids[2]
    prefix = (*free.hypotheses[0].ids[:2], 5 if last == 6 else 6)
    tree = search_tree(network, torch.tensor([source]), DecodeConfig(beam=beam), prefix)
    assert all(h.ids[: len(prefix)] == prefix for h in tree.hypotheses)
    assert [node.id for node in tree.nodes if node.forced] == list(prefix)
    assert tree.forced == len(prefix)
    for hypothesis in tree.hypotheses:
        ids = hypothesis.ids
        behind = [log_probs(network, source, [ids[:t]])[0] for t in range(len(ids))]
        total = sum(row[id].item() for row, id in zip(behind, ids, strict=True))
        assert hypothesis.log_prob == pytest.approx(total, rel=0, abs=1e-9)


def test_forcing_what_greedy_writes_changes_nothing():
    network = model(5)
    free, source = traced(network, 6, 1)
    for length in (1, 2, len(free.hypotheses[0].ids)):
        prefix = free.hypotheses[0].ids[:length]
        forced = search_tree(network, torch.tensor([source]), DecodeConfig(beam=1), prefix)
        assert forced.hypotheses == free.hypotheses


def test_a_prefix_with_eos_is_the_only_result():
    tree, _ = traced(model(6), 5, 4, (9, 8, EOS))
    assert [h.ids for h in tree.hypotheses] == [(9, 8, EOS)]
    assert [node.status for node in tree.nodes] == ["open", "open", "open", "finished"]


def test_an_invalid_prefix_is_rejected():
    for prefix, words in (((EOS, 5), "after <eos>"), ((5,) * 100, "limit"), ((BOS,), "vocabulary")):
        with pytest.raises(ValueError, match=words):
            traced(model(), 4, 2, prefix)
    with pytest.raises(ValueError, match="vocabulary"):
        traced(model(), 4, 2, (model().config.target_vocab_size,))
