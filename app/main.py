"""The app's entry point: the import path, the navigation, and what every page shows."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # streamlit puts only app/ on the path

import streamlit as st

from app import sidebar
from app.look.markdown import plain
from app.state import address, plans, session, waiting
from app.streamlit_internals import own_fragments
from app.views import VIEWS
from app.views.shared import plan_bar
from core.serving.queue import UnansweredError

st.set_page_config(page_icon="🔦", layout="wide", initial_sidebar_state=248)
st.html(Path(__file__).parent / "look.css")
st.logo(str(Path(__file__).parent / "logo.svg"), size="large")

page = st.navigation(
    [
        st.Page(
            view.file,
            title=view.title,
            url_path=view.path or None,
            default=not view.path,
        )
        for view in VIEWS.values()
    ],
    expanded=True,  # the sidebar presses these links, which the style sheet hides
)
st.set_page_config(page_title=f"{VIEWS[page.url_path].title} · Headlight")
with waiting.fair_run():
    address.read_query(page.url_path)
    plans.read(page.url_path)
    sidebar.sidebar(page.url_path)
    plan_bar.show(page.url_path)
    address.show_escaped()
    address.drop_leftovers()
    is_new_page = session.saved_result("page drawn") != page.url_path
    session.save_result("page drawn", page.url_path)
    try:
        with own_fragments(is_new_page):
            page.run()
    except UnansweredError as error:
        st.error(plain(error))
    sidebar.model_note(page.url_path)
