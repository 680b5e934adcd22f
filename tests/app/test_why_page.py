"""Every number, name, unit and colour on *Ask why* is the record's and the questions' own."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections import Counter
from collections.abc import Set
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import core
from core.analysis.attribution import source_words
from core.config import DecodeConfig
from core.experiments.attribution import METHODS, attributions, shapley
from core.experiments.head_effects import head_effects, pair_effects
from core.experiments.logit_lens import decoder_lens, lens
from core.experiments.word_choice import rivals, true_change, word_choice
from core.record.edits import Edge, Edits
from core.translator import Translator
from tests.app.rendered import Rendered, array, render

CHECKPOINTS = Path(__file__).resolve().parents[2] / "checkpoints"

SHORT = "Zwei Männer spielen Fußball."
LONG = "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd."
LITTLE = "Ein kleiner Junge sitzt auf einer Schaukel."
ENGLISH = "A woman is preparing the food in the kitchen."
FOLDS = ("open_pairs", "open_choice", "open_lens", "open_decoder_lens", "open_sources")
CLOSED = dict.fromkeys(FOLDS, False)
SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


# What a page owes, written by hand.


def signed(value: float, places: int = 3) -> str:
    """+0.123, −0.123, 0.000."""
    text = f"{abs(value):,.{places}f}"
    if float(text.replace(",", "")) == 0:
        return text
    return ("+" if value > 0 else "−") + text


def bare(value: float, places: int = 3) -> str:
    return signed(value, places).removeprefix("+")


def share(value: float) -> str:
    near = 0 < value <= 0.005 or 0.995 <= value < 1
    text = f"{100 * value:.1f}" if near else f"{100 * value:.0f}"
    if near and text in ("0.0", "100.0"):
        text = "<0.1" if text == "0.0" else ">99.9"
    return f"{text}\u00a0%"


def named(tokens, first: int) -> list[str]:
    """The tokens' texts, repeated ones with their place: in₃."""
    counts = Counter(token.text for token in tokens)
    return [
        t.text + (str(first + i).translate(SUBSCRIPT) if counts[t.text] > 1 else "")
        for i, t in enumerate(tokens)
    ]


def shown(text: str) -> str:
    """Text as Plotly shows it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@functools.cache
def network(folder: str) -> Translator:
    return Translator.load(CHECKPOINTS / folder, "cpu")


@functools.cache
def record(source: str, folder: str = "scratch-de-en", beam: int = 5):
    return network(folder).inspect(source, decode=DecodeConfig(beam=beam))


@functools.cache
def page(source: str, opened: str = "", **query: Any) -> Rendered:
    """The page with one section open and the others closed."""
    state = CLOSED | ({opened: True} if opened else {})
    return render("why", state=state, source=source, **query)


def lines(figure: dict) -> tuple[str, str]:
    title = figure["layout"]["title"]
    return title["text"], title["subtitle"]["text"]


def colours(trace: dict) -> list[str]:
    """Each bar's colour by which part of it is strongest."""
    found = trace["marker"]["color"]
    texts = [found] if isinstance(found, str) else found
    rgb = [[int(n) for n in re.findall(r"\d+", text)[:3]] for text in texts]
    return ["blue" if b > r else "orange" for r, _, b in rgb]


def heads_in_order(effects: dict[str, np.ndarray]) -> list[tuple[str, int, int, float]]:
    """All heads by the size of their change, ties in layer order."""
    found = [(kind, *at, float(v)) for kind, a in effects.items() for at, v in np.ndenumerate(a)]
    return sorted(found, key=lambda head: -abs(head[3]))


# Which head matters.


@pytest.mark.parametrize("token", [None, 2])
@pytest.mark.parametrize("source", [SHORT, LONG])
def test_heads_that_matter(source, token):
    query = {} if token is None else {"why_for": str(token)}
    shown_page = page(source, **query)
    one = record(source)
    changes = head_effects(network("scratch-de-en"), one).changes
    of = {k: v.sum(-1) if token is None else v[..., token] for k, v in changes.items()}
    heads = heads_in_order(of)
    kind, layer, head, change = heads[0]
    names = named(one.target_out, 1)
    before = float(one.log_probs.sum() if token is None else one.log_probs[token])
    what = "the whole translation" if token is None else f"“{names[token]}”"
    attention = "cross-attention" if kind == "cross" else f"{kind}'s self-attention"
    shown_page.claim(
        f"Head {head + 1} of layer {layer + 1} of the {attention} matters most: without it, "
        f"the probability of {what} goes from {share(math.exp(before))} to "
        f"{share(math.exp(before + change))} ({signed(change, 2)} nats).",
        "why_matters",
    )
    figure = shown_page.figure("why_heads")
    assert lines(figure) == (
        f"The 12 heads of {len(heads)} that matter most",
        "each switched off by itself, the target kept: change of log P",
    )
    assert figure["layout"]["xaxis"]["title"]["text"] == "nats"
    assert figure["layout"]["yaxis"]["ticktext"] == [
        f"{k} {n + 1}.{h + 1}" for k, n, h, _ in heads[:12]
    ]
    (bars,) = figure["data"]
    assert bars["customdata"] == figure["layout"]["yaxis"]["ticktext"]
    assert bars["hovertemplate"] == "%{customdata}: <b>%{x:+.3f}</b> nats<extra></extra>"
    np.testing.assert_allclose(array(bars["x"]), [v for *_, v in heads[:12]], atol=1e-5)
    assert colours(bars) == ["blue" if v > 0 else "orange" for *_, v in heads[:12]]
    top, bottom = figure["layout"]["yaxis"]["range"][::-1]
    assert list(array(bars["y"])) == list(range(12)) and top < bottom, "the largest is on top"
    harm = sum(v > 0 for *_, v in heads[:12])
    shown_page.claim(
        f"{harm} of these 12 heads {'does' if harm == 1 else 'do'} harm here: the probability "
        "rises when the head is switched off."
        if harm
        else "The probability falls with each of these heads switched off."
    )
    little = sum(abs(v) < 0.05 for *_, v in heads)
    half = {1: "Most heads", 0: "Half of the heads", -1: "Fewer than half of the heads"}
    shown_page.claim(
        f"{half[int(np.sign(2 * little - len(heads)))]} matter little by themselves: switched off "
        f"one at a time, {little} of {len(heads)} ({share(little / len(heads))}) "
        f"{'changes' if little == 1 else 'change'} the log-probability by less than 0.05 nats. "
        "Another head may do the same work, which the next section tests."
    )
    _everything(shown_page, figures={"why_heads"})


