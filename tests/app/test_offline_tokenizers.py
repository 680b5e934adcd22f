"""The offline page's tokenizers give Python's tokens and texts, in many scripts."""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from app.components.assets import joined
from app.export.weights import tokenizer_of_page
from core.text import load
from core.text.line import encode_target_line, tokens_and_words
from core.text.tokenizer import SPECIALS, encode_source
from core.text.vocabulary import BYTES
from tests.app.texts import SURROGATES, TEXTS
from tests.given_lines import GIVEN
from tests.tokenizer_folders import JOINT, LINES, SCRIPTS, read, write

ROOT = Path(__file__).parents[2]
NETWORK = ROOT / "app/components/network"
SHIPPED = json.loads((ROOT / "checkpoints/scratch-de-en/tokenizer.json").read_text("utf-8"))
SCRIPT = joined(*(NETWORK / f"{name}.js" for name in ("tokenizers", "line")))
BLOCKS = {
    "latin": (0x20, 0x24F),
    "latin additional": (0x1E00, 0x1EFF),
    "greek": (0x370, 0x3FF),
    "cyrillic": (0x400, 0x4FF),
    "hebrew and arabic": (0x590, 0x6FF),
    "devanagari": (0x900, 0x97F),
    "thai": (0xE00, 0xE7F),
    "hangul": (0x1100, 0x11FF),
    "punctuation": (0x2000, 0x206F),
    "symbols": (0x2190, 0x22FF),
    "chinese": (0x4E00, 0x4FFF),
    "kana": (0x3000, 0x30FF),
    "ligatures": (0xFB00, 0xFB1F),
    "full width": (0xFF00, 0xFF5F),
    "emoji": (0x1F300, 0x1F64F),
    "combining": (0x300, 0x36F),
    "control": (0x00, 0x1F),
    "more control": (0x7F, 0x9F),
    "fraktur": (0x1D504, 0x1D537),
    "boundary": (0x257E, 0x2583),
}
WORDS = (
    "Ein Mann geht mit Größe Straße 2026 12,50 € &amp; &#39 <eos> <unk> ▁ ▁▁ ▁Haus a▁b o\u0308 ẞ ﬁn"
).split()


def texts(count: int) -> list[str]:
    """Mix words and special tokens with characters of many scripts, in the same way each time."""
    chance = random.Random(4)
    found = ["", " ", "x" * 600, "ä" * 300, "1" * 50, "Donaudampfschifffahrt" * 12]
    while len(found) < count:
        parts = []
        for _ in range(chance.randint(1, 9)):
            if chance.random() < 0.5:
                parts.append(chance.choice(WORDS))
            else:
                low, high = chance.choice(list(BLOCKS.values()))
                drawn = (chr(chance.randint(low, high)) for _ in range(chance.randint(1, 5)))
                parts.append("".join(drawn))
        found.append(chance.choice([" ", "  ", "", "\t", "\u00a0"]).join(parts))
    return found


