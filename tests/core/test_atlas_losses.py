"""Losses with one head, a pair or many ablated equal those of passes with edited weights."""

import copy
from collections import defaultdict
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from sacrebleu.metrics import BLEU

from core.atlas.atlas import TokenLoss
from core.atlas.corpus import chunked
from core.atlas.intervals import holm, p_values
from core.atlas.losses import (
    HeadLosses,
    HeadOutputs,
    SetLosses,
    affected_tokens,
    head_losses,
    means_of,
)
from core.atlas.pairs import pair_effects, pair_losses
from core.atlas.pruning import (
    ChoiceLosses,
    heads_on,
    pruning_bleu,
    pruning_curves,
    pruning_losses,
    removal_order,
)
from core.atlas.sums import Sums, bootstrap_weights
from core.data.batches import collate
from core.experiments.importance import head_means
from core.kinds import KINDS
from tests.core.atlas_network import (
    checkpoint,
    heads,
    sentences,
    token_losses,
    total,
    translation,
)

SMALL = {"num_encoder_layers": 1, "num_decoder_layers": 1, "num_heads": 2}


@pytest.fixture(scope="module")
def lines():
    return sentences().sentences


@pytest.fixture(scope="module")
def before(lines):
    """Return each sentence's losses in the unedited network."""
    return [token_losses(checkpoint(), s) for s in lines]


@pytest.fixture(scope="module")
def without(lines):
    """Return each sentence's losses with each head ablated, from passes with edited weights."""
    return {
        head: [token_losses(checkpoint(), s, [head]) for s in lines]
        for head in heads(checkpoint().model)
    }


@pytest.fixture(scope="module")
def zero():
    return total(HeadLosses())


def test_zero_ablation_matches_edited_passes(lines, before, without, zero):
    """Deciles are of each sentence's change per token; p-values are corrected over all heads."""
    arrays = head_losses(zero)
    tokens_B = np.array([len(s.target) for s in lines])
    weights_RB = bootstrap_weights(s.index for s in lines).T
    assert arrays["loss"][0] == pytest.approx(sum(map(sum, before)) / tokens_B.sum(), abs=1e-6)
    changes_NB = np.array(
        [[(a - b).sum() for a, b in zip(x, before, strict=True)] for x in without.values()]
    )
    drawn_RN = weights_RB @ changes_NB.T / (weights_RB @ tokens_B)[:, None]
    bounds = np.percentile(drawn_RN[1:], (2.5, 97.5), axis=0)
    assert pytest.approx(np.stack([drawn_RN[0], *bounds]), abs=1e-6) == arrays["zero"].T
    p_N = p_values(drawn_RN, len(lines))
    np.testing.assert_allclose(arrays["zero_p"], holm(p_N), rtol=1e-4, atol=1e-12)
    assert 0 < sum(holm(p_N) < 0.05) < sum(p_N < 0.05)
    deciles = np.percentile(changes_NB / tokens_B, range(10, 100, 10), axis=1).T
    np.testing.assert_allclose(arrays["deciles"], deciles, atol=1e-6)
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}


def test_tokens_are_ranked_by_the_mean_rise_of_their_loss(lines, before, without, zero):
    tokenizer, counts = checkpoint().target_tokenizer, sentences().target_counts
    found = affected_tokens(zero, counts, tokenizer)
    few = {id: counts[id] for id in sorted(counts)[::4]}  # ablation lowers some of their losses
    found_of_few = affected_tokens(zero, few, tokenizer)
    assert len(found) == len(found_of_few) == len(without)
    for i, losses in enumerate(without.values()):
        changes = defaultdict(list)
        for sentence, a, b in zip(lines, losses, before, strict=True):
            for token, change in zip(sentence.target, a - b, strict=True):
                changes[token.id].append(change)
        rising = {id: np.mean(c) for id, c in changes.items() if len(c) >= 5 and np.mean(c) > 0}
        best = sorted(rising, key=lambda id: -rising[id])
        of_few = [id for id in best if id in few][:12]
        for ids, of_head in ((best[:12], found[i]), (of_few, found_of_few[i])):
            assert [t.text for t in of_head] == [tokenizer.token(id).text for id in ids]
            assert [t.count for t in of_head] == [len(changes[id]) for id in ids]
            np.testing.assert_allclose([t.change for t in of_head], [rising[j] for j in ids], 1e-4)
    frequent = sum(count >= 5 for count in few.values())
    assert 0 < min(map(len, found_of_few)) < frequent < 13
    assert any(len(of_head) == 12 for of_head in found)
    assert isinstance(found[0][0], TokenLoss)
    assert affected_tokens(zero, dict.fromkeys(counts, 4), tokenizer) == ((),) * len(found)


