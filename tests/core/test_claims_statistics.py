"""Each claim holds on sums in which its finding is planted, and fails where the reverse is."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from core.atlas.bleu import SetBleu
from core.atlas.claims import alignment, attention, importance, pruning, sources
from core.atlas.claims.claim import FAILS, HOLDS, OPEN, Estimate, decide
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


def verdicts(found) -> dict[str, str]:
    """Decide each claim as if four networks had this statistic and the test were the paper's."""
    estimates = {id: statistic.estimate for id, statistic in found.items()}
    return {
        id: decide(dataclasses.replace(CLAIMS[id], other_test=""), dict.fromkeys("abcd", estimate))[
            0
        ]
        for id, estimate in estimates.items()
    }


def pruned(order, cost) -> Planted:
    """Return a network whose heads are removed kind by kind, each at its `cost` in BLEU."""

    def answer(measure):
        if isinstance(measure, ChoiceLosses):
            of_set = [sum(4.0 ** order.index(h[0]) for h in off) for off in measure.choices]
            return Sums({"choice_loss": np.array(of_set)})
        if isinstance(measure, SetBleu):
            of_set = [
                90 - sum(cost(head) for head in off) for off in (frozenset(), *measure.choices)
            ]
            return Sums(
                {
                    f"{measure.name}_ngrams": ngrams(np.tile(of_set, (R, 1))),
                    f"{measure.name}_sentences": np.array(60, np.int64),
                }
            )
        assert isinstance(measure, pruning.Survivors)
        left = [order.index(kind) / 2 for kind in KINDS]
        return Sums({f"left_{n}": np.array(left) for n in range(8)})

    return Planted(answer)


def test_claims_about_pruning_hold_where_only_cross_attention_matters():
    network = pruned(["encoder", "decoder", "cross"], lambda head: 5 * (head[0] == "cross"))
    found = pruning.pruning(network)
    values = {id: statistic.estimate.value for id, statistic in found.items()}
    assert values == pytest.approx(
        {
            "encoder-heads-removable": 1,
            "half-of-all-heads": 24 / 36,
            "fifth-free": 24 / 36,
            "third-removable": 0,
            "cross-collapses": 7 * 5,  # 7 of 12 heads are 60 %
            "last-cross-layer": 3 * 5,  # one of four is kept
            "removal-order": 0.5,  # no encoder heads are left, half of the decoder's, all of cross
        },
        abs=1e-3,
    )
    assert set(verdicts(found).values()) == {HOLDS}


def test_claims_about_pruning_fail_where_only_the_encoder_matters():
    found = pruning.pruning(
        pruned(["encoder", "decoder", "cross"][::-1], lambda head: 2 * (head[0] == "encoder"))
    )
    assert found["removal-order"].estimate.value == -0.5
    assert found["cross-collapses"].estimate.value == pytest.approx(-7 * 2, abs=1e-3)
    found |= {
        id: statistic
        for id, statistic in pruning.pruning(
            pruned(["encoder", "cross", "decoder"], lambda head: 2 * (head[0] == "encoder"))
        ).items()
        if id in ("half-of-all-heads", "fifth-free", "third-removable")
    }
    assert found["third-removable"].estimate.value == pytest.approx(8 * 2, abs=1e-3)
    expected = dict.fromkeys(found, FAILS)
    # The authors of these claims train the network further, so a worse result here refutes nothing.
    expected |= dict.fromkeys(
        ("encoder-heads-removable", "half-of-all-heads", "removal-order"), OPEN
    )
    assert verdicts(found) == expected


def test_each_claim_about_pruning_counts_the_heads_that_it_is_about():
    """Removing a head costs 1 BLEU, or 5 in the last layer of cross-attention."""
    last = ("cross", 2)
    network = pruned(["encoder", "decoder", "cross"], lambda head: 5 if head[:2] == last else 1)
    values = {id: s.estimate.value for id, s in pruning.pruning(network).items()}
    assert values["third-removable"] == pytest.approx(8, abs=1e-3), "a third of 24"
    assert values["last-cross-layer"] == pytest.approx(3 * 5, abs=1e-3)
    assert values["cross-collapses"] == pytest.approx(7 - 7, abs=1e-3)
    assert values["encoder-heads-removable"] == values["fifth-free"] == 0


@pytest.mark.parametrize(
    ("order", "smaller"),
    [
        (["decoder", "encoder", "cross"], -0.5),  # the encoder is not first
        (["encoder", "cross", "decoder"], -0.5),  # cross-attention is not last
    ],
)
def test_the_claim_about_removal_order_needs_all_three_kinds_in_order(order, smaller):
    found = pruning.pruning(pruned(order, lambda head: 0))["removal-order"]
    assert found.estimate.value == smaller
    assert decide(CLAIMS["removal-order"], {"n": found.estimate})[0] == OPEN  # not HOLDS


