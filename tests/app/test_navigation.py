"""Navigation in a browser: Back, links, reloads, the source box, and writers of the URL."""

import re
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Page, expect
from streamlit.testing.v1 import AppTest

from app.examples import EXAMPLES
from app.state import address
from tests.app.rendered import render

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "app/main.py"
OWN = "Der Hund schläft im Garten."
PAGES = {
    "": "Translate",
    "steps": "Step by step",
    "head": "Inside a head",
    "why": "Ask why",
    "heads": "Heads",
    "literature": "Literature",
    "together": "Two at once",
    "masks": "Masks",
    "positions": "Positions",
    "bugs": "Find the bug",
    "training": "Training",
    "comparison": "Scratch and baseline",
    "tour": "Guided tour",
}
WITH_A_SENTENCE = [
    page for page in PAGES if page not in ("tour", "heads", "literature", "training")
]
WITH_A_SCRIPT = ("", "steps", "heads", "together", "bugs", "comparison", "tour", "training")
"""Pages with a script that writes the page's view to the URL."""
COMMON = {"source": OWN, "direction": "de-en", "model": "captions", "search": "greedy"}


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def expect_query(page: Page, **wanted: str | None) -> None:
    """Wait until the URL query has these values; None means that the name is absent."""
    page.wait_for_function(
        """(wanted) => {
            const query = new URLSearchParams(location.search);
            return Object.entries(wanted).every(([name, value]) => query.get(name) === value);
        }""",
        arg=wanted,
        timeout=30_000,
    )


def settled(page: Page) -> None:
    """Wait until nothing has run and the URL has not changed for 250 ms."""
    page.evaluate("window.calm = null")
    page.wait_for_function(
        """() => {
            const app = document.querySelector("[data-testid=stApp]");
            const now = performance.now();
            const idle = app && app.dataset.testScriptState !== "running";
            if (!idle || window.calm?.at !== location.href) {
                window.calm = { at: idle && location.href, since: now };
            }
            return idle && now - window.calm.since >= 250;
        }""",
        polling=25,
        timeout=60_000,
    )


def opened(page: Page, serve, path: str = "", **asked: str) -> None:
    page.goto(f"{serve(MAIN)}/{path}" + (f"?{urlencode(asked)}" if asked else ""))
    expect(page.locator(".st-key-model_note")).to_be_visible(timeout=60_000)
    settled(page)


def go_to(page: Page, path: str) -> None:
    page.locator("[data-testid=stSidebarNav]").get_by_role("link", name=PAGES[path]).click()
    at(page, path)


def at(page: Page, path: str) -> None:
    """Wait until a page is open and drawn."""
    page.wait_for_function("path => location.pathname === `/${path}`", arg=path, timeout=10_000)
    if path:
        expect(page.get_by_role("heading", name=PAGES[path], exact=True)).to_be_visible(
            timeout=30_000
        )
    settled(page)
    expect(page.locator("[data-testid=stException]")).to_have_count(0)


def box(page: Page):
    return page.locator(".st-key-source textarea")


def expect_sentence(page: Page, text: str) -> None:
    """Wait until the source box holds this text; its script may still have to load."""
    expect(box(page)).to_have_value(text, timeout=30_000)


def apply(page: Page, text: str) -> None:
    box(page).fill(text)
    box(page).press("Enter")
    expect_query(page, source=text)
    settled(page)


def test_back_and_forward_lead_through_the_pages(local_page: Page, serve):
    """Click through the pages, then go back over those with a script that writes to the URL.

    Two pages without such a script stand for all of them.
    """
    opened(local_page, serve)
    apply(local_page, OWN)
    entries = local_page.evaluate("history.length")
    pages = ["masks", "literature", *WITH_A_SCRIPT[1:]]
    for path in pages:
        go_to(local_page, path)
        expect_query(local_page, source=OWN)
        if path in WITH_A_SENTENCE:
            expect_sentence(local_page, OWN)
    assert local_page.evaluate("history.length") == entries + len(pages), "one entry per page"
    earlier = pages[-len(WITH_A_SCRIPT) : -1]
    for path in reversed(earlier):
        local_page.go_back()
        at(local_page, path)
        expect_query(local_page, source=OWN)
    local_page.go_forward()
    at(local_page, earlier[1])
    assert local_page.evaluate("history.length") == entries + len(pages)


