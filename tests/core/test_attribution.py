"""Attribution by source words, checked against definitions and independent computations."""

import dataclasses
import itertools
import math
from contextlib import ExitStack

import numpy as np
import pytest
import torch
from scipy import stats

from core.analysis.attribution import Attributions, Shapley, Subsets, agreement, source_words
from core.analysis.rollout import rollout
from core.experiments import attribution as module
from core.experiments.attribution import METHODS, attributions, log_probs_seeing, shapley
from core.record.capture import capture
from core.record.editing import edited
from core.record.edits import Edits
from core.record.record import RecordToken
from core.text.tokenizer import BOS, EOS
from tests import small

SOURCE, TARGET = [9, 8, 7, 6, 11, 15, 21, EOS], [30, 9, 31, 5, EOS]
WORDS = ((0,), (1, 2), (3,), (4,), (5, 6))
models = small.models("post-norm", "pre-norm", "learned positions", "mask −10000")


@torch.inference_mode()
def log_probs(model, hidden=()) -> np.ndarray:
    """Return the target tokens' log-probabilities in a pass with some positions hidden."""
    with edited(model, Edits(hidden_source=tuple(hidden))):
        logits = model(torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET[:-1]]]))[0]
    return logits.log_softmax(-1)[range(len(TARGET)), TARGET].numpy()


# Shapley values of games and of models.


def words(n: int) -> tuple:
    return tuple((i,) for i in range(n))


def plans(n: int) -> list[Subsets]:
    return [Subsets.every(words(n)), Subsets.sampled(words(n), 8, seed=3)]


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_additive_games_are_recovered_exactly(n):
    """Each word adds a fixed amount."""
    parts_nT = np.random.default_rng(n).normal(size=(n, 3))

    def game(visible):
        return visible @ parts_nT - 4.0

    for plan in plans(n):
        found = plan.shapley(game(plan.visible), (7, 8, 9))
        for values in (found.values, found.low, found.high):
            np.testing.assert_allclose(values, parts_nT.T, rtol=0, atol=1e-12)
        assert found.largest_error < 1e-9 and np.allclose(found.nothing, -4)


def by_definition(model) -> np.ndarray:
    """Return the mean gain over all orders of words, from one edited pass per subset: [T, n]."""
    n = len(WORDS)
    seen = {}
    for bits in itertools.product([False, True], repeat=n):
        hidden = [p for word, shown in zip(WORDS, bits, strict=True) if not shown for p in word]
        seen[bits] = log_probs(model, hidden)
    found = np.zeros((len(TARGET), n))
    for order in itertools.permutations(range(n)):
        shown = [False] * n
        for word in order:
            before = seen[tuple(shown)]
            shown[word] = True
            found[:, word] += seen[tuple(shown)] - before
    return found / math.factorial(n)


def test_shapley_values_match_their_definition(models, monkeypatch):
    monkeypatch.setattr(module, "_TOKENS", 64)  # four batches
    for model in models:
        steps: list[tuple[int, int]] = []
        found = shapley(
            model, SOURCE, TARGET, WORDS, on_progress=lambda *at, to=steps: to.append(at)
        )
        np.testing.assert_allclose(found.values, by_definition(model), rtol=0, atol=1e-11)
        assert found.largest_error < 1e-9 and np.abs(found.values).max() > 1e-3
        hidden = [place for word in WORDS for place in word]
        np.testing.assert_allclose(found.everything, log_probs(model), rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.nothing, log_probs(model, hidden), rtol=0, atol=1e-12)
        assert found.exact and found.subsets == 32 and found.target == tuple(TARGET)
        assert np.array_equal(found.low, found.values)
        assert steps == [(8, 32), (16, 32), (24, 32), (32, 32)]


def test_sampled_values_come_from_the_sampled_subsets(models):
    for model in models:
        plan = Subsets.sampled(WORDS, 16, seed=3)
        visible_nS = [[p for word, shown in zip(WORDS, row, strict=True) if not shown for p in word]
                      for row in plan.visible]  # fmt: skip
        values_NT = np.stack([log_probs(model, hidden) for hidden in visible_nS])
        expected = plan.shapley(values_NT, tuple(TARGET))
        found = shapley(model, SOURCE, TARGET, WORDS, exact=False, permutations=16, seed=3)
        assert not found.exact and found.largest_error < 1e-9
        for name in ("values", "low", "high", "draws"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-11)
        other = shapley(model, SOURCE, TARGET, WORDS, exact=False, permutations=16, seed=4)
        assert not np.array_equal(other.values, found.values)


