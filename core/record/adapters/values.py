"""Read arrays, tensors, nested lists and indices of other tools, or reject them in one line.

Sizes are checked before anything is copied: an expanded tensor or a list that repeats one row takes
little memory until it is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import index as exact
from typing import Any

import numpy as np

from core.record.limits import MAX_RECORD_WEIGHTS

_MAX_SHOWN = 10**9


def shape_of(given: Any, what: str) -> tuple[int, ...]:
    """Return the axes of an array, a tensor or nested sequences, judged by their first items.

    Raises ValueError, in one line, for an object without axes.
    """
    return _foreign(what, lambda: _shape(given))


def dense(given: Any, what: str, unit: str = "weights") -> np.ndarray:
    """Convert an array, a tensor, or sequences of them to a NumPy array.

    Raises ValueError, in one line, for sequences whose items differ in shape, for more numbers than
    a record may hold weights, and for what cannot be read, such as a sparse or meta tensor.
    """
    shape = shape_of(given, what)
    if (numbers := math.prod(shape)) > MAX_RECORD_WEIGHTS:
        raise ValueError(
            f"{what} {shape} would hold {numbers:,} {unit}: the limit is {MAX_RECORD_WEIGHTS:,}, "
            "take a shorter sentence or a smaller network"
        )
    return _foreign(what, lambda: _array(given))


def whole_numbers(given: Any, what: str) -> np.ndarray:
    """Convert ids or indices, [sequence, token], to an int64 array that is not empty.

    Raises ValueError, in one line, for other numbers and axes.
    """
    array = dense(given, what, "ids")
    if array.dtype.kind not in "iu" or array.ndim != 2 or not array.size:
        raise ValueError(
            f"{what} is {array.dtype} {array.shape}, not whole numbers [sequence, token]"
        )
    return array.astype(np.int64)


def chosen(index: Any, count: int, what: str) -> int:
    """Return `index`; None means the only item.

    Raises ValueError, in one line, if the index is no whole number, is out of range, or is None and
    `count` is not 1.
    """
    if index is None and count == 1:
        return 0
    if isinstance(index, int | np.integer) and not isinstance(index, bool) and 0 <= index < count:
        return int(index)
    plain = index is None or (isinstance(index, int) and abs(index) < _MAX_SHOWN)
    shown = index if plain else type(index).__name__
    raise ValueError(f"choose one {what} of {count}: index=0 to {count - 1}, not {shown}")


class _ShapesError(ValueError):
    """Items of one sequence that differ in shape."""


def _foreign(what: str, read: Callable[[], Any]) -> Any:
    """Read a value through its own methods, which may raise anything."""
    try:
        return read()
    except _ShapesError:
        raise ValueError(
            f"the layers of {what} differ in shape: pass equal numbers of heads, queries and keys"
        ) from None
    except Exception as error:
        raise ValueError(
            f"{what} cannot be read as an array ({type(error).__name__}): pass a dense array or "
            "tensor of numbers"
        ) from None


def _shape(given: Any) -> tuple[int, ...]:
    if hasattr(given, "shape"):
        return tuple(map(exact, given.shape))
    if isinstance(given, list | tuple) and given:
        return len(given), *_shape(given[0])
    return (0,) if isinstance(given, list | tuple) else ()


def _array(given: Any) -> np.ndarray:
    if hasattr(given, "detach"):
        given = given.detach()
        return (given.float() if given.is_floating_point() else given).cpu().numpy()
    if isinstance(given, list | tuple):
        if len(set(map(_shape, given))) > 1:
            raise _ShapesError
        if given and (hasattr(given[0], "shape") or isinstance(given[0], list | tuple)):
            given = [_array(one) for one in given]
    return np.asarray(given)
