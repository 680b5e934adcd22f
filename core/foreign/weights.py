"""Read the weights of another project: safetensors in one file or in shards, never pickle."""

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from core.checkpoint.header import check_spans, read_entries
from core.files import printable
from core.foreign.finding import MAX_BYTES, find, listed_elsewhere
from core.foreign.sources import opened, shown

_TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
_WHOLE = {"I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1}
_MAX_COUNTER = 16 << 20  # bytes of a counter or mask that is ignored
_WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_forward_module"}
"""Parts of names that torch's wrappers add at any depth: DataParallel, compile, FSDP, Fabric."""


class MissingError(ValueError):
    """Raised if a network lacks a tensor of its family."""


@dataclass(frozen=True)
class _Entry:
    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int  # offset in the file, in bytes
    size: int


class Weights:
    """Tensors by name. Each is read when it is taken; the names of taken tensors are remembered.

    `notes` say what was changed: prefixes removed, numbers rounded, counters ignored. Raises
    ValueError, in one line with a remedy, for a pickle, a missing shard and an invalid file.
    """

    def __init__(self, source: Path):
        self.source = source
        self._entries: dict[str, _Entry] = {}
        self._used: set[str] = set()
        self._rounded: set[str] = set()
        self._prefix = ""
        self.files = find(source)
        for file in self.files:
            for name, entry in _entries(file):
                if name in self._entries:
                    raise ValueError(f"{shown(source)} holds {printable(name)[:100]} twice")
                self._entries[name] = entry
        if not self._entries:
            raise ValueError(f"{shown(source)} holds no weights: save the state dict again")
        if self.files != [source]:
            listed_elsewhere(source, {name: one.file.name for name, one in self._entries.items()})

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    @property
    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._entries)

    @property
    def unused(self) -> list[str]:
        """The names of weights that nothing has taken or left out yet; counters are no weights."""
        return sorted(set(self._entries) - self._used - set(self._counters))

    @property
    def _counters(self) -> list[str]:
        """The names of whole numbers and masks, which no family has as weights."""
        small = (n for n, e in self._entries.items() if e.dtype in _WHOLE and e.size < _MAX_COUNTER)
        return sorted(small)

    @property
    def is_wrapped(self) -> bool:
        """Whether the names in the file have a wrapper's prefix."""
        return bool(self._prefix)

    @property
    def notes(self) -> list[str]:
        """One sentence for each thing that differs between the file and what was read."""
        notes = []
        if self._prefix:
            notes.append(f"The prefix {self._prefix!r} of the weights' names was removed.")
        if self._rounded:
            notes.append(f"{len(self._rounded)} tensors were rounded from float64 to float32.")
        if counters := self._counters:
            more = f" and {len(counters) - 3} more" if len(counters) > 3 else ""
            some = ", ".join(printable(name)[:80] for name in counters[:3])
            notes.append(f"Whole numbers that are not weights were ignored: {some}{more}.")
        return notes

    def unwrap(self, expected: Collection[str]) -> None:
        """Remove what a wrapper put in front of the names, if most `expected` names then occur.

        Examples are `module.` (DataParallel), `_orig_mod.` (compile) and `model.` (Lightning), also
        nested. Raises ValueError if two prefixes fit: the file holds two networks.
        """
        plain = {
            name: ".".join(part for part in name.split(".") if part not in _WRAPPERS)
            for name in self._entries
        }
        found = Counter(
            name[: -len(one)]
            for one in expected
            for name in plain.values()
            if name == one or name.endswith(f".{one}")
        )
        fitting = sorted(prefix for prefix, n in found.items() if 2 * n > len(expected))
        if len(fitting) > 1:
            raise ValueError(
                f"{shown(self.source)} holds two networks, {printable(fitting[0])[:60]!r} and "
                f"{printable(fitting[1])[:60]!r}: save the state dict of one"
            )
        prefix = fitting[0] if fitting else ""
        renamed = {name: one.removeprefix(prefix) for name, one in plain.items()}
        changed = [name for name in self._entries if renamed[name] != name]
        if not fitting or not changed or len(set(renamed.values())) < len(renamed):
            return
        removed = {
            name.removesuffix(renamed[name])
            if name.endswith(renamed[name])
            else ".".join(part for part in name.split(".") if part in _WRAPPERS)
            for name in changed
        }
        self._prefix = printable(", ".join(sorted(removed)))[:60]
        self._entries = {renamed[name]: entry for name, entry in self._entries.items()}

    def shape(self, name: str) -> tuple[int, ...]:
        """Return a tensor's shape. Raises MissingError."""
        if name not in self._entries:
            raise MissingError(f"{shown(self.source)} lacks {name}")
        return self._entries[name].shape

    def expect(self, name: str, shape: Sequence[int]) -> None:
        """Raise ValueError, without reading it, if a tensor is missing or not of this shape."""
        if self.shape(name) != tuple(shape):
            found = str(list(self.shape(name)))[:80]
            raise ValueError(
                f"{shown(self.source)}: {name} is {found}, not {list(shape)}: check the family, "
                "and that all weights are of one network"
            )

    def take(self, name: str, shape: Sequence[int] | None = None) -> Tensor:
        """Return a tensor as float32. Raises ValueError if missing, cut off or not of `shape`."""
        found = self.shape(name)
        if shape is not None:
            self.expect(name, shape)
        return self.start_of(name, math.prod(found)).view(found)

    def start_of(self, name: str, count: int) -> Tensor:
        """Return the first `count` numbers of a tensor as float32 [count]; read no others."""
        entry = self._entries[name]
        if entry.dtype not in _TYPES:
            raise ValueError(
                f"{shown(self.source)}: {name} holds whole numbers ({entry.dtype}), not weights: "
                "save the network in float32"
            )
        dtype = _TYPES[entry.dtype]
        with opened(entry.file, MAX_BYTES) as stream:
            stream.seek(entry.start)
            content = bytearray(min(entry.size, count * dtype.itemsize))
            if stream.readinto(content) != len(content):
                raise ValueError(f"{shown(self.source)} is cut off in {name}: get it again")
        self._used.add(name)
        if dtype == torch.float64:
            self._rounded.add(name)
        return torch.frombuffer(content, dtype=dtype).float()

    def leave_out(self, name: str) -> None:
        """Count a tensor as used without reading it."""
        self._used.add(name)

    def sha256(self) -> str:
        """Return the SHA-256 of the file, or of the concatenated shards, sorted by name."""
        digest = hashlib.sha256()
        for file in self.files:
            with opened(file, MAX_BYTES) as stream:
                while part := stream.read(1 << 22):
                    digest.update(part)
        return digest.hexdigest()


def _entries(file: Path) -> list[tuple[str, _Entry]]:
    """Read a file's header and check that its tensors fill the file. Raises ValueError."""
    with opened(file, MAX_BYTES) as stream:
        size = stream.seek(0, 2)
        stream.seek(0)
        item_bytes = {name: dtype.itemsize for name, dtype in _TYPES.items()} | _WHOLE
        try:
            header, entries, _ = read_entries(stream)
            for name, entry in entries.items():
                if entry.dtype not in item_bytes:
                    raise ValueError(
                        f"{name[:80]!r} is of type {entry.dtype[:20]!r}: convert it to float32 "
                        "with .float()"
                    )
            check_spans(entries, item_bytes, size - len(header))
        except ValueError as error:
            raise ValueError(
                f"{shown(file)} cannot be read ({printable(str(error))[:200]}): "
                "save it as safetensors again"
            ) from None
    found = []
    for name, entry in entries.items():
        start, end = entry.data_offsets
        place = len(header) + start
        found.append((name, _Entry(file, entry.dtype, entry.shape, place, end - start)))
    return found
