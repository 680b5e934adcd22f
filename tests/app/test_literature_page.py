"""The page Literature shows the board's numbers, or one line about a missing or broken board."""

import dataclasses
import html
import re
from urllib.parse import parse_qs, parse_qsl

import numpy as np
import pytest
import streamlit

from app.figures.amounts import amount, axis_title, spread
from app.figures.style import ABOVE, BELOW, THIRD
from app.look.markdown import plain
from app.state import address, literature
from app.views.literature.claim import VERDICT_COLOURS, measured, threshold
from core.atlas.claims.claim import DIFFERS, FAILS, HOLDS, OPEN, Estimate
from core.atlas.claims.literature import EXAMPLES, LITERATURE
from core.checkpoint.folder import read_card
from tests.app.atlases import told
from tests.app.boards import NETWORKS, board
from tests.app.page_checks import ROOT
from tests.app.rendered import Rendered, array, read, render

FOLDS = tuple(f"literature_{word}" for word in ("hold", "do", "differ", "undecided"))
COLOURS = {ABOVE.of("light"): 1, BELOW.of("light"): -1, THIRD.of("light"): 0}
VARIANTS = {
    "source-share-falls": {"norm rollout": Estimate(-0.2, -0.3, -0.1)},
    "source-share-at-eos": {"norm rollout": Estimate(0.021, 0.01, 0.03)},
}
OTHERWISE = {
    "source-share-falls": [
        "**Measured otherwise.** By norm rollout, the mean of all is −20.0 points [−30.0, −10.0], "
        "below 0 points."
    ],
    "source-share-at-eos": [
        "**Measured otherwise.** By norm rollout, the mean of all is +2.1 points [+1.0, +3.0], "
        "above 0 points; measured as above, it lies below."
    ],
}
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
            written = board(
                weights,
                positional_heads=POSITIONAL,
                fifth_free=LOW,
                cross_collapses=CROSS,
                eos_and_punctuation=SMALL,
                norms_align_better={},
                input_reading_better=POINTS,
            )
            dataclasses.replace(written, variants=VARIANTS).save(file)
        elif isinstance(written, bytes):
            file.write_bytes(written)
        return render("literature", **query)

    return show


def test_verdicts_are_counted_and_listed(shown):
    page = shown()
    # The others: norms and fixed heads were not measured, one has intervals around its threshold,
    # one is about another kind of network, and three are tested otherwise than in their papers.
    counts = [text for text in page.texts() if " published claims" in text]
    assert [told(text) for text in counts] == [[39, 4, 26, 1, 1, 11]]
    ids = {plain(claim.claim): claim.id for claim in LITERATURE}
    rows = {
        ids.pop(row[1]): row[2:]
        for key in FOLDS
        for row in page.table(key).itertuples(index=False, name=None)
    }
    assert not ids and rows["fifth-free"][0] == "Michel et al. 2019"
    for name, row in rows.items():
        assert CLAIMS[name].source.startswith(plain(row[0]).replace("\\", "").split(" et al.")[0])
        assert row[0].rstrip(")")[-4:-2] == "20"
    numbers = [number for key in FOLDS for number in page.table(key)["no."]]
    assert numbers == list(range(1, 40)), "as in the chart"
    verdicts = [row[-1].partition("]: ")[0] for row in rows.values()]
    order = [
        *(":blue[**holds**", ":orange[**does not hold**"),
        *(":primary[**differs**", ":gray[**undecided**"),
    ]
    assert verdicts == [one for one in order for _ in range(verdicts.count(one))]
    assert rows["fifth-free"][1:] == (
        "20\u00a0%",
        "10\u00a0%",
        ":orange[**does not hold**]: all 4 below 20 %",
    )
    assert rows["cross-collapses"][1:] == (
        "—",
        "3.14 BLEU",
        ":blue[**holds**]: all 4 above 0 BLEU",
    )
    assert rows["eos-and-punctuation"][1:] == (
        "83\u00a0% to 91\u00a0%",
        "20\u00a0%",
        ":gray[**undecided**]: all 4 below 50 %, but the paper tests it differently; needs a "
        "network for many languages, with language tags",
    )
    assert rows["input-reading-better"][1:] == (
        "+17.9 points",
        "+3.1 points",
        ":gray[**undecided**]: all 4 around 0 points; needs about 1.1 times as many sentences",
    )
    assert rows["positional-heads"][2:] == (
        "92\u00a0%",
        ":primary[**differs**]: holds in 2 of 4, not in 1, undecided in 1",
    ), "mean of all"
    assert rows["norms-align-better"][2:] == ("—", ":gray[**undecided**]: not measured")


