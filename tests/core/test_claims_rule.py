"""Claims are decided by where their intervals lie; the intervals match their definitions."""

import dataclasses
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from core import analyse
from core.atlas.claims.attention import attention
from core.atlas.claims.board import LIMIT, Board
from core.atlas.claims.claim import DIFFERS, FAILS, HOLDS, OPEN, Claim, Estimate, decide, in_brief
from core.atlas.claims.literature import LITERATURE
from core.atlas.claims.load import GoldFile, load_checkpoints, networks_of, runner
from core.atlas.claims.quoted import Quote
from core.atlas.claims.statistic import SmallestDifference, Statistic, mean_of, mean_of_estimates
from core.checkpoint.configuration import ListedFile
from core.checkpoint.folder import Checkpoint
from tests.app.boards import NETWORKS, board
from tests.core import atlas_network

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
    ("estimates", "changes", "verdict", "reason"),
    [
        ((ABOVE, ABOVE), {}, HOLDS, "In both networks the interval lies above 50 %."),
        ((BELOW, BELOW), {}, FAILS, "In both networks the interval lies below 50 %."),
        ((BELOW,), {"above": False}, HOLDS, "In the network the interval lies below 50 %."),
        ((ABOVE,) * 3, {"above": False}, FAILS, "In all 3 networks the interval lies above 50 %."),
        ((ABOVE, BELOW), {}, DIFFERS,
         "The claim depends on the network: it holds in 1 of 2, not in 1. The interval lies above "
         "50 % in n0; it lies below 50 % in n1."),
        ((ABOVE, BELOW, BELOW, AROUND), {"above": False}, DIFFERS,
         "The claim depends on the network: it holds in 2 of 4, not in 1, undecided in 1. The "
         "interval lies above 50 % in n0; it lies below 50 % in n1, n2; it includes 50 % in n3."),
        ((ABOVE, BELOW), {"limits": "Why.", "decided_by": "a net"}, OPEN,
         "The interval lies above 50 % in n0; it lies below 50 % in n1. Why. A net would decide "
         "it."),
        ((ABOVE, AROUND), {}, OPEN,
         "The interval lies above 50 % in n0; it includes 50 % in n1. About 9 times as many "
         "sentences would decide it."),
        ((AROUND, TOUCHING), {"decided_by": "a net"}, OPEN,
         "The interval includes 50 % in n0, n1. A net would decide it."),
        ((Estimate(0.5, 0.4, 0.6),), {}, OPEN,
         "The interval includes 50 % in n0. More than 100 times as many sentences would decide "
         "it."),
        ((), {}, OPEN, "It was not measured."),
        ((ABOVE, ABOVE), {"of_pairs": True}, HOLDS,
         "In both directions the interval lies above 50 %."),
        ((ABOVE, BELOW), {"of_pairs": True}, DIFFERS,
         "The claim depends on the direction: it holds in 1 of 2, not in 1. The interval lies "
         "above 50 % in n0; it lies below 50 % in n1."),
        ((BELOW,), {"limits": "Why.", "decided_by": "a net"}, OPEN,
         "In the network the interval lies below 50 %. Why. A net would decide it."),
        ((ABOVE,), {"limits": "Why."}, HOLDS, "In the network the interval lies above 50 %."),
        *(((one,), {"other_test": "Why.", "decided_by": "a net"}, OPEN,
           f"In the network the interval lies {where} 50 %. Why. A net would decide it.")
          for one, where in ((ABOVE, "above"), (BELOW, "below"))),
        ((ABOVE, BELOW), {"other_test": "Why.", "decided_by": "a net"}, OPEN,
         "The interval lies above 50 % in n0; it lies below 50 % in n1. Why. A net would decide "
         "it."),
        ((ABOVE,), {"untestable": "It needs training.", "decided_by": "a net"}, OPEN,
         "It needs training. A net would decide it."),
    ],
)  # fmt: skip
def test_a_claim_is_decided_by_where_all_intervals_lie(estimates, changes, verdict, reason):
    """A result that would refute no claim, or of a test other than the paper's, decides nothing."""
    found = {f"n{i}": estimate for i, estimate in enumerate(estimates)}
    assert decide(dataclasses.replace(CLAIM, **changes), found) == (verdict, reason)
    assert decide(CLAIM, {}, "No gold.") == (OPEN, "No gold.")


