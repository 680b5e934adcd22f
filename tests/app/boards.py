"""A literature board with every kind of row, for tests of its file and its page."""

from core.atlas.claims.board import Board, Origin
from core.atlas.claims.claim import Estimate
from core.atlas.claims.literature import LITERATURE

NETWORKS = ("scratch-de-en", "baseline-de-en", "scratch-en-de", "baseline-en-de")
DIRECTIONS = ("de-en", "en-de")


def estimates(claim) -> dict[str, Estimate]:
    """Return supporting estimates: intervals at least 0.5 beyond the threshold, nulls of 0.1."""
    step = 1.0 if claim.above else -1.0
    null = 0.1 if claim.null else None
    return {
        name: Estimate(
            claim.threshold + step * (0.75 + i / 4) - 0.25 * (step < 0),
            claim.threshold + step * (0.5 + i / 4) if step > 0 else claim.threshold - 1.5 - i / 4,
            claim.threshold + step * (1.5 + i / 4) if step > 0 else claim.threshold - 0.5 - i / 4,
            null,
        )
        for i, name in enumerate(DIRECTIONS if claim.of_pairs else NETWORKS)
    }


def board(weights: dict[str, str] | None = None, **changes: dict[str, Estimate]) -> Board:
    """Return a board whose estimates support every claim, except those given in `changes`.

    `changes` maps claim ids, with underscores, to estimates; a claim given {} counts as missing.
    """
    of_claim = {claim.id: estimates(claim) for claim in LITERATURE if not claim.untestable}
    for id, changed in changes.items():
        assert id.replace("_", "-") in of_claim
        of_claim[id.replace("_", "-")] = changed
    of_claim = {id: found for id, found in of_claim.items() if found}
    missing = {
        c.id: "It needs manual word alignments: pass them with --gold."
        for c in LITERATURE
        if not c.untestable and c.id not in of_claim
    }
    means = {id: _mean(list(found.values())) for id, found in of_claim.items()}
    return Board(
        Origin(
            command="python -m core.analyse claims --data DIR --gold FILE",
            corpus="multi30k, val",
            sentences=1014,
            gold="words.align",
            gold_sentences=150,
            weights=weights or dict.fromkeys(NETWORKS, "0" * 64),
            sources={"de-en": "1" * 64, "en-de": "2" * 64},
            version="1",
        ),
        of_claim,
        means,
        missing,
    )


def _mean(found: list[Estimate]) -> Estimate:
    numbers = [[e.value, e.low, e.high, e.null or 0] for e in found]
    *values, null = (sum(column) / len(found) for column in zip(*numbers, strict=True))
    return Estimate(*values, null or None)
