"""Questions about a sentence whose right answers follow from its measured numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from core.analysis.head_effects import HeadEffects
from core.frozen import Bools, Doubles, Floats
from core.record.record import RecordToken, TranslationRecord
from core.record.words import group_words, is_punctuation

LEAST_SHARE = 0.3
"""Attention: the largest share of a row must be at least this."""
NEAR_SHARE = 0.05
"""Attention: words whose shares are within this of the largest share also count as right."""
LEAST_NATS = 0.1
"""Ablation: the largest change of a log-probability must be at least this."""
NEAR_NATS = 0.05
"""Ablation: heads whose effects are within this of the largest effect also count as right."""
LEAST_RESTORED = 0.1
"""Copied heads: the largest share of the logit difference must be at least this."""
NEAR_RESTORED = 0.02
"""Copied heads: heads whose shares are within this of the largest share also count as right."""
NEAR_SCORE = 0.01
"""Search: hypotheses whose scores are within this of the best score also count as right."""
MOST_CELLS = 6
"""A grid of cells has at most this many rows and at most this many columns."""
NEAR_MEAN = 0.005
"""Masks: mean probabilities that differ by at most this count as equal."""
MOST_PRODUCTS = 5
"""Scores: of a dot product's terms, this many of the largest are options."""
NEAR_PRODUCT = 0.05
"""Scores: terms within this share of the largest term also count as right."""
LEAST_POINTS, MOST_POINTS = 1.5, 15.0
"""Softmax: the largest score of a row must exceed the next one by at least and at most this."""
ORDERS = ("same", "reordered", "other")
"""Outcomes for a translation: the same words, the same words in another order, other words."""


@dataclass(frozen=True)
class Question:
    """A question that is answered by one right option or, with `every`, by all right options.

    `options` are words as positions of their tokens, heads as (kind, layer, head), cells as (query,
    key), indices of hypotheses, or names of outcomes such as `ORDERS`. `evidence` has one number
    per option. `correct` holds the indices of the right options, and `near` the indices of
    near-ties, which also count as right. All positions and indices are counted from 0.

    Raises ValueError unless there is one number per option and at least one right option. Near-ties
    must not be right options, and cannot be combined with `every`.
    """

    name: str
    options: tuple[Hashable, ...]
    correct: frozenset[int]
    evidence: tuple[float, ...]
    near: frozenset[int] = frozenset()
    every: bool = False

    def __post_init__(self) -> None:
        if len(self.evidence) != len(self.options):
            raise ValueError(
                f"{len(self.options)} options and {len(self.evidence)} numbers of evidence: give "
                "one for each option"
            )
        if not self.correct or not self.correct | self.near <= set(range(len(self.options))):
            raise ValueError("the right answers must be options, and at least one must be right")
        if self.correct & self.near or (self.near and self.every):
            raise ValueError("near-ties cannot be right options too, or be combined with `every`")

    @property
    def best(self) -> int:
        """The index of the right option; with `every`, of the first right one."""
        return min(self.correct)


class Unsettled(ValueError):  # noqa: N818 (not an error: the numbers give no clear answer)
    """Raised when the numbers settle no answer; the question must then not be asked.

    `numbers` are the numbers behind the `reason`, which is one of these:

    - few: there are too few options or words, or the cells are all masked or all unmasked
    - small: the largest number is below its minimum
    - large: it is above its maximum
    - tied: more than half of the options are within the margin
    - alike: only punctuation or capitals differ
    """

    def __init__(self, reason: str, **numbers: float) -> None:
        listed = ", ".join(f"{name} {value:g}" for name, value in numbers.items())
        super().__init__(f"{reason}: {listed}" if listed else reason)
        self.reason = reason
        self.numbers = numbers


def attends(record: TranslationRecord, kind: str, layer: int, head: int, query: int) -> Question:
    """Ask which word a row of a head attends to most.

    The options are the words with an unmasked key, including special tokens and punctuation. Each
    is given as its unmasked tokens, and its share of the row is the sum of their weights. Raises
    Unsettled; see `LEAST_SHARE` and `NEAR_SHARE`.
    """
    tokens = record.target_in if kind == "decoder" else record.source
    unmasked_K = record.mask(kind)[query]
    words = tuple(
        kept for word in group_words(tokens) if (kept := tuple(i for i in word if unmasked_K[i]))
    )
    row_K = record.maps(kind)[layer, head, query].astype(np.float64)
    shares = [float(row_K[list(word)].sum()) for word in words]
    return _largest("attends", words, shares, shares, LEAST_SHARE, NEAR_SHARE)


