"""Head ablations equal edited passes, and planted redundant and dependent heads are found."""

import dataclasses

import numpy as np
import pytest
import torch

from core.analysis.head_effects import HeadEffects, PairEffects, products_without
from core.experiments import attribution
from core.experiments import head_effects as module
from core.experiments.experiment import Progress
from core.experiments.head_effects import (
    choice_batches,
    head_effects,
    log_probs_without,
    pair_effects,
)
from core.kinds import KINDS
from core.model.baseline import copy_to_baseline
from core.model.build import build
from core.record.editing import edited
from core.record.edits import Edits
from core.text.tokenizer import BOS, EOS
from tests import small

SOURCE, TARGET = [9, 8, 7, 6, 11, EOS], [30, 9, 31, 5, EOS]
models = small.models(
    "post-norm", "pre-norm", "no q/k/v bias", "post-norm, no final norm", "mask −10000"
)


@torch.inference_mode()
def log_probs(model, heads_off=(), heads_mean=(), means=None) -> np.ndarray:
    """Return the target tokens' log-probabilities in a pass with some heads ablated."""
    edits = Edits(heads_off=frozenset(heads_off), heads_mean=frozenset(heads_mean))
    with edited(model, edits, means):
        logits = model(torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET[:-1]]]))[0]
    return logits.log_softmax(-1)[range(len(TARGET)), TARGET].numpy()


def heads_of(model) -> list[tuple]:
    return [(s.kind, s.layer, head) for s in model.attention_sites() for head in range(s.num_heads)]


def test_single_ablations_match_edits(models):
    for model in models:
        found = head_effects(model, SOURCE, TARGET)
        before = log_probs(model)
        np.testing.assert_allclose(found.log_probs, before, rtol=0, atol=1e-12)
        sites = {kind: sum(s.kind == kind for s in model.attention_sites()) for kind in KINDS}
        assert {kind: change.shape for kind, change in found.changes.items()} == {
            kind: (sites[kind], model.config.num_heads, len(TARGET)) for kind in KINDS
        }
        for kind, layer, head in heads_of(model):
            alone = log_probs(model, [(kind, layer, head)]) - before
            changes = found.changes[kind][layer, head]
            assert np.abs(alone).max() > 1e-6
            np.testing.assert_allclose(changes, alone, rtol=0, atol=1e-12)
            assert found.of(kind)[layer, head] == pytest.approx(alone.sum(), abs=1e-12)
            assert found.of(kind, 2)[layer, head] == pytest.approx(alone[2], abs=1e-12)


CHOICES = [
    {("encoder", 0, 1), ("cross", 2, 3)},
    set(),
    {("decoder", 0, 0), ("cross", 0, 0), ("cross", 0, 3), ("decoder", 2, 1)},
    {("encoder", 1, 2)},
    {("encoder", 0, 1), ("cross", 2, 3)},
    {("encoder", 0, 1), ("encoder", 1, 2), ("decoder", 1, 3)},
]


