"""The site for static hosts: its index, gallery, tour and lessons, in pages opened from a disk."""

# ruff: noqa: E501 (lines of script and texts)

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
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
from app.lessons.texts import text
from app.look.palette import sequential_table
from app.plan import parse
from core.analysis.quality_warnings import quality_warnings
from core.kinds import KINDS
from core.record.edits import OFF, Edits, PositionEdit
from core.record.record import TranslationRecord
from tests.app.conftest import opened_offline
from tests.app.page_checks import ROOT, names, percent, translator
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


def test_the_index_lists_everything_and_all_links_resolve(folder, index):
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


def test_the_gallery_has_eight_pictures_and_both_kinds_of_edits(index, links):
    assert len(links) == len(index.all("img")) == len(index.all("source")) == 8
    assert [link["direction"] for link in links] == ["de-en"] * 4 + ["en-de"] * 4
    assert {link.get("edits") for link in links} == {None, "positions.source.scale-0", "causal"}
    assert all(link["page"] == f"headlight-{link['direction']}.html" for link in links)
    assert len({tuple(link.items()) for link in links}) == 8


def svg_of(url: str) -> ElementTree.Element:
    head, _, content = url.partition(";base64,")
    assert head == "data:image/svg+xml"
    return ElementTree.fromstring(base64.b64decode(content))


# By direction and kind: the titles beside the rows and above the columns.
_PRODUCED = "query: {} token being produced"
AXIS_TITLES = {
    direction: {
        "encoder": (f"query: {source} token being read", f"key: {source} token"),
        "decoder": (_PRODUCED.format(target), f"key: {target} token fed in"),
        "cross": (_PRODUCED.format(target), f"key: {source} token"),
    }
    for direction, (source, target) in {
        "de-en": ("German", "English"),
        "en-de": ("English", "German"),
    }.items()
}


def axis_titles(svg: ElementTree.Element) -> tuple[str, str]:
    """Return the titles of rows (turned, left of all labels) and columns (above all labels)."""
    texts = svg.findall(f"{SVG}text")
    turned, upright = (
        [t for t in texts if ("rotate" in (t.get("transform") or "")) == is_turned]
        for is_turned in (True, False)
    )
    leftmost = min(turned, key=lambda text: float(text.get("x")))
    _, second = sorted(upright, key=lambda text: float(text.get("y")))[:2]  # below the heading
    return leftmost.text, second.text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", AXIS_TITLES)
def test_the_axes_of_a_picture_are_named_and_labelled_at_their_rows_and_columns(direction, kind):
    record = translator(f"scratch-{direction}").inspect(SPLIT[direction])
    svg = ElementTree.fromstring(picture(record, kind, 1, 2))
    assert axis_titles(svg) == AXIS_TITLES[direction][kind]
    queries = names(record.source if kind == "encoder" else record.target_out, 1)
    keys = names(*((record.target_in, 0) if kind == "decoder" else (record.source, 1)))
    rects = [r for r in svg.findall(f"{SVG}rect") if float(r.get("width")) < 40]
    size, left, top = (
        float(min(rects, key=lambda r: float(r.get(of))).get(of)) for of in ("width", "x", "y")
    )
    texts = svg.findall(f"{SVG}text")
    for labels, axis, first in ((queries, "y", top), (keys, "x", left)):
        for place, label in enumerate(labels):
            middle = first + (place + 0.5) * size
            at = [float(t.get(axis)) for t in texts if t.text == label]
            assert any(abs(one - middle) < size / 3 for one in at), (axis, place, label)


