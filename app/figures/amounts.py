"""Formats statistics of claims with their units: shares, points, BLEU, correlations."""

from app.look.numbers import number, percent

_NAMES = {name: f" {name}" for name in ("points", "BLEU", "layers", "heads", "nats")}
_PLACES = {
    "points": 1,
    "BLEU": 2,
    "layers": 1,
    "heads": 1,
    "correlation": 2,
    "ratio": 2,
    "nats": 3,
    "AUROC": 2,
}


def scaled(value: float, unit: str) -> float:
    """Return a value as drawn on its axis: shares and points times 100."""
    return 100 * value if unit in ("share", "points") else value


def amount(value: float, unit: str, named: bool = True, more: int = 0) -> str:
    """Format a value: 38 %, +3.1 points, 0.25 BLEU. `named=False` leaves out a unit's name.

    `more` adds decimals, to tell close values apart.
    """
    if unit == "share":
        return f"{number(100 * value, more)}\u00a0%" if more else percent(value)
    sign = "+" if unit in ("points", "layers") else ""
    text = number(scaled(value, unit), _PLACES[unit] + more, sign)
    return text + (_NAMES.get(unit, "") if named else "")


def with_interval(value: float, low: float, high: float, unit: str) -> str:
    """Format a value and its interval: 38 % [31 %, 44 %].

    Show one more decimal if the value would otherwise look like one of its bounds.
    """
    for more in (0, 1):
        texts = [amount(bound, unit, named=False, more=more) for bound in (low, value, high)]
        if len(set(texts)) == len({low, value, high}):
            break
    return f"{amount(value, unit, more=more)} [{texts[0]}, {texts[2]}]"


def spread(values: tuple[float, ...], unit: str) -> str:
    """Format the smallest and the largest of some values: 10 %, or 10 % to 12 %.

    Counts, of heads or layers, have no decimals where they are whole: 4 heads.
    """
    is_count = unit in ("heads", "layers") and all(value == round(value) for value in values)
    texts = [amount(value, unit, more=-is_count) for value in (min(values), max(values))]
    return " to ".join(dict.fromkeys(texts))


def axis_title(unit: str) -> str:
    """Return the title of an axis in this unit."""
    titles = {
        "share": "percent",
        "points": "percentage points",
        "correlation": "rank correlation",
    }
    return titles.get(unit, unit)
