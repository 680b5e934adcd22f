"""A model's request queue: one worker, bounded, with deadlines, batching and cancellation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.serving.backend import MAX_BATCH, Backend, InspectRequest, TranslateRequest
from core.serving.fair_share import RECENT_S, SHARE, FairShare

LIMIT = 64
"""Maximum number of waiting requests per model."""
DEADLINE_S = 20.0
"""Maximum seconds from a request to its answer."""
POLL_S = 0.05
"""Seconds between two checks for cancellation."""
_BATCH_CHARACTERS = 800
"""Maximum size of a padded batch: one sentence of the maximum length, or 16 of the usual length.

A batch cannot be interrupted, so this limits how long other requests wait for it.
"""

LONG = 100
"""A sentence with more characters counts as long: its search is several times slower."""

Request = TranslateRequest | InspectRequest


class UnansweredError(ValueError):
    """A request rejected because of load; the message is one line for the user."""


class BusyError(UnansweredError):
    """The queue is full."""

    def __init__(self, ahead: int) -> None:
        super().__init__(f"busy, {ahead} ahead: try again in a few seconds")
        self.ahead = ahead


class LateError(UnansweredError):
    """A request missed its deadline."""


class Replaced(BaseException):
    """A waiting request was replaced by a newer one of the same visitor.

    It is a BaseException, so that no `except Exception` takes it for a failure.
    """


@dataclass(eq=False)
class _Job:
    """A request with its answer; equal requests share one job."""

    request: Request
    tickets: set[_Ticket] = field(default_factory=set)
    started: float | None = None
    answer: Any = None
    answered: threading.Event = field(default_factory=threading.Event)

    @property
    def visitors(self) -> set[Hashable]:
        """The visitors waiting for the answer."""
        return {ticket.visitor for ticket in self.tickets}

    @property
    def batch_key(self) -> tuple[type, Hashable]:
        return type(self.request), self.request.batch_key


@dataclass(eq=False)
class _Ticket:
    """A visitor waiting for a job."""

    visitor: Hashable
    job: _Job
    submitted: float = field(default_factory=time.monotonic)
    replaced: bool = False

    def waited(self) -> float:
        """Return the seconds from submission until the work began or, if it has not, until now."""
        started = self.job.started
        return max(0.0, (time.monotonic() if started is None else started) - self.submitted)


class Queue:
    """A first-come, first-served queue for one backend that batches compatible requests.

    One worker thread answers the requests and ends when the queue is empty. Each visitor has at
    most one waiting request; a newer one takes its place. Equal requests are answered once. While
    other visitors ask for short sentences, long ones get at most a third of the worker's time.
    Heavy users have lower priority and are throttled while light ones are active (see
    core.serving.fair_share). Queues that are given the same FairShare share its accounts.
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
        self._jobs: dict[Request, _Job] = {}  # waiting or in the current batch
        self._tickets: dict[Hashable, _Ticket] = {}  # the latest ticket of each visitor
        self._shares = shares or FairShare()
        self._has_worker = False
        self._short: dict[Hashable, float] = {}  # time of each visitor's last short sentence
        self._no_long_before = 0.0  # until then, long sentences wait if others ask for short ones

    def ask(
        self,
        request: Request,
        visitor: Hashable = None,
        raise_if_cancelled: Callable[[], object] = lambda: None,
        on_start: Callable[[float], object] = lambda seconds: None,
    ) -> Any:
        """Wait for the answer, a TranslationRecord or a Translation, and return it.

        `raise_if_cancelled` is polled while waiting; an exception that it raises removes the
        request. `on_start` is called with the seconds that the request waited, even if its work
        never began. `visitor` identifies the user; None disables replacement and accounting.

        Raises BusyError if the queue is full, LateError after the deadline, and Replaced once the
        visitor has sent a newer request. If the backend answers with an exception, raises it.
        """
        ticket = self._submit(request, visitor)
        try:
            while not ticket.job.answered.wait(POLL_S):
                raise_if_cancelled()
                if ticket.replaced:
                    raise Replaced
                if time.monotonic() > ticket.submitted + self._deadline_s:
                    raise LateError(self._reason(ticket))
        finally:
            with self._lock:
                self._leave(ticket)
            on_start(ticket.waited())
        if isinstance(ticket.job.answer, Exception):
            raise ticket.job.answer
        return ticket.job.answer

    def _reason(self, ticket: _Ticket) -> str:
        """Say what a late request spent its time on: waiting for others, computing, or both."""
        late, waited = f"no answer within {self._deadline_s:g} s", ticket.waited()
        if ticket.job.started is None:
            return f"{late}, because other requests came first: try again"
        computing = time.monotonic() - ticket.submitted - waited
        if waited <= 2 * POLL_S:  # no longer than a start takes
            return (
                f"{late}: the model has computed for {computing:.1f} s without finishing, try a "
                "shorter sentence, a narrower beam or a smaller model"
            )
        return (
            f"{late}: other requests came first for {waited:.1f} s, and the model has computed for "
            f"{computing:.1f} s without finishing, try again"
        )

    def _submit(self, request: Request, visitor: Hashable) -> _Ticket:
        with self._lock:
            position = len(self._waiting)
            older = None if visitor is None else self._tickets.get(visitor)
            if older is not None and older.job.started is None:
                older.replaced = True
                position = self._leave(older)
            job = self._jobs.get(request)
            if job is None:
                if len(self._waiting) >= self._limit:
                    raise BusyError(len(self._jobs))
                job = self._jobs[request] = _Job(request)
                self._waiting.insert(position, job)
            ticket = _Ticket(visitor, job)
            job.tickets.add(ticket)
            if visitor is not None:
                self._tickets[visitor] = ticket
                self._shares.mark_active(visitor)
                if len(request.source) <= LONG:
                    self._short[visitor] = ticket.submitted
            self._lock.notify_all()
            if not self._has_worker:
                self._has_worker = True
                threading.Thread(target=self._work, name="headlight-worker", daemon=True).start()
        return ticket

    def _leave(self, ticket: _Ticket) -> int:
        """Remove a ticket, and also its job if nobody else waits for it and it has not started.

        Return the freed position in the queue, or the end. The caller holds the lock.
        """
        job = ticket.job
        job.tickets.discard(ticket)
        if self._tickets.get(ticket.visitor) is ticket:
            del self._tickets[ticket.visitor]
        if job.tickets or job not in self._waiting:
            return len(self._waiting)
        position = self._waiting.index(job)
        del self._waiting[position], self._jobs[job.request]
        return position

    def _work(self) -> None:
        """Answer batches until the queue is empty."""
        while batch := self._next():
            cpu, start = time.thread_time(), time.monotonic()
            answers = self._answers([job.request for job in batch])
            with self._lock:
                now = time.monotonic()
                self._charge(batch, time.thread_time() - cpu, now - start)
                if any(len(job.request.source) > LONG for job in batch):
                    # Wall-clock time, because other visitors waited for that long.
                    self._no_long_before = now + (now - start) * (1 / SHARE - 1)
                for job, answer in zip(batch, answers, strict=True):
                    job.answer = answer
                    del self._jobs[job.request]
                    job.answered.set()
            del batch, answers  # free their memory while waiting

    def _next(self) -> list[_Job]:
        """Take the first ready job and later ones that can share its batch; [] if none waits."""
        with self._lock:
            while (ready := self._ready()) == [] and self._waiting:
                self._lock.wait(POLL_S)
            batch: list[_Job] = []
            longest = 0
            for job in ready:
                compatible = not batch or (
                    job.batch_key == batch[0].batch_key and job.batch_key[1] is not None
                )
                padded = max(longest, len(job.request.source)) * (len(batch) + 1)
                if compatible and (not batch or padded <= _BATCH_CHARACTERS):
                    batch.append(job)
                    longest = max(longest, len(job.request.source))
                if len(batch) == MAX_BATCH:
                    break
            now = time.monotonic()
            for job in batch:
                job.started = now
                self._waiting.remove(job)
            self._has_worker = bool(batch)
            return batch

    def _ready(self) -> list[_Job]:
        """Return the jobs that may start now, light visitors first. The caller holds the lock."""
        wait, light = self._shares.has_to_wait, self._shares.is_light
        now = time.monotonic()
        self._short = {v: at for v, at in self._short.items() if at > now - RECENT_S}
        pause = now < self._no_long_before
        ready = [
            job
            for job in self._waiting
            if not all(wait(v, v) for v in job.visitors)
            and not (pause and len(job.request.source) > LONG and self._short.keys() - job.visitors)
        ]
        return sorted(ready, key=lambda job: not any(light(v) for v in job.visitors))

    def _charge(self, batch: Sequence[_Job], cpu_s: float, wall_s: float) -> None:
        """Charge each waiting visitor one job's share of the time. The caller holds the lock."""
        for visitor in {v for job in batch for v in job.visitors}:
            self._shares.charge(visitor, cpu_s / len(batch), wall_s / len(batch))

    def _answers(self, requests: Sequence[Request]) -> Sequence[Any]:
        """Call the backend; if it fails as a whole, answer each request with the exception."""
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
