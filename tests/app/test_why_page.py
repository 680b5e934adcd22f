"""The page Ask why agrees with the record and with the experiments."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

from app.views.why import sources as sources_section
from app.views.why import words as words_section
from app.views.why.heads import _few_effects
from core.analysis.attribution import source_words
from core.experiments.attribution import METHODS, attributions, shapley
from core.experiments.head_effects import head_effects, pair_effects
from core.experiments.logit_lens import decoder_lens, lens
from core.experiments.word_choice import rivals, true_change, word_choice
from core.record.edits import Edge, Edits
from tests.app.charts import shows_grid, shows_terms
from tests.app.page_checks import (
    SUBSCRIPT,
    axis_titles,
    drawn,
    from_scientific,
    is_blue,
    names,
    nothing_else,
    number,
    percent,
    record,
    signed,
    titles,
    traces,
    translator,
)
from tests.app.rendered import Item, Rendered, array, render

SHORT = "Zwei Männer spielen Fußball."
LONG = "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd."
LITTLE = "Ein kleiner Junge sitzt auf einer Schaukel."
ENGLISH = "A woman is preparing the food in the kitchen."
FOLDS = ("open_pairs", "open_choice", "open_lens", "open_decoder_lens", "open_sources")
CLOSED = dict.fromkeys(FOLDS, False)
TIME = r"less than a second|about \d+ seconds?"


@functools.cache
def open_page(source: str, opened: str = "", **query: Any) -> Rendered:
    """Render the page with one section open and the others closed."""
    state = CLOSED | ({opened: True} if opened else {})
    return render("why", state=state, source=source, **query)


@pytest.fixture(scope="module")
def net():
    return translator("scratch-de-en")


def blue(trace: dict) -> list[bool]:
    """Return for each bar whether it is blue."""
    return [is_blue(colour) for colour in trace["marker"]["color"]]


def check_the_rest(page: Rendered, *figures: str) -> None:
    page.claim(
        "An attention weight alone does not explain a translation: a large weight need not change "
        "it. So the answers here are tested by running the network again. Sums are exact up to "
        "rounding, predictions are shown next to the true effect, and sampled values have 95 % "
        "intervals."
    )

    def has_its_own_test(item: Item) -> bool:
        return item.where in ("lesson_sentence", "why_matters") or bool(
            re.fullmatch(rf".+ \(({TIME})\)", item.text)
        )

    fixed = (
        " matter little by themselves: ",
        " of these 12 heads ",
        "(DecoderLens, Langedijk et al. 2023)",
    )
    nothing_else(page, "why_heads", *figures, fixed=fixed, but=has_its_own_test)


def test_heads_with_little_effect_are_counted():
    assert _few_effects(0, 48) == (
        "Every head matters by itself: switching off any one of them changes the "
        "log-probability by 0.05 nats or more."
    )
    assert _few_effects(1, 48).startswith(
        f"1 of 48 heads ({percent(1 / 48)}) matters little by itself: switching it off changes "
    )


def heads_by_effect(net, rec, token: int | None = None) -> list[tuple[str, int, int, float]]:
    """Return kind, layer, head and change of all heads, the largest change first."""
    heads = [
        (kind, *at, float(v))
        for kind, a in head_effects(net, rec).changes.items()
        for at, v in np.ndenumerate(a.sum(-1) if token is None else a[..., token])
    ]
    return sorted(heads, key=lambda head: -abs(head[3]))


@pytest.mark.parametrize("token", [None, 2])
@pytest.mark.parametrize("source", [SHORT, LONG])
def test_the_most_important_heads_are_shown_and_counted(net, source, token):
    page = open_page(source, **({} if token is None else {"why_for": str(token)}))
    rec = record(source)
    heads = heads_by_effect(net, rec, token)
    kind, layer, head, change = heads[0]
    before = float(rec.log_probs.sum() if token is None else rec.log_probs[token])
    words = names(rec.target_out, 1)
    what = "the whole translation" if token is None else f"“{words[token]}”"
    attention = "cross-attention" if kind == "cross" else f"{kind}'s self-attention"
    page.claim(
        f"Head {head + 1} of layer {layer + 1} of the {attention} matters most: without it, "
        f"the probability of {what} goes from {percent(math.exp(before))} to "
        f"{percent(math.exp(before + change))} ({signed(change, 2)} nats).",
        "why_matters",
    )
    said = "each switched off alone, with the same target: change of log-probability"
    rows = [(f"{k} {n + 1}.{h + 1}", v) for k, n, h, v in heads[:12]]
    shows_terms(
        page, "why_heads", (f"The 12 heads of {len(heads)} that matter most", said), "nats", rows
    )
    harm = sum(v > 0 for _, v in rows)
    page.claim(
        f"{harm} of these 12 heads {'lowers' if harm == 1 else 'lower'} the probability: "
        "it rises when the head is switched off."
        if harm
        else "Switching off any of these heads lowers the probability."
    )
    little = sum(abs(v) < 0.05 for *_, v in heads)
    assert little > 1
    page.claim(
        f"{little} of {len(heads)} heads ({percent(little / len(heads))}) matter little by "
        "themselves: switching off any one of them changes the log-probability by less than 0.05 "
        "nats. Another head may do the same work, which the next section tests."
    )
    check_the_rest(page)


@pytest.mark.parametrize(
    "source",
    [
        "ZWEI MÄNNER SPIELEN FUSSBALL.",
        "Vor dem alten Rathaus stehen viele Menschen mit roten Regenschirmen und warten darauf, "
        "dass der Regen endlich aufhört, während ein Mann mit einem Hund an ihnen vorbeiläuft.",
    ],
)
def test_a_change_that_percentages_cannot_show_is_given_in_log_probabilities(net, source):
    rec = record(source)
    kind, layer, head, change = heads_by_effect(net, rec)[0]
    attention = "cross-attention" if kind == "cross" else f"{kind}'s self-attention"
    before = float(rec.log_probs.sum())
    assert max(math.exp(before), math.exp(before + change)) < 0.0005, "both are below 0.1 %"
    open_page(source).claim(
        f"Head {head + 1} of layer {layer + 1} of the {attention} matters most: without it, the "
        f"log-probability of the whole translation goes from {number(before, 2)} to "
        f"{number(before + change, 2)} ({signed(change, 2)} nats).",
        "why_matters",
    )


@pytest.mark.parametrize(
    ("rank", "written"),
    [(4, "4th"), (11, "11th"), (21, "21st"), (22, "22nd"), (113, "113th"), (1003, "1,003rd")],
)
def test_ordinals_have_the_english_ending(rank, written):
    from app.views.why.words import _ordinal

    assert _ordinal(rank) == written


@pytest.mark.parametrize(
    ("terms", "losses", "text"),
    [
        ((1.0, 2.0), (0.9, 2.1), "of each of the 2 heads shown is between half and twice its term"),
        ((1.0,), (0.9,), "of the one head shown is between half and twice its term"),
        ((1.0, 2.0), (-0.5, 2.0), "heads shown, 1 has a true effect of the opposite sign."),
        (
            (1.0, 2.0, 3.0, 8.0),
            (-0.5, 0.2, 9.0, 14.0),
            "heads shown, 1 has a true effect of the opposite sign and 2 have true effects below "
            "half or above twice the term. The largest of these errors is that of c3:",
        ),
        ((1.0, 2.0), (0.2, 2.0), "shown, 1 has a true effect below half or above twice the term."),
    ],
)
def test_heads_whose_terms_are_wrong_are_counted(terms, losses, text):
    from types import SimpleNamespace

    from app.views.why.words import _disagreement

    largest = [(SimpleNamespace(label=f"c{n}"), t) for n, t in enumerate(terms, start=1)]
    assert text in _disagreement(largest, list(losses))


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, " None of the 14 intervals includes 0."),
        (1, " 1 of the 14 intervals includes 0: whether that word helps is uncertain."),
        (7, " 7 of the 14 intervals include 0: whether these help is uncertain."),
    ],
)
def test_intervals_that_include_0_are_counted(count, text):
    from app.views.why.sources import _zero_in_intervals

    assert _zero_in_intervals(count, 14) == text


@pytest.mark.parametrize("kind", ["cross", "encoder"])
def test_pairs_of_heads_match_the_experiment(net, kind):
    page = open_page(SHORT, "open_pairs", why_pairs=kind)
    both = pair_effects(net, record(SHORT), kind).pairs.sum(-1)
    one = both.diagonal()
    beyond = both - one[:, None] - one
    np.fill_diagonal(beyond, 0)
    figure = page.figure("why_pairs_map")
    assert titles(figure) == (f"Pairs of {kind} heads", "orange: more is lost together; blue: less")
    (heat,) = traces(figure, type="heatmap")
    np.testing.assert_allclose(array(heat["z"]), beyond, atol=1e-5)
    assert orange_to_blue(heat)
    largest = np.abs(beyond).max()
    assert heat["zmin"] == -heat["zmax"] == pytest.approx(-largest, abs=1e-5)
    assert heat["colorbar"]["title"]["text"] == "joint effect minus sum, nats"
    assert heat["colorbar"]["ticktext"] == [number(-largest, 2), "0", number(largest, 2)]
    assert heat["hovertemplate"].startswith("heads %{y} and %{x}: <b>%{z:+.3f}</b> nats relative")
    heads = [f"{n // 4 + 1}.{n % 4 + 1}" for n in range(len(one))]
    assert axis_titles(figure) == ("second: layer.head", "first: layer.head")
    for axis in ("xaxis", "yaxis", "xaxis2", "yaxis2"):
        assert figure["layout"][axis]["ticktext"] == heads
    upper = [(beyond[a, b], a, b) for a in range(len(one)) for b in range(a + 1, len(one))]
    for (by, a, b), lost in ((min(upper), "more is lost"), (max(upper), "less is lost")):
        if abs(one[a]) < abs(one[b]):
            a, b = b, a
        page.claim(f"**For {heads[a]} and {heads[b]}, {lost} together**", "why_pairs_most")
        page.claim(
            f"{heads[a]} off: {signed(one[a])} nats\n{heads[b]} off: {signed(one[b])} nats\n"
            f"both off: {signed(both[a, b])} nats, {signed(by)} nats relative to the sum"
        )
        page.claim(
            f"Once {heads[a]} is off, also switching off {heads[b]} changes the log-probability by "
            f"{signed(both[a, b] - one[a])} nats, instead of {signed(one[b])} nats alone."
        )
    check_the_rest(page, "why_pairs_map", "why_pairs")


def orange_to_blue(heat: dict) -> bool:
    return not is_blue(heat["colorscale"][0][1]) and is_blue(heat["colorscale"][-1][1])


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
        f"**There are no two heads for which {lost} is lost together**" for lost in ("more", "less")
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

    word = names(rec.target_out, 1)[step]
    chance = math.exp(float(rec.log_probs[step]))
    assert found.probability == pytest.approx(chance, abs=1e-5)
    above = sum(c > chance for c in found.probabilities)
    page.claim(
        f"At this step “{word}” has the largest logit, so the largest probability: "
        f"{percent(chance)}."
        if not above
        else f"At this step “{word}” has only the {['second', 'third'][above - 1]}-largest "
        f"logit ({percent(chance)}): beam search compares whole translations, and its best one "
        "has this token here.",
        "why_rank",
    )
    choice = word_choice(net, rec, step, (own.id, other.id))
    theirs = found.probabilities[found.ids.index(other.id)]
    assert chance / theirs == pytest.approx(math.exp(choice.difference), rel=1e-3)
    mine, yours = (
        re.escape(f"“{token.text}” ({percent(p)})") for token, p in ((own, chance), (other, theirs))
    )
    match = page.claim_matching(
        rf"{mine} is ([\d.,]+) times as probable as {yours}\. The factor is e to the power of the "
        rf"difference of their logits, {re.escape(signed(choice.difference))}\.",
        "why_difference",
    )
    assert float(match[1].replace(",", "")) == pytest.approx(chance / theirs, rel=0.051)
    pair = (own.text, other.text)
    check_terms(page, net, rec, choice, pair)
    check_ribbons(page, rec, choice, pair)
    check_removals(page, net, rec, choice)
    page.claim_matching(
        f"{rec.source_language} tokens contribute through cross-attention heads, "
        f"{rec.target_language} tokens through the decoder's self-attention heads. The total width "
        "of the blue ribbons minus that of the orange ones is the difference. Blue favours "
        f"“{re.escape(pair[0])}”, orange “{re.escape(pair[1])}”\\."
    )
    check_the_rest(page, "why_terms", "why_ribbons")


def check_terms(page, net, rec, choice, pair) -> None:
    order = np.argsort(-np.abs(choice.terms), kind="stable")[:14]
    parts, terms = [choice.components[i] for i in order], choice.terms[order].tolist()
    labels = [
        f"{p.kind} layer {p.layer + 1} head {p.head + 1}" if p.head is not None else p.label
        for p in parts
    ]
    every = [*terms, float(choice.terms.sum()) - sum(terms)]
    assert sum(every) == pytest.approx(choice.difference, abs=1e-4)
    lost = [math.nan if p.head is None else -without(net, rec, choice, p) for p in parts]
    said = f"Blue: for “{pair[0]}”; orange: for “{pair[1]}”"
    how = "colour: a term; grey: the true effect, measured by switching the head off"
    rows = [*zip([*labels, "all others"], every, strict=True)]
    shows_terms(page, "why_terms", (said, how), "logit", rows, [*lost, math.nan])
    match = page.claim_matching(
        rf"All {len(choice.terms)} terms add up to the difference to within (.+?), with layer "
        "norms fixed at their actual scale. Only heads have a grey bar: how much the difference "
        "actually falls when the head is switched off. Cross-attention heads bring in information "
        "from the source."
    )
    assert 0 <= from_scientific(match[1]) < 1e-4
    heads = [h for h in zip(labels, terms, lost, strict=True) if not math.isnan(h[2])]
    opposite = [h for h in heads if h[1] * h[2] <= 0]
    other = [h for h in heads if h[1] * h[2] > 0 and not 0.5 <= h[2] / h[1] <= 2]
    most = len(opposite + other) > len(heads) / 2
    what = "the terms as effects" if most else "every term as an effect"
    name, term, true = max(opposite + other, key=lambda h: abs(h[1] - h[2]))
    counts = [
        f"{len(ones)} {'has a true effect' if len(ones) == 1 else 'have true effects'} {share}"
        for ones, share in (
            (opposite, "of the opposite sign"),
            (other, "below half or above twice the term"),
        )
        if ones
    ]
    page.claim(
        f"Do not read {what}. Of the {len(heads)} heads shown, {' and '.join(counts)}. The largest "
        f"of these errors is that of {name}: its term predicts that switching it off changes the "
        f"difference by {signed(-term)}; the true change is {signed(-true)}, because layer norms "
        "and later layers react.",
        "why_disagree",
    )


def key_names(rec) -> dict[str, list[str]]:
    return {"cross": names(rec.source, 1), "decoder": names(rec.target_in, 0)}


def check_ribbons(page, rec, choice, pair) -> None:
    """Each node's links add up to its terms; equal words in different places are two nodes."""
    figure = page.figure("why_ribbons")
    assert titles(figure) == ("The same sum as ribbons", "left: tokens; middle: layers")
    (sankey,) = figure["data"]
    labels, link = sankey["node"]["label"], sankey["link"]
    assert "logit" in link["hovertemplate"] and "nats" not in link["hovertemplate"]
    keys = {kind: drawn(words) for kind, words in key_names(rec).items()}
    languages = {"cross": rec.source_language, "decoder": rec.target_language}
    parts = [
        (f"{keys[kind][k]} ({languages[kind]})", f"{kind} layer {layer + 1}", float(v))
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
    ends = (array(link[name]) for name in ("source", "target", "value"))
    sent = [
        (labels[a], labels[b], v if is_blue(colour) else -v)
        for a, b, v, colour in zip(*ends, link["color"], strict=True)
    ]
    for got, want in zip(sent, expected, strict=False):
        assert got[:2] == want[:2] and got[2] == pytest.approx(want[2], abs=1e-5)
    last, words = sent[len(expected) :], drawn(pair)
    assert {end for _, end, _ in last} <= set(words)
    for word, sign in zip(words, (1, -1), strict=True):
        reached = sum(v for _, end, v in last if end == word)
        assert reached == pytest.approx(sum(v for *_, v in expected if sign * v > 0), abs=1e-4)
    assert link["customdata"][: len(expected)] == [signed(v) for *_, v in expected]
    starts = {a for a, *_ in expected}
    assert sorted(labels[: len(starts)]) == sorted(starts), "one node per word"


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
    assert [[re.sub(r"[\\\u2060]", "", name), *moves] for name, *moves in table.to_numpy()] == [
        [name, signed(predicted), signed(true)] for name, predicted, true in rows
    ]
    for item in page.found("why_tried"):
        item.claimed = True


def test_equal_words_of_two_languages_are_two_nodes():
    """At <eos>, German "." and English "." both contribute."""
    step = len(record(SHORT).target_out) - 1
    page = open_page(SHORT, "open_choice", why_step=str(step))
    (sankey,) = page.figure("why_ribbons")["data"]
    stops = [label for label in sankey["node"]["label"] if label.startswith(". ")]
    assert sorted(stops) == [". (English)", ". (German)"]


SUB_LAYERS = ("self-attention", "cross-attention", "feed-forward")


@pytest.mark.parametrize(
    ("fold", "key", "question", "title", "rows"),
    [
        (
            "open_lens",
            "why_lens",
            lens,
            "The most probable token after each sub-layer",
            [f"layer {n} {sub}" for n in range(1, 5) for sub in SUB_LAYERS],
        ),
        (
            "open_decoder_lens",
            "why_decoder_lens",
            decoder_lens,
            "The most probable token when the decoder reads layer k of the encoder",
            [f"layer {n}" for n in range(1, 5)],
        ),
    ],
)
def test_each_lens_shows_the_most_probable_token_in_every_row(
    net, fold, key, question, title, rows
):
    rec, page = record(SHORT), open_page(SHORT, fold)
    grid = question(net, rec)
    said = title, "darker = more probable; the last row is the output, bit for bit"
    rows, columns = ["embeddings", *rows], drawn(names(rec.target_out, 1))
    best = [drawn(t.text for t in net.target_tokens([*map(int, ids)])) for ids in grid.ids]
    hovers = [
        [
            f"{row}<br>most probable: <b>{best[r][t]}</b> {percent(grid.probabilities[r, t])}<br>"
            f"{column}: {percent(grid.written_probabilities[r, t])}, "
            f"rank {grid.written_ranks[r, t]:,}"
            for t, column in enumerate(columns)
        ]
        for r, row in enumerate(rows)
    ]
    shows_grid(page, key, said, rows, columns, grid.probabilities, best, hovers)
    np.testing.assert_allclose(grid.written_probabilities[-1], np.exp(rec.log_probs), atol=1e-5)
    check_the_rest(page, key)


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
    text = page.texts("open_sources", "markdown")[0]
    assert ("exact" in text) == exact and ("sampled from 64 orders" in text) != exact
    assert f"{len(words)} words here" in text
    page.claim(text)

    nothing, everything = referee.nothing[step], referee.everything[step]
    assert everything == pytest.approx(rec.log_probs[step], abs=1e-5)
    page.claim(
        f"With all words hidden, “{token}” has a probability of {percent(math.exp(nothing))}; with "
        f"all of them visible, {percent(math.exp(everything))} ({signed(everything - nothing, 2)} "
        "nats).",
        "why_seen",
    )
    values, low, high = (a[step] for a in (referee.values, referee.low, referee.high))
    how = "exact" if exact else "sampled from 64 orders; lines: 95 % intervals"
    said = f"What each source word adds to “{token}”", f"Shapley values, {how}"
    rows = [*zip(columns, values, strict=True)]
    shows_terms(page, "why_shapley", said, "nats", rows, ends=None if exact else (low, high))
    unsure = ""
    if not exact:
        count = ((low <= 0) & (high >= 0)).sum()
        unsure = (
            f" {count} of the {len(words)} intervals include 0: whether these help is uncertain."
        )
    match = page.claim_matching(
        r"For every token, the values add up to the difference between all words and none to "
        rf"within (.+?)\. They were computed from {referee.subsets:,} subsets of the words\."
        + re.escape(unsure)
    )
    assert 0 <= from_scientific(match[1]) < 1e-12
    check_methods(page, answers, referee, step, token, columns)
    check_agreement(page, answers, referee, step)
    check_the_rest(page, "why_shapley", "why_sources")


def check_methods(page, answers, referee, step, token, columns) -> None:
    said = (
        f"Where “{token}” came from, by each method",
        "colours: relative to the row's largest; the first four rows are shares or lengths, the "
        "others nats",
    )
    values, low, high = (a[step] for a in (referee.values, referee.low, referee.high))
    half, exact = (high - low) / 2, referee.exact
    rows = [(m, answers.scores[m][step]) for m in METHODS] + [("Shapley values", values)]
    z, texts, hovers = [], [], []
    for name, row in rows:
        z.append(row / np.abs(row).max())
        texts.append(short(row, 2 if np.abs(row).max() >= 0.1 else 3))
        hovers.append(
            [f"{name}<br>{c}: <b>{number(v, 3)}</b>" for c, v in zip(columns, row, strict=True)]
        )
    if not exact:
        texts[-1] = short(values, 2)
        hovers[-1] = [
            f"Shapley values<br>{c}: <b>{number(v, 2)}</b>, 95 %: {number(a, 2)} to {number(b, 2)}"
            for c, v, a, b in zip(columns, values, low, high, strict=True)
        ]
        z.append(np.zeros(len(half)))
        texts.append(short(half, 2))
        hovers.append([f"{c}: ± {number(h, 2)} nats" for c, h in zip(columns, half, strict=True)])
    labels = [name for name, _ in rows] + ([] if exact else ["± (95 %)"])
    shows_grid(page, "why_sources", said, labels, columns, z, texts, hovers, signed=True)


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
    assert list(table.columns) == ["method", "what it is", "this token", "all tokens"]
    order = sorted(METHODS, key=lambda m: -rho[m][step])
    assert list(table["method"]) == order
    about = dict(zip(table["method"], table["what it is"], strict=True))
    for method, citation in {
        "weights": "Bahdanau",
        "norms": "Kobayashi et al. 2020",
        "rollout": "Zuidema 2020",
        "norm rollout": "Kobayashi et al. 2021",
        "gradient × input": "Shrikumar",
        "value zeroing, all layers": "Mohebbi",
        "leave-one-out": "Li et al. 2016",
    }.items():
        assert citation in about[method]
    note = (
        "Spearman's rank correlation with the Shapley values, best for this token first: 1 is the "
        "same order of words, 0 no relation, −1 the reverse. *All tokens* is the mean over the "
        "translation."
    )
    if referee.exact:
        assert list(table["this token"]) == [number(rho[m][step], 2) for m in order]
        assert list(table["all tokens"]) == [number(float(rho[m].mean()), 2) for m in order]
    else:
        samples = {m: bootstrapped(referee.draws, answers.scores[m]) for m in METHODS}
        undecided = []
        for column, of in (
            ("this token", lambda a: a[:, step]),
            ("all tokens", lambda a: a.mean(1)),
        ):
            for m, text in zip(order, table[column], strict=True):
                a, b = (number(e, 1) for e in np.quantile(of(samples[m]), (0.025, 0.975)))
                assert text == (a if a == b else f"{a} to {b}"), (m, column)
            ends = [
                np.quantile(of(samples[a]) - of(samples[b]), (0.025, 0.975))
                for n, a in enumerate(order)
                for b in order[n + 1 :]
            ]
            undecided.append(sum(low <= 0 <= high for low, high in ends))
        note += (
            " The ranges are 95 % bootstrap intervals over the sampled orders. Pairs of methods "
            f"whose order these intervals leave undecided: {undecided[0]} of 21 for this token, "
            f"{undecided[1]} for all tokens."
        )
    page.claim(note, "why_agreement_note")
    for item in page.found("why_agreement"):
        item.claimed = True


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


def test_quick_sections_are_open_and_others_say_how_long_they_take():
    page = render("why", source=LONG)
    for key in FOLDS:
        label = page.texts(key, "label")[0]
        assert re.search(rf" \(({TIME})\)$", label)
        assert bool(page.app.session_state[key]) == label.endswith("(less than a second)")


@pytest.mark.parametrize(("source", "subsets"), [(SHORT, 2**5), (LONG, 64 * 14)])
def test_the_expected_time_follows_the_length_of_the_sentence(monkeypatch, source, subsets):
    """The network is assumed to take 1 ms for each token of each pass."""
    from app.state import results

    monkeypatch.setattr(
        results, "last_run", lambda card, function: results.LastRun(0.001 * 49 * 10, 10)
    )
    page = render("why", state={"open_sources": False}, source=source)
    rec = record(source)
    passes = subsets + 3 * len(rec.target_out) + 2 * len(source_words(rec.source))
    tokens = len(rec.source) + len(rec.target_out)
    for key, count in (("open_sources", passes), ("open_pairs", 16 * 17 / 2)):
        seconds = 0.001 * tokens * count
        whole = round(seconds) if seconds < 10 else 5 * round(seconds / 5)
        time = "less than a second" if seconds < 1 else f"(about {whole} second"
        assert time in page.texts(key, "label")[0]


def test_a_closed_section_stays_closed():
    app = render("why", source=SHORT).app
    assert app.session_state["open_lens"]
    app.session_state["open_lens"] = False
    app.run()
    assert not app.session_state["open_lens"]


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
