"""The lesson on positions: the table, its effect on tokens and scores, and interventions."""

import streamlit as st

from app.look.glossary import meaning
from app.views.positions.beyond import beyond, learned
from app.views.positions.scores import scores
from app.views.positions.sums import sums
from app.views.positions.table import distance, rotation, table
from app.views.positions.what_if import order, what_if
from app.views.shared.lesson import ask_for_sentence
from app.views.shared.section import section

CONTENTS = {
    "table": "The table",
    "distance": "Dot products by distance",
    "rotation": "A step is a rotation",
    "sums": "What the sum does to a token",
    "learned": "Sinusoids or a learned table?",
    "beyond": "Beyond the longest training sentence",
    "order": "Without positions, order means nothing",
    "what-if": "What if the positions were different?",
    "scores": "How much of a score is position?",
}
"""Section titles by anchor, in order."""

st.title("Positions")
st.caption(
    "Attention compares every token with every token and knows no order. So a vector that depends "
    "on a token's position alone is added to its embedding before the first layer.",
    help=meaning("token"),
)
lesson = ask_for_sentence()
st.markdown(" · ".join(f"[{title}](#{anchor})" for anchor, title in CONTENTS.items()))

st.subheader(CONTENTS["table"], anchor="table")
table(lesson)

st.subheader(CONTENTS["distance"], anchor="distance")
distance(lesson)

st.subheader(CONTENTS["rotation"], anchor="rotation")
rotation(lesson)

st.subheader(CONTENTS["sums"], anchor="sums")
sums(lesson)

st.subheader(CONTENTS["learned"], anchor="learned")
learned(lesson)

section(
    CONTENTS["beyond"],
    "open_beyond",
    beyond,
    lesson,
    anchor="beyond",
    promise="The probability of the translation as k is added to all positions",
)
section(
    CONTENTS["order"],
    "open_order",
    order,
    lesson,
    anchor="order",
    promise="The encoder's maps of this sentence, and of its tokens in another order",
    choices=("order_positions",),
)
section(
    CONTENTS["what-if"],
    "open_what_if",
    what_if,
    lesson,
    anchor="what-if",
    promise="The translation and the maps with positions off, shuffled, shifted or stretched",
    choices=("position_change", "position_change_side", "position_seed", "position_shift"),
)
section(
    CONTENTS["scores"],
    "open_scores",
    scores,
    lesson,
    anchor="scores",
    promise="The scores of the first layer, split into content and position",
    choices=("parts_kind",),
)
