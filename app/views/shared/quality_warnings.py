"""Shows quality warnings of a translation, and how certain the network is of it."""

from dataclasses import replace

import streamlit as st

from app import controls
from app.look.certainty import certainty_of, lines
from app.look.glossary import meaning
from app.look.labels import isolated, labels, segments
from app.look.markdown import plain
from app.look.numbers import percent
from app.state import models, plans, session
from core.analysis.quality_warnings import least_certain, quality_warnings
from core.checkpoint.certainty import mean_probability
from core.record.record import TranslationRecord
from core.text.tokenizer import typography


def show_quality_warnings(record: TranslationRecord, training_domain: str, typed: str = "") -> None:
    """Show whether the network is uncertain, and all reasons for doubt.

    `training_domain` describes the training sentences, if they are known; `typed` is the source as
    entered.
    """
    result = quality_warnings(record)
    with st.container(key="doubts"):
        if show_certainty(record):  # says more than the mean probability alone
            result = replace(result, probability=None)
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
            if result.language == record.target_language:
                _offer_to_reverse(result.language)
        if changed := typography(typed):
            names = ", ".join(f"U+{ord(character):04X}" for character in changed)
            st.caption(f"Some typographic characters were removed or simplified ({names}).")


def _offer_to_reverse(language: str) -> None:
    """Offer to translate a sentence of the target language in the other direction."""
    reverse = "-".join(reversed(controls.selection().direction.split("-")))
    if reverse in controls.directions() and plans.running() is None:
        st.button(
            f"Translate it from {language}",
            key="reverse",
            on_click=session.put,
            args=("direction", reverse),
        )


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


def show_certainty(record: TranslationRecord) -> bool:
    """Show a line if the network is less certain than of nearly all sentences of its own kind.

    Return whether that is known: not for a given target, nor for a network without a measurement.
    """
    cards = models.cards().values()
    card = next((one for one in cards if one.weights_sha256 == record.weights_sha256), None)
    measured = None if card is None else certainty_of(card)
    if measured is None or not (limits := lines(measured, record.search)):
        return False
    probability = mean_probability(record.log_prob, len(record.target_out))
    if line := next((line for limit, line in limits if probability < limit), ""):
        st.markdown(f":material/warning: **{plain(line)}**")
    return True


def _visible(text: str) -> str:
    return isolated("".join(shown for shown, _ in segments(text)))
