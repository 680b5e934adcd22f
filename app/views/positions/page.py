"""The lesson on positions: the table, its effect on tokens and scores, and interventions."""

import streamlit as st

from app import controls
from app.lessons.texts import text
from app.look.glossary import meaning
from app.views.positions.beyond import compare_tables, show_extrapolation
from app.views.positions.scores import show_score_parts
from app.views.positions.sums import show_sums
from app.views.positions.table import (
    show_products,
    show_rotation,
    show_table,
    show_waves,
)
from app.views.positions.what_if import questions, show_position_edits, show_reordering
from app.views.shared.glance import lesson_top, show_glance
from app.views.shared.inspection import Inspection, ask_for_inspection
from app.views.shared.question import covered, open_with
from app.views.shared.section import section


def _kind() -> str:
    """Return how the chosen network tells positions apart: by a table "", "-bias" or "-nothing"."""
    card = controls.selection().card
    if card is None or card.model.position_table != "none":
        return ""
    return "-bias" if card.model.relative_buckets else "-nothing"


page, beside = lesson_top()
with page:
    st.title(text("positions", "title"))
    st.caption(
        text("positions", f"about{_kind()}"),
        help=meaning("token", "embedding", "positional encoding", "layer", "head", "mask"),
    )
    show_glance(
        *(("encoder", "decoder") if _kind() else ("source_positions", "target_positions")),
        in_view=text("figure_one", f"positions{_kind()}"),
        beside=beside,
    )
    inspection = ask_for_inspection()
    if kind := _kind():
        st.write(text("positions", f"no-table{kind}"))
        st.stop()
    found = open_with("positions", inspection.record, questions(inspection))
show_table(inspection)


def show_reordered_maps(inspection: Inspection) -> None:
    """Show the maps of reordered tokens, unless they answer the question."""
    if not covered("order", found.hides("attends")):
        show_reordering(inspection)


def show_edited_positions(inspection: Inspection) -> None:
    """Show the effect of other positions, unless it answers the question."""
    if not covered("what_if", found.hides("order", "attends")):
        show_position_edits(inspection)


CHANGES = ("position_change", "position_change_side", "position_seed", "position_shift")
for name, body, terms, choices in (
    ("waves", show_waves, (), ("wave_dimensions",)),
    ("distance", show_products, (), ()),
    ("rotation", show_rotation, (), ("rotation_k", "rotation_p")),
    ("sums", show_sums, ("norm",), ("sum_side",)),
    ("learned", compare_tables, (), ("learned_model",)),
    ("beyond", show_extrapolation, ("BLEU", "teacher-forced"), ()),
    ("order", show_reordered_maps, (), ("order_positions",)),
    ("what-if", show_edited_positions, (), CHANGES),
    ("scores", show_score_parts, ("query", "key", "attention score", "softmax"), ("parts_kind",)),
):
    section(
        text("positions", f"heading.{name}"),
        f"open_{name.replace('-', '_')}",
        body,
        inspection,
        summary=text("positions", f"summary.{name}"),
        help=meaning(*terms) if terms else None,
        choices=choices,
    )
