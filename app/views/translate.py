"""The main page: type a sentence, read its translation, see where every head looked."""

import streamlit as st

from app import controls, session
from app.components.explorer import explorer
from app.components.explorer.payload import payload

controls.source_box()
chosen = controls.selection()

for line in session.problems():
    st.error(line)
if chosen.card is None:
    st.stop()
if not chosen.source:
    st.caption(f"Type a {chosen.source_language} sentence, or choose an example.")
    st.stop()

try:
    record = session.record(chosen.card, chosen.source, chosen.decode)
except ValueError as error:  # InputError and CheckpointError carry one line for the reader
    st.error(str(error))
    st.stop()

with st.container(key="translation"):
    st.text(record.translation)
explorer(payload(record, session.first_view(record), chosen.link), key="explorer")