def test_back_restores_the_sentence_and_the_search(local_page: Page, serve):
    opened(local_page, serve, source=OWN, search="greedy")
    go_to(local_page, "steps")
    apply(local_page, "Ein Hund.")
    local_page.locator(".st-key-search button", has_text="Beam").click()
    expect_query(local_page, search="beam")
    local_page.go_back()
    at(local_page, "")
    expect_sentence(local_page, OWN)
    expect_query(local_page, source=OWN, search="greedy")
    local_page.go_forward()
    at(local_page, "steps")
    expect_sentence(local_page, "Ein Hund.")
    expect_query(local_page, source="Ein Hund.", search="beam")


def test_back_restores_the_previous_sentence_and_edits(local_page: Page, serve):
    """On the first page, each sentence and each edit adds a history entry; Back restores pins."""
    opened(local_page, serve, source=OWN, search="greedy")
    root = local_page.locator("section[aria-label='Attention explorer']")
    expect(root).to_have_attribute("data-painted", re.compile(r"[1-9]\d*"), timeout=30_000)
    first = root.get_attribute("data-sentence")
    root.locator(".thumbnail[data-l='1'][data-h='2']").click()
    root.locator(".target .token[data-index='3']").click()
    expect_query(local_page, layer="1", head="2", q="2")
    entries = local_page.evaluate("history.length")
    apply(local_page, "Ein Hund bellt.")
    expect(root).not_to_have_attribute("data-sentence", first)
    second = root.get_attribute("data-sentence")
    expect_query(local_page, q=None)
    root.locator(".thumbnail[data-l='3'][data-h='0']").click()
    root.get_by_role("button", name="Switch this head off").click()
    expect_query(local_page, edits="off.cross.3.0")
    expect(root.get_by_role("button", name="Switch this head back on")).to_be_visible()
    settled(local_page)
    assert local_page.evaluate("history.length") == entries + 2
    local_page.go_back()
    expect_query(local_page, edits=None, source="Ein Hund bellt.")
    expect(root).to_have_attribute("data-sentence", second, timeout=30_000)
    expect(root.get_by_role("button", name="Switch this head off")).to_be_visible()
    settled(local_page)
    local_page.go_back()
    expect_sentence(local_page, OWN)
    expect(root).to_have_attribute("data-sentence", first, timeout=30_000)
    for name, value in (("layer", "1"), ("head", "2"), ("query", "2")):
        expect(root).to_have_attribute(f"data-{name}", value)
    settled(local_page)
    expect_query(local_page, source=OWN, edits=None, layer="1", head="2", q="2")
    local_page.go_forward()
    local_page.go_forward()
    expect_query(local_page, edits="off.cross.3.0", source="Ein Hund bellt.")
    expect(root.get_by_role("button", name="Switch this head back on")).to_be_visible()
    assert local_page.evaluate("history.length") == entries + 2


def test_invalid_values_in_a_link_are_ignored(local_page: Page, serve):
    nonsense = {"direction": "fr-it", "model": "x", "search": "wide", "closing_layer": "99"}
    nonsense |= {"source": "  ", "closing_fill": "-1", "mask_kind": ""}
    opened(local_page, serve, "masks", lesson="0", **nonsense)
    expect_sentence(local_page, EXAMPLES[0].de)
    expect_query(local_page, direction="de-en", model="scratch", search="beam")
    expect_query(local_page, closing_layer=None, closing_fill=None, mask_kind=None)
    expect(local_page.locator("[data-testid=stException]")).to_have_count(0)


def test_the_tour_keeps_its_stop(local_page: Page, serve):
    """The visitor's sentence survives the tour too: the page opened after it still shows it."""
    opened(local_page, serve, "tour", source=OWN)
    main = local_page.locator("[data-testid=stMain]")
    for stop in ("2", "3"):
        main.get_by_role("button", name="Next stop").click()
        expect_query(local_page, stop=stop)
        settled(local_page)
    local_page.reload()
    expect(main.get_by_text("Stop 3 of")).to_be_visible(timeout=30_000)
    settled(local_page)
    for stop in ("2", "1"):
        local_page.go_back()
        expect(main.get_by_text(f"Stop {stop} of")).to_be_visible(timeout=30_000)
        settled(local_page)
        expect_query(local_page, stop=stop)
    local_page.go_forward()
    expect(main.get_by_text("Stop 2 of")).to_be_visible(timeout=30_000)
    go_to(local_page, "comparison")
    expect_sentence(local_page, OWN)
    expect(main.get_by_text(OWN, exact=False).first).to_be_visible(timeout=30_000)


