"""Text from outside shows as it stands, whatever Markdown or Streamlit would make of it."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from app.look.markdown import plain

HOSTILE = (
    "a_b_c _k_ *k* **f** `c` $x^2$ [l](javascript:alert(1)) ![i](http://127.0.0.1:9/x.png) "
    "<b>t</b> &amp; &lt; ~~s~~ :smile: :red[rot] :material/home: --data -> <- >= "
    "https://127.0.0.1/a a@example.org C:\\x_y_z"
)
SCRIPT = """
import sys
sys.path.insert(0, {root!r})
import streamlit as st
from app.look.markdown import plain
for text in {texts!r}:
    st.error(plain(text))
"""
TEXTS = [HOSTILE, "# title", "- item", "12. item", "> quoted", "one\n\n    two", "👍 yes", "☃"]


@pytest.mark.parametrize(
    "text", ["504 characters are too many: the limit is 500, try one", "Größe"]
)
def test_a_usual_line_stays_what_it_is(text):
    assert plain(text) == text
    assert plain(ValueError(text)) == text


def test_no_markup_is_read_in_it(serve, local_page: Page, tmp_path):
    script = tmp_path / "errors.py"
    root = str(Path(__file__).resolve().parents[2])
    script.write_text(SCRIPT.format(root=root, texts=TEXTS), encoding="utf-8")
    local_page.goto(serve(script))
    alerts = local_page.locator("[data-testid=stAlert] [data-testid=stMarkdownContainer]")
    expect(alerts).to_have_count(len(TEXTS), timeout=60_000)
    for place, text in enumerate(TEXTS):
        alert = alerts.nth(place)
        expect(alert).not_to_be_empty()
        assert alert.inner_text().replace("\u2060", "").strip() == " ".join(text.split())
        assert (
            alert.locator("a, b, em, strong, code, img, del, h1, li, blockquote, span").count() == 0
        )
