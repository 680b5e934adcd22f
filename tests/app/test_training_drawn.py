"""What the timeline of a training run draws, read off its axes and compared with the snapshots."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise, permutations, product
from typing import Any, NamedTuple

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page

from app.components.assets import joined
from app.components.training.payload import NAMES
from core.analysis import appearance
from core.kinds import KINDS
from core.record.attention_snapshots import AttentionSnapshots
from tests.app.axes import (
    THEMES,
    Axis,
    axis,
    colours,
    number,
    png_marks,
    same_picture,
    same_places,
    set_theme,
    svg_marks,
)
from tests.app.drawn import COMPONENTS, Mark, colour, marks_of, record, texts
from tests.app.mounted import plain
from tests.app.test_heads_atlas import percent
from tests.app.test_training import go
from tests.app.training_run import SENTENCES, STEPS, Mounted, snapshots

LANES = {
    kind: {"entropy": "entropy"}
    | {name: short for name, (short, meaning) in named.items() if meaning}
    for kind, named in NAMES.items()
}
"""The lanes of each kind between BLEU and the pinned weight: measure and title."""


def trained(layers: dict[str, int], heads: int, seed: int) -> AttentionSnapshots:
    """Return a run in which no two heads need the same level, and heads of each kind get a mark."""
    run = snapshots(layers=layers, heads=heads, seed=seed)
    draw = np.random.default_rng(seed + 1)
    roles = {kind: values.copy() for kind, values in run.roles.items()}
    for values in roles.values():
        values[0] = draw.uniform(0.3, 0.55, values.shape[1:])
    for kind, role, layer, head, point in (
        ("encoder", 0, 1, 0, 2), ("encoder", 2, 0, 1, 3), ("encoder", 0, 0, 1, 2),
        ("decoder", 1, 1, 1, 1), ("decoder", 0, 0, 0, 4), ("cross", 0, 1, 0, 4),
    ):  # fmt: skip
        levels = 0.7 + 0.1 * layer + 0.03 * np.arange(len(STEPS) - point)
        roles[kind][point:, role, layer, head] = levels
    return dataclasses.replace(run, roles=roles)


RUNS = (
    trained({"encoder": 2, "decoder": 3, "cross": 3}, 2, 3),
    trained({"encoder": 3, "decoder": 2, "cross": 2}, 3, 8),
)
EACH = pytest.mark.parametrize(
    ("run", "theme"), list(zip(RUNS, THEMES, strict=True)), ids=["first", "second"]
)


class Lane(NamedTuple):
    """What a lane has to show; the curves are [P]."""

    title: str
    curve: Any
    others: Any = ()
    chance: float | None = None
    level: float | None = None
    marks: tuple[tuple[int, str, float, bool], ...] = ()
    """Point, name, value and whether it is the shown head."""
    value: Any = percent
    of_head: str = ""
    aside: str = ""


def lanes(run: AttentionSnapshots, view: dict[str, Any]) -> list[Lane]:
    """Return what has to be drawn for a view, from the snapshots."""
    kind, layer, head = view["kind"], view["layer"], view["head"]
    L, H = run.entropy[kind].shape[1:]
    layers, heads = (
        [chosen] if isinstance(chosen, int) else list(range(count))
        for chosen, count in ((layer, L), (head, H))
    )
    shown = list(product(layers, heads))
    found = [
        Lane("loss", run.loss, value=lambda v: f"{v:.2f} nats per token", aside="log scale"),
        Lane("BLEU", run.bleu, value=lambda v: f"{v:.1f}"),
    ]
    by_name = {measure.name: measure for measure in appearance.measures(run)[kind]}
    for name, title in LANES[kind].items():
        values, chance, level = (getattr(by_name[name], n) for n in ("values", "chance", "level"))
        chance = None if name == "entropy" else chance
        role = appearance.ALIGNING if name == appearance.ONE_TO_ONE else name
        marks = tuple(
            (m.point, head_name([(m.layer, m.head)]), float(values[m.point, m.layer, m.head]),
             shown == [(m.layer, m.head)])
            for m in appearance.marks(run) if (m.kind, m.role) == (kind, role)
        )  # fmt: skip
        curves = {place: values[:, *place] for place in np.ndindex(L, H)}
        found.append(
            Lane(
                title,
                np.mean([curves[place] for place in shown], 0),
                list(curves.values()),
                chance,
                level[shown[0]] if level is not None and len(shown) == 1 else None,
                marks,
                of_head=f" in {'head ' * (len(shown) == 1)}{head_name(shown)}",
                aside="" if chance is None else f"chance {percent(chance)}",
            )
        )
    q, k = view.get("q"), view.get("k")
    if q is None:
        return [*found, Lane("pinned weight", None)]
    maps = run.maps[kind][view["sentence"]][:, :, :, q, k].astype(float)
    combine = np.max if "max" in (layer, head) else np.mean
    curve = combine([maps[:, *place] for place in shown], 0)
    return [*found, Lane("pinned weight", curve, aside=pinned(kind, view["sentence"], q, k))]


def head_name(shown: list[tuple[int, int]]) -> str:
    (layer, head), *more = shown
    return f"mean of {len(shown)} heads" if more else f"{layer + 1}.{head + 1}"


def in_words(run: AttentionSnapshots, view: dict[str, Any], point: int) -> str:
    """Return the text in which the slider says what the lanes show at a point."""
    shown = lanes(run, view)
    said = [f"{one.title} {one.value(one.curve[point])}" for one in shown if one.curve is not None]
    kind = "cross-attention" if view["kind"] == "cross" else view["kind"]
    return f"step {STEPS[point]:,} of {STEPS[-1]:,}: {', '.join(said)}; {kind}, " + shown[
        2
    ].of_head.removeprefix(" in ")


def pinned(kind: str, sentence: int, query: int, key: int) -> str:
    """Name a cell's tokens, repeated ones with their number: 0 for the first token fed in."""
    sides = SENTENCES[sentence]
    rows = sides.source if kind == "encoder" else sides.target_out
    columns, first = (sides.target_in, 0) if kind == "decoder" else (sides.source, 1)

    def name(tokens: tuple[str, ...], at: int, number: int) -> str:
        text = tokens[at].removeprefix("▁")
        subscript = "".join(chr(0x2080 + int(digit)) for digit in str(number))
        return text + subscript * (tokens.count(tokens[at]) > 1)

    return f"{name(rows, query, query + 1)} → {name(columns, key, key + first)}"


