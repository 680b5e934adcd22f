"""Write the file trees of core/README.md and app/README.md from each module's first sentence.

What the tree says of a file without a docstring, such as a style sheet, is kept as it is there.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.test_readme import opening, tree  # noqa: E402 (after the path line)

SUFFIXES = (".py", ".js", ".css", ".html")


def lines(folder: Path, said: dict[str, str], indent: int) -> list[str]:
    """A folder's files with their sentences, then its folders with theirs, by name."""
    kept = {Path(name).name for name in said if (ROOT / name).parent == folder}
    files = sorted(
        f
        for f in folder.iterdir()
        if f.is_file() and f.name != "__init__.py" and (f.suffix in SUFFIXES or f.name in kept)
    )
    folders = sorted(
        f
        for f in folder.iterdir()
        if f.is_dir() and any(f.rglob("*.*")) and f.name != "__pycache__"
    )
    width = max((len(f.name) for f in files), default=0)
    width = max(width, *(len(f.name) + 1 for f in folders), 0) if indent == 4 else width
    found = []
    for file in files:
        name = str(file.relative_to(ROOT))
        found.append(f"{' ' * indent}{file.name:{width}}  {opening(file) or said.get(name, '')}")
    for inner in folders:
        name = f"{inner.relative_to(ROOT)}/"
        sentence = opening(inner) or said.get(name, "")
        found.append(f"{' ' * indent}{inner.name + '/':{width}}  {sentence}".rstrip())
        found += lines(inner, said, indent + 4)
    return found


def main() -> None:
    """Rewrite both trees in place."""
    for room in ("core", "app"):
        readme = ROOT / room / "README.md"
        text = readme.read_text(encoding="utf-8")
        said = tree(room, text)
        start = text.index(f"```\n{room}/") + 4
        end = text.index("```", start)
        head = f"{room}/  {opening(ROOT / room) or said[f'{room}/']}"
        block = "\n".join([head, *lines(ROOT / room, said, 4)]) + "\n"
        readme.write_text(text[:start] + block + text[end:], encoding="utf-8")


if __name__ == "__main__":
    main()
