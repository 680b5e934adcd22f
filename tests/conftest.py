"""Settings of all tests. One thread each, set before torch: tests run in parallel and fork."""

import os
import signal

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests send SIGINT to commands, which would ignore it if pytest runs in a shell's background.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
HANDLERS = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}


@pytest.fixture(autouse=True)
def signal_handlers() -> None:
    """Restore the handlers: a command ignores signals once its result is complete."""
    for number, handler in HANDLERS.items():
        signal.signal(number, handler)