def test_heads_are_removable_up_to_the_last_step_that_costs_at_most_a_quarter_bleu():
    curve = np.array([[40, 39.9, 39.74, 41, 30], [40, 39.76, 39.9, 39.8, 39.75], [40, 39, 1, 0, 5]])
    assert pruning.removable_share(curve).tolist() == [3 / 4, 1, 0]
    assert np.isnan(pruning.removable_share(np.full((1, 5), np.nan))).all()


def test_the_best_head_of_the_last_layer_is_chosen_on_the_sample_not_per_replicate():
    kept = np.array([[30.0, 35, 20], [39, 31, 38]])
    assert pruning.lost_with_best(np.array([40.0, 40]), kept).tolist() == [5, 9]


def single_heads(bleu_changes, zero, mean, other_zero, partners) -> Planted:
    """Return a network with these changes of BLEU and loss per head, and its counterpart."""

    def losses(changes, name):
        loss = np.concatenate([np.zeros((R, 1)), np.tile(changes, (R, 1))], 1) + 3
        arrays = {f"{name}_loss": loss * 50, f"{name}_tokens": np.full(R, 50.0)}
        return Sums({**arrays, f"{name}_sentences": np.array(60, np.int64)})

    def answer(measure):
        if isinstance(measure, SetBleu):
            scores = np.column_stack([spread(40), *(spread(40 + c, 0.02) for c in bleu_changes)])
            return Sums(
                {
                    "encoder_ngrams": ngrams(scores),
                    "encoder_sentences": np.array(60, np.int64),
                }
            )
        if isinstance(measure, HeadOutputs):
            kinds = [(kind, layer) for kind in KINDS for layer in range(3)]
            outputs = {f"outputs_{k}_{layer}": np.zeros((4, 8)) for k, layer in kinds}
            queries = {f"queries_{k}_{layer}": np.array(9, np.int64) for k, layer in kinds}
            return Sums(outputs | queries)
        if isinstance(measure, HeadLosses):
            return losses(zero if measure.method == "zero" else mean, measure.method)
        assert isinstance(measure, Similarity)
        same = {f"same_{kind}": np.tile(np.eye(12)[partners], (R, 1, 1)) for kind in KINDS}
        rows = {f"rows_{kind}": np.ones(R) for kind in KINDS}
        return Sums(same | rows | {"same_sentences": np.array(60, np.int64)})

    return Planted(answer, Planted(lambda measure: losses(other_zero, "zero")))


RANKS = np.linspace(0.1, 1.2, 12)
REVERSED = np.arange(12)[::-1]


def test_claims_about_single_heads_hold_where_they_are_planted():
    """Encoder head 0 hurts BLEU; head n of the other network is the counterpart of head 11 − n."""
    zero = np.tile(RANKS, 3)
    other = np.tile(RANKS[REVERSED], 3)
    found = importance.importance(single_heads([1, *[0] * 11], zero, zero / 2, other, REVERSED))
    values = {id: statistic.estimate.value for id, statistic in found.items()}
    assert values == pytest.approx(
        {
            "few-heads-matter": 11 / 12,
            "removal-helps": 1,
            "same-heads-matter": 1,
        }
    )
    assert set(verdicts(found).values()) == {HOLDS}


def test_claims_about_single_heads_fail_where_the_reverse_is_planted():
    zero = np.tile(RANKS, 3)
    network = single_heads([-2] * 12, -zero, 2 * zero, np.tile(RANKS, 3), REVERSED)
    found = importance.importance(network)
    values = {id: statistic.estimate.value for id, statistic in found.items()}
    assert values == pytest.approx(
        {"few-heads-matter": 0, "removal-helps": 0, "same-heads-matter": 1}
    ), "the importance of a head and that of its partner both fall with the head's number"
    network = single_heads([-2] * 12, zero, 2 * zero, np.tile(RANKS, 3), REVERSED)
    found = importance.importance(network)
    assert found["same-heads-matter"].estimate.value == pytest.approx(-1)
    assert set(verdicts(found).values()) == {FAILS}


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


