"""The plan that a teacher edits in this session: stops with sentences, added, moved and removed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.plan import MOST_STOPS, Plan
from app.state import results, session
from app.stops import TOURS, Stop

_SAVED = "plan draft"


@dataclass(frozen=True)
class Row:
    """A stop of the draft; `number` is never reused, so that widgets stay with their stop."""

    number: int
    stop: Stop


def rows(direction: str) -> tuple[Row, ...]:
    """Return the draft of a direction, with the sentences as typed so far."""
    return tuple(
        row if row.stop.on_tour else replace(row, stop=replace(row.stop, source=_typed(row)))
        for row in _saved(direction)
    )


def _typed(row: Row) -> str:
    """Return the sentence in a row's box, or that of the stop if the box is not drawn yet."""
    typed = session.get(box(row))
    return row.stop.source if typed is None else " ".join(str(typed).split())


def problem(stop: Stop) -> str:
    """Return why a stop's sentence cannot be used and what to do, in one line, or ""."""
    if stop.on_tour:
        return ""
    if not stop.source:
        return "Type a sentence."
    if (length := len(stop.source)) > (limit := results.most_characters()):
        return f"{length:,} characters are too many: the limit is {limit}, shorten the sentence."
    return ""


def box(row: Row) -> str:
    """Return the widget key of a row's sentence."""
    return f"class_sentence_{row.number}"


def _saved(direction: str) -> tuple[Row, ...]:
    return (session.saved_result(_SAVED) or {}).get(direction, ())


def _save(direction: str, changed: tuple[Row, ...]) -> None:
    session.save_result("draft note", "")
    session.save_result(_SAVED, {**(session.saved_result(_SAVED) or {}), direction: changed})


def plan(direction: str) -> Plan:
    """Return the draft as a plan."""
    return Plan(tuple(row.stop for row in rows(direction)))


def fill(direction: str, stops: tuple[Stop, ...]) -> None:
    """Replace the draft."""
    _save(direction, ())
    add(direction, stops)


def add(direction: str, stops: tuple[Stop, ...]) -> None:
    """Add stops at the end, up to `MOST_STOPS` in total."""
    now = rows(direction)
    first = (session.saved_result("plan rows") or 0) + 1
    session.save_result("plan rows", first + len(stops) - 1)
    new = tuple(Row(first + place, stop) for place, stop in enumerate(stops))
    _save(direction, (*now, *new)[:MOST_STOPS])


def add_tour(direction: str) -> None:
    """Add every stop of the tour."""
    add(direction, TOURS[direction])


def move(direction: str, place: int, by: int) -> None:
    """Swap a row with the one before (-1) or after it (1)."""
    now = list(rows(direction))
    if 0 <= place + by < len(now):
        now[place], now[place + by] = now[place + by], now[place]
    _save(direction, tuple(now))


def remove(direction: str, place: int) -> None:
    """Remove a row."""
    now = rows(direction)
    _save(direction, now[:place] + now[place + 1 :])