def test_the_other_direction_takes_the_translation(local_page: Page, serve):
    opened(local_page, serve, source=OWN)
    translation = local_page.locator(".st-key-translation").inner_text()
    direction = local_page.locator(".st-key-direction")
    direction.get_by_text("English → German").click()
    expect_sentence(local_page, translation)
    expect_query(local_page, direction="en-de", source=translation)
    settled(local_page)
    expect(local_page.locator(".st-key-translation")).not_to_have_text(translation)
    direction.get_by_text("German → English").click()
    expect_sentence(local_page, OWN)


def test_a_sentence_is_one_line_and_enter_translates(local_page: Page, serve):
    opened(local_page, serve)
    area = box(local_page)
    low = area.bounding_box()["height"]
    assert low < 50
    local_page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    local_page.evaluate("navigator.clipboard.writeText('Der Hund\\r\\n  schläft\\nim Garten.')")
    area.fill("")
    area.press("ControlOrMeta+V")
    expect(area).to_have_value(OWN)
    expect(local_page.get_by_text("Press Ctrl+Enter")).to_be_hidden()
    area.press("Enter")
    expect_query(local_page, source=OWN)
    expect(local_page.locator(".st-key-translation")).to_contain_text("dog")
    expect(area).to_be_focused()
    area.press("End")
    area.type(" Er träumt.")
    area.press("Shift+Enter")
    expect_query(local_page, source=f"{OWN} Er träumt.")
    expect(area).to_have_value(f"{OWN} Er träumt.")
    area.fill(OWN * 12)
    expect(area).to_have_value(OWN * 12)
    assert area.bounding_box()["height"] > 1.5 * low
    area.fill(OWN)
    assert area.bounding_box()["height"] == low


def test_a_typed_target_is_applied_by_the_button(local_page: Page, serve):
    opened(local_page, serve, source=OWN)
    target = local_page.locator(".st-key-target input")
    button = local_page.locator(".st-key-use_reference button")
    target.fill("A dog sleeps.")
    expect(button).to_be_enabled()
    for _ in range(2):
        button.click()
        settled(local_page)
        expect(target).to_have_value("A dog sleeps.")
        expect(local_page.locator(".st-key-translation")).to_have_text("A dog sleeps.")
    expect_query(local_page, target="A dog sleeps.")
    local_page.reload()
    expect(target).to_have_value("A dog sleeps.", timeout=30_000)


@pytest.mark.parametrize(
    "text, line",
    [
        ("a\nb", "a b"),
        (" a \r\n\n b ", "a b"),
        ("a  b", "a  b"),
        ("\n", ""),
        ("a\u2028b", "a\u2028b"),
    ],
)
def test_several_lines_become_one(text, line):
    assert address.one_line(text) == line


def test_python_never_writes_the_url():
    """A write from Python would add a history entry and break the browser's Back."""
    for file in (ROOT / "app").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"query_params(\[|\.(clear|from_dict|update|pop|set))", text), file
        assert "bind=" not in text, file


@pytest.fixture
def writer(page: Page, tmp_path):
    """Return `write(*calls)`, which returns [URL query, number of new entries] after each call."""
    script = (ROOT / "app/components/address/address.js").read_text(encoding="utf-8")
    file = tmp_path / "steps"
    file.write_text("<!doctype html>", encoding="utf-8")
    page.goto(f"{file.as_uri()}?source=a&stop=1&kind=cross")
    script = script.replace("export default", "")
    page.evaluate(f"() => {{ {script} window.render = render; }}")

    def write(*calls: dict) -> list:
        usual = {"page": "steps", "seen": {"source": "a", "stop": "1"}, "arrival": 1, "entry": None}
        return page.evaluate(
            """(calls) => {
                const entries = history.length;
                return calls.map((data) => {
                    if (data.left) history.replaceState({}, "", data.left);
                    else render({ data });
                    return [location.search, history.length - entries];
                });
            }""",
            [{**usual, **call} for call in calls],
        )

    return write


def test_the_writer_writes_changes_of_its_own_page_only(writer):
    """A response that arrives after the next page was opened is dropped."""
    assert writer(
        {"page": "masks", "values": {"source": "b"}},
        {"page": "", "values": {"source": "b"}},
        {"values": {"source": "b", "search": "beam"}},
        {"values": {"search": None}},
        {"values": {"stop": "1", "model": "x"}, "entry": ["kind"]},
        {"values": {"stop": "2"}, "entry": ["kind"]},
        {"values": {"edits": None}, "entry": []},
        {"values": {"edits": "causal"}, "entry": []},
    ) == [
        ["?source=a&stop=1&kind=cross", 0],
        ["?source=a&stop=1&kind=cross", 0],
        ["?source=b&stop=1&kind=cross&search=beam", 0],
        ["?source=b&stop=1&kind=cross", 0],
        ["?source=b&stop=1&kind=cross&model=x", 0],
        ["?source=b&stop=2&model=x", 1],
        ["?source=b&stop=2&model=x", 1],
        ["?source=b&stop=2&model=x&edits=causal", 2],
    ]


