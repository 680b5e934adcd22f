"""Add to config.json its own SHA-256, which earlier versions did not write.

python -m core.checkpoint.add_checksum FOLDER...

The folder is loaded first, so other defects are still rejected. Wrong settings in config.json, such
as the position of the norms, cannot be detected: use this command only for folders you trust.
"""

import sys
from argparse import Namespace
from pathlib import Path

from core.checkpoint.configuration import FILE, own_sha256
from core.checkpoint.folder import load
from core.checkpoint.strict_json import read_small
from core.command import Parser, main
from core.files import finish_commit, write_json


def add_checksum(folder: Path) -> str:
    """Load a folder, add its configuration's hash and return it. Raises CheckpointError."""
    finish_commit(folder, FILE)  # before config.json changes: pending file names hold its hash
    load(folder, require_checksum=False)
    file = folder / FILE
    config = read_small(file)
    config["sha256"] = own_sha256(config)
    write_json(file, config)
    return config["sha256"]


def run(arguments: Namespace) -> None:
    """Process each folder in turn; stop at the first that cannot be loaded."""
    for folder in arguments.folders:
        sys.stdout.write(f"{folder}: added SHA-256 {add_checksum(folder)[:16]}… to config.json\n")


def parser() -> Parser:
    p = Parser(prog="python -m core.checkpoint.add_checksum", description=__doc__)
    p.path("folders", "a checkpoint folder", nargs="+", metavar="FOLDER")
    return p


if __name__ == "__main__":
    main(parser(), run)
