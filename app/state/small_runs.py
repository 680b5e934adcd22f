"""Trainings of visitors: one per visit, in the visit's own runs, within the operator's limits."""

from __future__ import annotations

import os
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.state import session
from app.streamlit_internals import session_id
from core.checkpoint.folder import Card, read_card

if TYPE_CHECKING:  # imports torch
    from core.small.history import History

_SETTINGS = {"HEADLIGHT_TRAININGS": 4, "HEADLIGHT_TRAINING_SECONDS": 300}
_SETTINGS |= {"HEADLIGHT_TRAINING_WEIGHTS": 500_000}
_LIMITS = {name: int(os.environ.get(name) or value) for name, value in _SETTINGS.items()}
TRAININGS, SECONDS, WEIGHTS = _LIMITS.values()
"""How many visits may train at once (0: none), for how long each, and how large a network."""
_PAUSE_S = 10.0
"""A visit that has not trained for this long gives its place to another."""
_LARGEST_ZIP = 8 << 20
_active: dict[str, float] = {}  # by session: when it last trained
_turn = threading.Lock()


@dataclass
class Training:
    """A network in training, and perhaps a second one beside it that differs in one setting."""

    histories: tuple[History, ...]
    names: tuple[str, ...] = ("",)
    running: bool = False
    fast: bool = False
    problem: str = ""
    refused: str = ""
    """Why it did not go on at the last click."""
    seconds: float = 0.0
    measuring: float = 0.0
    """How long the last measurement of all networks took, in seconds."""
    lock: Any = field(default_factory=threading.RLock, repr=False)
    """A visit's old run may still compute when its new one begins: hooks are visible to both."""

    @property
    def step(self) -> int:
        return self.histories[0].run.step_number

    @property
    def last_step(self) -> int:
        return self.histories[0].run.config.steps

    @property
    def is_over(self) -> bool:
        return self.step >= self.last_step or self.seconds >= SECONDS or bool(self.problem)

    def advance(
        self, seconds: float, interrupt: Callable[[float], object] = lambda end: None
    ) -> None:
        """Train and measure for about this long, at least one step, or until a point is due.

        Before each step, `interrupt` gets the time at which the training ends for now; it may wait
        until then, or raise.
        """
        from core.small.run import DivergedError

        self.refused = ""
        try:
            with self.lock, place():
                end = time.monotonic() + seconds - self.measuring
                took = 0.0
                while not self.is_over:
                    interrupt(end)
                    took = self.take_step()
                    if self.is_due() or time.monotonic() + took > end:
                        break
                self.measure()
        except DivergedError as error:
            self.problem = str(error)
        except ValueError as error:
            self.refused = str(error)
        if self.is_over or self.refused:
            self.running = False

    def is_due(self) -> bool:
        """Whether the points of this step are kept."""
        return self.step % (self.histories[0].every * (4 if self.fast else 1)) == 0

    def take_step(self) -> float:
        """Train all networks by one step; return how long it took, in seconds."""
        started = time.perf_counter()
        for history in self.histories:
            history.run.step()
        took = time.perf_counter() - started
        self.seconds += took
        return took

    def measure(self) -> None:
        """Measure every network."""
        started = time.perf_counter()
        for history in self.histories:
            history.add()
        self.measuring = time.perf_counter() - started
        self.seconds += self.measuring


@contextmanager
def place() -> Generator[None]:
    """Take one of the places for trainings, and wait for this visit's turn to compute.

    One network learns at a time, which leaves the other processors to visitors who translate.
    Raises ValueError if no place is free.
    """
    me, now = session_id() or "", time.monotonic()
    others = [one for one, at in _active.items() if one != me and now - at < _PAUSE_S]
    if len(others) >= TRAININGS:
        raise ValueError(
            "training is switched off here"
            if not TRAININGS
            else f"{len(others)} other visitors are training: wait a minute and press Train again"
        )
    _active[me] = now
    try:
        with _turn:
            yield
    finally:
        _active[me] = time.monotonic()


@dataclass
class _Kept:
    """Folders of networks that belong to this visit; they are deleted with it."""

    folder: tempfile.TemporaryDirectory[str]
    cards: dict[str, Card] = field(default_factory=dict)


def keep(name: str, direction: str, write: Callable[[Path], None]) -> Card:
    """Let `write` fill a checkpoint folder, and offer it to this visit as a model."""
    kept: _Kept | None = session.saved_result("trained")
    if kept is None:
        kept = _Kept(tempfile.TemporaryDirectory(prefix="headlight-trained-"))
        session.save_result("trained", kept)
    number = 1 + len(kept.cards)
    folder = Path(kept.folder.name) / f"{name}-{number}-{direction}"
    write(folder)
    kept.cards[folder.name] = read_card(folder)
    return kept.cards[folder.name]


def cards() -> list[Card]:
    """Return the networks that this visit has trained or loaded."""
    kept = session.saved_result("trained") if session_id() is not None else None
    return list(kept.cards.values()) if kept else []


def as_zip(folder: Path) -> bytes:
    """Return a checkpoint folder as a ZIP file."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(folder.iterdir()):
            packed.write(file, f"{folder.name}/{file.name}")
    return buffer.getvalue()


def from_zip(content: bytes) -> Card:
    """Offer a network saved by `as_zip` to this visit. Raises a one-line ValueError."""
    from core.checkpoint.folder import load

    if len(content) > _LARGEST_ZIP:
        raise ValueError(f"the file has {len(content):,} bytes: the limit is {_LARGEST_ZIP:,}")
    try:
        packed = zipfile.ZipFile(BytesIO(content))
    except zipfile.BadZipFile:
        raise ValueError("this is not a ZIP file: give one that this page has saved") from None
    files = [info for info in packed.infolist() if not info.is_dir()]
    if len(files) > 20 or sum(info.file_size for info in files) > _LARGEST_ZIP:
        raise ValueError(
            f"the ZIP file unpacks to more than 20 files or {_LARGEST_ZIP:,} bytes: give one that "
            "this page has saved"
        )

    def write(folder: Path) -> None:
        folder.mkdir()
        for info in files:
            (folder / Path(info.filename).name).write_bytes(packed.read(info))
        load(folder)  # verifies every file; raises CheckpointError, a ValueError

    with tempfile.TemporaryDirectory() as place:
        write(Path(place) / "saved")
        direction = read_card(Path(place) / "saved").direction
        return keep("loaded", direction, write)
