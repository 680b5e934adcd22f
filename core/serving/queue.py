"""The queue of one model: one worker, a bounded line, a deadline; a visitor who left is let go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from core.record.record import TranslationRecord
from core.serving.backend import MAX_BATCH, Backend, InspectRequest, TranslateRequest
from core.serving.fair_share import RECENT_S, SHARE, FairShare

if TYPE_CHECKING:  # torch comes with it
    from core.translator import Translation

LIMIT = 64
"""Requests that wait for one model at most."""
DEADLINE_S = 20.0
"""Seconds from a request to its answer at most."""
POLL_S = 0.05
"""Seconds after which whoever waits looks whether its visitor is still there."""
_BATCH_CHARACTERS = 800
"""Of a batch, padded: one of the longest sentences, or 16 of the usual length.

A batch cannot be interrupted, so its length is how long others wait for it.
"""

LONG = 100
"""Characters beyond which a sentence is long: its search takes several times as long."""

Request = TranslateRequest | InspectRequest


class UnansweredError(ValueError):
    """A request that others' requests left no room for; the message is one line for the reader."""


class BusyError(UnansweredError):
    """As many wait as may: whoever asks now is told so at once."""

    def __init__(self, ahead: int) -> None:
        super().__init__(f"busy, {ahead} ahead: try again in a few seconds")
        self.ahead = ahead


class LateError(UnansweredError):
    """A request was not answered in time."""


class Replaced(BaseException):
    """A waiting request has made room for a newer one of its visitor: nobody reads its answer.

    No Exception, so that nothing on the way takes it for a failure.
    """


@dataclass(eq=False)
class _Job:
    """One request, however many ask it, and what became of it."""

    request: Request
    tickets: set[_Ticket] = field(default_factory=set)
    started: float | None = None
    answer: Any = None
    answered: threading.Event = field(default_factory=threading.Event)

    @property
    def visitors(self) -> set[Hashable]:
        """Who waits for it."""
        return {ticket.visitor for ticket in self.tickets}

    @property
    def shares(self) -> tuple[type, Hashable]:
        return type(self.request), self.request.shares


@dataclass(eq=False)
class _Ticket:
    """One visitor's wait for a job."""

    visitor: Hashable
    job: _Job
    asked: float = field(default_factory=time.monotonic)
    replaced: bool = False

    def waited(self) -> float:
        """Seconds until the work began, or until now."""
        begun = self.job.started
        return max(0.0, (time.monotonic() if begun is None else begun) - self.asked)


