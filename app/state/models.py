"""The checkpoints that can be used, each loaded once for all visitors, in either implementation."""

from __future__ import annotations

import gc
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from app.state import waiting
from app.state.store import Store
from core.checkpoint.folder import TWIN, Card, list_cards
from core.serving.queue import Queue

if TYPE_CHECKING:  # torch and spaCy take seconds: they are imported when a model is loaded
    from core.translator import Translator

_ROOT = Path(__file__).resolve().parents[2]
# A short name in what people read, where the app was started from the project's folder.
CHECKPOINTS = Path("checkpoints") if Path.cwd() == _ROOT else _ROOT / "checkpoints"
LIMIT = 2 * 2**30
"""Bytes of all loaded networks: those that are shipped take a quarter of it, in both ways."""


@dataclass(frozen=True)
class Implementation:
    """A checkpoint's weights in one of two architectures: its own, or the other one."""

    card: Card
    other: bool = False

    @property
    def architecture(self) -> str:
        swapped = {"scratch": "baseline", "baseline": "scratch"}
        return swapped[self.card.architecture] if self.other else self.card.architecture


Model = Card | Implementation


def key_of(model: Model) -> tuple[str, str, bool]:
    """What tells models apart: folder, configuration, and whether it is the other implementation.

    The hash of a configuration is that of the weights and tokenizers, too, whose hashes it holds.
    """
    card, other = (model, False) if isinstance(model, Card) else (model.card, model.other)
    return str(card.folder), card.config_sha256, other


def model_name(card: Card) -> str:
    """What a model is called in lists and links: its folder's name without the direction."""
    return card.name


@st.cache_resource(ttl=30, show_spinner=False)  # as it is: a copy for each of ten asks a run
def _listed() -> tuple[list[Card], list[str]]:
    return list_cards(CHECKPOINTS)


_loaded: dict[Path, Card] = {}  # what was loaded of a folder last


def cards() -> dict[tuple[str, str], Card]:
    """The usable checkpoints by (direction, model).

    A model in use stays, though its folder has become unusable since; without a folder it is gone.
    """
    usable = {card.folder: card for card in _listed()[0]}
    in_use = {
        folder: card
        for folder, card in _loaded.items()
        if folder.parent == CHECKPOINTS and folder.is_dir()
    }
    found = [card for _, card in sorted({**in_use, **usable}.items())]
    return {(card.direction, model_name(card)): card for card in found}


def implementations(direction: str) -> dict[str, Implementation]:
    """The models of a direction that can be compared, by name: each checkpoint in both ways."""
    by_name = {}
    for (d, name), card in cards().items():
        if d == direction:
            by_name |= {name: Implementation(card), f"{name}{TWIN}": Implementation(card, True)}
    return by_name


def problems() -> list[str]:
    """One line for each folder in checkpoints/ that cannot be used, or that there is none."""
    cards, problems = _listed()
    if not cards and not problems:
        return [f"{CHECKPOINTS}/ holds no checkpoint: make one with `make train`"]
    return problems


@dataclass(frozen=True)
class Served:
    """A loaded model, and the queue of those who ask it."""

    translator: Translator
    queue: Queue


def _served(translator: Translator) -> Served:
    from core.serving.ray_serve import backend_of

    return Served(translator, Queue(backend_of(translator), shares=waiting.SHARES))


def _bytes(served: Served) -> int:
    """What a network takes: its weights in float32, and once more as a search wants them."""
    return 2 * 4 * served.translator.card.parameters


def _gone(served: Served) -> None:
    """A network that has made room is in use no more; if its folder is whole, it loads again."""
    card = served.translator.card
    if _loaded.get(card.folder) == card:
        del _loaded[card.folder]


@st.cache_resource(show_spinner=False)
def _networks() -> Store:
    return Store(LIMIT, _bytes, _gone)


def _own(folder: str) -> Served:
    # Importing torch holds Python for a second, also from serving the shell's own files: let the
    # browser fetch those first, so that a visitor sees the page while the model loads.
    time.sleep(0.3)
    from core.device import limit_threads
    from core.translator import Translator

    loaded = Translator.load(folder)
    _loaded[loaded.card.folder] = loaded.card
    limit_threads(loaded.card.parameters)
    # Each of a search's operations gives Python up for a moment and asks for it again; a thread
    # that computes in Python keeps it for 5 ms, unless told otherwise. Beside such a thread a
    # sentence took 0.66 s, and takes 0.55 with half a millisecond.
    sys.setswitchinterval(0.0005)
    # Streamlit collects all garbage after every run, which costs 140 ms a click with torch loaded.
    # Frozen objects are left out of that.
    gc.collect()
    gc.freeze()
    return _served(loaded)


def served(model: Model) -> Served:
    """The loaded model and its queue, shared by all visitors. Raises CheckpointError."""
    key, networks = key_of(model), _networks()

    def make() -> Served:
        if isinstance(model, Implementation) and model.other:
            return _served(translator(model.card).other_implementation())
        return _own(key[0])

    with nullcontext() if key in networks else st.spinner("Loading the model…"):
        return networks.get(key, make, waiting.raise_if_cancelled)


def translator(model: Model) -> Translator:
    """The loaded model, shared by all visitors. Raises CheckpointError."""
    return served(model).translator


def device_label(card: Card) -> str:
    """Where the model of a card runs: the GPU's name, or "CPU"."""
    from core.device import device_label

    return device_label(translator(card).device)
