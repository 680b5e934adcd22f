"""Copy a state: a state or a head's output of one sentence's pass goes into that of another."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import core
from app.components.answers import send_answer
from app.components.explorer.payload import pack
from app.components.states import states
from app.controls import Selection
from app.look.labels import label
from app.state import address, results, session, waiting
from app.views.shared.notebook import offer_notebook
from app.views.states.readings import (
    count_states,
    first_difference,
    pairs,
    show_link,
    side_data,
    tokens_of,
    words,
)
from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.kinds import KINDS, Side, side_of
from core.record.edits import Donor, Edits, HeadPatch, Patch
from core.record.record import TranslationRecord

KEY = "copied_states"
WAYS = ("restore", "damage")
_MOST_COMPARED = 4
"""Pairs of tokens that differ: the copy that the page opens with is the best of the first ones."""
_COPY = re.compile(
    rf"(?P<word>copy|copyhead)\.(?P<kind>{'|'.join(KINDS)})\.(?P<places>\d{{1,4}}(\.\d{{1,4}})+)",
    re.ASCII,
)


@waiting.fragment
def show_copying(
    card: Card, first: TranslationRecord, second: TranslationRecord, chosen: Selection
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
        "donor": {"name": from_name, **side_data(card, donor, side)},
        "receiver": {"name": to_name, **side_data(card, receiver, side)},
        "copy": None,
        "after": None,
        "after_text": None,
        "measure": None,
        "problem": "",
    }
    try:
        data["pairs"] = [(a, b) for b, a in pairs(receiver, donor, side)]
    except ValueError as error:  # one line
        data |= {"pairs": [], "problem": str(error)}
    patched = partial(results.run_experiment, card, core.patch_all, first, second, way)
    copy = _read(card, text, donor, receiver, side)
    copy = copy or _opening(card, donor, receiver, side, data["pairs"], patched)
    if copy:
        data |= _copied(card, donor, receiver, side, copy, chosen.decode)
    states(data, key=KEY, on_chosen=_choose)
    pictures = _pictures(patched, side)
    send_answer(KEY, "pictures", pack({"explorer": KEY, "about": data["about"], **pictures}))
    if edits := data.get("edits"):
        show_link(receiver, edits, chosen)
        offer_notebook("copy", card, first, SECOND_SOURCE=second.source_text, WAY=way, EDITS=edits)


def _choose() -> None:
    """Take over what the visitor chose in the component."""
    chosen = (session.get(KEY) or {}).get("chosen") or {}
    text = str(chosen.get("copy") or "")[:80]
    if not text and chosen.get("side") == "decoder":
        text = "copy.decoder"  # the page chooses the cell
    session.put("copied", text)
    session.put("copy_way", WAYS[chosen.get("way") == WAYS[1]])
    session.put("copy_turn", chosen.get("turn"))


def _opening(
    card: Card,
    donor: TranslationRecord,
    receiver: TranslationRecord,
    side: Side,
    together: list[tuple[int, int]],
    patched: Callable[[], Any],
) -> dict[str, Any] | None:
    """Return the copy that the page opens with; None if no state differs.

    Of the first pairs that differ, it is the one whose state has the largest share in its layer.
    """
    of_donor, own = (tokens_of(record, side) for record in (donor, receiver))
    different = [(a, b) for a, b in together if of_donor[a].id != own[b].id][:_MOST_COMPARED]
    if not different:
        return None
    count = count_states(card, side)  # the decoder's last state is what is written
    layer = count // 2 if side == "encoder" else max(0, count - 2)
    if len(different) > 1 and first_difference(donor, receiver) is not None:
        shares = getattr(patched(), side)[layer]  # if all are NaN, the first pair stays first
        different.sort(key=lambda pair: -shares[pair[1]])
    return {"layer": layer, "from": different[0][0], "to": different[0][1]}


def _copied(
    card: Card,
    donor: TranslationRecord,
    receiver: TranslationRecord,
    side: Side,
    copy: dict[str, Any],
    decode: DecodeConfig,
) -> dict[str, Any]:
    """Return a copy and what it does."""
    try:
        edits = _edits(copy, donor, receiver, side)
        own = results.token_ids(receiver.target_out)
        forced = results.inspect(card, receiver.source_text, edits=edits, target_ids=own)
        after = results.inspect(card, receiver.source_text, edits=edits, decode=decode)
        measure = _measure(card, donor, receiver, forced)
    except ValueError as error:  # one line
        return {"problem": str(error)}
    return {
        "copy": copy,
        "edits": edits.to_text(),
        "after": words(card, forced, side),
        "after_text": after.translation,
        "measure": measure,
    }


def _read(
    card: Card, text: str, donor: TranslationRecord, receiver: TranslationRecord, side: Side
) -> dict[str, Any] | None:
    """Return the copy that a text describes, or None if there is none in these passes."""
    if not (found := _COPY.fullmatch(text)):
        return None
    kind: Any = found["kind"]
    if found["word"] == "copyhead":
        copy, names, sizes = {"kind": kind}, ("layer", "head"), donor.maps(kind).shape[:2]
    elif kind == side:
        lengths = (len(tokens_of(record, side)) for record in (receiver, donor))
        copy, names, sizes = {}, ("layer", "to", "from"), (count_states(card, side), *lengths)
    else:
        return None
    places = [int(place) for place in found["places"].split(".")]
    known = len(places) == len(sizes) and all(map(int.__lt__, places, sizes))
    return copy | dict(zip(names, places, strict=True)) if known else None


def _edits(
    copy: dict[str, Any], donor: TranslationRecord, receiver: TranslationRecord, side: Side
) -> Edits:
    """Return a copy as edits; a head's output is copied at all paired queries."""
    given = Donor.of(donor)
    if "head" not in copy:
        return Edits(donor=given, patches=(Patch(side, copy["layer"], copy["to"], copy["from"]),))
    head = copy["kind"], copy["layer"], copy["head"]
    at = pairs(receiver, donor, side_of(copy["kind"]))
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
        "goal": high,
        "share": (now - low) / (high - low) if abs(high - low) >= MIN_DIFFERENCE else None,
    }


def _pictures(patched: Callable[[], Any], side: Side) -> dict[str, Any]:
    """Return the share that each state of a side brings, and each head; or why there is none.

    `cells` are [layer, position], null for a position without a counterpart; the decoder's end
    before the first token that differs. `heads` are [layer,
    head] by kind: cross-attention, and the side's self-attention.
    """
    try:
        found = patched()
    except ValueError as error:  # one line
        return {"problem": str(error)}
    cells = getattr(found, side).tolist()
    return {
        "cells": [[None if np.isnan(share) else share for share in row] for row in cells],
        "heads": {kind: found.heads[kind].tolist() for kind in ("cross", side)},
        "problem": found.reason,
    }
