"""Everything that is asked of a folder's files before a network is built, the cheapest first.

torch is not imported and no weight is read until config.json, the tokenizers and the header of
the weights have passed; see `read_parts` for the order.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.checkpoint.configuration import FILE, Configuration, Listed
from core.checkpoint.errors import about
from core.checkpoint.header import largest_file, read_header
from core.checkpoint.strict_json import parse
from core.data.corpora import LANGUAGES
from core.files import committed_file, read_exactly, safe_open, safe_read, sha256
from core.text.vocabulary import check

_TOKEN_BYTES = 128  # in a tokenizer's file: a shipped one has 30 a token, with its merges
_TOKEN_ITEMS = 8
_FURTHER = 1 << 16  # bytes of such a file beside its tokens


@dataclass(frozen=True)
class Parts:
    """The files of a folder that passed: the whole safetensors file, and the tokenizers' values.

    Where both sides have one tokenizer it is one object.
    """

    weights: bytes
    source_tokenizer: dict[str, Any]
    target_tokenizer: dict[str, Any]


def read_parts(folder: Path, config: Configuration) -> Parts:
    """Read and verify the files that a checked config.json lists. Raises CheckpointError.

    Of a tokenizer the size, the SHA-256 and the vocabulary, then of the weights the size, the
    header and the SHA-256: what can be known without reading the weights is known before.
    """
    source, target = _tokenizers(folder, config)
    return Parts(_weights(folder, config), source, target)


def _tokenizers(folder: Path, config: Configuration) -> tuple[dict[str, Any], dict[str, Any]]:
    model = config.model
    sizes = model.source_vocab_size, model.target_vocab_size
    languages = config.source_language, config.target_language
    read_values: dict[str, dict[str, Any]] = {}
    for listed, size, language in zip(config.tokenizers, sizes, languages, strict=True):
        file = committed_file(folder, listed.name, FILE)
        with about(file):
            if listed.name not in read_values:
                read_values[listed.name] = _values(file, listed, size)
            values = read_values[listed.name]
            if (found := check(values)) != size:
                raise ValueError(f"a vocabulary of {found:,} tokens, and {size:,} in config.json")
            if values.get("language", language) != language:
                raise ValueError(f"its language is {values['language']!r}, not {language!r}")
            if values["kind"] == "words" and language not in LANGUAGES:
                known = " and ".join(LANGUAGES.values())
                raise ValueError(f"words are split by the rules of {known} alone, not {language}")
    source, target = (read_values[listed.name] for listed in config.tokenizers)
    return source, target


def _values(file: Path, listed: Listed, vocabulary: int) -> dict[str, Any]:
    content = safe_read(file, _TOKEN_BYTES * vocabulary + _FURTHER, listed.bytes)
    _check_sha256(content, listed)
    return parse(content, _TOKEN_ITEMS * vocabulary + 1_000)


def _weights(folder: Path, config: Configuration) -> bytes:
    listed, file = config.weights, committed_file(folder, config.weights.name, FILE)
    with about(file), safe_open(file, largest_file(config.shapes), listed.bytes) as stream:
        header, _ = read_header(stream, listed.bytes, config.shapes)
        stream.seek(0)
        content = read_exactly(stream, listed.bytes)
        if not content.startswith(header):
            raise ValueError("it changed while it was read")
        _check_sha256(content, listed)
    return content


def _check_sha256(content: bytes, listed: Listed) -> None:
    if sha256(content) != listed.sha256:
        raise ValueError("its SHA-256 differs from the one in config.json")
