"""The right answers to each kind of question, computed from records and with edited passes."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

import core
from app.components.question import Asked, payload
from app.stops import TOURS
from app.views.shared import asked as wording
from core.config import DecodeConfig
from core.record.edits import Edits, PositionEdit
from core.record.record import RecordToken, TranslationRecord
from tests.app.page_checks import record, translator

CASES = [
    (f"{model}-{direction}", TOURS[direction][number].source)
    for model, direction, numbers in (("scratch", "de-en", (0, 2)), ("baseline", "en-de", (0, 6)))
    for number in numbers
]


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


@pytest.mark.parametrize(("name", "text"), CASES)
def test_exactly_the_right_answers_count(name, text):
    for asked, right in cases(name, text):
        question = asked.question
        given = {frozenset({i}) for i in question.correct | question.near}
        assert ({question.correct} if question.every else given) == right
        assert payload(asked)["correct"] == sorted(question.correct)
        assert len(right) <= len(question.options) / 2


def test_every_kind_of_question_is_asked_about_some_sentence():
    kinds = {asked.question.name for name, text in CASES for asked, _ in cases(name, text)}
    assert kinds == {"attends", "masked", "matters", "order", "wins"}
