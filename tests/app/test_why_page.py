"""The page Ask why agrees with the record and with the experiments."""

# ruff: noqa: E501 (page texts on one line)

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from app.look.labels import ATTENTION
from app.views.why import sources as sources_section
from app.views.why import words as words_section
from app.views.why.heads import _few_effects
from core.analysis.attribution import source_words
from core.checkpoint.lens import load_lens
from core.experiments.attribution import METHODS, attributions, shapley
from core.experiments.head_effects import head_effects, pair_effects
from core.experiments.jacobian_lens import jacobian_lens
from core.experiments.logit_lens import decoder_lens, lens
from core.experiments.word_choice import rivals, true_change, word_choice
from core.record.edits import Edge, Edits
from tests.app.charts import holds, plain, says, shows
from tests.app.page_checks import (
    SUBSCRIPT,
    is_blue,
    names,
    nothing_else,
    number,
    percent,
    record,
    signed,
    translator,
)
from tests.app.rendered import Item, Rendered, array, render

SHORT = "Zwei Männer spielen Fußball."
LONG = "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd."
COLOURS = "Eine Frau, gekleidet in blau, und eine, gekleidet in rosa, laufen."
LITTLE = "Ein kleiner Junge sitzt auf einer Schaukel."
ENGLISH = "A woman is preparing the food in the kitchen."
FOLDS = ("open_pairs", "open_choice", "open_lens", "open_decoder_lens", "open_knew", "open_sources")
CLOSED = dict.fromkeys(FOLDS, False)
TIME = r"about \d+ seconds?"


@functools.cache
def open_page(source: str, opened: str = "", **query: Any) -> Rendered:
    """Render the page with one section open and the others closed."""
    state = CLOSED | ({opened: True, "open_terms": True} if opened else {})
    return render("why", state=state, source=source, **query)


@pytest.fixture(scope="module")
def net():
    return translator("scratch-de-en")


def check_the_rest(page: Rendered, *figures: str) -> None:
    """Check that everything else has a test of its own."""
    fixed = (" matter little by themselves: ", " of these 12 heads ", "Langedijk et al. 2023")

    def has_its_own_test(item: Item) -> bool:
        return item.where in ("lesson_sentence", "why_matters") or bool(
            re.fullmatch(rf".+ \(({TIME})\)", item.text)
        )

    says(page, None, "95")
    nothing_else(page, "why_heads", "pictured_why", *figures, fixed=fixed, but=has_its_own_test)


def told(rows) -> list[tuple[str, str]]:
    """Return the values of the hovers of terms."""
    return [(place, signed(value)) for *_, place, value in rows]


LARGEST = [(SimpleNamespace(label=f"c{n}"), t) for n, t in enumerate((1.0, 2.0, 3.0, 8.0), 1)]
ORDINALS = {4: "4th", 11: "11th", 21: "21st", 22: "22nd", 113: "113th", 1003: "1,003rd"}


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        (_few_effects(0, 48), ["Every head", "0.05"]),
        (_few_effects(1, 48), ["1", "48", percent(1 / 48), "matters little", "0.05"]),
        *((words_section._ordinal(rank), [written]) for rank, written in ORDINALS.items()),
        (words_section._disagreement([], []), ["No head"]),
        (words_section._disagreement(LARGEST[:2], [0.9, 2.1]), ["each of", "2", "twice its term"]),
        (words_section._disagreement(LARGEST[:1], [0.9]), ["the one head", "twice its term"]),
        (
            words_section._disagreement(LARGEST[:2], [-0.5, 2.0]),
            ["every term", "2", "1", "has a true", "sign. The", "c1", "−1.000", "+0.500"],
        ),
        (
            words_section._disagreement(LARGEST[:2], [0.2, 2.0]),
            ["every term", "2", "1", "below half", "c1", "−1.000", "−0.200"],
        ),
        (
            words_section._disagreement(LARGEST, [-0.5, 0.2, 9.0, 14.0]),
            ["the terms", "4", "1", "sign and", "2", "have true", "c3", "−3.000", "−9.000"],
        ),
        (sources_section._zero_in_intervals(0, 14), ["None", "14", "0"]),
        (sources_section._zero_in_intervals(1, 14), ["1", "14", "includes", "0", "that word"]),
        (sources_section._zero_in_intervals(7, 14), ["7", "14", "include", "0", "these"]),
    ],
)
def test_rare_findings_are_worded_by_their_numbers(said, parts):
    assert holds(said, parts), said


def heads_by_effect(net, rec, token: int | None = None) -> list[tuple[str, int, int, float]]:
    """Return kind, layer, head and change of all heads, the largest change first."""
    heads = [
        (kind, *at, float(v))
        for kind, a in head_effects(net, rec).changes.items()
        for at, v in np.ndenumerate(a.sum(-1) if token is None else a[..., token])
    ]
    return sorted(heads, key=lambda head: -abs(head[3]))


