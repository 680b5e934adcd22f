"""Describes one head in sentences composed from an atlas, what is unknown included."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.components.atlas.measures import READING_WORDS, Measure
from app.look.numbers import number, percent
from core.atlas.atlas import READINGS, Atlas
from core.atlas.intervals import ALPHA
from core.atlas.labels import FLOOR, MARGIN, Label
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
    """A head whose joint ablation differs from the sum: `head` on axis N, nats and interval."""

    head: int
    value: float
    low: float
    high: float


def name(place: Place) -> str:
    """Return a head's short name, counted from 1: cross 1.3."""
    kind, layer, head = place
    return f"{kind} {layer + 1}.{head + 1}"


def interactions(atlas: Atlas, n: int) -> tuple[list[Interaction], list[Interaction]] | None:
    """Return the heads that cover for a head and those that it depends on, the largest first.

    Only those of its kind whose interval excludes 0. None if pairs were not measured.
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
        lambda n: _role(atlas, n, labelled[n]),
        lambda n: _effect(atlas, by_key, n),
        lambda n: _bleu(atlas, by_key, n),
        lambda n: _focus(by_key, n),
        lambda n: _alignment(atlas, by_key, n),
        lambda n: _pairs(atlas, n),
        lambda n: _missing(atlas, n),
    )
    return [[text for part in parts if (text := part(n))] for n in range(atlas.count)]


def _role(atlas: Atlas, n: int, found: Sequence[Label]) -> str:
    kind, layer, head = atlas.heads[n]
    place = layer * atlas.num_heads + head
    scores = atlas.arrays.get(f"role_{kind}")
    tested = 0 if scores is None else int(np.isfinite(scores[:, place]).all(-1).sum())
    roles = [label.role for label in found]
    if scores is None or not tested:
        return "Which role it has is unknown: no role was measured with an interval and its nulls."
    if not roles:
        which = f"none of the {tested} roles measured" if tested > 1 else "the one role measured"
        return (
            f"No role beyond chance: {which} certainly takes {percent(FLOOR)} of its attention and "
            f"{round(100 * MARGIN)} percentage points more than chance would."
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
        text += f"; by how far away it looks on average alone, {percent(profile)}"
    if len(roles) > 1:
        more = ", ".join(f"“{role}”" for role in roles[1:])
        text += f". Less far beyond chance: {more}"
    return f"{text}."


def _rows(atlas: Atlas, kind: Kind, role: int) -> str:
    """Say in which rows a role is measured."""
    rows = float(atlas.arrays[f"role_{kind}_rows"][role])
    return "all rows" if rows == 1 else f"the {percent(rows)} of rows that have such a key"


def _measured_on(atlas: Atlas, role: str) -> str:
    """Say what a role is measured on if it is not the corpus as it is, after a comma."""
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
    if math.isnan(low) or math.isnan(high):
        return (
            f"Removing it (zero ablation) changes the loss by {zero.text(value)} nats per token. "
            "What that says of other sentences is unknown: an interval needs at least two."
        )
    p = _p(atlas, "zero_p", n)
    interval = f"{zero.text(low)} to {zero.text(high)}"
    if zero.no_effect is not None and zero.no_effect[n]:
        text = (
            "Removing it (zero ablation) changes the loss by no amount that this corpus can tell "
            f"from 0: {zero.text(value)} nats per token, 95 % interval {interval}{p}."
        )
        if low > 0 or high < 0:
            text += (
                f" Its interval alone excludes 0, but of {atlas.count} intervals some do by chance."
            )
        return text
    rank, count = zero.rank(n)
    change = 1 - math.exp(-value)
    direction = "falls" if value > 0 else "rises"
    text = (
        f"Removing it (zero ablation) changes the loss by {zero.text(value)} nats per token "
        f"(95 % interval {interval}{p}): the probability of a target token {direction} by "
        f"{percent(abs(change))} on geometric average. {_ranked(rank, count)}"
    )
    mean = by_key.get("mean")
    if mean is not None and math.isfinite(mean.values[n, 0]):
        kept = "Replaced by its mean output instead of zeros, "
        if mean.no_effect is not None and mean.no_effect[n]:
            text += f" {kept}it changes the loss by no amount that can be told from 0."
        else:
            text += f" {kept}it changes the loss by {mean.text(float(mean.values[n, 0]))} nats."
    return text


def _ranked(rank: int, count: int) -> str:
    if rank == 1:
        return f"No other of the {count} heads is needed more."
    return f"{rank - 1} of {count} heads {'is' if rank == 2 else 'are'} needed more."


def _p(atlas: Atlas, array: str, n: int) -> str:
    """Describe a p-value inside parentheses or after an interval, or nothing."""
    if (values := atlas.arrays.get(array)) is None or math.isnan(p := float(values[n])):
        return ""
    text = "p < 0.001" if p < 0.001 else f"p = {number(p, 3 if p < ALPHA else 2)}"
    return f"; {text} after Holm's correction for {atlas.count} heads"


def _bleu(atlas: Atlas, by_key: Mapping[str, Measure], n: int) -> str:
    bleu = by_key.get("bleu")
    if bleu is None or not math.isfinite(bleu.values[n, 0]):
        return ""
    value, low, high = (bleu.text(v) for v in bleu.values[n])
    own = atlas.arrays.get("bleu")
    of = f", from {number(float(own[0]), 1)}" if own is not None else ""
    if bleu.no_effect is not None and bleu.no_effect[n]:
        return (
            "BLEU of the translations changes by no amount that can be told from 0: "
            f"{value} points ({low} to {high}){of}."
        )
    return f"BLEU of the translations changes by {value} points ({low} to {high}){of}."


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
    _, best = min(candidates, key=lambda pair: pair[0])
    _, reading, quantity = best.key.split("-")
    text = (
        f"As a word aligner it errs least, {best.full_text(n)}, with its {quantity} read in "
        f"{READING_WORDS[reading]}"
    )
    opposite = READINGS[1 - READINGS.index(reading)]
    if (other := by_key.get(f"aer-{opposite}-{quantity}")) is not None:
        text += f"; in {READING_WORDS[opposite]} it is {other.text(other.values[n, 0])}"
    nulls = [
        f"{percent(float(atlas.arrays[array][0]))} for {what}"
        for array, what in (
            ("aer_diagonal", "the plain diagonal"),
            ("aer_random", "a head drawn at random"),
        )
        if array in atlas.arrays
    ]
    return f"{text}. The error is {' and '.join(nulls)}." if nulls else f"{text}."


def _pairs(atlas: Atlas, n: int) -> str:
    both = interactions(atlas, n)
    if both is None:
        return ""
    covers, needs = both
    if not covers and not needs:
        return (
            "No other head of its kind is known to cover for it or to depend on it: removing both "
            "changes the loss by no more or less than the sum, as far as the sample tells."
        )
    texts = []
    if covers:
        first = name(atlas.heads[covers[0].head])
        texts.append(f"{_heads(len(covers), 'covers', 'cover')} for it, {first} most")
    if needs:
        first = name(atlas.heads[needs[0].head])
        texts.append(f"{_heads(len(needs), 'depends', 'depend')} on it or it on them, {first} most")
    return f"Of its kind, {'; '.join(texts)}."


def _heads(count: int, one: str, many: str) -> str:
    return f"{count} head {one}" if count == 1 else f"{count} heads {many}"


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
