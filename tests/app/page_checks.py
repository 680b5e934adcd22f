"""Expected token names, number formats and figures, shared by the page tests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from core.config import DecodeConfig
from core.record.record import RecordToken, TranslationRecord
from core.translator import Translator
from tests.app.rendered import Item, Rendered, unpacked

ROOT = Path(__file__).resolve().parents[2]
SIDEBAR = re.compile(
    r"source|translate|direction|model|search|examples|example_\d|settings|navigation|model_note"
)
SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@cache
def translator(name: str) -> Translator:
    """Load a bundled checkpoint once."""
    return Translator.load(ROOT / "checkpoints" / name, "cpu")


@cache
def record(source: str, name: str = "scratch-de-en", beam: int = 5) -> TranslationRecord:
    return translator(name).inspect(source, decode=DecodeConfig(beam=beam))


def names(tokens: Sequence[RecordToken], first: int) -> list[str]:
    """Return the tokens' texts; repeated texts get their token's number, counted from `first`."""
    counts = Counter(token.text for token in tokens)
    return [
        token.text + (str(first + i).translate(SUBSCRIPT) if counts[token.text] > 1 else "")
        for i, token in enumerate(tokens)
    ]


def drawn(words: Iterable[str]) -> list[str]:
    """Escape words as figures do."""
    return [w.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for w in words]


def begin(texts: Iterable[str], length: int = 4) -> list[str]:
    """Return the first `length` characters of each label; figures may truncate the rest."""
    return [text[:length] for text in texts]


def number(value: float, places: int = 4, sign: str = "") -> str:
    if abs(value) == np.inf:
        return "∞" if value > 0 else "−∞"
    text = f"{abs(value):,.{places}f}"
    return text if not float(text.replace(",", "")) else ("−" if value < 0 else sign) + text


def signed(value: float, places: int = 3) -> str:
    return number(value, places, "+")


def percent(share: float) -> str:
    near_an_end = 0 < share <= 0.005 or 0.995 <= share < 1
    text = f"{100 * share:.{int(near_an_end)}f}"
    return {"0.0": "<0.1", "100.0": ">99.9"}.get(text, text) + "\u00a0%"


def from_scientific(text: str) -> float:
    """Parse 4.8 · 10⁻⁷, 0.269 or 1,100."""
    digits, _, power = text.replace("−", "-").replace(",", "").partition("\u00a0·\u00a010")
    exponent = power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    return float(digits) * 10.0 ** int(exponent or 0)


def is_blue(colour: str) -> bool:
    """Return whether a colour has more blue than red."""
    if colour.startswith("#"):
        return int(colour[5:7], 16) > int(colour[1:3], 16)
    red, _, blue = re.findall(r"\d+", colour)[:3]
    return int(blue) > int(red)


def titles(figure: dict[str, Any]) -> tuple[str, str]:
    """Return a figure's title and subtitle."""
    title = figure["layout"]["title"]
    return title["text"], title["subtitle"]["text"]


def axis_titles(figure: dict[str, Any]) -> tuple[str, str]:
    """Return the titles of the x and the y axis."""
    x, y = (figure["layout"][axis]["title"].get("text", "") for axis in ("xaxis", "yaxis"))
    return x, y


def traces(figure: dict[str, Any], **properties: str) -> list[dict[str, Any]]:
    """Return the traces that have all these properties, such as type="bar"."""
    return [
        trace for trace in figure["data"] if all(trace.get(k) == v for k, v in properties.items())
    ]


def nothing_else(
    page: Rendered,
    *compared: str,
    fixed: tuple[str, ...] = (),
    but: Callable[[Item], bool] = lambda item: False,
) -> None:
    """Fail if a text with a number is unclaimed, and list all such texts.

    Skip the sidebar, help texts, formulas and widgets, the figures and tables with the keys
    `compared`, texts that contain one of `fixed`, items for which `but` is true, and the quality
    warning, which has its own test.
    """
    widgets = ("latex", "help", "option", "label", "text_area", "raw_value")
    page.everything_was_claimed(
        lambda item: (
            SIDEBAR.fullmatch(item.where) is not None
            or item.where == "doubts"
            or item.kind in widgets
            or (item.where in compared and item.kind in ("figure", "cell", "column"))
            or any(word in item.text for word in fixed)
            or but(item)
        )
    )


def map_row(page: Rendered, key: str) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the header of a row of maps as sent, and its values [layer, head, query, key]."""
    header, blobs = unpacked(page.payload(key))
    shape = [len(header["layers"]), header["heads"]]
    shape += [len(header[side]["tokens"]) for side in ("queries", "keys")]
    values = []
    for i, drawn_map in enumerate(header["maps"]):
        if "minus" not in drawn_map:
            at = header[f"values_{i}"]
            sent = blobs[at["at"] : at["at"] + at["length"]]
            values.append(np.frombuffer(sent, "<f4").reshape(shape))
    return header, values


def map_names(header: dict[str, Any]) -> list[str]:
    return [drawn_map["name"] for drawn_map in header["maps"]]


def side(header: dict[str, Any], which: str) -> list[tuple[int, str]]:
    """Return the numbers and texts of the tokens along one side of a row of maps."""
    return [(token["number"], token["text"]) for token in header[which]["tokens"]]


def numbered(tokens: Sequence[RecordToken], first: int) -> list[tuple[int, str]]:
    """Return the expected result of `side` for these tokens."""
    return [(first + i, token.text) for i, token in enumerate(tokens)]
