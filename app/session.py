"""The only place for st.cache_*, st.session_state and query parameters."""

import gc
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core.checkpoint.folder import Card, list_cards
from core.config import DecodeConfig

if TYPE_CHECKING:  # torch and spaCy take seconds: they are imported when a model is loaded
    from numpy.typing import NDArray

    from core.analysis.inside_head import Site
    from core.analysis.matching import Matching
    from core.analysis.position_table import Sums
    from core.experiments.batch_masks import BatchMasks
    from core.experiments.cheating import CheatingPoint
    from core.experiments.closing import Closing
    from core.experiments.padding import PaddingEffect
    from core.experiments.positions import Equivariance, Extrapolation
    from core.experiments.score_parts import ScoreParts
    from core.model.interface import Kind
    from core.parity.checklist import Check
    from core.parity.state_dicts import MapRow
    from core.record.edits import Edits
    from core.record.record import RecordToken, TranslationRecord
    from core.search.tree import WrittenTree
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


MODELS_KEPT = 8  # as many as are shipped and a few more: another load costs a second of everybody


@st.cache_resource(max_entries=MODELS_KEPT, show_spinner="Loading the model…")
def _translator(folder: str, weights_sha256: str) -> "Translator":
    # Importing torch holds Python for a second, also from serving the shell's own files: let the
    # browser fetch those first, so that a visitor sees the page while the model loads.
    time.sleep(0.3)
    from core.device import spare_threads
    from core.translator import Translator

    loaded = Translator.load(folder)
    spare_threads(loaded.card.parameters)
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
def _record(
    key: tuple[str, str], source: str, target: str | None, decode: DecodeConfig, _card: Card
):
    return translator(_card).inspect(source, target, decode=decode)


def record(
    card: Card, source: str, decode: DecodeConfig, target: str | None = None
) -> "TranslationRecord":
    """The record of one sentence, kept as this visitor's latest.

    With a target it is the record of that translation instead of the model's own.
    Raises InputError or CheckpointError, each one line for the reader.
    """
    found = _record(_key(card), source, target, decode, card)
    st.session_state["latest_record"] = found
    return found


def example_record(card: Card, source: str, decode: DecodeConfig) -> "TranslationRecord":
    """The record of a sentence that is not the visitor's own: their latest stays what it was.

    Raises InputError or CheckpointError, each one line for the reader.
    """
    return _record(_key(card), source, None, decode, card)


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
    better moments. The clock runs while a model is held: a wait for another visitor counts nothing.
    """
    models = [_contestant(contestant) for contestant in pair]
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(1 + rounds):
        for model, times in zip(models, taken, strict=True):
            with model.held():
                start = time.perf_counter()
                model.translate([source], decode)
                times.append(time.perf_counter() - start)
    first, second = (statistics.median(times[1:]) for times in taken)
    return first, second


def checks(card: Card) -> tuple[int, "Iterator[Check]"]:
    """The parity checklist on a checkpoint: how many lines, and each of them as it is done.

    It runs on a copy of its own, so that nobody's page waits for it. Raises CheckpointError.
    """
    from core.checkpoint.folder import load
    from core.parity.checklist import checklist, count_lines

    checkpoint = load(card.folder)
    return count_lines(checkpoint), checklist(checkpoint)


@st.cache_data(max_entries=16, show_spinner=False)
def _state_dict_map(weights_sha256: str, _card: Card) -> "list[MapRow]":
    from core.parity.state_dicts import state_dict_map

    return state_dict_map(_card.model)


def state_dict_map(card: Card) -> "list[MapRow]":
    """Each tensor of torch.nn.Transformer and the scratch tensors that hold the same numbers."""
    return _state_dict_map(card.weights_sha256, card)


@st.cache_resource(max_entries=64, show_spinner=False)
def _edited(
    key: tuple[str, str],
    source: str,
    target: "Ids | None",
    edits: "Edits",
    decode: DecodeConfig,
    _card: Card,
):
    return translator(_card).inspect(source, None, edits, decode=decode, target_ids=target)


def edited(
    card: Card, source: str, target: "Ids | None", edits: "Edits", decode: DecodeConfig
) -> "TranslationRecord":
    """The record of a sentence under edits, searched or of given target ids.

    The visitor's latest record stays what it was.

    Raises InputError, EditError or CheckpointError, each one line for the reader.
    """
    return _edited(_key(card), source, target, edits, decode, card)


def _key(card: Card) -> tuple[str, str]:
    return str(card.folder), card.weights_sha256


Ids = tuple[int, ...]
"""Token ids of one side of a sentence; a target's end with <eos>."""


def ids(tokens: "tuple[RecordToken, ...]") -> Ids:
    """The ids of a record's tokens."""
    return tuple(token.id for token in tokens)


