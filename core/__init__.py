"""Headlight's core: everything except the UI."""

import sys

__version__ = "0.2.0.dev0"

if sys.argv[:1] == ["-m"]:  # `python -m core.…` is about to import a command, which takes seconds
    from core.command import exit_on_signals

    exit_on_signals()
