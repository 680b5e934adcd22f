"""Writes the SHA-256 of config.json into it, for folders of before it carried one.

python -m core.checkpoint.add_checksum FOLDER...

Everything else about a folder is checked first, as when it is loaded: what is wrong elsewhere stays
refused. Whether the configuration itself is the right one (where a norm stands, how many heads
share the weights) nobody can tell afterwards, so seal only a folder that you trust.
"""

import sys
from argparse import Namespace
from pathlib import Path

from core.checkpoint.configuration import FILE, own_sha256
from core.checkpoint.folder import load
from core.checkpoint.strict_json import read_small
from core.command import Parser, main
from core.files import finish_commit, write_json


def seal(folder: Path) -> str:
    """Load a folder, then write its configuration's hash, and return it. Raises CheckpointError."""
    finish_commit(folder, FILE)  # what waits for this config.json would not be found by another
    load(folder, sealed=False)
    file = folder / FILE
    config = read_small(file)
    config["sha256"] = own_sha256(config)
    write_json(file, config)
    return config["sha256"]


def run(arguments: Namespace) -> None:
    """Seal each folder in turn; the first that cannot be loaded ends it."""
    for folder in arguments.folders:
        sys.stdout.write(f"{folder}: config.json carries its SHA-256 {seal(folder)[:16]}…\n")


def parser() -> Parser:
    """The command line."""
    p = Parser(prog="python -m core.checkpoint.add_checksum", description=__doc__)
    p.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="a checkpoint folder")
    return p


if __name__ == "__main__":
    main(parser(), run)
