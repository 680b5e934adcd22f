"""The questions on the pages: what they say, what they hide, and what is asked instead."""

from __future__ import annotations

import re
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import core
from app.views.shared import asked as texts
from app.views.shared.asked import wins
from core.config import DecodeConfig
from core.record.edits import Edits, PositionEdit
from core.search.beam import Hypothesis
from tests.app.page_checks import names, number, percent, record, signed, translator
from tests.app.rendered import Rendered, answer, questions, read, render, skip
from tests.app.test_worksheet import words_of

TWO_MEN = "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd."
WAITING = "The page continues once you have answered or skipped the question."
INSTEAD = "The first question has no clear answer here, so another one is asked. "


def asked(page: Rendered, place: str) -> dict[str, Any]:
    """Return the question asked at a place, as sent to the browser."""
    return page.payload(f"asked_{place}")


def right(question: dict[str, Any]) -> dict[str, Any]:
    """Return the right option."""
    (index,) = question["correct"]
    return question["options"][index]


# What the questions say.


def test_a_question_about_attention_has_the_numbers_of_its_row():
    query, layer, head = 9, 2, 2
    at = {"kind": "cross", "layer": str(layer), "head": str(head), "q": str(query)}
    page = render("head", source=TWO_MEN, **at)
    question, found = asked(page, "head"), record(TWO_MEN)
    row = found.cross[layer, head, query]
    shares, words = row.tolist(), names(found.source, 1)
    assert all(
        token.starts_word or token.special or not token.text.isalnum() for token in found.source
    )
    best, second = np.argsort(-row)[:2]
    produced = names(found.target_out, 1)[query]
    assert question["prompt"] == (
        f"While the network produces “{produced}”, which source word does layer 3 head 3 of the "
        "cross-attention attend to most?"
    )
    assert [option["label"] for option in question["options"]] == words
    assert [option["value"] for option in question["options"]] == [percent(s) for s in shares]
    np.testing.assert_allclose([option["shade"] for option in question["options"]], row, atol=1e-6)
    assert question["correct"] == [best] and question["near"] == []
    assert right(question)["said"] == f"“{words[best]}”, with {percent(row[best])} of the weight"
    assert question["explanation"] == [
        f"Layer 3 head 3 gives “{words[best]}” {percent(row[best])} of this row's weight, and "
        f"“{words[second]}” {percent(row[second])}.",
        f"If the weight were spread evenly over the {len(words)} words that the row may attend to, "
        f"each would get {percent(1 / len(words))}.",
    ]
    assert question["uncertain"].startswith(
        "No other word is within 5 percentage points of the largest share."
    )
    assert page.payload("asked_head")["question"].startswith(found.id)
    assert question["paper"] == "Vaswani et al. 2017, §3.2.1"


def test_words_that_nearly_tie_are_named():
    """Ask about a row whose two largest shares are close."""
    found = record(TWO_MEN)
    top = np.sort(found.encoder, axis=-1)
    near = (top[..., -1] - top[..., -2] < 0.045) & (top[..., -1] - top[..., -3] > 0.055)
    layer, head, query = map(int, np.argwhere(near & (top[..., -1] > 0.31))[0])
    at = {"kind": "encoder", "layer": str(layer), "head": str(head), "q": str(query)}
    question = asked(render("head", source=TWO_MEN, **at), "head")
    best, second = np.argsort(-found.encoder[layer, head, query])[:2]
    assert (question["correct"], question["near"]) == ([best], [second])
    assert question["uncertain"] == (
        f"“{names(found.source, 1)[second]}” is within 5 percentage points of the largest share, "
        "so it counts as well."
    )
    assert question["prompt"].startswith(f"At the position of “{names(found.source, 1)[query]}”")


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_queries_and_keys_of_self_attention_are_named(kind):
    """A decoder row is named by the token that it produces, a key by the token that is read."""
    found = record(TWO_MEN)
    page = render("head", source=TWO_MEN, kind=kind, layer="0", head="0", q="6")
    question = asked(page, "head")
    keys = found.target_in[:7] if kind == "decoder" else found.source
    rows = found.target_out if kind == "decoder" else found.source
    if f"“{names(rows, 1)[6]}”" in question["prompt"]:
        first = 0 if kind == "decoder" else 1
        tokens = found.target_in if kind == "decoder" else found.source
        assert [o["label"] for o in question["options"]] == names(tokens, first)[: len(keys)]
    else:
        assert page.texts("question_head", "caption")[0].startswith(INSTEAD)


