"""Mask experiments equal separate passes; a model without a causal mask learns to cheat.

Mask values −∞, −10⁴ and −10⁹ are checked against torch and the model's own attention.
"""

import dataclasses
import math

import numpy as np
import pytest
import torch

from core.analysis.leaks import leak
from core.data.batches import collate
from core.experiments.cheating import WORDS, cheating
from core.experiments.mask_value import masked_rows
from core.experiments.padding import padding_effect
from core.model.transformer import scaled_dot_product_attention
from core.record.capture import capture
from core.record.editing import edited
from core.record.edits import Edits
from core.text.tokenizer import BOS, EOS, PAD
from core.translator import Translator
from tests import small

SOURCES = [[9, 8, EOS], [7, 6, 11, 12, 13, EOS]]
TARGETS = [[30, 31, 32, EOS], [33, EOS]]


@pytest.fixture(scope="module")
def records(checkpoint_folder):
    translator = Translator.load(checkpoint_folder, device="cpu")
    source, target = small.SENTENCES[0]
    edits = Edits(causal_mask=False)
    return translator.inspect(source, target), translator.inspect(source, target, edits)


def test_leak_compares_two_records(records):
    masked, opened = records
    found = leak(masked, opened)
    assert np.allclose(np.log(found.masked), masked.log_probs)
    assert np.allclose(np.log(found.open), opened.log_probs)
    gains = [
        math.exp(b) - math.exp(a) for a, b in zip(masked.log_probs, opened.log_probs, strict=True)
    ]
    assert found.gained == pytest.approx(np.mean(gains)) and max(map(abs, gains)) > 1e-4
    for row in range(len(masked.target_in)):
        by_hand = opened.decoder[:, :, row, row + 1 :].sum(-1).mean()
        assert found.on_future[row] == pytest.approx(by_hand, abs=1e-6)
    assert found.on_future[0] > 0 and found.on_future[-1] == 0


def test_leak_requires_equal_targets(records):
    masked, opened = records
    last = opened.target_out[0]
    swapped = dataclasses.replace(opened, target_out=(*opened.target_out[:-1], last))
    with pytest.raises(ValueError, match="different targets"):
        leak(masked, swapped)


@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
@torch.inference_mode()
def test_unmasked_padding_changes_a_sentence(architecture):
    model = dict(zip(("baseline", "scratch"), small.pair(), strict=True))[architecture]
    found = padding_effect(model, SOURCES, TARGETS, 0)
    source, fed = torch.tensor([SOURCES[0]]), torch.tensor([[BOS, *TARGETS[0][:-1]]])
    following = torch.tensor(TARGETS[0])[:, None]
    alone = model(source, fed)[0].softmax(-1).gather(1, following)[:, 0].numpy()
    assert np.allclose(found.alone, alone, atol=1e-12)
    assert np.allclose(found.masked, alone, atol=1e-12)  # with the mask, the batch changes nothing
    assert np.abs(found.open - alone).max() > 1e-4
    assert found.padded == 3
    # The embedding of <pad> is 0: only the encoding of its position is left.
    padded = torch.tensor([[*SOURCES[0], PAD, PAD, PAD]])
    x = model.embeddings.source(padded)
    assert torch.equal(x[0, 3:], model.embeddings.source_positions(6)[3:])
    batch = collate(list(zip(SOURCES, TARGETS, strict=True)))
    with edited(model, Edits(padding_mask=False)), capture(model) as captured:
        model(batch.source, batch.target_in)
    shares = captured.maps("encoder")[:, 0, :, :3, 3:].sum(-1)  # of the three real queries
    assert found.on_padding == pytest.approx(shares.mean().item(), abs=1e-9)


def test_a_model_without_causal_mask_learns_to_cheat(monkeypatch):
    """On random targets, the masked model can only guess; the other reads off the answer."""
    monkeypatch.setattr("core.experiments.cheating.STEPS", 100)
    points = list(cheating())
    assert points[-1].masked == pytest.approx(1 / WORDS, abs=0.01)
    assert points[-1].open > 0.95
    assert points[0].open < 0.1 and [p.step for p in points] == list(range(0, 101, 10))


SCORES = np.array([0.3, -1.2, 2.0, 0.7, 5.0])
MASK = np.array([True, True, True, False, False])


@pytest.fixture(scope="module")
def rows():
    return {(row.precision, row.fill): row for row in masked_rows(SCORES, MASK)}


def test_there_is_a_row_for_every_fill_and_precision(rows):
    fills = (-math.inf, -1e4, -1e9)
    assert list(rows) == [(p, f) for p in ("float32", "bfloat16") for f in fills]
    rounded = [rows["bfloat16", fill].rounded for fill in fills]
    assert rounded == [-math.inf, -9984.0, -998244352.0]  # bfloat16 has 8 bits of precision


def test_with_an_unmasked_cell_only_rounding_differs(rows):
    expected = np.exp(SCORES[:3]) / np.exp(SCORES[:3]).sum()
    for (precision, fill), row in rows.items():
        assert row.on_masked == 0 and not row.weights[3:].any()
        limit = 1e-7 if precision == "float32" else 5e-3
        assert row.change <= limit and np.allclose(row.weights[:3], expected, atol=limit)
        assert (row.scores[3:] == row.rounded).all()
        assert np.array_equal(row.weights, rows[precision, -math.inf].weights), fill
    assert rows["bfloat16", -1e9].change > 1e-5  # rounding


def test_with_all_cells_masked_the_fills_differ(rows):
    for (precision, fill), row in rows.items():
        if fill == -math.inf:
            assert np.isnan(row.all_written).all() and np.isnan(row.all_added).all()
        else:
            assert row.all_written == pytest.approx([1 / 5] * 5, abs=2e-3)
        added = torch.tensor(SCORES, dtype=getattr(torch, precision)) + fill
        expected = added.softmax(-1).double().numpy()
        assert np.array_equal(row.all_added, expected, equal_nan=True)
    plain = np.exp(SCORES) / np.exp(SCORES).sum()
    # Adding −10⁴ in float32 preserves the score differences, so the mask has no effect.
    assert np.allclose(rows["float32", -1e4].all_added, plain, atol=1e-3)
    # −10⁹, and both fills in bfloat16, round the differences away: all weights are equal.
    for row in (rows["float32", -1e9], rows["bfloat16", -1e4], rows["bfloat16", -1e9]):
        assert row.all_added == pytest.approx([1 / 5] * 5, abs=2e-3)


def test_the_models_attention_agrees(rows):
    """With all keys masked, −∞ gives zeros, by design, and −10,000 gives uniform weights."""
    q, k = torch.ones(1, 1, 1, 1), torch.tensor(SCORES, dtype=torch.float32)[None, None, :, None]
    nothing = torch.zeros(1, 5, dtype=torch.bool)
    for score, expected in [(None, [0.0] * 5), (-1e4, rows["float32", -1e4].all_written)]:
        _, weights = scaled_dot_product_attention(q, k, k, nothing, mask_score=score)
        assert weights.flatten().tolist() == pytest.approx(expected)
        _, weights = scaled_dot_product_attention(q, k, k, torch.tensor(MASK), mask_score=score)
        exact = rows["float32", -math.inf].weights
        assert weights.flatten().tolist() == pytest.approx(exact, abs=1e-7)


def test_fully_masked_rows_are_rejected():
    with pytest.raises(ValueError, match="every cell of the row is masked"):
        masked_rows(np.zeros(3), np.zeros(3, dtype=bool))
