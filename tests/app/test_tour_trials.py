"""Stops of the tour that run the network again: their texts agree with the network."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from app.views.shared.question import Outcome
from core.config import DecodeConfig
from core.record.edits import Edits, PositionEdit
from core.record.record import TranslationRecord
from tests.app.page_checks import names, nothing_else, number, percent, translator
from tests.app.rendered import Rendered, render

MODELS = [
    f"{model}-{d}" for d in ("de-en", "en-de") for model in ("scratch", "captions", "baseline")
]
FIRST = {"de-en": 7, "en-de": 8}
"""The number of the first of these stops, counted from 1."""
SHIRTS = {
    "de-en": "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd.",
    "en-de": "A man in a red shirt is talking to a man in a blue shirt.",
}
DOGS = {
    "de-en": "Zwei Hunde laufen durch den Schnee.",
    "en-de": "Two dogs are running through the snow.",
}
VECTORS = {
    "de-en": ("Zwei junge Männer spielen im Park Fußball.", "soccer", "Fußball"),
    "en-de": ("A man wants to buy a washing machine.", "kaufen", "buy"),
}
SEARCHES = {
    "de-en": ("Ein Mann ohne Hut sitzt auf einer Bank.", "ohne"),
    "en-de": ("The cat chases the mouse.", "mouse"),
}
WRONG = {
    "de-en": ("Ein Igel läuft durch den Garten.", "Igel", "hedgehog", ["hedgehog"]),
    "en-de": (
        "A man without a hat is sitting on a bench.",
        "without",
        "ohne / hutlos / hutloser",
        ["ohne", "hutlos", "hutloser"],
    ),
}


@pytest.fixture(autouse=True)
def _without_question(monkeypatch):
    settled = Outcome(None, True, True)
    monkeypatch.setattr("app.views.shared.question.ask", lambda *_: settled)


def stop(name: str, nth: int) -> Rendered:
    model, direction = name.split("-", 1)
    number_ = FIRST[direction] + nth
    page = render("tour", direction=direction, model=model, stop=str(number_))
    total = FIRST[direction] + 4
    found = page.texts("tour_links", "caption")[0]
    assert found.startswith(f"Stop {number_} of {total},")
    return page


class Line(str):
    """A line of Markdown; `==` reads no-break spaces of the other text as spaces."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other).replace("\u00a0", " ")


def lines(page: Rendered) -> list[str]:
    """Return a stop's lines about its measurements, without Markdown's escapes."""
    return [Line(re.sub(r"\\(.)", r"\1", line)) for line in page.texts("tour_trial")]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


@pytest.mark.parametrize("name", MODELS)
def test_the_stop_without_positions_compares_both_translations(name):
    direction = name[-5:]
    model = translator(name)
    off = PositionEdit(scale=0.0)
    own = model.inspect(SHIRTS[direction]).translation
    edits = Edits(source_positions=off, target_positions=off)
    other = model.inspect(SHIRTS[direction], edits=edits).translation
    first, second = {"de-en": ("red", "blue"), "en-de": ("roten", "blauen")}[direction]
    before, after = words(own), words(other)
    assert before.index(first) < before.index(second), "every bundled model orders them so"
    if not {first, second} <= set(after):
        verdict = (
            f"Without positions the translation no longer contains both “{first}” and “{second}”."
        )
    elif after.index(first) > after.index(second):
        verdict = (
            f"Without positions the two colours have changed places: “{first}” and “{second}” come "
            "in the other order."
        )
    else:
        pytest.fail("no bundled model keeps the order")
    page = stop(name, 0)
    said = lines(page)
    assert said == [f"With positions: {own}", f"Without positions: {other}", verdict]
    if name == "scratch-de-en":
        assert "changed places" in verdict, "the tour's default shows the effect"
    assert page.payload("figure_one")["current"] == ["source_positions", "target_positions"]
    assert page.payload("figure_one")["follow"] == ""


@pytest.mark.parametrize("name", MODELS)
def test_the_stop_without_the_causal_mask_compares_probabilities(name):
    model = translator(name)
    record = model.inspect(DOGS[name[-5:]])
    ids = tuple(token.id for token in record.target_out)
    open_ = model.inspect(record.source_text, target_ids=ids, edits=Edits(causal_mask=False))
    before, after = (np.exp(np.float64(r.log_probs)) for r in (record, open_))
    most = max(range(len(before)), key=lambda i: abs(after[i] - before[i]))
    change = float(open_.log_probs[most]) - float(record.log_probs[most])
    assert after.mean() < before.mean() - 0.1, "the tour's sentence shows the effect"
    page = stop(name, 1)
    assert lines(page) == [
        f"Over the {len(ids)} tokens of the translation, the mean probability falls from "
        f"{percent(before.mean())} to {percent(after.mean())} without the mask.",
        f"The probability of “{names(record.target_out, 1)[most]}” changes most: from "
        f"{percent(before[most])} to {percent(after[most])} ({number(change, 1, '+')} nats).",
    ]


