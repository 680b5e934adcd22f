"""A visitor's wait for a model or for the line of long work, which ends when they leave."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, contextmanager
from typing import Any, ParamSpec, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.state import log
from core.record.record import TranslationRecord
from core.serving.backend import InspectRequest
from core.serving.fair_share import FairShare
from core.serving.long_tasks import LongTaskQueue
from core.serving.queue import POLL_S, BusyError, Queue, Replaced

LINE = LongTaskQueue()
"""Where all long work of this process waits: the checklist, trainings, questions of minutes."""
_PAUSE_S = 1.0  # behind a refused run: tabs that click again at once would take a core
SHARES = FairShare()
"""Who has used how much of this process's time in runs of pages and in long work."""
_LONG = object()  # the account of all long work, whoever asked for it
_MOST_S = 1.0  # of a run that is charged: the first one loads torch, which serves everybody
_RUN = threading.local()
P = ParamSpec("P")
T = TypeVar("T")
Waits = Callable[[int], object]
"""Is told, while a visitor waits, how many are ahead."""


def visitor() -> str | None:
    """Whose run of a page this is; None outside one."""
    context = get_script_run_ctx(suppress_warning=True)
    return context.session_id if context else None


def raise_if_cancelled() -> None:
    """End this run if its visitor has closed the tab or asked for something else.

    Streamlit asks a run to stop and waits until the run next touches the visit's state or the page.
    """
    if visitor() is not None:
        _ = "waiting" in st.session_state


@contextmanager
def fair_run() -> Generator[None]:
    """A run of a page: while others are there, one who has used more than a share waits first."""
    if getattr(_RUN, "begun", False):
        yield  # a part of a run that has waited
        return
    who = visitor()
    SHARES.asks(who)
    _let_others(who)
    begun = time.thread_time()
    _RUN.begun, _RUN.refused = True, False
    try:
        yield
    finally:
        _RUN.begun = False
        SHARES.charge(who, min(_MOST_S, time.thread_time() - begun))
        if _RUN.refused:  # and what says so is on the page
            time.sleep(_PAUSE_S)


def fragment(body: Callable[P, T]) -> Callable[P, T]:
    """A part of a page that Streamlit runs by itself, too: such a run counts as one of a page."""

    @functools.wraps(body)
    def fair(*args: P.args, **kwargs: P.kwargs) -> T:
        with fair_run():
            return body(*args, **kwargs)

    return st.fragment(fair)


def _let_others(account: object) -> None:
    """Wait while an account is overdrawn and others are there than this run's visitor."""
    while SHARES.has_to_wait(account, visitor()):
        time.sleep(POLL_S)
        raise_if_cancelled()


def answer(queue: Queue, request: InspectRequest) -> TranslationRecord:
    """The answer to a visitor's request. Raises UnansweredError, and what is wrong with it."""
    try:
        return queue.ask(request, visitor(), raise_if_cancelled, _begun)
    except Replaced:  # by this visitor's next run, which Streamlit has begun before this one ended
        st.stop()
    except BusyError:
        _RUN.refused = True
        raise


def in_line(
    begin: Callable[[], Iterable[T]], waits: Waits = lambda ahead: None
) -> Generator[T, None, Any]:
    """The steps of a long work when its turn has come; it ends with a step if the visitor leaves.

    While others are there all long work together takes no more than a share of the time.
    Whoever reads the steps closes them. Raises BusyError where too many wait already.
    """
    asked, told = time.perf_counter(), 0

    def begun() -> Iterable[T]:
        _begun(time.perf_counter() - asked)
        return begin()

    def waiting(ahead: int) -> None:
        nonlocal told
        raise_if_cancelled()
        if ahead != told:
            waits(ahead)
            told = ahead

    try:
        with closing(LINE.steps(begun, waiting)) as steps:
            mark = time.thread_time()
            while True:
                try:
                    step = next(steps)
                except StopIteration as end:
                    return end.value
                try:
                    yield step  # what the caller does with it counts as well
                finally:
                    SHARES.charge(_LONG, time.thread_time() - mark)
                raise_if_cancelled()
                _let_others(_LONG)
                mark = time.thread_time()
    except BusyError:
        _RUN.refused = True
        raise


def _begun(seconds: float) -> None:
    """Put into the log for how long a request has waited."""
    if (request := log.current()) is not None:
        request.queue_s = seconds
