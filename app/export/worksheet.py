"""Write a printable worksheet: pictures of maps, questions with blanks, and a key at the end."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Literal, cast

import numpy as np

from app.export.picture import picture
from app.lessons.texts import text
from app.look.labels import ATTENTION, label, labels, word_labels
from app.look.numbers import percent
from app.views.shared.axes import axes
from core.analysis.first_cell import first_cell
from core.analysis.questions import Question, Unsettled, attends, masked
from core.record.record import TranslationRecord
from core.record.words import group_words, is_punctuation

_TEMPLATE = Path(__file__).parent / "worksheet.html"
_LESSON = "worksheet"
ROWS = 2  # rows of each map that get a question
MASK_CELLS = 6  # at most this many rows, and columns, in the grid to hatch
LONG = 4  # letters: rows of words at least this long get a question first
CLEAR = 0.1  # a weight closer than this to one half gets no question
_BLANK = '<span class="blank"></span>'
# Hatch with SVG lines: browsers print a CSS gradient as a coarse picture.
_HATCHING = (
    '<td class="masked"><svg viewBox="0 0 12 6" preserveAspectRatio="none">'
    '<path d="M0 2 2 0M0 4 4 0M0 6 6 0M2 6 8 0M4 6 10 0M6 6 12 0M8 6 12 2M10 6 12 4"/></svg></td>'
)


@dataclass(frozen=True)
class Sheet:
    """A sentence of the worksheet and the head whose map it shows, counted from 0.

    `rows` are those that a stop of the tour is about, none if it is about all.
    """

    record: TranslationRecord
    kind: str
    layer: int
    head: int
    rows: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Task:
    """A question as HTML for its page, and its answer as HTML for the key."""

    asked: str
    answer: str


def sheet(record: TranslationRecord) -> Sheet:
    """Return the sheet of a sentence, with the head of the cell that `first_cell` chooses.

    If there is no such cell, use the first head of the second-to-last cross-attention layer.
    """
    found = first_cell(record.cross, record.source, record.target_out)
    if found is None:
        return Sheet(record, "cross", max(0, record.cross.shape[0] - 2), 0)
    return Sheet(record, "cross", found.layer, found.head)


def worksheet(sheets: Sequence[Sheet]) -> str:
    """Return the worksheet as a standalone HTML document without scripts; the key comes last."""
    tasks = [list(_tasks(one)) for one in sheets]
    masks = [_sum_task(sheets[0]), _mask_task(sheets[0].record)]
    of_masks = _said("mask.heading", number=len(sheets) + 1)
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=_said("title"),
        name=_said("head.name"),
        date=_said("head.date"),
        intro=_said("head.intro"),
        pages="\n".join(
            [
                *map(_page, range(1, len(sheets) + 1), sheets, tasks),
                f"<section><h2>{of_masks}</h2>{_listed('asked', masks)}</section>",
            ]
        ),
        key_title=_said("key.title"),
        key="\n".join(
            [
                *(
                    _answers(_heading(*one), own)
                    for one, own in zip(enumerate(sheets, 1), tasks, strict=True)
                ),
                _answers(of_masks, masks),
            ]
        ),
        source=_said("key.source", model=_made_by(sheets)),
    )


def _said(name: str, /, **values: object) -> str:
    """Return a text of the worksheet, escaped."""
    return html.escape(text(_LESSON, name, **values))


def _made_by(sheets: Sequence[Sheet]) -> str:
    record = sheets[0].record
    return f"{record.model_title}, weights {record.weights_sha256[:8]}"


def _heading(place: int, shown: Sheet) -> str:
    return _said("task.heading", number=place, sentence=shown.record.source_text)


def _listed(part: Literal["asked", "answer"], tasks: Sequence[_Task]) -> str:
    items = "".join(f"<li>{getattr(task, part)}</li>" for task in tasks)
    return f'<ol type="a">{items}</ol>'


def _page(place: int, shown: Sheet, tasks: Sequence[_Task]) -> str:
    record = shown.record
    layer, head = shown.layer + 1, shown.head + 1
    drawing = picture(record, shown.kind, shown.layer, shown.head)
    described = _said("task.picture", attention=ATTENTION[shown.kind], layer=layer, head=head)
    return (
        f"<section><h2>{_heading(place, shown)}</h2>"
        f"<p>{_said('task.translation', translation=record.translation)}</p>"
        f'<figure role="img" aria-label="{described}">{drawing}</figure>'
        f"{_split(shown)}{_listed('asked', tasks)}</section>"
    )


def _split(shown: Sheet) -> str:
    """Say which words of the keys take several columns; "" if none does."""
    _, (keys, first) = axes(shown.record, shown.kind)
    words = group_words(keys)
    names, columns = word_labels(keys, words, first), labels(keys, first)
    split = [
        f"{name} = {' + '.join(columns[i] for i in word)}"
        for name, word in zip(names, words, strict=True)
        if len(word) > 1
    ]
    return f"<p>{_said('task.split', words='; '.join(split))}</p>" if split else ""


def _answers(heading: str, tasks: Sequence[_Task]) -> str:
    return f'<div class="answers"><h3>{heading}</h3>{_listed("answer", tasks)}</div>'


def _tasks(shown: Sheet) -> Iterator[_Task]:
    """Yield the questions about a map: two rows, and one weight."""
    settled = list(_settled(shown))
    if not settled:
        yield _Task(_said("row.unclear"), "–")
        return
    for query, question in settled[:ROWS]:
        yield _row_task(shown, query, question)
    if (clear := _clear_cell(shown, [query for query, _ in settled])) is not None:
        yield _half_task(shown, *clear)


def _settled(shown: Sheet) -> Iterator[tuple[int, Question]]:
    """Yield each row whose token clearly attends to one word, with its question, from the top.

    Rows of tokens with at least `LONG` letters come first: most of these are nouns and verbs.
    """
    (queries, _), _ = axes(shown.record, shown.kind)
    words = [
        (len(token.text) < LONG, query)
        for query, token in enumerate(queries)
        if not (token.special or is_punctuation(token.text))
    ]
    for _, query in sorted(words):
        try:
            question = attends(shown.record, shown.kind, shown.layer, shown.head, query)
        except Unsettled:
            continue
        yield query, question


def _words(shown: Sheet, question: Question) -> list[str]:
    """Name a question's options: repeated words with their number, split words with all columns."""
    _, (keys, first) = axes(shown.record, shown.kind)
    words = group_words(keys)
    names = dict(zip(words, word_labels(keys, words, first), strict=True))
    columns = labels(keys, first)

    def named(word: tuple[int, ...]) -> str:
        if len(word) == 1:
            return text(_LESSON, "row.whole", word=names[word])
        parts = ", ".join(f"“{columns[i]}”" for i in word)
        return text(_LESSON, "row.split", word=names[word], columns=parts)

    return [named(cast("tuple[int, ...]", option)) for option in question.options]