def test_the_interval_covers_95_percent():
    """Check the coverage on a random game, over 200 seeds."""
    n = 6
    values = np.random.default_rng(4).normal(size=(2**n, 1))
    every = Subsets.every(words(n))
    exact = every.shapley(values, (7,)).values
    inside = []
    for seed in range(200):
        plan = Subsets.sampled(words(n), 40, seed)
        codes = plan.visible @ (1 << np.arange(n))
        found = plan.shapley(values[codes], (7,))
        inside.append((found.low <= exact) & (exact <= found.high))
    assert 0.92 < np.mean(inside) < 0.98


# Visible positions.


def test_dropped_positions_equal_hidden_ones(models):
    """The batch has rows of several lengths, not sorted by length."""
    kept = [(0, 2, 7), (7,), tuple(range(8)), (1, 5, 7), (0, 1, 2, 3, 6), (7,)]
    for model in models:
        found = log_probs_seeing(model, SOURCE, TARGET, kept)
        expected = [log_probs(model, set(range(8)) - set(places)) for places in kept]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        with pytest.raises(ValueError, match="every source token is hidden"):
            log_probs_seeing(model, SOURCE, TARGET, [(7,), ()])
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


# The other methods.


@torch.inference_mode()
def attention_calls(model) -> list:
    with capture(model) as captured:
        model(torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET[:-1]]]))
    return captured.calls()


def merged(tokens_TS: np.ndarray) -> np.ndarray:
    return np.stack([tokens_TS[:, list(word)].sum(-1) for word in WORDS], -1)


def test_weights_norms_and_leave_one_out_match_their_definitions(models):
    for model in models:
        scores = attributions(model, SOURCE, TARGET, WORDS).scores
        assert tuple(scores) == METHODS
        cross = [call for call in attention_calls(model) if call.site.kind == "cross"]
        weights = np.mean([call.weights[0].numpy() for call in cross], (0, 1))
        np.testing.assert_allclose(scores["weights"], merged(weights), rtol=0, atol=1e-12)
        norms = np.mean([value_norm(call) for call in cross], (0, 1))
        np.testing.assert_allclose(scores["norms"], merged(norms), rtol=0, atol=1e-12)
        hidden = np.stack([log_probs(model) - log_probs(model, word) for word in WORDS], -1)
        np.testing.assert_allclose(scores["leave-one-out"], hidden, rtol=0, atol=1e-12)


@torch.inference_mode()
def contributions(call) -> np.ndarray:
    """Return α_qk v_k W_h^O, computed head by head: [H, Q, K, D]."""
    *_, value, output = call.site.projections()
    found = []
    for head, weights in enumerate(call.weights[0]):
        own = slice(4 * head, 4 * head + 4)
        v = call.memory[0] @ value.weight[own].T
        v = v if value.bias is None else v + value.bias[own]
        found.append(weights[..., None] * (v @ output.weight[:, own].T)[None])
    return torch.stack(found).numpy()


def value_norm(call) -> np.ndarray:
    return np.linalg.norm(contributions(call), axis=-1)


def test_norm_rollout_matches_its_definition(models):
    """The expected value uses layer inputs that this test reads with its own hooks."""
    for model in models:
        calls = attention_calls(model)
        encoder = [call for call in calls if call.site.kind == "encoder"]
        entered = []
        with ExitStack() as hooks, torch.inference_mode():
            for layer in model.stack("encoder").layers:
                enter = lambda m, args: entered.append(args[0][0])  # noqa: B023, E731
                hooks.enter_context(layer.register_forward_pre_hook(enter))
            model.encode(torch.tensor([SOURCE]))
        carried = np.eye(len(SOURCE))
        for call, x_SD in zip(encoder, entered, strict=True):
            mixed = contributions(call).sum(0) + np.eye(len(SOURCE))[..., None] * x_SD.numpy()
            mixed = np.linalg.norm(mixed, axis=-1)
            carried = mixed / mixed.sum(-1, keepdims=True) @ carried
        norms = np.mean([value_norm(k) for k in calls if k.site.kind == "cross"], (0, 1))
        flow = norms / norms.sum(-1, keepdims=True) @ carried
        scores = attributions(model, SOURCE, TARGET, WORDS).scores
        np.testing.assert_allclose(scores["norm rollout"], merged(flow), rtol=0, atol=1e-12)


def test_gradient_times_input_matches_finite_differences(models, monkeypatch):
    """The finite differences scale one token's embedding at a time."""

    def scaled(original, place, factor):
        def look_up(ids, table):
            rows = original(ids, table).clone()
            if ids.shape[1] == len(SOURCE):
                rows[:, place] *= factor
            return rows

        return look_up

    for model in models:
        original = model.embeddings.look_up
        found = np.zeros((len(TARGET), len(SOURCE)))
        for place in range(len(SOURCE)):
            for sign in (1, -1):
                with monkeypatch.context() as patch:
                    look_up = scaled(original, place, 1 + sign * 1e-5)
                    patch.setitem(vars(model.embeddings), "look_up", look_up)
                    found[:, place] += sign * log_probs(model) / 2e-5
        scores = attributions(model, SOURCE, TARGET, WORDS).scores
        np.testing.assert_allclose(scores["gradient × input"], merged(found), rtol=0, atol=1e-8)
        assert np.abs(found).max() > 1e-3
        assert all(parameter.grad is None for parameter in model.parameters())


