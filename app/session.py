"""The only place for st.cache_*, st.session_state and query parameters."""

import gc
import time
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from core.checkpoint import Card, list_cards
from core.config import DecodeConfig

if TYPE_CHECKING:  # torch and spaCy take seconds: they are imported when a model is loaded
    from core.record import TranslationRecord
    from core.translator import Translator

_ROOT = Path(__file__).resolve().parents[1]
# A short name in what people read, where the app was started from the project's folder.
CHECKPOINTS = Path("checkpoints") if Path.cwd() == _ROOT else _ROOT / "checkpoints"


def model_name(card: Card) -> str:
    """What a model is called in lists and links: its folder's name without the direction."""
    return card.folder.name.removesuffix(f"-{card.direction}")


@st.cache_data(ttl=30, show_spinner=False)
def _listed() -> tuple[list[Card], list[str]]:
    return list_cards(CHECKPOINTS)


def cards() -> dict[tuple[str, str], Card]:
    """The usable checkpoints by (direction, model)."""
    return {(card.direction, model_name(card)): card for card in _listed()[0]}


def problems() -> list[str]:
    """One line for each folder in checkpoints/ that cannot be used, or that there is none."""
    cards, problems = _listed()
    if not cards and not problems:
        return [f"{CHECKPOINTS}/ holds no checkpoint: make one with `make train`"]
    return problems


@st.cache_resource(max_entries=4, show_spinner="Loading the model…")
def _translator(folder: str, weights_sha256: str) -> "Translator":
    # Importing torch holds Python for a second, also from serving the shell's own files: let the
    # browser fetch those first, so that a visitor sees the page while the model loads.
    time.sleep(0.3)
    from core.translator import Translator

    loaded = Translator.load(folder)
    # Streamlit collects all garbage after every run, which costs 140 ms a click with torch loaded.
    # Frozen objects are left out of that.
    gc.collect()
    gc.freeze()
    return loaded


def translator(card: Card) -> "Translator":
    """The loaded model of a card, shared by all visitors. Raises CheckpointError."""
    return _translator(str(card.folder), card.weights_sha256)


def device_label(card: Card) -> str:
    """Where the model of a card runs: the GPU's name, or "CPU"."""
    from core.device import device_label

    return device_label(translator(card).device)


@st.cache_resource(max_entries=64, show_spinner=False)
def _record(weights_sha256: str, source: str, decode: DecodeConfig, _card: Card):
    return translator(_card).inspect(source, decode=decode)


def record(card: Card, source: str, decode: DecodeConfig) -> "TranslationRecord":
    """The record of one sentence, kept as this visitor's latest.

    Raises InputError or CheckpointError, each one line for the reader.
    """
    found = _record(card.weights_sha256, source, decode, card)
    st.session_state["latest_record"] = found
    return found


def current_record() -> "TranslationRecord | None":
    """The last record that this visitor made, or None."""
    return st.session_state.get("latest_record")


def asked(name: str, options: list[str], default: str) -> str:
    """What a link asks for under a name, if that is one of the options.

    Only for a widget's first value: later the address is the explorer's, and this reads an old one.
    """
    value = st.query_params.get(name)
    return value if value in options else default


def first_view(record: "TranslationRecord") -> dict[str, str | int]:
    """Kind, layer and head that a link asks for, within what the record has.

    The explorer reads them once, when it appears; without a link, or with a wrong one, it opens on
    the first head of the last cross-attention layer but one.
    """
    asked = st.query_params
    kind = asked.get("kind", "cross")
    if kind not in ("encoder", "decoder", "cross"):
        kind = "cross"
    layers, heads = record.maps(kind).shape[:2]
    layer, head = asked.get("layer", ""), asked.get("head", "")
    return {
        "kind": kind,
        "layer": int(layer) if layer in map(str, range(layers)) else max(0, layers - 2),
        "head": int(head) if head in map(str, range(heads)) else "mean" if head == "mean" else 0,
    }


def theme() -> str:
    """ "light" or "dark", as the visitor sees the page now."""
    return st.context.theme.type or "light"


def get(key: str) -> object:
    """A widget's value."""
    return st.session_state.get(key)


def put(key: str, value: object) -> None:
    """Set a widget's value; only from a callback, before the widget is drawn again."""
    st.session_state[key] = value
