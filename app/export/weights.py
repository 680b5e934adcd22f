"""Pack a checkpoint folder into one weights file for the offline page.

Layout: uint32 little-endian header length, JSON header padded with spaces, tensors. Every tensor
starts at a multiple of 16 bytes, so app/components/network/weights.js reads it in place.
"""

from __future__ import annotations

import copy
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load as from_bytes

from app.components.explorer.payload import lens_facts
from app.export.words import word_rules
from core.checkpoint.configuration import Configuration, read_configuration
from core.checkpoint.folder import read_card
from core.checkpoint.head_means import FILE as MEANS_FILE
from core.checkpoint.head_means import HeadMeans, load_means
from core.checkpoint.lens import FILE as LENS_FILE
from core.checkpoint.lens import Lens, load_lens
from core.checkpoint.validate import read_verified
from core.data.corpora import LANGUAGES
from core.kinds import KINDS, SIDES
from core.model.baseline import scratch_names
from core.text.function_words import function_words
from core.text.tokenizer import SPECIALS

_ALIGNMENT = 16  # bytes: a 128-bit vector
_LEAST_SCALE = np.float16(2**-24)  # the smallest positive float16


def pack(folder: Path, int8: bool = False) -> bytes:
    """Return the weights file of a verified checkpoint folder, with head means and lens if any.

    A baseline's weights get the names of the scratch model. Raises CheckpointError, and ValueError
    for a tokenizer that the page cannot run.
    """
    config = read_configuration(folder)
    files, card = read_verified(folder, config), read_card(folder)
    header = {
        "about": {
            "name": folder.name,
            "source_language": LANGUAGES[config.source_language],
            "target_language": LANGUAGES[config.target_language],
            "parameters": config.parameters,
            "weights_sha256": config.weights.sha256,
        },
        "imported": card.imported and {**card.imported.to_json(), "credit": card.imported.credit},
        "config": config.model.to_json(),
        "tokenizer": tokenizer_of_page(files.target_tokenizer),
        "function_words": _function_words(config.target_language),
    }
    if files.source_tokenizer is not files.target_tokenizer:
        header["source_tokenizer"] = tokenizer_of_page(files.source_tokenizer)
    means = load_means(folder, config.model) if (folder / MEANS_FILE).exists() else None
    lens = load_lens(card) if (folder / LENS_FILE).exists() else None
    return packed(header, _tensors(config, files.weights), means, int8, lens)


def packed(
    header: dict[str, Any],
    weights: Mapping[str, NDArray],
    means: HeadMeans | None = None,
    int8: bool = False,
    lens: Lens | None = None,
) -> bytes:
    """Return the weights file of `weights`, which are named as in the scratch model.

    Weights are stored as float16. With `int8`, a matrix is stored as one signed byte per weight and
    one float16 scale per row. `about.rounding` is the largest rounding error of a weight. The
    matrices of a lens are always stored so, as `lens.encoder` and `lens.decoder`, [layer from the
    embeddings × d_model, d_model]: row r of layer l is row l · d_model + r.
    """
    tensors = _Tensors()
    for name, weight in sorted(weights.items()):  # safetensors reads tensors in a random order
        tensors.add_weight(name, weight, int8)
    header = copy.deepcopy(header) | {"means": None, "lens": None}
    header["about"] |= {"precision": "int8" if int8 else "fp16", "rounding": tensors.rounding}
    if means is not None:
        header["means"] = {"sentences": means.sentences, "corpus": means.corpus}
        for kind in KINDS:
            parts = [part.numpy() for (of, _), part in sorted(means.parts.items()) if of == kind]
            tensors.add(f"means.{kind}", "f32", np.stack(parts))
    if lens is not None:
        header["lens"] = lens_facts(lens.about)
        for side in SIDES:
            tensors.add_quantised(f"lens.{side}", np.concatenate(lens.jacobians[side]))
    header["tensors"] = tensors.entries
    content = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    content += b" " * (-(4 + len(content)) % _ALIGNMENT)
    return len(content).to_bytes(4, "little") + content + b"".join(tensors.blobs)


DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_:{|}~"
"""Of base 85: those of b85encode, with "," and ":" for "<" and "`", so no text ends an element."""


