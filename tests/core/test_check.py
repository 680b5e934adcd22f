"""Each injected fault fails its check; unmodified records pass, but padding fails the text."""

import copy
import dataclasses
import re
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from core.checkpoint.folder import load
from core.config import DecodeConfig
from core.model.baseline import Baseline, copy_to_baseline
from core.model.build import build
from core.model.interface import Seq2Seq
from core.record.checks import LOGIT_LIMIT, _hypotheses, check, masks_of, scores_of
from core.record.edits import Edits, PositionEdit, Temperature
from core.record.evidence import Evidence, SiteEvidence
from core.record.record import RecordHypothesis, RecordToken, TranslationRecord
from core.record.softmax import weights_of
from core.record.teacher_forced import teacher_forced_pass
from core.text.tokenizer import BOS, EOS, PAD, Frame, Token, special
from tests import small

RECOMPUTED, ROWS, MASKED, LABELS, TEXT, PROBABILITIES, POSITIONS, UNCHANGED = range(8)
SOURCE, TARGET = [9, 8, 7, 6, 11, EOS], [30, 40, 50, 31, 12, EOS]  # equal lengths allow swaps
ARRAYS = ("encoder", "decoder", "cross", "encoder_mask", "decoder_mask", "cross_mask")


class IdTokenizer:
    """A tokenizer whose texts are the ids."""

    first, frame = (), Frame()
    size = 0  # no vocabulary that could have learnt marks
    folds_quotes = False

    def placed(self, text: str) -> list[tuple[Token, int]]:
        return [(self.token(int(word[0])), word.start()) for word in re.finditer("[0-9]+", text)]

    def decode(self, ids: list[int]) -> str:
        return " ".join(map(str, ids))

    def token(self, id: int) -> Token:
        return special(id) if id < 4 else Token(id, str(id), str(id))


TOKENIZERS = IdTokenizer(), IdTokenizer()


def token(id: int) -> RecordToken:
    return RecordToken(**dataclasses.asdict(TOKENIZERS[0].token(id)))


def record_of(
    model: Seq2Seq, source: list[int], target: list[int], edits: Edits = Edits()
) -> tuple[TranslationRecord, Evidence]:
    """Return the record of one teacher-forced pass, with ids as texts, and its evidence."""
    seen = teacher_forced_pass(model, source, target, edits)
    values = {f.name: getattr(seen, f.name) for f in dataclasses.fields(seen)}
    arrays = {k: v.numpy() for k, v in values.items() if isinstance(v, torch.Tensor)}
    arrays = {k: v if v.dtype == bool else v.astype(np.float32) for k, v in arrays.items()}
    words = "model weights_sha256 source_language target_language"
    alternatives = tuple(tuple(map(token, map(int, row))) for row in arrays.pop("alternatives"))
    record = TranslationRecord(
        **dict.fromkeys(words.split(), ""),
        decode=None,
        **arrays,
        source_text=TOKENIZERS[0].decode(source[:-1]),
        translation=TOKENIZERS[1].decode(target),
        source=tuple(map(token, source)),
        target_in=tuple(map(token, [BOS, *target[:-1]])),
        target_out=tuple(map(token, target)),
        alternatives=alternatives,
        hypotheses=(),
        edits=edits,
    )
    return record, seen.evidence


def with_values(record: TranslationRecord, **values: object) -> TranslationRecord:
    """Return a copy with other values, without the validation of TranslationRecord."""
    spoiled = copy.copy(record)
    for name, value in values.items():
        object.__setattr__(spoiled, name, value)
    return spoiled


def failed(record: TranslationRecord, evidence: Evidence, edits: Edits = Edits()) -> set[int]:
    return {
        i for i, line in enumerate(check(record, evidence, TOKENIZERS, edits)) if not line.passed
    }


