"""Direct logit attribution: terms add up, and predictions are exact in a linear network.

In the linear network, only a sum and the classifier follow the last cross-attention.
"""

import numpy as np
import pytest
import torch

from core.data.batches import collate, plan
from core.experiments.prediction import Agreement, prediction_error
from core.experiments.word_choice import rivals, true_change, word_choice
from core.model.baseline import copy_to_scratch
from core.record.capture import before_attention
from core.record.editing import edited
from core.record.edits import Edits
from core.text.tokenizer import EOS
from tests import small

SOURCE, TARGET = [9, 8, 7, 6, 11, EOS], [30, 9, 30, EOS]
STEP, WORDS = 2, (30, 17)
models = small.models(
    "pre-norm",
    "post-norm",
    "post-norm, no final norm",
    "tied with a bias, SiLU",
    "tied, learned positions",
)
KINDS = {"decoder": len(TARGET), "cross": len(SOURCE)}


@pytest.fixture(scope="module")
def linear():
    """Pre-norm, no final norm, and a last feed-forward layer with constant output."""
    baseline, scratch = small.pair(norm_first=True, final_norm=False)
    with torch.no_grad():
        baseline.transformer.decoder.layers[-1].linear2.weight.zero_()
    copy_to_scratch(baseline, scratch)
    return baseline, scratch


def off(*heads) -> Edits:
    return Edits(heads_off=frozenset(heads))


def difference(model, step=STEP, words=WORDS) -> float:
    batch = collate([(SOURCE, TARGET)])
    with torch.inference_mode():
        logits = model(batch.source, batch.target_in)[0, step]
    return (logits[words[0]] - logits[words[1]]).item()


@pytest.mark.parametrize("step", range(len(TARGET)))
def test_terms_add_up_to_the_logit_difference(models, step):
    for model in models:
        choice = word_choice(model, SOURCE, TARGET, step, WORDS)
        assert choice.difference == pytest.approx(difference(model, step), abs=1e-9)
        assert choice.terms.sum() == pytest.approx(choice.difference, abs=1e-6)
        assert choice.largest_error < 1e-6
        back = word_choice(model, SOURCE, TARGET, step, WORDS[::-1])
        assert np.abs(back.terms + choice.terms).max() < 1e-12
        assert choice.components[-1].what == "classifier bias"
        config = model.config
        assert (choice.terms[-1] == 0) == (config.tie_classifier and not config.tied_bias)


def test_edges_add_up_to_the_heads_term(models):
    for model in models:
        choice = word_choice(model, SOURCE, TARGET, STEP, WORDS)
        for kind, length in KINDS.items():
            edges = choice.edges[kind]
            assert edges.shape == choice.weights[kind].shape == (3, 4, length)
            assert np.abs(choice.weights[kind].sum(-1) - 1).max() < 1e-6
            for component, term in zip(choice.components, choice.terms, strict=True):
                if component.what == "head" and component.kind == kind:
                    own = edges[component.layer, component.head].sum()
                    assert own == pytest.approx(term, abs=1e-12)
                    assert choice.predicted(*component.place) == pytest.approx(-term, abs=1e-12)
        assert not choice.edges["decoder"][..., STEP + 1 :].any()
        first = [abs(term) for _, term in choice.largest(4)]
        assert first == sorted(np.abs(choice.terms))[:-5:-1]


def without_key(model, kind: str, layer: int, key: int):
    """Mask a key in one attention, which renormalises each row's weights over the other keys."""
    (site,) = [s for s in model.attention_sites() if (s.kind, s.layer) == (kind, layer)]

    def hide(site, call):
        mask_BQK = site.mask(call).clone()
        mask_BQK[..., key] = False
        return site.with_mask(call, mask_BQK[:, None], True)

    return before_attention([site], hide)


def test_predictions_are_exact_in_a_linear_network(linear):
    for model in linear:
        choice = word_choice(model, SOURCE, TARGET, STEP, WORDS)
        assert choice.largest_error < 1e-6
        for head in range(4):
            place = ("cross", 2, head)
            true = true_change(model, SOURCE, TARGET, STEP, WORDS, off(place))
            assert choice.predicted(*place) == pytest.approx(true, abs=1e-6)
            assert abs(true) > 1e-3
        for key in range(len(SOURCE)):
            predicted = sum(choice.predicted("cross", 2, head, key) for head in range(4))
            with without_key(model, "cross", 2, key):
                true = difference(model) - choice.difference
            assert predicted == pytest.approx(true, abs=1e-6)
            assert abs(true) > 1e-3


def test_removing_the_only_key_removes_the_head(linear):
    choice = word_choice(linear[1], SOURCE, TARGET, 0, WORDS)
    for layer, head in np.ndindex(3, 4):
        alone = choice.predicted("decoder", layer, head, 0)
        assert alone == pytest.approx(choice.predicted("decoder", layer, head), abs=1e-9)


def test_true_change_matches_edited_passes(models):
    for model in models:
        before = difference(model)
        for heads in ([("encoder", 0, 1)], [("cross", 1, 2), ("decoder", 0, 3)]):
            with edited(model, off(*heads)):
                after = difference(model)
            true = true_change(model, SOURCE, TARGET, STEP, WORDS, off(*heads))
            assert true == pytest.approx(after - before, abs=1e-9)
            assert abs(true) > 1e-4
        assert true_change(model, SOURCE, TARGET, STEP, WORDS, off()) == 0


