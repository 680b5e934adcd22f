"""Count code lines by room and language; fail above the ceilings in pyproject.toml.

A code line has something besides white space, comments and docstrings. CONTRIBUTING.md says what
the ceilings are for.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Whitespace

ROOT = Path(__file__).resolve().parents[1]

LANGUAGES = {
    ".py": "python",
    ".js": "javascript",
    ".css": "css",
    ".html": "html",
    ".svg": "xml",
    ".c": "c",
    ".toml": "toml",
}
MISTAKES = "tests/mutate/mistakes.txt"
TOOLS = (
    "core/benchmark.py",
    "core/benchmarks/",
    "app/benchmark/",
    "tests/load/",
    "tests/offline_equality",
    "tests/mutate/__main__.py",
    "tests/mutate/covered.py",
    "tests/mutate/mutants.py",
    "tests/mutate/run.py",
    "tests/same/",
    ".ci/",
)


def room_of(name: str) -> str | None:
    """Return the room of a tracked file; None if its lines do not count."""
    if name.startswith(TOOLS):
        return "tools"
    room = name.split("/")[0]
    return room if room in ("core", "app", "tests") else None


def code_lines(text: str, language: str) -> int:
    """Return the number of lines with code."""
    if language == "python":
        return python_lines(text)
    counted, line = set[int](), 1
    for kind, value in get_lexer_by_name(language, stripnl=False).get_tokens(text):
        if kind not in Comment and kind not in Whitespace:
            parts = value.split("\n")
            counted.update(line + at for at, part in enumerate(parts) if part.strip())
        line += value.count("\n")
    return len(counted)


def python_lines(text: str) -> int:
    """Return the number of lines with code, without strings that are statements.

    Lexing as above would take five times as long.
    """
    literals, docs = set[int](), set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            literals.update(range(node.lineno + 1, node.end_lineno + 1))
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            docs.update(range(node.lineno, node.end_lineno + 1))
    return sum(
        bool(line.strip()) and (at in literals or not line.lstrip().startswith("#"))
        for at, line in enumerate(text.split("\n"), 1)
        if at not in docs
    )


def counts() -> Counter[tuple[str, str]]:
    """Return the code lines of tracked files by room and language."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    found: Counter[tuple[str, str]] = Counter()
    for name in filter(None, listed.stdout.decode().split("\0")):
        language = "text" if name == MISTAKES else LANGUAGES.get(Path(name).suffix)
        if (room := room_of(name)) and language and (ROOT / name).is_file():
            text = (ROOT / name).read_text(encoding="utf-8")
            found[room, language] += code_lines(text, language)
    return found


def main() -> int:
    """Print the table; return 1 if a room is above its ceiling."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    ceilings: dict[str, int] = settings["tool"]["headlight"]["ceilings"]
    found = counts()
    languages = sorted({language for _, language in found})
    print(f"{'code lines':12}", *(f"{name:>10}" for name in [*languages, "all", "ceiling"]))  # noqa: T201
    status = 0
    for room, ceiling in ceilings.items():
        cells = [found[room, language] for language in languages]
        print(f"{room:12}", *(f"{cell:10,}" for cell in [*cells, sum(cells), ceiling]))  # noqa: T201
        if sum(cells) > ceiling:
            print("  ↑ remove code, or raise the ceiling in pyproject.toml (see CONTRIBUTING.md)")  # noqa: T201
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