CAPITALS = "ZWEI MÄNNER SPIELEN FUSSBALL."  # both probabilities are below 0.1 %


@pytest.mark.parametrize(
    ("source", "token"), [(SHORT, None), (SHORT, 2), (LONG, None), (LONG, 2), (CAPITALS, None)]
)
def test_the_most_important_heads_are_shown_and_counted(net, source, token):
    page = open_page(source, **({} if token is None else {"why_for": str(token)}))
    rec = record(source)
    heads = heads_by_effect(net, rec, token)
    kind, layer, head, change = heads[0]
    before = float(rec.log_probs.sum() if token is None else rec.log_probs[token])
    ends = [percent(math.exp(end)) for end in (before, before + change)]
    assert (ends[0] == ends[1]) == (source == CAPITALS)
    if ends[0] == ends[1]:
        ends = [number(end, 2) for end in (before, before + change)]
    what = "the whole translation" if token is None else f"“{names(rec.target_out, 1)[token]}”"
    what = f"{'log-' * (source == CAPITALS)}probability of {what}"
    attention = "cross-attention" if kind == "cross" else f"{kind}'s self-attention"
    of_head = str(head + 1), str(layer + 1), attention
    says(page, "why_matters", *of_head, f"the {what}", *ends, signed(change, 2))
    rows = [(f"{k} {n + 1}.{h + 1}", v) for k, n, h, v in heads[:12]]
    shows(page, "why_heads", rows, "12", str(len(heads)), "nats", hovers=told(rows))
    harm = sum(v > 0 for _, v in rows)
    if harm:
        says(page, None, str(harm), "12", "lowers" if harm == 1 else "lower")
    little = sum(abs(v) < 0.05 for *_, v in heads)
    share = percent(little / len(heads)), "matter little" if little > 1 else "matters little"
    says(page, None, str(little), str(len(heads)), *share, "0.05")
    check_the_rest(page)


@pytest.mark.parametrize(
    ("source", "kind", "repairs"),
    [(SHORT, "cross", False), (SHORT, "encoder", False), (LONG, "cross", True)],
)
def test_pairs_of_heads_match_the_experiment(net, source, kind, repairs):
    page = open_page(source, "open_pairs", why_pairs=kind)
    both = pair_effects(net, record(source), kind).pairs.sum(-1)
    one = both.diagonal()
    beyond = both - one[:, None] - one
    np.fill_diagonal(beyond, 0)
    heads = [f"{n // 4 + 1}.{n % 4 + 1}" for n in range(len(one))]
    rows = [(f"{heads[a]}, {heads[b]}", beyond[a, b]) for a, b in np.ndindex(beyond.shape)]
    told = [(*place.split(", "), signed(value)) for place, value in rows]
    heat, *_ = shows(page, "why_pairs_map", rows, kind, "second", "first", hovers=told)["data"]
    assert not is_blue(heat["colorscale"][0][1]) and is_blue(heat["colorscale"][-1][1])
    assert heat["zmin"] == -heat["zmax"] == pytest.approx(-np.abs(beyond).max(), abs=1e-5)
    upper = [(beyond[a, b], a, b) for a in range(len(one)) for b in range(a + 1, len(one))]
    for (by, a, b), lost in ((min(upper), "more is lost"), (max(upper), "less is lost")):
        if abs(one[a]) < abs(one[b]):
            a, b = b, a
        first, second = heads[a], heads[b]
        if repairs and lost.startswith("less"):
            assert one[a] < 0 and both[a, b] > one[a] / 2
            says(page, "why_pairs_most", f"Switching off {second} too repairs what {first} lost")
        else:
            says(page, "why_pairs_most", first, second, lost)
        alone = (first, signed(one[a]), second, signed(one[b]))
        says(page, "why_pairs_most", *alone, "both", signed(both[a, b]), signed(by))
        says(page, "why_pairs_most", first, second, signed(both[a, b] - one[a]), signed(one[b]))
    check_the_rest(page, "why_pairs")


def test_pairs_without_interaction_lose_nothing_together(monkeypatch):
    """Each pair of heads is made to have exactly the sum of both heads' effects."""
    from app.state import results
    from core.analysis.head_effects import PairEffects

    original = results.run_experiment

    def additive(card, experiment, *rest, **callbacks):
        answer = original(card, experiment, *rest, **callbacks)
        if experiment is not pair_effects:
            return answer
        one = answer.pairs.sum(-1).diagonal()
        pairs = (one[:, None] + one)[..., None]
        pairs[range(len(one)), range(len(one))] = one[:, None]
        return PairEffects(answer.kind, answer.layers, answer.heads, pairs)

    monkeypatch.setattr(results, "run_experiment", additive)
    page = render("why", state=CLOSED | {"open_pairs": True}, source=SHORT)
    bold = [t for t in page.texts("why_pairs_most", "markdown") if t.startswith("**")]
    assert bold == [
        f"**There are no two heads for which {lost} is lost together**" for lost in ("less", "more")
    ]


