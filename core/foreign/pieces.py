"""SentencePiece models, and the tokenizers of Marian and Pegasus folders, which have two."""

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.files import printable
from core.foreign.family import Options, Vocabulary, check_ids, special_rows
from core.foreign.sources import read, read_json, shown
from core.foreign.words import stand_in
from core.text import load
from core.text.tokenizer import SPECIALS, Tokenizer

MAX_BYTES = 32 << 20  # of one file
MAX_PIECES = 300_000
_UNKNOWN = "<unk>"
_CONTROLS = ("</s>", "<s>", "<pad>", _UNKNOWN)  # read as text here, whatever their type
_SENTINEL = re.compile("▁?<extra_id_[0-9]{1,4}>")  # of mT5
_UNIGRAM, _BPE = 1, 2  # SentencePiece's enums
_NORMAL, _UNKNOWN_TYPE, _CONTROL, _USER_DEFINED, _UNUSED = range(1, 6)

Encode = Callable[[str], Sequence[int]]


@dataclass(frozen=True)
class Model:
    """What splits a text: the scores of the pieces that it finds, and the character map.

    `encode` returns the original's ids of a text by SentencePiece itself, or is None if that cannot
    run here.
    """

    scores: Mapping[str, float]
    charsmap: bytes
    bpe: bool = False
    encode: Encode | None = None


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
    id_of = read_ids(folder / file, size)
    roles = ids | {"unknown": id_of[_UNKNOWN]}
    proto, processor = read_model(folder / f"{side}.spm")

    def encode(text: str) -> list[int]:
        pieces = processor.encode(text, out_type=str)
        return [id_of.get(piece, roles["unknown"]) for piece in pieces]

    def frame(ours: dict[int, int]) -> dict[str, Any]:
        wanted = _first(list(id_of), options.first, folder) if side == "source" else None
        return {"first": [ours[id_of[wanted]]]} if wanted else {}

    pieces = {id: piece for piece, id in id_of.items()}
    return built(folder, side, pieces, roles, model_of(proto, encode), frame)


def model_of(proto: Any, encode: Encode) -> Model:
    """Return what splits a text in a model that `read_model` has checked."""
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == _NORMAL}
    charsmap = proto.normalizer_spec.precompiled_charsmap
    if bpe := proto.trainer_spec.model_type == _BPE:
        scores = ranked(sorted(scores, key=lambda piece: -scores[piece]))
    return Model(scores, charsmap, bpe, encode)


def ranked(pieces: Sequence[str]) -> dict[str, float]:
    """Return scores for the pieces of a BPE model, the best first: only their order counts."""
    return {piece: -0.001 * rank for rank, piece in enumerate(pieces)}


def built(
    folder: Path,
    side: str,
    piece_of: Mapping[int, str],
    roles: dict[str, int],
    model: Model,
    frame: Callable[[dict[int, int]], dict[str, Any]],
) -> Vocabulary:
    """Return a vocabulary of `piece_of`, the pieces by the original's ids from 0 on.

    `roles` are the ids `pad`, `start`, `end` and `unknown`; `frame` returns the tokenizer's frame
    from our id for each of the original's. Raises ValueError if no tokenizer can be built.
    """
    size = len(piece_of)
    check_ids(shown(folder), roles, size)
    rows = special_rows(roles["pad"], roles["start"], roles["end"], roles["unknown"], size)
    pieces = [piece_of[int(id)] for id in rows[4:]]
    scores = {piece: score for piece, score in model.scores.items() if piece not in SPECIALS}
    for role, id in roles.items():
        if piece_of[id] in scores and piece_of[id] not in _CONTROLS:
            raise ValueError(
                f"{shown(folder)}: the {role} id {id} is {printable(piece_of[id])[:40]!r}, a piece "
                f"that its {side} model finds in texts: such a network cannot be converted"
            )
    values: dict[str, Any] = {
        "kind": "pieces",
        "vocabulary": [stand_in(piece) for piece in pieces],
        "scores": [_rounded(scores.get(piece)) for piece in pieces],
        "charsmap": base64.b64encode(model.charsmap).decode(),
        **frame({int(id): ours for ours, id in enumerate(rows)}),
    }
    listed = set(pieces)
    if unlisted := {stand_in(p): _rounded(s) for p, s in scores.items() if p not in listed}:
        values["unlisted"] = unlisted
    if model.bpe:
        values["bpe"] = True
    tokenizer = loaded(values, folder, side)
    changed = sum(map(str.__ne__, values["vocabulary"], pieces))
    note = (
        f"{changed} pieces of the {side} vocabulary contain control characters or line ends: they "
        "are shown by their codes, and no text is encoded as one of them."
    )
    first = tuple(int(rows[id]) for id in tokenizer.first)
    original = with_first(model.encode, first)
    return Vocabulary(tokenizer, rows, original, (note,) if changed else ())