def weighs(scores_K: Doubles) -> Question:
    """Ask how many times as much weight the largest of a row's scores gets as the next one.

    The options are functions of the difference d of the two scores, by name: "plain" (d), "square"
    (d²), "exponential" (e to the power of d, which is right) and "power" (10 to the power of d).
    The evidence is their value. Raises Unsettled; see `LEAST_POINTS` and `MOST_POINTS`.
    """
    scores = np.sort(scores_K[np.isfinite(scores_K)])
    if len(scores) < 2:
        raise Unsettled("few", options=len(scores))
    points = float(scores[-1] - scores[-2])
    if points < LEAST_POINTS:
        raise Unsettled("small", largest=points, least=LEAST_POINTS)
    if points > MOST_POINTS:
        raise Unsettled("large", largest=points)
    factors = (points, points**2, float(np.exp(points)), 10.0**points)
    return Question("weighs", ("plain", "square", "exponential", "power"), frozenset({2}), factors)


def contributes(products_E: Doubles) -> Question:
    """Ask which term of a dot product adds most to it.

    The options are the dimensions of the `MOST_PRODUCTS` terms of largest size, in order; the
    evidence is the signed term. Raises Unsettled if no term adds anything; see `NEAR_PRODUCT`.
    """
    largest = np.argsort(-np.abs(products_E), kind="stable")[:MOST_PRODUCTS]
    options = tuple(sorted(largest.tolist()))
    terms = products_E[list(options)].tolist()
    least = np.finfo(float).tiny
    return _largest("contributes", options, terms, terms, least, NEAR_PRODUCT * max(terms))


def matters(effects: HeadEffects, kind: str, tokens: Sequence[int]) -> Question:
    """Ask which head of a kind changes a word's log-probability most when it is zero-ablated.

    `tokens` are the word's target tokens, whose changes are added. The evidence is the signed
    change in nats. Raises Unsettled (see `LEAST_NATS` and `NEAR_NATS`), and ValueError if a head
    has not been ablated yet.
    """
    change_LH = effects.changes[kind][..., list(tokens)].sum(-1)
    if np.isnan(change_LH).any():
        raise ValueError(f"not every {kind} head has been ablated yet")
    heads = tuple((kind, *at) for at in np.ndindex(change_LH.shape))
    changes = change_LH.ravel().tolist()
    return _largest("matters", heads, np.abs(changes).tolist(), changes, LEAST_NATS, NEAR_NATS)


def fetches(shares_LH: Doubles) -> Question:
    """Ask which cross-attention head, copied alone from another sentence's pass, restores most.

    `shares_LH` [layer, head] are shares of the logit difference, NaN if they are not defined. The
    evidence is the signed share. Raises Unsettled; see `LEAST_RESTORED` and `NEAR_RESTORED`.
    """
    heads = tuple(("cross", *at) for at in np.ndindex(shares_LH.shape))
    shares = shares_LH.ravel().tolist()
    return _largest("fetches", heads, shares, shares, LEAST_RESTORED, NEAR_RESTORED)


def masked(mask_QK: Bools, queries: range, keys: range, maps: Floats | None = None) -> Question:
    """Ask which of the cells at `queries` and `keys` a mask forbids.

    In `mask_QK`, True = may attend. The evidence is the largest weight that any head gives the
    cell, from `maps` [layer, head, query, key]. Without maps, it is 1 for an unmasked cell and 0
    for a masked one.

    Raises Unsettled if all or none of these cells are masked, and ValueError for more than
    `MOST_CELLS` rows or columns.
    """
    if max(len(queries), len(keys)) > MOST_CELLS:
        raise ValueError(
            f"{len(queries)} × {len(keys)} cells are too many: the limit is {MOST_CELLS} rows and "
            f"{MOST_CELLS} columns"
        )
    part = np.ix_(queries, keys)
    unmasked = np.asarray(mask_QK, bool)[part]
    shown = unmasked.astype(float) if maps is None else maps.max((0, 1))[part]
    if unmasked.all() or not unmasked.any():
        raise Unsettled("few", options=int((~unmasked).sum()))
    return Question(
        "masked",
        tuple((query, key) for query in queries for key in keys),
        frozenset(np.flatnonzero(~unmasked.ravel()).tolist()),
        tuple(float(value) for value in shown.ravel()),
        every=True,
    )


