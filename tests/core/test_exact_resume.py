"""A resumed run is bit-identical to an uninterrupted one; a damaged state is rejected."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from core.config import TrainConfig
from core.model.build import build
from core.training import resume
from core.training.distributed import Processes
from core.training.loop import train
from tests import small
from tests.core.crashes import fingerprint
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
    seed=9,  # with this seed, the rate falls before step 7 and another plateau has begun
)
PLAIN = replace(CONFIG, schedule="inverse_sqrt", peak_lr=5e-4, warmup_steps=3, save_every=None)
STATE = "state.safetensors"


def run(folder: Path, stop: int = 99, resuming: bool = False, config: TrainConfig = CONFIG) -> str:
    """Train until a step, or to the end; return the state's fingerprint."""
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
    _, notes = resume._deserialise((folder / STATE).read_bytes())
    progress = json.loads(notes["progress"])
    assert (progress["step"], progress["epoch"]) == (7, 1) and progress["position"] > 0
    return folder


@pytest.fixture
def stopped(stopped_once, tmp_path) -> Path:
    """A run stopped in its second epoch, with the state of step 7."""
    return shutil.copytree(stopped_once, tmp_path / "r")


def test_weights_moments_and_curve_equal_an_uninterrupted_runs(straight, stopped):
    assert run(stopped, resuming=True) == straight


@pytest.mark.parametrize(
    ("config", "before"),
    [
        (replace(PLAIN, optimizer="adam", clip_norm=None, batch_sentences=7), None),
        (replace(PLAIN, cooldown_steps=6), None),
        (replace(PLAIN, cooldown_steps=4), replace(PLAIN, steps=8, cooldown_steps=4)),
    ],
    ids=["adam", "cooldown", "longer"],
)
def test_a_run_stopped_twice_equals_an_uninterrupted_one(tmp_path, config, before):
    """A run may become longer until it cools down."""
    run(tmp_path / "twice", stop=1, config=before or config)
    run(tmp_path / "twice", stop=5, resuming=True, config=before or config)
    resumed = run(tmp_path / "twice", resuming=True, config=config)
    assert resumed == run(tmp_path / "straight", config=config)


@pytest.mark.parametrize("steps", [5, 20])
def test_a_run_that_cools_down_keeps_its_end(tmp_path, steps):
    cooling = replace(PLAIN, cooldown_steps=6)
    run(tmp_path, stop=9, config=cooling)
    with pytest.raises(ValueError, match="of 10 steps .* resume with --max-steps 10"):
        run(tmp_path, resuming=True, config=replace(cooling, steps=steps))


LOSSES: dict[str, Callable[[Any, Any, dict], object]] = {
    "weights": lambda model, optimizer, notes: model.reset_parameters(),
    "moments": lambda model, optimizer, notes: optimizer.state.clear(),
    "random state": lambda model, optimizer, notes: torch.manual_seed(CONFIG.seed),
    "rate": lambda model, optimizer, notes: notes["schedule"].update(lr=CONFIG.peak_lr),
    "plateau": lambda model, optimizer, notes: notes["schedule"]["plateau"].update(
        best=float("inf"), num_bad_epochs=0
    ),
    "position": lambda model, optimizer, notes: notes["progress"].update(position=0),
    "epoch": lambda model, optimizer, notes: notes["progress"].update(epoch=0),
    "sums": lambda model, optimizer, notes: notes["progress"].update(
        recent_loss=0.0, recent_steps=0
    ),
}


@pytest.mark.parametrize("part", LOSSES)
def test_every_part_of_a_state_is_needed(straight, stopped, monkeypatch, part):
    """Without any one part, the resumed run ends differently."""
    read = resume.read

    def lossy(folder, model, optimizer, *rest):
        notes = read(folder, model, optimizer, *rest)
        LOSSES[part](model, optimizer, notes)
        return notes

    monkeypatch.setattr(resume, "read", lossy)
    assert run(stopped, resuming=True) != straight