def test_a_question_about_masks_has_the_numbers_of_the_map():
    question, found = asked(render("masks", source=TWO_MEN), "masks"), record(TWO_MEN)
    weights = found.decoder[:, :, :6, :6].max((0, 1))
    triangle = np.triu(np.ones((6, 6), bool), 1)
    assert question["prompt"] == (
        "Which cells of the decoder's self-attention are masked? The rows are the first 6 steps."
    )
    assert question["rows"] == question["columns"] == names(found.target_in, 0)[:6]
    assert (question["row_title"], question["column_title"]) == (
        "Query: target token fed in",
        "Key: target token fed in",
    )
    assert question["correct"] == np.flatnonzero(triangle).tolist() and question["every"]
    shades = [option["shade"] for option in question["options"]]
    assert [shade is None for shade in shades] == triangle.ravel().tolist()
    np.testing.assert_allclose(
        [shade for shade in shades if shade is not None], weights[~triangle], atol=1e-6
    )
    assert question["options"][7]["name"] == (
        f"Query “{question['rows'][1]}”, key “{question['columns'][1]}”"
    )
    assert question["explanation"] == [
        "Masked cells: 15 of 36. A query may attend to what is written already, never to what "
        "comes later.",
        "An unmasked cell is coloured by the largest weight that any of the "
        f"{found.decoder[:, :, 0, 0].size} heads gives it, up to {percent(weights.max())}; the "
        f"largest weight of a masked cell is {percent(weights[triangle].max())}.",
    ]


def test_a_question_about_padding_has_the_cells_of_the_batch():
    target = "[1, 7, 4, 3, 5, 6, 4, 9]\n[1, 5, 6, 2, 0, 0, 0, 0]"
    page = render("masks", mask_input="ids", mask_target_ids=target)
    question = asked(page, "batch")  # the target is fed in without its last id: 7 tokens
    assert question["prompt"].startswith("The target of sentence 2 is shorter")
    assert question["rows"] == ["5", "6", "2"]
    assert question["columns"] == ["5", "6", "2", "<pad>", "<pad>", "<pad>"]
    assert question["correct"] == [1, 2, 3, 4, 5, 8, 9, 10, 11, 15, 16, 17]
    letters = "|f|f|pf|pf|pf|||f|pf|pf|pf||||pf|pf|pf"
    assert [option["value"] for option in question["options"]] == letters.split("|")
    assert question["explanation"] == [
        "Masked cells: 3 in the future (f), 0 in the padding (p), 9 in both (pf).",
        "Padding fills this target up from length 4 to 7, the length of the longest one; no query "
        "may attend to padding.",
    ]
    same = render("masks", mask_input="ids", mask_target_ids="[1, 7, 4]\n[1, 5, 6]")
    assert same.texts("question_batch", "caption") == [
        "No question is asked about this sentence. No translation in this batch has padding."
    ]


def test_a_question_about_heads_has_their_effects():
    page = render("why", source=TWO_MEN)
    question, found = asked(page, "why"), record(TWO_MEN)
    changes = core.head_effects(translator("scratch-de-en"), found).changes["cross"]
    token = int(np.abs(changes).max((0, 1)).argmax())  # each word of this translation is one token
    word = names(found.target_out, 1)[token]
    effect = changes[..., token].ravel()
    best, second = np.argsort(-np.abs(effect))[:2]
    assert question["prompt"] == (
        "Ablate one head of the cross-attention: its output becomes zero. Which head changes the "
        f"log-probability of “{word}” most?"
    )
    layers, heads = changes.shape[:2]
    assert question["rows"] == [str(n + 1) for n in range(layers)]
    assert question["columns"] == [str(n + 1) for n in range(heads)]
    assert question["correct"] == [best] and question["scale"] == "change"
    assert [o["value"] for o in question["options"]] == [signed(value, 2) for value in effect]
    np.testing.assert_allclose(
        [o["shade"] for o in question["options"]], effect / np.abs(effect).max(), atol=1e-9
    )
    spoken = [f"layer {n // heads + 1} head {n % heads + 1}" for n in range(len(effect))]
    assert [o["name"] for o in question["options"]] == spoken
    before = float(found.log_probs[token])
    assert question["explanation"] == [
        f"Without {spoken[best]}, the probability of “{word}” goes from "
        f"{percent(np.exp(before))} to {percent(np.exp(before + effect[best]))} "
        f"({signed(effect[best], 2)} nats).",
        f"The next largest effect is {signed(effect[second], 2)} nats, that of {spoken[second]}; "
        f"heads with an effect of less than 0.10 nats: {int((np.abs(effect) < 0.1).sum())} of "
        f"{len(effect)}.",
    ]


