"""What the pictures of the page Heads draw, read off their axes and compared with the atlas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Page

from app.components.atlas.measures import UNITS, Measure, measures
from core.atlas.atlas import ALL, DISTANCES, Atlas
from core.atlas.labels import FLOOR, ROWS, labels
from core.kinds import KINDS
from tests.app.atlases import ROLES, atlas, with_arrays
from tests.app.axes import (
    THEMES,
    colours,
    ink_on,
    number,
    png_marks,
    same_picture,
    same_places,
    segments,
    set_theme,
    signed_root,
    svg_marks,
    table,
    ticked,
    within,
)
from tests.app.drawn import Mark, marks_of, record, texts
from tests.app.mounted import plain
from tests.app.test_heads_atlas import ADDRESS, Mounted

PICTURES = ("heads", "scatter", "roles", "distance", "pruning")
TITLES = {
    "Encoder self-attention": "encoder",
    "Decoder self-attention": "decoder",
    "Cross-attention": "cross",
}


def apart_and_with_gaps() -> tuple[Atlas, Atlas]:
    """Return two atlases: the pruning curves of the first end so far apart that each label is at
    its curve; in the second, a head was not measured and another has no interval."""
    apart, gaps = atlas(7, (2, 3, 3), 4), atlas(11, (3, 2, 2), 3)
    for kind, more in (("encoder", 0.1), ("decoder", 0.9), ("cross", 0.4), (ALL, 0.3)):
        ramp = np.linspace(0, more, len(apart.arrays[f"prune_{kind}_loss"]))[:, None]
        apart = with_arrays(
            apart,
            **{f"prune_{kind}_loss": apart.arrays[f"prune_{kind}_loss"] + ramp,
               f"prune_{kind}_bleu": apart.arrays[f"prune_{kind}_bleu"] - 9 * ramp},
        )  # fmt: skip
    changes = {name: gaps.arrays[name].copy() for name in ("mean", "largest", "mean_p")}
    for name in ("mean", "largest"):
        changes[name][4] = np.nan
        changes[name][-2, 1:] = np.nan
    changes["mean_p"][[4, -2]] = np.nan
    return apart, with_arrays(gaps, **changes)


NETWORKS = apart_and_with_gaps()


def each(narrow: int = 1000) -> pytest.MarkDecorator:
    """One network on a wide page in one theme, the other on a narrow page in the other theme."""
    looks = list(zip(NETWORKS, THEMES, (1000, narrow), strict=True))
    return pytest.mark.parametrize(("whole", "theme", "width"), looks, ids=["first", "second"])


def measured(whole: Atlas) -> dict[str, Measure]:
    """Return the measures that the page offers by key; the saved tables hold their values too."""
    return {measure.key: measure for measure in measures(whole)}


def bend(measure: Measure) -> Any:
    return signed_root if measure.signed else np.asarray


@pytest.fixture(scope="module")
def recorded(shared_page: Page) -> Mounted:
    record(shared_page)
    return Mounted(shared_page)


@pytest.fixture
def shown(recorded: Mounted) -> Iterator[Any]:
    """Return `shown(whole, theme, width, **opened)`: mount an atlas on a page of this width."""

    def show(whole: Atlas, theme: str = "light", width: int = 1000, **opened: str) -> Mounted:
        recorded.page.goto(ADDRESS)
        set_theme(recorded.page, "body", theme)
        recorded.page.evaluate("(px) => { document.body.style.width = `${px}px`; }", width)
        return recorded.update(whole, opened=opened)

    yield show


def drawn(shown: Mounted, picture: str, what: str = "") -> list[Mark]:
    return marks_of(shown.page.locator(f"canvas[data-part={picture}]"), what)


def words_of(marks: list[Mark]) -> list[Mark]:
    return [mark for mark in marks if mark.what == "text"]


# The grid of all heads.


def cells_of(marks: list[Mark]) -> dict[tuple[str, int, int], Mark]:
    """Return each head's cell, found as a reader does: by title, row label and column label."""
    numbers = [text for text in words_of(marks) if text.words.isdigit()]
    titles = [text for text in words_of(marks) if text.words in TITLES]
    found = {}
    for cell in [m for m in marks if m.what == "fill" and m.width > 12 and m.height > 25]:
        x, y = cell.middle
        left = [t for t in numbers if t.align == "right" and abs(t.y - y) <= 1 and t.x < x]
        above = [t for t in numbers if t.align == "center" and abs(t.x - x) <= 1 and t.y < y]
        row, column = max(left, key=lambda t: t.x), max(above, key=lambda t: t.y)
        before = [t for t in titles if t.y <= column.y + 1 and t.x - 24 <= row.x]
        title = max(before, key=lambda title: (title.y, title.x))
        place = TITLES[title.words], int(row.words) - 1, int(column.words) - 1
        assert place not in found
        found[place] = cell
    return found


