"""Pieces: SentencePiece's segmentation and character map, also from damaged files."""

import base64
import gzip
import io
import itertools
import random
from collections.abc import Mapping

import pytest

from core.text import load
from core.text.charsmap import MAX_BYTES, CharacterMap
from core.text.pieces import PieceTokenizer, merges_of
from core.text.tokenizer import BOS, EOS, UNK, Frame, encode_source, normalise

# Two readings of "abc": the sum of the scores decides, not the length of the pieces.
VOCABULARY = ["▁", "▁ab", "c", "▁a", "bc", "x", "▁Hund", "e", "&amp;", "<", "▁</s>", ">>fr<<"]
SCORES = [-4.0, -2.0, -6.0, -3.0, -4.0, None, -2.0, -3.0, -1.0, -2.0, None, None]


def charsmap(table: Mapping[str, str]) -> bytes:
    """Build a character map as SentencePiece stores it: a double array without shared branches."""
    trie: dict[int, dict] = {}
    texts = b""
    for key, replacement in table.items():
        node = trie
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[0] = {"at": len(texts)}  # sorts before all bytes
        texts += replacement.encode() + b"\0"
    units = {0: 0}

    def place(at: int, node: dict) -> None:
        base = next(b for b in itertools.count(1) if not any(b ^ byte in units for byte in node))
        units[at] |= (at ^ base) << 10 | (0 in node) << 8
        for byte, child in node.items():
            units[base ^ byte] = 1 << 31 | child["at"] if byte == 0 else byte
        for byte, child in node.items():
            if byte:
                place(base ^ byte, child)

    place(0, trie)
    array = b"".join(units.get(i, 0).to_bytes(4, "little") for i in range(max(units) + 1))
    return len(array).to_bytes(4, "little") + array + texts


MAPPED = {
    "½": "1/2",
    "a\u0301": "á",
    "a": "a",
    "ﷺ": "صلى الله",
    "、": ", ",
    "\u200d": "",
    "２": "2",
}


def tokenizer(**changes) -> PieceTokenizer:
    return PieceTokenizer(**{"vocabulary": VOCABULARY, "scores": SCORES, **changes})


def pieces(text: str, **changes) -> list[str]:
    return [token.piece for token in tokenizer(**changes).encode(text)]


def test_the_most_probable_segmentation_is_taken():
    assert pieces("abc") == ["▁a", "bc"]  # −7, where ▁ab + c has −8
    scores = [
        -2.0 if piece == "c" else score for piece, score in zip(VOCABULARY, SCORES, strict=True)
    ]
    assert pieces("abc", scores=scores) == ["▁ab", "c"]


def test_a_piece_of_the_other_side_is_looked_up_by_its_text_only():
    """As in Marian: this side's model does not know x, but the shared vocabulary has it."""
    (first, x) = tokenizer().encode("x")
    assert (first.piece, x.piece, x.id, x.unknown) == ("▁", "x", VOCABULARY.index("x") + 4, False)
    assert pieces("xx") == ["▁", "<unk>"]


@pytest.mark.parametrize("bpe", [False, True])
def test_unknown_text_is_never_a_special_token(bpe):
    """Although such a stretch is looked up by its text."""
    frame = Frame(controls=frozenset([6]), languages={"qq": 7})
    one = PieceTokenizer(
        ["▁", "a", "xyz", "qq", "zz"], [-1.0, -2.0, *[None] * 3], bpe=bpe, frame=frame
    )
    assert [token.id for token in one.encode("xyz aqq zz")] == [4, UNK, 4, 5, UNK, 4, 8]


def test_merges_are_in_the_order_of_their_pieces_then_of_their_parts():
    """As transformers orders them, so that both join runs of a letter in the same way."""
    scores = {"aa": -1.0, "a": -4.0, "b": -5.0, "aaa": -3.0, "ab": -2.0}
    assert merges_of(scores) == [("a", "a"), ("a", "b"), ("aa", "a"), ("a", "aa")]


def test_an_unlisted_piece_is_read_as_unknown():
    assert pieces("abc", unlisted={"▁abc": -1.0}) == ["<unk>"]
    (token,) = tokenizer(unlisted={"▁abc": -1.0}).encode("abc")
    assert (token.id, token.text, token.starts_word, token.unknown) == (UNK, "abc", True, True)


def test_unknown_text_keeps_its_surface_form():
    map_ = charsmap({"①": "1", "Ａ": "A"})
    tokens = tokenizer(charsmap=map_).encode("Hund ①Ａ東e 京")
    assert [(t.text, t.unknown) for t in tokens] == [
        *(("Hund", False), ("", False), ("①Ａ東", True)),
        *(("e", False), ("", False), ("京", True)),
    ]
    assert [t.starts_word for t in tokens] == [True, True, False, False, True, False]


def test_spaces_are_joined_and_outer_ones_dropped():
    spaced = charsmap({"_": " ", "~": ""})
    assert pieces("__Hund_ ~_ Hund ~_", charsmap=spaced) == ["▁Hund", "▁Hund"]
    assert tokenizer(charsmap=spaced).encode(" ~_ ") == ()
    assert pieces("Hund ▁", charsmap=b"") == ["▁Hund"]


def test_ids_become_text():
    one = tokenizer()
    assert one.decode([BOS, 10, 5, 7, UNK, EOS]) == "Hund ab a⁇"
    assert one.decode([12]) == "&"
    assert one.size == 4 + len(VOCABULARY)
    assert (one.token(10).text, one.token(10).starts_word) == ("Hund", True)
    for id in (-1, 16):
        with pytest.raises(ValueError, match=f"16 tokens has no id {id}"):
            one.token(id)


