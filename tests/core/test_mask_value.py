"""Mask values −∞, −10⁴ and −10⁹, checked against torch and the model's own attention."""

import math

import numpy as np
import pytest
import torch

from core.experiments.mask_value import masked_rows
from core.model.transformer import scaled_dot_product_attention

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
