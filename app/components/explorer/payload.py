"""Turns a translation record into the plain values and raw bytes that the explorer draws."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.components.tokens import described, short
from core.kinds import KINDS

BYTE_LIMIT = 600_000
"""All three kinds' numbers are sent as they are, in four bytes each, up to this; else in fewer."""
MESSAGE_LIMIT = 18 << 20
"""Bytes of a payload: a little less than the server's maxMessageSize, which holds more with it."""
_VIEW = ("kind", "layer", "head", "q", "k")
_FURTHER_VIEW = ("view", "words", "hide", "sort", "effect", "combine", "quantity", "mass")

Arrays = Mapping[str, np.ndarray]
"""By kind, [layer, head, query, key]; one head for what has no heads."""


@dataclass(frozen=True)
class Exact:
    """A record's own numbers for some maps of which the browser was sent rounded ones.

    `layer` and `head` count from 0, or are None for all; `numbers` are [layer, head, query, key] of
    those alone.
    """

    quantity: str
    kind: str
    layer: int | None
    head: int | None
    numbers: np.ndarray


@dataclass(frozen=True)
class Answers:
    """What was asked for in the explorer and takes Python: exact numbers, the page as a file.

    `effects` is by kind what switching each head off changes in each target token's
    log-probability, [layer, head, target token] in nats. `failed` holds one line for each thing
    asked for ("quantity", "exact", "page", "effects", "edit") that cannot be.
    """

    exact: Exact | None = None
    page: bytes | None = None
    effects: Arrays | None = None
    failed: Mapping[str, str] = field(default_factory=dict)


def payload(
    record: Any,
    view: dict[str, Any],
    *,
    address: bool = True,
    quantities: Mapping[str, Arrays | None] | None = None,
    inside: str | None = None,
    verdict: str = "here",
    answers: Answers = Answers(),
    alone: bool = False,
    what_if: Mapping[str, Any] | None = None,
    offers_effects: bool = False,
    together: str | None = None,
) -> dict[str, Any]:
    """Describe `record` in the form the explorer's JavaScript reads.

    `record` is a `TranslationRecord`: maps `[layer, head, query, key]` in 0..1, boolean
    masks `[query, key]` (True = may attend), log-probabilities in nats. `view` holds `kind`,
    `layer` and `head` (counted from 0, or `"mean"` or `"max"`), may hold `q` and `k`, the query and
    key that are kept, and what else a link holds, and decides only what is shown first. `address`
    says whether this explorer keeps its view in the page's address: only one on a page may.
    `inside` is the address of a page that takes the same names and opens one head; without it there
    is no way there. `verdict` is "here" for a record whose checks this program made, "saved" for
    one that brings them from a file: then they are not shown. Those of an edited pass are made
    under its edits; of a pass that does not say which they were, none are.

    `quantities` names what can be chosen beside the weights, each with its finite numbers, or with
    None where Python will be asked for them. `alone` says that there will be no Python to ask.
    `what_if` holds the edits and what they changed, where a reader may make some, and
    `offers_effects` says that Python can be asked what each head matters. Explorers that are shown
    `together`, under one name, follow each other: what is chosen and pinned in one is in all.

    Returns JSON-able values and, at the top level, `bytes` in C order: each mask as bits, and the
    open cells of each map. These are little-endian float32 while all three kinds fit in
    `BYTE_LIMIT`, and always if `alone`; else integers 0..`levels` between the two ends of a kind's
    `range`, which is 0..1 for weights: two bytes each while those fit, else one. Quantities are
    float32 or two bytes.

    What was asked for and does not fit into `MESSAGE_LIMIT` is left out, with a line in `failed`.

    Raises `ValueError` for an unknown kind, a map that is not finite or leaves 0..1, unequal head
    counts, a quantity that is not finite, or a record whose maps alone do not fit.
    """
    if view["kind"] not in KINDS:
        raise ValueError(f"kind is {view['kind']!r}; it must be one of {', '.join(KINDS)}")
    maps = {kind: np.asarray(getattr(record, kind), dtype=np.float32) for kind in KINDS}
    for kind, weights in maps.items():
        if not np.isfinite(weights).all() or weights.min() < 0 or weights.max() > 1 + 1e-4:
            raise ValueError(f"the {kind} maps hold a value outside 0..1")
    heads = {weights.shape[1] for weights in maps.values()}
    if len(heads) != 1:
        raise ValueError(f"the kinds have different numbers of heads: {sorted(heads)}")

    masks: dict[str, np.ndarray] = {
        kind: np.asarray(getattr(record, f"{kind}_mask"), dtype=bool) for kind in KINDS
    }
    cells = sum(maps[kind][:, :, 0, 0].size * int(masks[kind].sum()) for kind in KINDS)
    whole = alone or 4 * cells <= BYTE_LIMIT
    levels = None if whole else 65535 if 2 * cells <= BYTE_LIMIT else 255
    quantities = quantities or {}
    shown_first = [name for name in (*_VIEW, *_FURTHER_VIEW) if view.get(name) is not None]
    data: dict[str, Any] = {
        "sentence": record.id,
        "model": record.model,
        "weights_sha256": record.weights_sha256,
        "source_text": record.source_text,
        "translation": record.translation,
        "levels": levels,
        "heads": heads.pop(),
        "layers": {kind: int(weights.shape[0]) for kind, weights in maps.items()},
        "source_language": record.source_language,
        "target_language": record.target_language,
        "search": record.search,
        "log_prob": float(record.log_prob),
        "checks": [_check(check) for check in record.checks],
        "verdict": "edited" if record.lost_edits else verdict,
        "source": [described(token) for token in record.source],
        "target_in": [described(token) for token in record.target_in],
        "target_out": [
            {**described(token), "p": _probability(log_prob)}
            for token, log_prob in zip(record.target_out, record.log_probs, strict=True)
        ],
        "alternatives": _alternatives(record),
        "address": address,
        "inside": inside,
        "view": {name: view[name] for name in shown_first},
        "offered": ["weights", *quantities],
        "quantities": {},
        "alone": alone,
        "failed": dict(answers.failed),
        "what_if": what_if,
        "offers_effects": offers_effects,
        "together": together,
        "effects": answers.effects is not None,
    }
    for kind, weights in maps.items():
        numbers = weights.astype("<f4") if levels is None else _quantised(weights, levels)
        data[kind] = numbers[..., masks[kind]].tobytes()
        data[f"{kind}_mask"] = np.packbits(masks[kind]).tobytes()
    for name, arrays in quantities.items():
        if arrays is not None:
            data["quantities"][name], numbers = _quantity(name, arrays, masks, whole)
            data |= numbers
    if answers.exact is not None:
        exact = answers.exact
        data["exact"] = {
            name: getattr(exact, name) for name in ("quantity", "kind", "layer", "head")
        }
        data["exact_numbers"] = _float32(exact.numbers[..., masks[exact.kind]])
    if answers.effects is not None:
        data |= {f"effects_{kind}": _float32(answers.effects[kind]) for kind in KINDS}
    if answers.page is not None:
        data["page"] = answers.page
    return data if alone else _within(data, MESSAGE_LIMIT)


