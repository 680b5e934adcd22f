"""Serialises a translation record for the explorer: JSON values and raw bytes."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from app.components.tokens import sent
from core.checkpoint.imported import Imported
from core.kinds import KINDS, SIDES

BYTE_LIMIT = 600_000
"""Up to this size in bytes, all maps are sent as float32; beyond it, quantised."""
MESSAGE_LIMIT = 18 << 20
"""The most bytes of a payload: slightly below maxMessageSize, which includes other data."""
_MOST = 1 + 1e-3  # a weight of 1, with the rounding error of float16
_VIEW = ("kind", "layer", "head", "q", "k")
_FURTHER_VIEW = (
    *("view", "words", "hide", "sort", "effect", "combine", "quantity", "mass"),
    *("states", "suggested"),
)

Arrays = Mapping[str, np.ndarray]
"""By kind, [layer, head, query, key]; a single head for quantities without heads."""


@dataclass(frozen=True)
class Host:
    """What the app does for an explorer; `streamlit.js` reads it.

    `key` is the component's key. `answers` names the requests that get an answer: see `Requests` in
    types.js. `address` says whether the page's URL stores the view: for at most one explorer per
    page. `head_page` is the URL of a page that opens one head and takes the same parameters.
    """

    key: str = "explorer"
    answers: tuple[str, ...] = ("quantity", "exact", "page")
    address: bool = True
    head_page: str | None = None


APP = Host()


def payload(
    record: Any,
    view: dict[str, Any],
    *,
    quantities: Mapping[str, Arrays | None] | None = None,
    checked: str = "here",
    what_if: Mapping[str, Any] | None = None,
    before: Any = None,
    together: str | None = None,
    provenance: Imported | None = None,
    lens: Mapping[str, Any] | None = None,
    effects_if_asked: bool = False,
    host: Host | None = APP,
) -> dict[str, Any]:
    """Return `record` in the form that the explorer's JavaScript reads: `Payload` in types.js.

    Args:
        record: A `TranslationRecord`: maps [layer, head, query, key] in 0..1, boolean masks
            [query, key] (True = may attend), log-probabilities in nats.
        view: The initial view: `kind`, `layer` and `head` (counted from 0, "mean" or "max");
            optionally the pinned `q` and `k` and other parameters of a link. `suggested` says that
            no link named it: the explorer may open at another word.
        quantities: The quantities that can be shown besides the weights; None for one that is sent
            only on request.
        checked: Where the checks were made: "here", in this process, or "elsewhere", by the writer
            of a file. Checks made elsewhere are not shown. If a record has lost the edits of its
            pass, "never" is sent instead.
        what_if: The edits and their effect, if edits can be made: `WhatIf` in types.js.
        before: For an edited pass, the record of the same target without the edits: with it, the
            key that each row looks at most is sent for both passes.
        together: Name of a group of explorers that follow each other's selection and pins.
        provenance: Where imported weights come from and what was compared on import, to be listed
            beside the checks.
        lens: Whether the strip of what each token already says is requested unasked (`unasked`) or,
            for a network without a lens, the command that fits one (`command`); None for no strip.
        effects_if_asked: Whether to request the effects of heads only if the visitor asks for them.
        host: What the app does for the explorer; None for pages that hold all numbers.

    Returns JSON-serialisable values and, at the top level, `bytes` in C order: log-probabilities as
    float32 (none for imported maps), each mask as bits, and the unmasked cells of each map. Cells
    are little-endian float32 if all three kinds fit in `BYTE_LIMIT` or if `host` is None. Otherwise
    they are integers 0..`levels` over a kind's `range` (0..1 for weights), of two bytes if that
    fits, else of one. Quantities are float32 or two bytes.

    Raises `ValueError` for an unknown kind, a map that is not finite or outside 0..1, a quantity
    that is not finite, or a payload above `MESSAGE_LIMIT` if there is a host.
    """
    if view["kind"] not in KINDS:
        raise ValueError(f"kind is {view['kind']!r}; it must be one of {', '.join(KINDS)}")
    maps = {kind: np.asarray(getattr(record, kind), dtype=np.float32) for kind in KINDS}
    for kind, weights in maps.items():
        if (
            not np.isfinite(weights).all()
            or weights.min(initial=0) < 0
            or weights.max(initial=0) > _MOST
        ):
            raise ValueError(f"the {kind} maps contain a value outside 0..1")
    heads = {kind: weights.shape[1] for kind, weights in maps.items()}
    imported = bool(record.origin)

    masks = _masks(record)
    cells = _cells(record)
    as_floats = host is None or 4 * cells <= BYTE_LIMIT
    levels = None if as_floats else 65535 if 2 * cells <= BYTE_LIMIT else 255
    quantities = quantities or {}
    shown_first = [name for name in (*_VIEW, *_FURTHER_VIEW, "turn") if view.get(name) is not None]
    data: dict[str, Any] = {
        "sentence": record.id,
        "model": record.model_title,
        "weights_sha256": record.weights_sha256,
        "source_text": record.source_text,
        "translation": record.translation,
        "levels": levels,
        "heads": heads if imported else _heads(heads),
        "layers": {kind: int(weights.shape[0]) for kind, weights in maps.items()},
        "source_language": record.source_language,
        "target_language": record.target_language,
        "search": record.search,
        "given_target": record.decode is None,
        "checks": [_check(check) for check in record.checks],
        "checked": "never" if record.lost_edits else checked,
        "source": [sent(token) for token in record.source],
        "target_in": [sent(token) for token in record.target_in],
        "target_out": [sent(token) for token in record.target_out],
        "alternatives": [[sent(token) for token in row] for row in record.alternatives],
        "log_probs": _float32(record.log_probs),
        "alternative_log_probs": _float32(record.alternative_log_probs),
        "view": {name: view[name] for name in shown_first},
        "offered": ["weights", *quantities],
        "quantities": {},
        "what_if": what_if,
        "together": together,
    }
    if before is not None:
        for kind in KINDS:
            looked_at = [_looked_at(one, kind).ravel() for one in (before, record)]
            data[f"looked_at_{kind}"] = np.concatenate(looked_at).astype("<u2").tobytes()
    if imported:
        data["unchecked"] = list(record.unchecked)
    if lens is not None:
        data["lens_offer"] = dict(lens)
    if effects_if_asked:
        data["effects_if_asked"] = True
    if provenance is not None:
        data["imported"] = {**provenance.to_json(), "credit": provenance.credit}
    if host is not None:
        data["host"] = {**asdict(host), "answers": list(host.answers)}
    for kind, weights in maps.items():
        numbers = weights.astype("<f4") if levels is None else _quantised(weights, levels)
        data[kind] = numbers[..., masks[kind]].tobytes()
        data[f"{kind}_mask"] = np.packbits(masks[kind]).tobytes()
    for name, arrays in quantities.items():
        if arrays is not None:
            data["quantities"][name], numbers = _quantity(name, arrays, masks, as_floats)
            data |= numbers
    if host is not None:
        check_size(data, "the record", ": use a shorter sentence or a smaller network")
    return data


def quantity_answer(record: Any, name: str, arrays: Arrays) -> dict[str, Any]:
    """Return the part of an answer with a quantity, in the precision of the app's payload."""
    as_floats = 4 * _cells(record) <= BYTE_LIMIT
    about, numbers = _quantity(name, arrays, _masks(record), as_floats)
    return {"quantities": {name: about}, **numbers}


