"""Generate the file trees of core/README.md and app/README.md from the modules' docstrings.

Descriptions of files without a docstring, such as style sheets, are kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.test_readme import listed as in_trees
from tests.test_readme import opening, tree  # noqa: E402 (after the path line)

SUFFIXES = (".py", ".js", ".css", ".html")


def lines(folder: Path, described: dict[str, str], indent: int) -> list[str]:
    """Return the tree's lines for a folder: its files, then its subfolders, each sorted by name."""
    listed = {Path(name).name for name in described if (ROOT / name).parent == folder}
    files = sorted(
        f
        for f in folder.iterdir()
        if f.is_file()
        and f.name != "__init__.py"
        and in_trees(f)
        and (f.suffix in SUFFIXES or f.name in listed)
    )
    folders = sorted(
        f
        for f in folder.iterdir()
        if f.is_dir() and any(f.rglob("*.*")) and f.name != "__pycache__"
    )
    width = max((len(f.name) for f in files), default=0)
    width = max(width, *(len(f.name) + 1 for f in folders), 0) if indent == 4 else width
    result = []
    for file in files:
        name = str(file.relative_to(ROOT))
        result.append(
            f"{' ' * indent}{file.name:{width}}  {opening(file) or described.get(name, '')}"
        )
    for inner in folders:
        name = f"{inner.relative_to(ROOT)}/"
        sentence = opening(inner) or described.get(name, "")
        result.append(f"{' ' * indent}{inner.name + '/':{width}}  {sentence}".rstrip())
        result += lines(inner, described, indent + 4)
    return result


def main() -> None:
    """Rewrite both trees in place."""
    for package in ("core", "app"):
        readme = ROOT / package / "README.md"
        text = readme.read_text(encoding="utf-8")
        described = tree(package, text)
        start = text.index(f"```\n{package}/") + 4
        end = text.index("```", start)
        head = f"{package}/  {opening(ROOT / package) or described[f'{package}/']}"
        block = "\n".join([head, *lines(ROOT / package, described, 4)]) + "\n"
        readme.write_text(text[:start] + block + text[end:], encoding="utf-8")


if __name__ == "__main__":
    main()
