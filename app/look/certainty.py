"""Says that a translation is less certain than most of the network's own kind."""

from __future__ import annotations

from app.lessons.texts import text
from core.checkpoint.certainty import Certainty, read_certainty
from core.checkpoint.folder import Card
from core.data.corpora import about


def certainty_of(card: Card) -> Certainty | None:
    """Return the measured certainty of a network; None if there is none for its weights."""
    return read_certainty(card.folder, card.weights_sha256)


def lines(certainty: Certainty, search: str) -> list[tuple[float, str]]:
    """Return limits of the mean probability with a line each: the first limit above it holds."""
    kinds = about(certainty.corpora)
    count = f"{certainty.sentences:,}"
    return [(limit, _said(percent, kinds, count)) for limit, percent in certainty.limits(search)]


def _said(percent: int, kinds: str, count: str) -> str:
    if percent == 100:
        return text("questions", "certainty.least", count=count, kinds=kinds)
    return text("questions", "certainty.less", percent=percent, kinds=kinds)
