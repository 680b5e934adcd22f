"""Where a target token came from: scores of source words, their Shapley values, and how both agree.

Axes: T target token, n source words, N subsets of them, M orders of them, R resamples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.frozen import Frozen
from core.record.record import RecordToken
from core.record.words import Words, group_words

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]

MAX_LIVE = 10
"""Words of which all subsets are asked without being told to: 1,024."""
MAX_EXACT = 12
"""Words of which all subsets are asked at most: 4,096."""


def source_words(tokens: Sequence[RecordToken]) -> Words:
    """Return the words of `group_words` that are not special tokens."""
    return tuple(word for word in group_words(tokens) if not tokens[word[0]].special)


@dataclass(frozen=True, eq=False)
class Attributions(Frozen):
    """What each method says of each source word, for each target token; read-only.

    `scores` by method [T, n], float64: more speaks for "it came from there". The methods' units
    differ, so only ranks compare. `target` are the ids that T stands for.
    """

    words: Words
    target: tuple[int, ...]
    scores: Mapping[str, Doubles]

    def __post_init__(self) -> None:
        super().__post_init__()
        for method, score in self.scores.items():
            if score.shape != (len(self.target), len(self.words)):
                raise ValueError(f"scores of {method} are {score.shape}, not [target, words]")


@dataclass(frozen=True, eq=False)
class Shapley(Frozen):
    """Each source word's share of log P(target token), in nats; float64, read-only.

    `values` [T, n] are what a word adds to log P on the average over all orders in which the words
    become visible (Shapley 1953). For each token they sum to `everything` − `nothing` [T]: its
    log-probability with all words visible minus that with none. `low` and `high` [T, n] are the
    95 % interval of sampled values (Student's t); of exact ones both are the value itself.
    `subsets` were asked; `permutations` were drawn, 0 for exact values. `draws` [M / 2, T, n] are
    the sampled gains whose mean the values are, one for each order with its reverse; exact values
    have none.

    The interval needs enough orders. Measured on captions of 8 to 10 words, it holds the exact
    value in 91, 93, 93 and 95 of 100 cases with 8, 16, 32 and 64 orders.
    """

    words: Words
    target: tuple[int, ...]
    values: Doubles
    low: Doubles
    high: Doubles
    everything: Doubles
    nothing: Doubles
    subsets: int
    permutations: int
    draws: Doubles | None = None

    def __post_init__(self) -> None:
        draws = np.empty((0, *self.values.shape)) if self.draws is None else self.draws
        if draws.shape[1:] != self.values.shape:
            raise ValueError(f"draws {draws.shape} are not [orders / 2, target, words]")
        object.__setattr__(self, "draws", draws)
        super().__post_init__()
        for name in ("values", "low", "high", "everything", "nothing"):
            array = getattr(self, name)
            lengths = len(self.target), len(self.words)
            if array.shape != lengths[: array.ndim]:
                raise ValueError(f"{name} {array.shape} is not {lengths[: array.ndim]}")

    @property
    def exact(self) -> bool:
        return not self.permutations

    @property
    def largest_error(self) -> float:
        """How far a token's values are from adding up to the difference, at most."""
        sums_T = self.values.sum(-1)
        return float(np.abs(sums_T - (self.everything - self.nothing)).max())


@dataclass(frozen=True, eq=False)
class Subsets(Frozen):
    """The subsets of source words that must be asked for Shapley values, and how to add them up.

    `visible` [N, n] says which words each shows. `orders` [M, n] are sampled orders in which the
    words become visible, each followed by its reverse, and `steps` [M, n + 1] the subsets on their
    way; all subsets need none.
    """

    words: Words
    visible: Bools
    orders: NDArray[np.int64] | None = None
    steps: NDArray[np.int64] | None = None

    @classmethod
    def every(cls, words: Words) -> Subsets:
        """All 2ⁿ. Raises ValueError for no word, and for more than `MAX_EXACT`."""
        n = _counted(words)
        if n > MAX_EXACT:
            raise ValueError(
                f"{n} source words are too many for exact values: the limit is {MAX_EXACT}, "
                "shorten the sentence or have them sampled"
            )
        return cls(words, (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool))

    @classmethod
    def sampled(cls, words: Words, permutations: int, seed: int) -> Subsets:
        """Those on the way of so many orders, the same for a seed; each order's reverse is one.

        Raises ValueError for no word, and unless `permutations` are even and 4 or more.
        """
        n = _counted(words)
        if permutations < 4 or permutations % 2:
            raise ValueError(
                f"{permutations} permutations cannot be drawn: take an even number, at least 4"
            )
        chance = np.random.default_rng(seed)
        drawn = [chance.permutation(n) for _ in range(permutations // 2)]
        orders = np.stack([order for one in drawn for order in (one, one[::-1])])
        becomes = orders.argsort(-1)  # when each word becomes visible
        way = becomes[:, None] < np.arange(n + 1)[:, None]
        visible, steps = np.unique(way.reshape(-1, n), axis=0, return_inverse=True)
        return cls(words, visible, orders, steps.reshape(permutations, n + 1))

    def shapley(self, values: Doubles, target: tuple[int, ...]) -> Shapley:
        """Shapley values from what each subset gives each target token, [N, T]."""
        n = len(self.words)
        sizes = self.visible.sum(-1)
        everything, nothing = values[sizes.argmax()], values[sizes.argmin()]
        if self.orders is None or self.steps is None:
            found = low = high = _exact(values, n)
            draws, count = None, 0
        else:
            draws, count = _draws(values, self.orders, self.steps), len(self.orders)
            found, margin = draws.mean(0), _margin(draws)
            low, high = found - margin, found + margin
        return Shapley(
            self.words, target, found, low, high, everything, nothing, len(values), count, draws
        )


def _counted(words: Words) -> int:
    if not words:
        raise ValueError("there is no source word to ask about: at least 1 is needed")
    return len(words)


def _exact(values_NT: Doubles, n: int) -> Doubles:
    """Σ_S |S|! (n − |S| − 1)! / n! · (v(S ∪ i) − v(S)) over the subsets S without i: [T, n]."""
    size = np.array([bin(subset).count("1") for subset in range(2**n)])
    weight = np.array([1 / (n * math.comb(n - 1, s)) for s in range(n)])
    found = []
    for i in range(n):
        without = np.flatnonzero(~np.arange(2**n) >> i & 1)
        gain = values_NT[without | 1 << i] - values_NT[without]
        found.append(weight[size[without]] @ gain)
    return np.stack(found, -1)


def _draws(values_NT: Doubles, orders: NDArray[np.int64], steps: NDArray[np.int64]) -> Doubles:
    """Each word's gain, the mean over an order and its reverse: [M / 2, T, n].

    Their mean estimates the Shapley values (Castro, Gómez & Tejada 2009; the reverses: Mitchell et
    al. 2022, §4.1).
    """
    gain_MnT = np.diff(values_NT[steps], axis=1)
    of_word = np.take_along_axis(gain_MnT, orders.argsort(-1)[..., None], axis=1)
    pairs = of_word.reshape(len(orders) // 2, 2, *of_word.shape[1:])
    return pairs.mean(1).swapaxes(1, 2)


def _margin(draws: Doubles) -> Doubles:
    """Half the 95 % interval of the mean of the draws, by Student's t: [T, n]."""
    from scipy.special import stdtrit  # takes time to import, and naming words does not need it

    return stdtrit(len(draws) - 1, 0.975) * draws.std(0, ddof=1) / math.sqrt(len(draws))


@dataclass(frozen=True, eq=False)
class Agreement(Frozen):
    """How alike a method and the Shapley values rank the source words, for each target token.

    `spearman` and `kendall` [T], 1 = the same order, −1 = the reverse; NaN where all words are
    equal for either, or where there is only one word. `resampled` [R, T] is Spearman's ρ with each
    of R bootstrap resamples of the sampled orders; R is 0 where the Shapley values are exact.
    """

    spearman: Doubles
    kendall: Doubles
    resampled: Doubles

    @property
    def mean_spearman(self) -> float:
        """Of the sentence: the mean over the target tokens that have one, else NaN."""
        return _mean(self.spearman)

    @property
    def mean_kendall(self) -> float:
        """Of the sentence: the mean over the target tokens that have one, else NaN."""
        return _mean(self.kendall)

    def of(self, token: int | None = None) -> float:
        """Spearman's ρ of one target token, or its mean over all of them."""
        return self.mean_spearman if token is None else float(self.spearman[token])

    def resamples(self, token: int | None = None) -> Doubles:
        """`of` with each resample: [R]."""
        if token is not None:
            return self.resampled[:, token]
        return np.array([_mean(row) for row in self.resampled])

    def interval(self, token: int | None = None) -> tuple[float, float]:
        """The 95 % interval of `of` over the sampled orders: the percentiles of its resamples.

        Measured against exact values on captions of 8 to 10 words, with 64 orders, it holds ρ of a
        token in 95 and the mean in 97 of 100 cases. Exact values have no width.
        """
        found = self.resamples(token)
        if not len(found):
            return self.of(token), self.of(token)
        low, high = np.quantile(found, (0.025, 0.975)).tolist()
        return low, high

    def differs(self, other: Agreement, token: int | None = None) -> bool:
        """Whether the order of two methods is the same in 95 % of the resamples, or exact.

        Where it is not, the choice of the orders decides which of the two agrees better.
        """
        found = self.resamples(token) - other.resamples(token)
        if not len(found):
            return self.of(token) != other.of(token)
        low, high = np.quantile(found, (0.025, 0.975)).tolist()
        return low > 0 or high < 0


RESAMPLES = 500
"""Of the sampled orders, for the interval of a rank agreement."""


def agreement(attributions: Attributions, referee: Shapley, seed: int = 0) -> dict[str, Agreement]:
    """The rank agreement of every method with the Shapley values of the same pass.

    Values have a sign, so a word that speaks against a token ranks last. All methods are compared
    with the same resamples, drawn by `seed`. Raises ValueError if the two are of different words
    or tokens.
    """
    if (attributions.words, attributions.target) != (referee.words, referee.target):
        raise ValueError("the scores and the Shapley values are of different words or tokens")
    ranks_RTn = _resampled_ranks(referee, seed)
    return {
        method: Agreement(
            *(
                np.array([of(a, b) for a, b in zip(score, referee.values, strict=True)])
                for of in (spearman, kendall)
            ),
            _correlations(_ranks(score), ranks_RTn),
        )
        for method, score in attributions.scores.items()
    }


def _resampled_ranks(referee: Shapley, seed: int) -> Doubles:
    """The words' ranks by the mean of each bootstrap resample of the draws: [R, T, n]."""
    draws = referee.draws
    if draws is None or not len(draws):
        return np.empty((0, *referee.values.shape))
    chosen = np.random.default_rng(seed).integers(len(draws), size=(RESAMPLES, len(draws)))
    times_RM = np.stack([np.bincount(row, minlength=len(draws)) for row in chosen])
    flat = times_RM @ draws.reshape(len(draws), -1) / len(draws)
    return np.stack([_ranks(means) for means in flat.reshape(RESAMPLES, *referee.values.shape)])


def _ranks(scores: Doubles) -> Doubles:
    """Twice the ranks of each row's values around 0, ties at their mean rank: [..., n]."""
    return np.sign(scores[..., :, None] - scores[..., None, :]).sum(-1)


def _correlations(first_Tn: Doubles, second_RTn: Doubles) -> Doubles:
    """The correlation of two rows of ranks, NaN where either is flat: [R, T]."""
    size = np.sqrt((first_Tn**2).sum(-1) * (second_RTn**2).sum(-1))
    with np.errstate(invalid="ignore"):
        return np.where(size > 0, (first_Tn * second_RTn).sum(-1) / size, np.nan)


def spearman(first: Doubles, second: Doubles) -> float:
    """Spearman's ρ of two rows [n]: the correlation of their ranks, ties at their mean rank."""
    return _correlation(*(_order(row).sum(-1) for row in (first, second)))


def kendall(first: Doubles, second: Doubles) -> float:
    """Kendall's τ_b of two rows [n]: pairs in the same order minus pairs in another, over all."""
    return _correlation(*(_order(row).ravel() for row in (first, second)))


def _order(row: Doubles) -> Doubles:
    """[n, n]: 1 where the first of two is larger, −1 where it is smaller."""
    return np.sign(row[:, None] - row)


def _correlation(first: Doubles, second: Doubles) -> float:
    """Both rows have a mean of 0, for each pair counts once with either sign."""
    size = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / size if size else math.nan


def _mean(row: Doubles) -> float:
    known = row[~np.isnan(row)]
    return float(known.mean()) if len(known) else math.nan
