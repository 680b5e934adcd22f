"""Mounts the explorer and answers its requests, for all pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

import core
from app.components.edits import known_edits
from app.components.explorer.answers import answers
from app.components.explorer.mount import explorer
from app.components.explorer.payload import APP, Arrays, Host, payload
from app.state import address, results, session
from app.views.shared import what_if
from core.analysis.rollout import can_roll_out
from core.checkpoint.folder import Card
from core.record.record import TranslationRecord

_MOST_UNASKED = 20_000_000
"""Weights of a network: what a larger one's states say and its heads do is computed if asked."""


def show_explorer(
    record: TranslationRecord,
    view: dict[str, Any],
    card: Card | None,
    *,
    key: str = APP.key,
    in_url: bool = True,
    head_page: str | None = None,
    changed: what_if.WhatIf | None = None,
    strip: bool = False,
    **further: Any,
) -> dict[str, str] | None:
    """Show a record's explorer, opened at `view`; `further` goes to `explorer.payload`.

    `card` is the checkpoint that made the record: scores, value norms and head effects are computed
    with its weights, under the record's edits. Without it, only quantities of the record are shown.
    `changed` enables editing of the pass and describes the current edits; `record` is their result.
    `strip` shows what the states already say, if there is a card. `in_url` says whether the page's
    URL stores the explorer's view.

    Returns the query parameters for `head_page` if the visitor opens it now, else None.
    """
    names = [] if card is None else ["scores", "norms"]
    names += ["rollout"] if can_roll_out(record) else []
    numbers = {name: _quantity(card, record, name) for name in names}
    if changed is not None and changed.after is not changed.before:
        numbers = {"change": changed.map_changes, **numbers}
    effects = None if card is None else lambda: results.head_effects(card, record)
    more = ["effects"] if effects else []
    more += ["edit"] if changed and card is not None else []
    lens = None
    if strip and card is not None:
        more += ["lens"]
        lens = _lens_offer(card)
    data = payload(
        record,
        view,
        quantities=dict.fromkeys(numbers),
        what_if=changed.payload() if changed else known_edits(record),
        before=changed.before if changed and changed.after is not changed.before else None,
        lens=lens,
        effects_if_asked=card is not None and card.parameters > _MOST_UNASKED,
        provenance=None if card is None else card.imported,
        host=Host(key, (*APP.answers, *more), in_url, head_page),
        **further,
    )
    requests = {**(session.get(key) or {}), "quantity": address.requested_quantity(key)}
    if view.get("suggested") and card is not None and results.knows_head_effects(card, record):
        requests["effects"] = {"sentence": record.id}  # so that the picture opens where it stays
    query = explorer(
        data,
        answers(record, requests, numbers, effects, lambda: _readings(card, record)),
        on_edit=lambda: what_if.edit_by((session.get(key) or {}).get("edit")),
    )
    return dict(parse_qsl(query, keep_blank_values=True)) if query else None


def _lens_offer(card: Card) -> dict[str, Any]:
    """Return what the explorer offers: see `lens` of `payload`."""
    from core.checkpoint.lens import FILE, fit_command

    if not (card.folder / FILE).is_file():
        return {"command": fit_command(card)}
    return {"unasked": card.parameters <= _MOST_UNASKED}


def _readings(card: Card | None, record: TranslationRecord) -> tuple[Any, dict[int, Any], Any]:
    """Return what a record's states say, the tokens by id, and what is known about the lens."""
    lens = None if card is None else results.lens(card)
    if card is None or lens is None:
        raise ValueError("the network has no lens")
    readings = results.run_experiment(card, core.jacobian_lens, record)
    sides = (readings.encoder, readings.decoder)
    said = np.unique(np.concatenate([ids.ravel() for s in sides for ids in (s.ids, s.logit_ids)]))
    ids = tuple(said.tolist())
    tokens = dict(zip(ids, results.target_tokens(card, ids), strict=True))
    return readings, tokens, lens.about


def _quantity(card: Card | None, record: TranslationRecord, name: str) -> Callable[[], Arrays]:
    return lambda: results.quantity(card, record, name)
