"""Mounts an explorer and answers what is asked in it: every page that shows one does it here."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from app.components.explorer.answers import answered
from app.components.explorer.mount import explorer
from app.components.explorer.payload import Arrays
from app.state import address, results, visit
from core.checkpoint.folder import Card
from core.record.record import TranslationRecord


def explored(
    record: TranslationRecord,
    view: dict[str, Any],
    card: Card | None,
    *,
    key: str = "explorer",
    **further: Any,
) -> dict[str, str] | None:
    """Show a record's explorer, opened at `view`; `further` goes to `explorer.payload`.

    `card` is the checkpoint whose weights made the record: scores and value norms are worked out
    with them. Without it, or where the pass was edited, there is only what the record alone gives.

    Returns what is to stand in the address of the page `inside`, if the visitor goes there now.
    """
    names = ["rollout"]
    if card is not None and not record.search.endswith(", edited"):
        names = ["scores", "norms", "rollout"]
    asked = {**(visit.get(key) or {}), "quantity": address.wanted_quantity(key)}
    numbers = {name: _quantity(card, record, name) for name in names}
    query = explorer(answered(record, view, asked, numbers, **further), key=key)
    return dict(parse_qsl(query, keep_blank_values=True)) if query else None


def _quantity(card: Card | None, record: TranslationRecord, name: str) -> Callable[[], Arrays]:
    return lambda: results.quantity(card, record, name)
