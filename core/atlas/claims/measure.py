"""Measure the statistics of all claims on some networks, and decide the claims."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import FunctionType

from core.atlas.claims.alignment import alignment, alike
from core.atlas.claims.attention import attention
from core.atlas.claims.board import Board, Origin
from core.atlas.claims.claim import Claim
from core.atlas.claims.errors import errors
from core.atlas.claims.gender import gender
from core.atlas.claims.hallucinations import hallucinations
from core.atlas.claims.importance import importance
from core.atlas.claims.lens import lens
from core.atlas.claims.literature import ALIGNMENT, LITERATURE, STATES
from core.atlas.claims.network import Network
from core.atlas.claims.pruning import pruning
from core.atlas.claims.sinks import sinks
from core.atlas.claims.sources import ROLLOUT, faithfulness, rolled_out, shares
from core.atlas.claims.statistic import (
    VARIANT,
    SmallestDifference,
    Statistic,
    mean_of,
    mean_of_estimates,
)
from core.atlas.claims.training import training

Measured = Mapping[str, Statistic | SmallestDifference]
_OF_SHARES = ("source-share-falls", "source-share-at-eos")
_MEASURES: tuple[tuple[FunctionType, int, tuple[str, ...]], ...] = (
    (attention, 2, ("positional-heads", "rare-word-head", "eos-and-punctuation")),
    (
        alignment,
        1,
        (
            *("early-input-layer", "input-reading-better", "norms-align-better"),
            *("aligning-heads-exist", "aligning-heads-sparse", "aligning-heads-causal"),
            *("other-heads-idle", "penultimate-layer-aligns"),
        ),
    ),
    (alike, 1, ("aligning-heads-same",)),
    (shares, 3, _OF_SHARES),
    (rolled_out, 1, tuple(f"{id}{VARIANT}{ROLLOUT}" for id in _OF_SHARES)),
    (faithfulness, 6, ("value-zeroing-faithful", "attention-faithful")),
    (
        lens,
        3,
        (
            *("translated-in-embeddings", "translated-layer-by-layer"),
            *("first-decoder-layer", "jacobian-lens-better"),
        ),
    ),
    (
        errors,
        2,
        (
            *("errors-previous-token", "probability-tells-quality"),
            "attention-adds-to-probability",
        ),
    ),
    (hallucinations, 3, ("few-heads-hallucinate",)),
    (gender, 2, ("gender-by-few-words",)),
    (sinks, 1, ("sinks-exist", "sinks-are-empty")),
    (training, 1, ("role-by-a-jump",)),
    (importance, 30, ("few-heads-matter", "removal-helps", "same-heads-matter")),
    (
        pruning,
        60,
        (
            *("encoder-heads-removable", "half-of-all-heads", "removal-order", "fifth-free"),
            *("third-removable", "cross-collapses", "last-cross-layer"),
        ),
    ),
)
"""Measures, parts of the work in each, about proportional to its time, and its claims."""
_LACKS = {
    "few-heads-hallucinate": "The networks make up no text.",
    "gender-by-few-words": "No network here translates into German.",
    "sinks-are-empty": "No decoder head has a sink.",
    "role-by-a-jump": "The networks have no snapshots of their training.",
}
_GERMAN = {"gender-by-few-words"}
_OF_PAIRS = {claim.id for claim in LITERATURE if claim.of_pairs}
NAMES = tuple(measure.__name__ for measure, _, _ in _MEASURES)
PARTS = sum(parts for _, parts, _ in _MEASURES)


def measure_board(
    networks: Sequence[Network],
    corpus: str,
    gold: str,
    command: str,
    on_progress: Callable[[int], object] = lambda parts: None,
    known: Board | None = None,
    only: Collection[str] = NAMES,
) -> Board:
    """Measure every claim on every network, except where `known` has estimates.

    `only` names the measures that are used, by default all NAMES.
    The mean of a row with known estimates is that of all, see `mean_of_estimates`. Raises
    ValueError if `known` comes from other weights or texts.

    `on_progress` is called with the number of newly finished parts of the work. Each network has
    PARTS parts.
    """
    from core import __version__

    aligned = networks[0].gold
    origin = Origin(
        command=command,
        corpus=corpus,
        sentences=len(networks[0].text.sentences),
        gold=gold,
        gold_sentences=0 if aligned is None else len(aligned.sentences),
        weights={n.name: n.checkpoint.card.weights_sha256 for n in networks},
        sources={n.checkpoint.card.direction: n.text.source_sha256 for n in networks},
        version=__version__,
    )
    if known is not None:
        origin = _with(origin, known.origin)
    estimates = {} if known is None else {id: dict(of) for id, of in known.estimates.items()}
    means = {} if known is None else dict(known.means)
    variants = {} if known is None else {id: dict(of) for id, of in known.variants.items()}

    def known_on(network: Network, id: str) -> bool:
        claim, _, variant = id.partition(VARIANT)
        known = variants.get(claim, {}) if variant else estimates.get(id, {})
        return (variant or _name(network, id)) in known

    found: dict[str, dict[str, Statistic | SmallestDifference]] = {}
    for network in networks:
        for measure, part, ids in _MEASURES:
            new = [id for id in ids if _has(network, id) and not known_on(network, id)]
            statistics: Measured = measure(network) if new and measure.__name__ in only else {}
            for id in statistics.keys() & new:
                found.setdefault(id, {})[_name(network, id)] = statistics[id]
            on_progress(part)
    for id, of_network in found.items():
        old = estimates.get(id, {})
        new = {name: e for name, s in of_network.items() if (e := s.estimate) is not None}
        has = {**old, **new}
        tested = {_name(network, id) for network in networks if _has(network, id)}
        mean = None
        if has and tested <= has.keys():
            mean = mean_of_estimates(has.values()) if old else mean_of(list(of_network.values()))
        claim, _, variant = id.partition(VARIANT)
        if variant:
            variants.setdefault(claim, {}).update({variant: mean} if mean else {})
            continue
        estimates |= {id: has} if has else {}
        means.pop(id, None)
        means |= {id: mean} if mean else {}
    return Board(
        origin,
        estimates,
        means,
        {
            claim.id: _reason(claim, gold, networks)
            for claim in LITERATURE
            if claim.id not in estimates and not claim.untestable
        },
        variants,
    )


def _has(network: Network, id: str) -> bool:
    """Return whether a claim is measured on a network: on the first of a pair, or on its output."""
    if id in _GERMAN:
        return network.checkpoint.card.target_language == "de"
    return network.other is not None or id not in _OF_PAIRS


def _name(network: Network, id: str) -> str:
    """Return the name that a claim's estimate on a network has: its own or its direction's."""
    return network.checkpoint.card.direction if id in _OF_PAIRS else network.name


def _with(origin: Origin, known: Origin) -> Origin:
    """Return an origin with the weights of both. Raises ValueError if they differ in a text."""
    weights = {**known.weights, **origin.weights}
    sources = {**known.sources, **origin.sources}
    both = {**vars(known), "weights": weights, "sources": sources}
    same = ("corpus", "sentences", "gold", "gold_sentences")
    if any(both[name] != getattr(origin, name) for name in same):
        raise ValueError("the known rows were measured on other texts")
    for name, own in (("weights", weights), ("sources", sources)):
        if not own.items() >= getattr(known, name).items():
            raise ValueError(f"the known rows were measured with other {name}")
    return replace(origin, weights=weights, sources=sources)


def _reason(claim: Claim, gold: str, networks: Sequence[Network]) -> str:
    """Say why a claim has no estimate."""
    if claim.family == ALIGNMENT and not gold:
        return "It needs manual word alignments: pass them with --gold."
    if claim.family == STATES:
        return "It needs the networks' lenses: write them with `python -m core.analyse lens`."
    if claim.id in _LACKS:
        return _LACKS[claim.id]
    if claim.of_pairs and all(network.other is None for network in networks):
        return "It compares the scratch network of a direction with the baseline: both are needed."
    return "The corpus has too few sentences for an interval."
