"""Reads what the explorer has drawn: pixels, texts with their positions, saved files.

Uses only the visible controls, none of the explorer's functions; expected values are computed from
the record in NumPy.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Page

from core.kinds import KINDS
from core.record.record import TranslationRecord
from tests.app.drawn import RECORDER
from tests.app.test_explorer_arithmetic import as_words, groups, sides

Colour = tuple[int, int, int]

NEAR = 1e-5
"""Tolerance of a weight: a saved page has 32-bit floats."""

# Runs before the page's scripts: records what canvases draw, and keeps saved files instead
# of downloading them.
DRIVER = (
    RECORDER
    + r"""(() => {
  const files = [];
  URL.createObjectURL = (blob) => (files.push(blob), "blob:kept");
  URL.revokeObjectURL = () => {};
  const click = HTMLElement.prototype.click;
  HTMLAnchorElement.prototype.click = function () {
    if (!this.download) click.call(this);
  };

  const find = (selector) => {
    const found = document.querySelector(selector);
    if (!found) throw new Error(`there is no ${selector}`);
    return found;
  };
  const part = (name) => find(`[data-part="${name}"]`);
  const map = () => part("map");
  const send = (target, type, at = {}) => {
    const Kind = type === "click" ? MouseEvent : PointerEvent;
    target.dispatchEvent(new Kind(type, { bubbles: true, pointerType: "mouse", detail: 1, ...at }));
  };
  /* Convert a point of the map's canvas to the client coordinates of a pointer event. */
  const onMap = (x, y) => {
    const box = map().getBoundingClientRect();
    return { clientX: box.left + x, clientY: box.top + y };
  };
  const middle = (query, key) => {
    const { left, top, cell } = map().dataset;
    return onMap(+left + (key + 0.5) * cell, +top + (query + 0.5) * cell);
  };
  const encoded = (bytes) => {
    let text = "";
    for (let at = 0; at < bytes.length; at += 32768) {
      text += String.fromCharCode(...bytes.subarray(at, at + 32768));
    }
    return btoa(text);
  };
  const sampled = (canvas, xs, ys) => {
    const { width, height } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const found = new Uint8Array(4 * xs.length * ys.length);
    let place = 0;
    for (const y of ys) {
      for (const x of xs) {
        const at = 4 * (y * width + x);
        found.set(data.subarray(at, at + 4), place);
        place += 4;
      }
    }
    return found;
  };
  const choose = (name, value) => {
    if (part(name).value === value) return;
    part(name).value = value;
    send(part(name), "change");
  };

  window.pictures = {
    press: (name) => part(name).click(),
    show({ kind, layer, head, view, unit, combine, hide, quantity }) {
      choose("quantity", quantity);
      if (!part("unpin").hidden) part("unpin").click();
      send(map(), "pointerleave");
      find(`[data-kind-option="${kind}"]`).click();
      find(`[data-unit-option="${unit}"]`).click();
      find(`[data-view-option="${view}"]`).click();
      find(`[data-combine-option="${combine}"]`).click();
      for (const name of ["eos", "punctuation"]) {
        if (part(`hide-${name}`).checked !== hide.includes(name)) part(`hide-${name}`).click();
      }
      find(`.thumbnail[data-l="${layer}"][data-h="${head}"]`).click();
    },
    /* Return the map's pixels at every x and y, for each of several heads. */
    heads(places, xs, ys) {
      const found = places.map(([layer, head]) => {
        find(`.thumbnail[data-l="${layer}"][data-h="${head}"]`).click();
        return sampled(map(), xs, ys);
      });
      return encoded(Uint8Array.from(found.flatMap((bytes) => [...bytes])));
    },
    sample: (selector, xs, ys) => encoded(sampled(find(selector), xs, ys)),
    image: (selector) => find(selector).toDataURL(),
    texts: (selector) => drawnOn(find(selector)).filter(({ what }) => what === "text"),
    point(query, key) {
      send(map(), "pointermove", middle(query, key));
    },
    pointAt(x, y) {
      send(map(), "pointermove", onMap(x, y));
    },
    leave: () => send(map(), "pointerleave"),
    keep: (query, key) => send(map(), "click", middle(query, key)),
    keepAt: (x, y) => send(map(), "click", onMap(x, y)),
    said: () => ({ ...find(".explorer").dataset, ...map().dataset }),
    geometry() {
      const { left, top, cell } = map().dataset;
      const { width, height } = map();
      return { left: +left, top: +top, cell: +cell, width, height };
    },
    /* Return a saved file as text, a PNG as a data: URL. */
    async saved(name) {
      files.length = 0;
      find(`[data-export="${name}"]`).click();
      for (const end = performance.now() + 20_000; !files.length; ) {
        if (performance.now() > end) throw new Error(`${name} gave no file`);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      if (!files[0].type.startsWith("image/png")) return files[0].text();
      return `data:image/png;base64,${encoded(new Uint8Array(await files[0].arrayBuffer()))}`;
    },
    /* The framed tokens of the two sentences, as [side, index]. */
    framed: () =>
      ["source", "target"].flatMap((side) =>
        [...document.querySelectorAll(`.${side} .token`)].flatMap((token, index) =>
          getComputedStyle(token).boxShadow === "none" ? [] : [[side, index]],
        ),
      ),
    /* Return each thumbnail's name, position on the canvas and frame. */
    thumbnails() {
      const origin = find(".overview-maps").getBoundingClientRect();
      return [...document.querySelectorAll(".thumbnail")]
        .filter((button) => getComputedStyle(button).visibility === "visible")
        .map((button) => {
          const frame = button.querySelector(".frame");
          const { left, top, width } = frame.getBoundingClientRect();
          const { outlineWidth, outlineColor } = getComputedStyle(frame);
          // In whole pixels, as the canvas draws its pictures.
          const place = { left: left - origin.left, top: top - origin.top, size: width };
          for (const side in place) place[side] = Math.round(place[side]);
          return { ...place, outlineWidth, outlineColor, name: button.getAttribute("aria-label") };
        });
    },
    legend: () => ({
      low: part("scale-low").textContent,
      high: part("scale-high").textContent,
      masked: getComputedStyle(part("masked-legend")).visibility === "visible",
    }),
    title: () => part("title").textContent,
  };
})()"""
)


@dataclass(frozen=True)
class Text:
    """A text without its bidi isolates, its position in px and its rotation in radians."""

    words: str
    x: float
    y: float
    turn: float
    align: str
    fill: str
    width: float
    label: bool
    """Whether bidi isolates surrounded it, as they do all token labels."""


@dataclass(frozen=True)
class Shape:
    """A rectangle, path or image of a saved SVG, in px of the canvas."""

    tag: str
    x: float
    y: float
    width: float
    height: float
    path: str
    fill: str
    stroke: str
    thickness: float
    opacity: float
    href: str


@dataclass
class Report:
    """How much a check compared, and every deviation from the record."""

    compared: int = 0
    wrong: list[str] = field(default_factory=list)

    def same(self, what: str, seen: object, expected: object) -> None:
        self.true(what, seen == expected, f"{seen!r}, not {expected!r}")

    def near(self, what: str, seen: float, expected: float, by: float) -> None:
        self.true(what, abs(seen - expected) <= by, f"{seen:g}, not {expected:g}")

    def true(self, what: str, holds: object, but: str = "false") -> None:
        self.compared += 1
        if not holds:
            self.wrong.append(f"{what}: {but}")


@dataclass(frozen=True)
class Choice:
    """The page's settings; `layer` = number of layers combines all layers, likewise for `head`."""

    kind: str
    layer: int
    head: int
    unit: str = "pieces"
    view: str = "map"
    combine: str = "mean"
    hide: tuple[str, ...] = ()
    quantity: str = "weights"


class Picture:
    """A page that shows a record, and the values that the page has to draw."""

    def __init__(
        self,
        page: Page,
        record: TranslationRecord,
        quantities: dict[str, dict[str, NDArray]] | None = None,
    ) -> None:
        """`quantities`: maps sent besides weights, by name and kind, [layer, head, query, key]."""
        self.page = page
        self.record = record
        self.quantities = quantities or {}
        self.scales: dict[str, NDArray] = {}
        self.layers = {kind: record.maps(kind).shape[0] for kind in KINDS}
        self.heads = record.encoder.shape[1]

    def do(self, name: str, *arguments: object) -> object:
        return self.page.evaluate(
            "([name, given]) => window.pictures[name](...given)", [name, list(arguments)]
        )

    def bytes(self, name: str, *arguments: object) -> bytes:
        return base64.b64decode(self.do(name, *arguments))

    # Expected.

    def values(self, choice: Choice) -> tuple[NDArray, NDArray]:
        """Return values and mask of a choice, [query, key]."""
        maps = self.record.maps(choice.kind).astype(np.float64)
        mask = self.record.mask(choice.kind)
        if choice.quantity != "weights":
            maps = np.where(mask, self.quantities[choice.quantity][choice.kind], 0)
        if choice.unit == "words":
            maps = as_words(self.record, choice.kind, maps)
            mask = as_words(self.record, choice.kind, mask[None, None] * 1.0)[0, 0] > 0
        layers = slice(None) if choice.layer == len(maps) else slice(choice.layer, choice.layer + 1)
        heads = slice(None) if choice.head == self.heads else slice(choice.head, choice.head + 1)
        several = maps[layers, heads]
        return several.max((0, 1)) if choice.combine == "max" else several.mean((0, 1)), mask

    def labels(self, choice: Choice) -> tuple[list[str], list[str]]:
        """Return the labels of rows and columns."""
        return tuple(
            [token.text for token in tokens] if choice.unit == "pieces" else words_of(tokens)
            for tokens in sides(self.record, choice.kind)
        )

    def members(self, choice: Choice, axis: int) -> list[list[int]]:
        """Return the token indices of each row (axis 0) or column (axis 1)."""
        tokens = sides(self.record, choice.kind)[axis]
        if choice.unit == "pieces":
            return [[i] for i in range(len(tokens))]
        word = groups(tokens)
        return [list(np.flatnonzero(word == w)) for w in range(word[-1] + 1)]

    # Drawn.

    def show(self, choice: Choice) -> None:
        self.do("show", {**vars(choice), "hide": list(choice.hide)})

    def scale(self, name: str = "light") -> NDArray:
        """Return the 256 colours of the current legend, cached under a name."""
        if name not in self.scales:
            self.scales[name] = self.image("[data-part=scale]")[0, :, :3]
        return self.scales[name]

    def image(self, selector: str) -> NDArray:
        return decode(self.do("image", selector))

    def sample(self, selector: str, xs: Iterable[int], ys: Iterable[int]) -> NDArray:
        """Return the pixels at each y and x, [y, x, rgba]."""
        xs, ys = list(map(int, xs)), list(map(int, ys))
        found = np.frombuffer(self.bytes("sample", selector, xs, ys), np.uint8)
        return found.reshape(len(ys), len(xs), 4)

    def texts(self, selector: str = "[data-part=map]") -> list[Text]:
        return [
            _text(t["words"], t["x"], t["y"], t["turn"], t["align"], t["fill"], t["width"])
            for t in self.do("texts", selector)
        ]

    def svg(self, name: str = "map-svg") -> tuple[list[Text], list[Shape]]:
        """Return texts and shapes of a saved file, in px of the canvas."""
        return read_svg(self.do("saved", name))

    def cell_colours(
        self,
        report: Report,
        what: str,
        seen: NDArray,
        values: NDArray,
        mask: NDArray,
        near: float = NEAR,
        scale: str = "light",
    ) -> None:
        """Compare the colour of each unmasked cell [query, key, rgb] with the legend's.

        `values` are in 0..1; `scale` names the legend, since a page may show several in turn.
        """
        low, high = (np.clip(np.floor(255 * (values + d) + 0.5), 0, 255) for d in (-near, near))
        fits = np.zeros(values.shape, bool)
        for more in range(int((high - low).max()) + 1):
            step = np.minimum(low + more, high).astype(int)
            fits |= (seen[..., :3] == self.scale(scale)[step]).all(-1)
        report.compared += int(mask.sum())
        for q, k in zip(*np.nonzero(mask & ~fits), strict=True):
            colour = tuple(int(c) for c in seen[q, k, :3])
            report.wrong.append(f"{what}, cell {q}, {k}: {colour} for {values[q, k]:.4f}")

    def has_colour(self, report: Report, what: str, seen: Colour | None, value: float) -> None:
        """Compare one background with the legend's colour for a value."""
        cell = np.array(seen or (-1, -1, -1)).reshape(1, 1, 3)
        self.cell_colours(report, what, cell, np.array([[value]]), np.ones((1, 1), bool))


def words_of(tokens: tuple) -> list[str]:
    """Merge tokens into words."""
    words: list[str] = []
    for token, word in zip(tokens, groups(tokens), strict=True):
        if word == len(words):
            words.append("")
        words[word] += token.text
    return words


def colour(css: str) -> Colour | None:
    """Parse `rgb(1,2,3)` or `#010203`; None if missing or transparent."""
    if re.fullmatch("#[0-9a-f]{6}", css or ""):
        return tuple(int(css[i : i + 2], 16) for i in (1, 3, 5))
    numbers = [float(n) for n in re.findall(r"[\d.]+", css or "")]
    if len(numbers) < 3 or numbers[3:] == [0]:
        return None
    return tuple(int(n) for n in numbers[:3])


def fixed(value: float, digits: int) -> str:
    """Return a number as the page writes it, with a true minus."""
    return f"{value:.{digits}f}".replace("-", "\u2212")


def either(value: float, near: float, digits: int) -> set[str]:
    """Return the ways to print a number that is known to within `near`."""
    return {fixed(value + d, digits) for d in (-near, 0, near)}


def entropy(weights: NDArray) -> NDArray:
    """Return the entropy of each row, in bits."""
    return -(weights * np.log2(np.where(weights > 0, weights, 1))).sum(-1)


def _text(words: str, *look: object) -> Text:
    return Text(words.strip("\u2068\u2069"), *look, label=words.startswith("\u2068"))


def decode(href: str) -> NDArray:
    """Return the pixels of a PNG data URL, [y, x, rgba]."""
    image = Image.open(io.BytesIO(base64.b64decode(href.partition(",")[2])))
    return np.asarray(image.convert("RGBA"))


def read_svg(text: str) -> tuple[list[Text], list[Shape]]:
    """Return texts and shapes, relative to the picture's origin below its title."""
    root = ElementTree.fromstring(text)
    placed = [(element, _matrix(element.get("transform", ""))) for element in _drawn(root)]
    # The first transformed element starts the picture; everything before is its title.
    origin = next((m[:2, 2] for _, m in placed if m[:2, 2].any()), np.zeros(2))
    texts, shapes = [], []
    for element, matrix in placed:
        tag = element.tag.rpartition("}")[2]
        at = np.array([float(element.get("x", 0)), float(element.get("y", 0)), 1])
        x, y = (matrix @ at)[:2] - origin
        if tag == "text":
            turn = float(np.arctan2(matrix[1, 0], matrix[0, 0]))
            align = {"start": "left", "end": "right", "middle": "center"}
            anchor = align[element.get("text-anchor", "start")]
            # The y of a text is its baseline in SVG, but its middle on the canvas.
            x, y = (matrix @ (at - [0, 0.35 * float(element.get("font-size")), 0]))[:2] - origin
            words = element.text or ""
            if element.get("unicode-bidi") == "isolate":
                words = f"\u2068{words}\u2069"
            texts.append(_text(words, x, y, turn, anchor, element.get("fill", ""), 0.0))
            continue
        shapes.append(
            Shape(
                tag,
                x,
                y,
                float(element.get("width", 0)),
                float(element.get("height", 0)),
                element.get("d", ""),
                element.get("fill", ""),
                element.get("stroke", ""),
                float(element.get("stroke-width", 0)),
                float(element.get("opacity", 1)),
                element.get("href", ""),
            )
        )
    return texts, shapes


def _drawn(root: ElementTree.Element) -> Iterator[ElementTree.Element]:
    clips = {c for e in root.iter() if e.tag.endswith("clipPath") for c in e.iter()}
    for element in root.iter():
        tag = element.tag.rpartition("}")[2]
        if tag in ("rect", "text", "path", "image") and element not in clips:
            yield element


def _matrix(transform: str) -> NDArray:
    """Return the matrix of an SVG transform that consists of translations and rotations."""
    matrix = np.eye(3)
    for name, inside in re.findall(r"(\w+)\(([^)]*)\)", transform):
        numbers = [float(n) for n in inside.split()]
        step = np.eye(3)
        if name == "translate":
            step[:2, 2] = numbers
        else:
            angle = np.radians(numbers[0])
            step[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        matrix = matrix @ step
    return matrix
