"""Which of a page's choices stand in its address: taken over on arrival, written by one component.

Every page keeps `COMMON`; a lesson keeps its own choices under their widgets' keys. What is as
usual has no place in the address. An explorer writes its own view beside all this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from app import session
from app.components.address import address

COMMON = ("source", "target", "direction", "model", "search")
VIEW = ("kind", "layer", "head", "q", "k")
"""What a head's place is made of, in the address of an explorer and of "Inside a head"."""


def one_line(text: str) -> str:
    """A text of several lines as the one line that the sentence's box holds."""
    return re.sub(r"\s*[\r\n]+\s*", " ", text).strip()


def arrive(page: str) -> None:
    """Take over the sentence that the address asks for, if the visitor has just come to `page`.

    The other choices are taken over where they are drawn, by `settle`.
    """
    if not session.arrive(page):
        return
    source, target = session.take_asked("source"), session.take_asked("target")
    if source is not None or target is not None:  # a link names a translation, or there is none
        session.put("target", one_line(target or ""))
    # What stood in the box is put there anew: on another page it is another widget.
    if text := one_line(source or "") or session.get("source"):
        session.put("source", text)


def settle(key: str, options: Iterable[Any], usual: Any, name: str | None = None) -> None:
    """Give a widget its value before it is drawn, one of `options`.

    It is what the address asks for under `name`, else what the widget has, else the usual one.
    """
    options = list(options)
    asked = session.take_asked(name or key)
    known = {str(option): option for option in options}
    if asked in known:
        session.put(key, known[asked])
    elif session.get(key) not in options:
        session.put(key, usual)


def settle_text(key: str, usual: str, name: str | None = None) -> None:
    """The same for a box of text, which may hold anything."""
    asked = session.take_asked(name or key)
    if asked is not None:
        session.put(key, asked)
    elif session.get(key) is None:
        session.put(key, usual)


def keep(values: Mapping[str, object], key: str, entry: tuple[str, ...] | None = None) -> None:
    """Keep values in the address; None and the empty text take their names out.

    One writer for a name: no two calls on a page may share one. For `entry` see `address`.
    """
    said = {name: None if value is None else str(value) or None for name, value in values.items()}
    address(said, page=session.page(), key=key, entry=entry)


def keep_choice(name: str, value: object, usual: object) -> None:
    """Keep one widget's value, if it is not the usual one."""
    keep({name: None if value == usual else value}, name)
