"""Makes checkpoint folders as a stranger might: a good one, and ways to change it."""

import json
import os
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of

from core.checkpoint.configuration import own_sha256
from core.checkpoint.folder import save
from core.config import ModelConfig
from core.files import sha256
from core.model.build import build
from core.text.subwords import SubwordTokenizer
from tests import small

WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
Change = Callable[[Path], object]


def good(folder: Path, architecture: str = "scratch") -> Path:
    """A whole checkpoint of a tiny network that was never trained, and writes what it likes."""
    tokenizer = SubwordTokenizer.train([text for pair in small.SENTENCES for text in pair], 60, 1)
    config = ModelConfig(
        source_vocab_size=tokenizer.size,
        target_vocab_size=tokenizer.size,
        d_model=8,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dim_feedforward=8,
        max_length=20,
        share_embeddings=True,
        tie_classifier=True,
    )
    torch.manual_seed(0)
    model = build(architecture, config).eval()
    metrics = {
        "curve": [{"step": 1, "train_loss": 2.0, "val_loss": 2.5}],
        "final": {"multi30k": {"sacrebleu": 30.5, "bits_per_char": 0.5, "signature": "x"}},
    }
    training = {
        "recipe": "smoke",
        "corpora": {"multi30k": 1},
        "before": ["python -m core.train --recipe smoke"],
        "longest": [12, 11],
        "config": {"seed": 1, "steps": 4, "max_pair_tokens": 100},
    }
    save(folder, model, architecture, ("de", "en"), (tokenizer,) * 2, training, metrics)
    return folder


def sign(folder: Path, **of_config: Any) -> None:
    """Make config.json agree with the files and with itself again, as only an attacker would."""
    config = {**json.loads((folder / "config.json").read_text()), **of_config}
    for name, entry in config["files"].items():
        content = (folder / name).read_bytes()
        entry |= {"bytes": len(content), "sha256": sha256(content)}
    write(folder, config)


def write(folder: Path, config: Any) -> None:
    """Write config.json with the hash that it must carry, whatever it holds."""
    if isinstance(config, dict):
        config["sha256"] = own_sha256(config)
    (folder / "config.json").write_text(json.dumps(config))  # NaN too


def config(**changes: Any) -> Change:
    """Other values at the top of config.json; ... takes one away."""

    def change(folder: Path) -> None:
        values = json.loads((folder / "config.json").read_text()) | changes
        write(folder, {name: value for name, value in values.items() if value is not ...})

    return change


def inside(part: str, **changes: Any) -> Change:
    """The same inside an object of config.json."""

    def change(folder: Path) -> None:
        values = json.loads((folder / "config.json").read_text())
        values[part] = {k: v for k, v in (values[part] | changes).items() if v is not ...}
        write(folder, values)

    return change


def network(**changes: Any) -> Change:
    """Other sizes of the network."""
    return inside("model", **changes)


def entry(name: str = WEIGHTS, **changes: Any) -> Change:
    """Other words about a file in config.json."""

    def change(folder: Path) -> None:
        values = json.loads((folder / "config.json").read_text())
        found = values["files"][name] | changes
        values["files"][name] = {k: v for k, v in found.items() if v is not ...}
        write(folder, values)

    return change


def renamed(new: str, old: str = WEIGHTS) -> Change:
    """A file under another name in config.json."""

    def change(folder: Path) -> None:
        values = json.loads((folder / "config.json").read_text())
        values["files"][new] = values["files"].pop(old)
        values["tokenizers"] = {
            side: new if name == old else name for side, name in values["tokenizers"].items()
        }
        write(folder, values)

    return change


def unsigned(*path: str, value: Any) -> Change:
    """Another value in config.json, under the old hash."""

    def change(folder: Path) -> None:
        values = json.loads((folder / "config.json").read_text())
        inner = values
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value
        (folder / "config.json").write_text(json.dumps(values))

    return change


def content(name: str, text: bytes | str) -> Change:
    """A file that holds something else, and config.json that agrees."""

    def change(folder: Path) -> None:
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        if name != "config.json":
            sign(folder)

    return change


def edited(name: str, edit: Callable[[bytes], bytes], signed: bool = False) -> Change:
    """A file with other bytes; unless `signed`, config.json still tells of the old ones."""

    def change(folder: Path) -> None:
        (folder / name).write_bytes(edit((folder / name).read_bytes()))
        if signed:
            sign(folder)

    return change


def flipped(name: str, at: float) -> Change:
    """One bit of a file, so far into it."""

    def flip(content: bytes) -> bytes:
        found = bytearray(content)
        found[int(at * (len(found) - 1))] ^= 1
        return bytes(found)

    return edited(name, flip)


