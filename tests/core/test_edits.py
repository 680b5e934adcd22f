"""Edits change what they say in both models alike, in a pass and in a search, and leave nothing."""

import math

import numpy as np
import pytest
import torch

from core.config import DecodeConfig
from core.data.batches import Batch
from core.model.baseline import Baseline, copy_to_baseline
from core.model.build import build
from core.record.activations import masks
from core.record.editing import edited, source_mask, target_mask
from core.record.edits import DOUBLED, OFF, STRETCHED, EditError, Edits, PositionEdit
from core.search.beam import search
from core.text.tokenizer import BOS, PAD
from core.translator import InputError, Translator
from tests import small

SENTENCE = small.SENTENCES[0][0]
POSITIONS = {
    "off": OFF,
    "doubled": DOUBLED,
    "stretched": STRETCHED,
    "shifted": PositionEdit(shift=3),
    "shifted back": PositionEdit(shift=-3),
    "past the table": PositionEdit(shift=1000),
    "shuffled": PositionEdit.shuffled(7, 5),
}
EDITS = {
    "no causal mask": Edits(causal_mask=False),
    "no padding mask": Edits(padding_mask=False),
    "no mask": Edits(causal_mask=False, padding_mask=False),
    "two places hidden": Edits(hidden_source=(1, 3)),
    "hidden, and padding open": Edits(hidden_source=(0,), padding_mask=False),
    **{f"source {name}": Edits(source_positions=places) for name, places in POSITIONS.items()},
    "both sides": Edits(source_positions=STRETCHED, target_positions=PositionEdit.shuffled(1, 4)),
    "everything": Edits(False, False, (2,), OFF, DOUBLED),
}
edits = pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)


@pytest.fixture(scope="module", params=[False, True], ids=["post-norm", "pre-norm"])
def models(request):
    return small.pair(norm_first=request.param)


def marks(model) -> list:
    """Everything that an edit could leave on a model."""
    hooks = [
        (name, hook)
        for name, module in model.named_modules()
        for hook in (*module._forward_hooks, *module._forward_pre_hooks)
    ]
    return [*hooks, *(name for name in vars(model) if name in ("encode", "decode"))]


@torch.inference_mode()
def test_empty_edits_are_bit_equal(models):
    for model in models:
        before = model(*small.batch(padding=True))
        with edited(model, Edits()):
            assert torch.equal(model(*small.batch(padding=True)), before)


@edits
@torch.inference_mode()
def test_both_models_do_the_same_and_are_restored(models, edits):
    source, target = small.batch(padding=True)
    baseline, scratch = models
    before = [model(source, target) for model in models]
    with edited(baseline, edits), edited(scratch, edits):
        theirs, ours = baseline(source, target), scratch(source, target)
    real = target != PAD
    assert torch.allclose(theirs[real], ours[real], rtol=0, atol=1e-12)
    assert (ours[real] - before[1][real]).abs().max() > 1e-3  # the edit did something
    for model, logits in zip(models, before, strict=True):
        assert marks(model) == []
        assert torch.equal(model(source, target), logits)


@torch.inference_mode()
def test_an_exception_leaves_nothing(models):
    for model in models:
        with pytest.raises(RuntimeError, match="oops"), edited(model, EDITS["everything"]):
            model(*small.batch(padding=True))
            assert marks(model)
            raise RuntimeError("oops")
        assert marks(model) == []


def test_masks_are_edited_once_at_a_time(models):
    for model in models:
        with edited(model, Edits(hidden_source=(1,))):
            second = edited(model, Edits(padding_mask=False))
            with pytest.raises(RuntimeError, match="do not nest"), second:
                pass
            assert marks(model)
        assert marks(model) == []


@torch.inference_mode()
def test_positions_of_a_side_are_edited_once_at_a_time(models):
    for model in models:
        table = model.embeddings.source_positions
        with edited(model, Edits(source_positions=DOUBLED)):
            doubled = table(5).clone()
            for inner in (Edits(source_positions=OFF), Edits(source_positions=DOUBLED)):
                with pytest.raises(RuntimeError, match="do not nest"), edited(model, inner):
                    pass
            both = Edits(target_positions=OFF, source_positions=OFF, hidden_source=(1,))
            with pytest.raises(RuntimeError, match="do not nest"), edited(model, both):
                pass
            assert torch.equal(table(5), doubled)  # as the first edit says, and no other
            with edited(model, Edits(target_positions=OFF)):  # the other side is free
                assert not model.embeddings.target_positions(5).any()
            assert len(marks(model)) == 1
        assert marks(model) == []


