"""“Test yourself”: every item is correct, both forms are parallel, answers stay in the browser."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from app.lessons.texts import rows, text
from app.views.shared.answers import COLUMNS
from tests.app.quiz_harness import open_quiz, saved
from tests.app.rendered import render

NAMES = list(rows("quiz", "item"))
TOPICS = ["axes", "masks", "scale", "head", "beam", "limits"]
WRONG = {"A": "B", "B": "C", "C": "D", "D": "A"}
each_form = pytest.mark.parametrize("form", "AB")


def item(name: str, form: str) -> dict:
    """Return an item in one form: its texts and rules by key."""
    return dict(rows("quiz", form)[name])


def option(own: dict, letter: str) -> str:
    return own[f"{letter}.text"]


def right(name: str, form: str) -> str:
    """Return the text of the right option."""
    own = item(name, form)
    return option(own, own["right"])


def numbers(text: str) -> list[float]:
    return [float(n) for n in re.findall(r"\d+(?:\.\d+)?", text)]


def test_two_items_of_each_topic_in_two_forms():
    assert [f"{topic}_{n}" for topic in TOPICS for n in (1, 2)] == NAMES
    assert all(list(rows("quiz", form)) == NAMES for form in "AB")


@pytest.mark.parametrize("name", NAMES)
def test_forms_are_parallel(name):
    one, other = item(name, "A"), item(name, "B")
    assert one.keys() == other.keys()
    assert all(len({option(own, letter) for letter in "ABCD"}) == 4 for own in (one, other))
    assert (one["prompt"], one.get("picture")) != (other["prompt"], other.get("picture"))
    # In both forms, options are wrong for the same reasons, so the reasons have similar lengths.
    reasons = [[own[f"{letter}.why"] for letter in "ABCD"] for own in (one, other)]
    lengths = [sorted(len(why.split()) for why in whys) for whys in reasons]
    assert max(abs(a - b) for a, b in zip(*lengths, strict=True)) <= 6
    assert all(why.count(". ") == 0 for whys in reasons for why in whys)  # one sentence
    for own, form in (
        (one, "A"),
        (other, "B"),
    ):  # a wrong option's reason is a hint, not the answer
        answer = re.compile(rf"(?<![\w.]){re.escape(right(name, form).rstrip('.'))}(?![\w.])")
        assert not any(answer.search(own[f"{x}.why"]) for x in "ABCD" if x != own["right"])
        assert not any("reverse" in own[f"{x}.why"] for x in "ABCD")


@each_form
def test_neither_letter_nor_length_gives_the_right_option_away(form):
    assert Counter(item(name, form)["right"] for name in NAMES) == dict.fromkeys("ABCD", 3)
    lengths = {name: [len(option(item(name, form), x)) for x in "ABCD"] for name in NAMES}
    assert sum(len(right(name, form)) == max(lengths[name]) for name in NAMES) <= 6


@each_form
def test_items_on_axes_have_the_computed_answer(form):
    own = item("axes_1", form)
    query, key = re.search(r"how much “(.+?)” looks at “(.+?)”", own["prompt"]).groups()
    picture = own["picture"]
    words, columns, at = picture["rows"], picture["columns"], picture["marks"]
    assert at[own["right"]] == [words.index(query), columns.index(key)]
    for letter, (row, column) in at.items():
        assert option(own, letter) == f"Row “{words[row]}”, column “{columns[column]}”"

    own = item("axes_2", form)
    grid = [[math.nan if c == "?" else c for c in row] for row in own["picture"]["cells"]]
    maps = np.array(grid)
    row, column = np.argwhere(np.isnan(maps))[0]
    others = [r for r in range(3) if r != row]
    np.testing.assert_allclose(maps[others].sum(1), 1)
    missing = 1 - np.nansum(maps[row])
    assert right("axes_2", form) == f"{missing:.2f}"
    by_column = f"{1 - np.nansum(maps[:, column]):.2f}"
    wrong = {option(own, x) for x in "ABCD"} - {f"{missing:.2f}"}
    assert wrong == {by_column, f"{np.nansum(maps[row]):.2f}", "It cannot be known"}


@each_form
def test_items_on_masks_have_the_computed_answer(form):
    own = item("masks_1", form)
    words, fed = own["picture"]["rows"], own["picture"]["columns"]
    assert fed == ["<bos>", *words[:-1]]  # a row produces the token that is fed in after it
    masked = np.triu(np.ones((len(words), len(words)), bool), 1)  # keys after the query
    for letter, (row, column) in own["picture"]["marks"].items():
        assert masked[row, column] == (letter == own["right"])
        assert option(own, letter) == f"Row “{words[row]}”, column “{fed[column]}”"

    count = {"three": 3, "four": 4}
    own = item("masks_2", form)
    keys = count[re.search(r"has (\w+) equal scores", own["prompt"])[1]]
    hidden = [2] if "The third key is masked" in own["prompt"] else [2, 3]
    assert hidden == [2] or "The last two keys are padding and masked" in own["prompt"]
    scores = np.zeros(keys)
    scores[hidden] = -np.inf
    weights = np.exp(scores) / np.exp(scores).sum()
    fraction = {"½": 1 / 2, "⅓": 1 / 3, "¼": 1 / 4, "0": 0, "1": 1}
    shown = [[fraction[w] for w in option(own, x).split(", ")] for x in "ABCD"]
    same = [np.allclose(one, weights) for one in shown]
    assert same == [x == own["right"] for x in "ABCD"]


@each_form
def test_items_on_scale_have_the_computed_answer(form):
    own = item("scale_1", form)
    d_k = int(re.search(r"dₖ = (\d+)", own["prompt"])[1])
    assert right("scale_1", form) == str(math.isqrt(d_k)) and math.isqrt(d_k) ** 2 == d_k
    drawn = np.random.default_rng(1).standard_normal((2, 40_000, d_k))
    assert abs((drawn[0] * drawn[1]).sum(-1).std() - math.sqrt(d_k)) < 0.1

    scores = np.array([0.3, 1.1, -0.4])
    factor = {"A": 8, "B": 1 / 8}[form]
    before, after = (np.exp(s) / np.exp(s).sum() for s in (scores, factor * scores))
    more = after[1] > before[1]
    assert right("scale_2", form) == (
        f"The key with the largest score gets {'more' if more else 'less'} weight"
    )
    assert ("8 times as large" if form == "A" else "an eighth") in item("scale_2", form)["prompt"]


@each_form
def test_items_on_heads_have_the_computed_answer(form):
    d_model, heads = map(int, re.findall(r"\d+", item("head_1", form)["prompt"]))
    assert f"queries and keys of {d_model // heads} numbers" in right("head_1", form)
    assert d_model % heads == 0
    assert "one matrix" in right("head_2", form)
    if form == "B":
        count, size, whole = map(int, re.findall(r"\d+", item("head_2", form)["prompt"]))
        assert count * size == whole


@each_form
def test_items_on_beam_search_have_the_computed_answer(form):
    own = item("beam_1", form)
    first, second = re.search(r"first token is “(\w+)” .* or “(\w+)” with", own["prompt"]).groups()
    p_first, p_second, then_first, then_second = numbers(own["prompt"])
    greedy = first if p_first > p_second else second
    beam = first if p_first * then_first > p_second * then_second else second
    assert 1 - p_first - p_second < p_second  # so a beam of 2 keeps both
    assert (1 - then_second) * p_second < p_first * then_first
    assert right("beam_1", form) == f"“{greedy}” with greedy search, “{beam}” with a beam of 2"
    assert greedy != beam
    assert right("beam_2", form) == "None of the other three statements is certain"


@each_form
def test_items_on_limits_have_the_computed_answer(form):
    own = item("limits_1", form)
    words = re.findall(r"“(.+?)”", own["prompt"])[:2]
    weights, lengths = np.split(np.array(numbers(own["prompt"])), 2)
    assert abs(weights.sum() - 1) < 1e-9
    assert right("limits_1", form) == f"“{words[int(np.argmax(weights * lengths))]}”"
    assert weights.argmax() != (weights * lengths).argmax()
    assert item("limits_2", form)["right"] == "A"


def calculated(own: dict) -> set[float]:
    """Return the numbers of an item's question, and what one or two of them come to."""
    weights = [
        c for row in own.get("picture", {}).get("cells", ()) for c in row if c not in ("?", "_")
    ]
    given = {1.0, 0.0, *numbers(own["prompt"]), *weights}
    found = {*given, *(math.sqrt(n) for n in given), *(n / 100 for n in given)}
    for a in given:
        for b in given:
            found |= {a * b, a + b, abs(a - b), a / b if b else 0.0, abs(1 - a - b)}
    return {round(n, 6) for n in found}


