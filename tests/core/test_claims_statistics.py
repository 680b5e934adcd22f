"""Each claim holds on sums in which its finding is planted, and fails where the reverse is."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from core.atlas.bleu import SetBleu
from core.atlas.claims import (
    alignment,
    attention,
    errors,
    gender,
    hallucinations,
    importance,
    lens,
    pruning,
    sinks,
    sources,
    training,
)
from core.atlas.claims.claim import FAILS, HOLDS, OPEN, decide
from core.atlas.claims.literature import LITERATURE
from core.atlas.counterpart import Similarity
from core.atlas.losses import HeadLosses, HeadOutputs
from core.atlas.pruning import ChoiceLosses
from core.atlas.sums import Sums
from core.experiments.head_effects import heads_of
from core.kinds import KINDS
from tests import small

R = 41  # the sample and 40 replicates
CLAIMS = {claim.id: claim for claim in LITERATURE}
MODEL = small.sharp(num_heads=4, num_encoder_layers=3, num_decoder_layers=3)
HEADS = heads_of(MODEL)
PLACES = {head: n for n, head in enumerate(HEADS)}


def spread(value: float, by: float = 0.0) -> np.ndarray:
    """Return a value and replicates spaced evenly around it: [R]."""
    return np.concatenate(([value], value + by * np.linspace(-1, 1, R - 1)))


def ngrams(scores: np.ndarray) -> np.ndarray:
    """Return sacreBLEU statistics [..., 10] with these BLEU scores (0 to 100), to two decimals."""
    total = 1_000_000
    right = np.rint(np.asarray(scores) / 100 * total).astype(np.int64)
    lengths = np.full((*right.shape, 2), total, np.int64)
    counts = np.repeat(right[..., None], 4, -1)
    return np.concatenate([lengths, counts, np.full_like(counts, total)], -1)


class Planted:
    """A network whose measured sums are planted: `answer(measure)` returns them."""

    def __init__(self, answer, other=None):
        self.checkpoint = SimpleNamespace(
            model=MODEL, card=SimpleNamespace(folder="planted"), name="planted"
        )
        self.text = SimpleNamespace(lines=tuple(range(100)))
        self.gold = self.other = other
        self.measured = lambda measure, *rest: answer(measure)


def pruned(order: str, cost):
    """Return the statistics of a network that loses heads kind by kind, each at a `cost` in BLEU.

    `order` has the initials of the kinds, the first to be removed first.
    """
    order = [next(kind for kind in KINDS if kind.startswith(letter)) for letter in order]

    def answer(measure):
        if isinstance(measure, ChoiceLosses):
            of_set = [200 + sum(4.0 ** order.index(h[0]) for h in off) for off in measure.choices]
            return Sums({"choice_loss": np.array(of_set)})
        if isinstance(measure, SetBleu):
            of_set = [
                90 - sum(cost(head) for head in off) for off in (frozenset(), *measure.choices)
            ]
            sums = {f"{measure.name}_ngrams": ngrams(np.tile(of_set, (R, 1)))}
            return Sums(sums | {f"{measure.name}_sentences": np.array(60, np.int64)})
        assert isinstance(measure, pruning.Survivors)
        left = [order.index(kind) / 2 for kind in KINDS]
        return Sums({f"left_{n}": np.array(left) for n in range(8)})

    return pruning.pruning(Planted(answer))


RANKS = np.linspace(0.1, 1.2, 12)
REVERSED = np.arange(12)[::-1]


def single_heads(bleu_changes, zero, mean):
    """Return the statistics of a network with these changes of BLEU and loss by head of a kind.

    Encoder heads change BLEU. In the other network, head n is the counterpart of head 11 − n.
    """
    zero, mean, other_zero = (np.tile(changes, 3) for changes in (zero, mean, RANKS[REVERSED]))

    def losses(changes, name):
        loss = np.concatenate([np.zeros((R, 1)), np.tile(changes, (R, 1))], 1) + 3
        arrays = {f"{name}_loss": loss * 50, f"{name}_tokens": np.full(R, 50.0)}
        return Sums({**arrays, f"{name}_sentences": np.array(60, np.int64)})

    def answer(measure):
        if isinstance(measure, SetBleu):
            scores = np.column_stack([spread(40), *(spread(40 + c, 0.02) for c in bleu_changes)])
            sums = {"encoder_ngrams": ngrams(scores)}
            return Sums(sums | {"encoder_sentences": np.array(60, np.int64)})
        if isinstance(measure, HeadOutputs):
            kinds = [(kind, layer) for kind in KINDS for layer in range(3)]
            outputs = {f"outputs_{k}_{layer}": np.zeros((4, 8)) for k, layer in kinds}
            queries = {f"queries_{k}_{layer}": np.array(9, np.int64) for k, layer in kinds}
            return Sums(outputs | queries)
        if isinstance(measure, HeadLosses):
            return losses(zero if measure.method == "zero" else mean, measure.method)
        assert isinstance(measure, Similarity)
        same = {f"same_{kind}": np.tile(np.eye(12)[REVERSED], (R, 1, 1)) for kind in KINDS}
        rows = {f"rows_{kind}": np.ones(R) for kind in KINDS}
        return Sums(same | rows | {"same_sentences": np.array(60, np.int64)})

    other = Planted(lambda measure: losses(other_zero, "zero"))
    return importance.importance(Planted(answer, other))


def attended(neighbour, rarest, empty):
    """Return statistics in which head 1 has the shares `neighbour` (at offset 1) and `rarest`."""
    neighbours = np.zeros((R, 2, 12))
    neighbours[:, 1, 1] = spread(100 * neighbour, 0.1)
    rare = np.zeros((R, 4))
    rare[:, 1] = spread(200 * rarest, 0.1)
    sums = Sums(
        {
            "neighbour": neighbours,
            "neighbours": np.full((R, 2), 100.0),
            "neighbour_uniform": np.full((R, 2), 8.0),
            "rarest": rare,
            "rarest_uniform": np.full(R, 30.0),
            "queries": np.full(R, 200.0),
            "rare_sentences": np.full(R, 40.0),
            "empty": spread(300 * empty, 0.1),
            "empty_uniform": np.full(R, 45.0),
            "rows": np.full(R, 300.0),
            "sentences": np.array(60, np.int64),
        }
    )
    return attention.statistics(sums)


def links(*aer):
    """Return statistics with this AER [reading, quantity, layer] of head means."""
    made, sure = 100.0, 300.0
    right = (1 - np.array(aer)) * (made + sure)
    in_both = np.zeros((R, 2, 2, 4, 5))
    in_both[..., :-1, -1] = right / 2
    # Single heads and layer means would be better.
    in_both[..., -1, :] = in_both[..., :, 0] = 190
    sums = dict.fromkeys(("in_sure", "in_possible"), in_both)
    sums |= dict.fromkeys(("diagonal_in_sure", "diagonal_in_possible"), np.full(R, 50.0))
    sums |= {"made": np.full(R, made), "sure": np.full(R, sure)}
    return alignment.statistics(Sums(sums), 50)


def seen(sign: int):
    """Return statistics of sources: positive for +1, negative for −1."""
    drawn = {"drawn": np.full(R, 50.0), "sentences": np.array(50, np.int64)}
    shares = {"along": -sign * spread(5, 0.1), "at_eos": -sign * spread(10, 0.1)}
    agreement = {
        "value zeroing, all layers": spread(25 + sign * 10),
        "weights": spread(25 + sign * 5),
        "gradient × input": spread(25),
        "rollout": spread(0),
    }
    found = sources.share_statistics(Sums(drawn | shares))
    return found | sources.faithfulness_statistics(Sums(drawn | agreement))


def head_links(*aer: float):
    """Return statistics of 12 heads of which the first have these errors, and a diagonal of 0.7.

    The other heads have 0.9. Without head 2, the loss rises by 2; without another, by 0.1.
    """
    made, sure = 100.0, 300.0
    right = (1 - np.array([*aer, *[0.9] * (12 - len(aer))])) * (made + sure) / 2
    in_both = np.zeros((R, 2, 2, 4, 5))
    in_both[:, 1, 0, :-1, :-1] = right.reshape(3, 4)  # one reading's weights; the other is worse
    in_both[:, :, 1] = in_both[..., -1, :] = in_both[..., -1] = 190  # norms and means are better
    diagonal = np.full(R, 0.3 * (made + sure) / 2)
    sums = {"in_sure": in_both, "in_possible": in_both, "made": np.full(R, made)}
    sums |= {"diagonal_in_sure": diagonal, "diagonal_in_possible": diagonal}
    found = alignment.statistics(Sums(sums | {"sure": np.full(R, sure)}), 50)
    best = int(alignment.head_errors(Sums(sums | {"sure": np.full(R, sure)}))[0].argmin())
    rise = np.tile(np.where(np.arange(12) == 2, 2.0, 0.1), (R, 1))
    return {**found, **alignment.without_aligner(rise, best, 50)}


def states(hits, null, logit, jacobian):
    """Return statistics of a lens with these shares by layer, of 100 tokens."""
    shares = {"jacobian_hits": hits, "jacobian_null": null}
    shares |= {"logit_agree": logit, "jacobian_agree": jacobian}
    sums = {name: np.tile(100 * np.array(share), (R, 1)) for name, share in shares.items()}
    whole = ("source_tokens", "null_tokens", "target_tokens")
    return lens.statistics(Sums(sums | dict.fromkeys(whole, np.full(R, 100.0))), 50)


def written(of_wrong: float, of_right: float, less_probable: float):
    """Return statistics of 40 sentences with up to four wrong tokens of eight, by one head.

    The head gives the token before these weights. Each wrong token of a sentence makes all its
    tokens less probable.
    """
    found = {}
    for i in range(40):
        wrong = np.arange(8) >= 8 - i % 5
        log_p = np.full(8, -0.5 - less_probable * wrong.sum())
        found[f"tokens_{i:09}"] = np.stack(
            [wrong * 1.0, log_p, np.where(wrong, of_wrong, of_right)], 1
        )[..., None]
    return errors.statistics(Sums(found))


def made_up(*counts: float):
    """Return the statistic of translations made up: by all heads, without a few, without others."""
    sums = {"made_up": np.tile(np.array(counts), (R, 1)), "sentences": np.array(50, np.int64)}
    return hallucinations.statistics(Sums(sums))


def triggered(few: float):
    """Return the statistic of words that bring this share of the preference for an article."""
    gained = {"all": np.full(R, 40.0), "few": spread(40 * few, 0.1), "random": np.full(R, 8.0)}
    return gender.statistics(Sums(gained | {"sentences": np.array(50, np.int64)}))


def aligned_alike(sign: int):
    """Return the statistic of two networks whose matched heads align alike, or in reverse."""
    own = np.tile(RANKS, (R, 1))
    return alignment.same_heads(own, sign * own[:, REVERSED], REVERSED, 50)


def sunk(ratio: float, weight: float):
    """Return statistics of two heads, the second with a sink: its value's length, its weight."""
    weights, ratios = np.array([[[0.2, weight]]]), np.array([[[0.01, ratio]]])
    sums = {"weight": 20 * weights.repeat(R, 0), "ratio": 20 * ratios.repeat(R, 0)}
    return sinks.statistics(
        Sums({**sums, "drawn": np.full(R, 20.0), "sentences": np.array(20, np.int64)})
    )


