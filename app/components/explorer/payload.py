"""Turns a translation record into the plain values and raw bytes that the explorer draws."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np

KINDS = ("encoder", "decoder", "cross")
BYTE_LIMIT = 600_000
"""Maps that are larger than this at two bytes a weight are sent at one byte a weight."""


def payload(
    record: Any, view: dict[str, Any], link: dict[str, str] | None = None
) -> dict[str, Any]:
    """Describe `record` in the form the explorer's JavaScript reads.

    `record` is a `core.record.TranslationRecord`: maps `[layer, head, query, key]` in 0..1, boolean
    masks `[query, key]` (True = may attend), log-probabilities in nats. `view` holds `kind`,
    `layer` and `head` (counted from 0, or `"mean"`) and decides only what is shown first.

    `link` holds further names and values to keep in the page's address beside these three.

    Returns JSON-able values and, at the top level, `bytes` in C order: each map as little-endian
    integers 0..`levels` (two bytes a weight while all three kinds fit in `BYTE_LIMIT`, else one),
    each mask as 0/1.

    Raises `ValueError` for an unknown kind, a map that is not finite or leaves 0..1, or unequal
    head counts.
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

    levels = 65535 if 2 * sum(weights.size for weights in maps.values()) <= BYTE_LIMIT else 255
    data: dict[str, Any] = {
        "sentence": record.id,
        "levels": levels,
        "heads": heads.pop(),
        "layers": {kind: int(weights.shape[0]) for kind, weights in maps.items()},
        "source_language": record.source_language,
        "target_language": record.target_language,
        "search": record.search,
        "log_prob": float(record.log_prob),
        "checks": [_check(check) for check in record.checks],
        "source": [_token(token) for token in record.source],
        "target_in": [_token(token) for token in record.target_in],
        "target_out": [
            {**_token(token), "p": math.exp(min(0.0, float(log_prob)))}
            for token, log_prob in zip(record.target_out, record.log_probs, strict=True)
        ],
        "link": link or {},
        "view": {"kind": view["kind"], "layer": view["layer"], "head": view["head"]},
    }
    for kind, weights in maps.items():
        data[kind] = _quantised(weights, levels).tobytes()
        data[f"{kind}_mask"] = np.asarray(getattr(record, f"{kind}_mask"), dtype=np.uint8).tobytes()
    return data


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
    text = json.dumps(header).encode("utf-8")
    text += b" " * (-len(text) % 4)
    return b"".join([struct.pack("<I", len(text)), text, *blobs])


def _token(token: Any) -> dict[str, Any]:
    """Give what is shown of a token; half a surrogate pair, which is no text, becomes `?`."""
    return {
        "text": token.text.encode("utf-8", "replace").decode("utf-8"),
        "start": bool(token.starts_word),
        "special": bool(token.special),
        "unknown": bool(token.unknown),
    }


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
    lacking = np.round(scaled.sum(-1, keepdims=True)) - whole.sum(-1, keepdims=True)
    by_remainder = np.argsort(whole - scaled, axis=-1, kind="stable")
    extra = (np.arange(weights.shape[-1]) < lacking).astype(np.float64)
    np.put_along_axis(whole, by_remainder, np.take_along_axis(whole, by_remainder, -1) + extra, -1)
    return np.minimum(whole, levels).astype("u1")