MARKS = ".,;:!?\"'()-–…"


def whole_words(net, found) -> list:
    """Return the rivals that are whole words, judged by the tokens predicted after them."""
    tokens, after = (net.target_tokens(ids) for ids in (found.ids, found.following))
    return [
        token
        for token, then in zip(tokens, after, strict=True)
        if token.starts_word
        and not token.special
        and token.text.strip(MARKS)
        and (then.starts_word or then.special or not then.text.strip(MARKS))
    ]


def without(net, rec, choice, component) -> float:
    """Return the true change of the logit difference when a head is switched off."""
    off = Edits(heads_off=frozenset({(component.kind, component.layer, component.head)}))
    return true_change(net, rec, choice.step, choice.words, off)


@pytest.mark.parametrize(
    ("source", "folder", "step", "query"),
    [
        (LONG, "scratch-de-en", 14, {}),
        (LITTLE, "scratch-de-en", 1, {}),
        (ENGLISH, "baseline-en-de", 4, {"direction": "en-de", "model": "baseline"}),
    ],
)
def test_a_word_choice_is_split_into_terms_ribbons_and_removals(source, folder, step, query):
    rec, net = record(source, folder), translator(folder)
    page = open_page(source, "open_choice", why_step=str(step), **query)
    own = rec.target_out[step]
    found = rivals(net, rec, step)
    whole = whole_words(net, found)
    text = own.text.lower()
    apart = [
        t
        for t in whole
        if not t.text.lower().startswith(text) and not text.startswith(t.text.lower())
    ]
    rest = [token for token in rec.alternatives[step] if token.id != own.id]
    (control,) = [b for b in page.app.button_group if b.key == "why_other"]
    offered = dict.fromkeys(t.text for t in [*apart[:1], *whole[:4], *rest])
    assert list(control.options) == list(offered) and control.value == apart[0].id
    other = apart[0]

    chance = math.exp(float(rec.log_probs[step]))
    assert found.probability == pytest.approx(chance, abs=1e-5)
    above = sum(c > chance for c in found.probabilities)
    rank = f"only the {['second', 'third'][above - 1]}-largest" if above else "has the largest"
    why = ["beam search"] if above else []
    says(page, "why_rank", f"“{names(rec.target_out, 1)[step]}”", rank, percent(chance), *why)
    for item in page.found("why_rank"):
        item.claimed |= item.text.startswith("Without head")  # a test of its own compares it
    choice = word_choice(net, rec, step, (own.id, other.id))
    theirs = found.probabilities[found.ids.index(other.id)]
    assert chance / theirs == pytest.approx(math.exp(choice.difference), rel=1e-3)
    mine, yours = (f"“{t.text}” ({percent(p)})" for t, p in ((own, chance), (other, theirs)))
    times = pytest.approx(chance / theirs, rel=0.051)
    says(page, "why_difference", mine, times, yours, signed(choice.difference))
    pair = (own.text, other.text)
    check_terms(page, net, rec, choice, pair)
    check_ribbons(page, rec, choice, pair)
    check_removals(page, net, rec, choice)
    says(page, None, rec.source_language, rec.target_language, *(f"“{word}”" for word in pair))
    check_the_rest(page, "why_tried")


@pytest.mark.parametrize(
    ("source", "folder", "query"),
    [
        (LONG, "scratch-de-en", {}),
        (ENGLISH, "baseline-en-de", {"direction": "en-de", "model": "baseline"}),
    ],
)
def test_the_strongest_contrast_is_opened(source, folder, query):
    """The word that loses most without one head, and the word that is most probable without it."""
    rec, net = record(source, folder), translator(folder)
    page = open_page(source, "open_choice", **query)
    effects, found = head_effects(net, rec).changes, None
    losses = [(v, kind, *at) for kind, a in effects.items() for at, v in np.ndenumerate(a)]
    for _, kind, layer, head, step in sorted(losses):
        off = Edits(heads_off=frozenset({(kind, layer, head)}))
        without = net.inspect(source, edits=off, target_ids=[t.id for t in rec.target_out])
        best, own = without.alternatives[step][0], rec.target_out[step]
        if best.id != own.id and all(t.starts_word and t.text.strip(MARKS) for t in (best, own)):
            found = kind, layer, head, step, best.id
            break
    assert found is not None
    (control,) = [b for b in page.app.button_group if b.key == "why_other"]
    assert (page.app.selectbox(key="why_step").value, control.value) == found[3:]
    chances = (
        float(np.exp(v)) for v in (rec.log_probs[step], without.alternative_log_probs[step, 0])
    )
    ends = [f"“{t.text}” ({percent(p)})" for t, p in zip((own, best), chances, strict=True)]
    where = f"head {head + 1} of layer {layer + 1} of the {ATTENTION[kind]}"
    page.claim(f"Without {where}, {ends[0]} becomes {ends[1]}.", "why_rank")


