"""A question in the browser: pointing, keys, the reveal, and what survives an update."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page

from app.components.question import Asked, Grid, Hint, Option, Sentence, Texts, payload
from app.components.question.mount import Answer, read_answer
from app.look.palette import sequential_table
from core.analysis.questions import Question
from tests.app import asked_page
from tests.app.asked_page import page

__all__ = ["page"]

WORDS = {
    "check": "Check it",
    "skip": "Skip it",
    "yours": "Yours: {option}!",
    "answer": "Answer: {option}!",
    "right": "Yes.",
    "wrong": "No.",
    "near": "Nearly.",
    "skipped": "Left out.",
    "cells": "{found} of {masked}, {extra} wrong",
    "this": "It is this.",
    "again": "Again.",
    "hint": "Hint, please",
    "give_up": "Show it",
    "pair": "{one} or {other}",
}


def option(label: str, **more: Any) -> Option:
    return Option(label, f"name of {label}", f"said of {label}", **more)


def asked(
    count: int = 5,
    right: frozenset[int] = frozenset({3}),
    near: frozenset[int] = frozenset({1}),
    every: bool = False,
    layout: Any = Sentence(),
    **more: Any,
) -> Asked:
    shades = [0.1, 0.5, 0.2, 0.6, 0.0, 0.9][:count]
    shades += [0.0] * (count - len(shades))
    options = [
        option(f"w{i}", value=f"v{i}", shade=shade, special=i == 4)
        for i, shade in enumerate(shades)
    ]
    question = Question("attends", tuple(range(count)), right, tuple(shades), near, every)
    fields = {
        "id": "one",
        "prompt": "Which <b>word</b>?",
        "hint": "Click.",
        "explanation": ["First.", "Second."],
        "hints": [Hint("Any."), Hint("Some.", (1, 2, 3, 4))],
        "uncertain": "Unsure.",
        "paper": "Paper, §3",
        "words": WORDS,
    }
    return Asked(question=question, layout=layout, options=options, **fields | more)


def grid(**more: Any) -> Asked:
    shown = Grid(["a", "b"], ["x", "y", "zzz"], "Rows", "Columns", filled=True)
    right, every = frozenset({1, 2, 5}), {"near": frozenset(), "every": True, "layout": shown}
    return asked(6, right, **every | more)


# What is sent.


def test_a_payload_that_does_not_match_its_question_is_refused():
    with pytest.raises(ValueError, match="5 options, but 4"):
        payload(replace(asked(), options=asked().options[:4]))
    with pytest.raises(ValueError, match="a grid of 6 cells cannot show 5"):
        payload(replace(asked(), layout=grid().layout))
    with pytest.raises(ValueError, match="texts are missing: near, this"):
        payload(
            replace(asked(), words={k: v for k, v in WORDS.items() if k not in ("near", "this")})
        )


def state(*answer: int, right: bool = False, skipped: bool = False, **more: Any) -> dict[str, Any]:
    """Return a question's state after an answer, by default a settled one."""
    given = {"question": "one", "answer": [*answer], "right": right, "skipped": skipped}
    return {**given, "wrong": [], "asked": [], "settled": True, **more}


GIVEN = state(1, right=True)


def test_an_answer_to_something_else_is_no_answer():
    assert read_answer(GIVEN, asked()) == Answer("one", (1,), True, False)
    open_ = state(4, wrong=[[0], [4]], asked=[1, 2], settled=False)
    read = Answer("one", (4,), False, False, ((0,), (4,)), (1, 2), False)
    assert read_answer(open_, asked()) == read
    damaged = [("answer", answer) for answer in ([5], [-1], [True], "1")]
    damaged += [("question", "two"), ("right", "yes"), ("skipped", None)]
    damaged += [("wrong", [[5]]), ("wrong", [1]), ("asked", [1]), ("asked", 1), ("settled", 1)]
    states = [GIVEN | {name: value} for name, value in damaged]
    for one in (None, "one", *states):
        assert read_answer(one, asked()) is None, one


# In the browser.


def lines(page: Page) -> list[list[str]]:
    return asked_page.revealed(page)["lines"]


def states(page: Page) -> list[str]:
    return [option["state"] for option in asked_page.revealed(page)["options"]]


END = [["explanation", "First. Second."], ["uncertain", "Unsure."], ["paper", "Paper, §3"]]


