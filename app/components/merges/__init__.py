"""Mounts a sentence's words as the tokenizer splits them; a chosen word grows merge by merge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.components.mount import component
from app.look.labels import segments
from app.look.numbers import number
from core.text.splitting import Splitting, Unit

__all__ = ["merges", "payload"]

_mount = component(__file__, "main.js", ".merges")


def payload(
    splitting: Splitting, view: Mapping[str, int | None], in_url: bool = True
) -> dict[str, Any]:
    """Return the component's data: each unit's symbols before (`first`) and after its merges.

    Each of `symbols`, which the network reads, is [text, id or null, log-probability or ""]; each
    of `first` is [text, id or null]. `view` has the
    chosen `unit` (by default the one with the most symbols) and `step`, the number of merges shown
    (by default all). With `in_url`, the page's URL keeps both.
    """
    sizes = [len(unit.symbols) for unit in splitting.units]
    return {
        "kind": splitting.kind,
        "rules": splitting.merges,
        "entries": splitting.entries,
        "units": [_unit(unit) for unit in splitting.units],
        "opened": sizes.index(max(sizes)) if sizes else 0,
        "view": dict(view),
        "inUrl": in_url,
    }


def _unit(unit: Unit) -> dict[str, Any]:
    scores = unit.scores or (None,) * len(unit.symbols)
    known = [score for score in scores if score is not None]
    return {
        "first": [[_label(symbol.text), symbol.id] for symbol in unit.first],
        "symbols": [
            [_label(symbol.text), symbol.id, "" if score is None else number(score, 2)]
            for symbol, score in zip(unit.symbols, scores, strict=True)
        ],
        "merges": [[merge.at, merge.rank] for merge in unit.merges],
        "isEntry": unit.is_entry,
        "sum": number(sum(known), 2) if len(known) == len(scores) else "",
        "others": [
            {"pieces": [_label(piece) for piece in other.pieces], "sum": number(other.log_prob, 2)}
            for other in unit.others
        ],
    }


def _label(text: str) -> str:
    """Return a text with its invisible characters named."""
    return "".join(shown for shown, _ in segments(text))


def merges(
    splitting: Splitting, *, key: str, view: Mapping[str, int | None], in_url: bool = True
) -> None:
    """Show how a text is split; unit and step are chosen client-side, without a rerun."""
    _mount(key=key, data=payload(splitting, view, in_url))