def as_text(content: bytes) -> str:
    """Return bytes as text for a page: deflated, then five letters for each four bytes.

    Base 64 would take a fifteenth more. The first letter is the number of bytes that were added at
    the end to fill a block.
    """
    deflated = zlib.compress(content)
    added = -len(deflated) % 4
    words_N = np.frombuffer(deflated + bytes(added), "<u4")
    powers_5 = 85 ** np.arange(4, -1, -1)
    letters = np.frombuffer(DIGITS, np.uint8)
    parts = np.array_split(words_N, max(1, len(words_N) >> 20))  # to limit memory
    texts = (letters[part[:, None] // powers_5 % 85].tobytes() for part in parts)
    return f"{added}{b''.join(texts).decode()}"


class _Tensors:
    """Tensors laid out one after the other, with offsets from the end of the header."""

    def __init__(self) -> None:
        self.entries: dict[str, dict[str, Any]] = {}
        self.blobs: list[bytes] = []
        self.size = 0
        self.rounding = 0.0

    def add_weight(self, name: str, weight: NDArray, int8: bool) -> None:
        if int8 and weight.ndim == 2:
            stored = self.add_quantised(name, weight)
        else:
            stored = weight.astype(np.float16)
            self.add(name, "f16", stored)
        change = np.abs(stored.astype(np.float32) - weight.astype(np.float32))
        self.rounding = max(self.rounding, float(change.max()))

    def add_quantised(self, name: str, weight: NDArray) -> NDArray:
        values, scales = quantised(weight)
        self.add(name, "i8", values)
        self.entries[name]["scales"] = self._place(scales)
        return dequantised(values, scales)

    def add(self, name: str, kind: str, values: NDArray) -> None:
        self.entries[name] = {"shape": values.shape, "kind": kind, "at": self._place(values)}

    def _place(self, values: NDArray) -> int:
        content = values.astype(values.dtype.newbyteorder("<")).tobytes()
        at = self.size
        self.blobs.append(content + bytes(-len(content) % _ALIGNMENT))
        self.size += len(self.blobs[-1])
        return at


def quantised(weight_RC: NDArray) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Quantise each row: return integers from -127 to 127, and one float16 scale for each row."""
    largest_R1 = np.abs(weight_RC).max(1, keepdims=True).astype(np.float32)
    scale_R1 = np.maximum((largest_R1 / 127).astype(np.float16), _LEAST_SCALE)
    values_RC = np.rint(weight_RC.astype(np.float32) / scale_R1.astype(np.float32))
    return values_RC.clip(-127, 127).astype(np.int8), scale_R1[:, 0]


def dequantised(values_RC: NDArray[np.int8], scale_R: NDArray[np.float16]) -> NDArray[np.float32]:
    """Return the weights that the page computes with; the products are exact in float32."""
    return values_RC.astype(np.float32) * scale_R.astype(np.float32)[:, None]


def _function_words(language: str) -> list[str]:
    """Return the function words of a language, in lower case; none if there is no list."""
    try:
        return sorted(function_words(language))
    except ValueError:
        return []


def _tensors(config: Configuration, content: bytes) -> dict[str, NDArray]:
    """Return the weights by their names in the scratch model."""
    found: dict[str, NDArray] = {}
    for name, weight in from_bytes(content).items():
        names = scratch_names(name) if config.architecture == "baseline" else (name,)
        found |= dict(zip(names, np.split(weight, len(names)), strict=True))
    return found


def tokenizer_of_page(stored: dict[str, Any]) -> dict[str, Any]:
    """Return a tokenizer's pieces by id, its merges as pairs of ids, and its other fields.

    Raises ValueError for a tokenizer that the page cannot run.
    """
    ids = stored["vocabulary"]
    rest = {name: stored[name] for name in stored if name not in ("vocabulary", "merges")}
    if stored["kind"] == "moses":
        raise ValueError(
            "the page cannot split texts by Moses' rules, as this network needs: choose another "
            "checkpoint, or save a record as a page"
        )
    if stored["kind"] == "words":
        return {"pieces": [*SPECIALS, *ids], "rules": word_rules(stored["language"]), **rest}
    if stored["kind"] == "pieces":
        return {"pieces": [*SPECIALS, *ids], **rest}
    merges = [[ids[first], ids[second]] for first, second in stored["merges"]]
    return {"pieces": sorted(ids, key=ids.__getitem__), "merges": merges, **rest}
