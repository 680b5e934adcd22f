"""Training: loss, schedules, batches, resuming, and the command."""

import copy
import errno
import itertools
import json
import math
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch.testing import assert_close

from core.accelerate import kernels
from core.checkpoint.folder import load, read_card
from core.config import TrainConfig
from core.data.batches import Batch, collate, plan
from core.model.build import build
from core.search.beam import greedy
from core.text.tokenizer import BOS, EOS, PAD
from core.training.data import prepare
from core.training.loop import (
    DivergedError,
    Started,
    Stepped,
    Validated,
    _faster_attention,
    _optimizer,
    train,
    validation_loss,
)
from core.training.loss import Objective
from core.training.recipes import RECIPES
from core.training.resume import average_snapshots
from core.training.schedule import Schedule
from core.translator import Translator
from core.typed import typed
from tests import small
from tests.core.conftest import run_train


def random_pairs(count: int) -> list[tuple[list[int], list[int]]]:
    torch.manual_seed(0)
    lengths = torch.randint(2, 14, (count, 2)).tolist()
    return [(small.source_row(s), small.source_row(t)) for s, t in lengths]


@pytest.mark.parametrize("chunk", [4, 512])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("tied", [False, True])
def test_loss_and_gradients_equal_plain_cross_entropy(monkeypatch, tied, smoothing, chunk):
    monkeypatch.setattr("core.training.loss._CHUNK", chunk)
    monkeypatch.setattr("core.training.loss._GROUP", 2 * chunk)
    _, model = small.pair(share_embeddings=tied, tie_classifier=tied)
    batch = collate(random_pairs(5))
    plain = F.cross_entropy(
        model(batch.source, batch.target_in).flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=PAD,
        label_smoothing=smoothing,
    )
    plain.backward()
    expected = {name: p.grad for name, p in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    loss = Objective(model, smoothing)(batch, int((batch.target_out != PAD).sum()))
    loss.backward()
    assert_close(loss, plain, rtol=0, atol=1e-12)
    for name, parameter in model.named_parameters():
        assert_close(parameter.grad, expected[name], rtol=0, atol=1e-12, msg=name)


@pytest.mark.parametrize("mixed", [False, True])
def test_the_compiled_loss_and_gradients_agree_with_torch(monkeypatch, mixed):
    _, model = small.pair()
    model.float()
    batch = collate(random_pairs(5))
    threads, found = torch.get_num_threads(), []
    try:
        torch.set_num_threads(1)
        for library in (kernels.library, lambda: None):
            monkeypatch.setattr(kernels, "library", library)
            model.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                loss = Objective(model, 0.1)(batch, 20)
            loss.backward()
            found.append([loss.detach(), *(p.grad for p in model.parameters())])
    finally:
        torch.set_num_threads(threads)
    near = {"rtol": 0.02, "atol": 2e-3} if mixed else {"rtol": 1e-4, "atol": 1e-6}
    for ours, plain in zip(*found, strict=True):
        assert_close(ours, plain, **near)


def rates(config: TrainConfig, losses: dict[int, float] | None = None) -> list[float]:
    """Return the learning rate of each step; `losses` are validation losses by step."""
    optimizer = torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=config.peak_lr)
    schedule, found = Schedule(optimizer, config), []
    for step in range(1, config.steps + 1):
        schedule.before(step)
        found.append(optimizer.param_groups[0]["lr"])
        if losses and step in losses:
            schedule.validated(step, losses[step])
    return found


RISING = [0.2 * step for step in range(1, 11)]
FALLING = [2 * math.sqrt(10 / step) for step in range(11, 41)]
COOLING = [1 - math.sqrt(step / 9) for step in range(1, 9)]
PLATEAU = {"schedule": "plateau", "plateau_factor": 0.5, "plateau_patience": 1}
LOSSES = {1: 1.0, 2: 0.5, 3: 3.0, 4: 4.0, 5: 3.0, 6: 2.0, 7: 2.0}


