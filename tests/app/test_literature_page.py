"""The page Literature shows the board's numbers, or one line about a missing or broken board."""

import dataclasses

import pytest

from app.look.markdown import plain
from app.state import literature
from core.atlas.claims.claim import Estimate
from core.atlas.claims.literature import FAMILIES, LITERATURE
from core.checkpoint.folder import read_card
from tests.app.boards import NETWORKS, board
from tests.app.page_checks import ROOT
from tests.app.rendered import Rendered, array, render

CLAIMS = {claim.id: claim for claim in LITERATURE}
FOUR = dict.fromkeys(NETWORKS)
LOW = {name: Estimate(0.1, 0.0412, 0.15) for name in NETWORKS}
POSITIONAL = {
    "scratch-de-en": Estimate(0.97, 0.961, 0.98, 0.06),
    "baseline-de-en": Estimate(0.8, 0.7, 0.85, 0.0649),
    "scratch-en-de": Estimate(0.9, 0.88, 0.92, 0.07),
    "baseline-en-de": Estimate(0.996, 0.95, 1.0, 0.1),
}
CROSS = {name: Estimate(3.14159, 1.5, 12.25) for name in NETWORKS}
SMALL = {name: Estimate(0.2, 0.18, 0.22, 0.15) for name in NETWORKS}
POINTS = {name: Estimate(0.0312, -0.0001, 0.0623) for name in NETWORKS}


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """Return a function that writes a board of these networks and renders the page."""
    file = tmp_path / "literature.json"
    monkeypatch.setattr(literature, "BOARD", file)

    def show(written: object = None, **query: str) -> Rendered:
        weights = {n: read_card(ROOT / "checkpoints" / n).weights_sha256 for n in NETWORKS}
        if written is None:
            board(
                weights,
                positional_heads=POSITIONAL,
                fifth_free=LOW,
                cross_collapses=CROSS,
                eos_and_punctuation=SMALL,
                norms_align_better={},
                input_reading_better=POINTS,
            ).save(file)
        elif isinstance(written, bytes):
            file.write_bytes(written)
        return render("literature", **query)

    return show


def test_verdicts_are_counted_and_listed(shown):
    page = shown()
    # Of 21 claims, 10 hold and one fails. The other 10: norms and fixed heads were not measured,
    # two have mixed results, one is about another kind of network, and five are tested here in
    # another way than in their papers.
    page.claim(
        "Claims: 21. Hold in all 4 networks tested: 10. Do not hold: 1. Cannot be decided here: 10."
    )
    table = page.table("literature_table")
    assert [text.split("  \n") for text in table["claim, and the quantity"]] == [
        [claim.claim, f":gray[{plain(claim.quantity)}]"] for claim in LITERATURE
    ]
    rows = dict(zip(CLAIMS, table.itertuples(index=False, name=None), strict=True))
    assert rows["fifth-free"][1:] == (
        "20\u00a0%",
        "10\u00a0% [4\u00a0%, 15\u00a0%]",
        ":red[does not hold]",
    )
    assert rows["cross-collapses"][1:] == ("", "3.14 BLEU [1.50, 12.25]", ":green[holds]")
    assert rows["eos-and-punctuation"][1:] == (
        "83\u00a0% to 91\u00a0%",
        "20\u00a0% [18\u00a0%, 22\u00a0%]",
        ":gray[cannot be decided here]",
    )
    assert rows["input-reading-better"][1:] == (
        "+17.9 points",
        "+3.1 points [0.0, +6.2]",
        ":gray[cannot be decided here]",
    )
    assert rows["positional-heads"][2] == "92\u00a0% [87\u00a0%, 94\u00a0%]", "mean of all"
    assert rows["norms-align-better"][2:] == ("", ":gray[cannot be decided here]")


