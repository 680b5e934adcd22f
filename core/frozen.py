"""Immutable values with read-only arrays, also after copying or unpickling."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Frozen:
    """Base of frozen dataclasses that hold arrays, directly or inside mappings and tuples.

    Mappings, and arrays of numbers or strings, become read-only copies. The originals stay
    writable, and changing them does not change the copies. numpy drops the read-only flag when it
    copies or pickles an array. Copies and unpickled values therefore go through the constructor,
    which validates and freezes them again. A subclass with a `__post_init__` must call
    `super().__post_init__()`.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # ty: ignore[invalid-argument-type]
            object.__setattr__(self, field.name, _freeze(getattr(self, field.name)))

    def __reduce__(self) -> tuple[Any, ...]:
        fields = dataclasses.fields(self)  # ty: ignore[invalid-argument-type]
        values = {f.name: _picklable(getattr(self, f.name)) for f in fields if f.init}
        return _rebuild, (type(self), values)


def frozen(array: NDArray) -> NDArray:
    """Copy an array into immutable memory, which no other array can write to."""
    if type(array.base) is bytes:
        return array
    return np.ndarray(array.shape, array.dtype, array.tobytes())


def _rebuild(cls: type, values: dict[str, Any]) -> Any:
    return cls(**values)


def _freeze(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value if value.dtype.hasobject else frozen(value)
    if isinstance(value, Mapping):
        return MappingProxyType({key: _freeze(item) for key, item in value.items()})
    if type(value) is tuple and any(isinstance(item, np.ndarray | Mapping) for item in value):
        return tuple(_freeze(item) for item in value)
    return value


def _picklable(value: Any) -> Any:
    """Replace read-only mappings, which pickle does not support, by dicts."""
    if isinstance(value, MappingProxyType):
        return {key: _picklable(item) for key, item in value.items()}
    if type(value) is tuple and any(isinstance(item, MappingProxyType) for item in value):
        return tuple(_picklable(item) for item in value)
    return value
