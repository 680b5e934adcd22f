"""Example sentences in both languages, each with a question that its maps answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.lessons.texts import rows

if TYPE_CHECKING:
    from core.record.record import TranslationRecord

_DIRECTIONS = ("de-en", "en-de")


@dataclass(frozen=True)
class Example:
    """A sentence in both languages, each also with one thing changed.

    Pairs are per direction, from German and from English. A title names what the sentence shows. A
    hint states facts about the source sentence only and asks about the translation, because
    networks translate differently. `find` names a function of `app/views/tour/finders.py`, with
    further arguments: it finds the head and the word that show it.
    """

    titles: tuple[str, str]
    look_for: tuple[str, str]
    find: tuple[Sequence[Any], Sequence[Any]]
    de: str
    en: str
    changed: tuple[str, str]  # de and en

    def title(self, direction: str) -> str:
        """Return what the sentence shows in a direction; in others, the name from German."""
        return self.titles[direction == _DIRECTIONS[1]]

    def hint(self, direction: str) -> str:
        """Return what to look for in a direction; "" in an unsupported one."""
        return dict(zip(_DIRECTIONS, self.look_for, strict=True)).get(direction, "")

    def text(self, direction: str) -> str:
        """Return the sentence in the direction's source language; "" if there is none."""
        return self.texts(direction)[0]

    def texts(self, direction: str) -> tuple[str, str]:
        """Return the sentence and the changed one in the source language; empty if unsupported."""
        pairs = {"de": (self.de, self.changed[0]), "en": (self.en, self.changed[1])}
        return pairs.get(direction.split("-")[0], ("", ""))


def _both(row: Mapping[str, Any], key: str) -> tuple[str, str]:
    """Return a row's text for each direction: one of its own, or the one for both."""
    usual = row.get(key, "")
    return row.get(f"{key}.de-en", usual), row.get(f"{key}.en-de", usual)


def _table(group: str) -> tuple[Example, ...]:
    """Read the rows of a group of the table of stops."""
    return tuple(
        Example(
            titles=_both(row, "title"),
            look_for=_both(row, "look_for"),
            find=(row.get("de-en", {}).get("find", ()), row.get("en-de", {}).get("find", ())),
            de=row["de"][0],
            en=row["en"][0],
            changed=(row["de"][1], row["en"][1]),
        )
        for row in rows("stops", group).values()
    )


EXAMPLES = _table("example")
MINIMAL_PAIRS = _table("pair")
"""Sentences without a hint, to be compared with the changed ones."""


def examples(direction: str) -> tuple[Example, ...]:
    """Return the examples in the direction's source language."""
    return tuple(example for example in EXAMPLES if example.text(direction))


def minimal_pairs(direction: str) -> tuple[Example, ...]:
    """Return the minimal pairs in the direction's source language."""
    return tuple(pair for pair in MINIMAL_PAIRS if pair.text(direction))


def minimal_change(text: str, direction: str) -> str:
    """Return the known sentence that differs from `text` in one thing, else `text` itself."""
    for first, second in (pair.texts(direction) for pair in MINIMAL_PAIRS + EXAMPLES):
        if text and text in (first, second):
            return second if text == first else first
    return text


def opening(record: TranslationRecord) -> dict[str, str | int] | None:
    """Return the cell's row that shows what an example is about: kind, layer, head and q.

    Return None for another sentence, and if this network does not show it.
    """
    from app.views.tour.finders import find

    found = (
        rule
        for example in EXAMPLES
        for direction, rule in zip(_DIRECTIONS, example.find, strict=True)
        if rule and example.text(direction) == record.source_text
    )
    rule = next(found, None)
    if rule is None:
        return None
    try:
        shown = find(rule, record)
    except LookupError:
        return None
    view = {"kind": shown.kind, "layer": shown.head.layer, "head": shown.head.head}
    return view if shown.query is None else {**view, "q": shown.query}
