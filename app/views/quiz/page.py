"""The test: twelve questions in two forms; answers stay in the browser."""

import streamlit as st

from app.components.quiz import quiz
from app.state import address
from app.views.quiz.items import FORMS, payload
from app.views.shared.answers import offer_answers

st.title(
    "Test yourself",
    anchor=False,
    help="Both forms ask for the same things in other words. The CSV file has form, question, "
    "answer, right or wrong, seconds, hints and a random name for the sheet, but neither your name "
    "nor the date.",
)
st.caption("Use form A before a lesson and form B after it. Answers stay in this browser.")
asked = address.requested("form")
quiz(payload(asked if asked in FORMS else FORMS[0]), key="quiz")
offer_answers("quiz_answers")
