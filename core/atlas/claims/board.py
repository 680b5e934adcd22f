"""The literature board: estimates and verdicts for all claims, as one JSON file read strictly."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.atlas.claims.claim import Claim, Estimate, Verdict, decide
from core.atlas.claims.literature import LITERATURE
from core.checkpoint.strict_json import parse
from core.files import printable, safe_read, write_json

FILE = "literature.json"
LIMIT = 60_000  # bytes

_FORMAT = 1
_MAX_ITEMS = 10_000
_MAX_TEXT = 1_000
_TEXTS = ("claim", "source", "theirs", "published", "quantity", "ours", "reason")


@dataclass(frozen=True)
class Origin:
    """What a board was computed from, so that it can be computed again.

    `weights` has the SHA-256 of each network's weights, by the network's name. `sources` has the
    SHA-256 of the corpus's source lines, by direction. `gold` names the file of manual alignments;
    "" for none.
    """

    command: str
    corpus: str
    sentences: int
    gold: str
    gold_sentences: int
    weights: Mapping[str, str]
    sources: Mapping[str, str]
    version: str


@dataclass(frozen=True)
class Row:
    """A claim with its estimates by network, their mean, the verdict and its reason."""

    claim: Claim
    estimates: Mapping[str, Estimate]
    mean: Estimate | None
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Board:
    """All claims of LITERATURE with their estimates, from which the verdicts follow (see `decide`).

    The keys of `estimates` are claim and network or, if a claim is about pairs of networks, claim
    and direction. The keys of `means` are claims. Claims that could not be estimated are absent
    from both; `missing` says what each of them lacked, except for `untestable` claims.
    """

    origin: Origin
    estimates: Mapping[str, Mapping[str, Estimate]]
    means: Mapping[str, Estimate]
    missing: Mapping[str, str]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows in the order of LITERATURE."""
        rows = []
        for claim in LITERATURE:
            estimates = self.estimates.get(claim.id, {})
            decided = decide(claim, estimates, self.missing.get(claim.id, ""))
            rows.append(Row(claim, estimates, self.means.get(claim.id), *decided))
        return tuple(rows)

    def to_values(self) -> dict[str, Any]:
        """Return the board as JSON values: the numbers, and the texts that explain them."""
        return {
            "format": _FORMAT,
            "origin": {
                name: dict(value) if isinstance(value, Mapping) else value
                for name, value in vars(self.origin).items()
            },
            "rows": [
                {
                    "id": row.claim.id,
                    "claim": row.claim.claim,
                    "source": row.claim.source,
                    "theirs": row.claim.theirs,
                    "published": list(row.claim.published),
                    "quantity": row.claim.quantity,
                    "ours": row.claim.ours,
                    "unit": row.claim.unit,
                    "threshold": row.claim.threshold,
                    "side": "above" if row.claim.above else "below",
                    "networks": {n: dataclasses.asdict(e) for n, e in row.estimates.items()},
                    "mean": row.mean and dataclasses.asdict(row.mean),
                    "missing": self.missing.get(row.claim.id, ""),
                    "verdict": row.verdict,
                    "reason": row.reason,
                }
                for row in self.rows
            ],
        }

    def save(self, file: Path) -> None:
        """Write the board atomically."""
        write_json(file, self.to_values())

    @classmethod
    def load(cls, file: Path) -> Board:
        """Read a file written by `save`.

        Texts are taken from LITERATURE, not from the file, so that rewording one needs no new
        measurement. Raises ValueError, one line, for an invalid file, and for one whose thresholds
        or verdicts differ from those that this version derives from its numbers. Raises
        FileNotFoundError if there is no file.
        """
        try:
            values = parse(safe_read(file, LIMIT), _MAX_ITEMS)
            board = cls._of(values)
            if _decided(board.to_values()) != _decided(values):
                raise ValueError("its claims or verdicts come from another version of the project")
        except FileNotFoundError:
            raise
        except (KeyError, TypeError, AttributeError) as error:
            problem = f"it has an unexpected structure: {error}"
        except (ValueError, OSError) as error:
            problem = str(error)
        else:
            return board
        raise ValueError(
            f"{file} is not a literature board ({printable(problem)[:200]}): write it again with "
            "`python -m core.analyse claims`"
        )

    @classmethod
    def _of(cls, values: Any) -> Board:
        rows = values["rows"]
        origin = values["origin"]
        if set(origin) != {field.name for field in dataclasses.fields(Origin)}:
            raise ValueError("its origin has missing or unknown fields")
        for name in ("command", "corpus", "gold", "version"):
            _text(origin[name])
        for name in ("weights", "sources"):
            for key, value in origin[name].items():
                _text(key), _text(value)
        for name in ("sentences", "gold_sentences"):
            if type(origin[name]) is not int or origin[name] < 0:
                raise ValueError(f"its {name} is not a count")
        names = {*origin["weights"], *origin["sources"]}
        estimates = {}
        for row in rows:
            if not names.issuperset(row["networks"]):
                raise ValueError(f"{_text(row['id'])} has a network that its origin lacks")
            if row["networks"]:
                found = {name: _estimate(e) for name, e in row["networks"].items()}
                estimates[_text(row["id"])] = found
        return cls(
            Origin(**origin),
            estimates,
            {row["id"]: _estimate(row["mean"]) for row in rows if row["mean"] is not None},
            {row["id"]: _text(row["missing"]) for row in rows if row["missing"]},
        )


def _decided(values: Any) -> Any:
    """Return the values without texts; a file and the board read from it must agree in these."""
    rows = [{name: row[name] for name in row if name not in _TEXTS} for row in values["rows"]]
    return values | {"rows": rows}


def _estimate(values: Any) -> Estimate:
    numbers = [values[name] for name in ("value", "low", "high")]
    if any(type(number) not in (int, float) for number in numbers):
        raise ValueError("one of its estimates is not a number")
    null = values["null"]
    if null is not None and type(null) not in (int, float):
        raise ValueError("one of its chance values is not a number")
    return Estimate(*numbers, null)


def _text(value: Any) -> str:
    if type(value) is not str or len(value) > _MAX_TEXT:
        raise ValueError(f"one of its texts is not a string of at most {_MAX_TEXT:,} characters")
    return value
