"""The site for static hosts: its index, gallery, tour and lessons, in pages opened from a disk."""

# ruff: noqa: E501 (lines of script and texts)

from __future__ import annotations

import base64
import dataclasses
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect
from safetensors.numpy import load_file

from app.components.assets import joined
from app.components.explorer.payload import pack, payload
from app.export import offline
from app.export import site as command
from app.export.picture import picture
from app.export.rounding import rounded_checkpoint
from app.export.tour import found_stops, tour, translator_of
from app.lessons.texts import text, verdict
from app.look.palette import sequential_table
from app.plan import parse
from core.analysis.quality_warnings import quality_warnings
from core.kinds import KINDS
from core.record.edits import OFF, Edits, PositionEdit
from core.record.record import TranslationRecord
from tests.app.conftest import opened_offline
from tests.app.page_checks import ROOT, names, percent, signed, translator
from tests.app.test_offline_page import explorer, part
from tests.app.test_tour_page import SENTENCES, shares

NAMES = {d: f"captions-{d}" for d in ("de-en", "en-de")}  # small: fast to open
FOLDERS = [ROOT / "checkpoints" / name for name in NAMES.values()]
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
SVG = "{http://www.w3.org/2000/svg}"
SENTENCE = "Ein Hund läuft durch den Schnee."
SPLIT = {"de-en": "Ein Zauberwürfel liegt im Gras.", "en-de": "A dog is chasing a rabbit."}
"""Sentences whose translations have another number of tokens."""
TYPED = "Eine Frau liest ein Buch."
VIEW = {"kind": "cross", "layer": 0, "head": 0}
ISOLATES = "\u2068\u2069"  # around words, so that right-to-left ones do not reorder others


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """The site of both directions, written by the command line."""
    out = tmp_path_factory.mktemp("site") / "a site"
    given = [text for one in FOLDERS for text in ("--checkpoint", str(one))]
    command.run(command.parser().parse_args([*given, "--out", str(out)]))
    return out


