"""Atomic file writes: whatever stops one, what is there is wholly old or wholly new."""

import errno
import itertools
import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from core.checkpoint import folder as checkpoint
from core.checkpoint.add_checksum import add_checksum
from core.checkpoint.folder import load, read_card
from core.files import (
    cache_folder,
    check_writable,
    committed_file,
    finish_commit,
    safe_open,
    safe_read,
    write_atomic,
    write_json,
    write_transaction,
)
from tests.core import strange_folders
from tests.core.crashes import fails, killed

OLD = {"a": b"old a", "b": b"old b", "switch": b"old"}
NEW = {"a": b"new a", "b": b"new b", "switch": b"new"}


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_kill_between_any_two_steps_leaves_all_old_or_all_new(tmp_path):
    found = []
    for at in itertools.count(1):
        folder = tmp_path / str(at)
        write_transaction(folder, OLD, "switch")
        dead = killed(folder, at, lambda folder=folder: write_transaction(folder, NEW, "switch"))
        whole = {name: committed_file(folder, name, "switch").read_bytes() for name in OLD}
        assert whole in (OLD, NEW), at
        finish_commit(folder, "switch")
        assert whole.items() <= content(folder).items()
        found.append(whole == NEW)
        if not dead:
            break
        write_transaction(folder, {**OLD, "a": b"later"}, "switch")
        assert content(folder) == {**OLD, "a": b"later"}, "what was left is cleaned away"
    assert found == sorted(found) and found.count(False) > 10 and found.count(True) > 4


def unfinished(folder: Path, start: Path) -> Path:
    """A checkpoint whose config.json is new, and whose metrics wait under its mark."""
    shutil.copytree(start, folder)
    mark = checkpoint.sha256((folder / "config.json").read_bytes())[:12]
    (folder / "metrics.json").rename(folder / f"metrics-{mark}.json")
    (folder / "tokenizer-000000000000.json").write_bytes(b"of an attempt that was given up")
    return folder


def test_later_metrics_are_not_replaced_by_those_that_waited(checkpoint_folder, tmp_path):
    folder = unfinished(tmp_path / "c", checkpoint_folder)
    checkpoint.save_metrics(folder, {"curve": [], "final": {}})
    assert read_card(folder).metrics == {"curve": [], "final": {}}
    load(folder)


def test_a_folder_that_was_not_saved_to_its_end_is_sealed_with_what_waits(
    checkpoint_folder, tmp_path
):
    folder = unfinished(tmp_path / "c", checkpoint_folder)
    config = json.loads((folder / "config.json").read_text())
    waiting = next(folder.glob("metrics-*.json"))
    del config["sha256"]
    write_json(folder / "config.json", config)
    mark = checkpoint.sha256((folder / "config.json").read_bytes())[:12]
    waiting.rename(folder / f"metrics-{mark}.json")
    add_checksum(folder)
    assert read_card(folder).metrics == read_card(checkpoint_folder).metrics != {}


def test_a_folder_that_was_not_saved_to_its_end_is_read_without_writing(
    checkpoint_folder, tmp_path, monkeypatch
):
    folder = unfinished(tmp_path / "c", checkpoint_folder)
    expected = json.loads((checkpoint_folder / "metrics.json").read_text())

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("replace", "unlink", "mkdir"):
        monkeypatch.setattr(Path, name, refuse)
    assert read_card(folder).metrics == expected
    load(folder)


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_a_failed_write_keeps_the_old_files(tmp_path, monkeypatch, error):
    write_transaction(tmp_path, OLD, "switch")
    synced = itertools.count(1)

    def full(_: int) -> None:
        if next(synced) == 2:
            raise error

    monkeypatch.setattr("core.files.os.fsync", full)
    with pytest.raises(type(error)) as caught:
        write_transaction(tmp_path, NEW, "switch")
    if isinstance(error, OSError):
        message = str(caught.value)
        assert "No space left on device (while writing 5 bytes)" in message and "/b'" in message
    assert content(tmp_path) == OLD