GRIDS = ("zero", "mean", "bleu", "largest", "role-punctuation", "aer-input-norms", "removed")


def shares_on_the_scale(whole: Atlas, measure: Measure, key: str, values: NDArray) -> NDArray:
    """Return where values are on the scale of colours, 0 to 1."""
    if key == "removed":
        return (values - 1) / (whole.count - 1)
    if not measure.signed:
        return values
    return 0.5 + signed_root(values) / signed_root(np.nanmax(np.abs(measure.values))) / 2


@each(narrow=380)
def test_the_grid_shows_each_heads_value_interval_and_distances(
    shown: Any, whole: Atlas, theme: str, width: int
) -> None:
    of_theme = colours(theme)
    page = shown(whole, theme, width, head="cross.1.2")
    for key in GRIDS:
        measure = measured(whole)[key]
        page.does(("set", "measure", key))
        marks = drawn(page, "heads")
        cells = cells_of(marks)
        assert set(cells) == set(whole.heads)
        values = shares_on_the_scale(whole, measure, key, measure.values)
        steps = table(theme, measure.signed)
        for n, place in enumerate(whole.heads):
            cell = cells[place]
            inside = [m for m in marks if m is not cell and within(m, cell)]
            share = values[n, 0]
            if np.isnan(share):
                assert cell.fill == of_theme["well"]
                ink = of_theme["second"]
            else:
                step = 128 + round(127 * (2 * share - 1)) if measure.signed else round(255 * share)
                assert np.abs(np.subtract(cell.fill, steps[step])).max() <= 3, (key, place)
                ink = ink_on(cell.fill)
            hills_are(inside, cell, ink, whole.arrays["distance"][n])
            bars_are(inside, cell, ink, values[n], measure.signed)
            squares = [m for m in inside if m.what == "frame" and m.width < cell.width / 2]
            assert len(squares) == bool(measure.signed and measure.no_effect[n]), (key, place)
            for square in squares:
                assert square.stroke == ink and square.width == square.height == 5
        legend_is(marks, cells, whole, key, theme)


def hills_are(inside: list[Mark], cell: Mark, ink: Any, distances: NDArray) -> None:
    """Each hill is at its distance, from left to right; the highest stands for the peak."""
    hills = [m for m in inside if m.what == "fill" and m.alpha == 0.62]
    step = (cell.width - 4) / len(distances)
    heights = np.zeros(len(distances))
    for hill in hills:
        heights[round((hill.x - cell.x - 2) / step)] = hill.height
        assert hill.fill == ink
    (base,) = [m for m in inside if m.what == "fill" and m.alpha == 0.3]
    assert {round(hill.y + hill.height - base.y, 3) for hill in hills} <= {0}
    assert heights.max() > 0.6 * (base.y - cell.y), "the peak fills the cell"
    expected = distances / distances.max() * heights.max()
    np.testing.assert_allclose(heights, np.where(expected > 0.1, expected, 0), atol=0.02)