def test_a_tokenizer_survives_json():
    one = tokenizer(charsmap=charsmap(MAPPED), unlisted={"zz": -3.0}, frame=Frame(first=(BOS, 15)))
    again = load(one.to_json())
    assert again.to_json() == one.to_json()
    text = "abc ½ Hund 東 zz"
    assert encode_source(again, text) == encode_source(one, text)
    assert [(t.piece, t.special) for t in encode_source(again, "abc")] == [
        *(("<bos>", True), (">>fr<<", True), ("▁a", False), ("bc", False)),
    ]


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("x½y", "x1/2y"),
        ("aa\u0301a", "aáa"),  # the longest match
        ("ﷺ２", "صلى الله2"),
        ("東、京\u200d", "東, 京"),
        ("", ""),
    ],
)
def test_the_longest_match_is_replaced(text, normal):
    found = CharacterMap(charsmap(MAPPED))(text)
    assert "".join(character.text for character in found) == normal
    for character in found:  # each has its place in the text
        part = text[character.start : character.end]
        assert character.text in MAPPED.get(part, part)


def test_a_damaged_character_map_is_rejected_or_harmless():
    """Each of 3,000 changed or random maps is rejected in one line or maps every text."""
    chance, right, rejected = random.Random(0), charsmap(MAPPED), 0
    for n in range(3_000):
        wrong = bytearray(right if n % 3 else chance.randbytes(chance.randint(1, 400)))
        for _ in range(chance.randint(1, 8)):
            wrong[chance.randrange(len(wrong))] = chance.randrange(256)
        if n % 3 == 0:  # a plausible length, without which all are rejected at once
            wrong[:4] = (len(wrong) // 8 * 4).to_bytes(4, "little")
            wrong[-1] = 0
        try:
            character_map = CharacterMap(bytes(wrong))
        except ValueError as error:
            rejected += 1
            assert "\n" not in str(error)
            continue
        for text in (*MAPPED, "aa\u0301½ﷺ、" * 20):
            found = character_map(text)
            assert len(found) <= 100 * len(text)
    assert 300 < rejected < 2_900  # both happen


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\0" * (MAX_BYTES + 1), "the limit is 524,288"),
        (b"abc", "does not have the size that it states"),
        ((8).to_bytes(4, "little") + bytes(8), "does not have the size"),
        ((8).to_bytes(4, "little") + bytes(8) + b"x", "more than 100 bytes"),
        ((8).to_bytes(4, "little") + bytes(8) + b"x" * 101 + b"\0", "more than 100 bytes"),
        ((8).to_bytes(4, "little") + bytes(8) + b"\xff\0", "not UTF-8"),
        ((8).to_bytes(4, "little") + bytes(8) + b"x\0", "outside of its texts"),
        ((8).to_bytes(4, "little") + b"\2\0\0\x80" * 2 + b"x\0", "outside of its texts"),
        ((8).to_bytes(4, "little") + b"\1\0\0\x80" * 2 + "é".encode() + b"\0", "the middle"),
    ],
)
def test_the_error_for_a_bad_character_map_says_what_is_wrong(content, says):
    with pytest.raises(ValueError, match=says):
        CharacterMap(content)
    values = tokenizer().to_json() | {"charsmap": base64.b64encode(content).decode()}
    with pytest.raises(ValueError, match="character map"):
        load(values)


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nmt_nfkc_cf", "identity"])
def test_sentencepiece_reads_the_same_pieces(rule):
    """Compare 1,000 texts, of words and of characters that the rules change, with the library."""
    sentencepiece = pytest.importorskip("sentencepiece")
    proto = pytest.importorskip("sentencepiece.sentencepiece_model_pb2")
    chance = random.Random(5)
    syllables = [a + b for a in "bdfghklmnprstw" for b in ("a", "e", "i", "o", "u", "ä", "au")]
    vocabulary = ["".join(chance.choices(syllables, k=chance.randint(1, 4))) for _ in range(300)]
    lines = [" ".join(chance.choices(vocabulary, k=9)) + "." for _ in range(1_500)]
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=written,
        vocab_size=250,
        normalization_rule_name=rule,
        minloglevel=2,
    )
    theirs = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    model = proto.ModelProto()
    model.ParseFromString(written.getvalue())
    normal = [piece for piece in model.pieces if piece.type == 1]
    ours = PieceTokenizer(
        [piece.piece for piece in normal],
        [piece.score for piece in normal],
        model.normalizer_spec.precompiled_charsmap,
    )
    ids = {piece.piece: id for id, piece in enumerate(normal, start=4)}
    odd = "aäbeÄ ½ﬁ①Å㎏ﷺé\u0301\u0308 \u3000☃東京👩🏽</s><unk>▁ｱﾞ한ᄒ"
    texts = ["".join(chance.choices(odd, k=chance.randint(1, 30))) for _ in range(500)]
    for text in (*lines[:500], *texts):
        wanted = [ids.get(p, UNK) for p in theirs.encode(normalise(text), out_type=str)]
        assert [token.id for token in ours.encode(text)] == wanted, text


def test_a_long_text_with_many_unknown_characters_is_encoded():
    text = gzip.compress(bytes(2_000)).hex() + "東京" * 20_000
    assert len(tokenizer().encode(text)) < len(text)
