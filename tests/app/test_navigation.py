"""Navigation in a browser: Back, links, reloads, the source box, and writers of the URL."""

import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Page, expect

from app.examples import EXAMPLES
from app.state import address
from app.views import SETTINGS, VIEWS
from tests.app.page_checks import record
from tests.app.rendered import read, render, unpacked

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "app/main.py"
OWN = "Der Hund schläft im Garten."
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
    expect(page.locator(".st-key-navigation nav")).to_be_visible(timeout=60_000)
    settled(page)


def go_to(page: Page, path: str) -> None:
    pages = page.locator(".st-key-navigation")
    expect(pages.locator("[aria-current=page]")).to_have_count(1)
    group = pages.locator("details", has_text=VIEWS[path].group)
    if group.get_attribute("open") is None:
        group.locator("summary").click()
    group.get_by_role("link", name=VIEWS[path].title).click()
    at(page, path)


def at(page: Page, path: str) -> None:
    """Wait until a page is open and drawn."""
    page.wait_for_function("path => location.pathname === `/${path}`", arg=path, timeout=10_000)
    if path:
        heading = page.get_by_role("heading", name=VIEWS[path].title, exact=True)
        expect(heading).to_be_visible(timeout=30_000)
    settled(page)
    expect(page.locator("[data-testid=stException]")).to_have_count(0)


def box(page: Page):
    return page.locator(".st-key-source textarea")


def expect_sentence(page: Page, text: str) -> None:
    """Wait until the source box holds this text; its script may still have to load."""
    expect(box(page)).to_have_value(text, timeout=30_000)


def apply(page: Page, text: str) -> None:
    box(page).fill(text, timeout=90_000)  # the first page of a server on a busy machine
    box(page).press("Enter")
    expect_query(page, source=text)
    settled(page)


def choose(page: Page, setting: str, name: str) -> None:
    page.locator(f".st-key-{setting}").get_by_role("combobox").click()
    page.get_by_role("option", name=name, exact=True).click()


def test_back_and_forward_lead_through_the_pages(local_page: Page, serve):
    """Back restores the page, its sentence and its search.

    Each page adds a history entry, and so does each sentence or search on a page that asks for one.

    The pages are one with each script that writes to the URL, and one without any.
    """
    opened(local_page, serve, source=OWN, search="greedy")
    entries = local_page.evaluate("history.length")
    go_to(local_page, "steps")
    apply(local_page, "Ein Hund.")
    choose(local_page, "search", "Beam 5")
    expect_query(local_page, search="beam")
    pages = ["steps", "heads", "masks", "training", "tour"]
    for path in pages[1:]:
        go_to(local_page, path)
        expect_query(local_page, source="Ein Hund.", search="beam")
        expect(local_page).to_have_title(f"{VIEWS[path].title} · Headlight")
    assert local_page.evaluate("history.length") == entries + len(pages) + 2
    for path in ["training", "masks", "heads", "steps"]:
        local_page.go_back()
        at(local_page, path)
        expect_query(local_page, source="Ein Hund.", search="beam")
        if VIEWS[path].own_sentence:
            expect_sentence(local_page, "Ein Hund.")
    for source, search in (("Ein Hund.", "greedy"), (OWN, "greedy")):
        local_page.go_back()
        expect_query(local_page, source=source, search=search)
        expect_sentence(local_page, source)
        settled(local_page)
    local_page.go_back()
    at(local_page, "")
    expect_sentence(local_page, OWN)
    expect_query(local_page, source=OWN, search="greedy")
    local_page.go_forward()
    at(local_page, "steps")
    expect_sentence(local_page, OWN)
    assert local_page.evaluate("history.length") == entries + len(pages) + 2


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