def check_terms(page, net, rec, choice, pair) -> None:
    order = np.argsort(-np.abs(choice.terms), kind="stable")[:8]
    parts, terms = [choice.components[i] for i in order], choice.terms[order].tolist()
    labels = [
        f"{p.kind} layer {p.layer + 1} head {p.head + 1}" if p.head is not None else p.label
        for p in parts
    ]
    every = [*terms, float(choice.terms.sum()) - sum(terms)]
    assert sum(every) == pytest.approx(choice.difference, abs=1e-4)
    lost = {n: -without(net, rec, choice, p) for n, p in enumerate(parts) if p.head is not None}
    rows = [("", *row) for row in zip([*labels, "all others"], every, strict=True)]
    rows += [("true effect", labels[n], effect) for n, effect in lost.items()]
    shows(page, "why_terms", rows, *(f"“{word}”" for word in pair), "logit", hovers=told(rows))
    says(page, None, str(len(choice.terms)), pytest.approx(0, abs=1e-4), "actual scale")
    largest = [(SimpleNamespace(label=label), t) for label, t in zip(labels, terms, strict=True)]
    measured = [lost.get(n, math.nan) for n in range(len(parts))]
    page.claim(words_section._disagreement(largest, measured), "why_disagree")


def key_names(rec) -> dict[str, list[str]]:
    return {"cross": names(rec.source, 1), "decoder": names(rec.target_in, 0)}


def check_ribbons(page, rec, choice, pair) -> None:
    """Each node's links add up to its terms; equal words in different places are two nodes."""
    languages = {"cross": rec.source_language, "decoder": rec.target_language}
    parts = [
        (f"{key_names(rec)[kind][k]} ({languages[kind]})", f"{kind} layer {layer + 1}", float(v))
        for kind, edges in choice.edges.items()
        for (layer, k), v in np.ndenumerate(edges.sum(1))
    ]
    parts += [
        ("not through a head", component.label, float(term))
        for component, term in zip(choice.components, choice.terms, strict=True)
        if component.head is None
    ]
    parts.sort(key=lambda part: -abs(part[2]))
    expected, small = parts[:24], [v for *_, v in parts[24:]]
    for value in (sum(v for v in small if v > 0), sum(v for v in small if v < 0)):
        expected += [("all smaller", "all smaller", value)] if value else []
    starts, middles = ({part[side]: 0 for part in expected} for side in (0, 1))
    links = list(expected)
    for middle in middles:
        for word, sign in zip(pair, (1, -1), strict=True):
            reached = sum(max(0, sign * v) for _, end, v in expected if end == middle)
            links += [(middle, word, sign * reached)] if reached else []
    rows = [(f"{start} → {end}", value) for start, end, value in links]
    figure = shows(
        page,
        "why_ribbons",
        rows,
        hovers=[[*place.split(" → "), signed(value), "logit"] for place, value in rows],
    )
    (sankey,) = figure["data"]
    assert [is_blue(colour) for colour in sankey["link"]["color"]] == [v >= 0 for *_, v in links]
    shown = [plain(label) for label in sankey["node"]["label"]]
    assert shown == [*starts, *middles, *pair], "one node per word"


def check_removals(page, net, rec, choice) -> None:
    order = np.argsort(-np.abs(choice.terms), kind="stable")
    heads = [choice.components[i] for i in order if choice.components[i].head is not None][:5]
    rows = [
        (
            f"{p.kind} {p.layer + 1}.{p.head + 1}",
            -float(choice.edges[p.kind][p.layer, p.head].sum()),
            without(net, rec, choice, p),
        )
        for p in heads
    ]
    cells = [
        (abs(float(v)), kind, *at)
        for kind, a in choice.edges.items()
        for at, v in np.ndenumerate(a)
    ]
    for _, kind, layer, head, key in sorted(cells, reverse=True)[:5]:
        row, weight = choice.edges[kind][layer, head], choice.weights[kind][layer, head, key]
        cut = Edits(edges=(Edge(kind, layer, head, choice.step, key, 0.0),))
        predicted = float((row.sum() - row[key]) / (1 - weight) - row.sum())
        name = f"the attention edge to {key_names(rec)[kind][key]} in {kind} {layer + 1}.{head + 1}"
        rows.append((name, predicted, true_change(net, rec, choice.step, choice.words, cut)))
    table = page.table("why_tried")
    assert list(table.columns) == ["switched off", "predicted", "true"]
    assert [[plain(name), *moves] for name, *moves in table.to_numpy()] == [
        [name, signed(predicted), signed(true)] for name, predicted, true in rows
    ]


