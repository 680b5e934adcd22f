"""Copy a state: a state or a head's output of one sentence's pass goes into that of another."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import core
from app.components.answers import send_answer
from app.components.explorer.payload import pack
from app.components.states import states
from app.look.labels import label
from app.state import address, results, session, waiting
from app.views.states.readings import (
    count_states,
    first_difference,
    pairs,
    side_of,
    tokens_of,
    words,
)
from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.kinds import KINDS, SIDES, Side
from core.record.edits import Donor, Edits, HeadPatch, Patch
from core.record.record import TranslationRecord

KEY = "copied_states"
WAYS = ("restore", "damage")
_COPY = re.compile(rf"copy\.({'|'.join(SIDES)})\.(\d{{1,4}})\.(\d{{1,4}})\.(\d{{1,4}})", re.ASCII)
_HEAD = re.compile(rf"copyhead\.({'|'.join(KINDS)})\.(\d{{1,4}})\.(\d{{1,4}})", re.ASCII)


@waiting.fragment
def show_copying(
    card: Card, first: TranslationRecord, second: TranslationRecord, decode: DecodeConfig
) -> None:
    """Draw both grids, the translation after the chosen copy, and the shares of all copies."""
    address.initialise("copy_way", WAYS, WAYS[0])
    address.initialise_text("copied", "")
    way, text = session.get("copy_way"), session.get("copied")
    address.write({"copy_way": None if way == WAYS[0] else way, "copied": text}, KEY + "_link")
    named = [("A", first), ("B", second)]
    (from_name, donor), (to_name, receiver) = named if way == WAYS[0] else named[::-1]
    side: Side = "decoder" if text.startswith("copy.decoder") else "encoder"
    data: dict[str, Any] = {
        "mode": "copy",
        "key": KEY,
        "about": f"{donor.id} {receiver.id} {side}",
        "turn": session.get("copy_turn") or 0,
        "way": way,
        "side": side,
        "layers": count_states(card, side),
        "donor": {"name": from_name, "translation": donor.translation},
        "receiver": {"name": to_name, "translation": receiver.translation},
        "copy": None,
        "after": None,
        "after_text": None,
        "measure": None,
        "problem": "",
    }
    for name, record in (("donor", donor), ("receiver", receiver)):
        data[name] |= side_of(card, record, side)
    try:
        data["pairs"] = [(a, b) for b, a in pairs(receiver, donor, side)]
    except ValueError as error:  # one line
        data |= {"pairs": [], "problem": str(error)}
    data |= _copied(card, donor, receiver, side, data["pairs"], text, decode)
    states(data, key=KEY, on_chosen=_choose)
    pictures = _pictures(card, first, second, way, side)
    send_answer(KEY, "pictures", pack({"explorer": KEY, "about": data["about"], **pictures}))


def _choose() -> None:
    """Take over what the visitor chose in the component."""
    chosen = (session.get(KEY) or {}).get("chosen") or {}
    text = str(chosen.get("copy") or "")[:80]
    if not text and chosen.get("side") == "decoder":
        text = "copy.decoder"  # the page chooses the cell
    session.put("copied", text)
    session.put("copy_way", WAYS[chosen.get("way") == WAYS[1]])
    session.put("copy_turn", chosen.get("turn"))


def _copied(
    card: Card,
    donor: TranslationRecord,
    receiver: TranslationRecord,
    side: Side,
    together: list[tuple[int, int]],
    text: str,
    decode: DecodeConfig,
) -> dict[str, Any]:
    """Return the chosen copy, or one that shows the difference, and what it does."""
    chosen = _read(card, text, donor, receiver, side)
    if chosen is None:
        t = first_difference(donor, receiver)
        different = (
            (a, b)
            for a, b in together
            if (a == t if side == "decoder" else donor.source[a].id != receiver.source[b].id)
        )
        if (pair := next(different, None)) is None:
            return {}
        chosen = {"layer": count_states(card, side) // 2, "from": pair[0], "to": pair[1]}
    try:
        edits = _edits(chosen, donor, receiver, side)
        own = results.token_ids(receiver.target_out)
        forced = results.inspect(card, receiver.source_text, edits=edits, target_ids=own)
        after = results.inspect(card, receiver.source_text, edits=edits, decode=decode)
        measure = _measure(card, donor, receiver, forced)
    except ValueError as error:  # one line
        return {"problem": str(error)}
    return {
        "copy": chosen,
        "after": words(card, forced, side),
        "after_text": after.translation,
        "measure": measure,
    }


def _read(
    card: Card, text: str, donor: TranslationRecord, receiver: TranslationRecord, side: Side
) -> dict[str, Any] | None:
    """Return the copy that a text describes, or None if there is none in these passes."""
    if found := _HEAD.fullmatch(text):
        kind = next(kind for kind in KINDS if kind == found[1])
        layer, head = map(int, found.groups()[1:])
        layers, heads = donor.maps(kind).shape[:2]
        return (
            {"kind": kind, "layer": layer, "head": head}
            if layer < layers and head < heads
            else None
        )
    if not (found := _COPY.fullmatch(text)):
        return None
    layer, to, at = map(int, found.groups()[1:])
    lengths = (len(tokens_of(record, side)) for record in (receiver, donor))
    sizes = (count_states(card, side), *lengths)
    known = all(place < size for place, size in zip((layer, to, at), sizes, strict=True))
    return {"layer": layer, "from": at, "to": to} if known else None


def _edits(
    copy: dict[str, Any], donor: TranslationRecord, receiver: TranslationRecord, side: Side
) -> Edits:
    """Return a copy as edits; a head's output is copied at all paired queries."""
    given = Donor.of(donor)
    if "head" not in copy:
        return Edits(donor=given, patches=(Patch(side, copy["layer"], copy["to"], copy["from"]),))
    head = copy["kind"], copy["layer"], copy["head"]
    at = pairs(receiver, donor, "encoder" if copy["kind"] == "encoder" else "decoder")
    return Edits(donor=given, head_patches=tuple(HeadPatch(*head, *pair) for pair in at))