def test_rivals_match_full_passes(models):
    for model in models:
        found = rivals(model, SOURCE, TARGET, STEP, 6)
        batch = collate([(SOURCE, TARGET)])
        with torch.inference_mode():
            logits = model(batch.source, batch.target_in)[0, STEP]
        chances = logits.softmax(-1).tolist()
        order = sorted(range(len(chances)), key=lambda i: -chances[i])
        own = TARGET[STEP]
        assert found.rank == 1 + order.index(own)
        assert found.probability == pytest.approx(chances[own], abs=1e-12)
        assert list(found.ids) == [i for i in order if i != own][:6]
        assert found.probabilities == pytest.approx([chances[i] for i in found.ids], abs=1e-12)
        for other, then in zip(found.ids, found.following, strict=True):
            written = collate([(SOURCE, [*TARGET[:STEP], other, EOS])])
            with torch.inference_mode():
                assert then == int(model(written.source, written.target_in)[0, STEP + 1].argmax())
    with pytest.raises(ValueError, match="step 4 does not exist"):
        rivals(models[1], SOURCE, TARGET, 4)


def test_nothing_follows_the_last_position():
    """As in a translation that was cut off at the longest length that the network takes."""
    for model in small.pair(max_length=len(TARGET)):
        last = len(TARGET) - 1
        assert set(rivals(model, TARGET, TARGET, last, 6).following) == {EOS}
        assert set(rivals(model, TARGET, TARGET, last - 1, 6).following) != {EOS}


def test_invalid_arguments_are_rejected(models):
    for step, words, message in (
        (4, WORDS, "step 4 does not exist: counted from 0, the last is 3"),
        (-1, WORDS, "step -1 does not exist"),
        (0, (40, 3), "id 40 does not exist: counted from 0, the last is 39"),
    ):
        with pytest.raises(ValueError, match=message):
            word_choice(models[1], SOURCE, TARGET, step, words)
    choice = word_choice(models[1], SOURCE, TARGET, STEP, WORDS)
    with pytest.raises(ValueError, match="encoder heads do not write the decoder's state"):
        choice.predicted("encoder", 0, 0)


def pairs():
    torch.manual_seed(2)
    lengths = torch.randint(2, 9, (7, 2)).tolist()
    return [(small.source_row(s), small.source_row(t)) for s, t in lengths]


def test_batched_predictions_match_single_sentences():
    for model in small.pair(norm_first=True, tie_classifier=True, tied_bias=True):
        counts = []
        found = prediction_error(model, pairs(), on_progress=counts.append)
        N = sum(len(target) for _, target in pairs())
        assert found.predicted.shape == found.true.shape == (N, 2 * 3 * 4)
        assert found.sentences == 7 and sum(counts) == 24
        n = 0
        for source, target in (pairs()[i] for batch in plan(pairs(), 2048) for i in batch):
            for step, own in enumerate(target):
                words = tuple(found.words[n])
                batch = collate([(source, target)])
                logits = model(batch.source, batch.target_in)[0, step].detach()
                logits[own] = -torch.inf
                assert words == (own, logits.argmax().item())
                if n % 4 == 0:
                    choice = word_choice(model, source, target, step, words)
                    for a in (0, 7, 23):
                        place = found.heads[a].place
                        predicted = choice.predicted(*place)
                        true = true_change(model, source, target, step, words, off(place))
                        assert found.predicted[n, a] == pytest.approx(predicted, abs=1e-6)
                        assert found.true[n, a] == pytest.approx(true, abs=1e-9)
                n += 1
        assert n == N


def test_sentences_are_taken_until_there_are_enough_tokens(models):
    lengths = [len(target) for _, target in pairs()]
    for tokens, sentences in ((1, 1), (lengths[0], 1), (lengths[0] + 1, 2), (999, 7)):
        found = prediction_error(models[1], pairs(), tokens)
        assert found.sentences == sentences
        assert len(found.words) == sum(lengths[:sentences])
    with pytest.raises(ValueError, match="no sentence pair: at least 1"):
        prediction_error(models[1], [])


def test_agreement_measures_error_and_correlation_of_predictions(linear):
    some = Agreement.of(np.array([1.0, 2.0, 4.0]), np.array([2.0, 2.0, -1.0]))
    assert some.count == 3
    assert some.mean_error == pytest.approx(2.0) and some.mean_true == pytest.approx(5 / 3)
    assert some.correlation == pytest.approx(-0.9449, abs=1e-4)
    assert np.isnan(Agreement.of(np.array([1.0, 1.0]), np.array([0.0, 1.0])).correlation)
    found = prediction_error(linear[1], pairs())
    last = np.array([head.place[:2] == ("cross", 2) for head in found.heads])
    exact, other = (
        found.agreement(np.broadcast_to(chosen, found.true.shape)) for chosen in (last, ~last)
    )
    assert exact.mean_error < 1e-6 < 1e-2 < other.mean_error
    assert exact.correlation == pytest.approx(1)
    largest = found.largest(3)
    assert (largest.sum(1) == 3).all()
    for row, chosen in zip(np.abs(found.predicted), largest, strict=True):
        assert row[chosen].min() >= row[~chosen].max()
