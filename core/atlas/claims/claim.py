"""A published claim, estimates of its statistic on networks, and the rule that decides it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from core.atlas.claims.quoted import Quote

Unit = Literal[
    "share", "points", "BLEU", "layers", "heads", "correlation", "ratio", "AUROC", "nats"
]
"""Shares are 0..1 and shown in percent; points are differences of shares."""
Verdict = Literal["holds", "does not hold", "differs between networks", "cannot be decided here"]
HOLDS: Verdict = "holds"
FAILS: Verdict = "does not hold"
DIFFERS: Verdict = "differs between networks"
OPEN: Verdict = "cannot be decided here"
_MOST_TIMES = 100
"""Above this multiple of the sentences, the exact one is not worth stating."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim about attention heads of translation networks, and how it is tested here.

    - claim: the claim in one sentence
    - see: a link, relative to the app, to the page about the subject
    - quote: the paper's result in words, with its source
    - published: the paper's number in `unit`, or both ends of its range; empty if it reports none
    - quantity, ours: a short name and a full description of the statistic that is measured here
    - threshold, above: the claim says that the statistic is above the threshold, or below it if
      `above` is false
    - of_pairs: whether the statistic compares both networks of a direction
    - null: the assumption behind the chance value, such as "uniform attention"; "" if there is no
      chance value
    - limits: why a result on the other side of the threshold would not refute the claim; "" if it
      would
    - other_test: a difference from the paper's test because of which no result here decides the
      claim; "" if there is none
    - untestable: why nothing here can test the claim; "" if something can
    - decided_by: what would decide the claim if nothing here does, such as "gates that are trained
      to remove heads"; "" if more sentences would
    """

    id: str
    family: str
    claim: str
    quote: Quote
    quantity: str
    ours: str
    see: str
    unit: Unit = "share"
    threshold: float = 0.0
    above: bool = True
    published: tuple[float, ...] = ()
    limits: str = ""
    other_test: str = ""
    null: str = ""
    untestable: str = ""
    decided_by: str = ""
    of_pairs: bool = False

    @property
    def source(self) -> str:
        """The paper."""
        return self.quote.source

    @property
    def theirs(self) -> str:
        """The paper's result in words."""
        return str(self.quote)


@dataclass(frozen=True)
class Estimate:
    """A statistic, the bounds of its 95 % interval, and its chance value (`null`), if there is one.

    Raises ValueError unless all numbers are finite and `low` is at most `high`.
    """

    value: float
    low: float
    high: float
    null: float | None = None

    def __post_init__(self) -> None:
        numbers = (self.value, self.low, self.high, self.null or 0.0)
        if not all(map(math.isfinite, numbers)) or self.low > self.high:
            raise ValueError(f"{numbers} is not an estimate with the bounds of its interval")


def decide(
    claim: Claim,
    estimates: Mapping[str, Estimate],
    missing: str = "",
    networks: int = 0,
    mean: Estimate | None = None,
) -> tuple[Verdict, str]:
    """Return the verdict on a claim and the reason for it, from its estimates by network.

    The claim holds if in every network the whole interval lies on the claimed side of the
    threshold, and does not hold if in every network it lies on the other side. If some intervals
    include the threshold, that of the `mean` over all networks decides, unless a network's lies on
    the opposite side. It differs between networks if it lies on the claimed side in at least one
    and on the other side in at least one, whatever the rest: these intervals do not overlap. In all
    other cases, and for every claim that has an `other_test` or is `untestable`, it cannot be
    decided here. If a claim has `limits`, the other side decides nothing.

    `missing` says what was missing if there are no estimates; `networks` is the number of networks
    on the board, if some have no estimate. The reason of an open claim ends with what would decide
    it.
    """
    if claim.untestable or not estimates:
        reason = claim.untestable or missing or "It was not measured."
        return OPEN, f"{reason} {_sentence(claim.decided_by)}".rstrip()
    above, below, around = _sides(claim, estimates)
    threshold = amount(claim.threshold, claim.unit)
    if claim.of_pairs:
        where = everywhere(len(estimates), "direction")
    else:
        where = everywhere(len(estimates), "network", networks)
    claimed, other = (above, below) if claim.above else (below, above)
    one_sided = len(estimates) in (len(above), len(below))
    pooled = _pooled(claim, estimates, mean)
    if one_sided:
        reason = f"{where} the interval lies {'above' if above else 'below'} {threshold}."
    else:
        parts = [
            f"{side} {threshold} in {', '.join(names)}"
            for side, names in (("lies above", above), ("lies below", below), ("includes", around))
            if names
        ]
        reason = f"The interval {'; it '.join(parts)}."
        if pooled:
            every = "both" if len(estimates) == 2 else f"all {len(estimates)}"
            reason += f" The mean of {every} lies {pooled}; none contradicts it."
    against = other or (pooled and pooled != ("above" if claim.above else "below"))
    doubt = claim.other_test or (claim.limits if against else "")
    if not doubt and (one_sided or pooled):
        return (FAILS if against else HOLDS), reason
    if not doubt and claimed and other:
        noun = "direction" if claim.of_pairs else "network"
        return DIFFERS, f"The claim depends on the {noun}: it {_split(claim, estimates)}. {reason}"
    would = would_decide(claim, estimates)
    return OPEN, " ".join(filter(None, (reason, doubt, _sentence(would))))


