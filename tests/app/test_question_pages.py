"""The questions on the pages: what they say, what they hide, and what is asked instead."""

from __future__ import annotations

import math
import re
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

import core
from app.examples import EXAMPLES
from app.lessons.texts import text
from app.look.markdown import plain
from app.stops import TOURS
from app.views.shared import asked as texts
from app.views.shared.asked import wins
from core.config import DecodeConfig
from core.experiments.head_effects import head_effects
from core.record.edits import Edits, PositionEdit
from core.search.beam import Hypothesis
from tests.app.page_checks import map_row, names, number, percent, record, signed, translator
from tests.app.rendered import Rendered, answer, array, questions, read, render, skip
from tests.app.test_app import MAIN
from tests.app.test_worksheet import words_of

TWO_MEN = EXAMPLES[0].de
WAITING = text("questions", "page.waiting")
OFF = PositionEdit(scale=0)
WITHOUT_POSITIONS = Edits(source_positions=OFF, target_positions=OFF)


def asked(page: Rendered, place: str) -> dict[str, Any]:
    """Return the question asked at a place, as sent to the browser."""
    return page.payload(f"asked_{place}")


def right(question: dict[str, Any]) -> dict[str, Any]:
    """Return the right option."""
    (index,) = question["correct"]
    return question["options"][index]


def hints(question: dict[str, Any]) -> list[str]:
    return [hint["text"] for hint in question["hints"]]


def even_row(found) -> tuple[int, int, int]:
    """Return layer, head and query of a row of cross-attention whose largest weight is clear, but
    whose two largest scores are less than 1.5 apart; its largest weight is not at its own place.
    """
    top = np.sort(found.cross, axis=-1)[..., -2:]
    clear = (top[..., 1] > 0.31) & (top[..., 1] - top[..., 0] > 0.055)
    clear &= (top[..., 1] < 4.4 * top[..., 0]) & (
        found.cross.argmax(-1) != np.arange(found.cross.shape[2])
    )
    layer, head, query = np.argwhere(clear)[0].tolist()
    return layer, head, query


# What the questions say.


def test_a_question_about_scores_has_the_ratio_of_the_weights():
    """The difference of two scores is the logarithm of the ratio of their weights."""
    found, at = record(TWO_MEN), {"kind": "cross", "layer": "2", "head": "3", "q": "5"}
    page = render("head", source=TWO_MEN, lesson="1", **at)
    question = asked(page, "head")
    series = {row.series for row in page.charts["pictured_head"].rows()}
    assert series == {"score"}, "the weights answer the question"
    row = found.cross[2, 3, 5].astype(float)
    best, second = np.argsort(-row)[:2]
    points = np.log(row[best] / row[second])
    assert question["prompt"] == text(
        "head",
        "weighs.prompt",
        best=names(found.source, 1)[best],
        second=names(found.source, 1)[second],
        points=number(points, 2),
    )
    factors = {"plain": points, "square": points**2, "e": np.exp(points), "ten": 10**points}
    shown = [float(o["label"].split()[0].replace(",", "")) for o in question["options"]]
    assert shown == pytest.approx(sorted(factors.values()), rel=0.06)
    assert question["correct"] == [sorted(factors, key=factors.__getitem__).index("e")]
    shares = {"share": percent(row[best]), "second_share": percent(row[second])}
    assert all(share in question["explanation"][0] for share in shares.values())
    assert hints(question) == [
        text("head", "weighs.hint", word=names(found.source, 1)[at], share=percent(row[at]))
        for at in (best, second)
    ]


