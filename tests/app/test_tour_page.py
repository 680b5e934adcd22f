"""The tour's stops about one map agree with the record, for every model."""

from __future__ import annotations

import re

import numpy as np
import pytest

from core.record.record import TranslationRecord
from tests.app.page_checks import (
    map_row,
    names,
    nothing_else,
    numbered,
    percent,
    side,
    translator,
)
from tests.app.rendered import Rendered, questions, read, render, skip

KINDS = {
    "encoder": "encoder's self-attention",
    "decoder": "decoder's self-attention",
    "cross": "cross-attention",
}
GERMAN = (
    "Zwei junge Männer spielen im Park Fußball.",
    "Ein Straßenmusiker spielt an einer Bushaltestelle Gitarre.",
    "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd.",
    "Eine Frau bereitet in der Küche das Essen zu.",
    "Ein kleiner Junge sitzt auf einer Schaukel.",
    "Zwei Hunde laufen durch den Schnee.",
)
ENGLISH = (
    "A man wants to buy a washing machine.",
    "A street musician is playing guitar at a bus stop.",
    "A woman is preparing the food in the kitchen.",
    "A man in a red shirt is talking to a man in a blue shirt.",
    "A little boy is sitting on a swing.",
    "Two young men are playing soccer in the park.",
    "Two dogs are running through the snow.",
)
SENTENCES = {"de-en": GERMAN, "en-de": ENGLISH}
TRIALS = 5
"""The number of further stops, which run the network again: see test_tour_trials.py."""
ALL = [
    (model, direction, number)
    for direction, sentences in SENTENCES.items()
    for model in ("scratch", "baseline", "captions")
    for number in range(len(sentences))
]


def places(tokens, word: str) -> list[list[int]]:
    """Return the token indices of each occurrence of a word."""
    found = []
    for start in range(len(tokens)):
        for end in range(start + 1, len(tokens) + 1):
            if "".join(t.text for t in tokens[start:end]) == word:
                found.append(list(range(start, end)))
    return found


PAIRS = {
    ("de-en", 0): [("soccer", "Fußball", 0)],
    ("de-en", 1): [("street", "Straßenmusiker", 0), ("musician", "Straßenmusiker", 0)],
    ("de-en", 2): [("shirt", "Hemd", 0), ("shirt", "Hemd", 1)],
    ("en-de", 0): [("kaufen", "buy", 0)],
    ("en-de", 2): [("bereitet", "preparing", 0), ("zu", "preparing", 0)],
    ("en-de", 3): [("Hemd", "shirt", 0), ("Hemd", "shirt", 1)],
}
"""By stop: (target word, its source word, which occurrence of both), counted from 0."""


def cells(record: TranslationRecord, direction: str, number: int) -> list[tuple[int, list[int]]]:
    """Return a cross-attention stop's rows and keys; raise IndexError if a word is missing."""
    source, target = record.source, record.target_out
    if (direction, number) == ("en-de", 1):
        rows = places(target, "Straßenmusiker")[0]
        keys = [places(source, word)[0] for word in ("street", "musician")]
        return list(zip(rows, keys, strict=False))
    return [
        (places(target, word)[which][0], places(source, other)[which])
        for word, other, which in PAIRS[direction, number]
    ]


ON = {
    ("de-en", 0): "on Fußball while producing soccer",
    ("de-en", 1): "on the tokens of Straßenmusiker while producing street and musician",
    ("de-en", 2): "on the matching Hemd, averaged over both shirts",
    ("de-en", 3): "on the token before, over all rows from the second",
    ("de-en", 4): "on the first token, over all rows from the third",
    ("de-en", 5): "on the token just fed in, over all rows from the third",
    ("en-de", 0): "on buy while producing kaufen",
    ("en-de", 1): "on street, then on musician, while producing the first tokens of Straßenmusiker",
    ("en-de", 2): "on preparing, while producing bereitet and while producing zu",
    ("en-de", 3): "on the matching shirt, averaged over both times that Hemd is produced",
}
ON |= {("en-de", n + 1): ON["de-en", n] for n in (3, 4, 5)}


