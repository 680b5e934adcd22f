"""Model results: each computed once, shared by all sessions, and read-only."""

from __future__ import annotations

import statistics
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
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
from core.kinds import KINDS, Side
from core.record.attention_snapshots import FILE as SNAPSHOTS
from core.record.attention_snapshots import AttentionSnapshots
from core.record.edits import Edits
from core.record.record import RecordToken, TranslationRecord
from core.serving.backend import InspectRequest

if TYPE_CHECKING:  # torch takes seconds to import, so only when a model is loaded
    from numpy.typing import NDArray

    from core.checkpoint.lens import Lens
    from core.experiments.cheating import CheatingPoint
    from core.experiments.experiment import Progress
    from core.experiments.patching import Patched
    from core.parity.checklist import Check
    from core.record.words import Words
    from core.search.tree import WrittenTree
    from core.text.splitting import Splitting
    from core.text.tokenizer import Tokenizer

LIMIT = 256 * 2**20
"""The limit of all cached results, in bytes: about a hundred sentences with their experiments."""

Function = Callable[..., Any]
"""An experiment or another function of core, such as `core.word_choice`."""


MAX_UNFINISHED = 4
"""How many interrupted experiments are kept, so that they continue where they stopped."""


class Checklist(NamedTuple):
    """The checks of a checkpoint, when they were run, and on how many pairs of sentences."""

    checks: tuple[Check, ...]
    at: datetime
    pairs: int


class LastRun(NamedTuple):
    """How many seconds a result took, waiting included, and for how many tokens (both sides)."""

    seconds: float
    tokens: int


@dataclass(eq=False)
class _Unfinished:
    """An experiment between two steps, the seconds it has taken, and its last progress."""

    steps: Generator[Progress, None, Any]
    seconds: float = 0.0
    progress: Progress | None = None
    ended: bool = False


class _Paused(BaseException):
    """Raised when an experiment has used up its time. A BaseException, as nothing has failed."""


_LAST_RUN: dict[tuple[str, Hashable], LastRun] = {}  # the last one by experiment and model
_UNFINISHED: OrderedDict[Hashable, _Unfinished] = OrderedDict()  # not running, newest last
_UNFINISHED_LOCK = threading.Lock()

Corpus = tuple[tuple[str, str], ...]
Matchings = dict[str, Matching]
Ids = tuple[int, ...]
"""Token ids of one side; those of a complete target end with <eos>."""


@st.cache_resource(show_spinner=False)
def _store() -> Store:
    return Store(LIMIT)


def cached(key: tuple[Hashable, ...], make: Callable[[], Any]) -> Any:
    """Return a cached result, or compute it; the key holds everything that determines it."""
    return _store().get(key, log.logged(key, make), waiting.raise_if_cancelled)


def run(model: Model | None, function: Function, *arguments: Hashable) -> Any:
    """Return function(network, *arguments) or, without a model, function(*arguments).

    Raises what the function raises.
    """

    def make() -> Any:
        if model is None:
            return function(*arguments)
        with translator(model).exclusive_model(waiting.raise_if_cancelled) as network:
            return function(network, *arguments)

    return cached((_name(function), model and key_of(model), arguments), make)


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
    """Return the record of a sentence with the model's translation, a given target, or target ids.

    Raises InputError, EditError, CheckpointError or UnansweredError, with user-facing messages.
    """

    request = InspectRequest(source, target, edits or Edits(), decode, target_ids)
    return cached(
        (key_of(model), source, target, edits, decode, target_ids),
        lambda: waiting.request_record(served(model).queue, request),
    )


def snapshots(card: Card) -> AttentionSnapshots | None:
    """Return the attention snapshots of a network's training, or None if it has none.

    Raises ValueError, with a user-facing message, for a file that cannot be used.
    """
    file = card.folder / SNAPSHOTS
    about = file.stat() if file.is_file() else None
    changed = about and (about.st_mtime_ns, about.st_size)
    return cached(
        ("snapshots", key_of(card), changed),
        lambda: AttentionSnapshots.of_network(card.folder, card.model),
    )


def lens(card: Card) -> Lens | None:
    """Return a network's Jacobian lens, or None if it was not fitted.

    Raises CheckpointError for a file that cannot be used.
    """
    from core.checkpoint.lens import FILE, load_lens

    file = card.folder / FILE
    if not file.is_file():
        return None
    changed = file.stat().st_mtime_ns
    return cached(("lens", key_of(card), changed), lambda: load_lens(card))