@st.cache_resource(max_entries=128, show_spinner=False)
def _looked(key: tuple[str, str], name: str, arguments: tuple, _card: Card, _look: Any) -> Any:
    """What a function of core.experiments finds in a network, by all that decides it."""
    with translator(_card).held() as model:
        return _look(model, *arguments)


def _look(card: Card, function: Any, *arguments: object) -> Any:
    name = f"{function.__module__}.{function.__qualname__}"
    return _looked(_key(card), name, arguments, card, function)


def check_batch(count: int) -> None:
    """Raises BatchError for more sentences than a batch may have, before any is translated."""
    from core.experiments.batch_masks import check_count

    check_count(count, "sentences")


def batch_masks(card: Card, source: tuple[Ids, ...], target_in: tuple[Ids, ...]) -> "BatchMasks":
    """The masks of one pass of a batch. Raises BatchError, one line for the reader."""
    from core.experiments.batch_masks import batch_masks

    return _look(card, batch_masks, source, target_in)


def typed_ids(text: str) -> tuple[Ids, ...]:
    """Rows of ids as a person typed them. Raises BatchError, one line for the reader."""
    from core.experiments.batch_masks import parse_rows

    return tuple(map(tuple, parse_rows(text)))


def scores(card: Card, source: Ids, target: Ids) -> "dict[str, NDArray]":
    """Every head's scores before the mask, by kind: [layer, head, query, key]."""
    from core.experiments.score_parts import scores

    return _look(card, scores, source, target)


def closings(scores: "NDArray", is_open: "NDArray") -> "list[Closing]":
    """What −∞, −10⁴ and −10⁹ make of one row, in float32 and in bfloat16."""
    from core.experiments.closing import closings

    return closings(scores, is_open)


def padding_effect(
    card: Card, sources: tuple[Ids, ...], targets: tuple[Ids, ...], row: int
) -> "PaddingEffect":
    """One sentence alone, in its batch, and in its batch without the padding mask."""
    from core.experiments.padding import padding_effect

    return _look(card, padding_effect, sources, targets, row)


def cheating() -> "Iterator[CheatingPoint]":
    """Two small networks in training, with and without the causal mask; no checkpoint is used."""
    from core.experiments.cheating import cheating

    return cheating()


def score_parts(card: Card, source: Ids, target: Ids, kind: str) -> "ScoreParts":
    """The scores of the first layer of "encoder" or "decoder", split by content and position."""
    from core.experiments.score_parts import score_parts

    return _look(card, score_parts, source, target, kind)


def sums(card: Card, tokens: Ids, side: str) -> "Sums":
    """What adding positions does to the vectors of a "source" or "target"."""
    from core.analysis.position_table import sums
    from core.experiments.score_parts import embedded

    return sums(*_look(card, embedded, tokens, side))


def position_table(card: Card, length: int) -> "NDArray":
    """The first rows of what a network adds to its source's embeddings: [length, d_model]."""
    from core.experiments.positions import table

    return _look(card, table, length)


def equivariance(card: Card, source: Ids, order: Ids, positions: bool) -> "Equivariance":
    """The encoder on a sentence and on its words in another order."""
    from core.experiments.positions import equivariance

    return _look(card, equivariance, source, order, positions)


def extrapolation(card: Card, source: Ids, target: Ids, shifts: Ids) -> "Extrapolation":
    """A sentence further and further up the table. Raises EditError beyond a learned one."""
    from core.experiments.positions import extrapolation

    return _look(card, extrapolation, source, target, shifts)


def keep(name: str, value: object) -> None:
    """Keep a result for this visit."""
    st.session_state[f"kept {name}"] = value


def kept(name: str) -> Any:
    """A result of this visit, or None."""
    return st.session_state.get(f"kept {name}")


def arrive(page: str) -> bool:
    """Read the address, if the visitor has just come to this page or went back or forth in history.

    It is read at no other time: Streamlit names the address that a page was opened with in every
    run, whatever was chosen since, and its own writing of it makes the browser's Back lead nowhere.
    """
    context = get_script_run_ctx()
    history = context is not None and context.is_history_navigation
    if st.session_state.get("page") == page and not history:
        return False
    asked = st.query_params.to_dict()
    st.session_state["page"] = page
    st.session_state["asked"] = asked
    if asked.keys() & {"kind", "layer", "head", "q", "k", "words"}:
        st.session_state["asked_view"] = dict(asked)
    return True


def page() -> str:
    """The page's name in its address; the first page has none."""
    return st.session_state.get("page", "")


def asked(name: str) -> str | None:
    """What the address asked for under a name when the visitor came to this page."""
    return st.session_state.get("asked", {}).get(name)


def take_asked(name: str) -> str | None:
    """The same, once: what the visitor chooses later counts."""
    return st.session_state.get("asked", {}).pop(name, None)


