"""Atomic file writes: whatever stops one, what is there is wholly old or wholly new."""

import errno
import itertools
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from core.checkpoint import folder as checkpoint
from core.checkpoint.folder import CheckpointError, load, read_card
from core.files import finish_together, write_atomic, write_together

OLD = {"a": b"old a", "b": b"old b", "switch": b"old"}
NEW = {"a": b"new a", "b": b"new b", "switch": b"new"}


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def killed(at: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that dies before its step `at`, in the middle of a file it writes.

    A step is a rename, a removal, or a sync of a file or folder. False if it was done before.
    """
    child = os.fork()
    if child == 0:
        steps = itertools.count(1)

        def dying(function: Callable, *arguments: object, **named: object) -> object:
            if next(steps) == at:
                if function is sync and os.fstat(arguments[0]).st_size:
                    half_written(arguments[0])
                os._exit(9)
            return function(*arguments, **named)

        sync, replace, unlink = os.fsync, Path.replace, Path.unlink
        os.fsync = lambda file: dying(sync, file)
        Path.replace = lambda a, b: dying(replace, a, b)
        Path.unlink = lambda a, **named: dying(unlink, a, **named)
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def half_written(file: int) -> None:
    with suppress(OSError):  # of a folder
        os.ftruncate(file, os.fstat(file).st_size // 2)


def test_a_kill_between_any_two_steps_leaves_all_old_or_all_new(tmp_path):
    found = []
    for at in itertools.count(1):
        folder = tmp_path / str(at)
        write_together(folder, OLD, "switch")
        dead = killed(at, lambda folder=folder: write_together(folder, NEW, "switch"))
        finish_together(folder, "switch")
        after = content(folder)
        whole = {name: after[name] for name in OLD}
        assert whole in (OLD, NEW), at
        found.append(whole == NEW)
        if not dead:
            break
        write_together(folder, {**OLD, "a": b"later"}, "switch")
        assert content(folder) == {**OLD, "a": b"later"}, "what was left is cleaned away"
    assert found == sorted(found) and found.count(False) > 5 and found.count(True) > 4


def test_a_checkpoint_is_whole_after_any_kill(checkpoint_folder, tmp_path):
    """Weights, configuration and metrics are all of one save, for whoever reads them next."""
    original = load(checkpoint_folder)
    both = original.source_tokenizer, original.target_tokenizer

    def save(folder: Path, name: str, value: float) -> None:
        with torch.no_grad():
            original.model.encoder_norm.bias.fill_(value)
        checkpoint.save(
            folder, original.model, "scratch", ("de", "en"), both, {"kept": name}, {"kept": name}
        )

    save(tmp_path / "start", "old", 1.0)
    found = []
    for at in itertools.count(1):
        folder = shutil.copytree(tmp_path / "start", tmp_path / str(at))
        dead = killed(at, lambda folder=folder: save(folder, "new", 2.0))
        if at % 2:  # a page only lists
            read_card(folder)
        loaded = load(folder)
        kept = loaded.card.training["kept"]
        assert (
            loaded.card.metrics["kept"]
            == kept
            == {1.0: "old", 2.0: "new"}[loaded.model.encoder_norm.bias[0].item()]
        )
        assert (folder / "model.safetensors").is_file()
        found.append(kept == "new")
        if not dead:
            break
    assert found == sorted(found) and found.count(False) > 7 and found.count(True) > 5
    assert not list(folder.glob("*.part"))


def unfinished(folder: Path, start: Path) -> Path:
    """A checkpoint whose config.json is new, and whose metrics wait under its mark."""
    shutil.copytree(start, folder)
    mark = checkpoint.sha256((folder / "config.json").read_bytes())[:8]
    (folder / "metrics.json").rename(folder / f"metrics.json.{mark}.part")
    (folder / "tokenizer.json.00000000.part").write_bytes(b"of an attempt that was given up")
    return folder


def test_later_metrics_are_not_replaced_by_those_that_waited(checkpoint_folder, tmp_path):
    folder = unfinished(tmp_path / "c", checkpoint_folder)
    checkpoint.save_metrics(folder, {"curve": [], "final": {}})
    assert read_card(folder).metrics == {"curve": [], "final": {}}
    load(folder)


def test_a_folder_that_cannot_be_finished_says_so(checkpoint_folder, tmp_path, monkeypatch):
    folder = unfinished(tmp_path / "c", checkpoint_folder)

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", refuse)
        with pytest.raises(CheckpointError, match="not saved to its end .Read-only file system."):
            read_card(folder)
    expected = json.loads((checkpoint_folder / "metrics.json").read_text())
    assert read_card(folder).metrics == expected


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_a_failed_write_keeps_the_old_files(tmp_path, monkeypatch, error):
    write_together(tmp_path, OLD, "switch")
    synced = itertools.count(1)

    def full(_: int) -> None:
        if next(synced) == 2:
            raise error

    monkeypatch.setattr("core.files.os.fsync", full)
    with pytest.raises(type(error)) as caught:
        write_together(tmp_path, NEW, "switch")
    if isinstance(error, OSError):
        message = str(caught.value)
        assert "No space left on device (while writing 5 bytes)" in message and "/b'" in message
    assert content(tmp_path) == OLD


def test_a_write_stopped_after_the_switch_keeps_the_new_files(tmp_path, monkeypatch):
    write_together(tmp_path, OLD, "switch")
    replace = Path.replace

    def stop(part: Path, file: Path) -> None:
        replace(part, file)
        if file.name == "switch":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            write_together(tmp_path, NEW, "switch")
    finish_together(tmp_path, "switch")
    assert content(tmp_path) == NEW


def test_files_of_others_are_left_alone(tmp_path):
    (tmp_path / "film.part").write_bytes(b"a download")
    (tmp_path / "film.12345678.part").write_bytes(b"another")
    write_together(tmp_path, OLD, "switch")
    write_atomic(tmp_path / "c", b"1")
    assert (tmp_path / "film.part").exists() and (tmp_path / "film.12345678.part").exists()


def test_files_are_whole_before_they_take_their_places(tmp_path, monkeypatch):
    calls = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr("core.files.os.fsync", lambda f: calls.append("sync") or sync(f))
    monkeypatch.setattr(Path, "replace", lambda a, b: calls.append(b.name) or replace(a, b))
    write_together(tmp_path, NEW, "switch")
    a, b = (f"{name}.{checkpoint.sha256(b'new')[:8]}.part" for name in "ab")
    assert calls == ["sync"] * 3 + [a, b, "sync", "switch", "sync", "a", "b", "sync"]
    calls.clear()
    write_atomic(tmp_path / "c", b"1")
    assert calls == ["sync", "c", "sync"]