def _everything(shown_page: Rendered, figures: Set[str] = frozenset()) -> None:
    """No text with a number is left that no test names; the sidebar has tests of its own."""
    shown_page.claim(
        "Looking is not explaining: a large attention weight need not change the translation. "
        "Every answer here comes from running the network again. Sums add up to rounding, "
        "predictions are shown next to the true effect, and sampled values with their 95 % "
        "intervals."
    )
    elsewhere = {"lesson_sentence", "doubts", "model_note", "examples", "search", "source"}
    shown_page.everything_was_claimed(
        lambda item: (
            item.where in elsewhere | figures
            or item.kind in ("help", "option", "raw_value")
            or item.where.startswith("example_")
            or (item.kind == "figure" and item.where == "why_heads")
            or item.where == "why_matters"
            or " matter little by themselves: " in item.text
            or " of these 12 heads " in item.text
            or "(DecoderLens, Langedijk et al. 2023)" in item.text
            or re.fullmatch(r".+ \((less than a second|about \d+ seconds?)\)", item.text)
            is not None
        )
    )


@pytest.mark.parametrize(
    "source",
    [
        "ZWEI MÄNNER SPIELEN FUSSBALL.",
        "Vor dem alten Rathaus stehen viele Menschen mit roten Regenschirmen und warten darauf, "
        "dass der Regen endlich aufhört, während ein Mann mit einem Hund an ihnen vorbeiläuft.",
    ],
)
def test_a_change_that_percentages_cannot_show_is_told_in_log_probabilities(source):
    """From <0.1 % to <0.1 % says nothing; where the ends differ as people see them, they stand."""
    one = record(source)
    changes = {k: v.sum(-1) for k, v in head_effects(network("scratch-de-en"), one).changes.items()}
    kind, layer, head, change = heads_in_order(changes)[0]
    attention = "cross-attention" if kind == "cross" else f"{kind}'s self-attention"
    before = float(one.log_probs.sum())
    assert max(math.exp(before), math.exp(before + change)) < 0.0005, "both are below 0.1 %"
    page(source).claim(
        f"Head {head + 1} of layer {layer + 1} of the {attention} matters most: without it, the "
        f"log-probability of the whole translation goes from {bare(before, 2)} to "
        f"{bare(before + change, 2)} ({signed(change, 2)} nats).",
        "why_matters",
    )


@pytest.mark.parametrize(
    ("rank", "written"),
    [(4, "4th"), (11, "11th"), (21, "21st"), (22, "22nd"), (113, "113th"), (1003, "1,003rd")],
)
def test_ranks_are_written_as_people_write_them(rank, written):
    from app.views.why.words import _ordinal

    assert _ordinal(rank) == written


@pytest.mark.parametrize(
    ("terms", "losses", "said"),
    [
        ((1.0, 2.0), (0.9, 2.1), "each of the 2 heads shown takes away between half of its term"),
        ((1.0,), (0.9,), "Switched off, the one head shown takes away between half of its term"),
        ((1.0, 2.0), (-0.5, 2.0), "heads shown, 1 takes away the opposite of its term when"),
        (
            (1.0, 2.0, 3.0, 8.0),
            (-0.5, 0.2, 9.0, 14.0),
            "heads shown, 1 takes away the opposite of its term and 2 take away less than half of, "
            "or more than twice, their term when switched off. The furthest off of these is c3:",
        ),
        ((1.0, 2.0), (0.2, 2.0), "shown, 1 takes away less than half of, or more than twice, its"),
    ],
)
def test_what_the_terms_get_wrong_is_counted_in_words_that_fit(terms, losses, said):
    from types import SimpleNamespace

    from app.views.why.words import _disagreement

    largest = [(SimpleNamespace(label=f"c{n}"), t) for n, t in enumerate(terms, start=1)]
    assert said in _disagreement(largest, list(losses))


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, " None of the 14 intervals holds 0."),
        (
            1,
            " 1 of the 14 intervals holds 0: whether that word speaks for the token or against it "
            "stays open.",
        ),
        (
            7,
            " 7 of the 14 intervals hold 0: whether those words speak for the token or against it "
            "stays open.",
        ),
    ],
)
def test_intervals_that_hold_nothing_leave_nothing_open(count, said):
    from app.views.why.sources import _open

    assert _open(count, 14) == said