class Elements(HTMLParser):
    """The elements of a page: [(tag, attributes)], and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for found, attributes in self.found if found == tag]


@pytest.fixture(scope="module")
def index(folder) -> Elements:
    return Elements((folder / "index.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def links(index) -> list[dict[str, str]]:
    """The parameters of each link of the gallery, and its file as `page`."""
    found = [link["href"] for link in index.all("a") if "kind=" in link["href"]]
    found = [urlsplit(href) for href in found if "stop=" not in href]
    return [dict(parse_qsl(at.fragment)) | {"page": at.path} for at in found]


def record_of(link: dict[str, str]) -> TranslationRecord:
    """Return the pass that a link describes: its edits, applied to the unedited translation."""
    model = translator(NAMES[link["direction"]])
    record = model.inspect(link["source"])
    edits, problems = Edits.parse(link.get("edits", ""))
    assert not problems
    ids = [token.id for token in record.target_out]
    return (
        model.inspect(link["source"], edits=edits, target_ids=ids) if link.get("edits") else record
    )


def test_the_index_lists_everything_and_all_links_resolve(folder, index, links):
    (policy,) = (m["content"] for m in index.all("meta") if m.get("http-equiv"))
    assert policy == POLICY
    hrefs = [link["href"] for link in index.all("a")]
    for direction, names_of in (("de-en", "German → English"), ("en-de", "English → German")):
        page = f"headlight-{direction}.html"
        assert page in hrefs and names_of in index.text
        size = (folder / page).stat().st_size
        assert f"{size / 1e6:.1f} MB" in index.text
        for lesson in ("masks", "positions"):
            assert f"{page}#direction={direction}&lesson={lesson}" in hrefs
        assert any(h.startswith(f"{page}#") and h.endswith("&stop=1") for h in hrefs)
    assert all((folder / unquote(urlsplit(h).path)).is_file() for h in hrefs)
    sources = [a[name] for _, a in index.found for name in ("href", "src", "srcset") if name in a]
    assert not [s for s in sources if urlsplit(s).scheme not in ("", "data")]
    assert index.all("script") == index.all("link") == []
    assert sorted(f.name for f in folder.iterdir()) == [
        "gallery", "headlight-de-en.html", "headlight-en-de.html", "index.html",
    ]  # fmt: skip
    assert len(links) == len(index.all("img")) == len(index.all("source")) == 8
    assert [link["direction"] for link in links] == ["de-en"] * 4 + ["en-de"] * 4
    assert {link.get("edits") for link in links} == {None, "positions.source.scale-0", "causal"}
    assert all(link["page"] == f"headlight-{link['direction']}.html" for link in links)
    assert len({tuple(link.items()) for link in links}) == 8


def svg_of(url: str) -> str:
    head, _, content = url.partition(";base64,")
    assert head == "data:image/svg+xml"
    return base64.b64decode(content).decode()


@pytest.mark.parametrize("place", range(8))
def test_the_gallery_holds_the_picture_of_each_state(folder, index, links, place):
    link, record = links[place], record_of(links[place])
    state = link["kind"], int(link["layer"]), int(link["head"])
    query = int(link["q"]) if "q" in link else None
    shown = {
        "light": svg_of(index.all("img")[place]["src"]),
        "dark": svg_of(index.all("source")[place]["srcset"]),
    }
    assert shown == {theme: picture(record, *state, query, theme) for theme in shown}
    files = sorted(f for f in (folder / "gallery").iterdir() if f.name.startswith(f"{place + 1}-"))
    assert [f.name.rpartition("-")[2] for f in files] == ["dark.svg", "light.svg"]
    assert [f.read_text(encoding="utf-8") for f in files] == [shown["dark"], shown["light"]]


TITLES = dict(
    zip(
        KINDS,
        ("Encoder's self-attention", "Decoder's self-attention", "Cross-attention"),
        strict=True,
    )
)
PRODUCED = "query: {1} token being produced"
AXES = {
    "encoder": ("query: {0} token being read", "key: {0} token"),
    "decoder": (PRODUCED, "key: {1} token fed in"),
    "cross": (PRODUCED, "key: {0} token"),
}
"""The titles beside the rows and above the columns, with source and target language."""
EDITS = {"": "weight", "causal": "no causal mask"}
EDITS["positions.source.scale-0"] = "no positions in the source"
"""The line above the scale; without edits, the scale itself comes next."""


@pytest.mark.parametrize("edits", EDITS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("direction", "theme"), [("de-en", "light"), ("en-de", "dark")])
def test_a_picture_has_each_weight_at_its_row_and_column(direction, kind, theme, edits):
    model = translator(f"scratch-{direction}")
    record = model.inspect(SPLIT[direction])
    if edits:
        ids = [token.id for token in record.target_out]
        record = model.inspect(SPLIT[direction], edits=Edits.parse(edits)[0], target_ids=ids)
    svg = ElementTree.fromstring(picture(record, kind, 1, 2, 2, theme))
    rects, texts = svg.findall(f"{SVG}rect"), svg.findall(f"{SVG}text")
    weights, mask = record.maps(kind)[1, 2], record.mask(kind)
    cells = [r for r in rects if r.find(f"{SVG}title") is not None]
    assert [c.find(f"{SVG}title").text for c in cells] == [f"{w:.4f}" for w in weights[mask]]
    table = sequential_table(theme)
    colours = ["#" + bytes(table[round(float(w) * 255)].tolist()).hex() for w in weights[mask]]
    assert [cell.get("fill") for cell in cells] == colours
    size, left, top = (float(cells[0].get(of)) for of in ("width", "x", "y"))

    def places(found: list[ElementTree.Element]) -> list[tuple[int, int]]:
        at = [[(float(r.get(of)) - start) / size for r in found]
              for of, start in (("y", top), ("x", left))]  # fmt: skip
        np.testing.assert_allclose(at, np.round(at), atol=0.01)
        return list(zip(*np.round(at).astype(int).tolist(), strict=True))

    assert places(cells) == list(zip(*(n.tolist() for n in np.nonzero(mask)), strict=True))
    hatched = [r for r in rects if r.get("fill") == "url(#masked)"]
    assert sorted(places(hatched)) == [tuple(at) for at in np.argwhere(~mask).tolist()]
    (frame,) = [r for r in rects if r.get("fill") == "none"]
    assert float(frame.get("y")) == pytest.approx(top + 2 * size - 0.5, abs=0.11)
    queries = names(record.source if kind == "encoder" else record.target_out, 1)
    keys = names(*((record.target_in, 0) if kind == "decoder" else (record.source, 1)))
    languages = ("German", "English") if direction == "de-en" else ("English", "German")
    title, labels = f"{TITLES[kind]}, layer 2, head 3", [*queries, *keys]
    said = [text.text for text in texts]
    assert said[0] == title and said[3 : 4 + len(labels)] == [*labels, EDITS[edits]]
    assert [t.text for t in texts if t.get("font-weight")] == [title, queries[2]]
    for label, axis, place, first in (
        *((word, "y", at, top) for at, word in enumerate(queries)),
        *((word, "x", at, left) for at, word in enumerate(keys)),
    ):
        at = [float(t.get(axis)) for t in texts if t.text == label]
        assert any(abs(one - first - (place + 0.5) * size) < size / 3 for one in at), label
    turned = [t for t in texts if "rotate" in (t.get("transform") or "")]
    upright = sorted((t for t in texts if t not in turned), key=lambda t: float(t.get("y")))
    leftmost = min(turned, key=lambda t: float(t.get("x")))
    found = leftmost.text, upright[1 + bool(edits)].text  # below the heading and the edits
    assert found == tuple(text.format(*languages) for text in AXES[kind])


def test_captions_say_what_was_measured(index, links):
    for link in links:
        record, kind = record_of(link), link["kind"]
        layer, head = int(link["layer"]), int(link["head"])
        if edits := link.get("edits"):
            before = translator(NAMES[link["direction"]]).inspect(link["source"])
            maps = [one.maps(kind)[layer, head] for one in (before, record)]
            if edits == "causal":
                shown = [percent(np.triu(m, 1)[:-1].sum(-1).mean()) for m in maps]
                said = (
                    f"In all rows but the last, layer {layer + 1} head {head + 1} of the decoder puts "
                    f"{shown[0]} of its weight on later tokens. Without the causal mask, these rows may "
                    f"attend to later tokens, and put {shown[1]} of their weight there."
                )
            else:
                shown = [percent(np.diagonal(m, -1).mean()) for m in maps]
                said = (
                    f"Layer {layer + 1} head {head + 1} of the encoder puts {shown[0]} of its weight on "
                    f"the token before. Without the source's positions, it puts {shown[1]} on that token."
                )
        else:
            number = SENTENCES[link["direction"]].index(link["source"])
            of_kind, share = shares(record, link["direction"], number)
            assert (of_kind, *np.unravel_index(share.argmax(), share.shape)) == (kind, layer, head)
            said = f"comes first: it puts {percent(share.max())} of its weight"
        assert said in index.text
        assert f"{record.source_text} → {record.translation}" in index.text


def test_stops_that_a_network_does_not_show_are_left_out():
    model = translator("captions-en-de")
    found = tour("en-de", model.inspect)
    missing = "A man wants to buy a washing machine."
    assert [stop["source"] for stop in found] == [s for s in SENTENCES["en-de"] if s != missing]
    with pytest.raises(IndexError):
        shares(model.inspect(missing), "en-de", 0)
    assert tour("fr-en", model.inspect) == []


def test_the_tours_numbers_are_those_of_the_rounded_weights(tmp_path):
    """Each row of a matrix is rounded to 127 steps of its own float16 scale; vectors are not."""
    model = translator_of(FOLDERS[0], int8=True)
    weights = load_file(FOLDERS[0] / "model.safetensors")
    with model.exclusive_model() as network:
        for name, parameter in network.named_parameters():
            exact = weights[name].astype(np.float32)
            if exact.ndim == 2:
                scale = (np.abs(exact).max(1) / 127).astype(np.float16).astype(np.float32)[:, None]
                exact = np.clip(np.round(exact / scale), -127, 127) * scale
            np.testing.assert_array_equal(parameter.detach().numpy(), exact)
    for number, stop in enumerate(tour("de-en", model.inspect)):
        record = model.inspect(stop["source"])
        kind, share = shares(record, "de-en", number)
        layer, head = np.unravel_index(share.argmax(), share.shape)
        assert stop["measured"][1] == percent(share.max())
        expected = {"kind": kind, "layer": str(layer), "head": str(head)}
        assert {name: stop["view"][name] for name in expected} == expected
        assert stop["translation"] == record.translation


def test_weights_of_16_bits_are_rounded_too():
    """A checkpoint may hold 32-bit floats, such as dequantised 8-bit weights."""
    with rounded_checkpoint(FOLDERS[0]) as folder:
        weights = load_file(folder / "model.safetensors")
        model = translator_of(folder, int8=False)
    exact = True
    with model.exclusive_model() as network:
        for name, parameter in network.named_parameters():
            expected = weights[name].astype(np.float16).astype(np.float32)
            np.testing.assert_array_equal(parameter.detach().numpy(), expected)
            exact &= bool((expected == weights[name]).all())
    assert not exact


@pytest.mark.parametrize(
    ("count", "out", "line"),
    [
        (2, "out", "de-en, de-en: give one checkpoint per direction"),
        (1, "file", "--out .*file.* cannot be written"),
    ],
)
def test_bad_arguments_get_one_clear_line(tmp_path, count, out, line):
    (tmp_path / "file").touch()
    given = ["--checkpoint", str(FOLDERS[0])] * count
    arguments = command.parser().parse_args([*given, "--out", str(tmp_path / out)])
    with pytest.raises(ValueError, match=line):
        command.run(arguments)
    assert not (tmp_path / "out").exists()


def opened(
    context: BrowserContext, file: Path, state: str = "", query: str = ""
) -> AbstractContextManager[Page]:
    """Open a page of the site; fail if the page makes a request or raises an error."""
    address = f"{file.as_uri()}{query}#{state}"
    return opened_offline(context, address, file.parent.as_uri())


@pytest.fixture
def german(offline_context, folder) -> Iterator[Callable[..., Page]]:
    """Return `german(state) -> page`, which loads the page for German → English at a state."""
    stack = []

    def german(state: str = "", query: str = "") -> Page:
        stack.append(opened(offline_context, folder / "headlight-de-en.html", state, query))
        return stack[-1].__enter__()

    yield german
    while stack:
        stack.pop().__exit__(None, None, None)


def expect_translation(page: Page, record: TranslationRecord) -> None:
    expect(page.locator("#translation")).to_have_text(record.translation)


def enter(page: Page, text: str) -> None:
    part(page, "source").fill(text)
    part(page, "form").get_by_role("button", name="Translate").click()


def expect_view(page: Page, record: TranslationRecord, view: dict[str, str]) -> None:
    """Expect a sentence's head in the explorer, and its row pinned."""
    expect(part(page, "source")).to_have_value(record.source_text)
    root = explorer(page)
    expect(root).to_have_attribute("data-kind", view["kind"])
    expect(page.locator("[data-page='result'][aria-busy=false]")).to_have_count(1)
    for name, value in (
        ("layer", view["layer"]),
        ("head", view["head"]),
        ("query", view.get("q", "")),
    ):
        expect(root).to_have_attribute(f"data-{name}", value)
    expect_translation(page, record)


