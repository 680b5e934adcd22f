"""The address: what it asked for on arrival, and which of a page's choices it keeps.

Every page keeps the sentence and how it is translated; a lesson keeps its own choices under their
widgets' keys. What is as usual has no place in the address. An explorer writes its own view beside
all this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.components.address import address
from app.state import visit
from core.kinds import KINDS
from core.record.record import TranslationRecord

VIEW = ("kind", "layer", "head", "q", "k")
"""What a head's place is made of, in the address of an explorer and of "Inside a head"."""


def one_line(text: str) -> str:
    """A text of several lines as the one line that the sentence's box holds."""
    return re.sub(r"\s*[\r\n]+\s*", " ", text).strip()


def arrive(page: str) -> None:
    """Read the address, if the visitor has just come to this page or went back or forth in history.

    It is read at no other time: Streamlit names the address that a page was opened with in every
    run, whatever was chosen since, and its own writing of it makes the browser's Back lead nowhere.
    The sentence is taken over at once, the other choices where they are drawn, by `settle`.
    """
    context = get_script_run_ctx()
    history = context is not None and context.is_history_navigation
    if visit.get("page") == page and not history:
        return
    parameters = st.query_params.to_dict()
    visit.put("page", page)
    if history and not page:  # the first page keeps all edits there: an address without has none
        parameters.setdefault("edits", "")
    visit.put("asked", parameters)
    visit.put("seen", st.query_params.to_dict())
    visit.put("arrival", (visit.get("arrival") or 0) + 1)
    if parameters.keys() & {*VIEW, "words"}:
        visit.put("asked_view", dict(parameters))
    source, target = take("source"), take("target")
    if source is not None or target is not None:  # a link names a translation, or there is none
        visit.put("target", one_line(target or ""))
    # What stood in the box is put there anew: on another page it is another widget.
    if text := one_line(source or "") or visit.get("source"):
        visit.put("source", text)


def asked(name: str) -> str | None:
    """What the address asked for under a name when the visitor came to this page."""
    return (visit.get("asked") or {}).get(name)


def take(name: str) -> str | None:
    """The same, once: what the visitor chooses later counts."""
    return (visit.get("asked") or {}).pop(name, None)


def asked_view(record: TranslationRecord) -> dict[str, str | int] | None:
    """The view that the address of this page asked for, or None."""
    return first_view(record) if asked("kind") else None


def first_view(record: TranslationRecord) -> dict[str, str | int]:
    """Kind, layer and head that the last link to a view asked for, within what the record has.

    The explorer reads them once, when it appears. A link that asks for none of them opens on the
    word that tells most, pinned (`q`), or, where no word does, on the first head of the last
    cross-attention layer but one, as a wrong link does.
    """
    from core.analysis.first_cell import first_cell

    view = visit.get("asked_view") or {}
    if not view:
        word = first_cell(record.cross, record.source, record.target_out)
        if word is not None:
            return {"kind": "cross", "layer": word.layer, "head": word.head, "q": word.query}
    kind = view.get("kind", "cross")
    if kind not in KINDS:
        kind = "cross"
    layers, heads = record.maps(kind).shape[:2]
    return {
        "kind": kind,
        "layer": _index(view.get("layer"), layers, max(0, layers - 2)),
        "head": _index(view.get("head"), heads, 0),
    }


def _index(text: str | None, count: int, usual: int) -> str | int:
    """A layer or head that a link asks for: an index, or "mean" or "max" of all; else the usual."""
    if text in ("mean", "max"):
        return text
    return int(text) if text is not None and text in map(str, range(count)) else usual


def wanted_quantity(key: str) -> str:
    """What an explorer wants to show: what was chosen in it last, else what a link asks for."""
    return (visit.get(key) or {}).get("quantity") or asked("quantity") or "weights"


def settle(key: str, options: Iterable[Any], usual: Any) -> None:
    """Give a widget its value before it is drawn, one of `options`.

    It is what the address asks for, else what the widget has, else the usual one.
    """
    options = list(options)
    text = take(key)
    known = {str(option): option for option in options}
    if text in known:
        visit.put(key, known[text])
    elif visit.get(key) not in options:
        visit.put(key, usual)


def settle_text(key: str, usual: str, name: str | None = None) -> None:
    """The same for a box of text, which may hold anything; the address has it under `name`."""
    text = take(name or key)
    if text is not None:
        visit.put(key, text)
    elif visit.get(key) is None:
        visit.put(key, usual)


def keep(values: Mapping[str, object], key: str, entry: tuple[str, ...] | None = None) -> None:
    """Keep values in the address; None and the empty text take their names out.

    One writer for a name: no two calls on a page may share one. For `entry` see
    `components.address`.
    """
    texts = {name: None if value is None else str(value) or None for name, value in values.items()}
    address(
        texts,
        page=visit.get("page") or "",
        seen=visit.get("seen") or {},
        arrival=visit.get("arrival") or 0,
        key=key,
        entry=entry,
    )


def keep_choice(name: str, value: object, usual: object) -> None:
    """Keep one widget's value, if it is not the usual one."""
    keep({name: None if value == usual else value}, name)
