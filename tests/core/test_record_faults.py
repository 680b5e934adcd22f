"""Each injected fault in a record's texts, probabilities and positions fails its check.

Tests of the evidence also run on torch.nn.Transformer with the same weights.
"""

import dataclasses
import io
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from core.config import DecodeConfig
from core.model.transformer import Transformer
from core.record.capture import Captured
from core.record.checks import check
from core.record.edits import Edits
from core.record.record import RecordHypothesis, TranslationRecord
from core.record.teacher_forced import teacher_forced_pass, teacher_forced_passes
from core.text.tokenizer import BOS, UNK
from core.translator import Translator
from tests.core.test_check import LABELS, POSITIONS, PROBABILITIES, RECOMPUTED, TEXT, with_values
from tests.small import refused

ROOT = Path(__file__).parents[2] / "checkpoints"
SENTENCE = "Two young men are playing soccer in the park."
Record = TranslationRecord


@pytest.fixture(scope="module")
def translator(request):
    loaded = Translator.load(ROOT / "scratch-en-de", device="cpu")
    return loaded.other_implementation() if getattr(request, "param", "") == "torch" else loaded


both = pytest.mark.parametrize("translator", ["own", "torch"], indirect=True, scope="module")


@pytest.fixture(scope="module")
def record(translator):
    record = translator.inspect(SENTENCE)
    assert len(record.target_out) > 5 and len(record.hypotheses) == 5
    assert len({h.text for h in record.hypotheses}) > 1
    return record


@pytest.fixture(scope="module")
def evidence(translator, record):
    source, target = ([t.id for t in side] for side in (record.source, record.target_out))
    with translator.exclusive_model() as model:
        return teacher_forced_pass(
            model, source, target, hypotheses=[h.ids for h in record.hypotheses]
        ).evidence


def failed(record: Record) -> set[int]:
    return {i for i, line in enumerate(record.checks) if not line.passed}


def texts_shifted(side: str) -> Callable[[Record], dict]:
    """Move every token to the next place, but leave the ids where they are."""

    def plant(r: Record) -> dict:
        tokens = getattr(r, side)
        ids = [t.id for t in tokens]
        shifted = [*tokens[1:], tokens[0]]
        return {
            side: tuple(dataclasses.replace(t, id=i) for t, i in zip(shifted, ids, strict=True))
        }

    return plant


def hypotheses(change: Callable[[list], list]) -> Callable[[Record], dict]:
    return lambda r: {"hypotheses": tuple(change(list(r.hypotheses)))}


def swapped(*names: str) -> Callable[[Record], dict]:
    """Swap some fields between the best hypothesis and the next one whose text differs."""

    def plant(r: Record) -> dict:
        best, *rest = r.hypotheses
        other = next(i for i, h in enumerate(rest) if h.text != best.text)
        ours = {name: getattr(best, name) for name in names}
        theirs = {name: getattr(rest[other], name) for name in names}
        rest[other] = dataclasses.replace(rest[other], **ours)
        return {"hypotheses": (dataclasses.replace(best, **theirs), *rest)}

    return plant


def rescored(alpha: float, more: int = 0) -> Callable[[list], list]:
    return lambda found: [
        dataclasses.replace(h, score=h.log_prob / ((5 + len(h.ids) + more) / 6) ** alpha)
        for h in found
    ]


def changed(side: str, place: int, **values: object) -> Callable[[Record], dict]:
    def plant(r: Record) -> dict:
        tokens = list(getattr(r, side))
        tokens[place] = dataclasses.replace(tokens[place], **values)
        return {side: tuple(tokens)}

    return plant


def best_alternative_missing(r: Record) -> dict:
    """The other alternatives keep their log-probabilities, and the last one is repeated."""
    kept = [*range(1, len(r.alternatives[0])), -1]
    return {
        "alternatives": tuple(tuple(row[k] for k in kept) for row in r.alternatives),
        "alternative_log_probs": r.alternative_log_probs[:, kept],
    }


def moved(name: str, axis: int = 0) -> Callable[[Record], dict]:
    return lambda r: {name: np.roll(getattr(r, name), 1, axis)}


def rows(change: Callable[[tuple], Iterable]) -> Callable[[Record], dict]:
    return lambda r: {"alternatives": tuple(change(r.alternatives))}


def another_word(rows: tuple) -> tuple:
    (best, *others), *later = rows
    return (dataclasses.replace(best, text="Hunde"), *others), *later


def last(**change: Callable[[RecordHypothesis], object]) -> Callable[[Record], dict]:
    """Change fields of the last hypothesis."""
    return hypotheses(
        lambda h: [
            *h[:-1],
            dataclasses.replace(h[-1], **{name: of(h[-1]) for name, of in change.items()}),
        ]
    )


