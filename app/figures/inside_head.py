"""Draws the stages inside one head: vectors, products, scores, weights, weighted values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from app.figures.grid import hatching
from app.figures.style import FLOOR, beside, diverging, escape, layout, sequential, tick, word_ticks
from app.look.numbers import number
from app.look.palette import PALETTES
from core.analysis.inside_head import InsideHead

_LONGEST = 12  # characters of a word under a bar; the hover shows all of it
_WIDTH = 400  # px that a figure's bars have on a small desktop screen: decides which labels fit
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 14, 30
_MARGINS = _TOP + _BOTTOM
_BAR = 64  # px on the right for the scale of a strip
_CROWDED = 36  # with more keys only the chosen one has its number; all stand in the table
_LINE = 32  # a vector of more numbers goes on in a line below
_LINE_HEIGHT, _BELOW = 140, 44  # px of a line of bars, and of what stands below it
_STRIPS = 49  # px of two rows of colours


def projection_figure(inside: InsideHead, key: int, theme: str) -> go.Figure:
    """The inputs of query and key as strips [2, D]; below them q and k as bars [E] each."""
    inputs = np.stack([inside.x_D, inside.memory_KD[key]])
    q, k = inside.q_E, inside.k_KE[key]
    figure = _figure(theme, _STRIPS + 2 * _height(q) + _MARGINS)
    domain = (1 - _STRIPS / _inner(figure), 1)
    figure.add_trace(_strips(inputs, ["x of the query", "x of the key"], theme, domain))
    figure.update_layout(
        margin={"r": _BAR},
        xaxis={"anchor": "y", "tickvals": [], "title": {"text": f"{inputs.shape[1]} dimensions"}},
        yaxis={
            "domain": domain,
            "tickvals": [0, 1],
            "ticktext": ["x<sub>q</sub>", "x<sub>k</sub>"],
            "range": [1.5, -0.5],
        },
    )
    both = np.concatenate([q, k])  # one scale: they stand under each other to be compared
    for values, symbol, bottom in ((q, "q", _height(k)), (k, "k", 0)):
        _add_vector(figure, values, symbol, bottom, theme, scale_of=both)
    return figure


def product_figure(inside: InsideHead, key: int, theme: str) -> go.Figure:
    """The terms qᵢ·kᵢ of one query and one key, [E], each with its number."""
    terms = inside.products_KE[key]
    figure = _figure(theme, _height(terms) - _BELOW + _MARGINS)
    _add_vector(figure, terms, "q·k", 0, theme)
    return figure


def scores_figure(
    values: ArrayLike, mask: NDArray[np.bool_], words: Sequence[str], key: int, theme: str
) -> go.Figure:
    """One score a key [K]; masked keys are hatched, and their number is −∞."""
    figure = _figure(theme, 270)
    figure.update_layout(margin={"b": 64})
    _add_bars(figure, values, words, "score", (0, 1), 1, theme, chosen=key)
    if not mask.all():
        _hatch(figure, ~mask, theme)
    return figure


def softmax_figure(inside: InsideHead, words: Sequence[str], key: int, theme: str) -> go.Figure:
    """e^(score − largest) of each key, and below it the weight: the same bars, divided by a sum."""
    figure = _figure(theme, 430)
    figure.update_layout(margin={"b": 64})
    _add_bars(figure, inside.exps_K, words, "exp", (0.58, 1), 1, theme, chosen=key, data=False)
    _add_bars(figure, inside.weights_K, words, "weight", (0, 0.4), 2, theme, chosen=key)
    weights = [colour for _, colour in sequential(theme)]
    shades = [weights[round(w * (len(weights) - 1))] for w in inside.weights_K]
    figure.data[-1].marker.color = shades
    figure.data[-1].marker.line = {"width": 1, "color": PALETTES[theme].third}
    return figure


def values_figure(inside: InsideHead, words: Sequence[str], theme: str) -> go.Figure:
    """The weighted values as rows [K, E], and their sum z as bars [E] below."""
    weighted = inside.weighted_KE
    pitch = int(np.clip(360 / len(weighted), 6, 18))
    grid = pitch * len(weighted)
    figure = _figure(theme, grid + _height(inside.z_E) + _MARGINS)
    domain = (1 - grid / _inner(figure), 1)
    ticks = word_ticks(words, pitch, _LONGEST)
    rows = [tick(word) for word in words]
    figure.add_trace(_strips(weighted, rows, theme, domain))
    figure.update_layout(
        margin={"l": 96, "r": _BAR},
        xaxis={"anchor": "y", "tickvals": [], "range": [-0.5, weighted.shape[1] - 0.5]},
        yaxis={**ticks, "range": ticks["range"][::-1], "domain": domain},
    )
    _add_vector(figure, inside.z_E, "z", 0, theme)
    return figure


def output_figure(inside: InsideHead, theme: str) -> go.Figure:
    """This head's part of the output and the whole output, as strips [2, D] on one scale."""
    both = np.stack([inside.parts_HD[inside.head], inside.output_D])
    figure = _figure(theme, 150)
    figure.add_trace(_strips(both, ["this head", "all heads and bias"], theme, (0, 1)))
    figure.update_layout(
        margin={"l": 96, "r": _BAR},
        xaxis={"tickvals": [], "title": {"text": f"{both.shape[1]} dimensions"}},
        yaxis={
            "tickvals": [0, 1],
            "ticktext": ["this head", "all heads"],
            "range": [1.5, -0.5],
        },
    )
    return figure


