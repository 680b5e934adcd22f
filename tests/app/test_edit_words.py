"""Descriptions of edits and their effects, compared with expectations written by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.components.edits import listed
from app.views.shared.axes import axis_words
from app.views.shared.what_if import WhatIf
from core.record.edits import Edits
from tests.app.explorer_harness import synthetic_record
from tests.app.rendered import render

RECORD = synthetic_record("short", 3, 4)
SOURCE = "Ein Mann in einem₄ roten Hemd sprich t mit einem₁₀ Hund . <eos>".split()
FED = "<bos> A man in a₄ red shirt talks to a₉ dog .".split()
OUT = "A man in a₄ red shirt talks to a₉ dog . <eos>".split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("off.cross.2.0", "cross-attention, layer 3, head 1 off"),
        ("mean.encoder.0.3", "encoder, layer 1, head 4 at its average over sample sentences"),
        ("uniform.decoder.1.2", "decoder, layer 2, head 3 with equal weights"),
        ("cut.cross.1.2.3.9", "“einem₁₀” → “a₄”: cut, cross-attention, layer 2, head 3"),
        ("cut.encoder.0.1.3.9", "“einem₁₀” → “einem₄”: cut, encoder, layer 1, head 2"),
        ("cut.decoder.0.1.8.4", "“a₄” → “a₉”: cut, decoder, layer 1, head 2"),
        ("cut.decoder.0.1.2.0", "“<bos>” → “in”: cut, decoder, layer 1, head 2"),
        ("times.cross.2.3.5.5.4", "“Hemd” → “shirt”: × 4, cross-attention, layer 3, head 4"),
        ("temp.cross.0.1.0.5", "cross-attention, layer 1, head 2 at temperature 0.5"),
        ("hide.9", "“einem₁₀” hidden"),
        ("causal", "no causal mask"),
        ("positions.source.scale-0", "no positions in the source"),
        ("positions.target.scale-0", "no positions in the target"),
        ("positions.source.scale-0.5_shift--4", "positions of the source × 0.5, shifted by −4"),
        ("positions.source.stretch-2", "positions of the source stretched × 2"),
        ("positions.source.order-1-0", "positions of the source in another order"),
        ("row.decoder.1.0.3.0.5-0.5", "row of “a₄” drawn by hand, decoder, layer 2, head 1"),
        ("row.encoder.1.0.9.1", "row of “einem₁₀” drawn by hand, encoder, layer 2, head 1"),
        ("pass.9-8-2.1-30", "copies come from a sentence of 2 tokens"),
        ("copy.encoder.0.9.1", "state of “einem₁₀”, encoder embeddings, copied from token 2"),
        ("copy.decoder.3.4.0", "state that writes “red”, decoder layer 3, copied from token 1"),
        (
            "copyhead.cross.2.0.5.3",
            "output at “shirt” copied from token 4, cross-attention, layer 3, head 1",
        ),
        (
            "push.encoder.2.1.777.888.16.5",
            "state of “Mann”, encoder layer 2, pushed by 16.5 towards “Katze”, away from token 777",
        ),
        (
            "push.decoder.0.1.none.888.-2",
            "state that writes “man”, decoder embeddings, pushed by −2 towards “Katze”",
        ),
        (
            "pushrandom.encoder.0.1.7.4",
            "state of “Mann”, encoder embeddings, pushed by 4 in random direction 7",
        ),
    ],
)
def test_an_edit_is_described_in_words(text: str, words: str) -> None:
    edits, problems = Edits.parse(text)
    assert not problems
    assert listed(edits, RECORD, {888: "Katze"}) == [{"text": text, "label": words}]


@pytest.mark.parametrize(
    ("kind", "queries", "keys"),
    [("encoder", SOURCE, SOURCE), ("decoder", OUT, FED), ("cross", OUT, SOURCE)],
)
def test_axis_labels_number_repeated_words(kind: str, queries: list[str], keys: list[str]) -> None:
    assert axis_words(RECORD, kind) == (queries, keys)


def test_the_effect_of_edits_is_the_change_of_log_probabilities() -> None:
    edits, _ = Edits.parse("off.cross.2.0")
    after = replace(
        RECORD,
        log_probs=RECORD.log_probs - np.arange(12, dtype=np.float32) / 8,
        cross=RECORD.cross / 2,
    )
    for record in (RECORD, after):  # the stand-in has no method for its maps
        object.__setattr__(record, "maps", lambda kind, record=record: getattr(record, kind))
    changed = WhatIf(edits, ("No.",), RECORD, after)
    sent = changed.payload()
    assert (sent["text"], sent["problems"], sent["before"]) == (
        "off.cross.2.0",
        ["No."],
        RECORD.log_prob,
    )
    assert sent["change"] == pytest.approx([-step / 8 for step in range(12)], abs=1e-6)
    np.testing.assert_array_equal(changed.map_changes()["cross"], -RECORD.cross / 2)
    assert WhatIf(Edits(), (), RECORD, RECORD).payload()["change"] is None


@pytest.mark.parametrize("page", ["head", "why", "masks", "positions"])
def test_pages_without_the_edits_say_so(page):
    """Such pages show the pass as trained, even while Translate shows an edited one."""
    note = "The edits made on the page Translate are not applied here"
    for query, count in (({}, 0), ({"edits": "off.cross.2.0"}, 1)):
        shown = render(page, source="Ein Hund läuft.", **query)
        assert sum(text.startswith(note) for text in shown.texts()) == count
