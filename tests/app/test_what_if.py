"""What if in the app: an edit shows all numbers of the edited pass, and can be undone."""

import re
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from app.components.beam_tree.payload import payload as tree_payload
from app.components.edits import described
from app.examples import EXAMPLES
from app.export.page import page as saved_page
from core.config import DecodeConfig
from core.experiments.head_effects import head_effects
from core.experiments.score_parts import scores
from core.experiments.values import value_norms
from core.kinds import KINDS
from core.record.edits import Edge, Edits, Row
from core.record.record import TranslationRecord
from core.translator import Translator
from tests.app.explorer_parts import choose, open_folds
from tests.app.rendered import read, render, unpacked
from tests.app.test_app import MAIN, hover_cell, painted
from tests.app.test_navigation import at, expect_query, go_to

EXAMPLE = EXAMPLES[0].text("de-en")
SENTENCE = "Zwei junge Männer spielen im Park Fußball."
GREEDY = DecodeConfig(beam=1)
BASE = f"source={quote(SENTENCE)}&direction=de-en&model=scratch&search=greedy"
HEAD = ("cross", 2, 1)
OFF = Edits(heads_off=frozenset({HEAD}))


@pytest.fixture(scope="module")
def record(translator) -> TranslationRecord:
    return translator.inspect(SENTENCE, decode=GREEDY)


def under(translator: Translator, record: TranslationRecord, edits: Edits) -> TranslationRecord:
    return translator.inspect(SENTENCE, edits=edits, target_ids=[t.id for t in record.target_out])


def opened(page: Page, serve, more: str = "kind=cross&layer=2&head=1") -> Locator:
    page.goto(f"{serve(MAIN)}/?{BASE}&{more}")
    root = painted(page)
    open_folds(root)
    return root


@pytest.fixture
def pinned(shared_page: Page, serve, record) -> Page:
    """A page shared by tests that undo their edits, with a cell pinned and no edits."""
    root = shared_page.locator("section[aria-label='Attention explorer']")
    # Open it for the first test, and again after a test that failed before undoing its edit.
    if not root.count() or root.get_attribute("data-sentence") != record.id:
        opened(shared_page, serve, "kind=cross&layer=2&head=1&q=2&k=2")
    return shared_page


def button(root: Locator, name: str) -> Locator:
    open_folds(root)
    return root.locator(f"[data-edit={name}]").first


def shows(root: Locator, record: TranslationRecord) -> None:
    expect(root).to_have_attribute("data-sentence", record.id, timeout=30_000)


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def spoken(root: Locator, line: str) -> None:
    expect(root.locator("[data-part=spoken]")).to_contain_text(line, timeout=30_000)


def test_a_head_off_shows_the_edited_pass_and_comes_back(
    local_page: Page, serve, translator, record
) -> None:
    root = opened(local_page, serve)
    shows(root, record)
    button(root, "head").click()
    edited = under(translator, record, OFF)
    shows(root, edited)
    expect_query(local_page, edits=OFF.to_text())
    assert len(edited.checks) == sum(check.passed for check in edited.checks) == 8
    expect(root.locator("[data-part=badge]")).to_have_text("Pictures checked: 8 of 8")
    changes = edited.log_probs - record.log_probs
    shown = root.locator("[data-part=edit-tokens] small").all_text_contents()
    assert [number(text) for text in shown] == pytest.approx(changes, abs=0.00501)
    assert np.abs(changes).max() > 0.1, (
        "the head must have an effect for this test to mean anything"
    )
    said = root.locator("[data-part=edit-sum]").inner_text()
    assert record.translation in said
    figures = [number(text) for text in re.findall(r"[+−]?\d+\.\d{3}", said)][:3]
    wanted = [changes.sum(), record.log_prob, edited.log_prob]
    assert figures == pytest.approx([float(value) for value in wanted], abs=0.0011)
    again = translator.inspect(SENTENCE, edits=OFF, decode=GREEDY)
    same = again.translation == record.translation
    spoken(root, f"{'still' if same else 'now'} writes: {again.translation.rstrip('.')}")

    root.locator("[data-kind-option=decoder]").click()  # a head after the ablated one
    for name, array in (
        ("weights", edited.decoder),
        ("change", edited.decoder - record.decoder),
        ("scores", scores(translator, edited)["decoder"]),
        ("norms", value_norms(translator, edited)["decoder"]),
    ):
        choose(root, "quantity", name)
        expect(root).to_have_attribute("data-quantity", name, timeout=30_000)
        root.locator(".thumbnail[data-l='3'][data-h='0']").click()
        for query, key in ((5, 2), (3, 3)):
            said_of = hover_cell(root, query, key)
            value = float(array[3, 0, query, key])
            assert float(said_of["weight"]) == pytest.approx(value, abs=2e-4 + 2e-4 * abs(value))

    root.get_by_role("button", name="Remove:").click()
    shows(root, record)
    expect_query(local_page, edits=None)
    expect(root.locator("[data-part=edits] li")).to_have_count(0)