def test_the_board_is_drawn_claim_by_claim(shown):
    """A column a claim in the order of the verdicts; each network's interval in its colour."""
    figure = shown().figure("literature_board")
    rows = {html.escape(r.claim.claim, False): r for r in literature.literature_board().rows}
    columns = {}
    for trace in figure["data"]:
        colour = COLOURS[trace["marker"]["color"]]
        for i, hover in enumerate(trace["customdata"]):
            flat = hover.replace("<br>", " ")
            row = next(row for text, row in rows.items() if flat.startswith(text))
            columns.setdefault(round(array(trace["x"])[i]), set()).add(row.claim.id)
            y = array(trace["y"])[i]
            if not row.estimates:
                assert y == 0 and "error_y" not in trace and f"{row.verdict}:" in hover
                continue
            name = hover.rpartition("<br>")[2].partition(":")[0]
            claim, one = row.claim, row.estimates[name]
            assert hover.endswith(measured(one, claim.unit))
            bounds = [end for each in row.estimates.values() for end in (each.low, each.high)]
            unit = max(abs(end - claim.threshold) for end in bounds)
            places = (np.array([one.low, one.value, one.high]) - claim.threshold) / unit
            places = np.sort(places if claim.above else -places)
            down, up = (array(trace["error_y"][side])[i] for side in ("arrayminus", "array"))
            assert [y - down, y, y + up] == pytest.approx(places)
            side = 1 if places[0] > 0 else -1 if places[-1] < 0 else 0
            assert colour == (0 if row.verdict == OPEN else side)
    ids = [id for x in sorted(columns) for id in columns[x]]
    assert len(ids) == len(columns) == len(CLAIMS), "each claim in a column of its own"
    verdicts = [row.verdict for id in ids for row in rows.values() if row.claim.id == id]
    assert verdicts == [v for v in (HOLDS, FAILS, DIFFERS, OPEN) for _ in range(verdicts.count(v))]
    axis = figure["layout"]["xaxis"]
    below = dict(zip(axis["tickvals"], axis["ticktext"], strict=True))
    groups = {x: re.sub("^(<br>)*[0-9]*(<br>)*", "", said) for x, said in below.items()}
    assert {x: said for x, said in groups.items() if said} == {
        12.5: "hold",
        27: "do not<br>hold",
        29: "differ",
        36: "undecided",
    }
    places = {x: int(n[0]) for x, said in below.items() if (n := re.findall("[0-9]+", said))}
    assert places == {x: n for n, x in enumerate(sorted(columns), 1)}, "numbered as in the tables"


def test_a_dot_of_the_board_opens_its_claim(shown, monkeypatch):
    figure, draw = shown().figure("literature_board"), streamlit.plotly_chart
    for trace in figure["data"]:
        x, hover = array(trace["x"])[-1], trace["customdata"][-1].replace("<br>", " ")

        def click(*drawn, on_select, key, x=x, **options):
            if key == "literature_board":
                streamlit.session_state[key] = {"selection": {"points": [{"x": x}]}}
                on_select()
            draw(*drawn, **options)

        monkeypatch.setattr(streamlit, "plotly_chart", click)
        (claim,) = (c for c in LITERATURE if hover.startswith(html.escape(c.claim, False)))
        assert render("literature").texts(f"claim_{claim.id.replace('-', '_')}")


def test_links_lead_to_papers_and_an_old_link_to_the_first_claim_of_its_group(shown):
    page = shown(literature_family="Single heads")
    published = " ".join(page.texts("claim_few_heads_matter"))
    assert "[arXiv 1905.10650](https://arxiv.org/abs/1905.10650), “Are" in published
    published = " ".join(shown(literature_claim="other-heads-idle").texts("claim_other_heads_idle"))
    assert "](https://openreview.net/forum?id=" in published
    assert any(
        "claim “sinks” is not available" in t for t in shown(literature_claim="sinks").texts()
    )


