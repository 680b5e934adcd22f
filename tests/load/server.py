"""Start the app's server for load tests, and measure its memory and CPU time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.benchmark.browser import free_port, running
from tests.load.client import HOST

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Server:
    """A server on this machine; without `pid`, one that was already running."""

    port: int
    pid: int | None = None

    @property
    def memory(self) -> float:
        """Resident memory in MB, or NaN."""
        return self._status("VmRSS")

    @property
    def most_memory(self) -> float:
        """Peak resident memory in MB, or NaN."""
        return self._status("VmHWM")

    def _status(self, name: str) -> float:
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError:  # not Linux, or not our process
            return float("nan")
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))

    @property
    def seconds(self) -> float:
        """CPU time of the process in seconds, or NaN."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return float("nan")
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


LIMITS = {"connections": 500, "connections_per_address": 250}
"""Higher limits for load tests, because all test clients have the same address."""


@contextmanager
def server(
    log: Path | None = None, before: Callable[[], object] | None = None, **settings: int | str
) -> Iterator[Server]:
    """Run the app with its middleware in a process that ends with the block.

    Its output, with the request log, goes to `log`. `before` is called in the new process.
    `settings` are the server's HEADLIGHT_ variables, in lower case and without the prefix.
    """
    port = free_port()
    named = {f"HEADLIGHT_{name.upper()}": str(value) for name, value in (LIMITS | settings).items()}
    command = [sys.executable, "-m", "app.serving.start", f"--server.port={port}"]
    command += [f"--server.address={HOST}", "--server.headless=true"]
    with (
        (log or Path(os.devnull)).open("w") as output,
        running(
            command,
            port,
            env=os.environ | named,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=before,
        ) as process,
    ):
        yield Server(port, process.pid)
