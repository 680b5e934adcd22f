"""The test: twelve questions in two forms; answers stay in the browser."""

import streamlit as st

from app.components.quiz import quiz
from app.state import address
from app.views.quiz.items import FORMS, payload

st.title(
    "Test yourself",
    anchor=False,
    help="Both forms ask for the same things in other words. The CSV file has form, question, "
    "answer, right or wrong, and seconds, but neither name nor date.",
)
st.caption("Form A before a lesson, form B after it. Answers stay in this browser.")
asked = address.requested("form")
quiz(payload(asked if asked in FORMS else FORMS[0]), key="quiz")
