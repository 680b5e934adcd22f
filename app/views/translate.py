"""The main page: type a sentence, read its translation, see where every head looked."""

import streamlit as st

from app import controls
from app.look.markdown import plain
from app.state import address, models, results
from app.views.shared.doubts import show_doubts
from app.views.shared.explored import explored
from app.views.shared.take_away import take_away

st.title("See where each attention head looks", anchor=False)
with st.container(horizontal=True, gap="small", vertical_alignment="center", key="purpose"):
    st.markdown(
        "A Transformer translates a sentence here, and shows every weight of every head.",
        width="content",
    )
    st.page_link("views/tour/page.py", label="New here? Take the guided tour", width="content")
controls.source_box()
controls.target_box()
chosen = controls.selection()

for line in models.problems():
    st.error(plain(line))
if chosen.card is None:
    st.stop()
if not chosen.source:
    st.caption(f"Type a sentence in {chosen.source_language}, or choose an example.")
    st.stop()

try:
    record = results.inspect(chosen.card, chosen.source, decode=chosen.decode)
    own = record.translation
    if chosen.target:
        record = results.inspect(chosen.card, chosen.source, chosen.target, decode=chosen.decode)
except ValueError as error:  # InputError and CheckpointError carry one line for the reader
    st.error(plain(error))
    st.stop()

with st.container(key="translation"):
    st.text(record.translation)
if chosen.target:
    with st.container(key="own_translation"):
        st.text(f"The model itself writes: {own}")
show_doubts(record, controls.learned(chosen.card))
explored(record, address.first_view(record), chosen.card, inside="head")
take_away(record)
controls.target_shown()