def _rounded(score: float | None) -> float | None:
    """Return the shortest decimal equal to a score in float32; a positive score becomes 0."""
    return None if score is None else min(0.0, float(str(np.float32(score))))


def loaded(values: dict[str, Any], folder: Path, side: str) -> Tokenizer:
    """Return the tokenizer of a JSON form. Raises ValueError, naming the folder."""
    try:
        return load(values)
    except ValueError as error:
        raise ValueError(
            f"{shown(folder)}: the {side} vocabulary cannot be used ({printable(str(error))[:200]})"
        ) from None


def with_first(
    encode: Encode | None, first: tuple[int, ...]
) -> Callable[[str], tuple[int, ...]] | None:
    """Return an encoder with ids in front of every text but an empty one; None stays None."""
    if encode is None:
        return None

    def whole(text: str) -> tuple[int, ...]:
        ids = encode(text)
        return (*first, *ids) if ids else ()

    return whole


def read_ids(file: Path, size: int | None = None) -> dict[str, int]:
    """Return the ids of vocab.json: of `size` pieces if given, from 0 on without gaps."""
    where = shown(file)
    values: dict[str, int] = read_json(Mapping[str, int], file, MAX_BYTES, 4 * MAX_PIECES)
    size = len(values) if size is None else size
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


def read_model(file: Path, bpe: bool = False) -> tuple[Any, Any]:
    """Return SentencePiece's ModelProto and processor, of a BPE model only if `bpe`.

    Raises ValueError if the model is not convertible.
    """
    import sentencepiece
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    where, content = shown(file), read(file, MAX_BYTES)
    try:
        model = sentencepiece_model_pb2.ModelProto.FromString(content)  # ty: ignore
    except (ValueError, DecodeError):
        raise ValueError(f"{where} is not a SentencePiece model: get the file again") from None
    if not 0 < len(model.pieces) <= MAX_PIECES:
        raise ValueError(f"{where} has {len(model.pieces):,} pieces: get the file again")
    if not all(isinstance(piece.piece, str) for piece in model.pieces):  # not UTF-8
        raise ValueError(f"{where} has a piece that is no text: get the file again")
    if model.trainer_spec.model_type not in ((_UNIGRAM, _BPE) if bpe else (_UNIGRAM,)):
        kinds = "unigram or BPE model" if bpe else "unigram model"
        raise ValueError(f"{where} is not a {kinds}: no other kind can be converted")
    known = {_NORMAL, _UNKNOWN_TYPE, _CONTROL}
    known |= {_UNUSED} if model.trainer_spec.model_type == _UNIGRAM else set()
    odd = [piece for piece in model.pieces if piece.type not in known]
    odd = [p for p in odd if p.type != _USER_DEFINED or not _SENTINEL.fullmatch(p.piece)]
    if odd:
        raise ValueError(
            f"{where}: {printable(odd[0].piece)[:40]!r} is a byte, unused or user-defined piece, "
            "which cannot be converted"
        )
    spec = model.normalizer_spec
    usual = spec.add_dummy_prefix, spec.remove_extra_whitespaces, spec.escape_whitespaces
    suffix = model.trainer_spec.treat_whitespace_as_suffix
    if not all(usual) or spec.normalization_rule_tsv or suffix:
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


def _first(pieces: list[str], wanted: str | None, folder: Path) -> str | None:
    """Return the token in front of each source, or None.

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
        return None
    if wanted not in pieces:
        raise ValueError(f"{where} has no piece {printable(wanted)[:40]!r}: check --first")
    return wanted
