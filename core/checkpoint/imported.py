"""Provenance of imported weights: family, author, licence, and the comparisons made on import.

`core.convert` writes it to config.json as `training.imported`; networks trained here have none.
"""

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, Self

FAMILIES = ("friendshipkim", "hyunwoongko", "tutorial", "marian", "pegasus")
_MAX_CHARACTERS = 500  # of one text
_MAX_ENTRIES = 40  # of each list
_MAX_DIFFERENCE = 1e30
_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One quantity compared with the original; passed if the difference is within the limit.

    Differences are absolute. If ids or tokens are compared, `max_abs_diff` is the number of
    differing sentences.
    """

    what: str
    max_abs_diff: float
    limit: float
    passed: bool


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Where imported weights come from, and how far the import was verified.

    `source` is the name of the original file or folder, `sha256` the hash of its weights. `author`
    and `licence` are empty if they were not given. `not_proven` lists what was not verified, one
    sentence each.
    """

    family: str
    source: str
    sha256: str
    author: str = ""
    licence: str = ""
    compared: tuple[Comparison, ...] = ()
    not_proven: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether anything was compared with the original, and every comparison passed."""
        return bool(self.compared) and all(one.passed for one in self.compared)

    @property
    def credit(self) -> str:
        """A phrase with author and licence, to be shown with the model's name."""
        author = f"by {self.author}" if self.author else "author unknown"
        return f"imported, {author}, licence {self.licence or 'unknown'}"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, with lists for tuples."""
        values = dataclasses.asdict(self)
        return {**values, "compared": list(values["compared"]), "not_proven": [*self.not_proven]}

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """Rebuild from untrusted JSON. Raises ValueError naming the first invalid field."""
        fields = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(values, dict) or not {"family", "source", "sha256"} <= set(values):
            raise ValueError("imported needs a family, a source and a sha256")
        if unknown := sorted(set(values) - fields):
            raise ValueError(f"imported has an unknown field {unknown[0]!r}")
        if values["family"] not in FAMILIES:
            raise ValueError(f"imported: the family must be one of {', '.join(FAMILIES)}")
        for name in ("source", "author", "licence"):
            if not _is_text(values.get(name, "")):
                raise ValueError(f"imported: {name} is not one line of text")
        if not isinstance(values["sha256"], str) or not _HASH.fullmatch(values["sha256"]):
            raise ValueError("imported: sha256 is not a SHA-256")
        compared, not_proven = values.get("compared", []), values.get("not_proven", [])
        for name, entries in (("compared", compared), ("not_proven", not_proven)):
            if not isinstance(entries, list) or len(entries) > _MAX_ENTRIES:
                raise ValueError(f"imported: {name} is not a list of at most {_MAX_ENTRIES}")
        if not all(map(_is_text, not_proven)):
            raise ValueError("imported: not_proven holds something other than a line of text")
        given: dict[str, Any] = {name: values[name] for name in fields & set(values)}
        given["compared"] = tuple(map(_comparison, compared))
        given["not_proven"] = tuple(not_proven)
        return cls(**given)


def _comparison(entry: Any) -> Comparison:
    fields = {field.name for field in dataclasses.fields(Comparison)}
    if not isinstance(entry, dict) or set(entry) != fields:
        raise ValueError(f"imported: a comparison's fields must be {', '.join(sorted(fields))}")
    numbers = entry["max_abs_diff"], entry["limit"]
    if not _is_text(entry["what"]) or not all(map(_is_size, numbers)):
        raise ValueError("imported: a comparison's what, max_abs_diff or limit is invalid")
    if entry["passed"] is not (numbers[0] <= numbers[1]):
        raise ValueError("imported: a comparison's verdict does not follow from its difference")
    return Comparison(**entry)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_CHARACTERS and value.isprintable()


def _is_size(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= _MAX_DIFFERENCE  # also rejects NaN