@pytest.mark.parametrize(
    ("estimates", "mean", "changes", "verdict", "end"),
    [
        ((ABOVE, AROUND), ABOVE, {}, HOLDS, "The mean of both lies above; none contradicts it."),
        ((ABOVE, AROUND), ABOVE, {"above": False}, FAILS, "none contradicts it."),
        ((AROUND, AROUND), BELOW, {}, FAILS, "The mean of both lies below; none contradicts it."),
        ((AROUND,), BELOW, {"limits": "Why.", "decided_by": "a net"}, OPEN,
         "Why. A net would decide it."),
        ((AROUND,), ABOVE, {"limits": "Why."}, HOLDS, "none contradicts it."),
        ((AROUND,), ABOVE, {"other_test": "Why.", "decided_by": "a net"}, OPEN,
         "A net would decide it."),
        ((ABOVE, AROUND), AROUND, {}, OPEN, "as many sentences would decide it."),
        ((BELOW, AROUND), ABOVE, {}, OPEN, "as many sentences would decide it."),
        ((ABOVE, AROUND), BELOW, {}, OPEN, "as many sentences would decide it."),
        ((ABOVE, BELOW, AROUND), ABOVE, {}, DIFFERS, "it includes 50 % in n2."),
        ((ABOVE, ABOVE), ABOVE, {}, HOLDS, "In both networks the interval lies above 50 %."),
    ],
)  # fmt: skip
def test_a_mean_decides_what_no_network_contradicts(estimates, mean, changes, verdict, end):
    found = {f"n{i}": estimate for i, estimate in enumerate(estimates)}
    claim = dataclasses.replace(CLAIM, **changes)
    decided, reason = decide(claim, found, mean=mean)
    assert decided == verdict and reason.endswith(end)
    said = in_brief(claim, found, mean=mean)
    assert ("; mean " in said) == ("The mean of" in reason and verdict != OPEN)


@pytest.mark.parametrize(
    ("estimates", "changes", "brief"),
    [
        ((ABOVE, ABOVE), {}, "all 2 above 50 %"),
        ((BELOW,), {"above": False}, "below 50 %"),
        ((ABOVE, BELOW, BELOW), {}, "holds in 1 of 3, not in 2"),
        ((ABOVE, AROUND), {"limits": "Why."},
         "1 above 50 %, 1 around; needs about 9 times as many sentences"),
        ((BELOW,), {"limits": "Why.", "decided_by": "a net"},
         "below 50 %, but the paper tests it differently; needs a net"),
        ((BELOW,), {"limits": "Why.", "above": False}, "below 50 %"),
        ((ABOVE,), {"other_test": "Why.", "decided_by": "a net"},
         "above 50 %, but the paper tests it differently; needs a net"),
        ((), {}, "not measured"),
        ((ABOVE,), {"untestable": "It needs training.", "decided_by": "a net"},
         "nothing here tests it; needs a net"),
    ],
)  # fmt: skip
def test_a_reason_in_brief_names_the_sides_and_the_doubt(estimates, changes, brief):
    found = {f"n{i}": estimate for i, estimate in enumerate(estimates)}
    assert in_brief(dataclasses.replace(CLAIM, **changes), found) == brief


def test_a_verdict_names_how_many_networks_were_tested():
    found = {"n0": ABOVE, "n1": ABOVE}
    for estimates, changes, networks, reason, brief in (
        (found, {}, 2, "In both networks", "all 2 above 50 %"),
        (found, {}, 6, "In all networks tested (2 of 6)", "all 2 tested (of 6) above 50 %"),
        (found, {"of_pairs": True}, 6, "In both directions", "all 2 above 50 %"),
    ):
        claim = dataclasses.replace(CLAIM, **changes)
        assert (
            decide(claim, estimates, "", networks)[1] == f"{reason} the interval lies above 50 %."
        )
        assert in_brief(claim, estimates, networks) == brief


def test_what_cannot_be_decided_says_what_would_decide_it():
    """More sentences decide neither what the paper tests otherwise nor what nothing here tests."""
    for claim in LITERATURE:
        if claim.untestable or claim.other_test or claim.limits:
            assert claim.decided_by and claim.decided_by[0].islower(), claim.id


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


