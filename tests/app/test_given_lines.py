"""The offline page reads given lines as Python does, and has the same reasons to doubt them."""

from __future__ import annotations

import json
from dataclasses import astuple
from itertools import product
from pathlib import Path
from typing import Any

from app.components.assets import joined
from app.export.weights import tokenizer_of_page
from core.analysis.quality_warnings import FUNCTION_WORDS, warnings_about
from core.text.line import marks, read
from tests.app.test_offline_tokenizers import SHIPPED, texts
from tests.app.texts import TEXTS
from tests.given_lines import GIVEN

ROOT = Path(__file__).parents[2]
LINES = [given.line for given in GIVEN]
MANY = [*LINES, *TEXTS, *texts(300)]


def asked(page: Any, script: str, what: str, **given: Any) -> Any:
    work = f"""(json) => {{
        {joined(ROOT / script)}
        const {{ {", ".join(given)} }} = JSON.parse(json);
        return JSON.stringify({what});
    }}"""
    return json.loads(page.evaluate(work, json.dumps(given)))


def test_lines_are_read_as_the_table_says(shared_page):
    """The table itself, without Python's reading in between."""
    found = asked(
        shared_page,
        "app/components/offline/worker.js",
        "((tokenizer) => lines.map((line) => { const found = tokensAndWords(tokenizer, line);"
        " return wordsOfLine(line).map((_, word) => found.tokens.filter((_, at) =>"
        " found.words[at] === word).map(({ text }) => text).join('')); }))(new Tokenizer(stored))",
        stored=tokenizer_of_page(SHIPPED),
        lines=LINES,
    )
    assert found == [given.words for given in GIVEN]


PAIRS = (
    ("Schreib an a.b@c.de, nicht an www.x.org/y!", "Write to a.b@c.de."),
    ("Die Frau in was die an am.", "x"),
    ("He is in the house and the man was here.", "x"),
    ("Il est dans la maison avec des amis.", "x"),
    ("NASA und EU", "NASA and EU"),
    ("STRAßE UND WEG", "x"),
    ("0 Uhr bis 12", "12 to 0"),
    ("Raum 24 und 13", "room 12 and 1"),
)


def test_reasons_to_doubt_are_pythons(shared_page):
    cases = [(line, "A dog runs 5 kilograms.", "German", "", 1.0) for line in MANY]
    said = "5 kilometers, 4 dollars"
    cases += [(f"{line} 5\u00a0km/h $4 7 % 3 kg", said, "German", "", 1.0) for line in LINES]
    for language, at in product(("German", "English", "Esperanto"), (0.399, 0.4, 0.05, 0.004)):
        cases += [(*pair, language, "aabcd"[: len(pair[0]) % 6], at) for pair in PAIRS]
    words = {name: " ".join(known) for name, known in FUNCTION_WORDS.items()}
    found = asked(
        shared_page,
        "app/components/offline/doubts.js",
        "cases.map(([source, translation, language, unknown, probability]) => [marks(source),"
        " reasonsToDoubt({ source, translation, language, unknown: [...unknown], probability },"
        " words)])",
        cases=cases,
        words=words,
    )
    for (source, *rest), (in_line, reasons) in zip(cases, found, strict=True):
        assert [tuple(mark) for mark in in_line] == list(marks(source)), ascii(source)
        translation, language, unknown, probability = rest
        own = warnings_about(source, translation, language, tuple(unknown), probability)
        assert reasons == own.reasons(language), (ascii(source), rest)
    assert len({kind for in_line, _ in found for kind, _ in in_line}) >= 9


def test_reading_without_a_vocabulary_is_pythons(shared_page):
    found = asked(
        shared_page,
        "app/components/offline/worker.js",
        "lines.map((line) => { const { words, text, owners } = readLine(line);"
        " return [words, text, owners]; })",
        lines=MANY,
    )
    for line, (words, text, owners) in zip(MANY, found, strict=True):
        assert (tuple(words), text, tuple(owners)) == astuple(read(line, quotes=True)), ascii(line)