def test_the_next_steps_break_a_word_and_repair_it(local_page: Page, serve, translator) -> None:
    """The page opens with the word that one head changes most; each step does what it says."""
    record = translator.inspect(EXAMPLE)
    target = [token.id for token in record.target_out]
    ordinary = [i for i, t in enumerate(record.target_out) if t.text.isalpha() and not t.special]

    def off(*heads: tuple[str, int, int], again: bool = False) -> TranslationRecord:
        edits = Edits(heads_off=frozenset(heads))
        return translator.inspect(EXAMPLE, edits=edits, target_ids=None if again else target)

    def changes(base: TranslationRecord) -> dict[tuple[str, int, int], np.ndarray]:
        found = head_effects(translator, base).changes
        return {(k, *at): found[k][at] for k in KINDS for at in np.ndindex(found[k].shape[:2])}

    local_page.goto(f"{serve(MAIN)}/?source={quote(EXAMPLE)}&direction=de-en&model=scratch")
    root = painted(local_page)
    button = root.locator("[data-part=next-step]")
    expect(button).to_be_visible(timeout=60_000)
    first = changes(record)
    shown = ((h, i) for h in first if h[0] != "encoder" for i in ordinary)
    head, word = max(shown, key=lambda one: abs(first[one[0]][one[1]]))
    for name, value in zip(("kind", "layer", "head", "query"), (*head, word), strict=True):
        expect(root).to_have_attribute(f"data-{name}", str(value))
    needed = min(first, key=lambda one: first[one][word])
    button.click()
    shows(root, off(needed))
    expect_query(local_page, edits=Edits(heads_off=frozenset({needed})).to_text())
    new = off(needed, again=True)
    spoken(root, f"now writes: {new.translation.rstrip('.')}")
    expect(root.locator(".target .token.pinned.gone")).to_contain_text(record.target_out[word].text)
    expect(button).to_contain_text("repair", timeout=60_000)
    after = changes(off(needed))
    repair = max(after, key=lambda one: after[one][word])
    button.click()
    both = off(needed, repair)
    shows(root, both)
    fixed = off(needed, repair, again=True).translation
    spoken(root, f"writes: {fixed.rstrip('.')}")
    course = [off(needed).log_probs[word], both.log_probs[word]]
    said = root.locator("[data-part=readout-first]").inner_text()
    assert [number(text) for text in re.findall(r"−?\d+\.\d(?!\d)", said)[-2:]] == pytest.approx(
        [float(value) for value in course], abs=0.0501
    )
    button.click()  # the last step: how the head that the word needs comes to its weights
    at(local_page, "head")
    asked = dict(zip(("kind", "layer", "head"), map(str, needed), strict=True))
    expect_query(local_page, source=EXAMPLE, q=str(word), **asked)


def test_a_row_is_drawn_by_hand(local_page: Page, serve, translator, record) -> None:
    root = opened(local_page, serve, "kind=cross&layer=2&head=0&q=3")
    button(root, "row").click()
    sliders = root.locator("[data-part=drawn-keys] input")
    expect(sliders).to_have_count(len(record.source))
    root.locator(".thumbnail[data-l='2'][data-h='1']").click()
    expect(root.locator("[data-part=drawn-row]")).to_be_hidden()  # as another head is chosen
    root.locator(".thumbnail[data-l='2'][data-h='0']").click()
    button(root, "row").click()
    for key in range(len(record.source)):
        sliders.nth(key).fill({0: "60", 4: "20"}.get(key, "0"))
    root.locator("[data-part=apply-row]").click()
    edited = under(translator, record, Edits(rows=(Row("cross", 2, 0, 3, (0.75, 0, 0, 0, 0.25)),)))
    shows(root, edited)
    np.testing.assert_allclose(edited.cross[2, 0, 3, [0, 4]], [0.75, 0.25], atol=1e-6)
    assert float(hover_cell(root, 3, 0)["weight"]) == pytest.approx(0.75, abs=1e-4)


