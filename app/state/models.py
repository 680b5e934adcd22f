"""The available checkpoints, each loaded once for all sessions, in either implementation."""

from __future__ import annotations

import gc
import os
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import streamlit as st

from app.look.numbers import weights_count
from app.state import folders, session, small_runs, waiting
from app.state.store import Store
from app.streamlit_internals import session_id
from core.checkpoint.errors import CheckpointError
from core.checkpoint.folder import TWIN, Card, Spoken, language_of, list_cards
from core.checkpoint.validate import read_frames
from core.data.corpora import LANGUAGES
from core.files import printable
from core.serving.queue import Queue
from core.text.tokenizer import Frame

if TYPE_CHECKING:  # torch takes seconds to import, so only when a model is loaded
    from core.translator import Translator

_ROOT = Path(__file__).resolve().parents[2]
# A relative path gives short messages, if the app was started from the project's folder.
CHECKPOINTS = Path("checkpoints") if Path.cwd() == _ROOT else _ROOT / "checkpoints"
LIMIT_MB = "HEADLIGHT_MODELS_MB"
"""The environment variable with the limit of all loaded models, in MiB."""
LIMIT = int(os.environ.get(LIMIT_MB) or 2048) * 2**20
"""Bytes of all loaded models; the shipped ones, in both implementations, fit several times over."""


MODELS = {
    "scratch": "From scratch",
    "captions": "From scratch, captions only",
    "baseline": "Baseline: torch.nn.Transformer",
}
"""Display names of the shipped models, by their name in links."""


@dataclass(frozen=True)
class Implementation:
    """A checkpoint's weights in its own architecture or in the other one."""

    card: Card
    other: bool = False

    @property
    def architecture(self) -> str:
        swapped = {"scratch": "baseline", "baseline": "scratch"}
        return swapped[self.card.architecture] if self.other else self.card.architecture


Model = Card | Implementation


def in_scratch_code(model: Implementation) -> Implementation:
    """Return the same weights in the scratch code, whose search has a KV cache."""
    return Implementation(model.card, model.card.architecture != "scratch")


def key_of(model: Model) -> tuple[str, str, bool, Spoken]:
    """Return the cache key of a model: folder, configuration hash, implementation, languages.

    The configuration contains the hashes of weights and tokenizers, so its own hash covers them.
    """
    card, other = (model, False) if isinstance(model, Card) else (model.card, model.other)
    return str(card.folder), card.config_sha256, other, card.spoken


def model_name(card: Card) -> str:
    """Return a model's name in links: its folder's name without the direction."""
    return card.name


Origin = Literal["shipped", "own", "imported"]
ORIGINS: tuple[Origin, ...] = ("shipped", "own", "imported")
"""The order of models in lists."""
# The first 16 digits of the weights' SHA-256: a folder of the same name may hold other weights.
_SHIPPED = {
    "scratch-de-en": "d17e74f627679dfa",
    "scratch-en-de": "751536cc58f78b7a",
    "captions-de-en": "3cd70e55ea2b390b",
    "captions-en-de": "b79c0be101e45c20",
    "baseline-de-en": "9f12e25aade55a24",
    "baseline-en-de": "0f47f0b397431948",
}


def origin(card: Card) -> Origin:
    """Return whether a model ships with the project, was trained with it, or was imported."""
    if card.imported is not None:
        return "imported"
    shipped = _SHIPPED.get(card.folder.name)
    return "shipped" if card.weights_sha256[:16] == shipped else "own"


def languages(direction: str) -> str:
    """Return a direction with the languages' names: German → English."""
    return " → ".join(LANGUAGES[code] for code in direction.split("-"))


def is_trained_here(card: Card) -> bool:
    """Whether a network of this visit was trained on the page *Train one here*."""
    return any(card is one for one in small_runs.cards())


def model_label(card: Card) -> str:
    """Return a model's name in lists, which tells shipped, own and imported models apart."""
    where, name = origin(card), model_name(card)
    if where == "shipped":
        return MODELS[name]
    size = weights_count(card.parameters)
    if is_trained_here(card):
        return f"Trained here: {name}, {size}"
    if where == "own":
        return f"Own: {name}, {size}"
    return f"Imported: {name} ({card.credit.removeprefix('imported, ')}), {size}"