@pytest.mark.parametrize("name", MODELS)
def test_the_stop_of_two_vectors_computes_one_score(name):
    sentence, target, source = VECTORS[name[-5:]]
    model = translator(name)
    record = model.inspect(sentence)
    produced, read = ([t.text for t in side] for side in (record.target_out, record.source))
    page = stop(name, 2)
    if target not in produced:
        assert lines(page) == [] and name == "captions-en-de"
        return
    query, key = produced.index(target), read.index(source)
    layer, head = divmod(int(record.cross[:, :, query, key].argmax()), record.cross.shape[1])
    # Compute the vectors with the network's projections, from the inputs of the attention.
    inputs = {}
    with model.exclusive_model() as network:
        site = site_of(network, record, layer)
        size = site.inputs_QD.shape[-1] // site.num_heads
        rows = slice(head * size, (head + 1) * size)
        inputs["q"] = site.to_query[rows] @ site.inputs_QD[query] + site.query_bias[rows]
        inputs["k"] = [
            site.to_key[rows] @ memory + site.key_bias[rows] for memory in site.memory_KD
        ]
    sums = [float(np.dot(inputs["q"], k)) for k in inputs["k"]]
    scores = [total / math.sqrt(size) for total in sums]
    weights = record.cross[layer, head, query].astype(float)
    np.testing.assert_allclose(weights, np.exp(scores) / np.exp(scores).sum(), atol=1e-5)
    best, second = sorted(range(len(scores)), key=lambda i: -scores[i])[:2]
    assert best == key
    shown = names(record.source, 1)
    assert lines(page) == [
        f"In layer {layer + 1} head {head + 1}, the query of the row that produces “{target}” and "
        f"the key of “{source}” have {size} numbers each. The {size} products sum to "
        f"{number(sums[key], 2)}; divided by √{size}, the score is {number(scores[key], 2)}.",
        f"The softmax over the {len(scores)} scores of the row turns it into a weight of "
        f"{percent(weights[key])}. The second largest weight is on “{shown[second]}”: its score is "
        f"{number(scores[second], 2)}, its weight {percent(weights[second])}.",
    ]


def site_of(network, record: TranslationRecord, layer: int):
    from core.experiments.site import site

    sides = [[token.id for token in side] for side in (record.source, record.target_out)]
    return site(network, *sides, "cross", layer)


@pytest.mark.parametrize("name", MODELS)
def test_the_stop_of_two_searches_compares_their_translations(name):
    sentence, word = SEARCHES[name[-5:]]
    greedy, beam = (
        translator(name).inspect(sentence, decode=DecodeConfig(beam=width)) for width in (1, 5)
    )
    totals = [sum(map(float, r.log_probs)) for r in (greedy, beam)]
    expected = [
        f"{search}: {found.translation} (probability {percent(math.exp(total))}, log-probability "
        f"{number(total, 2)})"
        for search, found, total in zip(("Greedy", "Beam 5"), (greedy, beam), totals, strict=True)
    ]
    ids = [[token.id for token in r.target_out] for r in (greedy, beam)]
    page = stop(name, 3)
    if ids[0] == ids[1]:
        assert name.startswith(("baseline", "captions"))
        expected.append("On this sentence both searches of this model write the same.")
    else:
        at = next(i for i in range(len(ids[0])) if ids[0][i] != ids[1][i])
        g, b = (
            f"“{names(r.target_out, 1)[at]}” ({percent(math.exp(r.log_probs[at]))})"
            for r in (greedy, beam)
        )
        expected.append(
            f"They first differ at token {at + 1}: greedy search wrote {g}, beam search {b}."
        )
        assert totals[1] > totals[0]
        expected.append(
            "The beam's translation is the more probable one as a whole. That does not make it the "
            "better one: compare both with the source."
        )
    assert lines(page) == expected
    assert page.payload("figure_one")["current"] == ["softmax", "outputs"]
    claim_cell(page, beam, word)


@pytest.mark.parametrize("name", MODELS)
def test_the_stop_of_a_wrong_translation_quotes_it(name):
    sentence, word, listed, right = WRONG[name[-5:]]
    record = translator(name).inspect(sentence)
    assert not set(words(record.translation)) & set(right), "no bundled model gets it right"
    page = stop(name, 4)
    assert lines(page) == [
        f"This model wrote: {record.translation}",
        f"It contains none of the words that would be right for “{word}” ({listed}).",
    ]
    claim_cell(page, record, word)
    # The only other numbers are the stop's number and the count of tokens.
    nothing_else(page, fixed=("Stop ", "The model reads "), but=lambda i: i.where == "tour_trial")


def test_a_right_translation_is_called_right(monkeypatch):
    """Another network may know the word: the stop then says so."""
    from app.views.tour.trials import translates_word

    said = translates_word("Igel", "hedgehog")(None, Fake("A Hedgehog, running."), None)  # type: ignore
    assert said[1] == "It contains “hedgehog”, which is right for “Igel”."
    assert "none of" in translates_word("Igel", "hedgehog")(None, Fake("hedgehogs"), None)[1]  # type: ignore


class Fake:
    def __init__(self, translation: str):
        self.translation = translation


def claim_cell(page: Rendered, record: TranslationRecord, word: str) -> None:
    """Claim the sentence on the row with most weight on a source word, and on that row's head."""
    column = next(
        list(range(start, end))
        for start in range(len(record.source))
        for end in range(start, len(record.source) + 1)
        if "".join(token.text for token in record.source[start:end]) == word
    )
    on_word = record.cross[..., column].sum(-1).copy()
    for row, token in enumerate(record.target_out):
        if token.special or token.text in (".", ","):
            on_word[:, :, row] = -1
    row = int(on_word.sum((0, 1)).argmax())
    layer, head = np.unravel_index(on_word[:, :, row].argmax(), on_word.shape[:2])
    text = (
        "Averaged over all heads of the cross-attention, the row of one word puts more weight on "
        f"{word} than the row of any other word does. In this row, layer {layer + 1} head "
        f"{head + 1} looks at {word} most, with **{percent(on_word[layer, head, row])}** of its "
        f"weight. The row produces “{names(record.target_out, 1)[row]}”, token {row + 1} of "
        f"{len(record.target_out)}."
    )
    page.claim(text, "tour_text")
