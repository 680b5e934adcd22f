"""The listed mistakes fit the project, and the mutator changes what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutate import __main__ as command
from tests.mutate.mutants import mutants

MOST = 300


def test_each_listed_mistake_applies():
    found = list(command.mistakes())
    assert 0 < len(found) <= MOST
    for one in found:
        text = (command.ROOT / one.file).read_text(encoding="utf-8")
        assert one.apply(text) != text, one


def test_a_mistake_that_does_not_apply_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "mistakes.txt"
    listed.write_text("core/kinds.py | no such text | another\n", encoding="utf-8")
    monkeypatch.setattr(command, "MISTAKES", listed)
    with pytest.raises(ValueError, match="line 1: 'no such text' occurs 0 times in core/kinds.py"):
        list(command.mistakes())


PYTHON = '''
def rows(source: int = 1, target=0):
    """Return source - 1."""
    if source < target and not source:
        raise ValueError(f"{source} + 1")
    return pair(source, target, low="query")[1:]
'''
SCRIPT = "// a + b\nconst rows = (low, high) => low <= high && f(`${low} + 1`, 3, !low, true);\n"
CHANGED = {
    "source: int = 1": "source: int = 2",
    "target=0": "target=1",
    "source < target": "source <= target",
    "and not": "or not",
    "not source:": "source:",
    "if source < target and not source": "if (not (source < target and not source))",
    "pair(source, target": "pair(target, source",
    ', low="query")': ", )",
    "[1:]": "[2:]",
}


def lines(path: Path, text: str) -> list[str]:
    path.write_text(text, encoding="utf-8")
    return [one.apply(text) for one in mutants(path.parent, path.name) if one.parses(text)]


def test_python_is_changed_in_code_only(tmp_path: Path) -> None:
    made = lines(tmp_path / "a.py", PYTHON)
    for old, new in CHANGED.items():
        assert PYTHON.replace(old, new, 1) in made, (old, new)
    assert all(
        "Return source - 1." in text and "{source} + 1" in text for text in made if "raise" in text
    )
    assert len(made) == len(set(made))


def test_scripts_are_changed_outside_comments_and_texts(tmp_path: Path) -> None:
    made = lines(tmp_path / "a.js", SCRIPT)
    for old, new in (("<=", "<"), ("&&", "||"), ("3", "4"), ("!low", "low"), ("true", "false")):
        assert SCRIPT.replace(old, new) in made, (old, new)
    assert all("// a + b" in text and "} + 1" in text for text in made)