@pytest.mark.parametrize("name", NAMES)
@each_form
def test_the_numbers_of_an_item_follow_from_its_question(name, form):
    """Every equation is true, and options and reasons have no number from elsewhere."""
    own = item(name, form)
    known = calculated(own)
    for said in (own[f"{letter}.{part}"] for part in ("text", "why") for letter in "ABCD"):
        for left, right in re.findall(r"([\d.]+(?: [·/−] [\d.]+)+) = ([\d.]*\d)", said):
            exact = eval(left.translate(str.maketrans("·−", "*-")))  # digits and operators
            assert exact == pytest.approx(float(right), abs=1e-9), said
        for number in numbers(said.replace("½", "0.5").replace("1/√", "")):
            assert round(number, 6) in known | {0.5}, (said, number)


def payload() -> dict:
    return render("quiz").payload("quiz")


def test_the_page_opens_on_the_form_that_its_link_names():
    data = payload()
    assert data["form"] == "A" and list(data["forms"]) == ["A", "B"]
    assert all([one["name"] for one in items] == NAMES for items in data["forms"].values())
    assert render("quiz", form="B").payload("quiz")["form"] == "B"
    assert render("quiz", form="<b>").payload("quiz")["form"] == "A"


def answer_all(page: Page, letters: list[str | None]) -> None:
    """Answer question by question, by pointing; None skips one."""
    for place, letter in enumerate(letters):
        if letter is not None:
            page.locator(".option").nth("ABCD".index(letter)).click()
        if place < len(letters) - 1:
            page.get_by_role("button", name="Next").click()


