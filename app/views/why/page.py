"""Ask why: which heads matter, why this word, what each layer knew, where a word came from."""

import streamlit as st

from app.views.shared.lesson import ask_for_sentence
from app.views.shared.section import section
from app.views.why.heads import matters, pairs
from app.views.why.layers import decoder_lens, lens
from app.views.why.sources import sources
from app.views.why.words import word_choice

st.title("Ask why")
st.caption(
    "Looking is not explaining. Every answer here is worked out with the network itself: it is "
    "exact, or it says how far off it is, and each prediction stands beside the true effect."
)
lesson = ask_for_sentence()

st.subheader("Which head matters here?")
matters(lesson)

section("Who covers for whom?", "open_pairs", pairs, lesson, choices=("why_pairs",))
section(
    "Why this word and not that one?",
    "open_choice",
    word_choice,
    lesson,
    choices=("why_step", "why_other"),
)
section("What did each layer already know?", "open_lens", lens, lesson)
section("What if the encoder stopped earlier?", "open_decoder_lens", decoder_lens, lesson)
section("Where did it come from?", "open_sources", sources, lesson, choices=("why_token",))
