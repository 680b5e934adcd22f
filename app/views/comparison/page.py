"""Scratch and baseline: is the code correct, is the training as good; then map by map."""

import streamlit as st

from app import controls
from app.look.markdown import plain
from app.state import models
from app.state.models import Implementation
from app.views.comparison.checklist import show_checklist
from app.views.comparison.details import CHOICES, own_translation, show_details
from app.views.comparison.training import show_training
from app.views.shared.quality_warnings import show_certainty
from app.views.shared.section import section
from core.checkpoint.errors import CheckpointError

st.title("Scratch and baseline")
chosen = controls.selection()
if chosen.card is None:
    st.error("There is no checkpoint to compare: make one with `make train`.")
    st.stop()
correct = st.container(key="code_answer", gap="small")  # filled last: it may take seconds
controls.source_box()
answered = bool(chosen.source)
with st.container(key="training_answer", gap="small"):
    try:
        if chosen.source:
            record = own_translation(Implementation(chosen.card), chosen.source, chosen.decode)
            show_training(chosen, chosen.card, record)
            show_certainty(record)
    except CheckpointError as error:
        st.error(plain(error))
        st.stop()
    except ValueError as error:  # InputError, BusyError: one user-facing line
        st.error(plain(error))
        answered = False
if answered:
    section(
        "",
        "open_details",
        show_details,
        chosen,
        models.implementations(chosen.direction),
        choices=CHOICES,
        summary="Map by map, head by head, speed, names of the weights",
    )
with correct:
    show_checklist(chosen.card)
if not chosen.source:
    controls.ask_and_stop(chosen)
