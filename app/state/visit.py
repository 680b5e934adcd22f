"""What one visit remembers: widgets' values, results that were asked for, how the page looks."""

from typing import Any

import streamlit as st


def get(key: str) -> Any:
    """A widget's value, or None."""
    return st.session_state.get(key)


def put(key: str, value: object) -> None:
    """Set a widget's value, before the widget is drawn in this run."""
    st.session_state[key] = value


def keep(name: str, value: object) -> None:
    """Keep a result for this visit."""
    st.session_state[f"kept {name}"] = value


def kept(name: str) -> Any:
    """A result of this visit, or None."""
    return st.session_state.get(f"kept {name}")


def theme() -> str:
    """How the visitor sees the page now: "light" or "dark"."""
    return st.context.theme.type or "light"