@pytest.fixture(scope="module", params=["scratch", "baseline"])
def model(request, checkpoint_folder):
    scratch = load(checkpoint_folder).model
    if request.param == "scratch":
        return scratch
    baseline = build("baseline", scratch.config).eval()
    copy_to_baseline(scratch, baseline)
    return baseline


@pytest.fixture(scope="module")
def recorded(model):
    return record_of(model, SOURCE, TARGET)


def test_an_unmodified_record_passes(recorded):
    record, evidence = recorded
    lines = check(record, evidence, TOKENIZERS)
    assert len(lines) == 8 and all(line.passed for line in lines)
    assert all(lines[i].figure < 1e-6 for i in (RECOMPUTED, ROWS, POSITIONS))
    assert lines[MASKED].figure == lines[LABELS].figure == lines[TEXT].figure == 0
    assert all(isinstance(line.figure, float) and "\n" not in line.words for line in lines)


def shifted(weights: np.ndarray) -> np.ndarray:
    return np.roll(weights, 1, axis=-2)


def averaged(weights: np.ndarray) -> np.ndarray:
    return np.broadcast_to(weights.mean(1, keepdims=True), weights.shape)


FAULTS: dict[str, tuple[Callable[[TranslationRecord], dict], set[int]]] = {
    "transposed map": (lambda r: {"encoder": r.encoder.swapaxes(2, 3)}, {RECOMPUTED, ROWS}),
    "transposed decoder map": (
        lambda r: {"decoder": r.decoder.swapaxes(2, 3)},
        {RECOMPUTED, ROWS, MASKED},
    ),
    "wrong layer": (lambda r: {"cross": r.cross[::-1]}, {RECOMPUTED}),
    "heads in another order": (lambda r: {"encoder": r.encoder[:, ::-1]}, {RECOMPUTED}),
    "heads averaged to one": (lambda r: {"cross": r.cross.mean(1, keepdims=True)}, {RECOMPUTED}),
    "off-by-one row": (lambda r: {"cross": shifted(r.cross)}, {RECOMPUTED}),
    "source labels on the target axis": (lambda r: {"target_in": r.source}, {LABELS}),
    "the two sides swapped": (
        lambda r: {"source": r.target_in, "target_in": r.source},
        {LABELS, TEXT},
    ),
    "labels in another order": (lambda r: {"source": r.source[::-1]}, {LABELS, TEXT}),
    "an extra label": (lambda r: {"source": (*r.source, r.source[-1])}, {LABELS, TEXT}),
    "scaled weights": (lambda r: {"cross": r.cross * np.float32(0.999)}, {RECOMPUTED, ROWS}),
    "nonzero masked cells": (lambda r: {"decoder": r.decoder + np.float32(1e-9)}, {MASKED}),
    "a wrong mask": (lambda r: {"decoder_mask": np.ones_like(r.decoder_mask)}, {MASKED}),
    "NaN": (lambda r: {"cross": r.cross * np.float32(np.nan)}, {RECOMPUTED, ROWS}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_injected_fault_fails_its_check(recorded, fault):
    record, evidence = recorded
    plant, expected = FAULTS[fault]
    assert failed(with_values(record, **plant(record)), evidence) == expected


def test_maps_of_another_sentence_fail(model, recorded):
    other, _ = record_of(model, [5, 16, 17, 18, 19, EOS], [20, 21, 22, 23, 24, EOS])
    record, evidence = recorded
    for names in (["encoder"], ["decoder"], ["cross"], ARRAYS):
        stale = with_values(record, **{name: getattr(other, name) for name in names})
        assert failed(stale, evidence) == {RECOMPUTED}
    assert LABELS in failed(other, evidence)


def test_active_dropout_fails(model):
    noisy = copy.deepcopy(model)
    dropouts = [m for m in noisy.modules() if isinstance(m, nn.Dropout)]
    assert dropouts
    for module in dropouts:
        module.p = 0.3
    torch.manual_seed(0)
    for rate in (0.0, 0.3):
        for site in noisy.attention_sites():
            site.module.dropout = rate
        assert not failed(*record_of(noisy.eval(), SOURCE, TARGET))
        noisy.train()
        if rate and isinstance(noisy, Baseline):
            # torch returns weights after dropout, which the record rejects.
            with pytest.raises(ValueError, match="sum to 1"):
                record_of(noisy, SOURCE, TARGET)
        else:
            assert failed(*record_of(noisy, SOURCE, TARGET)) == {UNCHANGED}


def test_swapped_layer_numbers_fail(model, monkeypatch):
    """Maps and inputs swapped together stay consistent; only the execution order differs."""
    sites = model.attention_sites()
    last = max(site.layer for site in sites if site.kind == "cross")
    renamed = [
        dataclasses.replace(site, layer=last - site.layer) if site.kind == "cross" else site
        for site in sites
    ]
    monkeypatch.setattr(model, "attention_sites", lambda: renamed)
    assert failed(*record_of(model, SOURCE, TARGET)) == {LABELS}


@pytest.mark.parametrize(
    "changes",
    [
        {"learned_positions": True},
        {"qkv_bias": False, "norm_first": True},
        {"share_embeddings": True, "num_heads": 2},
        {"scale_embeddings": False, "final_norm": False, "mask_score": -10_000.0},
    ],
)
def test_no_false_alarms_for_other_architectures(changes):
    for network in small.pair(**changes):
        for shape in (network, network.float()):
            assert not failed(*record_of(shape, [9, 8, 7, EOS], [30, 31, 12, 33, EOS]))
            padded = failed(*record_of(shape, [9, PAD, 8, EOS, PAD], [EOS]))
            assert padded == {TEXT}  # a typed text cannot contain padding


def test_the_limit_of_a_sum_is_per_token():
    """Rounding errors of a hundred tokens add up; a wrong sum is off by far more."""
    hypothesis = RecordHypothesis("", (5,) * 100, -50.0, -50.0)
    record = SimpleNamespace(decode=DecodeConfig(beam=1), hypotheses=(hypothesis,))
    for off, passes in ((0.005, True), (0.05, False)):
        evidence = SimpleNamespace(log_probs={hypothesis.ids: -50.0 - off})
        assert (max(map(abs, _hypotheses(record, evidence))) <= LOGIT_LIMIT) == passes


def test_recomputed_weights_match_a_calculation_by_hand():
    """One query of size 2 and two keys: q·k/√2 is (√2, 0)."""
    query, memory = torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 5.0], [0.0, 5.0]])
    same = (torch.eye(2), None)
    site = SiteEvidence("cross", 0, 1, query, memory, to_query=same, to_key=same)
    e = np.exp(np.sqrt(2))
    found = weights_of(scores_of([site]), np.array([[True, True]]), "cross")
    np.testing.assert_allclose(found, [[[[e / (e + 1), 1 / (e + 1)]]]], rtol=1e-15)
    assert not weights_of(scores_of([site]), np.array([[False, False]]), "cross").any()


