"""The glossary: every technical word of the app in a sentence or two, each with its own link."""

import re

import streamlit as st

from app.lessons.texts import text
from app.look.glossary import TERMS, meaning
from app.look.markdown import plain


def letters(term: str) -> str:
    return re.sub(r"\W", "", term).casefold()


def anchor(term: str) -> str:
    """Return the anchor that Streamlit gives to a heading."""
    return re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")


st.title(text("glossary", "title"), anchor=False)
st.caption(text("glossary", "caption"))
terms = sorted(TERMS, key=letters)
first = {letters(term)[0].upper(): term for term in reversed(terms)}
st.markdown(" ".join(f"[{one}](#{anchor(first[one])})" for one in sorted(first)))
for term in terms:
    # Streamlit makes the anchor: /glossary#beam-search.
    st.markdown(f"##### {plain(term)}")
    st.markdown(meaning(term))
