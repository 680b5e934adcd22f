"""Describes edits in words for the explorer: which head, which tokens, what changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from app.look.labels import label, labels
from core.record.edits import Donor, Edge, Edits, Patch, PositionEdit, Push, RandomPush
from core.record.record import TranslationRecord

_KINDS = {"encoder": "encoder", "decoder": "decoder", "cross": "cross-attention"}


def listed(
    edits: Edits, record: TranslationRecord, words: Mapping[int, str] = MappingProxyType({})
) -> list[dict[str, str]]:
    """Return the text form and description of each edit, in the order of the text form.

    `words` are labels of target ids; without them, only those of the record are known.
    """
    return [
        {"text": one.to_text(), "label": described(one, record, words)} for one in edits.listed()
    ]


def known_edits(record: TranslationRecord) -> dict[str, Any] | None:
    """Return the edits of a record for the explorer, without the pass before them; None without."""
    if record.edits == Edits():
        return None
    unknown: dict[str, Any] = {"before": 0.0, "change": None, "problems": []}
    return {**unknown, "text": record.edits.to_text(), "edits": listed(record.edits, record)}


def described(
    one: Edits, record: TranslationRecord, words: Mapping[int, str] = MappingProxyType({})
) -> str:
    """Describe one item of `Edits.listed`, with the record's tokens."""
    for heads, what in (
        (one.heads_off, "off"),
        (one.heads_mean, "at its average over sample sentences"),
        (one.heads_uniform, "with equal weights"),
    ):
        for head in heads:
            return f"{_head(*head)} {what}"
    for edge in one.edges:
        where = _head(edge.kind, edge.layer, edge.head)
        what = f"× {edge.factor:g}" if edge.factor else "cut"
        return f"{_edge(edge, record)}: {what}, {where}"
    for row in one.rows:
        query = _token(_queries(record, row.kind), row.query)
        return f"row of {query} drawn by hand, {_head(row.kind, row.layer, row.head)}"
    for t in one.temperatures:
        return f"{_head(t.kind, t.layer, t.head)} at temperature {t.value:g}"
    for copy in one.patches:
        return f"{_state(copy, record)} copied from token {copy.donor_position + 1}"
    for copy in one.head_patches:
        query = _token(_queries(record, copy.kind), copy.query)
        where = _head(copy.kind, copy.layer, copy.head)
        return f"output at {query} copied from token {copy.donor_query + 1}, {where}"
    for push in one.pushes:
        return f"{_state(push, record)} pushed {_direction(push, record, words)}"
    if one.donor is not None:
        return _donor(one.donor)
    for place in one.hidden_source:
        return f"{_token(labels(record.source, 1), place)} hidden"
    for side in ("source", "target"):
        if (edit := getattr(one, f"{side}_positions")) != PositionEdit():
            return _positions(edit, side)
    return "no causal mask" if not one.causal_mask else "no padding mask"


def _state(one: Patch | Push | RandomPush, record: TranslationRecord) -> str:
    what = "state of" if one.side == "encoder" else "state that writes"
    layer = f"{one.side} layer {one.layer}" if one.layer else f"{one.side} embeddings"
    return f"{what} {_token(_queries(record, one.side), one.position)}, {layer},"


def _direction(push: Push | RandomPush, record: TranslationRecord, words: Mapping[int, str]) -> str:
    by = f"by {push.strength:g}".replace("-", "−")
    if isinstance(push, RandomPush):
        return f"{by} in random direction {push.seed}"
    known = {t.id: label(t) for row in (*record.alternatives, record.target_out) for t in row}
    known |= words
    old, new = (f"“{known[id]}”" if id in known else f"token {id}" for id in (push.old, push.new))
    return f"{by} towards {new}" + ("" if push.old is None else f", away from {old}")


def _donor(donor: Donor) -> str:
    count = len(donor.source) - 1
    return f"copies come from a sentence of {count} token{'s' * (count != 1)}"


def _positions(edit: PositionEdit, side: str) -> str:
    if not edit.scale:
        return f"no positions in the {side}"
    changes = [
        (edit.scale != 1, f"× {edit.scale:g}"),
        (edit.stretch != 1, f"stretched × {edit.stretch}"),
        (edit.shift != 0, f"shifted by {edit.shift:+}".replace("-", "−")),
        (bool(edit.order), "in another order"),
    ]
    return f"positions of the {side} " + ", ".join(words for made, words in changes if made)


def _head(kind: str, layer: int | None, head: int | None) -> str:
    where = "every layer" if layer is None else f"layer {layer + 1}"
    which = "every head" if head is None else f"head {head + 1}"
    return f"{_KINDS[kind]}, {where}, {which}"


def _edge(edge: Edge, record: TranslationRecord) -> str:
    keys = labels(record.target_in, 0) if edge.kind == "decoder" else labels(record.source, 1)
    return f"{_token(keys, edge.key)} → {_token(_queries(record, edge.kind), edge.query)}"


def _queries(record: TranslationRecord, kind: str) -> Sequence[str]:
    return labels(record.source if kind == "encoder" else record.target_out, 1)


def _token(words: Sequence[str], place: int | None) -> str:
    if place is None:
        return "every token"
    return f"“{words[place]}”" if place < len(words) else f"token {place + 1}"
