"""Roles of heads: target cells and queries that count, on a sentence written out by hand."""

from __future__ import annotations

import dataclasses
import pickle
from collections import Counter

import numpy as np
import pytest
from spacy.util import get_lang_class
from spacy.vocab import create_vocab

from core.analysis.alignment import Gold
from core.atlas.corpus import Corpus, Sentence
from core.atlas.roles import GOLD_ROLES, ROLES, Facts, Maps, diagonal, reordered
from core.kinds import KINDS
from core.text.function_words import function_words
from core.text.tokenizer import EOS, UNK, Token, special

IDS: dict[str, int] = {}


def token(piece: str) -> Token:
    """Return a token; "_" marks the start of a word, and "?" an unknown token."""
    starts_word, text = piece.startswith("_"), piece.strip("_?")
    if piece.endswith("?"):
        return Token(UNK, "<unk>", text, starts_word, unknown=True)
    return Token(IDS.setdefault(piece, 4 + len(IDS)), piece, text, starts_word)


def side(text: str) -> tuple[Token, ...]:
    return (*map(token, text.split()), special(EOS))


#         0     1    2   3    4     5    6    7
SOURCE = "_der _Hu nd , _der _Tom _xy? _zw?"  # then <eos> at 8
#         0  1    2    3    4    5    6
TARGET = "_the _do g _Tom , _the ."  # then <eos> at 7
# Fed: 0 <bos>, 1 the, 2 do, 3 g, 4 Tom, 5 ",", 6 the, 7 "."; row t produces TARGET[t].
GOLD = Gold.of([(0, 0, True), (1, 1, True), (3, 2, True), (4, 2, False)])
WORDS = (0, 1, 1, 1, 2, 3, 4, 5), (0, 1, 1, 2, 2, 3, 3)  # the given word of each token
SENTENCE = Sentence(
    0, side(SOURCE), side(TARGET), "der Hund, der Tom xy zw", "the dog Tom, the.", GOLD, WORDS
)
SOURCE_COUNTS = {"_der": 50, "_Hu": 7, "nd": 9, ",": 60, "_Tom": 3}
TARGET_COUNTS = {"_the": 90, "_do": 5, "g": 5, "_Tom": 4, ",": 30, ".": 99}


def counts(by_piece: dict[str, int], unknown: int) -> dict[int, int]:
    return {token(piece).id: n for piece, n in by_piece.items()} | {UNK: unknown}


FACTS = Facts(
    counts(SOURCE_COUNTS, 3), counts(TARGET_COUNTS, 1), frozenset({"der"}), frozenset({"the"})
)

