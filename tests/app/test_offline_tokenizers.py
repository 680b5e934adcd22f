"""The offline page's tokenizers of imported networks give Python's tokens and texts."""

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
from tests.app.test_offline_subwords import texts
from tests.app.texts import SURROGATES, TEXTS
from tests.tokenizer_folders import JOINT, LINES, SCRIPTS, read, write

NETWORK = Path(__file__).parents[2] / "app/components/network"
SCRIPT = joined(*(NETWORK / f"{name}.js" for name in ("tokenizers", "line")))
TYPED = ("</s> <s> <pad>", "en_XX Hund", "<extra_id_0>", "__de__ x", "deu_Latn", "<mask>a<mask>")
HOSTILE = (*TYPED, *TEXTS, "…" * 50, "aaaa" * 40, "\U0010ffff", "a\U0010ffff\U0010ffff☃b", "½ﬁ①㎏ﷺ")
MANY = [*LINES[:12], *SCRIPTS, *HOSTILE, *texts(220)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> dict[str, dict[str, Any]]:
    """Each family's tokenizer in its JSON form."""
    place = tmp_path_factory.mktemp("tokenizers")
    return {name: read(write(place / name, name), name).tokenizer.to_json() for name in JOINT}


def ask(page: Page, values: dict[str, Any], what: str, **given: Any) -> Any:
    """Return a JavaScript expression's value, passed as JSON."""
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


@pytest.mark.parametrize("family", JOINT)
def test_decoding_and_single_tokens_are_pythons(computing_page, stored, family):
    tokenizer, chance = load(stored[family]), random.Random(5)
    size = tokenizer.size
    lists = [[chance.randrange(size) for _ in range(chance.randint(0, 9))] for _ in range(300)]
    work = """[
        lists.map((ids) => tokenizer.decode(ids)),
        stored.pieces.map((_, id) => fields(tokenizer.token(id))),
        tokenizer.encodeSource("Ein Hund").map(fields),
        tokenizer.withForced(tokenizer.encode("A dog")).map(fields),
        ["", " ", "Hund", "translate German to English: Hund"].map((t) => tokenizer.prefixed(t)),
    ]"""
    decoded, each, source, target, prefixed = ask(computing_page, stored[family], work, lists=lists)
    assert decoded == [tokenizer.decode(ids) for ids in lists]
    assert each == [list(astuple(tokenizer.token(id))) for id in range(size)]
    assert source == [list(astuple(t)) for t in encode_source(tokenizer, "Ein Hund")]
    assert target == [list(astuple(t)) for t in encode_target_line(tokenizer, "A dog")]
    texts_ = ["", " ", "Hund", "translate German to English: Hund"]
    assert prefixed == list(map(tokenizer.frame.prefixed, texts_))


def small(pieces: dict[str, float | None], **more: Any) -> dict[str, Any]:
    scores = list(pieces.values())
    return {"kind": "pieces", "vocabulary": [*pieces], "scores": scores, "charsmap": "", **more}


def in_bytes(*merges: tuple[str, str]) -> dict[str, Any]:
    names = [*SPECIALS, *BYTES, *map("".join, merges)]
    vocabulary = {name: id for id, name in enumerate(names)}
    return {"kind": "bytes", "vocabulary": vocabulary, "merges": merges}


STRANGE = {
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


def test_a_mark_of_byte_order_is_kept(computing_page):
    values = in_bytes(("a", "b"))
    ids = [[values["vocabulary"][BYTES[byte]] for byte in "\ufeffa".encode()]]
    decoded = ask(computing_page, values, "lists.map((ids) => tokenizer.decode(ids))", lists=ids)
    assert decoded == [load(values).decode(ids[0])] == ["\ufeffa"]


@pytest.mark.parametrize("family", ["mbart", "bart"])
def test_given_lines_have_pythons_words(computing_page, stored, family):
    lines = [*MANY, "„Ein“ «Hund» `` x ''", "Ein@@ Hund &amp; läuft", "__de__ Hund"]
    work = "lines.map((l) => { const { tokens, words } = tokensAndWords(tokenizer, l); "
    work += "return [tokens.map(fields), words]; })"
    tokenizer = load(stored[family])
    for line, found in zip(
        lines, ask(computing_page, stored[family], work, lines=lines), strict=True
    ):
        tokens, words = tokens_and_words(tokenizer, line)
        assert found == [[list(astuple(t)) for t in tokens], words], ascii(line)


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
