"""What the parts of the page call a model, and how they offer a few options."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app import linked
from app.session import Contestant

CODE = {"scratch": "the scratch code", "baseline": "torch.nn.Transformer"}


def name(contestant: Contestant) -> str:
    """What a list calls a model: whose weights, in which code."""
    code = CODE[contestant.architecture]
    return f"{contestant.card.folder.name}: " + (
        f"the same weights in {code}" if contestant.twin else f"as trained, in {code}"
    )


def choose(label: str, options: Mapping[Any, str], first: Any, name: str) -> Any:
    """One of a few options, by what people read; `first` is what a visit opens with."""
    key = f"compare_{name}"
    linked.settle(key, options, first)  # also for a layer that this model does not have
    chosen = st.segmented_control(
        label,
        list(options),
        format_func=options.get,
        required=True,
        key=key,
        persist_state="session",
    )
    linked.keep_choice(key, chosen, first)
    return chosen