def test_a_question_about_attention_has_the_numbers_of_its_row():
    found = record(TWO_MEN)
    layer, head, query = even_row(found)
    at = {"kind": "cross", "layer": str(layer), "head": str(head), "q": str(query)}
    page = render("head", source=TWO_MEN, **at)
    question = asked(page, "head")
    assert not page.texts("question_head", "caption"), "nobody has read the one not asked"
    expected = texts.attends(found, "cross", layer, head, query)  # compared with the maps below
    assert question["prompt"] == expected.prompt and question["uncertain"] == expected.uncertain
    row = found.cross[layer, head, query]
    words = names(found.source, 1)
    assert [option["label"] for option in question["options"]] == words
    np.testing.assert_allclose([option["shade"] for option in question["options"]], row, atol=1e-6)
    assert question["correct"] == [row.argmax()]
    said = {"word": words[row.argmax()], "share": percent(row.max())}
    assert right(question)["said"] == text("head", "attends.option", **said)
    assert question["question"].startswith(found.id)
    assert question["paper"] == text("head", "paper")
    assert question["hint"] == text("questions", "hint.word")
    best, count = int(row.argmax()), len(words)
    third = max(2, round(count / 3))
    parts = [range(n, n + third) for n in range(count - third + 1) if n <= best < n + third]
    part = max(parts, key=lambda part: row[part].sum(dtype=float))
    ends = {"first": words[part[0]], "last": words[part[-1]], "share": percent(row[part].sum())}
    even = {"share": percent(row.max()), "words": count, "even": percent(1 / count)}
    assert question["hints"] == [
        {"text": text("head", "attends.hint", **even), "among": []},
        {"text": text("head", "attends.hint-near", **ends), "among": list(part)},
    ]


def test_words_that_nearly_tie_are_named():
    """Ask about a row whose two largest shares are close."""
    found = record(TWO_MEN)
    top = np.sort(found.encoder, axis=-1)
    near = (top[..., -1] - top[..., -2] < 0.045) & (top[..., -1] - top[..., -3] > 0.055)
    layer, head, query = map(int, np.argwhere(near & (top[..., -1] > 0.31))[0])
    question = texts.attends(found, "encoder", layer, head, query)
    best, second = map(int, np.argsort(-found.encoder[layer, head, query])[:2])
    assert (question.question.correct, question.question.near) == ({best}, {second})
    second_name = names(found.source, 1)[second]
    assert f"“{second_name}”" in question.uncertain and "5 percentage points" in question.uncertain


def test_a_question_about_masks_has_the_numbers_of_the_map():
    question, found = asked(render("masks", source=TWO_MEN), "masks"), record(TWO_MEN)
    weights = found.decoder[:, :, :6, :6].max((0, 1))
    triangle = np.triu(np.ones((6, 6), bool), 1)
    assert question["prompt"] == text("masks", "masked.prompt", rows=6)
    assert question["hint"] == text("questions", "hint.cells")
    assert question["words"]["wrong"] == text("questions", "words.wrong-cells")
    assert question["rows"] == names(found.target_out, 1)[:6]
    assert question["columns"] == names(found.target_in, 0)[:6]
    heads = found.decoder.shape[0] * found.decoder.shape[1]
    assert question["shaded_by"] == text("masks", "masked.shades", heads=heads)
    titles = [text("masks", f"masked.{which}_title") for which in ("row", "column")]
    assert [question["row_title"], question["column_title"]] == titles
    assert question["correct"] == np.flatnonzero(triangle).tolist() and question["every"]
    shades = [option["shade"] for option in question["options"]]
    assert [shade is None for shade in shades] == triangle.ravel().tolist()
    np.testing.assert_allclose(
        [shade for shade in shades if shade is not None], weights[~triangle], atol=1e-6
    )
    seventh = {"query": f"“{question['rows'][1]}”", "key": f"“{question['columns'][2]}”"}
    assert question["options"][8]["name"] == text("masks", "masked.cell", **seventh)
    ends = {"most": percent(weights.max()), "least": percent(weights[triangle].max())}
    assert question["explanation"] == [
        text("masks", "masked.why", masked=15, cells=36),
        text("masks", "masked.weights", heads=found.decoder[:, :, 0, 0].size, **ends),
    ]
    row = {"row": question["rows"][3], "masked": 2, "cells": 6}
    all_cells = text("masks", "masked.hint", masked=15, cells=36)
    assert hints(question) == [all_cells, text("masks", "masked.hint-row", **row)]