def test_the_networks_are_introduced(shown):
    shown().claim(
        "Networks tested: **scratch-de-en** (From scratch, German → English), **baseline-de-en** "
        "(Baseline: torch.nn.Transformer, German → English), **scratch-en-de** (From scratch, "
        "English → German), **baseline-en-de** (Baseline: torch.nn.Transformer, English → "
        "German). Each has 4 encoder and 4 decoder layers of 4 heads: 16 encoder heads, 16 decoder "
        "heads and 16 cross-attention heads."
    )


def test_networks_with_other_decoders_than_encoders_are_counted(shown, monkeypatch):
    tested = literature.tested

    def deeper(board):
        return {
            name: dataclasses.replace(
                card,
                model=dataclasses.replace(
                    card.model, num_encoder_layers=6, num_decoder_layers=3, num_heads=2
                ),
            )
            for name, card in tested(board).items()
        }

    monkeypatch.setattr(literature, "tested", deeper)
    shown().claim_matching(
        r"Networks tested: .* Each has 6 encoder and 3 decoder layers of 2 heads: 12 encoder "
        r"heads, 6 decoder heads and 6 cross-attention heads\."
    )


@pytest.mark.parametrize(
    ("networks", "where"),
    [(1, "in the network"), (2, "in both networks"), (3, "in all 3 networks")],
)
def test_the_count_says_in_how_many_networks_claims_were_tested(monkeypatch, networks, where):
    whole = board()
    weights = {name: whole.origin.weights[name] for name in NETWORKS[:networks]}
    fewer = dataclasses.replace(whole, origin=dataclasses.replace(whole.origin, weights=weights))
    monkeypatch.setattr(literature, "literature_board", lambda: fewer)
    assert f" Hold {where} tested: 15. " in " ".join(render("literature").texts())


def test_a_claim_is_shown_with_its_verdict_and_reason(shown):
    page = shown(literature_family="What heads attend to")
    texts = page.texts("claim_positional_heads")
    assert texts[0] == "Some encoder heads nearly always attend to the neighbouring token."
    assert ":gray-badge[cannot be decided here]" in texts
    assert (
        "The interval lies above 90 % in scratch-de-en, baseline-en-de; it lies below 90 % in "
        "baseline-de-en; it includes 90 % in scratch-en-de. The networks disagree."
    ) in texts
    (caption,) = page.texts("claim_positional_heads", "caption")
    assert caption == (
        "The claim is about values above 90 %, the shaded side of the dotted line. "
        "Mean of all: 92\u00a0% [87\u00a0%, 94\u00a0%]. Published (diamonds): 90\u00a0%. "
        "Chance level (short lines; keys drawn at random): 6\u00a0% to 10\u00a0%."
    )
    texts = page.texts("claim_eos_and_punctuation")
    assert ":gray-badge[cannot be decided here]" in texts
    assert any(
        text.startswith("In all 4 networks the interval lies below 50 %. That would not refute")
        for text in texts
    )
    assert any("83–91 % on end-of-sentence tokens" in text for text in texts)
    assert any("2605.01229" in text for text in texts)
    assert page.texts("claim_fixed_positional_heads", "caption") == []
    assert "literature_fixed_positional_heads" not in page.figures


def traces(figure):
    return [
        (array(trace["x"]).tolist(), array(trace["y"]).tolist(), trace["customdata"])
        for trace in figure["data"]
    ]