def test_a_failed_write_under_the_same_switch_leaves_nothing_behind(tmp_path):
    """As where a run is scored: config.json stays as it was, and metrics.json does not."""
    again, found = NEW | {"switch": OLD["switch"]}, []
    for at in itertools.count(1):
        folder = tmp_path / str(at)
        write_transaction(folder, OLD, "switch")
        if (
            fails(folder, at, errno.EIO, lambda f=folder: write_transaction(f, again, "switch"))
            is None
        ):
            break
        finish_commit(folder, "switch")
        assert content(folder) in (OLD, again), at
        found.append(content(folder) == again)
    assert found == sorted(found) and found.count(False) > 10 and found.count(True) > 2


def test_a_write_stopped_after_the_switch_keeps_the_new_files(tmp_path, monkeypatch):
    write_transaction(tmp_path, OLD, "switch")
    replace = Path.replace

    def stop(part: Path, file: Path) -> None:
        replace(part, file)
        if file.name == "switch":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            write_transaction(tmp_path, NEW, "switch")
    finish_commit(tmp_path, "switch")
    assert content(tmp_path) == NEW


def test_files_of_others_are_left_alone(tmp_path):
    (tmp_path / "film.part").write_bytes(b"a download")
    (tmp_path / "film-0123456789ab").write_bytes(b"another")
    write_transaction(tmp_path, OLD, "switch")
    write_atomic(tmp_path / "c", b"1")
    assert (tmp_path / "film.part").exists() and (tmp_path / "film-0123456789ab").exists()


def test_files_are_whole_before_they_take_their_places(tmp_path, monkeypatch):
    calls = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr("core.files.os.fsync", lambda f: calls.append("sync") or sync(f))
    monkeypatch.setattr(Path, "replace", lambda a, b: calls.append(b.name) or replace(a, b))
    write_transaction(tmp_path, NEW, "switch")
    a, b = (f"{name}-{checkpoint.sha256(b'new')[:12]}" for name in "ab")
    assert calls == ["sync"] * 3 + [a, b, "sync", "switch", "sync", "a", "b", "sync"]
    calls.clear()
    write_atomic(tmp_path / "c", b"1")
    assert calls == ["sync", "c", "sync"]


@pytest.mark.parametrize("place", ["x", "a/b/x", "there/x"])
def test_whether_a_file_can_be_written_is_tried_without_a_trace(tmp_path, place):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("old")
    check_writable(tmp_path / place)
    check_writable(tmp_path / "file")
    assert sorted(f.name for f in tmp_path.rglob("*")) == ["file", "there"]
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.parametrize("place", ["file/x", "there", "file/a/x", "/proc/none/x"])
def test_where_no_file_can_be_written_it_says_so(tmp_path, place):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("old")
    with pytest.raises(OSError, match=re.escape(place)):
        check_writable(tmp_path / place)
    assert sorted(f.name for f in tmp_path.rglob("*")) == ["file", "there"]


def in_place(monkeypatch, file: Path, at: int, put) -> None:
    """Put something else in a file's place as it is looked at for the `at`-th time."""
    looks = itertools.count(1)
    lstat, is_file = os.lstat, Path.is_file

    def look(ask, place):
        found = ask(place)
        if str(place) == str(file) and next(looks) == at:
            file.unlink()
            put(file)
        return found

    monkeypatch.setattr(os, "lstat", lambda place: look(lstat, place))
    monkeypatch.setattr(Path, "is_file", lambda place: look(is_file, place))


NOT_FILES = {
    "pipe": os.mkfifo,
    "link": lambda file: file.symlink_to("/etc/hostname"),
    "folder": Path.mkdir,
}


class Waited(BaseException):
    """No reader may take this for something that is wrong with a file."""


@pytest.fixture
def prompt():
    """What waits for a pipe fails after a few seconds."""

    def stop(*_: object) -> None:
        raise Waited

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("prompt")
@pytest.mark.parametrize("put", NOT_FILES.values(), ids=NOT_FILES)
def test_what_is_put_in_a_files_place_is_not_read(tmp_path, monkeypatch, put):
    """The file is looked at, then another one has its name: a pipe must not be waited for."""
    file = tmp_path / "config.json"
    file.write_bytes(b"{}")
    in_place(monkeypatch, file, 1, put)
    with pytest.raises((ValueError, OSError)):
        safe_read(file, 100)


