"""Single-line, printable errors about checkpoint folders, each with a remedy."""

import shlex
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from core.files import printable


class CheckpointError(ValueError):
    """An unusable checkpoint folder; the message is one line with the reason and a remedy."""


@contextmanager
def checkpoint_errors(file: Path, remedy: str = "") -> Generator[None]:
    """Turn ValueError and OSError inside the block into a CheckpointError about this file.

    The default remedy is to restore the folder.
    """
    try:
        yield
    except CheckpointError:
        raise
    except FileNotFoundError:
        remedy = remedy or restore_hint(file.parent)
        raise CheckpointError(f"{printable(str(file))} is missing: {remedy}") from None
    except OSError as error:
        raise unusable(file, f"it cannot be read: {error.strerror}", remedy) from None
    except ValueError as error:
        raise unusable(file, str(error), remedy) from None


def unusable(file: Path, what: str, remedy: str = "") -> CheckpointError:
    """Return the error for a file; `what` may quote untrusted text."""
    return CheckpointError(
        f"{printable(str(file))} cannot be used ({printable(what)[:300]}): "
        f"{remedy or restore_hint(file.parent)}"
    )


def shell_quoted(folder: Path) -> str:
    """Return a folder's path, quoted for a shell."""
    return shlex.quote(printable(str(folder)))


def restore_hint(folder: Path) -> str:
    """Return the remedy for a damaged folder."""
    return (
        f"restore the folder (with `git checkout -- {shell_quoted(folder)}` if it is part of the "
        "project), or delete it"
    )
