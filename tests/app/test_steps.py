"""The page "Step by step": the tree is the search, its sums are right, forcing works."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

from app.components.beam_tree.payload import first_node, payload
from app.look.labels import label
from core.config import DecodeConfig
from core.search.tree import WrittenTree

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "app/main.py"
SENTENCE = "Zwei junge Männer spielen im Park Fußball."
GREEDY = DecodeConfig(beam=1)


@pytest.fixture(scope="module")
def written(translator) -> WrittenTree:
    return translator.search_tree(SENTENCE)


def open_page(page: Page, serve, search: str = "beam", **query: str) -> Locator:
    """Open the page for SENTENCE; return the component's root once its tree is drawn."""
    extra = "".join(f"&{name}={value}" for name, value in query.items())
    link = f"source={quote(SENTENCE)}&direction=de-en&model=scratch&search={search}&lesson=0{extra}"
    page.goto(f"{serve(MAIN)}/steps?{link}")
    return drawn(page)


def drawn(page: Page, tree: WrittenTree | None = None) -> Locator:
    root = page.locator("section[aria-label='Search tree']")
    expect(root).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=60_000)
    if tree is not None:
        expect(root).to_have_attribute("data-tree", payload(tree)["tree"], timeout=30_000)
    return root


def says(root: Locator) -> dict[str, str]:
    return root.evaluate("root => ({...root.dataset})")


def part(root: Locator, name: str) -> Locator:
    return root.locator(f"[data-part={name}]")


def test_every_tree_has_a_name_of_its_own(translator, written):
    ids = written.tree.hypotheses[0].ids
    forced = translator.search_tree(SENTENCE, prefix=ids[:1])
    greedy = translator.search_tree(SENTENCE, decode=GREEDY)
    assert len({payload(tree)["tree"] for tree in (written, forced, greedy)}) == 3
    steps = [tree.tree.nodes[first_node(tree.tree)].step for tree in (written, greedy)]
    assert steps == [3, 1], "the results share “Two young men”; greedy search has only one"
    assert forced.tree.nodes[first_node(forced.tree)].forced


def test_typed_words_become_tokens(translator):
    for text in ("men,", ", and", "women playing", ""):
        ids = translator.continuation(text)
        assert translator._target.decode(list(ids)) == text
    assert not label(translator._target.token(translator.continuation(",")[0])).startswith("␣")


def test_the_page_follows_a_walk_through_the_tree(local_page, serve, written):
    root = open_page(local_page, serve)
    drawn(local_page, written)
    tree = written.tree
    assert root.locator(".node").count() == len(tree.nodes)
    for status in ("open", "pruned", "finished"):
        expected = sum(node.status == status for node in tree.nodes)
        assert root.locator(f".node[data-fate={status}]").count() == expected > 0
    part(root, "box").focus()
    fourth = tree.path(tree.ends[0])[3]
    for key, index in (("ArrowRight", fourth), ("End", tree.ends[0])):
        local_page.keyboard.press(key)
        assert int(says(root)["kept"]) == index
    expect(part(root, "status")).to_contain_text("this is the translation")
    expect(part(root, "continue")).to_be_disabled()
    assert part(root, "results").locator(".text").all_inner_texts() == list(written.texts)
    # The page below shows this path's last step.
    expect(local_page.locator(".st-key-step_words")).to_contain_text("While producing “<eos>”")
    local_page.get_by_text("All maps of this path").click()
    explorer = local_page.locator("section[aria-label='Attention explorer']")
    expect(explorer).to_have_attribute("data-painted", re.compile(r"\d+"), timeout=30_000)


def test_a_pruned_hypothesis_can_be_forced(local_page, serve, translator, written):
    root = open_page(local_page, serve, forced="1.1")  # not a valid prefix
    expect(local_page.locator("[data-testid=stAlert]")).to_contain_text("not in the vocabulary")
    drawn(local_page, written)
    tree = written.tree
    pruned = next(i for i, n in enumerate(tree.nodes) if n.status == "pruned" and n.step == 2)
    root.locator(f".node[data-index='{pruned}']").click()
    expect(part(root, "status")).to_contain_text("Pruned")
    where = local_page.locator(".st-key-step_words")
    looked_at = f"While producing “{label(written.tokens[tree.nodes[pruned].id])}”"
    expect(where).to_contain_text(looked_at)
    part(root, "box").focus()
    local_page.keyboard.press("Enter")
    forced = translator.search_tree(SENTENCE, prefix=tree.ids(pruned))
    drawn(local_page, forced)
    assert root.locator(".node.forced").count() == 2
    beside = local_page.locator(".st-key-free_result"), local_page.locator(".st-key-forced_result")
    for place, found in zip(beside, (written, forced), strict=True):
        expect(place).to_contain_text(found.texts[0])
        score = f"{found.tree.hypotheses[0].score:.3f}".replace("-", "−")
        expect(place).to_contain_text(f"score {score}")
    link = ".".join(map(str, tree.ids(pruned)))
    expect(local_page).to_have_url(re.compile(f"forced={re.escape(link)}"))

    # Force a typed word as well; then remove the forced prefix.
    part(root, "typed").fill("women")
    root.get_by_role("button", name="Force", exact=True).click()
    ids = (*tree.ids(pruned)[:1], *translator.continuation("women"))
    drawn(local_page, translator.search_tree(SENTENCE, prefix=ids))
    local_page.get_by_text("Free search").last.click()
    drawn(local_page, written)
    # Back in the first tree, the node pinned before is pinned again.
    expect(root).to_have_attribute("data-kept", str(pruned))
    expect(where).to_contain_text(looked_at)
    local_page.get_by_role("button", name="Remove the forced prefix").click()
    expect(beside[1]).to_have_count(0)
    expect(local_page).not_to_have_url(re.compile("forced="))


def test_an_alternative_is_forced_by_a_click_in_greedy_search(local_page, serve, translator):
    root = open_page(local_page, serve, "greedy", forced="x." + "9" * 5000)  # not even ids
    tree = translator.search_tree(SENTENCE, decode=GREEDY)
    drawn(local_page, tree)
    second = tree.tree.nodes[0].next[1][0]
    part(root, "alternatives").locator(".alternative").nth(1).click()
    drawn(local_page, translator.search_tree(SENTENCE, decode=GREEDY, prefix=(second,)))
