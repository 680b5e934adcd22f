"""Read untrusted JSON by types: the annotations of a class are the schema of its file.

A dataclass is an object with exactly its fields; those with a default may be missing. A TypedDict
is an object that may hold further values, which are kept as they are. A mapping whose keys are a
Literal holds each of them. Other kinds are tuples (lists), unions, Literal, str, int, float, bool,
None and Any. A `Rule` in Annotated restricts a text or number, or the length of a tuple or mapping.
"""

import dataclasses
import math
import re
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from reprlib import Repr
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union

_LARGEST_INT = 1 << 53  # a double holds all integers up to this one
_LARGEST_FLOAT = sys.float_info.max
_LONGEST_NAME = 80  # characters of a name in an error
_short = Repr()
_short.maxlevel, _short.maxlist, _short.maxdict = 2, 3, 2
_short.maxstring = _short.maxlong = _short.maxother = 60

_Reader = Callable[[Any], Any]


@dataclass(frozen=True)
class Rule:
    """What is demanded of a value, in words after "a text", and a function truthy if it holds."""

    words: str
    holds: Callable[[Any], object]


def between(least: float, most: float = math.inf) -> Rule:
    """Return the rule that a number, or a length, is finite and within these bounds."""
    to = "" if most == math.inf else f" to {most:,}"
    return Rule(f"from {least:,}{to}", lambda n: least <= n <= most and abs(n) < math.inf)


def characters(least: int, most: int) -> Rule:
    """Return the rule that a text has this many characters."""
    return Rule(f"of {least:,} to {most:,} characters", lambda text: least <= len(text) <= most)


def line(most: int) -> Rule:
    """Return the rule that a text is one line of at most `most` printable characters."""
    words = f"of one line of at most {most:,} printable characters"
    return Rule(words, lambda text: len(text) <= most and text.isprintable())


def pattern(words: str, regex: str) -> Rule:
    """Return the rule that a regular expression matches the whole text."""
    return Rule(words, re.compile(regex).fullmatch)


Count = Annotated[int, between(0, 1 << 40)]
Sha256 = Annotated[str, pattern("that is a SHA-256 in hexadecimal", "[0-9a-f]{64}")]
AnyFloat = Annotated[float, Rule("", lambda n: type(n) is float or abs(n) <= _LARGEST_INT)]
"""A number that may be NaN or infinite."""

_ANY = Rule("", lambda _: True)
_SCALARS: dict[Any, tuple[tuple[type, ...], str, Rule]] = {
    str: ((str,), "a text", _ANY),
    bool: ((bool,), "true or false", _ANY),
    NoneType: ((NoneType,), "null", _ANY),
    int: ((int,), "a whole number", between(-_LARGEST_INT, _LARGEST_INT)),
    float: ((int, float), "a number", Rule("that is finite", lambda n: abs(n) <= _LARGEST_FLOAT)),
}


class _MisfitError(Exception):
    def __init__(self, what: str, path: tuple[Any, ...] = ()):
        self.what, self.path = what, path


def typed(kind: Any, value: Any, where: str = "") -> Any:
    """Return a JSON value as `kind`: dataclasses are built, and lists become tuples.

    Raises ValueError for the first part that does not fit, in one printable line: the part's place
    in `where`, what it is, and what it must be.
    """
    try:
        return _reader(kind)(value)
    except _MisfitError as misfit:
        places = [place for place in (where, ".".join(map(_shown, misfit.path))) if place]
        problem = f"{': '.join(places) or 'it'} {misfit.what}"
    raise ValueError(problem)


def check(instance: Any) -> None:
    """Raise ValueError, in one line, unless each field of a dataclass's instance fits its type."""
    for name, kind in _kinds(type(instance)).items():
        typed(kind, getattr(instance, name), name)


def _shown(name: str | int) -> str:
    text = str(name)
    plain = text.isprintable() and 0 < len(text) <= _LONGEST_NAME
    return text if plain else repr(text[:_LONGEST_NAME])