def test_a_verdict_names_the_method_that_contradicts_it(shown):
    page = shown()
    cells = {row[1]: row[-1] for key in FOLDS for row in page.table(key).itertuples(index=False)}
    for id, end in (("source-share-at-eos", "; above by norm rollout"), ("source-share-falls", "")):
        assert cells[plain(CLAIMS[id].claim)].partition("points")[2] == end


def test_the_networks_are_introduced(shown, monkeypatch):
    start = "Networks tested: "
    text = shown().claim_matching(f"{start}.*")[0]
    for name, words in (
        ("scratch-de-en", "From scratch, German → English"),
        ("baseline-en-de", "Baseline: torch.nn.Transformer, English → German"),
    ):
        assert f"**{name}** ({words})" in text
    tested = literature.tested
    deep = {"num_encoder_layers": 6, "num_decoder_layers": 3, "num_heads": 2}
    monkeypatch.setattr(
        literature,
        "tested",
        lambda board: {
            name: dataclasses.replace(card, model=dataclasses.replace(card.model, **deep))
            for name, card in tested(board).items()
        },
    )
    deeper = shown().claim_matching(f"{start}.*")[0]
    for said, sizes in ((text, [4, 4, 4, 16, 16, 16]), (deeper, [6, 3, 2, 12, 6, 6])):
        assert told(said.partition(" Each has ")[2]) == sizes


@pytest.mark.parametrize(
    ("networks", "where"),
    [(1, "1 network"), (2, "2 networks"), (3, "3 networks")],
)
def test_the_count_says_in_how_many_networks_claims_were_tested(monkeypatch, networks, where):
    whole = board()
    weights = {name: whole.origin.weights[name] for name in NETWORKS[:networks]}
    fewer = dataclasses.replace(whole, origin=dataclasses.replace(whole.origin, weights=weights))
    monkeypatch.setattr(literature, "literature_board", lambda: fewer)
    assert f" claims, {where}: :blue[31 hold]" in " ".join(render("literature").texts())


@pytest.mark.parametrize("ids", [list(CLAIMS)[n::13] for n in range(13)])
def test_each_claim_is_shown_with_its_verdict_and_reason(shown, ids):
    page = shown(literature_claim=ids[0])
    for n, id in enumerate(ids):
        if n:
            page = read(page.app.selectbox(key="literature_claim").set_value(id).run())
        row = next(row for row in literature.literature_board().rows if row.claim.id == id)
        claim, key = row.claim, row.claim.id.replace("-", "_")
        texts = page.texts(f"claim_{key}")
        assert row.reason in texts and f"##### {plain(claim.claim)}" in texts
        assert f":{VERDICT_COLOURS[row.verdict]}-badge[{row.verdict}]" in texts
        published = f"**Published.** {plain(claim.theirs)} {plain(claim.source)}."
        assert published in [re.sub(r"\[([^]]+)\]\(https:[^)]+\)", r"\1", text) for text in texts]
        assert any(plain(claim.ours) in text for text in texts)
        otherwise = [t.replace("\\", "") for t in texts if t.startswith("**Measured otherwise.**")]
        assert otherwise == OTHERWISE.get(claim.id, [])
        assert (f"literature_{key}" in page.figures) == bool(row.estimates)
        if row.estimates:
            shows_its_row(page.figure(f"literature_{key}"), row)
            (caption,) = page.texts(f"claim_{key}", "caption")
            side = "above" if claim.above else "below"
            assert f"values {side} {threshold(claim)}, the shaded" in caption
            nulls = [one.null for one in row.estimates.values() if one.null is not None]
            chance = f"{claim.null}): {spread(tuple(nulls), claim.unit)}." if nulls else ""
            assert chance in caption and bool(chance) == ("Chance" in caption)
            assert ("diamonds" in caption) == bool(claim.published)
        else:
            assert page.texts(f"claim_{key}", "caption") == []


