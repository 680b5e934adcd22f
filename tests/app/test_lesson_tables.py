"""The lessons on masks and positions: the app and the offline page read the same tables."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page

from app.components.assets import joined
from app.export import offline
from app.lessons import texts
from app.views.positions.what_if import _edit
from core.record.edits import DOUBLED, OFF, STRETCHED, Edits, PositionEdit
from tests.app.conftest import opened_offline
from tests.app.page_checks import ROOT
from tests.app.rendered import render
from tests.app.test_lessons import placeholders
from tests.app.test_site import FOLDERS

LESSONS = ("masks", "positions")
SENTENCE = "Eine Frau liest ein Buch."
FOLDS = {
    "masks": (
        *("open_batch", "open_row", "open_causal", "open_padding", "open_word"),
        "closing_table",
    ),
    "positions": (
        *("open_waves", "open_distance", "open_rotation", "open_sums", "open_learned"),
        *("open_beyond", "open_order", "open_what_if", "open_scores"),
    ),
}
TOLD = ("title", "subheader", "markdown", "caption")
CONTROLS = dict.fromkeys(
    ("hidden_word", "position_change", "position_change_side", "position_shift"), ("label",)
)
"""Kinds of texts by the key of their place: controls that both editions have."""
RULES = [
    (lesson, rule)
    for lesson in LESSONS
    for rule, verdicts in texts.rules(lesson).items()
    if isinstance(verdicts, list) and isinstance(verdicts[0], list)
]
CHANGES = {
    "off": lambda number, length: OFF,
    "shuffled": PositionEdit.shuffled,
    "shifted": lambda number, length: PositionEdit(shift=number),
    "doubled": lambda number, length: DOUBLED,
    "stretched": lambda number, length: STRETCHED,
}


@pytest.fixture(scope="module")
def reader(shared_page: Page) -> Page:
    """A page with the script that reads the tables."""
    script = joined(ROOT / "app/components/offline/lesson_table.js")
    shared_page.set_content(f"<script>{script}</script>")
    return shared_page


def from_the_table(lesson: str, written: str) -> bool:
    """Return whether a text consists of the lesson's texts, with any values filled in."""
    templates = [texts.template(lesson, key).replace("**", "") for key in texts.keys(lesson)]
    told = [one for one in templates if "{" not in one or len(re.sub(r"\{\w+\}", "", one)) > 9]
    one = "|".join(re.sub(r"\\{\w+\\}", ".+?", re.escape(template)) for template in told)
    return re.fullmatch(f"(?:{one})(?: (?:{one}))*", written.replace("**", "")) is not None


@pytest.mark.parametrize("lesson", LESSONS)
def test_both_editions_fill_in_the_same_texts(reader: Page, lesson: str) -> None:
    keys = texts.keys(lesson)
    values = [{name: f"<{name}>" for name in placeholders(lesson, key)} for key in keys]
    said = reader.evaluate(
        "([table, keys, values]) => keys.map((key, at) => textsOf(table)(key, values[at]))",
        [texts.table(lesson), keys, values],
    )
    assert said == [texts.text(lesson, key, **own) for key, own in zip(keys, values, strict=True)]
    wrong = (
        "([table, key]) => { try { textsOf(table)(key); } catch (error) { return error.message; } }"
    )
    for key in ("no.such", "change.none", keys[[bool(own) for own in values].index(True)]):
        assert reader.evaluate(wrong, [texts.table(lesson), key])


@pytest.mark.parametrize(("lesson", "rule"), RULES)
def test_both_editions_give_the_same_verdict(reader: Page, lesson: str, rule: str) -> None:
    """Each verdict has a text. The limits themselves belong to the verdict before them."""
    verdicts = texts.rules(lesson)[rule]
    names, limits = [name for name, *_ in verdicts], [one[1] for one in verdicts if len(one) > 1]
    assert limits == sorted(limits) and len(limits) == len(names) - 1
    assert all(f"{rule}.{name}" in texts.keys(lesson) for name in names)
    values = sorted([-1.0, 0.0, 1.0, *limits, *(x + e for x in limits for e in (-1e-9, 1e-9))])
    expected = [names[sum(value > limit for limit in limits)] for value in values]
    assert [texts.verdict(lesson, rule, value) for value in values] == expected
    said = "([table, rule, values]) => values.map((value) => verdictIn(table.rules[rule], value))"
    assert reader.evaluate(said, [texts.table(lesson), rule, values]) == expected


def test_both_editions_make_the_same_edits(reader: Page) -> None:
    """A shuffle number is the same order in both; sides differ in length."""
    rules = texts.rules("positions")
    assert rules["changes"].keys() == CHANGES.keys()
    cases = list(product(CHANGES, (1, 2, 7, 999, -500), (1, 2, 9, 17, 300), (3, 64)))
    said = reader.evaluate(
        """([changes, cases]) => cases.map(([change, number, source, target]) =>
            positionEdits(changes[change].edit, number, { source, target }))""",
        [rules["changes"], cases],
    )
    for (change, number, source, target), text in zip(cases, said, strict=True):
        sides = {"source": source, "target": target}
        assert text == "~".join(_edit(change, number, side, sides[side]) for side in sides)
        made = (CHANGES[change](number, length) for length in (source, target))
        edits = Edits(**dict(zip(("source_positions", "target_positions"), made, strict=True)))
        assert Edits.parse(text) == (edits, [])


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_app_takes_its_sentences_from_the_table(lesson: str) -> None:
    query = {"source": SENTENCE, "direction": "de-en", "position_change": "shifted"}
    page = render(lesson, *FOLDS[lesson], **query)
    kinds = dict.fromkeys(("", "lesson_columns", *FOLDS[lesson]), TOLD) | CONTROLS
    found = [item.text for item in page.items if item.kind in kinds.get(item.where, ())]
    assert len(found) > 15
    ours = {texts.text("questions", "page.terms")}  # above every section
    assert [one for one in found if one not in ours and not from_the_table(lesson, one)] == []


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_offline_page_takes_its_sentences_from_the_table(
    offline_context, tmp_path: Path, lesson: str
) -> None:
    file = tmp_path / "page.html"
    file.write_text(offline.page([offline.network(FOLDERS[0])]), encoding="utf-8")
    state = f"lesson={lesson}&source={quote(SENTENCE)}"
    with opened_offline(offline_context, f"{file.as_uri()}#{state}", file.as_uri()) as page:
        tables = page.evaluate("JSON.parse(document.getElementById('lesson-tables').textContent)")
        assert tables == {name: texts.table(name) for name in LESSONS}
        root = page.locator(f".lessons[data-shown={lesson}][aria-busy=false]")
        root.wait_for()
        told = (
            "h2, h3, .more, .choice-box > span, :is(.part, .part > div) > p:not(.formula, .texts)"
        )
        found = [one for one in root.locator(told).all_text_contents() if one]
        found += root.locator(".choice-box option").all_text_contents() * (lesson == "positions")
    assert len(found) > 10
    assert [one for one in found if not from_the_table(lesson, one)] == []