@pytest.mark.parametrize("place", range(8))
def test_a_picture_shows_the_state_that_it_links_to(folder, index, links, place):
    link, record = links[place], record_of(links[place])
    kind, layer, head = link["kind"], int(link["layer"]), int(link["head"])
    weights, mask = record.maps(kind)[layer, head], record.mask(kind)
    light, dark = (
        svg_of(index.all("img")[place]["src"]),
        svg_of(index.all("source")[place]["srcset"]),
    )
    drawn = {"light": light, "dark": dark}
    for theme, svg in drawn.items():
        cells = [cell for cell in svg.findall(f"{SVG}rect") if cell.find(f"{SVG}title") is not None]
        assert [cell.find(f"{SVG}title").text for cell in cells] == [
            f"{weight:.4f}" for weight in weights[mask].tolist()
        ]
        table = sequential_table(theme)
        colours = ["#" + bytes(table[round(float(w) * 255)].tolist()).hex() for w in weights[mask]]
        assert [cell.get("fill") for cell in cells] == colours
        hatched = [r for r in svg.findall(f"{SVG}rect") if r.get("fill") == "url(#masked)"]
        assert len(hatched) == (~mask).sum()
        texts = [text.text for text in svg.findall(f"{SVG}text")]
        queries = names(record.source if kind == "encoder" else record.target_out, 1)
        keys = names(*((record.target_in, 0) if kind == "decoder" else (record.source, 1)))
        assert texts[3 : 3 + len(queries)] == queries
        assert texts[3 + len(queries) : 3 + len(queries) + len(keys)] == keys
        kinds = dict(
            zip(
                KINDS,
                ("Encoder's self-attention", "Decoder's self-attention", "Cross-attention"),
                strict=True,
            )
        )
        edits = {
            "causal": "no causal mask",
            "positions.source.scale-0": "no positions in the source",
        }
        assert texts[0] == f"{kinds[kind]}, layer {layer + 1}, head {head + 1}"
        said = edits.get(link.get("edits", ""), "weight")  # without edits, the scale comes next
        assert texts[3 + len(queries) + len(keys)] == said
        bold = [t.text for t in svg.findall(f"{SVG}text") if t.get("font-weight")][1:]
        assert bold == ([queries[int(link["q"])]] if "q" in link else [])
    files = sorted(f for f in (folder / "gallery").iterdir() if f.name.startswith(f"{place + 1}-"))
    assert [f.name.rpartition("-")[2] for f in files] == ["dark.svg", "light.svg"]
    assert [ElementTree.tostring(ElementTree.parse(f).getroot()) for f in files] == [
        ElementTree.tostring(drawn["dark"]), ElementTree.tostring(drawn["light"]),
    ]  # fmt: skip


