"""Attention snapshots of a training run: their steps, and values that equal the network's."""

import dataclasses
import signal
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
import torch

from core.checkpoint.folder import load
from core.config import DecodeConfig
from core.data.batches import pad
from core.record.attention_snapshots import LIMIT, AttentionSnapshots
from core.record.capture import capture
from core.text.tokenizer import BOS, EOS
from core.training.snapshots import SENTENCES, SnapshotRecorder, snapshot_steps
from core.translator import Translator
from tests.core.conftest import run_train
from tests.core.test_training import _send_self


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("snapshots") / "run"
    run_train("--data", data, "--out", folder, recipe="smoke-changing")
    return folder


@pytest.fixture(scope="module")
def history(run):
    return AttentionSnapshots.load(run / "history.npz")


def test_snapshot_steps_are_dense_at_first_and_reach_the_end():
    for steps in (10_400, 28_000):
        points = sorted(snapshot_steps(steps))
        assert points[:5] == [0, 50, 100, 200, 400] and points[-1] == steps and len(points) >= 24
        gaps = np.diff(points[4:])
        assert gaps.max() - gaps.min() <= 1
    assert snapshot_steps(12) == frozenset(range(13))


def test_a_run_keeps_all_snapshots_with_the_networks_maps(run, history):
    assert history.steps.tolist() == list(range(13))
    found = load(run)
    ids = [
        [token.id for token in tokenizer.encode(text)] + [EOS]
        for tokenizer, text in zip(
            (found.source_tokenizer, found.target_tokenizer), SENTENCES[3], strict=True
        )
    ]
    assert found.card.training["kept"].startswith("the best validation, step 12")
    with torch.inference_mode(), capture(found.model) as captured:
        found.model(pad([ids[0]]), pad([[BOS, *ids[1][:-1]]]))
    for kind in ("encoder", "decoder", "cross"):
        maps = captured.maps(kind)[:, 0].numpy()
        assert np.abs(history.maps[kind][3][-1] - maps).max() < 2e-3  # weights kept as float16
    shown = history.sentences[3]
    assert len(shown.source) == len(ids[0]) and shown.target_in[0] == "<bos>"
    assert shown.target_in[1:] == shown.target_out[:-1] and shown.target_out[-1] == "<eos>"
    assert history.loss[-1] < history.loss[0]


