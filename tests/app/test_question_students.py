"""Students who answer everything right, everything wrong, or at random are scored correctly.

The right answers are computed here, from the records and with edited passes.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

import core
from app.components.question import Asked
from app.views.shared import asked as wording
from core.config import DecodeConfig
from core.record.edits import Edits, PositionEdit
from core.record.record import RecordToken, TranslationRecord
from tests.app import asked_page
from tests.app.asked_page import page
from tests.app.page_checks import record, translator

__all__ = ["page"]

SENTENCES = {
    "scratch-de-en": (
        "Zwei junge Männer spielen im Park Fußball.",
        "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd.",
        "Eine Frau liest ein Buch.",
    ),
    "baseline-en-de": (
        "A man wants to buy a washing machine.",
        "Two dogs are running through the snow.",
        "A little boy is sitting on a swing.",
    ),
}
CASES = [(model, text) for model, texts in SENTENCES.items() for text in texts]


def grouped(tokens: tuple[RecordToken, ...]) -> list[list[int]]:
    """Group tokens into words: a letter token that starts no word continues the one before."""
    words: list[list[int]] = []
    for i, token in enumerate(tokens):
        letters = token.text[:1].isalnum() and not token.special
        if words and letters and not token.starts_word and tokens[i - 1].text[:1].isalnum():
            words[-1].append(i)
        else:
            words.append([i])
    return words


def within(sizes: list[float], margin: float) -> set[frozenset[int]]:
    """Return the answers that count: each option within a margin of the largest."""
    return {frozenset({i}) for i, size in enumerate(sizes) if max(sizes) - size <= margin}


def attends(name: str, found: TranslationRecord, kind: str) -> tuple[Asked, set[frozenset[int]]]:
    """Ask about one head, in its clearest row that allows a question."""
    maps, layer, head = found.maps(kind), 1, 2
    tokens = found.target_in if kind == "decoder" else found.source
    question = next(
        asked
        for candidate in wording.other_rows(found, kind, layer, head)
        if (asked := or_none(candidate)) is not None
    )
    query = int(question.id.split(".")[-1])
    words = grouped(tokens[: query + 1] if kind == "decoder" else tokens)
    sizes = [float(sum(maps[layer, head, query, i] for i in word)) for word in words]
    texts = ["".join(tokens[i].text for i in word) for word in words]
    shown = [option.label.rstrip("₀₁₂₃₄₅₆₇₈₉") for option in question.options]
    assert shown == texts and max(sizes) >= 0.3
    return question, within(sizes, 0.05)


def or_none(candidate: wording.Candidate) -> Asked | None:
    try:
        return candidate()
    except wording.NotAskable:
        return None


def masked(name: str, found: TranslationRecord) -> tuple[Asked, set[frozenset[int]]]:
    size = min(6, len(found.target_in))
    right = frozenset(np.flatnonzero(np.triu(np.ones((size, size)), 1)).tolist())
    return wording.masked(found), {right}


def padded(name: str, found: TranslationRecord) -> tuple[Asked, set[frozenset[int]]]:
    """Pad the sentence's target to a longer one; ask about its last three rows."""
    own = [token.id for token in found.target_in]
    longer = [*own, *own[1:], *own[1:]]
    source = [token.id for token in found.source]
    with translator(name).exclusive_model() as network:
        batch = core.batch_masks(network, (source, source), (longer, own))
    names = [[token.text for token in found.target_in]] * 2
    n = len(own)
    rows, columns = range(n - 3, n), range(n - 3, n + 3)
    cells = [(row, column) for row in rows for column in columns]
    return wording.padded(batch, names), {
        frozenset(i for i, (row, column) in enumerate(cells) if column > row)
    }


def matters(name: str, found: TranslationRecord) -> tuple[Asked, set[frozenset[int]]]:
    """Ablate one cross-attention head at a time, and compare log-probabilities."""
    effects = core.head_effects(translator(name), found)
    question = next(
        asked
        for candidate in wording.important_heads(found, effects)
        if (asked := or_none(candidate)) is not None
    )
    first = int(question.id.split()[-1])
    word = next(word for word in grouped(found.target_out) if word[0] == first)
    assert f"“{''.join(found.target_out[i].text for i in word)}" in question.prompt
    ids = tuple(token.id for token in found.target_out)
    sizes = []
    for layer, head in np.ndindex(found.cross.shape[:2]):
        off = Edits(heads_off=frozenset({("cross", layer, head)}))
        without = translator(name).inspect(found.source_text, edits=off, target_ids=ids)
        sizes.append(abs(float((without.log_probs - found.log_probs)[word].sum())))
    assert max(sizes) >= 0.1
    return question, within(sizes, 0.05)


