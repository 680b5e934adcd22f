"""After any kill or disk failure a folder holds the old checkpoint or the new one, never a mix."""

import errno
import io
import itertools
import json
import os
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from core.checkpoint import folder as checkpoint
from core.checkpoint.folder import load, read_card
from tests.core.conftest import run_train
from tests.core.crashes import fails, fingerprint, killed, steps

ERRORS = (errno.ENOSPC, errno.EACCES, errno.EIO)

Save = Callable[[Path, int], None]


@pytest.fixture(scope="module")
def save(checkpoint_folder) -> Save:
    """Return a function that saves weights, configuration and metrics with the same number."""
    original = load(checkpoint_folder)
    both = original.source_tokenizer, original.target_tokenizer

    def save(folder: Path, number: int) -> None:
        with torch.no_grad():
            original.model.encoder_norm.bias.fill_(number)
        said = {"kept": str(number)}
        checkpoint.save(folder, original.model, "scratch", ("de", "en"), both, said, said)

    return save


def number_in(folder: Path) -> int:
    """Return the number in a folder, which all parts must agree on."""
    loaded = load(folder)
    found = {
        int(loaded.card.training["kept"]),
        int(read_card(folder).metrics["kept"]),
        int(loaded.model.encoder_norm.bias[0].item()),
    }
    (one,) = found
    return one


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_a_kill_at_any_step_leaves_the_old_checkpoint_or_the_new_one(save, tmp_path):
    """Kill at every open, write, fsync, rename and removal; reading never writes."""
    save(tmp_path / "start", 1)
    found = []
    for at in itertools.count(1):
        folder = shutil.copytree(tmp_path / "start", tmp_path / str(at))
        dead = killed(folder, at, lambda folder=folder: save(folder, 2))
        before = names(folder)
        found.append(number_in(folder))
        assert names(folder) == before, "reading leaves a folder as it is"
        save(folder, 3)
        assert names(folder) == names(tmp_path / "start"), at
        if not dead:
            break
    assert number_in(folder) == 3
    assert found == sorted(found) and found.count(1) > 15 and found.count(2) > 5


def test_a_kill_after_a_kill_leaves_a_whole_checkpoint(save, tmp_path):
    """The first kill comes after the commit, when the new files still have pending names."""
    half = tmp_path / "half"
    save(half, 1)
    for at in itertools.count(15):
        assert killed(half, at, lambda: save(half, 2))
        if number_in(half) == 2:
            break
    assert any("-" in name for name in names(half))
    for at in range(1, 26, 3):
        folder = shutil.copytree(half, tmp_path / str(at))
        assert killed(folder, at, lambda folder=folder: save(folder, 3))
        assert number_in(folder) in (2, 3)


@pytest.mark.parametrize(
    "codes", [ERRORS, *(pytest.param([code], marks=pytest.mark.soak) for code in ERRORS)]
)
def test_a_disk_that_fails_at_any_step_leaves_the_old_checkpoint_only(save, tmp_path, codes):
    save(tmp_path / "start", 1)
    start, found = names(tmp_path / "start"), []
    for at in itertools.count(1):
        folder = shutil.copytree(tmp_path / "start", tmp_path / str(at))
        code = codes[at % len(codes)]
        said = fails(folder, at, code, lambda folder=folder: save(folder, 2))
        found.append(number_in(folder))
        if found[-1] == 1:  # otherwise it failed after the commit, and pending files are in use
            assert names(folder) == start, at
        save(folder, 3)
        assert names(folder) == start
        if said is None:
            break
        assert os.strerror(code) in said and "\n" not in said
    assert found == sorted(found) and found.count(1) > 15


def test_a_disk_that_stays_full_leaves_the_old_checkpoint_and_nothing_else(save, tmp_path):
    """From step `at` on, every open, write and fsync fails, but removing works."""
    save(tmp_path / "c", 1)
    start = names(tmp_path / "c")
    for at in range(1, 12):
        count = itertools.count(1)

        def full(name: str, at=at, count=count) -> None:
            if name in ("open", "write", "fsync") and next(count) >= at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with pytest.raises(OSError, match="No space left"), steps(tmp_path / "c", full):
            save(tmp_path / "c", 2)
        assert number_in(tmp_path / "c") == 1 and names(tmp_path / "c") == start, at


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory) -> Path:
    """A run that ends in its second epoch and saves its state at and between validations."""
    folder = tmp_path_factory.mktemp("undisturbed") / "c"
    start_or_resume(data, folder)
    return folder


def assert_same_run(folder: Path, other: Path) -> None:
    """Assert that both runs ended with equal checkpoints, weights, moments and curves."""
    state = "resume/state.safetensors"
    assert fingerprint(folder / state) == fingerprint(other / state)
    for name in ("model.safetensors", "config.json"):
        own = [(f / name).read_bytes() for f in (folder, other)]
        if name == "config.json":  # without the time taken, and the hash that depends on it
            own = [json.loads(content) for content in own]
            for config in own:
                del config["training"]["hours"], config["sha256"]
        assert own[0] == own[1], name
    averaged = [sorted(f.glob("resume/snapshot-*")) for f in (folder, other)]
    assert [f.name for f in averaged[0]] == [f.name for f in averaged[1]]
    for a, b in zip(*averaged, strict=True):
        ours, theirs = load_file(a), load_file(b)
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert not list(folder.rglob("*.part"))


def start_or_resume(data: Path, folder: Path) -> None:
    """Start the run, or resume it if it has saved a state."""
    begun = (folder / "resume" / "state.safetensors").is_file()
    more = ["--resume"] if begun else []
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        run_train("--data", data, "--out", folder, "--max-steps", 8, "--save-every", 3, *more)


def check_loadable(folder: Path) -> None:
    """Check that a killed run's checkpoint, if there is one, can be loaded."""
    if (folder / "config.json").exists():
        load(folder)


@pytest.mark.parametrize(
    "steps_of_saving", [[81], pytest.param(itertools.count(1), marks=pytest.mark.soak)]
)
def test_a_run_killed_while_it_saves_ends_as_if_it_had_not_been(
    data, undisturbed, tmp_path, steps_of_saving
):
    for at in steps_of_saving:
        folder = tmp_path / str(at) / "c"
        folder.parent.mkdir()
        dead = killed(folder.parent, at, lambda folder=folder: start_or_resume(data, folder))
        check_loadable(folder)
        if not dead:
            break
        start_or_resume(data, folder)
        assert_same_run(folder, undisturbed)
        shutil.rmtree(folder.parent)
    assert at > 80


@pytest.mark.soak
def test_a_run_on_a_failing_disk_ends_as_on_a_sound_one(data, undisturbed, tmp_path):
    """Fewer than five failures go unreported, and these change nothing."""
    unharmed = 0
    for at in itertools.count(1):
        folder, code = tmp_path / str(at) / "c", ERRORS[at % len(ERRORS)]
        folder.parent.mkdir()
        said = fails(folder.parent, at, code, lambda folder=folder: start_or_resume(data, folder))
        check_loadable(folder)
        if said is None:
            break
        if said:
            assert os.strerror(code) in said and "\n" not in said
            assert not list(folder.rglob("*.part"))
            start_or_resume(data, folder)
        unharmed += not said
        assert_same_run(folder, undisturbed)
        shutil.rmtree(folder.parent)

    assert at > 100 and unharmed < 5
