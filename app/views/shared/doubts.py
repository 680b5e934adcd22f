"""The line of warning under a translation that there is reason to doubt."""

import streamlit as st

from app.look.labels import label
from app.look.markdown import plain
from core.analysis.doubts import doubts
from core.record.record import TranslationRecord

_SHOWN = 3  # unknown tokens; the explorer marks all of them


def show_doubts(record: TranslationRecord, learned: str) -> None:
    """Say what speaks against a record's translation; nothing where nothing does.

    `learned` says what sentences the network was trained on.
    """
    result = doubts(record)
    if not result:
        return
    reasons = []
    if result.language:
        reasons.append(
            f"this looks like {result.language}, but it is read as {record.source_language}"
        )
    if result.unknown:
        unknown = [label(token) for token in record.source if token.unknown]
        words = ", ".join(f"“{text}”" for text in unknown[:_SHOWN])
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        reasons.append(f"the network has no token for {words}{more} and reads it as <unk>")
    if result.probability is not None:
        reasons.append(
            f"it gives its own tokens a mean probability of only {result.probability:.2f}"
        )
    line = "; ".join(reasons)
    with st.container(key="doubts"):
        st.warning(
            plain(f"Do not trust this translation: {line}. The network knows {learned}."),
            icon=":material/warning:",
        )