def shows_its_row(figure, row):
    """Dots with intervals of each network and the mean, chance, the published numbers and sides."""
    claim = row.claim
    scale = 100 if claim.unit in ("share", "points") else 1
    named = dict(row.estimates) | ({"mean of all": row.mean} if row.mean else {})
    names = [*named, *["published"] * bool(claim.published)]
    layout, (dots, *others) = figure["layout"], figure["data"]
    assert layout["yaxis"]["ticktext"] == names
    assert layout["yaxis"]["range"] == [len(names) - 0.5, -0.5], "the first network is on top"
    assert layout["xaxis"]["title"]["text"] == axis_title(claim.unit)
    estimates = list(named.values())
    bars = dots["error_x"]
    for found, expected in (
        (dots["x"], [one.value for one in estimates]),
        (bars["array"], [one.high - one.value for one in estimates]),
        (bars["arrayminus"], [one.value - one.low for one in estimates]),
    ):
        assert array(found) == pytest.approx(scale * np.array(expected))
    assert array(dots["y"]).tolist() == list(range(len(named)))
    for text, (name, one) in zip(dots["customdata"], named.items(), strict=True):
        assert text == f"{name}: {measured(one, claim.unit)}"
    nulls = [(y, one.null) for y, one in enumerate(estimates) if one.null is not None]
    places = [nulls] * bool(nulls)
    places += [[(len(named), value) for value in claim.published]] * bool(claim.published)
    for trace, expected in zip(others, places, strict=True):
        assert array(trace["y"]).tolist() == [y for y, _ in expected]
        assert array(trace["x"]) == pytest.approx([scale * value for _, value in expected])
        for text, (_, value) in zip(trace["customdata"], expected, strict=True):
            assert text.endswith(amount(value, claim.unit))
    line, shade = sorted(layout["shapes"], key=lambda shape: shape["type"])
    limit = scale * claim.threshold
    assert line["x0"] == line["x1"] == limit == (shade["x0"] if claim.above else shade["x1"])
    reached = [scale * end for one in estimates for end in (one.low, one.high)]
    left, right = layout["xaxis"]["range"]
    assert left < min(reached) and max(reached) < right
    assert (shade["x1"] == right) if claim.above else (shade["x0"] == left), "the claimed side"


def test_the_command_and_what_it_was_measured_on_are_shown(shown):
    page = shown()
    (text,) = [text for text in page.texts() if text.startswith("Text: ")]
    assert told(text)[:2] == [1014, 30] and "words.align" in text and 150 in told(text)
    (code,) = page.app.code
    assert code.value.startswith("python -m core.analyse claims --data DIR --gold FILE --out ")
    assert not page.texts(kind="warning")


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (False, "info", "no claim has been tested here"),
        *((content, "error", "is not a literature board") for content in (b"{}", b"", b"[1, 2]")),
    ],
)
def test_a_missing_or_broken_board_is_one_line(shown, content, kind, words):
    page = shown(written=content)
    (line,) = page.texts(kind=kind)
    assert words in line and "\n" not in line
    assert not page.tables


def test_a_board_of_other_weights_is_named(shown, tmp_path):
    weights = {n: read_card(ROOT / "checkpoints" / n).weights_sha256 for n in NETWORKS}
    board(weights | {"scratch-en-de": "0" * 64}).save(tmp_path / "literature.json")
    page = shown(written=True)
    (line,) = page.texts(kind="warning")
    assert "on weights of scratch-en-de that are not available here:" in line
    assert "literature_hold" in page.tables


@pytest.mark.parametrize("link", sorted(set(EXAMPLES.values())))
def test_an_example_opens_with_all_its_choices(link):
    path, _, query = link.partition("?")
    page = path.removeprefix("/")
    for name in parse_qs(query):
        assert page in address._ONLY_ON.get(name, (page,)), name


def test_a_claim_leads_to_its_example(shown):
    page = shown(literature_claim="sinks-exist")
    links = {link.proto.query_string: link.proto.label for link in page.app.get("page_link")}
    chosen = {parse: label for parse, label in links.items() if "layer=1" in parse}
    example = dict(parse_qsl(EXAMPLES["sinks-exist"].partition("?")[2]))
    assert "See one example on the page Translate" in [
        label for query, label in chosen.items() if dict(parse_qsl(query)) == example
    ]