def test_gallery_links_open_the_state_that_the_picture_shows(offline_context, folder, links):
    with opened(offline_context, folder / "index.html") as page:
        expect(page.locator("figure img").first).to_be_visible()
        assert page.evaluate(
            "[...document.images].every((image) => image.complete && image.naturalWidth > 100)"
        )
        for place in (0, 2, 3):  # a stop of the tour, and both edits
            page.goto(f"{folder.as_uri()}/index.html")
            page.locator("figure a:has(img)").nth(place).click()
            record = record_of(links[place])
            expect_view(page, record, links[place])
            edits = page.locator(".explorer [data-part=edits] li")
            expect(edits).to_have_count(int("edits" in links[place]))


def test_the_tour_opens_the_heads_that_it_describes(german):
    page = german()
    expect(explorer(page)).to_be_visible()
    part(page, "tour-start").click()
    model = translator("captions-de-en")
    stops = list(found_stops("de-en", model.inspect))
    assert len(stops) == 6
    for number, found in enumerate(stops):
        expect(part(page, "tour-title")).to_have_text(found.stop.title)
        expect(part(page, "tour-place")).to_have_text(f"Stop {number + 1} of 6, German → English")
        kind, share = shares(found.record, "de-en", number)
        layer, head = (int(n) for n in np.unravel_index(share.argmax(), share.shape))
        view = {"kind": kind, "layer": str(layer), "head": str(head)}
        if kind == "cross":
            view["q"] = str(found.shown.query)
        expect_view(page, found.record, view)
        measured = part(page, "tour-measured")
        assert measured.locator("b").inner_text() == percent(share.max())
        expect(measured).to_contain_text(f"layer {layer + 1} head {head + 1} comes first")
        tokens = f"The model reads {len(found.record.source)} tokens"
        expect(part(page, "tour-tokens")).to_contain_text(tokens)
        assert f"stop={number + 1}" in page.url
        assert part(page, "tour-back").is_disabled() == (number == 0)
        assert part(page, "tour-next").is_disabled() == (number == 5)
        assert part(page, "tour-end").is_visible() == (number == 5)
        assert part(page, "tour-other").is_hidden()  # this file holds one direction
        if number < 5:
            part(page, "tour-next").click()
    part(page, "tour-back").click()
    expect(part(page, "tour-title")).to_have_text(stops[4].stop.title)


