"""Declares the stages of one head: vectors as strips; terms, scores and weights as bars."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.figures.chart import Axis, Cells, Chart, Mark, note
from app.figures.grid import hatching
from app.figures.style import (
    BARE,
    FLOOR,
    INK,
    LINE,
    THIRD,
    Ink,
    by_sign,
    colour_bar,
    escape,
    shade,
    small,
    tick,
    word_ticks,
)
from app.look.numbers import number
from core.analysis.inside_head import InsideHead, largest

TERMS = 5  # number of largest terms shown by name
_LONGEST = 22  # characters of a bar's label; the hover shows the whole word
_LEFT, _RIGHT, _SCALE, _TOP = 96, 12, 64, 12  # px; _SCALE: width reserved for a colour bar
_STRIP, _GAP = 22, 30  # px: height of a strip, and gap between groups of strips
_PRODUCT = 156  # px: left margin, for a term's two factors

Part = tuple[Mark | Cells, Mapping[str, Axis]]
"""A mark and its pair of axes."""
Span = tuple[float, float]


def projection_figure(inside: InsideHead, key: int) -> Chart:
    """Draw the inputs x_q and x_k [D] as strips and, on a separate scale, q and k [E]."""
    inputs = np.stack([inside.x_D, inside.memory_KD[key]])
    made = np.stack([inside.q_E, inside.k_KE[key]])
    height = 4 * _STRIP + 2 * _GAP
    lower, gap = 2 * _STRIP / height, _GAP / height
    return _chart(
        height,
        _strips(1, inputs, ["x<sub>q</sub>", "x<sub>k</sub>"], (1 - lower, 1)),
        _strips(2, made, ["q", "k"], (gap, gap + lower)),
    )


def product_figure(inside: InsideHead, key: int) -> Chart:
    """Draw all terms q_e·k_e [E] as a strip; below, the largest as bars and the sum of the rest."""
    terms = inside.products_KE[key]
    named = largest(terms, TERMS)
    q, k = inside.q_E, inside.k_KE[key]
    names = [f"{e + 1}:  {number(q[e], 2)} × {number(k[e], 2)}" for e in named]
    hovers = [f"dimension {name}" for name in names]
    values = [float(terms[e]) for e in named]
    colours = by_sign(values)
    if others := len(terms) - len(named):
        names.append(f"the other {others}")
        hovers.append(f"the other {others} dimensions")
        values.append(float(np.delete(terms, named).sum()))
        colours.append(THIRD)  # grey: a sum of many small terms
    bars = 26 * len(names)
    height = _STRIP + _GAP + bars
    domain = 1 - _STRIP / height, 1
    return _chart(
        height,
        _strips(1, terms[None], ["q<sub>e</sub>k<sub>e</sub>"], domain),
        _bars(2, values, names, height, colours, (0, bars / height), hovers=hovers),
        left=_PRODUCT,
    )


def scores_figure(
    values: ArrayLike, mask: NDArray[np.bool_], words: Sequence[str], key: int
) -> Chart:
    """Draw one score per key [K]; masked keys are hatched and labelled −∞."""
    height = _pitch(len(words)) * len(words)
    return _chart(height, *_scores(values, mask, words, key, height), right=_RIGHT)


def row_figure(inside: InsideHead, words: Sequence[str], key: int, shows_weights: bool) -> Chart:
    """Draw one score per key [K] and, beside it, the weight, unless that is hidden."""
    height, head = _pitch(len(words)) * len(words), 22
    scores, mask = inside.masked_K, inside.open_K
    parts = _scores(scores, mask, words, key, height, columns=(0, 0.6), series="score")
    notes = [_above("score", 0, 1)]
    if shows_weights:
        shades = [shade(weight) for weight in inside.weights_K]
        edge = {"marker": {"line": {"width": 1, "color": THIRD}}}
        parts.append(_bars(2, inside.weights_K, words, height, shades, columns=(0.66, 1),
                           chosen=key, named=False, series="weight", more=edge))  # fmt: skip
        notes.append(_above("weight", 0.66, 1))
    return _chart(height, *parts, right=_RIGHT, head=head, notes=notes)


def _scores(
    values: ArrayLike,
    mask: NDArray[np.bool_],
    words: Sequence[str],
    key: int,
    height: float,
    **more: Any,
) -> list[Part]:
    """Return bars of scores [K]; the rows of masked keys are hatched. `more` goes to `_bars`."""
    values = np.asarray(values, np.float64)
    bars, axes = _bars(1, values, words, height, by_sign(_finite(values)), chosen=key, **more)
    if mask.all():
        return [(bars, axes)]
    low, high = axes["x"].properties["range"]
    keys = np.flatnonzero(~mask)
    # Behind the bars, across the whole plot.
    return [(hatching(np.full(len(keys), high - low), keys, low, "masked", "/"), {}), (bars, axes)]


def softmax_figure(inside: InsideHead, words: Sequence[str], key: int) -> Chart:
    """Draw e^(score − largest) per key in grey, and the weight: its share of the sum."""
    height, K, head = _pitch(len(words)) * len(words), len(words), 22
    shades = [shade(weight) for weight in inside.weights_K]
    edge = {"marker": {"line": {"width": 1, "color": THIRD}}}
    titles = (0, "e<sup>s − max</sup>"), (0.54, "weight")
    return _chart(
        height,
        _bars(1, inside.exps_K, words, height, [THIRD] * K, columns=(0, 0.46), chosen=key,
              places=3, series="e^(s − max)"),
        _bars(2, inside.weights_K, words, height, shades, columns=(0.54, 1), chosen=key,
              named=False, places=3, series="weight", more=edge),
        right=_RIGHT,
        head=head,
        notes=[_above(title, at, 1) for at, title in titles],
    )  # fmt: skip


def values_figure(inside: InsideHead, words: Sequence[str]) -> Chart:
    """Draw the weighted values [K, E] and their sum z [E] on one scale."""
    weighted, z = inside.weighted_KE, inside.z_E
    pitch = _pitch(len(weighted))
    height = pitch * len(weighted) + 10 + _STRIP
    bound = float(max(np.abs(weighted).max(), np.abs(z).max()))
    domain = 1 - pitch * len(weighted) / height, 1
    return _chart(
        height,
        _strips(1, weighted, words, domain, bound=bound, pitch=pitch),
        _strips(2, z[None], ["z"], (0, _STRIP / height), bound=bound, scale=False),
    )


def output_figure(inside: InsideHead) -> Chart:
    """Draw this head's part and the whole output as strips [2, D]; below, each head's norm."""
    both = np.stack([inside.parts_HD[inside.head], inside.output_D])
    lengths = np.linalg.norm(inside.parts_HD, axis=-1)
    names = [f"head {h}" for h in range(1, len(lengths) + 1)]
    bars = 24 * len(names)
    height = 2 * _STRIP + _GAP + 18 + bars
    return _chart(
        height,
        _strips(1, both, ["this head", "output"], (1 - 2 * _STRIP / height, 1)),
        _bars(2, lengths, names, height, [THIRD] * len(names), (0, bars / height),
              chosen=inside.head),
        notes=[_above("length of each head’s part", 0, bars / height)],
    )  # fmt: skip


def _chart(
    height: float, *parts: Part, left: int = _LEFT, right: int = _SCALE, head: int = 0, **more: Any
) -> Chart:
    """Join parts to a chart whose plot is `height` px high, with `head` px for text above it."""
    marks = [mark for mark, _ in parts]
    axes = {id: axis for _, of in parts for id, axis in of.items()}
    top = _TOP + head
    gaps = {"bargap": 0.3, "barmode": "overlay"}
    return Chart("", "", axes, marks, top + height + 8, (left, right, top, 8), more=gaps, **more)


def _pitch(rows: int) -> float:
    """Return the height of a key's row in px: legible in short sentences, denser in long ones."""
    return float(np.clip(460 / rows, 7, 20))


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Replace infinities by 0: they have no bar."""
    return np.where(np.isfinite(values), values, 0.0)


def _above(text: str, x: float, y: float) -> dict[str, Any]:
    """Return a text over height `y` of the plot."""
    place = {"xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "middle"}
    return note(text, x, y, 12, yshift=9.0, **place)


def _strips(
    place: int,
    values: NDArray[np.float64],
    names: Sequence[str],
    domain: Span,
    *,
    bound: float | None = None,
    pitch: float = _STRIP,
    scale: bool = True,
) -> Part:
    """Return vectors [N, width] as rows of coloured cells on the `place`-th pair of axes.

    Colours span ±`bound`, by default the largest absolute value: orange < 0, blue > 0. The colour
    bar on the right, if there is a `scale`, is as high as the domain.
    """
    bound = (float(np.abs(values).max()) or 1.0) if bound is None else bound
    ends = [-bound, 0.0, bound]
    x, y = _pair(place)
    rows, width = values.shape
    ticks = word_ticks(names, pitch, 40)
    is_name = pitch == _STRIP  # a name with a subscript, not a token
    if is_name:
        ticks["ticktext"] = list(names)
    shown = [name if is_name else tick(name) for name in names]
    dimensions = [f"dimension {i}" for i in range(1, width + 1)]
    hover = [[f"{row}<br>{dimension}" for dimension in dimensions] for row in shown]
    bar = colour_bar(domain, ends, [number(end, 2) for end in ends]) if scale else None
    if bar and domain[1] - domain[0] < 1 and len(names) <= 2:  # no room for three numbers
        bar["tickvals"], bar["ticktext"] = bar["tickvals"][::2], bar["ticktext"][::2]
    cells = Cells(
        values.astype(np.float32),
        bound,
        True,
        "%{text}<br><b>%{z:.4f}</b>" if names[0] else "",
        texts=hover if names[0] else None,
        bar=bar,
        gaps=(0, 2 if rows < 4 else 1),
        more={"xaxis": x, "yaxis": y},
    )
    across = {**BARE, "anchor": y, "tickvals": [], "range": [-0.5, width - 0.5]}
    down = {**BARE, **ticks, "anchor": x, "domain": domain, "range": [rows - 0.5, -0.5]}
    plain = [re.sub("</?su[bp]>", "", name) for name in names]
    return cells, {x: Axis(across, dimensions), y: Axis(down, plain)}


def _bars(
    place: int,
    values: ArrayLike,
    names: Sequence[str],
    height: float,
    colours: Sequence[Ink],
    domain: Span = (0, 1),
    columns: Span = (0, 1),
    *,
    hovers: Sequence[str] = (),
    chosen: int | None = None,
    named: bool = True,
    places: int = 2,
    series: str = "",
    more: Mapping[str, Any] | None = None,
) -> Part:
    """Return horizontal bars on the `place`-th pair of axes, each labelled with its number.

    The whole plot is `height` px high. Without a number are weights that round to zero and, if
    rows are too low for numbers, all rows but the chosen one.
    """
    values = np.asarray(values, np.float64)
    finite, rows = _finite(values), len(values)
    pitch = round(height) * (domain[1] - domain[0]) / rows
    low, high = min(finite.min(), 0.0), max(finite.max(), 0.0)
    room = 0.42 * ((high - low) or 1.0)  # for the number at the end of a bar
    x, y = _pair(place)
    ticks = word_ticks(names, pitch, _LONGEST)
    if chosen is not None:
        near = 0 if pitch >= 11 else 1
        at = sorted({*(t for t in ticks["tickvals"] if abs(t - chosen) > near), chosen})
        words = [tick(names[i], _LONGEST) for i in at]
        ticks["tickvals"] = at
        ticks["ticktext"] = [
            f"<b>{w}</b>" if i == chosen else w for i, w in zip(at, words, strict=True)
        ]
    across = {
        **BARE,
        "anchor": y,
        "domain": columns,
        "range": [low - (room if low < 0 else 0), high + room],
        "tickvals": [],
        "zeroline": True,
        "zerolinecolor": LINE,
        "zerolinewidth": 1,
    }
    down = {"anchor": x, "domain": domain, "range": [rows - 0.5, -0.5], "showticklabels": named}
    shown = [number(value, places) for value in values]
    labelled = {
        "xaxis": x,
        "yaxis": y,
        "text": [
            text
            if i == chosen or (pitch >= 11 and not (series == "weight" and float(text) == 0))
            else ""
            for i, text in enumerate(shown)
        ],
        "textposition": "outside",
        "textfont": small(float(np.clip(pitch - 5, FLOOR, 12)), INK),
        "cliponaxis": False,
        "constraintext": "none",
    }
    told = [[escape(one), text] for one, text in zip(hovers or names, shown, strict=True)]
    hover = "%{customdata[0]}<br><b>%{customdata[1]}</b>"
    said = [*zip(names, values.tolist(), strict=True)]
    bars = Mark("bar", finite, np.arange(rows), hover, told, list(colours), sideways=True,
                series=series, said=said, more={**labelled, **(more or {})})  # fmt: skip
    return bars, {x: Axis(across), y: Axis({**BARE, **ticks, **down}, names)}


def _pair(place: int) -> tuple[str, str]:
    """Return the ids of the `place`-th pair of axes."""
    n = "" if place == 1 else str(place)
    return f"x{n}", f"y{n}"