def test_the_question_is_about_the_chosen_token():
    found = record(TWO_MEN)
    changes = core.head_effects(translator("scratch-de-en"), found).changes["cross"]
    clear = [t for t in range(len(found.target_out)) if 0.15 < np.abs(changes[..., t]).max() < 1]
    sizes = np.sort(np.abs(changes[..., clear[-1]]).ravel())
    assert sizes[-1] - sizes[-2] > 0.05
    page = render("why", source=TWO_MEN, why_for=str(clear[-1]))
    assert f"“{names(found.target_out, 1)[clear[-1]]}”" in asked(page, "why")["prompt"]
    small = next(t for t in range(len(found.target_out)) if np.abs(changes[..., t]).max() < 0.1)
    page = render("why", source=TWO_MEN, state={"why_for": small})
    largest = number(np.abs(changes[..., small]).max(), 2)
    assert page.texts("question_why", "caption") == [
        f"{INSTEAD}No head of this kind matters much for “{names(found.target_out, 1)[small]}”: "
        f"the largest effect is {largest} nats, less than 0.10."
    ]


def test_a_question_about_positions_has_both_translations():
    question, found = asked(render("positions", source=TWO_MEN), "positions"), record(TWO_MEN)
    off = PositionEdit(scale=0)
    after = translator("scratch-de-en").inspect(
        TWO_MEN, edits=Edits(source_positions=off, target_positions=off), beam=5
    )
    words = [
        text.casefold().replace(".", "").split() for text in (found.translation, after.translation)
    ]
    assert words[0] != words[1] and sorted(words[0]) == sorted(words[1])  # colours change places
    assert question["correct"] == [1]
    assert [option["value"] for option in question["options"]] == ["", "", ""]
    both = (Counter(words[0]) & Counter(words[1])).total()
    assert question["explanation"] == [
        f"Without positions the network writes “{after.translation}”: the same words in another "
        "order.",
        f"With positions it writes “{found.translation}” (words in both: {both} of "
        f"{max(map(len, words))}, without regard to capitals and punctuation).",
    ]


def test_a_question_about_the_search_has_its_scores():
    question, found = asked(render("steps", source=TWO_MEN), "steps"), record(TWO_MEN)
    scores = {h.text: h.score for h in reversed(found.hypotheses)}
    assert sorted(o["label"] for o in question["options"]) == sorted(scores)
    for option in question["options"]:
        assert option["value"] == f"Score {number(scores[option['label']], 3)}"
    first, second = sorted(scores, key=scores.__getitem__, reverse=True)[:2]
    assert right(question)["label"] == first == found.translation
    winner = next(h for h in found.hypotheses if h.text == first)
    assert question["explanation"] == [
        f"“{first}” has the best score, {number(scores[first], 3)}, and “{second}” the next best, "
        f"{number(scores[second], 3)}.",
        f"The best one's log-probability is {number(winner.log_prob, 3)} nats for "
        f"{len(winner.ids)} tokens; the length penalty turns that into its score.",
    ]
    assert "The search kept 5 hypotheses at a time" in question["uncertain"]


SPLIT = (
    ("A dog is chasing a rabbit.", "scratch-en-de"),
    ("A street musician is playing guitar at a bus stop.", "scratch-en-de"),
    ("Ein Zauberwürfel liegt im Gras.", "scratch-de-en"),
)
"""Sentences with words of several tokens on both sides."""


def sides(found, kind: str) -> tuple[list[str], list[list[int]]]:
    """Return the names of a kind's queries, and the tokens of each word of its keys."""
    queries = names(found.source if kind == "encoder" else found.target_out, 1)
    return queries, words_of(found.target_in if kind == "decoder" else found.source)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize(("source", "model"), SPLIT)