def drawn(mounted: Mounted) -> list[Mark]:
    return marks_of(mounted.page.locator("canvas.lanes"))


def dots(marks: list[Mark], thickness: float) -> list[Mark]:
    """Return the discs of one size: a circle is drawn as four curves."""
    return [m for m in marks if m.what == "line" and len(m.lines[0]) == 13
            and m.thickness == thickness]  # fmt: skip


def check(marks: list[Mark], expected: list[Lane], point: int, theme: str, narrow: bool) -> None:
    """Compare all lanes and the axis of steps."""
    of_theme = colours(theme)
    words = [m for m in marks if m.what == "text"]
    titles = [m for m in words if m.font.startswith("600 14px")]
    assert texts(titles) == [lane.title for lane in expected]
    xs = steps_are(marks, words, of_theme, narrow)
    for lane, title in zip(expected, titles, strict=True):
        top = title.y + (14 if narrow else -8)
        here = [m for m in marks if top - 8 <= m.y and m.y + m.height <= top + 56]
        ticks = [m for m in words if m in here and m.x > xs[-1] and m.fill == of_theme["third"]
                 and not m.font.startswith("6")]  # fmt: skip
        y = axis(
            [(number(m.words), m.y) for m in ticks], np.log if lane.title == "loss" else np.asarray
        )
        assert y.slope < 0
        if lane.title not in ("loss", "BLEU"):
            assert [plain(text) for text in texts(ticks)] == ["0 %", "50 %", "100 %"]
            assert y.at([1, 0]) == pytest.approx([top, top + 52])
        grid = [m.lines[0][0][1] for m in here if m.what == "line" and m.stroke == of_theme["line"]]
        assert grid == pytest.approx([m.y for m in ticks])
        lane_is(here, lane, y, xs, of_theme)
        live_is(marks, words, title, lane, y, xs[point], point, of_theme, narrow)
    (cursor, *more) = [m for m in marks if m.what == "line" and m.alpha == 0.8
                       and m.stroke == of_theme["ink"]]  # fmt: skip
    assert len(more) == (len(expected) - 1) * narrow
    assert [m.x for m in (cursor, *more)] == pytest.approx([xs[point]] * (1 + len(more)), abs=1.1)


