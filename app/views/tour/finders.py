"""Find what a stop of the tour shows of a record: the head with most weight on the stop's cells."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.lessons.texts import template
from app.look.labels import ATTENTION, label, labels
from app.look.numbers import percent
from app.stops import Stop
from core.analysis import roles
from core.analysis.attribution import source_words
from core.kinds import Kind
from core.record.record import TranslationRecord
from core.record.words import group_words, is_punctuation

FIRST_FREE_ROW = 2  # of the decoder: earlier rows can attend to one or two tokens only


@dataclass(frozen=True)
class Highlight:
    """What to show of a record: a head with its measured share, and a row to pin.

    `said` describes the map in plain text: the rows of a word and where each looks most. `rows` are
    those that the stop is about, none if it is about all. `answering` are the rows that answer the
    question about `query`: its own, and those of the same word or with the same words to look at.
    """

    kind: Kind
    head: roles.Strongest
    query: int | None = None
    said: str = ""
    rows: tuple[int, ...] = ()
    answering: tuple[int, ...] = ()

    def covered(self, query: int) -> tuple[int, ...]:
        """Return the rows to hide while a question asks about the row of `query`."""
        return self.answering if query == self.query and self.answering else (query,)


def find(rule: Sequence[Any], record: TranslationRecord) -> Highlight:
    """Return the head of a rule: the name of a finder, and the words that it looks for.

    Raises LookupError if the translation lacks a word that the finder needs.
    """
    name, *words = rule
    return _FINDERS[name](record, *words)


def measured(stop: Stop, shown: Highlight) -> tuple[str, str, str]:
    """Return the sentence about a stop's head: text before the share, the share, and text after."""
    head = shown.head
    before, after = (stop.measured or template("tour", "page.most_on")).split("{share}")
    where = {
        "attention": ATTENTION[shown.kind],
        "layer": head.layer + 1,
        "head": head.head + 1,
        "word": stop.find[-1],
    }
    return (
        before.format_map(where).strip(),
        percent(head.share),
        f"{after.format_map(where).strip()} {shown.said}".strip(),
    )


def taught(shown: Highlight, record: TranslationRecord) -> dict[str, str]:
    """Return what a stop that teaches says of its cell: values for the template, plain text.

    The cell is the largest of the pinned row. Raises LookupError without a pinned row.
    """
    if shown.query is None:
        raise LookupError("No row is pinned")
    head, query = shown.head, shown.query
    row = record.maps(shown.kind)[head.layer, head.head, query]
    key = int(row.argmax())
    return {
        "language": record.source_language,
        "other": record.target_language,
        "read": labels(record.source, 1)[key],
        "written": labels(record.target_out, 1)[query],
        "key": str(key + 1),
        "query": str(query + 1),
        "share": percent(float(row[key])),
    }


def tokens_in_words(record: TranslationRecord) -> str:
    """Say how many tokens the sentence has, and how its first split word is split: plain text."""
    tokens = record.source
    added = " and ".join(token.text for token in tokens if token.special)
    counted = f"The model reads {len(tokens)} tokens: whole words, punctuation and {added}"
    split = [word for word in source_words(tokens) if len(word) > 1]
    if not split:
        return counted + "."
    shown = " | ".join(label(tokens[place]) for place in split[0])
    return f"{counted}, and parts of words, such as {shown}."


Cells = list[tuple[int, list[int]]]
"""Rows, each with the keys that it should look at."""


def _cross(record: TranslationRecord, cells: Cells) -> Highlight:
    """Find the cross-attention head with most weight on these cells, and describe its rows."""
    head = roles.strongest(roles.on_cells(record.cross, cells))
    produced, read = labels(record.target_out, 1), labels(record.source, 1)
    best = record.cross[head.layer, head.head].argmax(-1)
    rows = [
        f"“{produced[row]}”, token {row + 1} of {len(produced)}, looks most at "
        f"“{read[best[row]]}”, token {best[row] + 1} of {len(read)}"
        for row, _ in cells
    ]
    query, asked = cells[-1]
    alike = [row for row, keys in cells if keys == asked]
    words = group_words(record.target_out)
    return Highlight(
        "cross",
        head,
        query,
        "; ".join(rows) + ".",
        tuple(row for row, _ in cells),
        tuple(i for row in alike for word in words if row in word for i in word if i >= row),
    )


