"""The page "Inside a head": a pocket calculator gets from the printed numbers to the weight."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect
from streamlit.dataframe_util import convert_arrow_bytes_to_pandas_df
from streamlit.testing.v1 import AppTest

from app.figures.inside_head import scores_figure
from app.views.inside_head.stages import Stage, stages
from core.analysis.inside_head import PLACES, Site, inside_head
from core.config import DecodeConfig
from core.experiments.site import site
from core.text.tokenizer import EOS
from tests import small
from tests.app.test_figures import HOSTILE, strings

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "app/main.py"
SENTENCE = "Zwei junge Männer spielen im Park Fußball."
LINK = f"source={quote(SENTENCE)}&direction=de-en&model=scratch&search=greedy"
SOURCE, TARGET = (9, 8, 7, 6, 11, EOS), (30, 31, 32, 33, EOS)

UNCUT = """(formula) => {
  const right = (element) => element.getBoundingClientRect().right;
  return [...formula.querySelectorAll(".base")].every((part) => right(part) <= right(formula) + 1);
}"""


@pytest.fixture(scope="module")
def sites(translator) -> dict[str, Site]:
    """One attention each of both small models and of the shipped one, all with a mask."""
    found = {
        name: site(model, SOURCE, TARGET, "decoder", 1)
        for name, model in zip(("baseline", "scratch"), small.pair(), strict=True)
    }
    record = translator.inspect(SENTENCE)
    ids = [tuple(t.id for t in side) for side in (record.source, record.target_out)]
    with translator.exclusive_model() as model:
        return {**found, "shipped": site(model, *ids, "decoder", 2)}


def shown(taken: Site, head: int, query: int, key: int) -> dict[str, Stage]:
    words = [f"word{i}" for i in range(len(taken.memory_KD))]
    written = float(taken.maps_HQK[head, query, key])
    found = stages(inside_head(taken, head, query), key, words, 0, written, "light")
    return {stage.name: stage for stage in found}


def read(text: str) -> float:
    """A printed number."""
    return float(text.replace("−", "-").replace("∞", "inf").replace(r"\infty", "inf"))


def bars(stage: Stage, trace: int = -1) -> list[float]:
    """The numbers printed at the ends of a figure's bars."""
    assert stage.figure is not None
    drawn = [trace for trace in stage.figure.data if trace.type == "bar"]
    return [read(text) for text in drawn[trace].text]


def column(stage: Stage, name: str) -> list[float]:
    """The numbers of a table's column, as the page prints them."""
    assert stage.table is not None
    return [float(f"{value:.4f}") for value in stage.table()[name]]


def result(stage: Stage) -> float:
    """The last number of a stage's formula."""
    return read(re.findall(r"-?\d+\.\d+", stage.formula)[-1])


@pytest.mark.parametrize("model", ["scratch", "baseline", "shipped"])
@pytest.mark.parametrize("key", [0, 2])
def test_the_weight_follows_from_the_printed_numbers(sites, model, key):
    taken = sites[model]
    found = shown(taken, 1, 3, key)
    q, k, products = (column(found["product"], name) for name in ("q", "k", "q × k"))
    for a, b, product in zip(q, k, products, strict=True):
        assert product == pytest.approx(a * b, abs=6e-5 * (1 + abs(a) + abs(b)))
    score = result(found["product"])
    assert score == pytest.approx(sum(products), abs=6e-5 * len(products))
    *named, others = bars(found["product"])
    assert set(named) <= set(products)
    assert score == pytest.approx(sum(named) + others, abs=6e-5 * (len(named) + 2))
    scaled = bars(found["scale"])
    assert scaled[key] == pytest.approx(score / math.sqrt(len(q)), abs=1.1e-4)
    assert scaled[key] == result(found["scale"])
    masked = bars(found["mask"])
    hidden = [not may_attend for may_attend in taken.mask_QK[3]]
    assert any(hidden)
    assert masked == [-math.inf if h else s for s, h in zip(scaled, hidden, strict=True)]
    exps, weights = bars(found["softmax"], 0), bars(found["softmax"], 1)
    assert exps == pytest.approx([math.exp(s - max(masked)) for s in masked], abs=1.6e-4)
    assert weights == pytest.approx([e / sum(exps) for e in exps], abs=1e-4)
    assert weights[key] == result(found["softmax"])
    # All the way from q and k alone, and against what the pass itself wrote.
    mine = sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(len(q))
    others = sum(math.exp(s) for i, s in enumerate(masked) if i != key)
    weight = math.exp(mine) / (math.exp(mine) + others)
    assert weight == pytest.approx(float(taken.maps_HQK[1, 3, key]), abs=5e-4)


def test_without_masked_keys_the_mask_has_no_picture(sites):
    found = shown(sites["scratch"], 0, len(TARGET) - 1, 0)
    assert found["mask"].figure is None
    assert "No key of these 5 is masked" in found["mask"].words


