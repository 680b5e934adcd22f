"""Runs a stop's trial with the visitor's model, and shows what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

import core
from app import controls
from app.look.markdown import plain
from app.state import results
from app.views.tour.highlight import Highlight
from app.views.tour.trials import Trial
from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.kinds import Kind
from core.record.edits import Edits
from core.record.record import TranslationRecord

if TYPE_CHECKING:
    from core.analysis.inside_head import Site


@dataclass(frozen=True)
class _Bench:
    """Runs one of the app's models; results are cached."""

    card: Card

    def translate(self, source: str, decode: DecodeConfig, edits: Edits) -> TranslationRecord:
        changed = None if edits == Edits() else edits
        return results.inspect(self.card, source, edits=changed, decode=decode)

    def rerun(self, record: TranslationRecord, edits: Edits) -> TranslationRecord:
        ids = results.token_ids(record.target_out)
        return results.inspect(self.card, record.source_text, edits=edits, target_ids=ids)

    def site(self, record: TranslationRecord, kind: Kind, layer: int) -> Site:
        sides = results.token_ids(record.source), results.token_ids(record.target_out)
        return results.run(self.card, core.site, *sides, kind, layer)


def show_trial(
    trial: Trial, chosen: controls.Selection, record: TranslationRecord, shown: Highlight | None
) -> None:
    """Run a trial and show its lines; if the model cannot run it, say why in one line."""
    if chosen.card is None:
        return
    with st.container(key="tour_trial", gap="small"):
        try:
            for line in trial(_Bench(chosen.card), record, shown):
                st.markdown(plain(line))
        except ValueError as error:
            st.error(plain(error))
