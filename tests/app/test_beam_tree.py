"""The search tree's panel and picture, from a tree written by hand: every number and sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page

from app.components.assets import joined, palette

FOLDER = Path(__file__).resolve().parents[2] / "app/components/beam_tree"
SCRIPT = joined(FOLDER / "main.js")
BOS, EOS, A, B, PIECE, C = 1, 2, 10, 11, 12, 13
NEXT = [[A, -0.2], [B, -2.0], [PIECE, -4.6], [EOS, -6.0], [C, -0.004]]
# parent, id, step, rank, log-probability, sum, score, status, forced, next
NODES: list[list[Any]] = [
    [None, BOS, 0, 0, 0.0, 0.0, 0.0, "open", False, NEXT],
    [0, A, 1, 0, -0.2, -0.2, -0.2, "open", False, [[EOS, -0.7], [C, -1.1]]],
    [0, B, 1, 1, -2.0, -2.0, -2.0, "open", False, []],
    [0, PIECE, 1, 2, -4.6, -4.6, -4.6, "pruned", False, []],
    [0, EOS, 1, 3, -6.0, -6.0, -6.0, "pruned", False, []],
    [1, EOS, 2, 0, -0.7, -0.9, -0.9 * 6 / 7, "finished", False, []],
    [1, C, 2, 1, -1.1, -1.3, -1.3 * 6 / 7, "open", False, [[EOS, -0.1]]],
    [1, PIECE, 2, 2, -3.0, -3.2, -3.2 * 6 / 7, "open", True, [[EOS, -0.5]]],
    [6, EOS, 3, 0, -0.1, -1.4, -1.4 * 6 / 8, "finished", False, []],
    [7, EOS, 3, 1, -0.5, -3.7, -3.7 * 6 / 8, "overtaken", False, []],
    [6, A, 3, 2, -5.0, -6.3, -6.3 * 6 / 8, "left", False, []],
]
DATA: dict[str, Any] = {
    "tree": "by hand",
    "beam": 2,
    "alpha": 1,
    "limit": 9,
    "first": 1,
    "pinned": 1,
    "tokens": {
        str(id): {"label": label, "special": id < A, "unknown": False, "end": id == EOS}
        for id, label in {BOS: "<bos>", EOS: "<eos>", A: "a", B: "b", PIECE: "sh", C: "c"}.items()
    },
    "nodes": NODES,
    "hypotheses": [
        {"text": "a", "end": 5, "log_prob": -0.9, "score": -0.9 * 6 / 7},
        {"text": "a c", "end": 8, "log_prob": -1.4, "score": -1.4 * 6 / 8},
    ],
    "meanings": {"log-probability": "means 1", "length penalty": "means 2", "score": "means 3"},
}


def mount(page: Page, data: dict) -> Locator:
    page.set_content(
        f"<style>{palette('.beam-tree')}{(FOLDER / 'beam_tree.css').read_text()}</style>"
        f'<div id="parent">{(FOLDER / "beam_tree.html").read_text()}</div>'
    )
    page.evaluate(
        f"""data => {{
          {SCRIPT}
          window.told = [];
          const tell = (name, value) => window.told.push([name, value]);
          render({{ data, parentElement: document.querySelector("#parent"), key: "tree",
                    setStateValue: tell, setTriggerValue: tell }});
        }}""",
        data,
    )
    return page.locator(".beam-tree")


def part(root: Locator, name: str) -> Locator:
    return root.locator(f"[data-part={name}]")


def rows(root: Locator) -> list[tuple[str, str, str]]:
    """The arithmetic of the node: names, how, and values."""
    found = [part(root, "arithmetic").locator(which) for which in ("dt", ".how", ".value")]
    return list(zip(*(each.all_inner_texts() for each in found), strict=True))


def choose(root: Locator, index: int) -> None:
    root.locator(f".node[data-index='{index}']").dispatch_event("click")


def test_the_line_above_says_how_wide_the_search_is(page: Page):
    words = part(mount(page, DATA), "key").inner_text()
    assert words.startswith(
        "Each column is one step: the 5 continuations with the highest sums, best on top. At most "
        "2 are extended; those struck through were pruned. A token is a word or a piece of one."
    )
    assert "Under it: its log-probability, and the sum of its path." in words
    greedy = part(mount(page, {**DATA, "beam": 1, "tree": "greedy"}), "key").inner_text()
    assert "the 5 continuations" in greedy and "One is extended;" in greedy
    wide = part(mount(page, {**DATA, "beam": 5, "tree": "wide"}), "key").inner_text()
    assert "the 10 continuations" in wide and "At most 5 are extended;" in wide


@pytest.mark.parametrize(
    ("index", "status"),
    [
        (0, "Every translation starts here."),
        (1, "On the path of the translation."),
        (2, "Kept, but none of its continuations was among the best 5 of the next step."),
        (3, "Pruned: 2 others had a higher sum in this step."),
        (4, "Pruned at its end: 2 others had a higher sum in this step."),
        (5, "Finished: the best score, so this is the translation."),
        (6, "Kept and extended."),
        (7, "Forced, whatever its probability. Kept and extended."),
        (8, "Finished: rank 2 by score."),
        (9, "Finished, but 2 others finished with a better score."),
        (10, "Still open when the search stopped: it could no longer beat the best finished"),
    ],
)
def test_each_status_is_said(page: Page, index: int, status: str):
    root = mount(page, DATA)
    choose(root, index)
    assert part(root, "status").inner_text().startswith(status)
    title = part(root, "title").inner_text().split()
    label = DATA["tokens"][str(NODES[index][1])]["label"]
    where = "fed in first" if index == 0 else f"step {NODES[index][2]}, rank {NODES[index][3] + 1}"
    assert " ".join(title) == f"{label}{where}" or " ".join(title) == f"{label} {where}"


def test_the_score_is_a_sum_by_the_length_penalty(page: Page):
    root = mount(page, DATA)
    choose(root, 6)
    terms = part(root, "terms").locator(".term").all_inner_texts()
    assert [" ".join(term.split()) for term in terms] == ["a (−0.200)", "c + (−1.100)"]
    assert rows(root) == [
        ("log-probability", "sum of 2 tokens", "−1.300"),
        ("length penalty", "((5 + 2) / 6)1", "1.167"),
        ("score", "−1.300 / 1.167, if it ended here", "−1.114"),
    ]
    titles = part(root, "arithmetic").locator("dt").evaluate_all("all => all.map(e => e.title)")
    assert titles == ["means 1", "means 2", "means 3"]
    choose(root, 8)
    assert rows(root)[2] == ("score", "−1.400 / 1.333", "−1.050")
    choose(root, 3)
    assert rows(root)[0] == ("log-probability", "one token", "−4.600")


def test_greedy_search_has_no_length_penalty(page: Page):
    root = mount(page, {**DATA, "beam": 1, "alpha": 0})
    choose(root, 3)
    assert part(root, "status").inner_text() == "Pruned: another token was more probable."
    assert [row[0] for row in rows(root)] == ["log-probability", "score"]
    results = part(root, "results").locator(".sum").all_inner_texts()
    assert results[0] == "2 tokens: log-probability −0.771"
    assert rows(root)[1][1] == "greedy: no length penalty"


def test_alternatives_are_probabilities_of_the_parents_step(page: Page):
    root = mount(page, DATA)
    choose(root, 1)
    assert part(root, "instead").inner_text() == (
        "Most probable at step 1 of this path: choose one to force it"
    )
    buttons = part(root, "alternatives").locator("button")
    found = [tuple(text.split()) for text in buttons.all_inner_texts()]
    assert found == [
        ("a", "0.82"),
        ("b", "0.14"),
        ("sh", "0.01"),
        ("<eos>", "<0.01"),
        ("c", ">0.99"),
    ]
    widths = buttons.locator(".bar i").evaluate_all(
        "all => all.map(e => parseFloat(e.style.width))"
    )
    assert widths == pytest.approx([81.873, 13.534, 1.005, 0.248, 99.601], abs=0.001)
    assert [button.is_disabled() for button in buttons.all()] == [True, *[False] * 4]
    choose(root, 6)  # what could have been written instead of c, behind a
    part(root, "alternatives").locator("button").nth(0).click()
    told = page.evaluate("window.told")
    assert told[-1] == ["force", {"tree": "by hand", "ids": [A, EOS], "text": ""}]


def test_the_finished_are_listed_with_their_arithmetic(page: Page):
    root = mount(page, DATA)
    assert part(root, "results-title").inner_text() == (
        "The 2 finished translations, best score first"
    )
    found = [
        " ".join(text.split()) for text in part(root, "results").locator("li").all_inner_texts()
    ]
    assert found == [
        "1 a log-probability −0.900 / 1.167 (2 tokens) = −0.771",
        "2 a c log-probability −1.400 / 1.333 (3 tokens) = −1.050",
    ]


def test_the_picture_has_each_token_in_its_step_and_rank(page: Page):
    root = mount(page, DATA)
    texts = root.locator(".node").evaluate_all(
        "all => all.map(n => [...n.querySelectorAll('text')].map(t => t.textContent))"
    )
    plain = [[text.strip("\u2066\u2067\u2068\u2069") for text in node] for node in texts]
    said = lambda value: f"{value:.2f}".replace("-", "−")  # noqa: E731
    places = {5: "1", 8: "2"}
    for at, (node, shown) in enumerate(zip(NODES, plain, strict=True)):
        label = DATA["tokens"][str(node[1])]["label"]
        numbers = [] if at == 0 else [said(node[4]), said(node[5])]
        assert shown[1:] == [*numbers, *([places[at]] if at in places else [])]
        assert label.startswith(shown[0].rstrip("…")) and (at in places or shown[0] == label)
    corners = root.locator(".node").evaluate_all("all => all.map(n => n.getAttribute('transform'))")
    at = [tuple(map(float, corner[10:-1].split())) for corner in corners]
    assert len(set(at)) == len(at)
    for one, corner in zip(NODES, at, strict=True):
        for two, other in zip(NODES, at, strict=True):
            assert (one[2] < two[2]) == (corner[0] < other[0])
            if one[2] == two[2]:
                assert (one[3] < two[3]) == (corner[1] < other[1])
    winners = root.locator(".node.winner").evaluate_all("all => all.map(n => +n.dataset.index)")
    assert winners == [0, 1, 5]
    struck = root.locator(".node .token").evaluate_all(
        "all => all.map(t => getComputedStyle(t).textDecorationLine === 'line-through')"
    )
    assert struck == [node[7] == "pruned" for node in NODES]


def test_a_thick_line_is_a_probable_token(page: Page):
    root = mount(page, DATA)
    edges = root.locator(".edge")
    widths = sorted(
        float(width)
        for width in edges.evaluate_all("all => all.map(e => e.getAttribute('stroke-width'))")
    )
    expected = sorted(0.75 + 5 * 2.718281828459045 ** node[4] for node in NODES[1:])
    assert widths == pytest.approx(expected, abs=0.006)
    assert root.locator(".edge.winner").count() == 2


def test_arrows_walk_the_tree(page: Page):
    root = mount(page, DATA)
    box = part(root, "box")
    for key, index in [
        ("ArrowRight", 5),  # the child on the translation's path
        ("ArrowDown", 6),
        ("ArrowLeft", 1),
        ("Home", 0),
        ("End", 5),
    ]:
        box.press(key)
        assert root.get_attribute("data-kept") == str(index), key
    page.wait_for_function("window.told.at(-1)?.[1].node === 5")
    assert page.evaluate("window.told.at(-1)") == ["kept", {"tree": "by hand", "node": 5}]
