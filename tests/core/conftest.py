"""A whole trained checkpoint, made once from a dozen sentences by the real command."""

from pathlib import Path

import pytest

from core import train
from core.corpora import CORPORA
from tests import small

SPLITS = CORPORA["multi30k"].splits


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """A folder that looks like the corpus: 120 lines to train on, 6 to validate."""
    folder = tmp_path_factory.mktemp("data") / "multi30k"
    folder.mkdir()
    for split in SPLITS:
        lines = small.SENTENCES * (20 if split == "train" else 1)
        for side, language in enumerate(("de", "en")):
            text = "".join(pair[side] + "\n" for pair in lines)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")
    return folder.parent


def run_train(*arguments: object, recipe: str = "smoke") -> None:
    """The training command, in this process."""
    train.run(train.parser().parse_args(["--recipe", recipe, *map(str, arguments)]))


@pytest.fixture(scope="session")
def checkpoint_folder(data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "scratch-de-en"
    run_train("--data", data, "--out", folder)
    return folder
