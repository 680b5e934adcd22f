"""After a kill or a disk failure, an import has written all or nothing, and can be repeated."""

import errno
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from core.checkpoint.folder import list_cards, load, read_card
from core.files import _locked, write_folder
from core.foreign import importing
from core.foreign.family import Options
from tests.core import saved_folders
from tests.core.crashes import fails, killed

NAMES = {
    *("MODEL_CARD.md", "config.json", "metrics.json", "model.safetensors"),
    *("tokenizer.source.json", "tokenizer.target.json"),
}


@pytest.fixture
def write(tmp_path_factory, monkeypatch) -> Callable[[Path], object]:
    """Return the function with which an import fills a folder; the network is read once."""
    folder = tmp_path_factory.mktemp("saved") / "opus"
    saved_folders.write(folder, "marian", "swish")
    found = []
    monkeypatch.setattr(importing, "write_folder", lambda _, write: found.append(write))
    monkeypatch.setattr(importing, "_verify", lambda *_: ([], ["A gap."]))
    options = Options(languages=("de", "en"))
    out = folder.parent / "mine-de-en"
    importing.import_network("marian", folder, out, options, None, "A. Person", "MIT")
    return found[0]


def is_complete(place: Path) -> bool:
    """Return whether the folder is there; if so, it must be complete."""
    out = place / "mine-de-en"
    if not out.exists() or not any(out.iterdir()):
        return False
    assert {file.name for file in out.iterdir()} == NAMES
    assert "A. Person" in (out / "MODEL_CARD.md").read_text()
    assert read_card(out).imported is not None
    return True


@pytest.mark.parametrize("empty", [False, True])
def test_a_killed_import(write, tmp_path, empty):
    """Before the rename, nothing is listed, and the next import works and cleans up."""
    finished = []
    for at in itertools.count(1):
        place = tmp_path / str(at)
        (place / "mine-de-en" if empty else place).mkdir(parents=True)

        def work(place: Path = place) -> None:
            write_folder(place / "mine-de-en", write)

        if not killed(place, at, work):
            break
        finished.append(is_complete(place))
        if not finished[-1]:
            assert empty or list_cards(place) == ([], [])
            work()
            assert is_complete(place)
            assert [file.name for file in place.iterdir()] == ["mine-de-en"]
        left = [file for file in place.iterdir() if file.name != "mine-de-en"]
        assert all(file.name.startswith(".") and not any(file.iterdir()) for file in left)
        assert len(list_cards(place)[0]) == 1 and list_cards(place)[1] == []
    assert finished == sorted(finished) and finished.count(False) > 15  # complete at the end only
    assert load(tmp_path / "1/mine-de-en").card.imported is not None


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_full_or_broken_disk(write, tmp_path, code):
    for at in itertools.count(1):
        place = tmp_path / str(at)
        place.mkdir()

        def work(place: Path = place) -> None:
            write_folder(place / "mine-de-en", write)

        said = fails(place, at, code, work)
        if said is None:
            break
        if said:
            assert not (place / "mine-de-en").exists() and list(place.iterdir()) == []
        else:
            assert is_complete(place)
            continue
        work()
        assert is_complete(place)
    assert at > 20


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    folder, out = tmp_path / "opus", tmp_path / "mine-de-en"
    saved_folders.write(folder, "marian", "swish")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/elsewhere/x.part")

    monkeypatch.setattr(importing, "save", full)
    options = Options(languages=("de", "en"))
    with pytest.raises(
        ValueError, match="^.*/mine-de-en cannot be written .No space left"
    ) as error:
        importing.import_network("marian", folder, out, options, folder / "reference.npz")
    assert str(error.value).endswith("nothing was written")
    assert [file.name for file in tmp_path.iterdir()] == ["opus"]


def test_another_import_that_is_running_is_left_alone(tmp_path):
    running = tmp_path / ".writing-mine-de-en-1"
    stale = tmp_path / ".writing-mine-de-en-2"
    for folder in (running, stale):
        (folder / "mine-de-en").mkdir(parents=True)
    with _locked(running):
        write_folder(tmp_path / "mine-de-en", lambda new: new.mkdir())
    assert {file.name for file in tmp_path.iterdir()} == {running.name, "mine-de-en"}