@pytest.mark.parametrize(
    ("chosen", "right", "verdict", "answers", "shown"),
    [
        (3, True, "Yes.", ["Yours: said of w3!"], ["", "also", "", "right", ""]),
        (1, True, "Nearly.", ["Yours: said of w1!", "Answer: said of w3!"],
         ["", "near", "", "missed", ""]),
    ],
)  # fmt: skip
def test_one_click_answers(page, chosen, right, verdict, answers, shown):
    asked_page.show(page, asked())
    before = asked_page.revealed(page)
    assert before["lines"] == [] and before["data"]["answered"] == ""
    assert {o["value"] + o["mark"] + o["state"] + o["shade"] for o in before["options"]} == {""}
    place = page.locator(".option").first.bounding_box()
    told = asked_page.answer(page, [chosen], False)
    assert page.locator(".option").first.bounding_box()["y"] == place["y"]
    assert told == state(chosen, right=right)
    assert lines(page) == [["verdict", verdict], *[["said", a] for a in answers], *END]
    assert states(page) == shown
    after = asked_page.revealed(page)
    assert after["data"]["answered"] == "right"
    assert [o["value"] for o in after["options"]] == ["v0", "v1", "v2", "v3", "v4"]
    assert page.locator(".prompt b").count() == 0
    page.evaluate("document.querySelector('.option').click()")  # too late
    assert page.evaluate("answers.length") == 0 and states(page) == shown


def test_a_skipped_question_shows_the_answer(page):
    asked_page.show(page, asked())
    assert page.get_by_role("button", name="Check it").count() == 0
    page.get_by_role("button", name="Skip it").click()
    assert asked_page.told(page) == state(skipped=True)
    assert lines(page) == [["verdict", "Answer: said of w3!"], *END]
    assert asked_page.revealed(page)["data"]["answered"] == "skipped"
    assert page.get_by_role("button", name="Skip it").count() == 0


def clues(page: Page) -> list[str]:
    return [said for where, said in lines(page) if where == "clue"]


def test_a_wrong_answer_gets_hints_until_no_wrong_option_is_left(page):
    data = asked_page.show(page, asked())
    hint = page.get_by_role("button", name="Hint, please")
    assert hint.count() == 0
    told = asked_page.answer(page, [4], False)
    assert told == state(4, wrong=[[4]], settled=False)
    again = [["verdict", "No."], ["said", "Yours: said of w4!"], ["said", "Again."]]
    assert lines(page) == again and states(page) == ["", "", "", "", "wrong"]
    assert [o["value"] for o in asked_page.revealed(page)["options"]] == ["", "", "", "", "v4"]
    hint.click()
    assert asked_page.told(page) == state(4, wrong=[[4]], asked=[1], settled=False)
    hint.click()
    told = asked_page.told(page)
    assert clues(page) == ["Any.", "Some."] and lines(page)[:3] == again
    left = page.locator(".option.left .label").all_inner_texts()
    assert left == ["w1", "w2", "w3", "w4"]
    assert hint.is_disabled()  # to name two would name the answer: one wrong option is left
    asked_page.show(page, {**data, "given": told})  # on a later visit
    assert clues(page) == ["Any.", "Some."] and states(page)[4] == "wrong"
    page.evaluate("document.querySelectorAll('.option')[4].click()")  # has been tried
    assert page.evaluate("answers.length") == 0
    assert asked_page.answer(page, [0], False)["settled"] is False
    told = asked_page.answer(page, [2], False)
    assert told == state(2, wrong=[[4], [0], [2]], asked=[1, 1])
    assert lines(page)[:3] == [
        ["verdict", "No."], ["said", "Yours: said of w2!"], ["said", "Answer: said of w3!"]
    ]  # fmt: skip
    assert states(page) == ["wrong", "also", "wrong", "missed", "wrong"]
    assert page.locator(".left").count() == 0


def test_a_last_hint_names_two_cells_of_which_one_is_right(page):
    asked_page.show(page, grid())  # 1, 2 and 5 are right
    asked_page.answer(page, [1, 2, 3], True)  # the first mistake is 3
    for said in (["Any."], ["Any.", "Some."], ["Any.", "Some.", "name of w2 or name of w3"]):
        page.get_by_role("button", name="Hint, please").click()
        asked_page.told(page)
        assert clues(page) == said
    assert page.locator(".option.left").count() == 2


def test_no_hint_is_the_answer(page):
    """After any wrong answers, with hints asked at any time, a wrong option is left."""
    found = page.evaluate(
        """(data) => {
          const found = [];
          const go = (wrong, asked) => {
            const given = hintsGiven(data, wrong, asked);
            const left = data.rivals.filter((i) => !wrong.flat().includes(i) && given.every((h) => !h.among.length || h.among.includes(i)));
            found.push([given.map((h) => h.text), wrong.length, left.length]);
            if (nextHint(data, wrong, given)) {
              const after = hintsGiven(data, wrong, [...asked, wrong.length]).at(-1);
              const open = left.filter((i) => !after.among.length || after.among.includes(i));
              if (!open.length || (after.among.length && !after.among.includes(3))) found.push("the answer");
              go(wrong, [...asked, wrong.length]);
            }
            for (const i of left) go([...wrong, [i]], asked);
          };
          go([], []);
          return found;
        }""",  # noqa: E501 (lines of script)
        payload(asked(6, near=frozenset())),
    )
    assert "the answer" not in found and len(found) > 500
    assert max(len(given) for given, *_ in found) == 3
    assert ["Any.", "Some.", "name of w3 or name of w5"] not in [given for given, *_ in found]
    assert ["Any.", "Some.", "name of w1 or name of w3"] in [given for given, *_ in found]


