"""Shared parts of the CLI: argument types, single-line error messages, signals and results."""

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
    """An argument parser with one-line errors; the description keeps its line breaks."""

    def __init__(self, **arguments: Any):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **arguments)

    def error(self, message: str) -> NoReturn:
        """Exit with code 2 and point to --help."""
        self.exit(2, f"error: {_one_line(message)} (see {self.prog} --help)\n")

    def path(self, option: str, help: str, **more: Any) -> None:
        """Add an option whose value is a file or a folder."""
        self.add_argument(option, type=Path, help=help, **more)

    def number(
        self, option: str, help: str, least: int, most: int | None = None, **more: Any
    ) -> None:
        """Add an option whose value is a whole number, called N in the help."""
        self.add_argument(option, type=whole_number(least, most), metavar="N", help=help, **more)

    def languages(self) -> None:
        """Add the options of networks with language codes, or with a task in words."""
        self.add_argument("--from-lang", metavar="CODE", help="the source's code, as in deu_Latn")
        self.add_argument("--to-lang", metavar="CODE", help="the target's code, as in eng_Latn")
        self.add_argument("--prefix", help="a text in front of each source, such as T5's task")

    def flag(self, option: str, help: str) -> None:
        """Add an option without a value."""
        self.add_argument(option, action="store_true", help=help)


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return an argument type that accepts integers from `least` to `most`, both included."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number") from None
        if value < least or (most is not None and value > most):
            choice = f"{least:,} or more" if most is None else f"{least:,} to {most:,}"
            raise argparse.ArgumentTypeError(f"{text[:40]} is out of range: choose {choice}")
        return value

    return parse


def main(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], None]) -> None:
    """Parse the arguments and run; report an expected failure in one line with exit code 1.

    SIGINT and SIGTERM also end the run with one line; a second signal skips the cleanup. An
    unwritable `--json` file is rejected before the run.
    """
    for name in ("stdout", "stderr"):  # a stream is None if the caller has closed it
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
    arguments = parser.parse_args()
    _on_signal(_interrupt)
    sys.unraisablehook = _exit_on_unraisable_interrupt
    try:
        if file := getattr(arguments, "json", None):
            refuse_unwritable("--json", file)
        run(arguments)
        sys.stdout.flush()
        _on_signal(signal.SIG_IGN)  # the result is complete; a signal must not report it as stopped
    except KeyboardInterrupt:
        sys.exit("stopped")
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"error: {_one_line(str(error))}")


def refuse_existing(option: str, file: Path, force: bool) -> None:
    """Raise ValueError, before any work is done, for a file that exists or cannot be written."""
    if file.exists() and not force:
        raise ValueError(f"{file} exists already: choose another --out, or replace it with --force")
    refuse_unwritable(option, file)


def refuse_unwritable(option: str, file: Path) -> None:
    """Raise ValueError, before any work is done, if an option's file cannot be written."""
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
        # Shells start background jobs of scripts with SIGINT ignored: keep it ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; inside an import, which may swallow it, exit at once."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTS:
            _exit_now()
        frame = frame.f_back
    _on_signal(_exit_now)
    raise KeyboardInterrupt


def _exit_on_unraisable_interrupt(unraisable: Any) -> None:
    """Exit on an interrupt inside a destructor, where Python would ignore it."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        with suppress(OSError, RuntimeError, ValueError):
            sys.stdout.flush()
        _exit_now()
    sys.__unraisablehook__(unraisable)


def exit_on_signals() -> None:
    """Exit with one line on SIGINT or SIGTERM, until `main` installs its own handlers."""
    _on_signal(_exit_now)


def _exit_now(*_: object) -> None:
    with suppress(OSError):
        os.write(2, b"stopped\n")
    os._exit(1)


def table(rows: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, one pair per line."""
    from rich.console import Console
    from rich.table import Table

    grid = Table.grid(padding=(0, 3))
    for name, value in rows:
        grid.add_row(name, str(value))
    Console().print(grid, markup=False)


def write_credit(name: str, credit: str) -> None:
    """Write the author and licence of imported weights to stderr; nothing if `credit` is ""."""
    if credit:
        sys.stderr.write(f"{name} ({credit})\n")


@contextmanager
def progress_bar(total: int, unit: str = " sentences") -> Generator[Callable[[int], object]]:
    """Show a progress bar on stderr if it is a terminal; yield its `update(newly_done)`."""
    from tqdm import tqdm

    with tqdm(total=total, unit=unit, disable=None, leave=False) as bar:
        yield bar.update


def write_result(file: Path | None, values: dict[str, Any]) -> None:
    """Write the result to the `--json` file, if one is given.

    A regular file is replaced atomically, following links. Pipes, devices, and this process's own
    standard output or standard error are written to directly.
    """
    if file is None:
        return
    status = file.stat() if file.exists() else None
    for number, stream in ((1, sys.__stdout__), (2, sys.__stderr__)):
        if status and stream and os.path.samestat(status, os.fstat(number)):
            stream.flush()
            with os.fdopen(os.dup(number), "wb") as output:
                output.write(json_bytes(values))
            return
    if status and not stat.S_ISREG(status.st_mode):
        with file.open("wb") as output:
            output.write(json_bytes(values))
    else:
        write_json(file.resolve(), values)
