"""Questions about a sentence: planted answers, near-ties, and numbers without a clear answer."""

from types import SimpleNamespace

import numpy as np
import pytest

from core.analysis import questions
from core.analysis.head_effects import HeadEffects
from core.analysis.questions import Question, Unsettled
from core.record.record import RecordToken


def tokens(*pieces: str) -> tuple[RecordToken, ...]:
    """Build tokens: `_x` continues a word, `<x>` is special."""
    return tuple(
        RecordToken(5, p, p.lstrip("_"), not p.startswith("_"), p.startswith("<"), False)
        for p in pieces
    )


TINY = np.finfo(float).tiny
SOURCE = tokens("Fuß", "_ball", "im", "Park", "spielen", ".", "<eos>")
TARGET_IN = tokens("<bos>", "play", "foot", "_ball", "now")


def record(**rows: list[float]) -> SimpleNamespace:
    """Return a record whose maps are 0, but have these rows at layer 1, head 2, query 3."""
    shapes = {"encoder": (7, 7), "decoder": (5, 5), "cross": (5, 7)}
    maps = {kind: np.zeros((2, 3, *shape), np.float32) for kind, shape in shapes.items()}
    for kind, row in rows.items():
        maps[kind][1, 2, 3] = row
    masks = {kind: np.ones(shape, bool) for kind, shape in shapes.items()}
    masks["decoder"] = np.tri(5, dtype=bool)
    return SimpleNamespace(
        source=SOURCE,
        target_in=TARGET_IN,
        maps=maps.__getitem__,
        mask=masks.__getitem__,
    )


def asked(kind: str, row: list[float]) -> Question:
    return questions.attends(record(**{kind: row}), kind, 1, 2, 3)


WORDS = ((0, 1), (2,), (3,), (4,), (5,), (6,))
ATTENDS = {  # kind, weights, the words offered, the right ones, those within five points
    "the largest sum over a word's tokens": (
        "encoder", [0.25, 0.3, 0.02, 0.35, 0.03, 0.01, 0.04], WORDS, {0}, set()),
    "cross": ("cross", [0.25, 0.3, 0.02, 0.35, 0.03, 0.01, 0.04], WORDS, {0}, set()),
    "only what the decoder may attend to": (
        "decoder", [0.1, 0.5, 0.2, 0.2, 0.0], ((0,), (1,), (2, 3)), {1}, set()),
    "within five points": ("cross", [0.2, 0.2, 0.02, 0.36, 0.01, 0.01, 0.2], WORDS, {0}, {2}),
    "just above": ("cross", [0.2, 0.2, 0.02, 0.34, 0.01, 0.03, 0.2], WORDS, {0}, set()),
    "half of the words": ("cross", [0.0, 0.34, 0.33, 0.33, 0, 0, 0], WORDS, {0}, {1, 2}),
}  # fmt: skip


@pytest.mark.parametrize("case", ATTENDS.values(), ids=ATTENDS)
def test_the_word_with_the_largest_share_is_right(case):
    kind, row, options, correct, near = case
    found = asked(kind, row)
    assert found.name == "attends" and not found.every
    assert (found.options, found.correct, found.near) == (options, correct, near)
    assert found.evidence == pytest.approx([sum(row[i] for i in word) for word in options])


def effects(cross: list[float], tokens: int = 3) -> HeadEffects:
    """Return effects of 2 × 2 heads: `cross` on token 1, half of it on token 2, 9 on token 0."""
    changes = np.zeros((2, 2, tokens))
    changes[..., 0] = 9
    changes[..., 1] = np.reshape(cross, (2, 2))
    changes[..., 2] = changes[..., 1] / 2
    return HeadEffects(np.full(tokens, -1.0), {"cross": changes, "encoder": changes * 0 + 5})


def test_the_head_with_the_largest_effect_on_the_word_is_right():
    found = questions.matters(effects([0.1, -0.8, 0.5, 0.0]), "cross", (1, 2))
    assert found.options == (("cross", 0, 0), ("cross", 0, 1), ("cross", 1, 0), ("cross", 1, 1))
    assert found.evidence == pytest.approx((0.15, -1.2, 0.75, 0.0))
    assert (found.name, found.correct, found.near) == ("matters", {1}, frozenset())


def test_heads_within_a_twentieth_nat_count_as_well():
    """The sign does not matter: one head may help where the other hurts."""
    found = questions.matters(effects([0.0, -0.5, 0.46, 0.44]), "cross", (1,))
    assert (found.correct, found.near) == ({1}, {2})