@pytest.mark.parametrize(
    ("chosen", "right", "found", "extra"),
    [
        ([1, 2, 5], True, 3, 0),
        ([2, 5, 1, 0], False, 3, 1),
        ([], False, 0, 0),
    ],
)
def test_all_right_cells_and_no_others_must_be_marked(page, chosen, right, found, extra):
    asked_page.show(page, grid())
    told = asked_page.answer(page, chosen, True)
    wrong = [] if right else [sorted(chosen)]
    said = ["said", f"{found} of 3, {extra} wrong"]
    for _ in range(3 * (not right)):  # the fourth wrong answer ends it
        assert told == state(*sorted(chosen), wrong=wrong, settled=False)
        assert lines(page) == [["verdict", "No."], said, ["said", "Again."]]
        told, wrong = asked_page.answer(page, [], True), [*wrong, sorted(chosen)]
    assert told == state(*sorted(chosen), right=right, wrong=wrong)
    assert lines(page) == [["verdict", "Yes." if right else "No."], said, *END]
    expected = [
        {(True, True): "right", (True, False): "wrong", (False, True): "missed"}.get(
            (i in chosen, i in (1, 2, 5)), ""
        )
        for i in range(6)
    ]
    assert states(page) == expected
    assert [o["masked"] for o in asked_page.revealed(page)["options"]] == [
        i in (1, 2, 5) for i in range(6)
    ]


def test_shaded_cells_without_a_number_have_a_scale(page):
    """The first pixel of the scale is the colour of 0, the last one that of 1."""
    asked_page.show(page, asked())
    asked_page.answer(page, [0], False)
    assert page.locator(".scale").count() == 0  # each option prints its number
    shown = grid(shaded_by="largest: 0")
    asked_page.show(page, shown)
    asked_page.answer(page, [1, 2, 5], True)
    assert page.locator(".scale").inner_text().split() == ["largest:", "0", "1"]
    ends = page.evaluate("""() => {
      const canvas = document.querySelector(".scale canvas");
      const pixel = (x) => [...canvas.getContext("2d").getImageData(x, 0, 1, 1).data.slice(0, 3)];
      return [pixel(0), pixel(canvas.width - 1)];
    }""")
    table = sequential_table("light")
    assert ends == [list(table[0]), list(table[255])]


def press(page: Page, *keys: str) -> int:
    """Press keys and return the focused option."""
    for key in keys:
        page.keyboard.press(key)
    return page.evaluate("Number(document.activeElement.dataset.option)")


def test_arrow_keys_move_and_enter_answers(page):
    asked_page.show(page, asked())
    page.locator(".option").first.focus()
    assert page.locator(".option[tabindex='0']").count() == 1
    assert press(page, "ArrowRight", "ArrowRight") == 2
    assert press(page, "ArrowLeft") == 1 and press(page, "ArrowDown") == 2
    assert press(page, "ArrowUp", "ArrowUp", "ArrowUp") == 0
    assert press(page, "End", "ArrowRight") == 4 and press(page, "Home") == 0
    assert page.locator(".option[tabindex='0']").get_attribute("data-option") == "0"
    assert press(page, "ArrowRight", "Enter") == 1  # the focus stays
    assert asked_page.told(page)["answer"] == [1]


@pytest.mark.parametrize("skipped", [False, True])
def test_after_an_answer_arrow_keys_are_the_pages(page, skipped):
    def taken() -> bool:
        return page.evaluate(
            """() => {
              const event = new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true, composed: true, cancelable: true });
              let arrived = false;
              document.addEventListener("keydown", () => (arrived = true), { once: true });
              document.querySelector(".option[tabindex='0']").dispatchEvent(event);
              return event.defaultPrevented || !arrived;
            }"""  # noqa: E501 (lines of script)
        )

    asked_page.show(page, asked())
    page.locator(".option").first.focus()
    assert taken()
    if skipped:
        page.get_by_role("button", name="Skip it").click()
        asked_page.told(page)
    else:
        asked_page.answer(page, [3], False)
    assert not taken()


