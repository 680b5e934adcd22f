"""Claims are decided by where their intervals lie; the intervals match their definitions."""

import dataclasses
import json
import re

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from core.atlas.claims.board import LIMIT, Board
from core.atlas.claims.claim import FAILS, HOLDS, OPEN, Claim, Estimate, decide
from core.atlas.claims.literature import FAMILIES, LITERATURE
from core.atlas.claims.quoted import Quote
from core.atlas.claims.statistic import SmallestDifference, Statistic, mean_of
from tests.app.boards import NETWORKS, board

CLAIM = Claim(
    id="x",
    family="Pruning",
    claim="Half can go.",
    quote=Quote("A paper", "{share} %", {"share": 60}),
    quantity="heads",
    ours="A share",
    see="/heads",
    threshold=0.5,
)
ABOVE, BELOW, AROUND = Estimate(0.7, 0.6, 0.8), Estimate(0.3, 0.2, 0.4), Estimate(0.45, 0.4, 0.6)
TOUCHING = Estimate(0.6, 0.5, 0.7)


@pytest.mark.parametrize(
    ("estimates", "above", "verdict", "reason"),
    [
        ((ABOVE, ABOVE), True, HOLDS, "In both networks the interval lies above 50 %."),
        ((BELOW, BELOW), True, FAILS, "In both networks the interval lies below 50 %."),
        ((BELOW, BELOW), False, HOLDS, "In both networks the interval lies below 50 %."),
        ((ABOVE, ABOVE), False, FAILS, "In both networks the interval lies above 50 %."),
        ((ABOVE,), True, HOLDS, "In the network the interval lies above 50 %."),
        ((ABOVE,) * 3, True, HOLDS, "In all 3 networks the interval lies above 50 %."),
        (
            (ABOVE, BELOW),
            True,
            OPEN,
            "The interval lies above 50 % in n0; it lies below 50 % in n1. The networks disagree.",
        ),
        (
            (ABOVE, AROUND),
            True,
            OPEN,
            "The interval lies above 50 % in n0; it includes 50 % in n1.",
        ),
        ((Estimate(0.55, 0.4, 0.6),), True, OPEN, "The interval includes 50 % in n0."),
        ((TOUCHING,), True, OPEN, "The interval includes 50 % in n0."),
        ((), True, OPEN, "It was not measured."),
    ],
)
def test_a_claim_is_decided_by_where_all_intervals_lie(estimates, above, verdict, reason):
    claim = dataclasses.replace(CLAIM, above=above)
    found = {f"n{i}": estimate for i, estimate in enumerate(estimates)}
    assert decide(claim, found) == (verdict, reason)


def test_a_claim_about_pairs_of_networks_is_decided_by_direction():
    claim = dataclasses.replace(CLAIM, of_pairs=True)
    both = {"de-en": ABOVE, "en-de": ABOVE}
    assert decide(claim, both)[1] == "In both directions the interval lies above 50 %."
    assert decide(claim, both | {"en-de": BELOW})[1].endswith(" The directions disagree.")


def test_a_result_that_would_not_refute_a_claim_leaves_it_open():
    claim = dataclasses.replace(CLAIM, limits="They train longer.")
    verdict, reason = decide(claim, {"n": BELOW})
    assert verdict == OPEN and reason.endswith(" below 50 %. They train longer.")
    assert decide(claim, {"n": ABOVE})[0] == HOLDS


def test_a_test_other_than_the_papers_decides_nothing():
    claim = dataclasses.replace(CLAIM, other_test="They train longer.")
    for estimate, where in ((ABOVE, "above"), (BELOW, "below")):
        verdict, reason = decide(claim, {"n": estimate})
        assert verdict == OPEN and reason.endswith(f" {where} 50 %. They train longer.")
    verdict, reason = decide(claim, {"n": ABOVE, "m": AROUND})
    assert verdict == OPEN and reason.endswith(" includes 50 % in m. They train longer.")


def test_a_claim_that_nothing_here_can_test_says_why():
    claim = dataclasses.replace(CLAIM, untestable="It needs training.")
    assert decide(claim, {"n": ABOVE}) == (OPEN, "It needs training.")
    assert decide(CLAIM, {}, "No gold.") == (OPEN, "No gold.")


@pytest.mark.parametrize(
    "numbers", [(np.nan, 0, 1), (0, -np.inf, 1), (0.5, 0.6, 0.4), (0, 0, 1, np.nan)]
)
def test_an_estimate_is_finite_and_its_bounds_are_in_order(numbers):
    with pytest.raises(ValueError, match="not an estimate"):
        Estimate(*numbers)


def test_an_interval_holds_the_middle_95_percent_of_the_replicates():
    replicates = np.concatenate(([7.0], np.arange(1001.0)))
    estimate = Statistic(replicates, 100, null=0.25).estimate
    assert estimate == Estimate(7.0, 25.0, 975.0, 0.25)
    assert Statistic(replicates, 100, bounds=(-1.0, 9.0)).estimate == Estimate(7.0, -1.0, 9.0)
    assert Statistic(replicates, 1).estimate is None, "one sentence has no interval"
    assert Statistic(replicates, 1, bounds=(-1.0, 9.0)).estimate is None


