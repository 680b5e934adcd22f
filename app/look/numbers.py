"""Number formats: fixed decimals, scientific notation, percentages."""

import math

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, places: int = 4, sign: str = "") -> str:
    """Format with fixed decimals: −0.1234, 1,234.5000, −∞; "" for NaN. With sign="+", +0.1234.

    A value that rounds to zero has no sign: 0.00, never −0.00.
    """
    if value != value:
        return ""
    if float(f"{value:.{places}f}") == 0:
        value, sign = 0.0, ""
    return f"{value:{sign},.{places}f}".replace("-", "−").replace("inf", "∞")


def weights_count(parameters: int) -> str:
    """Return a model's size: 74.7 million weights."""
    if parameters < 100_000:
        return f"{parameters:,} weights"
    return f"{parameters / 1e6:.1f} million weights"


def digits(low: float, high: float) -> int:
    """Return the decimals that show two digits of half an interval: 3 for 0.565 to 0.639."""
    half = (high - low) / 2
    return min(6, max(0, 1 - math.floor(math.log10(half)))) if half > 0 else 6


def is_even(value: float, low: float, high: float) -> bool:
    """Whether a value is so near the middle of its interval that ± describes the interval."""
    return abs((low + high) / 2 - value) <= 0.1 * (high - low)


def scientific(value: float) -> str:
    """Format a number of any magnitude: 0, 0.25, −4.8 · 10⁻⁷, "not finite"."""
    sign = "−" if value < 0 else ""
    size = abs(value)
    if not size < 1e300:  # the checklist stores the largest float instead of infinity
        return "not finite"
    if size == 0:
        return "0"
    if 0.001 <= size < 10_000:
        return f"{sign}{size:.3g}"
    digits, exponent = f"{size:.1e}".split("e")
    return f"{sign}{digits}\u00a0·\u00a010{str(int(exponent)).translate(_SUPERSCRIPT)}"


def significant(value: float, digits: int = 2) -> str:
    """Format a positive number with some significant digits: 0.94, 1.4, 14, 2,600."""
    places = digits - 1 - math.floor(math.log10(value))
    return number(round(value, places), max(0, places))


def within(error: float) -> str:
    """Say how closely a sum adds up, as the end of a sentence: to within 3.6 · 10⁻¹⁵."""
    return f" to within {scientific(error)}" if error else " exactly"


def percent(share: float) -> str:
    """Format a share as the explorer does: 58 %, with a no-break space.

    Only exactly 0 is "0 %" and only exactly 1 is "100 %": 0.996 is "99.6 %", 0.9999 is ">99.9 %".
    """
    share = share or 0.0  # not −0
    near_an_end = 0 < share <= 0.005 or 0.995 <= share < 1
    text = f"{100 * share:.{1 if near_an_end else 0}f}"
    text = {"0.0": "<0.1", "100.0": ">99.9"}.get(text, text) if near_an_end else text
    return f"{text}\u00a0%"
