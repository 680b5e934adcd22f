"""Who has used much of the processor makes pauses while others are there, and only then."""

import time
from itertools import accumulate

import pytest

from app.state import waiting
from core.serving import fair_share, long_tasks
from core.serving.fair_share import FairShare
from core.serving.queue import BusyError


@pytest.fixture
def now(monkeypatch):
    """Whose run this is, and what it costs: by so much a thread's clock is later at each look."""
    who = {"visitor": "busy", "cost": 1.0}
    ticks = accumulate(iter(lambda: who["cost"], None))
    monkeypatch.setattr(waiting, "visitor", lambda: who["visitor"])
    monkeypatch.setattr(waiting, "raise_if_cancelled", lambda: None)
    monkeypatch.setattr(waiting.time, "thread_time", lambda: next(ticks))
    monkeypatch.setattr(fair_share, "SHARE", 2.0)  # so that the test need not wait for long
    monkeypatch.setattr(waiting, "SHARES", FairShare())
    monkeypatch.setattr(long_tasks, "release_memory", lambda: None)  # which takes half a second
    return who


def seconds_of(work) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def a_run() -> None:
    with waiting.fair_run():
        pass


def test_a_run_waits_only_while_others_are_there(now):
    for _ in range(4):
        assert seconds_of(a_run) < 0.2
    now.update(visitor="other", cost=0.01)
    assert seconds_of(a_run) < 0.2, "who has used little"
    now.update(visitor="busy", cost=1.0)
    assert seconds_of(a_run) > 0.4


def test_a_part_that_is_run_by_itself_counts_as_a_run(now, monkeypatch):
    monkeypatch.setattr(waiting.st, "fragment", lambda body: body)
    part = waiting.fragment(lambda: "shown")
    for _ in range(4):
        assert part() == "shown"
    waiting.SHARES.asks("other")
    assert seconds_of(part) > 0.4

    now["visitor"] = "a second one"

    def whole() -> None:
        with waiting.fair_run():
            for _ in range(8):
                part()

    assert seconds_of(whole) < 0.2
    assert seconds_of(whole) < 0.2, "its parts are not counted again, nor made to wait"


def test_all_long_work_shares_one_account(now):
    steps = lambda: list(waiting.in_line(lambda: iter(range(4))))  # noqa: E731
    assert seconds_of(steps) < 0.2, "nobody else is there"
    waiting.SHARES.asks("other")
    now["visitor"] = "a second one"
    assert seconds_of(steps) > 0.4, "what the first one's work used counts"


def test_what_is_made_of_a_step_counts_as_long_work(now):
    waiting.SHARES.asks("other")

    def drawn() -> None:
        for _ in waiting.in_line(lambda: iter(range(1))):
            for _ in range(3):
                waiting.time.thread_time()

    assert seconds_of(drawn) > 0.4


def test_a_refused_run_makes_its_pause_behind_what_it_shows(now, monkeypatch):
    monkeypatch.setattr(waiting, "LINE", long_tasks.LongTaskQueue(waiting=-1))
    shown = []

    def refused() -> None:
        begun = time.monotonic()
        with waiting.fair_run():
            with pytest.raises(BusyError):
                next(waiting.in_line(lambda: iter(range(1))))
            shown.append(time.monotonic() - begun)

    monkeypatch.setattr(waiting, "_PAUSE_S", 0.5)
    assert seconds_of(refused) > 0.5 and shown[0] < 0.2
    assert seconds_of(a_run) < 0.2, "the next run is not refused"


def test_who_is_there_no_more_counts_no_more(now, monkeypatch):
    waiting.SHARES.asks("other")
    monkeypatch.setattr(fair_share, "RECENT_S", 0.0)
    for _ in range(4):
        assert seconds_of(a_run) < 0.2
