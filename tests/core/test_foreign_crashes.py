"""After a kill or a disk failure, an import has written all or nothing, and can be repeated."""

import errno
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from core.checkpoint.folder import list_cards, load
from core.checkpoint.imported import Comparison
from core.files import _locked, write_folder
from core.foreign import importing
from core.foreign.family import Options
from tests.core.crashes import fails, killed
from tests.core.saved_folders import write

NAMES = {
    *("MODEL_CARD.md", "config.json", "metrics.json", "model.safetensors"),
    *("tokenizer.source.json", "tokenizer.target.json"),
}


@pytest.fixture
def imports(tmp_path_factory, monkeypatch) -> Callable[[Path], Callable[[], object]]:
    """Return a function that returns an import into a folder of its own.

    It is not compared with the original, which would take most of the time.
    """
    folder = tmp_path_factory.mktemp("saved") / "opus"
    write(folder, "marian", "swish")
    monkeypatch.setattr(importing, "_verify", lambda *_: verified)

    def prepared(place: Path) -> Callable[[], object]:
        options = Options(languages=("de", "en"))
        out = place / "mine-de-en"
        return lambda: importing.import_network(
            "marian", folder, out, options, None, "A. Person", "MIT"
        )

    one = Comparison(what="logits", max_abs_diff=0.1, limit=0.2, passed=True)
    verified = [one], ["A gap."]
    return prepared


def is_complete(place: Path) -> bool:
    """Return whether the folder is there; if so, it must be complete and loadable."""
    out = place / "mine-de-en"
    if not out.exists() or not any(out.iterdir()):
        return False
    assert {file.name for file in out.iterdir()} == NAMES
    assert "A. Person" in (out / "MODEL_CARD.md").read_text()
    assert load(out).card.imported is not None
    return True


@pytest.mark.parametrize("empty", [False, True])
def test_a_killed_import(imports, tmp_path, empty):
    """Before the rename, nothing is listed, and the next import works and cleans up."""
    finished = []
    for at in itertools.count(1):
        place = tmp_path / str(at)
        (place / "mine-de-en" if empty else place).mkdir(parents=True)
        work = imports(place)
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


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_full_or_broken_disk(imports, tmp_path, code):
    for at in itertools.count(1):
        place = tmp_path / str(at)
        place.mkdir()
        work = imports(place)
        said = fails(place, at, code, work)
        if said is None:
            break
        if said:
            assert not (place / "mine-de-en").exists() and list(place.iterdir()) == []
            assert said.startswith(f"{place / 'mine-de-en'} cannot be written (")
            assert said.endswith("nothing was written") and "\n" not in said
        else:
            assert is_complete(place)
            continue
        work()
        assert is_complete(place)
    assert at > 20


def test_another_import_that_is_running_is_left_alone(tmp_path):
    running = tmp_path / ".writing-mine-de-en-1"
    stale = tmp_path / ".writing-mine-de-en-2"
    for folder in (running, stale):
        (folder / "mine-de-en").mkdir(parents=True)
    with _locked(running):
        write_folder(tmp_path / "mine-de-en", lambda new: new.mkdir())
    assert {file.name for file in tmp_path.iterdir()} == {running.name, "mine-de-en"}