def test_the_mean_over_networks_is_taken_within_each_replicate():
    """Two networks that move in opposite directions have a mean that does not move."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=1001)
    mean = mean_of([Statistic(1 + noise, 50, 0.1), Statistic(3 - noise, 60, 0.3)])
    assert (mean.value, mean.low, mean.high, mean.null) == pytest.approx((2, 2, 2, 0.2))
    bounds = mean_of([Statistic(noise, 9, bounds=(0, 4)), Statistic(noise, 9, bounds=(2, 8))])
    assert (bounds.low, bounds.high) == (1, 6)
    assert mean_of([]) is None


def test_the_smallest_of_two_mean_differences_has_a_t_interval():
    differences = np.array([[0.1, 0.6], [0.4, 0.2], [0.3, 0.5]])
    estimate = SmallestDifference(differences).estimate
    bounds = ttest_1samp([0.1, 0.4, 0.3], 0).confidence_interval(0.95)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx(
        (0.8 / 3, *bounds), rel=1e-5
    )
    assert SmallestDifference(differences[:1]).estimate is None, "one group has no interval"
    # The mean over networks is taken in each group, and then the smaller difference is chosen.
    other = np.array([[0.9, 0.0], [0.8, 0.4], [0.9, -0.2]])
    mean = mean_of([SmallestDifference(differences), SmallestDifference(other)])
    bounds = ttest_1samp([0.3, 0.3, 0.15], 0).confidence_interval(0.95)
    assert (mean.value, mean.low, mean.high) == pytest.approx((0.25, *bounds), rel=1e-5)


def test_every_claim_is_complete():
    assert len(LITERATURE) >= 12
    assert len({claim.id for claim in LITERATURE}) == len(LITERATURE)
    for claim in LITERATURE:
        assert claim.family in FAMILIES
        assert re.fullmatch(r"/(heads\?head=\w+\.\d\.\d|why|comparison)", claim.see), claim.id
        for text in (claim.claim, claim.theirs, claim.ours):
            assert text.endswith("."), text
        assert claim.quantity[0].islower() or claim.quantity.startswith("BLEU"), claim.id
        assert not claim.quantity.endswith("."), claim.id
        assert re.search(r"20\d\d|arXiv", claim.source), claim.id


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "literature.json"
    board(fifth_free={"scratch-de-en": BELOW}, norms_align_better={}).save(file)
    return file


def test_a_board_is_read_as_it_was_written(file):
    read = Board.load(file)
    assert read == board(fifth_free={"scratch-de-en": BELOW}, norms_align_better={})
    assert file.stat().st_size < LIMIT
    values = json.loads(file.read_text(encoding="utf-8"))
    rows = {row["id"]: row for row in values["rows"]}
    assert [row["id"] for row in values["rows"]] == [claim.id for claim in LITERATURE]
    assert rows["removal-order"]["verdict"] == HOLDS
    assert list(rows["removal-order"]["networks"]) == list(NETWORKS)
    assert list(rows["same-heads-matter"]["networks"]) == ["de-en", "en-de"]
    assert rows["norms-align-better"]["verdict"] == OPEN
    assert "--gold" in rows["norms-align-better"]["reason"]
    assert rows["fifth-free"]["networks"]["scratch-de-en"] == {
        "value": 0.3,
        "low": 0.2,
        "high": 0.4,
        "null": None,
    }
    assert rows["fixed-positional-heads"]["verdict"] == OPEN


def changed(values, *path, to):
    inner = values
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = to
    return values


ESTIMATE = {"value": 0.5, "low": 0.4, "high": 0.6, "null": None}


@pytest.mark.parametrize(
    ("path", "to", "why"),
    [
        (("rows", 0, "verdict"), FAILS, "another version"),
        (("rows", 0, "unit"), "BLEU", "another version"),
        (("rows", 0, "threshold"), 0.1, "another version"),
        (("rows", 0, "networks", "scratch-de-en", "low"), -3.0, "another version"),
        (("rows", 0, "networks", "scratch-de-en", "low"), 10**400, "low is 10+.*finite"),
        (("rows", 0, "networks", "scratch-de-en", "low"), 99.0, "not an estimate"),
        (("rows", 0, "networks", "mine"), ESTIMATE, "origin lacks"),
        (("origin", "sentences"), -1, "sentences is -1, not a whole number from 0"),
        (("origin", "command"), "x" * 1_001, "of 0 to 1,000 characters"),
        (("format",), 2, "format is 2, not 1"),
    ],
)
def test_a_changed_board_is_rejected_in_one_line(file, path, to, why):
    values = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(changed(values, *path, to=to)), encoding="utf-8")
    with pytest.raises(ValueError, match=why) as error:
        Board.load(file)
    assert "\n" not in str(error.value)
    assert "python -m core.analyse claims" in str(error.value)


def test_rewording_a_claim_needs_no_new_measurement(file):
    before = Board.load(file)
    values = changed(json.loads(file.read_text(encoding="utf-8")), "rows", 0, "claim", to="Old.")
    file.write_text(json.dumps(values), encoding="utf-8")
    assert Board.load(file) == before
    assert Board.load(file).rows[0].claim == LITERATURE[0]


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"rows": NaN}', b" " * (LIMIT + 1)])
def test_another_file_is_rejected_in_one_line(file, content):
    file.write_bytes(content)
    with pytest.raises(ValueError, match="is not a literature board") as error:
        Board.load(file)
    assert "\n" not in str(error.value)


def test_a_missing_board_raises_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        Board.load(tmp_path / "literature.json")
