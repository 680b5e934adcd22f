"""Describes one head in sentences composed from an atlas, and says what is unknown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.components.atlas.measures import Measure, gold_name
from app.look.numbers import number, percent
from core.atlas.atlas import READINGS, Atlas
from core.atlas.intervals import ALPHA, LEVEL
from core.atlas.labels import FLOOR, MARGIN, ROWS, Label
from core.atlas.roles import GOLD_ROLES, ROLES
from core.kinds import Kind

_REORDERED = frozenset(role.name for role in ROLES if role.reordered)
_OF_GOLD = frozenset(role.name for role in GOLD_ROLES)

Place = tuple[Kind, int, int]
KIND_WORDS = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}


@dataclass(frozen=True)
class Interaction:
    """The interaction of a head with another one: their joint effect minus both single effects.

    `head` is the index of the other head on axis N; `value` and its interval are in nats per token.
    """

    head: int
    value: float
    low: float
    high: float

    @property
    def places(self) -> int:
        """Decimals, at least 3, so that the bound nearest to 0 is not printed as 0."""
        nearest = min(abs(self.low), abs(self.high))
        return next((p for p in range(3, 7) if round(nearest, p)), 7)


def name(place: Place) -> str:
    """Return a head's short name, counted from 1: cross 1.3."""
    kind, layer, head = place
    return f"{kind} {layer + 1}.{head + 1}"


def interactions(atlas: Atlas, n: int) -> tuple[list[Interaction], list[Interaction]] | None:
    """Return the heads of the same kind that interact with head `n`, or None if not measured.

    The first list has the heads that cover for it, whose interval is above 0. The second list has
    the heads without which it helps less or harms more, whose interval is below 0. Each list starts
    with the largest interaction.
    """
    kind = atlas.heads[n][0]
    if (pairs := atlas.arrays.get(f"pair_{kind}")) is None:
        return None
    start = atlas.span(kind).start
    others = [
        Interaction(start + m, *map(float, row))
        for m, row in enumerate(pairs[n - start])
        if m != n - start and np.isfinite(row).all()
    ]
    covers = sorted((o for o in others if o.low > 0), key=lambda o: -o.value)
    needs = sorted((o for o in others if o.high < 0), key=lambda o: o.value)
    return covers, needs


def stories(
    atlas: Atlas, found: Sequence[Measure], labelled: Sequence[Sequence[Label]]
) -> list[list[str]]:
    """Return a few sentences about each head, in the order of axis N."""
    by_key = {measure.key: measure for measure in found}
    parts: tuple[Callable[[int], str], ...] = (
        # Measured on one sentence, a role has no interval: the page says so once, on top.
        lambda n: "" if atlas.origin.sentences < 2 else _role(atlas, n, labelled[n]),
        lambda n: _effect(atlas, by_key, n),
        lambda n: _bleu(atlas, by_key, n),
        lambda n: _focus(by_key, n),
        lambda n: _alignment(atlas, by_key, n),
        lambda n: _pairs(atlas, n),
        lambda n: _missing(atlas, n),
    )
    return [[text for part in parts if (text := part(n))] for n in range(atlas.count)]


def headline(atlas: Atlas, found: Sequence[Measure]) -> str:
    """Say which head matters most: by loss and, if it was measured, by BLEU."""
    by_key = {measure.key: measure for measure in found}
    zero, bleu = by_key.get("zero"), by_key.get("bleu")
    if zero is None:
        return ""
    n = int(np.nanargmax(zero.values[:, 0]))
    ends = np.delete(zero.values[:, 2], n)
    alone = bool((zero.values[n, 1] > ends[np.isfinite(ends)]).all() and np.isfinite(ends).any())
    kind, layer, head = atlas.heads[n]
    one = f"head {layer + 1}.{head + 1} of the {KIND_WORDS[kind]}"
    text = (
        f"{one.capitalize()} matters most of {atlas.count}: without it"
        if alone
        else f"Of {atlas.count} heads, without {one} the loss rises most"
    )
    own = atlas.arrays.get("bleu")
    if bleu is not None and own is not None and math.isfinite(bleu.values[n, 0]):
        falls = "falls" if bleu.values[n, 0] < 0 else "rises"
        change = _short(bleu, n).lstrip("+−")
        text += f", BLEU {falls} by {change} (from {number(float(own[0]), 0)}), and"
    left = percent(math.exp(-float(zero.values[n, 0])))
    loses = f"a token loses {_short(zero, n)} nats: {left} of its probability is left"
    return f"{text}{',' * (text[-3:] != 'and')} {loses}."


