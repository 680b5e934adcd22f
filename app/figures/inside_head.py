"""Draws the stages of one head: vectors as strips; terms, scores and weights as bars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from app.figures.grid import hatched_bars
from app.figures.style import (
    BARE,
    FLOOR,
    colour_bar,
    diverging,
    escape,
    layout,
    sequential,
    signed_colours,
    tick,
    word_ticks,
)
from app.look.numbers import number
from app.look.palette import PALETTES
from core.analysis.inside_head import InsideHead, largest

TERMS = 5  # number of largest terms shown by name
_LONGEST = 22  # characters of a bar's label; the hover shows the whole word
_LEFT, _RIGHT, _SCALE, _TOP = 96, 12, 64, 12  # px; _SCALE: width reserved for a colour bar
_STRIP, _GAP = 22, 30  # px: height of a strip, and gap between groups of strips
_PRODUCT = 156  # px: left margin, for a term's two factors
_SMALL, SMALL_WIDTH = 64, 108  # px: size of a figure in the overview
_MIN_WIDTH = 150  # px: Streamlit's minimum width of a figure


def projection_figure(inside: InsideHead, key: int, theme: str) -> go.Figure:
    """Draw the inputs x_q and x_k [D] as strips and, on a separate scale, q and k [E]."""
    inputs = np.stack([inside.x_D, inside.memory_KD[key]])
    made = np.stack([inside.q_E, inside.k_KE[key]])
    height = 4 * _STRIP + 2 * _GAP
    figure = _figure(theme, _TOP + height + 8, right=_SCALE)
    lower = (2 * _STRIP) / height
    _add_strips(figure, 1, inputs, ["x<sub>q</sub>", "x<sub>k</sub>"], (1 - lower, 1), theme)
    _add_strips(figure, 2, made, ["q", "k"], (_GAP / height, _GAP / height + lower), theme)
    return figure


def product_figure(inside: InsideHead, key: int, theme: str) -> go.Figure:
    """Draw all terms q_e·k_e [E] as a strip; below, the largest as bars and the sum of the rest."""
    terms = inside.products_KE[key]
    named = largest(terms, TERMS)
    q, k = inside.q_E, inside.k_KE[key]
    names = [f"{e + 1}:  {number(q[e])} × {number(k[e])}" for e in named]
    hovers = [f"dimension {name}" for name in names]
    values = [float(terms[e]) for e in named]
    if others := len(terms) - len(named):
        names.append(f"the other {others}")
        hovers.append(f"the other {others} dimensions")
        values.append(float(np.delete(terms, named).sum()))
    bars = 26 * len(names)
    height = _STRIP + _GAP + bars
    figure = _figure(theme, _TOP + height + 8, right=_SCALE)
    _add_strips(
        figure, 1, terms[None], ["q<sub>e</sub>k<sub>e</sub>"], (1 - _STRIP / height, 1), theme
    )
    _add_bars(figure, 2, values, names, hovers, (0, bars / height), (0, 1), theme, signed=True)
    if others:  # grey: a sum of many small terms
        colours = list(figure.data[-1].marker.color)
        figure.data[-1].marker.color = [*colours[:-1], PALETTES[theme].third]
    figure.update_layout(margin={"l": _PRODUCT})
    return figure


def scores_figure(
    values: ArrayLike, mask: NDArray[np.bool_], words: Sequence[str], key: int, theme: str
) -> go.Figure:
    """Draw one score per key [K]; masked keys are hatched and labelled −∞."""
    values = np.asarray(values, np.float64)
    figure = _rows(theme, words)
    _add_bars(figure, 1, values, words, words, (0, 1), (0, 1), theme, chosen=key, signed=True)
    if not mask.all():
        _add_hatch(figure, ~mask, theme)
    return figure


def softmax_figure(inside: InsideHead, words: Sequence[str], key: int, theme: str) -> go.Figure:
    """Draw e^(score − largest) per key in grey, and the weight: its share of the sum."""
    figure = _rows(theme, words, head=22)
    _add_bars(figure, 1, inside.exps_K, words, words, (0, 1), (0, 0.46), theme, chosen=key)
    _add_bars(
        figure, 2, inside.weights_K, words, words, (0, 1), (0.54, 1), theme, chosen=key, named=False
    )
    colours = [colour for _, colour in sequential(theme)]
    shades = [colours[round(w * (len(colours) - 1))] for w in inside.weights_K]
    figure.data[-1].marker.color = shades
    figure.data[-1].marker.line = {"width": 1, "color": PALETTES[theme].third}
    for at, title in ((0, "e<sup>s − max</sup>"), (0.54, "weight")):
        _add_words(figure, title, at, 1, 18, theme)
    return figure


def values_figure(inside: InsideHead, words: Sequence[str], theme: str) -> go.Figure:
    """Draw the weighted values [K, E] and their sum z [E] on one scale."""
    weighted, z = inside.weighted_KE, inside.z_E
    pitch = _pitch(len(weighted))
    height = pitch * len(weighted) + 10 + _STRIP
    figure = _figure(theme, _TOP + height + 8, right=_SCALE)
    bound = float(max(np.abs(weighted).max(), np.abs(z).max()))
    domain = (1 - pitch * len(weighted) / height, 1)
    _add_strips(figure, 1, weighted, words, domain, theme, bound=bound, pitch=pitch, scale=(0, 1))
    _add_strips(figure, 2, z[None], ["z"], (0, _STRIP / height), theme, bound=bound, scale=None)
    return figure


def output_figure(inside: InsideHead, theme: str) -> go.Figure:
    """Draw this head's part and the whole output as strips [2, D]; below, each head's norm."""
    both = np.stack([inside.parts_HD[inside.head], inside.output_D])
    lengths = np.linalg.norm(inside.parts_HD, axis=-1)
    names = [f"head {h}" for h in range(1, len(lengths) + 1)]
    bars = 24 * len(names)
    height = 2 * _STRIP + _GAP + 18 + bars
    figure = _figure(theme, _TOP + height + 8, right=_SCALE)
    domain = (1 - 2 * _STRIP / height, 1)
    _add_strips(figure, 1, both, ["this head", "output"], domain, theme)
    _add_bars(
        figure,
        2,
        lengths,
        names,
        names,
        (0, bars / height),
        (0, 1),
        theme,
        chosen=inside.head,
        places=2,
    )
    _add_words(figure, "length of each head’s part", 0, bars / height, 18, theme)
    return figure


def small_figures(inside: InsideHead, key: int, theme: str) -> dict[str, go.Figure]:
    """Return a small figure of each stage's result for the overview, by stage."""
    inks = PALETTES[theme]

    def strips(*rows: NDArray[np.float64]) -> go.Figure:
        figure = _small(theme)
        for n, row in enumerate(rows, start=1):
            domain = (1 - n / len(rows) + 0.06, 1 - (n - 1) / len(rows) - 0.06)
            bound = None if len(rows) == 1 else float(max(np.abs(r).max() for r in rows))
            _add_strips(figure, n, np.atleast_2d(row), [""], domain, theme, bound=bound, scale=None)
        return figure

    def bars(
        values: NDArray[np.float64], hatched: NDArray[np.bool_] | None = None, chosen: int = key
    ) -> go.Figure:
        figure = _small(theme)
        finite = np.where(np.isfinite(values), values, 0.0)
        colours = [inks.ink if at == chosen else inks.line for at in range(len(values))]
        figure.add_trace(go.Bar(y=finite, marker={"color": colours, "line": {"width": 0}}))
        figure.update_layout(xaxis={"visible": False}, yaxis={"visible": False})
        if hatched is not None and hatched.any():
            low, high = min(finite.min(), 0.0), max(finite.max(), 0.0)
            for at in np.flatnonzero(hatched):
                figure.add_shape(
                    x0=float(at) - 0.5,
                    x1=float(at) + 0.5,
                    y0=low,
                    y1=high,
                    fillcolor=inks.masked,
                    line={"width": 0},
                )
        return figure

    lengths = np.linalg.norm(inside.parts_HD, axis=-1)
    return {
        "project": strips(inside.q_E, inside.k_KE[key]),
        "product": strips(inside.products_KE[key]),
        "scale": bars(inside.scaled_K),
        "mask": bars(inside.masked_K, ~inside.open_K),
        "softmax": bars(inside.weights_K),
        "values": strips(inside.z_E),
        "output": bars(lengths, chosen=inside.head),
    }