def test_a_head_that_writes_nothing_has_no_effect():
    """In float32 its ablation changes losses by rounding errors, which are not reported."""
    network = checkpoint()
    model = copy.deepcopy(network.model).float()
    for site in model.attention_sites():
        weight = site.projections().output.weight
        with torch.no_grad():
            weight.unflatten(1, (site.num_heads, -1))[:, 2] = 0
    silent = [i for i, head in enumerate(heads(model)) if head[2] == 2]
    network = replace(network, model=model)
    sums = Sums.total(HeadLosses()(network, chunk) for chunk in chunked(sentences().sentences))
    arrays = head_losses(sums)
    assert np.abs(arrays["zero"][silent]).max() < 1e-6
    assert (arrays["zero_p"][silent] == 1).all()
    named = affected_tokens(sums, sentences().target_counts, network.target_tokenizer)
    assert [named[i] for i in silent] == [()] * len(silent)
    assert all(named[i] for i in range(len(named)) if i not in silent)


def test_mean_ablation_matches_edited_passes(lines, before):
    network = checkpoint()
    batch = collate([s.ids for s in lines])
    expected = head_means(network.model, [batch])
    means = means_of(total(HeadOutputs()))
    assert means.keys() == expected.keys()
    for site, mean in means.items():
        np.testing.assert_allclose(mean, expected[site], rtol=1e-5, atol=1e-6)
    arrays = head_losses(total(HeadLosses(means)), "mean")
    tokens = sum(len(s.target) for s in lines)
    assert arrays.keys() == {"mean", "mean_p"}
    for i, head in list(enumerate(heads(network.model)))[::3]:
        after = [token_losses(network, s, mean=[head], means=means) for s in lines]
        change = sum(map(sum, after)) - sum(map(sum, before))
        assert arrays["mean"][i, 0] == pytest.approx(change / tokens, abs=1e-6)


def test_the_repr_of_a_measure_identifies_it():
    """An interrupted measurement finds its saved sums by the measure's repr."""
    where = ("cross", 0)
    means = {where: torch.zeros(4, 5000)}
    changed = {where: means[where].clone()}
    changed[where][2, 2500] = 1e-3
    texts = [repr(HeadLosses(m)) for m in (means, changed, {where: means[where].clone()})]
    assert texts[0] == texts[2] != texts[1] and len(texts[0]) < 200
    assert repr(HeadLosses()) not in texts
    model = checkpoint().model
    texts = {repr(pruning_losses(model, {"cross": order})) for order in ([0, 1, 2], [1, 0, 2])}
    assert len(texts) == 2
    assert repr(SetLosses("a", ((("cross", 1, 0), ("cross", 0, 1)),))) == (
        "SetLosses(name='a', choices=((('cross', 1, 0), ('cross', 0, 1)),))"
    )


def test_a_single_sentence_is_measured_without_an_interval(lines):
    arrays = head_losses(HeadLosses()(checkpoint(), lines[:1]))
    assert np.isfinite(arrays["zero"][:, 0]).all() and np.isnan(arrays["zero"][:, 1:]).all()
    assert np.isnan(arrays["zero_p"]).all() and np.isfinite(arrays["deciles"]).all()


# Pairs.


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_match_edited_passes(kind, lines):
    network, some = checkpoint(), lines[3:11]
    sums = pair_losses(network.model, kind)(network, some)
    arrays = pair_effects(network.model, kind, sums)
    own = [head for head in heads(network.model) if head[0] == kind]
    tokens = np.array([len(s.target) for s in some])

    def changes(*off):
        return np.array(
            [(token_losses(network, s, off) - token_losses(network, s)).sum() for s in some]
        )

    single = [changes(head) for head in own]
    expected = [change.sum() / tokens.sum() for change in single]
    np.testing.assert_allclose(arrays[f"single_{kind}"], expected, atol=1e-6)
    found = arrays[f"pair_{kind}"]
    assert found.shape == (len(own), len(own), 3) and not found.diagonal().any()
    np.testing.assert_array_equal(found, found.transpose(1, 0, 2))
    for a, b in list(combinations(range(len(own)), 2))[:9]:
        beyond = changes(own[a], own[b]) - single[a] - single[b]
        assert found[a, b, 0] == pytest.approx(beyond.sum() / tokens.sum(), abs=1e-6)
    weights = bootstrap_weights(s.index for s in some)[:, 1:]
    beyond = changes(own[0], own[3]) - single[0] - single[3]
    with np.errstate(invalid="ignore"):
        expected = np.nanpercentile(beyond @ weights / (tokens @ weights), (2.5, 97.5))
    np.testing.assert_allclose(found[0, 3, 1:], expected, atol=1e-6)