def flipped(content: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Yield copies with one flipped bit.

    First come `count` random bits, every second one in the header, then each bit of "sha256".
    """
    dice, header = random.Random(seed), 8 + int.from_bytes(content[:8], "little")
    places = [dice.randrange(header if i % 2 else len(content)) for i in range(count)]
    name = content.index(b'"sha256"')
    bits = [(place, dice.randrange(8)) for place in places]
    for place, bit in bits + [(place, bit) for place in range(name, name + 8) for bit in range(8)]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        yield bytes(damaged)


def refused(content: bytes, folder: Path) -> None:
    (folder / STATE).write_bytes(content)
    model = build("scratch", small.config())
    with pytest.raises(ValueError, match="is damaged or from another version") as caught:
        resume.read(folder, model, torch.optim.Adam(model.parameters()), {}, Processes())
    assert "\n" not in str(caught.value) and "delete it and start again" in str(caught.value)


def test_flipped_bits_and_cut_states_are_refused_in_one_line(stopped):
    content = (stopped / STATE).read_bytes()
    for damaged in flipped(content, 60, seed=1):
        refused(damaged, stopped)
    for cut in (0, 7, 100, -1):
        refused(content[:cut], stopped)


# The progress and identity that a state has in place of its own, or its tensors.
WRONG_NOTES = [
    *(("identity", "null"), ("identity", '"x"'), ("progress", "[]"), ("progress", "{}")),
    *(("progress", "3"), ("progress", '{"step": "x"}'), ("progress", '{"step": null}')),
    *(("progress", '{"step": Infinity}'), ("progress", "[" * 100_000)),
]
WRONG_TENSORS = [
    ("optimizer.0", torch.zeros(1)),
    ("optimizer.x.step", torch.zeros(1)),
    ("random.cpu", torch.zeros(0, 9)),
    ("random.cpu", torch.ones(1, 9)),
    ("model.encoder_norm.bias", torch.zeros(7, 3)),
    ("model.encoder_norm.bias", None),
]


def without_digest(file: Path, change: Callable[[dict, dict], object] = lambda *_: None) -> None:
    """Change a file and rewrite it without a digest, which older files lack."""
    tensors, notes = resume._deserialise(file.read_bytes())
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    change(tensors, notes)
    file.write_bytes(save(tensors, notes or None))


def test_a_defective_state_is_refused_in_one_line(stopped):
    content = (stopped / STATE).read_bytes()

    def change(tensors: dict, notes: dict, of: str, name: str, value: Any) -> None:
        (tensors if of == "tensors" else notes)[name] = value
        if value is None:
            del tensors[name]

    wrong = [("notes", *each) for each in WRONG_NOTES]
    for each in wrong + [("tensors", *each) for each in WRONG_TENSORS]:
        (stopped / STATE).write_bytes(content)
        without_digest(stopped / STATE, lambda *given, each=each: change(*given, *each))
        with pytest.raises(ValueError, match="is damaged or from another version") as caught:
            run(stopped, resuming=True)
        assert "\n" not in str(caught.value)


def test_a_state_without_a_digest_is_resumed(straight, stopped):
    for file in stopped.glob("*.safetensors"):
        without_digest(file)
    assert resume.average_snapshots(stopped)
    assert run(stopped, resuming=True) == straight


def test_notes_of_another_version_are_refused_in_one_line(stopped):
    def add(tensors: dict, notes: dict) -> None:
        notes["progress"] = json.dumps(json.loads(notes["progress"]) | {"mood": "good"})

    without_digest(stopped / STATE, add)
    with pytest.raises(ValueError, match="is from another version.*mood"):
        run(stopped, resuming=True)


def test_damaged_snapshots_are_refused_in_one_line(stopped):
    first, *_ = sorted(stopped.glob("snapshot-*"))
    shapes = {n: torch.zeros(3, 5, 7) for n in resume._deserialise(first.read_bytes())[0]}
    for damaged in [*flipped(first.read_bytes(), 20, seed=3), save(shapes, {})]:
        first.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"snapshot-\d+.safetensors is damaged .*: delete it"):
            resume.average_snapshots(stopped)
    first.unlink()
    assert resume.average_snapshots(stopped)


def test_partial_files_of_a_killed_run_are_deleted_on_resuming(straight, stopped):
    (stopped / "snapshot-00000099.safetensors.part").write_bytes(b"half")
    assert run(stopped, resuming=True, config=replace(CONFIG, keep_epochs=(9,))) == straight
    assert not list(stopped.glob("*.part"))
