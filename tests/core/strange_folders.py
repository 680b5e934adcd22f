"""Checkpoint folders for tests: a good one, and functions that damage or rewrite it."""

import json
import os
import shutil
import socket
import struct
from collections.abc import Callable
from functools import reduce
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

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
Change = Callable[[Path], object]


def good(folder: Path, architecture: str = "scratch") -> Path:
    """Save a valid checkpoint of a tiny untrained network."""
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


# --- config.json


def read(folder: Path) -> dict[str, Any]:
    return json.loads((folder / CONFIG).read_text())


def write(folder: Path, config: Any) -> None:
    """Write config.json with a valid hash of its own content."""
    if isinstance(config, dict):
        config["sha256"] = own_sha256(config)
    (folder / CONFIG).write_text(json.dumps(config))  # writes NaN, too


def sign(folder: Path, **of_config: Any) -> None:
    """Change config.json, and make its sizes and hashes match the files, as an attacker would."""
    config = read(folder) | of_config
    for name, entry in config["files"].items():
        content = (folder / name).read_bytes()
        entry |= {"bytes": len(content), "sha256": sha256(content)}
    write(folder, config)


def updated(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return the values with changes; `name=...` removes a name."""
    return {name: value for name, value in (values | changes).items() if value is not ...}


def config(**changes: Any) -> Change:
    """Change top-level values of config.json."""
    return lambda folder: write(folder, updated(read(folder), changes))


def inside(*path: str, **changes: Any) -> Change:
    """Change values of an object inside config.json."""

    def change(folder: Path) -> None:
        values = read(folder)
        owner = reduce(dict.__getitem__, path[:-1], values)
        owner[path[-1]] = updated(owner[path[-1]], changes)
        write(folder, values)

    return change


def network(**changes: Any) -> Change:
    return inside("model", **changes)


def entry(name: str = WEIGHTS, **changes: Any) -> Change:
    """Change a file's entry in config.json."""
    return inside("files", name, **changes)


def renamed(new: str, old: str = WEIGHTS) -> Change:
    """List a file under another name in config.json."""

    def change(folder: Path) -> None:
        values = read(folder)
        values["files"][new] = values["files"].pop(old)
        sides = values["tokenizers"]
        values["tokenizers"] = {s: new if name == old else name for s, name in sides.items()}
        write(folder, values)

    return change


def unsigned(*path: str, value: Any) -> Change:
    """Change a value of config.json without updating its hash."""

    def change(folder: Path) -> None:
        values = read(folder)
        reduce(dict.__getitem__, path[:-1], values)[path[-1]] = value
        (folder / CONFIG).write_text(json.dumps(values))

    return change


# --- the bytes of a file


def edited(name: str, edit: Callable[[bytes], bytes], signed: bool = False) -> Change:
    """Change a file's bytes; if `signed`, update config.json."""

    def change(folder: Path) -> None:
        (folder / name).write_bytes(edit((folder / name).read_bytes()))
        if signed:
            sign(folder)

    return change


def content(name: str, raw: bytes) -> Change:
    """Replace a file's content; unless that file is config.json, update config.json."""
    return edited(name, lambda _: raw, signed=name != CONFIG)


def flipped(name: str, at: float) -> Change:
    """Flip a bit at this fraction of a file."""

    def flip(raw: bytes) -> bytes:
        i = int(at * (len(raw) - 1))
        return raw[:i] + bytes([raw[i] ^ 1]) + raw[i + 1 :]

    return edited(name, flip)


def removed(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def sparse(name: str, size: int, listed: bool) -> Change:
    """Extend a file with a hole; if `listed`, config.json has the new size."""

    def change(folder: Path) -> None:
        os.truncate(folder / name, size)
        if listed:
            entry(name, bytes=size)(folder)

    return change


def replaced(name: str, put: Callable[[Path], object]) -> Change:
    """Move a file next to the folder, and let `put` create something else in its place."""

    def change(folder: Path) -> None:
        shutil.move(folder / name, folder.parent / f"moved-{name}")
        put(folder / name)

    return change


def a_socket(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        here = Path.cwd()
        os.chdir(file.parent)  # the path of a socket is limited to about 100 bytes
        try:
            opened.bind(file.name)
        finally:
            os.chdir(here)


NOT_FILES: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "socket": a_socket,
    "link": lambda file: file.symlink_to(file.parent.parent / f"moved-{file.name}"),
    "link to nothing": lambda file: file.symlink_to("nowhere"),
    "link to itself": lambda file: file.symlink_to(file.name),
    "link to a device": lambda file: file.symlink_to("/dev/zero"),
}


def both(*changes: Change) -> Change:
    return lambda folder: [change(folder) for change in changes]


# --- tokenizer.json, with config.json updated


def tokens(edit: Callable[[dict[str, Any]], Any]) -> Change:
    """Edit the tokenizer's values: `edit` changes them in place or returns others."""

    def change(raw: bytes) -> bytes:
        values = json.loads(raw)
        given = edit(values)
        return json.dumps(values if given is None else given).encode()

    return edited(TOKENIZER, change, signed=True)


def spare(values: dict[str, Any]) -> tuple[str, int]:
    """Remove the last merge; return its token, which no other merge needs, and its id."""
    made = "".join(values["merges"].pop())
    return made, values["vocabulary"][made]


def piece(text: str) -> Change:
    """Replace the text of a token."""

    def edit(values: dict[str, Any]) -> None:
        old, id = spare(values)
        del values["vocabulary"][old]
        values["vocabulary"][text] = id

    return tokens(edit)


def numbered(id: Any) -> Change:
    """Replace the id of a token."""
    return tokens(lambda values: values["vocabulary"].update({spare(values)[0]: id}))


def words(**changes: Any) -> Change:
    """Replace the tokenizer by a word tokenizer of the same size."""

    def edit(values: dict[str, Any]) -> dict[str, Any]:
        vocabulary = [f"w{i}" for i in range(len(values["vocabulary"]) - 4)]
        base = {"kind": "words", "language": "de", "lower": False, "vocabulary": vocabulary}
        return updated(base, changes)

    return tokens(edit)


def pieces(**changes: Any) -> Change:
    """Replace the tokenizer by a `pieces` tokenizer of the same size."""

    def edit(values: dict[str, Any]) -> dict[str, Any]:
        vocabulary = [f"▁{i}" for i in range(len(values["vocabulary"]) - 4)]
        scores = [-float(i) if i % 2 else None for i in range(len(vocabulary))]
        base = {"kind": "pieces", "vocabulary": vocabulary, "scores": scores, "charsmap": ""}
        return updated(base, changes)

    return tokens(edit)


def own_target(**changes: Any) -> Change:
    """Give the target a separate tokenizer file with these changes, and update config.json."""

    def change(folder: Path) -> None:
        values = updated(json.loads((folder / TOKENIZER).read_bytes()), changes)
        raw = json.dumps(values).encode()
        (folder / "target.json").write_bytes(raw)
        config = json.loads((folder / CONFIG).read_bytes())
        config["tokenizers"]["target"] = "target.json"
        config["files"]["target.json"] = {"bytes": len(raw), "sha256": sha256(raw)}
        config["sha256"] = own_sha256(config)
        (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")

    return change


# --- model.safetensors, with config.json updated


def tensors(edit: Callable[[dict[str, torch.Tensor]], object]) -> Change:
    """Edit the weights in place."""

    def change(raw: bytes) -> bytes:
        values = tensors_of(raw)
        edit(values)
        return bytes_of(values)

    return edited(WEIGHTS, change, signed=True)


def value(number: float, name: str = "encoder_norm.bias") -> Change:
    """Replace the first value of a tensor."""
    return tensors(lambda values: values[name].view(-1)[0].fill_(number))


def header(edit: Callable[[dict[str, Any]], Any], more: bytes = b"") -> Change:
    """Let `edit` change the header or return new values or bytes; append `more` to the file."""

    def change(raw: bytes) -> bytes:
        end = 8 + int.from_bytes(raw[:8], "little")
        values = json.loads(raw[8:end])
        given = edit(values)
        text = given if isinstance(given, bytes) else json.dumps(given or values).encode()
        return struct.pack("<Q", len(text)) + text + raw[end:] + more

    return edited(WEIGHTS, change, signed=True)


def of(name: str, **changes: Any) -> Change:
    """Change a tensor's entry in the header."""
    return header(lambda values: values | {name: updated(values[name], changes)})


def length(number: int) -> Change:
    """Replace the length prefix of the header."""
    return edited(WEIGHTS, lambda raw: struct.pack("<Q", number) + raw[8:], signed=True)