def asked_view(record: "TranslationRecord") -> dict[str, str | int] | None:
    """The view that the address of this page asked for, or None."""
    return first_view(record) if asked("kind") else None


def first_view(record: "TranslationRecord") -> dict[str, str | int]:
    """Kind, layer and head that the last link to a view asked for, within what the record has.

    The explorer reads them once, when it appears. A link that asks for none of them opens on the
    word that tells most, pinned (`q`), or, where no word does, on the first head of the last
    cross-attention layer but one, as a wrong link does.
    """
    from core.analysis.telling import telling

    asked = st.session_state.get("asked_view", {})
    if not asked:
        found = telling(record.cross, record.source, record.target_out)
        if found is not None:
            return {"kind": "cross", "layer": found.layer, "head": found.head, "q": found.query}
    kind = asked.get("kind", "cross")
    if kind not in ("encoder", "decoder", "cross"):
        kind = "cross"
    layers, heads = record.maps(kind).shape[:2]
    return {
        "kind": kind,
        "layer": _place(asked.get("layer"), layers, max(0, layers - 2)),
        "head": _place(asked.get("head"), heads, 0),
    }


def _place(asked: str | None, count: int, usual: int) -> str | int:
    """A layer or head that a link asks for: an index, or "mean" or "max" of all; else the usual."""
    if asked in ("mean", "max"):
        return asked
    return int(asked) if asked in map(str, range(count)) else usual


def wanted_quantity(key: str = "explorer") -> str:
    """What an explorer wants to show: what was chosen in it last, else what a link asks for."""
    chosen = (st.session_state.get(key) or {}).get("quantity")
    return chosen or asked("quantity") or "weights"


@st.cache_resource(max_entries=16, show_spinner="Checking the record…")
def _rechecked(key: tuple[str, str], record_id: str, _card: Card, _record: "TranslationRecord"):
    return translator(_card).recheck(_record)


def rechecked(record: "TranslationRecord") -> "tuple[TranslationRecord, Card] | None":
    """A record that came from a file with its checks made anew, and the card of its weights.

    None where these weights are not here, or the record cannot be checked with them.
    """
    for card in cards().values():
        if (card.weights_sha256, card.folder.name) == (record.weights_sha256, record.model):
            try:
                return _rechecked(_key(card), record.id, card, record), card
            except ValueError:
                return None
    return None


def quantity(
    card: Card | None, record: "TranslationRecord", name: str
) -> "tuple[str, dict[str, NDArray]] | None":
    """What can be shown of a record instead of its weights: "scores", "norms" or "rollout".

    The name, and numbers [layer, head, query, key] by kind; None for the weights themselves.
    Rollout needs no card.
    """
    source, target = ids(record.source), ids(record.target_out)
    if name == "scores":
        return name, scores(card, source, target)
    if name not in ("norms", "rollout"):
        return None
    from core.analysis.rollout import rollout
    from core.experiments.values import value_norms

    return name, rollout(record) if name == "rollout" else _look(card, value_norms, source, target)


@st.cache_resource(max_entries=32, show_spinner=False)
def _search_tree(
    key: tuple[str, str], source: str, decode: DecodeConfig, prefix: tuple[int, ...], _card: Card
):
    return translator(_card).search_tree(source, decode=decode, prefix=prefix)


def search_tree(
    card: Card, source: str, decode: DecodeConfig, prefix: tuple[int, ...] = ()
) -> "WrittenTree":
    """The whole search behind a translation, which first follows the target ids of `prefix`.

    Raises InputError or CheckpointError, and ValueError for a prefix that cannot be followed.
    """
    return _search_tree(_key(card), source, decode, prefix, card)


def continuation(card: Card, text: str) -> tuple[int, ...]:
    """The target ids of a typed text that goes on from other pieces. Raises InputError."""
    return translator(card).continuation(text)


@st.cache_resource(max_entries=64, show_spinner=False)
def _path_record(key: tuple[str, str], source: str, ids: tuple[int, ...], _card: Card):
    return translator(_card).inspect(source, target_ids=ids)


def path_record(card: Card, source: str, ids: tuple[int, ...]) -> "TranslationRecord":
    """The record of a sentence and some target ids; the visitor's latest stays what it was."""
    return _path_record(_key(card), source, ids, card)


def attention_site(card: Card, record: "TranslationRecord", kind: "Kind", layer: int) -> "Site":
    """One attention of the pass that a record shows: what it was fed, and its weights."""
    from core.experiments.site import site

    return _look(card, site, ids(record.source), ids(record.target_out), kind, layer)


def theme() -> str:
    """How the visitor sees the page now: "light" or "dark"."""
    return st.context.theme.type or "light"


def get(key: str) -> object:
    """A widget's value."""
    return st.session_state.get(key)


def put(key: str, value: object) -> None:
    """Set a widget's value, before the widget is drawn in this run."""
    st.session_state[key] = value
