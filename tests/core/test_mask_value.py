"""What −∞, −10⁴ and −10⁹ do in a masked cell, against torch and the model's own attention."""

import math

import numpy as np
import pytest
import torch

from core.experiments.mask_value import masked_rows
from core.model.transformer import scaled_dot_product_attention

SCORES = np.array([0.3, -1.2, 2.0, 0.7, 5.0])
MASK = np.array([True, True, True, False, False])


@pytest.fixture(scope="module")
def ways():
    return {(way.precision, way.fill): way for way in masked_rows(SCORES, MASK)}


def test_every_fill_in_every_precision(ways):
    fills = (-math.inf, -1e4, -1e9)
    assert list(ways) == [(p, f) for p in ("float32", "bfloat16") for f in fills]
    held = [ways["bfloat16", fill].held for fill in fills]
    assert held == [-math.inf, -9984.0, -998244352.0]  # eight bits of mantissa


def test_with_an_unmasked_cell_only_rounding_changes(ways):
    expected = np.exp(SCORES[:3]) / np.exp(SCORES[:3]).sum()
    for (precision, fill), way in ways.items():
        assert way.on_masked == 0 and not way.weights[3:].any()
        limit = 1e-7 if precision == "float32" else 5e-3
        assert way.change <= limit and np.allclose(way.weights[:3], expected, atol=limit)
        assert (way.scores[3:] == way.held).all()
        assert np.array_equal(way.weights, ways[precision, -math.inf].weights), fill
    assert ways["bfloat16", -1e9].change > 1e-5  # its digits are few


def test_with_all_masked_each_fill_tells_another_story(ways):
    for (precision, fill), way in ways.items():
        if fill == -math.inf:
            assert np.isnan(way.all_written).all() and np.isnan(way.all_added).all()
        else:
            assert way.all_written == pytest.approx([1 / 5] * 5, abs=2e-3)
        row = torch.tensor(SCORES, dtype=getattr(torch, precision))
        expected = (row + fill).softmax(-1).double().numpy()
        assert np.array_equal(way.all_added, expected, equal_nan=True)
    plain = np.exp(SCORES) / np.exp(SCORES).sum()
    # −10⁴ added in float32 leaves the scores their differences: the mask has done nothing.
    assert np.allclose(ways["float32", -1e4].all_added, plain, atol=1e-3)
    # −10⁹, and either in bfloat16, swallows them: every cell alike.
    for way in (ways["float32", -1e9], ways["bfloat16", -1e4], ways["bfloat16", -1e9]):
        assert way.all_added == pytest.approx([1 / 5] * 5, abs=2e-3)


def test_the_models_own_attention_agrees(ways):
    """−∞ gives zeros here by design, −10000 looks at every key alike."""
    q, k = torch.ones(1, 1, 1, 1), torch.tensor(SCORES, dtype=torch.float32)[None, None, :, None]
    nothing = torch.zeros(1, 5, dtype=torch.bool)
    for score, expected in [(None, [0.0] * 5), (-1e4, ways["float32", -1e4].all_written)]:
        _, weights = scaled_dot_product_attention(q, k, k, nothing, mask_score=score)
        assert weights.flatten().tolist() == pytest.approx(expected)
        _, weights = scaled_dot_product_attention(q, k, k, torch.tensor(MASK), mask_score=score)
        exact = ways["float32", -math.inf].weights
        assert weights.flatten().tolist() == pytest.approx(exact, abs=1e-7)


def test_a_row_of_masked_cells_only_is_refused():
    with pytest.raises(ValueError, match="every cell of the row is masked"):
        masked_rows(np.zeros(3), np.zeros(3, dtype=bool))
