"""Push a state: a token's state moves away from one word of the translation, towards another."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

import core
from app.components.states import states
from app.components.tokens import sent
from app.examples import minimal_change
from app.look.labels import label
from app.look.markdown import plain
from app.state import address, results, session, waiting
from app.views.states.readings import count_states, first_difference
from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.record.edits import Edits, Push, RandomPush
from core.record.record import TranslationRecord

KEY = "pushed_state"
SEEDS = range(3)
STEPS = 16
"""The slider's steps: from no push to one of `_LONGEST` times the length of the state."""

_LONGEST = 1.5


@waiting.fragment
def show_pushing(
    card: Card, record: TranslationRecord, decode: DecodeConfig, direction: str
) -> None:
    """Draw the sentence, the choice of a push, its curve, and the translations."""
    if results.lens(card) is None:
        st.caption(plain(no_lens(card)))
        return
    address.initialise_text("pushed", "")
    push, problem = _chosen(card, record, decode, direction)
    ...
