"""Serialises a translation record for the explorer: JSON values and raw bytes."""

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
"""Up to this size, all maps are sent as float32; beyond it, quantised."""
MESSAGE_LIMIT = 18 << 20
"""Bytes of a payload: slightly below the server's maxMessageSize, which has other data to carry."""
_VIEW = ("kind", "layer", "head", "q", "k")
_FURTHER_VIEW = ("view", "words", "hide", "sort", "effect", "combine", "quantity", "mass")

Arrays = Mapping[str, np.ndarray]
"""By kind, [layer, head, query, key]; a single head for quantities without heads."""


@dataclass(frozen=True)
class Exact:
    """Full-precision numbers of maps that were sent quantised.

    `layer` and `head` count from 0; None means all. `numbers` are [layer, head, query, key] of the
    selected ones.
    """

    quantity: str
    kind: str
    layer: int | None
    head: int | None
    numbers: np.ndarray


@dataclass(frozen=True)
class Answers:
    """Responses to the explorer's requests: exact numbers, the page as a file, head effects.

    `effects` holds per kind the change in each target token's log-probability when a head is
    ablated, [layer, head, target token] in nats. `failed` holds one line for each failed request
    ("quantity", "exact", "page", "effects", "edit").
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
    """Return `record` in the form that the explorer's JavaScript reads.

    Args:
        record: A `TranslationRecord`: maps [layer, head, query, key] in 0..1, boolean masks
            [query, key] (True = may attend), log-probabilities in nats.
        view: The initial view: `kind`, `layer` and `head` (counted from 0, "mean" or "max");
            optionally the pinned `q` and `k` and other parameters of a link.
        address: Whether this explorer stores its view in the page's URL: at most one per page.
        quantities: What can be shown beside the weights; None if it has to be requested.
        inside: URL of a page that opens one head and takes the same parameters.
        verdict: "here" if this process made the checks; "saved" if they come from a file, in which
            case they are not shown. For an edited pass without its edits it becomes "edited".
        alone: Whether there is no server to send requests to.
        what_if: The edits and their effect, if edits can be made.
        offers_effects: Whether head effects can be requested.
        together: Name of a group of explorers that follow each other's selection and pins.

    Returns JSON-serialisable values and, at the top level, `bytes` in C order: each mask as bits,
    and the unmasked cells of each map. These are little-endian float32 if all three kinds fit in
    `BYTE_LIMIT` or if `alone`; otherwise integers 0..`levels` over a kind's `range` (0..1 for
    weights), in two bytes if those fit, else in one. Quantities are float32 or two bytes.

    Responses that do not fit into `MESSAGE_LIMIT` are left out, with a line in `failed`.

    Raises `ValueError` for an unknown kind, a map that is not finite or outside 0..1, unequal head
    counts, a quantity that is not finite, or a record whose maps alone do not fit.
    """
    if view["kind"] not in KINDS:
        raise ValueError(f"kind is {view['kind']!r}; it must be one of {', '.join(KINDS)}")
    maps = {kind: np.asarray(getattr(record, kind), dtype=np.float32) for kind in KINDS}
    for kind, weights in maps.items():
        if not np.isfinite(weights).all() or weights.min() < 0 or weights.max() > 1 + 1e-4:
            raise ValueError(f"the {kind} maps contain a value outside 0..1")
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
    """Drop responses until the payload has at most `limit` bytes.

    Raises ValueError, with a single-line message, for a record that is too large by itself.
    """
    responses = {
        "page": ("page", ["page"]),
        "exact": ("exact", ["exact_numbers", "exact"]),
        "effects": ("effects", [f"effects_{kind}" for kind in KINDS]),
        **{name: ("quantity", [f"{name}_{kind}" for kind in KINDS]) for name in data["quantities"]},
    }
    for name, (what, parts) in responses.items():
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
            f"its maps take {size / 1e6:,.1f} MB; the limit is {limit >> 20} MB: "
            "use a shorter sentence or a smaller network"
        )
    return data


def _size(data: dict[str, Any]) -> int:
    """Return the size of a packed payload in bytes, except for some padding."""
    blobs = sum(len(value) for value in data.values() if isinstance(value, bytes))
    words = {name: value for name, value in data.items() if not isinstance(value, bytes)}
    return blobs + len(json.dumps(words, ensure_ascii=False).encode("utf-8", "replace"))


def _float32(numbers: np.ndarray) -> bytes:
    return np.ascontiguousarray(numbers, dtype="<f4").tobytes()


def _quantity(
    name: str, arrays: Arrays, masks: dict[str, np.ndarray], whole: bool
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Encode the unmasked cells of a quantity: as float32, or in 65,536 steps over its range.

    The range includes 0, so that a length of 0 is the start of the scale.
    """
    encoded: dict[str, bytes] = {}
    ranges = {}
    for kind in KINDS:
        numbers = np.asarray(arrays[kind], dtype=np.float64)[..., masks[kind]]
        if not np.isfinite(numbers).all():
            raise ValueError(f"the {name} of the {kind} contain a number that is not finite")
        low, high = min(0.0, float(numbers.min())), float(numbers.max())
        if name == "rollout":
            high = 1.0
        ranges[kind] = [low, high]
        if whole:
            encoded[f"{name}_{kind}"] = _float32(numbers)
        else:
            steps = np.round((numbers - low) / ((high - low) or 1.0) * 65535)
            encoded[f"{name}_{kind}"] = steps.astype("<u2").tobytes()
    heads = int(arrays["cross"].shape[1])
    return {"levels": None if whole else 65535, "heads": heads, "range": ranges}, encoded