def _short(measure: Measure, n: int) -> str:
    """Write a head's value and half its interval: 0.600 ± 0.037."""
    value, low, high = map(float, measure.values[n])
    sign = "" if value > 0 else "+"
    text = number(value, measure.places_of(n), sign)
    half = number((high - low) / 2, measure.places_of(n))
    return f"{text} ± {half}" if high > low else text


def _role(atlas: Atlas, n: int, found: Sequence[Label]) -> str:
    kind, layer, head = atlas.heads[n]
    place = layer * atlas.num_heads + head
    scores = atlas.arrays.get(f"role_{kind}")
    tested = 0
    if scores is not None:
        often = atlas.arrays[f"role_{kind}_rows"] >= ROWS
        tested = int((np.isfinite(scores[:, place]).all(-1) & often).sum())
    roles = [label.role for label in found]
    if scores is None or not tested:
        return (
            "Its role is unknown: no role was measured with an interval and nulls in at least "
            f"{percent(ROWS)} of the rows."
        )
    if not roles:
        return (
            f"No label: of the roles that can be measured in at least {percent(ROWS)} of its rows "
            f"({tested}), none has an interval whose lower end reaches {percent(FLOOR)} of the "
            f"attention and exceeds chance by more than {round(100 * MARGIN)} percentage points."
        )
    o = atlas.roles[kind].index(roles[0])
    score, low, high = map(float, scores[o, place])
    shuffled, profile = (
        float(atlas.arrays[f"role_{kind}_{null}"][o, place]) for null in ("shuffled", "profile")
    )
    random = float(atlas.arrays[f"role_{kind}_random"][o])
    text = (
        f"It has the role “{roles[0]}”: in {_rows(atlas, kind, o)}, "
        f"{percent(score)} of its attention goes there (95 % interval {percent(low)} to "
        f"{percent(high)}{_measured_on(atlas, roles[0])}). With its rows shuffled it would be "
        f"{percent(shuffled)}; among the heads of networks with random weights the highest is "
        f"{percent(random)}"
    )
    if math.isfinite(profile):
        text += f"; from its mean attention by distance alone, one would expect {percent(profile)}"
    if len(roles) > 1:
        more = ", ".join(f"“{role}”" for role in roles[1:])
        text += f". Also beyond chance, but by less: {more}"
    return f"{text}."


def _rows(atlas: Atlas, kind: Kind, role: int) -> str:
    """Say in which rows a role is measured."""
    rows = float(atlas.arrays[f"role_{kind}_rows"][role])
    return "all rows" if rows == 1 else f"the {percent(rows)} of rows that have such a key"


def _measured_on(atlas: Atlas, role: str) -> str:
    """Say, after a comma, what a role is measured on, unless it is the unchanged corpus."""
    if role in _REORDERED:
        return ", with the source words in random order"
    if role in _OF_GOLD and atlas.origin.gold:
        return f", on {atlas.origin.gold_sentences:,} manually aligned sentences"
    return ""


