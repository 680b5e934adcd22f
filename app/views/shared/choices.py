"""Widgets for one choice, kept for the session and in the URL."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from app.state import address


def choose(
    label: str, options: Mapping[Any, str], first: Any, key: str, help: str | None = None
) -> Any:
    """Choose one of a few options {value: label}; `first` is the default."""
    address.settle(key, options, first)
    chosen = st.segmented_control(
        label,
        list(options),
        format_func=lambda option: options[option],
        required=True,
        key=key,
        persist_state="session",
        help=help,
    )
    address.keep_choice(key, chosen, first)
    return chosen


def choose_word(label: str, words: Sequence[str], first: int, key: str) -> int:
    """Choose one of a sentence's words; return its index."""
    return _listed(label, dict(enumerate(words)), first, key)


def choose_token(label: str, words: Sequence[str], first: int, key: str) -> int:
    """Choose one of many tokens, listed with their numbers from 1; return its index."""
    return _listed(label, _numbered(words), first, key)


def choose_token_or_all(label: str, words: Sequence[str], every: str, key: str) -> int | None:
    """Choose one of many tokens and return its index, or None for `every`, the default."""
    chosen = _listed(label, {-1: every} | _numbered(words), -1, key)
    return None if chosen < 0 else chosen


def _numbered(words: Sequence[str]) -> dict[int, str]:
    return {i: f"{i + 1}  {word}" for i, word in enumerate(words)}


def _listed(label: str, options: Mapping[int, str], first: int, key: str) -> int:
    address.settle(key, options, first)
    chosen = st.selectbox(
        label,
        list(options),
        format_func=lambda option: options[option],
        key=key,
        persist_state="session",
    )
    address.keep_choice(key, chosen, first)
    return chosen