FULL_POSITION_EDIT = PositionEdit(scale=0.5, stretch=3, shift=2, order=(2, 0, 1))


@pytest.mark.parametrize(
    "mistake",
    [
        lambda edit, p: edit.stretch * (p + edit.shift),
        lambda edit, p: p + edit.shift,
        lambda edit, p: edit.stretch * edit.order[p] if p < 3 else edit.stretch * p,
        lambda edit, p: edit.stretch * p + edit.shift,
    ],
    ids=["shift-before-stretch", "no-stretch", "no-shift", "no-order"],
)
def test_a_fault_in_position_edits_fails_the_check(model, monkeypatch, mistake):
    """The check must compute the rows itself, without calling `PositionEdit.rows`."""
    edits = Edits(source_positions=FULL_POSITION_EDIT)
    monkeypatch.setattr(
        PositionEdit,
        "rows",
        lambda self, start, length: [
            p if self == PositionEdit() else mistake(self, p) for p in range(start, start + length)
        ],
    )
    assert failed(*record_of(model, SOURCE, TARGET, edits), edits) == {POSITIONS}


@pytest.mark.parametrize("learned", [False, True])
def test_no_false_alarms_for_edited_positions(learned):
    moves = (
        PositionEdit(order=(3, 1, 2, 0)),
        PositionEdit(stretch=2, shift=1),
        PositionEdit(scale=-1.5, shift=3, order=(1, 0)),
    )
    for network in small.pair(learned_positions=learned, norm_first=True):
        for moved in moves:
            for edits in (Edits(source_positions=moved), Edits(target_positions=moved)):
                found = record_of(network.float(), [9, 8, 7, EOS], [30, 31, 12, 33, EOS], edits)
                assert not failed(*found, edits)