def test_value_zeroing_matches_zeroed_values(models):
    """Hook the scratch model's value projection; the baseline must give the same result."""
    baseline, scratch = models
    expected = []
    for word in WORDS:

        def zero(module, args, output, word=word):
            output = output.clone()
            output[:, list(word)] = 0
            return output

        with ExitStack() as hooks:
            for site in scratch.attention_sites():
                if site.kind != "decoder":
                    hooks.enter_context(site.module.value.register_forward_hook(zero))
            expected.append(log_probs(scratch))
    expected = log_probs(scratch) - np.stack(expected)
    for model in (scratch, baseline):
        found = attributions(model, SOURCE, TARGET, WORDS).scores["value zeroing, all layers"]
        np.testing.assert_allclose(found, expected.T, rtol=0, atol=1e-11)
    assert np.abs(expected).max() > 1e-3


# Agreement.


def exact_agreement(scores: dict, values: np.ndarray):
    """Return the agreement of scores with exact Shapley values [T, n]."""
    T, n = values.shape
    target, total = tuple(range(T)), values.sum(-1)
    referee = Shapley(words(n), target, values, values, values, total, np.zeros(T), 2**n, 0)
    return agreement(Attributions(words(n), target, scores), referee)


@pytest.mark.parametrize("n", [2, 3, 7, 12])
def test_spearman_matches_scipy_with_and_without_ties(n):
    a, b = np.random.default_rng(6).normal(size=(2, 20, n))
    for first, second in ((a, b), (a, np.round(b)), (np.round(a), np.round(b))):
        rhos = exact_agreement({"some": first}, second)["some"].spearman
        for x, y, rho in zip(first, second, rhos, strict=True):
            if len(set(x)) == 1 or len(set(y)) == 1:
                assert math.isnan(rho)
            else:
                assert rho == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


def test_agreement_of_each_method_with_the_shapley_values():
    values = np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]])
    scores = {"same": values * 9, "flat": np.ones((2, 3)), "rows": values[[0, 0]]}
    found = exact_agreement(scores, values)
    assert found["same"].spearman.tolist() == [1, 1]
    assert math.isnan(found["flat"].of()) and math.isnan(found["flat"].of(0))
    assert found["rows"].spearman.tolist() == [1, -1] and found["rows"].of() == 0
    assert math.isnan(exact_agreement({"some": np.ones((1, 1))}, np.ones((1, 1)))["some"].of())
    referee = Shapley(words(3), (7, 9), values, values, values, values.sum(-1), np.zeros(2), 8, 0)
    with pytest.raises(ValueError, match="have different words or target tokens"):
        agreement(Attributions(words(3), (7, 8), scores), referee)


def sampled_game(seed: int, orders: int = 64):
    """Return sampled and exact Shapley values of a random game of 6 words and 2 tokens."""
    values = np.random.default_rng(4).normal(size=(2**6, 2))
    plan = Subsets.sampled(words(6), orders, seed)
    exact = Subsets.every(words(6)).shapley(values, (7, 8))
    return plan.shapley(values[plan.visible @ (1 << np.arange(6))], (7, 8)), exact, plan, values


def test_draws_average_an_order_and_its_reverse():
    found, _, plan, values = sampled_game(3, orders=8)
    assert found.draws.shape == (4, 2, 6)
    for m in range(4):
        expected = np.zeros((2, 6))
        for order in plan.orders[2 * m : 2 * m + 2]:
            code = 0
            for word in order:
                expected[:, word] += (values[code | 1 << word] - values[code]) / 2
                code |= 1 << word
        np.testing.assert_allclose(found.draws[m], expected, atol=1e-12)
    np.testing.assert_allclose(found.values, found.draws.mean(0), atol=1e-12)
    margin = stats.t.ppf(0.975, 3) * stats.sem(found.draws, axis=0)
    np.testing.assert_allclose(found.high - found.values, margin, atol=1e-12)
    np.testing.assert_allclose(found.values - found.low, margin, atol=1e-12)


