"""A teacher's plan, stored as text in a link: stops of the tour, and lessons with a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from app.lessons.texts import rows
from app.stops import PAGES, TOUR, TOURS, Stop
from core.files import printable

VERSION = "1"
LONGEST_LINK = 2000  # characters: longer links are cut by some mail and chat programs
MOST_STOPS = 40
_STEP = re.compile("~(?!0)")  # "~" separates stops; in a sentence it is written "~0"


@dataclass(frozen=True)
class Plan:
    """The stops of a plan, in order; those at pages have a sentence."""

    stops: tuple[Stop, ...] = ()

    def to_text(self) -> str:
        """Return the text for a link, such as 1~tour.ahead~masks.Zwei Hunde."""
        parts = (f"{stop.page}.{stop.id or stop.source.replace('~', '~0')}" for stop in self.stops)
        return "~".join((VERSION, *parts))


def offered(direction: str, sentence: str) -> Iterator[Stop]:
    """Yield all stops that a plan can have: the direction's tour stops, then each page."""
    yield from TOURS.get(direction, ())
    for stop in PAGES.values():
        yield replace(stop, source=sentence)


@dataclass(frozen=True)
class Ready:
    """A lesson that is ready: a plan, and the minute at which each of its stops begins."""

    name: str
    title: str
    needs: str
    goal: str
    minutes: tuple[int, ...]
    length: int
    plan: Plan


def ready(direction: str) -> Iterator[Ready]:
    """Yield the lessons of a direction that are ready, none for unknown languages."""
    for name, row in rows("stops", "ready").items():
        if direction in row:
            plan, _ = parse(row[direction], direction)
            minutes, length = tuple(row["minutes"]), row["length"]
            yield Ready(name, row["title"], row["needs"], row["goal"], minutes, length, plan)


def parse(text: str, direction: str) -> tuple[Plan, str]:
    """Return the plan in a link's text, and one line about what was left out, or "".

    The text may be hostile. A stop is left out if it is unknown in this direction, if it has no
    sentence, or if `MOST_STOPS` come before it.
    """
    version, *parts = _STEP.split(text)
    if not text:
        return Plan(), "This link's plan is empty: ask for a new link."
    if version != VERSION:
        has = f"version {quoted(version)}" if version else "no version"
        return Plan(), (
            f"This link's plan has {has}, and this app reads version {VERSION}: ask for a new link."
        )
    stops: list[Stop] = []
    left_out: list[str] = []
    for part in parts:
        stop = _stop(part, direction)
        if len(stops) == MOST_STOPS:
            left_out.append(f"{quoted(part)} (a plan has at most {MOST_STOPS} stops)")
        elif stop is None:
            left_out.append(f"{quoted(part)} (unknown here)" if part else "a stop without a name")
        elif not stop.source:
            left_out.append(f"{quoted(part)} (without a sentence)")
        else:
            stops.append(stop)
    return Plan(tuple(stops)), _said(left_out, bool(stops))


def _stop(part: str, direction: str) -> Stop | None:
    """Return the stop of a part of a link, or None if it is unknown in this direction."""
    page, _, argument = part.partition(".")
    argument = " ".join(argument.replace("~0", "~").split())
    if page == TOUR:
        known = (stop for stop in TOURS.get(direction, ()) if argument in (stop.id, stop.former))
        return next(known, None) if argument else None
    return replace(PAGES[page], source=argument) if page in PAGES else None


def _said(left_out: list[str], some: bool) -> str:
    if not left_out:
        return "" if some else "This link's plan has no stops: ask for a new link."
    shown = "; ".join(left_out[:3])
    if len(left_out) > 3:
        shown += f"; and {len(left_out) - 3} more"
    return f"Left out of the plan: {shown}." if some else f"No stop can be used: {shown}."


def quoted(text: str) -> str:
    """Quote a part of a link in one line, cut after 40 characters."""
    return f"“{printable(text[:40])}{'…' * (len(text) > 40)}”"
