"""Each technical word on a page is explained on that page, and all of them in the glossary."""

from __future__ import annotations

import html
import re
import tomllib

import pytest

from app.components.explorer.markup import markup
from app.views.shared.question import Outcome
from tests.app.page_checks import ROOT, SIDEBAR
from tests.app.rendered import render

TERMS = tomllib.loads((ROOT / "app/lessons/en/glossary.toml").read_text("utf-8"))["terms"]
PATTERNS = {
    "nats": r"nats",
    "logit": r"logits?",
    "rollout": r"rollout",
    "entropy": r"entropy",
    "beam search": r"beam",
    "token": r"tokens?",
    "head": r"heads?",
    "layer": r"layers?",
    "residual stream": r"residual",
    "ablation": r"ablat\w+",
    "log-probability": r"log-probabilit(y|ies)",
    "softmax": r"softmax",
    "value norms": r"value norms?",
    "embedding": r"embeddings?",
    "query": r"quer(y|ies)",
    "key": r"(?<!arrow )keys?",
    "mask": r"mask(s|ed)?",
    "cross-attention": r"cross-attention",
    "Shapley value": r"Shapley",
    "logit lens": r"logit lens",
    "teacher-forced": r"teacher-forced",
    "bootstrap": r"bootstrap",
    "BLEU": r"BLEU",
    "weight": r"weights?",
    "norm": r"norms?",
    "positional encoding": r"positional encoding",
    "Spearman": r"Spearman",
    "forced prefix": r"forced prefix",
    "length penalty": r"length penalty",
    "alignment error rate": r"alignment error rate",
    "word alignment": r"word alignment",
    "byte-pair encoding": r"byte-pair encoding",
    "<unk>": "<unk>",
    "<bos>": "<bos>",
    "<eos>": "<eos>",
}
SECTIONS = {
    "": ["word_alignment"],
    "masks": ["open_causal", "open_padding", "open_word"],
    "positions": ["open_beyond", "open_order", "open_what_if", "open_scores"],
    "why": ["open_choice", "open_lens", "open_decoder_lens", "open_sources"],
    "head": ["open_score"],
}
PAGES = (
    *("", "tour", "tokens", "steps", "head", "why", "heads", "literature", "together", "masks"),
    *("positions", "training", "comparison"),
)
SCORES = {"head": "attention score", "masks": "attention score", "positions": "attention score"}
SCORES |= {"steps": "score"}
"""On each page, what "score" refers to: a query and a key, or a translation."""


@pytest.fixture(autouse=True)
def _without_question(monkeypatch):
    settled = Outcome(None, True, True)
    monkeypatch.setattr("app.views.shared.question.ask", lambda *_: settled)


def contains(text: str, pattern: str) -> bool:
    return re.search(rf"(?<!\w){pattern}(?!\w)", text, re.IGNORECASE) is not None


@pytest.mark.parametrize("page", PAGES)
def test_technical_words_are_explained_where_they_are_used(page):
    shown = render(page, *SECTIONS.get(page, []), source="Ein Hund läuft durch den Schnee.")
    not_prose = {"help", "latex", "column", "cell", "figure", "option"}
    items = [item for item in shown.items if not SIDEBAR.fullmatch(item.where)]
    prose = "\n".join(i.text.replace("\\", "") for i in items if i.kind not in not_prose)
    helps = "\n".join(i.text.replace("\\", "") for i in items if i.kind == "help")
    if page in ("", "together"):  # the explorer explains its terms in a panel
        panel = markup().html
        helps += html.unescape(panel[panel.index('data-about="encoder"') :])
        helps += TERMS["layer"] + TERMS["cross-attention"]  # at "Cross" and row labels
    used = [term for term, pattern in PATTERNS.items() if contains(prose, pattern)]
    if page in SCORES and contains(prose, "scores?"):
        used.append(SCORES[page])
    for text in prose.splitlines():  # probabilities come first, nats second
        if (share := text.find("%")) >= 0 and contains(text, "nats"):
            assert share < text.index("nats"), text
    assert used, "the page uses technical words"
    assert [term for term in used if TERMS[term] not in helps] == []


def test_the_glossary_lists_every_term_under_its_own_heading():
    page = render("glossary")
    found = [t.replace("\\", "") for t in page.texts("", "markdown")]
    heads = found[::2]
    expected = sorted(TERMS, key=lambda term: re.sub(r"\W", "", term).casefold())
    assert heads == [f"##### {term}" for term in expected]
    assert found[1::2] == [TERMS[term] for term in expected]


def test_pages_without_the_word_have_the_glossary_one_tap_away():
    links = [link.proto for link in render("steps").app.get("page_link")]
    assert "Glossary: what the words mean" in [link.label for link in links]