def _figure(theme: str, height: float, right: int = _RIGHT) -> go.Figure:
    figure = go.Figure(layout=layout(theme, "", "", round(height)))
    margin = {"l": _LEFT, "r": right, "t": _TOP, "b": 8}
    return figure.update_layout(title=None, margin=margin, bargap=0.3, barmode="overlay")


def _small(theme: str) -> go.Figure:
    figure = go.Figure(layout=layout(theme, "", "", _SMALL))
    margin = {"l": 0, "r": _MIN_WIDTH - SMALL_WIDTH, "t": 4, "b": 4}
    return figure.update_layout(title=None, margin=margin, width=_MIN_WIDTH, bargap=0.2)


def _pitch(rows: int) -> float:
    """Return the height of a key's row in px: legible in short sentences, denser in long ones."""
    return float(np.clip(460 / rows, 7, 20))


def _rows(theme: str, words: Sequence[str], head: int = 0) -> go.Figure:
    """Return a figure with one row per word and `head` px above them."""
    figure = _figure(theme, _TOP + head + _pitch(len(words)) * len(words) + 8, right=_RIGHT)
    return figure.update_layout(margin={"t": _TOP + head})


def _add_words(figure: go.Figure, text: str, x: float, y: float, above: int, theme: str) -> None:
    """Add text centred `above` / 2 px over height `y` of the plot."""
    figure.add_annotation(
        text=text,
        x=x,
        y=y,
        xref="paper",
        yref="paper",
        xanchor="left",
        yanchor="middle",
        yshift=above / 2,
        showarrow=False,
        font={"size": 12, "color": PALETTES[theme].second},
    )


