"""Find the safetensors files of a network; refuse pickles with the lines that convert them."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, TypedDict

from core.checkpoint.configuration import MAX_PARAMETERS
from core.checkpoint.header import MAX_HEADER_BYTES, MAX_TENSORS
from core.files import printable
from core.foreign.sources import opened, read, read_json, shown

MAX_BYTES = 8 * MAX_PARAMETERS  # of one file; tied tables may be stored twice

TO_SAFETENSORS = (
    "from torch import is_tensor, load; from safetensors.torch import save_file; "
    'net = load("model.pt", map_location="cpu", weights_only=True); '
    "dicts = [net if isinstance(net, dict) else net.state_dict()]",
    "[dicts.extend(v for v in d.values() if isinstance(v, dict)) for d in dicts]; "
    "state = max(dicts, key=lambda d: sum(map(is_tensor, d.values()))); "
    "save_file({n: (t.float() if t.is_floating_point() else t).contiguous().clone() "
    'for n, t in state.items() if is_tensor(t)}, "model.safetensors")',
)
"""The two lines that write a .pt file as safetensors, to be run where the network was trained.

A checkpoint may nest the state dict: it is the dictionary that holds the most tensors.
"""
WHOLE_NETWORK = (
    "a file that load refuses, such as a whole network saved with torch.save(model), needs its "
    "classes: save model.state_dict() where they are defined"
)

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl")
_NOT_WEIGHTS = re.compile("optimizer|scheduler|scaler|rng|random_states|training_args|trainer")
_OTHER_TOOLS = {".h5": "TensorFlow", ".msgpack": "Flax", ".ot": "Rust", ".onnx": "ONNX"}


class _Index(TypedDict):
    weight_map: Mapping[str, str]


def find(source: Path) -> list[Path]:
    """Return the safetensors files of a file or folder. Raises ValueError in one line."""
    if not os.path.lexists(source):
        raise ValueError(f"{shown(source)} does not exist: check the path")
    if not source.is_dir():
        refuse_pickle(source, "give the new file")
        return [source]
    if os.path.lexists(source / _INDEX):
        return _shards(source)
    if not os.path.lexists(source / _SINGLE):
        _refuse_folder(source)
    refuse_pickle(source / _SINGLE, "put the new file into its place, and give the folder")
    return [source / _SINGLE]


def refuse_pickle(file: Path, remedy: str) -> None:
    """Raise ValueError for a file of pickled weights, with the two lines that convert it."""
    with opened(file, MAX_BYTES) as stream:
        start = stream.peek(400)[:400]
    is_pickle = start[:1] == b"\x80" or file.suffix.lower() in _PICKLES
    is_zip = start[:2] == b"PK" and b"data.pkl" in start  # what torch.save writes
    if (is_pickle or is_zip) and start[8:9] != b"{":  # a safetensors header begins there
        _refuse_pickle(file, remedy)


def _refuse_pickle(file: Path, remedy: str) -> NoReturn:
    """Raise ValueError; the lines name the file, unless its name needs quoting."""
    name = file.name if re.fullmatch(r"[\w.=-]+", file.name, re.ASCII) else "model.pt"
    load = TO_SAFETENSORS[0].replace("model.pt", name)
    raise ValueError(
        f"{shown(file)} is a pickle, which can run any code when it is read: run these two lines "
        f"where it was trained, in its folder, and {remedy}: {load}; {TO_SAFETENSORS[1]} "
        f"({WHOLE_NETWORK})"
    )


def _refuse_folder(folder: Path) -> NoReturn:
    """Raise ValueError for a folder without model.safetensors: say what it holds instead."""
    where, names = shown(folder), sorted(entry.name for entry in os.scandir(folder))
    pickles = [
        name
        for name in names
        if name.lower().endswith(_PICKLES) and not _NOT_WEIGHTS.search(name.lower())
    ]
    if "pytorch_model.bin.index.json" in names:
        raise ValueError(
            f"{where} holds shards of pickles: where it was trained, load it with transformers' "
            "from_pretrained, save it with save_pretrained, and give the new folder"
        )
    if pickles:
        first = min(pickles, key=lambda name: (name != "pytorch_model.bin", "model" not in name))
        refuse_pickle(folder / first, f"write {_SINGLE} into this folder and give the folder")
    if any(name.startswith("adapter_") for name in names):
        raise ValueError(
            f"{where} holds an adapter only: merge it into its network with peft's "
            "merge_and_unload, save that, and give the new folder"
        )
    if others := [*pickles, *(name for name in names if name.endswith(".safetensors"))]:
        raise ValueError(
            f"{where} has no {_SINGLE}, but {printable(others[0])[:100]}: if that is the network, "
            f"rename it to {_SINGLE}"
        )
    steps = [name for name in names if re.fullmatch("checkpoint-[0-9]{1,9}", name)]
    if steps:
        last = max(steps, key=lambda name: int(name.partition("-")[2]))
        raise ValueError(f"{where} holds checkpoints of a training: give one, such as {last}")
    for name in names:
        if tool := _OTHER_TOOLS.get(Path(name).suffix):
            raise ValueError(
                f"{where} holds weights for {tool} only: load them with transformers, save them "
                "with save_pretrained, and give the new folder"
            )
    if any(name.endswith((".yml", ".yaml")) for name in names):
        read(folder / _SINGLE, 1)  # which says that the folder is in Marian's own format
    raise ValueError(f"{where} has no {_SINGLE}: save the network again with save_pretrained")


def _shards(folder: Path) -> list[Path]:
    """Return the shards that the index lists. Raises ValueError if the index is wrong."""
    index = folder / _INDEX
    listed = read_json(_Index, index, MAX_HEADER_BYTES, 4 * MAX_TENSORS)["weight_map"]
    shards = sorted(set(listed.values()))
    for shard in shards:
        if Path(shard).name != shard or len(shard) > 200 or not os.path.lexists(folder / shard):
            raise ValueError(
                f"{shown(folder)} lacks the shard {printable(shard)[:100]}, which its index lists: "
                "get that file as well"
            )
    if not shards:
        raise ValueError(f"{shown(index)} lists no weights: get the file again")
    return [folder / shard for shard in shards]


def listed_elsewhere(folder: Path, held: dict[str, str]) -> None:
    """Raise ValueError if a tensor is not in the shard that the index lists.

    `held` is the file that holds each tensor, by the tensor's name.
    """
    if not os.path.lexists(folder / _INDEX):
        return
    index = read_json(_Index, folder / _INDEX, MAX_HEADER_BYTES, 4 * MAX_TENSORS)
    listed = index["weight_map"]
    if wrong := sorted(name for name, shard in listed.items() if held.get(name) != shard):
        raise ValueError(
            f"{shown(folder)}: {printable(wrong[0])[:100]} is not in the shard "
            f"{printable(listed[wrong[0]])[:100]}: get the shards of one version"
        )
