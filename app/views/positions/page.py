"""The lesson on positions: the table, what it adds to words, what if not, and a score split."""

import streamlit as st

from app.views.positions.beyond import beyond, learned
from app.views.positions.scores import scores
from app.views.positions.sums import sums
from app.views.positions.table import distance, rotation, table
from app.views.positions.what_if import order, what_if
from app.views.shared.lesson import ask_for_sentence
from app.views.shared.section import section

st.title("Positions")
st.caption(
    "Attention compares every word with every word and knows no order. So a pattern that says "
    "where a word stands is added to its vector before the first layer."
)
lesson = ask_for_sentence()

st.subheader("The table")
table(lesson)

st.subheader("Distance, wherever one stands")
distance(lesson)

st.subheader("A step is a rotation")
rotation(lesson)

st.subheader("What the sum does to a word")
sums(lesson)

st.subheader("Waves or a learned table?")
learned(lesson)

section("Beyond the longest training sentence", "open_beyond", beyond, lesson)
section(
    "Without positions, order means nothing",
    "open_order",
    order,
    lesson,
    choices=("order_positions",),
)
section(
    "What if the positions were others?",
    "open_what_if",
    what_if,
    lesson,
    choices=("position_change", "position_change_side", "position_seed", "position_shift"),
)
section("How much of a score is position?", "open_scores", scores, lesson, choices=("parts_kind",))
