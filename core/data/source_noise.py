"""Source noise: sentence concatenation, lower-casing and missing final punctuation."""

import random
import re

TextPair = tuple[str, str]

SENTENCE_BREAK = re.compile(r"(?<=\w{3})[.!] (\w)")  # not after an initial or a number below 100
_FINAL_MARKS = re.compile(r"\s*[.!?]+$")
_RESERVOIR = 1000  # earlier pairs that a later one may be concatenated with


def lower_cased(source: str, case: str) -> str:
    """Lower-case all letters ("lower"), the first letter ("lower first"), or none."""
    if case == "lower":
        return source.lower()
    return source[:1].lower() + source[1:] if case == "lower first" else source


def without_final_marks(source: str, target: str) -> TextPair:
    """Remove the final punctuation of both sides if both end with punctuation."""
    if _FINAL_MARKS.search(source) and _FINAL_MARKS.search(target):
        return _FINAL_MARKS.sub("", source), _FINAL_MARKS.sub("", target)
    return source, target


def concatenated_groups(pairs: list[TextPair], number: int) -> list[TextPair]:
    """Concatenate every `number` consecutive pairs; the last group may be smaller."""
    return [concatenated(pairs[i : i + number]) for i in range(0, len(pairs), number)]


def concatenated(pairs: list[TextPair]) -> TextPair:
    """Join the sources of several pairs, and their targets."""
    sources, targets = zip(*pairs, strict=True)
    return " ".join(sources), " ".join(targets)


def add_to_reservoir(
    reservoir: list[TextPair], pair: TextPair, count: int, rng: random.Random
) -> None:
    """Add a pair to a uniform sample of at most 1,000; `count` pairs came before it."""
    if len(reservoir) < _RESERVOIR:
        reservoir.append(pair)
    elif (index := rng.randrange(count + 1)) < _RESERVOIR:
        reservoir[index] = pair
