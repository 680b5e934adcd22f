"""Measure the statistics of all claims on some networks, and decide the claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from core.atlas.claims.alignment import alignment
from core.atlas.claims.attention import attention
from core.atlas.claims.board import Board, Origin
from core.atlas.claims.claim import Claim, Estimate
from core.atlas.claims.importance import importance
from core.atlas.claims.literature import ALIGNMENT, LITERATURE
from core.atlas.claims.network import Network
from core.atlas.claims.pruning import pruning
from core.atlas.claims.sources import sources
from core.atlas.claims.statistic import SmallestDifference, Statistic, mean_of

Measured = Mapping[str, Statistic | SmallestDifference]
_MEASURES: tuple[Callable[[Network], Measured], ...] = (
    attention,
    alignment,
    sources,
    importance,
    pruning,
)
_PARTS = (2, 1, 7, 30, 60)  # parts of the work in each measure, about proportional to its time
PARTS = sum(_PARTS)


def measure_board(
    networks: Sequence[Network],
    corpus: str,
    gold: str,
    command: str,
    on_progress: Callable[[int], object] = lambda parts: None,
) -> Board:
    """Measure every claim on every network.

    `on_progress` is called with the number of newly finished parts of the work. Each network has
    PARTS parts.
    """
    from core import __version__

    found: dict[str, dict[str, Statistic | SmallestDifference]] = {}
    pairs = {claim.id for claim in LITERATURE if claim.of_pairs}
    for network in networks:
        for part, measure in zip(_PARTS, _MEASURES, strict=True):
            for id, statistic in measure(network).items():
                name = network.checkpoint.card.direction if id in pairs else network.name
                found.setdefault(id, {})[name] = statistic
            on_progress(part)
    estimates: dict[str, dict[str, Estimate]] = {}
    means: dict[str, Estimate] = {}
    for id, of_network in found.items():
        known = {name: e for name, s in of_network.items() if (e := s.estimate) is not None}
        if known:
            estimates[id] = known
        complete = len(known) == sum(id not in pairs or n.other is not None for n in networks)
        if complete and (mean := mean_of(list(of_network.values()))):
            means[id] = mean
    aligned = networks[0].gold
    return Board(
        Origin(
            command=command,
            corpus=corpus,
            sentences=len(networks[0].text.sentences),
            gold=gold,
            gold_sentences=0 if aligned is None else len(aligned.sentences),
            weights={n.name: n.checkpoint.card.weights_sha256 for n in networks},
            sources={n.checkpoint.card.direction: n.text.source_sha256 for n in networks},
            version=__version__,
        ),
        estimates,
        means,
        {
            claim.id: _reason(claim, gold, networks)
            for claim in LITERATURE
            if claim.id not in estimates and not claim.untestable
        },
    )


def _reason(claim: Claim, gold: str, networks: Sequence[Network]) -> str:
    """Say why a claim has no estimate."""
    if claim.family == ALIGNMENT and not gold:
        return "It needs manual word alignments: pass them with --gold."
    if claim.of_pairs and all(network.other is None for network in networks):
        return "It compares the scratch network of a direction with the baseline: both are needed."
    return "The corpus has too few sentences for an interval."
