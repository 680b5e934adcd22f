"""The offline page's tokenizer gives Python's tokens for texts in many scripts."""

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
from core.text import load
from core.text.subwords import SubwordTokenizer
from core.text.tokenizer import encode_source
from tests.app.texts import SURROGATES, TEXTS

ROOT = Path(__file__).parents[2]
SCRIPT = joined(ROOT / "app/components/network/subwords.js")
SHIPPED = json.loads((ROOT / "checkpoints/scratch-de-en/tokenizer.json").read_text("utf-8"))
SPECIALS = ["<pad>", "<bos>", "<eos>", "<unk>"]
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


def stored(values: dict[str, Any]) -> dict[str, Any]:
    """Return a tokenizer as in a weights file: pieces by id, and merges as pairs of ids."""
    ids = values["vocabulary"]
    merges = [[ids[first], ids[second]] for first, second in values["merges"]]
    single = values.get("single_digits", False)
    first = {"first": values["first"]} if "first" in values else {}
    pieces = sorted(ids, key=ids.__getitem__)
    return {"pieces": pieces, "merges": merges, "single_digits": single, **first}


def encoded(page: Page, values: dict[str, Any], of: Sequence[str]) -> list[list[tuple]]:
    answers = ask(page, values, "texts.map((text) => tokenizer.encode(text).map(fields))", texts=of)
    return [[tuple(fields) for fields in tokens] for tokens in answers]


def ask(page: Page, values: dict[str, Any], what: str, **given: Any) -> Any:
    """Return a JavaScript expression's value, passed as JSON: Playwright's encoding is slow."""
    work = f"""(json) => {{
        {SCRIPT}
        const {{ stored, {", ".join(given)} }} = JSON.parse(json);
        const tokenizer = new Tokenizer(stored);
        const fields = (t) => [t.id, t.piece, t.text, t.starts_word, t.special, t.unknown];
        return JSON.stringify({what});
    }}"""
    return json.loads(page.evaluate(work, json.dumps({"stored": stored(values), **given})))


def expected(values: dict[str, Any], of: Sequence[str]) -> list[list[tuple]]:
    tokenizer = load(values)
    return [[astuple(token) for token in tokenizer.encode(text)] for text in of]


def small(*pieces: str, merges: Sequence[tuple[str, str]] = (), **more: bool) -> dict[str, Any]:
    vocabulary = {piece: id for id, piece in enumerate([*SPECIALS, *pieces])}
    return {"kind": "subwords", "vocabulary": vocabulary, "merges": list(map(list, merges)), **more}


STRANGE = [
    small(
        "▁", "a", "b", "ab", "▁a", "aab", "1", " x", merges=[("a", "b"), ("▁", "a"), ("a", "ab")]
    ),
    small("e", "n", "en", "▁▁e", "☃", merges=[("e", "n")]),  # no boundary mark
    small("▁", "a", "aa", merges=[("a", "a")]),
    small("▁", "1", "2", "▁1", "12", "▁12", merges=[("▁", "1"), ("1", "2")], single_digits=True),
    small("▁", "1", "2", "▁1", "12", "▁12", merges=[("1", "2"), ("▁", "12")], single_digits=False),
]


def test_2000_texts_in_many_scripts_have_pythons_tokens(computing_page):
    many = [*TEXTS, *texts(2000 - len(TEXTS))]
    assert len(many) == 2000
    wanted = expected(SHIPPED, many)
    assert sum(any(token[5] for token in tokens) for tokens in wanted) > 500  # with unknowns
    for text, tokens, found in zip(
        many, wanted, encoded(computing_page, SHIPPED, many), strict=True
    ):
        assert found == tokens, ascii(text)


@pytest.mark.parametrize("values", STRANGE, ids=["merges", "no mark", "pairs", "digits", "numbers"])
def test_strange_tokenizers_give_pythons_tokens(computing_page, values):
    many = [
        *texts(300),
        "aab baab",
        "12 112",
        "▁12",
        "e▁en",
        " a",
        "▁",
        "1 12,5",
        "abaab ab1a",
        "aaa baaaaa",
    ]
    assert encoded(computing_page, values, many) == expected(values, many)


def test_every_character_is_split_as_by_the_library(computing_page):
    """Python, the library and browsers know different punctuation and white space."""
    codes = [
        c for c in range(0x20000) if unicodedata.category(chr(c)) not in ("Lo", "Cn", "Co", "Cs")
    ]
    # Adjacent unknown characters are one token, unless the text is split between them.
    many = [
        " ".join(f"\u2603{chr(c)}b" for c in codes[at : at + 256])
        for at in range(0, len(codes), 256)
    ]
    letters = small("▁", "b")
    ids = "texts.map((text) => tokenizer.encode(text).map(({ id }) => id))"
    found = ask(computing_page, letters, ids, texts=many)
    wanted = [[token[0] for token in tokens] for tokens in expected(letters, many)]
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
    assert encoded(computing_page, values, many) == expected(SHIPPED, many)


def test_lone_surrogates_are_replaced(computing_page):
    assert encoded(computing_page, SHIPPED, SURROGATES) == expected(SHIPPED, SURROGATES)


def test_decoding_and_single_tokens_are_pythons(computing_page):
    chance = random.Random(5)
    work = """[
        sequences.map((ids) => tokenizer.decode(ids)),
        stored.pieces.map((_, id) => fields(tokenizer.token(id))),
    ]"""
    for values in (SHIPPED, *STRANGE, small("▁", "a▁b", "▁▁c", "&", "amp", ";", " ", "x")):
        tokenizer = SubwordTokenizer.from_json(values)
        size = tokenizer.size
        sequences = [
            [chance.randrange(size) for _ in range(chance.randint(0, 9))] for _ in range(400)
        ]
        decoded, each = ask(computing_page, values, work, sequences=sequences)
        assert decoded == [tokenizer.decode(ids) for ids in sequences]
        assert [tuple(fields) for fields in each] == [
            astuple(tokenizer.token(i)) for i in range(size)
        ]