def attended(neighbour, rarest, empty) -> Sums:
    """Return sums of `Attended`: head 1 has the shares `neighbour` (at offset 1) and `rarest`."""
    neighbours = np.zeros((R, 2, 12))
    neighbours[:, 1, 1] = spread(100 * neighbour, 0.1)
    rare = np.zeros((R, 4))
    rare[:, 1] = spread(200 * rarest, 0.1)
    return Sums(
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


@pytest.mark.parametrize(
    ("shares", "verdict"), [((0.95, 0.66, 0.87), HOLDS), ((0.7, 0.3, 0.2), FAILS)]
)
def test_claims_about_what_heads_attend_to_hold_or_fail_by_the_planted_shares(shares, verdict):
    found = attention.statistics(attended(*shares))
    estimates = {id: statistic.estimate for id, statistic in found.items()}
    assert [e.value for e in estimates.values()] == pytest.approx(shares)
    assert [e.null for e in estimates.values()] == pytest.approx([0.08, 0.15, 0.15])
    expected = dict.fromkeys(found, verdict)
    if verdict == FAILS:  # the paper's network has language tags, these have none
        expected["eos-and-punctuation"] = OPEN
    assert verdicts(found) == expected


def links(aer) -> Sums:
    """Return sums of `HeadLinks` with this AER [reading, quantity, layer] of head means."""
    made, sure = 100.0, 300.0
    right = (1 - np.array(aer)) * (made + sure)
    in_both = np.zeros((R, 2, 2, 4, 5))
    in_both[..., :-1, -1] = right / 2
    in_both[..., -1, :] = in_both[..., :, 0] = (
        190  # single heads and layer means, which would be better
    )
    return Sums(
        {
            "in_sure": in_both,
            "in_possible": in_both,
            "made": np.full(R, made),
            "sure": np.full(R, sure),
        }
    )


GOOD, POOR = [0.6, 0.3, 0.7], [0.9, 0.8, 0.5]


def test_claims_about_alignment_hold_where_the_input_row_aligns_early():
    found = alignment.statistics(links([[POOR, POOR], [GOOD, [0.6, 0.25, 0.7]]]), 50)
    values = [statistic.estimate.value for statistic in found.values()]
    assert values == pytest.approx([1, 0.2, 0.05])
    assert set(verdicts(found).values()) == {HOLDS}


def test_claims_about_alignment_fail_where_the_output_row_aligns_early():
    found = alignment.statistics(links([[GOOD, GOOD], [POOR, [0.9, 0.8, 0.6]]]), 50)
    values = [statistic.estimate.value for statistic in found.values()]
    assert values == pytest.approx([-1, -0.2, -0.1])
    assert set(verdicts(found).values()) == {FAILS}


def test_claims_about_alignment_need_gold():
    assert alignment.alignment(Planted(lambda measure: pytest.fail("measured"))) == {}


@pytest.mark.parametrize(("sign", "verdict"), [(1, HOLDS), (-1, FAILS)])
def test_claims_about_sources_hold_or_fail_by_the_planted_sign(sign, verdict):
    drawn = {"drawn": np.full(R, 50.0), "sentences": np.array(50, np.int64)}
    shares = {"along": -sign * spread(5, 0.1), "at_eos": -sign * spread(10, 0.1)}
    found = sources.share_statistics(Sums(drawn | shares))
    agreement = {
        "value zeroing, all layers": spread(25 + sign * 10),
        "weights": spread(25 + sign * 5),
        "gradient × input": spread(25),
        "rollout": spread(0),
    }
    found |= sources.faithfulness_statistics(Sums(drawn | agreement))
    values = {id: statistic.estimate.value for id, statistic in found.items()}
    assert values == pytest.approx(
        {
            "source-share-falls": -0.1 * sign,
            "source-share-at-eos": -0.2 * sign,
            "value-zeroing-faithful": 0.2 * sign,
            "attention-faithful": 0.1 * sign,
        }
    )
    assert verdicts(found) == dict.fromkeys(found, verdict)
    assert sources.share_statistics(Sums()) == sources.faithfulness_statistics(Sums()) == {}


def test_every_testable_claim_is_tested_above():
    drawn = {"drawn": np.full(R, 50.0), "sentences": np.array(50, np.int64)}
    names = ("along", "at_eos", "weights", "value zeroing, all layers", "gradient × input")
    totals = Sums(dict.fromkeys(names, np.ones(R)) | drawn)
    tested = {
        *pruning.pruning(pruned([*KINDS], lambda head: 0)),
        *importance.importance(
            single_heads([0] * 12, *(np.tile(RANKS, 3) for _ in range(3)), REVERSED)
        ),
        *attention.statistics(attended(0.5, 0.5, 0.5)),
        *alignment.statistics(links([[GOOD, GOOD], [POOR, POOR]]), 50),
        *sources.share_statistics(totals),
        *sources.faithfulness_statistics(totals),
    }
    assert tested == {claim.id for claim in LITERATURE if not claim.untestable}


def test_a_claim_is_open_where_its_interval_includes_the_threshold():
    found = attention.statistics(attended(0.9, 0.5, 0.5))
    assert set(verdicts(found).values()) == {OPEN}
    assert isinstance(found["rare-word-head"].estimate, Estimate)
