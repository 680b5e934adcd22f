"""A link in which & was written as HTML opens what was meant, in the app and in the fragment."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from playwright.sync_api import expect

from app.state.address import VIEW, unescaped
from tests.app.conftest import opened_offline
from tests.app.rendered import render
from tests.app.test_offline_page import part, shown, translate

ESCAPES = (
    "amp;",
    "AMP;",
    "#38;",
    "#038;",
    "#x26;",
    "#X26;",
    "amp;amp;",
    "amp;#38;",
    "amp;amp;amp;",
)


@pytest.mark.parametrize("escape", ESCAPES)
def test_escaped_names_are_read_as_meant(escape):
    found = unescaped({"source": "A & B", f"{escape}kind": "encoder", f"{escape}layer": "0"})
    assert found == (
        {"source": "A & B", "kind": "encoder", "layer": "0"},
        [f"{escape}kind", f"{escape}layer"],
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"source": "x", "amplitude": "1", "amp": "2", "38;kind": "3", "kind;amp;": "4"},
        {"source": "Tom &amp; Jerry"},  # a value is text
    ],
)
def test_other_parameters_stay(parameters):
    assert unescaped(parameters) == (parameters, [])


def test_a_name_itself_takes_precedence():
    both = {"kind": "cross", "amp;kind": "encoder"}
    assert unescaped(both) == ({"kind": "cross"}, ["amp;kind"])
    assert unescaped(dict(reversed(both.items()))) == ({"kind": "cross"}, ["amp;kind"])


def test_the_page_opens_the_view_says_so_and_rewrites_the_link():
    query = {"source": "Ein Hund.", "amp;kind": "encoder", "amp;layer": "0", "amp;head": "3"}
    page = render(**query, **{"amp;amp;search": "greedy"})
    texts = [caption.value for caption in page.app.caption]
    assert [text for text in texts if "&amp;" in text and "as meant" in text]
    view = page.app.session_state["view"]
    assert (view["kind"], view["layer"], view["head"]) == ("encoder", "0", "3")
    assert page.app.session_state["search"] == "greedy"
    removed = page.payload("address_escaped")["values"]
    assert removed == dict.fromkeys((*(f"amp;{name}" for name in VIEW[:3]), "amp;amp;search"))


def test_an_intact_link_gets_no_line():
    page = render(source="Ein Hund.", kind="encoder", layer="0", head="3")
    assert not [one for one in page.app.caption if "&amp;" in one.value]


@pytest.mark.parametrize("escape", ["#38;", "amp;amp;"])
def test_the_fragment_is_read_as_meant_and_rewritten(offline_context, offline_file, escape):
    name = f"&{escape}"
    address = offline_file.as_uri()
    link = name.join(("source=Ein+Hund.", "kind=encoder", "layer=1", "head=2", "beam=3"))
    with opened_offline(offline_context, f"{address}#{link}", address) as page:
        shown(page)
        expect(part(page, "captions")).to_contain_text("& had become &amp;. It was read as meant.")
        found = dict(parse_qsl(page.url.partition("#")[2]))
        assert found == {"direction": "de-en", "source": "Ein Hund.", "beam": "3"} | {
            "kind": "encoder", "layer": "1", "head": "2"
        }  # fmt: skip
        translate(page, "Ein Mann.")
        expect(part(page, "captions")).not_to_contain_text("as meant")
