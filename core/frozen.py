"""Values whose arrays nobody can write to: as they are made, and after a copy or a pickle."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Frozen:
    """A base of frozen dataclasses that hold arrays, by themselves or in mappings and tuples.

    Arrays become read-only copies, and mappings read-only, whatever the caller goes on to do with
    its own. numpy forgets in a copy or a pickle that an array was read-only; so a copy is made by
    the constructor, which checks and freezes it as it did the first. A class with a
    `__post_init__` calls this one's.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # ty: ignore[invalid-argument-type]
            object.__setattr__(self, field.name, _sealed(getattr(self, field.name)))

    def __reduce__(self) -> tuple[Any, ...]:
        fields = dataclasses.fields(self)  # ty: ignore[invalid-argument-type]
        values = {field.name: _plain(getattr(self, field.name)) for field in fields if field.init}
        return _made, (type(self), values)


def frozen(array: NDArray) -> NDArray:
    """The same numbers in memory that nobody can write to, not even through another array."""
    if type(array.base) is bytes:
        return array
    return np.ndarray(array.shape, array.dtype, array.tobytes())


def _made(kind: type, values: dict[str, Any]) -> Any:
    return kind(**values)


def _sealed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value if value.dtype.hasobject else frozen(value)
    if isinstance(value, Mapping):
        return MappingProxyType({key: _sealed(item) for key, item in value.items()})
    if type(value) is tuple and any(isinstance(item, np.ndarray | Mapping) for item in value):
        return tuple(_sealed(item) for item in value)
    return value


def _plain(value: Any) -> Any:
    """The value as pickle takes it, which knows no read-only mapping."""
    if isinstance(value, MappingProxyType):
        return {key: _plain(item) for key, item in value.items()}
    if type(value) is tuple and any(isinstance(item, MappingProxyType) for item in value):
        return tuple(_plain(item) for item in value)
    return value