def test_a_question_about_padding_has_the_cells_of_the_batch():
    target = "[1, 7, 4, 3, 5, 6, 4, 9]\n[1, 5, 6, 2, 0, 0, 0, 0]"
    page = render("masks", mask_input="ids", mask_target_ids=target)
    question = asked(page, "batch")  # the target is fed in without its last id: 7 tokens
    assert question["prompt"] == text("masks", "padded.prompt", sentence=2)
    assert question["rows"] == ["5", "6", "2"]
    assert question["columns"] == ["5", "6", "2", "<pad>", "<pad>", "<pad>"]
    assert question["correct"] == [1, 2, 3, 4, 5, 8, 9, 10, 11, 15, 16, 17]
    letters = "|f|f|pf|pf|pf|||f|pf|pf|pf||||pf|pf|pf"
    assert [option["value"] for option in question["options"]] == letters.split("|")
    assert question["explanation"] == [
        text("masks", "padded.why", future=3, padding=0, both=9),
        text("masks", "padded.length", tokens=4, length=7),
    ]
    assert hints(question) == ["Masked cells: 12 of 18.", "In the row of “6”, 4 of 6 are masked."]
    same = render("masks", mask_input="ids", mask_target_ids="[1, 7, 4]\n[1, 5, 6]")
    none = text("questions", "page.none", reason=text("masks", "padded.few"))
    assert same.texts("question_batch", "caption") == [plain(none)]


def test_a_question_about_heads_has_their_effects():
    found = record(TWO_MEN)
    changes = core.head_effects(translator("scratch-de-en"), found).changes["cross"]
    largest = np.abs(changes).max((0, 1))  # each word of this translation is one token
    clear = [t for t in range(len(largest)) if 0.15 < largest[t] < 1]
    unanswered = int(largest.argsort()[-2])  # the first page's next step answers the first one
    for chosen, token in (({}, unanswered), ({"why_for": str(clear[-1])}, clear[-1])):
        question = asked(render("why", source=TWO_MEN, **chosen), "why")
        effect = changes[..., token].ravel()
        best, second = np.argsort(-np.abs(effect))[:2]
        word = names(found.target_out, 1)[token]
        asks = "needs" if effect[best] < 0 else "changes"
        kind = "cross-attention"
        assert question["prompt"] == text("why", f"matters.{asks}", kind=kind, word=word)
        assert question["paper"] == "Michel et al. 2019, §3"
        assert question["hint"] == text("questions", "hint.head")
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
        little = {"little": int((np.abs(effect) < 0.1).sum()), "heads": len(effect)}
        next_ = {"second": spoken[second], "second_change": signed(effect[second], 2)}
        others = text("why", "matters.others", least="0.10", **little, **next_)
        assert question["explanation"][1] == others
        layer, ours = best // heads, [n for n in range(len(effect)) if n // heads == best // heads]
        together = {"layer": layer + 1, "sum": number(np.abs(effect[ours]).sum(), 2)}
        assert question["hints"] == [
            {"text": text("why", "matters.hint", change=signed(effect[best], 2)), "among": []},
            {"text": text("why", "matters.hint-layer", **together), "among": ours},
        ]
    small = int(largest.argmin())
    assert largest[small] < 0.1
    page = render("why", source=TWO_MEN, state={"why_for": small})
    values = {"word": names(found.target_out, 1)[small], "most": number(largest[small], 2)}
    said = page.texts("question_why", "caption")
    assert len(said) == 1 and all(value in said[0] for value in values.values())


def test_a_question_about_the_search_has_its_scores():
    question, found = asked(render("steps", source=TWO_MEN), "steps"), record(TWO_MEN)
    scores = {h.text: h.score for h in reversed(found.hypotheses)}
    assert {o["name"]: o["value"] for o in question["options"]} == {
        one: text("steps", "wins.value", score=number(score, 3)) for one, score in scores.items()
    }
    first, second = sorted(scores, key=scores.__getitem__, reverse=True)[:2]
    assert right(question)["name"] == first == found.translation
    winner = next(h for h in found.hypotheses if h.text == first)
    two = {"best": first, "score": number(scores[first], 3)}
    two |= {"second": second, "second_score": number(scores[second], 3)}
    whole = {"log_prob": number(winner.log_prob, 3), "tokens": len(winner.ids)}
    why = [text("steps", "wins.why", **two), text("steps", "wins.sum", **whole)]
    assert question["explanation"] == why
    scores_said = {"score": two["score"], "second": two["second_score"]}
    assert hints(question) == [text("steps", "wins.hint", **scores_said), why[1]]
    assert question["uncertain"] == text("steps", "wins.clear", margin="0.01", beam=5)