def test_agreement_intervals_are_bootstrap_percentiles():
    found = sampled_game(5)[0]
    scores = {
        "near": found.values + 0.01,
        "far": np.random.default_rng(8).normal(size=(2, 6)),
        "turned": -found.values,
    }
    agrees = agreement(Attributions(words(6), (7, 8), scores), found)
    chosen = np.random.default_rng(0).integers(32, size=(500, 32))[:40]
    for method, score in scores.items():
        again = [
            [stats.spearmanr(score[t], found.draws[row][:, t].mean(0))[0] for t in (0, 1)]
            for row in chosen
        ]
        one = agrees[method]
        np.testing.assert_allclose(one.resampled[:40], again, atol=1e-9)
        assert one.resampled.shape == (500, 2)
        for token, rho in ((0, one.resampled[:, 0]), (None, one.resampled.mean(1))):
            assert one.interval(token) == pytest.approx(np.quantile(rho, (0.025, 0.975)), abs=1e-9)
    assert agrees["near"].differs(agrees["turned"]) and agrees["turned"].differs(agrees["near"], 0)
    assert not agrees["near"].differs(agrees["near"])
    difference = agrees["near"].resampled.mean(1) - agrees["far"].resampled.mean(1)
    low, high = np.quantile(difference, (0.025, 0.975))
    assert agrees["near"].differs(agrees["far"]) == bool(low > 0 or high < 0)


def test_exact_agreement_has_no_interval():
    exact = sampled_game(0)[1]
    scores = {"same": exact.values, "flat": np.ones((2, 6))}
    agrees = agreement(Attributions(words(6), (7, 8), scores), exact)
    assert agrees["same"].resampled.shape == (0, 2)
    assert agrees["same"].interval() == agrees["same"].interval(0) == (1.0, 1.0)
    assert agrees["same"].differs(agrees["flat"])


# With a translator and a record.


def test_experiments_use_the_words_of_the_record(translator):
    record = translator.inspect("Ein Hund läuft über die Wiese.")
    own = source_words(record.source)
    found = shapley(translator, record)
    assert found.words == own and found.subsets == 2 ** len(own)
    assert found.target == tuple(token.id for token in record.target_out)
    np.testing.assert_allclose(found.everything, record.log_probs, rtol=0, atol=1e-5)
    assert found.largest_error < 1e-9
    scores = attributions(translator, record)
    by_hand = rollout(record)["cross"].mean((0, 1))
    by_hand = np.stack([by_hand[:, list(word)].sum(-1) for word in own], -1)
    np.testing.assert_allclose(scores.scores["rollout"], by_hand, rtol=0, atol=1e-5)
    assert set(agreement(scores, found)) == set(METHODS)


def token(text: str, starts: bool = True, special: bool = False) -> RecordToken:
    return RecordToken(9, text, text, starts, special, False)


def test_source_words_are_split_as_in_the_explorer():
    tokens = [
        token("Hünd"), token("chen", False), token(".", False), token("Nein", False),
        token("²", False), token("-", True), token("fach", False), token("<eos>", special=True),
    ]  # fmt: skip
    assert source_words(tokens) == ((0, 1), (2,), (3, 4), (5,), (6,))
    assert source_words(tokens[-1:]) == ()
    assert source_words([tokens[-1], *tokens[1:2]]) == ((1,),)


def test_invalid_arguments_are_rejected(models, translator, monkeypatch):
    model = models[0]
    for question in (attributions, shapley):
        with pytest.raises(ValueError, match="no source word to attribute to: at least 1"):
            question(model, [EOS], TARGET, ())
        for odd in (((0,), (0, 1)), ((0, 9),), ((0,), (-1,)), (tuple(range(8)),)):
            with small.refused("do not fit 8 source tokens"):
                question(model, SOURCE, TARGET, odd)
    long = list(range(4, 17))
    with pytest.raises(ValueError, match="13 source words are too many for exact values: the limi"):
        shapley(model, [*long, EOS], TARGET, words(13), exact=True)
    for count in (2, 5):
        with pytest.raises(ValueError, match=f"{count} permutations cannot be drawn"):
            shapley(model, SOURCE, TARGET, WORDS, exact=False, permutations=count)
    for n, exact, subsets in ((10, None, 1024), (11, None, None), (11, True, 2048)):
        source, own = [*range(4, 4 + n), EOS], words(n)
        first = next(shapley.steps(model, source, TARGET, own, exact=exact, permutations=4))
        assert first.total == subsets or (subsets is None and first.total <= 4 * (n - 1) + 2)
    record = translator.inspect("Ein Hund läuft.")
    with pytest.raises(ValueError, match="made with other weights"):
        next(shapley(translator, dataclasses.replace(record, weights_sha256="0" * 64)))


def test_inconsistent_results_are_rejected():
    scores = np.ones((2, 3))
    with pytest.raises(ValueError, match=r"weights have shape \(2, 3\), not \[target, words\]"):
        Attributions(words(2), (7, 8), {"weights": scores})
    with pytest.raises(ValueError, match="low"):
        Shapley(words(3), (7, 8), scores, scores[:1], scores, scores[:, 0], scores[:, 0], 8, 0)