def test_heads_that_have_not_been_ablated_cannot_be_asked_about():
    with pytest.raises(ValueError, match="not every cross head"):
        questions.matters(effects([0.0, -0.5, np.nan, 0.4]), "cross", (1,))


def test_the_copied_head_that_restores_most_is_right():
    """The sign matters: a head may lead away from the word."""
    found = questions.fetches(np.array([[0.02, -0.6, 0.3], [0.285, 0.1, 0.0]]))
    assert (found.correct, found.near) == ({2}, {3})
    assert found.options[2:4] == (("cross", 0, 2), ("cross", 1, 0))
    assert found.evidence[:3] == (0.02, -0.6, 0.3)


def test_masked_cells_are_all_to_be_marked():
    mask = np.tri(9, dtype=bool)
    mask[:, 2] = False  # padding
    maps = np.zeros((2, 2, 9, 9), np.float32)
    maps[1, 0, 4, 3] = 0.7
    maps[0, 1, 4, 3] = 0.4
    found = questions.masked(mask, range(3, 6), range(1, 5), maps)
    assert found.every and found.name == "masked"
    assert (
        found.options[:5] == ((3, 1), (3, 2), (3, 3), (3, 4), (4, 1)) and len(found.options) == 12
    )
    assert {found.options[i] for i in found.correct} == {(3, 2), (4, 2), (5, 2), (3, 4)}
    assert found.evidence == pytest.approx([0.7 if at == (4, 3) else 0 for at in found.options])
    plain = questions.masked(mask, range(3, 6), range(1, 5))
    assert plain.evidence == tuple(float(mask[at]) for at in plain.options)


def test_a_grid_of_too_many_cells_is_rejected():
    with pytest.raises(ValueError, match="the limit is 6 rows and 6 columns"):
        questions.masked(np.tri(9, dtype=bool), range(7), range(2))


BEFORE = tokens("The", "dog", "sees", "the", "Ca", "_ts", ".", "<eos>")


@pytest.mark.parametrize(
    ("after", "outcome", "kept", "common"),
    [
        (BEFORE, "same", 1, 1),
        (tokens("The", "Ca", "_ts", "sees", "the", "dog", ".", "<eos>"), "reordered", 0.6, 1),
        (tokens("Cats", "sees", "The", "dog", "the", "<eos>"), "reordered", 0, 1),
        (tokens("The", "dog", "sees", "the", "dog", ".", "<eos>"), "other", 0.8, 0.8),
        (tokens("The", "dog", "sees", "<eos>"), "other", 0.6, 0.6),
        (tokens("The", "dog", "sees", "the", "cats", "now", "<eos>"), "other", 5 / 6, 5 / 6),
        (tokens("The", "dog", "sees", "the", "the", "cats", "<eos>"), "other", 4 / 6, 5 / 6),
        (tokens("<eos>"), "other", 0, 0),
    ],
)
def test_translations_are_compared_word_by_word(after, outcome, kept, common):
    found = questions.order(BEFORE, after)
    assert [found.options[i] for i in found.correct] == [outcome] and not found.near
    assert found.evidence == pytest.approx((kept, common, 1 - common))


TEXTS = ["a b", "a c", "b", "a b", "d"]


def test_the_hypothesis_with_the_best_score_wins():
    found = questions.wins(TEXTS, [-1.5, -1.2, -1.8, -1.1, -1.9], "seed")
    assert sorted(found.options) == [1, 2, 3, 4]  # "a b" once, with its better score
    assert found.options[found.best] == 3
    scores = dict(zip(found.options, found.evidence, strict=True))
    assert scores == {1: -1.2, 2: -1.8, 3: -1.1, 4: -1.9}


def test_hypotheses_are_shuffled_by_the_seed_alone():
    scores = [-1.0, -1.2, -1.4, -1.6, -1.8, -2.0]
    texts = list("abcdef")
    orders = {seed: questions.wins(texts, scores, seed).options for seed in "uvwxyz"}
    assert len(set(orders.values())) > 3
    assert orders["u"] == questions.wins(texts, scores[::-1], "u").options
    assert len({options.index(0) for options in orders.values()}) > 1  # the best has no fixed place


def test_near_scores_count_as_well():
    found = questions.wins(list("abcd"), [-1.0, -1.009, -1.02, -3], "seed")
    assert [found.options[i] for i in found.near] == [1]


