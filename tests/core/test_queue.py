"""The request queue and the long-task queue: order, limits, cancellation, memory."""

import gc
import re
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import closing
from itertools import accumulate

import pytest

from core.config import DecodeConfig
from core.record.edits import Edits
from core.serving import fair_share, long_tasks
from core.serving import queue as queues
from core.serving.backend import MAX_BATCH, InspectRequest, TranslateRequest
from core.serving.long_tasks import LongTaskQueue
from core.serving.queue import BusyError, LateError, Queue, Replaced

SOON = 20  # seconds after which a test has hung


class BlockingBackend:
    """A backend that answers each batch when `go` is released, and records the batches."""

    def __init__(self):
        self.batches: list[list[str]] = []
        self.go = threading.Semaphore(0)

    def inspect(self, batch):
        self.batches.append([one.source for one in batch])
        assert self.go.acquire(timeout=SOON)
        if batch[0].source == "fails":
            raise MemoryError("no room")
        return [
            ValueError(one.source) if one.source.startswith("wrong") else f"{one.source}!"
            for one in batch
        ]

    def translate(self, batch):
        return [f"{answer} in words" for answer in self.inspect(batch)]


class Request(threading.Thread):
    """A request in its own thread; set `cancelled` to cancel it."""

    def __init__(self, queue: Queue, request, visitor=None):
        super().__init__(daemon=True)
        self.queue, self.visitor = queue, visitor
        self.request = InspectRequest(request) if isinstance(request, str) else request
        self.cancelled, self.waited, self.answer = False, None, None
        self.start()

    def raise_if_cancelled(self):
        if self.cancelled:
            raise GeneratorExit

    def run(self):
        try:
            self.answer = self.queue.ask(
                self.request,
                self.visitor,
                self.raise_if_cancelled,
                lambda s: setattr(self, "waited", s),
            )
        except BaseException as error:
            self.answer = error

    def end(self):
        self.join(SOON)
        assert not self.is_alive()
        return self.answer


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.fixture
def backend() -> BlockingBackend:
    return BlockingBackend()


def lined_up(queue: Queue, *requests, visitor=None) -> list[Request]:
    """Queue the requests one after another."""
    found = []
    for request in requests:
        count = len(queue._waiting)
        found.append(Request(queue, request, visitor))
        until(lambda count=count: len(queue._waiting) > count or queue._backend.batches == [])
    return found


def at_work(queue: Queue, backend: BlockingBackend) -> Request:
    """Occupy the worker, so that further requests wait."""
    first = Request(queue, "first")
    until(lambda: backend.batches == [["first"]])
    return first


def test_compatible_requests_are_batched_in_order(backend):
    queue = Queue(backend)
    first = at_work(queue, backend)
    greedy = InspectRequest("greedy", decode=DecodeConfig(beam=1))
    alone = InspectRequest("alone", edits=Edits(causal_mask=False), target="t")
    also = InspectRequest("also alone", edits=Edits(causal_mask=False), target="t")
    text = TranslateRequest("text")
    requests = lined_up(queue, "a", alone, "b", greedy, "wrong", also, text)
    backend.go.release(10)
    said = [first.end(), *(one.end() for one in requests)]
    batches = [["a", "b", "wrong"], ["alone"], ["greedy"], ["also alone"], ["text"]]
    assert backend.batches[1:] == batches
    assert [str(one) for one in said] == [
        "first!", "a!", "alone!", "b!", "greedy!", "wrong", "also alone!", "text! in words"
    ]  # fmt: skip
    assert isinstance(said[5], ValueError)
    assert all(one.waited >= 0 for one in requests) and queue._jobs == {} == queue._tickets


def test_a_batch_is_bounded_in_number_and_in_size(backend):
    queue = Queue(backend)
    at_work(queue, backend)
    lined_up(queue, *(f"{i}" for i in range(MAX_BATCH + 3)), "long " * 90, "tail")
    backend.go.release(10)
    until(lambda: not queue._jobs)
    assert [len(batch) for batch in backend.batches] == [1, MAX_BATCH, 4, 1]
    assert backend.batches[-1] == ["long " * 90]


def test_equal_requests_are_computed_once(backend):
    queue = Queue(backend, limit=1)
    first = at_work(queue, backend)
    requests = [Request(queue, "same", visitor) for visitor in range(5)] + [Request(queue, "first")]
    until(lambda: sum(len(job.tickets) for job in queue._jobs.values()) == 7)
    requests[0].cancelled = True  # cancelling the first does not affect the others
    assert isinstance(requests[0].end(), GeneratorExit)
    backend.go.release(10)
    assert [one.end() for one in (*requests[1:], first)] == ["same!"] * 4 + ["first!"] * 2
    assert backend.batches == [["first"], ["same"]]