def test_a_mean_of_estimates_has_the_widest_interval():
    """As if they varied together: the means of their bounds and of the chance values known."""
    both = [Estimate(0.2, 0.1, 0.4, 0.3), Estimate(0.4, 0.3, 0.5)]
    mean = mean_of_estimates(both)
    assert (mean.value, mean.low, mean.high, mean.null) == pytest.approx((0.3, 0.2, 0.45, 0.3))
    noise = np.concatenate(([0.0], np.linspace(-1, 1, 1000)))
    same = [Statistic(noise, 9), Statistic(3 + noise, 9)]
    assert mean_of_estimates([one.estimate for one in same]) == mean_of(same)


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


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "literature.json"
    written().save(file)
    return file


def written() -> Board:
    made = board(fifth_free={"scratch-de-en": BELOW}, norms_align_better={})
    return replace(made, variants={"source-share-at-eos": {"norm rollout": ABOVE}})


def test_a_board_is_read_as_it_was_written(file):
    read = Board.load(file)
    assert read == written()
    values = json.loads(file.read_text(encoding="utf-8"))
    assert [row["id"] for row in values["rows"]] == [claim.id for claim in LITERATURE]
    for row, of in zip(values["rows"], read.rows, strict=True):
        assert (row["verdict"], row["reason"]) == (of.verdict, of.reason)
        estimates = {name: vars(estimate) for name, estimate in of.estimates.items()}
        assert row["networks"] == estimates
        assert row["variants"] == {name: vars(one) for name, one in of.variants.items()}
    rows = {row["id"]: row for row in values["rows"]}
    assert list(rows["removal-order"]["networks"]) == list(NETWORKS)
    assert list(rows["same-heads-matter"]["networks"]) == ["de-en", "en-de"]
    assert "--gold" in rows["norms-align-better"]["reason"]


def changed(values, *path, to):
    inner = values
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = to
    return values


ESTIMATE = {"value": 0.3, "low": 0.2, "high": 0.4, "null": None}


@pytest.mark.parametrize(
    ("path", "to", "why"),
    [
        (("rows", 0, "verdict"), FAILS, "another version"),
        (("rows", 0, "unit"), "BLEU", "another version"),
        (("rows", 0, "threshold"), 0.1, "another version"),
        (("rows", 0, "networks", "scratch-de-en"), {**ESTIMATE, "low": 0.1}, "another version"),
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


def test_rows_that_are_measured_otherwise_by_now_are_not_taken_over(file):
    values = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(changed(values, "rows", 0, "ours", to="Otherwise.")), "utf-8")
    before, valid = Board.load(file), Board.still_valid(file)
    first, *rest = before.estimates
    assert list(valid.estimates) == rest == list(valid.means)
    assert all(valid.estimates[id] == before.estimates[id] for id in rest)
    assert first == LITERATURE[0].id and valid.origin == before.origin
    assert valid.variants == before.variants


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"rows": NaN}', b" " * (LIMIT + 1)])
def test_another_file_is_rejected_in_one_line(file, content):
    file.write_bytes(content)
    with pytest.raises(ValueError, match="is not a literature board") as error:
        Board.load(file)
    assert "\n" not in str(error.value)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        Board.load(file)


def directed(source: str, target: str, name: str = "scratch") -> Checkpoint:
    folder = Path(f"{name}-{source}-{target}")
    languages = {"source_language": source, "target_language": target, "folder": folder}
    network = atlas_network.checkpoint()
    return replace(network, card=replace(network.card, **languages))


@pytest.fixture
def folder(tmp_path) -> Path:
    """A corpus of three pairs, and two other pairs with alignments."""
    (tmp_path / "multi30k").mkdir()
    for language, lines in {
        "de": ["Ein Hund", "Kinder", "Der Mann"],
        "en": ["A", "B", "C"],
    }.items():
        file = tmp_path / "multi30k" / f"val.{language}"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        file.with_name(f"train.{language}").write_text(f"{lines[0]} {lines[0]}\n", "utf-8")
    for language, lines in {"de": ["b c d", "e f"], "en": ["o p", "q r s"]}.items():
        file = tmp_path / f"words.{language}"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "words.align").write_text("0-1 2?0\n1-2\n", encoding="utf-8")
    return tmp_path


