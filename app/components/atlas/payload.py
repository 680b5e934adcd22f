"""Serialises an atlas for its component: one payload with all that the page shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from app.components.atlas.measures import (
    QUANTITY_WORDS,
    READING_WORDS,
    UNITS,
    Measure,
    gold_name,
    measures,
)
from app.components.atlas.story import (
    AVERAGE_HEAD,
    KIND_WORDS,
    Interaction,
    average_error,
    by_chance,
    headline,
    interactions,
    name,
    stories,
)
from core.atlas.atlas import ALL, DISTANCES, QUANTITIES, READINGS, Atlas
from core.atlas.intervals import ALPHA
from core.atlas.labels import FLOOR, MARGIN, ROWS, labels
from core.atlas.roles import ROLES
from core.kinds import KINDS, Kind

SHOWN = 6
"""How many heads of each list of `interactions` are shown at most."""
NONE = 255  # decile of a sentence without a strength


@dataclass(frozen=True)
class Shown:
    """What the page adds to an atlas.

    `opened` holds the parameters of the URL: head ("cross.0.0"), measure, x, y and curve; invalid
    ones are ignored. The visitor's last choices are kept until `turn` changes. Then the URL
    overrides the choices it names. `in_url` says whether the URL keeps the component's choices.
    `link` holds the query parameters that choose this network; `counterpart` holds those of the
    network with which its heads were matched, or is None. `definitions` explain roles by name.
    `training` says whether the network has snapshots of its training. `credit` names author and
    licence of imported weights.
    """

    opened: Mapping[str, str | None] = field(default_factory=dict)
    turn: int = 0
    in_url: bool = True
    link: Mapping[str, str] = field(default_factory=dict)
    counterpart: Mapping[str, str] | None = None
    definitions: Mapping[str, str] = field(default_factory=dict)
    training: bool = False
    credit: str = ""


def payload(atlas: Atlas, shown: Shown) -> dict[str, Any]:
    """Return an atlas in the form that the component's JavaScript reads: see types.js.

    The values are JSON-serialisable, except for `bytes` objects at the top level: little-endian
    arrays in C order. The axes are named as in core.atlas.atlas; M counts the measures.

        values    float32 [M, N, 3]
        distance  float32 [N, A]
        role_KIND float32 [O, n, 7]: score; lower and upper bound; nulls of shuffled rows, of random
                  networks and of the distance profile; share of rows
        strength  float32 [N, P]
        decile    uint8 [N, P]: 0 for the smallest changes to 9 for the largest, or `NONE`
        cell      int16 [N, P, 2]: query and key
    """
    if (content := _contents.get(atlas)) is None:
        content = _contents[atlas] = _content(atlas)
    return content | {
        "definitions": dict(shown.definitions),
        "opened": _opened(atlas, shown),
        "link": dict(shown.link),
        "training": shown.training,
        "network": " ".join(
            filter(None, (atlas.origin.checkpoint, shown.credit and f"({shown.credit})"))
        ),
        "counterpart": None if shown.counterpart is None else dict(shown.counterpart),
    }


_contents: WeakKeyDictionary[Atlas, dict[str, Any]] = WeakKeyDictionary()
"""The part of each payload that is the same for all visitors, kept while the atlas is in use."""


def _content(atlas: Atlas) -> dict[str, Any]:
    from core.atlas import losses, pairs, pruning  # which import PyTorch

    found, labelled = measures(atlas), labels(atlas)
    count = atlas.origin.sentences
    data: dict[str, Any] = {
        "heads": atlas.num_heads,
        "layers": dict(atlas.layers),
        "kinds": {kind: KIND_WORDS[kind] for kind in KINDS},
        "measures": [_described(measure) for measure in found],
        "distances": list(DISTANCES),
        "roles": {kind: list(names) for kind, names in atlas.roles.items()},
        "margin": MARGIN,
        "floor": FLOOR,
        "rows": ROWS,
        "reordered": [role.name for role in ROLES if role.reordered],
        "level": ALPHA,
        "labels": [[label.role for label in each] for each in labelled],
        "headline": headline(atlas, found),
        "stories": stories(atlas, found, labelled),
        "own": {key: _rounded(atlas.arrays[key], 4) for key in ("loss", "bleu")
                if key in atlas.arrays},
        "tokens": [[[t.text, round(t.change, 5), t.count] for t in each] for each in atlas.tokens],
        "least": losses.LEAST_COUNT,
        "samples": {"order": min(count, pruning.SAMPLE), "pairs": min(count, pairs.SAMPLE)},
        "pairs": [_pairs(atlas, n) for n in range(atlas.count)],
        "pruning": _pruning(atlas),
        "alignment": _alignment(atlas),
        "partner": _partner(atlas),
        "unmatched": _rounded(unmatched, 4)
        if (unmatched := atlas.arrays.get("similarity_unmatched")) is not None else None,
        "quoted": [[quoted.source, quoted.target] for quoted in atlas.quoted],
        "origin": asdict(atlas.origin) 
        | {"gold_name": gold_name(atlas.origin), "other": atlas.origin.other},
        "values": _float32(np.stack([measure.values for measure in found])),
        "distance": _float32(atlas.arrays["distance"]),
        **{f"role_{kind}": _role(atlas, kind) for kind in KINDS},
    }  # fmt: skip
    return data | _examples(atlas)


def default_choices(found: tuple[Measure, ...]) -> dict[str, str]:
    """Return the measures shown first: the loss change without a head, against its entropy."""
    keys = [measure.key for measure in found]
    first = "zero" if "zero" in keys else keys[0]
    return {"measure": first, "x": "entropy", "y": first, "curve": "loss"}


def _opened(atlas: Atlas, shown: Shown) -> dict[str, Any]:
    """Return the head and measures to open with, which of them the URL sets, and the defaults."""
    found = measures(atlas)
    places = {f"{kind}.{layer}.{head}": n for n, (kind, layer, head) in enumerate(atlas.heads)}
    keys = {measure.key for measure in found}
    defaults = default_choices(found)
    chosen: dict[str, Any] = {}
    for parameter, default in defaults.items():
        text = shown.opened.get(parameter)
        known = ("loss", "bleu") if parameter == "curve" else keys
        chosen[parameter] = text if text in known else default
    largest = next(measure for measure in found if measure.key == defaults["measure"])
    first = int(np.nanargmax(largest.values[:, 0]))
    chosen["head"] = places.get(shown.opened.get("head") or "", first)
    asked = [name for name in chosen if shown.opened.get(name) is not None]
    return chosen | {
        "asked": asked,
        "defaults": defaults,
        "turn": shown.turn,
        "in_url": shown.in_url,
    }


def unknown_parameters(atlas: Atlas, opened: Mapping[str, str | None]) -> list[str]:
    """Return one line for each parameter of an address that names nothing in this atlas."""
    if not any(opened.values()):
        return []
    shown = _opened(atlas, Shown(opened))
    kind, layer, head = atlas.heads[shown["head"]]
    lines = []
    if (asked := opened.get("head")) and asked != f"{kind}.{layer}.{head}":
        lines.append(
            f"There is no head {asked[:40]} in this network: the address opens the head needed "
            f"most, {name((kind, layer, head))} (in an address it is {kind}.{layer}.{head}: layers "
            "and heads count from 0 there, from 1 on the page)"
        )
    labels_by_key = {measure.key: measure.label for measure in measures(atlas)}
    for parameter, words in (("measure", "colour"), ("x", "x axis"), ("y", "y axis")):
        if (asked := opened.get(parameter)) and asked != (found := shown[parameter]):
            lines.append(
                f"There is no measure {asked[:40]} in this atlas: the {words} shows "
                f"{labels_by_key[found]} ({found} in an address)"
            )
    if (asked := opened.get("curve")) and asked != shown["curve"]:
        lines.append(f"There is no curve {asked[:40]}: choose loss or bleu in the address")
    return lines


def _described(measure: Measure) -> dict[str, Any]:
    described, no_effect = dict(vars(measure)), measure.no_effect
    del described["values"]  # which are sent as bytes
    return described | {
        "unit_words": UNITS[measure.unit],
        "signed": measure.signed,
        "no_effect": None if no_effect is None else np.flatnonzero(no_effect).tolist(),
    }


def _role(atlas: Atlas, kind: Kind) -> bytes:
    """Return role scores, bounds, nulls and shares of rows [O, n, 7]; NaN where not measured."""
    roles = len(atlas.roles[kind])
    span = atlas.span(kind)
    numbers = np.full((roles, span.stop - span.start, 7), np.nan, np.float32)
    parts = ("", slice(0, 3)), ("_shuffled", 3), ("_random", 4), ("_profile", 5), ("_rows", 6)
    for part, columns in parts:
        if (array := atlas.arrays.get(f"role_{kind}{part}")) is not None:
            numbers[..., columns] = array[:, None] if array.ndim == 1 else array
    return _float32(numbers)


def _pairs(atlas: Atlas, n: int) -> dict[str, Any] | None:
    both = interactions(atlas, n)
    if both is None:
        return None
    covers, needs = both

    def rows(heads: list[Interaction]) -> list[list[float]]:
        return [
            [h.head, *(round(v, 7) for v in (h.value, h.low, h.high)), h.places]
            for h in heads[:SHOWN]
        ]

    span = atlas.span(atlas.heads[n][0])
    return {
        "covers": rows(covers),
        "needs": rows(needs),
        "more": [max(0, len(covers) - SHOWN), max(0, len(needs) - SHOWN)],
        "tested": span.stop - span.start - 1,
        "by_chance": by_chance(span.stop - span.start - 1),
    }


def _pruning(atlas: Atlas) -> list[dict[str, Any]]:
    """Return the curves of each order of removal: loss and BLEU without 0, 1, … heads."""
    curves = []
    for kind in (ALL, *KINDS):
        if (order := atlas.arrays.get(f"prune_{kind}_order")) is None:
            continue
        curve: dict[str, Any] = {"kind": kind, "order": (order + atlas.span(kind).start).tolist()}
        for what in ("loss", "bleu"):
            if (array := atlas.arrays.get(f"prune_{kind}_{what}")) is not None:
                curve[what] = _rounded(array, 4)
        curves.append(curve)
    return curves


def _alignment(atlas: Atlas) -> dict[str, Any] | None:
    """Return error, precision and recall of each head as a word aligner, nulls and the best set."""
    if (aer := atlas.arrays.get("aer")) is None:
        return None
    rows = []
    for r, reading in enumerate(READINGS):
        for q, quantity in enumerate(QUANTITIES):
            parts = [aer[r, q, :-1, :-1].reshape(-1, 3)]
            for other in ("precision", "recall"):
                array = atlas.arrays.get(other)
                rest = np.full_like(aer[r, q, ..., 0], np.nan) if array is None else array[r, q]
                parts.append(rest[:-1, :-1].reshape(-1, 1))
            rows.append(
                {
                    "reading": READING_WORDS[reading],
                    "quantity": QUANTITY_WORDS[quantity],
                    "heads": _rounded(np.concatenate(parts, -1), 4),
                }
            )
    nulls = {AVERAGE_HEAD: [round(average_error(atlas), 4)]}
    if (diagonal := atlas.arrays.get("aer_diagonal")) is not None:
        nulls = {"the plain diagonal": _rounded(diagonal, 4)} | nulls
    chosen = atlas.alignment_heads
    best = chosen and {
        "heads": [name(("cross", *place)) for place in chosen.heads],
        "reading": READING_WORDS[chosen.reading],
        "quantity": QUANTITY_WORDS[chosen.quantity],
        "aer": [round(value, 4) for value in (chosen.aer, chosen.low, chosen.high)],
    }
    return {"rows": rows, "nulls": nulls, "best": best or None}


def _partner(atlas: Atlas) -> list[int] | None:
    partner = atlas.arrays.get("partner")
    if partner is None:
        return None
    return [int(n) if 0 <= n < atlas.count else -1 for n in partner]


def _examples(atlas: Atlas) -> dict[str, Any]:
    """Return strength, decile and cell of each quoted sentence; none if an array is missing."""
    parts = [atlas.arrays.get(name) for name in ("strength", "deciles", "cell")]
    strength, deciles, cell = parts
    if not atlas.quoted or strength is None or deciles is None or cell is None:
        return {"quoted": []}
    bucket = (strength[:, :, None] >= deciles[:, None, :]).sum(-1)
    unknown = np.isnan(strength) | np.isnan(deciles).any(-1, keepdims=True)
    return {
        "strength": _float32(strength),
        "decile": np.where(unknown, NONE, bucket).astype("u1").tobytes(),
        "cell": cell.astype("<i2").tobytes(),
    }


def _rounded(array: NDArray, places: int) -> Any:
    """Return an array as lists; NaN becomes None, because JSON has no NaN."""
    rounded = np.round(array.astype(float), places)
    rounded = rounded.astype(object)
    rounded[np.isnan(array)] = None
    return rounded.tolist()


def _float32(array: NDArray) -> bytes:
    return np.ascontiguousarray(array, "<f4").tobytes()
