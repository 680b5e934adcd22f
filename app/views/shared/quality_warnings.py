"""Shows quality warnings of a translation and its least certain token."""

import streamlit as st

from app.look.glossary import meaning
from app.look.labels import isolated, labels, segments
from app.look.markdown import plain
from app.look.numbers import percent
from core.analysis.quality_warnings import least_certain, quality_warnings
from core.record.record import TranslationRecord
from core.text.tokenizer import typography


def show_quality_warnings(
    record: TranslationRecord, training_domain: str, typed: str = "", least: bool = True
) -> None:
    """Show one warning with all reasons, if there are any, and the least certain token.

    `training_domain` describes the training sentences, if they are known; `typed` is the source as
    entered; `least` says whether the least certain token is named here.
    """
    result = quality_warnings(record)
    with st.container(key="doubts"):
        if result:
            reasons = result.reasons(record.source_language, _visible)
            trained = (
                f"The network was trained on {training_domain}"
                if training_domain
                else "Which sentences the network was trained on is not recorded"
            )
            st.warning(
                plain(
                    f"Do not trust this translation: {'; '.join(reasons)}. {trained}. The maps are "
                    "still exact: they show what attention does when a translation cannot be "
                    "trusted."
                ),
                icon=":material/warning:",
            )
        if changed := typography(typed):
            names = ", ".join(f"U+{ord(character):04X}" for character in changed)
            st.caption(f"Some typographic characters were removed or simplified ({names}).")
        if least:
            show_least_certain(record)


def show_least_certain(record: TranslationRecord) -> None:
    """Name the least certain token of a translation, if one is uncertain enough."""
    if (found := least_certain(record)) is not None:
        place, probability = found
        words = labels(record.target_out, 1)
        st.caption(
            f"Least certain token of the translation: “{plain(words[place])}” "
            f"({percent(probability)}).",
            help=meaning("token", "<eos>") if record.target_out[place].special else None,
        )


def _visible(text: str) -> str:
    return isolated("".join(shown for shown, _ in segments(text)))