def test_equal_words_of_two_languages_are_two_nodes():
    """At <eos>, German "." and English "." both contribute."""
    step = len(record(SHORT).target_out) - 1
    page = open_page(SHORT, "open_choice", why_step=str(step))
    (sankey,) = page.figure("why_ribbons")["data"]
    stops = [label for label in sankey["node"]["label"] if label.startswith(". ")]
    assert sorted(stops) == [". (English)", ". (German)"]


SUB_LAYERS = ("self-attention", "cross-attention", "feed-forward")


@pytest.mark.parametrize(
    ("fold", "key", "question", "rows"),
    [
        (
            *("open_lens", "why_lens", lens),
            [f"layer {n} {sub}" for n in range(1, 5) for sub in SUB_LAYERS],
        ),
        (
            *("open_decoder_lens", "why_decoder_lens", decoder_lens),
            [f"layer {n}" for n in range(1, 5)],
        ),
    ],
)
def test_each_lens_shows_the_most_probable_token_in_every_row(net, fold, key, question, rows):
    rec, page = record(SHORT), open_page(SHORT, fold)
    grid = question(net, rec)
    rows, columns = ["embeddings", *rows], names(rec.target_out, 1)
    best = [[t.text for t in net.target_tokens([*map(int, ids)])] for ids in grid.ids]
    cells = [*np.ndindex(grid.ids.shape)]
    hovers = [
        (rows[r], best[r][t], percent(grid.probabilities[r, t]), f"{columns[t]}: ",
         percent(grid.written_probabilities[r, t]), f"rank {grid.written_ranks[r, t]:,}")
        for r, t in cells
    ]  # fmt: skip
    expected = [(f"{rows[r]}, {columns[t]}", grid.probabilities[r, t]) for r, t in cells]
    heat = shows(page, key, expected, "bit for bit", hovers=hovers)["data"][0]
    assert (heat["zmin"], heat["zmax"]) == (0, 1) and is_blue(heat["colorscale"][-1][1])
    for shown, word in zip(np.ravel(heat["text"]), np.ravel(best), strict=True):
        assert plain(shown) == word or word.startswith(plain(shown).removesuffix("…"))
    np.testing.assert_allclose(grid.written_probabilities[-1], np.exp(rec.log_probs), atol=1e-5)
    check_the_rest(page)


def knew(source: str, typed: str = "", model: str = "scratch", **query: Any) -> Rendered:
    return open_page(source, "open_knew", model=model, why_knew_other=typed, **query)


def verdict_of(page: Rendered) -> str:
    return page.texts("why_knew_verdict")[0]


def test_a_words_ranks_are_shown_in_every_state(net):
    rec, step = record(SHORT), 1
    page = knew(SHORT, why_knew=str(step))
    word = rec.target_out[step]
    found = jacobian_lens(net, rec, (word.id,))
    sides = {"encoder": rec.source[:-1], "decoder": rec.target_out}
    ranks = {side: getattr(found, side).ranks[:, : len(t), 0] for side, t in sides.items()}
    rows = ["embeddings", *(f"layer {n}" for n in range(1, 5))]
    for side, tokens in sides.items():
        columns = names(tokens, 1)
        cells = [*np.ndindex(ranks[side].shape)]
        expected = [(f"{rows[r]}, {columns[t]}", 1 / ranks[side][r, t]) for r, t in cells]
        hovers = [(rows[r], columns[t], f"{ranks[side][r, t]:,}") for r, t in cells]
        texts = f"“{word.text}”", "1 / rank"
        shows(page, f"why_knew_{side}", expected, *texts, hovers=hovers)
    hits = (ranks["encoder"] <= 5).sum(0)
    place = max(range(len(hits)), key=lambda n: (hits[n], -ranks["encoder"][:, n].min()))
    assert hits[place] > 0, "a word that the encoder knows"
    said = f"the encoder reads “{word.text}” at “{names(rec.source, 1)[place]}”: among the five best in {hits[place]} of 5 layers"
    path = ranks["decoder"][:, step]
    later = ", ".join(f"{rank:,} after layer {n}" for n, rank in enumerate(path[1:], 1))
    assert verdict_of(page) == (
        f"Both knew it: {said}, the embeddings included. At step {step + 1}, which writes it, its "
        f"rank in the decoder is {path[0]:,} in the embeddings, {later}."
    )
    assert path[-1] == 1, "the last layer is the output"
    page.claim(verdict_of(page), "why_knew_verdict")
    table = load_lens(net.card).about.table
    shares = [
        f"{100 * value:.1f}" for n in ("jacobian_hits", "jacobian_null") for value in table[n][-1]
    ]
    says(page, None, "200", "4", *shares)
    check_the_rest(page)


