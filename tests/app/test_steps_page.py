"""The page "Step by step" agrees with the search and the record."""

from __future__ import annotations

import math
from itertools import takewhile

import numpy as np
import pytest

from app.components.beam_tree.payload import first_node
from app.look.labels import label, labels
from core.config import DecodeConfig
from core.record.record import TranslationRecord
from core.translator import Translator
from tests.app.page_checks import axis_titles, drawn, nothing_else, number
from tests.app.rendered import Rendered, array, render

KITCHEN = "Eine Frau bereitet in der Küche das Essen zu."  # its tree has every status
SNOW = "Ein Hund läuft durch den Schnee."
EOS = 2


def log_prob(translator: Translator, source: str, ids: tuple[int, ...]) -> float:
    """Return the log-probability of a target from a teacher-forced pass."""
    return float(np.sum(translator.inspect(source, target_ids=ids).log_probs, dtype=np.float64))


def nodes_of(page: Rendered) -> list[dict]:
    names = ("parent", "id", "step", "rank", "log_prob", "total", "score", "status", "forced")
    found = page.payload("beam_tree")["nodes"]
    return [dict(zip((*names, "next"), node, strict=True)) for node in found]


def ids_of(nodes: list[dict], at: int) -> tuple[int, ...]:
    ids: list[int] = []
    while nodes[at]["parent"] is not None:
        ids.insert(0, nodes[at]["id"])
        at = nodes[at]["parent"]
    return tuple(ids)


def claim_heads(page: Rendered, record: TranslationRecord) -> None:
    """Check the figure: the last row of each cross map, by layer, head and source token."""
    last = record.cross[:, :, -1]
    words = drawn(labels(record.source, 1))
    heads = [f"{a + 1}.{b + 1}" for a, b in np.ndindex(last.shape[:2])] + ["mean"]
    rows = np.array([*last.reshape(-1, len(words)), last.mean((0, 1))])
    figure = page.figure("step_heads")
    (map_,) = figure["data"]
    np.testing.assert_allclose(array(map_["z"]), rows, rtol=0, atol=1e-6)
    assert (map_["zmin"], map_["zmax"]) == (0, 1)
    assert map_["text"] == [
        [f"{head}: weight on <b>{word}</b>" for word in words] for head in heads
    ]
    layout = figure["layout"]
    assert (layout["xaxis"]["ticktext"], layout["yaxis"]["ticktext"]) == (words, heads)
    assert axis_titles(figure) == ("key: source token", "layer.head")
    lines = [shape["y0"] + 0.5 for shape in layout["shapes"]]
    assert lines == [last.shape[1] * n for n in range(1, last.shape[0] + 1)]


def claim_step(page: Rendered, record: TranslationRecord) -> None:
    """Check the line above the figure: the produced token and the last tokens read."""
    read = [label(token) for token in record.target_in]
    before = ("… " if len(read) > 4 else "") + " · ".join(read[-4:])
    produced = label(record.target_out[-1])
    page.claim_all("step_words", [f"While producing “{produced}” after “{before}”"], "text")


def claim_caption(page: Rendered, beam: int) -> None:
    kept = "the most probable token" if beam == 1 else f"the best {beam} unfinished translations"
    page.claim(f"At each step, {'greedy' if beam == 1 else 'beam'} search keeps {kept}.")


def test_the_tree_is_that_of_the_search_and_opens_where_its_results_part(translator):
    """Nodes with a probability and a score also match a teacher-forced pass of the winner."""
    page = render("steps", source=KITCHEN)
    claim_caption(page, 5)
    data, nodes = page.payload("beam_tree"), nodes_of(page)
    assert (data["beam"], data["alpha"]) == (5, 1.0)
    written = translator.search_tree(KITCHEN)
    expected = [
        vars(node) | {"next": [list(one) for one in node.next]} for node in written.tree.nodes
    ]
    assert nodes == expected
    own = translator.inspect(KITCHEN)
    assert [h["text"] for h in data["hypotheses"]] == [h.text for h in own.hypotheses]
    at, row = data["hypotheses"][0]["end"], len(own.target_out)
    assert ids_of(nodes, at) == tuple(token.id for token in own.target_out)
    sums = np.sum(own.log_probs, dtype=np.float64)
    assert nodes[at]["log_prob"] == pytest.approx(float(own.log_probs[-1]), abs=2e-5)
    assert nodes[at]["total"] == pytest.approx(sums, abs=1e-4)
    assert nodes[at]["score"] == pytest.approx(sums / ((5 + row) / 6), abs=1e-4)
    steps = zip(*(ids_of(nodes, h["end"]) for h in data["hypotheses"]), strict=False)
    shared = tuple(step[0] for step in takewhile(lambda step: len({*step}) == 1, steps))
    assert 1 <= len(shared) < row and ids_of(nodes, data["pinned"]) == shared
    first = translator.inspect(KITCHEN, target_ids=shared)
    claim_step(page, first)
    claim_heads(page, first)
    nothing_else(page, "step_heads")
    for id, token in data["tokens"].items():
        assert token["label"] == label(written.tokens[int(id)])
        assert token["end"] == (int(id) == EOS)


