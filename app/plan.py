"""A teacher's plan, stored as text in a link: stops of the tour, and lessons with a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.views.tour.stops import STOPS
from core.files import printable

VERSION = "1"
LONGEST_LINK = 2000  # characters: longer links are cut by some mail and chat programs
MOST_STOPS = 40
_TOUR = "tour"
_STEP = re.compile("~(?!0)")  # "~" separates stops; in a sentence it is written "~0"
_OF_BOTH = {
    "a-head-that-looks-back-by-one": "back",
    "a-head-with-nothing-to-find": "sink",
    "never-ahead": "ahead",
    "two-vectors-one-score": "q-k",
}
FORMER_NAMES = {
    "de-en": _OF_BOTH
    | {
        "a-word-that-moves": "fussball",
        "one-word-becomes-two": "strassenmusiker",
        "the-same-word-twice": "hemd",
        "greedy-or-beam-search": "ohne",
        "right-or-wrong": "igel",
    },
    "en-de": _OF_BOTH
    | {
        "a-word-that-moves": "buy",
        "two-words-become-one": "street-musician",
        "one-verb-in-two-places": "preparing",
        "the-same-word-twice": "shirt",
        "greedy-or-beam-search": "mouse",
        "right-or-wrong": "without",
    },
}
"""Per direction, the id of each tour stop by its name in older links: the slug of its title."""


@dataclass(frozen=True)
class Lesson:
    """A page that a plan can stop at: its file in `app`, title, and what it shows."""

    file: str
    title: str
    about: str
    offline: str = ""
    """How the offline page shows it: "lesson", "maps", or "" if it cannot."""


LESSONS = {
    "translate": Lesson(
        "views/translate.py", "Translate", "all attention maps of the sentence", "maps"
    ),
    "tokens": Lesson("views/tokens/page.py", "Tokens", "why a word becomes several tokens"),
    "steps": Lesson("views/steps.py", "Step by step", "how the search found this translation"),
    "head": Lesson(
        "views/inside_head/page.py",
        "Inside a head",
        "one weight, from two vectors to the output",
    ),
    "why": Lesson("views/why/page.py", "Ask why", "which heads matter here, and why this word"),
    "masks": Lesson("views/masks/page.py", "Masks", "what the hatched cells are for", "lesson"),
    "positions": Lesson(
        "views/positions/page.py",
        "Positions",
        "how the network knows the order of the tokens",
        "lesson",
    ),
    "bugs": Lesson("views/bugs/page.py", "Find the bug", "a network with one classic mistake"),
}
"""Lessons by their name in a plan."""


@dataclass(frozen=True)
class Stop:
    """A stop: a lesson's name with its sentence, or "tour" with the id of the tour's stop."""

    name: str
    argument: str

    @property
    def on_tour(self) -> bool:
        return self.name == _TOUR

    @property
    def page(self) -> str:
        """The file of the stop's page, relative to `app`."""
        return "views/tour/page.py" if self.on_tour else LESSONS[self.name].file

    @property
    def url_path(self) -> str:
        """The URL path of the stop's page, as `main.py` registers it; "" for the default page."""
        return "" if self.name == "translate" else self.name

    def title(self, direction: str) -> str:
        """Return the stop's title. Raises KeyError if the tour of this direction lacks it."""
        return tour_stop(direction, self.argument)[1] if self.on_tour else LESSONS[self.name].title

    def sentence(self, direction: str) -> str:
        """Return the stop's sentence. Raises KeyError if the tour of this direction lacks it."""
        if self.on_tour:
            return STOPS[direction][tour_stop(direction, self.argument)[0]].source
        return self.argument


@dataclass(frozen=True)
class Plan:
    """The stops of a plan, in order."""

    stops: tuple[Stop, ...] = ()

    def to_text(self) -> str:
        """Return the text for a link, such as 1~tour.ahead~masks.Zwei Hunde."""
        parts = (f"{stop.name}.{stop.argument.replace('~', '~0')}" for stop in self.stops)
        return "~".join((VERSION, *parts))


def tour_stop(direction: str, id: str) -> tuple[int, str]:
    """Return a tour stop's number (from 0) and title. Raises KeyError for an unknown id."""
    for number, stop in enumerate(STOPS.get(direction, ())):
        if stop.id == id:
            return number, stop.title
    raise KeyError(id)


def offered(direction: str, sentence: str) -> Iterator[Stop]:
    """Yield all stops that a plan can have: the direction's tour stops, then each lesson."""
    for stop in STOPS.get(direction, ()):
        yield Stop(_TOUR, stop.id)
    for name in LESSONS:
        yield Stop(name, sentence)


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
        name, _, argument = part.partition(".")
        argument = " ".join(argument.replace("~0", "~").split())
        if name == _TOUR:
            argument = FORMER_NAMES.get(direction, {}).get(argument, argument)
        stop = Stop(name, argument)
        if len(stops) == MOST_STOPS:
            left_out.append(f"{quoted(part)} (a plan has at most {MOST_STOPS} stops)")
        elif not _known(stop, direction):
            left_out.append(f"{quoted(part)} (unknown here)" if part else "a stop without a name")
        elif not argument:
            left_out.append(f"{quoted(part)} (without a sentence)")
        else:
            stops.append(stop)
    return Plan(tuple(stops)), _said(left_out, bool(stops))


def _known(stop: Stop, direction: str) -> bool:
    if stop.on_tour:
        return any(one.id == stop.argument for one in STOPS.get(direction, ()))
    return stop.name in LESSONS


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