def bars_are(inside: list[Mark], cell: Mark, ink: Any, shares: NDArray, is_change: bool) -> None:
    """The bar below spans the interval; a tick marks the value, a faint one 0."""
    at = cell.x + 3 + shares * (cell.width - 6)
    solid = [m for m in inside if m.what == "fill" and m.alpha == 1 and m.fill == ink]
    faint = [m for m in inside if m.what == "fill" and m.alpha == 0.35]
    ticks = [m.middle[0] for m in solid if m.height == 8]
    lines = [m for m in solid if m.height == 1.5]
    if np.isnan(shares[0]):
        assert not solid and not faint
        return
    assert ticks == [pytest.approx(at[0], abs=0.1)]
    assert [m.middle[0] for m in faint] == ([pytest.approx(cell.x + cell.width / 2)] * is_change)
    if np.isnan(shares[1]):
        assert not lines
        return
    (line,) = lines
    assert line.x == pytest.approx(at[1], abs=0.1)
    assert line.width == pytest.approx(max(1, at[2] - at[1]), abs=0.1)


def legend_is(marks: list[Mark], cells: dict, whole: Atlas, key: str, theme: str) -> None:
    """The legend's colours are those of the cells; its ticks are on the same scale."""
    measure = measured(whole)[key]
    bottom = max(cell.y + cell.height for cell in cells.values())
    slices = [m for m in marks if m.what == "fill" and m.y > bottom and m.height == 9]
    start, length = slices[0].x, slices[-1].x + slices[-1].width - 0.5 - slices[0].x
    steps = np.array(table(theme, measure.signed))
    for slice in slices:
        share = (slice.middle[0] - 0.25 - start) / length
        assert np.abs(np.subtract(slice.fill, steps[round(255 * share)])).max() <= 4
    below = [text for text in words_of(marks) if text.y > slices[0].y]
    ticks = [text for text in below if text.align == "center"]
    lines = [m.middle[0] for m in marks if m.what == "fill" and m.y > bottom and m.height == 3]
    values = np.array([number(tick.words) for tick in ticks])
    on_scale = ticked(ticks, "x", lines, bend(measure))
    expected = start + length * shares_on_the_scale(whole, measure, key, values)
    np.testing.assert_allclose(on_scale.at(values), expected, atol=0.6)
    if measure.signed:
        assert 0 in values and values.min() < 0 < values.max()
        assert [text[0] for text in texts(ticks) if text != "0"] == [
            "−" if value < 0 else "+" for value in values if value
        ]
    else:
        ends = (1, whole.count) if key == "removed" else (0, 1)
        assert (values[0], values[-1]) == ends
        assert all(text.endswith("%") == (key != "removed") for text in texts(ticks))
    said = [text.words for text in below if text.align == "left" and text.words]
    unit = [f"{UNITS[measure.unit]}, square-root scale"] if measure.signed else []
    assert said[: len(unit)] == unit and said[len(unit)].startswith("Grey bars")
    squares = measure.signed and bool(measure.no_effect.any())
    key = [np.isfinite(measure.values[:, 1:]).any(), squares]
    assert [any(word in text for text in said) for word in ("Tick", "Empty square")] == key


@each()
def test_frames_mark_the_chosen_head_and_the_one_under_the_pointer(
    shown: Any, whole: Atlas, theme: str, width: int
) -> None:
    of_theme = colours(theme)
    page = shown(whole, theme, width, head="encoder.0.1")
    cells = cells_of(drawn(page, "heads"))
    for n, place in enumerate(whole.heads):
        over = cells[whole.heads[n - 1]]
        page.does(("at", "heads", *cells[place].middle), ("over", "heads", *over.middle))
        frames = [m for m in drawn(page, "heads", "frame") if m.width > 5]
        assert [(m.thickness, m.stroke) for m in frames] == [
            (1.5, of_theme["second"]), (3, of_theme["page"]), (2.5, of_theme["ink"]),
        ]  # fmt: skip
        for frame, cell in zip(frames, (over, cells[place], cells[place]), strict=True):
            assert frame.middle == pytest.approx(cell.middle)
            assert abs(frame.width - cell.width) <= 3 and abs(frame.height - cell.height) <= 3


# The scatter plot.


def place_of(page: Mounted) -> tuple[str, int, int]:
    """Return the chosen head."""
    kind, layer, head = page.does()["data"]["head"].split(".")
    return kind, int(layer), int(head)


PAIRS = (
    ("entropy", "zero"),
    ("zero", "bleu"),
    ("bleu", "mean"),
    ("mean", "largest"),
    ("removed", "aer-input-norms"),
    ("similarity", "removed"),
    ("role-previous-token", "role-punctuation"),
)