# Pairs.


@pytest.mark.parametrize("kind", ["cross", "encoder"])
def test_pairs(kind):
    shown_page = page(SHORT, "open_pairs", why_pairs=kind)
    effects = pair_effects(network("scratch-de-en"), record(SHORT), kind)
    both = effects.pairs.sum(-1)
    one = both.diagonal()
    beyond = both - one[:, None] - one
    np.fill_diagonal(beyond, 0)
    figure = shown_page.figure("why_pairs_map")
    assert lines(figure) == (f"Pairs of {kind} heads", "orange: more is lost together; blue: less")
    heat = next(trace for trace in figure["data"] if trace["type"] == "heatmap")
    np.testing.assert_allclose(array(heat["z"]), beyond, atol=1e-5)
    assert _colour_at(heat, 0) == "orange" and _colour_at(heat, -1) == "blue"
    assert heat["zmin"] == -heat["zmax"] == pytest.approx(-np.abs(beyond).max(), abs=1e-5)
    bar = heat["colorbar"]
    assert bar["title"]["text"] == "nats beyond the sum"
    largest = np.abs(beyond).max()
    assert bar["ticktext"] == ["−" + f"{largest:.2f}", "0", f"{largest:.2f}"]
    assert heat["hovertemplate"].startswith("heads %{y} and %{x}: <b>%{z:+.3f}</b> nats beyond")
    names = [f"{n // 4 + 1}.{n % 4 + 1}" for n in range(len(one))]
    for axis, word in (("xaxis", "second"), ("yaxis", "first")):
        assert figure["layout"][axis]["ticktext"] == names
        assert figure["layout"][axis]["title"]["text"] == f"{word}: layer.head"
        assert figure["layout"][axis + "2"]["ticktext"] == names
    upper = [(beyond[a, b], a, b) for a in range(len(one)) for b in range(a + 1, len(one))]
    for (by, a, b), meaning in (
        (min(upper), "cover for each other"),
        (max(upper), "need each other"),
    ):
        if abs(one[a]) < abs(one[b]):
            a, b = b, a
        shown_page.claim(f"**{names[a]} and {names[b]} {meaning} most**", "why_pairs_most")
        shown_page.claim(
            f"{names[a]} off: {signed(one[a])} nats\n{names[b]} off: {signed(one[b])} nats\n"
            f"both off: {signed(both[a, b])} nats, {signed(by)} nats beyond the sum"
        )
        shown_page.claim(
            f"Once {names[a]} is off, switching off {names[b]} too changes log P by "
            f"{signed(both[a, b] - one[a])} nats, instead of {signed(one[b])} nats alone."
        )
    _everything(shown_page, figures={"why_pairs_map", "why_pairs"})


def _colour_at(heat: dict, end: int) -> str:
    """The colour of the least (0) or the largest (-1) number."""
    r, _, b = (int(n) for n in re.findall(r"\d+", heat["colorscale"][end][1]))
    return "blue" if b > r else "orange"


def test_pairs_that_neither_cover_nor_need(monkeypatch):
    """The captions follow the sign: here every pair is the sum of its heads."""
    from app.state import results
    from core.analysis.head_effects import PairEffects

    honest = results.ask

    def additive(card, function, *rest, **ways):
        answer = honest(card, function, *rest, **ways)
        if function is not core.pair_effects:
            return answer
        one = answer.pairs.sum(-1).diagonal()
        pairs = (one[:, None] + one)[..., None]
        pairs[range(len(one)), range(len(one))] = one[:, None]
        return PairEffects(answer.kind, answer.layers, answer.heads, pairs)

    monkeypatch.setattr(results, "ask", additive)
    shown_page = render("why", state=CLOSED | {"open_pairs": True}, source=SHORT)
    bold = [t for t in shown_page.texts("why_pairs_most", "markdown") if t.startswith("**")]
    assert bold == ["**No two heads cover for each other**", "**No two heads need each other**"]


# Why this word.


def _words(one, translator, step: int) -> tuple[list, list]:
    """The whole words among the rivals of a step, and all rivals."""
    found = rivals(translator, one, step)
    tokens = translator.target_tokens(found.ids)
    after = translator.target_tokens(found.following)
    marks = ".,;:!?\"'()-–…"
    whole = [
        token
        for token, then in zip(tokens, after, strict=True)
        if token.starts_word
        and not token.special
        and token.text.strip(marks)
        and (then.starts_word or then.special or not then.text.strip(marks))
    ]
    return whole, list(tokens)


CASES = [
    (LONG, "scratch-de-en", 14, {}),
    (LITTLE, "scratch-de-en", 1, {}),
    (ENGLISH, "baseline-en-de", 4, {"direction": "en-de", "model": "baseline"}),
]


