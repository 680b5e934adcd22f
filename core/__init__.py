"""Headlight's core: everything that is true without a screen."""

import sys

__version__ = "0.2.0.dev0"

if sys.argv[:1] == ["-m"]:  # `python -m core.…` is looking for the command, whose imports take long
    from core.command import starting

    starting()
