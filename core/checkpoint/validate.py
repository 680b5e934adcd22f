"""Verify a checkpoint's files before building the network, cheapest checks first.

No weights are read until config.json, the tokenizers and the header of the weights have passed;
torch is not needed.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.checkpoint.configuration import FILE, Configuration, ListedFile
from core.checkpoint.errors import checkpoint_errors
from core.checkpoint.header import max_file_bytes, read_header
from core.checkpoint.strict_json import parse
from core.files import committed_file, read_exactly, safe_open, safe_read, sha256
from core.text.tokenizer import Frame
from core.text.vocabulary import check

_TOKEN_BYTES = 128  # per token of a tokenizer file; the shipped ones have 30, including merges
_TOKEN_ITEMS = 8
_EXTRA_BYTES = 1 << 20  # for the rest of a tokenizer file, such as SentencePiece's character map


@dataclass(frozen=True)
class VerifiedFiles:
    """The safetensors file's bytes and the tokenizers' values (one object if they are shared)."""

    weights: bytes
    source_tokenizer: dict[str, Any]
    target_tokenizer: dict[str, Any]


def read_verified(folder: Path, config: Configuration) -> VerifiedFiles:
    """Read and verify the files that config.json lists. Raises CheckpointError.

    Check the size, SHA-256 and vocabulary of the tokenizers, then the size, header and SHA-256 of
    the weights.
    """
    source, target = _tokenizers(folder, config)
    return VerifiedFiles(_weights(folder, config), source, target)


def read_frames(folder: Path, config: Configuration) -> tuple[Frame, Frame]:
    """Return what both tokenizers put around a text, without weights. Raises CheckpointError."""
    source, target = _tokenizers(folder, config)
    return Frame.from_json(source), Frame.from_json(target)


def _tokenizers(folder: Path, config: Configuration) -> tuple[dict[str, Any], dict[str, Any]]:
    model = config.model
    sizes = model.source_vocab_size, model.target_vocab_size
    languages = config.source_language, config.target_language
    read_values: dict[str, dict[str, Any]] = {}
    for listed, size, language in zip(config.tokenizers, sizes, languages, strict=True):
        file = committed_file(folder, listed.name, FILE)
        with checkpoint_errors(file):
            if listed.name not in read_values:
                read_values[listed.name] = _values(file, listed, size)
            values = read_values[listed.name]
            if (tokens := check(values)) != size:
                raise ValueError(f"a vocabulary of {tokens:,} tokens, but {size:,} in config.json")
            if values.get("language", language) != language:
                raise ValueError(f"its language is {values['language']!r}, not {language!r}")
    source, target = (read_values[listed.name] for listed in config.tokenizers)
    if target is not source and target.get("first"):
        with checkpoint_errors(folder / config.tokenizers[1].name):
            raise ValueError("only the source's tokenizer may put ids in front: remove `first`")
    return source, target


def _values(file: Path, listed: ListedFile, vocabulary: int) -> dict[str, Any]:
    content = safe_read(file, _TOKEN_BYTES * vocabulary + _EXTRA_BYTES, listed.bytes)
    _check_sha256(content, listed)
    return parse(content, _TOKEN_ITEMS * vocabulary + 1_000)


def _weights(folder: Path, config: Configuration) -> bytes:
    listed, file = config.weights, committed_file(folder, config.weights.name, FILE)
    limit = max_file_bytes(config.shapes)
    with checkpoint_errors(file), safe_open(file, limit, listed.bytes) as stream:
        header, _ = read_header(stream, listed.bytes, config.shapes)
        stream.seek(0)
        content = read_exactly(stream, listed.bytes)
        if not content.startswith(header):
            raise ValueError("it changed during reading")
        _check_sha256(content, listed)
    return content


def _check_sha256(content: bytes, listed: ListedFile) -> None:
    if sha256(content) != listed.sha256:
        raise ValueError("its SHA-256 differs from the one in config.json")