def search_tree(
    card: Card, source: str, decode: DecodeConfig, prefix: Ids = (), edits: Edits | None = None
) -> WrittenTree:
    """Return the search tree of a translation with the forced prefix `prefix`.

    Raises InputError or CheckpointError, and ValueError for an invalid prefix.
    """

    def make() -> WrittenTree:
        model = translator(card)
        with model.exclusive_model(waiting.raise_if_cancelled):
            return model.search_tree(source, decode=decode, prefix=prefix, edits=edits or Edits())

    return cached(("search_tree", key_of(card), source, decode, prefix, edits), make)


def continuation(card: Card, text: str) -> Ids:
    """Return the target ids of a text that continues a prefix. Raises InputError."""
    return translator(card).continuation(text)


def target_word(card: Card, word: str) -> int:
    """Return the id of a word of one target token. Raises ValueError, in one line, for others."""
    from core.experiments.steering import target_id

    model: Any = translator(card)
    return target_id(model, word)


def applicable_edits(card: Card, edits: Edits, source: str) -> tuple[Edits, list[str]]:
    """Return the edits that apply to a model and source, and one error line for each other edit."""
    return translator(card).fitting(edits, source)


def head_means_origin(card: Card) -> dict[str, Any] | None:
    """Return what the heads' mean outputs were averaged over, or None if they cannot be read."""
    from core.checkpoint.errors import CheckpointError
    from core.checkpoint.head_means import load_means  # loads torch

    try:
        means = load_means(card.folder, card.model)
    except CheckpointError:
        return None
    return {"sentences": means.sentences, "corpus": means.corpus}


def target_labels(card: Card, ids: Ids) -> dict[int, str]:
    """Return the displayed labels of target ids."""
    return {i: label(token) for i, token in zip(ids, target_tokens(card, ids), strict=True)}


def target_tokens(card: Card, ids: Ids) -> tuple[RecordToken, ...]:
    """Return the tokens of target ids."""
    return translator(card).target_tokens(ids)


def splitting(card: Card, text: str, side: Side) -> Splitting:
    """Return how a side's tokenizer splits a given line, step by step. Raises ValueError."""
    from core.text.line import read_by
    from core.text.splitting import split

    def splitting() -> Splitting:
        tokenizer = _tokenizer(card, side)
        return split(tokenizer, read_by(tokenizer, text).text)

    return cached(("splitting", key_of(card), text, side), splitting)


def prefixed(card: Card, text: str) -> str:
    """Return a source as the network reads it, with its prefix in front."""
    return _tokenizer(card, "encoder").frame.prefixed(text)


def shares_tokenizer(card: Card) -> bool:
    """Return whether both sides are split by the same tokenizer."""
    return _tokenizer(card, "encoder") is _tokenizer(card, "decoder")


def _tokenizer(card: Card, side: Side) -> Tokenizer:
    checkpoint = translator(card).checkpoint
    return checkpoint.source_tokenizer if side == "encoder" else checkpoint.target_tokenizer


def most_characters() -> int:
    """Return how many characters a text may have."""
    from core.translator import MAX_CHARACTERS

    return MAX_CHARACTERS


def target_text(card: Card, ids: Ids) -> str:
    """Return the text of target ids."""
    return translator(card).checkpoint.target_tokenizer.decode(list(ids))


def token_ids(tokens: tuple[RecordToken, ...]) -> Ids:
    """Return the ids of a record's tokens."""
    return tuple(token.id for token in tokens)


def recheck(record: TranslationRecord) -> tuple[TranslationRecord, Card] | None:
    """Rerun the checks of a record from a file; return it with the card of its weights.

    Return None if these weights are not available, or cannot check the record.
    """
    made_by = (record.weights_sha256, record.model)
    here = (c for c in cards().values() if (c.weights_sha256, c.folder.name) == made_by)
    if (card := next(here, None)) is None:
        return None
    key = ("rechecked", key_of(card), record.id)
    try:
        return cached(key, lambda: translator(card).recheck(record)), card
    except ValueError:
        return None


def quantity(card: Card | None, record: TranslationRecord, name: str) -> Mapping[str, NDArray]:
    """Return a quantity of a record other than the weights, by kind, [layer, head, query, key].

    `name` is "scores", "norms" or "rollout". The record's edits apply. Raises ValueError for scores
    and norms without a card.
    """
    if name == "rollout":
        from core.analysis.rollout import rollout

        return cached((name, record.id), lambda: rollout(record))
    if card is None:
        raise ValueError(f"{name} need the weights that made this record, which are not available")
    return run_experiment(card, {"scores": core.scores, "norms": core.value_norms}[name], record)


def given_words(card: Card, record: TranslationRecord) -> tuple[Words, Words]:
    """Return the words of the given source and of the translation, as positions of their tokens."""
    from core.text.line import source_words, words_by_start

    source = source_words(_tokenizer(card, "encoder"), record.source_text, record.source)
    return source, words_by_start(record.target_out)