@pytest.mark.parametrize(("source", "folder", "step", "query"), CASES)
def test_why_this_word(source, folder, step, query):
    one, translator = record(source, folder), network(folder)
    shown_page = page(source, "open_choice", why_step=str(step), **query)
    own = one.target_out[step]
    whole, tokens = _words(one, translator, step)
    apart = [
        token
        for token in whole
        if not token.text.lower().startswith(own.text.lower())
        and not own.text.lower().startswith(token.text.lower())
    ]
    rest = [token for token in one.alternatives[step] if token.id != own.id]
    offered = dict.fromkeys(t.text for t in [*apart[:1], *whole[:4], *rest])
    (control,) = [b for b in shown_page.app.button_group if b.key == "why_other"]
    assert list(control.options) == list(offered)
    other = apart[0]
    assert control.value == other.id

    found = rivals(translator, one, step)
    word = named(one.target_out, 1)[step]
    alternatives = {t.id: i for i, t in enumerate(tokens)}
    chance = math.exp(float(one.log_probs[step]))
    assert found.probability == pytest.approx(chance, abs=1e-5)
    above = [c for c in found.probabilities if c > chance]
    shown_page.claim(
        f"At this step “{word}” has the largest logit, so the largest probability: {share(chance)}."
        if not above
        else f"At this step “{word}” has only the {['second', 'third'][len(above) - 1]}-largest "
        f"logit ({share(chance)}): beam search compares whole translations, and the best one it "
        "found goes through it.",
        "why_rank",
    )
    choice = word_choice(translator, one, step, (own.id, other.id))
    theirs = found.probabilities[alternatives[other.id]]
    assert chance / theirs == pytest.approx(math.exp(choice.difference), rel=1e-3)
    match = shown_page.claim_matching(
        f"“{re.escape(own.text)}” \\({re.escape(share(chance))}\\) is ([\\d.,]+) times as probable "
        f"as “{re.escape(other.text)}” \\({re.escape(share(theirs))}\\)\\. The factor is e to the "
        f"power of the difference of their logits, {re.escape(signed(choice.difference))}\\.",
        "why_difference",
    )
    assert float(match[1].replace(",", "")) == pytest.approx(chance / theirs, rel=0.051)
    _terms(shown_page, one, translator, choice, (own.text, other.text))
    _ribbons(shown_page, one, choice, (own.text, other.text))
    _removals(shown_page, one, translator, choice)
    pair = (own.text, other.text)
    shown_page.claim_matching(
        f"{one.source_language} tokens speak through the cross heads, {one.target_language} ones "
        r"through the decoder's\. The widths add up: blue less orange is the difference\. Blue "
        f"speaks for “{re.escape(pair[0])}”, orange for “{re.escape(pair[1])}”\\."
    )
    _everything(shown_page, figures={"why_terms", "why_ribbons"})


def _terms(shown_page, one, translator, choice, pair) -> None:
    figure = shown_page.figure("why_terms")
    assert lines(figure) == (
        f"Blue: for “{pair[0]}”, orange: for “{pair[1]}”",
        "colour: a term; grey: what is lost without the head",
    )
    order = np.argsort(-np.abs(choice.terms), kind="stable")[:14]
    parts = [choice.components[i] for i in order]
    terms = [float(choice.terms[i]) for i in order]
    every = [*terms, float(choice.terms.sum()) - sum(terms)]
    bars, grey = figure["data"]
    np.testing.assert_allclose(array(bars["x"]), every, atol=1e-5)
    assert sum(array(bars["x"])) == pytest.approx(choice.difference, abs=1e-4)
    assert colours(bars) == ["blue" if v > 0 else "orange" for v in every]
    labels = [
        f"{p.kind} layer {p.layer + 1} head {p.head + 1}" if p.head is not None else p.label
        for p in parts
    ]
    assert figure["layout"]["yaxis"]["ticktext"] == [*labels, "all others"]
    assert bars["customdata"] == [*labels, "all others"]
    assert grey["customdata"][0] == f"switching off {labels[0]} takes away"
    for trace in (bars, grey):
        assert trace["hovertemplate"] == "%{customdata}: <b>%{x:+.3f}</b> logit<extra></extra>"
    assert figure["layout"]["xaxis"]["title"]["text"] == "logit"
    lost = [
        None
        if p.head is None
        else -true_change(
            translator,
            one,
            choice.step,
            choice.words,
            Edits(heads_off=frozenset({(p.kind, p.layer, p.head)})),
        )
        for p in parts
    ]
    drawn = [None if v is None or v != v else float(v) for v in grey["x"]]
    assert [v is None for v in drawn] == [v is None for v in [*lost, None]]
    heads = [(n, t, v) for n, t, v in zip(labels, terms, lost, strict=True) if v is not None]
    np.testing.assert_allclose(
        [v for v in drawn if v is not None], [v for *_, v in heads], atol=1e-5
    )
    assert all(y > x for x, y in zip(array(bars["y"]), array(grey["y"]), strict=True))
    low, high = figure["layout"]["xaxis"]["range"]
    assert low <= min(v for *_, v in heads) and max(v for *_, v in heads) <= high
    match = shown_page.claim_matching(
        rf"All {len(choice.terms)} terms add up to the difference to within (.+?); layer norm is "
        "held at its actual scale. Grey is what the difference really loses when the head is "
        "switched off. Cross heads bring what the source says."
    )
    assert re.fullmatch(r"\d\.\d\u00a0·\u00a010⁻[⁵⁶⁷⁸]", match[1])
    opposite = [h for h in heads if h[1] * h[2] <= 0]
    other = [h for h in heads if h[1] * h[2] > 0 and not 0.5 <= h[2] / h[1] <= 2]
    assert opposite or other, "these cases disagree"
    most = len(opposite + other) > len(heads) / 2
    what = "the terms as effects" if most else "every term as an effect"
    name, term, true = max(opposite + other, key=lambda h: abs(h[1] - h[2]))
    found = []
    if opposite:
        verb, whose = ("takes", "its") if len(opposite) == 1 else ("take", "their")
        found.append(f"{len(opposite)} {verb} away the opposite of {whose} term")
    if other:
        verb, whose = ("takes", "its") if len(other) == 1 else ("take", "their")
        found.append(
            f"{len(other)} {verb} away less than half of, or more than twice, {whose} term"
        )
    shown_page.claim(
        f"Do not read {what}. Of the {len(heads)} heads shown, {' and '.join(found)} when "
        f"switched off. The furthest off of these is {name}: its term predicts that the "
        f"difference changes by {signed(-term)} without it; in truth it changes by "
        f"{signed(-true)}, because layer norms and later layers react.",
        "why_disagree",
    )