def test_the_verdict_names_who_knew_a_word_that_was_not_written(net):
    """Each case is found by its ranks, computed here, not by its sentence."""
    rec = record(COLOURS)
    seen = set()
    for typed in ("pink", "dressed", "one", "train", "wearing", "orange", "woman"):
        (id,) = net.continuation(typed)
        if id in [token.id for token in rec.target_out]:
            continue
        found = jacobian_lens(net, rec, (id,))
        encoder, decoder = found.encoder.ranks[:, :-1, 0], found.decoder.ranks[..., 0]
        step = decoder[-1].argmin()
        read, near = (encoder <= 5).any(), decoder[:, step].min() <= 5
        last = decoder[-1, step] <= 5
        wanted = {
            True: "The encoder knew it, the decoder " + ("considered it" if last else "lost it"),
            False: "The encoder did not know it, the decoder considered it"
            if near
            else "Nobody knew it",
        }[bool(read)]
        said = verdict_of(knew(COLOURS, typed))
        assert said.startswith(f"{wanted}: "), (typed, said)
        assert (
            f"At step {step + 1}, which comes closest and writes “{names(rec.target_out, 1)[step]}”"
            in said
        )
        if not read:
            assert f"its best rank is {encoder.min():,}" in said
        seen.add(wanted)
    assert len(seen) >= 3, seen


def test_a_word_of_several_tokens_is_counted_by_its_first(net):
    ids = net.continuation("carpet")
    assert len(ids) == 2
    page = knew(SHORT, "carpet")
    first, second = net.target_tokens(ids)
    assert page.texts("why_knew_verdict")[1] == (
        f"“carpet” has 2 tokens, {first.text} + {second.text}. All ranks are those of the first, “{first.text}”."
    )
    found = jacobian_lens(net, record(SHORT), ids[:1]).encoder.ranks[:, :-1, 0]
    assert f"{found.min():,}" in verdict_of(page) or (found <= 5).any()


def word_names(rec, words) -> list[str]:
    joined = ["".join(rec.source[i].text for i in word) for word in words]
    return [
        text + (str(word[0] + 1).translate(SUBSCRIPT) if joined.count(text) > 1 else "")
        for text, word in zip(joined, words, strict=True)
    ]


def bootstrapped(draws, scores) -> np.ndarray:
    """Return Spearman's ρ of scores with the means of 500 resamples of the draws, [500, token]."""
    chosen = np.random.default_rng(0).integers(len(draws), size=(500, len(draws)))
    means = np.stack([draws[row].mean(0) for row in chosen])
    first, second = stats.rankdata(scores, axis=-1), stats.rankdata(means, axis=-1)
    first, second = (a - a.mean(-1, keepdims=True) for a in (first, second))
    return (first * second).sum(-1) / np.sqrt((first**2).sum(-1) * (second**2).sum(-1))


def short(row: np.ndarray, places: int) -> list[str]:
    """Return numbers as narrow cells show them, without a leading 0."""
    return [re.sub(r"^(−?)0\.", r"\1.", number(v, places)) for v in row]


@pytest.mark.parametrize("source", [SHORT, LONG])
def test_sources_of_a_token_match_the_methods_and_shapley_values(net, source):
    rec, page = record(source), open_page(source, "open_sources")
    words = source_words(rec.source)
    answers, referee = attributions(net, rec), shapley(net, rec)
    exact = referee.exact
    assert exact == (len(words) <= 10)
    step = len(rec.target_out) - 3
    token, columns = names(rec.target_out, 1)[step], word_names(rec, words)
    count = str(len(words))
    says(page, "open_sources", *([count, "exact"] if exact else ["10", count, "64", "95"]))

    nothing, everything = referee.nothing[step], referee.everything[step]
    assert everything == pytest.approx(rec.log_probs[step], abs=1e-5)
    ends = (percent(math.exp(end)) for end in (nothing, everything))
    says(page, "why_seen", f"“{token}”", *ends, signed(everything - nothing, 2))
    values, low, high = (a[step] for a in (referee.values, referee.low, referee.high))
    rows = [("", *row) for row in zip(columns, values, strict=True)]
    hovers, how, unsure = told(rows), ["exact"], []
    if not exact:
        rows = [(*row, *ends) for row, *ends in zip(rows, low, high, strict=True)]
        hovers = [
            (place, signed(value, 2), "95", *(signed(end, 2) for end in ends))
            for _, place, value, *ends in rows
        ]
        how, unsure = ["64", "95"], [str(((low <= 0) & (high >= 0)).sum()), count, "0"]
    shows(page, "why_shapley", rows, f"“{token}”", *how, "nats", hovers=hovers)
    error = pytest.approx(0, abs=1e-12)
    says(page, None, "For every token", error, f"{referee.subsets:,}", *unsure)
    check_methods(page, answers, referee, step, token, columns)
    *shares, logit = (float(values[step]) for values in answers.parts.values())
    error = pytest.approx(abs(sum(shares) - logit), rel=0.1)
    assert abs(sum(shares) - logit) < 1e-5 * sum(map(abs, shares))
    shown = (signed(share, 1) for share in shares)
    says(page, "why_parts", f"“{token}”", number(logit, 1), *shown, error)
    check_agreement(page, answers, referee, step)
    check_the_rest(page, "why_agreement")


