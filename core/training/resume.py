"""Save and restore the state of a run as safetensors and JSON, without pickle.

The state holds weights, optimiser moments, every process's random state and notes: the run's
identity, progress and schedule. The folder also keeps the last snapshots of the weights, whose mean
often translates better than any of them. Each file holds its own SHA-256; files of earlier versions
have none and are read unverified.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.optim import Optimizer

from core.files import safe_read, sha256, write_atomic
from core.training.distributed import Processes
from core.typed import typed

_STATE = "state.safetensors"
_DIGEST = "sha256"
_MAX_BYTES = 8 << 30  # 300 million weights, the limit, and their two moments take 3.6 GB
_BLANK = "0" * 64  # placeholder for the digest while it is computed

# Errors that reading a damaged or foreign file can raise.
_BROKEN = (
    *(SafetensorError, ValueError, KeyError, IndexError, TypeError, AttributeError),
    *(RuntimeError, OverflowError),
)

Notes = dict[str, dict[str, Any]]


class _Step(TypedDict):
    step: int


@dataclass(frozen=True)
class _SavedNotes:
    identity: Mapping[str, Any]
    progress: _Step
    schedule: Mapping[str, Any]


def exists(folder: Path) -> bool:
    """Return whether the folder holds a saved state."""
    return (folder / _STATE).is_file()


def write(
    folder: Path, model: nn.Module, optimizer: Optimizer, notes: Notes, processes: Processes
) -> None:
    """Write the state as a single file, so that its parts are always consistent.

    All processes must call this function; rank 0 writes.
    """
    tensors = {"random.cpu": processes.gather(torch.get_rng_state())}
    if torch.cuda.is_available():
        tensors["random.cuda"] = processes.gather(torch.cuda.get_rng_state())
    if not processes.first:
        return
    for name, p in model.named_parameters():
        tensors[f"model.{name}"] = p.detach().cpu().contiguous()
    for i, moments in optimizer.state_dict()["state"].items():
        for key, value in moments.items():
            tensors[f"optimizer.{i}.{key}"] = value.detach().cpu().contiguous()
    header = {name: json.dumps(values) for name, values in notes.items()}
    write_atomic(folder / _STATE, _serialise(tensors, header))


def read(
    folder: Path,
    model: nn.Module,
    optimizer: Optimizer,
    identity: dict[str, Any],
    processes: Processes,
) -> Notes:
    """Restore the saved state and return the notes.

    Deletes partially written files, and snapshots of later steps, which belong to an unsaved part
    of the run. Raises ValueError for a missing or damaged state, or one with another identity.
    """
    file = folder / _STATE
    if processes.first and not exists(folder):
        raise ValueError(
            f"{file} does not exist: there is nothing to resume, start without --resume"
        )
    raw = processes.broadcast(
        safe_read(file, _MAX_BYTES, follow_links=True) if processes.first else b""
    )
    try:
        tensors, header = _deserialise(raw)
        parsed = {name: json.loads(text) for name, text in header.items()}
        notes = vars(typed(_SavedNotes, parsed, "notes"))
        saved, step = notes["identity"], notes["progress"]["step"]
    except _BROKEN as error:
        raise _damaged(file, str(error)) from None
    current = json.loads(json.dumps(identity))
    if other := [n for n in {**saved, **current} if saved.get(n) != current.get(n)]:
        raise ValueError(
            f"{file} belongs to another run: its {other[0]} is {saved.get(other[0])}, not "
            f"{current.get(other[0])}: resume with the same settings, or start in another folder"
        )
    names = [f"model.{name}" for name, _ in model.named_parameters()]
    if missing := [name for name in [*names, "random.cpu"] if name not in tensors]:
        raise _damaged(file, f"it lacks {missing[0]}")
    if processes.first:
        for snapshot in _snapshots(folder):
            if snapshot.name > _snapshot_name(step):
                snapshot.unlink()
        for part in folder.glob("*.part"):
            part.unlink()
    try:
        _restore(model, optimizer, tensors, processes.rank)
    except _BROKEN as error:
        raise _damaged(file, str(error)) from None
    return notes


def _restore(model: nn.Module, optimizer: Optimizer, tensors: dict[str, Tensor], rank: int) -> None:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(tensors[f"model.{name}"])
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        part, _, rest = name.partition(".")
        if part == "optimizer":
            i, key = rest.split(".")
            moments.setdefault(int(i), {})[key] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": moments, "param_groups": groups})
    # Clone: torch crashes on a random state that is a view of another tensor.
    torch.set_rng_state(tensors["random.cpu"][rank].clone())
    if torch.cuda.is_available() and "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"][rank].clone())


def write_snapshot(folder: Path, model: nn.Module, step: int, keep: int) -> None:
    """Save a snapshot of the weights and delete all but the last `keep` snapshots."""
    weights = {name: p.detach().cpu().contiguous() for name, p in model.named_parameters()}
    write_atomic(folder / _snapshot_name(step), _serialise(weights, {}))
    for old in _snapshots(folder)[:-keep]:
        old.unlink()


def average_snapshots(folder: Path) -> dict[str, Tensor] | None:
    """Return the mean of the snapshots, accumulated in float64, or None if there are none.

    Raises ValueError for a damaged snapshot.
    """
    files = _snapshots(folder)
    total: dict[str, Tensor] = {}
    for file in files:
        try:
            weights, header = _deserialise(safe_read(file, _MAX_BYTES, follow_links=True))
            if header:
                raise ValueError(f"unknown notes: {', '.join(sorted(header))[:80]}")
            for name, tensor in weights.items():
                total[name] = total.get(name, 0) + tensor.double() / len(files)
        except _BROKEN as error:
            raise ValueError(
                f"{file} is damaged ({error}): delete it to average the remaining snapshots"
            ) from None
    return {name: tensor.float() for name, tensor in total.items()} or None


def _damaged(file: Path, what: str) -> ValueError:
    return ValueError(
        f"{file} is damaged or from another version ({what}): delete it and start again"
    )


def _serialise(tensors: dict[str, Tensor], header: dict[str, str]) -> bytes:
    """Serialise to safetensors with the file's own SHA-256 in the header's metadata."""
    content = save(tensors, {**header, _DIGEST: _BLANK})
    return content.replace(_BLANK.encode(), sha256(content).encode(), 1)


def _deserialise(content: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the metadata. Raises ValueError or SafetensorError if damaged."""
    tensors = load(content)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    notes = header.get("__metadata__", {})
    digest = notes.pop(_DIGEST, None)
    if digest is not None and digest != sha256(
        content.replace(digest.encode(), _BLANK.encode(), 1)
    ):
        raise ValueError("its content does not match its SHA-256")
    return tensors, notes


def _snapshot_name(step: int) -> str:
    return f"snapshot-{step:08d}.safetensors"


def _snapshots(folder: Path) -> list[Path]:
    return sorted(folder.glob("snapshot-*.safetensors"))