@pytest.mark.parametrize(
    ("finished", "shown"),
    [
        (["A man is in here.", "A man was in here."], ["… man is in …", "… man was in …"]),
        (["a b", "a b c"], ["… b", "… b c"]),
        (["Go on.", "He stays there."], ["Go on.", "He stays there."]),
        (["go go", "go go go"], ["… go", "… go go"]),
    ],
)
def test_translations_are_shown_where_they_differ(finished, shown):
    assert texts.differing(finished) == shown


SPLIT = (
    ("A dog is chasing a rabbit.", "scratch-en-de"),
    ("Ein Zauberwürfel liegt im Gras.", "scratch-de-en"),
)
"""Sentences with words of several tokens on both sides."""


def sides(found, kind: str) -> tuple[list[str], list[list[int]]]:
    """Return the names of a kind's queries, and the tokens of each word of its keys."""
    queries = names(found.source if kind == "encoder" else found.target_out, 1)
    return queries, words_of(found.target_in if kind == "decoder" else found.source)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize(("source", "model"), SPLIT)
def test_every_row_is_asked_about_by_words(source, model, kind):
    """A word of several tokens is one option; rows come in the order of their clearness."""
    found = record(source, model)
    queries, words = sides(found, kind)
    keys = found.target_in if kind == "decoder" else found.source
    several = 0
    for layer, head in np.ndindex(found.maps(kind).shape[:2]):
        clear = []
        for query, row in enumerate(found.maps(kind)[layer, head].astype(float)):
            mask = found.mask(kind)[query]
            seen = [[i for i in word if mask[i]] for word in words if mask[word[0]]]
            shares = np.array([row[word].sum() for word in seen])
            clear.append(shares.max() - 1 / len(seen))
            try:
                question = texts.attends(found, kind, layer, head, query)
            except texts.NotAskable:
                continue
            best, second = np.argsort(-shares, kind="stable")[:2]
            assert [option.value for option in question.options] == list(map(percent, shares))
            told = ["".join(keys[i].text for i in word) for word in seen]
            assert [re.sub("[₀-₉]+$", "", option.label) for option in question.options] == told
            marked = [option.special for option in question.options]
            assert marked == [keys[word[0]].special for word in seen]
            at = {"layer": layer + 1, "head": head + 1}
            prompt = text("head", f"attends.{kind}", query=queries[query], **at)
            assert question.prompt == prompt
            assert question.question.correct == {best}
            two = {"best": question.options[best].label, "share": percent(shares[best])}
            two |= {"second": question.options[second].label}
            two |= {"second_share": percent(shares[second])}
            of = sum(map(len, seen))
            told = [text("head", "attends.tokens", tokens=of)] if of > len(seen) else []
            even = {"words": len(seen), "even": percent(1 / len(seen))}
            assert question.explanation == [
                text("head", "attends.why", **two, **at),
                *told,
                text("head", "attends.even", **even),
            ]
            several += len(seen) < sum(map(len, seen))
        rows = [one.args[4] for one in texts.other_rows(found, kind, layer, head)]
        assert sorted(rows) == list(range(len(clear)))
        assert [clear[q] for q in rows] == pytest.approx(sorted(clear, reverse=True), abs=1e-6)
    assert several > 3


