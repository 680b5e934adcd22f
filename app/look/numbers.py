"""Numbers as people read them: with fixed decimals, of any size, and shares."""

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, places: int = 4, sign: str = "") -> str:
    """Fixed decimals: −0.1234, 1,234.5000, −∞; nothing for NaN. With sign="+", +0.1234.

    What rounds to zero has no sign: 0.00, never −0.00.
    """
    if value != value:
        return ""
    if float(f"{value:.{places}f}") == 0:
        value, sign = 0.0, ""
    return f"{value:{sign},.{places}f}".replace("-", "−").replace("inf", "∞")


def scientific(value: float) -> str:
    """A number of any size for people: 0, 0.25, −4.8 · 10⁻⁷; what is not finite says so."""
    sign = "−" if value < 0 else ""
    size = abs(value)
    if not size < 1e300:  # the checklist writes the largest float there is for it
        return "not finite"
    if size == 0:
        return "0"
    if 0.001 <= size < 10_000:
        return f"{sign}{size:.3g}"
    digits, exponent = f"{size:.1e}".split("e")
    return f"{sign}{digits}\u00a0·\u00a010{str(int(exponent)).translate(_SUPERSCRIPT)}"


def within(error: float) -> str:
    """How closely a sum adds up, to follow the sentence that says so: to within 3.6 · 10⁻¹⁵."""
    return f" to within {scientific(error)}" if error else " exactly"


def percent(share: float) -> str:
    """A share of 1, as the explorer writes it: 58 %, with a no-break space.

    Only nothing is "0 %" and only all is "100 %": 0.996 is "99.6 %", 0.9999 ">99.9 %".
    """
    share = share or 0.0  # not −0
    near_an_end = 0 < share <= 0.005 or 0.995 <= share < 1
    text = f"{100 * share:.{1 if near_an_end else 0}f}"
    text = {"0.0": "<0.1", "100.0": ">99.9"}.get(text, text) if near_an_end else text
    return f"{text}\u00a0%"