def steps_are(marks: list[Mark], words: list[Mark], of_theme: dict, narrow: bool) -> list[float]:
    """Return where each point is, after comparing the labels below."""
    bottom = max(m.y for m in words) - 18 * narrow
    small = [m for m in marks if m.what == "line" and m.stroke == of_theme["third"]
             and m.height == 4 and bottom - 20 < m.y < bottom]  # fmt: skip
    xs = sorted(m.x for m in small)
    assert len(xs) == len(STEPS) and np.diff(xs) == pytest.approx(np.diff(xs).mean())
    labels = [m for m in words if m.y == bottom and m.align == "right"]
    steps = [int(number(m.words)) for m in labels]
    assert steps == sorted(steps, reverse=True) and steps[0] == STEPS[-1] and len(steps) >= 3
    for label, step in zip(labels, steps, strict=True):
        assert label.words == f"{step:,}"
        assert label.x - label.width / 2 == pytest.approx(xs[STEPS.index(step)], abs=1)
    named = [m.words for m in words if m.y == bottom + 18 * narrow and m.align == "left"]
    assert named == ["training step, not to scale"]
    return xs


def lane_is(here: list[Mark], lane: Lane, y: Axis, xs: list[float], of_theme: dict) -> None:
    """The shown curve is bold, those of all heads thin; dots and dashes are at their values."""
    curves = [m for m in here if m.what == "line" and len(m.lines[0]) == len(xs)]
    bold = [m for m in curves if m.thickness == 2]
    thin = [m for m in curves if m.thickness == 1]
    if lane.curve is None:
        assert not curves and "Click a cell to follow its weight." in texts(here)
        return

    def flat(curve: Any) -> list[float]:
        return [part for point in zip(xs, y.at(curve), strict=True) for part in point]

    assert [m.stroke for m in bold] == [of_theme["ink"]]
    np.testing.assert_allclose(np.ravel(bold[0].lines[0]), flat(lane.curve), atol=0.5)
    assert {(m.stroke, m.alpha) for m in thin} <= {(of_theme["third"], 0.8)}
    assert len(thin) == len(lane.others)
    if thin:
        same_places(
            [np.ravel(m.lines[0]) for m in thin], [flat(curve) for curve in lane.others], 0.5
        )
    dashed = {m.dash: m for m in here if m.what == "line" and m.dash}
    wanted = {(1, 3): lane.chance, (5, 4): lane.level}
    wanted = {dash: value for dash, value in wanted.items() if value is not None}
    assert set(dashed) == set(wanted), lane.title
    for dash, value in wanted.items():
        (left, one), (right, other) = dashed[dash].lines[0]
        assert one == other == pytest.approx(float(y.at(value)), abs=0.1), (lane.title, dash)
        assert left <= xs[0] and right >= xs[-1] and dashed[dash].stroke == of_theme["second"]
    marks = dots(here, 3.5)
    places = [(xs[point], float(y.at(value))) for point, _, value, _ in lane.marks]
    assert len(marks) == len(places)
    if places:
        same_places([m.middle for m in marks], places)
    named = [
        m for m in here if m.what == "text" and m.words in {name for _, name, *_ in lane.marks}
    ]
    assert sorted(texts(named)) == sorted(name for _, name, *_ in lane.marks)
    upwards = sorted(zip(places, lane.marks, strict=True), key=lambda dot: -dot[0][1])
    heights = {label.words: label.y for label in named}
    for ((x, _), (_, lower, *_)), ((other_x, _), (_, upper, *_)) in pairwise(upwards):
        assert abs(other_x - x) > 24 or heights[upper] < heights[lower], "labels like their dots"
    for (x, dot_y), (_, name, _, is_shown) in zip(places, lane.marks, strict=True):
        (label,) = [m for m in named if m.words == name]
        assert abs(label.x - x) <= 7 and abs(label.y - dot_y) <= 30
        assert label.align == ("right" if x > xs[-1] - 20 else "left")
        close = [other for other in named if label.y - other.y > 0 and abs(other.x - label.x) < 24]
        assert all(label.y - other.y >= 12 for other in close), f"{name} covers another label"
        assert label.font.startswith("650" if is_shown else "400")
        (dot,) = [m for m in marks if m.middle == pytest.approx((x, dot_y), abs=1)]
        assert dot.stroke == label.fill == of_theme["ink" if is_shown else "second"]


