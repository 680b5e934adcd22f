"""The offline page's search and records equal Python's, in Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Page

from app.components.assets import joined
from core.accelerate.network import FastTopTokens
from core.config import DecodeConfig
from core.experiments.head_effects import head_effects
from core.kinds import KINDS
from core.record.edits import Edits
from core.search.beam import search
from core.translator import InputError, Translator
from tests.offline_equality import DIRECTIONS, OfflineNetwork, compare, own_sentences

ROOT = Path(__file__).parents[2]
SEARCH = joined(ROOT / "app/components/network/search.js")
TEXT = "Ein Mann fährt mit seinem Fahrrad durch den Park."


class Walk:
    """The state of a search: for each row of the batch, its row in the table of `Table`."""

    def __init__(self, at_B: torch.Tensor):
        self.at_B = at_B

    def select(self, rows_B: torch.Tensor) -> Walk:
        return Walk(self.at_B[rows_B])


class Table:
    """A network whose logits are a row of a table, chosen by all tokens so far."""

    def __init__(self, table_RV: np.ndarray, max_length: int):
        self.table_RV = torch.from_numpy(table_RV)
        self.config = SimpleNamespace(max_length=max_length)
        self.top_tokens = FastTopTokens()

    def start(self, source: torch.Tensor) -> Walk:
        return Walk(torch.zeros(len(source), dtype=torch.int64))

    def step(self, token_B: torch.Tensor, state: Walk) -> tuple[torch.Tensor, Walk]:
        at_B = (state.at_B * 31 + token_B + 7) % len(self.table_RV)
        return self.table_RV[at_B].clone(), Walk(at_B)


WALK = f"""(json) => {{
    {SEARCH}
    return JSON.stringify(JSON.parse(json).map(({{ rows, most, length, beam, alpha, forced }}) => {{
        const table = rows.map((row) => Float32Array.from(row));
        const network = {{
            config: {{ max_length: most }},
            free() {{}},
            encode: () => null,
            start: () => ({{ at: [0] }}),
            step(ids, parents, cache) {{
                cache.at = ids.map((id, b) => (cache.at[parents[b]] * 31 + id + 7) % table.length);
                return Float32Array.from(cache.at.flatMap((at) => [...table[at]]));
            }},
        }};
        const found = search(network, Array(length).fill(4), {{ beam, alpha, forced }});
        return found.map((one) => [one.ids, one.logProb, one.score, one.logProbs]);
    }}));
}}"""


def cases() -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Yield cases with random tables; some have a small vocabulary, or one row and hence ties."""
    random = np.random.default_rng(0)
    for number in range(160):
        tied = number % 4 == 0
        rows, size = (1 if tied else int(random.choice([2, 5, 40]))), int(random.choice([5, 7, 60]))
        table_RV = random.normal(size=(rows, size)) * random.choice([0.5, 2, 5])
        if tied:  # equal tokens, so that sums are exactly equal in any order
            table_RV = random.choice(table_RV[0, :3], size=(1, size))
        table_RV[:, 2] += random.choice([0, 1, 3, -3])  # <eos>
        table_RV = np.float32(table_RV)
        yield (
            {
                "rows": table_RV.tolist(),
                "most": int(random.choice([3, 12, 256])),
                "length": int(random.integers(1, 9)),
                "beam": int(random.choice([1, 2, 3, 4, 5, 8, 16])),
                "alpha": float(random.choice([0, 0.6, 1, 2.5])),
                "forced": [3, 4][: number % 5 // 2],  # for most none, for some one or two ids
            },
            table_RV,
        )


def test_searches_over_tables_give_pythons_hypotheses(computing_page):
    """Cases include length limits, penalties, ties, early stopping and tiny vocabularies."""
    every = list(cases())
    found = json.loads(computing_page.evaluate(WALK, json.dumps([case for case, _ in every])))
    ended_by_limit = 0
    for (case, table_RV), hypotheses in zip(every, found, strict=True):
        source = torch.full((1, case["length"]), 4)
        config = DecodeConfig(beam=case["beam"], length_penalty=case["alpha"])
        forced = tuple(case["forced"])
        expected = search(Table(table_RV, case["most"]), source, config, forced)[0]
        assert all(ids[: len(forced)] == case["forced"][: len(ids)] for ids, *_ in hypotheses)
        assert [ids for ids, *_ in hypotheses] == [list(h.ids) for h in expected], case
        for (ids, log_prob, score, log_probs), h in zip(hypotheses, expected, strict=True):
            assert [log_prob, score] == pytest.approx([h.log_prob, h.score], abs=1e-5)
            assert sum(log_probs) == pytest.approx(log_prob, abs=1e-9)
            ended_by_limit += ids[-1] != 2
    assert ended_by_limit > 50


@pytest.fixture(scope="module")
def offline(computing_page: Page) -> OfflineNetwork:
    return OfflineNetwork(computing_page, ROOT / "checkpoints/scratch-de-en")


@pytest.fixture(scope="module")
def backwards(browser) -> Iterator[OfflineNetwork]:
    page = browser.new_page()
    yield OfflineNetwork(page, ROOT / "checkpoints/scratch-en-de")
    page.close()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_sentences_have_the_same_hypotheses_and_maps(request, translator, direction):
    """Every sixth sentence is compared; `python -m tests.offline_equality` compares all."""
    if direction == "en-de":
        translator = Translator.load(ROOT / "checkpoints/scratch-en-de", device="cpu")
    offline = request.getfixturevalue({"de-en": "offline", "en-de": "backwards"}[direction])
    texts = own_sentences(direction)[::6]
    greedy = [[list(h.ids) for h in t.hypotheses] for t in translator.translate(texts, beam=1)]
    assert offline.hypotheses(texts, 1) == greedy
    report = compare(translator, offline, texts, 5)
    assert report.passed, report
    assert report.sentences == len(texts) >= DIRECTIONS[direction] // 6


def test_a_record_has_pythons_fields(translator, offline):
    own, found = translator.inspect(TEXT), offline.inspect(TEXT)

    def fields(tokens: Any) -> list[dict[str, Any]]:
        return [{name: getattr(token, name) for name in token.__slots__} for token in tokens]

    assert found["source"] == fields(own.source)
    assert found["targetIn"] == fields(own.target_in)
    assert found["targetOut"] == fields(own.target_out)
    assert found["alternatives"] == [fields(row) for row in own.alternatives]
    log_probs = found["alternativeLogProbs"].reshape(own.alternative_log_probs.shape)
    np.testing.assert_allclose(log_probs, own.alternative_log_probs, atol=1e-4)
    for name in ("source", "target"):
        positions = getattr(own, f"{name}_positions")
        shown = found[f"{name}Positions"].reshape(positions.shape)
        np.testing.assert_allclose(shown, positions, atol=1e-6)
    for kind in KINDS:
        assert list(found["masks"][kind].values()) == own.mask(kind).ravel().tolist()
    assert [h["text"] for h in found["hypotheses"]] == [h.text for h in own.hypotheses]
    for js, value in {
        "model": own.model,
        "weightsSha256": own.weights_sha256,
        "sourceLanguage": "German",
        "targetLanguage": "English",
        "sourceText": own.source_text,
        "translation": own.translation,
        "search": own.search,
        "decode": {"beam": 5, "lengthPenalty": 1},
        "editsText": "",
    }.items():
        assert found[js] == value, js


@pytest.mark.parametrize(
    "edits",
    [
        "hide.2",
        "off.cross.2.0~uniform.encoder.1.3",
        "cut.decoder.0.1.all.0",
        "temp.cross.3.1.0.2",
        "row.cross.1.2.3.0.5-0-0.5",
    ],
)
def test_searches_and_records_under_edits_are_pythons(translator, offline, edits):
    own = translator.inspect(TEXT, edits=Edits.parse(edits)[0])
    found = offline.inspect(TEXT, edits=edits)
    assert [h["ids"] for h in found["hypotheses"]] == [list(h.ids) for h in own.hypotheses]
    np.testing.assert_allclose(found["logProbs"], own.log_probs, atol=1e-4)
    for kind in KINDS:
        np.testing.assert_allclose(found[kind], own.maps(kind), atol=1e-5)
        assert list(found["masks"][kind].values()) == own.mask(kind).ravel().tolist()
    assert found["search"] == own.search == "beam 5, edited"
    assert [check for check in found["checks"] if not check["passed"]] == []


def test_a_given_target_has_pythons_pass(translator, offline):
    target = "A woman is eating ☃ in the park <eos>."
    own = translator.inspect(TEXT, target)
    found = offline.inspect(TEXT, target=target)
    by_ids = offline.inspect(TEXT, target=[t.id for t in own.target_out])
    assert [t["text"] for t in found["targetOut"]] == [t.text for t in own.target_out]
    assert found["search"] == own.search == "given target" and found["decode"] is None
    for one in (found, by_ids):
        assert [t["id"] for t in one["targetOut"]] == [t.id for t in own.target_out]
        assert one["hypotheses"] == [] and one["translation"] == own.translation
        np.testing.assert_allclose(one["logProbs"], own.log_probs, atol=1e-4)
        np.testing.assert_allclose(one["cross"], own.cross, atol=1e-5)
    # Without the causal mask there is no search, but a given target has a pass.
    free = translator.inspect(TEXT, target, edits=Edits(causal_mask=False))
    found = offline.inspect(TEXT, target=target, edits="causal")
    np.testing.assert_allclose(found["decoder"], free.decoder, atol=1e-5)
    assert "A later token changes no earlier row" not in {c["name"] for c in found["checks"]}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        (" \u200b\n", {}),
        ("x" * 501, {}),
        ("😀" * 501, {}),
        ("1" * 120, {}),
        ("Ein \udc80 Hund", {}),
        ("ein\ud800", {}),
        (TEXT, {"target": "a " * 300}),
        (TEXT, {"target": "1" * 101}),
        (TEXT, {"edits": "causal"}),
        ("Hund", {"edits": "hide.0~hide.1"}),
        ("Hund", {"edits": "hide.0~hide.7"}),
        (TEXT, {"edits": "off.cross.9.0"}),
    ],
)
def test_bad_input_is_refused_in_the_same_words(translator, offline, text, options):
    edits = Edits.parse(options.get("edits", ""))[0]
    with pytest.raises((InputError, ValueError)) as refused:
        translator.inspect(text, options.get("target"), edits)
    found = offline.inspect(text, **options)
    assert found.get("failed") == str(refused.value)


