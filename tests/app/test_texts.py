"""User text is never interpreted as markup in figures, files or error messages."""

from __future__ import annotations

import base64
import html
import io
import json
import re
import struct
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from unicodedata import category

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from markdown_it import MarkdownIt

from app.components.explorer.payload import pack, payload
from app.export.arrays import as_text, csv_zip
from app.export.page import FIRST_VIEW, page
from app.figures.style import escape, tick
from app.figures.why import Grid, Node, Ribbon, ribbons_figure, terms_figure, words_grid_figure
from app.look.labels import label, labels, segments
from app.look.markdown import plain
from core.record.record import RecordToken, TranslationRecord
from core.text import load
from core.text.tokenizer import UNK, normalise
from core.translator import Translator
from tests.app.test_figures import all_figures, make_record, strings
from tests.app.texts import SURROGATES, TEXTS, UNSEEN

FOLDER = Path(__file__).resolve().parents[2] / "checkpoints/scratch-de-en"
ROWS = 40
HARMLESS = "a"


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(FOLDER, "cpu")


@pytest.fixture(scope="module")
def plain_record(translator) -> TranslationRecord:
    """A record with about forty tokens on each side."""
    return translator.inspect("Ein Hund " * (ROWS // 2), "a dog " * (ROWS // 2))


def renamed(record: TranslationRecord, texts: Sequence[str]) -> TranslationRecord:
    """Return the record with these texts as its tokens and alternatives."""

    def named(tokens: Sequence[RecordToken]) -> tuple[RecordToken, ...]:
        return tuple(
            token if token.special else replace(token, text=texts[i % len(texts)])
            for i, token in enumerate(tokens)
        )

    return replace(
        record,
        source=named(record.source),
        target_in=named(record.target_in),
        target_out=named(record.target_out),
        alternatives=tuple(map(named, record.alternatives)),
        source_text=" ".join(texts),
        translation=" ".join(texts),
    )


def slices(texts: Sequence[str] = TEXTS) -> Iterator[list[str]]:
    """Yield the texts in groups of forty."""
    return (list(texts[i : i + ROWS]) for i in range(0, len(texts), ROWS))


class Markup(HTMLParser):
    """The elements and the text that a browser would make of a text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.elements.append(("comment", (data,)))

    handle_decl = handle_pi = unknown_decl = handle_comment


def test_tokens_spell_the_text_and_are_never_control_ids():
    values = json.loads((FOLDER / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer = load(values)
    for text in TEXTS:
        tokens = tokenizer.encode(text)
        words = ((" " if token.starts_word else "") + token.text for token in tokens)
        assert "".join(words).strip() == normalise(text), text
        assert all(token.id >= UNK for token in tokens), text


def test_labels_spell_the_text_and_hide_nothing():
    for text in TEXTS:
        token = RecordToken(7, text, text, True, False, False)
        shown, parts = label(token), segments(text)
        assert shown == "".join(part for part, _ in parts)
        if text.strip(" "):
            back = "".join(chr(int(part[3:-1], 16)) if name else part for part, name in parts)
            assert back == text
        if text in UNSEEN and {category(c) for c in text} & {"Cc", "Cf", "Zl", "Zp"}:
            assert "‹U+" in shown, ascii(text)
        numbered = labels([token, token], 1)
        assert len(set(numbered)) == 2 and numbered[0].strip("\u2068\u2069").startswith(shown)


def test_an_exported_page_has_no_additional_elements(plain_record):
    expected = Markup(page(renamed(plain_record, [HARMLESS]))).elements
    for texts in slices():
        record = renamed(plain_record, texts)
        text = page(record)
        assert Markup(text).elements == expected
        title = re.search(r"<title>(.*?)</title>", text, re.DOTALL)
        assert title and html.unescape(title[1]) == html.unescape(
            html.escape(f"Headlight: {record.source_text}")
        )
        assert "<" not in title[1]
        data = base64.b64decode(max(re.findall(r"[A-Za-z0-9+/=]{400,}", text), key=len))
        found = set(strings(header(data)))
        assert {encodable(token.text) for token in record.source} <= found


def encodable(text: str) -> str:
    """Return a text with "?" in place of each lone surrogate, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


def header(packed: bytes) -> dict:
    (length,) = struct.unpack("<I", packed[:4])
    return json.loads(packed[4 : 4 + length])


def test_tables_and_records_keep_the_text():
    for texts in slices():
        record = replace(make_record(texts, texts), source_text=" ".join(texts))
        with zipfile.ZipFile(io.BytesIO(csv_zip(record))) as archive:
            rows = pd.read_csv(
                io.StringIO(archive.read("tokens.csv").decode(), newline=""),
                keep_default_na=False,
                lineterminator="\n",
            )
        own = [t.text for side in ("source", "target_in", "target_out")
               for t in getattr(record, side)]  # fmt: skip
        assert [as_text(text) for text in own] == list(rows.text)
        assert not any(len(text) > 1 and text[0] in "=+-@\t\r" for text in rows.text)
        again = TranslationRecord.load(io.BytesIO(record.to_bytes()))
        assert again.source == record.source and again.source_text == record.source_text


@pytest.mark.parametrize(
    "some", [TEXTS[::11], pytest.param(TEXTS, marks=pytest.mark.soak)], ids=["some", "all"]
)
def test_figures_have_no_additional_markup(some):
    """No text adds a tag or TeX, and hover templates do not depend on the text."""
    tame = [*all_figures(make_record([HARMLESS] * ROWS, [HARMLESS] * ROWS))]
    tame += why_figures([HARMLESS] * ROWS)
    allowed = {tag for figure in tame for tag in tags_of(figure)}
    assert allowed <= {"<br>", "<b>", "</b>", "<extra>", "</extra>", "<i>", "</i>"}
    for texts in slices(some):
        texts = (texts * ROWS)[:ROWS]
        hostile = [*all_figures(make_record(texts, texts)), *why_figures(texts)]
        for figure, harmless in zip(hostile, tame, strict=True):
            assert tags_of(figure) == tags_of(harmless)
            assert not any("$" in text for text in strings(json.loads(figure.to_json())))
            for trace, other in zip(figure.data, harmless.data, strict=True):
                assert getattr(trace, "hovertemplate", "") == getattr(other, "hovertemplate", "")
    print(f"\n{len(some)} texts in every figure: no markup")  # noqa: T201


def why_figures(words: Sequence[str]) -> list[go.Figure]:
    """Return the figures of the page Ask why, with these words as tokens."""
    count = len(words)
    values = np.linspace(-1, 1, count)
    hovers = [[escape(word) for word in words]] * count  # markup made by the pages
    grid = Grid(words, words, np.outer(values, values), [words] * count, hovers)
    ribbons = [
        Ribbon(Node(i, f"{i} {word}"), Node((word, i % 3), f"{word} {i % 3}"), 0.5)
        for i, word in enumerate(words)
    ]
    title = f"Why {words[0]} and not {words[1]}?"
    return [
        terms_figure(words, values, title, title, "nats").figure("light"),
        words_grid_figure(grid, title, title, 1.0, True).figure("dark"),
        ribbons_figure(ribbons, (words[0], f"{words[1]}."), title, title).figure("light"),
    ]


def tags_of(figure: go.Figure) -> set[str]:
    """Return everything in a figure's texts that plotly could parse as a tag."""
    texts = strings(json.loads(figure.to_json()))
    return {tag for text in texts for tag in re.findall(r"</?[A-Za-z!?][^>]*>?", text)}


def test_escaped_words_have_no_elements():
    for text in TEXTS:
        assert Markup(escape(text)).elements == [] and "$" not in escape(text)
        assert html.unescape(escape(text)) == html.unescape(html.escape(text, quote=False))
        shown = html.unescape(tick(text, 1000)).removeprefix("\u2066").removesuffix("\u2069")
        assert shown == text or text[:1] == "\u2066" or text[-1:] == "\u2069"


def test_an_error_line_has_no_markup():
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for text in TEXTS:
        for line in (text, f"“{text}” cannot be read: {text}"):
            rendered = Markup(reader.render(plain(line)))
            assert {tag for tag, _ in rendered.elements} <= {"p"}, text
            shown = rendered.text.replace("\u2060", "").split()
            assert shown == line.replace("\u2060", "").replace("\x00", "\ufffd").split(), text
            # Streamlit's own arrows, links, colours, icons, emoji and formulas begin as below.
            assert not re.search(r"<-|->|--|<=|>=|~=|@\w|www\.", plain(line).replace("\\", "")), (
                text
            )
            bare = re.sub(r"\\.", " ", plain(line))
            assert not re.search(r"\$|:(?=[\w+-])|\[|\]", bare), text


@pytest.mark.parametrize("text", SURROGATES, ids=ascii)
def test_lone_surrogates_are_rejected_or_replaced(translator, text):
    try:
        record = translator.inspect(text)
    except ValueError as error:
        assert "\n" not in str(error)
        str(error).encode()
        return
    for made in (page(record), csv_zip(record), record.to_bytes()):
        assert b"\\ud8" not in (made.encode() if isinstance(made, str) else made)
    json.dumps(header(pack(payload(record, FIRST_VIEW))), ensure_ascii=False).encode()
