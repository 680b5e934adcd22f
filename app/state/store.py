"""A cache that is bounded in bytes and shared by all visitors, who wait for what is being made."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from threading import Condition
from typing import Any

import numpy as np

from core.serving.queue import POLL_S

_LEAVES = {str, int, float, bool, type(None)}


def sealed(value: Any) -> int:
    """Make every array in a value read-only; return about how many bytes the value takes."""
    if type(value) in _LEAVES:  # most of a record's parts: what follows takes ten times as long
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
    return sys.getsizeof(value) + sum(map(sealed, parts))


class Store:
    """Values by key, up to a limit of bytes: the ones that were asked for longest ago go first.

    A value is made once, however many visitors ask for it at the same time; then `size` says how
    many bytes it takes, and `gone` is told of each that has made room. The newest value stays, also
    if it alone is larger than the limit.
    """

    def __init__(
        self,
        limit: int,
        size: Callable[[Any], int] = sealed,
        gone: Callable[[Any], object] = lambda value: None,
    ) -> None:
        self.limit = limit
        self.size = 0
        self._size_of = size
        self._gone = gone
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._changed = Condition()
        self._making: set[Hashable] = set()

    def __contains__(self, key: Hashable) -> bool:
        """Whether a key's value is kept."""
        with self._changed:
            return key in self._values

    def get(
        self,
        key: Hashable,
        make: Callable[[], Any],
        raise_if_cancelled: Callable[[], object] = lambda: None,
    ) -> Any:
        """The value of a key; where there is none, `make` is called, and may raise.

        Whoever finds it being made waits for it, and makes it if that has failed or its visitor
        has left; what `raise_if_cancelled` raises meanwhile ends the wait.
        """
        while True:
            with self._changed:
                if key in self._values:
                    self._values.move_to_end(key)
                    return self._values[key][0]
                if key not in self._making:
                    self._making.add(key)
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
                    old, its = self._values.popitem(last=False)[1]
                    self.size -= its
                    self._gone(old)
            return value
        finally:
            with self._changed:
                self._making.remove(key)
                self._changed.notify_all()