TYPED = ("</s> <s> <pad>", "en_XX Hund", "<extra_id_0>", "__de__ x", "deu_Latn", "<mask>a<mask>")
HOSTILE = (*TYPED, *TEXTS, "…" * 50, "aaaa" * 40, "\U0010ffff", "a\U0010ffff\U0010ffff☃b", "½ﬁ①㎏ﷺ")
MANY = [*LINES[:12], *SCRIPTS, *HOSTILE, *texts(220)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> dict[str, dict[str, Any]]:
    """Each family's tokenizer in its JSON form."""
    place = tmp_path_factory.mktemp("tokenizers")
    return {name: read(write(place / name, name), name).tokenizer.to_json() for name in JOINT}


def ask(page: Page, values: dict[str, Any], what: str, **given: Any) -> Any:
    """Return a JavaScript expression's value, passed as JSON: Playwright's encoding is slow."""
    work = f"""(json) => {{
        {SCRIPT}
        const {{ stored, {", ".join(given)} }} = JSON.parse(json);
        const tokenizer = tokenizersOf({{ tokenizer: stored }}).target;
        const fields = (t) => [t.id, t.piece, t.text, t.starts_word, t.special, t.unknown];
        return JSON.stringify({what});
    }}"""
    passed = {"stored": tokenizer_of_page(values), **given}
    return json.loads(page.evaluate(work, json.dumps(passed)))


def same(page: Page, values: dict[str, Any], lines: Sequence[str]) -> None:
    """Compare the tokens of each line and their places; unequal ones are named."""
    work = "lines.map((l) => tokenizer.placed(l).map((one) => [...fields(one.token), one.start]))"
    tokenizer = load(values)
    for line, found in zip(lines, ask(page, values, work, lines=lines), strict=True):
        assert found == [[*astuple(t), at] for t, at in tokenizer.placed(line)], ascii(line)


@pytest.mark.parametrize("family", JOINT)
def test_texts_in_many_scripts_have_pythons_tokens(computing_page, stored, family):
    assert len(MANY) > 200
    same(computing_page, stored[family], [*MANY, *SURROGATES])


def same_decoding(page: Page, values: dict[str, Any]) -> None:
    """Compare texts of random ids, each token, and what is added in front of a text."""
    tokenizer, chance = load(values), random.Random(5)
    size = tokenizer.size
    lists = [[chance.randrange(size) for _ in range(chance.randint(0, 9))] for _ in range(300)]
    work = """[
        lists.map((ids) => tokenizer.decode(ids)),
        stored.pieces.map((_, id) => fields(tokenizer.token(id))),
        tokenizer.encodeSource("Ein Hund").map(fields),
        tokenizer.withForced(tokenizer.encode("A dog")).map(fields),
        ["", " ", "Hund", "translate German to English: Hund"].map((t) => tokenizer.prefixed(t)),
    ]"""
    decoded, each, source, target, prefixed = ask(page, values, work, lists=lists)
    assert decoded == [tokenizer.decode(ids) for ids in lists]
    assert each == [list(astuple(tokenizer.token(id))) for id in range(size)]
    assert source == [list(astuple(t)) for t in encode_source(tokenizer, "Ein Hund")]
    assert target == [list(astuple(t)) for t in encode_target_line(tokenizer, "A dog")]
    texts_ = ["", " ", "Hund", "translate German to English: Hund"]
    assert prefixed == list(map(tokenizer.frame.prefixed, texts_))


@pytest.mark.parametrize("family", JOINT)
def test_decoding_and_single_tokens_are_pythons(computing_page, stored, family):
    same_decoding(computing_page, stored[family])


def test_2000_texts_in_many_scripts_have_pythons_tokens(computing_page):
    many = [*TEXTS, *SURROGATES, *texts(2000)]
    same(computing_page, SHIPPED, many)
    tokenizer = load(SHIPPED)
    assert sum(any(token.unknown for token in tokenizer.encode(text)) for text in many) > 500
    same_decoding(computing_page, SHIPPED)


def small(pieces: dict[str, float | None], **more: Any) -> dict[str, Any]:
    scores = list(pieces.values())
    return {"kind": "pieces", "vocabulary": [*pieces], "scores": scores, "charsmap": "", **more}


def subwords(*pieces: str, merges: Sequence[tuple[str, str]] = (), **more: bool) -> dict[str, Any]:
    vocabulary = {piece: id for id, piece in enumerate([*SPECIALS, *pieces])}
    return {"kind": "subwords", "vocabulary": vocabulary, "merges": list(map(list, merges)), **more}


def in_bytes(*merges: tuple[str, str]) -> dict[str, Any]:
    names = [*SPECIALS, *BYTES, *map("".join, merges)]
    vocabulary = {name: id for id, name in enumerate(names)}
    return {"kind": "bytes", "vocabulary": vocabulary, "merges": merges}


SUBWORDS = {
    "merges": subwords(
        "▁", "a", "b", "ab", "▁a", "aab", "1", " x", merges=[("a", "b"), ("▁", "a"), ("a", "ab")]
    ),
    "no mark": subwords("e", "n", "en", "▁▁e", "☃", merges=[("e", "n")]),
    "pairs": subwords("▁", "a", "aa", merges=[("a", "a")]),
    "digits": subwords(
        "▁", "1", "2", "▁1", "12", "▁12", merges=[("▁", "1"), ("1", "2")], single_digits=True
    ),
    "numbers": subwords(
        "▁", "1", "2", "▁1", "12", "▁12", merges=[("1", "2"), ("▁", "12")], single_digits=False
    ),
    "marks in lines": subwords("▁", "apos", "quot", "amp", "a", "x@@", "y"),
    "marks and escapes": subwords("▁", "a▁b", "▁▁c", "&", "amp", ";", " ", "x"),
}
MERGED = [*texts(300), "aab baab", "12 112", "▁12", "e▁en", " a", "▁", "1 12,5", "abaab ab1a"]
MERGED += ["aaa baaaaa"]
STRANGE = {
    **{name: (values, MERGED) for name, values in SUBWORDS.items()},
    "an unknown character costs more": (small({"▁": -1, "xy": -8, "z": -8, "yz": -1}), ["xyz"]),
    "special tokens of unknown letters": (
        small({"▁": -1, "a": -2, "xyz": None, "qq": None, "zz": None}, controls=[6])
        | {"languages": {"qq": 7}},
        ["xyz aqq zz", "xyzxyz"],
    ),
    "the same, merged": (
        small({"▁": -1, "a": -2, "xyz": None}, controls=[6], bpe=True),
        ["xyz a xyz", "axyz"],
    ),
    "parts of English words": (
        in_bytes(("'", "s"), ("'", "t"), ("'", "r"), ("'r", "e"), ("d", "'"), ("'", "x")),
        ["it's a dog's isn't we're 's'x d'x", "''s"],
    ),
}


@pytest.mark.parametrize("case", STRANGE)
def test_strange_tokenizers_give_pythons_tokens(computing_page, case):
    same(computing_page, *STRANGE[case])
    same_decoding(computing_page, STRANGE[case][0])


def test_every_character_is_merged_as_by_the_library(computing_page):
    """Python, the library and browsers know different punctuation and white space."""
    codes = [
        c for c in range(0x20000) if unicodedata.category(chr(c)) not in ("Lo", "Cn", "Co", "Cs")
    ]
    # Adjacent unknown characters are one token, unless the text is split between them.
    many = [
        " ".join(f"\u2603{chr(c)}b" for c in codes[at : at + 256])
        for at in range(0, len(codes), 256)
    ]
    letters = subwords("▁", "b")
    ids = "texts.map((text) => tokenizer.encode(text).map(({ id }) => id))"
    found = ask(computing_page, letters, ids, texts=many)
    tokenizer = load(letters)
    wanted = [[token.id for token in tokenizer.encode(text)] for text in many]
    blocks = range(0, len(codes), 256)
    assert [
        f"U+{codes[at]:X} and on" for at, a, b in zip(blocks, wanted, found, strict=True) if a != b
    ] == []


@pytest.mark.parametrize("first", [[], [1], [20, 1]])
def test_ids_in_front_of_a_source_are_those_of_python(computing_page, first):
    values = SHIPPED | {"first": first}
    many = ["", " ", "\u200b", *texts(100)]
    work = "texts.map((text) => tokenizer.encodeSource(text).map(fields))"
    found = [[tuple(f) for f in tokens] for tokens in ask(computing_page, values, work, texts=many)]
    tokenizer = load(values)
    assert found == [[astuple(t) for t in encode_source(tokenizer, text)] for text in many]
    assert found[:3] == [[], [], []] and all(len(tokens) > len(first) for tokens in found[9:])
    same(computing_page, values, many)


def test_a_mark_of_byte_order_is_kept(computing_page):
    values = in_bytes(("a", "b"))
    ids = [[values["vocabulary"][BYTES[byte]] for byte in "\ufeffa".encode()]]
    decoded = ask(computing_page, values, "lists.map((ids) => tokenizer.decode(ids))", lists=ids)
    assert decoded == [load(values).decode(ids[0])] == ["\ufeffa"]


@pytest.mark.parametrize("case", ["mbart", "bart", "shipped", *SUBWORDS])
def test_given_lines_have_pythons_words(computing_page, stored, case):
    values = {**stored, "shipped": SHIPPED, **SUBWORDS}[case]
    lines = [*MANY, *(given.line for given in GIVEN), "„Ein“ «Hund» `` x ''"]
    lines += ["Ein@@ Hund &amp; läuft", "__de__ Hund"]
    work = "lines.map((l) => { const { tokens, words } = tokensAndWords(tokenizer, l); "
    work += "return [tokens.map(fields), words]; })"
    tokenizer = load(values)
    for line, found in zip(lines, ask(computing_page, values, work, lines=lines), strict=True):
        tokens, words = tokens_and_words(tokenizer, line)
        assert found == [[list(astuple(t)) for t in tokens], list(words)], ascii(line)


def test_every_character_is_split_as_by_the_library(computing_page):
    """Byte-level BPE parts letters, numbers and the rest, as an early Unicode version has them."""
    names = [*SPECIALS, *BYTES]
    merges = [["a", byte] for byte in BYTES[0xC2:0xF5]] + [["1", byte] for byte in BYTES[0xC2:0xF5]]
    names += [first + second for first, second in merges]
    vocabulary = {name: id for id, name in enumerate(names)}
    values = {"kind": "bytes", "vocabulary": vocabulary, "merges": merges}
    of = [unicodedata.category(chr(c)) for c in range(0x20001)]
    # Both ends of each run of one category, and every seventh character.
    codes = [c for c in range(0x20, 0x20000) if c % 7 == 0 or not of[c - 1] == of[c] == of[c + 1]]
    codes = [c for c in codes if of[c] not in ("Cn", "Co", "Cs")]
    blocks = range(0, len(codes), 64)
    # A letter in front merges with a letter's first byte, a digit with a number's.
    many = ["".join(f" a{chr(c)} 1{chr(c)}" for c in codes[at : at + 64]) for at in blocks]
    work = "lines.map((l) => tokenizer.encode(l).map(({ id }) => id))"
    found = ask(computing_page, values, work, lines=many)
    tokenizer = load(values)
    wanted = [[token.id for token in tokenizer.encode(line)] for line in many]
    assert [
        f"U+{codes[at]:X} and on" for at, a, b in zip(blocks, wanted, found, strict=True) if a != b
    ] == []


def test_a_kind_that_the_page_cannot_run_is_refused(stored):
    with pytest.raises(ValueError, match="Moses' rules"):
        tokenizer_of_page({"kind": "moses", "vocabulary": [], "merges": []})
