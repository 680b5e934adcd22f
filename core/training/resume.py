"""The state of a stopped run, without pickle: safetensors and JSON in one folder.

Written: weights, optimiser moments, torch's random state, and where the run stood; beside it the
last few snapshots of the weights, whose mean often translates better than any of them.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.optim import Optimizer

from core.files import write_atomic

_STATE = "state.safetensors"


def write(folder: Path, model: nn.Module, optimizer: Optimizer, progress: dict[str, Any]) -> None:
    """One file, so that weights, moments, random state and position can never disagree."""
    tensors = {
        f"model.{name}": p.detach().cpu().contiguous() for name, p in model.named_parameters()
    }
    for i, moments in optimizer.state_dict()["state"].items():
        for key, value in moments.items():
            tensors[f"optimizer.{i}.{key}"] = value.detach().cpu().contiguous()
    tensors["random.cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    write_atomic(folder / _STATE, save(tensors, {"progress": json.dumps(progress)}))


def read(folder: Path, model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Restore all that `write` wrote; returns the progress. Raises ValueError if there is none."""
    file = folder / _STATE
    if not file.is_file():
        raise ValueError(
            f"{file} does not exist: there is nothing to resume, start without --resume"
        )
    raw = file.read_bytes()
    tensors = load(raw)
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
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
    torch.set_rng_state(tensors["random.cpu"])
    if torch.cuda.is_available() and "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"])
    return json.loads(header["__metadata__"]["progress"])


def write_snapshot(folder: Path, model: nn.Module, step: int, keep: int) -> None:
    """Keep the weights of this step, and delete all but the last `keep` snapshots."""
    weights = {name: p.detach().cpu().contiguous() for name, p in model.named_parameters()}
    write_atomic(folder / f"snapshot-{step:08d}.safetensors", save(weights))
    for old in _snapshots(folder)[:-keep]:
        old.unlink()


def average_snapshots(folder: Path) -> dict[str, Tensor]:
    """The mean of the kept snapshots, parameter by parameter, summed in float64."""
    files = _snapshots(folder)
    total: dict[str, Tensor] = {}
    for file in files:
        for name, tensor in load(file.read_bytes()).items():
            total[name] = total.get(name, 0) + tensor.double() / len(files)
    return {name: tensor.float() for name, tensor in total.items()}


def _snapshots(folder: Path) -> list[Path]:
    return sorted(folder.glob("snapshot-*.safetensors"))