def exact_answer(
    record: Any, quantity: str, kind: str, layer: int | None, head: int | None, numbers: np.ndarray
) -> dict[str, Any]:
    """Return the part of an answer with maps [layer, head, query, key] in full precision.

    `layer` and `head` say which maps these are, counted from 0; None means all.
    """
    place = {"quantity": quantity, "kind": kind, "layer": layer, "head": head}
    return {"exact": place, "exact_numbers": _float32(numbers[..., _masks(record)[kind]])}


def effects_answer(effects: Arrays) -> dict[str, Any]:
    """Return the part of an answer with the effect of each head.

    By kind, this is the change in each target token's log-probability when a head is ablated,
    [layer, head, target token] in nats.
    """
    return {"effects": True, **{f"effects_{kind}": _float32(effects[kind]) for kind in KINDS}}


def lens_answer(readings: Any, tokens: Mapping[int, Any], about: Any) -> dict[str, Any]:
    """Return the part of an answer with what the states of both sides say.

    By side: places in the list `tokens` of the words, and of those of the logit lens, [layer from
    the embeddings, position, rank]; their probabilities; the ranks of the target's tokens, [layer,
    position, target token]. `rates` are, by side, a row per layer: the share of hits (encoder) or
    of agreement (decoder) and that of the null, each with the ends of its interval.
    """
    places = {token: place for place, token in enumerate(tokens)}
    place_of = np.vectorize(places.__getitem__, otypes=[np.float32])
    numbers: dict[str, bytes] = {}
    for side in SIDES:
        reading = getattr(readings, side)
        numbers[f"lens_{side}_ids"] = _float32(place_of(reading.ids))
        numbers[f"lens_{side}_logit_ids"] = _float32(place_of(reading.logit_ids))
        numbers[f"lens_{side}_probabilities"] = _float32(reading.probabilities)
        numbers[f"lens_{side}_ranks"] = _float32(reading.ranks)
    sent_tokens = [sent(token) for token in tokens.values()]
    return {"lens": {"tokens": sent_tokens, **lens_facts(about)}, **numbers}


