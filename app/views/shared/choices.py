"""Widgets for one choice, kept for the session and in the URL."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from app.state import address


def choose(
    label: str,
    options: Mapping[Any, str],
    default: Any,
    key: str,
    help: str | None = None,
    *,
    show_label: bool = True,
) -> Any:
    """Choose one of a few options {value: label}; return its value."""
    address.initialise(key, options, default)
    chosen = st.segmented_control(
        label,
        list(options),
        format_func=lambda option: options[option],
        required=True,
        key=key,
        persist_state="session",
        help=help,
        label_visibility="visible" if show_label else "collapsed",
    )
    address.write_choice(key, chosen, default)
    return chosen


def choose_word(label: str, words: Sequence[str], default: int, key: str) -> int:
    """Choose one of a sentence's words; return its index."""
    return choose_listed(label, dict(enumerate(words)), default, key)


def choose_token(label: str, words: Sequence[str], default: int, key: str) -> int:
    """Choose one of many tokens, listed with their numbers from 1; return its index."""
    return choose_listed(label, _numbered(words), default, key)


def choose_token_or_all(label: str, words: Sequence[str], every: str, key: str) -> int | None:
    """Choose one of many tokens and return its index, or None for `every`, the default."""
    chosen = choose_listed(label, {-1: every} | _numbered(words), -1, key)
    return None if chosen < 0 else chosen


def _numbered(words: Sequence[str]) -> dict[int, str]:
    return {i: f"{i + 1}  {word}" for i, word in enumerate(words)}


def choose_listed(label: str, options: Mapping[Any, str], default: Any, key: str) -> Any:
    """Choose one of many options {value: label} in a list that folds out; return its value."""
    address.initialise(key, options, default)
    chosen = st.selectbox(
        label,
        list(options),
        format_func=lambda option: options[option],
        key=key,
        persist_state="session",
    )
    address.write_choice(key, chosen, default)
    return chosen