def order(name: str, found: TranslationRecord) -> tuple[Asked, set[frozenset[int]]]:
    off = PositionEdit(scale=0)
    edits = Edits(source_positions=off, target_positions=off)
    after = translator(name).inspect(found.source_text, edits=edits, beam=5)
    words = [
        "".join(c if c.isalnum() else " " for c in one.translation.casefold()).split()
        for one in (found, after)
    ]
    same, reordered = words[0] == words[1], Counter(words[0]) == Counter(words[1])
    right = 0 if same else 1 if reordered else 2
    return wording.order(found, after), {frozenset({right})}


def wins(name: str, found: TranslationRecord) -> tuple[Asked, set[frozenset[int]]]:
    tree = translator(name).search_tree(found.source_text, decode=DecodeConfig(beam=5))
    question = wording.wins(found, tree)
    scores: dict[str, float] = {}
    for hypothesis in found.hypotheses:  # from the record's search, not the tree's
        scores[hypothesis.text] = max(hypothesis.score, scores.get(hypothesis.text, -np.inf))
    assert sorted(scores) == sorted(option.label for option in question.options)
    return question, within([scores[option.label] for option in question.options], 0.01)


@cache
def cases(name: str, text: str) -> list[tuple[Asked, set[frozenset[int]]]]:
    """Return all questions that can be asked about the sentence, each with its right answers."""
    found = record(text, name)
    made: list[Any] = [attends(name, found, kind) for kind in ("encoder", "decoder", "cross")]
    for make in (masked, padded, matters, order, wins):
        try:
            made.append(make(name, found))
        except wording.NotAskable:
            assert make is wins
    return made


def wrong(asked: Asked, right: set[frozenset[int]], seed: random.Random) -> list[int]:
    """Return a wrong answer: another option, or a grid with one cell too many or too few."""
    count = len(asked.question.options)
    if asked.question.every:
        (cells,) = right
        return sorted(cells ^ {seed.randrange(count)})
    return [seed.choice([i for i in range(count) if frozenset({i}) not in right])]


@pytest.mark.parametrize("student", ["right", "wrong", "random"])
@pytest.mark.parametrize(("name", "text"), CASES)
def test_students_are_scored(page, name, text, student):
    seed = random.Random(f"{name} {text} {student}")
    kinds = set()
    for asked, right in cases(name, text):
        count, every = len(asked.question.options), asked.question.every
        assert frozenset() not in right and len(right) <= count / 2
        if student == "right":
            options = sorted(seed.choice(sorted(map(sorted, right))))
        elif student == "wrong":
            options = wrong(asked, right, seed)
        else:
            options = seed.sample(range(count), seed.randint(1, count)) if every else []
            options = sorted(options) or [seed.randrange(count)]
        data = asked_page.show(page, asked)
        told = asked_page.answer(page, options, every)
        expected = frozenset(options) in right
        assert student == "random" or expected == (student == "right")
        assert told == {
            "question": data["question"], "answer": options, "right": expected, "skipped": False,
        }  # fmt: skip
        shown = asked_page.revealed(page)
        assert shown["data"]["answered"] == ("right" if expected else "wrong")
        chosen = {i for i, o in enumerate(shown["options"]) if o["state"] in CHOSEN}
        assert chosen == set(options)
        if every:
            (cells,) = right
            assert {i for i, o in enumerate(shown["options"]) if o["masked"]} == cells
            same = count - len(cells ^ set(options))
            said = f"Cells that you marked, or left unmarked, correctly: {same} of {count}."
            assert ["said", said] in shown["lines"]
        kinds.add(data["name"])
    assert kinds >= {"attends", "masked", "matters", "order"}


CHOSEN = {"right", "near", "wrong"}


def test_every_kind_of_question_is_asked_about_some_sentence():
    kinds = {asked.question.name for name, text in CASES for asked, _ in cases(name, text)}
    assert kinds == {"attends", "masked", "matters", "order", "wins"}