def blank(letters: list[str | None]) -> str:
    return f", {letters.count(None)} not answered" if None in letters else ""


@pytest.mark.parametrize(("form", "student"), [("A", "right"), ("B", "mixed")])
def test_a_student_is_scored(local_page: Page, form, student):
    open_quiz(local_page, payload())
    sent: list[str] = []
    local_page.on("request", lambda request: sent.append(request.url))
    local_page.get_by_role("button", name=f"Form {form}").click()
    keys = [item(name, form)["right"] for name in NAMES]
    letters: list[str | None] = list(keys)
    if student == "mixed":
        drawn = np.random.default_rng(3).integers(0, 4, 12)
        letters = [None if n == 2 else "ABCD"[pick] for n, pick in enumerate(drawn)]
    answer_all(local_page, letters)
    local_page.locator("[data-part=finish]").click()
    good = [letter == key for letter, key in zip(letters, keys, strict=True)]
    expect(local_page.locator(".score")).to_have_text(
        f"Form {form}: {sum(good)} of 12 right{blank(letters)}"
    )
    topics = [
        f"{text('quiz', f'topic.{topic}')}: {sum(good[2 * n : 2 * n + 2])} of 2"
        + blank(letters[2 * n : 2 * n + 2])
        for n, topic in enumerate(TOPICS)
    ]
    expect(local_page.locator(".topics li")).to_have_text(topics)
    verdicts = [
        "not answered" if letter is None else "right" if letter == key else "wrong"
        for letter, key in zip(letters, keys, strict=True)
    ]
    entries = local_page.locator(".entry")
    open_ = [n for n, verdict in enumerate(verdicts) if verdict == "wrong"]
    expect(local_page.locator(".entry:has(.hint)")).to_have_count(len(open_))
    for place in open_:
        expect(entries.nth(place).locator(".whys, .paper")).to_have_count(0)
        entries.nth(place).get_by_role("button", name="Show the answer").click()
    shown = entries.evaluate_all("all => all.map((entry) => entry.dataset.verdict)")
    assert shown == verdicts
    for place, (letter, key) in enumerate(zip(letters, keys, strict=True)):
        own, entry = item(NAMES[place], form), entries.nth(place)
        assert entry.locator(".whys p").all_inner_texts() == [own[f"{x}.why"] for x in "ABCD"]
        expect(entry.locator(".paper")).to_have_text(rows("quiz", "item")[NAMES[place]]["paper"])
        for x, said in zip("ABCD", entry.locator(".whys .said").all_inner_texts(), strict=True):
            assert ("right" in said, "your answer" in said) == (x == key, x == letter)
    assert sent == []  # nor does the script report anything: the harness gives it no way to
    local_page.get_by_role("button", name="Answers (.csv)").click()
    lines = list(csv.reader(saved(local_page).splitlines()))
    assert lines[0] == list(COLUMNS)
    assert [row[:4] for row in lines[1:]] == [
        [form, name, letter or "", str(int(letter == key))]
        for name, letter, key in zip(NAMES, letters, keys, strict=True)
    ]
    assert all(0 <= int(row[4]) < 60 for row in lines[1:])
    assert [row[5:8] for row in lines[1:]] == [
        ["0", "0", str(int(verdict == "wrong"))] for verdict in verdicts
    ]
    (visit,) = {row[8] for row in lines[1:]}
    assert re.fullmatch("[0-9a-f]{8}", visit)