def _figure(theme: str, height: int) -> go.Figure:
    figure = go.Figure(layout=layout(theme, "", "", height))
    figure.update_layout(
        title=None,
        margin={"l": _LEFT, "r": _RIGHT, "t": _TOP, "b": _BOTTOM},
        bargap=0.25,
        barmode="overlay",
    )
    return figure


def _inner(figure: go.Figure) -> float:
    """The px between the upper and the lower margin of a figure."""
    return figure.layout.height - _MARGINS


def _height(vector: NDArray[np.float64]) -> int:
    """The px that the lines of a vector take, with what stands between them and before them."""
    return math.ceil(len(vector) / _LINE) * (_LINE_HEIGHT + _BELOW)


def _add_vector(
    figure: go.Figure,
    values: NDArray[np.float64],
    symbol: str,
    bottom: float,
    theme: str,
    *,
    scale_of: NDArray[np.float64] | None = None,
) -> None:
    """A vector as lines of bars, the last one `bottom` px above the figure's lower margin.

    The lines are as long as each other, no longer than their numbers are legible, and on one scale.
    """
    lines = np.array_split(np.arange(len(values)), math.ceil(len(values) / _LINE))
    for more, line in zip(reversed(range(len(lines))), lines, strict=True):
        low = bottom + more * (_LINE_HEIGHT + _BELOW)
        _add_bars(
            figure,
            values[line],
            [str(at + 1) for at in line],
            symbol,
            (low / _inner(figure), (low + _LINE_HEIGHT) / _inner(figure)),
            len(figure.data) + 1,
            theme,
            scale_of=values if scale_of is None else scale_of,
        )


def _strips(
    values: NDArray[np.float64], rows: Sequence[str], theme: str, domain: tuple[float, float]
) -> go.Heatmap:
    """Rows of signed numbers on one scale that is as long as the largest of them.

    The scale stands to the right of `domain`, the part of the figure's height that they take.
    """
    bound = float(np.abs(values).max()) or 1.0
    ends = [-bound, 0.0, bound]
    hover = [[f"{row}<br>dimension {i}" for i in range(1, values.shape[1] + 1)] for row in rows]
    return go.Heatmap(
        z=values.astype(np.float32),
        colorscale=diverging(theme),
        zmin=-bound,
        zmax=bound,
        colorbar=beside(domain, ends, [number(end, 2) for end in ends], theme),
        ygap=2 if len(values) < 4 else 1,
        text=hover,
        hovertemplate="%{text}<br><b>%{z:.4f}</b><extra></extra>",
    )