@cache
def _reader(kind: Any) -> _Reader:
    """Return the function that reads a kind or raises _MisfitError."""
    rule: Rule | None = None
    if typing.get_origin(kind) is NotRequired:
        (kind,) = typing.get_args(kind)
    if typing.get_origin(kind) is Annotated:
        kind, rule = typing.get_args(kind)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return lambda value: value
    if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind):
        return _object(kind)
    if origin in (Union, UnionType):
        return _union([_reader(part) for part in parts])
    if origin is tuple:
        return _list(parts, rule or _ANY)
    if origin is Mapping:
        return _mapping(*parts, rule or _ANY)
    if origin is Literal:
        choices = ("one of " if len(parts) > 1 else "") + ", ".join(map(str, parts))
        return _plain(tuple(map(type, parts)), choices, Rule("", parts.__contains__))
    kinds, noun, usual = _SCALARS[kind]
    return _plain(kinds, noun, rule or usual)


def _plain(kinds: tuple[type, ...], noun: str, rule: Rule) -> _Reader:
    expected = f"{noun} {rule.words}".strip()

    def read(value: Any) -> Any:
        confused = type(value) is bool and bool not in kinds  # True is an int to Python
        if confused or not isinstance(value, kinds) or not rule.holds(value):
            raise _MisfitError(f"is {_short.repr(value)[:100]}, not {expected}")
        return value

    return read


def _union(readers: Sequence[_Reader]) -> _Reader:
    def read(value: Any) -> Any:
        misfits = []
        for reader in readers:
            try:
                return reader(value)
            except _MisfitError as misfit:
                misfits.append(misfit)
        raise max(misfits, key=lambda misfit: len(misfit.path))

    return read


def _list(parts: tuple[Any, ...], rule: Rule) -> _Reader:
    many, count = parts[-1] is ..., len(parts)
    readers = [_reader(part) for part in parts if part is not ...]
    rule = rule if many else between(count, count)
    read_all = _sized((list, tuple), "a list", rule)

    def read(value: Any) -> tuple[Any, ...]:
        read_all(value)
        each = readers * len(value) if many else readers
        return tuple(map(_part, each, value, range(len(value))))

    return read


def _mapping(key: Any, item: Any, rule: Rule) -> _Reader:
    read_key, read_item, read_all = _reader(key), _reader(item), _sized((dict,), "an object", rule)
    needed = typing.get_args(key) if typing.get_origin(key) is Literal else ()

    def read(value: Any) -> dict[Any, Any]:
        read_all(value)
        if missing := [name for name in needed if name not in value]:
            raise _MisfitError("is missing", (missing[0],))
        names = [_part(read_key, name, "(a name)") for name in value]
        return {name: _part(read_item, value[name], name) for name in names}

    return read


def _sized(kinds: tuple[type, ...], noun: str, rule: Rule) -> _Reader:
    words = f"of length {rule.words}" if rule.words else ""
    return _plain(kinds, noun, Rule(words, lambda value: rule.holds(len(value))))


def _object(cls: Any) -> _Reader:
    closed, optional = dataclasses.is_dataclass(cls), getattr(cls, "__optional_keys__", frozenset())
    if closed:
        none = dataclasses.MISSING
        fields = dataclasses.fields(cls)
        optional = {f.name for f in fields if not f.default is f.default_factory is none}
    readers = {name: _reader(kind) for name, kind in _kinds(cls).items()}
    is_object = _sized((dict,), "an object", _ANY)

    def read(value: Any) -> Any:
        is_object(value)
        given = {}
        for name, reader in readers.items():
            if name in value:
                given[name] = _part(reader, value[name], name)
            elif name not in optional:
                raise _MisfitError("is missing", (name,))
        if not closed:
            return value | given
        if unknown := [name for name in value if name not in readers]:
            raise _MisfitError("is an unknown field", (unknown[0],))
        try:
            return cls(**given)
        except ValueError as error:
            raise _MisfitError(f"is invalid: {error}") from None

    return read


@cache
def _kinds(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def _part(read: _Reader, value: Any, name: str | int) -> Any:
    """Read a part of an object or a list."""
    try:
        return read(value)
    except _MisfitError as misfit:
        raise _MisfitError(misfit.what, (name, *misfit.path)) from None