def live_is(
    marks: list[Mark], words: list[Mark], title: Mark, lane: Lane, y: Axis, x: float, point: int,
    of_theme: dict, narrow: bool,
) -> None:  # fmt: skip
    """A dot and a text show the value at the point."""
    if lane.curve is None:
        return
    value = float(lane.curve[point])
    place = (x, float(y.at(value)))
    on = [m for m in dots(marks, 4) if m.middle == pytest.approx(place, abs=1.1)]  # whole px
    assert on and {m.stroke for m in on} == {of_theme["ink"]}, lane.title
    if narrow:
        (said,) = [plain(m.words) for m in words if m.y == title.y and m is not title]
        full = ", ".join(
            filter(
                None,
                (
                    f"{lane.of_head[4:]}: " * bool(lane.of_head) + lane.value(value),
                    lane.aside,
                ),
            )
        )
        assert full.startswith(said.removesuffix("…"))
        return
    below = {
        m.y - title.y: plain(m.words) for m in words if m.x == 0 and title.y < m.y < title.y + 45
    }
    assert (below[20], below[39]) == (lane.value(value) + lane.of_head, lane.aside)


@pytest.fixture(scope="module")
def wide(visits: BrowserContext) -> Iterator[Mounted]:
    page = visits.new_page()
    record(page)
    page.set_viewport_size({"width": 900, "height": 900})
    yield Mounted(page, 880)
    page.close()


def show(mounted: Mounted, run: AttentionSnapshots, theme: str, **opened: Any) -> None:
    set_theme(mounted.page, "#host", theme)
    # The explorer also reads the address, which the last view has written.
    mounted.page.evaluate(
        "gone?.(); gone = null; history.replaceState(null, '', location.pathname)"
    )
    mounted.show(run, **{name: str(v) if name in "qk" else v for name, v in opened.items()})


VIEWS = (
    {"kind": "encoder", "layer": "mean", "head": 1, "q": 2, "k": 1, "sentence": 1},
    {"kind": "decoder", "layer": 1, "head": 0, "q": 3, "k": 1, "sentence": 0},
    {"kind": "decoder", "layer": 0, "head": 1, "q": 4, "k": 3, "sentence": 1},
    {"kind": "cross", "layer": "max", "head": 1, "q": 4, "k": 2, "sentence": 1},
    {"kind": "cross", "layer": "mean", "head": "mean", "q": 0, "k": 3, "sentence": 0},
)


def test_crowded_labels_cover_no_label_and_no_dot(page: Page) -> None:
    crowd = [(7, 0.6), (7, 0.62), (7, 0.65), (7, 0.7), (8, 0.66), (8, 0.5), (9, 0.55), (12, 0.5)]
    marks = [
        {"layer": 1, "head": head, "point": point, "value": value}
        for head, (point, value) in enumerate(crowd)
    ]
    script = joined(COMPONENTS / "training/timeline.js")
    for chosen in range(len(marks)):
        dots = page.evaluate(
            f"""([marks, chosen]) => {{
              {script}
              const lane = {{ low: 0, high: 1, marks }};
              const geometry = timelineGeometry({{ points: 20 }}, [lane], 236, true);
              return dotsOf(geometry, lane, 0, [[1, chosen]]);
            }}""",
            [marks, chosen],
        )
        named = [dot for dot in dots if dot["isNamed"]]
        assert chosen in [dot["mark"]["head"] for dot in named] and len(named) > 2
        for one, other in permutations(named, 2):
            far = abs(one["textX"] - other["textX"]) >= 24
            assert far or abs(one["textY"] - other["textY"]) >= 12, (chosen, one, other)
        for one, dot in product(named, dots):
            beside = not 0 < dot["x"] - one["textX"] < 20
            assert one["isChosen"] or beside or abs(one["textY"] - dot["y"]) >= 9, (one, dot)