def test_a_full_queue_refuses_a_request_instead_of_queueing_it(backend):
    queue = Queue(backend)
    at_work(queue, backend)
    lined_up(queue, *(f"{i}" for i in range(queues.LIMIT)))
    with pytest.raises(BusyError, match="^busy, 65 ahead: try again") as refused:
        queue.ask(InspectRequest("one too many"))
    assert refused.value.ahead == 65
    backend.go.release(100)
    until(lambda: not queue._jobs)
    assert queue.ask(InspectRequest("now")) == "now!"


@pytest.mark.parametrize(
    ("before_s", "said"),
    [
        (None, r"0\.6 s: the model has computed for (\d\.\d) s .* try a shorter sentence, a .*"),
        (9, r"0\.6 s, because other requests came first: try again"),
        (0.3, r"0\.6 s: other requests came first for (\d\.\d) s, .* computed for (\d\.\d) s .*"),
    ],
)
def test_a_request_fails_at_its_deadline_and_says_what_took_the_time(backend, before_s, said):
    """The request before it takes `before_s` seconds. What only waited is not computed."""
    queue = Queue(backend, deadline_s=0.6)
    if before_s:
        at_work(queue, backend)
    request = Request(queue, "late", 1)
    if before_s and before_s < 1:
        time.sleep(before_s)
        backend.go.release(1)
    late = request.end()
    assert isinstance(late, LateError)
    seconds = [float(s) for s in re.fullmatch(f"no answer within {said}", str(late)).groups()]
    assert not seconds or sum(seconds) > 0.4
    backend.go.release(10)
    until(lambda: not queue._jobs)
    assert (["late"] in backend.batches) == (before_s != 9)


def test_a_visitors_newer_request_takes_the_place_of_the_waiting_one(backend):
    queue = Queue(backend)
    at_work(queue, backend)
    alone = [InspectRequest(name, activations=i > 0) for i, name in enumerate(["older", "other"])]
    older, other = (Request(queue, request, i) for i, request in enumerate(alone))
    until(lambda: len(queue._waiting) == 2)
    newer = Request(queue, "newer", 0)
    assert isinstance(older.end(), Replaced)
    backend.go.release(10)
    assert (newer.end(), other.end()) == ("newer!", "other!")
    assert sorted(backend.batches[1:]) == [["newer"], ["other"]]


def test_cancelled_requests_are_dropped(backend):
    queue = Queue(backend)
    first = at_work(queue, backend)
    (left,) = lined_up(queue, "left")
    left.cancelled = first.cancelled = True
    assert isinstance(left.end(), GeneratorExit) and isinstance(first.end(), GeneratorExit)
    assert left.waited > 0
    backend.go.release(10)
    until(lambda: not queue._jobs)
    assert backend.batches == [["first"]]


def test_a_failure_reaches_only_its_batch(backend):
    queue = Queue(backend)
    at_work(queue, backend)
    requests = lined_up(queue, "fails", "b")
    backend.go.release(10)
    assert [type(one.end()) for one in requests] == [MemoryError] * 2
    assert queue.ask(InspectRequest("next")) == "next!"


def test_heavy_users_are_throttled(backend, monkeypatch):
    queue = Queue(backend)
    cost = [1.0]  # seconds of a batch
    ticks = accumulate(iter(lambda: cost[0], None))
    monkeypatch.setattr(queues.time, "thread_time", lambda: next(ticks))
    monkeypatch.setattr(fair_share, "SHARE", 2.0)  # so that the test need not wait for long
    backend.go.release(100)
    for i in range(5):  # nobody else is here: no pause
        alone = Request(queue, f"{i}", "abuser")
        assert alone.end() == f"{i}!" and alone.waited < 0.2
    cost[0] = 0.01
    assert queue.ask(InspectRequest("another"), "other") == "another!"
    pausing = Request(queue, "pausing", "abuser")
    until(lambda: queue._waiting)
    assert queue.ask(InspectRequest("other"), "other") == "other!"
    assert pausing.end() == "pausing!" and pausing.waited > 0.2
    assert backend.batches[-2:] == [["other"], ["pausing"]]


