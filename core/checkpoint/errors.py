"""What is wrong with a checkpoint folder, said in one printable line with what to do about it."""

import shlex
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from core.files import printable


class CheckpointError(ValueError):
    """A checkpoint folder that cannot be used; the message is one line: what, and what to do."""


@contextmanager
def about(file: Path, remedy: str = "") -> Generator[None]:
    """What is found wrong inside the block, as ValueError or OSError, is said of this file.

    Without a `remedy` the folder is to be got again.
    """
    try:
        yield
    except CheckpointError:
        raise
    except FileNotFoundError:
        what_helps = remedy or again(file.parent)
        raise CheckpointError(f"{printable(str(file))} is missing: {what_helps}") from None
    except OSError as error:
        raise unusable(file, f"it cannot be read: {error.strerror}", remedy) from None
    except ValueError as error:
        raise unusable(file, str(error), remedy) from None


def unusable(file: Path, what: str, remedy: str = "") -> CheckpointError:
    """The error for a file; `what` may quote a stranger."""
    return CheckpointError(
        f"{printable(str(file))} cannot be used ({printable(what)[:300]}): "
        f"{remedy or again(file.parent)}"
    )


def quoted(folder: Path) -> str:
    """A folder's name as a shell takes it."""
    return shlex.quote(printable(str(folder)))


def again(folder: Path) -> str:
    """What helps a folder that comes with the project, and one that does not."""
    return (
        f"get the folder again (with `git checkout -- {quoted(folder)}` if it comes with the "
        "project), or delete it"
    )