def _add_bars(
    figure: go.Figure,
    values: ArrayLike,
    words: Sequence[str],
    symbol: str,
    domain: tuple[float, float],
    place: int,
    theme: str,
    *,
    chosen: int | None = None,
    data: bool = True,
    scale_of: NDArray[np.float64] | None = None,
) -> None:
    """One row of bars with a printed number each, on the figure's `place`-th pair of axes.

    The axis spans `scale_of`, or else the values. Orange is below zero and blue above;
    `data=False` draws in grey what is only on the way.
    """
    palette = PALETTES[theme]
    values = np.asarray(values, np.float64)
    finite = np.where(np.isfinite(values), values, 0.0)
    scale = diverging(theme)
    below, above = (scale[0][1], scale[-1][1]) if data else (palette.third, palette.third)
    spanned = finite if scale_of is None else scale_of
    low, high = min(spanned.min(), 0.0), max(spanned.max(), 0.0)
    room = 0.7 * ((high - low) or 1.0)  # for numbers that stand upright on the bars
    x, y = ("x", "y") if place == 1 else (f"x{place}", f"y{place}")
    ticks = word_ticks(words, _WIDTH / len(words), _LONGEST)
    plain = all(word.isdigit() for word in words)
    if plain:  # every second one: a phone has no room for more
        ticks["tickvals"], ticks["ticktext"] = ticks["tickvals"][::2], ticks["ticktext"][::2]
    if chosen is not None:
        shown = [at for at in ticks["tickvals"] if len(words) <= _CROWDED or abs(at - chosen) > 1]
        ticks["tickvals"] = sorted({*shown, chosen})
        ticks["ticktext"] = [
            f"<b>{tick(words[at], _LONGEST)}</b>" if at == chosen else tick(words[at], _LONGEST)
            for at in ticks["tickvals"]
        ]
    bare = {"showgrid": False, "zeroline": False, "ticks": "", "fixedrange": True}
    axis: dict[str, Any] = {**bare, **ticks, "anchor": y, "tickangle": 0 if plain else -60}
    axis["tickfont"] = {"size": 12, "color": palette.second}
    figure.update_layout(
        {
            f"xaxis{place if place > 1 else ''}": axis,
            f"yaxis{place if place > 1 else ''}": {
                **bare,
                "domain": domain,
                "anchor": x,
                "range": [low - (room if low < 0 else 0), high + room],
                "tickvals": [0],
                "ticktext": [symbol],
                "tickfont": {"size": 13, "color": palette.second},
                "zeroline": True,
                "zerolinecolor": palette.line,
                "zerolinewidth": 1,
            },
        }
    )
    figure.add_trace(
        go.Bar(
            x=np.arange(len(values)),
            y=finite,
            xaxis=x,
            yaxis=y,
            marker={"color": np.where(finite < 0, below, above).tolist(), "line": {"width": 0}},
            text=[
                number(v) if len(values) <= _CROWDED or i == chosen else ""
                for i, v in enumerate(values)
            ],
            textposition="outside",
            textangle=-90,
            textfont={"size": FLOOR, "color": palette.ink},
            cliponaxis=False,
            constraintext="none",
            customdata=[[escape(word), number(v)] for word, v in zip(words, values, strict=True)],
            hovertemplate="%{customdata[0]}<br><b>%{customdata[1]}</b><extra></extra>",
            name=symbol,
        )
    )


def _hatch(figure: go.Figure, masked: NDArray[np.bool_], theme: str) -> None:
    """Hatching behind the bars of masked keys, as high as the figure."""
    low, high = figure.layout.yaxis.range
    keys = np.flatnonzero(masked)
    figure.add_trace(
        go.Bar(
            x=keys,
            y=np.full(len(keys), high - low),
            base=low,
            width=1.0,
            name="masked",
            hoverinfo="skip",
            marker=hatching(masked[None], "masked", "/", theme).marker,
        )
    )
    figure.data = figure.data[::-1]
