"""Write spaCy's rules of a language for the offline page, which splits texts into words by them."""

import re
from collections.abc import Callable
from typing import Any

LANGUAGES = ("de", "en")
"""The languages whose words the page can put together again, as the Moses detokenizer does."""

_CLASSES = {"d": r"\p{Nd}", "w": r"\p{L}\p{N}_"}
"""What Python's classes of letters and digits match, as JavaScript writes it inside brackets."""


def word_rules(language: str) -> dict[str, Any]:
    """Return the rules as regular expressions of JavaScript, and the words with own parts.

    Raises ValueError for a language that the page cannot read.
    """
    if language not in LANGUAGES:
        raise ValueError(
            f"the page splits words of {' and '.join(LANGUAGES)} only, not of {language}: choose "
            "another checkpoint, or save a record as a page"
        )
    from spacy.symbols import ORTH  # ty: ignore  # only networks of words need spaCy

    from core.text.words import splitter

    rules: Any = splitter(language)  # spaCy's Tokenizer
    return {
        "prefix": _pattern(rules.prefix_search),
        "suffix": _pattern(rules.suffix_search),
        "infix": _pattern(rules.infix_finditer),
        "whole": _pattern(rules.token_match),
        "url": _pattern(rules.url_match),
        "cases": {
            word: [part[ORTH] for part in parts]
            for word, parts in rules.rules.items()
            if not any(map(str.isspace, word))  # texts have single spaces, which part words
        },
    }


def _pattern(method: Callable[..., Any] | None) -> str:
    """Return the expression of a bound method of `re.Pattern` for JavaScript's flag u."""
    return "" if method is None else javascript(method.__self__.pattern)  # ty: ignore


def javascript(pattern: str) -> str:
    r"""Rewrite a Python expression: JavaScript escapes only syntax, and \d and \w are ASCII there.

    Each `\U0001f600` becomes `\u{1f600}`; a global `(?u)` is dropped.
    """
    inside = False
    parts = []
    for part in re.findall(r"\\U[0-9a-fA-F]{8}|\\.|[^\\]", pattern.replace("(?u)", "")):
        if part.startswith("\\U"):
            part = f"\\u{{{int(part[2:], 16):x}}}"
        elif part[1:] in _CLASSES:
            part = _CLASSES[part[1]] if inside else f"[{_CLASSES[part[1]]}]"
        elif len(part) == 2 and not part[1].isalnum() and part[1] not in "^$\\.*+?()[]{}|/-":
            part = part[1]
        elif part == "\\-" and not inside:
            part = "-"
        elif part in "[]":
            inside = part == "["
        parts.append(part)
    return "".join(parts)