def test_a_link_has_edits_and_invalid_ones_are_named(
    local_page: Page, serve, translator, record
) -> None:
    broken = "~".join(["off.cross.77.0", "<b>x</b>", "temp.cross.0.0.nan", *["cut.me"] * 995])
    link = quote(f"{OFF.to_text()}~hide.1~{broken}", safe="")
    root = opened(local_page, serve, f"kind=cross&layer=2&head=1&edits={link}")
    both = OFF.plus(Edits(hidden_source=(1,)))
    shows(root, under(translator, record, both))
    expect(root.locator("[data-part=edits] li[data-edit]")).to_have_count(2)
    note = root.locator("[data-part=edit-note]")
    for words in ("cross layer 77", "cut.me", "more problems are not listed"):
        expect(note).to_contain_text(words)
    local_page.reload()
    root = painted(local_page)
    open_folds(root)
    shows(root, under(translator, record, both))
    root.get_by_role("button", name="Remove all").click()
    shows(root, record)


def test_one_edit_too_many_is_one_line(local_page: Page, serve) -> None:
    full = "~".join(f"cut.cross.{n % 4}.{n // 50}.{n % 10}.{n % 9}" for n in range(2, 1000))
    edits, _ = Edits.parse(full)
    assert len(edits.listed()) == 200
    root = opened(local_page, serve, f"kind=cross&layer=0&head=3&edits={edits.to_text()}")
    count = root.locator("[data-part=edits] li[data-edit]").count()
    button(root, "sharper").click()
    expect(root.locator("[data-part=edit-note]")).to_contain_text("201 edits are too many")
    expect(root.locator("[data-part=edits] li[data-edit]")).to_have_count(count)
    expect(root.locator("[data-part=what-if]")).to_have_attribute("aria-busy", "false")
    local_page.locator(".st-key-source textarea").fill("Zwei junge Frauen spielen im Park.")
    local_page.locator(".st-key-translate button").click()
    expect(root.locator("[data-part=edit-note]")).not_to_contain_text("too many", timeout=30_000)


def test_choosing_another_network_drops_the_edits() -> None:
    asked = {"source": SENTENCE, "direction": "de-en", "model": "scratch", "search": "greedy"}
    page = render("", **asked, edits=OFF.to_text())
    assert unpacked(page.payload("explorer"))[0]["what_if"]["edits"]
    page.app.selectbox("model").set_value("baseline").run()
    assert not unpacked(read(page.app).payload("explorer"))[0]["what_if"]["edits"]


@pytest.mark.parametrize(
    ("name", "edits"),
    [
        ("cut", Edits(edges=(Edge("cross", 2, 1, 2, 2, 0.0),))),
        ("hide", Edits(hidden_source=(2,))),
        ("causal", Edits(causal_mask=False)),
    ],
)
def test_each_button_makes_and_removes_its_edit(
    pinned: Page, translator, record, name: str, edits: Edits
) -> None:
    root = painted(pinned)
    button(root, name).click()
    shows(root, under(translator, record, edits))
    expect_query(pinned, edits=edits.to_text())
    listed = root.locator("[data-part=edits] li")
    expect(listed).to_contain_text(described(edits.listed()[0], record))
    said = root.evaluate("({dataset}) => ({...dataset})")
    assert (said["query"], said["key"]) == ("2", "2"), "the pinned cell stays pinned"
    if name == "causal":
        spoken(root, "decoding requires the causal mask")
        expect(root.locator("[data-part=edited-target]")).to_contain_text("causal mask")
    button(root, name).click()
    shows(root, record)


def test_steps_are_searched_under_the_edits(local_page: Page, serve, translator, record) -> None:
    opened(local_page, serve, f"kind=cross&layer=2&head=1&edits={OFF.to_text()}")
    go_to(local_page, "steps")
    line = local_page.locator(".st-key-edits_line")
    expect(line).to_contain_text(described(OFF, record), timeout=30_000)
    tree = local_page.locator("section[aria-label='Search tree']")
    edited, free = (
        tree_payload(translator.search_tree(SENTENCE, decode=GREEDY, edits=edits))["tree"]
        for edits in (OFF, Edits())
    )
    assert edited != free
    expect(tree).to_have_attribute("data-tree", edited, timeout=30_000)
    line.get_by_role("button", name="Remove all edits").click()
    expect(tree).to_have_attribute("data-tree", free, timeout=30_000)


