"""A stranger's checkpoint folder is refused in one line, whatever is wrong with it."""

import shutil

import pytest

from core.checkpoint.folder import CheckpointError, list_cards, load
from tests.core import strange_folders
from tests.core.hostile_kinds import KINDS


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return strange_folders.good(tmp_path_factory.mktemp("good") / "good-de-en")


class WeightsRead(BaseException):
    """No loader may take this for something that is wrong with the folder."""


def test_there_are_enough_kinds():
    assert len(KINDS) > 300 and len({kind.name for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_it_is_refused_in_one_line_and_its_neighbour_is_listed(kind, good, tmp_path, monkeypatch):
    """Whatever can be known without reading the weights is known before they are read."""
    shutil.copytree(good, tmp_path / "good-de-en")
    folder = shutil.copytree(good, tmp_path / "bad-de-en")
    kind.change(folder)
    if not kind.late:

        def read(*_: object) -> None:
            raise WeightsRead

        monkeypatch.setattr("core.checkpoint.validate.read_exactly", read)
    with pytest.raises(CheckpointError) as caught:
        load(folder)
    line = str(caught.value)
    assert line.isprintable() and "`" not in line.split("`")[0] and len(line) < 900
    assert kind.says in line, line
    assert any(way in line for way in ("git checkout -- ", "core.checkpoint.add_checksum"))
    cards, problems = list_cards(tmp_path)
    assert [card.folder.name for card in cards if card.folder != folder] == ["good-de-en"]
    assert len(problems) == (folder not in [card.folder for card in cards])
    assert all(problem.isprintable() for problem in problems)
