"""The parity checklist: the from-scratch model against torch.nn.Transformer, line by line.

python -m core.verify [--checkpoint DIR] [--captions FILE] [--json FILE]

Both models get the same weights and no dropout, and run in float64, where a difference above 1e-12
indicates a bug. The forward pass is repeated in float32. Without a checkpoint the checklist runs on
small random networks: pre- and post-norm, tied and untied, 1 to 6 layers, and the variants of other
implementations. Padded positions are not compared, because nothing reads them.

With --captions, a shipped checkpoint is compared with core.micro instead, which is written in
Python's standard library alone: the ids of each line and of its greedy translation, and all maps.
"""

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from core import micro
from core.checkpoint.folder import Checkpoint, load
from core.command import Parser, main, write_credit, write_result
from core.data.text_files import read_lines
from core.kinds import KINDS
from core.parity.checklist import LIMIT, Check, checklist, count_lines
from core.translator import Translator

MAP_LIMIT = 1e-5
"""The largest difference of a weight from core.micro's, which computes in float64."""


def referee(folder: Path, captions: Sequence[str]) -> Iterator[Check]:
    """Compare the greedy translation and maps of each caption with core.micro's; ids must be equal.

    Raises ValueError for a network that core.micro does not read.
    """
    network, translator = micro.Transformer(folder), Translator.load(folder, "cpu")
    for number, caption in enumerate(captions, start=1):
        record = translator.inspect(caption, beam=1)
        start = time.process_time()
        source = [*network.tokenizer.encode(caption), micro.EOS]
        target = list(network.greedy(source))
        seconds = time.process_time() - start
        ids = [[token.id for token in side] for side in (record.source, record.target_out)]
        worst = 1.0  # no weights can differ by more
        if ids == [source, target]:
            differences = [record.maps(kind) - maps_of(network, kind) for kind in KINDS]
            worst = max(float(np.abs(one).max()) for one in differences)
        detail = f"{len(source)} to {len(target)} tokens in {seconds:.1f} s"
        yield Check(f"caption {number}", worst <= MAP_LIMIT, worst, MAP_LIMIT, detail)


def maps_of(network: micro.Transformer, kind: str) -> np.ndarray:
    """Return the maps [layer, head, query, key] of core.micro's last sentence; 0 where masked."""
    keys = max(len(row) for head in network.maps[kind][0] for row in head)
    return np.array(
        [
            [[[*row, *[0.0] * (keys - len(row))] for row in head] for head in layer]
            for layer in network.maps[kind]
        ]
    )


def report(checkpoint: Checkpoint | None, checks: list[Check]) -> dict[str, Any]:
    """Return the content of --json; `checkpoint` is null for the random networks."""
    keys = ("name", "passed", "max_abs_diff", "limit")
    return {
        "checkpoint": None if checkpoint is None else checkpoint.card.folder.name,
        "passed": all(check.passed for check in checks),
        "checks": [{key: getattr(check, key) for key in keys} for check in checks],
    }


def fold(checks: list[Check]) -> list[Check]:
    """Reduce each random network to its failed lines or, if none failed, its worst float64 line."""
    networks: dict[str, list[Check]] = {}
    for check in checks:
        networks.setdefault(check.name.partition(": ")[0], []).append(check)
    folded = []
    for network, lines in networks.items():
        failed = [check for check in lines if not check.passed]
        worst = max((c for c in lines if c.limit == LIMIT), key=lambda c: c.max_abs_diff)
        name, detail = f"{network}: all {len(lines)} lines", worst.name.partition(": ")[2]
        folded += failed or [replace(worst, name=name, detail=detail)]
    return folded


def show(checks: list[Check]) -> None:
    """Print the lines as a table."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, header_style="bold")
    grid.add_column()
    grid.add_column("line")
    grid.add_column("largest difference", justify="right", no_wrap=True)
    grid.add_column("limit", justify="right", no_wrap=True)
    for check in checks:
        mark = Text("✓", "green") if check.passed else Text("✗", "bold red")
        line = Text(check.name).append(f"  {check.detail}", "dim")
        grid.add_row(mark, line, f"{check.max_abs_diff:.2g}", f"{check.limit:.2g}")
    Console().print(grid)


def run(arguments: Namespace) -> None:
    """Run the checklist, print it and write the JSON. Raises RuntimeError if a line fails."""
    from rich.console import Console
    from rich.progress import track

    if arguments.captions and not arguments.checkpoint:
        raise ValueError("--captions needs a network: add --checkpoint")
    checkpoint = load(arguments.checkpoint) if arguments.checkpoint else None
    if checkpoint:
        write_credit(checkpoint.card.folder.name, checkpoint.card.credit)
    against, lines, total = "torch.nn.Transformer", checklist(checkpoint), count_lines(checkpoint)
    if arguments.captions:
        captions = read_lines(arguments.captions)
        against, lines, total = "core.micro", referee(arguments.checkpoint, captions), len(captions)
    checks = list(
        track(
            lines,
            f"comparing with {against}",
            total=total,
            console=Console(stderr=True),
            transient=True,
        )
    )
    show(checks if checkpoint else fold(checks))
    write_result(arguments.json, report(checkpoint, checks))
    if failed := [check.name for check in checks if not check.passed]:
        raise RuntimeError(
            f"{len(failed)} of {len(checks)} checks against {against} failed, first: {failed[0]}"
        )


def parser() -> Parser:
    p = Parser(prog="python -m core.verify", description=__doc__)
    p.path("--checkpoint", "weights to check; default: small random networks")
    p.path("--captions", "compare with core.micro on each line of this file")
    p.path("--json", "write all lines here")
    return p


if __name__ == "__main__":
    main(parser(), run)
