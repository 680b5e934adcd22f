"""Text from outside is shown literally, without Markdown or Streamlit markup."""

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
def test_a_plain_line_is_unchanged(text):
    assert plain(text) == text
    assert plain(ValueError(text)) == text


def test_markup_is_shown_literally(serve, local_page: Page, tmp_path):
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
