"""Validate the text arguments of the public API, with one-line errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any


def one_text(text: Any, what: str = "text") -> str:
    """Return a string unchanged. Raises TypeError for anything else, including None and NaN."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a string, not {_describe(text)}")
    return text


def list_of_texts(texts: Iterable[str], function: str) -> list[str]:
    """Return an iterable of strings as a list.

    Accepts any ordered iterable: a list, generator, open file, numpy array or pandas Series (by
    position). Raises TypeError for a single string, a set, a table, and for an item that is not a
    string, naming its position.
    """
    expected = f"{function} takes a list of texts"
    if isinstance(texts, str):
        raise TypeError(f"{expected}: put a single one in brackets, {function}([text])")
    table = isinstance(texts, Mapping) or hasattr(texts, "columns")
    if table or isinstance(texts, bytes | bytearray | Set) or not isinstance(texts, Iterable):
        advice = ": choose one of its columns" if table else ""
        raise TypeError(f"{expected}, not {_describe(texts)}{advice}")
    return [one_text(text, f"{function}: text {i}") for i, text in enumerate(texts, start=1)]


def _describe(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, float) and value != value:
        return "NaN, which pandas uses for missing text"
    if isinstance(value, bytes | bytearray):
        return "bytes: decode them first, such as text.decode('utf-8')"
    return f"a value of type {type(value).__name__}"