def _ribbons(shown_page, one, choice, pair) -> None:
    """Each node's links sum to what the terms say, by side and place; no two words are one."""
    figure = shown_page.figure("why_ribbons")
    assert lines(figure) == ("The same sum as ribbons", "left: tokens; middle: layers")
    (sankey,) = figure["data"]
    labels, link = sankey["node"]["label"], sankey["link"]
    assert "logit" in link["hovertemplate"] and "nats" not in link["hovertemplate"]
    keys = {"cross": named(one.source, 1), "decoder": named(one.target_in, 0)}
    languages = {"cross": one.source_language, "decoder": one.target_language}
    parts = [
        (f"{shown(keys[kind][k])} ({languages[kind]})", f"{kind} layer {layer + 1}", float(v))
        for kind, edges in choice.edges.items()
        for (layer, k), v in np.ndenumerate(edges.sum(1))
    ]
    parts += [
        ("not a head", component.label, float(term))
        for component, term in zip(choice.components, choice.terms, strict=True)
        if component.head is None
    ]
    parts.sort(key=lambda part: -abs(part[2]))
    expected = parts[:24]
    small = [v for *_, v in parts[24:]]
    for value in (sum(v for v in small if v > 0), sum(v for v in small if v < 0)):
        expected += [("all smaller", "all smaller", value)] if value else []
    drawn = [
        (labels[a], labels[b], v if c == "blue" else -v)
        for a, b, v, c in zip(
            array(link["source"]),
            array(link["target"]),
            array(link["value"]),
            colours({"marker": {"color": link["color"]}}),
            strict=True,
        )
    ]
    for got, want in zip(drawn, expected, strict=False):
        assert got[:2] == want[:2] and got[2] == pytest.approx(want[2], abs=1e-5)
    last = drawn[len(expected) :]
    assert {end for _, end, _ in last} <= {shown(word) for word in pair}
    for word, sign in zip(pair, (1, -1), strict=True):
        reached = sum(v for _, end, v in last if end == shown(word))
        assert reached == pytest.approx(sum(v for *_, v in expected if sign * v > 0), abs=1e-4)
    assert link["customdata"][: len(expected)] == [signed(v) for *_, v in expected]
    first = labels[: len({a for a, *_ in expected})]
    assert sorted(first) == sorted({a for a, *_ in expected}), "a word is one node, and only one"


def _removals(shown_page, one, translator, choice) -> None:
    keys = {"cross": named(one.source, 1), "decoder": named(one.target_in, 0)}
    order = np.argsort(-np.abs(choice.terms), kind="stable")
    heads = [choice.components[i] for i in order if choice.components[i].head is not None][:5]
    rows = []
    for p in heads:
        off = Edits(heads_off=frozenset({(p.kind, p.layer, p.head)}))
        term = float(choice.edges[p.kind][p.layer, p.head].sum())
        rows.append((f"{p.kind} {p.layer + 1}.{p.head + 1}", -term, off))
    cells = [
        (abs(float(v)), kind, *at)
        for kind, a in choice.edges.items()
        for at, v in np.ndenumerate(a)
    ]
    for _, kind, layer, head, key in sorted(cells, reverse=True)[:5]:
        row, alpha = choice.edges[kind][layer, head], choice.weights[kind][layer, head, key]
        cut = Edits(edges=(Edge(kind, layer, head, choice.step, key, 0.0),))
        rest = (row.sum() - row[key]) / (1 - alpha)
        name = f"the link to {keys[kind][key]} in {kind} {layer + 1}.{head + 1}"
        rows.append((name, float(rest - row.sum()), cut))
    table = shown_page.table("why_tried")
    assert list(table.columns) == ["switched off", "predicted", "true"]
    for (_, got), (name, predicted, edits) in zip(table.iterrows(), rows, strict=True):
        true = true_change(translator, one, choice.step, choice.words, edits)
        assert re.sub(r"[\\\u2060]", "", got["switched off"]) == name
        assert got["predicted"] == signed(predicted) and got["true"] == signed(true)
    for item in shown_page.found("why_tried"):
        item.claimed = True


