"""The URL: query parameters read on arrival, and the choices that a page writes to it.

Every page writes the sentence, target, direction, model and search. Lessons add their widgets'
values, under the widgets' keys, and explorers their view. Default values are omitted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import streamlit as st

from app.components.address import address
from app.examples import opening
from app.plan import quoted
from app.state import session
from app.streamlit_internals import is_history_navigation
from core.kinds import KINDS
from core.record.record import TranslationRecord

_ESCAPED = re.compile(r"^(?:amp;|#0*38;|#x0*26;)+", re.IGNORECASE)
"""What is left in front of a parameter's name where & was written as HTML, even more than once."""
_EXPLORERS = ("", "steps", "head", "heads", "together", "train", "training", "tour")
_FURTHER = ("words", "hide", "sort", "effect", "combine", "quantity", "mass", "states")
_ONLY_ON: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("kind", "layer", "head", "q", "k", "view", *_FURTHER), _EXPLORERS),
    **dict.fromkeys(("bug", "bug_kind", "bug_layer", "bug_head"), ("bugs",)),
    **dict.fromkeys(("second_source", "beside", "second_of_two"), ("together",)),
    **dict.fromkeys(("two", "copy_way", "copied", "pushed"), ("together",)),
    **dict.fromkeys(("unit", "word", "tokens_side"), ("tokens",)),
    **dict.fromkeys(("forced", "tree_shown", "path_maps"), ("steps",)),
    **dict.fromkeys(("measure", "x", "y", "curve"), ("heads",)),
    "stop": ("tour",),
    "sentence": ("train", "training"),
    "form": ("quiz",),
    "gloss": ("",),
    "find": ("glossary",),
}
"""Parameters that only some pages read, by URL path: on others, a link's are leftovers."""
_UNKNOWN = "unknown choices"
_TURN = "view turn"  # counts the examples that were chosen
VIEW = ("kind", "layer", "head", "q", "k")
"""The URL parameters that identify a cell, in explorers and on *Inside a head*."""
CELL = ("q", "k")


def one_line(text: str) -> str:
    """Join the lines of a text with spaces: the sentence box holds one line."""
    return re.sub(r"\s*[\r\n]+\s*", " ", text).strip()


