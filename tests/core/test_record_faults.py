"""Each injected fault in a record's texts, probabilities and positions fails its check.

The tests run on a shipped model and on torch.nn.Transformer with the same weights.
"""

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from core.config import DecodeConfig
from core.model.transformer import Transformer
from core.record.capture import Captured
from core.record.checks import check
from core.record.edits import Edits
from core.record.record import TranslationRecord
from core.record.teacher_forced import teacher_forced_pass
from core.text.tokenizer import BOS, UNK
from core.translator import Translator
from tests.core.test_check import LABELS, POSITIONS, PROBABILITIES, RECOMPUTED, TEXT, with_values

ROOT = Path(__file__).parents[2] / "checkpoints"
SENTENCE = "Two young men are playing soccer in the park."
Record = TranslationRecord


@pytest.fixture(scope="module", params=["scratch", "baseline"])
def translator(request):
    loaded = Translator.load(ROOT / "scratch-en-de", device="cpu")
    return loaded if request.param == "scratch" else loaded.other_implementation()


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


def best_alternative_twice(r: Record) -> dict:
    return {"alternatives": tuple((row[0], row[0], *row[2:]) for row in r.alternatives)}


def best_alternative_missing(r: Record) -> dict:
    """The other alternatives keep their log-probabilities, and the last one is repeated."""
    log_probs = r.alternative_log_probs
    return {
        "alternatives": tuple((*row[1:], row[-1]) for row in r.alternatives),
        "alternative_log_probs": np.concatenate((log_probs[:, 1:], log_probs[:, -1:]), axis=1),
    }


def moved(name: str, axis: int = 0) -> Callable[[Record], dict]:
    return lambda r: {name: np.roll(getattr(r, name), 1, axis)}