ALL = range(9)
EXPECTED = {
    "encoder": {
        "previous token": {q: {q - 1} for q in range(1, 9)},
        "next token": {q: {q + 1} for q in range(8)},
        "itself": {q: {q} for q in ALL},
        "sentence start": {q: {0} for q in range(1, 9)},
        "<eos>": {q: {8} for q in range(8)},
        "punctuation": {q: {3} for q in ALL if q != 3},
        "same word": {1: {2}, 2: {1}},
        "earlier copy": {4: {0}},  # unknown tokens with different texts are no copies
        "rarest token": {q: {5, 6, 7} - {q} for q in ALL},  # tied at 3
        "function words": {q: {0, 4} - {q} for q in ALL},
    },
    "decoder": {
        "previous token": {q: {q - 1} for q in range(1, 8)},
        "itself": {q: {q} for q in range(1, 8)},
        "sentence start": {q: {0} for q in range(1, 8)},
        "punctuation": {6: {5}, 7: {5}},
        "same word": {3: {2}},
        "earlier copy": {6: {1}},
        # Counts: the 90, do 5, g 5 (a tie), Tom 4. Tom is hidden from 3 and is 4's own token.
        "rarest token": {3: {2}, 5: {4}, 6: {4}, 7: {4}},
        "function words": {2: {1}, 3: {1}, 4: {1}, 5: {1}, 6: {1}, 7: {1, 6}},
    },
    "cross": {
        "sentence start": {q: {0} for q in range(8)},
        "<eos>": {q: {8} for q in range(8)},
        "punctuation": {q: {3} for q in range(8)},
        "rarest token": {q: {5, 6, 7} for q in range(8)},
        "function words": {q: {0, 4} for q in range(8)},
        # 8/7 · q = 0, 1.1, 2.3, 3.4, 4.6, 5.7, 6.9, 8
        "diagonal": {
            q: {k - 1, k, k + 1} & set(ALL) for q, k in enumerate((0, 1, 2, 3, 5, 6, 7, 8))
        },
        "copy of fed token": {4: {5}},
        "copy of produced token": {3: {5}},
        # Source words: 0 "der", 1 "Hund," (Hu, nd, comma), 2 "der", 3 "Tom", 4 "xy", 5 "zw".
        # Target words: 0 "the", 1 "dog" (do, g), 2 "Tom," (Tom, comma), 3 "the.".
        "aligned to fed token": {1: {0}, 2: {1, 2, 3}, 3: {1, 2, 3}, 4: {5}, 5: {5}},
        "aligned to produced token": {0: {0}, 1: {1, 2, 3}, 2: {1, 2, 3}, 3: {5}, 4: {5}},
    },
}


@pytest.mark.parametrize(
    ("kind", "role"),
    [pytest.param(kind, role, id=f"{role.name}-{kind}") for role in ROLES for kind in role.kinds],
)
def test_each_role_has_the_expected_targets_and_counting_queries(kind, role):
    cells, counting = role.cells(Maps(kind, SENTENCE, FACTS))
    found = {int(q): set(np.flatnonzero(cells[q]).tolist()) for q in np.flatnonzero(counting)}
    assert found == EXPECTED[kind][role.name]


def test_a_word_is_no_copy_of_an_equal_part_of_a_word():
    sentence = dataclasses.replace(SENTENCE, target=side("_nd nd _Tom"))
    role = next(role for role in ROLES if role.name == "copy of produced token")
    cells, counting = role.cells(Maps("cross", sentence, FACTS))
    assert [np.flatnonzero(row).tolist() for row in cells] == [[], [2], [5], []]
    assert counting.tolist() == [False, True, True, False]


def test_every_role_has_expected_targets_and_can_be_sent():
    for kind in KINDS:
        assert set(EXPECTED[kind]) == {role.name for role in ROLES if kind in role.kinds}
    assert [role.name for role in GOLD_ROLES] == [role.name for role in ROLES[-2:]]
    at_a_distance = {"previous token", "next token", "itself", "diagonal"}
    assert {role.name for role in ROLES if role.positional} == at_a_distance
    assert pickle.loads(pickle.dumps(ROLES)) == ROLES  # roles travel to other processes


def test_a_query_whose_visible_keys_are_all_targets_does_not_count():
    """Query 0 of the decoder sees <bos> alone: attending to the sentence start is no choice."""
    sentence = Sentence(0, side(", ,"), side("_a"), ", ,", "a")
    punctuation = next(role for role in ROLES if role.name == "punctuation")
    assert punctuation.cells(Maps("cross", sentence, FACTS))[1].all()  # <eos> is no punctuation
    start = next(role for role in ROLES if role.name == "sentence start")
    assert start.cells(Maps("decoder", sentence, FACTS))[1].tolist() == [False, True]


@pytest.mark.parametrize(
    ("queries", "keys", "expected"),
    [(4, 4, [0, 1, 2, 3]), (3, 5, [0, 2, 4]), (5, 3, [0, 0, 1, 2, 2]), (2, 9, [0, 8]), (1, 3, [0])],
)
def test_the_diagonal_joins_both_ends(queries, keys, expected):
    assert diagonal(queries, keys).tolist() == expected