def test_invalid_values_in_a_link_are_ignored():
    nonsense = {"direction": "fr-it", "model": "x", "search": "wide", "closing_layer": "99"}
    nonsense |= {"source": "  ", "closing_fill": "-1", "mask_kind": ""}
    page = render("masks", **nonsense)
    (said,) = page.texts("link_note", "caption")
    for name in ("direction “fr-it”", "model “x”", "search “wide”"):
        assert f"This link's {name} is not available here: " in said
    assert page.app.text_area("source").value == EXAMPLES[0].de
    sent = {name: value for (values,) in page.payloads.values() if isinstance(values, dict)
            for name, value in values.get("values", {}).items()}  # fmt: skip
    assert {name: sent[name] for name in nonsense} == {
        "direction": "de-en", "model": "scratch", "search": "beam", "source": EXAMPLES[0].de,
        "closing_layer": None, "closing_fill": None, "mask_kind": None,
    }  # fmt: skip


def test_a_link_to_an_unknown_head_says_what_is_shown():
    """On every page that opens with a link's head; a link that fits has no such line."""
    for path in ("", "head", "together"):
        link = {"source": OWN, "kind": "foo", "layer": "99", "head": "1"}
        page = render(path, **link)
        (said,) = page.texts("link_note", "caption")
        assert said == (
            "This link's kind “foo” is not available here: cross is shown instead. This link's "
            "layer “100” is not available here: 3 is shown instead."  # the second-to-last of four
        )
        page.app.text_area("source").set_value("Ein Hund.").run()
        assert read(page.app).texts("link_note", "caption") == [said]
        fits = render(path, **(link | {"kind": "decoder", "layer": "mean"}))
        assert not fits.texts("link_note")
        rows = len(record(OWN, "scratch-de-en").target_out)
        cell = render(path, source=OWN, kind="cross", q="77", k="-4")
        (said,) = cell.texts("cell_note", "caption")
        assert said.startswith(f"This link's row “78” is not in this map of {rows} rows. ")
        assert "This link's column “-4” is not in this map of " in said
        assert not render(path, source=OWN, kind="cross", q=str(rows - 1)).texts("cell_note")


def test_parameters_of_another_page_leave_the_url():
    given = {"source": OWN, "layer": "2", "stop": "3", "bug": "2", "other": "kept"}
    left = {"": ["bug", "stop"], "masks": ["bug", "layer", "stop"], "tour": ["bug"]}
    for path, names in left.items():
        page = render(path, **given)
        found = page.payloads.get("address_leftover", [{"values": {}}])[0]["values"]
        assert sorted(found) == names and not any(found.values())


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
    go_to(local_page, "")
    expect_sentence(local_page, OWN)
    expect(local_page.locator(".st-key-translation")).to_contain_text("dog", timeout=30_000)


def test_the_other_direction_takes_the_translation():
    """An example becomes its counterpart; switching back restores the sentence."""
    page = render("", search="greedy")
    for source, translated in ((EXAMPLES[0].de, EXAMPLES[0].en), (OWN, "")):
        box = page.app.text_area("source")
        if not translated:
            box.set_value(source).run()
            translated = unpacked(read(page.app).payload("explorer"))[0]["translation"]
        page.app.selectbox("direction").set_value("en-de").run()
        assert page.app.text_area("source").value == translated
        assert unpacked(read(page.app).payload("explorer"))[0]["source_text"] == translated
        page.app.selectbox("direction").set_value("de-en").run()
        assert page.app.text_area("source").value == source


