"""Tokenizers of Marian and Pegasus folders: two SentencePiece models and a vocabulary of ids."""

import base64
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from core.files import printable
from core.foreign.family import Options, Vocabulary, check_ids, special_rows
from core.foreign.sources import read, read_json, shown
from core.foreign.words import stand_in
from core.text import load
from core.text.tokenizer import SPECIALS

_MAX_BYTES = 32 << 20  # of one file
_MAX_PIECES = 300_000
_UNKNOWN = "<unk>"
_CONTROLS = ("</s>", "<s>", "<pad>", _UNKNOWN)  # read as text here, whatever their type
_UNIGRAM, _NORMAL, _UNKNOWN_TYPE, _CONTROL, _UNUSED = 1, 1, 2, 3, 5  # SentencePiece's enums


def read_tokenizers(
    folder: Path,
    options: Options,
    sizes: tuple[int, int],
    ids: dict[str, int],
    shared: bool,
) -> tuple[Vocabulary, Vocabulary]:
    """Return both sides' vocabularies. `ids` are `pad`, `start` and `end`.

    Raises ValueError for a missing or invalid file, and for a vocabulary of the wrong length.
    """
    if not (folder / "source.spm").is_file() and (folder / "spiece.model").is_file():
        raise ValueError(
            f"{shown(folder)} has one spiece.model, as networks that summarise have: a "
            "translator needs source.spm, target.spm and vocab.json"
        )
    files = ("vocab.json", "vocab.json" if shared else "target_vocab.json")
    sides = ("source", "target")
    # A source does not begin with the start token: its own vocabulary has no row for it.
    of_source = ids if shared else ids | {"start": ids["pad"]}
    source, target = (
        _vocabulary(folder, side, file, size, of_side, options)
        for side, file, size, of_side in zip(sides, files, sizes, (of_source, ids), strict=True)
    )
    return source, target


def _vocabulary(
    folder: Path, side: str, file: str, size: int, ids: dict[str, int], options: Options
) -> Vocabulary:
    id_of = _read_ids(folder / file, size)
    roles = ids | {"unknown": id_of[_UNKNOWN]}
    check_ids(shown(folder), roles, size)
    unknown = roles["unknown"]
    rows = special_rows(roles["pad"], roles["start"], roles["end"], unknown, size)
    piece_of = {id: piece for piece, id in id_of.items()}
    pieces = [piece_of[int(id)] for id in rows[4:]]
    model, processor = _read_model(folder / f"{side}.spm")
    scores = {
        piece.piece: piece.score
        for piece in model.pieces
        if piece.type == _NORMAL and piece.piece not in SPECIALS
    }
    for role, id in roles.items():
        if piece_of[id] in scores and piece_of[id] not in _CONTROLS:
            raise ValueError(
                f"{shown(folder)}: the {role} id {id} is {printable(piece_of[id])[:40]!r}, a piece "
                f"that {side}.spm finds in texts: such a network cannot be converted"
            )
    values: dict[str, Any] = {
        "kind": "pieces",
        "vocabulary": [stand_in(piece) for piece in pieces],
        "scores": [_rounded(scores.get(piece)) for piece in pieces],
        "charsmap": base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode(),
    }
    listed = set(pieces)
    if unlisted := {stand_in(p): _rounded(s) for p, s in scores.items() if p not in listed}:
        values["unlisted"] = unlisted
    if side == "source" and (first := _first(pieces, options.first, folder)):
        values["first"] = first
    try:
        tokenizer = load(values)
    except ValueError as error:
        raise ValueError(
            f"{shown(folder)}: the {side} vocabulary cannot be used ({printable(str(error))[:200]})"
        ) from None
    first_ids = tuple(int(rows[id]) for id in values.get("first", ()))
    changed = sum(map(str.__ne__, values["vocabulary"], pieces))
    note = (
        f"{changed} pieces of the {side} vocabulary contain control characters or line ends: they "
        "are shown by their codes, and no text is encoded as one of them."
    )
    original = _original(processor, id_of, unknown, first_ids)
    return Vocabulary(tokenizer, rows, original, (note,) if changed else ())