FAULTS: dict[str, tuple[Callable[[Record], dict], set[int]]] = {
    "source texts shifted": (texts_shifted("source"), {TEXT}),
    "decoder input texts shifted": (texts_shifted("target_in"), {TEXT}),
    "output texts shifted": (texts_shifted("target_out"), {TEXT}),
    "one word changed": (changed("target_out", 1, text="Hunde"), {TEXT}),
    "one vocabulary entry changed": (changed("source", 2, piece="▁old"), {TEXT}),
    "a word's beginning moved": (changed("target_out", 2, starts_word=False), {TEXT}),
    "a word marked unknown": (changed("target_out", 1, unknown=True), {TEXT}),
    "an unknown word invented": (
        changed("source", 1, id=UNK, piece="<unk>", unknown=True),
        {TEXT, LABELS},
    ),
    "another source text": (
        lambda r: {"source_text": r.source_text.replace("soccer", "tennis")},
        {TEXT},
    ),
    "the second hypothesis's text as the translation": (
        lambda r: {"translation": next(h.text for h in r.hypotheses if h.text != r.translation)},
        {TEXT},
    ),
    "hypotheses' texts in another order": (swapped("text"), {TEXT}),
    "the last hypothesis's text changed": (
        hypotheses(lambda h: [*h[:-1], dataclasses.replace(h[-1], text="Hunde.")]),
        {TEXT},
    ),
    "hypotheses' sums in another order": (swapped("log_prob"), {PROBABILITIES}),
    "hypotheses' sums and scores in another order": (swapped("log_prob", "score"), {PROBABILITIES}),
    "the best hypothesis last": (
        hypotheses(lambda found: [*found[1:], found[0]]),
        {LABELS, PROBABILITIES},
    ),
    "the other hypotheses in another order": (
        hypotheses(lambda found: [found[0], *found[:0:-1]]),
        {PROBABILITIES},
    ),
    "a sum off by a thousandth": (
        hypotheses(lambda h: [*h[:-1], dataclasses.replace(h[-1], log_prob=h[-1].log_prob - 1e-3)]),
        {PROBABILITIES},
    ),
    "no length penalty": (hypotheses(rescored(0.0)), {PROBABILITIES}),
    "half the length penalty": (hypotheses(rescored(0.5)), {PROBABILITIES}),
    "a length without the <eos>": (hypotheses(rescored(1.0, more=-1)), {PROBABILITIES}),
    "another search label": (lambda r: {"decode": DecodeConfig(beam=1)}, {PROBABILITIES}),
    "no search label": (lambda r: {"decode": None}, {PROBABILITIES}),
    "a search without hypotheses": (lambda r: {"hypotheses": ()}, {PROBABILITIES}),
    "alternatives one step late": (
        lambda r: {"alternatives": (r.alternatives[-1], *r.alternatives[:-1])},
        {PROBABILITIES},
    ),
    "alternatives' probabilities one step late": (moved("alternative_log_probs"), {PROBABILITIES}),
    "alternatives and their probabilities one step late": (
        lambda r: {
            "alternatives": (r.alternatives[-1], *r.alternatives[:-1]),
            **moved("alternative_log_probs")(r),
        },
        {PROBABILITIES},
    ),
    "alternatives in another order": (
        lambda r: {"alternatives": tuple(row[::-1] for row in r.alternatives)},
        {PROBABILITIES},
    ),
    "one alternative twice": (best_alternative_twice, {PROBABILITIES}),
    "the best alternative missing": (best_alternative_missing, {PROBABILITIES}),
    "an alternative's word changed": (
        lambda r: {
            "alternatives": (
                (dataclasses.replace(r.alternatives[0][0], text="Hunde"), *r.alternatives[0][1:]),
                *r.alternatives[1:],
            )
        },
        {TEXT},
    ),
    "tokens' log-probabilities rotated, their sum kept": (moved("log_probs"), {PROBABILITIES}),
    "one log-probability changed": (
        lambda r: {"log_probs": r.log_probs + np.float32(1e-3) * np.eye(1, len(r.log_probs))[0]},
        {PROBABILITIES},
    ),
    "not a number": (lambda r: {"log_probs": np.full_like(r.log_probs, np.nan)}, {PROBABILITIES}),
    "source positions off by one": (moved("source_positions"), {POSITIONS}),
    "target positions off by one": (moved("target_positions"), {POSITIONS}),
    "sines and cosines swapped": (moved("target_positions", 1), {POSITIONS}),
    "position vectors cut in half": (
        lambda r: {"source_positions": r.source_positions[:, :64]},
        {POSITIONS},
    ),
    "one hypothesis's ids changed": (
        hypotheses(lambda h: [*h[:-1], dataclasses.replace(h[-1], ids=(*h[-1].ids, BOS))]),
        {PROBABILITIES},  # the text is unchanged, as decoding skips <bos>
    ),
}


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


def no_eos_in_the_length(translator: Translator, monkeypatch) -> None:
    def short(log_prob: float, length: int, alpha: float) -> float:
        return log_prob / ((4 + length) / 6) ** alpha

    monkeypatch.setattr("core.search.beam.penalised", short)


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
    no_eos_in_the_length: {PROBABILITIES},
    steps_see_another_position: {PROBABILITIES},
}


