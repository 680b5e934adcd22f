"""Read tokenizer.json, the format of the tokenizers library, without running it.

Accepted are the settings of SentencePiece models and of byte-level BPE; anything else, which could
split texts otherwise, is refused in one line.
"""

from base64 import b64decode
from binascii import Error
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from core.files import printable
from core.foreign.pieces import MAX_BYTES, MAX_PIECES, Model, ranked
from core.foreign.sources import read_json, shown
from core.text.pieces import merges_of

_ITEMS = 12 * MAX_PIECES
_USUAL: tuple[dict[str, Any], ...] = (
    {"type": "Strip"},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}},
    {"type": "WhitespaceSplit"},
    {"type": "Metaspace", "prepend_scheme": "always"},
    {"type": "Metaspace", "add_prefix_space": True},
)
"""The steps of a SentencePiece model, beside its character map; of each, what must be set."""
_BYTE_LEVEL: tuple[dict[str, Any], ...] = (
    {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
    {"type": "ByteLevel", "add_prefix_space": False},
)


class _Added(TypedDict):
    id: int
    content: str
    special: bool


class _Model(TypedDict):
    type: Literal["Unigram", "BPE"]
    vocab: Any
    merges: NotRequired[tuple[Any, ...]]
    byte_fallback: NotRequired[bool]


class _File(TypedDict):
    added_tokens: tuple[_Added, ...]
    normalizer: Any
    pre_tokenizer: Any
    model: _Model


@dataclass(frozen=True)
class LibraryTokenizer:
    """The pieces by id, `special` ones apart; `merges` are those of byte-level BPE."""

    pieces: dict[int, str]
    special: dict[int, str]
    model: Model
    merges: tuple[tuple[str, str], ...] = ()


def read_library_tokenizer(file: Path, byte_level: bool = False) -> LibraryTokenizer:
    """Read a file of a SentencePiece model, or of byte-level BPE. Raises ValueError."""
    values: _File = read_json(_File, file, 2 * MAX_BYTES, _ITEMS)
    where, model = shown(file), values["model"]
    special = {one["id"]: one["content"] for one in values["added_tokens"]}
    if texts := [one["content"] for one in values["added_tokens"] if not one["special"]]:
        raise ValueError(
            f"{where} adds {printable(texts[0])[:40]!r}, which is cut out of texts first: such "
            "a tokenizer cannot be converted"
        )
    charsmap = b""
    steps = [*_steps(values["normalizer"]), *_steps(values["pre_tokenizer"])]
    for step in steps:
        if not byte_level and step.get("type") == "Precompiled" and not charsmap:
            charsmap = _decoded(step.get("precompiled_charsmap"), where)
        elif not any(
            one.items() <= step.items() for one in (_BYTE_LEVEL if byte_level else _USUAL)
        ):
            raise ValueError(
                f"{where} has the step {printable(repr(step))[:80]}: such a tokenizer cannot be "
                "converted"
            )
    if model.get("byte_fallback") or (byte_level and (model["type"] != "BPE" or len(steps) != 1)):
        raise ValueError(f"{where} treats bytes in a way that cannot be converted")
    if model["type"] == "Unigram":
        listed = _scored(model["vocab"], where)
        pieces, scores = dict(enumerate(p for p, _ in listed)), dict(listed)
    else:
        pieces = _by_id(model["vocab"], where)
        # In a trained model, a piece with a lower id was made first.
        scores = ranked([piece for _, piece in sorted(pieces.items())])
    for piece in special.values():
        scores.pop(piece, None)
    merges = tuple(pair_of(merge, where) for merge in model.get("merges", ()))
    found = Model(scores, charsmap, model["type"] == "BPE")
    if found.bpe and not byte_level:
        _check_merges(merges, scores, where)
        merges = ()
    return LibraryTokenizer(pieces, special, found, merges)


def _steps(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the steps of a normalizer or pre-tokenizer, which may be a sequence."""
    inner = None
    if isinstance(value, dict) and value.get("type") == "Sequence":
        inner = value.get("normalizers", value.get("pretokenizers"))
    for step in inner if isinstance(inner, list) else [value]:
        if step is not None:
            yield step if isinstance(step, dict) else {"type": step}


def _decoded(text: Any, where: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Error, TypeError, ValueError):
        raise ValueError(f"{where}: its character map is not base64") from None


def _scored(vocab: Any, where: str) -> list[tuple[str, float]]:
    try:
        listed = [(str(piece), float(score)) for piece, score in vocab]
    except (TypeError, ValueError):
        listed = []
    if not listed or len({piece for piece, _ in listed}) < len(listed):
        raise ValueError(f"{where}: its pieces are not different texts with a score each")
    return listed


def _by_id(vocab: Any, where: str) -> dict[int, str]:
    values = vocab if isinstance(vocab, dict) else {}
    pieces = {id: piece for piece, id in values.items() if type(id) is int}
    if not pieces or len(pieces) < len(values):
        raise ValueError(f"{where}: its pieces do not have an id of their own each")
    return pieces


def pair_of(merge: Any, where: str) -> tuple[str, str]:
    """Return a merge: two texts, or, in older files, one with a space between them."""
    match merge.split(" ") if isinstance(merge, str) else merge:
        case [str(first), str(second)]:
            return first, second
    raise ValueError(f"{where}: {printable(repr(merge))[:40]} is not a merge of two pieces")


def _check_merges(
    merges: tuple[tuple[str, str], ...], scores: dict[str, float], where: str
) -> None:
    """Raise ValueError unless the merges are all that make a piece, in the order of the pieces."""
    ours, made = merges_of(scores), [first + second for first, second in merges]
    known = [piece for piece in made if piece in scores]
    ordered = known == sorted(known, key=lambda piece: -scores[piece])
    if not ordered or not set(ours) <= set(merges) or len(ours) < len(known):
        raise ValueError(
            f"{where} merges pieces in another order than SentencePiece: such a tokenizer cannot "
            "be converted"
        )