def _effect(atlas: Atlas, by_key: Mapping[str, Measure], n: int) -> str:
    zero = by_key.get("zero")
    if zero is None or not math.isfinite(zero.values[n, 0]):
        return ""
    value, low, high = map(float, zero.values[n])
    what = "Removing it (zero ablation) changes the loss by"
    if math.isnan(low) or math.isnan(high):
        return f"{what} {zero.text(value, n)} nats per token."
    if (unclear := _unclear(atlas, zero, "zero_p", n, "nats per token")) is not None:
        return f"{what} {unclear}"
    change = 1 - math.exp(-value)
    direction = "falls" if value > 0 else "rises"
    text = (
        f"{what} {_with_interval(atlas, zero, 'zero_p', n, 'nats per token')}: the probability of "
        f"a target token {direction} by {percent(abs(change))} (geometric mean). "
        f"{_needed_more(zero, n)}"
    )
    mean = by_key.get("mean")
    if mean is not None and math.isfinite(mean.values[n, 0]):
        kept = "Replacing its output by the mean instead of zeros"
        if mean.no_effect is not None and mean.no_effect[n]:
            text += f" {kept} changes the loss by an amount not distinguishable from 0."
        else:
            text += f" {kept} changes the loss by {mean.text(float(mean.values[n, 0]), n)} nats."
    return text


def _with_interval(atlas: Atlas, measure: Measure, p: str, n: int, unit: str) -> str:
    value, interval = measure.text(measure.values[n, 0], n), measure.interval_text(n)
    return f"{value} {unit} (95 % interval {interval}{_p(atlas, p, n)})"


def _unclear(atlas: Atlas, measure: Measure, p: str, n: int, unit: str) -> str | None:
    """Describe a change if it is not distinguishable from 0, else return None."""
    if measure.no_effect is None or not measure.no_effect[n]:
        return None
    change = _with_interval(atlas, measure, p, n, unit)
    text = f"an amount not distinguishable from 0: {change}."
    _, low, high = measure.values[n]
    if low > 0 or high < 0:
        text += f" Its interval alone excludes 0, but some of {atlas.count} intervals do by chance."
    return text


def _needed_more(measure: Measure, n: int) -> str:
    """Count the heads whose whole interval is above this head's: a rank alone would be a guess."""
    above = int((measure.values[:, 1] > measure.values[n, 2]).sum())
    count = len(measure.values)
    if not above:
        return f"No other of the {count} heads has an interval wholly above this head's."
    return (
        f"At least {above} of {count} heads {'is' if above == 1 else 'are'} needed more: "
        f"{'its' if above == 1 else 'their'} whole interval is above this head's."
    )


def _p(atlas: Atlas, array: str, n: int) -> str:
    """Return a p-value as text that follows an interval, or "" if there is none."""
    if (values := atlas.arrays.get(array)) is None or math.isnan(p := float(values[n])):
        return ""
    text = "p < 0.001" if p < 0.001 else f"p = {number(p, 3 if p < ALPHA else 2)}"
    return f"; {text} after Holm's correction for {atlas.count} heads"


def _bleu(atlas: Atlas, by_key: Mapping[str, Measure], n: int) -> str:
    bleu = by_key.get("bleu")
    if bleu is None or not math.isfinite(bleu.values[n, 0]):
        return ""
    own = atlas.arrays.get("bleu")
    of = f" of {number(float(own[0]), 1)}" if own is not None else ""
    what = f"BLEU{of} (greedy) changes by"
    if (unclear := _unclear(atlas, bleu, "bleu_zero_p", n, "points")) is not None:
        return f"{what} {unclear}"
    return f"{what} {_with_interval(atlas, bleu, 'bleu_zero_p', n, 'points')}."


def _focus(by_key: Mapping[str, Measure], n: int) -> str:
    largest, entropy = by_key["largest"].values[n, 0], by_key["entropy"].values[n, 0]
    if not (math.isfinite(largest) and math.isfinite(entropy)):
        return ""
    return (
        f"On average, its largest weight in a row is {percent(float(largest))}, and a row has "
        f"{percent(float(entropy))} of the entropy of an even spread."
    )


