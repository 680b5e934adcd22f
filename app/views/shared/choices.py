"""Offers a few options; what is chosen stays for the visit and stands in the address."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from app.state import address


def choose(
    label: str, options: Mapping[Any, str], first: Any, key: str, help: str | None = None
) -> Any:
    """One of a few options, by what people read; `first` is what a visit opens with."""
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
    """One of a sentence's words, by its place among them; a word has no number of its own."""
    return _listed(label, dict(enumerate(words)), first, key)


def choose_token(label: str, words: Sequence[str], first: int, key: str) -> int:
    """One of many tokens, numbered from 1, by its place; the list shows them as plain text."""
    named = {at: f"{at + 1}  {word}" for at, word in enumerate(words)}
    return _listed(label, named, first, key)


def choose_token_or_all(label: str, words: Sequence[str], every: str, key: str) -> int | None:
    """One of many tokens by its place, or None for `every`, which a visit opens with."""
    named = {-1: every} | {at: f"{at + 1}  {word}" for at, word in enumerate(words)}
    chosen = _listed(label, named, -1, key)
    return None if chosen < 0 else chosen


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
