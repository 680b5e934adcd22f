"""An atlas as plain values for JSON and tables, one entry per head."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from core.atlas.atlas import QUANTITIES, READINGS, Atlas
from core.atlas.intervals import no_effect
from core.atlas.labels import labels

_MEASURES = ("zero", "mean", "bleu_zero", "entropy", "largest", "similarity")


def report(atlas: Atlas) -> list[dict[str, Any]]:
    """Return one entry per head, with null for what was not measured.

    `loss_change`, with the interval `low` to `high`, is measured by zero ablation. `aer` is a
    cross-attention head's alignment error by weights, in the reading that gives the lower error. A
    role's `label` says whether the head may be labelled with it. `measures` has [value, low, high]
    by name.
    """
    entries = []
    named = labels(atlas)
    for n, (kind, layer, head) in enumerate(atlas.heads):
        change, low, high = _numbers(atlas.arrays["zero"][n])
        entry: dict[str, Any] = {
            "kind": kind,
            "layer": layer,
            "head": head,
            "loss_change": change,
            "low": low,
            "high": high,
            "entropy": _number(atlas.arrays["entropy"][n, 0]),
            "roles": _roles(atlas, kind, n - atlas.span(kind).start, {x.role for x in named[n]}),
            **_alignment(atlas, kind, layer, head),
        }
        for name in ("zero", "mean", "bleu_zero"):
            if f"{name}_p" in atlas.arrays:
                p = atlas.arrays[f"{name}_p"][n]
                entry[f"{name}_p"] = _number(p)
                entry[f"{name}_no_effect"] = bool(no_effect(np.array([p]))[0])
        present = [name for name in _MEASURES if name in atlas.arrays]
        entry["measures"] = {name: _numbers(atlas.arrays[name][n]) for name in present}
        if "partner" in atlas.arrays:
            entry["partner"] = list(atlas.heads[atlas.arrays["partner"][n]])
        entries.append(entry)
    return entries


def _roles(atlas: Atlas, kind: str, n: int, named: set[str]) -> dict[str, dict[str, Any]]:
    roles = atlas.roles[kind] if f"role_{kind}" in atlas.arrays else ()  # ty: ignore
    found = {}
    for o, role in enumerate(roles):
        score, low, high = _numbers(atlas.arrays[f"role_{kind}"][o, n])
        found[role] = {
            "score": score,
            "low": low,
            "high": high,
            "null_shuffled": _number(atlas.arrays[f"role_{kind}_shuffled"][o, n]),
            "null_random": _number(atlas.arrays[f"role_{kind}_random"][o]),
            "null_profile": _number(atlas.arrays[f"role_{kind}_profile"][o, n]),
            "rows": _number(atlas.arrays[f"role_{kind}_rows"][o]),
            "label": role in named,
        }
    return found


def _alignment(atlas: Atlas, kind: str, layer: int, head: int) -> dict[str, Any]:
    if kind != "cross" or "aer" not in atlas.arrays:
        return {"aer": None}
    by_reading = atlas.arrays["aer"][:, QUANTITIES.index("weights"), layer, head]
    best = int(np.argmin(by_reading[:, 0]))
    aer, low, high = _numbers(by_reading[best])
    return {"aer": aer, "aer_low": low, "aer_high": high, "reading": READINGS[best]}


def _numbers(values: np.ndarray) -> list[float | None]:
    return [_number(value) for value in values]


def _number(value: Any) -> float | None:
    return None if math.isnan(value) else float(value)