@pytest.mark.parametrize(
    ("settings", "losses", "expected"),
    [
        ({"warmup_steps": 10}, None, RISING + FALLING),
        (
            {"warmup_steps": 10, "cooldown_steps": 8},
            None,
            [*RISING, *FALLING[:22], *(a * b for a, b in zip(FALLING[22:], COOLING, strict=True))],
        ),
        ({"schedule": "constant", "warmup_steps": 4}, None, [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]),
        ({"schedule": "constant", "warmup_steps": 0}, None, [2.0] * 6),
        (
            {"schedule": "constant", "warmup_steps": 0, "cooldown_steps": 8},
            None,
            [2.0] * 3 + [2.0 * share for share in COOLING],
        ),
        ({"warmup_steps": 2, **PLATEAU}, LOSSES, [2.0] * 5 + [1.0] * 3),
    ],
)
def test_the_rate_follows_its_schedule(settings, losses, expected):
    """A plateau lowers the rate after the warm-up only."""
    config = TrainConfig(steps=len(expected), peak_lr=2.0, **settings)
    assert rates(config, losses) == pytest.approx(expected) and expected[0] > 0.1


def test_caches_of_weights_are_invalidated_by_each_step(tmp_path):
    """Search and fast kernels cache weights; a deep copy of the network has no caches."""
    _, model = small.pair()
    model = model.float().eval()
    pairs = random_pairs(20)
    source = collate(pairs[:4]).source
    config = TrainConfig(steps=4, batch_tokens=64, peak_lr=0.05, warmup_steps=1)
    seen = []
    for event in train(model, pairs, pairs[:5], config, tmp_path, "cpu", False):
        if not isinstance(event, Stepped):
            continue
        model.eval()
        found = [
            (greedy(each, source), validation_loss(each, pairs[:5], 512, "cpu"))
            for each in (model, copy.deepcopy(model))
        ]
        assert found[0] == found[1]
        seen.append(found[0][1])
    assert len(set(seen)) == 4, "each step changed something"


def test_a_batch_is_shifted_and_padded():
    batch = collate([([7, EOS], [8, 9, EOS]), ([5, 6, EOS], [4, EOS])])
    assert isinstance(batch, Batch)
    assert batch.source.tolist() == [[7, EOS, PAD], [5, 6, EOS]]
    assert batch.target_in.tolist() == [[BOS, 8, 9], [BOS, 4, PAD]]
    assert batch.target_out.tolist() == [[8, 9, EOS], [4, EOS, PAD]]


@pytest.mark.parametrize("seed", [None, 3])
def test_a_plan_holds_every_pair_once_within_its_budget(seed):
    pairs = random_pairs(200)
    batches = plan(pairs, 64, seed)
    assert sorted(i for batch in batches for i in batch) == list(range(200))
    for batch in batches:
        widest = max(len(side) for i in batch for side in pairs[i])
        assert len(batch) * widest <= 64 or len(batch) == 1
    assert plan(pairs, 64, seed) == batches != plan(pairs, 64, 4)
    by_sentences = plan(pairs, 64, seed, sentences=32)
    assert sorted(i for batch in by_sentences for i in batch) == list(range(200))
    assert sorted(map(len, by_sentences)) == [8, 32, 32, 32, 32, 32, 32]
    as_they_stand = plan(pairs[:20], 64, seed, sentences=8, keep_order=True)
    assert as_they_stand == [[*range(8)], [*range(8, 16)], [*range(16, 20)]]


CONFIG = TrainConfig(
    steps=10, batch_tokens=120, warmup_steps=3, validate_every=2, snapshot_every=2, seed=5
)


def test_each_epoch_has_another_order_which_the_seed_determines(tmp_path, monkeypatch):
    pairs, seen = random_pairs(24), []
    monkeypatch.setattr(
        "core.training.loop.collate", lambda chosen: seen.append(chosen) or collate(chosen)
    )
    runs = []
    for number, (seed, ordered) in enumerate([(5, False), (5, False), (6, False), (5, True)]):
        seen.clear()
        config = replace(CONFIG, steps=9, batch_sentences=8, validate_every=9, seed=seed)
        config = replace(config, as_they_stand=ordered)
        model, folder = build("scratch", small.config()), tmp_path / str(number)
        list(train(model, pairs, random_pairs(1), config, folder, "cpu", resuming=False))
        runs.append([[pair for batch in seen[i : i + 3] for pair in batch] for i in (0, 3, 6)])
    first, again, other, ordered = runs
    assert first == again and first[0] != other[0] and ordered == [pairs] * 3
    assert first[0] != first[1] != first[2] != first[0]
    for epoch in first:
        assert sorted(epoch) == sorted(pairs)