def shares(record: TranslationRecord, direction: str, number: int) -> tuple[str, np.ndarray]:
    """Return the kind of a stop's map, and each head's share of weight on its cells."""
    last = len(SENTENCES[direction]) - number
    if last == 3:
        maps = record.encoder
        return "encoder", np.mean([maps[..., i, i - 1] for i in range(1, maps.shape[-1])], axis=0)
    if last == 2:
        return "decoder", record.decoder[:, :, 2:, 0].mean(-1)
    if last == 1:
        maps = record.decoder
        return "decoder", np.mean([maps[..., i, i] for i in range(2, maps.shape[-1])], axis=0)
    at = cells(record, direction, number)
    return "cross", np.mean([record.cross[..., q, keys].sum(-1) for q, keys in at], axis=0)


def unanswered(app) -> list[dict]:
    """Check that an unanswered stop hides the answer; return its questions."""
    page = read(app)
    assert [key for key in page.payloads if key.startswith("tour_")] == []
    assert not re.search("weight of|puts", " ".join(page.texts("tour_text")))
    return questions(app)


@pytest.mark.parametrize(("model", "direction", "number"), ALL)
def test_a_stop_matches_the_record(model, direction, number):
    sentence = SENTENCES[direction][number]
    asked = []

    def look_then_skip(app) -> None:
        asked.extend(unanswered(app))
        skip(app)

    page = render(
        "tour", act=look_then_skip, direction=direction, model=model, stop=str(number + 1)
    )
    record = translator(f"{model}-{direction}").inspect(sentence)
    languages = {"de-en": "German → English", "en-de": "English → German"}[direction]
    total = len(SENTENCES[direction]) + TRIALS
    page.claim(f"Stop {number + 1} of {total}, {languages}", "tour_links")
    claim_tokens(page, record)
    # The only other sentence with numbers is the measured one.
    nothing_else(page, fixed=("Of all heads of the ", "The weights of a row sum to 1"))
    try:
        kind, share = shares(record, direction, number)
    except IndexError:
        page.claim_matching(
            r"This model did not write .*, so there is nothing to measure here\. .*"
        )
        assert "tour_map_0" not in page.payloads
        return
    layer, head = np.unravel_index(share.argmax(), share.shape)
    if model == "scratch":  # the bundled default shows every effect
        last = len(SENTENCES[direction]) - number
        assert share.max() > {3: 0.4, 2: 0.3, 1: 0.5}.get(last, 0.6)
    text = (
        f"Of all heads of the {KINDS[kind]}, layer {layer + 1} head {head + 1} comes first: it "
        f"puts **{percent(share.max())}** of its weight {ON[direction, number]}."
    )
    if kind == "cross":
        produced, read = names(record.target_out, 1), names(record.source, 1)
        rows = []
        for q, _ in cells(record, direction, number):
            k = int(record.cross[layer, head, q].argmax())
            rows.append(
                f"“{produced[q]}”, token {q + 1} of {len(produced)}, looks most at "
                f"“{read[k]}”, token {k + 1} of {len(read)}"
            )
        text += " " + "; ".join(rows) + "."
        words = [places(record.target_out, w)[n] for w, _, n in PAIRS.get((direction, number), [])]
        if any(len(word) > 1 for word in words):
            text += (
                " If a produced word has several tokens, the row of its first token is measured."
            )
    page.claim(text, "tour_text")
    if number == len(SENTENCES[direction]) - 1:
        assert asked[0]["name"] == "masked"
    else:
        assert asked[0]["name"] == "attends"
        assert f"layer {layer + 1} head {head + 1} of the {KINDS[kind]}" in asked[0]["prompt"]
        if kind == "cross":  # the pinned row, unless it has no clear answer
            row = names(record.target_out, 1)[cells(record, direction, number)[-1][0]]
            assert f"“{row}”" in asked[0]["prompt"] or page.claim_matching(
                r"The first question has no clear answer here, .*", f"question_tour_{number}"
            )
    header, (values,) = map_row(page, f"tour_map_{number}")
    np.testing.assert_array_equal(values, record.maps(kind))
    assert header["site"] == kind.capitalize()
    assert (header["opened"]["layer"], header["opened"]["head"]) == (layer, head)
    assert header["opened"]["names"] is None
    queries = record.source if kind == "encoder" else record.target_out
    keys = record.target_in if kind == "decoder" else record.source
    assert side(header, "queries") == numbered(queries, 1)
    assert side(header, "keys") == numbered(keys, 0 if kind == "decoder" else 1)
    source, target = {"de-en": ("German", "English"), "en-de": ("English", "German")}[direction]
    reading = f"{source} token" if kind == "encoder" else f"{target} token being produced"
    assert header["queries"]["words"] == reading
    assert header["keys"]["words"] == f"{target if kind == 'decoder' else source} token"
    link = page.app.main.get("page_link")[0].proto
    assert f"layer={layer}&head={head}" in link.query_string
    assert f"kind={kind}" in link.query_string