def test_heads_are_sorted_by_their_effect(local_page: Page, serve, translator, record) -> None:
    root = opened(local_page, serve, "kind=cross&layer=1&head=1&sort=effect")
    effects = head_effects(translator, record)
    first = root.locator(".thumbnail").first
    expect(first).to_have_attribute("aria-label", re.compile("log-probability"), timeout=30_000)
    for token in (None, 2):
        if token is not None:
            root.locator(f"[data-part=target] button >> nth={token + 1}").click()
        changes = effects.of("cross", token)
        names = root.locator(".thumbnail:not(.missing)").evaluate_all(
            "all => all.map((b) => [+b.dataset.l, +b.dataset.h, b.ariaLabel])"
        )
        layers, heads = changes.shape
        shown = {(la, h): name for la, h, name in names if la < layers and h < heads}
        ranked = [(one.layer, one.head) for one in effects.ranked(token) if one.kind == "cross"]
        assert list(shown) == ranked
        for place, name in shown.items():
            said = number(re.search(r"[+−]?\d+\.\d\d$", name)[0])
            assert said == pytest.approx(float(changes[place]), abs=0.00501)


def test_a_saved_page_lists_its_edits_and_offers_none(
    page: Page, translator, record, tmp_path
) -> None:
    file = tmp_path / "edited.html"
    file.write_text(saved_page(under(translator, record, OFF)), encoding="utf-8")
    page.goto(file.as_uri())
    root = page.locator("section[aria-label='Attention explorer']")
    expect(root).to_have_attribute("data-painted", re.compile(r"\d+"))
    expect(root.locator("[data-part=edits] li")).to_have_text([described(OFF, record)])
    expect(root.locator("[data-part=edit-buttons]")).to_be_hidden()
    file.write_text(saved_page(record), encoding="utf-8")
    page.goto(file.as_uri())
    expect(root.locator("[data-part=what-if]")).to_be_hidden()


def test_two_explorers_follow_each_other_on_one_scale(local_page: Page, serve, translator) -> None:
    other = "Die Donaudampfschifffahrtsgesellschaft lacht."
    view = "quantity=norms&kind=decoder&layer=1&head=2"
    local_page.goto(f"{serve(MAIN)}/together?{BASE}&second_source={quote(other)}&{view}")
    both = local_page.locator("section[aria-label='Attention explorer']")
    expect(both).to_have_count(2, timeout=60_000)
    left, right = both.nth(0), both.nth(1)

    def both_show(**data: str) -> None:
        for root in (left, right):
            for name, value in data.items():
                expect(root).to_have_attribute(f"data-{name}", value, timeout=30_000)

    def one_scale(*texts: str) -> None:
        records = [translator.inspect(text, decode=GREEDY) for text in texts]
        largest = max(float(value_norms(translator, r)["encoder"].max()) for r in records)
        for root in (left, right):
            expect(root.locator("[data-part=scale-high]")).to_have_text(f"{largest:.1f}")

    for root, text in ((left, SENTENCE), (right, other)):
        shows(root, translator.inspect(text, decode=GREEDY))
    both_show(quantity="norms", kind="decoder", head="2")  # the link is for both
    left.locator(".thumbnail[data-l='1'][data-h='3']").click()
    left.locator("[data-kind-option=encoder]").click()
    left.locator("[data-part=source] button.token >> nth=2").click()
    both_show(kind="encoder", layer="1", head="3", query="2")
    one_scale(SENTENCE, other)
    for name in ("rollout", "weights"):
        choose(left, "quantity", name)
        both_show(quantity=name)
        for root in (left, right):
            expect(root.locator("[data-part=quantity]")).to_have_value(name)
    both_show(head="3")
    shorter = local_page.locator(".st-key-second_source textarea")
    choose(left, "quantity", "norms")
    shorter.fill("Ein Hund.")
    shorter.press("Enter")
    shows(right, translator.inspect("Ein Hund.", decode=GREEDY))
    one_scale(SENTENCE, "Ein Hund.")
    local_page.locator(".st-key-beside").get_by_text("The same with edits").click()
    expect(local_page.get_by_text("No edit is made yet")).to_be_visible(timeout=30_000)