def test_a_render_after_back_does_not_write_the_url(writer):
    """Until the run caused by Back has finished, the URL is ahead of the page.

    Meanwhile the writer may run again or, after a reload on a busy machine, for the first time.
    """
    entry = {"entry": ["kind"]}
    assert writer(
        {"left": "?stop=7"},
        {"values": {"stop": "1"}, **entry},
        {"left": "?stop=1"},
        {"values": {"stop": "1"}, **entry},
        {"values": {"stop": "2"}, **entry},
        {"left": "?stop=1"},
        {"values": {"stop": "2"}, **entry},
        {"values": {"stop": "1"}, "arrival": 2, **entry},
        {"values": {"stop": "3"}, "arrival": 2, **entry},
    ) == [
        ["?stop=7", 0],
        ["?stop=7", 0],
        ["?stop=1", 0],
        ["?stop=1", 0],
        ["?stop=2", 1],
        ["?stop=1", 1],
        ["?stop=1", 1],
        ["?stop=1", 1],
        ["?stop=3", 2],
    ]


EXPLORERS_OWN = set("kind layer head view words hide sort effect combine quantity mass q k".split())
VIEWS = {path: f"{path}/page" for path in PAGES} | {
    "": "translate",
    "steps": "steps",
    "head": "inside_head/page",
    "together": "together",
    "training": "training",
}


def test_each_query_parameter_has_one_writer(monkeypatch):
    """With two writers, whichever happened to write last would win."""
    written: list[str] = []
    monkeypatch.setattr(address, "address", lambda values, **_: written.extend(values))
    app = AppTest.from_file(str(MAIN), default_timeout=120).run()
    app.session_state["path_maps"] = True  # shows an explorer on Step by step
    for path in PAGES:
        written.clear()
        app.switch_page(f"views/{VIEWS[path]}.py").run()
        assert not app.exception
        explorers = EXPLORERS_OWN if path in ("", "steps", "together", "tour") else set()
        twice = {name for name in written if written.count(name) > 1 or name in explorers}
        assert not twice, (path, twice)
        assert set(COMMON) <= set(written), path


def test_a_text_in_a_link_becomes_one_line():
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    app.query_params["source"] = "Der Hund\nschläft im Garten. "
    app.run()
    assert app.text_area("source").value == OWN


CHOICES = {
    "steps": {"path_maps": "True", "kind": "decoder", "layer": "0", "head": "1"},
    "head": {"kind": "encoder", "layer": "1", "head": "2", "q": "3", "k": "0"},
    "why": {"why_for": "2"},
    "heads": {"head": "cross.1.2"},
    "literature": {"literature_family": "Word alignment"},
    "together": {"second_source": "Ein Hund.", "kind": "decoder", "layer": "0", "head": "1"},
    "masks": {
        "mask_batch": "Ein Hund.\nDer Hund schläft.",
        "mask_kind": "cross",
        "closing_layer": "2",
        "closing_fill": "-10000.0",
        "hidden_word": "1",
    },
    "positions": {
        "wave_dimensions": "1.5",
        "rotation_k": "7",
        "position_change": "shifted",
        "position_shift": "9",
        "parts_kind": "decoder",
    },
    "bugs": {"bug": "3", "bug_kind": "cross", "bug_layer": "1", "bug_head": "2"},
    "comparison": {"second_model": "baseline", "compare_layer": "1", "compare_scale": "own"},
    "training": {
        "sentence": "2",
        "step": "1309",
        "kind": "encoder",
        "layer": "1",
        "head": "3",
        "q": "2",
        "k": "1",
    },
    "tour": {"stop": "2", "kind": "encoder", "layer": "1", "head": "3"},
}
for page in ("steps", "head", "why", "masks", "positions"):  # lesson=0 shows what questions hide
    CHOICES[page]["lesson"] = "0"


