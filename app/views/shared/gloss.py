"""A gloss: each source word with the words of the translation that attention links to it."""

from __future__ import annotations

import streamlit as st

from app.components.gloss import gloss
from app.lessons.texts import text
from app.look.glossary import meaning
from app.look.labels import label
from app.look.markdown import plain
from app.look.numbers import percent
from app.state import address, atlases, session
from app.views.shared.word_alignment import aligned_by_heads
from core.analysis.alignment import SentenceAlignment
from core.analysis.attribution import source_words
from core.checkpoint.folder import Card
from core.data.corpora import LANGUAGES
from core.record.record import TranslationRecord


def offer_gloss() -> None:
    """Draw the switch of the gloss below it; the URL keeps it as gloss=1."""
    on = st.toggle(
        text("gloss", "switch"), key="gloss", persist_state="session", help=text("gloss", "help")
    )
    address.write({"gloss": "1" if on else None}, "gloss")


def show_gloss(card: Card, record: TranslationRecord) -> None:
    """Show the gloss if it is switched on; if this network offers none, say why in one line."""
    if (linked := address.pop("gloss")) is not None:
        session.put("gloss", linked == "1")
    if not session.get("gloss"):
        return
    try:
        atlas = atlases.shipped_atlas(card)
    except ValueError as error:
        st.caption(plain(str(error)))
        return
    if atlas is None or atlas.alignment_heads is None:
        st.caption(text("gloss", "none"))
        return
    found = atlas.alignment_heads
    aligned = aligned_by_heads(
        card, record, found, (source_words(record.source), source_words(record.target_out))
    )
    languages = [LANGUAGES[code] for code in (record.source_language, record.target_language)]
    gloss(
        pairs(record, aligned),
        text("gloss", "list", source=languages[0], target=languages[1]),
        key="gloss_words",
    )
    st.caption(
        plain(
            text(
                "gloss",
                "about",
                source=languages[0],
                target=languages[1],
                aer=percent(found.aer),
                low=percent(found.low),
                high=percent(found.high),
            )
        ),
        help=meaning("word alignment", "alignment error rate"),
    )


def pairs(record: TranslationRecord, aligned: SentenceAlignment) -> list[tuple[str, str]]:
    """Return each source word with the target words linked to it, in target order."""
    source, target = (
        ["".join(label(tokens[i]) for i in word) for word in words]
        for tokens, words in (
            (record.source, aligned.source),
            (record.target_out, aligned.target),
        )
    )
    linked: dict[int, list[int]] = {}
    for s, t in sorted(aligned.values):
        linked.setdefault(s, []).append(t)
    return [(word, " ".join(target[t] for t in linked.get(s, []))) for s, word in enumerate(source)]
