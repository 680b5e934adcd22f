"""The plan that runs in this session, and presentation mode: both arrive with a link."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

import streamlit as st

from app.plan import Plan, parse, quoted
from app.state import address, models, session
from app.stops import TOUR, TOURS, Stop

TEACHER = "class"
"""The URL path of the page where plans are made; there, the parameter `plan` is a draft."""
_RUNNING = "running plan"
_MOVED = "plan moved"
_PRESENT = "present"
_SCREEN = "presented screen"


@dataclass(frozen=True)
class Running:
    """A plan at one of its stops, counted from 0; the link fixes direction and model."""

    plan: Plan
    direction: str
    model: str
    at: int = 0
    note: str = ""
    """One line about the parts of the link that could not be used, or ""."""

    @property
    def stop(self) -> Stop:
        return self.plan.stops[self.at]

    @property
    def query(self) -> dict[str, str]:
        """The query parameters of the current stop, without the sentence."""
        return {
            "direction": self.direction,
            "model": self.model,
            "plan": self.plan.to_text(),
            "at": str(self.at + 1),
        }


def running() -> Running | None:
    """Return the plan that runs in this session, or None."""
    found = session.saved_result(_RUNNING)
    return found if found and found.plan.stops else None


def note() -> str:
    """Return one line about the parts of the plan's link that could not be used, or ""."""
    found = session.saved_result(_RUNNING)
    return found.note if found else ""


def read(page: str) -> None:
    """Start the plan of the link that this page was opened with, if there is one.

    Call it after `address.read_query` and before the sidebar is drawn.
    """
    if (present := address.pop(_PRESENT)) is not None:
        session.put(_PRESENT, present == "1")
    if page == TEACHER or (text := address.pop("plan")) is None:
        return
    at = address.pop("at")
    cards = models.cards()
    asked = address.requested("direction"), address.requested("model")
    direction = _usable(asked[0], [d for d, _ in cards], "de-en")
    model = _usable(asked[1], [name for d, name in cards if d == direction], "scratch")
    plan, said = parse(text, direction)
    places = {str(number + 1): number for number in range(len(plan.stops))}
    notes = [said]
    if card := cards.get((direction, model)):
        used = models.languages(direction), models.model_label(card)
        notes += [
            f"The plan's {what} {quoted(name)} is not available here: {instead} is used instead."
            for what, name, own, instead in zip(
                ("direction", "model"), asked, (direction, model), used, strict=True
            )
            if name is not None and name != own
        ]
    if places and at is not None and at not in places:
        notes.append(
            f"This link opens stop {quoted(at)}, and the plan has stops 1 to {len(places)}: it "
            "starts at stop 1."
        )
    said = " ".join(filter(None, notes))
    old = running()
    if old and not said and (old.plan, old.direction, old.model) == (plan, direction, model):
        said = old.note  # the app wrote this link, without the unusable parts of the first link
    place = places.get(at or "", 0)
    session.save_result(_RUNNING, Running(plan, direction, model, place, said))
    if plan.stops and page == TOUR:
        _apply()


def _usable(asked: str | None, known: list[str], usual: str) -> str:
    if asked in known:
        return str(asked)
    return usual if usual in known or not known else known[0]


def start(plan: Plan, direction: str, model: str, at: int = 0, presented: bool = False) -> None:
    """Run a plan from one of its stops; with `presented`, in presentation mode."""
    if presented:
        present(True)
    session.save_result(_RUNNING, Running(plan, direction, model, at))
    _apply()


def go(at: int) -> None:
    """Go to a stop, counted from 0."""
    if (now := running()) and 0 <= at < len(now.plan.stops):
        session.save_result(_RUNNING, Running(now.plan, now.direction, now.model, at, now.note))
        _apply()


def back() -> None:
    """Go to the previous screen of the current stop, or to the previous stop."""
    if (now := running()) is None:
        return
    if can_turn_back(now):
        show_screen(screen() - 1)
    else:
        go(now.at - 1)


def can_turn_back(now: Running) -> bool:
    """Whether the current stop is presented, at a later screen than its first."""
    return presenting() and screen() > 0


def screen() -> int:
    """Return which screen of the presented stop is shown, from 0. Entering a stop resets it."""
    now = running()
    place = session.get("arrival"), session.get("stop"), now and now.at
    saved = session.saved_result(_SCREEN)
    if saved is None or saved[0] != place:
        saved = place, 0
        session.save_result(_SCREEN, saved)
    return int(saved[1])


def show_screen(number: int) -> None:
    """Go to a screen of the presented stop, counted from 0."""
    screen()
    session.save_result(_SCREEN, (session.saved_result(_SCREEN)[0], number))


def leave() -> None:
    """End the plan, so that direction, model and sentence can be chosen freely again."""
    session.save_result(_RUNNING, None)


def _apply() -> None:
    """Set the current stop's direction, model and sentence, and request its page."""
    now = running()
    assert now is not None
    session.put("direction", now.direction)
    session.put("model", now.model)
    for name in address.VIEW:
        address.pop(name)
    session.put("view", None)
    session.put("target", "")
    if now.stop.on_tour:
        address.pop("stop")  # of the same link: `at` says which stop it is
        session.put("stop", TOURS[now.direction].index(now.stop) + 1)
    else:
        session.put("source", now.stop.source)
    session.put(_MOVED, True)


def on_the_way() -> Running | None:
    """Return the plan on the first call after a move, which opens the stop's page; else None."""
    if not session.get(_MOVED):
        return None
    session.put(_MOVED, False)
    return running()


def at_tour_stop() -> bool:
    """Whether a plan runs and its current stop is on the tour."""
    now = running()
    return now is not None and now.stop.on_tour


def keep_in_url(page: str) -> None:
    """Write plan, stop and presentation mode to the page's URL."""
    now = running()
    values: dict[str, str | None] = {_PRESENT: "1" if presenting() else None}
    if page != TEACHER:  # there, `plan` is a draft
        query = {} if now is None else now.query
        values |= {"plan": query.get("plan")}
        # Each stop is an entry of the browser's history; its link alone says which stop it is.
        address.write({"at": query.get("at")}, "plan_at", entry=address.VIEW if now else None)
    address.write(values, "plan")


def link(plan: Plan, query: dict[str, str], present: bool = False) -> str:
    """Return the link that runs a plan; without the server's address if that is unknown.

    The plan is not the last parameter: its sentence may end in a full stop, which mail programs cut
    from the end of a link.
    """
    url = str(st.context.url or "").split("?")[0].rstrip("/")
    base = url.removesuffix(f"/{TEACHER}")
    parameters = {"plan": plan.to_text(), **query} | ({_PRESENT: "1"} if present else {})
    return f"{base}/{TOUR}?{urlencode(parameters)}"


def presenting() -> bool:
    """Whether presentation mode is on."""
    return bool(session.get(_PRESENT))


def present(on: bool) -> None:
    """Turn presentation mode on or off."""
    session.put(_PRESENT, on)
