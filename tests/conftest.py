"""Settings that must precede torch: one thread per test, as tests run in parallel and fork."""

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests send SIGINT to commands, which would ignore it if pytest runs in a shell's background.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
