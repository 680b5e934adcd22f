"""Word alignment on the first page agrees with the record's cross-attention."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core
from app.state import atlases
from core.analysis.alignment import pharaoh
from core.atlas.atlas import AlignmentHeads
from core.atlas.pharaoh import Aligner
from tests.app.atlases import atlas, origin
from tests.app.page_checks import percent, record, translator
from tests.app.rendered import Rendered, render

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "Ein Straßenmusiker bereitet im Park das Essen zu."
WORDS = ["Ein", "Straßenmusiker", "bereitet", "im", "Park", "das", "Essen", "zu."]


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Return a function that puts an atlas with some alignment heads beside the network."""
    config = json.loads((ROOT / "checkpoints/scratch-de-en/config.json").read_text("utf-8"))
    weights = config["files"]["model.safetensors"]["sha256"]

    def put(heads: AlignmentHeads | None, weights_sha256: str = weights) -> None:
        about = origin(weights_sha256=weights_sha256, gold="rwth.align", gold_sentences=1508)
        atlas(origin=about, alignment_heads=heads).save(tmp_path / "atlas.npz")
        monkeypatch.setattr(atlases, "FILE", str(tmp_path / "atlas.npz"))

    return put


def found(*heads: tuple[int, int], **changes: str) -> AlignmentHeads:
    fields = {"reading": "input", "quantity": "weights"} | changes
    return AlignmentHeads(heads, **fields, aer=0.357, low=0.331, high=0.9962)


def page_of(**query: str) -> Rendered:
    return render("", "word_alignment", source=SOURCE, **query)


def expected(
    map_QK: np.ndarray,
    shift: int,
    tokens: tuple[list[Any], list[Any]],
    marks_alone: bool = False,
) -> dict[tuple[int, int], float]:
    """Return the expected links; a word's weight is summed over keys, averaged over rows."""
    words: list[list[list[int]]] = []
    for side in tokens:
        words.append([])
        for at, token in enumerate(side):
            if token.special:
                continue
            if token.starts_word or (marks_alone and token.text in (".", ",")):
                words[-1].append([])
            words[-1][-1].append(at)
    links = {}
    for t, word in enumerate(words[1]):
        rows = map_QK[[q + shift for q in word]].mean(0)
        of_words = [sum(rows[k] for k in keys) for keys in words[0]]
        links[max(range(len(of_words)), key=lambda s: of_words[s]), t] = max(of_words)
    return links


@pytest.mark.parametrize("reading", ["input", "output"])
@pytest.mark.parametrize("heads", [((0, 0),), ((0, 0), (2, 1))])
def test_links_are_the_largest_weights_of_the_reading(
    beside: Callable, heads: tuple, reading: str
) -> None:
    beside(found(*heads, reading=reading))
    page, made = page_of(), record(SOURCE)
    mean_QK = np.mean([made.cross[head] for head in heads], axis=0)
    links = expected(mean_QK, int(reading == "input"), (made.source, made.target_out))
    figure = page.figure("alignment_figure")
    target = figure["layout"]["yaxis2"]["ticktext"]
    assert figure["layout"]["yaxis"]["ticktext"] == WORDS
    assert figure["layout"]["yaxis2"]["side"] == "right"
    assert figure["layout"]["xaxis"]["ticktext"] == ["source: German", "target: English"]
    assert figure["layout"]["yaxis"]["range"] == figure["layout"]["yaxis2"]["range"] == [1, 0]
    lines = [trace for trace in figure["data"] if trace.get("mode")]
    drawn = {}
    for line in lines:
        ends = [
            next(i for i, at in enumerate(figure["layout"][axis]["tickvals"]) if at == y)
            for axis, y in zip(("yaxis", "yaxis2"), line["y"], strict=True)
        ]
        assert line["x"] == [0, 1]
        drawn[tuple(ends)] = (line["line"]["width"], set(line["customdata"]))
    assert drawn.keys() == links.keys()
    for (s, t), (_, hovers) in drawn.items():
        share = percent(links[s, t]).replace(">", "&gt;")
        assert hovers == {f"{WORDS[s]} – {target[t]}: <b>{share}</b>"}
    by_width, by_value = (
        sorted(links, key=lambda link: key[link])
        for key in ({k: v[0] for k, v in drawn.items()}, links)
    )
    assert by_width == by_value
    text = " ".join(f"{s}-{t}" for s, t in sorted(links))
    page.claim("\n".join([" ".join(WORDS), " ".join(target), text]), "word_alignment", "code_text")
    (chart,) = page.app.get("plotly_chart")
    pairs = ", ".join(f"{WORDS[s]} – {target[t]}" for s, t in sorted(links))
    alt = chart.proto.alt
    assert alt.startswith(f"Word alignment: {pairs}. ")
    left = [word for s, word in enumerate(WORDS) if s not in {s for s, _ in links}]
    assert left, "this sentence has a source word without a link"
    page.claim("Not linked: " + ", ".join(f"“{word}”" for word in left), kind="caption")
    page.claim("**Pharaoh format:** source word – target word, counted from 0", "word_alignment")
    s, t = max(links, key=lambda link: links[link])
    verb = {"input": "reads", "output": "produces"}[reading]
    page.claim_matching(
        f".* For example: while the decoder {verb} “{target[t]}”, “{WORDS[s]}” has the largest "
        "weight, so these two are linked.",
        "word_alignment",
    )
    assert (
        figure["layout"]["title"]["text"] == f"{len(links)} links between 8 and {len(target)} words"
    )


