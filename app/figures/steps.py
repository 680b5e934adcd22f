"""Declares the cross-attention of every decoder head for one produced token."""

from __future__ import annotations

import numpy as np

from app.figures.chart import Cells, Chart, words
from app.figures.style import INK, THIRD, colour_bar_below, text_width, tick
from app.look.labels import labels
from core.record.record import TranslationRecord

_LONGEST = 14  # characters of a column label; the hover shows the whole word


def heads_figure(
    record: TranslationRecord,
    query: int = -1,
    width: int = 560,
    outlined: tuple[int, int] | None = None,
) -> Chart:
    """Draw a row of cross-attention of each head, and the mean: [layers × heads + 1, source].

    The row is that of the last token written unless `query` names another; `width` is in px.
    `outlined` is a layer and a head.
    """
    L, H, _, S = record.cross.shape
    weights = record.cross[:, :, query].reshape(L * H, S)
    heads = [*(f"{i // H + 1}.{i % H + 1}" for i in range(L * H)), "mean"]
    tokens = labels(record.source, 1)
    pitch = float(np.clip(340 / len(heads), 11, 20))
    cell = float(np.clip(width / S, 7, 34))
    angle = -60 if cell < 24 else -45
    across = words(
        tokens, cell, _LONGEST, "key: source token", standoff=4, side="top", tickangle=angle
    )
    down = words(heads, pitch, _LONGEST + 6, "layer.head", from_top=True, standoff=4)
    above = text_width(tokens, across.properties["tickfont"]["size"], _LONGEST)
    top, grid = round(above * 0.85 + 26 + 74), 70 + cell * S
    height = round(top + pitch * len(heads) + 62)
    cells = Cells(
        np.concatenate([weights, weights.mean(0, keepdims=True)]),
        hover="%{text}<br><b>%{z:.4f}</b>",
        texts=[[f"{row}: weight on <b>{tick(word)}</b>" for word in tokens] for row in heads],
        bar=colour_bar_below(height - top - 62, [0, 0.5, 1], ["0", "0.5", "1"], "weight"),
    )
    lines = [  # between layers, and above the mean
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at - 0.5, "y1": at - 0.5,
         "line": {"color": THIRD, "width": 1}}
        for at in range(H, L * H + 1, H)
    ]  # fmt: skip
    if outlined is not None:
        at = outlined[0] * H + outlined[1] - 0.5
        lines += [{"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at + 1,
                   "line": {"color": INK, "width": 2}}]  # fmt: skip
    return Chart(
        "Cross-attention at this step",
        "one row per head; last row: mean of all heads",
        {"x": across, "y": down},
        [cells],
        height,
        (70, max(40, 320 - round(grid)), top, 62),
        max(round(grid + 40), 320),
        shapes=lines,
    )
