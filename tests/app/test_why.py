"""Ask why, and why a head looks there: what stands on the page is what the questions answer."""

import re
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from app.figures.style import tick
from app.figures.why import Grid, Node, Ribbon, pairs_figure, ribbons_figure, terms_figure
from app.figures.why import words_grid_figure as grid_figure
from app.views.why.sources import cells as in_cells
from core.config import DecodeConfig
from core.experiments.attribution import METHODS
from core.experiments.head_effects import head_effects
from core.experiments.logit_lens import lens
from core.experiments.score_split import score_split
from core.experiments.word_choice import rivals, true_change, word_choice
from core.record.edits import Edge, Edits
from core.record.record import TranslationRecord
from tests.app.test_app import MAIN
from tests.app.test_figures import HOSTILE, strings

SENTENCE = "Zwei Männer spielen Fußball."
BAD = HOSTILE[2]
BASE = f"source={quote(SENTENCE)}&direction=de-en&model=scratch&search=greedy"


@pytest.fixture(scope="module")
def record(translator) -> TranslationRecord:
    return translator.inspect(SENTENCE, decode=DecodeConfig(beam=1))


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def cells(page: Page, key: str) -> list[list[str]]:
    """What a table holds, row by row."""
    rows = page.locator(f".st-key-{key} tbody tr")
    rows.first.wait_for(timeout=60_000)
    return rows.evaluate_all(
        "rows => rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
    )


def settled(page: Page) -> None:
    page.wait_for_timeout(200)
    expect(page.locator("[data-testid=stApp]")).not_to_have_attribute(
        "data-test-script-state", "running", timeout=120_000
    )


def test_the_page_says_what_the_questions_answer(
    local_page: Page, serve, translator, record
) -> None:
    local_page.goto(f"{serve(MAIN)}/why?{BASE}")
    said = local_page.locator(".st-key-why_matters")
    expect(said).to_be_visible(timeout=60_000)
    first = head_effects(translator, record).ranked()[0]
    expect(said).to_contain_text(
        f"Head {first.head + 1} of layer {first.layer + 1} of the {first.kind} attention"
    )
    change = re.search(r"\(([+−]\d+\.\d\d) nats\)", said.inner_text())
    assert change and number(change[1]) == pytest.approx(first.change, abs=0.00501)

    titles = {
        "open_pairs": "why_pairs_map",
        "open_choice": "why_tried",
        "open_lens": "why_lens",
        "open_decoder_lens": "why_decoder_lens",
        "open_sources": "why_agreement",
    }
    for key, shown in titles.items():
        fold = local_page.locator(f".st-key-{key} details").first
        expect(fold).to_be_visible(timeout=60_000)
        settled(local_page)
        if fold.get_attribute("open") is None:  # a quick answer opens by itself
            fold.locator("summary").first.click()
        expect(local_page.locator(f".st-key-{shown}").first).to_be_visible(timeout=120_000)
        settled(local_page)
    expect(local_page.locator("[data-testid=stException]")).to_have_count(0)
    # No two labels of the ribbons lie over each other.
    boxes = local_page.locator(".st-key-why_ribbons .node-label").evaluate_all(
        "labels => labels.map((label) => label.getBoundingClientRect().toJSON())"
    )
    assert len(boxes) > 10
    for n, one in enumerate(boxes):
        for other in boxes[n + 1 :]:
            beside = one["right"] <= other["left"] or other["right"] <= one["left"]
            below = abs(one["top"] - other["top"]) >= 13
            assert beside or below, (one, other)

    step = len(record.target_out) - 3
    own = record.target_out[step].id
    chosen = local_page.locator(".st-key-why_other button[aria-checked=true]").inner_text()
    found = rivals(translator, record, step)
    texts = [token.text for token in translator.target_tokens(found.ids)]
    other = found.ids[texts.index(chosen)]
    choice = word_choice(translator, record, step, (own, other))
    rows = cells(local_page, "why_tried")
    component = choice.largest(1)[0][0]
    heads = [c for c, _ in choice.largest(len(choice.terms)) if c.head is not None]
    assert component in choice.components
    off = Edits(heads_off=frozenset({heads[0].place}))
    assert [number(text) for text in rows[0][1:]] == pytest.approx(
        [
            choice.predicted(*heads[0].place),
            true_change(translator, record, step, (own, other), off),
        ],
        abs=0.0006,
    )
    kind, (layer, head, key) = max(
        ((k, at) for k, array in choice.edges.items() for at in np.ndindex(array.shape)),
        key=lambda place: abs(choice.edges[place[0]][place[1]]),
    )
    cut = Edits(edges=(Edge(kind, layer, head, step, key, 0.0),))
    assert [number(text) for text in rows[5][1:]] == pytest.approx(
        [
            choice.predicted(kind, layer, head, key),
            true_change(translator, record, step, (own, other), cut),
        ],
        abs=0.0006,
    )
    agreement = cells(local_page, "why_agreement")
    assert {row[0] for row in agreement} == set(METHODS)
    assert all(-1 <= number(row[3]) <= 1 for row in agreement)