@pytest.mark.parametrize("off", [1e-4, 4e-4])
def test_the_error_limit_scales_with_the_temperature(model, off):
    """A temperature of 0.05 amplifies errors by 20, so the limit is 2e-4."""
    edits = Edits(temperatures=(Temperature("cross", 0, 0, 0.05),))
    record, evidence = record_of(model, SOURCE, TARGET, edits)
    assert not failed(record, evidence, edits)
    for head, moved in ((0, off), (1, off / 20)):  # the limit of head 1 is 1e-5
        found = failed(moved_by(record, moved, head), evidence, edits)
        assert found == (set() if off < 2e-4 else {RECOMPUTED})


def with_large_scores() -> Seq2Seq:
    """Return a float32 network whose scores are in the hundreds, as in some tutorials' networks."""
    torch.manual_seed(0)
    network = build("scratch", small.config(d_model=256, num_heads=8, dim_feedforward=64)).eval()
    with torch.no_grad():
        for site in network.attention_sites():
            for projection in site.projections()[:2]:
                projection.weight.mul_(12)
    return network


def moved_by(record: TranslationRecord, off: float, head: int = 0) -> TranslationRecord:
    """Return a copy in which two weights of a cross-attention head are off by this much."""
    cross = record.cross.copy()
    row = cross[0, head, 2]
    row[row.argmax()] -= np.float32(off)
    row[row.argmin()] += np.float32(off)
    return with_values(record, cross=cross)


def test_the_error_limit_grows_with_the_scores():
    record, evidence = record_of(
        with_large_scores(), [*range(4, 28), EOS], [*range(30, 10, -1), EOS]
    )
    line = check(record, evidence, TOKENIZERS)[RECOMPUTED]
    assert line.passed and line.figure > 1e-5  # the limit for scores of ordinary size
    masks = masks_of(evidence.source_ids, evidence.target_ids)
    heads = []
    for kind, mask in masks.items():
        scores = scores_of(evidence.sites_of(kind))
        sizes = np.abs(np.where(mask, scores, 0)).max((-1, -2))
        off = np.abs(weights_of(scores, mask, kind) - record.maps(kind)).max((-1, -2))
        heads += zip(off.ravel(), np.maximum(1e-5, 8 * sizes.ravel() / 2**24), strict=True)
    figure, limit = max(heads, key=lambda head: head[0] / head[1])
    assert (line.figure, line.limit) == pytest.approx((figure, limit), rel=1e-9)
    assert "relative to its head's limit" in line.words
    assert RECOMPUTED in failed(moved_by(record, 1e-3), evidence)


def test_a_weight_off_by_a_ten_thousandth_fails(model, recorded):
    record, evidence = recorded
    wrong = moved_by(record, 1e-4)
    assert failed(wrong, evidence) == {RECOMPUTED}
    line = check(wrong, evidence, TOKENIZERS)[RECOMPUTED]
    assert line.limit == 1e-5 and "Shown: the largest difference." in line.words