def test_a_word_never_becomes_two_nodes_nor_two_words_one():
    """At <eos> German "." and English "." speak both, under one label."""
    one = record(SHORT)
    step = len(one.target_out) - 1
    shown_page = page(SHORT, "open_choice", why_step=str(step))
    (sankey,) = shown_page.figure("why_ribbons")["data"]
    stops = [label for label in sankey["node"]["label"] if label.startswith(". ")]
    assert sorted(stops) == [". (English)", ". (German)"]


def test_greedy_search_says_only_what_it_knows():
    one = record(LITTLE, beam=1)
    shown_page = page(LITTLE, "open_choice", why_step="1", search="greedy")
    word = named(one.target_out, 1)[1]
    shown_page.claim(
        f"At this step “{word}” has the largest logit, so the largest probability: "
        f"{share(math.exp(float(one.log_probs[1])))}.",
        "why_rank",
    )


# The lenses.


@pytest.mark.parametrize(
    ("fold", "key", "question", "title"),
    [
        ("open_lens", "why_lens", lens, "The most probable token after each sub-layer"),
        (
            "open_decoder_lens",
            "why_decoder_lens",
            decoder_lens,
            "The most probable token when the decoder reads layer k of the encoder",
        ),
    ],
)
def test_lenses(fold, key, question, title):
    one, translator = record(SHORT), network("scratch-de-en")
    shown_page = page(SHORT, fold)
    grid = question(translator, one)
    figure = shown_page.figure(key)
    assert lines(figure) == (
        title,
        "the more probable, the darker; the last row is the output, bit for bit",
    )
    rows = ["embeddings"]
    for layer in range(1, 5):
        rows += (
            [f"layer {layer} {s}" for s in ("self-attention", "cross-attention", "feed-forward")]
            if fold == "open_lens"
            else [f"layer {layer}"]
        )
    columns = [shown(text) for text in named(one.target_out, 1)]
    assert figure["layout"]["yaxis"]["ticktext"] == rows
    assert figure["layout"]["xaxis"]["ticktext"] == columns
    top, bottom = figure["layout"]["yaxis"]["range"][::-1]
    assert top < bottom, "the embeddings are the first row"
    heat = figure["data"][0]
    np.testing.assert_allclose(array(heat["z"]), grid.probabilities, atol=1e-5)
    assert (heat["zmin"], heat["zmax"]) == (0, 1)
    for r, row in enumerate(rows):
        best = [t.text for t in translator.target_tokens([int(i) for i in grid.ids[r]])]
        assert [t.rstrip("…") for t in heat["text"][r]] == [
            shown(w)[: len(t.rstrip("…"))] if t.endswith("…") else shown(w)
            for w, t in zip(best, heat["text"][r], strict=True)
        ]
        assert heat["customdata"][r] == [
            f"{row}<br>most probable: <b>{shown(best[t])}</b> "
            f"{share(grid.probabilities[r, t])}<br>{columns[t]}: "
            f"{share(grid.written_probabilities[r, t])}, rank {grid.written_ranks[r, t]:,}"
            for t in range(len(columns))
        ]
    np.testing.assert_allclose(grid.written_probabilities[-1], np.exp(one.log_probs), atol=1e-5)
    _everything(shown_page, figures={key})


def test_the_decoder_lens_says_what_its_first_row_shows():
    shown_page = page(SHORT, "open_decoder_lens")
    shown_page.claim(
        "A token that is in its column from the first row on needs no context in the source: the "
        "source tokens one by one and the translation so far suffice."
    )
    said = " ".join(shown_page.texts("open_decoder_lens", "markdown"))
    assert "(DecoderLens, Langedijk et al. 2023)" in said
    assert "fed the translation up to the token before" in said


# Where it came from.


def _columns(one, words) -> list[str]:
    joined = ["".join(one.source[i].text for i in word) for word in words]
    return [
        text + (str(word[0] + 1).translate(SUBSCRIPT) if joined.count(text) > 1 else "")
        for text, word in zip(joined, words, strict=True)
    ]


def _bootstrapped(values, draws, scores) -> np.ndarray:
    """Spearman's ρ of scores with the mean of 500 resamples of the draws, by scipy: [500, T]."""
    chosen = np.random.default_rng(0).integers(len(draws), size=(500, len(draws)))
    means = np.stack([draws[row].mean(0) for row in chosen])
    first, second = stats.rankdata(scores, axis=-1), stats.rankdata(means, axis=-1)
    first, second = (a - a.mean(-1, keepdims=True) for a in (first, second))
    return (first * second).sum(-1) / np.sqrt((first**2).sum(-1) * (second**2).sum(-1))


def _grid_text(row: np.ndarray, places: int) -> list[str]:
    return [re.sub(r"^(−?)0\.", r"\1.", bare(v, places)) for v in row]