def test_the_effect_on_a_word_of_several_tokens_is_their_sum():
    signs = set()
    for source, model in (*SPLIT, (EXAMPLES[2].en, "scratch-en-de")):
        found = record(source, model)
        effects = core.head_effects(translator(model), found)
        changes = {
            tuple(word): effects.changes["cross"][..., word].sum(-1).ravel()
            for word in words_of(found.target_out)
        }
        order = sorted(changes, key=lambda word: -np.abs(changes[word]).max())
        asks = [tuple(one.args[3]) for one in texts.important_heads(found, effects)]
        assert asks == [*order[1:], order[0]]
        heads = found.cross.shape[1]
        for word, effect in changes.items():
            try:
                question = texts.matters(found, effects, "cross", word)
            except texts.NotAskable:
                continue
            best, second = np.argsort(-np.abs(effect), kind="stable")[:2]
            before = float(found.log_probs[list(word)].sum(dtype=np.float64))
            ends = [percent(np.exp(value)) for value in (before, before + effect[best])]
            spoken = [f"layer {n // heads + 1} head {n % heads + 1}" for n in (best, second)]
            assert question.question.correct == {best}
            assert f"in layer {best // heads + 1}:" in question.hints[1].text
            first, other = question.explanation
            assert first.startswith(f"Without {spoken[0]}, ")
            assert ends[0] == ends[1] or f"goes from {ends[0]} to {ends[1]} " in first
            assert f"({signed(effect[best], 2)} nats)" in first
            assert f"is {signed(effect[second], 2)} nats, that of {spoken[1]};" in other
            signs.add((len(word) > 1, bool(effect[second] > 0)))
    assert {(True, False), (False, True)} <= signs, "split words, and effects of both signs"


@pytest.mark.parametrize("source", [TWO_MEN, EXAMPLES[2].de, SPLIT[1][0], EXAMPLES[3].de])
def test_a_question_about_positions_has_both_translations(source):
    """Words of both are counted against the longer one."""
    found = record(source)
    after = translator("scratch-de-en").inspect(source, edits=WITHOUT_POSITIONS, beam=5)
    both = {"before": found.translation, "after": after.translation}
    words = [one.casefold().replace(".", "").split() for one in both.values()]
    assert (len(words[0]) == len(words[1])) == (source == TWO_MEN)  # its colours change places
    common = (Counter(words[0]) & Counter(words[1])).total()
    reordered = Counter(words[0]) == Counter(words[1])
    assert words[0] != words[1]
    question = texts.order(found, after)
    counted = {"words": max(map(len, words)), "common": common}
    assert question.explanation[1] == text("positions", "order.common", **counted, **both)
    assert f"“{after.translation}”" in question.explanation[0]
    assert question.question.correct == {1 if reordered else 2}
    if source == TWO_MEN:
        shown = asked(render("positions", source=source), "positions")
        assert (shown["correct"], shown["explanation"]) == ([1], list(question.explanation))
        assert [option["value"] for option in shown["options"]] == ["", "", ""]
        diagonals = [np.diagonal(one.encoder, -1, 2, 3).mean(-1) for one in (found, after)]
        layer, head = np.unravel_index(diagonals[0].argmax(), diagonals[0].shape)
        values = [percent(float(one[layer, head])) for one in diagonals]
        looks = dict(zip(("with", "without"), values, strict=True))
        looks |= {"layer": layer + 1, "head": head + 1}
        assert hints(shown) == [text("positions", "order.hint", **looks)]


# What they hide.

CONTENT = {
    "masks": "closing_strip",
    "positions": "position_probabilities",
    "head": "head_sentence",
    "why": "why_matters",
    "steps": "beam_tree",
}
"""By page: the part that answers its question."""
OPENED = {
    "positions": ("open_what_if",),
    "masks": ("open_batch", "open_row"),
    "why": ("open_pairs",),
}
PLATES = {"positions": "what_if", "head": "head_softmax"}
"""By page: the name of the cover over that part, if it is not the page's name."""
REST = {"masks": "source_batch", "positions": "position_table", "why": "open_lens"}
"""What a page shows whether the question is answered or not."""
COVERED = text("questions", "page.covered")


def has(page: Rendered, key: str) -> bool:
    if key == "beam_tree":  # it is shown without the winner while a question asks for it
        return key in page.payloads and bool(page.payload(key)["hypotheses"])
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


