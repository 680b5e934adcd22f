"""What networks compute: each result made once, shared by all visitors, and read-only."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from contextlib import closing
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

import core
from app.look.labels import label
from app.state import log, waiting
from app.state.models import Model, cards, key_of, served, translator
from app.state.store import Store
from core.analysis.matching import Matching, match_heads
from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.kinds import KINDS
from core.record.edits import Edits
from core.record.record import RecordToken, TranslationRecord
from core.serving.backend import InspectRequest

if TYPE_CHECKING:  # torch and spaCy take seconds: they are imported when a model is loaded
    from numpy.typing import NDArray

    from core.experiments.cheating import CheatingPoint
    from core.parity.checklist import Check
    from core.search.tree import WrittenTree

LIMIT = 256 * 2**20
"""Bytes of all kept results: some hundred sentences with what was asked about them."""

Function = Callable[..., Any]
"""An experiment or another function of core, such as `core.word_choice`."""


class Took(NamedTuple):
    """The seconds that an answer took, waits included, and the tokens of the sentence pair."""

    seconds: float
    tokens: int


_TOOK: dict[tuple[str, Hashable], Took] = {}  # by question and model: the last one

Corpus = tuple[tuple[str, str], ...]
Matchings = dict[str, Matching]
Ids = tuple[int, ...]
"""Token ids of one side of a sentence; a target's end with <eos>."""


@st.cache_resource(show_spinner=False)
def _store() -> Store:
    return Store(LIMIT)


def kept(key: tuple[Hashable, ...], make: Callable[[], Any]) -> Any:
    """A result by all that decides it, made where it is not kept."""
    return _store().get(key, log.logged(key, make), waiting.raise_if_cancelled)


def run(model: Model | None, function: Function, *arguments: Hashable) -> Any:
    """Return function(network, *arguments), or without a model function(*arguments).

    Raises what the function raises.
    """

    def make() -> Any:
        if model is None:
            return function(*arguments)
        with translator(model).exclusive_model(waiting.raise_if_cancelled) as network:
            return function(network, *arguments)

    return kept((_name(function), model and key_of(model), arguments), make)


def _name(function: Function) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', function)}"


def inspect(
    model: Model,
    source: str,
    target: str | None = None,
    edits: Edits | None = None,
    *,
    decode: DecodeConfig = DecodeConfig(),
    target_ids: Ids | None = None,
) -> TranslationRecord:
    """The record of a sentence: of the model's own translation, or of a target or its ids.

    Raises InputError, EditError, CheckpointError or UnansweredError, each one line for the reader.
    """

    request = InspectRequest(source, target, edits or Edits(), decode, target_ids)
    return kept(
        (key_of(model), source, target, edits, decode, target_ids),
        lambda: waiting.answer(served(model).queue, request),
    )


def search_tree(
    card: Card, source: str, decode: DecodeConfig, prefix: Ids = (), edits: Edits | None = None
) -> WrittenTree:
    """The whole search behind a translation, which first follows the target ids of `prefix`.

    Raises InputError or CheckpointError, and ValueError for a prefix that cannot be followed.
    """

    def make() -> WrittenTree:
        asked = translator(card)
        with asked.exclusive_model(waiting.raise_if_cancelled):
            return asked.search_tree(source, decode=decode, prefix=prefix, edits=edits or Edits())

    return kept(("search_tree", key_of(card), source, decode, prefix, edits), make)


def continuation(card: Card, text: str) -> Ids:
    """The target ids of a typed text that goes on from other tokens. Raises InputError."""
    return translator(card).continuation(text)


def fitting(card: Card, edits: Edits, source: str) -> tuple[Edits, list[str]]:
    """The edits that a network and a source text can have, and one line for each other one."""
    return translator(card).fitting(edits, source)


def target_labels(card: Card, ids: Ids) -> dict[int, str]:
    """What people read for some ids of the target's vocabulary."""
    return {i: label(token) for i, token in zip(ids, target_tokens(card, ids), strict=True)}


def target_tokens(card: Card, ids: Ids) -> tuple[RecordToken, ...]:
    """The tokens of some ids of the target's vocabulary."""
    return translator(card).target_tokens(ids)


def ids(tokens: tuple[RecordToken, ...]) -> Ids:
    """The ids of a record's tokens."""
    return tuple(token.id for token in tokens)


def rechecked(record: TranslationRecord) -> tuple[TranslationRecord, Card] | None:
    """A record that came from a file with its checks made anew, and the card of its weights.

    None where these weights are not here, or the record cannot be checked with them.
    """
    made_by = (record.weights_sha256, record.model)
    here = (c for c in cards().values() if (c.weights_sha256, c.folder.name) == made_by)
    if (card := next(here, None)) is None:
        return None
    key = ("rechecked", key_of(card), record.id)
    try:
        return kept(key, lambda: translator(card).recheck(record)), card
    except ValueError:
        return None