def test_a_score_is_taken_apart_inside_a_head(local_page: Page, serve, translator, record) -> None:
    place = "kind=cross&layer=2&head=3&q=1&k=1"
    local_page.goto(f"{serve(MAIN)}/head?{BASE}&{place}")
    local_page.locator(".st-key-open_score summary").first.click(timeout=60_000)
    split = score_split(translator, record, "cross", 2, 3, 1, 1)
    title = local_page.locator(".st-key-why_score")
    expect(title).to_contain_text("as a sum: query × key", timeout=60_000)
    shown = re.search(r"The score ([+−]\d+\.\d+)", title.inner_text())
    assert shown and number(shown[1]) == pytest.approx(split.score, abs=0.0006)
    texts = title.locator(".plotly text").evaluate_all("all => all.map((one) => one.textContent)")
    in_cells = [text for text in texts if re.fullmatch(r"[+−]?\d+\.\d\d", text)]
    assert [number(text) for text in in_cells] == pytest.approx(
        split.by_group()[2].ravel(), abs=0.0051
    )
    expect(local_page.locator(".st-key-why_terms")).to_contain_text("× ")
    rows = cells(local_page, "why_removals")
    assert len(rows) == len(split.removals)
    for row, removal in zip(rows, split.removals, strict=True):
        assert row[0] == f"{removal.component.label} ({removal.end})"
        moves = [removal.predicted.score, removal.true.score, removal.true.weight]
        assert [number(row[i]) for i in (1, 2, 4)] == pytest.approx(moves, abs=0.0006)


def test_terms_are_drawn_in_their_order() -> None:
    figure = terms_figure(["a", BAD], [1.5, -0.5], BAD, "sum", "nats", "light")
    (bars,) = figure.data
    assert list(bars.x) == [1.5, -0.5] and list(bars.y) == [0, 1]
    assert bars.marker.color[0] != bars.marker.color[1]
    top, bottom = figure.layout.yaxis.range
    assert top > bottom, "the first stands on top"
    assert not any("<a" in text for text in strings(figure.to_plotly_json()))


def test_a_term_with_two_lines_takes_more_room() -> None:
    long = "decoder layer 2 feed-forward", "× encoder layer 1 feed-forward"
    figures = [
        terms_figure([name, "token"], [1.5, -0.5], "title", "sum", "nats", "light")
        for name in ("one", "\n".join(long))
    ]
    assert figures[1].layout.yaxis.ticktext[0] == "<br>".join(long)
    assert figures[1].data[0].customdata[0] == " ".join(long)
    assert figures[1].layout.height > figures[0].layout.height


def test_a_second_bar_stands_under_the_first_and_in_its_range() -> None:
    figure = terms_figure(
        ["a", "b"], [1.0, 0.5], "title", "sum", "logit", "light", tried=[-2.0, float("nan")]
    )
    first, second = figure.data
    assert list(second.x) == [-2.0, None]
    assert all(below > above for above, below in zip(first.y, second.y, strict=True))
    low, high = figure.layout.xaxis.range
    assert low < -2 and high > 1
    assert second.marker.color not in first.marker.color


