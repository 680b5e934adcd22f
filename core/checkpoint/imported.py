"""Provenance of imported weights: family, author, licence, and the comparisons made on import.

`core.convert` writes it to config.json as `training.imported`; networks trained here have none.
"""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from core.typed import Sha256, between, line, typed

Family = Literal[
    "friendshipkim",
    "hyunwoongko",
    "tutorial",
    "bentrevett",
    "annotated",
    "marian",
    "pegasus",
    "bart",
    "mbart",
    "m2m100",
    "fsmt",
    "t5",
]
_MAX_ENTRIES = 40  # of each list
_Line = Annotated[str, line(500)]
_Difference = Annotated[float, between(0, 1e30)]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One quantity compared with the original; passed if the difference is within the limit.

    Differences are absolute. If ids or tokens are compared, `max_abs_diff` is the number of
    differing sentences.
    """

    what: _Line
    max_abs_diff: _Difference
    limit: _Difference
    passed: bool


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Where imported weights come from, and how far the import was verified.

    `source` is the name of the original file or folder, `sha256` the hash of its weights. `author`
    and `licence` are empty if they were not given. `not_proven` lists what was not verified, one
    sentence each.
    """

    family: Family
    source: _Line
    sha256: Sha256
    author: _Line = ""
    licence: _Line = ""
    compared: Annotated[tuple[Comparison, ...], between(0, _MAX_ENTRIES)] = ()
    not_proven: Annotated[tuple[_Line, ...], between(0, _MAX_ENTRIES)] = ()

    @property
    def passed(self) -> bool:
        """Whether anything was compared with the original, and every comparison passed."""
        return bool(self.compared) and all(one.passed for one in self.compared)

    @property
    def credit(self) -> str:
        """A phrase with author and licence, to be shown with the model's name."""
        author = f"by {self.author}" if self.author else "author unknown"
        return f"imported, {author}, licence {self.licence or 'unknown'}"

    @property
    def origin(self) -> str:
        """Sentences on where the weights come from, with author and licence."""
        return (
            f"Imported from {self.source} ({self.family}). "
            f"Author: {self.author or 'unknown'}. Licence: {self.licence or 'unknown'}."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, with lists for tuples."""
        values = dataclasses.asdict(self)
        return {**values, "compared": list(values["compared"]), "not_proven": [*self.not_proven]}

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """Rebuild from untrusted JSON. Raises ValueError naming the first invalid field."""
        imported = typed(cls, values, "imported")
        if any(one.passed != (one.max_abs_diff <= one.limit) for one in imported.compared):
            raise ValueError("imported: a comparison's verdict does not follow from its difference")
        return imported
