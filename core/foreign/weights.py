"""Read the weights of another project: safetensors in one file or in shards, never pickle."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from core.checkpoint.configuration import MAX_PARAMETERS
from core.checkpoint.header import MAX_HEADER_BYTES, MAX_TENSORS
from core.checkpoint.strict_json import parse
from core.files import MAX_CONFIG_BYTES, printable, read_exactly, safe_open, safe_read

TO_SAFETENSORS = (
    "from torch import load; from safetensors.torch import save_file",
    'state = load("model.pt", map_location="cpu", weights_only=True); save_file({name: t.clone() '
    'for name, t in state.get("model_state_dict", state).items()}, "model.safetensors")',
)
"""The two lines that write a .pt file as safetensors, to be run where the network was trained."""

_INDEX = "model.safetensors.index.json"
_PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl")
_TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_MAX_BYTES = 8 * MAX_PARAMETERS  # of one file; tied tables may be stored twice


@dataclass(frozen=True)
class _Entry:
    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int  # offset in the file, in bytes
    size: int


class Weights:
    """Tensors by name. Each is read when it is taken; the names of taken tensors are remembered.

    Raises ValueError, in one line with a remedy, for a pickle, a missing shard and an invalid file.
    """

    def __init__(self, source: Path):
        self.source = source
        self._entries: dict[str, _Entry] = {}
        self._used: set[str] = set()
        self.files = _files(source)
        for file in self.files:
            for name, entry in _entries(file):
                if name in self._entries:
                    raise ValueError(f"{printable(str(source))} holds {printable(name)} twice")
                self._entries[name] = entry
        if not self._entries:
            raise ValueError(f"{printable(str(source))} holds no weights")

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    @property
    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._entries)

    @property
    def unused(self) -> list[str]:
        """The names that nothing has taken or left out yet."""
        return sorted(set(self._entries) - self._used)

    def shape(self, name: str, family: str) -> tuple[int, ...]:
        """Return a tensor's shape. Raises ValueError if it is missing."""
        if name not in self._entries:
            some = ", ".join(printable(n)[:60] for n in self.names[:3])
            raise ValueError(
                f"{printable(str(self.source))} has no {name}, which every network of the family "
                f"{family} has (its first names: {some}): choose another family with --from"
            )
        return self._entries[name].shape

    def take(self, name: str, shape: Sequence[int] | None = None) -> Tensor:
        """Return a tensor as float32. Raises ValueError if missing, cut off or not of `shape`."""
        entry = self._entries.get(name)
        where = printable(str(self.source))
        if entry is None:
            raise ValueError(f"{where} lacks {name}: save the complete state dict")
        if shape is not None and entry.shape != tuple(shape):
            raise ValueError(
                f"{where}: {name} is {list(entry.shape)}, not {list(shape)}: check the family, and "
                "that all weights are of one network"
            )
        with safe_open(entry.file, _MAX_BYTES, follow_links=True) as stream:
            stream.seek(entry.start)
            content = bytearray(entry.size)
            if stream.readinto(content) != entry.size:
                raise ValueError(f"{where} is cut off in {name}: get it again")
        self._used.add(name)
        return torch.frombuffer(content, dtype=_TYPES[entry.dtype]).view(entry.shape).float()

    def leave_out(self, name: str) -> None:
        """Count a tensor as used without reading it."""
        self._used.add(name)

    def sha256(self) -> str:
        """Return the SHA-256 of the file, or of the concatenated shards, sorted by name."""
        digest = hashlib.sha256()
        for file in self.files:
            with safe_open(file, _MAX_BYTES, follow_links=True) as stream:
                while part := stream.read(1 << 22):
                    digest.update(part)
        return digest.hexdigest()


