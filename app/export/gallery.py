"""Choose the gallery's pictures from real records: the tour's heads, and passes under edits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.export.tour import Found, found_stops
from app.look.numbers import percent
from app.views.tour.stops import measured
from core.analysis import roles
from core.record.edits import OFF, Edits
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
        if one.shown.kind == "encoder":
            yield _without_positions(translator, one)
        elif one is found[-1] and one.shown.kind == "decoder":
            yield _without_mask(translator, one)
    for one in found[2:]:
        yield _of_stop(direction, one)


def _of_stop(direction: str, found: Found) -> Picture:
    caption = " ".join(measured(found.stop, found.shown))
    return Picture(found.stop.title, caption, direction, found.record, found)


def _without_positions(translator: core.Translator, found: Found) -> Picture:
    """Return the head that attends to the previous token, in a pass without source positions."""
    after = _edited(translator, found.record, Edits(source_positions=OFF))
    head = found.shown.head
    share = roles.on_previous(after.encoder)[head.layer, head.head]
    caption = (
        f"Layer {head.layer + 1} head {head.head + 1} of the encoder puts {percent(head.share)} "
        "of its weight on the token before. Without the source's positions, it puts "
        f"{percent(float(share))} on that token."
    )
    title = "The same head without positions"
    return Picture(title, caption, translator.card.direction, after, found)


def _without_mask(translator: core.Translator, found: Found) -> Picture:
    """Return the head that attends to the token just fed in, in a pass without the causal mask."""
    after = _edited(translator, found.record, Edits(causal_mask=False))
    head = found.shown.head
    masked, opened = (
        float(np.triu(record.decoder[head.layer, head.head], 1)[:-1].sum(-1).mean())
        for record in (found.record, after)  # the last row has no later tokens
    )
    caption = (
        f"In all rows but the last, layer {head.layer + 1} head {head.head + 1} of the decoder "
        f"puts {percent(masked)} of its weight on later tokens. Without the causal mask, these "
        f"rows may attend to later tokens, and put {percent(opened)} of their weight there."
    )
    title = "The decoder without its causal mask"
    return Picture(title, caption, translator.card.direction, after, found)


def _edited(
    translator: core.Translator, record: TranslationRecord, edits: Edits
) -> TranslationRecord:
    """Return the pass of the same target under edits."""
    target = [token.id for token in record.target_out]
    return translator.inspect(record.source_text, edits=edits, target_ids=target)