def test_intervals_are_drawn_from_low_to_high() -> None:
    figure = terms_figure(
        ["a", "b"], [1.0, -0.5], "title", "", "nats", "light", intervals=([0.25, -3.0], [2.0, 0.0])
    )
    (bars,) = figure.data
    assert list(bars.error_x.array) == [1.0, 0.5]
    assert list(bars.error_x.arrayminus) == [0.75, 2.5]
    low, high = figure.layout.xaxis.range
    assert low < -3 and high > 2
    assert list(bars.customdata[1]) == ["b", "−3.00 to 0.00"]


def test_ribbons_add_up() -> None:
    shirt, blue = Node(("cross", 0), "Hemd"), Node(("cross", 1), "blau")
    first, second = Node("cross 1", "cross layer 1"), Node("cross 2", "cross layer 2")
    ribbons = [
        Ribbon(shirt, first, 2.0),
        Ribbon(blue, first, -0.5),
        Ribbon(shirt, second, 0.25),
    ]
    figure = ribbons_figure(ribbons, ("shirt", "skirt"), "title", "subtitle", "light")
    (sankey,) = figure.data
    labels, link = list(sankey.node.label), sankey.link
    into = dict.fromkeys(labels, 0.0)
    out = dict.fromkeys(labels, 0.0)
    for source, target, value in zip(link.source, link.target, link.value, strict=True):
        out[labels[source]] += value
        into[labels[target]] += value
    assert into["shirt"] - into["skirt"] == pytest.approx(1.75)
    for middle in ("cross layer 1", "cross layer 2"):
        assert into[middle] == pytest.approx(out[middle])
    assert out["Hemd"] == pytest.approx(2.25)


def test_words_with_one_label_are_two_nodes_and_a_word_with_two_ribbons_is_one() -> None:
    source, written, layer = Node(("cross", 3), "."), Node(("decoder", 4), "."), Node("l", "layer")
    ribbons = [Ribbon(source, layer, 1.0), Ribbon(written, layer, 0.5), Ribbon(source, layer, -2.0)]
    figure = ribbons_figure(ribbons, ("<eos>", "."), "title", "subtitle", "light")
    (sankey,) = figure.data
    assert list(sankey.node.label)[:3] == [".", ".", "layer"]
    assert list(sankey.link.source)[:3] == [0, 1, 0]
    assert list(sankey.link.target)[:3] == [2, 2, 2]
    blue, orange = sankey.link.color[0], sankey.link.color[2]
    assert blue != orange and list(sankey.link.color)[3:] == [blue, orange]
    assert list(sankey.link.value)[3:] == [1.5, 2.0]


def test_a_grid_of_words_and_a_map_of_pairs_hold_their_numbers() -> None:
    values = np.array([[0.1, 0.9], [0.4, 0.2]])
    texts = [["a", BAD], ["c", "d"]]
    grid = Grid(["one", BAD], ["x", "y"], values, texts, texts)
    figure = grid_figure(grid, "title", "subtitle", 1.0, False, "dark")
    cells_, words = figure.data
    assert list(words.text) == [tick(text) for row in texts for text in row]
    assert words.textfont.color[0] != words.textfont.color[1], "read on a dark and a light cell"
    np.testing.assert_array_equal(cells_.z, values)
    assert (cells_.zmin, cells_.zmax) == (0, 1)
    beyond = np.array([[0.0, -2.0], [-2.0, 0.0]])
    pairs = pairs_figure(beyond, 2, "title", "light").data[-1]
    np.testing.assert_array_equal(pairs.z, beyond)
    assert (pairs.zmin, pairs.zmax) == (-2.0, 2.0)


def test_the_lens_ends_with_the_output(translator, record) -> None:
    grid = lens(translator, record)
    assert grid.exact
    np.testing.assert_allclose(grid.written_probabilities[-1], np.exp(record.log_probs), atol=1e-5)


def test_a_row_of_small_numbers_shows_more_decimals():
    assert in_cells(np.array([16.131, 0.604, -0.04])) == ["16.13", ".60", "−.04"]
    assert in_cells(np.array([0.0004, -0.0024])) == [".000", "−.002"]
    assert in_cells(np.array([0.1, 0.0])) == [".10", ".00"]
    assert in_cells(np.zeros(2)) == [".00", ".00"]
