"""The batch table shows each token above its id, as text, and scrolls in its own box."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from app.components.token_table import payload

ROOT = Path(__file__).resolve().parents[2]
IDS = np.array([[5, 6, 2, 9] * 10, [7, 2, 0, 0] + [0] * 36])
WORDS = [["Ein", "<b>", "$x$", "*a*"] * 10, ["[l](javascript:alert(1))", "<eos>"]]


@pytest.mark.parametrize("words", [WORDS, None])
def test_every_id_has_its_word(words):
    found = payload(IDS, words, "Source")
    assert [[id for id, _ in row] for row in found["rows"]] == IDS.tolist()
    shown = [[word for _, word in row if word is not None] for row in found["rows"]]
    assert shown == (words or [[], []])
    assert "[2, 40]" in found["note"]
    assert (found["first"], payload(IDS, words, "Target", 0)["first"]) == (1, 0)


def test_a_phone_scrolls_the_table_but_not_the_page(serve, local_page: Page, tmp_path):
    script = tmp_path / "page.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from app.components.token_table import token_table\n"
        "from tests.app.test_token_table import IDS, WORDS\n"
        "token_table(IDS, WORDS, 'Source, as fed in', key='table')\n"
    )
    local_page.set_viewport_size({"width": 390, "height": 800})
    local_page.goto(serve(script))
    box = local_page.locator(".st-key-table .box")
    expect(box.get_by_role("row")).to_have_count(3, timeout=30_000)
    numbers = box.get_by_role("row").first.get_by_role("columnheader").all_inner_texts()
    assert numbers == [str(n) for n in range(1, 41)]  # the subscripts of repeated words
    first = box.get_by_role("row").nth(1)
    assert first.get_by_role("cell").all_inner_texts()[:4] == [
        f"{word}\n{id}" for word, id in zip(WORDS[0], IDS[0][:4], strict=False)
    ]
    second = box.get_by_role("row").nth(2)
    assert second.get_by_role("cell").first.inner_text() == f"{WORDS[1][0]}\n7"
    expect(second.locator(".padding")).to_have_count(38)
    expect(box).to_have_attribute("data-more", "right")
    assert box.locator("a, b, img").count() == 0
    assert box.evaluate("box => box.scrollWidth > 2 * box.clientWidth")
    assert local_page.evaluate("document.documentElement.scrollWidth") <= 390
    last = first.get_by_role("cell").last
    last.scroll_into_view_if_needed()
    expect(last).to_be_in_viewport()
    expect(box.get_by_role("rowheader", name="sentence 1")).to_be_in_viewport()
    expect(box).to_have_attribute("data-more", "left")
