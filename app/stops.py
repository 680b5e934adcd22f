"""The table of stops: the stops of the guided tour, and the pages that a plan can stop at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from app.lessons.texts import rows
from app.views import VIEWS

TOUR = "tour"
"""The page of the guided tour."""


@dataclass(frozen=True)
class Stop:
    """One stop: a page with a sentence, or a stop of the tour.

    `page` is the page's URL path, or "translate" for the default page.
    `note` says what a page shows, and `offline` how the offline page shows it: "lesson", "maps", or
    "" if it cannot.

    The other fields are those of stops of the tour. `id` names the stop in links and is never
    changed, whatever its title; `former` is its name in older links, the slug of its title.
    `look_for` describes only the sentence and the model's design, which all networks share; what a
    network does is measured. `measured` is a sentence with the placeholders {attention}, {layer},
    {head} and {share}. `find` and `trial` name a function of `app/views/tour/finders.py` and one of
    `trials.py`, which runs the network again, with further arguments. `asks` names the question
    that comes first: "attends", "masked", "order" (without positions), "leak" (without the causal
    mask), "wins" (of a beam search), "contributes" (which term of the largest score) or "fetches"
    (which head restores the word of the trial's other sentence). `first_row` is the first row in
    which the head is measured, and the first that questions are about. Until the question is
    answered, `before` replaces a `look_for` that gives the answer away. A stop that `teaches` shows
    its cell instead of asking, except in a plan. `blocks` are the blocks of figure 1 that the stop
    is about, by default the head's attention. `edits` are those of a further picture in the
    gallery. `predict` asks a class in a few words what it will see.
    """

    page: str
    title: str
    source: str = ""
    note: str = ""
    offline: str = ""
    id: str = ""
    former: str = ""
    look_for: str = ""
    measured: str = ""
    find: Sequence = ()
    asks: str = "attends"
    first_row: int = 0
    before: str = ""
    teaches: bool = False
    trial: Sequence = ()
    blocks: Sequence[str] = ()
    edits: str = ""
    predict: str = ""

    @property
    def on_tour(self) -> bool:
        return self.page == TOUR

    @property
    def url_path(self) -> str:
        """The URL path of the stop's page; "" for the default page."""
        return _path(self.page)


def _path(page: str) -> str:
    return "" if page == "translate" else page


PAGES = {
    name: Stop(name, VIEWS[_path(name)].title, **row) for name, row in rows("stops", "page").items()
}
"""Stops at pages by name, without a sentence."""


_FIELDS = {field.name for field in fields(Stop)}


def _tour(direction: str) -> tuple[Stop, ...]:
    return tuple(
        Stop(
            page=TOUR,
            id=id,
            **{key: value for key, value in row.items() if key in _FIELDS},
            **row[direction],
        )
        for id, row in rows("stops", "tour").items()
        if direction in row
    )


TOURS = {direction: _tour(direction) for direction in ("de-en", "en-de")}
"""The stops of the guided tour in order, by direction."""
