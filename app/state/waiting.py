"""Waiting for a model or for the long-task queue, cancelled when the session disconnects."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import closing, contextmanager
from typing import Any, ParamSpec, TypeVar

import streamlit as st

from app import streamlit_internals
from app.state import log
from app.state.visits import Visits
from app.streamlit_internals import session_id
from core.record.record import TranslationRecord
from core.serving.backend import InspectRequest
from core.serving.fair_share import FairShare
from core.serving.long_tasks import LongTaskQueue
from core.serving.queue import POLL_S, BusyError, Queue, Replaced

LONG_TASKS = LongTaskQueue()
"""The queue of all long tasks: the checklist, trainings, experiments that take minutes."""
_PAUSE_S = 1.0  # after a rejected run: instant retries would use up a core
SHARES = FairShare()
"""CPU time used by each session's script runs and, in one account, by all long tasks."""
_LONG_TASKS_ACCOUNT = object()  # the shared account of all long tasks
_MAX_CHARGE_S = 1.0  # per run: the first run loads torch for all sessions
_RUN = threading.local()
_BRIEF_S = 2.0
"""A run that takes longer than this is no sentence: nobody gives way to it any more."""
_running: dict[int, tuple[Hashable, float]] = {}  # by thread: its run's account and start
_TIMED = "timed fragments"  # the ids of a session's fragments that a timer reruns
VISITS = Visits(SHARES)
P = ParamSpec("P")
T = TypeVar("T")
OnWait = Callable[[int], object]
"""A progress callback, called with the number of tasks ahead while waiting."""


def raise_if_cancelled() -> None:
    """End this run if its session has disconnected or requested another run.

    Streamlit stops a run by raising an exception at its next access to the session state.
    """
    if session_id() is not None:
        _ = "waiting" in st.session_state


def yield_to_waiting_fragment() -> None:
    """End this run of a fragment if the visitor asked for another fragment, which runs first."""
    if session_id() is not None:
        streamlit_internals.yield_to_waiting_fragment(st.session_state.get(_TIMED, ()))


@contextmanager
def fair_run() -> Generator[None]:
    """Run a script in the block, after a wait if the session exceeds its share of CPU time."""
    if getattr(_RUN, "active", False):
        yield  # nested in a run that has already waited
        return
    account = VISITS.begin(session_id())
    in_advance = _throttle(account)
    cpu, start = time.thread_time(), time.monotonic()
    _RUN.active, _RUN.refused, _RUN.asking_s = True, False, 0.0
    _running[threading.get_ident()] = account, start
    try:
        yield
    finally:
        _RUN.active = False
        del _running[threading.get_ident()]
        wall_s = time.monotonic() - start - _RUN.asking_s  # the queue charges its own work
        costs = (min(_MAX_CHARGE_S, cost) for cost in (time.thread_time() - cpu, wall_s))
        SHARES.charge(account, *(cost - in_advance for cost in costs))
        if _RUN.refused:  # the page already shows the reason
            time.sleep(_PAUSE_S)


def give_way(until: float) -> None:
    """Wait while light visitors' brief runs are in progress, at most until a monotonic time.

    Raises as `raise_if_cancelled` does. Long work of many small steps calls it between two steps:
    each of them holds the interpreter, and a search needs it at each of its own.
    """
    raise_if_cancelled()
    while time.monotonic() < until and _brief_runs():
        time.sleep(POLL_S)
        raise_if_cancelled()


def _brief_runs() -> bool:
    """Whether other threads run a script for a light visitor since a moment ago."""
    since = time.monotonic() - _BRIEF_S
    return any(
        thread != threading.get_ident() and start > since and SHARES.is_light(account)
        for thread, (account, start) in list(_running.items())
    )


def fragment(body: Callable[P, T], every_s: float | None = None) -> Callable[P, T]:
    """Like `st.fragment`, with `fair_run` around runs of the fragment alone.

    With `every_s`, the browser reruns the fragment at this interval in seconds.
    """

    @functools.wraps(body)
    def fair(*args: P.args, **kwargs: P.kwargs) -> T:
        if every_s is not None:
            st.session_state.setdefault(_TIMED, set()).add(streamlit_internals.fragment_id())
        with fair_run():
            return body(*args, **kwargs)

    return st.fragment(fair, run_every=every_s)


def _throttle(account: Hashable) -> float:
    """Wait while an account is overdrawn and another session, which used little, is active.

    Return the seconds that were charged in advance.
    """
    while (in_advance := SHARES.admit(account, session_id())) is None:
        time.sleep(POLL_S)
        raise_if_cancelled()
    return in_advance


def request_record(queue: Queue, request: InspectRequest) -> TranslationRecord:
    """Return the record for a request. Raises UnansweredError and the errors of the request."""
    asked = time.monotonic()
    try:
        return queue.ask(request, session_id(), raise_if_cancelled, _log_wait)
    except Replaced:  # superseded by the session's next run
        st.stop()
    except BusyError:
        _RUN.refused = True
        raise
    finally:
        _RUN.asking_s = getattr(_RUN, "asking_s", 0.0) + time.monotonic() - asked


def run_queued(
    begin: Callable[[], Iterable[T]], on_wait: OnWait = lambda ahead: None
) -> Generator[T, None, Any]:
    """Run a task in the queue of long tasks and yield its steps; stop if the session disconnects.

    While other sessions are active, all long tasks together get one share of the time. The caller
    must close the generator. Raises BusyError if the queue is full.
    """
    queued, reported = time.perf_counter(), 0

    def begun() -> Iterable[T]:
        _log_wait(time.perf_counter() - queued)
        return begin()

    def waiting(ahead: int) -> None:
        nonlocal reported
        yield_to_waiting_fragment()
        raise_if_cancelled()
        if ahead != reported:
            on_wait(ahead)
            reported = ahead

    try:
        with closing(LONG_TASKS.steps(begun, waiting)) as steps:
            in_advance, cpu, start = 0.0, time.thread_time(), time.monotonic()
            while True:
                try:
                    step = next(steps)
                except StopIteration as end:
                    return end.value
                try:
                    yield step  # the time that the caller spends on it is charged too
                finally:
                    SHARES.charge(
                        _LONG_TASKS_ACCOUNT,
                        time.thread_time() - cpu - in_advance,
                        time.monotonic() - start - in_advance,
                    )
                raise_if_cancelled()
                in_advance = _throttle(_LONG_TASKS_ACCOUNT)
                cpu, start = time.thread_time(), time.monotonic()
    except BusyError:
        _RUN.refused = True
        raise


def _log_wait(seconds: float) -> None:
    """Log how long the current request has waited."""
    if (request := log.current()) is not None:
        request.queue_s = seconds
