"""Serialise requests and answers as NPZ files of JSON and plain arrays, limited to known types."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from core.checkpoint.errors import CheckpointError
from core.config import DecodeConfig
from core.record.edits import (
    Donor,
    Edge,
    EditError,
    Edits,
    HeadPatch,
    Patch,
    PositionEdit,
    Push,
    RandomPush,
    Row,
    Temperature,
)
from core.record.hidden_states import Activations
from core.record.record import RecordCheck, RecordHypothesis, RecordToken, TranslationRecord
from core.search.beam import Hypothesis
from core.serving.backend import InspectRequest, TranslateRequest
from core.translator import InputError, Translation

_VALUES = {
    kind.__name__: kind
    for kind in (
        *(Activations, DecodeConfig, Edge, Edits, Hypothesis, InspectRequest, PositionEdit),
        *(RecordCheck, RecordHypothesis, RecordToken, Row, Temperature, Translation),
        *(TranslateRequest, TranslationRecord, Donor, HeadPatch, Patch, Push, RandomPush),
    )
}
_ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (CheckpointError, EditError, InputError, MemoryError, ValueError)
}


def to_bytes(value: Any) -> bytes:
    """Serialise a request, an answer, an exception or a list of these.

    An exception of an unknown type becomes a RuntimeError with its text.
    """
    arrays: dict[str, Any] = {}
    arrays["tree"] = np.frombuffer(json.dumps(_tree(value, arrays)).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def from_bytes(content: bytes) -> Any:
    """Deserialise what `to_bytes` wrote; lists become tuples. Raises ValueError for anything else.

    Messages are not compressed, so content that unpacks to more bytes than it has is rejected.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            if sum(member.file_size for member in packed.infolist()) > len(content):
                raise ValueError
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return _value(json.loads(arrays["tree"].tobytes()), arrays)
    except Exception as error:
        raise ValueError(f"not a backend message ({type(error).__name__})") from None


def _tree(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return the value as JSON; its arrays are moved to `arrays` and referred to by name."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_tree(item, arrays) for item in value]
    if isinstance(value, frozenset):
        return {"set": [_tree(item, arrays) for item in sorted(value)]}
    if isinstance(value, np.ndarray):
        arrays[name := f"a{len(arrays)}"] = value
        return {"array": name}
    if isinstance(value, Exception):
        name = type(value).__name__
        return {"error": name if name in _ERRORS else "RuntimeError", "says": str(value)}
    name = type(value).__name__
    if _VALUES.get(name) is not type(value):
        raise TypeError(f"{name} cannot be serialised")
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {"is": name, "of": {key: _tree(item, arrays) for key, item in fields.items()}}


def _value(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    match tree:
        case list():
            return tuple(_value(item, arrays) for item in tree)
        case {"set": items}:
            return frozenset(_value(item, arrays) for item in items)
        case {"array": name}:
            return arrays[name]
        case {"error": name, "says": str(text)}:
            return _ERRORS.get(name, RuntimeError)(text)
        case {"is": name, "of": fields}:
            return _VALUES[name](**{key: _value(item, arrays) for key, item in fields.items()})
        case None | bool() | int() | float() | str():
            return tree
    raise ValueError(f"{tree!r:.40} is not a known value")
