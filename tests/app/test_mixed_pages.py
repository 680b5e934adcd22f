"""Pages open a network with a unigram tokenizer, SiLU, a tied bias, and <bos> before the source."""

from typing import Any

import pytest

from app.state import models
from core.kinds import KINDS
from tests import mixed_network, small
from tests.app.conftest import clear_caches
from tests.app.rendered import Rendered, render, skip, unpacked

TEXT = small.SENTENCES[0][0]
PAGES = (
    "tour",
    "steps",
    "head",
    "why",
    "heads",
    "together",
    "masks",
    "positions",
    "training",
    "tokens",
)


@pytest.fixture(scope="module", autouse=True)
def root(tmp_path_factory):
    """Return a folder of checkpoints with this network alone."""
    folder = tmp_path_factory.mktemp("mixed")
    mixed_network.write(folder / "mixed-de-en")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "CHECKPOINTS", folder)
        clear_caches()
        yield folder
        clear_caches()


def opened(page: str, **query: Any) -> Rendered:
    return render(page, source=TEXT, search="greedy", **query)


def source_tokens() -> list[str]:
    tokens = ["<bos>", "Ein", "Hund", "läuft", "über", "die", "Wiese", ".", "<eos>"]
    assert "".join(tokens[1:-1]) == TEXT.replace(" ", "")
    return tokens


@pytest.mark.parametrize("page", [*PAGES, "bugs", "comparison"])
def test_no_page_fails(page):
    shown = opened(page)
    assert not shown.app.error
    assert len(shown.items) > 10


def test_the_explorer_shows_what_the_network_read():
    header, _ = unpacked(opened("").payload("explorer"))
    tokens = header["source"]
    assert (tokens[0]["text"], tokens[-1]["text"]) == ("<bos>", "<eos>")
    assert [i for i, token in enumerate(tokens) if "special" in token] == [0, len(tokens) - 1]
    assert "".join(token["text"] for token in tokens) == "".join(source_tokens())
    assert [token["text"] for token in header["target_in"]].count("<bos>") == 1
    assert header["checked"] and all(check["passed"] for check in header["checks"])
    assert set(KINDS) <= set(header["layers"])


def test_the_tour_names_both_special_tokens():
    shown = opened("tour", act=skip).texts("tour_text", "caption")
    assert any("whole words, punctuation and \\<bos\\> and \\<eos\\>" in text for text in shown)


def test_an_empty_text_is_not_translated():
    def clear(app):
        app.text_area(key="source").set_value("").run()

    shown = render("", source=TEXT, search="greedy", act=clear)
    assert not shown.payloads.get("explorer")
