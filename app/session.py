"""The only place for st.cache_*, st.session_state and query parameters."""

import gc
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.checkpoint import Card, list_cards
from core.config import DecodeConfig

if TYPE_CHECKING:  # torch and spaCy take seconds: they are imported when a model is loaded
    from core.analysis.matching import Matching
    from core.record import TranslationRecord
    from core.translator import Translator
    from core.verify import Check, MapRow

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
def _record(key: tuple[str, str], source: str, decode: DecodeConfig, _card: Card):
    return translator(_card).inspect(source, decode=decode)


def record(card: Card, source: str, decode: DecodeConfig) -> "TranslationRecord":
    """The record of one sentence, kept as this visitor's latest.

    Raises InputError or CheckpointError, each one line for the reader.
    """
    found = _record((str(card.folder), card.weights_sha256), source, decode, card)
    st.session_state["latest_record"] = found
    return found


def current_record() -> "TranslationRecord | None":
    """The last record that this visitor made, or None."""
    return st.session_state.get("latest_record")


@dataclass(frozen=True)
class Contestant:
    """One of two models to compare: a checkpoint, or the checkpoint's twin.

    The twin is the other architecture with the checkpoint's own weights.
    """

    card: Card
    twin: bool

    @property
    def architecture(self) -> str:
        other = {"scratch": "baseline", "baseline": "scratch"}
        return other[self.card.architecture] if self.twin else self.card.architecture

    @property
    def key(self) -> tuple[str, str, bool]:
        return str(self.card.folder), self.card.weights_sha256, self.twin


def contestants(direction: str) -> dict[str, Contestant]:
    """The models of a direction that can be compared, by name: each checkpoint and its twin."""
    found = {}
    for (d, name), card in cards().items():
        if d == direction:
            found |= {name: Contestant(card, False), f"{name}-twin": Contestant(card, True)}
    return found


@st.cache_resource(max_entries=4, show_spinner=False)
def _twin(folder: str, weights_sha256: str) -> "Translator":
    return _translator(folder, weights_sha256).twin()


def _contestant(contestant: Contestant) -> "Translator":
    load = _twin if contestant.twin else _translator
    return load(str(contestant.card.folder), contestant.card.weights_sha256)


@st.cache_resource(max_entries=64, show_spinner=False)
def _compared(
    key: tuple[str, str, bool],
    source: str,
    target: str | None,
    decode: DecodeConfig,
    _contestant_: Contestant,
):
    return _contestant(_contestant_).inspect(source, target, decode=decode)


def compared(
    contestant: Contestant, source: str, target: str | None, decode: DecodeConfig
) -> "TranslationRecord":
    """The record of a sentence through one of two models: of its own translation, or of a target.

    Raises InputError or CheckpointError. The visitor's latest record stays what it was.
    """
    return _compared(contestant.key, source, target, decode, contestant)


@st.cache_resource(max_entries=16, show_spinner="Matching heads…")
def _matchings(
    keys: tuple[tuple[str, str, bool], ...], pairs: tuple[tuple[str, str], ...], _pair: Any
) -> "dict[str, Matching]":
    from core.analysis.matching import match_heads

    records = [
        [compared(model, source, target, DecodeConfig()) for source, target in pairs]
        for model in _pair
    ]
    return {
        kind: match_heads(*([record.maps(kind) for record in side] for side in records))
        for kind in ("encoder", "decoder", "cross")
    }


def matchings(
    first: Contestant, second: Contestant, pairs: tuple[tuple[str, str], ...]
) -> "dict[str, Matching]":
    """Which heads of two models belong together, by kind, over sentences (source, target).

    Raises ValueError, in one line, for models that cannot be matched.
    """
    return _matchings((first.key, second.key), pairs, (first, second))


def decoding_seconds(
    pair: tuple[Contestant, Contestant], source: str, decode: DecodeConfig, rounds: int
) -> tuple[float, float]:
    """Median seconds that each of two models takes to translate a sentence now.

    They take turns, after one turn each that is not counted, so that neither has the machine's
    better moments.
    """
    models = [_contestant(contestant) for contestant in pair]
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(1 + rounds):
        for model, times in zip(models, taken, strict=True):
            start = time.perf_counter()
            model.translate([source], decode)
            times.append(time.perf_counter() - start)
    first, second = (statistics.median(times[1:]) for times in taken)
    return first, second


def checks(card: Card) -> tuple[int, "Iterator[Check]"]:
    """The parity checklist on a checkpoint: how many lines, and each of them as it is done.

    It runs on a copy of its own, so that nobody's page waits for it. Raises CheckpointError.
    """
    from core.checkpoint import load
    from core.verify import checklist, count_lines

    checkpoint = load(card.folder)
    return count_lines(checkpoint), checklist(checkpoint)


@st.cache_data(max_entries=16, show_spinner=False)
def _state_dict_map(weights_sha256: str, _card: Card) -> "list[MapRow]":
    from core.verify import state_dict_map

    return state_dict_map(_card.model)


def state_dict_map(card: Card) -> "list[MapRow]":
    """Each tensor of torch.nn.Transformer and the scratch tensors that hold the same numbers."""
    return _state_dict_map(card.weights_sha256, card)


def keep(name: str, value: object) -> None:
    """Keep a result for this visit."""
    st.session_state[f"kept {name}"] = value


def kept(name: str) -> Any:
    """A result of this visit, or None."""
    return st.session_state.get(f"kept {name}")


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
    """How the visitor sees the page now: "light" or "dark"."""
    return st.context.theme.type or "light"


def get(key: str) -> object:
    """A widget's value."""
    return st.session_state.get(key)


def put(key: str, value: object) -> None:
    """Set a widget's value; only from a callback, before the widget is drawn again."""
    st.session_state[key] = value
