"""What the command lines share: one-line errors, tables for people, JSON for programs."""

import argparse
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.files import write_json


def main(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], None]) -> None:
    """Parse, run, and turn an expected failure into one line on stderr and exit code 1."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    arguments = parser.parse_args()
    try:
        run(arguments)
    except KeyboardInterrupt:
        sys.exit("stopped")
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit("error: " + " ".join(str(error).split()))


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
    """Write the result where `--json` said, if it did."""
    if file is not None:
        write_json(file, values)