TEXT_FAULTS = {
    "source texts shifted": texts_shifted("source"),
    "decoder input texts shifted": texts_shifted("target_in"),
    "output texts shifted": texts_shifted("target_out"),
    "one vocabulary entry changed": changed("source", 2, piece="▁old"),
    "a word's beginning moved": changed("target_out", 2, starts_word=False),
    "a word marked unknown": changed("target_out", 1, unknown=True),
    "another source text": lambda r: {"source_text": r.source_text.replace("soccer", "tennis")},
    "another hypothesis's text as the translation": lambda r: {
        "translation": next(h.text for h in r.hypotheses if h.text != r.translation)
    },
    "hypotheses' texts in another order": swapped("text"),
    "an alternative's word changed": rows(another_word),
}
PROBABILITY_FAULTS = {
    "hypotheses' sums in another order": swapped("log_prob"),
    "a sum off by a thousandth": last(log_prob=lambda h: h.log_prob - 1e-3),
    "a hypothesis's ids changed, not its text": last(ids=lambda h: (*h.ids, BOS)),
    "no length penalty": hypotheses(rescored(0.0)),
    "a length without the <eos>": hypotheses(rescored(1.0, more=-1)),
    "no search label": lambda r: {"decode": None},
    "a search without hypotheses": lambda r: {"hypotheses": ()},
    "alternatives one step late": rows(lambda rows: (rows[-1], *rows[:-1])),
    "alternatives' probabilities one step late": moved("alternative_log_probs"),
    "alternatives in another order": rows(lambda rows: (row[::-1] for row in rows)),
    "the best alternative missing": best_alternative_missing,
    "tokens' log-probabilities rotated, their sum kept": moved("log_probs"),
    "one log-probability changed": lambda r: {
        "log_probs": r.log_probs + np.float32(1e-3) * np.eye(1, len(r.log_probs))[0]
    },
}
POSITION_FAULTS = {
    "source positions off by one": moved("source_positions"),
    "target positions off by one": moved("target_positions"),
    "sines and cosines swapped": moved("target_positions", 1),
    "position vectors cut in half": lambda r: {"source_positions": r.source_positions[:, :64]},
}
FAULTS = {
    **{name: (plant, {TEXT}) for name, plant in TEXT_FAULTS.items()},
    **{name: (plant, {PROBABILITIES}) for name, plant in PROBABILITY_FAULTS.items()},
    **{name: (plant, {POSITIONS}) for name, plant in POSITION_FAULTS.items()},
    "an unknown word invented": (
        changed("source", 1, id=UNK, piece="<unk>", unknown=True), {TEXT, LABELS}),
    "the best hypothesis last": (
        hypotheses(lambda found: [*found[1:], found[0]]), {LABELS, PROBABILITIES}),
}  # fmt: skip


@both
def test_an_unmodified_record_passes(translator, record, evidence):
    assert failed(record) == set() and len(record.checks) == 8
    assert check(record, evidence, (translator._source, translator._target)) == record.checks


@pytest.mark.parametrize("fault", FAULTS)
def test_an_injected_fault_fails_its_check(translator, record, evidence, fault):
    plant, expected = FAULTS[fault]
    lines = check(
        with_values(record, **plant(record)), evidence, (translator._source, translator._target)
    )
    assert {i for i, line in enumerate(lines) if not line.passed} == expected


def layers_reversed(translator: Translator, monkeypatch) -> None:
    original = Captured.maps
    monkeypatch.setattr(Captured, "maps", lambda self, kind: original(self, kind).flip(0))


def position_table_off_by_one(translator: Translator, monkeypatch) -> None:
    with translator.exclusive_model() as model:
        for positions in (model.embeddings.source_positions, model.embeddings.target_positions):
            monkeypatch.setitem(positions._buffers, "table", positions.table.roll(-1, dims=0))


def no_penalty_in_the_search(translator: Translator, monkeypatch) -> None:
    monkeypatch.setattr("core.search.beam.penalised", lambda log_prob, length, alpha: log_prob)


def steps_see_another_position(translator: Translator, monkeypatch) -> None:
    with translator.exclusive_model() as model:
        original = model.embeddings.target_token
    monkeypatch.setattr(
        model.embeddings,
        "target_token",
        lambda ids, position: original(ids, position + (position > 0)),
    )


CODE_FAULTS = {
    layers_reversed: {RECOMPUTED},
    position_table_off_by_one: {POSITIONS},
    no_penalty_in_the_search: {PROBABILITIES},
    steps_see_another_position: {PROBABILITIES},
}