def check_methods(page, answers, referee, step, token, columns) -> None:
    values, low, high = (a[step] for a in (referee.values, referee.low, referee.high))
    shares, texts, hovers = [], [], []
    scores = {m: answers.scores[m][step] for m in METHODS} | {"Shapley values": values}
    for name, row in scores.items():
        shares.append(row / np.abs(row).max())
        texts.append(short(row, 2 if np.abs(row).max() >= 0.1 else 3))
        hovers += [(name, c, number(v, 3)) for c, v in zip(columns, row, strict=True)]
    labels = [*scores]
    if not referee.exact:
        half = (high - low) / 2
        labels.append("± (95 %)")
        shares.append(np.zeros(len(half)))
        texts[-1:] = [short(values, 2), short(half, 2)]
        hovers[-len(half) :] = [
            (c, number(v, 2), "95", number(a, 2), number(b, 2))
            for c, v, a, b in zip(columns, values, low, high, strict=True)
        ]
        hovers += [(c, f"± {number(h, 2)}") for c, h in zip(columns, half, strict=True)]
    cells = zip(labels, shares, strict=True)
    rows = [(f"{a}, {c}", v) for a, row in cells for c, v in zip(columns, row, strict=True)]
    heat = shows(page, "why_sources", rows, f"“{token}”", hovers=hovers)["data"][0]
    assert heat["text"] == texts and (heat["zmin"], heat["zmax"]) == (-1, 1)


