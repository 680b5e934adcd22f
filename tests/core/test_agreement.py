"""Heads chosen without manual alignments: the pair of heads whose networks agree most."""

from __future__ import annotations

import numpy as np
import pytest

from core.analysis.alignment import links
from core.atlas.agreement import agreeing_heads, matches
from core.checkpoint.folder import load
from core.experiments.aligning import READINGS, word_maps
from tests.generated_language import ENTRIES, language, plant

PLACES = [(r, layer, head) for r in READINGS for layer in range(2) for head in range(2)]


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """A head of each network aligns all words; a second one of the first, half of them."""
    folder = tmp_path_factory.mktemp("planted")
    plant(folder / "a-xx-yy", {(1, 0): range(ENTRIES), (0, 0): range(0, ENTRIES, 2)})
    plant(folder / "b-yy-xx", {(0, 1): range(ENTRIES)}, ("yy", "xx"), reverse=True)
    return load(folder / "a-xx-yy"), load(folder / "b-yy-xx")


def by_hand(network, pairs) -> list[dict]:
    """Return each pair's links by reading, layer and head."""
    maps = (word_maps(network, pair) for pair in pairs)
    return [{at: links(of[at[0], "weights"][at[1:]]) for at in PLACES} for of in maps]


def test_shared_links_are_counted_as_sets():
    random = np.random.default_rng(3)
    of_source, of_target = random.integers(-1, 5, (4, 7)), random.integers(-1, 7, (3, 5))
    expected = [
        [
            len(
                {(s, t) for t, s in enumerate(first) if s >= 0}
                & {(s, t) for s, t in enumerate(second) if t >= 0}
            )
            for second in of_target
        ]
        for first in of_source
    ]
    assert matches(of_source, of_target).tolist() == expected and np.sum(expected) > 0


def test_the_planted_heads_are_chosen_and_scored_on_the_other_half(networks):
    pairs = [pair for pair, _ in language().pairs(24)]
    pairs[4], pairs[7] = ("", ""), ("ba " * 70, "pa")
    newly = []
    found = agreeing_heads(*networks, pairs, on_progress=newly.append)
    assert (found.forward.heads, found.reverse.heads) == (((1, 0),), ((0, 1),))
    assert found.forward.reading == found.reverse.reading == "input" and len(newly) == 24
    scored = [pair for i, pair in enumerate(pairs) if i % 2 and i != 7]
    forward, reverse = by_hand(networks[0], scored), by_hand(networks[1], [p[::-1] for p in scored])

    def error(at) -> float:
        turned = [frozenset((i, j) for j, i in each["input", 0, 1]) for each in reverse]
        both = sum(len(a[at] & b) for a, b in zip(forward, turned, strict=True))
        return 1 - 2 * both / sum(len(a[at]) + len(b) for a, b in zip(forward, turned, strict=True))

    assert found.forward.aer == found.reverse.aer == pytest.approx(error(("input", 1, 0)))
    assert found.random == pytest.approx(np.mean([error(at) for at in PLACES]))
    assert found.forward.low < found.forward.aer < found.forward.high < found.random


def test_too_few_pairs_are_refused(networks):
    pairs = [pair for pair, _ in language().pairs(4)]
    agreeing_heads(*networks, pairs)
    with pytest.raises(ValueError, match="too few pairs to choose heads"):
        agreeing_heads(*networks, pairs[:3])
    with pytest.raises(ValueError, match="too few pairs to choose heads"):
        agreeing_heads(*networks, [*pairs[:3], ("", "")])
