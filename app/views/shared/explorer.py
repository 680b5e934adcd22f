"""Mounts the explorer and answers its requests, for all pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from app.components.explorer.answers import answers
from app.components.explorer.mount import explorer
from app.components.explorer.payload import APP, Arrays, Host, payload
from app.state import address, results, session
from app.views.shared import what_if
from core.analysis.rollout import can_roll_out
from core.checkpoint.folder import Card
from core.record.record import TranslationRecord


def show_explorer(
    record: TranslationRecord,
    view: dict[str, Any],
    card: Card | None,
    *,
    key: str = APP.key,
    in_url: bool = True,
    head_page: str | None = None,
    changed: what_if.WhatIf | None = None,
    **further: Any,
) -> dict[str, str] | None:
    """Show a record's explorer, opened at `view`; `further` goes to `explorer.payload`.

    `card` is the checkpoint that made the record: scores, value norms and head effects are computed
    with its weights, under the record's edits. Without it, only quantities of the record are shown.
    `changed` enables editing of the pass and describes the current edits; `record` is their result.
    `in_url` says whether the page's URL stores the explorer's view.

    Returns the query parameters for `head_page` if the visitor opens it now, else None.
    """
    names = [] if card is None else ["scores", "norms"]
    names += ["rollout"] if can_roll_out(record) else []
    numbers = {name: _quantity(card, record, name) for name in names}
    if changed is not None and changed.after is not changed.before:
        numbers = {"change": changed.map_changes, **numbers}
    effects = None if card is None else lambda: results.head_effects(card, record)
    more = ["effects"] if effects else []
    if changed:
        more.append("edit")
    data = payload(
        record,
        view,
        quantities=dict.fromkeys(numbers),
        what_if=changed.payload() if changed else None,
        before=changed.before if changed and changed.after is not changed.before else None,
        provenance=None if card is None else card.imported,
        host=Host(key, (*APP.answers, *more), in_url, head_page),
        **further,
    )
    requests = {**(session.get(key) or {}), "quantity": address.requested_quantity(key)}
    query = explorer(
        data,
        answers(record, requests, numbers, effects),
        on_edit=lambda: what_if.edit_by((session.get(key) or {}).get("edit")),
    )
    return dict(parse_qsl(query, keep_blank_values=True)) if query else None


def _quantity(card: Card | None, record: TranslationRecord, name: str) -> Callable[[], Arrays]:
    return lambda: results.quantity(card, record, name)