def run_experiment(
    card: Card,
    experiment: Function,
    record: TranslationRecord,
    *arguments: Hashable,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
    on_so_far: Callable[[Any], object] = lambda result: None,
    on_wait: waiting.OnWait | None = None,
) -> Any:
    """Return experiment(translator, record, *arguments), computed once.

    After each batch, an experiment in batches calls `on_progress` with (done, total) and
    `on_so_far` with the result so far, if there is one. An exception from these callbacks, or a
    disconnected session, interrupts the experiment; the next call resumes it after the last batch.
    With `on_wait`, the experiment queues behind other long tasks, calls `on_wait` with the number
    ahead, and may raise BusyError. Raises what the experiment raises.
    """

    def after_step(step: Progress) -> None:
        on_progress(step.done, step.total)
        if step.so_far is not None and step.done < step.total:
            on_so_far(step.so_far)
        waiting.yield_to_waiting_fragment()
        waiting.raise_if_cancelled()

    return _cached_experiment(card, experiment, record, arguments, after_step, on_wait)


def advance_experiment(
    card: Card,
    experiment: Function,
    record: TranslationRecord,
    *arguments: Hashable,
    seconds: float,
) -> Progress:
    """Run batches of an experiment for some seconds, and return its progress and result so far.

    At least one batch is run, unless `seconds` is 0 and some have been run before. When the
    experiment is done, `so_far` is its result. Raises what the experiment raises.
    """
    from core.experiments.experiment import Progress  # loads torch, like every experiment

    key = _experiment_key(card, experiment, record, arguments)
    with _UNFINISHED_LOCK:
        started = _UNFINISHED.get(key)
    if seconds == 0 and started is not None and started.progress is not None:
        return started.progress
    end, last = time.monotonic() + seconds, Progress(0, 1)

    def after_step(step: Progress) -> None:
        nonlocal last
        last = step
        waiting.raise_if_cancelled()
        if step.done < step.total and time.monotonic() >= end:
            raise _Paused

    try:
        result = _cached_experiment(card, experiment, record, arguments, after_step)
    except _Paused:
        return last
    return Progress(1, 1, result)


def seconds_so_far(card: Card, experiment: Function, record: TranslationRecord) -> float:
    """Return how long an unfinished experiment has been computing; 0 if it has not begun."""
    with _UNFINISHED_LOCK:
        started = _UNFINISHED.get(_experiment_key(card, experiment, record, ()))
    return started.seconds if started else 0.0


def _experiment_key(
    card: Card, experiment: Function, record: TranslationRecord, arguments: tuple[Hashable, ...]
) -> tuple[Hashable, ...]:
    return _name(experiment), key_of(card), record.id, arguments


def _cached_experiment(
    card: Card,
    experiment: Function,
    record: TranslationRecord,
    arguments: tuple[Hashable, ...],
    after_step: Callable[[Progress], object],
    on_wait: waiting.OnWait | None = None,
) -> Any:
    """Return an experiment's result; `after_step` may interrupt it with an exception."""
    key = _experiment_key(card, experiment, record, arguments)

    def begin() -> Any:
        # All that an experiment needs of the translator.
        model_for = partial(
            translator(card).model_for, raise_if_cancelled=waiting.raise_if_cancelled
        )
        call = getattr(experiment, "steps", experiment)
        return call(SimpleNamespace(model_for=model_for, card=card), record, *arguments)

    def make() -> Any:
        start = time.perf_counter()
        if hasattr(experiment, "steps"):
            running = _continued(key, begin)
            try:
                result = _run_steps(running, after_step, on_wait)
            finally:
                running.seconds += time.perf_counter() - start
                _set_aside(key, running)
            seconds = running.seconds
        else:
            waiting.yield_to_waiting_fragment()
            result = begin()
            seconds = time.perf_counter() - start
        _LAST_RUN[_name(experiment), key_of(card)] = LastRun(
            seconds, len(record.source) + len(record.target_out)
        )
        return result

    return cached(key, make)


def _continued(key: Hashable, begin: Callable[[], Generator[Progress, None, Any]]) -> _Unfinished:
    with _UNFINISHED_LOCK:
        return _UNFINISHED.pop(key, None) or _Unfinished(begin())


def _set_aside(key: Hashable, running: _Unfinished) -> None:
    """Keep an interrupted experiment; drop the oldest ones beyond `MAX_UNFINISHED`."""
    if running.ended:
        return
    with _UNFINISHED_LOCK:
        _UNFINISHED[key] = running
        while len(_UNFINISHED) > MAX_UNFINISHED:
            _UNFINISHED.popitem(last=False)[1].steps.close()