def test_reading_heads_and_error_are_stated(beside: Callable) -> None:
    beside(found((2, 1)))
    page = page_of()
    page.claim_matching(
        "Each word of the translation is linked to the source word with the largest weight in "
        "cross-attention layer 3 head 2 while the decoder reads the word, in the row that "
        "takes it as input\\. For example.*",
        "word_alignment",
    )
    page.claim(
        "Alignment error rate 36\u00a0% (95 % interval 33\u00a0% to 99.6\u00a0%), read in "
        "the same row. It was measured on half of 1,508 sentences with manual alignments "
        "(rwth); the other half chose the heads. For this measurement, the decoder was fed human "
        "translations (teacher-forced): for this sentence and this translation the error may "
        "differ.",
        "word_alignment",
    )
    beside(found((0, 0), (2, 1), reading="output"))
    page_of().claim_matching(
        ".* in the mean of the cross-attention heads layer 1 head 1, layer 3 head 2 while the "
        "decoder produces the word, in the row that produces it\\. For example.*",
        "word_alignment",
    )


def test_value_norms_are_read_if_they_chose_the_heads(beside: Callable) -> None:
    beside(found((1, 2), quantity="norms"))
    page, made = page_of(), record(SOURCE)
    norms_QK = core.value_norms(translator("scratch-de-en"), made)["cross"][1, 2]
    links = expected(norms_QK, 1, (made.source, made.target_out))
    hovers = {
        hover
        for trace in page.figure("alignment_figure")["data"]
        for hover in trace.get("customdata", ())
    }
    assert {hover.split("<b>")[1] for hover in hovers} == {
        f"{value:.3f}</b>" for value in links.values()
    }
    assert any("largest value norm in" in text for text in page.texts("word_alignment"))


def test_edits_are_in_the_links_but_not_in_the_error(beside: Callable) -> None:
    beside(found((0, 0)))
    page = page_of(edits="off.encoder.0.0")
    assert any(t.endswith("It does not cover the edits of this pass.") for t in page.texts())
    assert not any("does not cover the edits" in text for text in page_of().texts())


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("Rund 10\u00a0000 Hunde laufen .", ["Rund", "10‹U+00A0›000", "Hunde", "laufen", "."]),
        ("Ein \u200b Hund läuft .", ["Ein", "‹U+200B›", "Hund", "läuft", "."]),
        ("Ein Hund &amp; Tom .", ["Ein", "Hund", "&amp;", "Tom", "."]),
    ],
)
def test_words_are_those_of_the_given_line(beside: Callable, given: str, read: list[str]) -> None:
    beside(found((2, 1)))
    page = render("", "word_alignment", source=given)
    assert page.figure("alignment_figure")["layout"]["yaxis"]["ticktext"] == [
        word.replace("&", "&amp;") for word in read
    ]
    network, made = translator("scratch-de-en"), record(given)
    aligner = Aligner(network.checkpoint, found((2, 1)))
    links = pharaoh(aligner.links((given, made.translation)))
    page.claim("\n".join([given, made.translation, links]), "word_alignment", "code_text")


def test_without_alignment_heads_nothing_is_offered(beside: Callable) -> None:
    beside(None)
    assert "Word alignment" not in page_of().texts()
    beside(found((0, 0)), weights_sha256="0" * 64)
    page = page_of()
    assert "Word alignment" not in page.texts()
    assert any("belongs to other weights (00000000, not" in text for text in page.texts())