@pytest.mark.parametrize("clip_norm", [0.25, None])
def test_the_gradient_is_clipped_to_its_norm(tmp_path, monkeypatch, clip_norm):
    """The optimiser receives gradients clipped by their global norm."""
    norms = []

    def watched(model, config):
        optimizer = _optimizer(model, config)
        optimizer.register_step_pre_hook(
            lambda *_: norms.append(
                math.sqrt(sum(p.grad.square().sum().item() for p in model.parameters()))
            )
        )
        return optimizer

    monkeypatch.setattr("core.training.loop._optimizer", watched)
    run_steps(tmp_path, replace(CONFIG, steps=3, clip_norm=clip_norm))
    assert len(norms) == 3
    if clip_norm is None:
        assert min(norms) > 0.5
    else:
        assert norms == pytest.approx([0.25] * 3, rel=1e-4)


def run_steps(folder: Path, config: TrainConfig, resuming: bool = False, **more: Any) -> list:
    """Return the events of a small run."""
    torch.manual_seed(5)
    model, pairs = build("scratch", small.config()), random_pairs(30)
    return list(train(model, pairs, pairs[:5], config, folder, "cpu", resuming, **more))


def test_a_run_stops_when_patience_is_used_up_and_resumes_with_more(tmp_path):
    config = replace(CONFIG, peak_lr=0.0, patience=3)
    events = run_steps(tmp_path, config)
    assert [e.curve[-1]["step"] for e in events if isinstance(e, Validated)] == [2, 4, 6, 8]
    assert run_steps(tmp_path, config, resuming=True) == [Started(8, events[-1].curve)]
    with_more = run_steps(tmp_path, replace(config, patience=4), resuming=True)
    assert [e.step for e in with_more if isinstance(e, Stepped)] == [9, 10]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"config": replace(CONFIG, seed=6)}, "its training seed is 5, not 6"),
        ({"identity": {"recipe": "other"}}, "its recipe is this, not other"),
        ({"identity": {"vocabulary": "x"}}, "its recipe is this, not None"),
    ],
)
def test_the_state_of_another_run_is_refused(tmp_path, changed, message):
    run_steps(tmp_path, replace(CONFIG, steps=2), identity={"recipe": "this"})
    again = {"config": CONFIG, "identity": {"recipe": "this"}, **changed}
    with pytest.raises(ValueError, match=message):
        run_steps(tmp_path, resuming=True, **again)


def test_snapshots_of_unsaved_steps_are_not_averaged(tmp_path):
    """The run is stopped at step 11 with the state of step 8, then resumed for one step."""
    config = TrainConfig(
        steps=12, batch_tokens=120, validate_every=8, snapshot_every=2, average_last=3
    )
    pairs, model = random_pairs(30), build("scratch", small.config())
    for event in train(model, pairs, pairs[:5], config, tmp_path, "cpu", resuming=False):
        if getattr(event, "step", None) == 11:
            break
    kept = {int(file.stem[-8:]): load_file(file) for file in tmp_path.glob("snapshot-*")}
    assert set(kept) == {6, 8, 10}
    shorter = replace(config, steps=9)
    list(train(model, pairs, pairs[:5], shorter, tmp_path, "cpu", resuming=True))
    mean = average_snapshots(tmp_path)
    for name, weight in mean.items():
        assert_close(weight, (kept[6][name] + kept[8][name]) / 2)


@pytest.mark.parametrize(
    ("value", "step", "message"),
    [("nan", 3, "at step 4"), ("inf", 2, "weights are not finite at step 2")],
)
def test_a_run_that_diverges_keeps_the_last_finite_state(tmp_path, value, step, message):
    """At NaN the next loss is none; infinite weights are noticed before a snapshot is saved."""
    model = build("scratch", small.config())
    config = TrainConfig(steps=6, batch_tokens=120, warmup_steps=3, snapshot_every=2)
    config = replace(config, validate_every=2 if value == "nan" else None)
    events = train(model, random_pairs(20), random_pairs(3), config, tmp_path, "cpu", False)
    saved = None
    with pytest.raises(DivergedError, match=message):
        for event in events:
            if getattr(event, "step", None) == step:
                file = tmp_path / "state.safetensors"
                saved = file.exists() and file.read_bytes()
                with torch.no_grad():
                    model.encoder_norm.weight.fill_(float(value))
    assert not saved or (tmp_path / "state.safetensors").read_bytes() == saved
    assert len(list(tmp_path.glob("snapshot-*"))) == (value == "nan")


