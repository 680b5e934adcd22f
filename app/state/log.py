"""The request log: one JSON line per model request, without user text unless enabled."""

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
"""The environment variable that enables logging of sentences, with the value 1."""


def line_logger(name: str) -> logging.Logger:
    """Return a logger that writes unformatted lines to stderr and does not propagate them."""
    logger = logging.getLogger(f"headlight.{name}")
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.INFO)
        logger.propagate = False
    return logger


_LOG = line_logger("requests")
_WITH_SENTENCE = ("inspect", "search_tree")


def keeps_sentences() -> bool:
    """Return whether this server's log holds the sentences that visitors have translated."""
    return os.environ.get(SENTENCES) == "1"


@dataclass
class Request:
    """One request in progress."""

    id: str
    queue_s: float = 0.0
    """Seconds in the queue before its work began; set by the queue's caller."""


_current: ContextVar[Request | None] = ContextVar("request", default=None)


def current() -> Request | None:
    """Return the request that this thread is processing, if any."""
    return _current.get()


@contextmanager
def request(what: str, model: str, sentence: str = "") -> Generator[Request]:
    """Log one line when the block ends, also after an exception.

    Fields: `time` (UTC), `request` (an id), `what`, `model`, `queue_s`, `seconds` (queue included),
    `outcome` and `error` (an exception's type). The outcome is "answered"; "refused" for a
    ValueError, whose message is user-facing; "stopped" if the session disconnected or made another
    request; else "failed". Exception messages are never logged: they may contain the sentence.
    """
    this = Request(uuid4().hex[:12])
    start, outcome, kind = time.perf_counter(), "answered", ""
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
            "seconds": round(time.perf_counter() - start, 3),
            "outcome": outcome,
            "error": kind,
        }
        if keeps_sentences():
            values["sentence"] = sentence
        _LOG.log(logging.INFO, json.dumps(values))  # ASCII only: no terminal escape sequences


def logged(key: tuple[Hashable, ...], make: Callable[[], Any]) -> Callable[[], Any]:
    """Wrap `make` in `request`, with names taken from its cache key.

    The key holds the name of the work and then the model's own key: folder, configuration hash,
    implementation and languages. A key without a name belongs to an inspection.
    """
    what = key[0] if isinstance(key[0], str) else "inspect"
    place, model = next(
        ((i, part) for i, part in enumerate(key) if isinstance(part, tuple) and len(part) == 4),
        (0, ("", "", False)),
    )
    name = Path(str(model[0])).name + ("-twin" if model[2] else "")
    sentence = str(key[place + 1]) if what in _WITH_SENTENCE else ""

    def call() -> Any:
        with request(what, name, sentence):
            return make()

    return call