def trained(*weights: float):
    """Return statistics of snapshots at steps 0, 10, 20, …, of the second of two heads."""
    roles = np.zeros((len(weights), 3, 1, 2))
    roles[:, 0, 0, 1] = weights
    steps = 10 * np.arange(len(weights))
    return training.statistics(
        SimpleNamespace(steps=steps, roles={"decoder": roles}, sentences=(0,) * 6)
    )


def only(kind: str, cost: float):
    return lambda head: cost * (head[0] == kind)


def dearer_at_the_end(head):
    return 5 if head[:2] == ("cross", 2) else 1


GOOD, POOR = [0.6, 0.3, 0.7], [0.9, 0.8, 0.5]
# What is planted, the verdict if it is one, and the values: encoder attention has 12 heads, of all
# 36; 7 of 12 are 60 %; one of 4 heads is kept in the last layer of cross-attention.
CASES = [
    (lambda: pruned("edc", only("cross", 5)), HOLDS,
     {"encoder-heads-removable": 1, "half-of-all-heads": 24 / 36, "fifth-free": 24 / 36,
      "third-removable": 0, "cross-collapses": 7 * 5, "last-cross-layer": 3 * 5,
      "removal-order": 0.5}),
    (lambda: pruned("cde", only("encoder", 2)), FAILS,
     {"removal-order": -0.5, "cross-collapses": -7 * 2, "last-cross-layer": 0,
      "encoder-heads-removable": 0}),
    (lambda: pruned("ecd", only("encoder", 2)), FAILS,
     {"half-of-all-heads": 0, "fifth-free": 0, "third-removable": 8 * 2, "removal-order": -0.5}),
    (lambda: pruned("dec", only("encoder", 0)), FAILS, {"removal-order": -0.5}),
    # Without 8 cross heads, the loss of 200 is 200 + 12 · (1 + 4) + 8 · 16; the ninth doubles it.
    (lambda: pruned("dec", only("encoder", 0)), HOLDS, {"fifth-free": 32 / 36}),
    (lambda: pruned("edc", dearer_at_the_end), None,
     {"third-removable": 8, "last-cross-layer": 3 * 5, "cross-collapses": 7 - 7,
      "encoder-heads-removable": 0, "fifth-free": 0}),
    (lambda: single_heads([1, *[0] * 11], RANKS, RANKS / 2), HOLDS,
     {"few-heads-matter": 11 / 12, "removal-helps": 1, "same-heads-matter": 1}),
    (lambda: single_heads([-2] * 12, RANKS[REVERSED], 2 * RANKS), FAILS,
     {"few-heads-matter": 0, "removal-helps": 0, "same-heads-matter": -1}),
    (lambda: single_heads([-2] * 12, RANKS - 2, 2 * RANKS), None, {"same-heads-matter": 1}),
    (lambda: attended(0.95, 0.66, 0.87), HOLDS,
     {"positional-heads": 0.95, "rare-word-head": 0.66, "eos-and-punctuation": 0.87}),
    (lambda: attended(0.7, 0.3, 0.2), FAILS,
     {"positional-heads": 0.7, "rare-word-head": 0.3, "eos-and-punctuation": 0.2}),
    (lambda: attended(0.9, 0.5, 0.5), OPEN,
     {"positional-heads": 0.9, "rare-word-head": 0.5, "eos-and-punctuation": 0.5}),
    (lambda: links([POOR, POOR], [GOOD, [0.6, 0.25, 0.7]]), HOLDS,
     {"early-input-layer": 1, "input-reading-better": 0.2, "norms-align-better": 0.05}),
    (lambda: links([GOOD, POOR], [POOR, POOR]), HOLDS, {"penultimate-layer-aligns": 0.4}),
    (lambda: links([POOR, GOOD], [POOR, POOR]), FAILS, {"penultimate-layer-aligns": -0.3}),
    (lambda: links([GOOD, GOOD], [POOR, [0.9, 0.8, 0.6]]), FAILS,
     {"early-input-layer": -1, "input-reading-better": -0.2, "norms-align-better": -0.1}),
    (lambda: head_links(0.65, 0.9, 0.4), HOLDS,
     {"aligning-heads-exist": 0.3, "aligning-heads-sparse": 2 / 12,
      "aligning-heads-causal": 1.9, "other-heads-idle": 0.05}),
    (lambda: head_links(*[0.6] * 5), FAILS,
     {"aligning-heads-sparse": 5 / 12, "aligning-heads-causal": -1.9 / 11,
      "other-heads-idle": 3 / 1.1}),
    (lambda: head_links(0.8), FAILS, {"aligning-heads-exist": -0.1}),
    (lambda: states([0.5, 0.6, 0.8], [0.1, 0.1, 0.2], [0, 0.1, 1], [0.1, 0.4, 1]), HOLDS,
     {"translated-in-embeddings": 0.4, "translated-layer-by-layer": 0.2,
      "first-decoder-layer": 0.2, "jacobian-lens-better": 0.2}),
    (lambda: states([0.1, 0.3, 0.2], [0.2, 0.1, 0.4], [0, 0.9, 1], [0, 0.4, 1]), FAILS,
     {"translated-in-embeddings": -0.1, "translated-layer-by-layer": -0.1,
      "first-decoder-layer": 1.8, "jacobian-lens-better": -0.25}),
    (lambda: written(0.05, 0.9, -0.01), HOLDS,
     {"errors-previous-token": 1, "attention-adds-to-probability": 2}),
    (lambda: written(0.9, 0.05, 0.01), HOLDS, {"probability-tells-quality": 1}),
    (lambda: written(0.05, 0.9, -0.01), FAILS, {"probability-tells-quality": -1}),
    (lambda: written(0.9, 0.05, 0.01), FAILS,
     {"errors-previous-token": 0, "attention-adds-to-probability": -2}),
    (lambda: sunk(0.05, 0.6), HOLDS, {"sinks-are-empty": 0.05, "sinks-exist": 0.6}),
    (lambda: sunk(0.6, 0.4), FAILS, {"sinks-are-empty": 0.6, "sinks-exist": 0.4}),
    (lambda: made_up(40, 10, 40, 38, 36), HOLDS, {"few-heads-hallucinate": 0.75}),
    (lambda: made_up(40, 30, 40, 38, 36), FAILS, {"few-heads-hallucinate": 0.25}),
    (lambda: triggered(0.8), HOLDS, {"gender-by-few-words": 0.8}),
    (lambda: triggered(0.3), FAILS, {"gender-by-few-words": 0.3}),
    (lambda: aligned_alike(1), HOLDS, {"aligning-heads-same": 1}),
    (lambda: aligned_alike(-1), FAILS, {"aligning-heads-same": -1}),
    (lambda: trained(0, 0, 0, 0, 0.5, 1, 1), HOLDS, {"role-by-a-jump": 1 - 32 / 48}),
    (lambda: trained(*np.arange(11) / 10), FAILS, {"role-by-a-jump": 8 / 9}),
    *((lambda sign=sign: seen(sign), verdict,
       {"source-share-falls": -0.1 * sign, "source-share-at-eos": -0.2 * sign,
        "value-zeroing-faithful": 0.2 * sign, "attention-faithful": 0.1 * sign})
      for sign, verdict in ((1, HOLDS), (-1, FAILS))),
]  # fmt: skip
# A worse result refutes none of these: the authors train further, or the network has other tags.
NOT_REFUTED = {
    *("encoder-heads-removable", "half-of-all-heads", "removal-order", "eos-and-punctuation"),
    "attention-adds-to-probability",
}


