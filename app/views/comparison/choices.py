"""What the parts of the page call a model, and how they offer a few options."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.state import address
from app.state.models import Implementation

CODE = {"scratch": "the scratch code", "baseline": "torch.nn.Transformer"}


def name(contestant: Implementation) -> str:
    """What a list calls a model: whose weights, in which code."""
    code = CODE[contestant.architecture]
    return f"{contestant.card.folder.name}: " + (
        f"the same weights in {code}" if contestant.other else f"as trained, in {code}"
    )


def choose(label: str, options: Mapping[Any, str], first: Any, name: str) -> Any:
    """One of a few options, by what people read; `first` is what a visit opens with."""
    key = f"compare_{name}"
    address.settle(key, options, first)  # also for a layer that this model does not have
    chosen = st.segmented_control(
        label,
        list(options),
        format_func=options.get,
        required=True,
        key=key,
        persist_state="session",
    )
    address.keep_choice(key, chosen, first)
    return chosen
