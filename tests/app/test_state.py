"""Shared models and results are the right ones, computed once, read-only and limited in size."""

import functools
import shutil
import time
import weakref
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import numpy as np
import pytest
import streamlit as st

import core
from app.state import models, results
from app.state.models import CHECKPOINTS, Implementation
from app.state.store import Store, freeze
from core.checkpoint.folder import read_card
from core.config import DecodeConfig
from core.experiments.experiment import Progress
from core.record.edits import Edits
from tests.core import strange_folders

ROOT = Path(__file__).resolve().parents[2]
LONG = "A group of young people sit at a long table in the garden of an old house"


@pytest.fixture(autouse=True)
def empty_cache():
    results._store.clear()
    yield
    results._store.clear()


def test_models_are_evicted_completely(tmp_path, monkeypatch):
    names = [f"{letter}-de-en" for letter in "abc"]
    for name in names:
        strange_folders.network()(strange_folders.good(tmp_path / name))
    monkeypatch.setattr(models, "CHECKPOINTS", tmp_path)
    models._listed.clear()
    models._networks.clear()
    a, b, c = (models.cards()["de-en", name[0]] for name in names)
    monkeypatch.setattr(
        models, "LIMIT", 18 * a.parameters
    )  # two models fit, but no second implementation
    first = models.translator(a)
    assert models.translator(a) is first and models.translator(b) is not first
    assert models.translator(Implementation(b, other=True)) is not models.translator(b)
    network = weakref.ref(first._model)
    del first
    assert (
        network() is None and a.folder not in models._loaded
    )  # evicted by b's two implementations
    assert models.translator(b) is models.translator(b)
    models.translator(c)
    assert models._networks().size <= models.LIMIT
    shutil.rmtree(a.folder)
    shutil.rmtree(c.folder)
    models._listed.clear()
    assert {name for _, name in models.cards()} == {"b"}
    models._networks.clear()
    models._listed.clear()
    models._loaded.clear()


def test_the_least_recently_used_value_is_evicted():
    store, computed = Store(limit=1000), []

    def get(name: str, size: int = 300):
        return store.get(name, lambda: computed.append(name) or np.zeros(size, np.uint8))

    for name in ("a", "b", "c", "a", "d", "a", "b"):  # d evicts b, b evicts c
        get(name)
    assert computed == ["a", "b", "c", "d", "b"] and store.size <= 1000
    assert get("large", 5000).size == 5000 and get("large").size == 5000  # kept, and nothing else
    assert store.size == 5000
    get("a")
    assert store.size == 300


def test_threads_share_one_computation_and_failures_are_not_cached():
    store, started, go, computed = Store(1000), Event(), Event(), []

    def slow():
        started.set()
        go.wait(10)
        computed.append("slow")
        return "result"

    results = []
    threads = [Thread(target=lambda: results.append(store.get("x", slow))) for _ in range(3)]
    for thread in threads:
        thread.start()
    started.wait(10)
    assert store.get("y", lambda: "at once") == "at once"  # another key does not wait
    go.set()
    for thread in threads:
        thread.join(10)
    assert results == ["result"] * 3 and computed == ["slow"]
    with pytest.raises(ValueError, match="no"):
        store.get("z", lambda: (_ for _ in ()).throw(ValueError("no")))
    assert store.get("z", lambda: "yes") == "yes"


def test_a_waiting_thread_takes_over_a_cancelled_computation():
    store, started, gone, computed, results = Store(1000), Event(), Event(), [], []

    def cancelled():
        started.set()
        gone.wait(10)
        raise GeneratorExit

    def first():
        with pytest.raises(GeneratorExit):
            store.get("x", cancelled)

    def other():
        results.append(store.get("x", lambda: computed.append("x") or "result"))

    threads = [Thread(target=first), Thread(target=other), Thread(target=other)]
    threads[0].start()
    started.wait(10)
    for thread in threads[1:]:
        thread.start()
    polls = iter([None, None])

    def raise_if_cancelled():
        if next(polls, "left"):
            raise KeyError("left")

    with pytest.raises(KeyError, match="left"):  # while the first thread still computes
        store.get("x", lambda: computed.append("never"), raise_if_cancelled)
    gone.set()
    for thread in threads:
        thread.join(10)
    assert results == ["result"] * 2 and computed == ["x"]


def test_nested_arrays_become_read_only():
    @dataclass(frozen=True)
    class Result:
        inner: dict
        row: tuple

    arrays = [np.zeros(n) for n in (100, 200, 300)]
    size = freeze([Result({"a": arrays[0]}, (arrays[1], [arrays[2]]))])
    assert 600 * 8 < size < 600 * 8 + 1500
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    card = read_card(CHECKPOINTS / "scratch-de-en")
    record = results.inspect(card, "Ein Hund.")
    assert results.inspect(card, "Ein Hund.") is record
    norms = results.quantity(card, record, "norms")
    assert not any(a.flags.writeable for a in (record.cross, record.log_probs, norms["cross"]))


