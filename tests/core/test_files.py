"""Atomic writes leave either the old or the new content; reads are safe against file swaps."""

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
from tests.core.crashes import fails

OLD = {"a": b"old a", "b": b"old b", "manifest": b"old"}
NEW = {"a": b"new a", "b": b"new b", "manifest": b"new"}


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def half_committed(folder: Path, start: Path) -> Path:
    """Return a checkpoint with a committed config.json whose metrics are still staged."""
    shutil.copytree(start, folder)
    mark = checkpoint.sha256((folder / "config.json").read_bytes())[:12]
    (folder / "metrics.json").rename(folder / f"metrics-{mark}.json")
    (folder / "tokenizer-000000000000.json").write_bytes(b"of an earlier attempt")
    return folder


def test_staged_metrics_do_not_replace_newer_ones(checkpoint_folder, tmp_path):
    folder = half_committed(tmp_path / "c", checkpoint_folder)
    checkpoint.save_metrics(folder, {"curve": [], "final": {}})
    assert read_card(folder).metrics == {"curve": [], "final": {}}
    load(folder)


def test_sealing_a_half_committed_folder_keeps_its_staged_files(checkpoint_folder, tmp_path):
    folder = half_committed(tmp_path / "c", checkpoint_folder)
    config = json.loads((folder / "config.json").read_text())
    waiting = next(folder.glob("metrics-*.json"))
    del config["sha256"]
    write_json(folder / "config.json", config)
    mark = checkpoint.sha256((folder / "config.json").read_bytes())[:12]
    waiting.rename(folder / f"metrics-{mark}.json")
    add_checksum(folder)
    assert read_card(folder).metrics == read_card(checkpoint_folder).metrics != {}


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_a_failed_write_keeps_the_old_files(tmp_path, monkeypatch, error):
    write_transaction(tmp_path, OLD, "manifest")
    synced = itertools.count(1)

    def full(_: int) -> None:
        if next(synced) == 2:
            raise error

    monkeypatch.setattr("core.files.os.fsync", full)
    with pytest.raises(type(error)) as caught:
        write_transaction(tmp_path, NEW, "manifest")
    if isinstance(error, OSError):
        message = str(caught.value)
        assert "No space left on device (while writing 5 bytes)" in message and "/b'" in message
    assert content(tmp_path) == OLD


def test_a_failed_write_with_an_unchanged_manifest_leaves_nothing_behind(tmp_path):
    """Scoring a run again changes metrics.json, but not config.json."""
    again, found = NEW | {"manifest": OLD["manifest"]}, []
    for at in itertools.count(1):
        folder = tmp_path / str(at)
        write_transaction(folder, OLD, "manifest")
        write = lambda folder=folder: write_transaction(folder, again, "manifest")  # noqa: E731
        if fails(folder, at, errno.EIO, write) is None:
            break
        finish_commit(folder, "manifest")
        assert content(folder) in (OLD, again), at
        found.append(content(folder) == again)
    assert found == sorted(found) and found.count(False) > 10 and found.count(True) > 2


def test_other_files_are_left_alone(tmp_path):
    (tmp_path / "film.part").write_bytes(b"a download")
    (tmp_path / "film-0123456789ab").write_bytes(b"another")
    write_transaction(tmp_path, OLD, "manifest")
    write_atomic(tmp_path / "c", b"1")
    assert (tmp_path / "film.part").exists() and (tmp_path / "film-0123456789ab").exists()


def test_files_are_synced_before_they_are_renamed(tmp_path, monkeypatch):
    calls = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr("core.files.os.fsync", lambda f: calls.append("sync") or sync(f))
    monkeypatch.setattr(Path, "replace", lambda a, b: calls.append(b.name) or replace(a, b))
    write_transaction(tmp_path, NEW, "manifest")
    a, b = (f"{name}-{checkpoint.sha256(b'new')[:12]}" for name in "ab")
    assert calls == ["sync"] * 3 + [a, b, "sync", "manifest", "sync", "a", "b", "sync"]
    calls.clear()
    write_atomic(tmp_path / "c", b"1")
    assert calls == ["sync", "c", "sync"]