def test_a_forced_prefix_is_compared_with_the_free_search(translator):
    """The prefix has five tokens and leads to a worse score; the page shows its last token."""
    own = translator.inspect(KITCHEN)
    free = tuple(token.id for token in own.target_out)
    row = 4
    other = own.alternatives[row][1].id
    prefix = (*free[:row], other if other != free[row] else own.alternatives[row][0].id)
    page = render("steps", source=KITCHEN, forced=".".join(map(str, prefix)))
    claim_caption(page, 5)
    nodes, data = nodes_of(page), page.payload("beam_tree")
    forced = ids_of(nodes, data["hypotheses"][0]["end"])
    assert forced[: len(prefix)] == prefix
    sums = [log_prob(translator, KITCHEN, ids) for ids in (free, forced)]
    scores = [s / ((5 + len(ids)) / 6) for s, ids in zip(sums, (free, forced), strict=True)]
    lines = [
        f"log-probability {number(s, 3)}, {len(ids)} tokens, score {number(score, 3)}"
        for s, score, ids in zip(sums, scores, (free, forced), strict=True)
    ]
    assert scores[1] < scores[0]
    page.claim_all("free_result", ["Free search", lines[0]], "caption")
    page.claim_all("free_result", [own.translation], "text")
    worse = f"{lines[1]}: {number(scores[0] - scores[1], 3)} worse"
    page.claim_all("forced_result", ["Forced to begin with", worse], "caption")
    record = translator.inspect(KITCHEN, target_ids=prefix)
    begun = " · ".join(label(token) for token in record.target_out)
    whole = translator.inspect(KITCHEN, target_ids=forced).translation
    page.claim_all("forced_result", [begun, whole], "text")
    claim_step(page, record)
    claim_heads(page, record)
    assert [n["forced"] for n in nodes if n["step"] in (5, 6)].count(True) == 1
    nothing_else(page, "step_heads")


def test_the_translation_that_greedy_search_misses_is_more_probable(translator):
    own = translator.inspect(SNOW, decode=DecodeConfig(beam=1))
    free = tuple(token.id for token in own.target_out)
    prefix = (*free[:2], own.alternatives[2][1].id)
    page = render("steps", source=SNOW, search="greedy", forced=".".join(map(str, prefix)))
    claim_caption(page, 1)
    data = page.payload("beam_tree")
    forced = ids_of(nodes_of(page), data["hypotheses"][0]["end"])
    sums = [log_prob(translator, SNOW, ids) for ids in (free, forced)]
    assert sums[1] > sums[0] and data["alpha"] == 0
    line = f"log-probability {number(sums[1], 3)}, {len(forced)} tokens, score {number(sums[1], 3)}"
    better = f"{number(sums[1] - sums[0], 3)} better: the free search had missed this translation"
    page.claim_all("forced_result", ["Forced to begin with", f"{line}: {better}"], "caption")


def test_forcing_what_the_search_writes_changes_nothing(translator):
    first = translator.inspect(SNOW).target_out[0].id
    page = render("steps", source=SNOW, forced=str(first))
    assert page.texts("forced_result", "caption")[1].endswith(
        ": the same score as the free translation"
    )


def test_edits_made_on_translate_apply_to_the_attention_figure(translator):
    from core.record.edits import Edits

    edits, _ = Edits.parse("off.cross.2.3")
    page = render("steps", source=SNOW, edits="off.cross.2.3")
    free = translator.search_tree(SNOW, edits=edits)
    first = free.tree.ids(first_node(free.tree))
    record = translator.inspect(SNOW, target_ids=first, edits=edits)
    claim_heads(page, record)
    assert not math.isclose(record.log_prob, translator.inspect(SNOW, target_ids=first).log_prob)
    line = page.texts("edits_line", "markdown")[0]
    assert "layer 3" in line and "head 4" in line
