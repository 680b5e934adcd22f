"""Compute the texts of the tour or of a plan from records made with the exported weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import core
from app.export.rounding import rounded_checkpoint
from app.lessons.texts import text
from app.plan import Plan
from app.stops import TOURS, Stop
from app.views.tour.finders import Highlight, find, measured, taught, tokens_in_words
from core.record.record import TranslationRecord

Inspect = Callable[[str], TranslationRecord]
"""Translates a text with the exported weights and the page's search, and records the maps."""


@dataclass(frozen=True)
class Found:
    """A stop with the record that shows its effect, and the head and row found in it."""

    stop: Stop
    record: TranslationRecord
    shown: Highlight

    @property
    def view(self) -> dict[str, str]:
        """The parameters of a link to the head and its row."""
        shown = self.shown
        at = {"kind": shown.kind, "layer": str(shown.head.layer), "head": str(shown.head.head)}
        return at if shown.query is None else at | {"q": str(shown.query)}


def translator_of(folder: Path, int8: bool) -> core.Translator:
    """Load a checkpoint on the CPU with the rounded weights that the page holds.

    It is loaded from a temporary copy, so its card names that copy's folder.
    """
    with rounded_checkpoint(folder, int8) as rounded:
        return core.load(rounded, device="cpu")


def found_stops(direction: str, inspect: Inspect) -> Iterator[Found]:
    """Yield the stops of a direction whose effect the network shows; none for unknown languages.

    A stop is left out if its sentence is too long, or if the translation lacks a word that the
    stop needs. Stops that run the network again, under edits or with another search, are left out
    too.
    """
    for stop in TOURS.get(direction, ()):
        if stop.trial:
            continue
        with suppress(LookupError, core.InputError):
            record = inspect(stop.source)
            yield Found(stop, record, find(stop.find, record))


def tour(direction: str, inspect: Inspect) -> list[dict[str, Any]]:
    """Return the found stops as JSON values: plain text, and the view that each one opens.

    `measured` is one sentence in three parts: before the share, the share, and after it.
    """
    return [_on_tour(found) for found in found_stops(direction, inspect)]


def _said(found: Found) -> str:
    """Return what a stop says before its measurement: one that teaches describes its cell."""
    if not found.stop.teaches or found.shown.query is None:
        return found.stop.look_for
    values = taught(found.shown, found.record)
    return " ".join(text("tour", f"page.{name}", **values) for name in ("teaches", "legend"))


def _on_tour(found: Found) -> dict[str, Any]:
    return {
        "title": found.stop.title,
        "source": found.stop.source,
        "translation": found.record.translation,
        "look_for": _said(found),
        "measured": measured(found.stop, found.shown),
        "tokens": tokens_in_words(found.record),
        "view": found.view,
    }


def whole_tour(direction: str) -> Plan:
    """Return the plan of all stops of a direction's tour."""
    return Plan(TOURS.get(direction, ()))


def planned(plan: Plan, inspect: Inspect) -> list[dict[str, Any]]:
    """Return the stops of a plan that the offline page can show, as `tour` does."""
    return [
        _on_tour(shown) if isinstance(shown, Found) else shown
        for stop in plan.stops
        if not isinstance(shown := _shown(stop, inspect), str)
    ]


def not_offline(plan: Plan, inspect: Inspect) -> list[str]:
    """Return one line for each stop of a plan that the offline page leaves out, with the reason."""
    return [
        f"Stop {place}, {stop.title}: {shown}"
        for place, stop in enumerate(plan.stops, 1)
        if isinstance(shown := _shown(stop, inspect), str)
    ]


def _shown(stop: Stop, inspect: Inspect) -> Found | dict[str, Any] | str:
    """Return a plan's stop as the offline page shows it, or the reason why it cannot show it."""
    if not (stop.on_tour or stop.offline):
        return "this page needs the app"
    if stop.trial:
        return "its comparison exists in the app only"
    try:
        record = inspect(stop.source)
    except ValueError as error:  # InputError: one line
        return str(error)
    if stop.on_tour:
        try:
            return Found(stop, record, find(stop.find, record))
        except LookupError as missing:
            return f"{missing}, so there is nothing to measure"
    return {
        "title": stop.title,
        "source": stop.source,
        "translation": record.translation,
        "look_for": f"Shows {stop.note}.",
        "measured": ("", "", ""),
        "tokens": tokens_in_words(record),
        "view": {"lesson": stop.page} if stop.offline == "lesson" else {},
    }
