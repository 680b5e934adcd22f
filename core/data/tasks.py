"""Generated translation tasks whose right answers, and right alignments, are known exactly.

Every example is drawn by whole numbers below a limit alone (`random.Random.randrange`), so that the
offline page draws the same ones from the same seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.data.names import MONTHS
from core.text.tokenizer import normalise


@dataclass(frozen=True)
class Link:
    """A character of the target, the source characters that determine it, and what it is part of.

    Characters are counted from 0; any one of several source characters may be looked at.
    """

    part: str
    target: int
    source: tuple[int, ...]


@dataclass(frozen=True)
class Example:
    """A pair of lines with its known alignment; separators and <eos> have no links."""

    source: str
    target: str
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class Task:
    """A named generator of examples, and the parts of a target whose alignment is measured.

    `sides` name the source and the target as language codes do; "de" and "en" are the languages.
    """

    name: str
    sides: tuple[str, str]
    parts: tuple[str, ...]
    draw: Callable[[random.Random], Example]


Written = tuple[str, str, tuple[int, ...]]
"""A piece of the target: its text, its part ("" if none) and the indices of its source pieces."""


def _example(source: Sequence[str], target: Sequence[Written]) -> Example:
    """Join pieces without blanks; the pieces contain their own."""
    starts = [sum(map(len, source[:i])) for i in range(len(source))]
    spans = [
        [start + at for at, character in enumerate(piece) if character != " "]
        for start, piece in zip(starts, source, strict=True)
    ]
    links, at = [], 0
    for text, part, pieces in target:
        keys = tuple(character for piece in pieces for character in spans[piece])
        links += [Link(part, at + i, keys) for i, c in enumerate(text) if part and c != " "]
        at += len(text)
    return Example("".join(source), "".join(text for text, *_ in target), tuple(links))


_MONTHS = list(MONTHS)
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def _date(rng: random.Random) -> Example:
    """Draw a date of the years 1000 to 2999, as in "3. März 1999" → "1999-03-03"."""
    year, month = 1000 + rng.randrange(2000), rng.randrange(12)
    is_leap = month == 1 and (year % 400 == 0 or (year % 4 == 0 and year % 100 != 0))
    day = str(1 + rng.randrange(_DAYS[month] + is_leap))
    source = [*day, ".", f" {_MONTHS[month]}", " ", *str(year)]
    n = len(day)
    of_year: list[Written] = [(digit, "year", (n + 3 + i,)) for i, digit in enumerate(str(year))]
    of_month: list[Written] = [(f"{month + 1:02}", "month", (n + 1,))]
    of_day: list[Written] = [
        (digit, "day", (min(i, n - 1),)) for i, digit in enumerate(day.zfill(2))
    ]
    return _example(source, [*of_year, ("-", "", ()), *of_month, ("-", "", ()), *of_day])


_UNITS = "ein zwei drei vier fünf sechs sieben acht neun".split()
_TEENS = "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn".split()
_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def _number(rng: random.Random) -> Example:
    """Draw a number from 1 to 9999, as in "vier hundert zwei und dreißig" → "432".

    The words are parted, so that each is a token; a zero has no word and no link.
    """
    digits = str(1 + rng.randrange(9999))
    words: list[str] = []
    said: dict[int, int] = {}  # from a power of ten to the index of its word
    for power, name in ((3, "tausend"), (2, "hundert")):
        digit = int(digits[-1 - power]) if len(digits) > power else 0
        if digit:
            said[power] = len(words)
            words += [_UNITS[digit - 1], name]
    ten, unit = divmod(int(digits[-2:]), 10)
    if ten == 1:
        said |= {1: len(words), 0: len(words)}
        words.append(_TEENS[unit])
    else:
        if unit:
            said[0] = len(words)
            words.append("eins" if unit == 1 and not ten else _UNITS[unit - 1])
        if ten:
            words += ["und"] * bool(unit)
            said[1] = len(words)
            words.append(_TENS[ten - 2])
    names = ("units", "tens", "hundreds", "thousands")
    target: list[Written] = []
    for i, digit in enumerate(digits):
        power = len(digits) - 1 - i
        target.append((digit, *((names[power], (said[power],)) if power in said else ("", ()))))
    return _example([f" {word}" if i else word for i, word in enumerate(words)], target)


_LETTERS = "abcdefghij"
_SHORTEST, _LONGEST = 3, 8


def _letters(rng: random.Random) -> list[str]:
    length = _SHORTEST + rng.randrange(_LONGEST - _SHORTEST + 1)
    return [_LETTERS[rng.randrange(len(_LETTERS))] for _ in range(length)]


def _spaced(letters: Sequence[str], keys: Sequence[tuple[int, ...]] = ()) -> list[Written]:
    """Return letters as pieces with blanks, each with the indices of its source pieces."""
    given = keys or [()] * len(letters)
    return [
        (f" {letter}" if i else letter, "letter", key)
        for i, (letter, key) in enumerate(zip(letters, given, strict=True))
    ]


def _reversal(rng: random.Random) -> Example:
    """Draw three to eight letters and write them backwards: "c a f" → "f a c"."""
    letters = _letters(rng)
    backwards = range(len(letters) - 1, -1, -1)
    target = _spaced([letters[i] for i in backwards], [(i,) for i in backwards])
    return _example([text for text, *_ in _spaced(letters)], target)


def _sorting(rng: random.Random) -> Example:
    """Draw three to eight letters and sort them; of equal letters, any may be looked at."""
    letters = _letters(rng)
    ordered = sorted(letters)
    keys = [tuple(i for i, one in enumerate(letters) if one == letter) for letter in ordered]
    return _example([text for text, *_ in _spaced(letters)], _spaced(ordered, keys))


# German nouns with gender, adjectives and verbs; their endings follow from gender and case.
_NOUNS = (
    *(("m", "Hund", "dog"), ("m", "Vogel", "bird"), ("m", "Mann", "man"), ("m", "Ball", "ball")),
    *(("f", "Katze", "cat"), ("f", "Frau", "woman"), ("f", "Maus", "mouse"), ("f", "Kuh", "cow")),
    *(("n", "Kind", "child"), ("n", "Pferd", "horse"), ("n", "Buch", "book"), ("n", "Auto", "car")),
)
_ADJECTIVES = (
    *(("klein", "small"), ("alt", "old"), ("rot", "red"), ("blau", "blue"), ("schnell", "fast")),
    *(("jung", "young"),),
)
_VERBS = (
    *(("sieht", "sees"), ("sucht", "seeks"), ("findet", "finds"), ("kennt", "knows")),
    *(("liebt", "loves"), ("holt", "fetches")),
)
_CONJUNCTIONS = (("dass", "that"), ("weil", "because"), ("wenn", "when"), ("ob", "whether"))
_ARTICLES = {"m": ("der", "den"), "f": ("die", "die"), "n": ("das", "das")}


def _clause(rng: random.Random) -> Example:
    """Draw a German clause and its English translation.

    After a conjunction, the German verb comes last: "weil der Hund den roten Ball sucht" → "because
    the dog seeks the red ball". In half of the clauses there is none, and the verb stands second.
    """
    source: list[str] = []
    of: dict[str, list[tuple[str, str, int]]] = {"subject": [], "object": []}
    begin = rng.randrange(2 * len(_CONJUNCTIONS))
    german_verb, verb = _VERBS[rng.randrange(len(_VERBS))]
    target: list[tuple[str, str, int]] = []
    if begin < len(_CONJUNCTIONS):
        source.append(_CONJUNCTIONS[begin][0])
        target.append((_CONJUNCTIONS[begin][1], "conjunction", 0))
    at_verb = -1
    for case, role in enumerate(of):
        gender, german, english = _NOUNS[rng.randrange(len(_NOUNS))]
        of[role].append(("the", "", len(source)))
        source.append(_ARTICLES[gender][case])
        if (adjective := rng.randrange(2 * len(_ADJECTIVES))) < len(_ADJECTIVES):
            of[role].append((_ADJECTIVES[adjective][1], "adjective", len(source)))
            ending = "en" if case and gender == "m" else "e"
            source.append(_ADJECTIVES[adjective][0] + ending)
        of[role].append((english, "noun", len(source)))
        source.append(german)
        if not case and not target:
            at_verb = len(source)
            source.append(german_verb)
    if at_verb < 0:
        at_verb = len(source)
        source.append(german_verb)
    target += [*of["subject"], (verb, "verb", at_verb), *of["object"]]
    pieces: list[Written] = [
        (f" {text}" if i else text, part, (at,) * bool(part))
        for i, (text, part, at) in enumerate(target)
    ]
    return _example([f" {word}" if i else word for i, word in enumerate(source)], pieces)


TASKS = {
    task.name: task
    for task in (
        Task("dates", ("de", "digits"), ("day", "month", "year"), _date),
        Task("numbers", ("de", "digits"), ("units", "tens", "hundreds", "thousands"), _number),
        Task("reversal", ("letters", "reversed"), ("letter",), _reversal),
        Task("sorting", ("letters", "sorted"), ("letter",), _sorting),
        Task("grammar", ("de", "en"), ("noun", "adjective", "verb", "conjunction"), _clause),
    )
}

PASTED = "pasted"
"""The name of a task of given pairs."""
_LINES = (2, 5_000)
_CHARACTERS = 100  # of one side


def pasted(text: str) -> tuple[tuple[str, str], ...]:
    """Read pairs of short lines, source and target parted by a tab, "=" or "→".

    Raises ValueError, in one line, for too few or too many pairs, and for a line without a pair.
    """
    lines = [(n, line) for n, line in enumerate(text.splitlines(), start=1) if line.strip()]
    pairs = []
    for n, line in lines[: _LINES[1] + 1]:
        mark = next((mark for mark in ("\t", "→", "=") if mark in line), None)
        sides = [side.strip() for side in line.split(mark, 1)] if mark else []
        if len(sides) != 2 or not all(map(normalise, sides)):
            raise ValueError(
                f"line {n} is not a pair: write the source, then a tab, = or →, then the target"
            )
        if (longest := max(map(len, sides))) > _CHARACTERS:
            raise ValueError(
                f"line {n} has a side of {longest} characters: the limit is {_CHARACTERS}, "
                "shorten it or leave it out"
            )
        pairs.append((sides[0], sides[1]))
    if not _LINES[0] <= len(pairs) <= _LINES[1]:
        many = f"more than {_LINES[1]:,}" if len(pairs) > _LINES[1] else f"{len(pairs)}"
        raise ValueError(
            f"the text holds {many} pairs: paste {_LINES[0]} to {_LINES[1]:,} lines of one pair"
        )
    return tuple(pairs)