def check_agreement(page, answers, referee, step) -> None:
    rho = {
        m: np.array(
            [
                stats.spearmanr(a, b).statistic
                for a, b in zip(answers.scores[m], referee.values, strict=True)
            ]
        )
        for m in METHODS
    }
    table = page.table("why_agreement")
    order = sorted(METHODS, key=lambda m: -rho[m][step])
    about = [plain(sources_section.METHODS[method]) for method in order]
    assert list(table["method"]) == order and [*map(plain, table["what it is"])] == about
    note = ["1", "0", "−1"]
    if referee.exact:
        assert list(table["this token"]) == [number(rho[m][step], 2) for m in order]
        assert list(table["all tokens"]) == [number(float(rho[m].mean()), 2) for m in order]
    else:
        samples = {m: bootstrapped(referee.draws, answers.scores[m]) for m in METHODS}
        note.append("95")
        for column, of, which in (
            ("this token", lambda a: a[:, step], "this"),
            ("all tokens", lambda a: a.mean(1), "all"),
        ):
            for m, text in zip(order, table[column], strict=True):
                a, b = (number(e, 1) for e in np.quantile(of(samples[m]), (0.025, 0.975)))
                assert text == (a if a == b else f"{a} to {b}"), (m, column)
            ends = [
                np.quantile(of(samples[a]) - of(samples[b]), (0.025, 0.975))
                for n, a in enumerate(order)
                for b in order[n + 1 :]
            ]
            note += [str(sum(low <= 0 <= high for low, high in ends))]
            note += [str(len(METHODS) * (len(METHODS) - 1) // 2)] * (which == "this") + [
                f"for {which} token"
            ]
    says(page, "why_agreement_note", *note)


def test_post_norm_models_get_their_own_texts(monkeypatch):
    """A note on norm rollout appears; final norms, which such a model lacks, are not mentioned."""
    from app import controls

    original = controls.ask_for_record

    def post_norm(**options):
        card, rec = original(**options)
        model = dataclasses.replace(card.model, norm_first=False, final_norm=False)
        return dataclasses.replace(card, model=model), rec

    note = (
        "This network applies a layer norm after each sub-layer. Norm rollout ignores these norms."
    )
    every = ("open_lens", "open_decoder_lens", "open_sources")
    usual = render("why", *every, source=SHORT)
    assert note not in usual.texts() and "final norm" in " ".join(usual.texts(every[0]))
    monkeypatch.setattr(controls, "ask_for_record", post_norm)
    page = render("why", *every, source=SHORT)
    page.claim(note)
    for fold in every[:2]:
        assert "final norm" not in " ".join(page.texts(fold))


def test_a_single_word_is_not_ranked():
    page = open_page("Hallo", "open_sources")
    page.claim("With one word there is no order to compare.", "why_agreement_note")
    page.claim(
        "For every token, the values add up to the difference between all words and none exactly. "
        "They were computed from 2 subsets of the words."
    )
    table = page.table("why_agreement")
    assert not any(table["this token"]) and not any(table["all tokens"])
    assert "With 1 word here they are exact" in page.texts("open_sources", "markdown")[0]


@pytest.mark.parametrize(("source", "subsets"), [(SHORT, 2**5), (LONG, 64 * 14)])
def test_the_expected_time_follows_the_length_of_the_sentence(monkeypatch, source, subsets):
    """The network is assumed to take 1 ms for each token of each pass."""
    from app.state import results

    monkeypatch.setattr(
        results, "last_run", lambda card, function: results.LastRun(0.001 * 49 * 10, 10)
    )
    page = render("why", state={"open_sources": False}, source=source)
    rec = record(source)
    passes = subsets + 6 * len(rec.target_out) + 2 * len(source_words(rec.source))
    tokens = len(rec.source) + len(rec.target_out)
    for key, count in (("open_sources", passes), ("open_pairs", 16 * 17 / 2)):
        seconds = 0.001 * tokens * count
        whole = round(seconds) if seconds < 10 else 5 * round(seconds / 5)
        (label,) = page.texts(key, "label")
        assert f"(about {whole} second" in label if seconds >= 1 else "second" not in label


def drawn_meanwhile(monkeypatch, module) -> list[tuple[str, dict, str]]:
    """Record key, figure and caption of all that is shown; show partial results without delay."""
    found: list[tuple[str, dict, str]] = []
    real = module.show

    def noted(chart, key, caption):
        found.append((key, json.loads(chart.figure("light").to_json()), caption))
        real(chart, key, caption)

    monkeypatch.setattr(module, "show", noted)
    monkeypatch.setattr(module, "_SOON_S", -1.0)
    return found


def test_terms_are_shown_while_their_true_effects_are_measured(monkeypatch):
    """The first figure has all terms, but a grey bar only for the first head."""
    found = drawn_meanwhile(monkeypatch, words_section)
    page = render("why", "open_choice", source=SHORT, state=CLOSED | {"open_choice": True})
    shown = [(key, figure) for key, figure, _ in found if key.startswith("why_terms")]
    assert [key for key, _ in shown] == ["why_terms_so_far", "why_terms"]
    so_far, done = (figure["data"] for _, figure in shown)
    assert array(so_far[0]["x"]).tolist() == array(done[0]["x"]).tolist()
    grey, complete = ([math.nan if v is None else v for v in of[1]["x"]] for of in (so_far, done))
    first = next(n for n, value in enumerate(complete) if not math.isnan(value))
    assert sum(not math.isnan(value) for value in complete) > 1
    assert [n for n, value in enumerate(grey) if not math.isnan(value)] == [first]
    assert grey[first] == complete[first]
    assert len(page.figures["why_terms"]) == 1 and "why_terms_so_far" not in page.figures


def test_methods_are_shown_while_others_are_computed(monkeypatch):
    """Each grid repeats the rows of the one before and adds the methods finished since then."""
    found = drawn_meanwhile(monkeypatch, sources_section)
    source = "Drei Kinder und zwei Hunde spielen am Wasser."  # not cached by other tests
    page = render("why", source=source, state=CLOSED | {"open_sources": True})
    grids = [one for one in found if one[0].startswith("why_sources")]
    assert len(grids) > 2 and grids[-1][0] == "why_sources"
    names, *_ = (figure["layout"]["yaxis"]["ticktext"] for *_, figure, _ in grids[-1:])
    assert names == [*METHODS, "Shapley values"]
    final = array(grids[-1][1]["data"][0]["z"])
    assert final.shape[0] == len(names)
    counts = []
    for key, figure, caption in grids[:-1]:
        rows = figure["layout"]["yaxis"]["ticktext"]
        counts.append(len(rows))
        assert key == f"why_sources_{len(rows)}" and rows == names[: len(rows)]
        assert array(figure["data"][0]["z"]).tolist() == final[: len(rows)].tolist()
        assert caption == (
            "The other rows, the last of them the Shapley values, are still being computed."
        )
    assert counts == sorted(set(counts)) and counts[-1] == len(METHODS)
    assert not [key for key in page.figures if key.startswith("why_sources_")]
