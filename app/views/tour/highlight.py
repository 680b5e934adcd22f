"""What a stop of the tour shows of a record: a head with its measured share, and a row to pin."""

from dataclasses import dataclass

from core.analysis import roles
from core.kinds import Kind


@dataclass(frozen=True)
class Highlight:
    """What to show of a record: a head with its measured share, and a row to pin.

    `said` describes the map in plain text: the rows of a word and where each looks most.
    """

    kind: Kind
    head: roles.Strongest
    query: int | None = None
    said: str = ""
