"""The page "Inside a head": tables, links, and hostile words."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import numpy as np
from playwright.sync_api import expect
from streamlit.dataframe_util import convert_arrow_bytes_to_pandas_df

from app.look.numbers import scientific
from app.views.inside_head.stages import stages
from core.analysis.inside_head import PLACES, inside_head
from core.experiments.site import site
from core.text.tokenizer import EOS
from tests import small
from tests.app.page_checks import ROOT, number, record
from tests.app.rendered import render
from tests.app.test_figures import HOSTILE, strings
from tests.app.test_navigation import expect_query, settled

MAIN = ROOT / "app/main.py"
SENTENCE = "Zwei junge Männer spielen im Park Fußball."
LINK = f"source={quote(SENTENCE)}&direction=de-en&model=scratch&search=greedy"
FITS = """(formula) => {
  const right = (element) => element.getBoundingClientRect().right;
  return [...formula.querySelectorAll(".base")].every((part) => right(part) <= right(formula) + 1);
}"""


def test_words_are_never_markup():
    _, scratch = small.pair()
    inside = inside_head(
        site(scratch, (9, 8, 7, 6, 11, EOS), (30, 31, 32, 33, EOS), "decoder", 1), 0, 3
    )
    for start in range(0, len(HOSTILE), 5):
        for stage in stages(inside, scratch.config, 0, HOSTILE[start : start + 5], 0, 0.5):
            charts = filter(None, [stage.figure])
            for text in strings([json.loads(chart.figure("dark").to_json()) for chart in charts]):
                assert "$" not in text, text
                assert "<" not in re.sub("<br>|</?b>|</?su[bp]>", "", text), text


def test_the_table_shows_the_pages_formats_and_sorts_as_numbers():
    page = render("head", "numbers_softmax", kind="decoder", q="3", k="1")
    (table,) = page.app.dataframe
    shown = convert_arrow_bytes_to_pandas_df(table.proto.arrow_data.styler.display_values)
    values = table.value.iloc[:, 1:]
    assert (values.dtypes == np.float64).all() and (values["masked"] == -np.inf).any()
    for column in values:
        assert list(shown[column]) == [number(value) for value in values[column]]


def test_a_wrong_link_opens_the_default():
    wrong = {"kind": "sideways", "layer": "99", "head": "mean", "q": "-4", "k": "9999999"}
    page = render("head", source=SENTENCE, **wrong)
    assert "head 1 of layer 3" in page.texts("head_sentence")[0]


def test_a_link_opens_one_weight_and_a_choice_goes_into_the_url(local_page, serve):
    local_page.goto(f"{serve(MAIN)}/head?{LINK}&kind=decoder&layer=1&head=2&q=4&k=1")
    sentence = local_page.locator(".st-key-head_sentence")
    maps = record(SENTENCE, beam=1).decoder[1]
    expect(sentence).to_contain_text(
        f"the weight {scientific(float(maps[2, 4, 1]))}", timeout=60_000
    )
    expect(sentence).to_contain_text("head 3 of layer 2")
    for n, stage in enumerate(PLACES["scratch"], start=1):
        local_page.get_by_role("tab", name=f"{n} · ").click()
        shown = local_page.locator(f".st-key-stage_{stage}")
        for place in (*PLACES["scratch"][stage], *PLACES["referee"][stage]):
            title = f"{place.file}: {place.function}"
            expect(shown).to_contain_text(title, timeout=30_000)  # code is highlighted late
            expect(shown).to_contain_text(place.line)
        assert shown.locator(".katex-display").evaluate(FITS), stage
    fourth = local_page.get_by_role("option", name="4", exact=True)
    settled(local_page)
    for _ in range(20):  # a late drawing of the page closes the list
        local_page.locator(".st-key-head_head input").press("ArrowDown")
        local_page.wait_for_timeout(300)
        if fourth.count():
            break
        local_page.keyboard.press("Escape")
    fourth.click()
    expect(sentence).to_contain_text(f"the weight {scientific(float(maps[3, 4, 1]))}")
    expect_query(local_page, source=SENTENCE, kind="decoder", layer="1", head="3", q="4", k="1")


def test_the_menu_opens_the_cell_pinned_on_the_first_page(local_page, serve):
    local_page.goto(f"{serve(MAIN)}/?{LINK}")
    explorer = local_page.locator("section[aria-label='Attention explorer']")
    expect(explorer).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=60_000)
    # In one step, because the menu must work before the URL has followed the view.
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
    sentence = local_page.locator(".st-key-head_sentence")
    skip = local_page.get_by_role("button", name="Skip this question")
    skip.click(timeout=60_000)  # then the key with the largest weight is shown
    rec = record(SENTENCE, beam=1)
    weight = rec.cross[3, 1, 2].max()
    expect(sentence).to_contain_text(f"the weight {scientific(float(weight))}", timeout=60_000)
    expect(sentence).to_contain_text("head 2 of layer 4")
    expect(sentence).to_contain_text(f"produces “{rec.target_out[2].text}”")