@EACH
def test_curves_levels_and_marks_of_each_view_are_drawn_and_said(
    wide: Mounted, run: AttentionSnapshots, theme: str
) -> None:
    heads = [
        {"kind": kind, "layer": layer, "head": head}
        for kind in KINDS
        for layer, head in np.ndindex(run.entropy[kind].shape[1:])
    ]
    for n, view in enumerate((*heads, *VIEWS)):
        show(wide, run, theme, **view)
        point = (n + 1) % len(STEPS)
        said = go(wide, point)
        check(drawn(wide), lanes(run, view), point, theme, narrow=False)
        assert plain(said["valuetext"]) == in_words(run, view, point)
        assert said["curves"].endswith(said["valuetext"])


def test_the_legend_below_names_the_lines_as_they_are_drawn(wide: Mounted) -> None:
    """Dots and dashes, bold and thin, filled discs: the same patterns on the canvas."""
    show(wide, RUNS[0], "light", kind="encoder", layer=1, head=0)
    named = wide.page.locator(".under .legend > span").evaluate_all(
        """(spans) => Object.fromEntries(spans.map((span) => {
            const look = getComputedStyle(span.querySelector("path, circle"));
            const { strokeDasharray, strokeWidth, stroke } = look;
            return [span.textContent.trim(), [strokeDasharray, strokeWidth, stroke]];
        }))"""
    )
    of_theme = colours("light")
    lines = {(m.dash, m.thickness, m.stroke) for m in drawn(wide) if m.what == "line"}
    for words, dash, thickness, ink in (
        ("encoder head 2.1", (), 2, "ink"),
        ("each of the 4 heads of this kind", (), 1, "third"),
        ("by chance", (1, 3), 1, "second"),
        ("needed for a mark", (5, 4), 1, "second"),
    ):
        pattern, width, stroke = named.pop(words)
        found = tuple(float(part) for part in re.findall(r"[\d.]+", pattern))
        assert (found, width, colour(stroke)) == (dash, f"{thickness}px", of_theme[ink]), words
        assert (dash, thickness, of_theme[ink]) in lines
    assert list(named) == ["a head takes on the role and keeps it"]


def test_a_weight_of_whole_words_is_not_followed(wide: Mounted) -> None:
    show(wide, RUNS[0], "light", kind="cross", layer=1, head=0, q=1, k=1, words="1")
    marks = drawn(wide)
    (title,) = [m for m in marks if m.words == "pinned weight"]
    here = [m for m in marks if title.y - 12 < m.y < title.y + 56]
    assert "For one weight, choose Tokens." in texts(here)
    assert not [m for m in here if m.what == "line" and len(m.lines[0]) > 2]


def test_a_narrow_timeline_draws_the_same(page: Page) -> None:
    record(page)
    page.set_viewport_size({"width": 390, "height": 900})
    mounted = Mounted(page, width=358)
    for run, view in zip(RUNS, VIEWS[1:3], strict=True):
        show(mounted, run, "dark", **view)
        go(mounted, 3)
        check(drawn(mounted), lanes(run, view), 3, "dark", narrow=True)


@EACH
def test_the_saved_timeline_shows_what_the_canvas_shows(
    wide: Mounted, run: AttentionSnapshots, theme: str
) -> None:
    show(wide, run, theme, kind="decoder", layer=1, head=1, q=4, k=3, sentence=1)
    svg = svg_marks(wide.file("svg"))
    png = png_marks(wide.page, partial(wide.file, "png"))
    for ground, title, *marks in (svg, png):
        assert ground.fill == colours(theme)["page"]
        assert title.words.startswith("small: decoder, head 2.2, through training; ")
        assert title.words.endswith(" step 2,900 of 2,900")
        same_picture(marks, drawn(wide), (12, 48))