def test_reordering_keeps_the_tokens_and_eos_and_is_repeatable():
    orders = set()
    for index in range(20):
        sentence = dataclasses.replace(SENTENCE, index=index)
        found = reordered(sentence)
        assert sorted(map(repr, found.source)) == sorted(map(repr, SENTENCE.source))
        assert found.source[-1] == special(EOS) and found.gold is None
        assert (found.target, found.index) == (SENTENCE.target, index)
        assert reordered(sentence) == found
        orders.add(found.source)
    assert len(orders) > 15
    assert [role.name for role in ROLES if role.reordered] == ["diagonal"]


def corpus_of(*sentences: Sentence, languages: tuple[str, str] = ("de", "en")) -> Corpus:
    sides = ("source", "target")
    totals = (Counter(t.id for s in sentences for t in getattr(s, side)) for side in sides)
    return Corpus(sentences, (), *languages, "", "", *totals)


def test_facts_hold_function_words_and_token_counts():
    text = Sentence(
        0, side("_Der _Hu nd _und"), side("_The _do g _an d"), "Der Hund und", "The dog and"
    )
    facts = Facts.of(corpus_of(text))
    role = next(role for role in ROLES if role.name == "function words")
    keys = [role.targets(Maps(kind, text, facts))[0].tolist() for kind in ("encoder", "decoder")]
    assert keys[0] == [True, False, False, True, False]  # "Der", "und", not "Hund"
    assert keys[1] == [False, True, False, False, True, True]  # "The", "and" from two tokens
    assert facts.notes == ()
    assert facts.source_counts[token("_Hu").id] == 1


@pytest.mark.parametrize(
    ("language", "reason"),
    [("qq", "does not know the language 'qq'"), ("xx", "has no list of stop words for 'xx'")],
)
def test_a_language_without_function_words_is_noted(language, reason):
    facts = Facts.of(corpus_of(SENTENCE, languages=(language, "en")))
    assert facts.source_function_words is None and facts.target_function_words is not None
    assert facts.notes == (f"spaCy {reason}: function words are not measured",)
    role = next(role for role in ROLES if role.name == "function words")
    for kind, measured in (("encoder", False), ("cross", False), ("decoder", True)):
        assert role.cells(Maps(kind, SENTENCE, facts))[1].any() == measured


@pytest.mark.parametrize(
    ("link", "reason"), [((6, 0, False), "word 6 to word 0"), ((0, 4, True), "word 0 to word 4")]
)
def test_an_alignment_that_does_not_fit_is_left_out_with_a_line(link, reason):
    wrong = dataclasses.replace(SENTENCE, index=6, gold=Gold.of([link]))
    (note,) = Facts.of(corpus_of(SENTENCE, wrong)).notes
    assert note.startswith("the alignment of line 7 is not used: ") and "\n" not in note
    assert note.endswith(f"{reason} (counted from 0), but the sides have 6 and 4 words")
    for role in GOLD_ROLES:
        assert not role.cells(Maps("cross", wrong, FACTS))[1].any()
        assert role.cells(Maps("cross", SENTENCE, FACTS))[1].any()


def test_function_words_are_those_of_the_language():
    """They are the words that spaCy's `is_stop` flags, whose lower case is in the list."""
    words = {"the", "between", "hund", "dog", "der", "und"}
    assert function_words("en") & words == {"the", "between"}
    assert function_words("de") & words == {"der", "und"}
    for language in ("en", "de", "fr"):
        vocabulary = create_vocab(language, get_lang_class(language).Defaults)
        some = [form for word in function_words(language) for form in (word, word.upper())]
        some += ["Hund", "Der", "Zwischen", "dog", "Tom", "İ", "front", "'S"]
        flagged = {word for word in some if vocabulary[word].is_stop}
        assert flagged == {word for word in some if word.lower() in function_words(language)}
    # spaCy's Japanese tokenizer needs a package that is not installed; the word list needs none.
    assert function_words("ja") & {"する", "犬"} == {"する"}