@pytest.mark.parametrize("path", sorted(CONTENT.keys() - {"steps"}))
def test_a_free_page_covers_what_answers_its_question(path):
    page = opened(path, lesson="")
    plate = PLATES.get(path, path)
    assert not has(page, CONTENT[path]) and f"cover_{plate}" in plates(page)
    assert "why_pairs_map" not in page.figures  # its heads' single effects answer
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


def test_a_cover_in_a_fragment_is_lifted_in_a_browser(local_page, serve):
    """A click there runs the fragment alone, which the other tests do not."""
    local_page.goto(f"{serve(MAIN)}/why?source=Ein+Hund.")
    local_page.locator(".st-key-show_why button:visible").click(timeout=60_000)
    expect(local_page.locator(".st-key-why_matters")).to_be_visible(timeout=60_000)


def test_a_free_page_shows_the_tree_without_its_winner():
    page = opened("steps", lesson="")
    assert "beam_tree" in page.payloads and not has(page, "beam_tree") and not plates(page)
    skip(page.app)
    assert has(read(page.app), "beam_tree")


def test_the_wish_to_see_answers_is_remembered_for_the_visit():
    page = opened("head", lesson="")
    page.app.button(key="show_head_softmax").click().run()
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
    page = render("masks", *OPENED["masks"], source=TWO_MEN, lesson="1")
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
    layer, head, query = even_row(found)
    place = {"kind": "cross", "layer": str(layer), "head": str(head), "q": str(query)}
    page = render("head", source=TWO_MEN, lesson="0", **place)
    assert page.app.selectbox(key="head_k").value == query
    answered = render("head", source=TWO_MEN, lesson="1", **place)
    skip(answered.app)
    largest = int(found.cross[layer, head, query].argmax())
    assert answered.app.selectbox(key="head_k").value == largest


def test_another_sentence_is_another_question():
    page = render("masks", *OPENED["masks"], source=TWO_MEN, lesson="1")
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


def test_a_search_without_a_clear_winner_is_not_asked_about():
    """The scores of the two texts that the second search finishes differ by at most 0.01."""
    page = render("steps", source=TWO_MEN, search="greedy")
    assert asked(page, "steps")["name"] == "attends"
    sentence = TOURS["en-de"][0].source
    finished = record(sentence, "scratch-en-de").hypotheses
    scores = {hypothesis.text: hypothesis.score for hypothesis in reversed(finished)}
    assert len(scores) == 2 and np.ptp(list(scores.values())) <= 0.01
    page = render("steps", source=sentence, direction="en-de")
    assert asked(page, "steps")["name"] == "attends"
    assert not page.texts("question_steps", "caption")
    with pytest.raises(texts.NotAskable, match=r"finished, 2 have scores within 0\.010"):
        wins(record(sentence, "scratch-en-de"), translator("scratch-en-de").search_tree(sentence))


@pytest.mark.parametrize(
    ("scores", "near", "said"),
    [
        ((-1.0, -1.006, -2, -3), ["b"], text("steps", "wins.near-one", margin="0.01")),
        ((-1.0, -1.006, -1.007, -3, -4, -5), ["b", "c"],
         text("steps", "wins.near-many", margin="0.01", near=2)),
    ],
)  # fmt: skip
def test_scores_that_nearly_tie_count_as_well(scores, near, said):
    finished = tuple(Hypothesis((5,) * 4, 4 * score, score) for score in scores)
    tree = SimpleNamespace(hypotheses=finished, decode=DecodeConfig(beam=6))
    written = tuple("abcdef"[: len(scores)])
    shown = wins(record(TWO_MEN), SimpleNamespace(tree=tree, texts=written))
    assert shown.uncertain == said
    assert sorted(shown.options[i].label for i in shown.question.near) == near


def test_a_row_without_a_maximum_is_replaced_by_another_of_its_head():
    found = record(TWO_MEN)
    layer, head, query = map(int, np.argwhere(found.encoder.max(-1) < 0.25)[0])
    at = {"kind": "encoder", "layer": str(layer), "head": str(head), "q": str(query)}
    page = render("head", source=TWO_MEN, **at)
    words = names(found.source, 1)
    clearest = int(found.encoder[layer, head].max(-1).argmax())
    assert asked(page, "head")["prompt"].startswith(f"At the position of “{words[clearest]}”")
    assert f"layer {layer + 1} head {head + 1} " in asked(page, "head")["prompt"]


