"""The test: twelve questions in two forms; answers stay in the browser."""

import streamlit as st

from app.components.quiz import quiz
from app.state import address
from app.views.quiz.items import FORMS, payload

st.title("Test yourself", anchor=False)
st.caption(
    "Two forms of twelve questions, A and B, ask for the same things in other words: one for "
    "before a lesson, one for after it. Answers are kept in this browser and are never sent. "
    "You can save them as a CSV file with form, question, answer, right or wrong, and seconds, but "
    "without name and date."
)
asked = address.requested("form")
quiz(payload(asked if asked in FORMS else FORMS[0]), key="quiz")
