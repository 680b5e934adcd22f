"""Sources as people type them: several at once, with commas, lower-cased, without a last mark."""

import random
import re

TextPair = tuple[str, str]

BETWEEN = re.compile(r"(?<=\w{3})[.!] (\w)")  # not after an initial or a number
_LAST = re.compile(r"\s*[.!?]+$")
_REMEMBERED = 1000  # pairs that a later one may be concatenated to


def lower_cased(source: str, case: str) -> str:
    """A source with all letters lower-cased ("lower"), the first ("lower first"), or none."""
    if case == "lower":
        return source.lower()
    return source[:1].lower() + source[1:] if case == "lower first" else source


def without_last_mark(source: str, target: str) -> TextPair:
    """A pair without the marks at its end, if both sides have some."""
    if _LAST.search(source) and _LAST.search(target):
        return _LAST.sub("", source), _LAST.sub("", target)
    return source, target


def several_at_once(pairs: list[TextPair], number: int) -> list[TextPair]:
    """Texts of so many pairs that follow each other; the last may be of fewer."""
    return [in_a_row(pairs[i : i + number]) for i in range(0, len(pairs), number)]


def in_a_row(some: list[TextPair]) -> TextPair:
    """Pairs as one: their sources one after the other, and their targets."""
    sources, targets = zip(*some, strict=True)
    return " ".join(sources), " ".join(targets)


def remember(earlier: list[TextPair], pair: TextPair, count: int, drawn: random.Random) -> None:
    """Add the pair behind `count` others to those that a later one may be concatenated to.

    No more than 1,000 are remembered, and each pair so far is as likely as any other to be.
    """
    if len(earlier) < _REMEMBERED:
        earlier.append(pair)
    elif (place := drawn.randrange(count + 1)) < _REMEMBERED:
        earlier[place] = pair
