"""The app's entry point: the import path, the list of pages, and what every page shows."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # streamlit puts only app/ on the path

import streamlit as st

from app import controls
from app.look.markdown import plain
from app.state import address, plans, waiting
from app.views.shared import plan_bar
from core.serving.queue import UnansweredError

st.set_page_config(page_title="Headlight", page_icon="🔦", layout="wide")
st.html(Path(__file__).parent / "look.css")
st.logo(str(Path(__file__).parent / "logo.svg"), size="large")

page = st.navigation(
    [
        st.Page("views/translate.py", title="Translate", default=True),
        st.Page("views/tour/page.py", title="Guided tour", url_path="tour"),
        st.Page("views/tokens/page.py", title="Tokens", url_path="tokens"),
        st.Page("views/steps.py", title="Step by step", url_path="steps"),
        st.Page("views/inside_head/page.py", title="Inside a head", url_path="head"),
        st.Page("views/why/page.py", title="Ask why", url_path="why"),
        st.Page("views/heads/page.py", title="Heads", url_path="heads"),
        st.Page("views/literature/page.py", title="Literature", url_path="literature"),
        st.Page("views/together.py", title="Two at once", url_path="together"),
        st.Page("views/masks/page.py", title="Masks", url_path="masks"),
        st.Page("views/positions/page.py", title="Positions", url_path="positions"),
        st.Page("views/bugs/page.py", title="Find the bug", url_path="bugs"),
        st.Page("views/training.py", title="Training", url_path="training"),
        st.Page("views/comparison/page.py", title="Scratch and baseline", url_path="comparison"),
        st.Page("views/teacher/page.py", title="For teachers", url_path="class"),
        st.Page("views/quiz/page.py", title="Test yourself", url_path="quiz"),
        st.Page("views/glossary.py", title="Glossary", url_path="glossary", visibility="hidden"),
    ],
    expanded=True,  # else Streamlit hides all pages after the tenth
)
with waiting.fair_run():
    address.read_query(page.url_path)
    plans.read(page.url_path)
    controls.sidebar()
    plan_bar.show(page.url_path)
    address.show_escaped()
    try:
        page.run()
    except UnansweredError as error:
        st.error(plain(error))
    controls.model_note()