def _files(source: Path) -> list[Path]:
    """Return the safetensors files of a file or folder."""
    if source.is_file():
        refuse_pickle(source)
        return [source]
    if not source.is_dir():
        raise ValueError(f"{printable(str(source))} does not exist: check the path")
    index = source / _INDEX
    if not index.is_file():
        if (single := source / "model.safetensors").is_file():
            return [single]
        for file in sorted(source.iterdir()):
            refuse_pickle(file)
        raise ValueError(f"{printable(str(source))} has no model.safetensors: save it again")
    try:
        values = parse(safe_read(index, MAX_HEADER_BYTES, follow_links=True), 4 * MAX_TENSORS)
    except ValueError as error:
        raise ValueError(f"{printable(str(index))} cannot be read ({error})") from None
    listed = values.get("weight_map") if isinstance(values, dict) else None
    if not isinstance(listed, dict) or not all(isinstance(v, str) for v in listed.values()):
        raise ValueError(f"{printable(str(index))} has no weight_map: get the file again")
    shards = sorted(set(listed.values()))
    for shard in shards:
        if Path(shard).name != shard or not (source / shard).is_file():
            raise ValueError(
                f"{printable(str(source))} lacks the shard {printable(shard)[:100]}, which its "
                "index lists: get that file as well"
            )
    files = [source / shard for shard in shards]
    held = {name: file.name for file in files for name, _ in _entries(file)}
    if wrong := sorted(name for name, shard in listed.items() if held.get(name) != shard):
        raise ValueError(
            f"{printable(str(source))}: {printable(wrong[0])[:100]} is not in the shard "
            f"{printable(listed[wrong[0]])[:100]}: get the shards of one version"
        )
    return files


def refuse_pickle(file: Path) -> None:
    """Raise ValueError for a file of pickled weights, with the two lines that convert it."""
    if not file.is_file():
        return
    with file.open("rb") as stream:
        start = stream.read(4)
    if file.suffix in _PICKLES or start[:2] in (b"\x80\x02", b"PK"):
        raise ValueError(
            f"{printable(str(file))} is a pickle, which can run any code when it is read: run "
            f"these two lines where it was trained, and give the new file: {TO_SAFETENSORS[0]}; "
            f"{TO_SAFETENSORS[1]}"
        )


def _entries(file: Path) -> list[tuple[str, _Entry]]:
    """Read a file's header and check that its tensors fill the file. Raises ValueError."""
    try:
        with safe_open(file, _MAX_BYTES, follow_links=True) as stream:
            size = stream.seek(0, 2)
            stream.seek(0)
            length = int.from_bytes(read_exactly(stream, 8), "little")
            if length > min(MAX_HEADER_BYTES, size):
                raise ValueError("it is not safetensors")
            header = read_exactly(stream, length)
        if header.count(b'"data_offsets"') > MAX_TENSORS:
            raise ValueError(f"more than {MAX_TENSORS:,} tensors")
        return _checked(file, parse(header, MAX_CONFIG_BYTES), 8 + length, size)
    except (ValueError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueError(
            f"{printable(str(file))} cannot be read ({printable(str(reason))[:200]}): "
            "save it as safetensors again"
        ) from None


def _checked(file: Path, header: Any, begin: int, size: int) -> list[tuple[str, _Entry]]:
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    found = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"{name[:80]!r} needs a dtype, a shape and data_offsets")
        dtype, shape, span = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(dtype, str) or dtype not in _TYPES:
            raise ValueError(f"{name[:80]!r} is of type {dtype!r}: only {', '.join(_TYPES)}")
        if not _are_counts(shape, 1) or not _are_counts(span, 0) or len(span) != 2:
            raise ValueError(f"the shape or data_offsets of {name[:80]!r} are not counts")
        bytes_each = _TYPES[dtype].itemsize
        if span[1] - span[0] != math.prod(shape) * bytes_each:
            raise ValueError(f"the data_offsets of {name[:80]!r} do not match its shape")
        found.append((name, _Entry(file, dtype, tuple(shape), begin + span[0], span[1] - span[0])))
    end = begin
    for _, entry in sorted(found, key=lambda item: item[1].start):
        if entry.start != end:
            raise ValueError("its tensors overlap or leave a gap")
        end += entry.size
    if end != size:
        raise ValueError("its tensors do not fill the file: it is cut off")
    return found


def _are_counts(values: Any, least: int) -> bool:
    return isinstance(values, list) and all(type(n) is int and least <= n < 1 << 40 for n in values)
