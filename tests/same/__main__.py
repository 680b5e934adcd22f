"""Run two versions of the project on the same inputs and list what differs.

    python -m tests.same --against REF [--sentences 200] [--only PREFIX …]

Compares records (texts, tokens, maps, log-probabilities, edited passes) of every shipped network,
the text, figures, payloads and URLs of every page, exported files, and the JSON of commands.
Exits with 0 and "same" if nothing differs, else with 1 and one line per difference.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from core.benchmarks.versions import extracted

ROOT = Path(__file__).resolve().parents[2]
FACTS = Path(__file__).with_name("facts.py")
PARTS = ("records", "pages", "exports", "commands")
_MOST = 160  # characters of a value in a line


def facts(tree: Path, part: str, sentences: int, out: Path) -> dict[str, str]:
    """Collect one part's facts of a version, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    command = [sys.executable, str(FACTS), part, str(sentences), str(out)]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{part} of {tree} failed:\n{done.stderr[-3000:]}")
    return json.loads(out.read_text(encoding="utf-8"))


def differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return one line for each fact that differs or exists once only.

    A long value is shown from just before its first difference.
    """

    def line(key: str) -> str:
        values = before.get(key, "(absent)"), now.get(key, "(absent)")
        equal = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*values, strict=False))
        start = max(0, sum(1 for _ in equal) - _MOST // 4)
        old, new = ("…" * (start > 0) + value[start : start + _MOST] for value in values)
        return f"{key}: {old} -> {new}"

    return [line(key) for key in sorted({*before, *now}) if before.get(key) != now.get(key)]


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.same",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--against", required=True, metavar="REF", help="a commit, tag or branch")
    parser.add_argument("--sentences", type=int, default=200, help="of each network (200)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some parts")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="same-") as name:
        folder = Path(name)
        trees = (extracted(options.against, folder), ROOT)
        found: list[str] = []
        for part in options.only:
            with ThreadPoolExecutor(2) as pool:
                waiting = [
                    pool.submit(facts, tree, part, options.sentences, folder / f"{part}-{n}.json")
                    for n, tree in enumerate(trees)
                ]
                before, now = (one.result() for one in waiting)
            lines = differences(before, now)
            print(f"{part}: {len(now):,} facts, {len(lines):,} differ", file=sys.stderr)  # noqa: T201
            found += lines
    print("\n".join(found) or "same")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