@st.cache_resource(ttl=30, show_spinner=False)  # not cache_data: it would copy
def _listed() -> tuple[list[Card], list[str]]:
    """Return the usable checkpoints of all folders, and one line for each problem.

    Names are unique within a direction. The project's own folder takes precedence, then the other
    folders in the order given.
    """
    found, problems = list_cards(CHECKPOINTS)
    cards = {(card.direction, model_name(card)): card for card in found}
    others, lines = folders.named_folders()
    for folder in others:
        found, more = list_cards(folder)
        lines += more
        if not found and not more:
            lines.append(
                f"{printable(str(folder))[:200]} contains no checkpoint: name the folder that "
                "contains checkpoint folders, or one of them"
            )
        for card in found:
            first = cards.setdefault((card.direction, model_name(card)), card)
            if first is not card and first.folder.resolve() != card.folder.resolve():
                lines.append(
                    f"{printable(str(card.folder))} is left out, as "
                    f"{printable(str(first.folder))} has the same name: rename the folder"
                )
    folders.log_once(lines)
    return list(cards.values()), problems + lines


_loaded: dict[Path, Card] = {}  # the last loaded card of each folder


def cards() -> dict[tuple[str, str], Card]:
    """Return the usable checkpoints by (direction, model): shipped, own, then imported ones.

    A loaded model stays available if its folder becomes invalid, but not if it is deleted.
    """
    found = {(card.direction, model_name(card)): card for card in _listed()[0]}
    roots = {CHECKPOINTS, *folders.named_folders()[0]}
    for folder, card in sorted(_loaded.items()):
        if roots & {folder, folder.parent} and folder.is_dir():
            found.setdefault((card.direction, model_name(card)), card)
    order = sorted(found.items(), key=lambda item: (ORIGINS.index(origin(item[1])), item[0]))
    own = {(card.direction, model_name(card)): card for card in small_runs.cards()}
    if session_id() is None:
        return dict(order) | own
    return {key: _as_chosen(key, card) for key, card in order} | own


_frames: dict[tuple[Path, str], tuple[Frame, Frame]] = {}


def frames(card: Card) -> tuple[Frame, Frame]:
    """Return what an imported network reads and writes around a text, by side.

    An unusable folder has none: what is wrong is said where the network is loaded.
    """
    key = card.folder, card.config_sha256
    if card.imported is None:
        return Frame(), Frame()
    if key not in _frames:
        try:
            _frames[key] = read_frames(card.folder, card)
        except CheckpointError:
            return Frame(), Frame()
    return _frames[key]


def own_codes(card: Card) -> tuple[str | None, str | None]:
    """Return the codes of the languages that a network translates between if none are chosen."""
    source, target = frames(card)
    first, second = (
        next((code for code, id in frame.languages.items() if id in ids), None)
        for frame, ids in ((source, source.first), (target, target.forced))
    )
    return first, second


def takes_prefix(card: Card) -> bool:
    """Return whether a network reads its task in words in front of the source, as T5 does."""
    return card.imported is not None and (
        card.imported.family == "t5" or bool(frames(card)[0].prefix)
    )


def _as_chosen(key: tuple[str, str], card: Card) -> Card:
    """Return a network's card for the visitor's languages and, if it is selected, prefix."""
    codes = session.get("from_language"), session.get("to_language")
    prefix = session.get("prefix") if key == selected() and takes_prefix(card) else None
    if card.imported is None or (prefix is None and not any(codes)):
        return card
    sides = zip(codes, frames(card), own_codes(card), strict=True)
    found = [
        code if code in frame.languages and code != own else None for code, frame, own in sides
    ]
    spoken = *found, None if prefix == frames(card)[0].prefix else prefix
    return card.between(*spoken) if spoken != (None, None, None) else card


def selected() -> tuple[str, str]:
    """Return the visitor's direction and model, the key of `cards`."""
    return session.get("direction"), session.get("model")


def language_label(code: str) -> str:
    """Return a language code with the language's name: German (deu_Latn)."""
    name = LANGUAGES[language_of(code)]
    return code if name == code else f"{name} ({code})"


def implementations(direction: str) -> dict[str, Implementation]:
    """Return the models of a direction by name, each checkpoint in both implementations."""
    by_name = {}
    for (d, name), card in cards().items():
        if d == direction:
            by_name |= {name: Implementation(card), f"{name}{TWIN}": Implementation(card, True)}
    return by_name


