"""After a kill or a disk failure, an import has written all or nothing, and can be repeated."""

import errno
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from core.checkpoint.folder import list_cards, load, read_card
from core.files import _locked, write_folder
from core.foreign import importing
from tests.core.crashes import fails, killed
from tests.core.saved_folders import convert, refused

NAMES = {
    *("MODEL_CARD.md", "config.json", "metrics.json", "model.safetensors"),
    *("tokenizer.source.json", "tokenizer.target.json"),
}


@pytest.fixture
def work(opus, monkeypatch) -> Callable[[Path], object]:
    """Return a function that imports into a place; the network is read once."""
    found = []
    monkeypatch.setattr(importing, "write_folder", lambda _, write: found.append(write))
    monkeypatch.setattr(importing, "_verify", lambda *_: ([], ["A gap."]))
    convert(opus)
    return lambda place: write_folder(place / "mine-de-en", found[0])


def is_complete(place: Path) -> bool:
    """Return whether the folder is there; if so, it must be complete."""
    out = place / "mine-de-en"
    if not out.exists() or not any(out.iterdir()):
        return False
    assert {file.name for file in out.iterdir()} == NAMES
    assert "A. Person" in (out / "MODEL_CARD.md").read_text()
    assert read_card(out).imported is not None
    return True


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.soak)])
def test_a_killed_import(work, tmp_path, stride):
    """Before the rename, nothing is listed, and the next import works and cleans up."""
    finished = []
    for at in itertools.count(1, stride):
        place, empty = tmp_path / str(at), at % 2 == 0
        (place / "mine-de-en" if empty else place).mkdir(parents=True)
        if not killed(place, at, lambda place=place: work(place)):
            break
        finished.append(is_complete(place))
        if not finished[-1]:
            assert empty or list_cards(place) == ([], [])
            work(place)
            assert is_complete(place)
            assert [file.name for file in place.iterdir()] == ["mine-de-en"]
        left = [file for file in place.iterdir() if file.name != "mine-de-en"]
        assert all(file.name.startswith(".") and not any(file.iterdir()) for file in left)
        assert len(list_cards(place)[0]) == 1 and list_cards(place)[1] == []
    assert (
        finished == sorted(finished) and finished.count(False) > 15 / stride
    )  # complete at the end only
    assert load(tmp_path / "1/mine-de-en").card.imported is not None


def test_a_full_or_broken_disk(work, tmp_path):
    for at in itertools.count(1):
        place = tmp_path / str(at)
        place.mkdir()
        code = (errno.ENOSPC, errno.EIO)[at % 2]
        said = fails(place, at, code, lambda place=place: work(place))
        if said is None:
            break
        if said:
            assert list(place.iterdir()) == []
            work(place)
        assert is_complete(place)
    assert at > 20


def test_a_full_disk_is_named(theirs, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/elsewhere/x.part")

    monkeypatch.setattr(importing, "save", full)
    refused(theirs, "cannot be written .No space left.*; nothing was written$", "/mine-de-en")


def test_another_import_that_is_running_is_left_alone(tmp_path):
    running = tmp_path / ".writing-mine-de-en-1"
    stale = tmp_path / ".writing-mine-de-en-2"
    for folder in (running, stale):
        (folder / "mine-de-en").mkdir(parents=True)
    with _locked(running):
        write_folder(tmp_path / "mine-de-en", lambda new: new.mkdir())
    assert {file.name for file in tmp_path.iterdir()} == {running.name, "mine-de-en"}
