"""Declares comparisons of two models: token log-probabilities, training curves, matched heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.figures.chart import OVER, Axis, Cells, Chart, Mark, numbers, words, words_below
from app.figures.grid import ALONE, Axes
from app.figures.style import AXIS, FRAMED, INK, PAGE, THIRD, escape, small, text_width, tick
from app.look.labels import ATTENTION, labels
from app.look.numbers import number
from core.analysis.matching import Matching
from core.record.record import TranslationRecord

_LONGEST = 12  # characters of a label; the hover shows the whole word


def scores_figure(record: TranslationRecord, lowest: float, title: str) -> Chart:
    """Draw the log-probability of each target token as bars from 0 down to `lowest`."""
    words = labels(record.target_out, 1)
    across, bottom, _ = words_below(words, _LONGEST, 330)
    total = number(record.log_prob, 3)
    subtitle = f"log-probability of the translation: {total} ({len(words)} tokens)"
    hover = "%{customdata[0]}<br>probability <b>%{customdata[1]:.4f}</b>, log-probability %{y:.3f}"
    chances = zip(words, np.exp(record.log_probs), strict=True)
    rows = [[tick(word), float(chance)] for word, chance in chances]
    bars = Mark("bar", np.arange(len(words)), record.log_probs, hover, rows, THIRD)
    down = numbers("log-probability (nats)", (1.08 * min(lowest, -0.1), 0), 5)
    axes = {"x": across, "y": down}
    margins = 62, 8, 76, bottom
    return Chart(title, subtitle, axes, [bars], 246 + bottom, margins, more={"bargap": 0.35})


def curves_figure(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> Chart:
    """Draw training (points) and validation loss (line) by step for one or two named models.

    The second model is dashed and grey, so that both are visible where they coincide.
    """
    marks: list[Mark] = []
    looks = ((INK, "solid", "circle-open"), (THIRD, "6px,6px", "x-thin-open"))
    edge = {"marker": {"line": {"width": 1.25}}}
    hover = "%{fullData.name}, step %{x:,d}: <b>%{y:.4f}</b>"
    for (colour, dash, symbol), (name, curve) in zip(looks, curves.items(), strict=False):
        line = {"line": {"dash": dash}}
        steps, called = [point["step"] for point in curve], escape(name)
        known, trained = ([point[which] for point in curve] for which in ("val_loss", "train_loss"))
        marks += [
            Mark("line", steps, known, hover, colour=colour, width=2, more=line,
                 name=f"{called}: validation", series=f"{name}: validation"),
            Mark("dot", steps, trained, hover, colour=colour, symbol=symbol, more=edge,
                 name=f"{called}: training", series=f"{name}: training"),
        ]  # fmt: skip
    below = 58 + 42 * len(curves)  # on a phone, every name in the legend takes a line
    legend = {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "y": -52 / 190,
        "yanchor": "top",
        "bgcolor": "rgba(0,0,0,0)",
        "font": small(13),
        "itemclick": False,
        "itemdoubleclick": False,
    }
    axes = {
        "x": numbers("optimiser step", tickformat=",d"),
        "y": numbers("loss", ruled=6, rangemode="tozero"),
    }
    said = "nats per token; the training loss includes dropout and label smoothing"
    more = {"showlegend": True, "legend": legend}
    return Chart("Training", said, axes, marks, 256 + below, (60, 20, 66, below), more=more)


def bleu_figure(scores: Mapping[str, Sequence[Sequence[float]]], names: tuple[str, str]) -> Chart:
    """Draw the BLEU of two networks on each corpus: a filled and an open dot.

    A score is a value, or a value and the ends of its 95 % interval.
    """
    marks = []
    for which, (name, symbol) in enumerate(zip(names, ("circle", "circle-open"), strict=True)):
        found = [score[which] for score in scores.values()]
        ends = [(one[-2], one[-1]) if len(one) > 1 else (np.nan, np.nan) for one in found]
        low, high = zip(*ends, strict=True)
        values = [one[0] for one in found]
        marks.append(
            Mark("dot", values, [at + 0.14 * (1 - 2 * which) for at in range(len(found))],
                 "%{customdata}, %{fullData.name}: <b>%{x:.1f}</b>",
                 [tick(place) for place in scores], symbol=symbol, size=11, name=escape(name),
                 ends=(low, high), sideways=True,
                 said=[(place, one[0]) for place, one in zip(scores, found, strict=True)])
        )  # fmt: skip
    every = [value for of in scores.values() for one in of for value in one]
    reach = min(every) - 2, max(every) + 2
    axes = {"x": numbers("BLEU", reach, 5), "y": words(list(scores), 44, 40, from_top=True)}
    margins = 24 + text_width(list(scores), 13, 40), 12, 8, 44
    return Chart("", "", axes, marks, 52 + 44 * len(scores), margins)


def pair_figure(
    records: Sequence[TranslationRecord],
    heads: Sequence[tuple[int, int]],
    networks: Sequence[str],
) -> Chart:
    """Draw a cross-attention head of each of two records of the same tokens, side by side."""
    first = records[0]
    queries, keys = labels(first.target_out, 1), labels(first.source, 1)
    cell = int(np.clip(200 / len(queries), 6, 24))
    top = 66 + text_width(keys, 13, _LONGEST)
    down = words(queries, cell, _LONGEST, from_top=True, **FRAMED)
    axes, marks = {"y": down}, []
    for id, record, (layer, head), network in zip(("x", "x2"), records, heads, networks,
                                                  strict=True):  # fmt: skip
        half = [0, 0.48] if id == "x" else [0.52, 1]
        title = f"{network}, head {layer + 1}.{head + 1}"
        name = {"text": escape(title).replace(", ", "<br>"), "font": small(13)}
        across = words(keys, cell, _LONGEST, side="top", tickangle=-90, domain=half, **FRAMED)
        font = {"tickfont": AXIS["tickfont"] | across.properties["tickfont"], "title": name}
        axes[id] = Axis(AXIS | dict(across.properties) | font, across.names)
        told = [[f"{title}, {tick(query)} → {tick(key)}" for key in keys] for query in queries]
        hover = "%{customdata}: <b>%{z:.2f}</b>"
        cells = record.cross[layer, head]
        marks.append(
            Cells(cells, hover=hover, rows=told, series=title, gaps=(0, 0), more={"xaxis": id})
        )
    margins = 24 + text_width(queries, 13, _LONGEST), 8, top, 8
    return Chart("", "", axes, marks, top + 8 + cell * len(queries), margins)


def matching_figure(matching: Matching, kind: str) -> Chart:
    """Draw how similar each head is to each head of the second model; rings mark the matches."""
    N = len(matching.partner)
    names = [f"{n // matching.heads + 1}.{n % matching.heads + 1}" for n in range(N)]
    axes = Axes(names, names, "first model: layer.head", "second model: layer.head", size=ALONE)
    hover = (
        "first: layer.head %{y}<br>second: layer.head %{x}<br>attention in common: <b>%{z:.4f}</b>"
    )
    bar = axes.colour_bar("attention in common", [0, 0.5, 1], ["0", "0.5", "1"])
    cells = Cells(matching.similarity, hover=hover, bar=bar, gaps=(0, 0), more=OVER)
    rings = [  # a dark and a light ring, so that one is visible on any cell
        Mark("dot", list(matching.partner), list(range(N)), colour=colour, size=max(4.0, size),
             symbol="square-open", more={"marker": {"line": {"width": width}}, **OVER})
        for colour, size, width in ((INK, axes.cell_width, 2.0), (PAGE, axes.cell_width - 4, 1.5))
    ]  # fmt: skip
    kept = f"{matching.kept} of {N} are matched to the head with the same number"
    return axes.chart(f"Heads of the {ATTENTION[kind]}, matched", kept, [cells, *rings])