@both
@pytest.mark.parametrize("fault", CODE_FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_in_the_code_fails_its_check(translator, monkeypatch, fault):
    with translator.exclusive_model() as model:
        if fault is steps_see_another_position and not isinstance(model, Transformer):
            pytest.skip("torch.nn.Transformer decodes without a cache")
    fault(translator, monkeypatch)
    assert failed(translator.inspect(SENTENCE)) == CODE_FAULTS[fault]


@both
def test_no_false_alarms_for_typed_texts(translator):
    """Try unknown characters, special token names, leading punctuation, given targets and edits."""
    for text in ("A man 🙂 <eos> has no (dog) …", ", and then?", "It is\u200b İ&amp;#."):
        for decode in (
            DecodeConfig(),
            DecodeConfig(beam=1),
            DecodeConfig(beam=2, length_penalty=0.6),
        ):
            assert failed(translator.inspect(text, decode=decode)) == set()
        for target in (", Ein Mann 🙂!", "<unk> Łódź", "Hund", ""):
            assert failed(translator.inspect(text, target)) == set()
    assert failed(translator.inspect(SENTENCE, edits=Edits(hidden_source=(1, 2)))) == set()


def reloaded(record: Record) -> Record:
    return TranslationRecord.load(io.BytesIO(record.to_bytes()))


@both
def test_a_loaded_record_can_be_rechecked(translator, record):
    again = translator.recheck(reloaded(record))
    assert failed(again) == set() and again.id == record.id
    assert [line.name for line in again.checks] == [line.name for line in record.checks]
    none = np.zeros((len(record.target_out), 0), np.float32)
    bare = dataclasses.replace(record, alternatives=((),) * len(none), alternative_log_probs=none)
    again = translator.recheck(reloaded(bare))
    assert len(again.checks) == 8 and failed(again) == set()


ALTERED = {
    "a map changed": (lambda r: {"cross": r.cross[:, [1, 0, 2, 3]]}, {RECOMPUTED}),
    "a source token changed": (changed("source", 1, id=11), {RECOMPUTED, TEXT, PROBABILITIES}),
    "the translation changed": (lambda r: {"translation": "Hunde."}, {TEXT}),
    "a score changed": (hypotheses(rescored(0.9)), {PROBABILITIES}),
    "positions changed": (moved("target_positions"), {POSITIONS}),
}


@pytest.mark.parametrize("edit", ALTERED)
def test_recheck_detects_an_altered_file(translator, record, edit):
    change, expected = ALTERED[edit]
    values = {
        name: value.astype(np.float32) if isinstance(value, np.ndarray) else value
        for name, value in change(record).items()
    }
    forged = reloaded(dataclasses.replace(record, **values))
    assert failed(forged) == set()  # its stored checks passed
    assert failed(translator.recheck(forged)) == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"weights_sha256": "0" * 64}, "other weights than those of scratch-en-de"),
        ({"model": "gpt"}, "it claims to be of gpt, English, German"),
        ({"model": "a" + "\nb" * 10**6}, "it claims to be of a b b b"),
        ({"source_language": "French"}, "French"),
        ({"lost_edits": True}, "under edits"),
    ],
)
def test_recheck_rejects_a_record_of_another_model(translator, record, values, message):
    with refused(message):
        translator.recheck(dataclasses.replace(record, **values))


def test_recheck_holds_the_lock(translator, record, monkeypatch):
    held = []

    def watched(*arguments, **named):
        held.append(translator._lock.locked())
        return teacher_forced_passes(*arguments, **named)

    monkeypatch.setattr("core.translator.teacher_forced_passes", watched)
    translator.recheck(record)
    assert held == [True] and not translator._lock.locked()


def test_recheck_rejects_tokens_outside_the_vocabulary(translator, record):
    first, *rest = record.alternatives
    best = record.hypotheses[0]

    def alternative(id: int) -> dict:
        return {"alternatives": ((dataclasses.replace(first[0], id=id), *first[1:]), *rest)}

    def hypothesis(*ids: int) -> dict:
        return {"hypotheses": (best, dataclasses.replace(best, ids=ids))}

    outside, long = (
        "token id (8000|-1): the vocabulary has 8,000",
        "tokens: this model takes 1 to 256",
    )
    for values, message in (
        (changed("source", 1, id=8000)(record), outside),
        (changed("source", 1, id=-1)(record), outside),
        (changed("target_in", 0, id=8000)(record), outside),
        (changed("target_out", -1, id=8000)(record), outside),
        (alternative(8000), outside),
        (alternative(-1), outside),
        (hypothesis(9, 10**9), "token id 1000000000"),
        ({"source": record.source[:1] * 257}, f"257 {long}"),
        ({"target_out": record.target_out[:1] * 257}, f"257 {long}"),
        (hypothesis(*[9] * 300), f"300 {long}"),
        (hypothesis(), f" 0 {long}"),
        ({"alternatives": (first[:1] * 8001,) * (1 + len(rest))}, "8,001 alternatives per step"),
        ({"hypotheses": (best,) * 17}, "17 hypotheses"),
    ):
        with refused(message):
            translator.recheck(with_values(record, **values))


def test_search_labels_round_trip():
    for decode in (DecodeConfig(beam=3), DecodeConfig(length_penalty=0.6), DecodeConfig(beam=16)):
        assert DecodeConfig.from_label(decode.label) == decode
    assert DecodeConfig.from_label("greedy").beam == 1
    assert DecodeConfig(length_penalty=1e-7).label == "beam 5, length penalty 1e-07"
    for label in ("given target", "", "beam", "beam 99", "beam 05", "beam 5, edited"):
        with pytest.raises(ValueError):
            DecodeConfig.from_label(label)
