"""Each technical word on a page is explained on that page, and all of them in the glossary."""

from __future__ import annotations

import html
import json
import math
import re
import tomllib
from collections.abc import Callable
from urllib.parse import parse_qsl

import numpy as np
import pytest
import sacrebleu
from scipy.stats import entropy, spearmanr

from app.components.explorer.markup import markup
from app.views import VIEWS
from core.analysis.alignment import Gold, pharaoh, score
from core.atlas.intervals import LEVEL
from core.search.beam import penalised
from tests.app.page_checks import ROOT, SIDEBAR
from tests.app.rendered import Rendered, read, render

TERMS = tomllib.loads((ROOT / "app/lessons/en/glossary.toml").read_text("utf-8"))["terms"]
PATTERNS = {
    "beam search": "beam",
    "residual stream": "residual",
    "ablation": r"ablat\w+",
    "log-probability": "log-probabilit(y|ies)",
    "query": "quer(y|ies)",
    "key": "(?<!arrow )keys?",
    "mask": "mask(s|ed)?",
    "Shapley value": "Shapley",
}
NOT_EVERYWHERE = {"null", "score", "attention score", "value", "dₖ", "dot product"}
NOT_EVERYWHERE |= {"feed-forward layer", "greedy search"}
"""Terms that pages also use in another sense, or where they explain them in their own texts."""
PATTERNS |= {
    term: f"{term.removesuffix('s')}s?" for term in TERMS.keys() - NOT_EVERYWHERE - {*PATTERNS}
}
SECTIONS = {
    "": ["word_alignment"],
    "masks": ["open_batch", "open_row", "open_causal", "open_padding", "open_word"],
    "positions": [
        *("open_waves", "open_distance", "open_rotation", "open_sums", "open_learned"),
        *("open_beyond", "open_order", "open_what_if", "open_scores"),
    ],
    "comparison": ["open_details"],
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


pytestmark = pytest.mark.usefixtures("without_questions")


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


def entries(page: Rendered) -> list[str]:
    """Return the glossary's paragraphs below its search box."""
    items = [i for i in page.items if i.kind == "markdown" and not SIDEBAR.fullmatch(i.where)]
    return [item.text.replace("\\", "") for item in items]


def test_the_glossary_lists_every_term_under_its_own_heading():
    letters, *found = entries(render("glossary"))
    heads = found[::2]
    expected = sorted(TERMS, key=lambda term: re.sub(r"\W", "", term.replace("ₖ", "k")).casefold())
    assert heads == [f"##### {term}" for term in expected]
    assert found[1::2] == [TERMS[term] for term in expected]
    firsts = re.findall(r"\[(.)\]\(#([a-z0-9-]+)\)", letters)
    assert [letter for letter, _ in firsts] == sorted({t.strip("<")[0].upper() for t in expected})
    starts = [
        next(t for t in expected if t.strip("<")[0].upper() == letter) for letter, _ in firsts
    ]
    assert [anchor for _, anchor in firsts] == [
        re.sub("[ _]", "-", t.lower().strip("<>ₖ")) for t in starts
    ]


def test_the_search_box_finds_names_before_explanations():
    page = render("glossary", find="Beam")
    found = [text.removeprefix("##### ") for text in entries(page)[::2]]
    assert found[0] == "beam search"
    assert {*found} == {term for term, said in TERMS.items() if "beam" in f"{term} {said}".lower()}
    assert entries(render("glossary", find="d_k"))[0] == "##### dₖ"
    page.app.text_input(key="find").set_value("zzz").run(timeout=60)
    page = read(page.app)
    assert not entries(page)
    assert any("No entry has “zzz”" in text for text in page.texts())


def test_each_term_links_to_a_page_that_shows_it():
    """The word is on the page, in its text, in its explorer, or in the data of a picture."""
    links = [link.proto for link in render("glossary").app.get("page_link")]
    terms = sorted(TERMS, key=lambda term: re.sub(r"\W", "", term.replace("ₖ", "k")).casefold())
    found = [link for link in links if link.label.startswith("See it: ")]
    assert len(found) == len(terms)
    shown: dict[str, str] = {}
    for term, link in zip(terms, found, strict=True):
        path, query = link.page, link.query_string
        assert link.label == f"See it: {VIEWS[path].title}"
        if (at := f"{path}?{query}") not in shown:
            page = render(path, source="Ein Hund läuft durch den Schnee.", **dict(parse_qsl(query)))
            items = [i.text for i in page.items if not SIDEBAR.fullmatch(i.where)]
            drawn = [json.dumps(data, default=repr) for data in page.payloads.values()]
            frame = [html.unescape(markup().html)] if path == "" else []
            shown[at] = "\n".join([*items, *drawn, *frame]).replace("\\", "")
        assert contains(shown[at], PATTERNS.get(term, term).replace(" ", "[ _]")), (term, at)


def test_pages_without_the_word_have_the_glossary_one_tap_away():
    links = [link.proto for link in render("steps").app.get("page_link")]
    assert "Glossary: what the words mean" in [link.label for link in links]


def rounded(value: float, places: int = 0) -> str:
    return f"{round(value, places) + 0.0:.{places}f}".replace("-", "−")


def softmax(scores: list[float]) -> np.ndarray:
    return np.exp(scores) / np.exp(scores).sum()


def bits(shares: list[float]) -> str:
    return rounded(float(entropy(shares, base=2)))


def bleu(hypothesis: str) -> str:
    reference = "a small dog runs through the snow"
    return rounded(sacrebleu.sentence_bleu(hypothesis, [reference], smooth_method="none").score)


def odds(logit: float) -> float:
    chance = softmax([logit, 0.3, -1])[0]
    return chance / (1 - chance)


def of_length(length: int) -> list[str]:
    """Find the constants of the penalty's formula, ((a + length) / b)^α, from its values."""
    penalties = [1 / penalised(1.0, n, 1.0) for n in (length, length + 1)]
    b = 1 / (penalties[1] - penalties[0])
    return [rounded(b * penalties[0] - length), rounded(b)]


LINKS = frozenset({(0, 0), (1, 2)})
AGREEING = [(0, 0, True), (1, 2, True)]
OTHER = [(0, 1, True), (1, 0, False)]
STATED: dict[str, Callable[[], list[str]]] = {
    "logit": lambda: ["1", rounded(odds(0.5 + 1) / odds(0.5), 1)],
    "softmax": lambda: [rounded(softmax([0.2, -3, 1.7]).sum())],
    "weight": lambda: [rounded(softmax([0.2, -3, 1.7]).sum())],
    "log-probability": lambda: [
        text for p in (100, 50, 10) for text in (rounded(math.log(p / 100), int(p < 100)), str(p))
    ],
    "nats": lambda: [rounded(math.log(1 / 2), 1), rounded(math.log(1 / 10), 1)],
    "entropy": lambda: [bits([1, 0, 0]), bits([1 / 8] * 8), "8"],
    "byte-pair encoding": lambda: ["2016"],
    "bootstrap": lambda: [rounded(100 * LEVEL)],
    "Spearman": lambda: [
        rounded(spearmanr([1, 2, 3, 4], other).statistic)
        for other in ([2, 3, 5, 8], [2, 4, 1, 3], [9, 4, 3, 1])
    ],
    "rollout": lambda: ["2020"],
    "value norms": lambda: ["2020"],
    "length penalty": lambda: of_length(9),
    "dₖ": lambda: [rounded(np.random.default_rng(0).normal(size=(2, 9999)).prod(0).mean())],
    "mask": lambda: [rounded(softmax([2.0, -math.inf, 1.0])[1])],
    "word alignment": lambda: pharaoh([(0, 0)]).split("-")[:1],
    "alignment error rate": lambda: [
        *(rounded(score([LINKS], [Gold.of(gold)]).aer) for gold in (AGREEING, OTHER)),
        "2003",
    ],
    "BLEU": lambda: [
        bleu("nothing in common"),
        bleu("a small dog runs through the snow"),
    ],
}


def test_every_number_of_the_glossary_is_computed():
    """Signs and decimals included; an entry with a number but without a computation fails."""
    stated = {term: re.findall(r"(?<![\w.])−?\d+(?:\.\d+)?", text) for term, text in TERMS.items()}
    assert {term: found for term, found in stated.items() if found} == {
        term: compute() for term, compute in STATED.items()
    }
    assert "halves" in TERMS["nats"] and "divides it by ten" in TERMS["nats"]