def test_the_tour_goes_on_in_the_other_direction(offline_context, offline_file):
    last = SENTENCES["de-en"][-1]
    with opened(
        offline_context, offline_file, f"stop=6&direction=de-en&source={quote(last)}"
    ) as page:
        expect(part(page, "tour-end")).to_be_visible()
        part(page, "tour-other").click()
        expect(part(page, "tour-place")).to_have_text("Stop 1 of 6, English → German")
        second = SENTENCES["en-de"][1]  # the first one is left out
        expect(part(page, "source")).to_have_value(second)
        expect(part(page, "tour-other")).to_be_hidden()
        expect_translation(page, translator("captions-en-de").inspect(second))


def test_the_tour_never_blocks_free_use(german):
    page = german("stop=2&direction=de-en&source=" + quote(SENTENCES["de-en"][1]))
    expect(part(page, "tour-place")).to_have_text("Stop 2 of 6, German → English")
    expect(part(page, "tour-again")).to_be_hidden()
    enter(page, TYPED)
    expect_translation(page, translator("captions-de-en").inspect(TYPED))
    expect(part(page, "tour")).to_be_visible()
    part(page, "tour-again").click()
    expect(part(page, "source")).to_have_value(SENTENCES["de-en"][1])
    part(page, "tour-close").click()
    expect(part(page, "tour")).to_be_hidden()
    assert "stop=" not in page.url
    expect(explorer(page)).to_be_visible()
    with page.expect_event("framenavigated"):
        page.reload()
    expect(part(page, "tour")).to_be_hidden()