@pytest.mark.parametrize("path", WITH_A_SCRIPT)
def test_every_page_keeps_the_choices_of_a_link(local_page: Page, serve, path):
    """The URL keeps the sentence, the model, the search and the page's choices for a reload."""
    asked = COMMON | CHOICES.get(path, {})
    opened(local_page, serve, path, **asked)
    expect(local_page.locator("[data-testid=stException]")).to_have_count(0)
    expect_query(local_page, **asked)
    if path in WITH_A_SENTENCE:
        expect_sentence(local_page, OWN)
    expect(local_page.locator(".st-key-model input")).to_have_value(re.compile("captions only"))
    expect(local_page.get_by_role("radio", name="Greedy")).to_be_checked()


def test_pages_without_a_script_keep_the_choices_of_a_link(monkeypatch):
    """Such a page passes every choice of its link to the writer of the URL."""
    written: dict[str, str | None] = {}
    monkeypatch.setattr(address, "address", lambda values, **_: written.update(values))
    for path in (path for path in PAGES if path not in WITH_A_SCRIPT):
        link = asked = COMMON | CHOICES.get(path, {})
        for _ in range(2):
            written.clear()
            app = render(path, **link).app
            link = {name: value for name, value in written.items() if value is not None}
            assert link == asked, path
            if path in WITH_A_SENTENCE:
                assert app.text_area("source").value == OWN, path
            model = app.selectbox("model")
            assert "captions only" in model.format_func(model.value), path
            assert app.session_state["search"] == "greedy", path


def test_a_choice_is_kept_in_the_url(local_page: Page, serve):
    opened(local_page, serve, "masks", source=OWN, lesson="0")
    entries = local_page.evaluate("history.length")
    layer = local_page.locator(".st-key-closing_layer")
    layer.get_by_text("3", exact=True).click()
    expect_query(local_page, closing_layer="2")
    settled(local_page)
    assert local_page.evaluate("history.length") == entries, "a choice adds no history entry"
    local_page.reload()
    expect(layer.get_by_role("radio", name="3")).to_be_checked(timeout=30_000)
    go_to(local_page, "steps")
    local_page.go_back()
    at(local_page, "masks")
    expect(layer.get_by_role("radio", name="3")).to_be_checked(timeout=30_000)
    layer.get_by_text("1", exact=True).click()
    expect_query(local_page, closing_layer=None)


def test_only_one_of_two_explorers_writes_the_url(local_page: Page, serve, tmp_path):
    from core.translator import Translator

    saved = tmp_path / "own.npz"
    saved.write_bytes(Translator.load(ROOT / "checkpoints/scratch-de-en").inspect(OWN).to_bytes())
    local_page.add_init_script(
        """window.written = 0;
        for (const name of ["pushState", "replaceState"]) {
            const write = history[name];
            history[name] = (...given) => {
                window.written += 1;
                return write.apply(history, given);
            };
        }"""
    )
    opened(local_page, serve, source=OWN)
    local_page.locator(".st-key-take_away summary").click()
    local_page.locator(".st-key-open_record input[type=file]").set_input_files(saved)
    second = local_page.locator(".st-key-opened_explorer section[aria-label='Attention explorer']")
    expect(second).to_have_attribute("data-painted", re.compile("."), timeout=30_000)
    settled(local_page)
    before = query(local_page)
    local_page.evaluate("window.written = 0")
    second.locator(".thumbnail[data-l='0'][data-h='3']").click()
    expect(second).to_have_attribute("data-head", "3")
    local_page.wait_for_timeout(500)
    assert (query(local_page), local_page.evaluate("window.written")) == (before, 0)
    first = local_page.locator(".st-key-explorer section[aria-label='Attention explorer']")
    first.locator(".thumbnail[data-l='1'][data-h='2']").click()
    expect_query(local_page, layer="1", head="2")
    local_page.wait_for_timeout(500)
    assert local_page.evaluate("window.written") == 1


def test_an_example_closes_a_phones_sidebar(local_page: Page, serve):
    local_page.set_viewport_size({"width": 390, "height": 800})
    sidebar = local_page.locator("[data-testid=stSidebar]")
    local_page.goto(serve(MAIN))
    expect(box(local_page)).to_be_visible(timeout=60_000)
    settled(local_page)
    local_page.locator("[data-testid=stExpandSidebarButton]").click()
    expect(sidebar).to_have_attribute("data-collapsed", "false")
    local_page.get_by_role("button", name=EXAMPLES[1].title).click()
    expect(sidebar).to_have_attribute("data-collapsed", "true")
    expect_sentence(local_page, EXAMPLES[1].de)
