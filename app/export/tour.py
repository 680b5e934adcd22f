"""Compute the guided tour's texts from records of the exported weights, for the offline page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import core
from app.export.rounding import rounded_checkpoint
from app.views.tour.stops import STOPS, Highlight, Stop, measured, tokens_in_words
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

    It is loaded from a temporary copy, so its card does not name the folder.
    """
    with rounded_checkpoint(folder, int8) as rounded:
        return core.load(rounded, device="cpu")


def found_stops(direction: str, inspect: Inspect) -> Iterator[Found]:
    """Yield the stops of a direction whose effect the network shows; none for unknown languages.

    A stop is left out if the network's translation lacks a word that it needs, or if it runs the
    network again under edits or with another search.
    """
    for stop in STOPS.get(direction, ()):
        if stop.trial is not None:
            continue
        record = inspect(stop.source)
        try:
            yield Found(stop, record, stop.find(record))
        except LookupError:
            continue


def tour(direction: str, inspect: Inspect) -> list[dict[str, Any]]:
    """Return the found stops as JSON values: plain text, and the view that each one opens.

    `measured` is one sentence in three parts: before the share, the share, and after it.
    """
    return [
        {
            "title": found.stop.title,
            "source": found.stop.source,
            "translation": found.record.translation,
            "look_for": found.stop.look_for,
            "measured": measured(found.stop, found.shown),
            "tokens": tokens_in_words(found.record),
            "view": found.view,
        }
        for found in found_stops(direction, inspect)
    ]