def test_a_stopped_run_ends_with_the_same_snapshots_and_weights(data, run, tmp_path):
    with pytest.MonkeyPatch.context() as monkeypatch:
        _send_self(monkeypatch, signal.SIGTERM, 6)
        with pytest.raises(SystemExit, match="stopped and saved after step 6"):
            run_train("--data", data, "--out", tmp_path / "s", recipe="smoke-changing")
    half = tmp_path / "s/history.npz"
    assert AttentionSnapshots.load(half).steps.tolist() == list(range(7))
    spoiled = bytearray(half.read_bytes())
    spoiled[len(spoiled) // 3] ^= 1
    half.write_bytes(spoiled)
    with pytest.raises(
        ValueError, match="history.npz is not a saved snapshot file .* delete it"
    ) as caught:
        run_train("--data", data, "--out", tmp_path / "s", "--resume", recipe="smoke-changing")
    assert str(caught.value).isprintable()
    half.write_bytes((run / "history.npz").read_bytes())  # as if killed after a snapshot
    run_train("--data", data, "--out", tmp_path / "s", "--resume", recipe="smoke-changing")
    assert half.read_bytes() == (run / "history.npz").read_bytes()
    name = "model.safetensors"
    assert (tmp_path / "s" / name).read_bytes() == (run / name).read_bytes()


def test_snapshots_change_no_weight(data, run, tmp_path, monkeypatch):
    monkeypatch.setattr("core.training.snapshots.snapshot_steps", lambda steps: frozenset())
    run_train("--data", data, "--out", tmp_path / "n", recipe="smoke-changing")
    name = "model.safetensors"
    assert (tmp_path / "n" / name).read_bytes() == (run / name).read_bytes()


def test_a_snapshot_keeps_the_models_mode(run, tmp_path):
    found = load(run)
    tokenizers = found.source_tokenizer, found.target_tokenizer
    recorder = SnapshotRecorder(tmp_path, ("de", "en"), tokenizers, list(SENTENCES), 4, "cpu")
    for training in (True, False):
        found.model.train(training)
        recorder.on_start(found.model, 0)
        assert found.model.training == training


@pytest.mark.parametrize("part", ["a row's sum", "a masked weight", "a shape"])
def test_impossible_snapshots_are_refused(history, part):
    assert len(history.to_bytes()) < LIMIT
    maps = history.maps["decoder"][0].copy()
    if part == "a row's sum":
        maps[2, 0, 0, 3, 1] = min(1, maps[2, 0, 0, 3, 1] + 0.5)
    else:  # the row still sums to 1
        maps[2, 0, 0, 0, :2] = 0.5
    changes = {"maps": {**history.maps, "decoder": (maps, *history.maps["decoder"][1:])}}
    if part == "a shape":
        changes = {"roles": {**history.roles, "cross": history.roles["encoder"]}}
    with pytest.raises(ValueError):
        dataclasses.replace(history, **changes)


SHIPPED = Path(__file__).parents[2] / "checkpoints/captions-de-en"
VALIDATION = [
    ("Ein Hund läuft durch den Schnee.", "A Dog runs through deep snow today."),
    ("Zwei Kinder spielen am Strand.", "Two children play on a beach."),
    ("Eine Frau liest ein Buch.", "The woman is reading."),
]


def test_every_value_of_a_snapshot_equals_a_recomputation(tmp_path):
    """The expected values come from passes and a search that the test runs itself."""
    found = load(SHIPPED)
    both = found.source_tokenizer, found.target_tokenizer
    SnapshotRecorder(tmp_path, ("de", "en"), both, VALIDATION, 4, "cpu").on_start(found.model, 0)
    point = AttentionSnapshots.load(tmp_path / "history.npz")

    def ids(pair):
        return [[t.id for t in k.encode(x)] + [EOS] for k, x in zip(both, pair, strict=True)]

    def run(source, target):
        return found.model(torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]]))[0]

    total = tokens = 0
    with torch.inference_mode():
        for source, target in map(ids, VALIDATION):
            rows = run(source, target).double().log_softmax(-1)
            total -= sum(rows[t, id].item() for t, id in enumerate(target))
            tokens += len(target)
    assert point.loss[0] == pytest.approx(total / tokens, abs=1e-4)
    greedy = Translator.load(SHIPPED, "cpu").translate(
        [source for source, _ in VALIDATION], DecodeConfig(beam=1)
    )
    outputs, references = [t.text for t in greedy], [target for _, target in VALIDATION]
    assert point.bleu[0] == pytest.approx(sacrebleu.corpus_bleu(outputs, [references]).score)
    assert point.bleu[0] != pytest.approx(sacrebleu.corpus_bleu(references, [outputs]).score)

    entropies = {kind: [] for kind in ("encoder", "decoder", "cross")}
    shares = {kind: [] for kind in entropies}
    for shown, (source, target) in zip(point.sentences, map(ids, SENTENCES), strict=True):
        for name, words, tokenizer in (
            ("source", source, both[0]),
            ("target_in", [BOS, *target[:-1]], both[1]),
            ("target_out", target, both[1]),
        ):
            assert getattr(shown, name) == tuple(tokenizer.token(id).piece for id in words)
        with torch.inference_mode(), capture(found.model) as captured:
            run(source, target)
        for kind, of_sentences in entropies.items():
            maps = captured.maps(kind)[:, 0].double().numpy()
            Q, K = maps.shape[2:]
            for q in range(Q):
                keys = q + 1 if kind == "decoder" else K
                if keys > 1:
                    row = maps[:, :, q, :keys]
                    of_sentences.append(-(row * np.log(row)).sum(-1) / np.log(keys))
            if kind == "cross":
                shares[kind].append([maps[..., K - 1].mean(-1)])
                continue
            first, column = (2, 0) if kind == "decoder" else (0, K - 1)
            shares[kind].append(
                [
                    np.mean([maps[:, :, q, q - 1] for q in range(1, Q)], axis=0),
                    np.mean([maps[:, :, q, q] for q in range(first, Q)], axis=0),
                    np.mean([maps[:, :, q, column] for q in range(Q)], axis=0),
                ]
            )
    for kind, of_sentences in entropies.items():
        np.testing.assert_allclose(point.entropy[kind][0], np.mean(of_sentences, axis=0), atol=1e-5)
        np.testing.assert_allclose(point.roles[kind][0], np.mean(shares[kind], axis=0), atol=1e-5)
