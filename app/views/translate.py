"""The main page: a sentence, its translation, and the attention of every head."""

from functools import partial
from pathlib import Path

import streamlit as st

from app import controls
from app.lessons.texts import text
from app.state import address, plans, results, session, waiting
from app.views import VIEWS
from app.views.shared.explorer import show_explorer
from app.views.shared.export import export
from app.views.shared.glance import show_glance
from app.views.shared.gloss import offer_gloss, show_gloss
from app.views.shared.notebook import notebook_buttons, view_choices, view_values
from app.views.shared.plan_bar import present_button
from app.views.shared.presented import show_line, show_rest
from app.views.shared.quality_warnings import show_least_certain, show_quality_warnings
from app.views.shared.what_if import apply_edits, show_new_translation
from app.views.shared.word_alignment import show_word_alignment
from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.record.record import TranslationRecord


@waiting.fragment
def show_pass(
    card: Card, record: TranslationRecord, own: str, decode: DecodeConfig, screen: str
) -> None:
    """Draw explorer, edits and export of one pass, as a fragment that can rerun alone.

    On a presented page, CSS shows only the part of the explorer that `screen` names.
    """
    changed = apply_edits(card, record)
    view = address.initial_view(record)
    with st.container(key=f"present_{screen}" if screen else None):
        now = changed.after
        link = show_explorer(now, view, card, head_page="head", changed=changed, strip=True)
        if screen == "maps":
            show_rest()
    show_new_translation(card, changed, own, decode)
    if screen:
        return
    if link:  # a plain link would start a new session
        st.switch_page(VIEWS["head"].file, query_params=link)
    show_gloss(card, changed.after)
    show_word_alignment(card, changed.after)
    values = {"TARGET": controls.selection().target or None, "EDITS": changed.edits.to_text()}
    further = partial(notebook_buttons, "translate", card, record, view_choices(record))
    export(changed.after, card, partial(further, **values, **view_values(record)))


def show_another_translation(record: TranslationRecord, own: str, given: bool) -> None:
    """Draw the box for another translation, what the model itself writes, and its doubts."""
    if given and session.get("another_translation") is None:
        session.put("another_translation", True)
    fold = st.expander("Look at another translation", key="another_translation", on_change="rerun")
    if not fold.open:
        return
    with fold:
        controls.target_box()
        if given:
            with st.container(key="own_translation"):
                st.text(f"The model itself writes: {own}")
        show_least_certain(record)


screen = ("sentences", "maps")[min(plans.screen(), 1)] if plans.presenting() else ""
if not screen:
    st.html(Path(__file__).parents[1] / "translate.css")
with st.container(key=None if screen else "page_title"):  # for screen readers
    st.title("See where each attention head looks", anchor=False)
with st.container(key="presented_top" if screen == "sentences" else None):
    card, record = controls.ask_for_record(ask_target=not screen)
chosen = controls.selection()
if screen:
    with st.container(key="presented"):
        first = screen == "sentences"  # there, the explorer shows both texts
        show_line(None if first else record, text("questions", "present.maps") if first else "")

with st.container(key="translation"):
    st.text(record.translation)
with st.container(key="above_explorer"):  # even if empty: the explorer is not mounted again
    show_quality_warnings(record, controls.training_domain(card), chosen.source)
own = record.translation
if chosen.target:
    own = results.inspect(card, chosen.source, decode=chosen.decode).translation
show_pass(card, record, own, chosen.decode, screen)
show_another_translation(record, own, bool(chosen.target))
with st.container(horizontal=True, gap="medium", vertical_alignment="center", key="purpose"):
    st.page_link(VIEWS["tour"].file, label="New here? Take the guided tour", width="content")
    show_glance(follow="explorer")
    offer_gloss()
    if plans.running() is None:
        present_button()
controls.reset_target()
