"""Intervals cover what they estimate, p-values are calibrated, and Holm's correction is right."""

import numpy as np
import pytest

from core.atlas.intervals import holm, interval, no_effect, p_values
from core.atlas.sums import bootstrap_weights

SENTENCES, DRAWS = 80, 500


@pytest.fixture(scope="module")
def replicates():
    """Return replicates of the change in loss per token, for many drawn corpora: [1 + R, DRAWS].

    The change of a sentence is skewed and grows with its length; its mean per token is 0.3.
    """
    rng = np.random.default_rng(5)
    tokens = rng.integers(4, 30, (SENTENCES, DRAWS))
    change = tokens * rng.exponential(0.3, (SENTENCES, DRAWS))
    weights = bootstrap_weights(range(SENTENCES)).T
    return (weights @ change) / (weights @ tokens)


def test_intervals_cover_the_true_value(replicates):
    """About 95 % do: 500 draws and a bootstrap over 80 sentences leave some error."""
    value, low, high = interval(replicates, SENTENCES).T
    np.testing.assert_array_equal(value, replicates[0])
    below, above = (high < 0.3).mean(), (low > 0.3).mean()
    assert 0.91 < 1 - below - above < 0.98
    assert 0.005 < above < below < 0.07  # skewed: samples often lack large values
    by_hand = np.sort(replicates[1:, 7])
    assert by_hand[24] < low[7] < by_hand[25] and by_hand[974] < high[7] < by_hand[975]


def test_p_values_of_no_change_are_calibrated(replicates):
    p = p_values(replicates - 0.3, SENTENCES)
    assert 0.02 < (p < 0.05).mean() < 0.09
    assert 0.4 < np.median(p) < 0.6
    assert p_values(replicates, SENTENCES).max() < 1e-4


def test_p_values_are_those_of_the_normal_distribution():
    """A change of ±1.96 standard errors has p = 0.05, one of 2.576 has p = 0.01."""
    error = np.random.default_rng(0).normal(size=1000)
    error = (error - error.mean()) / error.std(ddof=1)
    z = np.array([1.959964, -1.959964, 2.575829, 0.0])
    found = p_values(np.vstack([z, error[:, None] + z]), 9)
    np.testing.assert_allclose(found, [0.05, 0.05, 0.01, 1.0], atol=1e-6)


def test_rounding_errors_are_no_effect_but_a_constant_change_is():
    replicates = np.full((1001, 3), [2e-7, -0.5, 0.0])
    np.testing.assert_array_equal(p_values(replicates, 4, resolution=1e-6), [1.0, 0.0, 1.0])


def test_holm_by_hand():
    """p = 0.005·4, 0.01·3, 0.03·2, then 0.04·1 is raised to 0.06; NaN does not count as a test."""
    p = np.array([0.01, 0.04, np.nan, 0.03, 0.005])
    found = holm(p)
    np.testing.assert_allclose(found, [0.03, 0.06, np.nan, 0.06, 0.02], atol=1e-15)
    assert no_effect(found).tolist() == [False, True, True, True, False]
    np.testing.assert_array_equal(holm(np.array([0.6, 0.7])), [1.0, 1.0])
    assert no_effect(np.array([0.05, 0.0499])).tolist() == [True, False]


def test_a_single_sentence_has_no_interval():
    replicates = np.full((1001, 2), 0.4)
    replicates[1::3] = np.nan  # replicates that did not draw the sentence
    np.testing.assert_array_equal(interval(replicates, 1), [[0.4, np.nan, np.nan]] * 2)
    assert np.isnan(p_values(replicates, 1)).all()
    assert no_effect(holm(p_values(replicates, 1))).all()
    assert np.isfinite(interval(replicates, 2)).all()