def test_long_sentences_leave_the_worker_free_for_short_ones(backend):
    """While others send short requests, a long one waits twice as long as the last one took."""
    queue = Queue(backend)
    requests = [Request(queue, "a" * 480, "one")]
    until(lambda: backend.batches)
    requests.append(Request(queue, "b" * 480, "two"))
    until(lambda: queue._waiting)
    time.sleep(0.5)
    backend.go.release()
    begun = time.monotonic()
    until(lambda: len(backend.batches) == 2)
    assert time.monotonic() - begun < 0.4, "delayed although no short request waits"
    for text, visitor in [("c", "reader"), ("e", "another"), ("d" * 480, "one")]:
        requests.append(Request(queue, text, visitor))
        until(lambda: len(queue._waiting) == len(requests) - 2)
    time.sleep(max(0.0, begun + 0.5 - time.monotonic()))
    backend.go.release(2)
    begun = time.monotonic()
    assert requests[2].end() == "c!" and time.monotonic() - begun < 0.4
    until(lambda: len(backend.batches) == 4)
    assert time.monotonic() - begun > 0.9  # the long one before took half a second
    backend.go.release()
    assert requests[4].end() == "d" * 480 + "!"
    assert backend.batches[2:] == [["c", "e"], ["d" * 480]]


def test_light_visitors_come_first_and_long_sentences_one_at_a_time(backend):
    shared = fair_share.FairShare()
    queue = Queue(backend, shares=shared)
    shared.charge("greedy", 1.0)  # heavy, but below the limit
    requests = [Request(queue, "a first one")]
    until(lambda: backend.batches)
    for text, visitor in [("g" * 200, "greedy"), ("l" * 480, "one"), ("m" * 480, "two")]:
        requests.append(Request(queue, text, visitor))
        until(lambda text=text: len(queue._waiting) == len(requests) - 1)
    backend.go.release(10)
    for one in requests:
        one.end()
    assert ["".join(text[0] for text in batch) for batch in backend.batches] == [*"almg"]


def test_the_worker_ends_when_nothing_waits_and_keeps_nothing(backend):
    queue = Queue(backend)
    backend.go.release(10)
    assert queue.ask(InspectRequest("one")) == "one!"
    until(lambda: "headlight-worker" not in {thread.name for thread in threading.enumerate()})
    ref = weakref.ref(queue)
    del queue
    gc.collect()
    assert ref() is None


def long_task(queue: LongTaskQueue, name: str, said: list[str], waits=lambda ahead: None):
    """Return the steps of a task that logs its beginning and end."""

    def begin():
        said.append(f"{name} begins")
        try:
            yield from range(3)
        finally:
            said.append(f"{name} ends")

    return queue.steps(begin, waits)


@pytest.fixture
def quickly(monkeypatch):
    """Skip garbage collection, which takes half a second with torch loaded."""
    monkeypatch.setattr(long_tasks, "release_memory", lambda: None)


def test_long_tasks_run_one_at_a_time_and_few_wait(quickly):
    queue, said = LongTaskQueue(), []
    first = long_task(queue, "first", said)
    assert next(first) == 0
    ahead, threads = {}, []
    for i in range(long_tasks.WAITING):
        work = long_task(queue, f"{i}", said, lambda n, i=i: ahead.setdefault(i, n))
        threads.append(threading.Thread(target=list, args=(work,), daemon=True))
        threads[-1].start()
        until(lambda i=i: i in ahead)
    with pytest.raises(BusyError, match="^busy, 5 ahead"):
        next(long_task(queue, "too many", said))
    assert ahead == {0: 1, 1: 2, 2: 3, 3: 4} and said == ["first begins"]
    assert list(first) == [1, 2]
    for thread in threads:
        thread.join(SOON)
    assert said == [f"{name} {what}" for name in ("first", *"0123") for what in ("begins", "ends")]


def test_leaving_the_queue_frees_a_place(quickly):
    queue, said = LongTaskQueue(waiting=1), []
    first = long_task(queue, "first", said)
    next(first)

    def leaves(ahead):
        raise GeneratorExit

    with pytest.raises(GeneratorExit):
        next(long_task(queue, "left", said, leaves))
    first.close()
    assert said == ["first begins", "first ends"]
    with closing(long_task(queue, "next", said)) as steps:
        assert next(steps) == 0


def test_memory_is_released_after_the_task(monkeypatch):
    class Large:
        """Can be weakly referenced."""

    refs, freed = [], []
    monkeypatch.setattr(long_tasks, "release_memory", lambda: freed.append(refs[-1]() is None))

    def begin():
        large = Large()
        refs.append(weakref.ref(large))
        yield from range(3)

    assert list(LongTaskQueue().steps(begin)) == [0, 1, 2]
    stopped = LongTaskQueue().steps(begin)
    next(stopped)
    stopped.close()
    assert freed == [True, True]
