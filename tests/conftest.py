"""Settings of all tests.

Each process uses one thread, because tests run in parallel and fork. The variable must be set
before torch is imported.
"""

import gc
import os
import signal
import sys
from collections import Counter

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
gc.disable()  # importing and collecting leave no garbage

# Shells start background jobs with SIGINT ignored, which commands would inherit. Tests send them
# SIGINT, so restore the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
HANDLERS = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
MAIN = sys.modules["__main__"]


@pytest.fixture(autouse=True)
def process_state() -> None:
    """Restore what other tests change in the process.

    A command ignores signals once its result is complete. A page that AppTest runs stays the main
    module, which a process of a pool would run again.
    """
    for number, handler in HANDLERS.items():
        signal.signal(number, handler)
    sys.modules["__main__"] = MAIN


SECONDS = {"serve": 5, "server": 5, "browser": 1, "AppTest": 1, "render": 1}
"""About how long a test takes whose fixtures or module have these names."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files: workers share files, and the last ones should end together.

    xdist itself begins with the files that have most tests, and these are the fastest.
    """
    seconds: Counter = Counter()
    for item in items:
        names = {*getattr(item, "fixturenames", ()), *vars(getattr(item, "module", None) or object)}
        seconds[item.path] += max((SECONDS[name] for name in SECONDS if name in names), default=0.1)
    items.sort(key=lambda item: -seconds[item.path])


def pytest_collection_finish() -> None:
    """Exempt all modules and tests from garbage collection, which would visit them each time.

    The tests make many objects and few cycles, so collections can also be rarer than usual.
    """
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()