def shapes_of(marks: list[Mark], stroke: Any) -> list[tuple[int, float, float, float]]:
    """Return the number of corners, the centre and the height of each point drawn in a colour."""
    found = []
    for mark in marks:
        if mark.what == "line" and mark.stroke == stroke and mark.lines[0][0] == mark.lines[0][-1]:
            corners = np.array(mark.lines[0][:-1])
            found.append((len(corners), *corners.mean(0), round(float(np.ptp(corners[:, 1])), 2)))
    return found


@each()
def test_the_scatter_plot_shows_each_head_at_both_values_with_both_intervals(
    shown: Any, whole: Atlas, theme: str, width: int
) -> None:
    of_theme, all_measures = colours(theme), measured(whole)
    page = shown(whole, theme, width, head="cross.1.2")
    for x, y in PAIRS:
        page.does(("set", "x", x), ("set", "y", y))
        marks = drawn(page, "scatter")
        across, up = all_measures[x], all_measures[y]
        to_x, to_y = axes_of_scatter(marks, across, up, of_theme)
        is_shown = np.isfinite(across.values[:, 0]) & np.isfinite(up.values[:, 0])
        xs, ys = to_x.at(across.values), to_y.at(up.values)
        points = shapes_of(marks, of_theme["second"])
        keys = {m.words: m for m in words_of(marks) if m.words in KINDS}
        assert list(keys) == list(KINDS)
        of_kind = {}
        for kind, text in keys.items():
            (key,) = [p for p in points if abs(p[2] - text.y) < 3 and 0 < text.x - p[1] < 14]
            of_kind[kind] = key[0]
            points.remove(key)
            assert {p[3] for p in points if p[0] == key[0]} <= {key[3]}
        assert len(set(of_kind.values())) == 3
        for kind, corners in of_kind.items():
            own = [n for n in range(whole.count) if is_shown[n] and whole.heads[n][0] == kind]
            expected = [(xs[n, 0], ys[n, 0]) for n in own]
            found = [point[1:3] for point in points if point[0] == corners]
            assert len(found) == len(expected)
            if expected:
                same_places(found, expected, off=2)  # ticks are rounded to whole px
        whiskers = segments(marks, stroke=of_theme["third"], alpha=0.35)
        same_places(whiskers, crosses(xs, ys, np.flatnonzero(is_shown)), off=2)


def crosses(xs: NDArray, ys: NDArray, heads: Iterable[int]) -> list[tuple[float, ...]]:
    """Return both intervals of each head, as lines."""
    lines = [
        line
        for n in heads
        for line in ((xs[n, 1], ys[n, 0], xs[n, 2], ys[n, 0]),
                     (xs[n, 0], ys[n, 1], xs[n, 0], ys[n, 2]))
    ]  # fmt: skip
    return [line for line in lines if np.isfinite(line).all()]


def axes_of_scatter(marks: list[Mark], across: Measure, up: Measure, of_theme: dict) -> Any:
    """Return both axes, after comparing their titles, ticks and lines; that of 0 is darker."""
    words = words_of(marks)
    for letter, measure in (("x", across), ("y", up)):
        unit = f", {UNITS[measure.unit]}" if measure.signed else ""
        assert f"{letter}: {measure.label}{unit}" in [t.words for t in words if t.align == "left"]
    right = [t for t in words if t.align == "right" and t.font.startswith("400 12px")]
    below = [text for text in words if text.align == "center"]
    lines = {name: segments(marks, stroke=of_theme[name], alpha=1) for name in ("line", "third")}
    found = []
    for ticks, measure, along, i in ((below, across, "x", 0), (right, up, "y", 1)):
        grid = {name: [line[i] for line in of if line[i] == line[i + 2]]
                for name, of in lines.items()}  # fmt: skip
        found.append(ticked(ticks, along, grid["line"] + grid["third"], bend(measure), off=1))
        assert len(grid["third"]) == measure.signed
        assert grid["third"] == pytest.approx([found[-1].at(0)] * measure.signed, abs=1.6)
        in_percent = not measure.signed and measure.label != "Removal rank"
        assert all(text.endswith("%") == in_percent for text in texts(ticks))
    return found


