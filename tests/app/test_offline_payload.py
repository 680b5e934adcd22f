"""The offline page's payload and .npz of a record equal Python's, field by field."""

from __future__ import annotations

import base64
import io
import json
import math
import struct
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page

from app.components.assets import joined
from app.components.edits import listed
from app.components.explorer.payload import payload
from app.look.labels import label, segments
from core.analysis.first_cell import first_cell
from core.analysis.rollout import rollout
from core.config import DecodeConfig
from core.kinds import KINDS
from core.record.edits import Edits
from core.record.record import RecordCheck, RecordHypothesis, RecordToken, TranslationRecord
from core.record.words import group_words, is_punctuation
from core.translator import Translator
from tests.app.conftest import visited

FOLDER = Path(__file__).parents[2] / "app/components/offline"
MODULES = ("payload", "npz", "first_view", "edit_words", "../explorer/data")
SCRIPTS = joined(*(FOLDER / f"{name}.js" for name in MODULES))
# An array is sent as {name of its type: base64 text}.
DRIVER = """
const arrays = { f4: Float32Array, u1: Uint8Array };
window.revived = (text) => JSON.parse(text, (_, value) => {
  const [type] = value && typeof value === "object" ? Object.keys(value) : [];
  if (type === "number") return Number(value.number);
  return type in arrays ? new arrays[type](Uint8Array.fromBase64(value[type]).buffer) : value;
});
window.shown = (text) => {
  const [record, before, shown] = revived(text);
  const { quantities } = shown;
  if ("rollout" in quantities) quantities.rollout = rolloutOf(record);
  if ("change" in quantities) quantities.change = changeOf(record, before);
  if (shown.isEdited) shown.before = before;
  return packPayload(payloadOf(record, shown)).toBase64();
};
"""
VIEW = {"kind": "cross", "layer": 1, "head": "mean", "q": 2}


def described_arrays(value: Any) -> Any:
    """Return an array as {type: base64 text}, which DRIVER reads, for `json.dumps(default=)`."""
    if isinstance(value, np.ndarray):
        kind = "f4" if value.dtype == np.float32 else "u1"
        return {kind: base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()}
    raise TypeError(value)


def token(one: RecordToken) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__}


def short(token: RecordToken) -> str:
    """Return the label, with a hyphen in front if the token continues a word."""
    alone = token.starts_word or token.special or is_punctuation(token.text)
    return label(token) if alone else f"\u2010{label(token)}"


def is_sent(found: Any, expected: list[Any]) -> bool:
    """Return whether a list holds the expected tokens; the worker sends all of their fields."""
    if isinstance(expected[0], list):
        return all(map(is_sent, found, expected))
    kept = [{n: v for n, v in t.items() if v is not False and n != "piece"} for t in found]
    return kept == expected


def number(value: float) -> dict[str, str]:
    """Wrap a number as {"number": text}, because JSON has no NaN and no infinities."""
    return {"number": repr(value).replace("inf", "Infinity")}


def as_worker(record: TranslationRecord) -> dict[str, Any]:
    """Return a record as the worker's `PassRecord` of types.js."""
    decode = record.decode
    return {
        "id": record.id,
        "model": record.model,
        "weightsSha256": record.weights_sha256,
        "sourceLanguage": record.source_language,
        "targetLanguage": record.target_language,
        "decode": decode and {"beam": decode.beam, "lengthPenalty": decode.length_penalty},
        "search": record.search,
        "sourceText": record.source_text,
        "translation": record.translation,
        "source": [token(one) for one in record.source],
        "targetIn": [token(one) for one in record.target_in],
        "targetOut": [token(one) for one in record.target_out],
        "heads": {kind: record.maps(kind).shape[1] for kind in KINDS},
        "layers": {kind: len(record.maps(kind)) for kind in KINDS},
        **{kind: record.maps(kind) for kind in KINDS},
        "masks": {kind: record.mask(kind) for kind in KINDS},
        "sourcePositions": record.source_positions,
        "targetPositions": record.target_positions,
        "logProbs": record.log_probs,
        "alternatives": [[token(one) for one in row] for row in record.alternatives],
        "alternativeLogProbs": record.alternative_log_probs,
        "hypotheses": [
            {"text": h.text, "ids": h.ids, "logProb": h.log_prob, "score": h.score}
            for h in record.hypotheses
        ],
        "checks": [
            {n: getattr(check, n) for n in check.__slots__} | {"figure": number(check.figure)}
            for check in record.checks
        ],
        "editsText": record.edits.to_text(),
    }


def unpacked(packed: bytes) -> dict[str, Any]:
    """Undo `payload.pack`."""
    start = 4 + struct.unpack("<I", packed[:4])[0]
    data = json.loads(packed[4:start])
    for name, value in data.items():
        if isinstance(value, dict) and "at" in value:
            data[name] = packed[start + value["at"] :][: value["length"]]
    return data