def _run_steps(
    running: _Unfinished,
    after_step: Callable[[Progress], object],
    on_wait: waiting.OnWait | None,
) -> Any:
    """Run an experiment's remaining steps, in the queue of long tasks if `on_wait` is given."""

    def remaining() -> Generator[Progress, None, Any]:
        while True:  # not `yield from`, which would close the steps with this generator
            try:
                running.progress = next(running.steps)
            except StopIteration as end:
                running.ended = True
                return end.value
            except BaseException:
                running.ended = True
                raise
            yield running.progress

    steps = remaining() if on_wait is None else waiting.run_queued(remaining, on_wait)
    with closing(steps):
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                return end.value
            after_step(step)


def last_run(card: Card, experiment: Function) -> LastRun | None:
    """Return how long the experiment last took, in any session; None before the first run."""
    return _LAST_RUN.get((_name(experiment), key_of(card)))


def head_effects(card: Card, record: TranslationRecord) -> Mapping[str, NDArray]:
    """Return how ablating each head changes each target token's log-probability, in nats.

    By kind, [layer, head, target token].
    """
    return run_experiment(card, core.head_effects, record).changes


def knows_head_effects(card: Card, record: TranslationRecord) -> bool:
    """Return whether `head_effects` takes no time, as another visit has computed them."""
    return _experiment_key(card, core.head_effects, record, ()) in _store()


def patched(card: Card, clean: TranslationRecord, corrupted: TranslationRecord) -> Patched:
    """Return what each state and head of the `clean` pass restores in the `corrupted` one.

    Raises ValueError, in one line, for records that cannot be compared.
    """
    return run_experiment(card, core.patch_all, clean, corrupted, "restore")


def decoding_seconds(
    pair: tuple[Model, Model],
    source: str,
    decode: DecodeConfig,
    rounds: int,
    on_wait: waiting.OnWait = lambda ahead: None,
) -> tuple[float, float]:
    """Measure the median seconds that each of two models takes to translate a sentence.

    The models alternate, after one warm-up round, so that load affects both alike. Waiting for the
    model's lock is not measured. Raises BusyError.
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

    with closing(waiting.run_queued(turns, on_wait)) as steps:
        _, *counted = steps
    first, second = (statistics.median(times) for times in zip(*counted, strict=True))
    return first, second


def matched_heads(pair: tuple[Model, Model], corpus: Corpus, on_wait: waiting.OnWait) -> Matchings:
    """Match the heads of two models, by kind, over pairs (source, target).

    Raises BusyError, and ValueError for models that cannot be matched.
    """

    def match() -> Iterator[Matchings]:
        records = [[inspect(model, *texts) for texts in corpus] for model in pair]
        yield {
            kind: match_heads(*([record.maps(kind) for record in side] for side in records))
            for kind in KINDS
        }

    def make() -> Matchings:
        with closing(waiting.run_queued(match, on_wait)) as steps:
            return next(steps)

    return cached(("matched", *map(key_of, pair), corpus), make)


def run_checklist(
    card: Card,
    again: Hashable,
    on_lines: Callable[[list[Check], int], object],
    on_wait: waiting.OnWait,
) -> Checklist:
    """Run the parity checklist on a checkpoint, once per process and value of `again`.

    `on_lines` is called with the checks so far and the number of all. The checklist runs on its own
    copy of the model, so that no page waits for it; an interrupted one continues where it stopped.
    Raises CheckpointError and BusyError.
    """

    def steps() -> Generator[Progress, None, Checklist]:
        from core.checkpoint.folder import load
        from core.experiments.experiment import Progress
        from core.parity.checklist import checklist, count_lines
        from core.parity.networks import SENTENCES

        checkpoint, lines = load(card.folder), []
        total = count_lines(checkpoint)
        for check in checklist(checkpoint):
            lines.append(check)
            yield Progress(len(lines), total, lines)
        return Checklist(tuple(lines), datetime.now().astimezone(), len(SENTENCES["en"]))

    def make() -> Checklist:
        running = _continued(key, steps)
        try:
            return _run_steps(running, after_step, on_wait)
        finally:
            _set_aside(key, running)

    def after_step(step: Progress) -> None:
        on_lines(step.so_far, step.total)
        waiting.yield_to_waiting_fragment()
        waiting.raise_if_cancelled()

    key = ("checklist", key_of(card), again)
    return cached(key, make)


def train_cheating_networks(on_wait: waiting.OnWait) -> Generator[CheatingPoint]:
    """Train the two small networks of the lesson on masks, and yield what they have learned so far.

    Raises BusyError.
    """
    from core.experiments.cheating import cheating

    with log.request("cheating", ""):
        yield from waiting.run_queued(cheating, on_wait)
