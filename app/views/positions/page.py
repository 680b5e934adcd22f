"""The lesson on positions: the table, what it adds to words, what if not, and a score split."""

import streamlit as st

from app.views.positions.beyond import beyond, learned
from app.views.positions.scores import scores
from app.views.positions.sums import sums
from app.views.positions.table import distance, rotation, table
from app.views.positions.what_if import order, what_if
from app.views.shared.lesson import lesson

st.title("Positions")
st.caption(
    "Attention compares every word with every word and knows no order. So a pattern that says "
    "where a word stands is added to its vector before the first layer."
)
given = lesson()

st.subheader("The table")
table(given)

st.subheader("Distance, wherever one stands")
distance(given)

st.subheader("A step is a rotation")
rotation(given)

st.subheader("What the sum does to a word")
sums(given)

st.subheader("Waves or a learned table?")
learned(given)

st.subheader("Beyond the longest training sentence")
beyond(given)

st.subheader("Without positions, order means nothing")
order(given)

st.subheader("What if the positions were others?")
what_if(given)

st.subheader("How much of a score is place?")
scores(given)