def quantity(card: Card | None, record: TranslationRecord, name: str) -> Mapping[str, NDArray]:
    """What can be shown of a record instead of its weights: "scores", "norms" or "rollout".

    Numbers [layer, head, query, key] by kind, under the record's edits. Rollout needs no card.
    """
    if name == "rollout":
        from core.analysis.rollout import rollout

        return kept((name, record.id), lambda: rollout(record))
    if card is None:
        raise ValueError(f"{name} need the weights that made this record, and they are not here")
    return ask(card, {"scores": core.scores, "norms": core.value_norms}[name], record)


def ask(
    card: Card,
    experiment: Function,
    record: TranslationRecord,
    *arguments: Hashable,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
    waits: waiting.Waits | None = None,
) -> Any:
    """Return experiment(translator, record, *arguments).

    An experiment in batches calls `on_progress` after each; an exception from it ends the
    experiment, and so does a visitor who leaves. With `waits` it queues behind other long tasks,
    calls `waits` with the number ahead, and may raise BusyError. Raises what the experiment raises.
    """

    def begin() -> Any:
        # Of the translator an experiment needs only this.
        model_for = partial(
            translator(card).model_for, raise_if_cancelled=waiting.raise_if_cancelled
        )
        call = getattr(experiment, "steps", experiment)
        return call(SimpleNamespace(model_for=model_for), record, *arguments)

    def make() -> Any:
        asked = time.perf_counter()
        if not hasattr(experiment, "steps"):
            result = begin()
        else:
            result = None
            with closing(begin() if waits is None else waiting.in_line(begin, waits)) as steps:
                while True:
                    try:
                        on_progress(*next(steps))
                    except StopIteration as end:
                        result = end.value
                        break
                    waiting.raise_if_cancelled()
        _TOOK[_name(experiment), key_of(card)] = Took(
            time.perf_counter() - asked, len(record.source) + len(record.target_out)
        )
        return result

    return kept((_name(experiment), key_of(card), record.id, arguments), make)


def took(card: Card, experiment: Function) -> Took | None:
    """How long the last run of an experiment took, for any visitor; None before the first."""
    return _TOOK.get((_name(experiment), key_of(card)))


def head_effects(card: Card, record: TranslationRecord) -> Mapping[str, NDArray]:
    """The change in each target token's log-probability when a head is ablated, in nats.

    By kind, [layer, head, target token].
    """
    return ask(card, core.head_effects, record).changes


def decoding_seconds(
    pair: tuple[Model, Model],
    source: str,
    decode: DecodeConfig,
    rounds: int,
    waits: waiting.Waits = lambda ahead: None,
) -> tuple[float, float]:
    """Median seconds that each of two models takes to translate a sentence now.

    They take turns, after one turn each that is not counted, so that neither has the machine's
    better moments. The clock runs while a model is held: a wait for another visitor counts nothing.
    Raises BusyError.
    """
    models = [translator(model) for model in pair]

    def turns() -> Iterator[list[float]]:
        for _ in range(1 + rounds):
            seconds = []
            for model in models:
                with model.exclusive_model(waiting.raise_if_cancelled):
                    start = time.perf_counter()
                    model.translate([source], decode)
                    seconds.append(time.perf_counter() - start)
            yield seconds

    with closing(waiting.in_line(turns, waits)) as steps:
        _, *counted = steps
    first, second = (statistics.median(times) for times in zip(*counted, strict=True))
    return first, second


def matched(pair: tuple[Model, Model], corpus: Corpus, waits: waiting.Waits) -> Matchings:
    """Which heads of two models belong together, by kind, over sentences (source, target).

    Raises BusyError, and ValueError, in one line, for models that cannot be matched.
    """

    def match() -> Iterator[Matchings]:
        records = [[inspect(model, *texts) for texts in corpus] for model in pair]
        yield {
            kind: match_heads(*([record.maps(kind) for record in side] for side in records))
            for kind in KINDS
        }

    def make() -> Matchings:
        with closing(waiting.in_line(match, waits)) as steps:
            return next(steps)

    return kept(("matched", *map(key_of, pair), corpus), make)


def checks(card: Card, waits: waiting.Waits) -> Generator[tuple[int, Check]]:
    """The parity checklist on a checkpoint: each line as it is done, with the number of them all.

    It runs on a copy of its own, so that nobody's page waits for it. Raises CheckpointError and
    BusyError.
    """
    from core.checkpoint.folder import load
    from core.parity.checklist import checklist, count_lines

    def begin() -> Iterator[tuple[int, Check]]:
        checkpoint = load(card.folder)
        total = count_lines(checkpoint)
        return ((total, check) for check in checklist(checkpoint))

    with log.request("checklist", card.folder.name):
        yield from waiting.in_line(begin, waits)


def cheating(waits: waiting.Waits) -> Generator[CheatingPoint]:
    """The two small networks of the lesson on masks, as they learn. Raises BusyError."""
    from core.experiments.cheating import cheating

    with log.request("cheating", ""):
        yield from waiting.in_line(cheating, waits)