def problems() -> list[str]:
    """Return one line for each folder that cannot be used, or one if there is no checkpoint."""
    cards, problems = _listed()
    if not cards and not problems:
        return [f"{CHECKPOINTS}/ contains no checkpoint: make one with `make train`"]
    return problems


_MOST_OTHERS = 50  # pairs of languages and prefixes of a network; visitors may type any prefix


@dataclass(frozen=True)
class Served:
    """A loaded model and its request queue."""

    translator: Translator
    queue: Queue
    others: dict[Spoken, Served] = field(default_factory=dict)

    def between(self, spoken: Spoken) -> Served:
        """Return the same network for other languages; it is forgotten with this one."""
        if len(self.others) >= _MOST_OTHERS:
            self.others.clear()
        found = self.others.get(spoken) or _served(self.translator.between(*spoken))
        self.others[spoken] = found
        return found


def _served(translator: Translator) -> Served:
    from core.serving.local import backend_of

    return Served(translator, Queue(backend_of(translator), shares=waiting.SHARES))


def size_of(card: Card) -> int:
    """Estimate the bytes of a loaded model's float32 weights.

    The scratch code keeps a second copy for decoding. `card.architecture` is the loaded network's,
    which differs from the folder's if the network is the other implementation.
    """
    return (2 if card.architecture == "scratch" else 1) * 4 * card.parameters


def _bytes(served: Served) -> int:
    return size_of(served.translator.card)


def _make_room(model: Model) -> None:
    """Evict models until this one fits. Raises CheckpointError if it exceeds the limit alone.

    The other implementation is copied from the folder's own, so both have to fit.
    """
    own = model if isinstance(model, Card) else model.card
    own = replace(own, spoken=(None, None, None))
    needed, what = size_of(own), own.folder.name
    if isinstance(model, Implementation) and model.other:
        other = size_of(replace(own, architecture=model.architecture))
        needed, what = needed + other, f"{what} in both implementations"
    if needed > LIMIT:
        raise CheckpointError(
            f"{what} needs {in_mib(needed)} MiB of memory for {own.parameters:,} parameters: the "
            f"limit of all loaded models is {in_mib(LIMIT)} MiB, choose a smaller model or start "
            f"the app with {LIMIT_MB}={-(-needed // 2**20)}"
        )
    _networks().make_room(needed, {key_of(own)})


def in_mib(size: int) -> str:
    """Format a number of bytes in MiB, rounded up."""
    return f"{-(-size // 2**20):,}"


def _evicted(served: Served) -> None:
    """Forget the card of an evicted model, so that it loads again only if its folder is valid."""
    card = served.translator.card
    if _loaded.get(card.folder) == card:
        del _loaded[card.folder]


@st.cache_resource(show_spinner=False)
def _networks() -> Store:
    return Store(LIMIT, _bytes, _evicted)


def _load(folder: str) -> Served:
    # Importing torch holds the GIL for a second. Let the browser fetch the page's static files
    # first, so that the page is visible while the model loads.
    time.sleep(0.3)
    from core.device import limit_threads
    from core.translator import Translator

    loaded = Translator.load(folder)
    _loaded[loaded.card.folder] = loaded.card
    limit_threads(loaded.card.parameters)
    # Each torch operation of a search releases the GIL and then waits up to 5 ms for it if another
    # thread runs Python code. A shorter switch interval makes concurrent searches 1.2 times faster.
    sys.setswitchinterval(0.0005)
    # A full collection takes 140 ms with torch loaded; frozen objects are exempt.
    gc.collect()
    gc.freeze()
    return _served(loaded)


def served(model: Model) -> Served:
    """Return the loaded model and its queue, shared by all sessions. Raises CheckpointError."""
    if isinstance(model, Card) and model.spoken != (None, None, None):
        return served(replace(model, spoken=(None, None, None))).between(model.spoken)
    key, networks = key_of(model), _networks()

    def make() -> Served:
        _make_room(model)
        if isinstance(model, Implementation) and model.other:
            return _served(translator(model.card).other_implementation())
        return _load(key[0])

    with nullcontext() if key in networks else st.spinner("Loading the model…"):
        return networks.get(key, make, waiting.raise_if_cancelled)


def translator(model: Model) -> Translator:
    """Return the loaded model, shared by all sessions. Raises CheckpointError."""
    return served(model).translator


def device_label(card: Card) -> str:
    """Return where a model runs: the GPU's name, or "CPU"."""
    from core.device import device_label

    return device_label(translator(card).device)