class Worker:
    """A page that runs the worker's modules."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.route("**", lambda route: route.fulfill(body=f"<script>{SCRIPTS}\n{DRIVER}</script>"))
        page.goto("http://127.0.0.1/")  # a secure context, which crypto.subtle requires

    def payload(
        self, record: TranslationRecord, before: TranslationRecord, **shown: Any
    ) -> dict[str, Any]:
        """Return the payload of a record; the page computes rollout and change."""
        text = json.dumps([as_worker(record), as_worker(before), shown], default=described_arrays)
        return unpacked(base64.b64decode(self.page.evaluate("text => shown(text)", text)))

    def npz(self, record: TranslationRecord) -> tuple[str, bytes]:
        """Return the id and the file of a record."""
        text = json.dumps(as_worker(record), default=described_arrays)
        found = self.page.evaluate(
            "async (text) => [await identityOf(revived(text)), npzOf(revived(text)).toBase64()]",
            text,
        )
        return found[0], base64.b64decode(found[1])

    def views(self, records: list[TranslationRecord]) -> list[dict[str, Any]]:
        """Return the views with which records open."""
        text = json.dumps([as_worker(one) for one in records], default=described_arrays)
        script = "text => revived(text).map((record) => openingView(record, null))"
        return self.page.evaluate(script, text)


@pytest.fixture(scope="module")
def worker(visits: BrowserContext) -> Iterator[Worker]:
    with visited(visits) as page:
        yield Worker(page)


SENTENCE = "Zwei Männer in roten Hemden spielen mit zwei Hunden ."
EDITS = (
    "off.cross.2.0~uniform.encoder.0.1~cut.cross.all.all.1.2~times.decoder.1.3.4.2.0.5"
    "~row.cross.1.1.2.0.25-0.75~temp.encoder.1.2.0.5~hide.3~positions.source.scale-0.5_shift-2"
)
SOURCES = {
    "plain": SENTENCE,
    "unknown": "Ein 猫 schläft in Łódź 🙂 .",
    "invisible": "a\u200cb \u202e x\u2060y\u3164 👩‍🚀 \u0602 ✔\ufe0f <eos> „Hallo“ !",
}


@pytest.fixture(scope="module")
def records(translator: Translator) -> dict[str, TranslationRecord]:
    decode = DecodeConfig()
    found = {name: translator.inspect(text) for name, text in SOURCES.items()}
    plain = found["plain"]
    found["greedy"] = translator.inspect(SENTENCE, decode=DecodeConfig(beam=1))
    found["given"] = translator.inspect(SENTENCE, "The the 猫 the\u00ad <eos>  dogs -- !")
    edits, problems = Edits.parse(EDITS)
    assert not problems
    ids = [one.id for one in plain.target_out]
    found["edited"] = translator.inspect(SENTENCE, edits=edits, target_ids=ids)
    found["unmasked"] = translator.inspect(SENTENCE, edits=Edits(causal_mask=False), target_ids=ids)
    found["searched"] = translator.inspect(SENTENCE, edits=edits, decode=decode)
    found["odd"] = odd_numbers(found["unknown"])
    return found


def odd_numbers(record: TranslationRecord) -> TranslationRecord:
    """Return a record whose floats and characters JavaScript and Python write differently."""
    scores = (0.0, -0.0, 1.0, 1e-05, -0.00012345678901234567, 1e16, -123456.0, 5e-324, 1.5e300)
    checks = (
        RecordCheck("NaN", False, math.nan, 0.0, "é"),
        RecordCheck("infinite", False, math.inf, 1e-5, '"\\/\x7f\x1f\u2028\n'),
    )
    first = replace(record.target_out[0], text='é"\\\x7f\u2028\t🙂', piece="\x00")
    return replace(
        record,
        target_in=(record.target_in[0], first, *record.target_in[2:]),
        target_out=(first, *record.target_out[1:]),
        hypotheses=tuple(RecordHypothesis("🙂", (1, 2), -abs(x), x) for x in scores[:-1]),
        checks=checks,
        model="modèle",
    )


def check_values(check: RecordCheck) -> tuple[object, ...]:
    """Return the values of a check; NaN, which never equals itself, as text."""
    return check.name, check.passed, repr(float(check.figure)), check.limit, check.words


def assert_equal(found: Any, expected: Any, where: str) -> None:
    """Compare JSON values; numbers are rounded to six digits and may differ in the last."""
    if isinstance(expected, dict):
        assert list(found) == list(expected), where
        for name, value in expected.items():
            assert_equal(found[name], value, f"{where}.{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for i, value in enumerate(expected):
            assert_equal(found[i], value, f"{where}[{i}]")
    elif isinstance(expected, float):
        assert math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-6), where
    else:
        assert found == expected, where


def by_kind(sent: dict[str, Any]) -> dict[str, Any]:
    """Return a payload with numbers of heads by kind, as the scripts always send them."""
    heads = dict.fromkeys(KINDS, sent["heads"])
    about = {
        name: one if name == "rollout" or one is None else {**one, "heads": heads}
        for name, one in sent["quantities"].items()
    }
    return {**sent, "heads": heads, "quantities": about}


CASES = (*SOURCES, "greedy", "given", "edited", "unmasked", "searched", "odd")


@pytest.mark.parametrize("name", CASES)
def test_payloads_are_pythons(
    worker: Worker, records: dict[str, TranslationRecord], name: str
) -> None:
    record, before = records[name], records["plain"]
    quantities: dict[str, Any] = {"scores": None, "rollout": rollout(record)}
    what_if = None
    if name == "edited":
        change = {kind: record.maps(kind) - before.maps(kind) for kind in KINDS}
        quantities = {"change": change, **quantities}
        what_if = {
            "text": record.edits.to_text(),
            "edits": listed(record.edits, before),
            "problems": ["one"],
            "before": before.log_prob,
            "change": [round(float(nats), 6) for nats in record.log_probs - before.log_probs],
        }
    known = {"before": before} if name == "edited" else {}
    expected = by_kind(
        payload(record, VIEW, quantities=quantities, what_if=what_if, host=None, **known)
    )
    asked = dict.fromkeys((name for name in ("change", "rollout") if name in quantities), True)
    found = worker.payload(
        record, before, view=VIEW, quantities=asked, offered=list(quantities), whatIf=what_if,
        isEdited=name == "edited",
    )  # fmt: skip
    assert set(found) == set(expected)
    for field, value in expected.items():
        if field.endswith("_mask") or field.startswith("looked_at"):
            assert found[field] == value, field
        elif isinstance(value, bytes):
            numbers = [np.frombuffer(one, "<f4") for one in (found[field], value)]
            error = 1e-6 if field.startswith("rollout") else 0
            np.testing.assert_allclose(*numbers, rtol=0, atol=error, err_msg=field)
        elif field in ("source", "target_in", "target_out", "alternatives"):
            assert is_sent(found[field], value), field
        else:
            assert_equal(found[field], value, field)


@pytest.mark.parametrize("name", CASES)
def test_saved_records_are_pythons(
    worker: Worker, records: dict[str, TranslationRecord], name: str
) -> None:
    record = records[name]
    identity, content = worker.npz(record)
    checks = [*map(check_values, record.checks)]
    loaded = TranslationRecord.load(io.BytesIO(content))
    assert loaded == record and [*map(check_values, loaded.checks)] == checks
    assert loaded.id == identity == record.id


def test_the_first_view_is_that_of_the_app(
    worker: Worker, records: dict[str, TranslationRecord]
) -> None:
    """Without a link, the page opens with the same head and row as the app."""
    found = worker.views([*records.values()])
    cells = [first_cell(one.cross, one.source, one.target_out) for one in records.values()]
    assert any(cells) and not all(cells)
    assert found == [
        {"kind": "cross", "layer": cell.layer, "head": cell.head, "q": cell.query, "suggested": 1}
        if cell
        else {"kind": "cross", "layer": len(record.cross) - 2, "head": 0, "suggested": 1}
        for cell, record in zip(cells, records.values(), strict=True)
    ]


def test_edits_are_described_as_in_python(
    worker: Worker, records: dict[str, TranslationRecord]
) -> None:
    """Every form of edit, with tokens that repeat, tokens past the end, and numbers of any size."""
    record = records["plain"]
    kinds = ("encoder", "decoder", "cross")
    parts = ["causal", "padding", "hide.1", "hide.6", "hide.40"]
    words = (("off", 0), ("mean", 1), ("uniform", 2))
    parts += [f"{word}.{kind}.1.{head}" for (word, head), kind in product(words, kinds)]
    places = ("all.all.all.all", "0.1.2.3", "1.all.9.0", "2.3.99.98", "all.0.all.5")
    parts += [f"cut.{kind}.{place}" for kind, place in product(kinds, places)]
    factors = ("0.5", "1000000", "123456.789", "0.000001", "0.0001234567", "100000", "33.333333333")
    parts += [f"times.{kind}.3.3.{i}.1.{one}" for kind in kinds for i, one in enumerate(factors)]
    parts += [f"row.{kind}.0.0.{place}.0.5-0.5" for kind, place in product(kinds, (1, 30))]
    values = ("0.01", "99.5", "0.3333333")
    parts += [f"temp.cross.{i}.1.{value}" for i, value in enumerate(values)]
    for moved in ("scale-0", "scale-0.5_shift-2", "stretch-3_shift--7", "stretch--1_order-1-0"):
        for side in ("source", "target"):
            text = "~".join([*parts, f"positions.{side}.{moved}"])
            edits, problems = Edits.parse(text)
            assert not problems
            script = """([text, record]) =>
              listedEdits(listEdits(parseEdits(text)), revived(record))"""
            data = json.dumps(as_worker(record), default=described_arrays)
            found = worker.page.evaluate(script, [text, data])
            assert found == listed(edits, record)


def test_words_are_compared_as_by_difflib(worker: Worker) -> None:
    """Case is ignored."""
    random = np.random.default_rng(5)
    letters = list("abcAB\u00df\u00c4e")
    words = ["".join(random.choice(letters, random.integers(1, 9))) for _ in range(400)]
    pairs = [*pairwise(words)]
    script = "(pairs) => pairs.map(([one, other]) => similarity(one, other))"
    found = worker.page.evaluate(script, [list(pair) for pair in pairs])
    expected = [
        SequenceMatcher(None, *(word.casefold() for word in pair)).ratio() for pair in pairs
    ]
    np.testing.assert_allclose(found, expected)


def test_labels_are_pythons(worker: Worker) -> None:
    """Texts are single characters of many categories, and mixtures of invisible characters."""
    categories = ("Cc", "Cf", "Zs", "Zl", "Zp", "So", "Sk", "Pd", "Po", "Ps", "Sm", "Mn", "Lu")
    rare = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) in categories]
    usual = ["a", " ", "-", ".", "\u200d", "\ufe0f", "\u2764", "\U0001f469", "\u3164", "\U000e0101"]
    random = np.random.default_rng(7)
    texts = ["", " ", "  ", *rare[:3000], *random.choice(rare, 2000)]
    texts += ["".join(random.choice(usual, random.integers(1, 7))) for _ in range(2000)]
    starts, special = random.random((2, len(texts))) < 0.3
    tokens = [
        RecordToken(i, "", text, bool(starts[i]), bool(special[i]), False)
        for i, text in enumerate(texts)
    ]
    script = """(text) => {
      const tokens = JSON.parse(text);
      const shown = displayTokens(tokens, 0).map(({ parts, punctuation }) => [parts, punctuation]);
      return JSON.stringify([shown, tokens.map(shortLabel), groupWords(tokens)]);
    }"""
    text = worker.page.evaluate(script, json.dumps([token(one) for one in tokens]))
    shown, shorts, words = json.loads(text)
    assert shown == [
        [[*map(list, segments(one.text))], not one.special and is_punctuation(one.text)]
        for one in tokens
    ]
    assert shorts == [*map(short, tokens)]
    assert words == [list(word) for word in group_words(tokens)]


@pytest.mark.parametrize("name", [*CASES, "without alternatives"])
def test_the_written_token_is_among_the_alternatives(
    worker: Worker, records: dict[str, TranslationRecord], name: str
) -> None:
    """It replaces the least probable one if it is none of them."""
    record = records.get(name) or replace(
        records["given"],
        alternatives=((),) * len(records["given"].target_out),
        alternative_log_probs=np.zeros((len(records["given"].target_out), 0), np.float32),
    )
    raw = {
        "target_out": [token(one) for one in record.target_out],
        "alternatives": [[token(one) for one in row] for row in record.alternatives],
    }
    script = """([text, others, own]) => {
      const raw = { ...JSON.parse(text), alternative_log_probs: Uint8Array.from(others) };
      return alternativesOf(raw, Float32Array.from(own));
    }"""
    others = [*record.alternative_log_probs.astype("<f4").tobytes()]
    arguments = [json.dumps(raw), others, record.log_probs.tolist()]
    found = worker.page.evaluate(script, arguments)
    added = 0
    for t, own in enumerate(record.target_out):
        pairs = zip(record.alternatives[t], record.alternative_log_probs[t], strict=True)
        rows = [(one.id == own.id, short(one), log_prob) for one, log_prob in pairs]
        if not any(written for written, *_ in rows):
            rows[-1:] = [(True, short(own), record.log_probs[t])]
            assert [one["added"] for one in found[t]] == [False] * (len(rows) - 1) + [True]
            added += 1
        shown = [(one["written"], one["label"]) for one in found[t]]
        assert shown == [(written, words) for written, words, _ in rows]
        assert [one["probability"] for one in found[t]] == pytest.approx(
            [min(1, np.exp(log_prob)) for *_, log_prob in rows], abs=1e-6
        )
    assert name not in ("given", "without alternatives") or added
