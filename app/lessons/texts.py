"""Reads the lessons from one TOML file each: texts with {placeholders}, and rules.

A file starts with `title` and `paper`, the section of the paper that the lesson is about. Texts
follow, most of them in tables. A table `rules`, of the lesson or of one of its tables, holds what
is no text: thresholds, verdicts, edits and sentences. A translation would be a folder beside `en`
with the same files, keys and placeholders, without rules.

The offline page gets the lessons on masks, positions and training as `table` returns them and reads
them with `app/components/offline/lesson_table.js`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

FOLDER = Path(__file__).parent


def text(lesson: str, key: str, /, **values: object) -> str:
    """Return the plain text of a dotted key, such as "question.prompt", with its values filled in.

    A value is inserted as it is: braces in it are not placeholders. Raises KeyError for an unknown
    lesson or key, and for a placeholder without a value.
    """
    return _texts(lesson)[key].format_map(values)


def template(lesson: str, key: str) -> str:
    """Return the text of a dotted key with its placeholders still in it. Raises KeyError."""
    return _texts(lesson)[key]


def keys(lesson: str) -> tuple[str, ...]:
    """Return the dotted keys of a lesson's texts, in order. Raises KeyError."""
    return tuple(_texts(lesson))


@cache
def rules(lesson: str) -> Mapping[str, Any]:
    """Return what a lesson holds besides texts. Raises KeyError for an unknown lesson."""
    return _read(lesson).get("rules", {})


@cache
def rows(lesson: str, group: str) -> Mapping[str, Mapping[str, Any]]:
    """Return a table's rows by name, in order: each row's texts and rules by key.

    Placeholders stay in the texts. Raises KeyError for an unknown lesson or group.
    """
    found = {name: dict(row.get("rules", {})) for name, row in _read(lesson)[group].items()}
    for key, written in _texts(lesson).items():
        if key.startswith(f"{group}."):
            _, name, part = key.split(".", 2)
            found[name][part] = written
    return found


def verdict(lesson: str, rule: str, value: float) -> str:
    """Return the first verdict of a rule whose limit is at least the value; the last has none.

    A rule is a list such as [["small", 0.1], ["large"]]. Raises KeyError for an unknown rule.
    """
    return next(name for name, *limit in rules(lesson)[rule] if not limit or value <= limit[0])


def table(lesson: str) -> dict[str, Any]:
    """Return a lesson as JSON values: its texts by dotted key, and its rules. Raises KeyError."""
    return {"texts": dict(_texts(lesson)), "rules": rules(lesson)}


def _read(lesson: str) -> dict[str, Any]:
    file = FOLDER / "en" / f"{lesson}.toml"
    if not file.is_file():
        raise KeyError(f"there are no texts {lesson}")
    return tomllib.loads(file.read_text(encoding="utf-8"))


@cache
def _texts(lesson: str) -> Mapping[str, str]:
    found = dict(_flat(_read(lesson), ""))
    for key, written in found.items():
        if not all(map(str.isidentifier, _names(written))):
            raise ValueError(f"{lesson}.toml, {key}: only plain {{names}} are filled in")
    return found


def _names(written: str) -> Iterator[str]:
    for _, name, spec, conversion in Formatter().parse(written):
        if name is not None:
            yield name if not spec and not conversion else f"{name}!{conversion}:{spec}"


def _flat(table: Mapping[str, Any], above: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of a table by dotted key; folded lines are joined with spaces."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            if name != "rules":
                yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", " ".join(value.split())