def test_stops_ask_what_they_show():
    """Each stop asks about its own effect, and an answer at one stop does not count at another."""
    asks = {n: asked(render("tour", stop=str(n)), f"tour_{n - 1}") for n in (2, 4, 7, 8, 9, 10)}
    assert not questions(render("tour").app), "the first stop teaches"
    kinds = {n: question["name"] for n, question in asks.items()}
    assert kinds == {
        2: "attends",
        4: "attends",
        7: "order",
        8: "leak",
        9: "contributes",
        10: "wins",
    }
    # The row that is asked about has a token before it.
    assert int(asks[4]["question"].split(" at stop ")[0].rpartition(".")[2]) >= 1
    assert [asks[n]["question"].split(" at stop ")[1] for n in (2, 9)] == ["1", "8"]
    products = [
        math.prod(float(n.replace("−", "-")) for n in re.findall(r"[−\d.]+", o["name"]))
        for o in asks[9]["options"]
    ]
    assert right(asks[9]) == asks[9]["options"][int(np.argmax(products))]
    raising = [n for n, product in enumerate(products) if product > 0]
    assert (
        asks[9]["hints"][1]["among"] == raising and right(asks[9])["value"][2:] in hints(asks[9])[0]
    )
    assert f"{len(products)} products, {len(raising)} raise" in hints(asks[9])[1]

    healthy = record(TOURS["de-en"][7].source)
    ids = [token.id for token in healthy.target_out]
    leaked = translator("scratch-de-en").inspect(
        healthy.source_text, target_ids=ids, edits=Edits(causal_mask=False)
    )
    before, after = (float(np.exp(one.log_probs).mean()) for one in (healthy, leaked))
    assert abs(after - before) > 0.005
    outcome = "rise" if after > before else "fall"
    assert right(asks[8])["label"] == text("masks", f"leak.{outcome}")
    means = {"count": len(ids), "before": percent(before), "after": percent(after)}
    assert asks[8]["explanation"][0] == text("masks", "leak.why", **means)
    ahead = [leaked.decoder[..., q, q + 1 :].sum() for q in range(leaked.decoder.shape[2])]
    share = percent(float(sum(ahead) / leaked.decoder.sum()))
    del means["after"]
    future = text("masks", "leak.hint-future", share=share)
    assert hints(asks[8]) == [text("masks", "leak.hint", **means), future]


def test_a_decoder_row_with_a_choice_is_asked_about():
    """The first rows put all weight on one or two tokens because nothing else is written yet."""
    page = render("tour", direction="en-de", stop="6")
    assert page.texts("question_tour_5") == []  # no other question was tried
    found = record(TOURS["en-de"][5].source, "scratch-en-de")
    layer, head = divmod(int(found.decoder[:, :, 2:, 0].mean(-1).argmax()), found.decoder.shape[1])
    row = found.decoder[layer, head].max(-1) - 1 / np.arange(1, found.decoder.shape[-1] + 1)
    produced = names(found.target_out, 1)[int(row.argmax())]
    assert f"produces “{produced}”, which token fed in so far" in asked(page, "tour_5")["prompt"]
    assert len(asked(page, "tour_5")["options"]) == 1 + int(row.argmax())


