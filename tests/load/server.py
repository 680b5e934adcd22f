"""Starts the app's server for the load client, and reads how much memory and time it takes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.load.client import HOST

ROOT = Path(__file__).resolve().parents[2]
START_S = 90


@dataclass(frozen=True)
class Server:
    """A server on this machine; without `pid`, one that somebody else has started."""

    port: int
    pid: int | None = None

    @property
    def memory(self) -> float:
        """MB that its process holds (RSS), or NaN."""
        return self._status("VmRSS")

    @property
    def most_memory(self) -> float:
        """MB that its process has held at most, or NaN."""
        return self._status("VmHWM")

    def _status(self, name: str) -> float:
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError:  # another system, or not ours
            return float("nan")
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))

    @property
    def seconds(self) -> float:
        """Seconds of processor time that its process has taken, or NaN."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return float("nan")
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


LIMITS = {"connections": 500, "connections_per_address": 250}
"""All visitors of the load client come from one address."""


@contextmanager
def server(
    log: Path | None = None,
    before: Callable[[], object] | None = None,
    **settings: int | str,
) -> Iterator[Server]:
    """The app behind its guard, in a process of its own that ends with the block.

    What it writes goes to `log`: a line for each request. `before` is called in the new process,
    and `settings` are environment variables of the server, without HEADLIGHT_ and in small letters.
    """
    port = free_port()
    named = {f"HEADLIGHT_{name.upper()}": str(value) for name, value in (LIMITS | settings).items()}
    command = [sys.executable, "-m", "app.serving.start", f"--server.port={port}"]
    command += [f"--server.address={HOST}", "--server.headless=true"]
    with (log or Path(os.devnull)).open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | named,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=before,
        )
    try:
        _until_healthy(process, port)
        yield Server(port, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()


def _until_healthy(process: subprocess.Popen, port: int) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"the server did not answer within {START_S} s")