def test_words_are_text_and_no_markup(sites):
    taken = sites["scratch"]
    inside = inside_head(taken, 0, 3)
    for start in range(0, len(HOSTILE), 5):
        words = HOSTILE[start : start + 5]
        for stage in stages(inside, 0, words, 0, 0.5, "dark"):
            figures = [stage.small, *filter(None, [stage.figure])]
            for text in strings([json.loads(figure.to_json()) for figure in figures]):
                assert "$" not in text, text
                assert "<" not in re.sub("<br>|</?b>|</?su[bp]>", "", text), text


def test_a_very_long_row_leaves_its_numbers_to_the_table():
    words = [f"w{i}" for i in range(70)]
    figure = scores_figure(np.arange(70.0), np.ones(70, bool), words, 3, "light")
    assert [text for text in figure.data[0].text if text] == ["3.0000"]
    assert 3 in figure.layout.yaxis.tickvals
    assert figure.data[0].customdata[69][1] == "69.0000"


def test_a_link_opens_one_weight_and_the_choice_goes_into_the_address(
    local_page, serve, translator
):
    local_page.goto(f"{serve(MAIN)}/head?{LINK}&kind=decoder&layer=1&head=2&q=4&k=1")
    said = local_page.locator(".st-key-head_sentence")
    record = translator.inspect(SENTENCE, decode=DecodeConfig(beam=1))
    weight = record.decoder[1, 2, 4, 1]
    expect(said).to_contain_text(f"the weight {weight:.4f}", timeout=60_000)
    expect(said).to_contain_text("head 3 of layer 2")
    for stage in PLACES["scratch"]:
        shown = local_page.locator(f".st-key-stage_{stage}")
        for place in PLACES["scratch"][stage]:
            head = f"{place.file}: {place.function}"
            expect(shown).to_contain_text(head, timeout=30_000)  # the colours of code come late
            expect(shown).to_contain_text(place.line)
        assert shown.locator(".katex-display").evaluate(UNCUT), stage
    local_page.locator(".st-key-head_head input").click()
    local_page.get_by_role("option", name="4", exact=True).click()
    expect(said).to_contain_text(f"the weight {record.decoder[1, 3, 4, 1]:.4f}")
    expect(local_page).to_have_url(re.compile("head=3"))
    query = {name: value[0] for name, value in parse_qs(urlsplit(local_page.url).query).items()}
    wanted = {"source": SENTENCE, "kind": "decoder", "layer": "1", "head": "3", "q": "4", "k": "1"}
    assert wanted.items() <= query.items()


def test_the_row_as_a_table_is_written_like_the_page_and_sorted_as_numbers():
    app = AppTest.from_file(str(MAIN), default_timeout=120)
    app.session_state["numbers_softmax"] = True
    app.run()
    app.switch_page("views/inside_head/page.py").run()
    app.session_state["head_kind"] = "decoder"
    app.run()
    assert not app.exception
    (table,) = app.dataframe
    shown = convert_arrow_bytes_to_pandas_df(table.proto.arrow_data.styler.display_values)
    numbers = table.value.iloc[:, 1:]
    assert (numbers.dtypes == np.float64).all() and (numbers["masked"] == -np.inf).any()
    assert "−∞" in set(shown["masked"]), "masked keys are there"
    for column in numbers:
        said = [read(text) for text in shown[column]]
        assert said == pytest.approx(list(numbers[column]), abs=6e-5), column


def test_a_wrong_link_opens_anyway(local_page, serve):
    local_page.goto(f"{serve(MAIN)}/head?{LINK}&kind=sideways&layer=99&head=mean&q=-4&k=9999999")
    said = local_page.locator(".st-key-head_sentence")
    expect(said).to_contain_text("head 1 of layer 3", timeout=60_000)
    expect(local_page.locator("[data-testid=stException]")).to_have_count(0)


def test_the_menu_leads_to_the_cell_that_is_pinned_on_the_first_page(local_page, serve, translator):
    local_page.goto(f"{serve(MAIN)}/?{LINK}")
    explorer = local_page.locator("section[aria-label='Attention explorer']")
    expect(explorer).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=60_000)
    # In one go: the menu must not wait until the address follows the view.
    explorer.evaluate(
        """explorer => {
            explorer.querySelector(".thumbnail[data-l='3'][data-h='1']").click();
            const produced = explorer.querySelectorAll("[data-part=target] button");
            produced[3].click();  // <bos> is the first
            [...document.querySelectorAll("[data-testid=stSidebarNavLink]")]
                .find((link) => link.textContent.includes("Inside a head"))
                .click();
        }"""
    )
    said = local_page.locator(".st-key-head_sentence")
    record = translator.inspect(SENTENCE, decode=DecodeConfig(beam=1))
    row = record.cross[3, 1, 2]
    expect(said).to_contain_text(f"the weight {row.max():.4f}", timeout=60_000)
    expect(said).to_contain_text("head 2 of layer 4")
    expect(said).to_contain_text(f"produces “{record.target_out[2].text}”")
