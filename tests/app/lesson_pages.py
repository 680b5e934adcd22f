"""What the lessons' page tests share: token names by hand, unpacked maps, and compared figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from core.record.record import RecordToken, TranslationRecord
from core.translator import Translator
from tests.app.rendered import Item, Rendered, array, unpacked

ROOT = Path(__file__).resolve().parents[2]
SIDEBAR = {
    "direction",
    "model",
    "search",
    "examples",
    "model_note",
    *(f"example_{i}" for i in "012345"),
}
SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@cache
def translator(name: str) -> Translator:
    """A shipped checkpoint, loaded once."""
    return Translator.load(ROOT / "checkpoints" / name, "cpu")


def names(tokens: Sequence[RecordToken], first: int) -> list[str]:
    """Tokens by their texts, repeated ones with their number, the first token's being `first`."""
    counts = Counter(token.text for token in tokens)
    return [
        token.text + (str(first + i).translate(SUBSCRIPT) if counts[token.text] > 1 else "")
        for i, token in enumerate(tokens)
    ]


def drawn(words: Iterable[str]) -> list[str]:
    """Words as a figure's labels hold them, escaped."""
    return [word.replace("<", "&lt;").replace(">", "&gt;") for word in words]


def percent(share: float) -> str:
    """A share as the pages write it, for shares that are not close to 0 or 1."""
    assert 0.005 < share < 0.995, share
    return f"{100 * share:.0f}\u00a0%"


def number(value: float, places: int, sign: str = "") -> str:
    return f"{value:{sign},.{places}f}".replace("-", "−")


def from_scientific(text: str) -> float:
    """4.8 · 10⁻⁷ or 0.269, as a number."""
    digits, _, power = text.replace("−", "-").partition("\u00a0·\u00a010")
    exponent = power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    return float(digits) * 10.0 ** int(exponent or 0)


def texts_are(page: Rendered, key: str, *expected: str) -> None:
    """The texts of the figure under a key are exactly these, in any order and number."""
    found = page.found(key, "figure")
    assert {item.text for item in found} == set(expected)
    for item in found:
        item.claimed = True


def map_row(page: Rendered, key: str) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The header of a row of maps as it was sent, and its values [layer, head, query, key]."""
    header, blobs = unpacked(page.payload(key))
    shape = [len(header["layers"]), header["heads"]]
    shape += [len(header[side]["tokens"]) for side in ("queries", "keys")]
    values = []
    for place, drawn_map in enumerate(header["maps"]):
        if "minus" not in drawn_map:
            at = header[f"values_{place}"]
            sent = blobs[at["at"] : at["at"] + at["length"]]
            values.append(np.frombuffer(sent, "<f4").reshape(shape))
    return header, values


def side(header: dict[str, Any], which: str) -> list[tuple[int, str]]:
    """The numbers and the labels of the tokens along one side of a row of maps."""
    return [(token["number"], token["label"]) for token in header[which]["tokens"]]


def least_certain(record: TranslationRecord) -> str:
    """The line under a translation that names the token with the lowest probability."""
    at = int(record.log_probs.argmin())
    share = percent(float(np.exp(record.log_probs[at])))
    return f"Least certain token: “{record.target_out[at].text}” ({share})."


def in_the_sidebar(item: Item) -> bool:
    """Whether the test of the sidebar compares an item."""
    return item.where in SIDEBAR


def changes(
    page: Rendered, key: str, words: list[str], before: np.ndarray, after: np.ndarray
) -> dict[str, Any]:
    """Compare a figure of probabilities before and after: bars, dots by their colour, hovers."""
    figure = page.figure(key)
    bar = next(trace for trace in figure["data"] if trace["type"] == "bar")
    np.testing.assert_allclose(array(bar["y"]), before, atol=2e-6)
    dots = [t for t in figure["data"] if t.get("mode") == "markers" and "customdata" in t]
    assert len(dots) == 2
    gained, lost = dots
    red, blue = (_channels(trace["marker"]["color"]) for trace in (lost, gained))
    assert blue[2] > blue[0] and red[0] > red[2]  # blue: more, orange: less
    for trace, rows in ((gained, after >= before), (lost, after < before)):
        at = np.flatnonzero(rows)
        assert list(array(trace["x"])) == list(at)
        np.testing.assert_allclose(array(trace["y"]), after[at], atol=2e-6)
    for trace, rows in ((bar, np.arange(len(words))), *((t, array(t["x"])) for t in dots)):
        for (word, was, now, change), row in zip(trace["customdata"], rows, strict=True):
            assert word == words[row]
            expected = (before[row], after[row], after[row] - before[row])
            np.testing.assert_allclose((was, now, change), expected, atol=4e-6)
    return figure


def _channels(colour: str) -> list[int]:
    if colour.startswith("#"):
        return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return [int(float(c)) for c in colour[colour.index("(") + 1 : -1].split(",")]