@pytest.mark.parametrize(
    "changes",
    [
        {"evidence": (1.0,)},
        {"correct": frozenset()},
        {"correct": frozenset({2})},
        {"near": frozenset({-1})},
        {"near": frozenset({0})},
        {"near": frozenset({1}), "every": True},
    ],
)
def test_a_question_refuses_answers_that_are_no_options(changes):
    valid = {"name": "n", "options": ("a", "b"), "correct": frozenset({0}), "evidence": (1.0, 0.5)}
    Question(**valid)
    with pytest.raises(ValueError):
        Question(**valid | changes)


@pytest.mark.parametrize(
    ("after", "right"), [([0.9, 0.6], "rise"), ([0.5, 0.504], "same"), ([0.1, 0.8], "fall")]
)
def test_leak_asks_whether_the_mean_probability_rises_or_falls(after, right):
    asked = questions.leak(np.array([0.4, 0.6]), np.array(after))
    assert [asked.options[i] for i in asked.correct] == [right]
    assert asked.evidence[0] - asked.evidence[2] == pytest.approx(sum(after) / 2 - 0.5)


@pytest.mark.parametrize("scores", [[-1.0, 3.0, 5.0, -np.inf], [4.5, -3.0, 3.0], [0.0, -14.0]])
def test_the_softmax_makes_a_ratio_of_a_difference(scores):
    asked = questions.weighs(np.array(scores))
    assert asked.options == ("plain", "square", "exponential", "power") and asked.best == 2
    first, second = sorted(np.exp(scores) / np.exp(scores).sum(), reverse=True)[:2]
    assert asked.evidence[asked.best] == pytest.approx(first / second)
    assert asked.evidence[0] == pytest.approx(np.sort(scores)[-1] - np.sort(scores)[-2])


def test_the_term_that_adds_most_is_right_whatever_the_largest_sizes_are():
    terms = np.array([0.1, -9.0, 4.0, 8.0, -2.0, 7.7, 0.3, -3.0])
    asked = questions.contributes(terms)
    assert asked.options == (1, 2, 3, 5, 7) and asked.evidence == (-9.0, 4.0, 8.0, 7.7, -3.0)
    assert (asked.correct, asked.near) == ({2}, {3})


UNSETTLED = [
    (lambda: questions.contributes(np.array([-1.0, -2.0])), f"small: largest -1, least {TINY:g}"),
    (lambda: questions.contributes(np.array([5.0])), "few: options 1"),
    (lambda: questions.weighs(np.array([2.0, 0.6, -np.inf])), "small: largest 1.4, least 1.5"),
    (lambda: questions.weighs(np.array([2.0, -np.inf])), "few: options 1"),
    (lambda: questions.weighs(np.array([0, 400.0])), "large: largest 400"),
    (lambda: asked("cross", [0.1, 0.19, 0.11, 0.2, 0.2, 0.1, 0]),
     "small: largest 0.29, least 0.3"),
    (lambda: asked("cross", [0, 0.31, 0.3, 0.3, 0.29, 0, 0]),
     "tied: near 4, options 6, margin 0.05"),
    (lambda: questions.attends(record(), "decoder", 0, 0, 0), "few: options 1"),
    (lambda: questions.matters(effects([0, -0.09, 0.02, 0.01]), "cross", (1,)),
     "small: largest 0.09, least 0.1"),
    (lambda: questions.fetches(np.array([[0.05, -0.5, 0.0]])), "small: largest 0.05, least 0.1"),
    (lambda: questions.fetches(np.full((2, 2), np.nan)), "small: largest nan, least 0.1"),
    (lambda: questions.masked(np.ones((2, 2), bool), range(2), range(2)), "few: options 0"),
    (lambda: questions.masked(np.zeros((2, 2), bool), range(2), range(2)), "few: options 4"),
    (lambda: questions.order(BEFORE, tokens("the", "dog", "sees", "the", "cats", "<eos>")),
     "alike"),
    (lambda: questions.order(*[tokens("Hello", "!", "<eos>")] * 2), "few: options 1"),
    (lambda: questions.wins(list("ab"), [-1.0, -1.009], "x"),
     "tied: near 2, options 2, margin 0.01"),
    (lambda: questions.wins(["a", "a"], [-1.0, -2.0], "seed"), "few: options 1"),
]  # fmt: skip


@pytest.mark.parametrize(("ask", "said"), UNSETTLED)
def test_numbers_that_settle_no_answer_are_not_asked_about(ask, said):
    with pytest.raises(Unsettled) as unsettled:
        ask()
    assert str(unsettled.value) == said and said.startswith(unsettled.value.reason)
    assert all(f"{name} {value:g}" in said for name, value in unsettled.value.numbers.items())
