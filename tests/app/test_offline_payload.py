"""The offline page's payload and .npz of a record equal Python's, field by field and array by array."""

from __future__ import annotations

import base64
import io
import json
import math
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page

from app.components.assets import joined
from app.components.edits import listed
from app.components.explorer.payload import Answers, payload
from core.analysis.rollout import rollout
from core.config import DecodeConfig
from core.kinds import KINDS
from core.record.edits import Edits
from core.record.record import RecordCheck, RecordHypothesis, RecordToken, TranslationRecord
from core.translator import Translator
from tests.app.conftest import visited

FOLDER = Path(__file__).parents[2] / "app/components/offline"
SCRIPTS = joined(*(FOLDER / f"{name}.js" for name in ("payload", "labels", "npz")))
# Arrays travel as base64 text behind the name of their type.
DRIVER = """
const arrays = { f4: Float32Array, u1: Uint8Array };
window.revived = (text) => JSON.parse(text, (_, value) => {
  const [type] = value && typeof value === "object" ? Object.keys(value) : [];
  return type in arrays ? new arrays[type](Uint8Array.fromBase64(value[type]).buffer) : value;
});
window.shown = (text) => packPayload(payloadOf(...revived(text))).toBase64();
"""
VIEW = {"kind": "cross", "layer": 1, "head": "mean", "q": 2}


def described_arrays(value: Any) -> Any:
    """The JSON of a value with arrays; see DRIVER."""
    if isinstance(value, np.ndarray):
        kind = "f4" if value.dtype == np.float32 else "u1"
        return {kind: base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()}
    raise TypeError(value)


def token(one: RecordToken) -> dict[str, Any]:
    fields = {name: getattr(one, name) for name in one.__slots__}
    return fields | {"startsWord": fields.pop("starts_word")}


def as_worker(record: TranslationRecord) -> dict[str, Any]:
    """A record as the worker's `PassRecord` of types.js."""
    decode = record.decode
    return {
        "id": record.id,
        "model": record.model,
        "weightsSha256": record.weights_sha256,
        "sourceLanguage": record.source_language,
        "targetLanguage": record.target_language,
        "decode": decode and {"beam": decode.beam, "lengthPenalty": decode.length_penalty},
        "search": record.search,
        "sourceText": record.source_text,
        "translation": record.translation,
        "source": [token(one) for one in record.source],
        "targetIn": [token(one) for one in record.target_in],
        "targetOut": [token(one) for one in record.target_out],
        "heads": record.encoder.shape[1],
        "layers": {kind: len(record.maps(kind)) for kind in KINDS},
        **{kind: record.maps(kind) for kind in KINDS},
        "masks": {kind: record.mask(kind) for kind in KINDS},
        "sourcePositions": record.source_positions,
        "targetPositions": record.target_positions,
        "logProbs": record.log_probs,
        "alternatives": [[token(one) for one in row] for row in record.alternatives],
        "alternativeLogProbs": record.alternative_log_probs,
        "hypotheses": [
            {"text": h.text, "ids": h.ids, "logProb": h.log_prob, "score": h.score}
            for h in record.hypotheses
        ],
        "checks": [{n: getattr(check, n) for n in check.__slots__} for check in record.checks],
        "editsText": record.edits.to_text(),
    }
