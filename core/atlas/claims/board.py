"""The literature board: estimates and verdicts for all claims, as one JSON file read strictly."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from core.atlas.claims.claim import Claim, Estimate, Verdict, decide
from core.atlas.claims.literature import LITERATURE
from core.checkpoint.strict_json import parse
from core.files import printable, safe_read, write_json
from core.typed import between, characters, typed

FILE = "literature.json"
LIMIT = 120_000  # bytes

_FORMAT = 1
_MAX_ITEMS = 10_000
_Text = Annotated[str, characters(0, 1_000)]
_Count = Annotated[int, between(0)]
_TEXTS = ("claim", "source", "theirs", "published", "quantity", "ours", "reason")


@dataclass(frozen=True)
class Origin:
    """What a board was computed from, so that it can be computed again.

    `weights` has the SHA-256 of each network's weights, by the network's name. `sources` has the
    SHA-256 of the corpus's source lines, by direction. `gold` names the file of manual alignments;
    "" for none.
    """

    command: _Text
    corpus: _Text
    sentences: _Count
    gold: _Text
    gold_sentences: _Count
    weights: Mapping[_Text, _Text]
    sources: Mapping[_Text, _Text]
    version: _Text


class _Row(TypedDict):
    """The values of a saved row from which the others follow."""

    id: _Text
    threshold: float
    networks: Mapping[_Text, Estimate]
    mean: Estimate | None
    variants: Mapping[_Text, Estimate]
    missing: _Text
    ours: _Text


class _Saved(TypedDict):
    format: Literal[1]
    origin: Origin
    rows: tuple[_Row, ...]


@dataclass(frozen=True)
class Row:
    """A claim with its estimates by network, their mean, the verdict and its reason.

    `variants` has means over the networks by other methods than the claim's, by name.
    """

    claim: Claim
    estimates: Mapping[str, Estimate]
    mean: Estimate | None
    variants: Mapping[str, Estimate]
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Board:
    """All claims of LITERATURE with their estimates, from which the verdicts follow (see `decide`).

    The keys of `estimates` are claim and network or, if a claim is about pairs of networks, claim
    and direction. The keys of `means` are claims. Claims that could not be estimated are absent
    from both; `missing` says what each of them lacked, except for `untestable` claims. The keys of
    `variants` are claim and method, see `Row`.
    """

    origin: Origin
    estimates: Mapping[str, Mapping[str, Estimate]]
    means: Mapping[str, Estimate]
    missing: Mapping[str, str]
    variants: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows in the order of LITERATURE."""
        rows = []
        for claim in LITERATURE:
            estimates = self.estimates.get(claim.id, {})
            missing, networks = self.missing.get(claim.id, ""), len(self.origin.weights)
            mean, variants = self.means.get(claim.id), self.variants.get(claim.id, {})
            decided = decide(claim, estimates, missing, networks, mean)
            rows.append(Row(claim, estimates, mean, variants, *decided))
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
                    "variants": {n: dataclasses.asdict(e) for n, e in row.variants.items()},
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
    def still_valid(cls, file: Path) -> Board:
        """Read the rows of a file whose claims are measured as in this version: same texts `ours`.

        Their verdicts are decided again. Raises ValueError and OSError.
        """
        saved = typed(_Saved, parse(safe_read(file, LIMIT), _MAX_ITEMS))
        ours = {claim.id: claim.ours for claim in LITERATURE}
        rows = tuple(row for row in saved["rows"] if ours.get(row["id"]) == row["ours"])
        return cls._of({**saved, "rows": rows})

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
            board = cls._of(typed(_Saved, values))
            if _decided(board.to_values()) != _decided(values):
                raise ValueError("its claims or verdicts come from another version of the project")
        except FileNotFoundError:
            raise
        except (ValueError, OSError) as error:
            problem = str(error)
        else:
            return board
        raise ValueError(
            f"{file} is not a literature board ({printable(problem)[:200]}): write it again with "
            "`python -m core.analyse claims`"
        )

    @classmethod
    def _of(cls, saved: _Saved) -> Board:
        origin, rows = saved["origin"], saved["rows"]
        for row in rows:
            if not {*origin.weights, *origin.sources}.issuperset(row["networks"]):
                raise ValueError(f"{row['id']} has a network that its origin lacks")
        return cls(
            origin,
            {row["id"]: row["networks"] for row in rows if row["networks"]},
            {row["id"]: row["mean"] for row in rows if row["mean"] is not None},
            {row["id"]: row["missing"] for row in rows if row["missing"]},
            {row["id"]: found for row in rows if (found := row["variants"])},
        )


def _decided(values: Any) -> Any:
    """Return the values without texts; a file and the board read from it must agree in these."""
    rows = [{name: row[name] for name in row if name not in _TEXTS} for row in values["rows"]]
    return values | {"rows": rows}
