"""The answers of a class: files are counted in the browser, and none of them harms the others."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from app.components.assets import as_module, joined, palette, read
from app.views.shared import answers
from app.views.shared.answers import COLUMNS
from app.views.teacher.answers import known_stops
from tests.app.rendered import answer, questions, render
from tests.app.test_question_component import Answer, asked

FOLDER = Path(__file__).resolve().parents[2] / "app/components/class_answers"
OLD = COLUMNS[:5]


@pytest.fixture(scope="module")
def mounted(browser: Browser) -> Iterator[tuple[Page, list[str]]]:
    """Mount the component without a server; return the page and the requests it makes."""
    page = browser.new_page()
    sent: list[str] = []
    page.set_content(
        f"<style>{palette('.class-answers')}{read(FOLDER / 'class_answers.css')}</style>"
        f"<div id=host>{read(FOLDER / 'class_answers.html')}</div>"
    )
    page.on("request", lambda request: sent.append(request.url))
    page.on("websocket", lambda socket: sent.append(socket.url))
    script = as_module(joined(FOLDER / "main.js")).replace("export default", "window.render =")
    page.add_script_tag(content=f"{{ {script} }}")
    page.evaluate(
        """(known) => {
          window.saved = [];
          URL.createObjectURL = (blob) => { saved.push(blob); return "#saved"; };
          window.render({ data: { known }, parentElement: host });
        }""",
        known_stops(),
    )
    yield page, sent
    page.close()


@pytest.fixture
def drop(mounted) -> Iterator[Any]:
    """Return a function that drops files, by name, and returns the problems and the table."""
    page, sent = mounted
    count = 0

    def dropped(**files: str | bytes) -> tuple[list[str], dict[str, list[int]]]:
        nonlocal count
        count += len(files)
        page.locator("[data-part=files]").set_input_files(
            [
                {
                    "name": f"{name}.csv",
                    "mimeType": "text/csv",
                    "buffer": text if isinstance(text, bytes) else text.encode(),
                }
                for name, text in files.items()
            ]
        )
        page.wait_for_function(f"host.textContent.includes('Files: {count}.')")
        lines = page.locator(".problems li").all_inner_texts()
        rows = page.locator("tr:has(.bar)").all()
        cells = [
            [row.locator("th").inner_text(), *row.locator("td").all_inner_texts()] for row in rows
        ]
        return lines, {title: list(map(int, numbers)) for title, _, *numbers in cells}

    yield dropped
    assert sent == [], "something left the browser"
    if (clear := page.get_by_role("button", name="Remove all")).count():
        clear.click()


def a_file(rows: list[str], visit: str = "0a0a0a0a", columns: tuple[str, ...] = COLUMNS) -> str:
    """Return an answer file; each row has form, item, answer, right, seconds and the hints."""
    end = f",{visit}" if columns == COLUMNS else ""
    return "\ufeff" + "".join(
        f"{line}\r\n" for line in [",".join(columns), *(r + end for r in rows)]
    )


MASKS = "Test A: Masks, 1"
HEMD = "Tour: The same word twice"


def test_a_class_is_counted_by_stop(mounted, drop):
    """Learners, answered, right at first, right later, asked for hints, gave up or skipped."""
    page, _ = mounted
    said, table = drop(
        one=a_file(['A,"masks_1",B,1,9,0,0,0', 'A,"axes_1",A,0,9,2,1,0'], "1" * 8),
        two=a_file(['A,"masks_1",C,0,9,3,0,1', 'A,"axes_1",,0,0,0,0,0'], "2" * 8),
        three=a_file(["tour,hemd,“Hemd”,0,,1,1,0", "masks,Ein Hund.,x,1,,0,0,0"], "3" * 8),
        four=a_file(["tour,hemd,,0,,0,0,1"], "4" * 8),
        old=a_file(['A,"masks_1",A,0,9', 'A,"axes_1",C,1,9'], columns=OLD),
        semicolons=a_file(["A,masks_1,D,0,9,1,0,0"], "5" * 8).replace(",", ";"),
    )
    assert said == []
    assert table == {
        "Test A: Query and key axes, 1": [4, 2, 1, 1, 1, 0],
        MASKS: [4, 4, 1, 0, 2, 1],
        HEMD: [2, 1, 0, 1, 1, 1],
        "Masks: Ein Hund.": [1, 1, 1, 0, 0, 0],
    }
    bar = page.locator(f"tr:has-text('{MASKS}') .bar")
    parts = bar.locator("i").evaluate_all(
        "(all) => all.map((at) => [at.className, at.offsetWidth / at.parentElement.offsetWidth])"
    )
    assert parts == [
        ["first", pytest.approx(1 / 4, abs=0.01)],
        ["wrong", pytest.approx(2 / 4, abs=0.01)],
        ["gave-up", pytest.approx(1 / 4, abs=0.01)],
    ]
    page.get_by_role("button", name="Table (.csv)").click()
    written = page.evaluate("saved.at(-1).text()").removeprefix("\ufeff")
    lines = list(csv.reader(io.StringIO(written)))
    assert {title: list(map(int, numbers)) for title, *numbers in lines[1:]} == table


FOREIGN = "“bad.csv” is no answer file: use those that the test or the tour saved."
UNKNOWN = "“bad.csv” has no answer to a stop that is known here."
GOOD = a_file(['A,"masks_1",B,1,9,0,0,0'])


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (GOOD, "“bad.csv” has the same answers as “good.csv”: they count once."),
        (b"\x00\xff\x89PNG" * 99, FOREIGN),
        ("", FOREIGN),
        ("x" * 250_000, "“bad.csv” is left out: 250 kB are too many for an answer file."),
        (GOOD.replace("masks_1", "<img src=x onerror=alert(1)>"), UNKNOWN),
        (GOOD.replace("A,", "__proto__,"), UNKNOWN),
        (GOOD.replace('A,"masks_1"', "tour,constructor"), UNKNOWN),
        (GOOD.replace("B,1,9,0", "B,1,9,1e9"), UNKNOWN),
        (GOOD.replace("B,1,9,0,0", "B,1,9,0,1"), UNKNOWN),
    ],
    ids="twice binary empty huge markup proto constructor number contradiction".split(),
)  # fmt: skip
def test_a_file_that_cannot_be_used_gets_one_line_and_changes_nothing(drop, bad, said):
    assert drop(good=GOOD)[0] == []
    lines, table = drop(bad=bad)
    assert [line.replace("\u2068", "").replace("\u2069", "") for line in lines] == [said]
    assert table == {MASKS: [1, 1, 1, 0, 0, 0]}


def test_a_broken_line_loses_no_other_and_a_later_file_says_more(drop):
    first = a_file(
        ["tour,hemd,x,0,,1,0,0", "tour,hemd,x,7,,0,0,0", '"tour', "tour,igel,x,1,,0,0,0"]
    )
    lines, table = drop(first=first)
    assert [line.partition(": ")[2] for line in lines] == [
        "2 of 4 lines are left out, first line 3."
    ]
    assert table == {HEMD: [1, 1, 0, 0, 1, 0], "Tour: Right or wrong?": [1, 1, 1, 0, 0, 0]}
    later = drop(later=a_file(["tour,hemd,x,0,,1,1,0"]), first_again=first)[1]
    assert later == table | {HEMD: [1, 1, 0, 1, 1, 0]}
    crowd = a_file([f"masks,=S {n},x,1,,0,0,0" for n in range(300)], "9" * 8)
    lines, table = drop(crowd=crowd)
    assert "100 of 300 lines are left out, they are too many" in lines[-1]
    assert len(table) == 202 and HEMD in table


def test_the_answers_of_a_visit_are_a_file_for_the_class(drop, monkeypatch):
    kept: dict[str, Any] = {}
    monkeypatch.setattr(answers.session, "save_result", kept.__setitem__)
    monkeypatch.setattr(answers.session, "saved_result", kept.get)
    one = asked()
    open_ = Answer("one", (4,), False, False, ((4,),), (1,), False)
    answers.keep("tour", "hemd", one, open_)
    assert drop(open=answers.as_csv(kept["answers"], "0b" * 4))[1] == {HEMD: [1, 1, 0, 0, 1, 0]}
    answers.keep("tour", "hemd", one, Answer("one", (3,), True, False, ((4,),), (1,)))
    answers.keep("masks", '=1, "two"', one, Answer("one", (3,), True, False))
    answers.keep("masks", '=1, "two"', asked(id="other"), open_)  # the first question counts
    answers.keep("bug", "unscaled", one, Answer("one", (), False, True))
    lines = list(
        csv.reader(io.StringIO(answers.as_csv(kept["answers"], "0b" * 4).removeprefix("\ufeff")))
    )
    visit = "0b" * 4
    assert lines == [
        list(COLUMNS),
        ["tour", "hemd", "name of w4", "0", "", "1", "1", "0", visit],
        ["masks", '\'=1, "two"', "name of w3", "1", "", "0", "0", "0", visit],
        ["bug", "unscaled", "", "0", "", "0", "0", "1", visit],
    ]
    said, table = drop(settled=answers.as_csv(kept["answers"], "0b" * 4))
    assert said == [] and list(table.values()) == [
        [1, 1, 0, 1, 1, 0], [1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 1]
    ]  # fmt: skip


def test_the_page_for_teachers_knows_the_stops_that_a_visit_keeps():
    known = render("class").payload("class_answers")["known"]
    assert known == known_stops()

    def act(app) -> None:
        answer(app, questions(app)[0], 0)
        app.run()

    for page, query in (("tour", {"stop": "2"}), ("masks", {"source": "Ein Hund."}), ("bugs", {})):
        app = render(page, act=act, **query).app
        ((form, item),) = app.session_state["saved answers"]
        assert item in known[form] or ("" in known[form] and item == "Ein Hund.")