class Queue:
    """Requests to one backend in the order in which they came; those that can share a batch do.

    One thread answers them, and ends when nothing waits. A visitor has one request waiting: a newer
    one takes its place. Equal requests are answered once. While somebody asks for short sentences,
    long ones take a third of the worker's time at most, in however many tabs. Visitors who have
    used much processor time come after the others, and are throttled while others ask
    (`core.serving.fair_share`); queues that are given the same `shares` charge the same accounts.
    """

    def __init__(
        self,
        backend: Backend,
        limit: int = LIMIT,
        deadline_s: float = DEADLINE_S,
        shares: FairShare | None = None,
    ) -> None:
        self._backend = backend
        self._limit = limit
        self._deadline_s = deadline_s
        self._lock = threading.Condition()
        self._waiting: list[_Job] = []
        self._jobs: dict[Request, _Job] = {}  # those that wait, and those of the batch at work
        self._tickets: dict[Hashable, _Ticket] = {}  # the last of each visitor that waits
        self._shares = shares or FairShare()
        self._works = False  # whether there is a worker
        self._short: dict[Hashable, float] = {}  # when each visitor asked for a short sentence last
        self._rest_until = 0.0  # no long sentence is begun before, if others ask for short ones

    @overload
    def ask(
        self,
        request: InspectRequest,
        visitor: Hashable = None,
        raise_if_cancelled: Callable[[], object] = ...,
        begun: Callable[[float], object] = ...,
    ) -> TranslationRecord: ...
    @overload
    def ask(
        self,
        request: TranslateRequest,
        visitor: Hashable = None,
        raise_if_cancelled: Callable[[], object] = ...,
        begun: Callable[[float], object] = ...,
    ) -> Translation: ...
    def ask(
        self,
        request: Request,
        visitor: Hashable = None,
        raise_if_cancelled: Callable[[], object] = lambda: None,
        begun: Callable[[float], object] = lambda seconds: None,
    ) -> Any:
        """The answer to a request, for which the calling thread waits.

        `raise_if_cancelled` is polled while waiting; what it raises removes the request.
        `begun` is told for how many seconds the request waited before its work began, also where
        it never did. `visitor` is who asks, or None where that does not matter.

        Raises BusyError at once where too many wait, LateError, Replaced, and what is wrong with
        the request.
        """
        ticket = self._submit(request, visitor)
        try:
            while not ticket.job.answered.wait(POLL_S):
                raise_if_cancelled()
                if ticket.replaced:
                    raise Replaced
                if time.monotonic() > ticket.asked + self._deadline_s:
                    raise LateError(
                        f"no answer within {self._deadline_s:g} s, for others came first: try again"
                    )
        finally:
            with self._lock:
                self._leave(ticket)
            begun(ticket.waited())
        if isinstance(ticket.job.answer, Exception):
            raise ticket.job.answer
        return ticket.job.answer

    def _submit(self, request: Request, visitor: Hashable) -> _Ticket:
        with self._lock:
            place = len(self._waiting)
            older = None if visitor is None else self._tickets.get(visitor)
            if older is not None and older.job.started is None:
                older.replaced = True
                place = self._leave(older)
            job = self._jobs.get(request)
            if job is None:
                if len(self._waiting) >= self._limit:
                    raise BusyError(len(self._jobs))
                job = self._jobs[request] = _Job(request)
                self._waiting.insert(place, job)
            ticket = _Ticket(visitor, job)
            job.tickets.add(ticket)
            if visitor is not None:
                self._tickets[visitor] = ticket
                self._shares.asks(visitor)
                if len(request.source) <= LONG:
                    self._short[visitor] = ticket.asked
            self._lock.notify_all()
            if not self._works:
                self._works = True
                threading.Thread(target=self._work, name="headlight-worker", daemon=True).start()
        return ticket

    def _leave(self, ticket: _Ticket) -> int:
        """Nobody waits with this ticket any more; a job that nobody waits for is dropped.

        Returns the place in the line that is free now. The lock is held.
        """
        job = ticket.job
        job.tickets.discard(ticket)
        if self._tickets.get(ticket.visitor) is ticket:
            del self._tickets[ticket.visitor]
        if job.tickets or job not in self._waiting:
            return len(self._waiting)
        place = self._waiting.index(job)
        del self._waiting[place], self._jobs[job.request]
        return place

    def _work(self) -> None:
        """Answer batch after batch, until nothing waits."""
        while batch := self._next():
            begun, mark = time.thread_time(), time.monotonic()
            answers = self._answers([job.request for job in batch])
            with self._lock:
                self._charge(batch, time.thread_time() - begun)
                if any(len(job.request.source) > LONG for job in batch):
                    # By the clock: how long others wait also depends on the rest of the machine.
                    now = time.monotonic()
                    self._rest_until = now + (now - mark) * (1 / SHARE - 1)
                for job, answer in zip(batch, answers, strict=True):
                    job.answer = answer
                    del self._jobs[job.request]
                    job.answered.set()
            del batch, answers  # nothing is kept alive by a worker that waits for its turn

    def _next(self) -> list[_Job]:
        """The first job, and those behind it that can share its batch."""
        with self._lock:
            while (ready := self._ready()) == [] and self._waiting:
                self._lock.wait(POLL_S)
            batch: list[_Job] = []
            longest = 0
            for job in ready:
                together = not batch or (
                    job.shares == batch[0].shares and job.shares[1] is not None
                )
                padded = max(longest, len(job.request.source)) * (len(batch) + 1)
                if together and (not batch or padded <= _BATCH_CHARACTERS):
                    batch.append(job)
                    longest = max(longest, len(job.request.source))
                if len(batch) == MAX_BATCH:
                    break
            now = time.monotonic()
            for job in batch:
                job.started = now
                self._waiting.remove(job)
            self._works = bool(batch)
            return batch

    def _ready(self) -> list[_Job]:
        """The jobs that may be answered now, those of light visitors first. The lock is held."""
        wait, light = self._shares.has_to_wait, self._shares.is_light
        now = time.monotonic()
        self._short = {v: at for v, at in self._short.items() if at > now - RECENT_S}
        rests = now < self._rest_until
        ready = [
            job
            for job in self._waiting
            if not all(wait(v, v) for v in job.visitors)
            and not (rests and len(job.request.source) > LONG and self._short.keys() - job.visitors)
        ]
        return sorted(ready, key=lambda job: not any(light(v) for v in job.visitors))

    def _charge(self, batch: Sequence[_Job], seconds: float) -> None:
        """Put down what a batch took to those who waited for it. The lock is held."""
        for visitor in {v for job in batch for v in job.visitors}:
            self._shares.charge(visitor, seconds / len(batch))

    def _answers(self, requests: Sequence[Request]) -> Sequence[Any]:
        """What the backend says; where it fails altogether, that is the answer to each."""
        try:
            answers: Sequence[Any]
            if inspected := [one for one in requests if isinstance(one, InspectRequest)]:
                answers = self._backend.inspect(inspected)
            else:
                texts = [one for one in requests if isinstance(one, TranslateRequest)]
                answers = self._backend.translate(texts)
            if len(answers) != len(requests):
                raise RuntimeError(f"{len(answers)} answers to {len(requests)} requests")
            return answers
        except Exception as error:
            return [error] * len(requests)