def _within(data: dict[str, Any], limit: int) -> dict[str, Any]:
    """The payload in at most so many bytes: without what was asked for beside it, where need be.

    Raises ValueError, in one line, for a record that is too large by itself.
    """
    asked = {
        "page": ("page", ["page"]),
        "exact": ("exact", ["exact_numbers", "exact"]),
        "effects": ("effects", [f"effects_{kind}" for kind in KINDS]),
        **{name: ("quantity", [f"{name}_{kind}" for kind in KINDS]) for name in data["quantities"]},
    }
    for name, (what, parts) in asked.items():
        size = _size(data)
        if size <= limit:
            return data
        if parts[0] not in data:
            continue
        for part in parts:
            del data[part]
        data["quantities"].pop(name, None)
        data["failed"][what] = (
            f"The {name} could not be sent: {size / 1e6:,.1f} MB, the limit is {limit >> 20} MB"
        )
        if name == "effects":
            data["effects"] = False
    if (size := _size(data)) > limit:
        raise ValueError(
            f"its maps take {size / 1e6:,.1f} MB, and a page can show {limit >> 20} MB: "
            "take a shorter sentence or a smaller network"
        )
    return data


def _size(data: dict[str, Any]) -> int:
    """Bytes of a packed payload, but for some of its padding."""
    blobs = sum(len(value) for value in data.values() if isinstance(value, bytes))
    words = {name: value for name, value in data.items() if not isinstance(value, bytes)}
    return blobs + len(json.dumps(words, ensure_ascii=False).encode("utf-8", "replace"))


def _float32(numbers: np.ndarray) -> bytes:
    return np.ascontiguousarray(numbers, dtype="<f4").tobytes()


