"""Mask and position edits have the same effect on both models, in passes and in decoding."""

import numpy as np
import pytest
import torch

from core.config import DecodeConfig
from core.data.batches import Batch
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
    "two positions hidden": Edits(hidden_source=(1, 3)),
    "hidden, and padding open": Edits(hidden_source=(0,), padding_mask=False),
    **{f"source {name}": Edits(source_positions=places) for name, places in POSITIONS.items()},
    "both sides": Edits(source_positions=STRETCHED, target_positions=PositionEdit.shuffled(1, 4)),
    "everything": Edits(False, False, (2,), OFF, DOUBLED),
}
METHODS = ("encode", "decode", "attend", "forward", "change_state")
models = small.models("post-norm", "pre-norm")
edits = pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)


def traces(model) -> list:
    """Return everything that an edit could leave behind on a model."""
    hooks = [
        (name, hook)
        for name, module in model.named_modules()
        for hook in (*module._forward_hooks, *module._forward_pre_hooks)
    ]
    modules = [model, *(site.module for site in model.attention_sites())]
    methods = [vars(module).get(name) for module in modules for name in METHODS]
    return [*hooks, *filter(None, methods)]


@torch.inference_mode()
def test_empty_edits_leave_the_output_bit_equal(models):
    for model in models:
        before = model(*small.batch(padding=True))
        with edited(model, Edits()):
            assert torch.equal(model(*small.batch(padding=True)), before)


@edits
@torch.inference_mode()
def test_every_attention_receives_the_edited_masks(models, edits):
    """Compare the masks passed to the modules with masks built by hand from the ids."""
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
            passed_masks = masks(model, Batch(source, target, target))
        assert len(passed_masks) == 8
        for kind, mask in passed_masks:
            assert np.array_equal(mask.numpy(), expected[kind]), kind


def test_a_shuffle_is_a_permutation_set_by_its_seed():
    orders = [PositionEdit.shuffled(seed, 9).order for seed in range(20)]
    assert all(sorted(order) == list(range(9)) for order in orders)
    assert len(set(orders)) > 15 and tuple(range(9)) not in orders
    assert PositionEdit.shuffled(3, 9) == PositionEdit.shuffled(3, 9)
    assert PositionEdit.shuffled(3, 1).order == (0,) and PositionEdit.shuffled(3, 0).order == ()
    assert PositionEdit.shuffled(0, 2).order == (1, 0)
    assert PositionEdit(order=(1, 0), shift=2).rows(0, 4) == [3, 2, 4, 5]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PositionEdit(order=(0, 2)), "not a permutation of the positions 0 to 1"),
        (lambda: PositionEdit(order=(0, 0)), "not a permutation"),
        (lambda: PositionEdit(order=(1,)), "not a permutation"),
        (lambda: PositionEdit(order=(-1, 0)), "not a permutation"),
        (lambda: Edits(hidden_source=(3, -2)), "must be counted from 0"),
        (
            lambda: source_mask(small.ids(1, 9), Edits(hidden_source=(9,))),
            "position 9 cannot be hidden: there are 9 tokens",
        ),
    ],
)
def test_invalid_positions_are_rejected(make, message):
    with pytest.raises(EditError, match=message):
        make()


@torch.inference_mode()
def test_positions_beyond_a_learned_table_are_rejected():
    _, model = small.pair(learned_positions=True, max_length=12)
    source, target = small.ids(1, 6), small.ids(1, 4, first=BOS)
    table = model.embeddings.source_positions.weight
    with edited(model, Edits(source_positions=PositionEdit(shift=6))):
        assert torch.equal(model.embeddings.source_positions(6), table[6:])
        model(source, target)
    for places, row in ((PositionEdit(shift=7), 12), (PositionEdit(shift=-1), -1)):
        match = f"position {row} was never learned: this model's table holds 0 to 11"
        with pytest.raises(EditError, match=match), edited(model, Edits(source_positions=places)):
            model(source, target)
    assert traces(model) == []


SEARCHED = {name: e for name, e in EDITS.items() if e.causal_mask}


@pytest.mark.parametrize("edits", SEARCHED.values(), ids=SEARCHED)
def test_decoding_runs_under_the_edits(models, edits):
    """The scratch model decodes with a KV cache, the baseline recomputes the whole prefix."""
    beam = 3 if models[0].config.norm_first else 1
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
def test_a_record_of_an_edited_pass_passes_its_checks(translator, edits):
    target = None if edits.causal_mask else small.SENTENCES[0][1]
    record = translator.inspect(SENTENCE, target, edits)
    assert [check.name for check in record.checks if not check.passed] == []
    assert record.search.endswith(", edited")
    if record.hypotheses:
        assert record.log_prob == pytest.approx(record.hypotheses[0].log_prob, abs=1e-3)


def test_the_future_leaks_only_without_the_causal_mask(translator):
    """Another last word changes earlier rows if and only if there is no causal mask."""
    first, last = small.SENTENCES[0][1], small.SENTENCES[0][1].replace("meadow", "shirt")
    for causal in (True, False):
        a, b = (
            translator.inspect(SENTENCE, t, Edits(causal_mask=causal)).alternative_log_probs[0]
            for t in (first, last)
        )
        assert np.array_equal(a, b) == causal


def test_impossible_edits_are_rejected(translator):
    with pytest.raises(InputError, match="decoding requires the causal mask"):
        translator.inspect(SENTENCE, None, Edits(causal_mask=False))
    length = len(translator.inspect(SENTENCE).source)
    with pytest.raises(InputError, match="all source tokens are hidden"):
        translator.inspect(SENTENCE, None, Edits(hidden_source=tuple(range(length))))
    with pytest.raises(EditError, match=f"position {length} cannot be hidden"):
        translator.inspect(SENTENCE, None, Edits(hidden_source=(length,)))
    untouched = translator.inspect(SENTENCE)
    assert untouched.id == translator.inspect(SENTENCE, None, Edits()).id
