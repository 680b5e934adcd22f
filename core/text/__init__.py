"""Text to ids and back: words, subwords, and the one protocol that both keep."""

from typing import Any

from core.text.tokenizer import Tokenizer
from core.text.vocabulary import check


def load(values: dict[str, Any]) -> Tokenizer:
    """Rebuild a tokenizer from its JSON form. Raises ValueError for one that is unfit."""
    check(values)
    # Each kind is imported when it is met: spaCy alone takes seconds to import.
    match values["kind"]:
        case "subwords":
            from core.text.subwords import SubwordTokenizer

            return SubwordTokenizer.from_json(values)
        case _:
            from core.text.words import WordTokenizer

            return WordTokenizer.from_json(values)
