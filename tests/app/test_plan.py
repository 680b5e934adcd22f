"""Plans for a class: their text, the stops that they run, and the page where they are made."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit
from xml.etree import ElementTree

import pytest
from streamlit.util import calc_hash

from app.components.question import Answer
from app.export.picture import riddle
from app.export.tour import not_offline, planned
from app.plan import Plan, parse, ready
from app.state import models
from app.state.address import VIEW
from app.stops import PAGES, TOURS
from tests.app.page_checks import map_row, record
from tests.app.rendered import Rendered, questions, read, render
from tests.app.test_masks_positions import save_small_model

MASKS = replace(PAGES["masks"], source="Ein Hund ~ läuft.~0")
NEVER = next(stop for stop in TOURS["de-en"] if stop.id == "ahead")
TEXT = "1~tour.ahead~masks.Ein Hund ~0 läuft.~00"
THREE = "1~tour.fussball~masks.Ein Hund läuft.~tour.ahead"


def test_a_plan_is_readable_text():
    assert Plan((NEVER, MASKS)).to_text() == TEXT
    assert parse(TEXT, "de-en") == (Plan((NEVER, MASKS)), "")


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ("bar.Ein Hund.", "“bar.Ein Hund.” (unknown here)"),
        ("tour.no-such-stop", "“tour.no-such-stop” (unknown here)"),
        ("tour.preparing", "“tour.preparing” (unknown here)"),
        ("masks.", "“masks.” (without a sentence)"),
        ("masks", "“masks” (without a sentence)"),
        ("", "a stop without a name"),
        ("<b>.`x`\u202e\n", "“<b>.'x'” (unknown here)"),
        ("x" * 99, f"“{'x' * 40}…” (unknown here)"),
    ],
)
def test_what_is_unknown_is_left_out(part, why):
    plan, said = parse(f"1~{part}~tour.ahead", "de-en")
    assert plan == Plan((NEVER,))
    assert said == f"Left out of the plan: {why}."
    plan, said = parse(f"1~{part}", "de-en")
    assert plan == Plan() and said == f"No stop can be used: {why}."


def test_a_plan_is_limited_in_stops_length_and_version():
    plan, said = parse("1" + "~masks.Ein Hund." * 43, "de-en")
    assert plan.stops == (replace(MASKS, source="Ein Hund."),) * 40
    left = "“masks.Ein Hund.” (a plan has at most 40 stops)"
    assert said == f"Left out of the plan: {left}; {left}; {left}."
    said = parse("1" + "~x" * 5, "de-en")[1]
    assert said.count("“x”") == 3 and said.endswith("; and 2 more.")
    for version in ("2", "1.0", "tour.ahead"):
        plan, said = parse(f"{version}~tour.ahead", "de-en")
        assert plan == Plan() and f"has version “{version}”" in said
    plan, said = parse("~tour.ahead", "de-en")
    assert plan == Plan() and "has no version, and" in said
    again = "ask for a new link."
    assert parse("1", "de-en") == (Plan(), f"This link's plan has no stops: {again}")
    assert parse("", "de-en") == (Plan(), f"This link's plan is empty: {again}")


NAMED_BY_TITLES = {
    "de-en": """a-word-that-moves one-word-becomes-two the-same-word-twice
        a-head-that-looks-back-by-one a-head-with-nothing-to-find never-ahead no-positions no-mask
        two-vectors-one-score greedy-or-beam-search right-or-wrong""",
    "en-de": """a-word-that-moves two-words-become-one one-verb-in-two-places the-same-word-twice
        a-head-that-looks-back-by-one a-head-with-nothing-to-find never-ahead no-positions no-mask
        two-vectors-one-score greedy-or-beam-search right-or-wrong""",
}
"""Names that the oldest links use for the tour's stops, in the tour's order."""
IDS = {
    "de-en": "fussball strassenmusiker hemd back sink ahead no-positions no-mask q-k ohne igel",
    "en-de": "buy street-musician preparing shirt back sink ahead no-positions no-mask q-k mouse "
    "without",
}


@pytest.mark.parametrize("direction", IDS)
def test_ids_of_the_tours_stops_stay_and_older_links_work(direction):
    ids = IDS[direction].split()
    stops = TOURS[direction][: len(ids)]
    assert [stop.id for stop in stops] == ids  # new stops come last
    for names in (ids, NAMED_BY_TITLES[direction].split()):
        plan, said = parse("~".join(["1", *(f"tour.{name}" for name in names)]), direction)
        assert (plan, said) == (Plan(stops), "")
        assert plan.to_text() == "~".join(["1", *(f"tour.{name}" for name in ids)])


def open_plan(plan: str = THREE, act=None, page: str = "tour", **query: str) -> Rendered:
    return render(page, act=act, plan=plan, **{"direction": "de-en", "model": "scratch", **query})


def press(*keys: str):
    """Return an action that presses buttons one after another."""

    def act(app) -> None:
        for key in keys:
            app.button(key=key).click().run()
            page = app.session_state["page"]  # as in a browser, which stays on the new page
            app._page_hash = calc_hash(page) if page else ""

    return act


def shown(page: Rendered) -> list[str]:
    """Return the page's title and the plan's line."""
    return [page.texts(kind="title")[0], *page.texts("plan_bar", "markdown")]


def at(page: Rendered) -> dict[str, str]:
    return {
        k: v
        for name in ("plan", "plan_at")
        for k, v in page.payload(f"address_{name}")["values"].items()
    }


def test_a_link_runs_its_stops_in_order():
    first, last = (f"**{{}} of 3** · {TOURS['de-en'][number].title}" for number in (0, 5))
    page = open_plan()
    assert shown(page) == ["Guided tour", first.format(1)]
    assert at(page) == {"plan": THREE, "at": "1", "present": None}
    keys = {button.key for button in page.app.button}  # the tour's own buttons give way
    assert "plan_next" in keys and not keys & {"tour_next", "tour_back"}
    assert page.app.button(key="plan_back").disabled
    # Like the teacher, a pupil meets the question first, its row covered.
    header, _ = map_row(page, "tour_map_0")
    asks = page.payload("asked_tour_0")["question"].partition(" at stop ")[0]
    assert [str(row) for row in header["covered"]] == [asks.rpartition(".")[2]]
    # The place in the plan alone makes entries of the browser's history.
    entries = [page.payload(f"address_{name}")["entry"] for name in ("plan_at", "plan", "stop")]
    assert entries == [list(VIEW), None, None]
    page = open_plan(act=press("plan_next"))
    assert shown(page) == ["Masks", "**2 of 3** · Masks"]
    assert page.app.text_area(key="source").value == "Ein Hund läuft."
    assert at(page)["at"] == "2"
    page = open_plan(at="2", page="masks", act=press("plan_next"))
    assert shown(page) == ["Guided tour", last.format(3)]
    assert page.texts("tour_text", "subheader") == [TOURS["de-en"][5].title]
    assert page.app.button(key="plan_next").disabled
    page = open_plan(at="3", stop="1")  # as a link from before: the plan says which stop it is
    assert page.texts("tour_text", "subheader") == [TOURS["de-en"][5].title]
    page = open_plan(at="3", act=press("plan_back", "plan_back"))
    assert page.texts("tour_text", "subheader") == [TOURS["de-en"][0].title]


@pytest.mark.parametrize("place", ["0", "99", "-1", "1.5"])
def test_a_stop_that_does_not_exist_is_the_first(place):
    page = open_plan(at=place)
    assert shown(page)[1] == f"**1 of 3** · {TOURS['de-en'][0].title}"
    (line,) = page.texts(kind="warning")
    assert f"“{place}”" in line and "has stops 1 to 3" in line


def test_a_reload_keeps_what_was_typed():
    page = open_plan(page="masks", at="2", source="Eine Katze schläft.")
    assert shown(page)[1] == "**2 of 3** · Masks"
    assert page.app.text_area(key="source").value == "Eine Katze schläft."


def test_direction_and_model_are_fixed_until_the_plan_is_left():
    page = open_plan("1~tour.ahead", direction="en-de", model="captions")
    direction, model = page.app.selectbox(key="direction"), page.app.selectbox(key="model")
    assert (direction.value, model.value) == ("en-de", "captions")
    assert direction.disabled and model.disabled
    free = open_plan("1~tour.ahead", act=press("plan_leave"))
    assert not free.app.selectbox(key="direction").disabled
    assert not free.app.selectbox(key="model").disabled
    assert "plan_next" not in [button.key for button in free.app.button]
    assert "tour_next" in [button.key for button in free.app.button]
    assert at(free) == {"plan": None, "at": None, "present": None}


def test_another_page_offers_the_way_back():
    page = open_plan(page="positions", at="2")
    assert "plan_return" in [button.key for button in page.app.button]
    assert shown(open_plan(page="positions", at="2", act=press("plan_return")))[0] == "Masks"


def test_what_a_link_names_and_is_not_here_is_said():
    page = open_plan("1~tour.ahead~bugs_.x", model="own-net")
    (line,) = page.texts(kind="warning")
    for part in ("“bugs\\_.x” (unknown here).", "model “own-net” is", "From scratch is used"):
        assert part in line
    page = open_plan("1~tour.ahead", direction="fr-de")
    (line,) = page.texts(kind="warning")
    assert "direction “fr-de” is" in line and "German → English is used" in line


@pytest.mark.parametrize(
    ("plan", "words"), [("7~tour.ahead", "version “7”"), ("", "is empty"), ("1", "has no stops")]
)
def test_a_link_without_a_plan_says_so_until_it_is_dismissed(plan, words):
    page = open_plan(plan)
    (line,) = page.texts(kind="warning")
    assert words in line and "tour_next" in [button.key for button in page.app.button]
    assert page.app.button(key="plan_leave").label == "Dismiss"
    gone = open_plan(plan, act=press("plan_leave"))
    assert gone.texts(kind="warning") == []
    assert "plan_leave" not in [button.key for button in gone.app.button]
    running = open_plan().app.button(key="plan_leave")
    assert running.label == "Leave the plan"


@pytest.mark.parametrize("first", ["tour.ahead", "masks.Ein Hund."])
def test_what_is_left_out_is_still_said_at_a_stop_on_another_page(first):
    page = open_plan(f"1~{first}~foo.bar~masks.Ein Hund läuft.", model="own-net", at="2")
    assert shown(page)[0] == "Masks"
    (line,) = page.texts(kind="warning")
    assert "“foo.bar” (unknown here)" in line and "model “own-net” is" in line


def test_another_plan_has_its_own_note():
    def reopen(app) -> None:
        app.session_state["page"] = None
        app.query_params["plan"] = "1~tour.ahead~masks.x"
        app.run()

    assert open_plan("1~tour.ahead~foo.bar", act=reopen).texts(kind="warning") == []


def draft_of(page: Rendered) -> str | None:
    return page.payload("address_draft")["values"]["plan"]


def row_titles(page: Rendered) -> list[str]:
    return [text for text in page.texts(kind="markdown") if text[0].isdigit()]


@pytest.mark.parametrize("direction", ["de-en", "en-de"])
def test_two_lessons_are_ready_and_each_can_be_run_changed_and_handed_out(direction):
    ten, long = lessons = list(ready(direction))
    page = render("class", direction=direction, model="scratch", search="greedy")
    for lesson in lessons:
        stops = lesson.plan.stops
        assert list(lesson.minutes) == sorted(set(lesson.minutes))
        assert len(lesson.minutes) == len(stops) and lesson.minutes[-1] < lesson.length
        assert all(stop.predict.endswith("?") for stop in stops)
        texts = page.texts(f"class_ready_{lesson.name}", "markdown")
        assert texts == [f"**{stop.predict}**" for stop in stops]
        (facts, *minutes) = page.texts(f"class_ready_{lesson.name}", "caption")
        assert facts.startswith(f"{lesson.length} minutes.")
        assert minutes == [f"{minute}′" for minute in lesson.minutes]
        (link,) = page.texts(f"class_link_{lesson.name}", "code_text")
        assert dict(parse_qsl(urlsplit(link).query))["plan"] == lesson.plan.to_text()
        saved = {item.key: item.label for item in page.app.get("download_button")}
        assert {f"class_page_{lesson.name}", f"class_worksheet_{lesson.name}"} <= saved.keys()
    ids = ([stop.id for stop in lesson.plan.stops] for lesson in lessons)
    assert not set.intersection(*map(set, ids)), "a class can have both lessons"
    assert not_offline(ten.plan, lambda text: record(text, f"scratch-{direction}")) == []
    assert draft_of(page) is None
    chosen = {"direction": direction, "model": "scratch", "search": "greedy"}
    changed = render("class", act=press("class_change_forty-five"), **chosen)
    assert draft_of(changed) == long.plan.to_text()
    started = render("class", act=press("class_start_ten"), **chosen)
    assert shown(started)[1] == f"**1 of 4** · {ten.plan.stops[0].title}"
    assert started.app.session_state["present"], "the class predicts first"


def test_lessons_are_ready_for_a_network_with_a_smaller_encoder(tmp_path, monkeypatch):
    sizes = {"num_encoder_layers": 1, "num_heads": 1, "decoder_heads": 4, "max_length": 60}
    save_small_model(tmp_path / "uneven-de-en", **sizes)
    monkeypatch.setattr(models, "CHECKPOINTS", tmp_path)
    models._listed.clear()
    page = render("class", direction="de-en", model="uneven", search="greedy")
    models._listed.clear()
    assert not page.app.exception
    assert all(page.texts(f"class_ready_{one.name}", "markdown") for one in ready("de-en"))


@pytest.mark.parametrize("covered", [(), (2, 5)])
def test_the_picture_of_a_question_covers_what_answers_it(covered):
    seen = record("Ein Hund läuft durch den Schnee.", "scratch-de-en")
    svg = ElementTree.fromstring(riddle(seen, "cross", 2, 1, covered, "light"))
    boxes = [one for one in svg if one.get("fill") == "url(#masked)"]
    found = [[float(one.get(name)) for name in ("x", "y", "width", "height")] for one in boxes]
    deep = 60 / len(seen.target_out)
    assert found == [pytest.approx([0, row * deep, 100, deep], abs=0.06) for row in covered]
    assert bool(svg.findall("{*}text")) == bool(covered)


def test_a_teacher_makes_a_plan():
    def act(app) -> None:
        app.button(key="class_add_tour").click().run()
        for number in (*range(3, 6), *range(7, 13)):  # 1, 2 and 6 stay
            app.button(key=f"class_remove_{number}").click().run()
        chooser = app.selectbox(key="class_stop")
        chooser.select_index(chooser.options.index("Masks")).run()
        app.button(key="class_add_stop").click().run()
        app.text_input(key="class_sentence_13").set_value("Ein  Hund ~ bellt.").run()
        app.button(key="class_up_13").click().run()
        app.button(key="class_down_1").click().run()

    page = render("class", act=act, direction="de-en", model="captions", search="greedy")
    stops = [
        "tour.strassenmusiker",
        "tour.fussball",
        "masks.Ein Hund ~0 bellt.",
        "tour.ahead",
    ]
    tour = [f"Guided tour: {TOURS['de-en'][number].title}" for number in (1, 0, 5)]
    titles = [text.split(". ", 1)[1] for text in row_titles(page)]
    assert titles == [*tour[:2], "Masks", tour[2]]
    assert draft_of(page) == "~".join(["1", *stops])
    (link,) = page.texts("class_link", "code_text")
    parts = urlsplit(link)
    assert parts.path == "/tour"
    assert parts.query.startswith("plan=") and link.endswith("search=greedy")
    assert dict(parse_qsl(parts.query)) == {
        "direction": "de-en",
        "model": "captions",
        "search": "greedy",
        "plan": "~".join(["1", *stops]),
    }
    assert f"({len(link)} of at most 2,000 characters)" in " ".join(page.texts(kind="caption"))


def test_a_link_that_is_too_long_is_refused():
    page = render("class", plan="1" + f"~masks.{'ä' * 60}" * 6)
    (line,) = page.texts(kind="error")
    length = int(line.split()[4].replace(",", ""))
    assert length > 6 * 60 * 6 and "after 2,000" in line
    assert page.texts("class_link") == []


def test_a_cleared_sentence_is_asked_for():
    def act(app) -> None:
        app.text_input(key="class_sentence_1").set_value(" ").run()

    def again(app) -> None:
        act(app)
        app.text_input(key="class_sentence_1").set_value("Ein Hund.").run()

    page = render("class", plan="1~masks.Ein Hund läuft.~tour.ahead", act=act)
    assert page.texts(kind="error") == ["Type a sentence."]
    assert page.texts("class_link") == [] and "Files" not in page.texts(kind="subheader")
    assert page.app.button(key="class_preview_2").disabled
    page = render("class", plan="1~masks.Ein Hund läuft.~tour.ahead", act=again)
    assert page.texts(kind="error") == [] and len(page.texts("class_link", "code_text")) == 1
    assert draft_of(page) == "1~masks.Ein Hund.~tour.ahead"


@pytest.mark.parametrize("length", [500, 501])
def test_a_sentence_of_too_many_characters_is_said_at_its_row(length):
    text = ("Ein Hund " * 60)[: length - 1] + "."
    page = render("class", plan=f"1~masks.{text}~tour.ahead")
    said = [
        ("501 characters" in line and "limit is 500" in line) for line in page.texts(kind="error")
    ]
    assert said == [True] * (length > 500)
    assert bool(page.texts("class_link")) == (length <= 500)
    quotes = [q for t in page.texts(kind="caption") for q in re.findall("“(.*?)”", t)]
    assert max(map(len, quotes)) == 60


def test_the_draft_says_what_its_link_lost():
    page = render("class", plan="1~tour.ahead~foo.bar")
    assert page.texts(kind="warning") == ["Left out of the plan: “foo.bar” (unknown here)."]
    assert row_titles(page) == ["1. Guided tour: Never ahead"]


def test_a_preview_runs_the_plan_from_its_row():
    page = render("class", plan=THREE, model="captions", act=press("class_preview_2"))
    assert shown(page) == ["Masks", "**2 of 3** · Masks"]
    assert page.app.selectbox(key="model").value == "captions"
    assert page.app.text_area(key="source").value == "Ein Hund läuft."


def test_what_the_offline_page_leaves_out_is_listed_before_the_export():
    plan = "1~why.Ein Hund läuft.~masks.Ein Hund läuft.~tour.fussball~steps.Ein Hund."
    page = render("class", plan=plan, model="scratch")
    (line,) = [t for t in page.texts(kind="caption") if t.startswith("Not in the offline page")]
    needs = "this page needs the app"
    assert line.endswith(f": Stop 1, Ask why: {needs}; Stop 4, Step by step: {needs}.")
    other = render("class", plan="1~tour.fussball~masks.x", model="baseline")
    lines = [t for t in other.texts(kind="caption") if t.startswith("Not in the offline page")]
    soccer = "soccer" in [
        t.text for t in record(TOURS["de-en"][0].source, "baseline-de-en").target_out
    ]
    assert bool(lines) != soccer


def test_presentation_keeps_title_text_and_map_only():
    page = open_plan("1~tour.ahead", present="1")
    assert at(page)["present"] == "1"
    assert page.payload("present_keys") == {
        "back": ["plan_back", "tour_back"],
        "onward": ["tour_more", "plan_next", "tour_next"],
        "leave": ["present_leave"],
    }
    keys = [button.key for button in page.app.button]
    assert "tour_more" in keys and "present_leave" in keys and "present_start" not in keys
    page = open_plan("1~tour.ahead", present="1", act=press("tour_more"))
    assert page.app.image and not any(key.startswith("tour_5") for key in page.payloads)
    left = open_plan("1~tour.ahead", present="1", act=press("present_leave"))
    assert at(left)["present"] is None and "present_keys" not in left.payloads


def screen(page: Rendered) -> str:
    return "map" if page.app.image else "question"


@pytest.mark.parametrize(
    ("keys", "where", "last"),
    [
        (["plan_next", "tour_more", "plan_back"], "2 of 2", "question"),
        (["plan_next", "tour_more", "plan_back", "plan_back"], "1 of 2", "question"),
        (["tour_more", "plan_next", "plan_back"], "1 of 2", "question"),
    ],
)
def test_back_goes_through_the_screens_of_a_plans_stop(keys, where, last):
    page = open_plan("1~tour.ahead~tour.fussball", present="1", act=press(*keys))
    assert f"**{where}**" in shown(page)[1] and screen(page) == last
    first = where == "1 of 2" and last == "question"
    assert page.app.button(key="plan_back").disabled == first


@pytest.mark.parametrize(
    ("keys", "stop", "last"),
    [
        (["tour_next", "tour_back"], 1, "map"),  # the first stop teaches
        (["tour_next", "tour_more"], 2, "map"),
        (["tour_next", "tour_more", "tour_back"], 2, "question"),
    ],
)
def test_back_goes_through_the_screens_of_the_tour(keys, stop, last):
    page = render("tour", direction="de-en", model="scratch", present="1", act=press(*keys))
    assert f"Stop {stop} of" in page.texts("tour_links", "caption")[0] and screen(page) == last
    assert page.app.button(key="tour_back").disabled == (stop == 1)


def test_a_question_answered_right_goes_on_to_its_map_once():
    """Also on the page of a lesson; after Back, the question stays."""
    for name, more in (("tour", {"stop": "2"}), ("masks", {"source": "Ein Hund läuft."})):
        chosen = {"direction": "de-en", "model": "scratch", "present": "1"} | more
        (asked,) = questions(render(name, **chosen).app)
        for right in (True, False):
            answer = Answer(asked["question"], (asked["correct"][0],), right, False)
            page = render(name, state={f"saved answer {asked['question']}": answer}, **chosen)
            assert screen(page) == ("map" if right else "question")
            if right:
                page.app.button(key="tour_back").click().run()
                assert screen(read(page.app)) == "question"


def test_the_offline_page_runs_the_plan():
    plan = "1~masks.Ein Hund läuft.~why.Ein Hund läuft.~tour.ahead~translate.Ein Hund läuft."
    stops = planned(parse(plan, "de-en")[0], record)
    assert [stop["title"] for stop in stops] == ["Masks", "Never ahead", "Translate"]
    sources = [stop["source"] for stop in stops]
    assert sources == ["Ein Hund läuft.", NEVER.source, "Ein Hund läuft."]
    assert [stop["view"].get("lesson") for stop in stops] == ["masks", None, None]
    assert stops[1]["view"]["kind"] == "decoder" and stops[2]["view"] == {}
