"""Serialises the attention snapshots of a training run for the training component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.components.explorer.payload import check_size
from app.components.tokens import sent
from core.analysis import appearance
from core.kinds import KINDS
from core.record.attention_snapshots import AttentionSnapshots
from core.record.record import RecordToken
from core.text.tokenizer import SPECIALS, UNK

_BOUNDARY = "\u2581"  # starts a word in a vocabulary of subwords

NAMES = {
    "encoder": {
        "previous token": ("previous token", "weight on the token before the one being read"),
        appearance.NEXT: ("next token", "weight on the token after the one being read"),
        "itself": ("itself", "weight on the token being read"),
        "<eos>": ("<eos>", "weight on <eos>, the last source token"),
    },
    "decoder": {
        "itself": (
            "token just fed in",
            "weight on the token before the one being produced, from the third row on",
        ),
        "previous token": ("2 back", "weight on the token two places before the one produced"),
        "<bos>": ("<bos>", "weight on <bos>, the first token fed in"),
    },
    "cross": {
        "<eos>": ("<eos>", "weight on <eos>, the last source token"),
        appearance.ONE_TO_ONE: (
            "one to one",
            "share of rows that attend most to a source token that no other row attends most to",
        ),
        appearance.SETTLED: (
            "as at the end",
            "share of rows whose largest weight is on the same token as at the last point",
        ),
        appearance.ALIGNING: ("aligning", ""),
    },
}
"""The short name and the meaning of each measure or mark, by kind, in the order shown."""


@dataclass(frozen=True)
class SmallCurves:
    """The curves of a small run: its quality, measures of the cross-attention, their marks.

    `compared` holds the name, loss and quality of another run at the same points, or is None.
    """

    quality: dict[str, Any]
    measures: tuple[appearance.Measure, ...]
    marks: tuple[appearance.Mark, ...]
    compared: dict[str, Any] | None = None


def _tokens(pieces: Sequence[str], subwords: bool) -> list[RecordToken]:
    """Return the tokens of one side, whose ids are unknown; `subwords`: marks start words."""
    return [
        RecordToken(
            -1,
            piece,
            piece.lstrip(_BOUNDARY) if subwords else piece,
            not subwords or piece.startswith(_BOUNDARY) or piece in SPECIALS,
            piece in SPECIALS,
            piece == SPECIALS[UNK],
        )
        for piece in pieces
    ]


def _text(tokens: Sequence[RecordToken]) -> str:
    """Return a sentence as text, without special tokens."""
    shown = [t for t in tokens if not t.special]
    return "".join(f" {t.text}" if t.starts_word else t.text for t in shown).strip()


def payload(
    snapshots: AttentionSnapshots,
    *,
    name: str,
    languages: tuple[str, str],
    opened: Mapping[str, Any],
    small: SmallCurves | None = None,
) -> dict[str, Any]:
    """Return snapshots in the form that the component's JavaScript reads: `Training` in types.js.

    Args:
        snapshots: Maps, losses and measures of all points.
        name: The network's name.
        languages: The source's and the target's language.
        opened: What to show first: `sentence` (an index), `step` (a training step; None: `start`,
            by default the last), `kind`, `layer`, `head` and further parameters of an explorer.
        small: What replaces BLEU and the cross-attention's measures in a run of core.small.

    Returns JSON-serialisable values and, at the top level, little-endian `bytes` in C order.
    `maps_<kind>_<i>` holds the unmasked weights of sentence i as float16 [point, layer, head,
    cell]. `measure_<kind>_<n>` holds the n-th measure of a kind as float32 [point, layer, head].
    `mask_<kind>_<i>` has one bit per cell.

    Raises ValueError if there is nothing to show, or too much for one message.
    """
    by_kind, marks = appearance.measures(snapshots), appearance.marks(snapshots)
    if small:
        by_kind["cross"] = (by_kind["cross"][0], *small.measures)
        marks = (*(mark for mark in marks if mark.kind != "cross"), *small.marks)
    sides = [
        {side: getattr(s, side) for side in ("source", "target_in", "target_out")}
        for s in snapshots.sentences
    ]
    # Sources show the kind of vocabulary: a network in training may write nothing but <eos>.
    subwords = any(_BOUNDARY in piece for one in sides for piece in one["source"])
    data: dict[str, Any] = {
        "name": name,
        "languages": list(languages),
        "heads": int(snapshots.entropy["cross"].shape[2]),
        "layers": {kind: int(snapshots.entropy[kind].shape[1]) for kind in KINDS},
        "steps": snapshots.steps.tolist(),
        "loss": [round(float(loss), 4) for loss in snapshots.loss],
        "quality": small.quality if small else _bleu(snapshots),
        "compared": small and small.compared,
        "live": small is not None,
        "sentences": [
            _sentence({side: _tokens(pieces, subwords) for side, pieces in one.items()})
            for one in sides
        ],
        "measures": {kind: [_measure(kind, m) for m in _ordered(kind, by_kind)] for kind in KINDS},
        "marks": [_mark(mark) for mark in marks],
        "opened": dict(opened),
    }
    for kind in KINDS:
        for n, measure in enumerate(_ordered(kind, by_kind)):
            data[f"measure_{kind}_{n}"] = measure.values.astype("<f4").tobytes()
        for i, maps in enumerate(snapshots.maps[kind]):
            mask = snapshots.mask(kind, i)
            data[f"mask_{kind}_{i}"] = np.packbits(mask).tobytes()
            data[f"maps_{kind}_{i}"] = maps[..., mask].astype("<f2").tobytes()
    check_size(data, "the snapshots", ": train with fewer points or shorter sentences")
    return data


def _ordered(
    kind: str, by_kind: Mapping[Any, tuple[appearance.Measure, ...]]
) -> list[appearance.Measure]:
    """Return a kind's measures: entropy, then in the order of NAMES."""
    named = {measure.name: measure for measure in by_kind[kind]}
    others = [name for name in named if name not in NAMES[kind] and name != "entropy"]
    known = [name for name in NAMES[kind] if name in named]
    return [named[name] for name in ("entropy", *known, *others)]