def _measure(
    card: Card, donor: TranslationRecord, receiver: TranslationRecord, edited: TranslationRecord
) -> dict[str, Any] | None:
    """Return the logit difference at the first word that differs, and the share that is copied.

    `edited` is the receiver's pass after the copy, over its own target. Both words follow the same
    ones, so the difference of their log-probabilities is that of their logits.
    """
    from core.experiments.patching import MIN_DIFFERENCE  # loads torch

    if (t := first_difference(donor, receiver)) is None:
        return None
    targets = [results.token_ids(record.target_out) for record in (donor, receiver)]

    def difference(own: TranslationRecord) -> float:
        """Return by how much the donor's word is more probable than the receiver's."""
        scores = [
            results.inspect(card, own.source_text, edits=own.edits, target_ids=ids).log_probs[t]
            for ids in targets
        ]
        return float(scores[0] - scores[1])

    high, low, now = map(difference, (donor, receiver, edited))
    return {
        "other": label(donor.target_out[t]),
        "own": label(receiver.target_out[t]),
        "before": low,
        "now": now,
        "share": (now - low) / (high - low) if abs(high - low) >= MIN_DIFFERENCE else None,
    }


def _pictures(
    card: Card, first: TranslationRecord, second: TranslationRecord, way: str, side: Side
) -> dict[str, Any]:
    """Return the share that each state of a side brings, and each head; or why there is none.

    `cells` are [layer, position], null where a position has no counterpart; `heads` are [layer,
    head] by kind: cross-attention, and the side's self-attention.
    """
    try:
        found = results.run_experiment(card, core.patch_all, first, second, way)
    except ValueError as error:  # one line
        return {"problem": str(error)}
    into = second if way == WAYS[0] else first
    more = len(tokens_of(into, side)) - getattr(found, side).shape[1]
    cells = np.pad(getattr(found, side), ((0, 0), (0, more)), constant_values=np.nan)
    return {
        "cells": [[None if np.isnan(share) else share for share in row] for row in cells.tolist()],
        "heads": {kind: found.heads[kind].tolist() for kind in ("cross", side)},
        "problem": found.reason,
    }
