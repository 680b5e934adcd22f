"""The search tree's panel and picture show all numbers and sentences of a hand-written tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page

from app.look.palette import PALETTES
from tests.app.drawn import colour, drawn_component

BOS, EOS, A, B, PIECE, C = 1, 2, 10, 11, 12, 13
LABELS = {BOS: "<bos>", EOS: "<eos>", A: "a", B: "b", PIECE: "sh", C: "c"}
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
STATUS = (
    "Every translation starts here.",
    "On the path of the translation.",
    "Kept, but none of its continuations was among the best 5 of the next step.",
    "Pruned: 2 others had a higher sum in this step.",
    "Pruned at its end: 3 others had a higher sum in this step.",
    "Finished: the best score, so this is the translation.",
    "Kept and extended.",
    "Forced, whatever its probability. Kept and extended.",
    "Finished: rank 2 by score.",
    "Finished, but 2 others finished with a better score.",
    "Still open when the search stopped: it could no longer beat the best finished translation.",
)
DATA: dict[str, Any] = {
    "tree": "by hand",
    "beam": 2,
    "alpha": 1,
    "limit": 9,
    "first": 1,
    "pinned": 1,
    "tokens": {
        str(id): {"label": label, "special": id < A, "unknown": False, "end": id == EOS}
        for id, label in LABELS.items()
    },
    "nodes": NODES,
    "hypotheses": [
        {"text": "a", "end": 5, "log_prob": -0.9, "score": -0.9 * 6 / 7},
        {"text": "a c", "end": 8, "log_prob": -1.4, "score": -1.4 * 6 / 8},
    ],
    "meanings": {"log-probability": "means 1", "length penalty": "means 2", "score": "means 3"},
}


class Tree:
    """The mounted component; `changes` replace entries of `DATA`."""

    def __init__(self, page: Page, theme: str = "light", **changes: Any) -> None:
        self.each = drawn_component(page, "beam_tree", ".beam-tree", {**DATA, **changes}, theme)
        self.root = page.locator(".beam-tree")

    def part(self, name: str) -> Locator:
        return self.root.locator(f"[data-part={name}]")

    def text(self, name: str) -> str:
        return " ".join(self.part(name).inner_text().split())

    def choose(self, index: int) -> None:
        self.root.locator(f".node[data-index='{index}']").dispatch_event("click")

    def arithmetic(self) -> list[tuple[str, str, str]]:
        """Return rows of name, computation and value."""
        columns = [self.part("arithmetic").locator(which) for which in ("dt", ".how", ".value")]
        return list(zip(*(column.all_inner_texts() for column in columns), strict=True))


def test_the_key_says_how_wide_the_search_is(page: Page) -> None:
    for beam, candidates, extended in (
        (2, 5, "At most 2 are"),
        (1, 5, "One is"),
        (5, 10, "At most 5 are"),
    ):
        words = Tree(page, beam=beam, tree=f"beam {beam}").part("key").text_content()
        assert words.startswith(
            f"Each column is one step: the {candidates} continuations with the "
        )
        assert f"{extended} extended; those struck through were pruned." in words


def test_a_tree_that_hides_its_winner_shows_no_score(page: Page) -> None:
    tree = Tree(page, hypotheses=[], tree="hidden")
    assert not tree.part("all-results").is_visible()
    assert not tree.root.locator(".winner, .flag").count()
    tree.choose(len(NODES) - 1)
    assert [name for name, *_ in tree.arithmetic()] == ["log-probability"]
    box = tree.part("all-results").bounding_box()
    page.evaluate("(data) => again(data)", DATA)  # the question below is answered, and stays there
    assert box and tree.part("all-results").bounding_box() == box
    tree.part("results-title").click()
    assert tree.part("results").is_visible()


def test_a_status_counts_those_that_were_better_not_the_beam(page: Page) -> None:
    tree = Tree(page, beam=4, tree="wide")
    for index in (3, 4, 9):
        tree.choose(index)
        assert tree.text("status") == STATUS[index]


def test_each_status_is_explained(page: Page) -> None:
    tree = Tree(page)
    for index, (node, status) in enumerate(zip(NODES, STATUS, strict=True)):
        tree.choose(index)
        assert tree.text("status") == status
        where = "fed in first" if index == 0 else f"step {node[2]}, rank {node[3] + 1}"
        assert tree.text("title").replace(" ", "") == f"{LABELS[node[1]]}{where}".replace(" ", "")


def test_the_score_is_a_sum_with_a_length_penalty(page: Page) -> None:
    tree = Tree(page)
    tree.choose(6)
    assert tree.text("terms") == "a (−0.200) c + (−1.100)"
    assert tree.arithmetic() == [
        ("log-probability", "sum of 2 tokens", "−1.300"),
        ("length penalty", "((5 + 2) / 6)1", "1.167"),
        ("score", "−1.300 / 1.167, if it ended here", "−1.114"),
    ]
    titles = tree.each("[data-part=arithmetic] dt", "at.title")
    assert titles == ["means 1", "means 2", "means 3"]
    tree.choose(8)
    assert tree.arithmetic()[2] == ("score", "−1.400 / 1.333", "−1.050")
    tree.choose(3)
    assert tree.arithmetic()[0] == ("log-probability", "one token", "−4.600")
    assert tree.text("results-title") == "The 2 finished translations, best score first"
    assert tree.text("results") == (
        "1 a log-probability −0.900 / 1.167 (2 tokens) = −0.771 "
        "2 a c log-probability −1.400 / 1.333 (3 tokens) = −1.050"
    )
    tree = Tree(page, beam=1, alpha=0)
    tree.choose(3)
    assert tree.text("status") == "Pruned: another token was more probable."
    assert [row[0] for row in tree.arithmetic()] == ["log-probability", "score"]
    assert tree.arithmetic()[1][1] == "greedy: no length penalty"
    assert "2 tokens: log-probability −0.771" in tree.text("results")


def test_alternatives_are_probabilities_of_the_parents_step(page: Page) -> None:
    tree = Tree(page)
    tree.choose(1)
    assert tree.text("instead") == "Most probable here: choose to force"
    buttons = tree.part("alternatives").locator("button")
    assert [tuple(text.split()) for text in buttons.all_inner_texts()] == [
        ("a", "0.82"),
        ("b", "0.14"),
        ("sh", "0.01"),
        ("<eos>", "<0.01"),
        ("c", ">0.99"),
    ]
    widths = tree.each(".alternatives .bar i", "parseFloat(at.style.width)")
    assert widths == pytest.approx([81.873, 13.534, 1.005, 0.248, 99.601], abs=0.001)
    assert [button.is_disabled() for button in buttons.all()] == [True, *[False] * 4]
    tree.choose(6)  # alternatives to c after a
    buttons.nth(0).click()
    sent = page.evaluate("window.sent.at(-1)")
    assert sent == ["force", {"tree": "by hand", "ids": [A, EOS], "text": ""}]


def test_the_picture_has_each_token_in_its_step_and_rank(page: Page) -> None:
    tree = Tree(page)
    texts = tree.each(".node", "[...at.querySelectorAll('text')].map(t => t.textContent)")
    ranks = {5: ["1"], 8: ["2"]}
    for index, (node, (name, *numbers)) in enumerate(zip(NODES, texts, strict=True)):
        name, label = name.strip("\u2066\u2067\u2068\u2069"), LABELS[node[1]]
        values = [f"{value:.2f}".replace("-", "−") for value in (node[5], node[4])] if index else []
        assert numbers == [*values, *ranks.get(index, [])]
        assert label.startswith(name.rstrip("…")) and (index in ranks or name == label)
    assert tree.each(".node.winner", "+at.dataset.index") == [0, 1, 5]
    struck = "getComputedStyle(at).textDecorationLine === 'line-through'"
    assert tree.each(".node .token", struck) == [node[7] == "pruned" for node in NODES]


def grown(seed: int, beam: int, steps: int) -> dict[str, Any]:
    """Return a random tree: parents of any rank, forced, pruned and finished tokens."""
    random = np.random.default_rng(seed)
    nodes: list[list[Any]] = [[None, BOS, 0, 0, 0.0, 0.0, 0.0, "open", False, []]]
    alive, ends = [0], []
    for step in range(1, steps + 1):
        made = []
        for rank, total in enumerate(-np.sort(random.gamma(2, 1, 2 * beam))):
            parent = int(random.choice(alive))
            log_prob = min(-0.01, float(total) + 0.5 * rank - 1)
            is_end = step > 1 and rank > 0 and bool(random.random() < 0.3)
            fate = "finished" if is_end else "open" if rank < beam else "pruned"
            token = EOS if is_end else int(random.choice([A, B, PIECE, C]))
            made.append([parent, token, step, rank, log_prob, total, total, fate, step == 1, []])
        first = len(nodes)
        nodes += made
        ends += [first + i for i, node in enumerate(made) if node[7] == "finished"]
        alive = [first + i for i, node in enumerate(made) if node[7] == "open"]
    ends.sort(key=lambda end: -nodes[end][5])
    found = [{"text": "x", "end": end, "log_prob": -1.0, "score": -1.0} for end in ends]
    return {"tree": f"grown {seed}", "beam": beam, "nodes": nodes, "hypotheses": found}


def path_to(nodes: list[list[Any]], at: int) -> list[int]:
    """Return a node and its ancestors, without <bos>."""
    return [*path_to(nodes, nodes[at][0]), at] if at else []


@pytest.mark.parametrize(
    ("changes", "theme"),
    [({}, "light"), (grown(1, 2, 4), "dark"), (grown(5, 4, 6), "light")],
    ids=["hand", "2", "4"],
)
def test_each_edge_leads_from_a_token_to_its_parent(page: Page, changes: dict, theme: str) -> None:
    """Edges end at their two tokens, as thick as the token is probable; the winner's are dark."""
    tree = Tree(page, theme=theme, **changes)
    data = {**DATA, **changes}
    nodes, ends = data["nodes"], [one["end"] for one in data["hypotheses"]]
    assert len(ends) > 1
    winner = {0, *path_to(nodes, ends[0])}
    boxes = tree.each(
        ".node", "[...at.getAttribute('transform').match(/[\\d.]+/g), ...['width', 'height']"
        ".map((side) => at.querySelector('.ground').getAttribute(side))].map(Number)"
    )  # fmt: skip
    edges = tree.each(
        ".edge", "[at.getAttribute('d').match(/-?[\\d.]+/g).map(Number), "
        "getComputedStyle(at).strokeWidth, getComputedStyle(at).stroke, "
        "getComputedStyle(at).strokeDasharray, getComputedStyle(at).fill]"
    )  # fmt: skip
    assert len(edges) == len(nodes) - 1
    colours = {name: colour(getattr(PALETTES[theme], name)) for name in ("ink", "hairline")}
    by_end = {tuple(points[-2:]): (points, *look) for points, *look in edges}
    assert len(by_end) == len(edges)
    for index, (parent, _, _, _, log_prob, _, _, fate, forced, _) in enumerate(nodes):
        if parent is None:
            continue
        x, y, _, height = boxes[index]
        points, width, stroke, dash, fill = by_end[x, y + height / 2]
        from_x, from_y, wide, tall = boxes[parent]
        assert points[:2] == [from_x + wide, from_y + tall / 2], f"edge to {index}"
        thick = 0.75 + 5 * np.exp(log_prob)
        assert float(width.removesuffix("px")) == pytest.approx(thick, abs=0.006), f"edge {index}"
        dead = fate in ("pruned", "overtaken")
        if index in winner or dead:
            expected = colours["ink" if index in winner else "hairline"]
            assert colour(stroke) == expected, f"edge to {index}"
        else:
            assert stroke not in {f"rgb{colours[name]}" for name in colours}, f"edge to {index}"
        assert (dash != "none") == forced and fill == "none", f"edge to {index}"
    order = tree.each(
        ".edge", "at.classList.contains('winner') ? 2 : +!/pruned|overtaken/.test(at.classList)"
    )
    assert order == sorted(order), "the winner's edges cover the others"