def test_compiling_renames_no_weight(monkeypatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda f, dynamic: compiled.append(f.__name__) or f)
    model = build("scratch", small.config())
    names = list(model.state_dict())
    assert list(Objective(model, 0.1, compiled=True).model.state_dict()) == names
    assert compiled == ["encode", "decode"]


def test_the_optimiser_follows_the_settings():
    model = build("scratch", small.config())
    assert type(_optimizer(model, CONFIG)) is torch.optim.AdamW
    adam = _optimizer(model, replace(CONFIG, optimizer="adam", adam_eps=1e-9, weight_decay=5e-4))
    assert type(adam) is torch.optim.Adam
    assert (adam.defaults["eps"], adam.defaults["weight_decay"]) == (1e-9, 5e-4)


def test_settings_of_earlier_versions_are_read():
    old = {"steps": 6000, "batch_tokens": 4096, "betas": [0.9, 0.98], "clip_norm": 1.0, "seed": 1}
    config = typed(TrainConfig, old)
    assert (config.schedule, config.optimizer, config.adam_eps) == ("inverse_sqrt", "adamw", 1e-8)
    assert config.patience is config.save_every is config.batch_sentences is None
    later = json.loads(json.dumps(replace(config, keep_epochs=(1, 5)).to_json()))
    again = typed(TrainConfig, later)
    assert again == replace(config, keep_epochs=(1, 5))


def test_invalid_settings_are_rejected():
    cooled = {"cooldown_steps": 1, "schedule": "plateau"}
    for wrong in ({"schedule": "cosine"}, {"optimizer": "sgd"}, {"keep_epochs": (0,)}, cooled):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            TrainConfig(steps=1, **wrong)


@pytest.mark.parametrize(
    ("device", "explicit"), [("cpu", True), ("cuda", False), ("cuda:1", False)]
)
def test_a_gpu_trains_with_fused_attention(device, explicit):
    model = build("scratch", small.config())
    with _faster_attention(model, device):
        hooks = [bool(s.module._forward_pre_hooks) for s in model.attention_sites()]
    assert hooks == [explicit] * len(hooks)


def test_the_command_trains_a_usable_checkpoint(checkpoint_folder):
    card = read_card(checkpoint_folder)
    assert (card.architecture, card.direction) == ("scratch", "de-en")
    curve = card.metrics["curve"]
    assert [row["step"] for row in curve] == [4, 8, 12]
    assert curve[-1]["val_loss"] < curve[0]["val_loss"]
    assert {"step", "epoch", "train_loss", "val_loss", "tokens_per_second"} <= set(curve[0])
    assert {"sacrebleu", "signature", "chrf", "bits_per_char"} <= set(
        card.metrics["final"]["multi30k"]
    )
    assert "Flickr30k" in (checkpoint_folder / "MODEL_CARD.md").read_text()
    assert len(list((checkpoint_folder / "resume").glob("snapshot-*"))) == 3
    load(checkpoint_folder)


def test_the_baseline_and_the_other_direction_train_by_the_same_command(data, tmp_path):
    arguments = ("--data", data, "--model", "baseline", "--direction", "en-de", "--max-steps", 4)
    run_train("--out", tmp_path / "b", *arguments)
    card = read_card(tmp_path / "b")
    assert (card.architecture, card.direction) == ("baseline", "en-de")
    again = "python -m core.train --recipe smoke --model baseline --direction en-de --seed 1"
    text = (tmp_path / "b" / "MODEL_CARD.md").read_text()
    assert f"```\n{again} --max-steps 4 --out b\n```" in text


def test_words_train_by_the_same_command(data, tmp_path):
    run_train("--data", data, "--out", tmp_path / "w", "--max-steps", 4, recipe="smoke-words")
    record = Translator.load(tmp_path / "w").inspect("Ein Hund läuft über die Katze.")
    assert [t.text for t in record.source][:3] == ["Ein", "Hund", "läuft"]
    assert [t.text for t in record.source if t.unknown] == ["Katze"]


def test_chosen_epochs_are_kept_and_nothing_else_changes(data, checkpoint_folder, tmp_path):
    run_train("--data", data, "--out", tmp_path / "k", "--keep-epochs", "1")
    assert _weights(tmp_path / "k") == _weights(checkpoint_folder)
    epoch = tmp_path / "k" / "epochs" / "epoch-01"
    card = read_card(epoch)
    assert card.training["kept"].startswith("the end of epoch 1, step ")
    (row,) = [row for row in card.metrics["curve"] if row["epoch"] == 1.0]
    assert row == card.metrics["curve"][-1]
    translator = Translator.load(epoch)
    assert translator.translate(["Ein Hund läuft."])
    pairs = prepare(RECIPES["smoke"], ("de", "en"), data).validation
    loss = validation_loss(load(epoch).model, pairs, 256, "cpu")
    assert row["val_loss"] == pytest.approx(loss, abs=1e-5)


