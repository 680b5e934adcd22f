"""Mounts the explorer and answers its requests, for all pages."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from app.components.explorer.answers import answered
from app.components.explorer.mount import explorer
from app.components.explorer.payload import Arrays
from app.state import address, results, session
from app.views.shared import what_if
from core.checkpoint.folder import Card
from core.record.record import TranslationRecord


def explored(
    record: TranslationRecord,
    view: dict[str, Any],
    card: Card | None,
    *,
    key: str = "explorer",
    changed: what_if.WhatIf | None = None,
    **further: Any,
) -> dict[str, str] | None:
    """Show a record's explorer, opened at `view`; `further` goes to `explorer.payload`.

    `card` is the checkpoint that made the record: scores, value norms and head effects are computed
    with its weights, under the record's edits. Without it, only quantities of the record are shown.
    `changed` enables editing of the pass and describes the current edits; `record` is their result.

    Returns the query parameters for the page `inside` if the visitor opens it now, else None.
    """
    names = ["rollout"] if card is None else ["scores", "norms", "rollout"]
    asked = {**(session.get(key) or {}), "quantity": address.requested_quantity(key)}
    numbers = {name: _quantity(card, record, name) for name in names}
    if changed is not None and changed.after is not changed.before:
        numbers = {"change": changed.map_changes, **numbers}
    query = explorer(
        answered(
            record,
            view,
            asked,
            numbers,
            None if card is None else lambda: results.head_effects(card, record),
            what_if=changed.payload() if changed else None,
            **further,
        ),
        key=key,
        on_edit=lambda: what_if.edit((session.get(key) or {}).get("edit")),
    )
    return dict(parse_qsl(query, keep_blank_values=True)) if query else None


def _quantity(card: Card | None, record: TranslationRecord, name: str) -> Callable[[], Arrays]:
    return lambda: results.quantity(card, record, name)
