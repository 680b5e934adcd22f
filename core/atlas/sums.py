"""Named arrays of sums over sentences, which can be added when a corpus is measured in parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from core.files import printable
from core.frozen import Doubles

REPLICATES = 1000
"""The number of bootstrap replicates of every interval."""

_SEED = 48

Array = NDArray[Any]
"""Float64 or int64."""


class Sums(Mapping[str, Array]):
    """Named sums over sentences, float64 or int64. `a + b` are the sums over both parts.

    A sum that only one part has, such as that of a token missing in the other, is kept as it is.
    Raises ValueError for arrays of other types, and when two parts disagree about a shape.
    """

    def __init__(self, arrays: Mapping[str, NDArray] = {}):
        self._arrays = {name: np.asarray(array) for name, array in arrays.items()}
        for name, array in self._arrays.items():
            if array.dtype not in (np.float64, np.int64):
                raise ValueError(f"{name} is {array.dtype}: sums are float64 or int64")

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self):
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __add__(self, other: Sums) -> Sums:
        return Sums.total((self, other))

    def include(self, part: Sums) -> None:
        """Add a part in place, without copying what is already here; see `total`."""
        added = self._arrays
        for name, array in part.items():
            if name not in added:
                added[name] = array.copy()
            elif (added[name].shape, added[name].dtype) != (array.shape, array.dtype):
                raise ValueError(
                    f"{name} is {array.dtype} {array.shape} in one part and "
                    f"{added[name].dtype} {added[name].shape} in another"
                )
            else:
                added[name] += array

    @classmethod
    def total(cls, parts: Iterable[Sums]) -> Sums:
        """Add up any number of parts in turn; the result is empty without parts."""
        total = cls()
        for part in parts:
            total.include(part)
        return total

    def to_bytes(self) -> bytes:
        """Serialise as safetensors."""
        return save({name: np.asarray(array, order="C") for name, array in self._arrays.items()})

    @classmethod
    def from_bytes(cls, content: bytes) -> Sums:
        """Read what `to_bytes` wrote. Raises ValueError for anything else."""
        try:
            return cls(load(content))
        except (SafetensorError, KeyError) as error:
            raise ValueError(f"it does not hold sums ({printable(str(error))[:100]})") from None


def bootstrap_weights(indices: Iterable[int]) -> Doubles:
    """Return how often each sentence counts in each replicate: [B, 1 + REPLICATES].

    Column 0 is 1, the sample itself; the others are Poisson(1) draws (the Poisson bootstrap, which
    approximates drawing B sentences with replacement). A sentence's draws depend only on its index
    in the corpus, so replicates agree however the corpus is split.
    """
    rows = [
        np.concatenate(([1.0], np.random.default_rng((_SEED, index)).poisson(1.0, REPLICATES)))
        for index in indices
    ]
    return np.array(rows).reshape(-1, 1 + REPLICATES)
