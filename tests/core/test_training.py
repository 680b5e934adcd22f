"""Training: the loss, the schedule, the batches, and resuming as if nothing had happened."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from core.batches import Batch, collate, plan
from core.capture import explicit_attention
from core.checkpoint import load, read_card
from core.config import TrainConfig
from core.files import write_atomic
from core.model.interface import build
from core.text.tokenizer import BOS, EOS, PAD
from core.training.loop import DivergedError, train
from core.training.loss import backward, negative_log_likelihood
from core.training.schedule import inverse_sqrt
from core.translator import Translator
from tests import small
from tests.core.conftest import run_train


def random_pairs(count: int) -> list[tuple[list[int], list[int]]]:
    torch.manual_seed(0)
    lengths = torch.randint(2, 14, (count, 2)).tolist()
    return [(small.source_row(s), small.source_row(t)) for s, t in lengths]


@pytest.mark.parametrize("chunk", [4, 512])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_gradients_are_plain_cross_entropys(monkeypatch, smoothing, chunk):
    monkeypatch.setattr("core.training.loss._CHUNK", chunk)
    _, model = small.pair(share_embeddings=True, tie_classifier=True)
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
    assert_close(backward(model, batch, smoothing).double(), plain, rtol=0, atol=1e-6)
    for name, parameter in model.named_parameters():
        assert_close(parameter.grad, expected[name], rtol=0, atol=1e-12, msg=name)


def test_negative_log_likelihood_counts_real_tokens_only():
    _, model = small.pair()
    batch = collate(random_pairs(4))
    total, count = negative_log_likelihood(model, batch)
    logits = model(batch.source, batch.target_in).flatten(0, 1)
    plain = F.cross_entropy(logits, batch.target_out.flatten(), ignore_index=PAD, reduction="sum")
    assert count == int((batch.target_out != PAD).sum())
    assert total == pytest.approx(plain.item(), rel=1e-6)


def test_the_schedule_rises_then_falls():
    rates = [inverse_sqrt(step, 2.0, 10) for step in range(1, 41)]
    assert rates[0] == pytest.approx(0.2)
    assert max(rates) == rates[9] == pytest.approx(2.0)
    assert rates[39] == pytest.approx(2.0 * math.sqrt(10 / 40))


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
    assert plan(pairs, 64, seed) == batches
    assert plan(pairs, 64, 4) != batches


def _weights_after(tmp_path, name: str, stops: list[int]) -> dict[str, torch.Tensor]:
    """Train 10 steps with dropout, killed at each of `stops` and resumed in a fresh model."""
    config = TrainConfig(
        steps=10, batch_tokens=120, warmup_steps=3, validate_every=2, snapshot_every=2, seed=5
    )
    pairs, folder = random_pairs(30), tmp_path / name
    for number, stop in enumerate([*stops, 10]):
        torch.manual_seed(5 if number == 0 else 1234)  # a new process has another random state
        model = build("scratch", small.config(dropout=0.2))
        for event in train(model, pairs, pairs[:5], config, folder, "cpu", resuming=number > 0):
            if getattr(event, "step", None) == stop and stop < 10:
                break  # what came after the last saved state is lost and done again
    return {name: p.detach() for name, p in model.named_parameters()}


def test_resuming_is_exact_in_the_middle_of_an_epoch(tmp_path):
    straight = _weights_after(tmp_path, "straight", [])
    for stops in ([5], [3, 7]):
        resumed = _weights_after(tmp_path, f"stopped at {stops}", stops)
        assert all(torch.equal(resumed[name], straight[name]) for name in straight), stops


@pytest.mark.parametrize("part", ["optimizer.0.exp_avg", "random.cpu", "model.encoder_norm.weight"])
def test_resuming_needs_every_part_of_the_state(tmp_path, monkeypatch, part):
    """The test above can fail: losing any one part of the state changes the weights."""
    import core.training.resume as resume

    straight = _weights_after(tmp_path, "straight", [])
    whole = resume.load

    def lossy(raw: bytes) -> dict[str, torch.Tensor]:
        tensors = whole(raw)
        if part == "random.cpu":
            torch.manual_seed(99)
            tensors[part] = torch.get_rng_state()
        else:
            tensors[part] = torch.zeros_like(tensors[part])
        return tensors

    monkeypatch.setattr(resume, "load", lossy)
    resumed = _weights_after(tmp_path, "lossy", [5])
    assert any(not torch.equal(resumed[name], straight[name]) for name in straight)


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_state(tmp_path):
    model = build("scratch", small.config())
    config = TrainConfig(steps=6, batch_tokens=120, warmup_steps=3, validate_every=2)
    events = train(model, random_pairs(20), random_pairs(3), config, tmp_path, "cpu", False)
    with pytest.raises(DivergedError, match="at step 4"):
        for event in events:
            if getattr(event, "step", None) == 3:
                saved = (tmp_path / "state.safetensors").read_bytes()
                with torch.no_grad():
                    model.encoder_norm.weight.fill_(float("nan"))
    assert (tmp_path / "state.safetensors").read_bytes() == saved


def test_explicit_attention_leaves_nothing_behind():
    model = build("scratch", small.config())
    with pytest.raises(RuntimeError, match="oops"), explicit_attention(model):
        raise RuntimeError("oops")
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())


def test_the_command_trains_a_usable_checkpoint(checkpoint_folder):
    card = read_card(checkpoint_folder)
    assert (card.architecture, card.direction) == ("scratch", "de-en")
    curve = card.metrics["curve"]
    assert [row["step"] for row in curve] == [4, 8, 12]
    assert curve[-1]["val_loss"] < curve[0]["val_loss"]
    assert {"step", "epoch", "train_loss", "val_loss", "tokens_per_second"} <= set(curve[0])
    assert {"sacrebleu", "signature", "chrf", "bits_per_char"} <= set(card.metrics["final"])
    assert "Flickr30k" in (checkpoint_folder / "MODEL_CARD.md").read_text()
    assert len(list((checkpoint_folder / "resume").glob("snapshot-*"))) == 3
    load(checkpoint_folder)


def test_the_baseline_and_the_other_direction_train_by_the_same_command(data, tmp_path):
    arguments = ("--data", data, "--model", "baseline", "--direction", "en-de", "--max-steps", 4)
    run_train("--out", tmp_path / "b", *arguments)
    card = read_card(tmp_path / "b")
    assert (card.architecture, card.direction) == ("baseline", "en-de")


def test_words_train_by_the_same_command(data, tmp_path):
    run_train("--data", data, "--out", tmp_path / "w", "--max-steps", 4, recipe="smoke-words")
    record = Translator.load(tmp_path / "w").inspect("Ein Hund läuft über die Katze.")
    assert [t.text for t in record.source][:3] == ["Ein", "Hund", "läuft"]
    assert [t.text for t in record.source if t.unknown] == ["Katze"]


def test_an_existing_checkpoint_is_not_overwritten(data, checkpoint_folder):
    with pytest.raises(ValueError, match="already holds a checkpoint"):
        run_train("--data", data, "--out", checkpoint_folder)


def test_resuming_nothing_says_so(data, tmp_path):
    with pytest.raises(ValueError, match="nothing to resume"):
        run_train("--data", data, "--out", tmp_path / "new", "--resume")


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "metrics.json"
    write_atomic(file, json.dumps([1]).encode())

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("core.files.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(file, b"[2]")
    assert json.loads(file.read_bytes()) == [1]
    assert list(tmp_path.iterdir()) == [file]