def test_a_sentence_is_one_line_enter_translates_and_a_target_is_applied(local_page: Page, serve):
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
    local_page.locator(".st-key-another_translation summary").click()
    target = local_page.locator(".st-key-target input")
    area.press("Enter")
    expect_query(local_page, source=OWN)
    settled(local_page)
    target.fill("A dog sleeps.")
    for _ in range(2):
        local_page.locator(".st-key-use_reference button").click()
        settled(local_page)
        expect(target).to_have_value("A dog sleeps.")
        expect(local_page.locator(".st-key-translation")).to_have_text("A dog sleeps.")
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
        {"values": {"kind": "decoder"}},
        {"values": {"stop": "3"}, "entry": ["kind"]},
        {"values": {"kind": "encoder"}},
    ) == [
        ["?source=a&stop=1&kind=cross", 0],
        ["?source=a&stop=1&kind=cross", 0],
        ["?source=b&stop=1&kind=cross&search=beam", 0],
        ["?source=b&stop=1&kind=cross", 0],
        ["?source=b&stop=1&kind=cross&model=x", 0],
        ["?source=b&stop=2&model=x", 1],
        ["?source=b&stop=2&model=x", 1],
        ["?source=b&stop=2&model=x&edits=causal", 2],
        ["?source=b&stop=2&model=x&edits=causal&kind=decoder", 2],
        ["?source=b&stop=3&model=x&edits=causal", 3],
        ["?source=b&stop=3&model=x&edits=causal&kind=encoder", 3],
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


CHOICES = {
    "steps": {"path_maps": "True", "kind": "decoder", "layer": "0", "head": "1"},
    "head": {"kind": "encoder", "layer": "1", "head": "2", "q": "3", "k": "0"},
    "why": {"why_for": "2"},
    "heads": {"head": "cross.1.2"},
    "literature": {"literature_claim": "few-heads-matter"},
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


EXPLORER = set("kind layer head view words hide sort effect combine quantity mass q k".split())
OF_SCRIPTS = {path: EXPLORER for path in ("", "steps", "together", "tour")}
OF_SCRIPTS |= {"heads": {"head"}, "training": EXPLORER | {"sentence", "step"}}
OF_SCRIPTS |= {"bugs": {"bug_layer", "bug_head"}, "comparison": {"compare_layer", "compare_scale"}}
"""The parameters that a page's script writes to the URL, instead of Python."""


@pytest.mark.parametrize("path", ["steps", "bugs", "training"])  # Heads has its own
def test_scripts_keep_the_choices_of_a_link(local_page: Page, serve, path):
    asked = COMMON | CHOICES[path]
    opened(local_page, serve, path, **asked)
    expect(local_page.locator("[data-testid=stException]")).to_have_count(0)
    expect_query(local_page, **asked)


@pytest.mark.parametrize("path", VIEWS)
def test_every_page_keeps_the_choices_of_a_link(monkeypatch, path):
    """Each choice has one writer: with two, whichever happened to write last would win."""
    written: list[dict[str, str | None]] = []
    monkeypatch.setattr(address, "address", lambda values, **_: written.append(values))
    asked = COMMON | CHOICES.get(path, {})
    app = render(path, **asked).app
    names = [name for values in written for name in values]
    own = OF_SCRIPTS.get(path, set())
    assert len(names) == len(set(names)) and not own & set(names)
    kept = {n: v for values in written for n, v in values.items() if v is not None}
    assert kept == {name: value for name, value in asked.items() if name not in own}
    if VIEWS[path].own_sentence:
        assert app.text_area("source").value == OWN
    chosen = {name: app.session_state[name] for name in SETTINGS}
    assert chosen == {"direction": "de-en", "model": "captions", "search": "greedy"}
    drawn = {box.key for box in app.selectbox} & set(SETTINGS)
    assert drawn == set(VIEWS[path].settings), "a setting stands where it does something"


def test_a_choice_is_kept_in_the_url(local_page: Page, serve):
    opened(local_page, serve, "masks", source=OWN, lesson="0", closing_layer="1")
    entries = local_page.evaluate("history.length")
    layer = local_page.locator(".st-key-closing_layer")
    layer.get_by_text("3", exact=True).click()
    expect_query(local_page, closing_layer="2")
    settled(local_page)
    assert local_page.evaluate("history.length") == entries, "a choice adds no history entry"
    local_page.reload()
    expect(layer.get_by_role("radio", name="3")).to_be_checked(timeout=30_000)
    go_to(local_page, "quiz")
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
    with local_page.expect_download() as download:  # a notebook of what the page shows now
        local_page.get_by_role("button", name="Notebook (.ipynb)").click()
    made = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    lines = "".join(made["cells"][2]["source"]).splitlines()
    assert {'KIND = "cross"', "LAYER = 1", "HEAD = 2", f"SOURCE = {OWN!r}"} <= {
        line.partition("  #")[0] for line in lines
    }