def test_arabic_words_run_from_right_to_left(page):
    words = [replace(option(label), special=label[0] == "<") for label in ("كلب", "يجري", "<eos>")]
    question = Question("attends", (0, 1, 2), frozenset({1}), (0.0, 1.0, 0.0))
    asked_page.show(page, replace(asked(), question=question, options=words))
    lefts = [o.bounding_box()["x"] for o in page.locator(".option").all()]
    assert lefts == sorted(lefts, reverse=True)
    page.locator(".option").first.focus()
    assert press(page, "ArrowLeft") == 1 and press(page, "ArrowRight") == 0
    assert press(page, "ArrowDown") == 1 and press(page, "ArrowUp") == 0


def test_arrow_keys_walk_a_grid_and_space_marks(page):
    asked_page.show(page, grid())
    page.locator(".option").first.focus()
    assert press(page, "ArrowRight") == 1 and press(page, "ArrowDown") == 4
    assert press(page, "ArrowDown") == 4 and press(page, "ArrowRight", "ArrowRight") == 5
    assert press(page, "ArrowUp") == 2 and press(page, "ArrowRight") == 2  # the end of a row
    assert press(page, "ArrowLeft", "ArrowLeft", "ArrowLeft") == 0
    press(page, "ArrowRight", "Space", "ArrowRight", "Enter", "ArrowDown", " ")
    assert page.locator("[aria-pressed='true']").count() == 3
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # Check
    assert asked_page.told(page)["right"] is True
    assert press(page) == 5  # the last cell, as Check is gone


def test_a_screen_reader_hears_names_numbers_and_the_result(page):
    asked_page.show(page, asked())
    options = page.get_by_role("group", name="Which <b>word</b>?").get_by_role("button")
    assert [o.get_attribute("aria-label") for o in options.all()] == [
        f"name of w{i}" for i in range(5)
    ]
    status = page.get_by_role("status")
    assert status.text_content() == ""
    asked_page.answer(page, [4], False)
    assert (status.text_content() or "").startswith("No.Yours: said of w4!Again.")
    page.get_by_role("button", name="Show it").click()
    asked_page.told(page)
    assert [o.get_attribute("aria-label") for o in options.all()] == [
        "name of w0, v0",
        "name of w1, v1",
        "name of w2, v2",
        "name of w3, v3. It is this.",
        "name of w4, v4. No.",
    ]
    assert (status.text_content() or "").startswith("Answer: said of w3!")
    assert page.locator(".option[aria-disabled='true']").count() == 5


def test_an_update_keeps_the_answer_and_another_question_does_not(page):
    data = asked_page.show(page, asked())
    asked_page.answer(page, [3], False)
    given = state(4, wrong=[[4]])
    before = asked_page.revealed(page)
    for update in (data, {**data, "given": given}, {**data, "uncertain": "Sure."}):
        asked_page.show(page, update, again=True)
        assert asked_page.revealed(page)["data"]["answered"] == "right"
        assert states(page) == [option["state"] for option in before["options"]]
    assert lines(page)[-2] == ["uncertain", "Sure."]
    asked_page.show(page, {**data, "question": "two"}, again=True)
    assert asked_page.revealed(page)["data"]["answered"] == "" and lines(page) == []
    assert page.get_by_role("button", name="Skip it").count() == 1
    assert asked_page.answer(page, [3], False)["question"] == "two"


def test_keys_are_not_named_where_there_is_no_keyboard(page):
    asked_page.show(page, asked(hint="Click|, or use keys|."))
    assert page.locator(".hint").inner_text() == "Click, or use keys."
    devices = page.context.new_cdp_session(page)
    devices.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 5})
    assert page.locator(".hint").inner_text() == "Click."


def test_marks_survive_an_update(page):
    data = asked_page.show(page, grid())
    page.locator(".option").nth(2).click()
    asked_page.show(page, {**data, "hint": "Another hint."}, again=True)
    told = asked_page.answer(page, [1, 0], True)
    data |= {"given": told}
    asked_page.show(page, {**data, "hint": "A third."}, again=True)  # and so do later ones
    told = asked_page.answer(page, [0, 5], True)  # the second click unmarks
    assert told["answer"] == [1, 2, 5]


def test_an_answer_of_an_earlier_visit_is_shown(page):
    asked_page.show(page, replace(asked(), given=GIVEN))
    assert lines(page)[0] == ["verdict", "Nearly."] and states(page)[1] == "near"
    assert page.evaluate("answers.length") == 0


def test_lists_and_grids_have_their_titles(page):
    asked_page.show(page, asked(layout=Texts()))
    assert page.locator(".options.list .option .label").count() == 5
    asked_page.show(page, grid())
    assert page.locator(".axis").text_content() == "Rows\u00a0↓ · Columns\u00a0→"
    rows, columns = (page.locator(f".{side}").all() for side in ("row", "column"))
    assert [r.get_attribute("title") for r in rows] == ["a", "b"]
    assert [c.get_attribute("title") for c in columns] == ["x", "y", "zzz"]
