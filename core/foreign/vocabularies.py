"""Tokenizers of T5, mBART-50, M2M100, NLLB, BART and FSMT folders.

Each function returns a `Vocabulary` per side, or one for both, whose `rows` cover every row of the
network's table: rows without a piece, such as T5's last 28, are special tokens that no text has.
`ids` are `pad`, `start` and `end` of config.json; `start` may equal `pad` (T5) or `end` (BART,
mBART, M2M100), whose row then occurs twice: its copy at our <bos> must have the classifier bias
NEVER. The tokenizer's `frame` holds the language codes, of which `options` choose the default pair,
and what goes in front of sources and targets. All raise ValueError, in one line, for a missing or
invalid file.
"""

from pathlib import Path

from core.foreign.family import Options, Vocabulary


def sentencepiece(
    family: str, folder: Path, options: Options, size: int, ids: dict[str, int]
) -> Vocabulary:
    """Return the vocabulary of both sides of a `t5`, `mbart` or `m2m100` network (with NLLB)."""
    raise NotImplementedError


def byte_level(folder: Path, size: int, ids: dict[str, int], forced: int | None) -> Vocabulary:
    """Return the vocabulary of both sides of a BART network; `forced` is forced_bos_token_id."""
    raise NotImplementedError


def moses(
    folder: Path, options: Options, sizes: tuple[int, int], ids: dict[str, int]
) -> tuple[Vocabulary, Vocabulary]:
    """Return both sides' vocabularies of an FSMT network."""
    raise NotImplementedError