def _rounded(score: float | None) -> float | None:
    """Return the shortest decimal equal to a score in float32; a positive score becomes 0."""
    return None if score is None else min(0.0, float(str(np.float32(score))))


def _original(
    processor: Any, id_of: dict[str, int], unknown: int, first: tuple[int, ...]
) -> Callable[[str], tuple[int, ...]]:
    """Return a function that encodes by SentencePiece and vocab.json, as MarianTokenizer does."""

    def encode(text: str) -> tuple[int, ...]:
        pieces = processor.encode(text, out_type=str)
        return (*first, *(id_of.get(piece, unknown) for piece in pieces)) if pieces else ()

    return encode


def _read_ids(file: Path, size: int) -> dict[str, int]:
    where = shown(file)
    values: dict[str, int] = read_json(Mapping[str, int], file, _MAX_BYTES, 4 * _MAX_PIECES)
    if len(values) != size:
        raise ValueError(
            f"{where} has {len(values):,} pieces, but the network's table has {size:,} rows: get "
            "both from one version"
        )
    if gaps := sorted(set(range(size)) - set(values.values())):
        raise ValueError(
            f"{where} has gaps: no piece has id {gaps[0]}, so the ids of others are shared or "
            "out of range; get the file again"
        )
    if _UNKNOWN not in values:
        raise ValueError(f"{where} has no {_UNKNOWN}: get the file again")
    return values


def _read_model(file: Path) -> tuple[Any, Any]:
    """Return SentencePiece's ModelProto and processor. Raises ValueError if not convertible."""
    import sentencepiece
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    where, content = shown(file), read(file, _MAX_BYTES)
    try:
        model = sentencepiece_model_pb2.ModelProto.FromString(content)  # ty: ignore
    except (ValueError, DecodeError):
        raise ValueError(f"{where} is not a SentencePiece model: get the file again") from None
    if not 0 < len(model.pieces) <= _MAX_PIECES:
        raise ValueError(f"{where} has {len(model.pieces):,} pieces: get the file again")
    if model.trainer_spec.model_type != _UNIGRAM:
        raise ValueError(f"{where} is not a unigram model: no other kind can be converted")
    known = {_NORMAL, _UNKNOWN_TYPE, _CONTROL, _UNUSED}
    if odd := [piece for piece in model.pieces if piece.type not in known]:
        raise ValueError(
            f"{where}: {printable(odd[0].piece)[:40]!r} is a byte or user-defined piece, which "
            "cannot be converted"
        )
    spec = model.normalizer_spec
    usual = spec.add_dummy_prefix, spec.remove_extra_whitespaces, spec.escape_whitespaces
    if not all(usual) or spec.normalization_rule_tsv:
        raise ValueError(f"{where} treats white space or characters in a way not supported here")
    if model.denormalizer_spec.precompiled_charsmap:
        raise ValueError(f"{where} changes the characters of its output, which is not supported")
    if not all(math.isfinite(piece.score) for piece in model.pieces):
        raise ValueError(f"{where} has a piece whose score is not a number: get the file again")
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    except (RuntimeError, ValueError, OSError) as error:
        raise ValueError(
            f"{where} is damaged: SentencePiece cannot load it ({printable(str(error))[:200]}): "
            "get the file again"
        ) from None
    return model, processor


def _first(pieces: list[str], wanted: str | None, folder: Path) -> list[int]:
    """Return our id of the token in front of each source, or [].

    Raises ValueError if a token is needed but not given, and for an unknown one.
    """
    codes = [piece for piece in pieces if re.fullmatch(">>.+<<", piece)]
    where = shown(folder)
    if wanted is None:
        if codes:
            raise ValueError(
                f"{where} translates into {len(codes)} languages: name one with --first, such as "
                f"--first '{printable(codes[0])[:40]}'"
            )
        return []
    if wanted not in pieces:
        raise ValueError(f"{where} has no piece {printable(wanted)[:40]!r}: check --first")
    return [len(SPECIALS) + pieces.index(wanted)]