def test_a_word_of_several_tokens_is_one_option(source, model, kind):
    found = record(source, model)
    queries, words = sides(found, kind)
    keys = found.target_in if kind == "decoder" else found.source
    assert any(len(word) > 1 for word in words)
    several = 0
    for layer, head, query in np.ndindex(found.maps(kind).shape[:3]):
        try:
            question = texts.attends(found, kind, layer, head, query)
        except texts.NotAskable:
            continue
        row = found.maps(kind)[layer, head, query].astype(float)
        seen = [word for word in words if found.mask(kind)[query, word[0]]]
        seen = [[i for i in word if found.mask(kind)[query, i]] for word in seen]
        shares = np.array([row[word].sum() for word in seen])
        best, second = np.argsort(-shares, kind="stable")[:2]
        assert [option.value for option in question.options] == list(map(percent, shares))
        plain = ["".join(keys[i].text for i in word) for word in seen]
        assert [re.sub("[₀-₉]+$", "", option.label) for option in question.options] == plain
        marked = [option.special for option in question.options]
        assert marked == [keys[word[0]].special for word in seen]
        place = f"layer {layer + 1} head {head + 1}"
        assert place in question.prompt.lower() and f"“{queries[query]}”" in question.prompt
        told, even = question.explanation
        assert f"“{question.options[best].label}” {percent(shares[best])} of this" in told
        assert f"“{question.options[second].label}” {percent(shares[second])}." in told
        assert f"evenly over the {len(seen)} words" in even
        assert f"each would get {percent(1 / len(seen))}." in even
        several += len(seen) < sum(map(len, seen))
    assert several > 3


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize(("source", "model"), SPLIT)
def test_other_questions_come_in_the_order_of_their_clearness(source, model, kind):
    found = record(source, model)
    _, words = sides(found, kind)
    mask = found.mask(kind)
    for layer, head in ((0, 1), (3, 2)):
        weights = found.maps(kind)[layer, head].astype(float)
        clear = []
        for query, row in enumerate(weights):
            seen = sum(mask[query, word].any() for word in words)
            clear.append(max(row[word].sum() for word in words) - 1 / seen)
        asked_rows = [one.args[4] for one in texts.other_rows(found, kind, layer, head)]
        assert sorted(asked_rows) == list(range(len(weights)))
        assert [clear[q] for q in asked_rows] == pytest.approx(
            sorted(clear, reverse=True), abs=1e-6
        )


def test_the_effect_on_a_word_of_several_tokens_is_their_sum():
    signs = set()
    for source, model in SPLIT:
        found = record(source, model)
        effects = core.head_effects(translator(model), found)
        words = [tuple(word) for word in words_of(found.target_out)]
        changes = {
            word: effects.changes["cross"][..., list(word)].sum(-1).ravel() for word in words
        }
        largest = [np.abs(changes[word]).max() for word in words]
        order = [words[i] for i in np.argsort(-np.array(largest), kind="stable")]
        assert [tuple(one.args[3]) for one in texts.important_heads(found, effects)] == order
        heads = found.cross.shape[1]
        for word in words:
            try:
                question = texts.matters(found, effects, "cross", word)
            except texts.NotAskable:
                continue
            effect = changes[word]
            best, second = np.argsort(-np.abs(effect), kind="stable")[:2]
            before = float(found.log_probs[list(word)].sum(dtype=np.float64))
            ends = [percent(np.exp(value)) for value in (before, before + effect[best])]
            spoken = [f"layer {n // heads + 1} head {n % heads + 1}" for n in (best, second)]
            first, other = question.explanation
            assert first.startswith(f"Without {spoken[0]}, ")
            assert ends[0] == ends[1] or f"goes from {ends[0]} to {ends[1]} " in first
            assert f"({signed(effect[best], 2)} nats)" in first
            assert f"is {signed(effect[second], 2)} nats, that of {spoken[1]};" in other
            signs.add((len(word) > 1, bool(effect[second] > 0)))
    assert {(True, False), (False, True)} <= signs, "split words, and effects of both signs"


