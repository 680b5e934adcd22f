"""The glossary: every technical word of the app in a sentence or two, each with its own link."""

import re

import streamlit as st

from app.lessons.texts import text
from app.look.glossary import TERMS, meaning
from app.look.markdown import plain

st.title(text("glossary", "title"), anchor=False)
st.caption(text("glossary", "caption"))
for term in sorted(TERMS, key=lambda term: re.sub(r"\W", "", term).casefold()):
    # Streamlit makes the anchor: /glossary#beam-search.
    st.markdown(f"##### {plain(term)}")
    st.markdown(meaning(term))