def tokens(edit: Callable[[dict[str, Any]], Any]) -> Change:
    """Another tokenizer.json, made from the good one's values, and config.json that agrees."""

    def change(folder: Path) -> None:
        values = json.loads((folder / TOKENIZER).read_text())
        given = edit(values)
        (folder / TOKENIZER).write_text(json.dumps(values if given is None else given))
        sign(folder)

    return change


def piece(text: str) -> Change:
    """A token of the vocabulary that no merge needs is another text."""

    def edit(values: dict[str, Any]) -> None:
        vocabulary = values["vocabulary"]
        del vocabulary[(old := spare(values))[0]]
        vocabulary[text] = old[1]

    return tokens(edit)


def spare(values: dict[str, Any]) -> tuple[str, int]:
    """A token that no merge needs, which is the one that the last merge makes, and its id."""
    made = "".join(values["merges"].pop())
    return made, values["vocabulary"][made]


def numbered(id: Any) -> Change:
    """The same token has another id."""

    def edit(values: dict[str, Any]) -> None:
        values["vocabulary"][spare(values)[0]] = id

    return tokens(edit)


def words(**changes: Any) -> Change:
    """A tokenizer of words in place of the subwords, with as many ids."""

    def edit(values: dict[str, Any]) -> dict[str, Any]:
        given = [f"w{i}" for i in range(len(values["vocabulary"]) - 4)]
        good = {"kind": "words", "language": "de", "lower": False, "vocabulary": given}
        return {k: v for k, v in (good | changes).items() if v is not ...}

    return tokens(edit)


def tensors(edit: Callable[[dict[str, torch.Tensor]], object], **metadata: str) -> Change:
    """Other weights, and config.json that agrees."""

    def change(folder: Path) -> None:
        found = tensors_of((folder / WEIGHTS).read_bytes())
        edit(found)
        (folder / WEIGHTS).write_bytes(bytes_of(found, metadata))
        sign(folder)

    return change


def value(number: float, name: str = "encoder_norm.bias") -> Change:
    """One weight is another number."""

    def edit(found: dict[str, torch.Tensor]) -> None:
        found[name].view(-1)[0] = number

    return tensors(edit)


def header(edit: Callable[[dict[str, Any]], Any], more: bytes = b"") -> Change:
    """Another header of the weights before the same bytes, and config.json that agrees."""

    def change(folder: Path) -> None:
        raw = (folder / WEIGHTS).read_bytes()
        length = int.from_bytes(raw[:8], "little")
        values = json.loads(raw[8 : 8 + length])
        given = edit(values)
        text = given if isinstance(given, bytes) else json.dumps(given or values).encode()
        (folder / WEIGHTS).write_bytes(
            struct.pack("<Q", len(text)) + text + raw[8 + length :] + more
        )
        sign(folder)

    return change


def of(name: str, **changes: Any) -> Change:
    """Another entry of one tensor in the header."""

    def edit(values: dict[str, Any]) -> None:
        values[name] = {k: v for k, v in (values[name] | changes).items() if v is not ...}

    return header(edit)


def length(number: int) -> Change:
    """Another length in front of the header."""
    return edited(WEIGHTS, lambda raw: struct.pack("<Q", number) + raw[8:], signed=True)


def gone(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def replaced(name: str, put: Callable[[Path], object]) -> Change:
    """Something else than a file under a file's name; the file itself stands beside the folder."""

    def change(folder: Path) -> None:
        file = folder / name
        shutil.move(file, folder.parent / f"moved-{name}")
        put(file)

    return change


def a_link(file: Path) -> None:
    file.symlink_to(file.parent.parent / f"moved-{file.name}")


def a_socket(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        here = Path.cwd()
        os.chdir(file.parent)  # the name of a socket may not be long
        try:
            opened.bind(file.name)
        finally:
            os.chdir(here)


NOT_FILES: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "socket": a_socket,
    "link": a_link,
    "link to nothing": lambda file: file.symlink_to("nowhere"),
    "link to itself": lambda file: file.symlink_to(file.name),
    "link to a device": lambda file: file.symlink_to("/dev/zero"),
}


def sparse(name: str, size: int, told: bool) -> Change:
    """A file with a hole, which takes no room; config.json tells its size or not."""

    def change(folder: Path) -> None:
        with (folder / name).open("r+b") as stream:
            stream.truncate(size)
        if told:
            entry(name, bytes=size)(folder)

    return change


def both(*changes: Change) -> Change:
    def change(folder: Path) -> None:
        for each in changes:
            each(folder)

    return change
