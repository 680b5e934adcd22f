"""A resumed run ends as if it had not been stopped, bit for bit; a damaged state is refused."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from core.config import TrainConfig
from core.model.build import build
from core.training import resume
from core.training.distributed import Processes
from core.training.loop import train
from tests import small
from tests.core.plugs import fingerprint
from tests.core.test_training import random_pairs

CONFIG = TrainConfig(
    steps=10,
    batch_tokens=100,
    schedule="plateau",
    plateau_patience=0,
    plateau_factor=0.5,
    peak_lr=0.3,
    warmup_steps=1,
    validate_every=2,
    snapshot_every=2,
    save_every=1,
    seed=5,
)
STATE = "state.safetensors"


def run(folder: Path, stop: int = 99, resuming: bool = False, config: TrainConfig = CONFIG) -> str:
    """Train until a step, or to the end; the state's fingerprint."""
    torch.manual_seed(1234 if resuming else 5)  # a new process has another random state
    model, pairs = build("scratch", small.config(dropout=0.2)), random_pairs(30)
    for event in train(model, pairs, pairs[:5], config, folder, "cpu", resuming):
        if getattr(event, "step", None) == stop:
            break
    return fingerprint(folder / STATE)


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> str:
    return run(tmp_path_factory.mktemp("straight"))


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    run(folder, stop=8)
    _, notes = resume._opened((folder / STATE).read_bytes())
    progress = json.loads(notes["progress"])
    assert (progress["step"], progress["epoch"]) == (7, 1) and progress["position"] > 0
    return folder


@pytest.fixture
def stopped(stopped_once, tmp_path) -> Path:
    """Stopped in its second epoch, after step 7, of which the state is saved by then."""
    return shutil.copytree(stopped_once, tmp_path / "r")


def test_weights_moments_and_curve_are_those_of_the_undisturbed_run(straight, stopped):
    assert run(stopped, resuming=True) == straight


def without_moments(model, optimizer, notes) -> None:
    optimizer.state.clear()


def without_schedule(model, optimizer, notes) -> None:
    notes["schedule"] = {**notes["schedule"], "lr": CONFIG.peak_lr}


def without_plateau(model, optimizer, notes) -> None:
    notes["schedule"]["plateau"] |= {"best": float("inf"), "num_bad_epochs": 0}


def without_random_state(model, optimizer, notes) -> None:
    torch.manual_seed(CONFIG.seed)


def without_position(model, optimizer, notes) -> None:
    notes["progress"]["position"] = 0


def without_epoch(model, optimizer, notes) -> None:
    notes["progress"]["epoch"] = 0


def without_sums(model, optimizer, notes) -> None:
    notes["progress"] |= {"recent_loss": 0.0, "recent_steps": 0}


def without_weights(model, optimizer, notes) -> None:
    model.reset_parameters()


LEFT_OUT = (
    without_moments,
    without_schedule,
    without_plateau,
    without_random_state,
    without_position,
    without_epoch,
    without_sums,
    without_weights,
)


@pytest.mark.parametrize("leave_out", LEFT_OUT)
def test_no_part_of_a_state_can_be_left_out(
    straight, stopped, monkeypatch, leave_out: Callable[..., None]
):
    """The test above can fail: without any one part something else comes out."""
    read = resume.read

    def lossy(folder, model, optimizer, *rest):
        notes = read(folder, model, optimizer, *rest)
        leave_out(model, optimizer, notes)
        return notes

    monkeypatch.setattr(resume, "read", lossy)
    assert run(stopped, resuming=True) != straight


def flips(content: bytes, count: int, seed: int) -> list[tuple[int, int]]:
    """Where to flip a bit: half of them in the header, and all of the digest's name."""
    dice, header = random.Random(seed), 8 + int.from_bytes(content[:8], "little")
    places = [dice.randrange(header if i % 2 else len(content)) for i in range(count)]
    name = content.index(b'"sha256"')
    chosen = [(place, dice.randrange(8)) for place in places]
    return chosen + [(place, bit) for place in range(name, name + 8) for bit in range(8)]


def refused(content: bytes, folder: Path) -> None:
    (folder / STATE).write_bytes(content)
    model = build("scratch", small.config())
    with pytest.raises(ValueError, match="is damaged or from another version") as caught:
        resume.read(folder, model, torch.optim.Adam(model.parameters()), {}, Processes())
    assert "\n" not in str(caught.value) and "delete it and start again" in str(caught.value)


def test_a_flipped_bit_is_refused_in_one_line(stopped):
    content = (stopped / STATE).read_bytes()
    for place, bit in flips(content, 60, seed=1):
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        refused(bytes(damaged), stopped)


@pytest.mark.soak
def test_thousands_of_flipped_bits_are_refused(stopped):
    content, count = (stopped / STATE).read_bytes(), 0
    for place, bit in flips(content, 5000, seed=2):
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        with pytest.raises(Exception) as caught:
            _, notes = resume._opened(bytes(damaged))
            if set(notes) != resume._PARTS:
                raise ValueError
        assert isinstance(caught.value, (resume.SafetensorError, ValueError)), caught.value
        count += 1
    print(f"\n{count} flipped bits of a resume state: {count} refused")  # noqa: T201


@pytest.mark.parametrize("cut", [0, 7, 100, -1])
def test_a_cut_state_is_refused_in_one_line(stopped, cut):
    refused((stopped / STATE).read_bytes()[:cut], stopped)


def unsealed(file: Path) -> None:
    """As it was written before it held a digest."""
    tensors, notes = resume._opened(file.read_bytes())
    file.write_bytes(save(tensors, notes or None))


def test_a_state_from_before_there_was_a_digest_is_resumed(straight, stopped):
    for file in stopped.glob("*.safetensors"):
        unsealed(file)
    assert resume.average_snapshots(stopped)
    assert run(stopped, resuming=True) == straight


def test_a_state_that_lacks_weights_is_refused_in_one_line(stopped):
    tensors, notes = resume._opened((stopped / STATE).read_bytes())
    del tensors["model.encoder_norm.bias"]
    (stopped / STATE).write_bytes(save(tensors, notes))
    with pytest.raises(ValueError, match="it lacks model.encoder_norm.bias") as caught:
        run(stopped, resuming=True)
    assert "\n" not in str(caught.value)


def test_notes_of_another_version_are_refused_in_one_line(stopped):
    tensors, notes = resume._opened((stopped / STATE).read_bytes())
    progress = json.loads(notes["progress"]) | {"mood": "good"}
    (stopped / STATE).write_bytes(save(tensors, {**notes, "progress": json.dumps(progress)}))
    with pytest.raises(ValueError, match="is from another version.*mood"):
        run(stopped, resuming=True)


def test_a_damaged_snapshot_is_refused_in_one_line(stopped):
    first, *_ = sorted(stopped.glob("snapshot-*"))
    content = first.read_bytes()
    for place, bit in flips(content, 20, seed=3):
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        first.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{first.name} is damaged .*: delete it") as caught:
            resume.average_snapshots(stopped)
        assert "\n" not in str(caught.value)
    first.unlink()
    assert resume.average_snapshots(stopped)


def test_what_a_killed_run_left_half_written_goes_when_it_is_resumed(straight, stopped):
    (stopped / "snapshot-00000099.safetensors.part").write_bytes(b"half")
    assert run(stopped, resuming=True, config=replace(CONFIG, keep_epochs=(9,))) == straight
    assert not list(stopped.glob("*.part"))
