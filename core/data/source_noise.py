"""Sources as people type them: several at once, with commas, lower-cased, without a last mark."""

import random
import re
from collections.abc import Iterable, Iterator

TextPair = tuple[str, str]

BETWEEN = re.compile(r"(?<=\w{3})[.!] (\w)")  # not after an initial or a number
_LAST = re.compile(r"\s*[.!?]+$")
_REMEMBERED = 1000  # pairs that a later one may be concatenated to


def concatenated(pairs: Iterable[TextPair], share: float, up_to: int = 2) -> Iterator[TextPair]:
    """A random `share` of the pairs, each concatenated to earlier ones, in any order.

    People type more than one sentence, and longer text than a corpus of single ones shows (Nguyen,
    Murray & Chiang 2021). A text so made is of 2 to `up_to` pairs, each number as likely.
    """
    drawn = random.Random(1)
    for pair, earlier in _with_earlier(pairs, drawn):
        some = [drawn.choice(earlier)]
        if drawn.random() < share:
            if up_to > 2:
                some += drawn.choices(earlier, k=drawn.randrange(up_to - 1))
            yield in_a_row(drawn.sample([pair, *some], 1 + len(some)))


def noisy(pairs: Iterable[TextPair], share: float) -> Iterator[TextPair]:
    """A random `share` of the pairs, with their sources as people type them.

    A corpus holds well-written sentences, and a network that has seen no others is lost without a
    capital letter or a last mark; text with such noise mends that (Karpukhin et al. 2019). One in
    three is two sentences. What comes out as it was is left out.
    """
    drawn = random.Random(2)
    for pair, earlier in _with_earlier(pairs, drawn):
        another = drawn.choice(earlier)
        if drawn.random() < share:
            written = in_a_row(drawn.sample([pair, another], 2)) if drawn.random() < 1 / 3 else pair
            noised = with_noise(*written, drawn)
            if noised[0] != written[0]:
                yield noised


def with_noise(source: str, target: str, drawn: random.Random) -> TextPair:
    """A pair with its source lower-cased, with commas for full stops, or without a last mark.

    A target keeps its letters. It loses its last mark with its source: what a text does not end
    with, its translation does not end with.
    """
    if drawn.random() < 0.5:
        source = BETWEEN.sub(lambda match: f", {match[1].lower()}", source)
    if drawn.random() < 0.5:
        source, target = without_last_mark(source, target)
    case = drawn.choice(("kept", "lower", "lower first"))
    return lower_cased(source, case), target


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


def _with_earlier(
    pairs: Iterable[TextPair], drawn: random.Random
) -> Iterator[tuple[TextPair, list[TextPair]]]:
    """Each pair but the first, with those before it that are remembered."""
    earlier: list[TextPair] = []
    for count, pair in enumerate(pairs):
        if earlier:
            yield pair, earlier
        remember(earlier, pair, count, drawn)