def claim_tokens(page: Rendered, record: TranslationRecord) -> None:
    texts = [token.text for token in record.source]
    text = f"The model reads {len(texts)} tokens: whole words, punctuation and \\<eos\\>"
    split = None
    for start, token in enumerate(record.source):
        end = start + 1
        while (
            end < len(texts)
            and not record.source[end].starts_word
            and texts[end].isalpha()
            and texts[start].isalpha()
        ):
            end += 1
        if end - start > 1 and token.starts_word:
            split = texts[start:end]
            break
    tail = "." if split is None else ", and parts of words, such as " + " \\| ".join(split) + "."
    page.claim(text + tail, "tour_text")


def test_another_model_opens_its_own_head_at_the_same_stop():
    """A row of maps keeps the chosen head until `turn` changes."""
    turns = set()
    for model in ("scratch", "baseline", "captions"):
        header, _ = map_row(render("tour", act=skip, model=model), "tour_map_0")
        turns.add(header["opened"]["turn"])
    assert len(turns) == 3


def disabled(page: Rendered) -> dict[str, bool]:
    return {name: page.app.button(key=f"tour_{name}").disabled for name in ("back", "next")}


def links(page: Rendered) -> list[str]:
    """Return the labels of all links except those to the glossary."""
    labels = [link.proto.label for link in page.app.get("page_link")]
    return [label for label in labels if not label.startswith("Glossary")]


def test_only_the_last_stop_links_to_the_lessons():
    last = render("tour", stop="11")
    assert links(last)[1:] == [
        "Tokens",
        "Step by step",
        "Inside a head",
        "Ask why",
        "Masks",
        "Positions",
    ]
    assert last.texts("tour_other", "label") == ["The same tour, English → German"]
    assert disabled(last) == {"back": False, "next": True}
    first = render("tour", stop="1")
    assert len(links(first)) == 1
    assert disabled(first) == {"back": True, "next": False}
    first.app.button(key="tour_next").click().run()
    assert first.app.session_state["stop"] == 2


def test_the_map_outlines_the_row_that_is_asked_about():
    page = render("tour", stop="4")
    (question,) = questions(page.app)
    row = int(question["question"].split(" at stop ")[0].rpartition(".")[2])
    skip(page.app)
    shown, _ = map_row(read(page.app), "tour_map_3")
    assert row > 0 and shown["outlined"] == row
    assert shown["maps"][0]["note"] == "Outlined: the row that the question is about."
    other = render("tour", stop="6")  # asks about cells
    skip(other.app)
    shown, _ = map_row(read(other.app), "tour_map_5")
    assert shown["outlined"] is None and not shown["maps"][0]["note"]
