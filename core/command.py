"""What the command lines share: arguments in range, one line for what stops them, and results."""

import argparse
import os
import signal
import stat
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from core.files import check_writable, json_bytes, write_json

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_IMPORTS = "<frozen importlib._bootstrap>"


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line each; its description keeps its line breaks."""

    def __init__(self, **arguments: Any):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **arguments)

    def error(self, message: str) -> NoReturn:
        """Exit code 2, and where to read what can be given."""
        self.exit(2, f"error: {_one_line(message)} (see {self.prog} --help)\n")


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an argument: an integer in this range, both ends included."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number") from None
        if value < least or (most is not None and value > most):
            choice = f"{least:,} or more" if most is None else f"{least:,} to {most:,}"
            raise argparse.ArgumentTypeError(f"{text[:40]} is out of range: choose {choice}")
        return value

    return parse


def main(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], None]) -> None:
    """Parse, run, and turn an expected failure into one line on stderr and exit code 1.

    SIGINT and SIGTERM end the run in the same way, whether or not it gets round to cleaning up: a
    second one does not wait. Whether `--json` can be written is tried before the run.
    """
    for name in ("stdout", "stderr"):  # None where the caller has closed it
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
    arguments = parser.parse_args()
    _on_signal(_interrupt)
    sys.unraisablehook = _unraised
    try:
        if file := getattr(arguments, "json", None):
            refuse_unwritable("--json", file)
        run(arguments)
        sys.stdout.flush()
        _on_signal(signal.SIG_IGN)  # all is done, and while Python ends it would not say so
    except KeyboardInterrupt:
        sys.exit("stopped")
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"error: {_one_line(str(error))}")


def refuse_unwritable(option: str, file: Path) -> None:
    """Raises ValueError, before any work, where an option's file could not be written."""
    try:
        check_writable(file)
    except OSError as error:
        raise ValueError(
            f"{option} {file} cannot be written ({error.strerror}): choose another place"
        ) from None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _on_signal(handler: Callable[..., None] | signal.Handlers) -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and a shell's & want it
            signal.signal(number, handler)


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Unwinds the run; within an import, which may drop that and leave half a module, ends it."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTS:
            _leave()
        frame = frame.f_back
    _on_signal(_leave)
    raise KeyboardInterrupt


def _unraised(what: Any) -> None:
    """An interrupt that came into a destructor, which drops it, ends the process all the same."""
    if issubclass(what.exc_type, KeyboardInterrupt):
        with suppress(OSError, RuntimeError, ValueError):
            sys.stdout.flush()
        _leave()
    sys.__unraisablehook__(what)


def starting() -> None:
    """From now on SIGINT and SIGTERM end the process at once, in one line: no `main` runs yet."""
    _on_signal(_leave)


def _leave(*_: object) -> None:
    with suppress(OSError):
        os.write(2, b"stopped\n")
    os._exit(1)


def table(rows: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, a pair a line."""
    from rich.console import Console
    from rich.table import Table

    grid = Table.grid(padding=(0, 3))
    for name, value in rows:
        grid.add_row(name, str(value))
    Console().print(grid, markup=False)


@contextmanager
def counting(total: int, unit: str = " sentences") -> Generator[Callable[[int], object]]:
    """A progress bar on stderr, where that is a terminal; call what it gives with each more."""
    from tqdm import tqdm

    with tqdm(total=total, unit=unit, disable=None, leave=False) as bar:
        yield bar.update


def write_result(file: Path | None, values: dict[str, Any]) -> None:
    """Write the result where `--json` said, if it did.

    A file is replaced as a whole, that of a link behind it; a pipe or a device is written to, and
    so is whatever this process has as its standard output or standard error.
    """
    if file is None:
        return
    found = file.stat() if file.exists() else None
    for number, stream in ((1, sys.__stdout__), (2, sys.__stderr__)):
        if found and stream and os.path.samestat(found, os.fstat(number)):
            stream.flush()
            with os.fdopen(os.dup(number), "wb") as same:
                same.write(json_bytes(values))
            return
    if found and not stat.S_ISREG(found.st_mode):
        with file.open("wb") as other:
            other.write(json_bytes(values))
    else:
        write_json(file.resolve(), values)
