"""Text to ids and back: words, subwords, and the one protocol that both keep."""

from typing import Any

from core.text.tokenizer import Tokenizer


def load(values: dict[str, Any]) -> Tokenizer:
    """Rebuild a tokenizer from its JSON form. Raises ValueError for an unknown kind."""
    # Each kind is imported when it is met: spaCy alone takes seconds to import.
    match values.get("kind"):
        case "subwords":
            from core.text.subwords import SubwordTokenizer

            return SubwordTokenizer.from_json(values)
        case "words":
            from core.text.words import WordTokenizer

            return WordTokenizer.from_json(values)
        case kind:
            raise ValueError(f"unknown kind of tokenizer {kind!r}: expected 'subwords' or 'words'")
