"""Tokenizers: words, subwords of characters and bytes, pieces, and the protocol they share."""

from typing import Any

from core.text.tokenizer import Tokenizer
from core.text.vocabulary import check


def load(values: dict[str, Any]) -> Tokenizer:
    """Rebuild a tokenizer from its JSON form. Raises ValueError if that is invalid."""
    check(values)
    # Imported only when needed: spaCy alone takes seconds.
    match values["kind"]:
        case "subwords":
            from core.text.subwords import SubwordTokenizer

            return SubwordTokenizer.from_json(values)
        case "bytes":
            from core.text.byte_level import ByteTokenizer

            return ByteTokenizer.from_json(values)
        case "moses":
            from core.text.moses import MosesTokenizer

            return MosesTokenizer.from_json(values)
        case "pieces":
            from core.text.pieces import PieceTokenizer

            return PieceTokenizer.from_json(values)
        case _:
            from core.text.words import WordTokenizer

            return WordTokenizer.from_json(values)
