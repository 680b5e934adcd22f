"""Text as people type it: several sentences, commas between them, small letters, no last mark."""

import random
import re
from collections.abc import Iterable, Iterator

TextPair = tuple[str, str]

_REMEMBERED = 1000  # pairs that a later one may be joined to
_BETWEEN = re.compile(r"(?<=\w{3})[.!] (\w)")  # not after an initial or a number
_LAST = re.compile(r"\s*[.!?]+$")


def joined(pairs: Iterable[TextPair], share: float, up_to: int = 2) -> Iterator[TextPair]:
    """A random `share` of the pairs, each joined to earlier ones, in any order.

    People type more than one sentence, and longer text than a corpus of single ones shows (Nguyen,
    Murray & Chiang 2021). A text so made is of 2 to `up_to` pairs, each number as likely.
    """
    drawn = random.Random(1)
    for pair, earlier in _with_earlier(pairs, drawn):
        some = [drawn.choice(earlier)]
        if drawn.random() < share:
            if up_to > 2:
                some += drawn.choices(earlier, k=drawn.randrange(up_to - 1))
            yield _join([pair, *some], drawn)


def typed(pairs: Iterable[TextPair], share: float) -> Iterator[TextPair]:
    """A random `share` of the pairs, with their sources as people type them.

    A corpus holds well-written sentences, and a network that has seen no others is lost without a
    capital letter or a last mark; text with such noise mends that (Karpukhin et al. 2019). One in
    three is two sentences. What comes out as it was is left out.
    """
    drawn = random.Random(2)
    for pair, earlier in _with_earlier(pairs, drawn):
        another = drawn.choice(earlier)
        if drawn.random() < share:
            written = _join([pair, another], drawn) if drawn.random() < 1 / 3 else pair
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


def several_at_once(pairs: list[TextPair], number: int) -> list[TextPair]:
    """Texts of so many pairs that follow each other; the last may be of fewer."""
    return [_in_a_row(pairs[i : i + number]) for i in range(0, len(pairs), number)]


def _unmarked(source: str, target: str) -> TextPair:
    if _LAST.search(source) and _LAST.search(target):
        return _LAST.sub("", source), _LAST.sub("", target)
    return source, target


def _join(some: list[TextPair], drawn: random.Random) -> TextPair:
    return _in_a_row(drawn.sample(some, len(some)))


def _in_a_row(some: list[TextPair]) -> TextPair:
    sources, targets = zip(*some, strict=True)
    return " ".join(sources), " ".join(targets)


def _with_earlier(
    pairs: Iterable[TextPair], drawn: random.Random
) -> Iterator[tuple[TextPair, list[TextPair]]]:
    """Each pair but the first, with those before it; no more than 1,000 are remembered."""
    earlier: list[TextPair] = []
    for count, pair in enumerate(pairs):
        if earlier:
            yield pair, earlier
        # Each pair so far is as likely as any other to be remembered.
        if len(earlier) < _REMEMBERED:
            earlier.append(pair)
        elif (place := drawn.randrange(count + 1)) < _REMEMBERED:
            earlier[place] = pair