def lens_facts(about: Any) -> dict[str, Any]:
    """Return how well a lens read other sentences: see `lens_answer`."""
    names = {
        "encoder": ("jacobian_hits", "jacobian_null"),
        "decoder": ("jacobian_agree", "random_agree"),
    }
    rates = {
        side: [[*found, *null] for found, null in zip(*(about.table[n] for n in pair), strict=True)]
        for side, pair in names.items()
    }
    return {"tested": about.tested, "sentences": about.sentences, "rates": rates}


def check_size(data: dict[str, Any], what: str, advice: str = "") -> None:
    """Raise ValueError, with a single-line message, if a message is above `MESSAGE_LIMIT`."""
    if (size := _size(data)) > MESSAGE_LIMIT:
        limit = MESSAGE_LIMIT >> 20
        raise ValueError(f"{what} takes {size / 2**20:,.1f} MiB; the limit is {limit} MiB{advice}")


def _masks(record: Any) -> dict[str, np.ndarray]:
    return {kind: np.asarray(getattr(record, f"{kind}_mask"), dtype=bool) for kind in KINDS}


def _looked_at(record: Any, kind: str) -> np.ndarray:
    """Return the unmasked key with the most weight, [layer, head, query]."""
    mask = np.asarray(getattr(record, f"{kind}_mask"), dtype=bool)
    return np.where(mask, getattr(record, kind), -1.0).argmax(-1)


def _cells(record: Any) -> int:
    """Return the number of unmasked cells of all maps."""
    return sum(
        math.prod(getattr(record, kind).shape[:2]) * int(mask.sum())
        for kind, mask in _masks(record).items()
    )


def _size(data: dict[str, Any]) -> int:
    """Return the size of a packed payload in bytes, except for some padding."""
    blobs = sum(len(value) for value in data.values() if isinstance(value, bytes))
    words = {name: value for name, value in data.items() if not isinstance(value, bytes)}
    return blobs + len(json.dumps(words, ensure_ascii=False).encode("utf-8", "replace"))


def _heads(heads: Mapping[Any, int]) -> Mapping[Any, int] | int:
    """Return the number of heads: by kind if the sides differ."""
    return heads if len(set(heads.values())) > 1 else heads["cross"]


def _float32(numbers: np.ndarray) -> bytes:
    return np.ascontiguousarray(numbers, dtype="<f4").tobytes()


def _quantity(
    name: str, arrays: Arrays, masks: dict[str, np.ndarray], as_floats: bool
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
        low, high = min(0.0, float(numbers.min(initial=0))), float(numbers.max(initial=0))
        if name == "rollout":
            high = 1.0
        ranges[kind] = [low, high]
        if as_floats:
            encoded[f"{name}_{kind}"] = _float32(numbers)
        else:
            steps = np.round((numbers - low) / ((high - low) or 1.0) * 65535)
            encoded[f"{name}_{kind}"] = steps.astype("<u2").tobytes()
    heads = _heads({kind: np.shape(arrays[kind])[1] for kind in KINDS})
    return {"levels": None if as_floats else 65535, "heads": heads, "range": ranges}, encoded


def pack(data: dict[str, Any]) -> bytes:
    """Serialise a payload into one byte string: Streamlit sends raw bytes only as a whole message.

    Layout: header length (little-endian uint32), header (JSON, padded with spaces to a multiple of
    4), byte strings (each padded to a multiple of 4). The header represents a byte string as
    `{"at": offset after the header, "length": bytes}`. A lone surrogate becomes "?".
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
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
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

    With 65,535 levels, weights are rounded. With 255, a long row of small weights would round to 0.
    These weights are rounded down, and a row's missing levels go to its largest remainders: every
    row still sums to 1, exact zeros stay 0, and the row's entropy stays close to the true one.
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
