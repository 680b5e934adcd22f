"""Number formats, token labels and colours."""

import math
import sys

import numpy as np
import pytest

from app.figures import style
from app.look.glossary import TERMS, meaning
from app.look.labels import label, labels
from app.look.numbers import digits, is_even, number, percent, scientific
from app.look.palette import STEPS, diverging_table, sequential_table
from tests.app.test_figures import word


@pytest.mark.parametrize(
    ("formatted", "text"),
    [
        (number(-0.12345), "−0.1235"),
        (number(-math.inf), "−∞"),
        (number(1234.5), "1,234.5000"),
        (number(math.nan), ""),
        (number(0.25, 1, sign="+"), "+0.2"),
        (number(-1e9, 0), "−1,000,000,000"),
        (number(-0.004, 2), "0.00"),
        (number(0.0, 2, sign="+"), "0.00"),
        (number(-0.006, 2), "−0.01"),
        (scientific(0.0), "0"),
        (scientific(0.25), "0.25"),
        (scientific(-0.5), "−0.5"),
        (scientific(1.0), "1"),
        (scientific(4.768e-7), "4.8\u00a0·\u00a010⁻⁷"),
        (scientific(-1e-12), "−1.0\u00a0·\u00a010⁻¹²"),
        (scientific(12345.0), "1.2\u00a0·\u00a010⁴"),
        (scientific(sys.float_info.max), "not finite"),
        (scientific(float("nan")), "not finite"),
    ],
)
def test_numbers_have_a_true_minus_and_zero_has_no_sign(formatted, text):
    assert formatted == text


SHARES = [(0, "0"), (0.0004, "<0.1"), (0.0041, "0.4"), (0.005, "0.5"), (0.0051, "1"), (0.584, "58")]
SHARES += [(0.994, "99"), (0.996, "99.6"), (0.9991, "99.9"), (0.99999, ">99.9"), (1.0, "100")]


@pytest.mark.parametrize(("share", "text"), SHARES)
def test_0_and_100_percent_are_exact(share, text):
    assert percent(share) == f"{text}\u00a0%"


@pytest.mark.parametrize(
    ("low", "high", "places"),
    [(0.565, 0.639, 3), (0.004, 0.006, 4), (-12.9, 14.9, 0), (-1.08, -0.19, 2), (1.0, 1.0, 6)],
)
def test_an_interval_decides_the_decimals(low, high, places):
    assert digits(low, high) == places
    assert is_even((low + high) / 2, low, high)
    assert low == high or not is_even(low + (high - low) / 3, low, high)


def test_scales_are_the_palettes():
    """Compare the scales with the palette's published stops at 0, 0.2, … 1."""
    stops = {
        "light": ("f3f6fa", "a8cbfb", "6b9eea", "4172c2", "24498f", "0b245b"),
        "dark": ("181b21", "20406d", "266ab4", "509be0", "95cbf8", "e5f8ff"),
    }
    for theme, expected in stops.items():
        scale = style.sequential(theme)
        at = [t for t, _ in scale]
        colours = np.array([[int(v) for v in c[4:-1].split(",")] for _, c in scale])
        for t, colour in zip(np.linspace(0, 1, 6), expected, strict=True):
            mixed = [np.interp(t, at, colours[:, channel]) for channel in range(3)]
            assert np.abs(np.subtract(mixed, list(bytes.fromhex(colour)))).max() <= 2
        lower, middle, upper = (
            [int(v) for v in style.diverging(theme)[i][1][4:-1].split(",")] for i in (0, 16, 32)
        )
        assert max(middle) - min(middle) <= 1  # zero has no hue
        assert lower[0] > lower[2] and upper[2] > upper[0]  # orange below, blue above


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_tables_hold_the_scales_colours(theme):
    """Both ends, and zero in signed scales, have the same colours in tables and in figures."""

    def stop(scale, i):
        return [int(v) for v in scale[i][1][4:-1].split(",")]

    weights, signed = sequential_table(theme), diverging_table(theme)
    assert weights.shape == signed.shape == (STEPS, 3)
    for table, scale, ends in (
        (weights, style.sequential(theme), ((0, 0), (255, 32))),
        (signed, style.diverging(theme), ((0, 0), (128, 16), (255, 32))),
    ):
        for step, i in ends:
            assert table[step].tolist() == stop(scale, i)
        assert (np.diff(table, axis=0) != 0).any(1).mean() > 0.9  # few repeated colours
    assert np.array_equal(signed[1], signed[0])  # 127 steps on each side of 128


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Haus", "Haus"),
        ("", "␣"),
        ("  ", "␣␣"),
        ("a\u200bb", "a‹U+200B›b"),
        ("\u00adx", "‹U+00AD›x"),
        ("nb\u00a0s", "nb‹U+00A0›s"),
        ("right\u202eleft", "right‹U+202E›left"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("❤\ufe0f", "❤\ufe0f"),
        ("\ufe0f", "‹U+FE0F›"),
        ("\ud83d", "?"),
        ("a b", "a b"),
    ],
)
def test_labels_make_invisible_characters_visible(text, shown):
    assert label(word(text)) == shown


@pytest.mark.parametrize(
    ("texts", "first", "expected"),
    [
        (("in", "dem", "in"), 1, ["in₁", "dem", "in₃"]),
        (("in", "dem", "in"), 0, ["in₀", "dem", "in₂"]),
        # Without isolation, “ضسو” (1 %) reads as 1 % in front of the word.
        (("ضسو", "של", "ضسو"), 1, ["\u2068ضسو₁\u2069", "\u2068של\u2069", "\u2068ضسو₃\u2069"]),
    ],
)
def test_repeated_words_are_numbered_and_right_to_left_ones_isolated(texts, first, expected):
    assert labels([word(text) for text in texts], first) == expected


def test_each_term_is_explained_in_at_most_two_sentences():
    for term, text in TERMS.items():
        assert text.endswith(".") and len(text) <= 200, term
    assert meaning("logit", "<eos>").split("\n\n")[1].startswith("\\<eos>")