def _axes(place: int) -> tuple[str, str, str, str]:
    """Return the `place`-th pair of axes' names: two for a trace, two for the layout."""
    n = "" if place == 1 else str(place)
    return f"x{n}", f"y{n}", f"xaxis{n}", f"yaxis{n}"


def _add_strips(
    figure: go.Figure,
    place: int,
    values: NDArray[np.float64],
    names: Sequence[str],
    domain: tuple[float, float],
    theme: str,
    *,
    bound: float | None = None,
    pitch: float = _STRIP,
    scale: tuple[float, float] | None = (-1, -1),
) -> None:
    """Add vectors [N, width] as rows of coloured cells: orange < 0, blue > 0.

    Colours span ±`bound`, by default the largest absolute value. The colour bar on the right is as
    high as the domain; `scale=None` omits it.
    """
    bound = (float(np.abs(values).max()) or 1.0) if bound is None else bound
    ends = [-bound, 0.0, bound]
    x, y, xaxis, yaxis = _axes(place)
    ticks = word_ticks(names, pitch, 40)
    is_name = pitch == _STRIP  # a name with a subscript, not a token
    if is_name:
        ticks["ticktext"] = list(names)
    shown = [name if is_name else tick(name) for name in names]
    wide = range(1, values.shape[1] + 1)
    hover = [[f"{row}<br>dimension {i}" for i in wide] for row in shown] if names[0] else None
    bar = colour_bar(domain, ends, [number(end, 2) for end in ends], theme) if scale else None
    if bar and domain[1] - domain[0] < 1 and len(names) <= 2:  # no room for three numbers
        bar["tickvals"], bar["ticktext"] = bar["tickvals"][::2], bar["ticktext"][::2]
    figure.add_trace(
        go.Heatmap(
            z=values.astype(np.float32),
            xaxis=x,
            yaxis=y,
            colorscale=diverging(theme),
            zmin=-bound,
            zmax=bound,
            showscale=bar is not None,
            colorbar=bar,
            ygap=2 if len(values) < 4 else 1,
            text=hover,
            hovertemplate="%{text}<br><b>%{z:.4f}</b><extra></extra>" if hover else None,
        )
    )
    figure.update_layout(
        {
            xaxis: {
                **BARE,
                "anchor": y,
                "tickvals": [],
            },
            yaxis: {
                **BARE,
                **ticks,
                "anchor": x,
                "domain": domain,
                "range": [len(values) - 0.5, -0.5],
            },
        }
    )
    figure.layout[xaxis].range = [-0.5, values.shape[1] - 0.5]