class Echo:
    """A translator that returns its arguments."""

    def __init__(self, name: str, other: bool):
        self.name = f"{name} other" if other else name

    @contextmanager
    def exclusive_model(self, raise_if_cancelled):
        yield self.name

    def ask(self, request, *_):
        edits = None if request.edits == Edits() else request.edits
        arguments = request.source, request.target, edits, request.decode, request.target_ids
        return self.name, *arguments

    def search_tree(self, source, *, decode, prefix, edits):
        return self.name, source, decode, prefix, edits


@pytest.fixture
def cards(monkeypatch):
    def translator(model):
        folder, _, other, _ = models.key_of(model)
        return Echo(Path(folder).name, other)

    monkeypatch.setattr(results, "translator", translator)
    monkeypatch.setattr(results, "served", lambda model: SimpleNamespace(queue=translator(model)))
    own = [read_card(CHECKPOINTS / name) for name in ("scratch-en-de", "baseline-en-de")]
    return [*own, Implementation(own[0], other=True)]


def test_cached_results_are_not_mixed_up(cards):
    """Request each result twice, so that the second one comes from the cache."""
    searches = [DecodeConfig(beam=1), DecodeConfig(), DecodeConfig(length_penalty=0.6)]
    for _ in range(2):
        for card in cards:
            folder, _, other, _ = models.key_of(card)
            name = Path(folder).name + (" other" if other else "")
            for text in (LONG, f"{LONG}.", f"{LONG} at night.", LONG.lower()):
                for decode in searches:
                    for target in (None, "Ein Haus.", "Ein Haus"):
                        for edits in (None, "some edits"):
                            result = results.inspect(card, text, target, edits, decode=decode)
                            assert result == (name, text, target, edits, decode, None)
                    for prefix in ((), (5,), (5, 6)):
                        result = results.search_tree(card, text, decode, prefix)
                        assert result == (name, text, decode, prefix, Edits())
                for ids in ((5, 2), (5, 6, 2)):
                    result = results.inspect(card, text, target_ids=ids)
                    assert (result[:2], result[-1]) == ((name, text), ids)


def test_a_function_runs_once_per_model_and_arguments(cards):
    calls = []

    def one(*args):
        calls.append("one")
        return ("one", *args)

    def two(*args):
        calls.append("two")
        return ("two", *args)

    for _ in range(2):
        assert results.run(cards[0], one, 1) == ("one", "scratch-en-de", 1)
        assert results.run(cards[0], two, 1) == ("two", "scratch-en-de", 1)
        assert results.run(cards[1], one, 1) == ("one", "baseline-en-de", 1)
        assert results.run(cards[2], one, 1) == ("one", "scratch-en-de other", 1)
        assert results.run(None, one, 2) == ("one", 2)
    assert calls == ["one", "two", "one", "one", "one"]


@pytest.fixture
def nothing_unfinished(monkeypatch):
    monkeypatch.setattr(results, "_UNFINISHED", type(results._UNFINISHED)())
    monkeypatch.setattr(results, "translator", lambda m: SimpleNamespace(model_for=len))


def sentence(id: str) -> SimpleNamespace:
    return SimpleNamespace(id=id, source="abc", target_out="de")


def test_a_cancelled_experiment_continues_where_it_stopped(cards, monkeypatch, nothing_unfinished):
    """A newer request cancels an experiment between two of its steps."""
    log: list[object] = []

    def steps(owner, record, *arguments):
        with owner.model_for(record) as model:
            log.append((model, record.id, *arguments))
        try:
            for done in (1, 2, 3):
                log.append(done)
                yield Progress(done, 3)
            return "answer"
        finally:
            log.append("closed")

    def experiment():
        raise AssertionError("called without steps")

    experiment.steps = steps
    model_for = lambda record, raise_if_cancelled: nullcontext("model")  # noqa: E731
    monkeypatch.setattr(results, "translator", lambda m: SimpleNamespace(model_for=model_for))
    record = sentence("sentence")

    def cancel(done: int, total: int) -> None:
        if done == 2:
            raise RuntimeError("newer request")

    with pytest.raises(RuntimeError, match="newer request"):
        results.run_experiment(cards[0], experiment, record, 7, on_progress=cancel)
    assert log == [("model", "sentence", 7), 1, 2]
    seen: list[tuple[int, int]] = []

    for _ in range(2):
        answer = results.run_experiment(
            cards[0], experiment, record, 7, on_progress=lambda *step: seen.append(step)
        )
        assert answer == "answer"
    assert seen == [(3, 3)], "the rest is run once, then cached"
    assert log == [("model", "sentence", 7), 1, 2, 3, "closed"], "no step is run twice"
    last = results.last_run(cards[0], experiment)
    assert last is not None and last.tokens == 5 and 0 <= last.seconds < 60
    assert results.last_run(cards[0], steps) is None