@pytest.mark.parametrize("source", [SHORT, LONG])
def test_sources(source):
    one, translator = record(source), network("scratch-de-en")
    shown_page = page(source, "open_sources")
    words = source_words(one.source)
    answers = attributions(translator, one)
    referee = shapley(translator, one)
    exact = len(words) <= 10
    assert referee.exact == exact
    step = len(one.target_out) - 3
    token = named(one.target_out, 1)[step]
    columns = _columns(one, words)
    said = shown_page.texts("open_sources", "markdown")[0]
    assert ("exact" in said) == exact and ("sampled from 64 orders" in said) != exact
    assert f"{len(words)} words here" in said
    shown_page.claim(said)

    nothing, everything = referee.nothing[step], referee.everything[step]
    assert everything == pytest.approx(one.log_probs[step], abs=1e-5)
    shown_page.claim(
        f"With all words hidden, “{token}” has a probability of {share(math.exp(nothing))}; with "
        f"all of them visible, {share(math.exp(everything))} ({signed(everything - nothing, 2)} "
        "nats).",
        "why_seen",
    )
    values, low, high = (a[step] for a in (referee.values, referee.low, referee.high))
    figure = shown_page.figure("why_shapley")
    assert lines(figure) == (
        f"What each source word adds to “{token}”",
        "Shapley values, exact"
        if exact
        else "Shapley values, sampled from 64 orders; lines: 95 % intervals",
    )
    assert figure["layout"]["xaxis"]["title"]["text"] == "nats"
    assert figure["layout"]["yaxis"]["ticktext"] == columns
    (bars,) = figure["data"]
    np.testing.assert_allclose(array(bars["x"]), values, atol=1e-5)
    assert colours(bars) == ["blue" if v >= 0 else "orange" for v in values]
    if exact:
        assert "error_x" not in bars
        assert bars["customdata"] == columns
    else:
        error = bars["error_x"]
        np.testing.assert_allclose(values + array(error["array"]), high, atol=1e-5)
        np.testing.assert_allclose(values - array(error["arrayminus"]), low, atol=1e-5)
        assert bars["customdata"] == [
            [c, f"{signed(a, 2)} to {signed(b, 2)}"]
            for c, a, b in zip(columns, low, high, strict=True)
        ]
    match = shown_page.claim_matching(
        r"For every token, the bars add up to the difference between all words and none to within "
        rf"(.+?); they come from {referee.subsets:,} subsets of the words\."
        + (
            ""
            if exact
            else rf" {((low <= 0) & (high >= 0)).sum()} of the {len(words)} intervals hold 0: "
            "whether those words speak for the token or against it stays open."
        )
    )
    assert re.fullmatch(
        r"0|\d\.\d\u00a0·\u00a010⁻¹[3456]|\d\.\d\u00a0·\u00a010⁻¹[⁰-⁹³-⁶]", match[1]
    )
    _by_method(shown_page, answers, referee, step, token, columns)
    _agreements(shown_page, answers, referee, step)
    _everything(shown_page, figures={"why_shapley", "why_sources"})


def _by_method(shown_page, answers, referee, step, token, columns) -> None:
    figure = shown_page.figure("why_sources")
    assert lines(figure) == (
        f"Where “{token}” came from, by each method",
        "each row is coloured by its own largest; the first four rows are shares and lengths, the "
        "others nats",
    )
    heat = figure["data"][0]
    rows = [*METHODS, "Shapley values"]
    if not referee.exact:
        rows.append("± (95 %)")
    assert figure["layout"]["yaxis"]["ticktext"] == rows
    assert figure["layout"]["xaxis"]["ticktext"] == columns
    z = array(heat["z"])
    assert (heat["zmin"], heat["zmax"]) == (-1, 1)
    assert _colour_at(heat, 0) == "orange" and _colour_at(heat, -1) == "blue"
    for r, method in enumerate(METHODS):
        score = answers.scores[method][step]
        np.testing.assert_allclose(z[r], score / np.abs(score).max(), atol=1e-4)
        places = 2 if np.abs(score).max() >= 0.1 else 3
        assert heat["text"][r] == _grid_text(score, places)
        assert heat["customdata"][r] == [
            f"{method}<br>{c}: <b>{bare(v, 3)}</b>" for c, v in zip(columns, score, strict=True)
        ]
    values, low, high = (a[step] for a in (referee.values, referee.low, referee.high))
    np.testing.assert_allclose(z[7], values / np.abs(values).max(), atol=1e-4)
    assert heat["text"][7] == _grid_text(values, 2)
    assert not any(re.fullmatch(r"−\.0+", text) for row in heat["text"] for text in row)
    if referee.exact:
        assert heat["customdata"][7] == [
            f"Shapley values<br>{c}: <b>{bare(v, 3)}</b>"
            for c, v in zip(columns, values, strict=True)
        ]
        return
    assert heat["customdata"][7] == [
        f"Shapley values<br>{c}: <b>{bare(v, 2)}</b>, 95 %: {bare(a, 2)} to {bare(b, 2)}"
        for c, v, a, b in zip(columns, values, low, high, strict=True)
    ]
    half = (high - low) / 2
    assert heat["text"][8] == _grid_text(half, 2)
    assert heat["customdata"][8] == [
        f"{c}: ± {bare(h, 2)} nats" for c, h in zip(columns, half, strict=True)
    ]
    assert not z[8].any()