ODD = "Ein 😀 und ein 東 laufen."
PLAN = f"1~masks.{ODD}~tour.ahead~why.{TYPED}~tour.no-mask~translate.{TYPED}"


def test_a_plan_is_walked_in_the_offline_page(offline_context, tmp_path):
    """The page opens with the plan's first stop, warns as the app does, and says what it lacks."""
    made, said = parse(PLAN, "de-en")
    assert len(made.stops) == 5 and said == ""
    network = offline.network(FOLDERS[0], plan=made)
    file = tmp_path / "plan.html"
    file.write_text(offline.page([network]), encoding="utf-8")
    translate = translator(NAMES["de-en"]).inspect
    left_out = (
        "Not in this page: Stop 3, Ask why: this page needs the app; Stop 4, No mask: its "
        "comparison exists in the app only."
    )
    with opened(offline_context, file) as page:
        expect(part(page, "tour-place")).to_have_text("Stop 1 of 3, German → English")
        expect(part(page, "tour-title")).to_have_text("Masks")
        root = lesson(page, "masks", ODD)
        expect(root.locator("[data-part=more]")).to_contain_text("Only in the app: the masks of a")
        warning = part(page, "doubts")
        expect(warning).to_be_visible()
        found = dataclasses.replace(quality_warnings(translate(ODD)), probability=None)
        reasons = found.reasons("German")
        assert any(r.endswith("“😀”, “東” and reads them as <unk>") for r in reasons)
        expect(warning).to_contain_text(f"Do not trust this translation: {'; '.join(reasons)}. ")
        expect(part(page, "tour-back")).to_be_disabled()
        part(page, "tour-next").click()
        ahead = translate("Zwei Hunde laufen durch den Schnee.")
        expect(part(page, "tour-title")).to_have_text("Never ahead")
        expect_translation(page, ahead)
        expect(explorer(page)).to_have_attribute("data-kind", "decoder")
        expect(page.locator(".lessons")).to_be_hidden()
        expect(warning).to_be_empty()
        expect(part(page, "tour-left-out")).to_be_empty()
        part(page, "tour-next").click()
        expect(part(page, "tour-title")).to_have_text("Translate")
        expect_translation(page, translate(TYPED))
        expect(part(page, "tour-next")).to_be_disabled()
        expect(part(page, "tour-end")).to_have_text("The plan ends here.")
        expect(part(page, "tour-left-out")).to_have_text(left_out)
        part(page, "tour-back").click()
        expect(part(page, "tour-title")).to_have_text("Never ahead")
        part(page, "tour-close").click()
        expect(part(page, "tour")).to_be_hidden()
        expect(part(page, "tour-start")).to_have_text("Start the plan")
        page.evaluate("window.location.hash = 'stop=99'")
        expect(part(page, "problem")).to_have_text(
            "This link opens stop “99”, and the plan has stops 1 to 3: use its buttons."
        )
        part(page, "tour-start").click()
        lesson(page, "masks", ODD)
        expect(part(page, "problem")).to_be_empty()