@pytest.mark.parametrize("path", ["steps", "masks"])
def test_the_map_that_a_question_is_about_is_visible(path):
    """It covers the row that is asked about, and in a lesson its numbers are not even sent."""
    for query in ({"lesson": "1"}, {}):
        beam = {"search": "greedy"} if path == "steps" else {}  # its winner is not asked about
        state = {"saved answers shown": False}
        page = render(path, source=TWO_MEN, state=state, **query, **beam)
        question = asked(page, path)
        header, (values,) = map_row(page, f"pictured_{path}")
        own = record(TWO_MEN, beam=1 if beam else 5)
        found = own.maps(header["site"].lower()).copy()
        assert header["sealed"] == bool(query)
        if question["name"] == "masked":
            assert (header["site"], header["covered"]) == ("Decoder", []), "without a mask"
            ids, net = [token.id for token in own.target_out], translator("scratch-de-en")
            unmasked = net.inspect(TWO_MEN, edits=Edits(causal_mask=False), target_ids=ids)
            found = unmasked.decoder
            assert found[:, :, 0, -1].min() > 0
        else:
            assert header["covered"] == [int(question["question"].rpartition(".")[2])]
            if query:
                found[:, :, header["covered"]] = 0
        np.testing.assert_array_equal(values, found)
        skip(page.app)
        after, (values,) = map_row(read(page.app), f"pictured_{path}")
        assert (after["maps"][0]["name"] == header["maps"][0]["name"]) == (path == "steps")
        assert after["covered"] == []
        assert after["outlined"] == (header["covered"] or [None])[0]
        np.testing.assert_array_equal(values, own.maps(after["site"].lower()))


@pytest.mark.parametrize("lesson", ["", "1"])
def test_the_map_after_the_change_comes_with_the_answer(lesson):
    page = render("positions", source=TWO_MEN, lesson=lesson)
    header, (before, hidden) = map_row(page, "pictured_positions")
    np.testing.assert_array_equal(before, record(TWO_MEN).encoder)
    assert header["maps"][1]["note"] == COVERED and not hidden.any(), "its place is kept"
    opened, maps = header["opened"], record(TWO_MEN).encoder
    previous = maps.diagonal(-1, axis1=2, axis2=3).mean(-1)
    at = opened["layer"], opened["head"]
    assert at == np.unravel_index(previous.argmax(), previous.shape)
    skip(page.app)
    _, (before, after) = map_row(read(page.app), "pictured_positions")
    np.testing.assert_array_equal(before, record(TWO_MEN).encoder)
    without = translator("scratch-de-en").inspect(TWO_MEN, edits=WITHOUT_POSITIONS, beam=5)
    np.testing.assert_allclose(after, without.encoder, atol=2e-6)


@pytest.mark.parametrize("lesson", ["", "1"])
def test_where_the_heads_look_is_visible_before_their_effects(lesson):
    page = render("why", source=TWO_MEN, lesson=lesson)
    found = record(TWO_MEN)
    (word,) = re.findall("“(.+)”", asked(page, "why")["prompt"])
    row = found.cross[:, :, names(found.target_out, 1).index(word)]
    rows = row.reshape(-1, row.shape[-1])
    figure = page.figure("pictured_why")
    drawn = array(figure["data"][0]["z"])
    np.testing.assert_allclose(drawn, [*rows, rows.mean(0)], rtol=0, atol=1e-6)
    outlines = [shape for shape in figure["layout"]["shapes"] if shape["type"] == "rect"]
    assert not outlines, "the answer"


def test_the_row_of_the_head_that_matters_is_outlined_once_it_is_known():
    text = "Zwei Hunde laufen durch den Schnee."  # its head is not on the diagonal of the grid
    page = render("why", source=text)  # with the answers shown
    found = record(text)
    (word,) = re.findall("“(.+)”", asked(page, "why")["prompt"])
    at = names(found.target_out, 1).index(word)
    changes = head_effects(translator("scratch-de-en"), found).changes["cross"][..., at]
    needed = np.abs(changes).argmax()  # of all heads, row by row
    shapes = page.figure("pictured_why")["layout"]["shapes"]
    (outline,) = [shape for shape in shapes if shape["type"] == "rect"]
    assert (outline["y0"] + outline["y1"]) / 2 == needed


def test_a_stop_says_little_before_its_question_is_answered():
    stop = TOURS["de-en"][3]
    page = render("tour", stop="4")
    assert page.texts("tour_text", "markdown") == [stop.before]
    assert text("tour", "page.covered") in page.texts()
    skip(page.app)
    assert read(page.app).texts("tour_text", "markdown")[0] == stop.look_for
