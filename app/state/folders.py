"""Further folders of checkpoints: --checkpoints DIR, or those in HEADLIGHT_CHECKPOINTS.

Corpora: --data DIR, or HEADLIGHT_DATA.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from app.state.log import line_logger
from core.data.captions import short_captions
from core.files import printable

VARIABLE = "HEADLIGHT_CHECKPOINTS"
"""The environment variable: folders separated as in PATH (`:`, on Windows `;`)."""
OPTION = "--checkpoints"
DATA_VARIABLE = "HEADLIGHT_DATA"
_LOG = line_logger("checkpoints")
_logged: set[str] = set()


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--checkpoints DIR`, which may be repeated, to a command line."""
    parser.add_argument(
        OPTION,
        dest="checkpoints",
        action="append",
        default=[],
        metavar="DIR",
        help="also offer the checkpoints in this folder; may be repeated",
    )


def named_folders(
    arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ
) -> tuple[list[Path], list[str]]:
    """Return the folders named by options (sys.argv by default), then by the environment.

    A folder contains checkpoints, or is one. Also return one line for each that cannot be read.
    `streamlit run app/main.py -- --checkpoints DIR` passes the option to the script.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_option(parser)
    problems: list[str] = []
    try:
        names = parser.parse_known_args(sys.argv[1:] if arguments is None else arguments)[0]
        given = list(names.checkpoints)
    except argparse.ArgumentError:
        given = []
        problems.append(f"{OPTION} names no folder: write {OPTION} DIR; other models still work")
    given += _of_environment(environment)
    folders: list[Path] = []
    for name in dict.fromkeys(given):
        folder = Path(name).expanduser()
        if reason := _unreadable(folder):
            problems.append(
                f"{printable(name)[:200]} {reason}: correct {OPTION} or {VARIABLE}; "
                "other models still work"
            )
        else:
            folders.append(folder)
    return folders, problems


def set_folders(names: Iterable[str]) -> None:
    """Put these folders into the environment as absolute paths, before those already in it."""
    names = [*names, *_of_environment(os.environ)]
    paths = (str(Path(name).expanduser().absolute()) for name in names)
    os.environ[VARIABLE] = os.pathsep.join(paths)


def set_data(name: str | None) -> None:
    """Put the folder of corpora into the environment as an absolute path, unless it is None."""
    if name is not None:
        os.environ[DATA_VARIABLE] = str(Path(name).expanduser().absolute())


def captions() -> tuple[tuple[str, str], ...]:
    """Return the short captions of the folder of corpora; none, and a log line, if it has none."""
    name = os.environ.get(DATA_VARIABLE)
    try:
        return _captions(Path(name)) if name else ()
    except (OSError, ValueError) as error:
        log_once([f"{DATA_VARIABLE}: {error}"])
        return ()


@cache
def _captions(folder: Path) -> tuple[tuple[str, str], ...]:
    return short_captions(folder)


def _of_environment(environment: Mapping[str, str]) -> list[str]:
    return [name for name in environment.get(VARIABLE, "").split(os.pathsep) if name]


def _unreadable(folder: Path) -> str:
    """Return why a folder cannot be listed, or ""."""
    try:
        next(folder.iterdir(), None)
    except FileNotFoundError:
        return "does not exist"
    except NotADirectoryError:
        return "is not a folder"
    except (OSError, ValueError) as error:  # ValueError: a null character
        return f"cannot be read ({getattr(error, 'strerror', None) or 'not a path'})"
    return ""


def log_once(lines: Iterable[str]) -> None:
    """Log each line when it first occurs: pages list the folders every half minute."""
    for line in lines:
        if line not in _logged:
            _logged.add(line)
            _LOG.log(logging.WARNING, line)