@pytest.mark.parametrize(
    "source",
    [
        "Ein Straßenmusiker spielt an einer Bushaltestelle Gitarre.",
        "Ein Zauberwürfel liegt im Gras.",
        "Eine Frau bereitet in der Küche das Essen zu.",
    ],
)
def test_words_of_both_translations_are_counted_against_the_longer_one(source):
    off = PositionEdit(scale=0)
    found = record(source)
    after = translator("scratch-de-en").inspect(
        source, edits=Edits(source_positions=off, target_positions=off), beam=5
    )
    words = [
        text.casefold().replace(".", "").split() for text in (found.translation, after.translation)
    ]
    assert len(words[0]) != len(words[1])
    both = (Counter(words[0]) & Counter(words[1])).total()
    question = texts.order(found, after)
    assert f"(words in both: {both} of {max(map(len, words))}, " in question.explanation[1]
    assert f"“{after.translation}”" in question.explanation[0]
    assert f"“{found.translation}”" in question.explanation[1]


# What they hide.

CONTENT = {
    "masks": "closing_strip",
    "positions": "position_probabilities",
    "head": "head_sentence",
    "why": "why_matters",
    "steps": "beam_tree",
}
"""By page: the part that answers its question."""
OPENED = {"positions": ("open_what_if",)}
PLATES = {"positions": "what_if"}
"""By page: the name of the cover over that part, if it is not the page's name."""
REST = {"masks": "source_batch", "positions": "position_table", "why": "open_lens"}
"""What a page shows whether the question is answered or not."""
COVERED = "Hidden until you answer or skip the question."


def has(page: Rendered, key: str) -> bool:
    return key in page.payloads or key in page.figures or bool(page.found(key))


def opened(path: str, **query: str) -> Rendered:
    return render(path, *OPENED.get(path, ()), source=TWO_MEN, **query)


def plates(page: Rendered) -> list[str]:
    return sorted({item.where for item in page.items if item.text == COVERED})


@pytest.mark.parametrize("path", CONTENT)
def test_a_lesson_stops_at_its_question(path):
    shown = opened(path, lesson="0")
    assert asked(shown, path)["given"] is None and has(shown, CONTENT[path])
    assert WAITING not in shown.texts(f"question_{path}") and not plates(shown)
    lesson = opened(path, lesson="1")
    assert asked(lesson, path)["question"] == asked(shown, path)["question"]
    assert not has(lesson, CONTENT[path]) and WAITING in lesson.texts(f"question_{path}")
    if path in REST:
        assert not has(lesson, REST[path])
    skip(lesson.app)
    after = read(lesson.app)
    assert has(after, CONTENT[path]) and WAITING not in after.texts(f"question_{path}")
    given = asked(after, path)["given"]
    assert given["question"] == asked(shown, path)["question"]
    assert not given["answer"] and given["skipped"] and not given["right"]


@pytest.mark.parametrize("path", CONTENT)
def test_a_free_page_covers_what_answers_its_question(path):
    page = opened(path, lesson="")
    plate = PLATES.get(path, path)
    assert not has(page, CONTENT[path]) and f"cover_{plate}" in plates(page)
    assert WAITING not in page.texts(f"question_{path}")
    if path in REST:
        assert has(page, REST[path])
    assert page.found("model_note")  # written after the rest of the page
    page.app.button(key=f"show_{plate}").click().run()
    shown = read(page.app)
    assert has(shown, CONTENT[path]) and not plates(shown)
    assert asked(shown, path)["given"] is None
    page.app.button(key=f"predict_{path}").click().run()
    assert not has(read(page.app), CONTENT[path])
    skip(page.app)
    answered = read(page.app)
    assert has(answered, CONTENT[path]) and f"cover_{plate}" not in plates(answered)
    assert f"predict_{path}" not in {button.key for button in page.app.button}


def test_the_wish_to_see_answers_is_remembered_for_the_visit():
    page = opened("head", lesson="")
    page.app.button(key="show_head").click().run()
    kept = page.app.session_state["saved answers shown"]
    other = opened("masks", lesson="")
    assert plates(other) == ["cover_batch", "cover_masks"]
    other.app.session_state["saved answers shown"] = kept
    other.app.run()
    assert not plates(read(other.app))


@pytest.mark.parametrize(
    ("path", "named"),
    [("head", {"kind": "cross", "layer": "2", "head": "0", "q": "3", "k": "1"}),
     ("steps", {"forced": "34"}), ("why", {"why_for": "3"})],
)  # fmt: skip
def test_a_link_that_names_what_to_look_at_shows_it(path, named):
    page = opened(path, lesson="", **named)
    assert asked(page, path)["given"] is None and not plates(page)
    page.app.run()
    assert has(read(page.app), CONTENT[path])