@pytest.mark.parametrize("changes", [{}, grown(5, 4, 6)], ids=["hand", "4"])
def test_steps_ranks_and_places_are_counted_from_1(page: Page, changes: dict) -> None:
    tree = Tree(page, **changes)
    data = {**DATA, **changes}
    nodes = data["nodes"]
    corners = tree.each(".node", "at.getAttribute('transform').match(/[\\d.]+/g).map(Number)")
    columns = {node[2]: x for node, (x, _) in zip(nodes, corners, strict=True)}
    rows = {node[3]: y for node, (_, y) in zip(nodes, corners, strict=True)}
    axis = tree.each(".axis", "[at.textContent, +at.getAttribute('x'), +at.getAttribute('y')]")
    above = {words: x for words, x, y in axis if y < min(rows.values())}
    beside = {words: y for words, x, y in axis if y > min(rows.values())}
    assert above == {str(step) if step else "step": x + 4 for step, x in columns.items()}
    assert beside == {str(rank + 1): y + 17 for rank, y in rows.items()}
    flags = tree.each(".node .place", "[+at.closest('.node').dataset.index, at.textContent]")
    ends = [one["end"] for one in data["hypotheses"]]
    assert dict(flags) == {end: str(place + 1) for place, end in enumerate(ends)}
    for index in (len(nodes) - 1, ends[-1], 0):
        tree.choose(index)
        path = path_to(nodes, index)[:-1]
        assert tree.each(".node.pinned", "+at.dataset.index") == [index]
        assert tree.each(".node.on-path", "+at.dataset.index") == sorted(path)
        assert tree.each("[aria-selected=true]", "+at.dataset.index") == [index]


def test_arrows_walk_the_tree(page: Page) -> None:
    """To a screen reader, the box is a tree whose active item is the pinned node."""
    tree = Tree(page)
    box = tree.part("box")
    assert box.get_attribute("role") == "tree" and tree.root.locator("[aria-live]").count() == 0
    for key, index in [
        ("ArrowRight", 5),  # the child on the translation's path
        ("ArrowDown", 6),
        ("ArrowLeft", 1),
        ("Home", 0),
        ("End", 5),
    ]:
        box.press(key)
        assert tree.root.get_attribute("data-kept") == str(index), key
        active = tree.root.locator(f"#{box.get_attribute('aria-activedescendant')}")
        assert active.get_attribute("role") == "treeitem"
        assert tree.each("[aria-selected=true]", "[at.id, at.dataset.index]") == [
            [active.get_attribute("id"), str(index)]
        ]
    assert ", step 2, log-probability" in (active.get_attribute("aria-label") or "")
    tree.root.locator(".node").nth(3).hover()
    assert active.get_attribute("aria-selected") == "true", "hovering is silent"
    page.wait_for_function("window.sent.at(-1)?.[1].node === 5")
    assert page.evaluate("window.sent.at(-1)") == ["kept", {"tree": "by hand", "node": 5}]
