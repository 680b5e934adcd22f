"""The atlas of heads for a visitor's own text, computed on request."""

from __future__ import annotations

import streamlit as st

from app.components.atlas import Link, Shown, heads_atlas
from app.look.markdown import plain
from app.state import atlases, log, models, session, waiting
from app.views import VIEWS
from app.views.shared.progress_bar import ProgressBar
from core.checkpoint.folder import Card
from core.data.corpora import LANGUAGES

_RESULT = "own atlas"  # the name under which the session keeps the network and its OwnAtlas
_SKIPPED_SHOWN = 3
_MOST_BYTES = 4 * atlases.MOST_LINES * atlases.MOST_CHARACTERS


def open_link(link: Link) -> None:
    """Open a sentence in the explorer, or a head's training, without leaving the session."""
    st.switch_page(VIEWS[link.page].file, query_params=link.query)


@waiting.fragment
def show_own_text(card: Card, shown: Shown) -> None:
    """Ask for a text, and show the atlas of its lines."""
    language = LANGUAGES[card.source_language]
    logged = ""
    if log.keeps_sentences():
        logged = " Sentences that you open on *Translate* go into the log of this server."
    st.subheader("Your own text", anchor="own-text")
    st.caption(
        f"Up to {atlases.MOST_LINES} lines in {language}, one sentence per line, typed, pasted or "
        "uploaded. The network translates them greedily, and each head is measured on these "
        "translations: for example, how much less probable they are without the head. Nothing is "
        f"stored: closing this tab deletes the text and its numbers.{logged}"
    )
    with st.form("own_text", border=False):
        text = st.text_area(
            f"{language} text, one sentence per line",
            height=140,
            max_chars=atlases.MOST_LINES * (atlases.MOST_CHARACTERS + 2),
            key="own_text_lines",
        )
        uploaded = st.file_uploader("Or a text file (UTF-8)", type="txt", key="own_text_file")
        asked = st.form_submit_button("Measure all heads", key="own_text_measure")
    place = st.container()
    if asked:
        session.save_result(_RESULT, None)
        _measure(card, text if uploaded is None else (uploaded.name, uploaded.getvalue()))
    saved = session.saved_result(_RESULT)
    if saved is None or saved[0] != models.key_of(card):
        return
    own = saved[1]
    with place:
        for line in own.skipped[:_SKIPPED_SHOWN]:
            st.caption(plain(f"Left out: {line}."))
        if more := len(own.skipped[_SKIPPED_SHOWN:]):
            st.caption(f"Left out: {more} more line{'' if more == 1 else 's'}.")
        if link := heads_atlas(own.atlas, shown, key="own_atlas"):
            open_link(link)


def _measure(card: Card, given: str | tuple[str, bytes]) -> None:
    """Compute the atlas of a text or a file, with progress; on bad input show one line."""
    bar = ProgressBar()
    try:
        lines = atlases.lines_of(given if isinstance(given, str) else _decoded(*given))
        own = atlases.own_atlas(
            card,
            lines,
            on_progress=bar.show_time,
            on_wait=bar.show_queue,
        )
    except ValueError as error:
        st.error(plain(_sentence(str(error))))
        return
    finally:
        bar.empty()
    session.save_result(_RESULT, (models.key_of(card), own))


def _sentence(text: str) -> str:
    """Return a one-line message as a sentence: "There is no text." for "there is no text"."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _decoded(name: str, content: bytes) -> str:
    """Return the text of an uploaded file. Raises ValueError, in one line."""
    if len(content) > _MOST_BYTES:
        raise ValueError(
            f"the file {name} has {len(content):,} bytes: the limit is {_MOST_BYTES:,}, upload "
            f"at most {atlases.MOST_LINES} lines"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"the file {name} is not UTF-8 (byte {error.start + 1}): save it as UTF-8"
        ) from None