def unescaped(parameters: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return a link's parameters with their names as meant, and the names that were escaped.

    Mail and web editors turn & into &amp;, so `kind` becomes `amp;kind`. A parameter that the link
    also has by its own name keeps that value.
    """
    escaped = [name for name in parameters if _ESCAPED.match(name)]
    meant = {_ESCAPED.sub("", name): parameters[name] for name in escaped}
    return meant | {n: v for n, v in parameters.items() if n not in escaped}, escaped


def show_escaped() -> None:
    """Say that the link was escaped, if it was, and remove the escaped names from the URL."""
    if escaped := session.get("escaped"):
        st.caption("In this link, & had become &amp;amp;. It was read as meant.")
        write(dict.fromkeys(escaped), "escaped")


def unknown() -> list[tuple[str, str]]:
    """Return the choices of this page's link that are not among the options: key and text."""
    return session.get(_UNKNOWN) or []


def note_unknown(key: str, text: str) -> None:
    """Remember that this page's link named something that is not among the options."""
    session.put(_UNKNOWN, [*unknown(), (key, text)])


def unavailable(name: str, text: str, instead: str) -> str:
    """Say that a link names something unknown, and what is shown instead."""
    said = quoted(text)
    return f"This link's {name} {said} is not available here: {instead} is shown instead."


def from_one(text: str) -> str:
    """Return a number of a link, counted from 0, as the page shows it; other text as it is."""
    return str(int(text) + 1) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else text


def unknown_cell(record: TranslationRecord) -> str:
    """Say which row or column this page's link names that the maps of the record lack, or ""."""
    kind = requested("kind")
    kind = kind if kind in KINDS and record.has(kind) else "cross"
    if session.get("page") not in ("", "head", "together") or not record.has(kind):
        return ""
    sizes = zip(CELL, ("row", "column"), record.maps(kind).shape[-2:], strict=True)
    return " ".join(
        f"This link's {name} {quoted(from_one(text))} is not in this map of {count} {name}s."
        for key, name, count in sizes
        if (text := requested(key)) is not None and text not in map(str, range(count))
    )


def drop_leftovers() -> None:
    """Remove parameters from the URL that only other pages read."""
    if names := session.get("leftover"):
        write(dict.fromkeys(names), "leftover")


def read_query(page: str) -> None:
    """Read the query parameters on page load and on back/forward navigation, and at no other time.

    In every run, Streamlit reports the parameters that the page was opened with, whatever the user
    has chosen since. Writing them with Streamlit would break the browser's Back button. The
    sentence is applied at once; `initialise` applies each other choice when its widget is drawn.
    """
    history = is_history_navigation()
    if session.get("page") == page and not history:
        return
    parameters, escaped = unescaped(st.query_params.to_dict())
    session.put("page", page)
    session.put("escaped", escaped)
    session.put(_UNKNOWN, [])
    elsewhere = [name for name in parameters if page not in _ONLY_ON.get(name, (page,))]
    session.put("leftover", elsewhere)
    if history and not page:  # the main page keeps all edits in the URL
        parameters.setdefault("edits", "")
    session.put("query", parameters)
    session.put("seen", st.query_params.to_dict())
    session.put("arrival", (session.get("arrival") or 0) + 1)
    if parameters.keys() & {*VIEW, "words"} and page != "heads":  # there, `head` is cross.0.0
        session.put("view", dict(parameters))
    source, target = pop("source"), pop("target")
    if source is not None or target is not None:  # a link without a target clears it
        session.put("target", one_line(target or ""))
    # Restore the sentence box's text: each page draws a new widget.
    if text := one_line(source or "") or session.get("source"):
        session.put("source", text)


def requested(name: str) -> str | None:
    """Return a query parameter as it was on arrival at this page."""
    return (session.get("query") or {}).get(name)


def pop(name: str) -> str | None:
    """Return and forget a query parameter, so that later choices take precedence."""
    return (session.get("query") or {}).pop(name, None)


def requested_view(record: TranslationRecord) -> dict[str, str | int] | None:
    """Return the view that this page's URL requested, or None."""
    return initial_view(record) if requested("kind") else None


def initial_view(record: TranslationRecord) -> dict[str, str | int]:
    """Return the kind, layer and head that an explorer opens with, as the last link requested.

    The explorer reads them once, when it is mounted, and again for a new `turn`. If no link
    requested a view, an example opens with the head that shows it, and `first_cell` chooses a cell
    of another sentence; the row is pinned (`q`), and `first_cell`'s view is only `suggested`. A
    value that is still missing or invalid defaults to cross-attention, the second-to-last layer, or
    the first head.
    """
    from core.analysis.first_cell import first_cell

    view = session.get("view") or {}
    if not view and record.has("cross") and (shown := opening(record)) is not None:
        return shown | ({"turn": turn()} if turn() else {})
    if not view and record.has("cross"):
        word = first_cell(record.cross, record.source, record.target_out)
        if word is not None:
            row = {"q": word.query, "suggested": 1}
            return {"kind": "cross", "layer": word.layer, "head": word.head, **row}
    sizes: dict[str, tuple[int, int]] = {}
    for kind in filter(record.has, reversed(KINDS)):
        layers, heads = record.maps(kind).shape[:2]
        sizes[kind] = (layers, heads)
    return closest_view(view, sizes)


def closest_view(
    view: Mapping[str, str], sizes: Mapping[str, tuple[int, int]]
) -> dict[str, str | int]:
    """Return the kind, layer and head of a link; `sizes` are layers and heads by kind.

    What is missing or unknown gets its default; the first kind is the default one.
    """
    kind = view.get("kind", "")
    if kind not in sizes:
        kind = next(iter(sizes))
    layers, heads = sizes[kind]
    return {
        "kind": kind,
        "layer": index(view.get("layer"), layers, max(0, layers - 2)),
        "head": index(view.get("head"), heads, 0),
        **({} if view else {"suggested": 1}),
    }


def forget_view() -> None:
    """Let the next sentence open with its own view, whatever a link or the visitor chose."""
    session.put("view", None)
    session.put(_TURN, turn() + 1)


def turn() -> int:
    """Return how often the view was forgotten: a new value opens a new view."""
    return session.get(_TURN) or 0


def index(text: str | None, count: int, default: int) -> str | int:
    """Parse a layer or head from a link: an index, "mean" or "max"; else return the default."""
    if text in ("mean", "max"):
        return text
    return int(text) if text is not None and text in map(str, range(count)) else default


def requested_quantity(key: str) -> dict[str, Any]:
    """Return {"quantity": name}: the last choice, else the link's, else "weights"."""
    chosen = (session.get(key) or {}).get("quantity")
    return chosen or {"quantity": requested("quantity") or "weights"}


def initialise(key: str, options: Iterable[Any], default: Any) -> None:
    """Set a widget's value, before the widget is drawn, to one of `options`.

    The URL takes precedence, then the widget's current value, then `default`.
    """
    options = list(options)
    text = pop(key)
    known = {str(option): option for option in options}
    if text in known:
        session.put(key, known[text])
        return
    if text is not None:
        note_unknown(key, text)
    if session.get(key) not in options:
        session.put(key, default)


def initialise_text(key: str, default: str, name: str | None = None) -> None:
    """Set a text box from the URL parameter `name` (or `key`); set an unset box to `default`."""
    text = pop(name or key)
    if text is not None:
        session.put(key, text)
    elif session.get(key) is None:
        session.put(key, default)


def write(values: Mapping[str, object], key: str, entry: tuple[str, ...] | None = None) -> None:
    """Write values to the URL; None and the empty string remove a parameter.

    No two calls on a page may write the same parameter. For `entry` see `app.components.address`.
    """
    texts = {name: None if value is None else str(value) or None for name, value in values.items()}
    address(
        texts,
        page=session.get("page") or "",
        seen=session.get("seen") or {},
        arrival=session.get("arrival") or 0,
        key=key,
        entry=entry,
    )


def write_choice(name: str, value: object, default: object) -> None:
    """Write one widget's value to the URL, unless it is the default."""
    write({name: None if value == default else value}, name)