def test_the_batch_covers_its_masks_in_a_lesson():
    page = render("masks", source=TWO_MEN, lesson="1")
    answer(page.app, asked(page, "masks"), 1)
    page.app.run()
    page = read(page.app)
    assert "mask_combined" not in page.figures and asked(page, "batch")["given"] is None
    assert plates(page) == ["cover_batch"] and WAITING not in page.texts()
    assert "closing_strip" in page.figures  # later sections are shown
    skip(page.app)
    assert "mask_combined" in read(page.app).figures


def test_a_free_page_opens_with_another_key_than_the_answer():
    """The key with the largest weight is the answer, so the key at the row's position is chosen."""
    found = record(TWO_MEN)
    query = next(q for q in range(9) if found.cross[2, 0, q].argmax() != q)
    place = {"kind": "cross", "layer": "2", "head": "0", "q": str(query)}
    page = render("head", source=TWO_MEN, lesson="0", **place)
    assert page.app.selectbox(key="head_k").value == query
    answered = render("head", source=TWO_MEN, lesson="1", **place)
    skip(answered.app)
    largest = int(found.cross[2, 0, query].argmax())
    assert answered.app.selectbox(key="head_k").value == largest


def test_another_sentence_is_another_question():
    page = render("masks", source=TWO_MEN, lesson="1")
    (first, *_) = questions(page.app)
    skip(page.app)
    assert has(read(page.app), "closing_strip")
    page.app.text_area(key="source").set_value("Eine Frau liest ein Buch.").run()
    other = read(page.app)
    assert asked(other, "masks")["question"] != first["question"]
    assert asked(other, "masks")["given"] is None and not has(other, "closing_strip")
    page.app.text_area(key="source").set_value(TWO_MEN).run()
    assert has(read(page.app), "closing_strip")  # answered before


def test_the_same_sentence_in_another_model_is_another_question():
    ids = {
        asked(render("head", source=TWO_MEN, model=model), "head")["question"]
        for model in ("scratch", "baseline", "captions")
    }
    assert len(ids) == 3


# What is asked instead.


def test_a_search_with_one_result_is_not_asked_about():
    page = render("steps", source=TWO_MEN, search="greedy")
    assert page.texts("question_steps", "caption") == [
        INSTEAD + "The search finished a single translation."
    ]
    assert asked(page, "steps")["name"] == "attends"


def test_a_tie_of_the_search_is_not_asked_about():
    """The scores of the two texts that this search finishes differ by at most 0.01."""
    sentence = "A man wants to buy a washing machine."
    finished = record(sentence, "scratch-en-de").hypotheses
    scores = {hypothesis.text: hypothesis.score for hypothesis in reversed(finished)}
    assert len(scores) == 2 and np.ptp(list(scores.values())) <= 0.01
    page = render("steps", source=sentence, direction="en-de")
    assert page.texts("question_steps", "caption") == [
        f"{INSTEAD}Of the 2 translations that the search finished, 2 have scores within 0.010 of "
        "the best one."
    ]


@pytest.mark.parametrize(
    ("scores", "near", "said"),
    [
        ((-1.0, -1.006, -2, -3), ["b"],
         "The scores of two translations are within 0.01 of each other, so both count."),
        ((-1.0, -1.006, -1.007, -3, -4, -5), ["b", "c"],
         "The scores of 2 other translations are within 0.01 of the best one, so they count as "
         "well."),
    ],
)  # fmt: skip
def test_scores_that_nearly_tie_count_as_well(scores, near, said):
    finished = tuple(Hypothesis((5,) * 4, 4 * score, score) for score in scores)
    tree = SimpleNamespace(hypotheses=finished, decode=DecodeConfig(beam=6))
    texts = tuple("abcdef"[: len(scores)])
    shown = wins(record(TWO_MEN), SimpleNamespace(tree=tree, texts=texts))
    assert shown.uncertain == said
    assert sorted(shown.options[i].label for i in shown.question.near) == near
    assert shown.explanation[0].startswith("“a” has the best score, −1.000, and “b” the next best")