def _sentence(sides: Mapping[str, Sequence[RecordToken]]) -> dict[str, Any]:
    return {
        **{side: [sent(token) for token in tokens] for side, tokens in sides.items()},
        "source_text": _text(sides["source"]),
        "translation": _text(sides["target_out"]),
    }


def _measure(kind: str, measure: appearance.Measure) -> dict[str, Any]:
    short, meaning = _named(kind, measure.name)
    return {
        "name": measure.name,
        "short": short,
        "meaning": meaning,
        "chance": measure.chance,
        "level": None if measure.level is None else measure.level.round(4).tolist(),
    }


def _named(kind: str, name: str) -> tuple[str, str]:
    """Return the short name and the meaning of a measure."""
    if name == "entropy":
        return name, "entropy of a row as a share of a uniform row's"
    return NAMES[kind].get(name) or (name, "weight on the right source tokens, on unseen examples")


def _bleu(snapshots: AttentionSnapshots) -> dict[str, Any]:
    return {
        "title": "BLEU",
        "meaning": "BLEU of the greedy translations of the validation sample, 0 to 100.",
        "values": [round(float(bleu), 2) for bleu in snapshots.bleu],
        "share": False,
    }


def _mark(mark: appearance.Mark) -> dict[str, Any]:
    """Return a mark; `measure` is the measure on whose curve it is drawn."""
    return {
        "kind": mark.kind,
        "measure": appearance.ONE_TO_ONE if mark.role == appearance.ALIGNING else mark.role,
        "short": _named(mark.kind, mark.role)[0],
        "layer": mark.layer,
        "head": mark.head,
        "point": mark.point,
        "last": round(mark.last, 4),
        "diagonal": None if mark.diagonal is None else round(mark.diagonal, 4),
    }
