"""What stands along the two sides of a kind's maps: the token of each query and of each key."""

from collections.abc import Sequence

from app.look.labels import labels
from core.record.record import RecordToken, TranslationRecord

Axis = tuple[Sequence[RecordToken], int]
"""Tokens, and the number of the first: 0 for a target fed in, which opens with <bos>, else 1."""


def axes(record: TranslationRecord, kind: str) -> tuple[Axis, Axis]:
    """Queries and keys of a kind; a query of the decoder is called by the token it produces."""
    source = (record.source, 1)
    queries = source if kind == "encoder" else (record.target_out, 1)
    return queries, (record.target_in, 0) if kind == "decoder" else source


def axis_words(record: TranslationRecord, kind: str) -> tuple[list[str], list[str]]:
    """The labels of a kind's queries and keys."""
    queries, keys = axes(record, kind)
    return labels(*queries), labels(*keys)
