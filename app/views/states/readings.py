"""What the states of a pass say by the Jacobian lens, in the form that the component reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

import core
from app.components.tokens import sent
from app.controls import Selection
from app.state import results
from app.views import VIEWS
from core.checkpoint.errors import CheckpointError
from core.checkpoint.folder import Card
from core.kinds import Side
from core.record.record import RecordToken, TranslationRecord


def count_states(card: Card, side: Side) -> int:
    """Return the number of a token's states: the embeddings, and one after each layer."""
    model = card.model
    return 1 + (model.num_encoder_layers if side == "encoder" else model.num_decoder_layers)


def tokens_of(record: TranslationRecord, side: Side) -> tuple[RecordToken, ...]:
    """Return a token per state: those of the source, or those that the decoder's states write."""
    return record.source if side == "encoder" else record.target_out


def side_data(card: Card, record: TranslationRecord, side: Side) -> dict[str, Any]:
    """Return a side's tokens, the words of its states, and both texts."""
    return {
        "source": record.source_text,
        "translation": record.translation,
        "tokens": [sent(token) for token in tokens_of(record, side)],
        "words": words(card, record, side),
    }


def words(card: Card, record: TranslationRecord, side: Side) -> list[Any] | None:
    """Return each state's most probable word with its probability, by layer and position.

    Return None for a network without a lens.
    """
    try:
        reading = getattr(results.run_experiment(card, core.jacobian_lens, record), side)
    except CheckpointError:
        return None
    best, probabilities = reading.ids[..., 0], reading.probabilities[..., 0]
    names = results.target_labels(card, tuple(np.unique(best).tolist()))
    return [
        [(names[id], round(p, 3)) for id, p in zip(*layer, strict=True)]
        for layer in zip(best.tolist(), probabilities.tolist(), strict=True)
    ]


def first_difference(one: TranslationRecord, other: TranslationRecord) -> int | None:
    """Return the first step at which two translations differ; None if they are the same."""
    steps = zip(one.target_out, other.target_out, strict=False)
    return next((t for t, (a, b) in enumerate(steps) if a.id != b.id), None)


def pairs(one: TranslationRecord, other: TranslationRecord, side: Side) -> list[tuple[int, int]]:
    """Return the positions of two passes that belong together.

    In the decoder, these are the steps with equal tokens before them. Raises ValueError for sources
    that cannot be paired.
    """
    if side == "encoder":
        from core.experiments.patching import paired  # loads torch

        return list(paired(one.source, other.source))
    different = first_difference(one, other)
    both = min(len(one.target_in), len(other.target_in))
    return [(t, t) for t in range(both if different is None else different + 1)]


def show_link(record: TranslationRecord, edits: str, chosen: Selection) -> None:
    """Offer the page Translate with a sentence's edited pass."""
    query = chosen.link | {"source": record.source_text, "edits": edits}
    label = "See its attention on Translate"
    st.page_link(VIEWS[""].file, label=label, query_params=query, width="content")