@pytest.mark.usefixtures("prompt")
@pytest.mark.parametrize("put", NOT_FILES.values(), ids=NOT_FILES)
@pytest.mark.parametrize("at", range(1, 5))
def test_a_folder_whose_files_change_while_it_is_loaded_does_not_hang(
    tmp_path, monkeypatch, put, at
):
    folder = strange_folders.good(tmp_path / "good-de-en")
    in_place(monkeypatch, folder / "config.json", at, put)
    try:
        load(folder)
    except checkpoint.CheckpointError as error:
        assert str(error).isprintable()
    assert not (folder / "config.json").is_file() or put is NOT_FILES["link"]


@pytest.mark.parametrize("put", NOT_FILES.values(), ids=NOT_FILES)
def test_a_switch_that_is_no_file_has_no_mark(tmp_path, put):
    put(tmp_path / "switch")
    assert committed_file(tmp_path, "a", "switch") == tmp_path / "a"
    finish_commit(tmp_path, "switch")


def test_a_switch_as_large_as_settings_may_be_has_a_mark(tmp_path):
    for size, name in ((65_536, "a-"), (65_537, "a")):
        content = b"x" * size
        (tmp_path / "switch").write_bytes(content)
        (tmp_path / f"a-{checkpoint.sha256(content)[:12]}").write_bytes(b"waits")
        assert committed_file(tmp_path, "a", "switch").name.startswith(name)
        assert (committed_file(tmp_path, "a", "switch").name == "a") == (size == 65_537)


@pytest.mark.usefixtures("prompt")
def test_sizes_are_known_before_anything_is_read(tmp_path):
    file = tmp_path / "x"
    file.write_bytes(b"12345")
    assert safe_read(file, 5) == safe_read(file, 5, 5) == b"12345"
    for largest, size, says in ((4, None, "5 bytes, the limit is 4"), (9, 6, "expected 6")):
        with pytest.raises(ValueError, match=says):
            safe_read(file, largest, size)
    (tmp_path / "link").symlink_to(file)
    assert safe_read(tmp_path / "link", 5, follow_links=True) == b"12345", "a person named it"
    with pytest.raises(ValueError, match="a link, which is not followed"):
        safe_read(tmp_path / "link", 5)
    os.mkfifo(tmp_path / "pipe")
    with (
        pytest.raises(ValueError, match="not a regular file"),
        safe_open(tmp_path / "pipe", 5, follow_links=True),
    ):
        pass


@pytest.mark.parametrize(
    ("cache", "home", "expected"),
    [
        ("/c", "/h", "/c/headlight"),
        (None, "/h", "/h/.cache/headlight"),
        ("", "/h", "/h/.cache/headlight"),
        ("rel", "/h", "/h/.cache/headlight"),
        ("./rel", "/h", "/h/.cache/headlight"),
        ("/c", "rel", "/c/headlight"),
    ],
)
def test_a_cache_is_never_in_the_current_folder(monkeypatch, cache, home, expected):
    """XDG Base Directory Specification: empty is unset, and relative paths are ignored."""
    monkeypatch.setenv("HOME", home)
    if cache is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
    assert cache_folder() == Path(expected)


def test_a_relative_home_is_none(monkeypatch):
    monkeypatch.setenv("HOME", "rel")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    with pytest.raises(RuntimeError, match="not absolute"):
        cache_folder()


WRITES = {
    "write_atomic": lambda folder: write_atomic(folder / "x", b"new"),
    "write_transaction": lambda folder: write_transaction(folder, {"x": b"new", "s": b"1"}, "s"),
    "check_writable": lambda folder: check_writable(folder / "x"),
}


@pytest.mark.usefixtures("prompt")
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("what", ["link", "pipe", "file"])
def test_what_is_written_goes_through_nothing_that_a_folder_brought_along(tmp_path, what, write):
    (tmp_path / "folder").mkdir()
    other, part = tmp_path / "other", tmp_path / "folder" / "x.part"
    other.write_bytes(b"another's")
    {
        "link": lambda: part.symlink_to(other),
        "pipe": lambda: os.mkfifo(part),
        "file": lambda: part.write_bytes(b"left by a killed write"),
    }[what]()
    write(tmp_path / "folder")
    assert other.read_bytes() == b"another's" and not part.exists() and not part.is_symlink()
    written = tmp_path / "folder" / "x"
    assert not written.exists() or (written.read_bytes() == b"new" and not written.is_symlink())
