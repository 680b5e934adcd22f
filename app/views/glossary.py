"""The glossary: every technical word of the app, with a link to a page that shows it."""

import re
import unicodedata
from urllib.parse import parse_qsl

import streamlit as st

from app.lessons.texts import rules, text
from app.look.glossary import TERMS, meaning
from app.look.markdown import plain
from app.state import address
from app.views import VIEWS
from app.views.shared.glance import lesson_top, show_glance


def letters(term: str) -> str:
    """Return a text's letters and digits, to sort and to find: dₖ, d_k and dk are the same."""
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFKC", term)).casefold()


def anchor(term: str) -> str:
    """Return the anchor that Streamlit gives to a heading."""
    return re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")


def ask_for_terms() -> list[str]:
    """Draw the search box; return the terms whose name or explanation has its text, in order."""
    address.initialise_text("find", "")
    typed = st.text_input(
        text("glossary", "find"),
        key="find",
        placeholder=text("glossary", "find"),
        persist_state="session",
        label_visibility="collapsed",
    )
    address.write({"find": typed or None}, "find")
    wanted = letters(typed)
    named = [term for term in TERMS if wanted in letters(term)]
    explained = [term for term in TERMS if typed.casefold() in meaning(term).casefold()]
    found = sorted(named, key=letters) + sorted({*explained} - {*named}, key=letters)
    if not found:
        st.caption(plain(text("glossary", "none", typed=typed)))
    elif not typed:
        first = {letters(term)[0].upper(): term for term in reversed(found)}
        st.markdown(" ".join(f"[{one}](#{anchor(first[one])})" for one in sorted(first)))
    return found


def show_term(term: str) -> None:
    """Show a term with its own anchor, such as /glossary#beam-search, and a page that shows it."""
    path, _, query = rules("glossary")["see"][term].partition("?")
    with st.container(gap=None):
        st.markdown(f"##### {plain(term)}")
        st.markdown(meaning(term))
        st.page_link(
            VIEWS[path].file,
            label=text("glossary", "see", page=VIEWS[path].title),
            icon=":material/arrow_forward:",
            query_params=dict(parse_qsl(query)),
            width="content",
        )


page, beside = lesson_top()
with page:
    st.title(text("glossary", "title"), anchor=False)
    st.caption(text("glossary", "caption"))
    show_glance(in_view=text("glossary", "figure"), beside=beside)
    for term in ask_for_terms():
        show_term(term)