# Pruning.


@pytest.mark.parametrize("curve", ["decoder", "all"])
def test_the_removal_order_is_greedy(curve):
    network, some = checkpoint(**SMALL), sentences(**SMALL).sentences[::9]
    own = [head for head in heads(network.model) if curve in (head[0], "all") and head[2] < 2]
    left, expected, lowest = dict(enumerate(own)), [], []
    while left:
        gone = [own[i] for i in expected]
        losses = {
            i: sum(token_losses(network, s, [*gone, head]).sum() for s in some)
            for i, head in left.items()
        }
        expected.append(min(losses, key=losses.__getitem__))
        lowest.append(losses[expected[-1]])
        del left[expected[-1]]
    removed = []

    def losses(choices):
        parts = [ChoiceLosses(choices)(network, chunk) for chunk in chunked(some, 3)]
        assert len(parts) == 2, "the loss is a sum over chunks"
        return Sums.total(parts)["choice_loss"]

    alone = [sum(token_losses(network, s, [head]).sum() for s in some) for head in own]
    assert losses(tuple((head,) for head in own)) == pytest.approx(alone)
    assert removal_order(heads_on(network.model, curve), losses, removed.append) == expected
    assert len(removed) == sum(removed) == len(own)
    assert [removal_order(own, losses, count=n) for n in (0, 2)] == [[], expected[:2]]
    stop = next(n for n in range(1, len(own)) if lowest[n] > max(lowest[:n]))
    highest = (lowest[stop] + max(lowest[:stop])) / 2
    assert removal_order(own, losses, highest=highest) == expected[:stop]


def test_curves_match_edited_passes(lines, before):
    """The orders are unsorted, so that sorting would show; both remove the same head first."""
    network = checkpoint()
    own = heads(network.model)
    orders = {
        "cross": [5, 0, 7, 3, 1, 2, 4, 6],
        "all": [17, 3, 19, 0, *(i for i in range(20) if i not in (17, 3, 19, 0))],
    }
    measure = pruning_losses(network.model, orders)
    assert len(measure.choices) == len(set(measure.choices)) == 8 + 20 - 1
    arrays = pruning_curves(network.model, orders, total(measure))
    tokens = sum(len(s.target) for s in lines)
    for curve, order in orders.items():
        heads_of_curve = [head for head in own if curve in (head[0], "all")]
        assert arrays[f"prune_{curve}_order"].tolist() == order
        assert arrays[f"prune_{curve}_order"].dtype == np.int16
        found = arrays[f"prune_{curve}_loss"]
        assert found.shape == (len(order) + 1, 3) and found.dtype == np.float32
        for step in range(0, len(order) + 1, 2):
            off = [heads_of_curve[i] for i in order[:step]]
            loss = sum(token_losses(network, s, off).sum() for s in lines) / tokens
            assert found[step, 0] == pytest.approx(loss, abs=1e-6)
            assert found[step, 1] < found[step, 0] < found[step, 2]
        assert f"prune_{curve}_bleu" not in arrays


def test_bleu_curves_match_corpus_scores(lines):
    network, order = checkpoint(), [6, 0, 3, 1, 2, 4, 5, 7]
    sums = total(pruning_bleu(network.model, {"decoder": order}))
    found = pruning_curves(network.model, {"decoder": order}, sums)["prune_decoder_bleu"]
    own = [head for head in heads(network.model) if head[0] == "decoder"]
    for step in (0, 1, 3, 8):
        off = [own[i] for i in order[:step]]
        texts = [translation(network, s.source_text, off) for s in lines]
        score = BLEU().corpus_score(texts, [[s.reference for s in lines]]).score
        assert found[step, 0] == pytest.approx(score, abs=1e-4)


def test_sums_of_curves_and_heads_have_different_names(zero):
    """Otherwise adding up the measures would mix them."""
    network = checkpoint()
    curves = pruning_losses(network.model, {"encoder": [0, 1, 2, 3]})(network, ())
    pairs = pair_losses(network.model, "encoder")(network, ())
    assert not set(zero) & set(curves) and not set(curves) & set(pairs)
    assert isinstance(curves, Sums)