@each()
def test_the_scatter_plot_names_the_chosen_head_and_the_one_under_the_pointer(
    shown: Any, whole: Atlas, theme: str, width: int
) -> None:
    of_theme, all_measures = colours(theme), measured(whole)
    page = shown(whole, theme, width, x="zero", y="entropy")
    across, up = all_measures["zero"], all_measures["entropy"]
    to_x, to_y = axes_of_scatter(drawn(page, "scatter"), across, up, of_theme)
    xs, ys = to_x.at(across.values), to_y.at(up.values)
    alone = [n for n in range(whole.count)
             if np.sort(np.hypot(xs[:, 0] - xs[n, 0], ys[:, 0] - ys[n, 0]))[1] > 6]  # fmt: skip
    assert {whole.heads[n][0] for n in alone} == set(KINDS)
    for chosen, hovered in zip(alone, [*alone[1:], alone[0]], strict=True):
        page.does(("at", "scatter", xs[chosen, 0], ys[chosen, 0]),
                  ("over", "scatter", xs[hovered, 0], ys[hovered, 0]))  # fmt: skip
        marks = drawn(page, "scatter")
        heads = [
            f"{kind} {layer + 1}.{head + 1}"
            for kind, layer, head in (whole.heads[n] for n in (hovered, chosen))
        ]
        named = [text for text in words_of(marks) if text.font.split()[1] == "13px"]
        assert texts(named) == heads
        assert [text.font.split()[0] for text in named] == ["400", "650"]
        points = shapes_of(marks, of_theme["ink"])
        places = [(xs[n, 0], ys[n, 0]) for n in (hovered, chosen)]
        same_places([point[1:3] for point in points], places, off=2)
        for text, n in zip(named, (hovered, chosen), strict=True):
            assert np.hypot(text.x - xs[n, 0], text.y - ys[n, 0]) < 20
        lines = segments(marks, stroke=of_theme["ink"], alpha=1)
        same_places(lines, crosses(xs, ys, (hovered, chosen)), off=2)
    left, right = min(alone, key=lambda n: xs[n, 0]), max(alone, key=lambda n: xs[n, 0])
    page.does(("at", "scatter", xs[left, 0], ys[left, 0]))
    for key, ways in (("ArrowRight", 1), ("ArrowLeft", -1)):
        before = xs[whole.heads.index(place_of(page)), 0]
        page.does(("key", "scatter", key))
        after = xs[whole.heads.index(place_of(page)), 0]
        assert ways * (after - before) > 0 and after <= xs[right, 0] + 1


def levels(marks: list[Mark], of_theme: dict) -> list[float]:
    """Return the heights of the lines behind the ticks of a vertical axis."""
    return [m.middle[1] for m in marks if m.what == "fill" and m.fill == of_theme["line"]]


# Pruning curves.


