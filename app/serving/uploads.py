"""Bounds uploads: a few files per visit, so many bytes in all, nothing once a visit has ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from streamlit import config

from app.serving.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH = "/_stcore/upload_file/"
MIB = 2**20
OVERHEAD = MIB
"""Bytes that Streamlit reads beyond its limit, for what surrounds a file."""
SWEEP_S = 5.0
"""Seconds between two looks for files of visits that have ended."""


class RefusedError(ValueError):
    """An upload that is not taken: an HTTP status and one line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


class Files(Protocol):
    """Streamlit's store of uploaded files, as far as it is used here."""

    @property
    def file_storage(self) -> Mapping[str, Mapping[str, object]]:
        """Files by session and id, oldest first; each has its bytes in `data`."""
        ...

    def remove_file(self, session_id: str, file_id: str) -> None:
        """Forget one file."""
        ...

    def remove_session_files(self, session_id: str) -> None:
        """Forget all files of a session."""
        ...


def _runtime():
    from streamlit.runtime import get_instance

    return get_instance()


class Uploads:
    """Admits an upload, makes room for it, and frees what ended visits have left.

    Runs in the server's event loop only.
    """

    def __init__(
        self,
        limits: Limits,
        files: Callable[[], Files] = lambda: _runtime().uploaded_file_mgr,
        active: Callable[[str], bool] = lambda session: _runtime().is_active_session(session),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._files = files
        self._active = active
        self._clock = clock
        self._coming: list[tuple[str, str, int]] = []  # session, address, bytes of each now sent
        self._address_of: dict[str, str] = {}  # of the sessions that have uploaded something
        self._left: dict[str, float] = {}  # when a session was first seen to be gone

    @contextmanager
    def taken(self, path: str, length: int | None, address: str) -> Generator[None]:
        """Take one upload while the block lasts; the visit's oldest files make room for it.

        `length` is how many bytes it says it has, or None. Raises RefusedError where others'
        uploads, or this visit's at this moment, leave no room.
        """
        session, _, file = path.rpartition(PATH)[2].partition("/")
        largest = config.get_option("server.maxUploadSize") * MIB
        if not self._active(session) or (length is not None and length > largest):
            yield  # which Streamlit refuses without reading the file
            return
        size = largest + OVERHEAD if length is None else length
        most = self._limits.files_per_visit
        at_once = sum(1 for coming, _, _ in self._coming if coming == session)
        if at_once >= most:
            raise RefusedError(429, f"{most} uploads at once are the limit of a visit")
        kept = [id for id in self._files().file_storage.get(session, {}) if id != file]
        for oldest in kept[: max(0, len(kept) + at_once + 1 - most)]:
            self._files().remove_file(session, oldest)
        self._room(size, address)
        self._address_of[session] = address
        entry = (session, address, size)
        self._coming.append(entry)
        try:
            yield
        finally:
            self._coming.remove(entry)

    def _room(self, size: int, address: str) -> None:
        """Raise RefusedError if so many more bytes are too many for everybody or an address."""
        held = self.bytes_by_session()
        everybody = sum(held.values()) + sum(size for _, _, size in self._coming)
        most = self._limits.upload_mb * MIB
        if everybody + size > most:
            raise RefusedError(
                503,
                f"uploads of all visits take {self._limits.upload_mb} MB, the limit: "
                "try again in a minute",
            )
        own = sum(b for session, b in held.items() if self._address_of.get(session) == address)
        own += sum(size for _, whose, size in self._coming if whose == address)
        if own + size > most // 2:
            raise RefusedError(
                429,
                f"uploads from your address take {self._limits.upload_mb // 2} MB, the limit: "
                "close a tab, or try again in a minute",
            )

    def bytes_by_session(self) -> dict[str, int]:
        """How many bytes of files each session keeps."""
        stored = list(self._files().file_storage.items())
        return {
            session: sum(len(file.data) for file in list(files.values()))  # ty: ignore[missing-attribute]
            for session, files in stored
        }

    def sweep(self) -> None:
        """Free the files of visits that have been gone for as long as a session can come back."""
        now, kept_s = self._clock(), config.get_option("server.disconnectedSessionTTL")
        for session in list(self._files().file_storage):
            if self._active(session):
                self._left.pop(session, None)
            elif now - self._left.setdefault(session, now) >= kept_s:
                self._files().remove_session_files(session)
        known = self._files().file_storage.keys() | {session for session, _, _ in self._coming}
        self._left = {s: at for s, at in self._left.items() if s in known}
        self._address_of = {s: at for s, at in self._address_of.items() if s in known}

    async def sweeping(self) -> None:
        """Sweep every few seconds until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            with suppress(RuntimeError):  # while the runtime starts or stops
                self.sweep()