def _add_bars(
    figure: go.Figure,
    place: int,
    values: ArrayLike,
    names: Sequence[str],
    hovers: Sequence[str],
    domain: tuple[float, float],
    columns: tuple[float, float],
    theme: str,
    *,
    chosen: int | None = None,
    signed: bool = False,
    named: bool = True,
    places: int = 4,
) -> None:
    """Add horizontal bars, each labelled with its number.

    Signed bars are orange below zero and blue above; others are grey. If rows are too low for
    numbers, only the chosen row is labelled.
    """
    inks = PALETTES[theme]
    values = np.asarray(values, np.float64)
    finite = np.where(np.isfinite(values), values, 0.0)
    below, above = signed_colours(theme) if signed else (inks.third, inks.third)
    rows = len(values)
    pitch = (figure.layout.height - figure.layout.margin.t - 8) * (domain[1] - domain[0]) / rows
    low, high = min(finite.min(), 0.0), max(finite.max(), 0.0)
    room = 0.42 * ((high - low) or 1.0)  # for the number at the end of a bar
    x, y, xaxis, yaxis = _axes(place)
    ticks = word_ticks(names, pitch, _LONGEST)
    if chosen is not None:
        at = sorted({*(t for t in ticks["tickvals"] if pitch >= 11 or abs(t - chosen) > 1), chosen})
        ticks["tickvals"] = at
        words = [tick(names[i], _LONGEST) for i in at]
        ticks["ticktext"] = [
            f"<b>{w}</b>" if i == chosen else w for i, w in zip(at, words, strict=True)
        ]
    figure.update_layout(
        {
            xaxis: {
                **BARE,
                "anchor": y,
                "domain": columns,
                "range": [low - (room if low < 0 else 0), high + room],
                "tickvals": [],
                "zeroline": True,
                "zerolinecolor": inks.line,
                "zerolinewidth": 1,
            },
            yaxis: {
                **BARE,
                **ticks,
                "anchor": x,
                "domain": domain,
                "range": [rows - 0.5, -0.5],
                "showticklabels": named,
            },
        }
    )
    texts = [number(v, places) if pitch >= 11 or i == chosen else "" for i, v in enumerate(values)]
    figure.add_trace(
        go.Bar(
            x=finite,
            y=np.arange(rows),
            orientation="h",
            xaxis=x,
            yaxis=y,
            marker={"color": np.where(finite < 0, below, above).tolist(), "line": {"width": 0}},
            text=texts,
            textposition="outside",
            textfont={"size": float(np.clip(pitch - 5, FLOOR, 12)), "color": inks.ink},
            cliponaxis=False,
            constraintext="none",
            customdata=[
                [escape(hover), number(v, places)] for hover, v in zip(hovers, values, strict=True)
            ],
            hovertemplate="%{customdata[0]}<br><b>%{customdata[1]}</b><extra></extra>",
        )
    )


def _add_hatch(figure: go.Figure, masked: NDArray[np.bool_], theme: str) -> None:
    """Hatch the rows of masked keys, behind the bars and across the whole plot."""
    low, high = figure.layout.xaxis.range
    keys = np.flatnonzero(masked)
    figure.add_trace(
        go.Bar(
            y=keys,
            x=np.full(len(keys), high - low),
            base=low,
            width=1.0,
            orientation="h",
            name="masked",
            hoverinfo="skip",
            marker=hatched_bars(masked[None], "masked", "/", theme).marker,
        )
    )
    figure.data = figure.data[::-1]