def _quantity(
    name: str, arrays: Arrays, masks: dict[str, np.ndarray], whole: bool
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The open cells of one quantity: as they are, or in 65,536 steps between its kind's ends.

    The range holds 0 where no number is below it, so that a length of 0 is the scale's beginning.
    """
    found: dict[str, bytes] = {}
    ranges = {}
    for kind in KINDS:
        numbers = np.asarray(arrays[kind], dtype=np.float64)[..., masks[kind]]
        if not np.isfinite(numbers).all():
            raise ValueError(f"the {name} of the {kind} hold a number that is not finite")
        low, high = min(0.0, float(numbers.min())), float(numbers.max())
        if name == "rollout":
            high = 1.0
        ranges[kind] = [low, high]
        if whole:
            found[f"{name}_{kind}"] = _float32(numbers)
        else:
            steps = np.round((numbers - low) / ((high - low) or 1.0) * 65535)
            found[f"{name}_{kind}"] = steps.astype("<u2").tobytes()
    heads = int(arrays["cross"].shape[1])
    return {"levels": None if whole else 65535, "heads": heads, "range": ranges}, found


def _alternatives(record: Any) -> list[list[list[Any]]]:
    """The likeliest tokens of each step: [label, probability, was written].

    What was written stands among them, as the last if need be: of a given target it may be far
    less likely than all of them. Was written is 0, 1, or 2 of a token that took the last one's
    place.
    """
    steps = []
    for written, own, tokens, log_probs in zip(
        record.target_out,
        record.log_probs,
        record.alternatives,
        record.alternative_log_probs,
        strict=True,
    ):
        row = list(zip(tokens, log_probs, strict=True))
        among = written.id in {token.id for token in tokens}
        if not among:
            row[-1:] = [(written, own)]  # also where a record names no alternatives
        steps.append(
            [
                [short(token), _probability(log_prob), (2 - among) * (token.id == written.id)]
                for token, log_prob in row
            ]
        )
    return steps


def _probability(log_prob: float) -> float:
    """From nats, to the six digits that a link or a bar can show."""
    return round(math.exp(min(0.0, float(log_prob))), 6)


def pack(data: dict[str, Any]) -> bytes:
    """Put a payload into one byte string: Streamlit sends raw bytes only as the whole of the data.

    Layout: length of the header (little-endian uint32), the header (JSON, padded with spaces so
    that what follows starts on a multiple of 4), then the byte strings one after the other. In the
    header each of them is `{"at": offset after the header, "length": bytes}`; each is padded to a
    multiple of 4.
    """
    header: dict[str, Any] = {}
    blobs: list[bytes] = []
    at = 0
    for name, value in data.items():
        if isinstance(value, bytes):
            header[name] = {"at": at, "length": len(value)}
            blobs.append(value + b"\0" * (-len(value) % 4))
            at += len(blobs[-1])
        else:
            header[name] = value
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 4)
    return b"".join([struct.pack("<I", len(text)), text, *blobs])


def _check(check: Any) -> dict[str, Any]:
    """Give what is shown of a check; a figure that is no number becomes null, as JSON has none."""
    return {
        "name": check.name,
        "passed": bool(check.passed),
        "figure": check.figure if math.isfinite(check.figure) else None,
        "limit": check.limit,
        "words": check.words,
    }


def _quantised(weights: np.ndarray, levels: int) -> np.ndarray:
    """Turn weights 0..1 into integers 0..`levels`, each less than one level away from its weight.

    65535 levels are rounded. With 255 a long row of small weights would round to nothing, so the
    levels that a row lacks after rounding down go to its largest remainders: every row still sums
    to 1, an exact 0 stays 0, and the spread computed from the row stays close to the true one.
    """
    scaled = np.minimum(weights, 1.0).astype(np.float64) * levels
    if levels > 255:
        return np.round(scaled).astype("<u2")
    whole = np.floor(scaled)
    lacking = (np.round(scaled.sum(-1, keepdims=True)) - whole.sum(-1, keepdims=True)).astype(int)
    # Remainders as integers that tell equal ones apart by their place: sorting those is quick.
    keys = weights.shape[-1]
    ranks = ((scaled - whole) * 2**40).astype(np.int64) * keys + np.arange(keys)[::-1]
    largest = np.take_along_axis(np.sort(ranks), keys - np.maximum(lacking, 1), axis=-1)
    whole += (ranks >= largest) & (lacking > 0)
    return np.minimum(whole, levels).astype("u1")
