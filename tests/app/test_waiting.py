"""Heavy users are throttled while others are active, and only then."""

import threading
import time
from itertools import accumulate

import pytest

from app.state import waiting
from app.state.visits import Visits
from core.serving import fair_share, long_tasks
from core.serving.fair_share import FairShare
from core.serving.queue import BusyError


@pytest.fixture
def clock(monkeypatch):
    """The current session, and the CPU time that each reading of the thread's clock adds."""
    state = {"session": "heavy", "cost": 1.0}
    ticks = accumulate(iter(lambda: state["cost"], None))
    monkeypatch.setattr(waiting, "session_id", lambda: state["session"])
    monkeypatch.setattr(waiting, "raise_if_cancelled", lambda: None)
    monkeypatch.setattr(waiting.time, "thread_time", lambda: next(ticks))
    monkeypatch.setattr(fair_share, "SHARE", 2.0)  # keeps the pauses short
    monkeypatch.setattr(waiting, "SHARES", FairShare())
    monkeypatch.setattr(waiting, "VISITS", Visits(waiting.SHARES))
    monkeypatch.setattr(long_tasks, "release_memory", lambda: None)  # takes half a second
    return state


def seconds_of(call) -> float:
    """Call, and return how long it was paused; work takes the time it takes."""
    pauses, sleep = [], time.sleep
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", lambda seconds: (pauses.append(seconds), sleep(seconds)))
        call()
    return sum(pauses)


def a_run() -> None:
    with waiting.fair_run():
        pass


def test_a_heavy_session_waits_only_while_others_are_active(clock):
    for _ in range(4):
        assert seconds_of(a_run) < 0.2
    clock.update(session="other", cost=0.01)
    assert seconds_of(a_run) < 0.2, "a light session"
    clock.update(session="heavy", cost=1.0)
    assert seconds_of(a_run) > 0.4


@pytest.mark.parametrize(("before", "charged"), [(0.2, 0.0), (3.0, 0.4)])
def test_a_heavy_run_is_charged_what_others_waited_for(clock, monkeypatch, before, charged):
    """A run lasts longer than it computes; the time in the queue is charged by the queue."""
    now = [0.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now[0])
    for name in ("SHARE", "LIGHT_SHARE", "IDLE_SHARE"):
        monkeypatch.setattr(fair_share, name, 0.0)
    clock["cost"] = 0.0

    class Queue:
        def ask(self, *rest):
            now[0] += 0.3
            return "record"

    a_run()  # opens the session
    shares = waiting.SHARES
    shares.charge("heavy", before - shares._owed["heavy"])
    with waiting.fair_run():
        assert waiting.request_record(Queue(), None) == "record"
        now[0] += 0.4
    assert shares._owed["heavy"] == pytest.approx(before + charged)


def test_a_fragment_run_counts_as_a_run(clock, monkeypatch):
    monkeypatch.setattr(waiting.st, "fragment", lambda body, **options: body)
    fragment = waiting.fragment(lambda: "shown")
    for _ in range(4):
        assert fragment() == "shown"
    waiting.SHARES.mark_active("other")
    assert seconds_of(fragment) > 0.4

    clock["session"] = "another"

    def whole() -> None:
        with waiting.fair_run():
            for _ in range(8):
                fragment()

    assert seconds_of(whole) < 0.2
    assert seconds_of(whole) < 0.2, "nested fragments are neither charged nor throttled"


def test_all_long_tasks_share_one_account(clock):
    steps = lambda: list(waiting.run_queued(lambda: iter(range(4))))  # noqa: E731
    assert seconds_of(steps) < 0.2, "no other session is active"
    waiting.SHARES.mark_active("other")
    clock["session"] = "another"
    assert seconds_of(steps) > 0.4, "the first session's tasks count"


def test_drawing_a_step_counts_as_long_task_time(clock):
    waiting.SHARES.mark_active("other")

    def drawn() -> None:
        for _ in waiting.run_queued(lambda: iter(range(1))):
            for _ in range(3):
                waiting.time.thread_time()

    assert seconds_of(drawn) > 0.4


def test_a_rejected_run_pauses_after_showing_why(clock, monkeypatch):
    monkeypatch.setattr(waiting, "LONG_TASKS", long_tasks.LongTaskQueue(waiting=-1))
    shown = []

    def refused() -> None:
        start = time.monotonic()
        with waiting.fair_run():
            with pytest.raises(BusyError):
                next(waiting.run_queued(lambda: iter(range(1))))
            shown.append(time.monotonic() - start)

    monkeypatch.setattr(waiting, "_PAUSE_S", 0.5)
    assert seconds_of(refused) >= 0.5 and shown[0] < 0.2
    assert seconds_of(a_run) < 0.2, "the next run is not rejected"


def test_long_work_gives_way_to_brief_runs_of_light_visitors(monkeypatch):
    shares, started, over = FairShare(), threading.Event(), threading.Event()
    monkeypatch.setattr(waiting, "SHARES", shares)
    monkeypatch.setattr(waiting, "VISITS", Visits(shares))
    monkeypatch.setattr(waiting, "session_id", lambda: threading.current_thread().name)
    monkeypatch.setattr(waiting, "raise_if_cancelled", lambda: None)

    def run() -> None:
        with waiting.fair_run():
            started.set()
            over.wait(30)

    def waited(until: float = 30.0) -> float:
        return seconds_of(lambda: waiting.give_way(time.monotonic() + until))

    with waiting.fair_run():  # one's own run
        assert not waited()
    other = threading.Thread(target=run, name="light")
    other.start()
    assert started.wait(30)
    assert 0.05 <= waited(0.12) < 1
    shares.charge("light", 5.0)
    assert not waited(), "a heavy visitor"
    shares.charge("light", -5.0)
    monkeypatch.setattr(waiting, "_BRIEF_S", 0.0)
    assert not waited(), "a long run"
    monkeypatch.undo()
    over.set()
    other.join(30)
    assert not waiting._running
