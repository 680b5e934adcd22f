"""The parity checklist: the from-scratch model against torch.nn.Transformer, line by line.

python -m core.verify [--checkpoint DIR] [--json FILE]

Both models get the same weights and no dropout, and run in float64, where a difference above 1e-12
indicates a bug. The forward pass is repeated in float32. Without a checkpoint the checklist runs on
small random networks: pre- and post-norm, tied and untied, 1 to 6 layers, and the variants of other
implementations. Padded positions are not compared, because nothing reads them.
"""

from argparse import Namespace
from dataclasses import replace
from typing import Any

from core.checkpoint.folder import Checkpoint, load
from core.command import Parser, main, write_credit, write_result
from core.parity.checklist import LIMIT, Check, checklist, count_lines


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

    checkpoint = load(arguments.checkpoint) if arguments.checkpoint else None
    if checkpoint:
        write_credit(checkpoint.card.folder.name, checkpoint.card.credit)
    checks = list(
        track(
            checklist(checkpoint),
            "comparing with torch.nn.Transformer",
            total=count_lines(checkpoint),
            console=Console(stderr=True),
            transient=True,
        )
    )
    show(checks if checkpoint else fold(checks))
    write_result(arguments.json, report(checkpoint, checks))
    if failed := [check.name for check in checks if not check.passed]:
        raise RuntimeError(
            f"{len(failed)} of {len(checks)} checks against torch.nn.Transformer failed, "
            f"first: {failed[0]}"
        )


def parser() -> Parser:
    p = Parser(prog="python -m core.verify", description=__doc__)
    p.path("--checkpoint", "weights to check; default: small random networks")
    p.path("--json", "write all lines here")
    return p


if __name__ == "__main__":
    main(parser(), run)
