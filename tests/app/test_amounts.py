"""Statistics of claims are shown with units and enough digits to distinguish their bounds."""

import pytest

from app.figures.amounts import spread, with_interval


@pytest.mark.parametrize(
    "value, low, high, unit, shown",
    [
        (0.38, 0.31, 0.44, "share", "38 % [31 %, 44 %]"),
        (0.8985, 0.8960, 0.9008, "share", "89.8 % [89.6 %, 90.1 %]"),
        (1.0050, 0.9999, 1.0102, "ratio", "1.005 [1.000, 1.010]"),
        (0.0139, 0.0138, 0.0140, "points", "+1.39 points [+1.38, +1.40]"),
        (2.0, 2.0, 2.0, "layers", "+2.0 layers [+2.0, +2.0]"),
    ],
)
def test_close_bounds_get_one_more_digit(value, low, high, unit, shown):
    assert with_interval(value, low, high, unit).replace("\u00a0", " ") == shown


@pytest.mark.parametrize(
    "values, unit, shown",
    [
        ((4,), "heads", "4 heads"),
        ((3, 1.5), "layers", "+1.5 layers to +3.0 layers"),
        ((0.91, 0.83), "share", "83 % to 91 %"),
        ((13.56,), "BLEU", "13.56 BLEU"),
    ],
)
def test_whole_counts_have_no_decimals(values, unit, shown):
    assert spread(values, unit).replace("\u00a0", " ") == shown