def test_a_figure_draws_every_network_the_threshold_and_chance(shown):
    page = shown(literature_family="What heads attend to")
    figure = page.figure("literature_positional_heads")
    names = [*NETWORKS, "mean of all", "published"]
    assert figure["layout"]["yaxis"]["ticktext"] == names
    assert figure["layout"]["yaxis"]["range"] == [5.5, -0.5], "the first network is on top"
    dots, chance, published = traces(figure)
    assert dots[0] == pytest.approx([97, 80, 90, 99.6, 91.65])
    assert dots[1] == [0, 1, 2, 3, 4]
    assert dots[2][1] == "baseline-de-en: 80\u00a0% [70\u00a0%, 85\u00a0%]"
    assert dots[2][3] == "baseline-en-de: 99.6\u00a0% [95\u00a0%, 100\u00a0%]"
    bars = figure["data"][0]["error_x"]
    assert array(bars["array"]).tolist() == pytest.approx([1, 5, 2, 0.4, 2.1])
    assert array(bars["arrayminus"]).tolist() == pytest.approx([0.9, 10, 2, 4.6, 4.375])
    assert chance[0] == pytest.approx([6, 6.49, 7, 10, 7.3725])
    assert chance[1] == [0, 1, 2, 3, 4]
    assert published[:2] == ([90], [5])
    line, shade = sorted(figure["layout"]["shapes"], key=lambda shape: shape["type"])
    assert line["x0"] == line["x1"] == 90
    assert shade["x0"] == 90 and shade["x1"] > 99.6, "the claimed side is shaded"
    assert figure["layout"]["xaxis"]["title"]["text"] == "percent"
    left, right = figure["layout"]["xaxis"]["range"]
    assert left < 6 and right > 100


def test_the_shaded_side_is_below_where_the_claim_says_so(shown):
    page = shown(literature_family="Pruning")
    figure = page.figure("literature_third_removable")
    (shade,) = (shape for shape in figure["layout"]["shapes"] if shape["type"] == "rect")
    assert shade["x1"] == 1 and shade["x0"] < min(array(figure["data"][0]["x"]))
    (caption,) = page.texts("claim_third_removable", "caption")
    assert caption.startswith("The claim is about values below 1 BLEU,")
    assert ":red-badge[does not hold]" in page.texts("claim_fifth_free")


def test_a_claim_about_pairs_of_networks_has_a_row_per_direction(shown):
    page = shown(literature_family="Single heads")
    figure = page.figure("literature_same_heads_matter")
    assert figure["layout"]["yaxis"]["ticktext"] == ["de-en", "en-de", "mean of all"]


def test_a_range_is_drawn_by_its_ends(shown):
    page = shown(literature_family="What heads attend to")
    *_, published = traces(page.figure("literature_eos_and_punctuation"))
    assert published[0] == pytest.approx([83, 91])
    assert published[2] == ["published: 83\u00a0%", "published: 91\u00a0%"]


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_shows_its_claims_in_order(shown, family):
    page = shown(literature_family=family)
    expected = [claim.claim for claim in LITERATURE if claim.family == family]
    assert [text for text in page.texts(kind="subheader") if text in expected] == expected
    assert len(page.texts(kind="subheader")) == len(expected) + 1  # and "Measure it again"


def test_the_command_and_what_it_was_measured_on_are_shown(shown):
    page = shown()
    page.claim(
        "Text: 1,014 sentence pairs (multi30k, val), and 150 sentences with manual alignments "
        "(words.align)."
    )
    (code,) = page.app.code
    assert code.value.startswith("python -m core.analyse claims --data DIR --gold FILE --out ")
    assert not page.texts(kind="warning")


def test_a_missing_board_names_the_command(shown):
    page = shown(written=False)
    (line,) = page.texts(kind="info") or page.texts(kind="alert")
    assert "no claim has been tested here" in line
    assert not page.tables


@pytest.mark.parametrize("content", [b"{}", b"", b"[1, 2]"])
def test_a_broken_board_is_one_line(shown, content):
    page = shown(written=content)
    (line,) = page.texts(kind="error") or page.texts(kind="alert")
    assert "is not a literature board" in line and "\n" not in line
    assert not page.tables


def test_a_board_of_other_weights_is_named(shown, tmp_path):
    weights = {n: read_card(ROOT / "checkpoints" / n).weights_sha256 for n in NETWORKS}
    board(weights | {"scratch-en-de": "0" * 64}).save(tmp_path / "literature.json")
    page = shown(written=True)
    (line,) = page.texts(kind="warning") or page.texts(kind="alert")
    assert "on weights of scratch-en-de that are not available here:" in line
    assert "literature_table" in page.tables