def _row_task(shown: Sheet, query: int, question: Question) -> _Task:
    (queries, first), _ = axes(shown.record, shown.kind)
    asked = _said(
        "row.prompt",
        query=labels(queries, first)[query],
        number=query + 1,
        count=len(queries),
    )
    words = _words(shown, question)
    shares = [percent(share) for share in question.evidence]
    answers = [_said("row.answer", word=words[question.best], share=shares[question.best])]
    answers += [_said("row.near", word=words[i], share=shares[i]) for i in sorted(question.near)]
    return _Task(f"{asked} {_BLANK}", "; ".join(answers) + ".")


def _clear_cell(shown: Sheet, rows: Sequence[int]) -> tuple[int, int] | None:
    """Return a cell whose weight is clearly not ½, from the last of `rows` that has one, else None.

    For about half of all sentences, the cell has the second largest weight of its row instead of
    the largest, so that "above" is not always the answer.
    """
    weights = shown.record.maps(shown.kind)[shown.layer, shown.head]
    rank = int(shown.record.id[:8], 16) % 2
    for query in reversed(rows):
        key = int(np.argsort(-weights[query], kind="stable")[rank])
        if abs(float(weights[query, key]) - 0.5) >= CLEAR:
            return query, key
    return None


def _half_task(shown: Sheet, query: int, key: int) -> _Task:
    queries, keys = (labels(*axis) for axis in axes(shown.record, shown.kind))
    weight = float(shown.record.maps(shown.kind)[shown.layer, shown.head, query, key])
    asked = _said("half.prompt", query=queries[query], key=keys[key])
    answer = _said("half.above" if weight > 0.5 else "half.below", weight=percent(weight))
    return _Task(f"{asked} {_BLANK}", f"{answer}.")


def _sum_task(shown: Sheet) -> _Task:
    """Ask for the sum of the first row of a map."""
    (queries, first), _ = axes(shown.record, shown.kind)
    count = int(shown.record.mask(shown.kind)[0].sum())
    asked = _said("sum.prompt", query=labels(queries, first)[0], count=count)
    return _Task(f"{asked} {_BLANK}", f"{_said('sum.answer')}.")


def _mask_task(record: TranslationRecord) -> _Task:
    fed = record.target_in[:MASK_CELLS]
    try:
        question = masked(record.mask("decoder"), range(len(fed)), range(len(fed)))
    except Unsettled:
        return _Task(_said("mask.one"), "–")
    hatched = np.zeros((len(fed), len(fed)), bool)
    for index in question.correct:
        hatched[cast("tuple[int, int]", question.options[index])] = True
    names = labels(fed, 0)
    asked = _said("mask.prompt", tokens=" ".join(map(label, fed)))
    return _Task(
        asked + _grid(names, np.zeros_like(hatched)),
        _said("mask.answer") + _grid(names, hatched),
    )


def _grid(names: Sequence[str], hatched: np.ndarray) -> str:
    """Return a table of empty cells, some hatched, with queries on rows and keys on columns."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th>"
        + "".join(_HATCHING if cell else "<td></td>" for cell in row)
        + "</tr>"
        for name, row in zip(names, hatched, strict=True)
    )
    return f'<table class="grid"><tr><td class="corner"></td>{head}</tr>{rows}</table>'