def test_cells_of_a_picture_lie_at_their_row_and_column():
    record = translator("captions-de-en").inspect(SENTENCE)
    svg = ElementTree.fromstring(picture(record, "decoder", 3, 1, 2))
    cells = [r for r in svg.findall(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    size = float(cells[0].get("width"))
    left, top = float(cells[0].get("x")), float(cells[0].get("y"))
    rows, columns = np.nonzero(record.decoder_mask)
    weights = record.decoder[3, 1][rows, columns].tolist()
    assert [cell.find(f"{SVG}title").text for cell in cells] == [f"{w:.4f}" for w in weights]
    for cell, row, column in zip(cells, rows, columns, strict=True):
        assert float(cell.get("x")) == pytest.approx(left + column * size, abs=0.11)
        assert float(cell.get("y")) == pytest.approx(top + row * size, abs=0.11)
    (frame,) = [r for r in svg.findall(f"{SVG}rect") if r.get("fill") == "none"]
    assert float(frame.get("y")) == pytest.approx(top + 2 * size - 0.5, abs=0.11)
    hatched = {
        (r.get("x"), r.get("y"))
        for r in svg.findall(f"{SVG}rect")
        if r.get("fill") == "url(#masked)"
    }
    assert hatched.isdisjoint({(c.get("x"), c.get("y")) for c in cells})


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


def test_bad_arguments_get_one_clear_line(tmp_path):
    folders = [str(FOLDERS[0]), str(FOLDERS[0])]
    given = [text for one in folders for text in ("--checkpoint", one)]
    arguments = command.parser().parse_args([*given, "--out", str(tmp_path / "out")])
    with pytest.raises(ValueError, match="de-en, de-en: give one checkpoint per direction"):
        command.run(arguments)
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("")
    arguments = command.parser().parse_args(
        ["--checkpoint", folders[0], "--out", str(tmp_path / "file")]
    )
    with pytest.raises(ValueError, match="--out .*file.* cannot be written"):
        command.run(arguments)


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


def part(page: Page, name: str) -> Locator:
    return page.locator(f"[data-page='{name}']")


def explorer(page: Page) -> Locator:
    return page.locator(".explorer[data-painted]")


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
    expect(page.locator("#translation")).to_have_text(record.translation)


def test_gallery_links_open_the_state_that_the_picture_shows(offline_context, folder, index, links):
    hrefs = [link["href"] for link in index.all("a") if "search=" in link["href"]]
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
            # Pin one cell: its weight is that of the picture.
            page.goto(f"{folder.as_uri()}/{hrefs[place].split('&q=')[0]}&q=2&k=1")
            page.reload()
            weight = record.maps(links[place]["kind"])[
                int(links[place]["layer"]), int(links[place]["head"]), 2, 1
            ]
            expect(explorer(page)).to_have_attribute("data-weight", re.compile(r"^\d\.\d+$"))
            assert float(explorer(page).get_attribute("data-weight")) == pytest.approx(
                weight, abs=1.01e-4
            )


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


def test_the_tour_goes_on_in_the_other_direction(offline_context, tmp_path):
    file = tmp_path / "both.html"
    networks = [offline.network(folder) for folder in FOLDERS]
    file.write_text(offline.page(networks), encoding="utf-8")
    last = SENTENCES["de-en"][-1]
    with opened(offline_context, file, f"stop=6&direction=de-en&source={quote(last)}") as page:
        expect(part(page, "tour-end")).to_be_visible()
        part(page, "tour-other").click()
        expect(part(page, "tour-place")).to_have_text("Stop 1 of 6, English → German")
        expect(part(page, "source")).to_have_value(
            SENTENCES["en-de"][1]
        )  # the first one is left out
        expect(part(page, "tour-other")).to_be_hidden()
        again = translator("captions-en-de").inspect(SENTENCES["en-de"][1]).translation
        expect(page.locator("#translation")).to_have_text(again)


def test_the_tour_never_blocks_free_use(german):
    page = german("stop=2&direction=de-en&source=" + quote(SENTENCES["de-en"][1]))
    expect(part(page, "tour-place")).to_have_text("Stop 2 of 6, German → English")
    expect(part(page, "tour-again")).to_be_hidden()
    part(page, "source").fill(TYPED)
    part(page, "form").get_by_role("button", name="Translate").click()
    expect(page.locator("#translation")).to_have_text(
        translator("captions-de-en").inspect(TYPED).translation
    )
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
    left_out = part_text(network.left_out)
    assert left_out == (
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
        reasons = quality_warnings(translate(ODD)).reasons("German")
        assert any(r.endswith("“😀”, “東” and reads them as <unk>") for r in reasons)
        expect(warning).to_contain_text(f"Do not trust this translation: {'; '.join(reasons)}. ")
        expect(part(page, "tour-back")).to_be_disabled()
        part(page, "tour-next").click()
        ahead = translate("Zwei Hunde laufen durch den Schnee.")
        expect(part(page, "tour-title")).to_have_text("Never ahead")
        expect(page.locator("#translation")).to_have_text(ahead.translation)
        expect(explorer(page)).to_have_attribute("data-kind", "decoder")
        expect(page.locator(".lessons")).to_be_hidden()
        expect(warning).to_be_empty()
        expect(part(page, "tour-left-out")).to_be_empty()
        part(page, "tour-next").click()
        expect(part(page, "tour-title")).to_have_text("Translate")
        expect(page.locator("#translation")).to_have_text(translate(TYPED).translation)
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


def part_text(left_out: Sequence[str]) -> str:
    return f"Not in this page: {'; '.join(left_out)}."


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


def assert_rows(
    found: list[list[str]], before: TranslationRecord, after: TranslationRecord
) -> None:
    """Compare a table of probabilities with two passes."""
    assert [row[0] for row in found] == names(before.target_out, 1)
    for row, *log_probs in zip(found, before.log_probs, after.log_probs, strict=True):
        assert row[1:] == [percent(float(np.exp(p))) for p in log_probs]


def assert_maps(
    row: Locator, records: tuple[TranslationRecord, TranslationRecord], kind: str
) -> None:
    """Compare one cell of a map row with both passes and their difference."""
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
    part(page, "source").fill(TYPED)
    part(page, "form").get_by_role("button", name="Translate").click()
    root = lesson(page, "masks", TYPED)
    before, opened_ = records = passes(TYPED, Edits(causal_mask=False))
    T, S = len(before.target_out), len(before.source)
    counted = section(root, text("masks", "cells.heading"))
    share = percent((T - 1) / 2 / T)
    expect(counted).to_contain_text(
        f"has {T * T} cells, of which {T * (T - 1) // 2} are masked ({share})"
    )
    expect(counted).to_contain_text(
        f"The encoder masks 0 of {S * S} cells, and the cross-attention 0 of {T * S}"
    )
    causal = section(root, text("masks", "causal.heading"))
    assert_rows(rows(causal.locator("table")), before, opened_)
    masked, free = (np.exp(r.log_probs.astype(float)) for r in records)
    future = np.triu(opened_.decoder.mean((0, 1)), 1)[:-1].sum(-1).mean()
    gain = f"{free.mean() - masked.mean():+.3f}".replace("-", "−")
    expect(causal).to_contain_text(
        f"from {percent(masked.mean())} to {percent(free.mean())} (change {gain}); of {T} tokens, "
        f"{(free > masked).sum()} became more probable and {(free < masked).sum()} less. In the rows that "
        f"have future tokens, {percent(float(future))} of the decoder's self-attention now goes to them."
    )
    assert_maps(causal.locator(".row-place"), records, "decoder")
    causal.locator("canvas").first.press(
        "ArrowRight"
    )  # from key 0 of query 2 to key 3, a later one
    causal.locator("canvas").first.press("ArrowRight")
    causal.locator("canvas").first.press("ArrowRight")
    said = causal.locator(".readout").inner_text()
    assert f"with masked · without {opened_.decoder[2, 1, 2, 3]:.4f} · " in said.replace(
        "\u2068", ""
    )
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
    records = passes(TYPED, without)
    assert_rows(rows(hidden.locator("table")), *records)
    assert_maps(hidden.locator(".row-place"), records, "cross")
    root.get_by_role("button", name="Back to the attention maps").click()
    expect(explorer(page)).to_be_visible()
    expect(page.locator("#translation")).to_have_text(before.translation)
    assert "lesson=" not in page.url


def test_a_pass_of_a_lesson_is_read_as_it_was_recorded(offline_context):
    """Probabilities are not rounded: a tiny one is not 0, which would read as impossible."""
    record = translator("captions-de-en").inspect(TYPED)
    tiny = np.full(len(record.target_out), -20, "<f4")
    more = {"log_probs": tiny.tobytes(), "positions": record.source_positions.tobytes()}
    packed = base64.b64encode(pack(payload(record, VIEW, host=None) | more)).decode()
    page = offline_context.new_page()
    page.set_content(f"<script>{joined(ROOT / 'app/components/offline/passes.js')}</script>")
    read = page.evaluate(
        """(text) => {
          const { maps, masks, ...pass } = readPass(Uint8Array.fromBase64(text));
          const numbers = (all) => Object.fromEntries(Object.entries(all).map(([kind, one]) => [kind, [...one]]));
          return { ...pass, positions: [...pass.positions], maps: numbers(maps), masks: numbers(masks) };
        }""",
        packed,
    )
    page.close()
    assert read["probabilities"] == pytest.approx([np.exp(-20)] * len(tiny), rel=1e-6)
    assert (read["text"], read["translation"]) == (TYPED, record.translation)
    assert read["languages"] == {"source": "German", "target": "English"}
    np.testing.assert_array_equal(read["positions"], record.source_positions.ravel())
    for kind in KINDS:
        np.testing.assert_array_equal(read["maps"][kind], record.maps(kind).ravel())
        np.testing.assert_array_equal(read["masks"][kind], record.mask(kind).ravel())


def test_nothing_is_wider_than_a_phone(browser, folder):
    context = browser.new_context(offline=True, viewport={"width": 390, "height": 844})
    states = (
        "",
        f"stop=1&source={quote(SENTENCES['de-en'][0])}",
        f"lesson=masks&source={quote(TYPED)}",
    )
    for name, state in (("index.html", ""), *(("headlight-de-en.html", state) for state in states)):
        with opened(context, folder / name, state) as page:
            if "lesson" in state:
                lesson(page, "masks", TYPED)
            elif name != "index.html":
                expect(explorer(page)).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") == 390
    context.close()


def test_the_lesson_on_positions_removes_and_shuffles_them(german):
    page = german(f"lesson=positions&source={quote(TYPED)}")
    root = lesson(page, "positions", TYPED)
    model = translator("captions-de-en")
    before = model.inspect(TYPED)
    S, T = len(before.source), len(before.target_out)
    table = section(root, text("positions", "heading.table"))
    canvas = table.locator("canvas")
    box = canvas.bounding_box()
    canvas.hover(position={"x": box["width"] - 3, "y": 24 + 2.5 * 20})
    expect(table.locator(".readout")).to_have_text(
        re.compile(
            rf"liest.*, pos 2, dimension 127 \(cosine\): {before.source_positions[2, 127]:.4f}"
        )
    )
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
        ("shuffled", "source", ""): Edits(source_positions=PositionEdit.shuffled(1, S)),
        ("shuffled", "target", "7"): Edits(target_positions=PositionEdit.shuffled(7, T)),
        ("shifted", "target", ""): Edits(target_positions=PositionEdit(shift=5)),
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
        records = passes(TYPED, edits)
        expect(edited.locator("tbody tr td:nth-child(3)")).to_have_text(
            [percent(float(np.exp(p))) for p in records[1].log_probs]
        )
        assert_rows(rows(edited.locator("table")), *records)
        assert_maps(edited.locator(".row-place"), records, "encoder")
        page.keyboard.press("Escape")
    root.get_by_role("button", name="Lesson: Masks").click()
    lesson(page, "masks", TYPED)


def test_a_lesson_says_what_is_wrong_with_a_text(german):
    page = german(f"lesson=masks&source={quote(SENTENCE)}")
    lesson(page, "masks", SENTENCE)
    part(page, "source").fill("Hund " * 120)
    part(page, "form").get_by_role("button", name="Translate").click()
    problem = page.locator(".lessons [data-part=problem]")
    expect(problem).to_contain_text("the limit is")
    part(page, "source").fill(TYPED)
    part(page, "form").get_by_role("button", name="Translate").click()
    expect(problem).to_have_text("")
    lesson(page, "masks", TYPED)


def test_embedded_pages_show_the_explorer_alone(german):
    page = german(f"source={quote(TYPED)}&kind=encoder&layer=1&head=2", "?embed=1")
    expect(explorer(page)).to_have_attribute("data-kind", "encoder")
    expect(page.locator("#translation")).to_have_text(
        translator("captions-de-en").inspect(TYPED).translation
    )
    visible = """() => [...document.querySelectorAll("body *")].filter((one) =>
      one.checkVisibility() && one.getClientRects().length && !one.closest(".explorer") && !one.querySelector(".explorer")
    ).map((one) => one.outerHTML.slice(0, 80))"""
    assert page.evaluate(visible) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto(page.url.replace("?embed=1", "?embed=0"))
    expect(explorer(page)).to_be_visible()
    assert len(page.evaluate(visible)) > 20


def test_the_walk_through_names_what_the_page_has(german):
    """Every name in italics is the text of something on the page."""
    text = (
        (ROOT / "app/export/README.md").read_text(encoding="utf-8").partition("## Ten minutes")[2]
    )
    named = set(re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", text))
    assert len(named) > 8
    page = german(f"source={quote(SENTENCE)}&stop=1")
    expect(explorer(page)).to_be_visible()
    expect(page.get_by_text("Checks: ")).to_be_visible()  # shown after the first paint
    found = page.locator("body").inner_text()
    part(page, "lessons").get_by_role("button", name="Lesson: positions").click()
    found += lesson(page, "positions", SENTENCE).inner_text()
    found += " ".join(page.locator(".lessons option").all_inner_texts())
    assert {name for name in named if name not in found} == set()


def test_page_parts_are_found_by_screen_readers(german):
    page = german(f"stop=1&source={quote(SENTENCES['de-en'][0])}")
    expect(page.get_by_role("region", name="A word that moves")).to_be_visible()
    page.get_by_role("button", name="Lesson: positions").click()
    lesson(page, "positions", SENTENCES["de-en"][0])
    expect(page.get_by_role("heading", name="Positions", exact=True)).to_be_focused()
    expect(page.get_by_role("region", name="A word that moves")).to_be_hidden()