def counted(log: list, name: str, total: int, seconds: float = 0.0):
    """Return an experiment that logs its steps; partial results hold its name and last step."""

    def steps(owner, record):
        try:
            for done in range(1, total + 1):
                log.append(done)
                time.sleep(seconds)
                yield Progress(done, total, f"{name} {done}")
            return f"{name} done"
        finally:
            log.append(f"{name} closed")

    def experiment():
        raise AssertionError("called without steps")

    experiment.steps, experiment.__qualname__ = steps, name
    return experiment


def test_an_experiment_advances_by_its_share_of_time(cards, nothing_unfinished):
    """The first call runs steps until its seconds have passed, but at least one step.

    A later call with 0 seconds runs none. No step is run twice.
    """
    record = sentence("in parts")
    log: list = []
    slow = counted(log, "slow", 6, seconds=0.05)
    advance = functools.partial(results.advance_experiment, cards[0], slow, record)
    assert advance(seconds=0.001) == (1, 6, "slow 1")
    assert advance(seconds=0) == (1, 6, "slow 1") and log == [1], "0 seconds: the result so far"
    done, total, result = advance(seconds=0.12)  # three steps, or fewer on a busy machine
    assert 2 <= done <= 4 and (total, result) == (6, f"slow {done}")
    assert log == list(range(1, done + 1))
    done, total, result = advance(seconds=60)
    assert done == total and result == "slow done"
    assert log == [1, 2, 3, 4, 5, 6, "slow closed"]
    assert advance(seconds=0)[2] == "slow done" and len(log) == 7
    last = results.last_run(cards[0], slow)
    assert last is not None and 0.3 <= last.seconds < 3, "the parts are added up"


def test_few_unfinished_experiments_are_kept(cards, nothing_unfinished):
    record = sentence("many")
    log: list = []
    names = [f"experiment {i}" for i in range(results.MAX_UNFINISHED + 1)]
    for name in names:
        results.advance_experiment(cards[0], counted(log, name, 3), record, seconds=0)
    assert log == [1] * len(names) + [f"{names[0]} closed"]
    results.advance_experiment(cards[0], counted(log, names[1], 3), record, seconds=60)
    assert log[-3:] == [2, 3, f"{names[1]} closed"]


def test_a_failed_experiment_starts_again(cards, nothing_unfinished):
    record = sentence("failing")
    starts: list = []

    def steps(owner, record):
        starts.append("start")
        yield Progress(1, 2)
        if len(starts) == 1:
            raise ValueError("the first time")
        return "answer"

    experiment = SimpleNamespace(steps=steps, __module__="tests")
    with pytest.raises(ValueError, match="the first time"):
        results.run_experiment(cards[0], experiment, record)
    assert results.run_experiment(cards[0], experiment, record) == "answer"
    assert len(starts) == 2


@pytest.mark.parametrize("call", ["ask", "ask, in steps", "search_tree", "run"])
def test_a_disconnected_session_stops_waiting_for_the_model(call, monkeypatch):
    """The disconnected session never gets the lock; the next waiting thread does."""
    card = read_card(CHECKPOINTS / "captions-de-en")
    translator, record = models.translator(card), results.inspect(card, "Ein Hund.")
    calls = {
        "ask": lambda: results.run_experiment(card, core.value_norms, record),
        "ask, in steps": lambda: results.run_experiment(card, core.shapley, record),
        "search_tree": lambda: results.search_tree(card, "Ein Hund.", DecodeConfig()),
        "run": lambda: results.run(card, pytest.fail, "called"),
    }

    class Disconnected(BaseException):
        pass

    def disconnect() -> None:
        raise Disconnected

    held, go, seen = Event(), Event(), []

    def hold() -> None:
        with translator.exclusive_model():
            held.set()
            go.wait(10)

    holder = Thread(target=hold)
    holder.start()
    held.wait(10)
    monkeypatch.setattr(results.waiting, "raise_if_cancelled", disconnect)
    with pytest.raises(Disconnected):
        calls[call]()
    waiting = Thread(target=lambda: seen.append(translator.translate(["Ein Hund."])[0].text))
    waiting.start()
    assert not seen
    go.set()
    for thread in (holder, waiting):
        thread.join(10)
    assert seen and not translator._lock.locked()


def test_clearing_streamlits_caches_clears_the_results():
    results.cached("x", lambda: 1)
    st.cache_resource.clear()
    assert results.cached("x", lambda: 2) == 2
