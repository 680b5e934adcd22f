"""Mounts an explorer and answers what is asked in it: every page that shows one does it here."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from app.components.explorer.answers import answered
from app.components.explorer.mount import explorer
from app.components.explorer.payload import Arrays
from app.state import address, results, visit
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

    `card` is the checkpoint whose weights made the record: scores, value norms and what each head
    matters are worked out with them, under the record's edits. Without it there is only what the
    record alone gives.
    `changed` offers to change the pass, and says what the changes do; `record` is what they gave.

    Returns what is to stand in the address of the page `inside`, if the visitor goes there now.
    """
    names = ["rollout"] if card is None else ["scores", "norms", "rollout"]
    asked = {**(visit.get(key) or {}), "quantity": address.requested_quantity(key)}
    numbers = {name: _quantity(card, record, name) for name in names}
    if changed is not None and changed.after is not changed.before:
        numbers = {"change": changed.weights, **numbers}
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
        on_edit=lambda: what_if.change((visit.get(key) or {}).get("edit")),
    )
    return dict(parse_qsl(query, keep_blank_values=True)) if query else None


def _quantity(card: Card | None, record: TranslationRecord, name: str) -> Callable[[], Arrays]:
    return lambda: results.quantity(card, record, name)
