"""Text as people type it: several sentences, commas between them, small letters, no last mark."""

import random
import re
from collections.abc import Iterable, Iterator

TextPair = tuple[str, str]

_REMEMBERED = 1000  # pairs that a later one may be joined to
_BETWEEN = re.compile(r"(?<=\w{3})[.!] (\w)")  # not after an initial or a number
_LAST = re.compile(r"\s*[.!?]+$")


def joined(pairs: Iterable[TextPair], share: float) -> Iterator[TextPair]:
    """A random `share` of the pairs, each joined to an earlier one, in either order.

    People type more than one sentence, and longer text than a corpus of single ones shows (Nguyen,
    Murray & Chiang 2021).
    """
    drawn = random.Random(1)
    for pair, earlier in _with_an_earlier(pairs, drawn):
        if drawn.random() < share:
            yield _join(pair, earlier, drawn)


def typed(pairs: Iterable[TextPair], share: float) -> Iterator[TextPair]:
    """A random `share` of the pairs, with their sources as people type them.

    A corpus holds well-written sentences, and a network that has seen no others is lost without a
    capital letter or a last mark; text with such noise mends that (Karpukhin et al. 2019). One in
    three is two sentences. What comes out as it was is left out.
    """
    drawn = random.Random(2)
    for pair, earlier in _with_an_earlier(pairs, drawn):
        if drawn.random() < share:
            written = _join(pair, earlier, drawn) if drawn.random() < 1 / 3 else pair
            found = retyped(*written, drawn)
            if found[0] != written[0]:
                yield found


def retyped(source: str, target: str, drawn: random.Random) -> TextPair:
    """A pair with its source in small letters, with commas for full stops, or without a last mark.

    A target keeps its letters. It loses its last mark with its source: what a text does not end
    with, its translation does not end with.
    """
    if drawn.random() < 0.5:
        source = _BETWEEN.sub(lambda found: f", {found[1].lower()}", source)
    if drawn.random() < 0.5:
        source, target = _unmarked(source, target)
    case = drawn.choice(("kept", "small", "first small"))
    if case == "small":
        source = source.lower()
    elif case == "first small":
        source = source[:1].lower() + source[1:]
    return source, target


def in_small_letters(source: str, target: str) -> TextPair:
    """A pair with its source in small letters, and both sides without their last mark."""
    source, target = _unmarked(source, target)
    return source.lower(), target


def _unmarked(source: str, target: str) -> TextPair:
    if _LAST.search(source) and _LAST.search(target):
        return _LAST.sub("", source), _LAST.sub("", target)
    return source, target


def _join(one: TextPair, other: TextPair, drawn: random.Random) -> TextPair:
    first, second = drawn.sample([one, other], 2)
    return f"{first[0]} {second[0]}", f"{first[1]} {second[1]}"


def _with_an_earlier(
    pairs: Iterable[TextPair], drawn: random.Random
) -> Iterator[tuple[TextPair, TextPair]]:
    """Each pair but the first, with one of those before it; no more than 1,000 are remembered."""
    earlier: list[TextPair] = []
    for count, pair in enumerate(pairs):
        if earlier:
            yield pair, drawn.choice(earlier)
        # Each pair so far is as likely as any other to be remembered.
        if len(earlier) < _REMEMBERED:
            earlier.append(pair)
        elif (place := drawn.randrange(count + 1)) < _REMEMBERED:
            earlier[place] = pair
