"""Check what callers pass as one text or several; an error says in one line what is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any


def one_text(text: Any, what: str = "text") -> str:
    """Return a text unchanged. Raises TypeError for anything else, None and NaN included."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a string, not {_shown(text)}")
    return text


def list_of_texts(texts: Iterable[str], function: str) -> list[str]:
    """Return texts as a list, in the order in which they are iterated over.

    Takes every iterable once: a list, a generator, an open file, a numpy array, a pandas Series
    (by position, whatever its index). Raises TypeError for a single text, for what has no order
    or is a table, and for an item that is no string, by its position.
    """
    wanted = f"{function} takes a list of texts"
    if isinstance(texts, str):
        raise TypeError(f"{wanted}: put a single one in brackets, {function}([text])")
    table = isinstance(texts, Mapping) or hasattr(texts, "columns")
    if table or isinstance(texts, bytes | bytearray | Set) or not isinstance(texts, Iterable):
        advice = ": choose one of its columns" if table else ""
        raise TypeError(f"{wanted}, not {_shown(texts)}{advice}")
    return [one_text(text, f"{function}: text {i}") for i, text in enumerate(texts, start=1)]


def _shown(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, float) and value != value:
        return "NaN, which pandas puts where a text is missing"
    if isinstance(value, bytes | bytearray):
        return "bytes: decode them first, such as text.decode('utf-8')"
    return f"a value of type {type(value).__name__}"