@pytest.mark.parametrize("to_mean", [False, True])
def test_any_set_of_ablations_matches_edits(models, to_mean):
    """The choices include heads of different kinds, no head, and a repetition."""
    for model in models:
        torch.manual_seed(4)
        shape = model.config.num_heads, model.config.d_model
        means = {(s.kind, s.layer): torch.randn(shape).double() for s in model.attention_sites()}
        means = means if to_mean else None
        found = log_probs_without(model, SOURCE, TARGET, list(map(frozenset, CHOICES)), means)
        expected = [
            log_probs(model, (), choice, means) if to_mean else log_probs(model, choice)
            for choice in CHOICES
        ]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        assert np.abs(found[0] - found[1]).max() > 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_pair_ablations_match_edits(kind, monkeypatch):
    monkeypatch.setattr(module, "_TOKENS", 40)  # several batches
    for model in small.pair(norm_first=True):
        steps: list[tuple[int, int]] = []
        found = pair_effects(
            model, SOURCE, TARGET, kind, on_progress=lambda *at, to=steps: to.append(at)
        )
        heads = [head for head in heads_of(model) if head[0] == kind]
        N, before = len(heads), log_probs(model)
        assert len(steps) > 3 and {total for _, total in steps} == {steps[-1][0]}
        assert steps[-1][0] == N * (N + 1) // 2 and steps == sorted(set(steps))
        assert (found.layers, found.heads) == (N // 4, 4)
        single = np.stack([log_probs(model, [head]) - before for head in heads])
        np.testing.assert_allclose(found.single(1), single[:, 1], rtol=0, atol=1e-12)
        for a in range(N):
            for b in range(a):
                both = log_probs(model, [heads[a], heads[b]]) - before
                np.testing.assert_allclose(found.pairs[a, b], both, rtol=0, atol=1e-12)
                beyond = (both - single[a] - single[b]).sum()
                assert found.beyond()[a, b] == pytest.approx(beyond, abs=1e-10)
        assert np.array_equal(found.beyond(), found.beyond().T)
        assert not found.beyond().diagonal().any()
        ranked = found.ranked()
        assert len(ranked) == N * (N - 1) // 2
        assert ranked[0].beyond == found.beyond().min() <= 0 <= ranked[-1].beyond
        assert found.at(heads.index((kind, 1, 3))) == (1, 3)


def test_batch_size_does_not_matter_and_hooks_are_removed(models, monkeypatch):
    for model in models:
        logits = log_probs(model)
        whole = head_effects(model, SOURCE, TARGET)
        monkeypatch.setattr(module, "_TOKENS", 20)
        parts = head_effects(model, SOURCE, TARGET)
        monkeypatch.undo()
        for kind in KINDS:
            np.testing.assert_allclose(parts.changes[kind], whole.changes[kind], atol=1e-12)
        assert np.array_equal(log_probs(model), logits)
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_batches_of_a_large_network_have_few_rows():
    """As many as multiply 5e10 times at most, in passes without a head of the first layer."""
    config = small.config(d_model=1024, num_encoder_layers=12, target_vocab_size=30_000)
    row = products_without(config, "encoder", 0, 20, 30)
    batches = choice_batches(config, [frozenset()] * 50, range(20), range(30))
    assert 1 < len(batches[0]) == 5e10 // row < 1280 // 30
    assert len(choice_batches(config, [frozenset()] * 2, range(9999), range(9999))) == 2


# Planted networks: all other heads write zeros.


def empty(architecture: str, plant) -> torch.nn.Module:
    """Return a pre-norm network with zero weights, to which `plant` adds some heads.

    The decoder's states start as (+10, −10) on features 13 and 14, so that their mean is 0.
    """
    torch.manual_seed(5)
    model = build("scratch", small.config(norm_first=True, learned_positions=True)).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.zero_()
        model.embeddings.target_positions.weight[:, 13:15] = torch.tensor([10.0, -10.0])
        model.embeddings.classifier.weight[TARGET, 10] = 3.0  # feature 10 predicts the target
        plant(model)
    if architecture == "scratch":
        return model
    baseline = build("baseline", model.config).double().eval()
    copy_to_baseline(model, baseline)
    return baseline


def twins(model) -> None:
    """Plant two identical cross-attention heads; because of the norm, either one suffices."""
    attention = model.decoder[1].cross_attention
    for head in (1, 2):
        attention.value.bias[4 * head] = 1.0  # whatever it attends to
        attention.output.weight[10, 4 * head] = 50.0


def chain(model) -> None:
    """Plant head 0, which writes feature 11, and head 3 of the next layer, which reads it."""
    writer, reader = (model.decoder[layer].self_attention for layer in (0, 1))
    writer.value.bias[0] = 1.0
    writer.output.weight[11, 0], writer.output.weight[9, 0] = 10.0, -10.0
    reader.value.weight[12, 11] = 1.0
    reader.output.weight[10, 12] = 30.0


@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
@pytest.mark.parametrize(
    ("plant", "kind", "heads", "sign"),
    [(twins, "cross", [(1, 1), (1, 2)], -1), (chain, "decoder", [(0, 0), (1, 3)], 1)],
)
def test_planted_redundant_and_dependent_heads_are_found(architecture, plant, kind, heads, sign):
    model = empty(architecture, plant)
    found = pair_effects(model, SOURCE, TARGET, kind)
    first, *others = found.ranked()[::-sign]
    assert {first.first, first.second} == set(heads)
    assert sign * first.beyond > 3 and all(abs(pair.beyond) < 1e-9 for pair in others)
    single = found.single().reshape(found.layers, found.heads)
    alone = [single[at] for at in heads]
    ranked = head_effects(model, SOURCE, TARGET).ranked()
    assert all(head.change == pytest.approx(0, abs=1e-9) for head in ranked[2:])
    if plant is twins:
        assert abs(alone[0]) < 0.1 and alone[0] == pytest.approx(alone[1], abs=1e-12)
    else:
        assert max(alone) < -3 and {head[:3] for head in ranked[:2]} == {
            (kind, *at) for at in heads
        }


# With a translator and a record.


LONG = {
    "pairs": (pair_effects, ("encoder",), module, "log_probs_without"),
    "heads": (head_effects, (), module, "log_probs_without"),
    "shapley": (attribution.shapley, (), attribution, "log_probs_seeing"),
    "attributions": (attribution.attributions, (), attribution, "input_gradients"),
}


@pytest.mark.parametrize(("experiment", "rest", "module", "asked"), LONG.values(), ids=LONG)
def test_the_lock_is_released_between_batches_and_closing_stops_the_work(
    translator, monkeypatch, experiment, rest, module, asked
):
    monkeypatch.setattr(module, "_TOKENS", 10)
    record = translator.inspect("Ein Hund läuft.")
    held, original = [], getattr(module, asked)

    def watched(*arguments):
        held.append(translator._lock.locked())
        return original(*arguments)

    def stop(done: int, total: int) -> None:
        if len(held) > 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(module, asked, watched)
    steps = experiment.steps(translator, record, *rest)
    assert not held
    while len(held) < 2:
        assert isinstance(next(steps), Progress)
        assert not translator._lock.locked()
    steps.close()
    with pytest.raises(KeyboardInterrupt):
        experiment(translator, record, *rest, on_progress=stop)
    assert held in ([True] * 3, [True] * 4) and not translator._lock.locked()


def test_invalid_arguments_are_rejected(translator):
    record = translator.inspect("Ein Hund läuft.")
    with pytest.raises(ValueError, match="unknown kind 'middle': choose encoder, decoder or cross"):
        pair_effects(translator, record, "middle")
    with pytest.raises(ValueError, match="made with other weights"):
        head_effects(translator, dataclasses.replace(record, weights_sha256="0" * 64))
    with pytest.raises(ValueError, match="with T = 2 target tokens"):
        HeadEffects(np.zeros(2), {"cross": np.zeros((2, 4, 3))})
    with pytest.raises(ValueError, match=r"not \[8, 8, T\]"):
        PairEffects("cross", 2, 4, np.zeros((8, 7, 3)))


def test_heads_are_ranked_by_magnitude():
    changes = {
        "encoder": np.array([[[0.5, -0.1], [-2.0, 0.0]]]),
        "cross": np.array([[[1.5, 0.1], [-0.1, 0.0]]]),
    }
    found = HeadEffects(np.zeros(2), changes)
    assert [tuple(head) for head in found.ranked(0)] == [
        ("encoder", 0, 1, -2.0),
        ("cross", 0, 0, 1.5),
        ("encoder", 0, 0, 0.5),
        ("cross", 0, 1, -0.1),
    ]
    assert [head.change for head in found.ranked()] == pytest.approx([-2.0, 1.6, 0.4, -0.1])
