"""Session state: widget values, results of this session, and the theme."""

from typing import Any

import streamlit as st


def get(key: str) -> Any:
    """Return a widget's value, or None."""
    return st.session_state.get(key)


def put(key: str, value: object) -> None:
    """Set a widget's value; call this before the widget is drawn in this run."""
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
