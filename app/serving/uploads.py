"""Limit uploads per session, per address and in total, and delete those of ended sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import streamlit as st

from app.serving.limits import Limits
from app.streamlit_internals import is_active_session, uploaded_files

PATH = "/_stcore/upload_file/"
MIB = 2**20
OVERHEAD = MIB
"""Bytes that Streamlit reads beyond its limit, for the multipart envelope."""
SWEEP_S = 5.0
"""Seconds between two sweeps for the files of ended sessions."""


class UploadRefusedError(ValueError):
    """Raised for an upload that is not accepted, with an HTTP status and a one-line reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Uploads:
    """Admit uploads, make room for them, and delete the files of ended sessions.

    `files` returns Streamlit's store: files by session and id, oldest first. Not thread-safe: use
    this only in the server's event loop.
    """

    def __init__(
        self,
        limits: Limits,
        files: Callable[[], Any] = uploaded_files,
        active: Callable[[str], bool] = is_active_session,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._files = files
        self._active = active
        self._clock = clock
        self._in_transfer: list[tuple[str, str, int]] = []  # session, address, bytes
        self._address_of: dict[str, str] = {}  # by session
        self._left: dict[str, float] = {}  # when each session was first seen disconnected

    @contextmanager
    def admitted(self, path: str, length: int | None, address: str) -> Generator[None]:
        """Admit one upload for the duration of the block; first delete the session's oldest files.

        `length` is the Content-Length header, if any. Raises UploadRefusedError if a limit is
        reached.
        """
        session, _, file = path.rpartition(PATH)[2].partition("/")
        largest = st.get_option("server.maxUploadSize") * MIB
        if not self._active(session) or (length is not None and length > largest):
            yield  # Streamlit rejects it without reading the file
            return
        size = largest + OVERHEAD if length is None else length
        most = self._limits.files_per_visit
        at_once = sum(owner == session for owner, _, _ in self._in_transfer)
        if at_once >= most:
            raise UploadRefusedError(
                429, f"{most} uploads at once are the limit: wait until one has finished"
            )
        kept = [id for id in self._files().file_storage.get(session, {}) if id != file]
        for oldest in kept[: max(0, len(kept) + at_once + 1 - most)]:
            self._files().remove_file(session, oldest)
        self._check_space(size, address)
        self._address_of[session] = address
        entry = (session, address, size)
        self._in_transfer.append(entry)
        try:
            yield
        finally:
            self._in_transfer.remove(entry)

    def _check_space(self, size: int, address: str) -> None:
        """Raise UploadRefusedError if `size` more bytes exceed the total or the address's limit."""
        held = self.bytes_by_session()
        total = sum(held.values()) + sum(size for _, _, size in self._in_transfer)
        most = self._limits.upload_mb * MIB
        if total + size > most:
            raise UploadRefusedError(
                503,
                f"uploads of all sessions may take {self._limits.upload_mb} MiB together: "
                "try again in a minute",
            )
        own = sum(b for session, b in held.items() if self._address_of.get(session) == address)
        own += sum(size for _, whose, size in self._in_transfer if whose == address)
        if own + size > most // 2:
            raise UploadRefusedError(
                429,
                f"uploads from your address may take {self._limits.upload_mb // 2} MiB together: "
                "close a tab, or try again in a minute",
            )

    def bytes_by_session(self) -> dict[str, int]:
        """Return the stored bytes of each session."""
        stored = list(self._files().file_storage.items())
        return {
            session: sum(len(file.data) for file in list(files.values()))
            for session, files in stored
        }

    def sweep(self) -> None:
        """Delete the files of sessions that have been disconnected too long to reconnect."""
        now, kept_s = self._clock(), st.get_option("server.disconnectedSessionTTL")
        for session in list(self._files().file_storage):
            if self._active(session):
                self._left.pop(session, None)
            elif now - self._left.setdefault(session, now) >= kept_s:
                self._files().remove_session_files(session)
        known = self._files().file_storage.keys() | {session for session, _, _ in self._in_transfer}
        self._left = {s: at for s, at in self._left.items() if s in known}
        self._address_of = {s: at for s, at in self._address_of.items() if s in known}

    async def sweeping(self) -> None:
        """Sweep every `SWEEP_S` seconds until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            with suppress(RuntimeError):  # while the runtime starts or stops
                self.sweep()
