"""Before torch is loaded: one thread a test, for two run at once and some fork a command."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