def test_accepted_texts_are_read_as_in_python(translator, offline):
    """These include unknown letters, special tokens as text, and the longest texts."""
    for text in (
        "☃ und 猫",
        "<eos> <pad> Hund <unk>",
        "1" * 100,
        "😀" * 500,
        "Hund\t\x85 &amp; Katze",
    ):
        own, found = translator.inspect(text, beam=1), offline.inspect(text, beam=1)
        assert [t["text"] for t in found["source"]] == [t.text for t in own.source]
        assert found["translation"] == own.translation


@pytest.mark.parametrize("edits", ["", "off.encoder.0.1~hide.1"])
def test_effects_of_all_heads_are_pythons(translator, offline, edits):
    text = "Zwei Kinder spielen."
    record = translator.inspect(text, edits=Edits.parse(edits)[0])
    expected, found = head_effects(translator, record), offline.effects(text, edits)
    for kind in KINDS:
        changes = expected.changes[kind]
        np.testing.assert_allclose(found[kind].reshape(changes.shape), changes, atol=1e-4)
    if edits:
        assert np.abs(expected.changes["encoder"][0, 1]).max() < 1e-9


NAMES = [
    "Every row sums to 1",
    "A masked cell is exactly 0",
    "Recording leaves the output unchanged",
    "A later token changes no earlier row",
    "Search and pass agree",
]
# Each in the first and in a later row, head and layer: weights are [layer, head, query, key], and
# logits [row, token].
_LAST = "capture.cross.weights.length - 1"
_LATER_KEY = "capture.decoder.weights.length - 3 * ids.length + ids.length - 1"
BROKEN = {
    "a weight is too large": ("if (capture) capture.cross.weights[0] += 1e-4;", {0}),
    "the last weight is too large": (f"if (capture) capture.cross.weights[{_LAST}] += 1e-4;", {0}),
    "a masked cell holds weight": ("if (capture) capture.decoder.weights[1] = 1e-9;", {1}),
    "a masked cell of the last head holds weight": (
        f"if (capture) capture.decoder.weights[{_LATER_KEY}] = 1e-9;",
        {1},
    ),
    "recording changes the last row": ("if (capture) logits[logits.length - 1] += 1e-6;", {2}),
    "recording loses a number": ("if (capture) logits[0] = NaN;", {2, 3, 4}),
    "the first row sees the last token": ("logits[0] += 1e-6 * ids.at(-1);", {3}),
    "a middle row sees the last token": (
        "logits[4 * (logits.length / ids.length) + 9] += 1e-6 * ids.at(-1);",
        {3},
    ),
    "the last row but one sees the last token": (
        "logits[logits.length - logits.length / ids.length - 1] += 1e-6 * ids.at(-1);",
        {3},
    ),
    "the pass is another one": ("logits.forEach((x, i) => (logits[i] = 1.01 * x));", {4}),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_checks_notice_a_broken_network(offline, broken):
    change, failing = BROKEN[broken]
    work = """([text, change]) => {
        const broken = Object.create(offline.network);
        const wrong = new Function("ids", "logits", "capture", change);
        broken.decode = (ids, memory, edits, capture) => {
            const logits = offline.network.decode(ids, memory, edits, capture);
            wrong(ids, logits, capture);
            return logits;
        };
        const check = (network) => offline.inspect(network, offline.tokenizers, text).checks;
        return [check(offline.network), check(broken)];
    }"""
    whole, found = offline.page.evaluate(work, [TEXT, change])
    assert [check["name"] for check in whole] == [check["name"] for check in found] == NAMES
    assert all(check["passed"] and check["figure"] <= check["limit"] for check in whole)
    assert {i for i, check in enumerate(found) if not check["passed"]} == failing
    S, T = 11, 11
    rows = 4 * 4 * (S + 2 * T)
    assert f"each of {rows} rows" in whole[0]["words"]
    assert f"{4 * 4 * T * (T - 1) // 2} cells are masked" in whole[1]["words"]
    assert f"in the {T - 1} rows before it" in whole[3]["words"]
    assert f"over all {T} tokens" in whole[4]["words"]