def _agreements(shown_page, answers, referee, step) -> None:
    T = len(referee.values)
    rho = {
        m: np.array(
            [stats.spearmanr(answers.scores[m][t], referee.values[t]).statistic for t in range(T)]
        )
        for m in METHODS
    }
    table = shown_page.table("why_agreement")
    assert list(table.columns) == ["method", "what it is", "this token", "all tokens"]
    order = sorted(METHODS, key=lambda m: -rho[m][step])
    assert list(table["method"]) == order
    about = dict(zip(table["method"], table["what it is"], strict=True))
    for method, who in {
        "weights": "Bahdanau",
        "norms": "Kobayashi et al. 2020",
        "rollout": "Zuidema 2020",
        "norm rollout": "Kobayashi et al. 2021",
        "gradient × input": "Shrikumar",
        "value zeroing, all layers": "Mohebbi",
        "leave-one-out": "Li et al. 2016",
    }.items():
        assert who in about[method]
    note = (
        "Spearman's rank correlation with the Shapley values, best for this token first: 1 is the "
        "same order of words, 0 no relation, −1 the reverse. *All tokens* is the mean over the "
        "translation."
    )
    if referee.exact:
        assert list(table["this token"]) == [bare(rho[m][step], 2) for m in order]
        assert list(table["all tokens"]) == [bare(float(rho[m].mean()), 2) for m in order]
    else:
        again = {
            m: _bootstrapped(referee.values, referee.draws, answers.scores[m]) for m in METHODS
        }
        for column, of in (
            ("this token", lambda a: a[:, step]),
            ("all tokens", lambda a: a.mean(1)),
        ):
            for m, text in zip(order, table[column], strict=True):
                a, b = (bare(e, 1) for e in np.quantile(of(again[m]), (0.025, 0.975)))
                assert text == (a if a == b else f"{a} to {b}"), (m, column)
        unsure = []
        for of in (lambda a: a[:, step], lambda a: a.mean(1)):
            ends = [
                np.quantile(of(again[a]) - of(again[b]), (0.025, 0.975))
                for n, a in enumerate(order)
                for b in order[n + 1 :]
            ]
            unsure.append(sum(low <= 0 <= high for low, high in ends))
        note += (
            " The ranges are 95 % intervals over the sampled orders (bootstrap). Which of two "
            "methods is nearer to the Shapley values, the sample leaves open for "
            f"{unsure[0]} of the 21 pairs on this token, and for {unsure[1]} on all tokens."
        )
    shown_page.claim(note, "why_agreement_note")
    for item in shown_page.found("why_agreement"):
        item.claimed = True


def test_what_a_network_without_norms_in_these_places_is_told(monkeypatch):
    """Norms last, and none behind the stacks: the texts name what is left out."""
    from app import controls

    honest = controls.sentence

    def other_norms(**how):
        card, one = honest(**how)
        model = dataclasses.replace(card.model, norm_first=False, final_norm=False)
        return dataclasses.replace(card, model=model), one

    note = "This network has its layer norms after each sub-layer. Norm rollout leaves them out."
    every = ("open_lens", "open_decoder_lens", "open_sources")
    usual = render("why", *every, source=SHORT)
    assert note not in usual.texts() and "final norm" in " ".join(usual.texts(every[0]))
    monkeypatch.setattr(controls, "sentence", other_norms)
    shown_page = render("why", *every, source=SHORT)
    shown_page.claim(note)
    for fold in every[:2]:
        assert "final norm" not in " ".join(shown_page.texts(fold))


def test_one_word_has_no_order():
    shown_page = page("Hallo", "open_sources")
    shown_page.claim("With one word there is no order to compare.", "why_agreement_note")
    shown_page.claim(
        "For every token, the bars add up to the difference between all words and none exactly; "
        "they come from 2 subsets of the words."
    )
    table = shown_page.table("why_agreement")
    assert not any(table["this token"]) and not any(table["all tokens"])
    assert "With 1 word here they are exact" in shown_page.texts("open_sources", "markdown")[0]


# The folds.


def test_what_is_quick_is_open_and_what_takes_seconds_says_so():
    shown_page = render("why", source=LONG)
    labels = {key: shown_page.texts(key, "label")[0] for key in FOLDS}
    assert not any("Work it out" in label for label in labels.values())
    for label in labels.values():
        assert re.search(r" \((less than a second|about \d+ seconds?)\)$", label)
    for key, label in labels.items():
        assert bool(shown_page.app.session_state[key]) == label.endswith("(less than a second)")


def test_the_expected_time_follows_the_length_of_the_sentence(monkeypatch):
    """At 1 ms for each token of each pass, counted by hand."""
    from app.state import results

    def paced(card, function):
        return results.Took(0.001 * 49 * 10, 10)

    monkeypatch.setattr(results, "took", paced)

    def said(source: str) -> dict[str, str]:
        shown_page = render("why", state={"open_sources": False}, source=source)
        return {key: shown_page.texts(key, "label")[0] for key in FOLDS}

    one, two = record(SHORT), record(LONG)
    short, long = said(SHORT), said(LONG)
    for texts, one_record, passes in ((short, one, 2**5), (long, two, 64 * 14)):
        words = len(source_words(one_record.source))
        tokens = len(one_record.source) + len(one_record.target_out)
        seconds = 0.001 * tokens * (passes + 3 * len(one_record.target_out) + 2 * words)
        pairs = 0.001 * tokens * 16 * 17 / 2
        for key, expected in (("open_sources", seconds), ("open_pairs", pairs)):
            whole = round(expected) if expected < 10 else 5 * round(expected / 5)
            about = f"(about {whole} second"
            assert ("less than a second" if expected < 1 else about) in texts[key]
    assert short["open_sources"] != long["open_sources"]


def test_what_a_visitor_closes_stays_closed():
    shown_page = render("why", source=SHORT)
    app = shown_page.app
    assert app.session_state["open_lens"]
    app.session_state["open_lens"] = False
    app.run()
    assert not app.session_state["open_lens"]
