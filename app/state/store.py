"""A shared LRU cache, limited in bytes, that computes each value once."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Container, Hashable, Mapping
from dataclasses import fields, is_dataclass
from threading import Condition
from typing import Any

import numpy as np

from core.serving.queue import POLL_S

_LEAVES = {str, int, float, bool, type(None)}


def freeze(value: Any) -> int:
    """Make every array in a value read-only; return the value's approximate size in bytes."""
    if type(value) in _LEAVES:  # most parts of a record: this path is ten times faster
        return sys.getsizeof(value)
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
        return value.nbytes
    if isinstance(value, Mapping):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        parts = list(value)
    elif is_dataclass(value):
        parts = [getattr(value, field.name) for field in fields(value)]
    else:
        parts = []
    return sys.getsizeof(value) + sum(map(freeze, parts))


class Store:
    """Values by key, up to a limit in bytes; least recently used values are evicted first.

    A value is computed once, however many threads request it at the same time. `size` returns a
    value's size in bytes; `on_evict` is called with each evicted value. The newest value stays,
    even if it alone exceeds the limit.
    """

    def __init__(
        self,
        limit: int,
        size: Callable[[Any], int] = freeze,
        on_evict: Callable[[Any], object] = lambda value: None,
    ) -> None:
        self.limit = limit
        self.size = 0
        self._size_of = size
        self._on_evict = on_evict
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._changed = Condition()
        self._in_progress: set[Hashable] = set()

    def __contains__(self, key: Hashable) -> bool:
        """Whether a key's value is cached."""
        with self._changed:
            return key in self._values

    def make_room(self, size: int, but: Container[Hashable] = ()) -> None:
        """Evict least recently used values, but not the keys in `but`, until `size` bytes fit.

        `size` counts the values in `but` too, cached or not. Call this before a large value is
        made: `get` evicts only afterwards, when old and new values are in memory together.
        """
        with self._changed:
            kept = sum(bytes_ for key, (_, bytes_) in self._values.items() if key in but)
            for key in [key for key in self._values if key not in but]:
                if self.size - kept + size <= self.limit:
                    return
                self._evict(key)

    def _evict(self, key: Hashable) -> None:
        """Remove a value. The caller holds the lock."""
        evicted, size = self._values.pop(key)
        self.size -= size
        self._on_evict(evicted)

    def get(
        self,
        key: Hashable,
        make: Callable[[], Any],
        raise_if_cancelled: Callable[[], object] = lambda: None,
    ) -> Any:
        """Return the value of a key, computed by `make` if it is not cached.

        If another thread is computing it, wait; if that thread fails or is cancelled, compute it
        here. `raise_if_cancelled` is polled while waiting, and its exception ends the wait.
        """
        while True:
            with self._changed:
                if key in self._values:
                    self._values.move_to_end(key)
                    return self._values[key][0]
                if key not in self._in_progress:
                    self._in_progress.add(key)
                    break
                self._changed.wait(POLL_S)
            raise_if_cancelled()
        try:
            value = make()
            size = self._size_of(value)
            with self._changed:
                self._values[key] = value, size
                self.size += size
                while self.size > self.limit and len(self._values) > 1:
                    self._evict(next(iter(self._values)))
            return value
        finally:
            with self._changed:
                self._in_progress.remove(key)
                self._changed.notify_all()
