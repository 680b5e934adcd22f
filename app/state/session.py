"""Session state: values of widgets and of the app, results of this session, and the theme."""

from typing import Any

import streamlit as st


def get(key: str) -> Any:
    """Return the value of a key, which may be a widget's, or None."""
    return st.session_state.get(key)


def put(key: str, value: object) -> None:
    """Set the value of a key; for a widget's key, call this before the widget is drawn."""
    st.session_state[key] = value


def save_result(name: str, value: object) -> None:
    """Store a result for this session."""
    st.session_state[f"saved {name}"] = value


def saved_result(name: str) -> Any:
    """Return a result stored by `save_result`, or None."""
    return st.session_state.get(f"saved {name}")


def theme() -> str:
    """Return the current theme: "light" or "dark"."""
    return st.context.theme.type or "light"
