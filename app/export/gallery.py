"""Choose the gallery's pictures from real records: the tour's heads, and passes under edits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.export.tour import Found, found_stops
from app.lessons.texts import text
from app.look.numbers import percent
from app.views.tour.finders import measured
from core.analysis import roles
from core.kinds import Kind
from core.record.edits import Edits
from core.record.record import TranslationRecord

if TYPE_CHECKING:  # imports torch
    import core

BEAM = 5
"""The beam width of every record, as in the page's default search."""


@dataclass(frozen=True)
class Picture:
    """A head's map of a record, with a title and measured numbers as the caption.

    `found` is the tour's stop that the head comes from.
    """

    title: str
    caption: str
    direction: str
    record: TranslationRecord
    found: Found

    @property
    def link(self) -> dict[str, str]:
        """The parameters of a link to this map in the app: the sentence, its edits, the head."""
        link = {"source": self.record.source_text, "direction": self.direction, "search": "beam"}
        edits = self.record.edits.to_text()
        return link | ({"edits": edits} if edits else {}) | self.found.view


def gallery(translators: Sequence[core.Translator], count: int = 8) -> list[Picture]:
    """Return up to `count` pictures, taken from each direction in turn."""
    left = [list(_of_direction(translator)) for translator in translators]
    chosen: list[list[Picture]] = [[] for _ in left]
    while sum(map(len, chosen)) < count and any(left):
        for pictures, more in zip(chosen, left, strict=True):
            if more and sum(map(len, chosen)) < count:
                pictures.append(more.pop(0))
    return [picture for pictures in chosen for picture in pictures]


def _of_direction(translator: core.Translator) -> Iterator[Picture]:
    """Yield a direction's pictures: two stops of the tour, passes under edits, other stops."""
    direction = translator.card.direction
    found = list(found_stops(direction, lambda text: translator.inspect(text, beam=BEAM)))
    for one in found[:2]:
        yield _of_stop(direction, one)
    for one in found[2:]:
        if one.stop.edits:
            yield _under_edits(translator, one)
    for one in found[2:]:
        yield _of_stop(direction, one)


def _of_stop(direction: str, found: Found) -> Picture:
    caption = " ".join(measured(found.stop, found.shown))
    return Picture(found.stop.title, caption, direction, found.record, found)


def _under_edits(translator: core.Translator, found: Found) -> Picture:
    """Return a stop's head in a pass of the same target under the stop's edits."""
    record, head = found.record, found.shown.head
    after = translator.inspect(
        record.source_text,
        edits=Edits.parse(found.stop.edits)[0],
        target_ids=[token.id for token in record.target_out],
    )
    shares = (_share(one, found.shown.kind, head) for one in (record, after))
    before_share, after_share = map(percent, shares)
    key = f"tour.{found.stop.id}.edited"
    where = {"layer": head.layer + 1, "head": head.head + 1}
    caption = text("stops", f"{key}.caption", before=before_share, after=after_share, **where)
    title = text("stops", f"{key}.title")
    return Picture(title, caption, translator.card.direction, after, found)


def _share(record: TranslationRecord, kind: Kind, head: roles.Strongest) -> float:
    """Return the share on the previous token in the encoder, on later tokens in the decoder."""
    if kind == "encoder":
        return float(roles.on_previous(record.encoder)[head.layer, head.head])
    later = np.triu(record.decoder[head.layer, head.head], 1)
    return float(later[:-1].sum(-1).mean())  # the last row has no later tokens