LESSON = ".lessons[data-shown='{}'][aria-busy='false']"


def lesson(page: Page, name: str, text: str) -> Locator:
    """Wait until a lesson shows a sentence."""
    root = page.locator(LESSON.format(name))
    expect(root.locator("[data-part=sentence]")).to_contain_text(text)
    return root


def section(root: Locator, title: str) -> Locator:
    return root.locator("section.part", has=root.page.get_by_role("heading", name=title))


def rows(table: Locator) -> list[list[str]]:
    return table.locator("tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent.replace(/[\\u2068\\u2069]/g, '')))"
    )


def passes(text: str, edits: Edits) -> tuple[TranslationRecord, TranslationRecord]:
    model = translator("captions-de-en")
    before = model.inspect(text)
    return before, model.inspect(text, edits=edits, target_ids=[t.id for t in before.target_out])


def assert_passes(shown: Locator, records: tuple[TranslationRecord, ...], kind: str) -> None:
    """Compare a section's table of probabilities, and one cell of its maps, with two passes."""
    expected = [[percent(float(np.exp(p))) for p in one.log_probs] for one in records]
    expect(shown.locator("tbody tr td:nth-child(3)")).to_have_text(expected[1])
    words = names(records[0].target_out, 1)
    assert rows(shown.locator("table")) == [list(row) for row in zip(words, *expected, strict=True)]
    row = shown.locator(".row-place")
    row.get_by_role("radio", name="layer 3").check()
    row.get_by_role("radio", name="head 2").check()
    canvas = row.locator("canvas").first
    at = canvas.evaluate("({ dataset: { left, top, cell } }) => [left, top, cell].map(Number)")
    canvas.click(position={"x": at[0] + 0.5 * at[2], "y": at[1] + 2.5 * at[2]})  # query 2, key 0
    root = row.locator(".map-row")
    expect(root).to_have_attribute("data-query", "2")
    values = [float(v) for v in root.get_attribute("data-values").split()]
    before, after = (float(one.maps(kind)[2, 1, 2, 0]) for one in records)
    assert values == pytest.approx([before, after, after - before], abs=2e-5)
    expect(row.locator(".title")).to_contain_text("layer 3, head 2")