def test_gold_is_turned_to_a_networks_direction(folder):
    gold = GoldFile(folder / "words.align")
    forward, backward = gold.read(directed("de", "en")), gold.read(directed("en", "de"))
    assert [s.source_text for s in forward.sentences] == ["b c d", "e f"]
    assert [s.source_text for s in backward.sentences] == ["o p", "q r s"]
    assert [set(s.gold.sure) for s in forward.sentences] == [{(0, 1)}, {(1, 2)}]
    assert [set(s.gold.sure) for s in backward.sentences] == [{(1, 0)}, {(2, 1)}]
    (folder / "words.align").write_text("2-1\n1-1\n", encoding="utf-8")
    english_first = GoldFile(folder / "words.align", one_based=True, english_first=True)
    turned = english_first.read(directed("de", "en")).sentences
    assert [set(s.gold.sure) for s in turned] == [{(0, 1)}, {(0, 0)}]


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ("0-1\n4-2\n", "sentence 2: [^\\n]*$"),
        ("0-1\n", "2 sentence pairs and 1 alignments[^\\n]*$"),
    ],
)
def test_gold_of_another_text_is_refused_in_one_line(folder, links, message):
    (folder / "words.align").write_text(links, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        GoldFile(folder / "words.align").read(directed("de", "en"))


def networks(folder: Path, *checkpoints: Checkpoint, **more):
    with runner(checkpoints, 1) as run:
        return networks_of(checkpoints, folder, more.get("gold"), run, None, more.get("first"))


def test_networks_are_paired_with_the_other_implementation(folder):
    both = directed("de", "en"), directed("de", "en", "baseline")
    found = networks(folder, *both, directed("en", "de"), first=2)
    assert [len(n.text.sentences) for n in found] == [2, 2, 2]
    assert [n.text.sentences[0].source_text for n in found] == ["Ein Hund", "Ein Hund", "A"]
    others = [n.other and n.other.name for n in found]
    assert others == ["baseline-de-en", None, None], "each pair is listed once"
    assert [n.gold for n in found] == [None] * 3
    for network, text in ((found[0], "Ein Hund Ein Hund"), (found[2], "A A")):
        tokens = Counter(
            token.id for token in atlas_network.checkpoint().source_tokenizer.encode(text)
        )
        assert network.frequencies == tokens, "of the source side of the training data"


def test_networks_of_other_languages_are_named(folder):
    with pytest.raises(ValueError, match="scratch-de-fr translates de-fr"):
        networks(folder, directed("de", "fr"))


def test_a_missing_network_is_named_in_one_line(tmp_path):
    with pytest.raises((ValueError, OSError)) as error:
        load_checkpoints(tmp_path)
    assert "scratch-de-en" in str(error.value) and "\n" not in str(error.value)


def test_unfinished_work_is_saved_for_each_network_separately(folder):
    """Two networks with the same measure and sentences do not read each other's sums."""
    both = directed("de", "en"), directed("de", "en", "baseline")
    other = replace(both[1].card, weights=ListedFile("", 0, "1"))
    both = both[0], replace(both[1], card=other)
    with runner(both, 1) as run:
        for one in networks_of(both, folder, None, run, folder / "unfinished"):
            attention(one)
            attention(one)
    assert len(list((folder / "unfinished").iterdir())) == 2


def test_the_command_writes_the_board_and_all_rows(folder, monkeypatch, capsys):
    measured = board(fifth_free={"scratch-de-en": Estimate(0.1, 0.05, 0.15)})
    asked = []

    def measure(networks, corpus, gold, command, on_progress, known, only):
        asked.append(([n.name for n in networks], corpus, gold, command, known))
        return measured

    both = [directed("de", "en"), directed("en", "de")]
    monkeypatch.setattr(analyse, "load_checkpoints", lambda root, device: both)
    monkeypatch.setattr(analyse, "measure_board", measure)
    arguments = ["claims", "--data", str(folder), "--gold", str(folder / "words.align")]
    arguments += ["--first", "2", "--device", "cpu", "--out", str(folder / "board.json")]
    parsed = analyse.parser().parse_args([*arguments, "--json", str(folder / "all.json")])
    parsed.run(parsed)
    command = "python -m core.analyse claims --data DIR --gold FILE --first 2"
    names = ["scratch-de-en", "scratch-en-de"]
    again = analyse.parser().parse_args(
        [*arguments, "--known", str(folder / "board.json"), "--only", "lens", "sinks"]
    )
    again.run(again)
    assert asked.pop()[-2:] == (f"{command} --known FILE --only lens sinks", measured)
    assert asked == [(names, "multi30k, val, first 2", "words.align", command, None)]
    assert Board.load(folder / "board.json") == measured
    rows = json.loads((folder / "all.json").read_text())["rows"]
    assert [row["verdict"] for row in rows] == [row.verdict for row in measured.rows]
    printed = capsys.readouterr().out
    assert "fifth-free" in printed and "does not hold" in printed