def _alignment(atlas: Atlas, by_key: Mapping[str, Measure], n: int) -> str:
    candidates = [
        (float(measure.values[n, 0]), measure)
        for key, measure in by_key.items()
        if key.startswith("aer-") and math.isfinite(measure.values[n, 0])
    ]
    if not candidates:
        return ""
    error, best = min(candidates, key=lambda pair: pair[0])
    _, reading, quantity = best.key.split("-")
    what = {
        "weights": "largest attention weight",
        "norms": "largest value norm (attention weight times the length of the projected value)",
    }[quantity]
    rows = {"input": "in the row that is fed the word", "output": "in the row that produces it"}
    text = (
        f"As a word aligner: if each target word is linked to the source word with the {what} "
        f"{rows[reading]}, the alignment error rate is {best.full_text(n)}, the lowest of four "
        "ways to read the head (either row, by weights or norms)"
    )
    opposite = READINGS[1 - READINGS.index(reading)]
    if (other := by_key.get(f"aer-{opposite}-{quantity}")) is not None:
        text += f"; {rows[opposite]}, it is {other.text(other.values[n, 0], n)}"
    text += "."
    if (diagonal := atlas.arrays.get("aer_diagonal")) is not None:
        text += f" The plain diagonal errs by {percent(float(diagonal[0]))}"
        text += ", less than this head" if error > diagonal[0] else ""
        text += f"; {AVERAGE_HEAD}, by {percent(average_error(atlas))}."
    if atlas.origin.gold:
        text += (
            f" Measured on {atlas.origin.gold_sentences:,} sentences with manual alignments "
            f"({gold_name(atlas.origin)}){_other_text(atlas)}."
        )
    return text


def _other_text(atlas: Atlas) -> str:
    """Name the atlas's corpus if the manual alignments are of another text, else return ""."""
    of = atlas.origin.gold.partition(" of ")[2]
    return f", not on {atlas.origin.corpus}" if of and of != atlas.origin.corpus else ""


AVERAGE_HEAD = "the average head of this network, read in the best of the four ways"


def average_error(atlas: Atlas) -> float:
    """Return the mean over cross-attention heads of each head's lowest alignment error.

    A head's story gives the best of its four readings, so the average is over best readings too.
    """
    lowest_LH = atlas.arrays["aer"][:, :, :-1, :-1, 0].min((0, 1))
    return float(lowest_LH.mean(dtype=float))


def _pairs(atlas: Atlas, n: int) -> str:
    both = interactions(atlas, n)
    if both is None:
        return ""
    covers, needs = both
    if not covers and not needs:
        return (
            "No other head of its kind is known to change how much it matters: no pair's "
            "joint change of the loss differs detectably from the sum of its two single changes."
        )
    texts = []
    if covers:
        texts.append(
            f"{name(atlas.heads[covers[0].head])} covers for it most: {_excess(covers[0])}"
        )
    if needs:
        other = name(atlas.heads[needs[0].head])
        texts.append(
            f"without {other} it helps less, or harms more, than without any other: "
            f"{_excess(needs[0])}"
        )
    span = atlas.span(atlas.heads[n][0])
    tested = span.stop - span.start - 1
    return (
        f"Among heads of its kind, {'; '.join(texts)}. Of {tested} pairs, about "
        f"{by_chance(tested)} would be listed by chance alone."
    )


def _excess(pair: Interaction) -> str:
    """Say how far the joint change of the loss is from the sum of the two single changes."""
    sign = 1 if pair.value > 0 else -1
    bounds = sorted(sign * v for v in (pair.low, pair.high))
    value, low, high = (number(v, pair.places) for v in (sign * pair.value, *bounds))
    return (
        f"removing both raises the loss by {value} nats per token "
        f"({low} to {high}) {'more' if sign > 0 else 'less'} than the two single changes add up to"
    )


def by_chance(tested: int) -> str:
    """Return how many of `tested` 95 % intervals exclude 0 by chance, on average."""
    return number((1 - LEVEL) * tested, 1)


def _missing(atlas: Atlas, n: int) -> str:
    """Name what this atlas did not measure for a head of this kind."""
    kind = atlas.heads[n][0]
    parts = {
        "mean": "mean ablation",
        "bleu_zero": "BLEU",
        f"pair_{kind}": "pairs of heads",
        f"prune_{kind}_order": "pruning",
        "similarity": "its counterpart",
    }
    if kind == "cross":
        parts["aer"] = "word alignment"
    lacking = [words for array, words in parts.items() if array not in atlas.arrays]
    return f"Not measured here: {', '.join(lacking)}." if lacking else ""
