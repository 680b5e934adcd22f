"""The log of requests: one line of JSON each, without a sentence unless that is asked for."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

SENTENCES = "HEADLIGHT_LOG_SENTENCES"
"""The environment variable that asks for sentences: with 1 they are written, too."""

_LOG = logging.getLogger("headlight.requests")
if not _LOG.handlers:  # lines go as they are to the server's standard error, and nowhere twice
    _LOG.addHandler(logging.StreamHandler())
    _LOG.setLevel(logging.INFO)
    _LOG.propagate = False
_WITH_SENTENCE = ("inspect", "search_tree")


@dataclass
class Request:
    """One request while it is worked on."""

    id: str
    queue_s: float = 0.0
    """Seconds for which it waited before its work began: whoever lets it wait says so here."""


_current: ContextVar[Request | None] = ContextVar("request", default=None)


def current() -> Request | None:
    """The request that this thread works on, if any."""
    return _current.get()


@contextmanager
def request(what: str, model: str, sentence: str = "") -> Generator[Request]:
    """Write one line about what happens inside when it ends, however it ends.

    A line holds `time` (UTC), `request` (an id), `what`, `model`, `queue_s` and `seconds` (waiting
    included), `outcome` and `error`, an exception's type. The outcome is "answered"; "refused" for
    a ValueError, which is a line for the reader; "stopped" where the visitor has left or asked for
    something else; else "failed". An exception's text is never written: it may hold the sentence.
    """
    this = Request(uuid4().hex[:12])
    begun, outcome, kind = time.perf_counter(), "answered", ""
    token = _current.set(this)
    try:
        yield this
    except BaseException as error:
        kind = type(error).__name__
        outcome = "failed" if isinstance(error, Exception) else "stopped"
        outcome = "refused" if isinstance(error, ValueError) else outcome
        raise
    finally:
        _current.reset(token)
        values = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "request": this.id,
            "what": what,
            "model": model,
            "queue_s": round(this.queue_s, 3),
            "seconds": round(time.perf_counter() - begun, 3),
            "outcome": outcome,
            "error": kind,
        }
        if os.environ.get(SENTENCES) == "1":
            values["sentence"] = sentence
        _LOG.log(logging.INFO, json.dumps(values))  # in ASCII: no sentence can steer a terminal


def logged(key: tuple[Hashable, ...], make: Callable[[], Any]) -> Callable[[], Any]:
    """A call of `make` that is a request; its names are read from the key of what it makes.

    A key holds a model's folder, weights and implementation, after the name of a question unless a
    record is made.
    """
    what = key[0] if isinstance(key[0], str) else "inspect"
    place, model = next(
        ((i, part) for i, part in enumerate(key) if isinstance(part, tuple) and len(part) == 3),
        (0, ("", "", False)),
    )
    name = Path(str(model[0])).name + ("-twin" if model[2] else "")
    sentence = str(key[place + 1]) if what in _WITH_SENTENCE else ""

    def call() -> Any:
        with request(what, name, sentence):
            return make()

    return call