def _alternatives(record: Any) -> list[list[list[Any]]]:
    """Return the most probable tokens of each step as [label, probability, written].

    The token written is always included; if necessary it replaces the last one, since a token of a
    given target may be unlikely. `written` is 0, 1, or 2 for such a replacement.
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
            row[-1:] = [(written, own)]  # also if the record has no alternatives
        steps.append(
            [
                [short(token), _probability(log_prob), (2 - among) * (token.id == written.id)]
                for token, log_prob in row
            ]
        )
    return steps


def _probability(log_prob: float) -> float:
    """Convert nats to a probability, rounded to six digits: more than a bar can show."""
    return round(math.exp(min(0.0, float(log_prob))), 6)


def pack(data: dict[str, Any]) -> bytes:
    """Serialise a payload into one byte string: Streamlit sends raw bytes only as a whole message.

    Layout: header length (little-endian uint32), header (JSON, padded with spaces to a multiple of
    4), byte strings (each padded to a multiple of 4). The header represents a byte string as
    `{"at": offset after the header, "length": bytes}`.
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
    """Return the displayed fields of a check; NaN and infinity become null, as JSON has neither."""
    return {
        "name": check.name,
        "passed": bool(check.passed),
        "figure": check.figure if math.isfinite(check.figure) else None,
        "limit": check.limit,
        "words": check.words,
    }


def _quantised(weights: np.ndarray, levels: int) -> np.ndarray:
    """Quantise weights 0..1 to integers 0..`levels`, with an error below one level.

    65,535 levels are rounded. With 255, a long row of small weights would round to 0. So round down
    and give a row's missing levels to its largest remainders: every row still sums to 1, exact
    zeros stay 0, and the row's entropy stays close to the true one.
    """
    scaled = np.minimum(weights, 1.0).astype(np.float64) * levels
    if levels > 255:
        return np.round(scaled).astype("<u2")
    whole = np.floor(scaled)
    lacking = (np.round(scaled.sum(-1, keepdims=True)) - whole.sum(-1, keepdims=True)).astype(int)
    # Integer remainders with the column as tie-breaker: these sort fast.
    keys = weights.shape[-1]
    ranks = ((scaled - whole) * 2**40).astype(np.int64) * keys + np.arange(keys)[::-1]
    largest = np.take_along_axis(np.sort(ranks), keys - np.maximum(lacking, 1), axis=-1)
    whole += (ranks >= largest) & (lacking > 0)
    return np.minimum(whole, levels).astype("u1")