@pytest.mark.parametrize(("found", "verdict", "values"), CASES)
def test_a_claim_is_decided_by_what_is_planted(found, verdict, values):
    """The decision is of four networks with this statistic, as if the test were the paper's."""
    statistics = found()
    estimates = {id: statistics[id].estimate for id in values}
    assert {id: e.value for id, e in estimates.items()} == pytest.approx(values, abs=1e-3)
    for id, estimate in estimates.items() if verdict else ():
        expected = OPEN if verdict == FAILS and id in NOT_REFUTED else verdict
        claim = dataclasses.replace(CLAIMS[id], other_test="")
        assert decide(claim, dict.fromkeys("abcd", estimate))[0] == expected, id


@pytest.mark.parametrize("verdict", [HOLDS, FAILS])
def test_every_testable_claim_is_tested_above(verdict):
    tested = {id for _, of, values in CASES if of == verdict for id in values}
    assert tested == {claim.id for claim in LITERATURE if not claim.untestable}


def test_shares_of_attention_have_those_of_uniform_rows_as_null():
    nulls = [statistic.estimate.null for statistic in attended(0.5, 0.5, 0.5).values()]
    assert nulls == pytest.approx([0.08, 0.15, 0.15])


def test_claims_without_gold_or_sentences_are_not_measured():
    assert alignment.alignment(Planted(lambda measure: pytest.fail("measured"))) == {}
    assert sources.share_statistics(Sums()) == sources.faithfulness_statistics(Sums()) == {}
    assert gender.statistics(Sums()) == made_up(0.0, 0.0, 0.0) == {}