def order(before: Sequence[RecordToken], after: Sequence[RecordToken]) -> Question:
    """Ask what happens to a translation whose target tokens change from `before` to `after`.

    Words are compared without capitals and punctuation. The evidence for "same" is the share of
    places with the same word. For "reordered", it is the share of words that both translations
    have; for "other", the share of the remaining words. Shares are relative to the longer
    translation.

    Raises Unsettled if `before` has fewer than two words or only punctuation or capitals differ.
    """
    old, new = (compared_words(tokens) for tokens in (before, after))
    if len(old) < 2:
        raise Unsettled("few", options=len(old))
    longer = max(len(old), len(new))
    kept = sum(a == b for a, b in zip(old, new, strict=False)) / longer
    common = (Counter(old) & Counter(new)).total() / longer
    texts = [[token.text for token in tokens] for tokens in (before, after)]
    if old == new and texts[0] != texts[1]:
        raise Unsettled("alike")
    outcome = 0 if old == new else 1 if common == 1 else 2
    return Question("order", ORDERS, frozenset({outcome}), (kept, common, 1 - common))


def leak(before: Floats, after: Floats) -> Question:
    """Ask whether the mean probability of a translation's tokens rises or falls.

    `before` and `after` are probabilities [token], for instance with and without the causal mask.
    The options are "rise", "same" and "fall"; the evidence is the change in each direction.
    """
    change = float(np.mean(after) - np.mean(before))
    outcome = 1 if abs(change) <= NEAR_MEAN else 0 if change > 0 else 2
    evidence = (max(change, 0.0), 0.0, max(-change, 0.0))
    return Question("leak", ("rise", "same", "fall"), frozenset({outcome}), evidence)


def compared_words(tokens: Sequence[RecordToken]) -> list[str]:
    """Return the words of a sentence in lower case, without punctuation and special tokens."""
    return [
        "".join(tokens[i].text for i in word).casefold()
        for word in group_words(tokens)
        if not (tokens[word[0]].special or is_punctuation(tokens[word[0]].text))
    ]


def wins(texts: Sequence[str], scores: Sequence[float], seed: str) -> Question:
    """Ask which finished hypothesis of a search wins, that is, has the highest score.

    The options are indices into `texts`, in an order that `seed` determines. Of hypotheses with
    the same text, only the best one is an option. Raises Unsettled; see `NEAR_SCORE`.
    """
    best: dict[str, int] = {}
    for index, text in enumerate(texts):
        if text not in best or scores[index] > scores[best[text]]:
            best[text] = index

    def place(index: int) -> bytes:
        return sha256(f"{seed} {texts[index]}".encode("utf-8", "replace")).digest()

    options = tuple(sorted(best.values(), key=place))
    values = [float(scores[index]) for index in options]
    return _largest("wins", options, values, values, -np.inf, NEAR_SCORE)


def _largest(
    name: str,
    options: tuple[Hashable, ...],
    sizes: Sequence[float],
    evidence: Sequence[float],
    least: float,
    margin: float,
) -> Question:
    """Ask which option has the largest size; options within `margin` of it are near-ties."""
    if len(options) < 2:
        raise Unsettled("few", options=len(options))
    largest = max(sizes)
    if not largest >= least:
        raise Unsettled("small", largest=largest, least=least)
    best = sizes.index(largest)
    near = {i for i, size in enumerate(sizes) if i != best and largest - size <= margin}
    if 1 + len(near) > len(options) / 2:
        raise Unsettled("tied", near=1 + len(near), options=len(options), margin=margin)
    return Question(name, options, frozenset({best}), tuple(evidence), frozenset(near))
