"""Tokenizers: round trips, normalisation, and typed special tokens as plain text."""

import json
import unicodedata

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from core.text import load
from core.text.pieces import PieceTokenizer
from core.text.subwords import SubwordTokenizer
from core.text.tokenizer import (
    BOS,
    EOS,
    PAD,
    SPECIALS,
    UNK,
    encode_source,
    normalise,
    typography,
    unescaped,
)
from core.text.words import WordTokenizer
from tests.small import SENTENCES

GERMAN = [s for s, _ in SENTENCES]
ENGLISH = [t for _, t in SENTENCES]


@pytest.fixture(scope="module")
def subwords():
    return SubwordTokenizer.train(GERMAN + ENGLISH, 150, min_character_count=1)


@pytest.fixture(scope="module")
def words():
    return WordTokenizer.train(GERMAN, "de", min_count=1)


@pytest.fixture(scope="module")
def pieces():
    learner = tokenizers.Tokenizer(models.Unigram())
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=120, show_progress=False)
    learner.train_from_iterator(GERMAN + ENGLISH, trainer)
    vocabulary, scores = zip(*json.loads(learner.to_str())["model"]["vocab"], strict=True)
    return PieceTokenizer(vocabulary, scores)


@pytest.fixture(params=["subwords", "words", "pieces"])
def tokenizer(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("text", GERMAN)
def test_decoding_the_ids_of_a_text_gives_the_text(tokenizer, text):
    assert tokenizer.decode([token.id for token in tokenizer.encode(text)]) == text


@pytest.mark.parametrize("first", [[], [BOS], [7, BOS]])
def test_ids_in_front_of_a_source_are_special_and_saved(tokenizer, first):
    values = tokenizer.to_json()
    assert "first" not in values
    tokenizer = load(values | {"first": first})
    assert tokenizer.to_json().get("first", []) == first
    text = GERMAN[0]
    plain = tokenizer.encode(text)
    tokens = encode_source(tokenizer, text)
    assert [t.id for t in tokens] == [*first, *(t.id for t in plain)]
    assert tokens[len(first) :] == plain
    for token in tokens[: len(first)]:
        assert token.special and token.starts_word and not token.unknown
        assert (token.piece, token.text) == tuple(
            getattr(tokenizer.token(token.id), name) for name in ("piece", "text")
        )
    for empty in ("", " \n\t "):
        assert encode_source(tokenizer, empty) == ()


@pytest.mark.parametrize("first", [[0], [2], [3], [-1], [10**6]])
def test_ids_that_cannot_be_in_front_are_rejected(tokenizer, first):
    with pytest.raises(ValueError, match="in front of a source"):
        load(tokenizer.to_json() | {"first": first})


def test_special_tokens_have_the_first_ids(tokenizer):
    assert SPECIALS == ("<pad>", "<bos>", "<eos>", "<unk>")
    assert [tokenizer.token(id).piece for id in range(4)] == list(SPECIALS)
    assert all(tokenizer.token(id).special for id in range(4))
    assert not tokenizer.token(4).special


@pytest.mark.parametrize("typed", ["<pad>", "<bos>", "Hund <eos> Hund", "<unk>", "<s></s>"])
def test_typed_special_tokens_are_text(tokenizer, typed):
    assert not {PAD, BOS, EOS} & {token.id for token in tokenizer.encode(typed)}
    assert not any(token.special for token in tokenizer.encode(typed))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Dog &amp; cat", "Dog & cat"),
        ("&lt;b&gt; &quot;x&quot; &#39;y&apos;", "<b> \"x\" 'y'"),
        ("A&amp.", "A&."),
        ("AT&T, R&D, &ampere, a & b; &copy", "AT&T, R&D, &ampere, a & b; &copy"),
    ],
)
def test_escapes_are_resolved(written, read):
    assert unescaped(written) == read


def test_decoding_resolves_escapes():
    learned = SubwordTokenizer.train(["Hund &amp; Katze &amp; Maus"] * 9, 90)
    ids = [token.id for token in learned.encode("Hund &amp; Katze")]
    assert learned.decode(ids) == "Hund & Katze"
    assert "amp" in "".join(learned.token(id).piece for id in ids)  # the tokens keep the escape


def test_unknown_tokens_keep_their_surface_form(tokenizer):
    found = [t for t in tokenizer.encode("Ein 東京 Hund") if t.unknown]
    assert [(t.id, t.piece, t.text) for t in found] == [(UNK, "<unk>", "東京")]


def test_json_round_trip(tokenizer):
    again = load(json.loads(json.dumps(tokenizer.to_json())))
    assert again.size == tokenizer.size
    for text in [*GERMAN, "Unbekanntes 漢字!"]:
        assert again.encode(text) == tokenizer.encode(text)
    assert [again.token(i) for i in range(again.size)] == [
        tokenizer.token(i) for i in range(tokenizer.size)
    ]


def test_composed_and_decomposed_letters_give_the_same_tokens(tokenizer):
    text = "Männer über Fußball"
    assert tokenizer.encode(unicodedata.normalize("NFD", text)) == tokenizer.encode(text)


def test_lone_surrogates_are_replaced(tokenizer):
    assert tokenizer.encode("Hund \ud83d läuft \udfff") == tokenizer.encode("Hund � läuft �")
    assert normalise("a\ud800") == "a�" and normalise("😀") == "😀"


@pytest.mark.parametrize("kind", ["subwords", "pieces"])
def test_token_texts_join_to_the_normalised_text(kind, request):
    tokenizer = request.getfixturevalue(kind)
    text = "Zwei   Männer,\u00a0(und) ein “Hund”."
    shown = "".join(
        (" " if token.starts_word else "") + token.text for token in tokenizer.encode(text)
    )
    assert shown.strip() == normalise(text)


def test_rare_characters_are_unknown_in_training():
    tokenizer = SubwordTokenizer.train(["aaa bbb aaa bbb aaa bbb x"], 60, min_character_count=2)
    assert any(token.unknown for token in tokenizer.encode("x"))
    assert not any(token.unknown for token in tokenizer.encode("ab"))


def test_words_follow_spacy_and_rare_ones_are_unknown():
    tokenizer = WordTokenizer.train(["Der Hund, der bellt.", "Der Hund schläft."], "de", 2)
    assert [t.piece for t in tokenizer.encode("Der Hund bellt.")] == ["Der", "Hund", "<unk>", "."]
    lower = WordTokenizer.train(["Der Hund, der bellt."], "de", 2, lower=True)
    assert [t.piece for t in lower.encode("DER Hund")] == ["der", "<unk>"]
    assert [t.text for t in lower.encode("DER Hund")] == ["der", "Hund"]


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        ("oran\u00adge\u200bfarben", "orangefarben"),
        ("\ufeffEin\u2060 Hund\u200e\u200f\u200c", "Ein Hund"),
        ("orange\u2011farben\u2010er \u22125", "orange-farben-er -5"),
        ("Der Hund \ufb02iegt, o\ufb03ziell, \ufb01x", "Der Hund fliegt, offiziell, fix"),
        ("FU\u1e9eBALL", "FU\u00dfBALL"),
        ("👩\u200d🚀 – “x” … ½", "👩\u200d🚀 – “x” … ½"),
    ],
)
def test_typography_is_simplified(typed, plain):
    assert normalise(typed) == plain
    changed = [c for c in dict.fromkeys(typed) if c not in plain]
    assert list(typography(typed)) == changed
