"""Saves what a page shows as a notebook or as a script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app import controls
from app.components.notebook import notebook
from app.export import notebook as files
from app.state import address
from core.checkpoint.folder import Card
from core.kinds import KINDS
from core.record.record import TranslationRecord


def offer_notebook(
    page: str,
    card: Card,
    record: TranslationRecord,
    choices: Mapping[str, tuple[str, int]] | None = None,
    **values: Any,
) -> None:
    """Draw a fold that saves a page as a notebook or as a script: see `notebook_buttons`."""
    with st.expander("Save as notebook", key="notebook_fold"):
        st.caption(
            "The numbers of this page from Python: it loads the model and makes this pass again. "
            "Change a sentence, a head or an edit in its first cell, and run it."
        )
        with st.container(horizontal=True):
            notebook_buttons(page, card, record, choices, **values)


def notebook_buttons(
    page: str,
    card: Card,
    record: TranslationRecord,
    choices: Mapping[str, tuple[str, int]] | None = None,
    **values: Any,
) -> None:
    """Draw the buttons that save a page; `values` are constants of its script.

    `choices` are constants whose value is in the link when a button is pressed: see
    `app.components.notebook`.
    """
    settings = {
        "MODEL": files.name_of(card.folder),
        "WEIGHTS": record.weights_sha256[:16],
        "SPOKEN": card.spoken,
        "SOURCE": record.source_text,
        "BEAM": controls.selection().decode.beam,
    }
    script = files.script(page, settings | values)
    made = {
        "save_notebook": ("Notebook", "ipynb", files.notebook(script), "for Jupyter"),
        "save_script": ("Script", "py", script, "plain Python with the same cells"),
    }
    named: dict[str, tuple[str, str]] = {}
    for key, (label, ending, text, what) in made.items():
        named[key] = f"headlight-{page}-{record.id}.{ending}", text
        st.download_button(
            f"{label} (.{ending})",
            text,
            file_name=named[key][0],
            mime="text/plain",
            help=f"{what}: makes this pass and computes the page's numbers",
            on_click="ignore",
            key=key,
        )
    notebook(key="notebook_choices", choices=choices, files=named)


def view_choices(record: TranslationRecord) -> dict[str, tuple[str, int]]:
    """Return the choices of an explorer whose view is in the link."""
    layers, heads = (max(record.maps(kind).shape[axis] for kind in KINDS) for axis in (0, 1))
    tokens = max(len(record.source), len(record.target_out))
    return {
        "kind": ("KIND", 0),
        "layer": ("LAYER", layers),
        "head": ("HEAD", heads),
        "q": ("QUERY", tokens),
    }


def view_values(record: TranslationRecord) -> dict[str, Any]:
    """Return the constants of the view that an explorer opens with."""
    view = address.initial_view(record)
    return {name.upper(): view[name] for name in ("kind", "layer", "head")}