@each(narrow=380)
def test_the_pruning_curves_show_each_step_with_its_interval(
    shown: Any, whole: Atlas, theme: str, width: int
) -> None:
    of_theme = colours(theme)
    page = shown(whole, theme, width)
    cells = cells_of(drawn(page, "heads"))
    kinds = (*KINDS, ALL)
    names = {ALL: "all kinds"} | {kind: f"{kind} only" for kind in KINDS}
    for what, title in (("loss", "Loss, nats per token"), ("bleu", "BLEU, points")):
        page.does(("set", "curve", what))
        curves = {name: whole.arrays[f"prune_{name}_{what}"].astype(float) for name in kinds}
        marks = drawn(page, "pruning")
        said = {text.words: text for text in words_of(marks)}
        assert said[title].y < said["heads removed"].y and said[title].align == "left"
        ours = ("heads removed", *names.values())
        right = [t for t in words_of(marks) if t.align == "right" and t.words not in ours]
        below = [text for text in words_of(marks) if text.align == "center"]
        y, x = ticked(right, "y", levels(marks, of_theme)), ticked(below, "x")
        assert number(below[0].words) == 0
        spans = [
            (x.at(count), y.at(low), x.at(count), y.at(high))
            for curve in curves.values()
            for count, (_, low, high) in enumerate(curve)
        ]
        same_places(segments(marks, stroke=of_theme["third"], alpha=0.5), spans)
        lines = [m for m in marks if m.what == "line" and m.stroke == of_theme["ink"]]
        assert len({line.dash for line in lines}) == len(lines) == len(kinds)
        for name, curve in curves.items():
            points = np.column_stack([x.at(np.arange(len(curve))), y.at(curve[:, 0])])
            (line,) = [m for m in lines if len(m.lines[0]) == len(points)
                       and np.abs(np.array(m.lines[0]) - points).max() < 1]  # fmt: skip
            looks = (line.thickness, line.dash == (), said[names[name]].font[:3])
            assert looks == ((2.5, True, "650") if name == ALL else (1.6, False, "400"))
            label, (end_x, end_y) = said[names[name]], points[-1]
            beside = points[round(0.75 * (len(points) - 1))] + np.array([0, -9])
            at_end = label.align == "left" and label.x == pytest.approx(end_x + 8, abs=1)
            assert at_end or (width < 600 and abs(label.x - beside[0]) < 9)
            moved = abs(label.y - (end_y if at_end else beside[1]))
            assert moved < 1 or (whole is NETWORKS[1] and moved <= 31), "moved off another label"
        for n, (kind, layer, head) in list(enumerate(whole.heads))[what == "bleu" :: 2]:
            page.does(("at", "heads", *cells[kind, layer, head].middle))
            expected = []
            for name in (ALL, kind):
                own = n - whole.span(name).start
                rank = list(whole.arrays[f"prune_{name}_order"]).index(own) + 1
                expected.append((x.at(rank), y.at(curves[name][rank, 0])))
            same_places([m.middle for m in drawn(page, "pruning", "frame")], expected)


# One head: its roles and its distances.


@each(narrow=300)
def test_roles_show_scores_intervals_and_chance_levels_of_each_head(
    shown: Any, whole: Atlas, theme: str, width: int
) -> None:
    of_theme = colours(theme)
    page = shown(whole, theme, width, head="encoder.0.0")
    for n, (kind, _, _) in enumerate(whole.heads):
        if n:
            page.does(("press", "[data-part=next]"))
        marks = drawn(page, "roles")
        ticks = [text for text in words_of(marks) if text.align == "center"]
        assert [plain(text) for text in texts(ticks)] == ["0 %", "50 %", "100 %"]
        x = ticked(ticks, "x")
        at = n - whole.span(kind).start
        arrays = {part: whole.arrays[f"role_{kind}{part}"]
                  for part in ("", "_shuffled", "_random", "_profile")}  # fmt: skip
        is_rare = whole.arrays[f"role_{kind}_rows"] < ROWS
        order = np.lexsort((-arrays[""][:, at, 0], is_rare))
        titles = [t for t in words_of(marks) if t.align == "right" and not t.words.endswith("%")]
        assert len(titles) == len(order)
        bold = {label.role for label in labels(whole)[n]}
        scores = dict(zip(ROLES[kind], arrays[""][:, at, 0], strict=True))
        least = max([FLOOR, *(scores[name] for name in bold)])
        for title, role in zip(sorted(titles, key=lambda text: text.y), order, strict=True):
            name = ROLES[kind][role]
            full = f"{name}, words shuffled" if name == "diagonal" else name
            cut = title.words.removesuffix("…")
            assert full.startswith(cut) and (cut == full or len(cut) >= 6)
            assert title.font.startswith("650" if name in bold else "400")
            score, low, high = arrays[""][role, at]
            colour = table(theme)[150 if name in bold else 60]
            if name not in bold and score >= least:
                colour = of_theme["line"]
            row = [m for m in marks if abs(m.middle[1] - title.y) < 3 and m.x > title.x]
            for height, start, end, fill in (
                (10, 0, score, colour),
                (1.5, low, high, of_theme["ink"]),
            ):
                (bar,) = [m for m in row if m.what == "fill" and m.height == height]
                ends = x.at(start), max(x.at(end), x.at(start) + 1)
                assert (bar.x, bar.x + bar.width) == pytest.approx(ends, abs=1)
                assert bar.fill == fill
            (share,) = [t for t in words_of(row) if t.align == "right" and t.words.endswith("%")]
            assert number(share.words.replace("<", "")) == pytest.approx(score, abs=0.0051)
            nulls = [
                arrays["_shuffled"][role, at],
                arrays["_random"][role],
                arrays["_profile"][role, at],
            ]
            (chance,) = [m for m in row if m.what == "fill" and m.height == 18]
            expected = x.at(np.clip(np.nanmax(nulls), 0, 1))
            assert chance.middle == pytest.approx((expected, title.y), abs=1), (n, name)


