"""Atlases of heads: the file in a checkpoint's folder, and the atlas of a visitor's own text."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from app.state import log, waiting
from app.state.models import key_of, translator
from app.state.results import cached
from core.atlas.atlas import FETCH_FILE, FILE, Atlas, read_atlas, with_fetch
from core.checkpoint.folder import Card
from core.config import DecodeConfig

if TYPE_CHECKING:
    from core.experiments.experiment import Steps
    from core.translator import Translator

T = TypeVar("T")

MOST_LINES = 300
MOST_CHARACTERS = 500
"""The longest line of a visitor's text."""
_TRANSLATED_AT_ONCE = 4 * MOST_CHARACTERS
"""The most characters in a batch of translations, which others wait for."""


def shipped_atlas(card: Card) -> Atlas | None:
    """Return the atlas in a checkpoint's folder, read once for all sessions; None without a file.

    A `patch.json` beside it adds what each head fetches. Raises ValueError, in one line, if a file
    is invalid or was made with other weights.
    """
    file = card.folder / FILE
    try:
        state = file.stat()
    except FileNotFoundError:
        return None

    fetch = card.folder / FETCH_FILE
    other = fetch.stat().st_mtime_ns if fetch.is_file() else None

    def read() -> Atlas:
        atlas = read_atlas(file, card.weights_sha256)
        return atlas if other is None else with_fetch(atlas, fetch)

    return cached(("atlas", key_of(card), state.st_mtime_ns, state.st_size, other), read)


def lines_of(text: str) -> tuple[str, ...]:
    """Return a text's non-empty lines. Raises ValueError for no, too many or too long lines."""
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not lines:
        raise ValueError("there is no text: enter at least one sentence, one per line")
    if len(lines) > MOST_LINES:
        raise ValueError(f"{len(lines)} lines: the limit is {MOST_LINES}, leave some out")
    for number, line in enumerate(lines, 1):
        if len(line) > MOST_CHARACTERS:
            raise ValueError(
                f"line {number} has {len(line)} characters: the limit is {MOST_CHARACTERS}, "
                "split it into sentences"
            )
    return lines


@dataclass(frozen=True, eq=False)
class OwnAtlas:
    """The atlas of a visitor's text, and one line for each thing that was left out."""

    atlas: Atlas
    skipped: tuple[str, ...]


def own_atlas(
    card: Card,
    lines: tuple[str, ...],
    on_progress: Callable[[float, float], object],
    on_wait: waiting.OnWait,
) -> OwnAtlas:
    """Compute the atlas of some lines and their greedy translations, without storing anything.

    The task waits in the queue for long tasks. `on_progress` is called with the share that is done
    and the seconds left, 0 if unknown. Raises BusyError, and ValueError for lines that the model
    cannot take.
    """
    from core.atlas.own_text import MAX_RANDOM, own_text, parts
    from core.experiments.experiment import Progress

    model = translator(card)
    borrow = partial(model.exclusive_model, waiting.raise_if_cancelled)

    def translated(part: Sequence[str]) -> list[str]:
        return [one.text for one in model.translate(part, DecodeConfig(beam=1))]

    def estimate(short: list[str]) -> tuple[float, float]:
        """Return about how long translating and measuring take, from a trial of one line."""
        line = min(short, key=len)
        start = time.perf_counter()
        pairs = [(line, translated([line])[0] or line)]
        between = time.perf_counter()
        steps = own_text(borrow, model.checkpoint, pairs)
        next(steps)  # the maps, which take little
        middle = time.perf_counter()
        step = next(steps)
        measured = (time.perf_counter() - middle) * step.total / step.done
        times = sum(map(len, short)) / len(line)
        return (between - start) * times, measured * times

    def begin() -> Steps[OwnAtlas]:
        fits = [_fits(model, line) for line in lines]
        short = [line for line, fit in zip(lines, fits, strict=True) if fit]
        found: list[str] = []
        translating = measuring = 0.0
        with suppress(ValueError):  # the shortest line may have no token
            translating, measuring = estimate(short)
        yield Progress(0, 2 * len(lines), translating + measuring)
        start = time.perf_counter()
        for part in parts(short, len, _TRANSLATED_AT_ONCE):
            found += translated(part)
            each = (time.perf_counter() - start) / len(found)
            left = each * (len(short) - len(found)) + measuring
            yield Progress(len(found), 2 * len(short), left)
        translations = iter(found)
        # A line that is too long is paired with itself: `own_text` skips it and says why.
        pairs = [
            (line, next(translations) if fit else line)
            for line, fit in zip(lines, fits, strict=True)
        ]
        atlas, text = yield from _second_half(own_text(borrow, model.checkpoint, pairs))
        origin = replace(atlas.origin, command=_own_command(card))
        large = card.parameters > MAX_RANDOM
        skipped = (*[_no_labels(card)] * large, *text.skipped)
        return OwnAtlas(replace(atlas, origin=origin), skipped)

    with (
        log.request("own text", card.folder.name),
        closing(waiting.run_queued(begin, on_wait)) as steps,
    ):
        while True:
            try:
                step = next(steps)
                on_progress(step.done / step.total, step.so_far or 0.0)
            except StopIteration as end:
                return end.value


def _second_half(steps: Steps[T]) -> Steps[T]:
    """Yield the progress of steps as the second half of a task; return their result.

    `so_far` is an estimate of the seconds left: the time since the first step, in proportion.
    """
    start = None
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return end.value
        start = start or time.perf_counter()
        taken = time.perf_counter() - start
        left = taken * (step.total - step.done) / step.done if step.done else 0.0
        yield step._replace(done=step.total + step.done, total=2 * step.total, so_far=left)


def _no_labels(card: Card) -> str:
    return (
        f"random networks of {card.parameters:,} weights, so no head is labelled with a role: "
        "a label needs this comparison"
    )


def _own_command(card: Card) -> str:
    """Return the shell command that computes the same atlas from a file text.txt with the lines."""
    return (
        f"python -m core.translate --checkpoint {card.folder} --beam 1 < text.txt > greedy.txt && "
        f"python -m core.analyse atlas --checkpoint {card.folder} --src text.txt --ref greedy.txt "
        "--out atlas.npz"
    )


def _fits(model: Translator, line: str) -> bool:
    try:
        model.count_tokens([line])
    except ValueError:  # InputError
        return False
    return True