def test_heads_are_removable_up_to_the_last_step_that_costs_at_most_a_quarter_bleu():
    curve = np.array([[40, 39.9, 39.74, 41, 30], [40, 39.76, 39.9, 39.8, 39.75], [40, 39, 1, 0, 5]])
    assert pruning.removable_share(curve, 4).tolist() == [3 / 4, 1, 0]
    assert pruning.removable_share(curve[:, :3], 4).tolist() == [1 / 4, 2 / 4, 0]
    assert np.isnan(pruning.removable_share(np.full((1, 5), np.nan), 4)).all()


def test_the_best_head_of_the_last_layer_is_chosen_on_the_sample_not_per_replicate():
    kept = np.array([[30.0, 35, 20], [39, 31, 38]])
    assert pruning.lost_with_best(np.array([40.0, 40]), kept).tolist() == [5, 9]


def test_kinds_are_not_pooled_when_importance_is_compared():
    """Both networks rank kinds alike, but heads within a kind in opposite order."""
    own = np.concatenate([RANKS, RANKS + 10, RANKS + 20])
    other = np.concatenate([RANKS[::-1], RANKS[::-1] + 10, RANKS[::-1] + 20])
    kinds = [head[0] for head in HEADS]
    rho = importance.matched_correlation(own[None], other[None], np.arange(36), kinds)
    assert rho == pytest.approx([-1])


def test_heads_are_counted_at_the_papers_level_and_bounded_at_two_others():
    """BLEU changes by z standard errors, which is significant from 1.96, 2.58 or 3.29 on."""
    z = np.array([0, -1, 1.9, 2.1, -2.5, 2.7, -3, 3.2, 3.4, -9])
    noise = np.linspace(-1, 1, R - 1)[:, None] / np.std(np.linspace(-1, 1, R - 1), ddof=1)
    change = np.concatenate([z[None], z + noise]) / 10
    found = importance.single_changes(change, 100)
    few, helps = (found[id].estimate for id in ("few-heads-matter", "removal-helps"))
    assert (few.value, few.low, few.high) == pytest.approx((5 / 10, 3 / 10, 8 / 10))
    assert (helps.value, helps.low, helps.high) == (3, 1, 4)
    assert importance.single_changes(change, 1)["removal-helps"].estimate is None
