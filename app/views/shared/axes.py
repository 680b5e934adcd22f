"""Query and key tokens along the axes of attention maps."""

from collections.abc import Sequence

from app.components.map_row.payload import Side
from app.look.labels import labels
from core.record.record import RecordToken, TranslationRecord

Axis = tuple[Sequence[RecordToken], int]
"""Tokens and the number of the first one: 0 for target_in (<bos>), otherwise 1."""


def axes(record: TranslationRecord, kind: str) -> tuple[Axis, Axis]:
    """Return the queries and keys of a kind; decoder queries are named by the produced token."""
    source = (record.source, 1)
    queries = source if kind == "encoder" else (record.target_out, 1)
    return queries, (record.target_in, 0) if kind == "decoder" else source


def map_sides(record: TranslationRecord, kind: str) -> list[Side]:
    """Return the queries and keys of a kind as sides of a row of maps, named by language."""
    source, target = record.source_language, record.target_language
    names = (
        f"{source} token" if kind == "encoder" else f"{target} token being produced",
        f"{target} token fed in" if kind == "decoder" else f"{source} token",
    )
    return [
        Side(tokens, range(first, first + len(tokens)), name)
        for (tokens, first), name in zip(axes(record, kind), names, strict=True)
    ]


def source_of(record: TranslationRecord) -> str:
    """Return what a saved picture says of its source: network, search and sentence."""
    weights = f", weights {record.weights_sha256[:8]}" if record.weights_sha256 else ""
    texts = f"“{record.source_text}” → “{record.translation}”"
    return f"{record.model_title}{weights}, {record.search}. {texts}"


def axis_words(record: TranslationRecord, kind: str) -> tuple[list[str], list[str]]:
    """Return the labels of a kind's queries and keys."""
    queries, keys = axes(record, kind)
    return labels(*queries), labels(*keys)