def test_the_lesson_on_masks_shows_any_sentence_with_and_without_them(german):
    page = german(f"lesson=masks&source={quote(SENTENCE)}")
    root = lesson(page, "masks", SENTENCE)
    expect(explorer(page)).to_have_count(0)
    problem = page.locator(".lessons [data-part=problem]")
    for typed, said in (("Hund " * 120, "the limit is"), (TYPED, "")):
        enter(page, typed)
        expect(problem).to_contain_text(said) if said else expect(problem).to_be_empty()
    root = lesson(page, "masks", TYPED)
    before, opened_ = records = passes(TYPED, Edits(causal_mask=False))
    T, S = len(before.target_out), len(before.source)
    counted = section(root, text("masks", "cells.heading"))
    sizes = {"cells": T * T, "encoder_cells": S * S, "cross_cells": T * S}
    none = {"encoder_masked": 0, "cross_masked": 0}
    masked = {"masked": T * (T - 1) // 2, "share": percent((T - 1) / 2 / T)}
    expect(counted).to_contain_text(text("masks", "cells.counted", **sizes, **none, **masked))
    causal = section(root, text("masks", "causal.heading"))
    closed, free = (np.exp(r.log_probs.astype(float)) for r in records)
    gain = free.mean() - closed.mean()
    future = np.triu(opened_.decoder.mean((0, 1)), 1)[:-1].sum(-1).mean()
    values = {"count": T, "more": (free > closed).sum(), "less": (free < closed).sum()}
    values |= {"before": percent(closed.mean()), "after": percent(free.mean())}
    values |= {"change": signed(gain), "future": percent(float(future))}
    values["verdict"] = text("masks", f"causal.{verdict('masks', 'causal', gain)}")
    said = text("masks", "causal.measured", **values)
    expect(causal).to_contain_text(said.replace("**", ""))
    assert_passes(causal, records, "decoder")
    hidden = section(root, text("masks", "word.heading"))
    words = hidden.locator("select")
    offered = [text.strip(ISOLATES) for text in words.locator("option").all_inner_texts()]
    assert offered == ["Eine", "Frau", "liest", "ein", "Buch", "."]
    words.select_option(index=1)
    without = Edits(hidden_source=(1,))
    again = translator("captions-de-en").inspect(TYPED, edits=without).translation
    expect(hidden.locator(".texts")).to_have_text(
        f"with the word: {before.translation}without it: {again}"
    )
    assert_passes(hidden, passes(TYPED, without), "cross")
    root.get_by_role("button", name="Back to the attention maps").click()
    expect(explorer(page)).to_be_visible()
    expect_translation(page, before)
    assert "lesson=" not in page.url


def test_a_pass_of_a_lesson_has_the_probabilities_that_were_recorded(offline_context):
    """They are not rounded: a tiny one is not 0, which would read as impossible."""
    record = translator("captions-de-en").inspect(TYPED)
    tiny = np.full(len(record.target_out), -20, "<f4")
    more = {"log_probs": tiny.tobytes(), "positions": record.source_positions.tobytes()}
    packed = base64.b64encode(pack(payload(record, VIEW, host=None) | more)).decode()
    page = offline_context.new_page()
    page.set_content(f"<script>{joined(ROOT / 'app/components/offline/passes.js')}</script>")
    reading = "(text) => readPass(Uint8Array.fromBase64(text)).probabilities"
    assert page.evaluate(reading, packed) == pytest.approx([np.exp(-20)] * len(tiny), rel=1e-6)
    page.close()


def test_the_lesson_on_positions_removes_and_shuffles_them(german):
    page = german(f"lesson=positions&source={quote(TYPED)}")
    root = lesson(page, "positions", TYPED)
    model = translator("captions-de-en")
    before = model.inspect(TYPED)
    alike = section(root, text("positions", "products.heading"))
    products = before.source_positions.astype(float) @ before.source_positions.T.astype(float)
    row = alike.locator(".map-row")
    at = row.locator("canvas").evaluate(
        "({ dataset: { left, top, cell } }) => [left, top, cell].map(Number)"
    )
    row.locator("canvas").click(position={"x": at[0] + 4.5 * at[2], "y": at[1] + 1.5 * at[2]})
    assert float(row.get_attribute("data-values")) == pytest.approx(products[1, 4], rel=1e-5)
    expect(alike).to_contain_text("the product depends on the distance alone.")
    edited = section(root, text("positions", "heading.what-if"))
    choices, sides = edited.locator("select").all()
    assert (choices.input_value(), sides.input_value()) == ("off", "both")
    forms = {
        ("off", "both", ""): Edits(source_positions=OFF, target_positions=OFF),
        ("shuffled", "source", ""): Edits(
            source_positions=PositionEdit.shuffled(1, len(before.source))
        ),
        ("shifted", "both", "-2"): Edits(
            source_positions=PositionEdit(shift=-2), target_positions=PositionEdit(shift=-2)
        ),
    }
    for (change, side, number), edits in forms.items():
        choices.select_option(change)
        sides.select_option(side)
        boxes = edited.locator("input[type=number]:visible")
        expect(boxes).to_have_count(int(change in ("shuffled", "shifted")))
        if number:
            boxes.fill("9999")
            boxes.press("Enter")
            expect(boxes).to_have_value({"shuffled": "1", "shifted": "5"}[change])
            boxes.fill(number)
            boxes.press("Enter")
        again = model.inspect(TYPED, edits=edits).translation
        expect(edited.locator(".texts")).to_have_text(
            f"as trained: {before.translation}edited: {again}"
        )
        assert_passes(edited, passes(TYPED, edits), "encoder")
        page.keyboard.press("Escape")
    root.get_by_role("button", name="Lesson: Masks").click()
    lesson(page, "masks", TYPED)


def test_embedded_pages_show_the_explorer_alone(german):
    page = german(f"source={quote(TYPED)}&kind=encoder&layer=1&head=2", "?embed=1")
    expect(explorer(page)).to_have_attribute("data-kind", "encoder")
    expect_translation(page, translator("captions-de-en").inspect(TYPED))
    visible = """() => [...document.querySelectorAll("body *")].filter((one) =>
      one.checkVisibility() && one.getClientRects().length && !one.closest(".explorer") && !one.querySelector(".explorer")
    ).map((one) => one.outerHTML.slice(0, 80))"""
    assert page.evaluate(visible) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto(page.url.replace("?embed=1", "?embed=0"))
    expect(explorer(page)).to_be_visible()
    assert len(page.evaluate(visible)) > 20


def test_the_walk_through_names_what_a_phone_shows(german, folder):
    """Every name in italics is the text of something on the page, and nothing is too wide."""
    text = (ROOT / "app/export/README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", text.partition("## Ten minutes")[2]))
    assert len(named) > 8
    source = SENTENCES["de-en"][0]
    page = german(f"source={quote(source)}&stop=1")
    page.set_viewport_size({"width": 390, "height": 844})
    wide = "document.documentElement.scrollWidth"
    expect(explorer(page)).to_be_visible()
    expect(page.get_by_role("region", name="A word that moves")).to_be_visible()
    expect(page.get_by_text("Pictures checked: ")).to_be_visible()  # shown after the first paint
    found = page.locator("body").inner_text()
    assert page.evaluate(wide) == 390
    part(page, "lessons").get_by_role("button", name="Lesson: positions").click()
    found += lesson(page, "positions", source).inner_text()
    found += " ".join(page.locator(".lessons option").all_inner_texts())
    assert {name for name in named if name not in found} == set()
    assert page.evaluate(wide) == 390
    expect(page.get_by_role("heading", name="Positions", exact=True)).to_be_focused()
    expect(page.get_by_role("region", name="A word that moves")).to_be_hidden()
    page.goto((folder / "index.html").as_uri())
    assert page.evaluate(wide) == 390