@edits
@torch.inference_mode()
def test_every_attention_is_told_the_edited_masks(models, edits):
    """Against the masks drawn by hand from the ids; what the modules were told, not what we say."""
    source, target = small.batch(padding=True)
    (B, S), T = source.shape, target.shape[1]
    keys = (source != PAD).numpy() | (not edits.padding_mask)
    keys[:, list(edits.hidden_source)] = False
    fed = (target != PAD).numpy() | (not edits.padding_mask)
    past = np.tri(T, dtype=bool) | (not edits.causal_mask)
    expected = {
        "encoder": np.broadcast_to(keys[:, None], (B, S, S)),
        "decoder": fed[:, None] & past,
        "cross": np.broadcast_to(keys[:, None], (B, T, S)),
    }
    assert np.array_equal(source_mask(source, edits).numpy(), keys[:, None, None])
    assert np.array_equal(target_mask(target, edits)[:, 0].numpy(), expected["decoder"])
    for model in models:
        with edited(model, edits):
            told = masks(model, Batch(source, target, target))
        assert len(told) == 8
        for kind, mask in told:
            assert np.array_equal(mask.numpy(), expected[kind]), kind


@pytest.mark.parametrize("name", POSITIONS)
@torch.inference_mode()
def test_positions_are_the_formula_at_other_places(models, name):
    """Number by number from paper §3.5, with the place that each edit names."""
    places, d_model, length = POSITIONS[name], models[0].config.d_model, 5
    order = places.order or range(length)
    at = {
        "off": range(length),
        "doubled": range(length),
        "stretched": [2 * p for p in range(length)],
        "shifted": [p + 3 for p in range(length)],
        "shifted back": [p - 3 for p in range(length)],
        "past the table": [p + 1000 for p in range(length)],
        "shuffled": order,
    }[name]
    size = {"off": 0, "doubled": 2}.get(name, 1)
    angles = [[p / 10000 ** (2 * (d // 2) / d_model) for d in range(d_model)] for p in at]
    formula = [[size * (math.sin, math.cos)[d % 2](a) for d, a in enumerate(r)] for r in angles]
    for model in models:
        ids = small.ids(1, length)
        plain = model.embeddings.source_table(ids) * math.sqrt(d_model)
        with edited(model, Edits(source_positions=places, target_positions=places)):
            assert np.allclose(model.embeddings.source(ids)[0] - plain[0], formula, atol=2e-7)
            whole = model.embeddings.target_positions(length)
            steps = [model.embeddings.target_positions(1, p)[0] for p in range(length)]
        assert torch.equal(torch.stack(steps), whole)  # a step of a search gets the same row
        assert np.allclose(whole, formula, atol=2e-7)


def test_a_shuffle_is_an_order_that_its_seed_decides():
    orders = [PositionEdit.shuffled(seed, 9).order for seed in range(20)]
    assert all(sorted(order) == list(range(9)) for order in orders)
    assert len(set(orders)) > 15 and tuple(range(9)) not in orders
    assert PositionEdit.shuffled(3, 9) == PositionEdit.shuffled(3, 9)
    assert PositionEdit.shuffled(3, 1).order == (0,) and PositionEdit.shuffled(3, 0).order == ()
    assert PositionEdit.shuffled(0, 2).order == (1, 0)
    assert PositionEdit(order=(1, 0), shift=2).rows(0, 4) == [3, 2, 4, 5]


@pytest.mark.parametrize("order", [(0, 2), (0, 0), (1,), (-1, 0)])
def test_what_is_no_order_is_refused(order):
    with pytest.raises(EditError, match="is not a permutation of the positions 0 to"):
        PositionEdit(order=order)


@pytest.mark.parametrize("hidden", [(-1,), (3, -2)])
def test_a_hidden_place_is_counted_from_0(hidden):
    with pytest.raises(EditError, match="must be counted from 0"):
        Edits(hidden_source=hidden)


def test_a_place_that_is_not_there_cannot_be_hidden():
    with pytest.raises(EditError, match="position 9 cannot be hidden: there are 9 tokens"):
        source_mask(small.ids(1, 9), Edits(hidden_source=(9,)))


@torch.inference_mode()
def test_a_learned_table_has_an_end():
    _, model = small.pair(learned_positions=True, max_length=12)
    source, target = small.ids(1, 6), small.ids(1, 4, first=BOS)
    table = model.embeddings.source_positions.weight
    with edited(model, Edits(source_positions=PositionEdit(shift=6))):
        assert torch.equal(model.embeddings.source_positions(6), table[6:])
        model(source, target)
    for places, row in ((PositionEdit(shift=7), 12), (PositionEdit(shift=-1), -1)):
        match = f"position {row} was never learned: this model's table ends at 11"
        with (
            pytest.raises(EditError, match=match),
            edited(model, Edits(source_positions=places)),
        ):
            model(source, target)
    assert marks(model) == []


SEARCHED = {name: e for name, e in EDITS.items() if e.causal_mask}


@pytest.mark.parametrize("edits", SEARCHED.values(), ids=SEARCHED)
@pytest.mark.parametrize("beam", [1, 3])
def test_the_search_runs_under_the_edits(models, edits, beam):
    """The scratch model searches with a cache, the baseline feeds the whole prefix each time."""
    source, _ = small.batch(padding=True)
    found = []
    for model in models:
        with edited(model, edits):
            found.append(search(model, source, DecodeConfig(beam=beam)))
    for theirs, ours in zip(*found, strict=True):
        assert [h.ids for h in theirs] == [h.ids for h in ours]
        assert [h.log_prob for h in theirs] == pytest.approx([h.log_prob for h in ours], abs=1e-9)


@pytest.fixture(scope="module", params=["scratch", "baseline"])
def translator(request, checkpoint_folder):
    found = Translator.load(checkpoint_folder, device="cpu")
    return found if request.param == "scratch" else found.other_implementation()


@edits
def test_a_record_shows_the_edited_pass_and_is_checked_from_outside(translator, edits):
    target = None if edits.causal_mask else small.SENTENCES[0][1]
    record = translator.inspect(SENTENCE, target, edits)
    assert [check.name for check in record.checks if not check.passed] == []
    assert record.search.endswith(", edited")
    assert not record.encoder[..., list(edits.hidden_source)].any()
    assert not record.cross[..., list(edits.hidden_source)].any()
    assert record.encoder_mask.all(-1).any() == (not edits.hidden_source)
    past = np.tri(len(record.target_in), dtype=bool)
    assert np.array_equal(record.decoder_mask, past | (not edits.causal_mask))
    rows = edits.source_positions.rows(0, len(record.source))
    sines = edits.source_positions.scale * np.sin(rows)
    assert np.allclose(record.source_positions[:, 0], sines, atol=1e-5)
    if record.hypotheses:
        assert record.log_prob == pytest.approx(record.hypotheses[0].log_prob, abs=1e-3)


def test_the_outside_check_is_not_talked_round(translator):
    """A record made under an edit is doubted by a check that was not told of it."""
    from core.record.checks import check
    from core.record.teacher_forced import teacher_forced_pass

    edits = Edits(hidden_source=(1,))
    record = translator.inspect(SENTENCE, None, edits)
    source, target = ([t.id for t in side] for side in (record.source, record.target_out))
    with translator.exclusive_model() as model:
        seen = teacher_forced_pass(model, source, target, edits, [h.ids for h in record.hypotheses])
    tokenizers = translator._source, translator._target
    assert all(line.passed for line in check(record, seen.evidence, tokenizers, edits))
    lines = check(record, seen.evidence, tokenizers)
    wrong = {line.name for line in lines if not line.passed}
    assert wrong == {"Recomputed outside the model", "A masked cell is exactly 0"}


def test_the_future_leaks_only_without_the_causal_mask(translator):
    """Another last word changes earlier rows if, and only if, the future is open."""
    first, last = small.SENTENCES[0][1], small.SENTENCES[0][1].replace("meadow", "shirt")
    for causal in (True, False):
        a, b = (
            translator.inspect(SENTENCE, t, Edits(causal_mask=causal)).alternative_log_probs[0]
            for t in (first, last)
        )
        assert np.array_equal(a, b) == causal


def test_edits_without_an_answer_are_one_line(translator):
    with pytest.raises(InputError, match="decoding requires the causal mask"):
        translator.inspect(SENTENCE, None, Edits(causal_mask=False))
    length = len(translator.inspect(SENTENCE).source)
    with pytest.raises(InputError, match="all source tokens are hidden"):
        translator.inspect(SENTENCE, None, Edits(hidden_source=tuple(range(length))))
    with pytest.raises(EditError, match=f"position {length} cannot be hidden"):
        translator.inspect(SENTENCE, None, Edits(hidden_source=(length,)))
    untouched = translator.inspect(SENTENCE)
    assert untouched.id == translator.inspect(SENTENCE, None, Edits()).id


def test_what_is_held_and_fed(translator):
    assert translator.tokens(SENTENCE, "source") == translator.inspect(SENTENCE).source
    with translator.exclusive_model() as model:
        assert isinstance(model, Baseline) == (translator.card.architecture == "baseline")
        assert translator._lock.locked()
    assert not translator._lock.locked()


def test_the_twin_by_hand_is_the_same():
    """Guards the tests above: pair() really is two architectures with one set of weights."""
    baseline, scratch = small.pair()
    again = build("baseline", scratch.config).double().eval()
    copy_to_baseline(scratch, again)
    for a, b in zip(baseline.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
