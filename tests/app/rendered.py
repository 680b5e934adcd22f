"""Render a page in this process and list its texts, tables, figures and payloads.

    python -m tests.app.rendered why "source=Ein Hund läuft." open_choice

prints a page as text. A page test compares texts and values with its own expectations and ends with
`everything_was_claimed`, which fails if a text with a number was not compared. Payloads of
components are not searched.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from app.components.question import Answer
from app.figures.chart import Chart

MAIN = Path(__file__).resolve().parents[2] / "app/main.py"
SECONDS = 300
NUMBER = re.compile(r"[+−-]?(?:\d[\d,]*)?\.?\d+(?:\u00a0·\u00a010[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?")
"""A number as pages write it: −0.12, 1,234, .05, −4.8 · 10⁻⁷; token subscripts are excluded."""


_drawn: dict[str, Chart] = {}
"""The charts drawn since a page was opened, by their figures' JSON."""
_figure_of = Chart.figure


def _figure(chart: Chart, theme: str) -> Any:
    figure = _figure_of(chart, theme)
    _drawn[figure.to_json(validate=False)] = chart
    return figure


Chart.figure = _figure


@dataclass
class Item:
    """A text on the page.

    `where` is the key of its element or, without one, of the nearest container with a key; `kind`
    is the element's type or the name of the element's field that holds the text.
    """

    where: str
    kind: str
    text: str
    claimed: bool = False

    def __str__(self) -> str:
        return f"{self.where or '-'} [{self.kind}] {self.text}"


@dataclass
class Rendered:
    """A page: its texts in order; tables, figures, charts and component payloads by key."""

    app: AppTest
    items: list[Item] = field(default_factory=list)
    tables: dict[str, list[pd.DataFrame]] = field(default_factory=dict)
    figures: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    charts: dict[str, Chart] = field(default_factory=dict)
    payloads: dict[str, list[Any]] = field(default_factory=dict)

    def texts(self, where: str | None = None, kind: str | None = None) -> list[str]:
        """Return the texts in order, optionally only those under a key or of a kind."""
        return [item.text for item in self.found(where, kind)]

    def found(self, where: str | None = None, kind: str | None = None) -> list[Item]:
        return [
            item
            for item in self.items
            if (where is None or item.where == where) and (kind is None or item.kind == kind)
        ]

    def figure(self, where: str) -> dict[str, Any]:
        """Return the one Plotly figure under a key as JSON: {"data": […], "layout": {…}}."""
        (figure,) = self.figures[where]
        return figure

    def table(self, where: str) -> pd.DataFrame:
        """Return the one table under a key."""
        (table,) = self.tables[where]
        return table

    def payload(self, where: str) -> Any:
        """Return the payload of the one component under a key.

        It is JSON, bytes, or {"json": JSON, "blobs": {reference: bytes}}.
        """
        (payload,) = self.payloads[where]
        return payload

    def claim(self, expected: str, where: str | None = None, kind: str | None = None) -> None:
        """Assert that exactly this text is on the page, and mark it as compared."""
        same = [item for item in self.found(where, kind) if item.text == expected]
        near = "\n".join(map(str, self.found(where, kind)))
        assert same, f"not on the page: {expected!r}\namong:\n{near}"
        for item in same:
            item.claimed = True

    def claim_matching(self, pattern: str, where: str | None = None) -> re.Match[str]:
        """Assert that some whole text matches; mark all that do and return the first match."""
        matches = [
            (item, match)
            for item in self.found(where)
            if (match := re.fullmatch(pattern, item.text, re.DOTALL))
        ]
        assert matches, f"no text matches {pattern!r} among:\n" + "\n".join(
            map(str, self.found(where))
        )
        for item, _ in matches:
            item.claimed = True
        return matches[0][1]

    def claim_all(self, where: str, expected: list[str], kind: str | None = None) -> None:
        """Assert that the texts under a key (of a kind) are exactly these, in this order."""
        assert self.texts(where, kind) == expected
        for item in self.found(where, kind):
            item.claimed = True

    def everything_was_claimed(self, but: Callable[[Item], bool] = lambda item: False) -> None:
        """Fail if a text with a number was not compared, and list all such texts.

        `but` excuses items that other tests compare, such as the sidebar.
        """
        left = [
            str(item)
            for item in self.items
            if not item.claimed and not but(item) and NUMBER.search(item.text)
        ]
        assert not left, "on the page, but not compared:\n" + "\n".join(left)


def render(
    page: str = "",
    *opened: str,
    act: Callable[[AppTest], object] | None = None,
    state: dict[str, Any] | None = None,
    **query: str,
) -> Rendered:
    """Open a page by its URL path ("" is Translate), with sections opened by key, and read it.

    `state` is put into the session first; `act` uses widgets afterwards and reruns the app itself.
    Unless the query has `lesson`, pages show the parts that answer their questions, as after
    *Show it*.
    Fails if the page raises. Results are cached between pages, as for visitors.
    """
    logging.getLogger("streamlit").setLevel(logging.ERROR)
    _drawn.clear()
    app = AppTest.from_file(str(MAIN), default_timeout=SECONDS)
    app._page_hash = calc_hash(page) if page else ""  # by URL path, as in a browser
    for name, value in query.items():
        app.query_params[name] = value
    shown = {} if "lesson" in query else {"saved answers shown": True}
    for name, value in {**shown, **dict.fromkeys(opened, True), **(state or {})}.items():
        app.session_state[name] = value
    app.run()
    if act is not None:
        act(app)
    assert not app.exception, [error.value for error in app.exception]
    return read(app)


