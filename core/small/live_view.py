"""A run as inline SVG for a notebook: its curves, and the maps of its example."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from core.frozen import Floats
from core.kinds import KINDS, Kind
from core.small.run import Measured

_CELL, _GAP = 7, 14
_WIDTH, _HEIGHT = 260, 70


def picture(points: Sequence[Measured], example: str, maps: Mapping[Kind, Floats]) -> str:
    """Return loss (logarithmic) and share of right answers, then all maps of the example."""
    last = points[-1]
    curves = (
        _curve("loss", [math.log(one.loss) for one in points], f"{last.loss:.2g} nats"),
        _curve("right", [one.exact for one in points], f"{100 * last.exact:.0f} %"),
    )
    line = html.escape(f"step {last.step}: {example}")
    rows = "".join(f"<div>{kind}<br>{_maps(maps[kind])}</div>" for kind in KINDS)
    return f"<div><b>{line}</b><div>{''.join(curves)}</div>{rows}</div>"


def _curve(name: str, values: Sequence[float], now: str) -> str:
    low, high = min(values), max(values)
    scale = (_HEIGHT - 10) / (high - low or 1)
    step = _WIDTH / max(1, len(values) - 1)
    path = " ".join(
        f"{i * step:.1f},{_HEIGHT - 5 - (value - low) * scale:.1f}"
        for i, value in enumerate(values)
    )
    return (
        f'<span style="display:inline-block;margin-right:20px">{name}: {now}<br>'
        f'<svg width="{_WIDTH}" height="{_HEIGHT}"><polyline points="{path}" fill="none" '
        'stroke="currentColor" stroke-width="2"/></svg></span>'
    )


def _maps(maps_LHQK: Floats) -> str:
    """Draw the maps of a kind, a row per layer; the darker, the larger the weight."""
    L, H, Q, K = maps_LHQK.shape
    across, down = K * _CELL + _GAP, Q * _CELL + _GAP
    cells = "".join(
        f'<rect x="{head * across + k * _CELL}" y="{layer * down + q * _CELL}" width="{_CELL}" '
        f'height="{_CELL}" fill="#1f4e9e" fill-opacity="{maps_LHQK[layer, head, q, k]:.2f}"/>'
        for layer in range(L)
        for head in range(H)
        for q in range(Q)
        for k in range(K)
    )
    return f'<svg width="{H * across}" height="{L * down}">{cells}</svg>'