@pytest.mark.parametrize("fault", CODE_FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_in_the_code_fails_its_check(translator, monkeypatch, fault):
    with translator.exclusive_model() as model:
        if fault is steps_see_another_position and not isinstance(model, Transformer):
            pytest.skip("torch.nn.Transformer decodes without a cache")
    fault(translator, monkeypatch)
    assert failed(translator.inspect(SENTENCE)) == CODE_FAULTS[fault]


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


def test_a_loaded_record_can_be_rechecked(translator, record):
    again = translator.recheck(reloaded(record))
    assert failed(again) == set() and again.id == record.id
    assert [line.name for line in again.checks] == [line.name for line in record.checks]
    unchecked = dataclasses.replace(record, checks=())
    assert len(translator.recheck(unchecked).checks) == 8


def heads_swapped(r: Record) -> dict:
    return {"cross": r.cross[:, [1, 0, 2, 3]]}


ALTERED = {
    "a map changed": (heads_swapped, {RECOMPUTED}),
    "a map blurred by a hundredth": (
        lambda r: {"encoder": 0.99 * r.encoder + 0.01 * r.encoder[..., ::-1]},
        {RECOMPUTED},
    ),
    "a word changed": (changed("target_out", 1, text="Hunde"), {TEXT}),
    "a source token changed": (changed("source", 1, id=11), {RECOMPUTED, TEXT, PROBABILITIES}),
    "the translation changed": (lambda r: {"translation": "Hunde."}, {TEXT}),
    "a probability changed": (
        lambda r: {"log_probs": np.where(r.log_probs == r.log_probs.min(), 0, r.log_probs)},
        {PROBABILITIES},
    ),
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
    with pytest.raises(ValueError, match=message) as refused:
        translator.recheck(dataclasses.replace(record, **values))
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


def test_recheck_holds_the_lock(translator, record, monkeypatch):
    held = []

    def watched(*arguments, **named):
        held.append(translator._lock.locked())
        return teacher_forced_pass(*arguments, **named)

    monkeypatch.setattr("core.translator.teacher_forced_pass", watched)
    translator.recheck(record)
    assert held == [True] and not translator._lock.locked()


def test_recheck_accepts_a_record_without_alternatives(translator, record):
    none = {
        "alternatives": tuple(() for _ in record.alternatives),
        "alternative_log_probs": record.alternative_log_probs[:, :0],
    }
    assert failed(translator.recheck(reloaded(dataclasses.replace(record, **none)))) == set()


def alternative(id: int) -> Callable[[Record], dict]:
    def plant(r: Record) -> dict:
        first, *rest = r.alternatives
        return {"alternatives": ((dataclasses.replace(first[0], id=id), *first[1:]), *rest)}

    return plant


def test_recheck_rejects_tokens_outside_the_vocabulary(translator, record):
    for plant in (
        changed("source", 1, id=8000),
        changed("source", 1, id=-1),
        changed("target_in", 0, id=8000),
        changed("target_out", -1, id=8000),
        alternative(8000),
        alternative(-1),
    ):
        with pytest.raises(ValueError, match="token id (8000|-1): the vocabulary has 8,000"):
            translator.recheck(with_values(record, **plant(record)))
    for side in ("source", "target_out"):
        long = with_values(record, **{side: getattr(record, side)[:1] * 257})
        with pytest.raises(ValueError, match="257 tokens: this model takes 1 to 256"):
            translator.recheck(long)
    row = record.alternatives[0][:1] * 8001
    many = with_values(record, alternatives=(row,) * len(record.alternatives))
    with pytest.raises(ValueError, match="8,001 alternatives per step: the vocabulary has 8,000"):
        translator.recheck(many)
    best = record.hypotheses[0]
    for h, message in (
        (dataclasses.replace(best, ids=(9,) * 300), "300 tokens: this model takes 1 to 256"),
        (dataclasses.replace(best, ids=()), " 0 tokens: this model takes 1 to 256"),
        (dataclasses.replace(best, ids=(9, 10**9)), "token id 1000000000"),
    ):
        with pytest.raises(ValueError, match=message):
            translator.recheck(with_values(record, hypotheses=(best, h)))
    with pytest.raises(ValueError, match="17 hypotheses"):
        translator.recheck(with_values(record, hypotheses=(best,) * 17))


def test_search_labels_round_trip():
    for decode in (DecodeConfig(beam=3), DecodeConfig(length_penalty=0.6), DecodeConfig(beam=16)):
        assert DecodeConfig.from_label(decode.label) == decode
    assert DecodeConfig.from_label("greedy").beam == 1
    assert DecodeConfig(length_penalty=1e-7).label == "beam 5, length penalty 1e-07"
    for label in ("given target", "", "beam", "beam 99", "beam 05", "beam 5, edited"):
        with pytest.raises(ValueError):
            DecodeConfig.from_label(label)