def read(app: AppTest) -> Rendered:
    """Read what an app shows after its last run."""
    rendered = Rendered(app)
    for area in app._tree.children.values():
        _read(area, "", rendered)
    return rendered


def questions(app: AppTest) -> list[dict[str, Any]]:
    """Return the payloads of the questions that a page asks."""
    payloads = [payload for found in read(app).payloads.values() for payload in found]
    return [p for p in payloads if isinstance(p, dict) and "question" in p]


def skip(app: AppTest) -> None:
    """Store all questions of a page as skipped, and rerun the page."""
    for asked in questions(app):
        answer(app, asked, skipped=True)
    app.run()


def answer(app: AppTest, asked: dict[str, Any], *options: int, **flags: bool) -> None:
    """Store an answer as if given on an earlier visit; `flags` may set `right` and `skipped`."""
    given = {"right": False, "skipped": False, **flags}
    saved = Answer(asked["question"], options, **given)
    app.session_state[f"saved answer {saved.question}"] = saved


def _key(proto: Any) -> str:
    """Return the key in the id of an element or container, or ""."""
    match = re.fullmatch(r"\$\$ID-[0-9a-f]{32}-(.+)", getattr(proto, "id", "") or "")
    return match[1] if match and match[1] != "None" else ""


def _read(node: Any, where: str, page: Rendered) -> None:
    proto = node.proto
    where = _key(proto) or where

    def add(kind: str, *texts: str) -> None:
        page.items.extend(Item(where, kind, text) for text in texts if text)

    if help := getattr(proto, "help", ""):
        add("help", help)
    if node.type == "plotly_chart":
        page.figures.setdefault(where, []).append(json.loads(proto.spec))
        if proto.spec in _drawn:
            page.charts[where] = _drawn[proto.spec]
        add("figure", *figure_texts(json.loads(proto.spec)))
    elif node.type in ("table", "dataframe"):
        assert not getattr(proto, "hide_header", False), where
        table = pa.ipc.open_stream(proto.arrow_data.data).read_pandas()
        page.tables.setdefault(where, []).append(table)
        add("column", *map(str, table.columns))
        add("cell", *(str(cell) for _, row in table.iterrows() for cell in row))
    elif node.type == "bidi_component":
        page.payloads.setdefault(where, []).append(_payload(proto))
    elif node.type in ("html", "iframe"):
        pass
    else:
        names = "label body value placeholder content text raw_value code_text"
        for name in names.split():
            text = getattr(proto, name, "")
            if isinstance(text, str) and text.strip():
                add(node.type if name in ("body", "value", "content", "text") else name, text)
        for option in getattr(proto, "options", ()):
            add("option", getattr(option, "content", option))
    for child in getattr(node, "children", {}).values():
        _read(child, where, page)


def _payload(proto: Any) -> Any:
    if proto.json:
        return json.loads(proto.json)
    if proto.bytes:
        return proto.bytes
    if proto.HasField("mixed"):
        blobs = {f"__streamlit_arrow_ref__{k}": v.data for k, v in proto.mixed.arrow_blobs.items()}
        return {"json": json.loads(proto.mixed.json), "blobs": blobs}
    return None


def unpacked(payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Split a payload of bytes into its JSON header and its raw arrays."""
    (length,) = struct.unpack("<I", payload[:4])
    return json.loads(payload[4 : 4 + length]), payload[4 + length :]


def array(values: Any) -> np.ndarray:
    """Convert numbers of a trace, which Plotly may encode as base64, to an array."""
    if isinstance(values, dict):
        flat = np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"])
        shape = values.get("shape")
        return flat.reshape([int(n) for n in str(shape).split(",")]) if shape else flat
    return np.array(values)


def figure_texts(figure: dict[str, Any]) -> Iterator[str]:
    """Yield every visible text of a Plotly figure: titles, ticks, legends, labels, hovers."""

    def below(value: Any, name: str) -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key not in ("template", "bdata", "dtype", "font", "marker", "line", "type"):
                    yield from below(inner, key)
        elif isinstance(value, list):
            for inner in value:
                yield from below(inner, name)
        elif isinstance(value, str) and name in _READ:
            yield value

    yield from below(figure.get("layout", {}), "")
    yield from below(figure.get("data", []), "")


_READ = {"text", "ticktext", "name", "label", "customdata", "hovertext", "hovertemplate", "title"}
_READ |= {"texttemplate", "x", "y"}


def main() -> None:
    """Print a page as text; an argument without "=" is the key of a section to open."""
    page, *options = sys.argv[1:] or [""]
    opened = [option for option in options if "=" not in option]
    query = dict(option.split("=", 1) for option in options if "=" in option)
    rendered = render(page, *opened, **query)
    sys.stdout.write("\n".join(map(str, rendered.items)) + "\n")


if __name__ == "__main__":
    main()