def _pooled(claim: Claim, estimates: Mapping[str, Estimate], mean: Estimate | None) -> str:
    """Return the side of the threshold on which the mean lies, if no network contradicts it."""
    above, below, around = _sides(claim, estimates)
    if mean is None or not around:
        return ""
    if mean.low > claim.threshold and not below:
        return "above"
    return "below" if mean.high < claim.threshold and not above else ""


def _split(claim: Claim, estimates: Mapping[str, Estimate]) -> str:
    """Return "holds in 3 of 6, not in 2", and how many networks say neither."""
    above, below, around = map(len, _sides(claim, estimates))
    claimed, other = (above, below) if claim.above else (below, above)
    said = f"holds in {claimed} of {len(estimates)}, not in {other}"
    return f"{said}, undecided in {around}" if around else said


def _sides(claim: Claim, estimates: Mapping[str, Estimate]) -> tuple[list[str], ...]:
    """Return the networks whose interval lies above the threshold, below it, and around it."""
    above = [name for name, e in estimates.items() if e.low > claim.threshold]
    below = [name for name, e in estimates.items() if e.high < claim.threshold]
    around = [name for name in estimates if name not in above and name not in below]
    return above, below, around


def would_decide(claim: Claim, estimates: Mapping[str, Estimate]) -> str:
    """Return what would decide an open claim: `decided_by`, or about how many more sentences.

    An interval is about as wide as 1/√n for n sentences. With enough of them, all intervals that
    include the threshold would lie on one side of it, if their values stayed the same.
    """
    if claim.decided_by or not estimates:
        return claim.decided_by
    times = 1.0
    for name in _sides(claim, estimates)[2]:
        one = estimates[name]
        distance = claim.threshold - one.value
        width = (one.high if distance > 0 else one.low) - one.value
        times = max(times, (width / distance) ** 2 if distance else math.inf)
    if times > _MOST_TIMES:
        return f"more than {_MOST_TIMES} times as many sentences"
    return f"about {math.ceil(10 * times) / 10:g} times as many sentences"


def _sentence(would: str) -> str:
    return f"{would[0].upper()}{would[1:]} would decide it." if would else ""


def in_brief(
    claim: Claim,
    estimates: Mapping[str, Estimate],
    networks: int = 0,
    mean: Estimate | None = None,
) -> str:
    """Return the reason of `decide` in a few words: on which side the intervals lie, and a doubt.

    A doubt is what keeps a result from deciding the claim: `other_test`, or `limits` if intervals
    lie on the other side.
    """
    if claim.untestable or not estimates:
        needs = f"; needs {claim.decided_by}" if claim.decided_by else ""
        return ("nothing here tests it" if claim.untestable else "not measured") + needs
    verdict, _ = decide(claim, estimates, mean=mean)
    sides = dict(zip(("above", "below", "around"), _sides(claim, estimates), strict=True))
    found = [(side, len(names)) for side, names in sides.items() if names]
    every = f"all {len(estimates)} " if len(estimates) > 1 else ""
    if len(estimates) < networks and not claim.of_pairs:
        every += f"tested (of {networks}) "
    threshold = amount(claim.threshold, claim.unit)
    if verdict == DIFFERS:
        return _split(claim, estimates)
    if len(found) == 1:
        said = f"{every}{found[0][0]} {threshold}"
    else:
        (first, count), *rest = found
        said = ", ".join((f"{count} {first} {threshold}", *(f"{n} {side}" for side, n in rest)))
    if verdict != OPEN:
        pooled = _pooled(claim, estimates, mean)
        return f"{said}; mean {pooled}" if pooled else said
    other_side = "below" if claim.above else "above"
    if claim.other_test or (claim.limits and sides[other_side]):
        said += ", but the paper tests it differently"
    return f"{said}; needs {would_decide(claim, estimates)}"


def everywhere(count: int, noun: str, of: int = 0) -> str:
    """Return "In the network", "In both networks" or, for instance, "In all 4 networks".

    If there are more, it is "In all networks tested (4 of 6)".
    """
    return (
        f"In all {noun}s tested ({count} of {of})"
        if count < of
        else f"In the {noun}"
        if count == 1
        else f"In both {noun}s"
        if count == 2
        else f"In all {count} {noun}s"
    )


def amount(value: float, unit: Unit) -> str:
    """Format a threshold with its unit: "50 %", "0 points", "0.25 BLEU"."""
    if unit in ("share", "points"):
        return f"{100 * value:.4g} {'%' if unit == 'share' else 'points'}"
    name = {"correlation": "", "ratio": "", "AUROC": ""}.get(unit, f" {unit}")
    return f"{value:.4g}{name}".replace("-", "−")
