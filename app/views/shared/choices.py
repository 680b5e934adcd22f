"""Offers a few options; what is chosen stays for the visit and stands in the address."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from app.state import address


def choose(label: str, options: Mapping[Any, str], first: Any, key: str) -> Any:
    """One of a few options, by what people read; `first` is what a visit opens with."""
    address.settle(key, options, first)
    chosen = st.segmented_control(
        label,
        list(options),
        format_func=lambda option: options[option],
        required=True,
        key=key,
        persist_state="session",
    )
    address.keep_choice(key, chosen, first)
    return chosen


def choose_token(label: str, words: Sequence[str], first: int, key: str) -> int:
    """One of many words, by its position; the list shows them as plain text."""
    address.settle(key, range(len(words)), first)
    chosen = st.selectbox(
        label,
        range(len(words)),
        format_func=lambda position: f"{position + 1}  {words[position]}",
        key=key,
        persist_state="session",
    )
    address.keep_choice(key, chosen, first)
    return chosen
