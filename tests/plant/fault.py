"""Read the fault lists: a text to replace in one file, and the tests that must notice it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LISTS = Path(__file__).with_name("faults")


@dataclass(frozen=True)
class Fault:
    """One change to one file; at least one of the tests (files or node ids) must fail."""

    area: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def planted(self, text: str) -> str:
        """Return the text with the fault; ValueError unless `old` occurs exactly once."""
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.area}/{self.name}: `old` occurs {found} times in {self.file}")
        if self.old == self.new:
            raise ValueError(f"{self.area}/{self.name}: nothing is changed")
        return text.replace(self.old, self.new)


def faults() -> list[Fault]:
    """Return all faults by area; ValueError for an invalid list or a duplicate name."""
    found = []
    for file in sorted(LISTS.glob("*.toml")):
        for entry in tomllib.loads(file.read_text(encoding="utf-8")).get("fault", []):
            try:
                tests = tuple(entry.pop("tests"))
                found.append(Fault(area=file.stem, tests=tests, **entry))
            except (KeyError, TypeError) as error:
                raise ValueError(f"{file.name}: {entry.get('name', entry)}: {error}") from None
    names = [fault.name for fault in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"names used twice: {sorted(twice)}")
    return found
