"""What −∞, −10000 and −1e9 do in a closed cell, against torch and the model's own attention."""

import math

import numpy as np
import pytest
import torch

from core.analysis.closing import closings
from core.model.attention import scaled_dot_product_attention

SCORES = np.array([0.3, -1.2, 2.0, 0.7, 5.0], dtype=np.float32)
OPEN = np.array([True, True, True, False, False])


def rows():
    weights = np.exp(SCORES[:3]) / np.exp(SCORES[:3]).sum()
    return closings(np.array([*weights, 0, 0], dtype=np.float32), OPEN)


def test_a_row_with_open_cells_is_the_same_by_infinity_and_by_ten_thousand():
    infinite, finite, half, billion = rows()
    assert (infinite.score, infinite.precision) == (-math.inf, "float32")
    assert infinite.on_closed == finite.on_closed == half.on_closed == billion.on_closed == 0
    assert infinite.change == 0 and finite.change < 1e-7
    assert 1e-5 < half.change < 1e-2  # float16 has three digits
    assert billion.change == half.change


def test_a_row_with_nothing_open_is_not():
    infinite, finite, half, billion = rows()
    assert math.isnan(infinite.nothing_open) and math.isnan(billion.nothing_open)
    assert finite.nothing_open == pytest.approx(1 / 5)
    assert half.nothing_open == pytest.approx(1 / 5, abs=1e-3)


def test_the_models_own_attention_agrees():
    """−∞ gives zeros here by design, −10000 looks at every key alike."""
    q, k = torch.ones(1, 1, 1, 1), torch.tensor(SCORES)[None, None, :, None]
    for score, expected in [(None, 0.0), (-1e4, rows()[1].nothing_open)]:
        nothing = torch.zeros(1, 5, dtype=torch.bool)
        _, weights = scaled_dot_product_attention(q, k, k, nothing, mask_score=score)
        assert weights.flatten().tolist() == pytest.approx([expected] * 5)
        _, weights = scaled_dot_product_attention(q, k, k, torch.tensor(OPEN), mask_score=score)
        assert weights.flatten()[~torch.tensor(OPEN)].tolist() == [0, 0]
        assert weights.flatten()[2].item() == pytest.approx(math.exp(2) / np.exp(SCORES[:3]).sum())


def test_a_row_without_an_open_cell_is_refused():
    with pytest.raises(ValueError, match="no open cell"):
        closings(np.zeros(3, dtype=np.float32), np.zeros(3, dtype=bool))