@pytest.mark.parametrize("name", ["axes_1", "limits_2"])
def test_a_wrong_item_gets_two_hints_and_never_its_answer(local_page: Page, name):
    open_quiz(local_page, payload())
    own, place = item(name, "A"), NAMES.index(name)
    first, second, third = (letter for letter in "ABCD" if letter != own["right"])
    letters: list[str | None] = [item(one, "A")["right"] for one in NAMES]
    letters[place] = first
    answer_all(local_page, letters)
    local_page.locator("[data-part=finish]").click()
    entry = local_page.locator(".entry").nth(place)
    hint = entry.get_by_role("button", name="Hint")
    hint.click()
    expect(entry.locator(".clue")).to_have_text([own[f"{first}.why"]])
    hint.click()
    pair = " or ".join(sorted([own["right"], second]))
    expect(entry.locator(".clue").nth(1)).to_have_text(f"It is {pair}.")
    expect(hint).to_be_disabled()
    entry.locator(".option").nth("ABCD".index(third)).click()
    open_quiz(local_page, payload())  # kept
    expect(entry.locator(".option:disabled .letter")).to_have_text(sorted([first, third]))
    entry.locator(".option").nth("ABCD".index(own["right"])).click()
    expect(entry.locator(".whys p")).to_have_count(4)
    local_page.get_by_role("button", name="Answers (.csv)").click()
    line = list(csv.reader(saved(local_page).splitlines()))[1 + place]
    assert line[:4] == ["A", name, first, "0"] and line[5:8] == ["2", "1", "0"]


def test_a_cell_of_the_picture_is_an_option(local_page: Page):
    open_quiz(local_page, payload())
    own = item("axes_1", "A")
    picture = own["picture"]
    row, column = picture["marks"]["C"]
    line = local_page.locator(".picture tr").nth(row + 1)
    line.locator("td").nth(column).get_by_role("button").click()
    chosen = local_page.locator(".option[aria-checked=true]")
    expect(chosen).to_have_text(f"C{option(own, 'C')}")
    expect(line.locator("th")).to_have_text(picture["rows"][row])


def test_answers_are_kept_counted_and_deleted(local_page: Page):
    data = payload()
    open_quiz(local_page, data)
    local_page.clock.install()
    open_quiz(local_page, data)
    local_page.locator(".option").nth(1).click()
    local_page.clock.run_for(7000)
    local_page.get_by_role("button", name="Next").click()
    local_page.clock.run_for(2000)
    local_page.get_by_role("button", name="Back").click()
    local_page.clock.run_for(5000)
    open_quiz(local_page, data)
    expect(local_page.locator(".place")).to_have_text("Question 1 of 12, 1 answered")
    expect(local_page.locator(".option[aria-checked=true]")).to_have_text(
        f"B{option(item('axes_1', 'A'), 'B')}"
    )
    local_page.locator("[data-part=finish]").click()
    local_page.get_by_role("button", name="Answers (.csv)").click()
    seconds = [int(row.split(",")[4]) for row in saved(local_page).splitlines()[1:]]
    assert seconds[0] in (12, 13) and seconds[1] in (2, 3)  # plus a little real time
    assert seconds[2:] == [0] * 10
    local_page.get_by_role("button", name="Start again").click()
    expect(local_page.locator(".score")).to_be_visible()  # the first click asks to confirm
    local_page.get_by_role("button", name="Delete the answers to form A").click()
    expect(local_page.locator(".place")).to_have_text("Question 1 of 12, 0 answered")


@pytest.mark.parametrize(
    "stored",
    ["{", "null", "7", '{"A":{"at":99,"answers":{"axes_1":{"answer":"<b>","seconds":1}}}}'],
)
def test_damaged_storage_is_dropped(local_page: Page, stored):
    local_page.add_init_script(f"localStorage.setItem('headlight-test', {json.dumps(stored)})")
    open_quiz(local_page, payload())
    expect(local_page.locator(".place")).to_have_text("Question 1 of 12, 0 answered")