def _translates(record: TranslationRecord, *pairs: Sequence[str]) -> Highlight:
    """Find the cross-attention head that looks most from each target word at its source word."""
    cells: Cells = []
    split = False
    for target_word, source_word in pairs:
        rows = roles.positions(record.target_out, target_word)
        columns = roles.positions(record.source, source_word)
        if len(rows) < 1 or len(columns) < len(rows):
            raise LookupError(f"This model did not write {target_word!r} for {source_word!r}")
        cells += [(row[0], keys) for row, keys in zip(rows, columns, strict=False)]
        split |= any(len(row) > 1 for row in rows)
    shown = _cross(record, cells)
    if not split:
        return shown
    first = "If a produced word has several tokens, the row of its first token is measured."
    return replace(shown, said=f"{shown.said} {first}")


def _marks(record: TranslationRecord, target_word: str, source_word: str) -> Highlight:
    """Find the head that looks most at a source word in the row that reads its translation."""
    rows = roles.positions(record.target_out, target_word)
    columns = roles.positions(record.source, source_word)
    if not rows or not columns or rows[0][-1] + 1 == len(record.target_out):
        raise LookupError(f"This model did not write {target_word!r} for {source_word!r}")
    return _cross(record, [(rows[0][-1] + 1, columns[0])])


def _compound(record: TranslationRecord, target_word: str, *source_words: str) -> Highlight:
    """Find the head that looks most from a target word's tokens at these source words, in order."""
    words = roles.positions(record.target_out, target_word)
    columns = [roles.positions(record.source, word) for word in source_words]
    if not words or not all(columns):
        raise LookupError(f"This model did not write {target_word!r}")
    if len(words[0]) < len(source_words):
        raise LookupError(f"This model writes {target_word!r} as a single token")
    return _cross(record, [(row, keys[0]) for row, keys in zip(words[0], columns, strict=False)])


def _previous(record: TranslationRecord) -> Highlight:
    return Highlight("encoder", roles.strongest(roles.on_previous(record.encoder)))


def _first_token(record: TranslationRecord) -> Highlight:
    _third_row(record)
    free = record.decoder[:, :, FIRST_FREE_ROW:]
    return Highlight("decoder", roles.strongest(roles.on_column(free, 0)))


def _itself(record: TranslationRecord) -> Highlight:
    _third_row(record)
    return Highlight("decoder", roles.strongest(roles.on_itself(record.decoder, FIRST_FREE_ROW)))


def _most_on(record: TranslationRecord, word: str) -> Highlight:
    """Find the row with most weight on a source word over all heads, and its strongest head.

    The mean over heads is used because single heads may look one row late. Rows that produce
    punctuation or a special token do not count.
    """
    columns = roles.positions(record.source, word)
    if not columns:
        raise LookupError(f"This model does not read {word!r} as a word")
    return _most_on_columns(record, columns[0])


def _most_on_unknown(record: TranslationRecord) -> Highlight:
    """Find the row with most weight on what the vocabulary lacks, as `_most_on` does for a word."""
    columns = [place for place, token in enumerate(record.source) if token.unknown]
    if not columns:
        raise LookupError("This model knows all characters of the sentence")
    return _most_on_columns(record, columns)


def _most_on_columns(record: TranslationRecord, columns: Sequence[int]) -> Highlight:
    rows = [
        row
        for row, token in enumerate(record.target_out)
        if not token.special and not is_punctuation(token.text)
    ]
    if not rows:
        raise LookupError("This model wrote no word")
    on_word = record.cross[:, :, rows][..., columns].sum(-1)
    nth = int(on_word.mean((0, 1), dtype=np.float64).argmax())
    layer, head = np.unravel_index(int(on_word[..., nth].argmax()), on_word.shape[:2])
    row = rows[nth]
    share = float(on_word[layer, head, nth])
    produced = labels(record.target_out, 1)
    return Highlight(
        "cross",
        roles.Strongest(int(layer), int(head), share),
        row,
        f"The row produces “{produced[row]}”, token {row + 1} of {len(produced)}.",
        (row,),
    )


def _third_row(record: TranslationRecord) -> None:
    if record.decoder.shape[-1] <= FIRST_FREE_ROW:
        raise LookupError("This model wrote too few tokens to have a third row")


_FINDERS = {
    "translates": _translates,
    "marks": _marks,
    "compound": _compound,
    "previous": _previous,
    "first_token": _first_token,
    "itself": _itself,
    "most_on": _most_on,
    "most_on_unknown": _most_on_unknown,
}