def test_a_row_without_a_maximum_is_replaced_by_another_of_its_head():
    found = record(TWO_MEN)
    layer, head, query = map(int, np.argwhere(found.encoder.max(-1) < 0.25)[0])
    at = {"kind": "encoder", "layer": str(layer), "head": str(head), "q": str(query)}
    page = render("head", source=TWO_MEN, **at)
    words, row = names(found.source, 1), found.encoder[layer, head, query]
    assert page.texts("question_head", "caption") == [
        f"{INSTEAD}The row of “{words[query]}” has no clear maximum: its largest share is "
        f"{100 * row.max():.0f} %, less than 30 %."
    ]
    clearest = int(found.encoder[layer, head].max(-1).argmax())
    assert asked(page, "head")["prompt"].startswith(f"At the position of “{words[clearest]}”")
    assert f"layer {layer + 1} head {head + 1} " in asked(page, "head")["prompt"]


def test_a_page_says_why_it_asks_nothing():
    def page() -> None:
        import streamlit as st

        from app.views.shared.asked import NotAskable
        from app.views.shared.question import ask

        def first() -> None:
            raise NotAskable("The *first* reason.")

        def second() -> None:
            raise NotAskable("Another reason.")

        st.text(str(ask("here", [first, second])))

    shown = read(AppTest.from_function(page).run())
    assert shown.texts("question_here") == [
        "No question is asked about this sentence. The \\*first\\* reason."
    ]
    assert shown.texts(kind="text") == ["Outcome(asked=None, settled=True, shown=True)"]


@pytest.mark.parametrize("direction", ["de-en", "en-de"])
def test_every_stop_of_the_tour_asks(direction):
    count = {"de-en": 6, "en-de": 7}[direction]
    for stop in range(count):
        page = render("tour", direction=direction, stop=str(stop + 1))
        question = asked(page, f"tour_{stop}")
        assert question["name"] == ("masked" if stop == count - 1 else "attends")
        assert f"tour_map_{stop}" not in page.payloads and f"tour_{stop}" not in page.payloads
        assert "The map is shown once you have answered or skipped the question." in page.texts()


def test_stops_ask_what_they_show():
    """Each stop asks about its own effect, and an answer at one stop does not count at another."""
    asks = {n: asked(render("tour", stop=str(n)), f"tour_{n - 1}") for n in (1, 4, 7, 8, 9, 10)}
    kinds = {n: question["name"] for n, question in asks.items()}
    assert kinds == {1: "attends", 4: "attends", 7: "order", 8: "leak", 9: "attends", 10: "wins"}
    # The row that is asked about has a token before it.
    assert int(asks[4]["question"].split(" at stop ")[0].rpartition(".")[2]) >= 1
    same, here = (asks[n]["question"].split(" at stop ") for n in (1, 9))
    assert same[0] == here[0] and same[1] != here[1]

    healthy = record("Zwei Hunde laufen durch den Schnee.")
    ids = [token.id for token in healthy.target_out]
    leaked = translator("scratch-de-en").inspect(
        healthy.source_text, target_ids=ids, edits=Edits(causal_mask=False)
    )
    before, after = (float(np.exp(one.log_probs).mean()) for one in (healthy, leaked))
    assert right(asks[8])["label"] == ("It rises" if after > before else "It falls")
    assert abs(after - before) > 0.005
    assert asks[8]["explanation"][0] == (
        f"The mean probability of the {len(ids)} tokens is {percent(before)} with the mask and "
        f"{percent(after)} without it."
    )


def test_a_decoder_row_with_a_choice_is_asked_about():
    """The first rows put all weight on one or two tokens because nothing else is written yet."""
    page = render("tour", direction="en-de", stop="6")
    assert page.texts("question_tour_5") == []  # no other question was tried
    found = record("Two young men are playing soccer in the park.", "scratch-en-de")
    layer, head = divmod(int(found.decoder[:, :, 2:, 0].mean(-1).argmax()), found.decoder.shape[1])
    row = found.decoder[layer, head].max(-1) - 1 / np.arange(1, found.decoder.shape[-1] + 1)
    produced = names(found.target_out, 1)[int(row.argmax())]
    assert f"produces “{produced}”, which word" in asked(page, "tour_5")["prompt"]
    assert len(asked(page, "tour_5")["options"]) == 1 + int(row.argmax())


def test_a_stop_says_little_before_its_question_is_answered():
    page = render("tour", stop="4")
    shown = page.texts("tour_text", "markdown")
    assert shown == ["A head of the encoder may follow positions rather than words."]
    skip(page.app)
    assert (
        "the head that looks most at the token before"
        in read(page.app).texts("tour_text", "markdown")[0]
    )