@pytest.mark.parametrize("place", ["x", "a/b/x", "there/x"])
def test_check_writable_leaves_no_trace(tmp_path, place):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("old")
    check_writable(tmp_path / place)
    check_writable(tmp_path / "file")
    assert sorted(f.name for f in tmp_path.rglob("*")) == ["file", "there"]
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.parametrize("place", ["file/x", "there", "file/a/x", "/proc/none/x"])
def test_check_writable_names_the_file(tmp_path, place):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("old")
    with pytest.raises(OSError, match=re.escape(place)):
        check_writable(tmp_path / place)
    assert sorted(f.name for f in tmp_path.rglob("*")) == ["file", "there"]


def swap_at(monkeypatch, file: Path, at: int, put) -> None:
    """Replace a file right after it is examined for the `at`-th time."""
    count = itertools.count(1)
    lstat, is_file = os.lstat, Path.is_file

    def examine(ask, place):
        found = ask(place)
        if str(place) == str(file) and next(count) == at:
            file.unlink()
            put(file)
        return found

    monkeypatch.setattr(os, "lstat", lambda place: examine(lstat, place))
    monkeypatch.setattr(Path, "is_file", lambda place: examine(is_file, place))


NOT_FILES = {
    "pipe": os.mkfifo,
    "link": lambda file: file.symlink_to("/etc/hostname"),
    "folder": Path.mkdir,
}


class Blocked(BaseException):
    """Raised after ten seconds; not an Exception, so that no reader takes it for a broken file."""


@pytest.fixture
def no_blocking():
    """Fail after ten seconds instead of waiting for a pipe."""

    def stop(*_: object) -> None:
        raise Blocked

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("no_blocking")
@pytest.mark.parametrize("put", NOT_FILES.values(), ids=NOT_FILES)
def test_a_swapped_file_is_not_read(tmp_path, monkeypatch, put):
    """A file swapped after the check is not read, and a swapped-in pipe does not block."""
    file = tmp_path / "config.json"
    file.write_bytes(b"{}")
    swap_at(monkeypatch, file, 1, put)
    with pytest.raises(ValueError, match="^it is a (link|folder)|^it is not a regular file"):
        safe_read(file, 100)


def test_a_manifest_over_the_size_limit_is_ignored(tmp_path):
    for size, name in ((65_536, "a-"), (65_537, "a")):
        content = b"x" * size
        (tmp_path / "manifest").write_bytes(content)
        (tmp_path / f"a-{checkpoint.sha256(content)[:12]}").write_bytes(b"waits")
        assert committed_file(tmp_path, "a", "manifest").name.startswith(name)
        assert (committed_file(tmp_path, "a", "manifest").name == "a") == (size == 65_537)


@pytest.mark.usefixtures("no_blocking")
def test_reading_enforces_sizes_and_refuses_links_and_pipes(tmp_path):
    file = tmp_path / "x"
    file.write_bytes(b"12345")
    assert safe_read(file, 5) == safe_read(file, 5, 5) == b"12345"
    for largest, size, says in ((4, None, "5 bytes, the limit is 4"), (9, 6, "expected 6")):
        with pytest.raises(ValueError, match=says):
            safe_read(file, largest, size)
    (tmp_path / "link").symlink_to(file)
    assert safe_read(tmp_path / "link", 5, follow_links=True) == b"12345", "the user named it"
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
    """XDG Base Directory Specification: empty means unset, relative paths are ignored."""
    monkeypatch.setenv("HOME", home)
    if cache is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
    assert cache_folder() == Path(expected)


def test_a_relative_home_is_rejected(monkeypatch):
    monkeypatch.setenv("HOME", "rel")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    with pytest.raises(RuntimeError, match="not absolute"):
        cache_folder()


WRITES = {
    "write_atomic": lambda folder: write_atomic(folder / "x", b"new"),
    "write_transaction": lambda folder: write_transaction(folder, {"x": b"new", "s": b"1"}, "s"),
    "check_writable": lambda folder: check_writable(folder / "x"),
}


@pytest.mark.usefixtures("no_blocking")
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("what", ["link", "pipe", "file"])
def test_writes_do_not_follow_a_part_file_left_in_the_folder(tmp_path, what, write):
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
