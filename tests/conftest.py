"""Before torch is loaded: one thread a test, for two run at once and some fork a command."""

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests send SIGINT to commands, which keep it ignored where a shell's background has it so.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