@each(narrow=300)
def test_attention_by_distance_is_drawn_at_each_distance_of_each_head(
    shown: Any, whole: Atlas, theme: str, width: int
) -> None:
    of_theme = colours(theme)
    page = shown(whole, theme, width, head="encoder.0.0")
    for n, (kind, _, _) in enumerate(whole.heads):
        if n:
            page.does(("press", "[data-part=next]"))
        marks = drawn(page, "distance")
        shares = whole.arrays["distance"][n]
        right = [t for t in words_of(marks) if t.align == "right" and t.words.endswith("%")]
        y = ticked(right, "y", levels(marks, of_theme))
        assert [number(t.words) for t in right] == pytest.approx(
            [0, number(right[2].words) / 2, number(right[2].words)]
        )
        assert shares.max() <= number(right[2].words) <= max(0.02, 2 * shares.max())
        bars = [m for m in marks if m.what == "fill" and m.fill == table(theme)[150]]
        (zero,) = [m for m in marks if m.what == "fill" and m.fill == of_theme["ink"]]
        ticks = [t for t in words_of(marks) if not t.words.endswith("%") and t.words[-1] not in "s"]
        values = [number(text.words) for text in ticks]
        assert values == [distance for distance in DISTANCES if distance % 10 == 0]
        inner = [t for t in ticks if t.align == "center"]
        x = ticked(inner, "x")
        assert x.at(0) == pytest.approx(zero.middle[0])
        step = x.slope
        assert [(ticks[i].align, ticks[i].x) for i in (0, -1)] == [
            ("left", pytest.approx(float(x.at(DISTANCES[0])) - step / 2)),
            ("right", pytest.approx(float(x.at(DISTANCES[-1])) + step / 2)),
        ]
        assert [t.words for t in ticks if "…" in t.words] == ["…−20", "+20…"]
        assert all(t.words[0] == "+" for t in ticks if number(t.words) > 0)
        expected = [
            (x.at(distance), y.at(share), y.at(0))
            for distance, share in zip(DISTANCES, shares, strict=True)
            if share > 0
        ]
        same_places([(m.middle[0], m.y, m.y + m.height) for m in bars], expected)
        start = "the diagonal's" if kind == "cross" else "query position"
        assert f"key position minus {start}, in tokens" in texts(marks)


# Files.


@each()
def test_saved_pictures_show_what_the_canvases_show(
    shown: Any, whole: Atlas, theme: str, width: int
) -> None:
    page = shown(whole, theme, width, head="decoder.1.2", measure="mean", x="bleu", y="mean")
    labels = {key: measure.label for key, measure in measured(whole).items()}
    titles = {
        "heads": f"All heads: {labels['mean']}",
        "scatter": f"{labels['mean']} against {labels['bleu']}",
        "roles": "Roles: Decoder self-attention, layer 2, head 3",
        "distance": "Attention by distance: Decoder self-attention, layer 2, head 3",
        "pruning": "Loss after removing heads, least needed first",
    }
    inks = {colours(theme)[name] for name in ("ink", "second", "third")}
    for picture in PICTURES:
        assert {text.fill for text in words_of(drawn(page, picture))} <= inks
        sort, content = page.saves(f"{picture} svg")
        assert sort == "image/svg+xml" and page.saves(f"{picture} png")[0] == "image/png"
        svg = svg_marks(content)
        png = png_marks(page.page, partial(page.saves, f"{picture} png"))
        for ground, title, *marks in (svg, png):
            assert ground.fill == colours(theme)["page"] and title.words == titles[picture]
            same_picture(marks, drawn(page, picture), (16, 44))