def _weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def _send_self(monkeypatch, number: int, step: int) -> None:
    """Make the process send itself a signal during a step."""
    steps = itertools.count(1)

    def counting(*arguments: Any) -> Objective:
        objective = Objective(*arguments)
        objective.register_forward_hook(
            lambda *_: os.kill(os.getpid(), number) if next(steps) == step else None
        )
        return objective

    monkeypatch.setattr("core.training.loop.Objective", counting)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_stops_in_one_line(data, checkpoint_folder, tmp_path, number):
    before = signal.getsignal(number)
    with pytest.MonkeyPatch.context() as monkeypatch:
        _send_self(monkeypatch, number, 7)
        with pytest.raises(
            SystemExit, match="stopped and saved after step 7: continue with --resume"
        ):
            run_train("--data", data, "--out", tmp_path / "s")
    assert signal.getsignal(number) is before
    run_train("--data", data, "--out", tmp_path / "s", "--resume")
    assert _weights(tmp_path / "s") == _weights(checkpoint_folder)
    train_losses = [
        [row["train_loss"] for row in read_card(folder).metrics["curve"]]
        for folder in (tmp_path / "s", checkpoint_folder)
    ]
    assert train_losses[0] == train_losses[1]


def test_a_second_run_in_a_folder_needs_resume(data, checkpoint_folder, tmp_path):
    with pytest.raises(ValueError, match="already holds a checkpoint"):
        run_train("--data", data, "--out", checkpoint_folder)
    with pytest.raises(ValueError, match="nothing to resume"):
        run_train("--data", data, "--out", tmp_path / "new", "--resume")
    with pytest.MonkeyPatch.context() as monkeypatch:
        _send_self(monkeypatch, signal.SIGTERM, 1)
        with pytest.raises(SystemExit):
            run_train("--data", data, "--out", tmp_path / "s")
    with pytest.raises(ValueError, match="already holds a run"):
        run_train("--data", data, "--out", tmp_path / "s")
    with pytest.raises(ValueError, match="its direction is de-en, not en-de"):
        run_train("--data", data, "--out", tmp_path / "s", "--resume", "--direction", "en-de")


@pytest.mark.parametrize("writes", [3, 13, 24])
def test_a_full_disk_is_one_line_and_loses_nothing(
    data, checkpoint_folder, tmp_path, monkeypatch, writes
):
    """The disk is full from one of the run's writes on; once it has space, the run resumes."""
    folder, written, sync = tmp_path / "full", itertools.count(1), os.fsync

    def full(file: int) -> None:
        if next(written) >= writes:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(file)

    monkeypatch.setattr("core.files.os.fsync", full)
    with pytest.raises(OSError, match="cannot save: .*No space left .*continue with --resume"):
        run_train("--data", data, "--out", folder)
    monkeypatch.undo()
    if (folder / "config.json").exists():
        load(folder)
    assert not list(folder.rglob("*.part"))
    run_train("--data", data, "--out", folder, "--resume")
    assert _weights(folder) == _weights(checkpoint_folder)


def test_scores_that_cannot_be_read_back_give_one_line(data, tmp_path, monkeypatch):
    """Unusable metrics raise no error on reading, but the model card needs them."""
    broken = {}, "No scores: metrics.json cannot be read"
    monkeypatch.setattr("core.checkpoint.folder.read_metrics", lambda folder: broken)
    with pytest.raises(ValueError, match="No scores: metrics.json cannot be read"):
        run_train("--data", data, "--out", tmp_path / "c", "--max-steps", 4)


def test_a_finished_run_can_be_finished_again(data, checkpoint_folder, tmp_path):
    """A run may have been killed during scoring."""
    shutil.copytree(checkpoint_folder, tmp_path / "c")
    (tmp_path / "c" / "MODEL_CARD.md").unlink()
    run_train("--data", data, "--out", tmp_path / "c", "--resume")
    assert _weights(tmp_path / "c") == _weights(checkpoint_folder)
    assert (tmp_path / "c" / "MODEL_CARD.md").exists()
