"""Fixtures: a small corpus, and checkpoints trained on it with the real command."""

import io
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch

from core import command, train
from core.checkpoint.folder import load, save
from core.data.corpora import CORPORA
from core.translator import Translator
from tests import small
from tests.core import saved_folders

SPLITS = CORPORA["multi30k"].splits


@pytest.fixture(scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """A data folder whose corpus has 120 training lines, and 6 lines in every other split."""
    folder = tmp_path_factory.mktemp("data") / "multi30k"
    folder.mkdir()
    for split in SPLITS:
        lines = small.SENTENCES * (20 if split == "train" else 1)
        for side, language in enumerate(("de", "en")):
            text = "".join(pair[side] + "\n" for pair in lines)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")
    return folder.parent


def run_train(*arguments: object, recipe: str = "smoke") -> None:
    """Run the training command in this process."""
    train.run(train.parser().parse_args(["--recipe", recipe, *map(str, arguments)]))


@pytest.fixture(scope="session")
def translating_folder(checkpoint_folder, tmp_path_factory) -> Path:
    """The network of `checkpoint_folder`, overfitted until it translates the training sentences."""
    folder = shutil.copytree(checkpoint_folder, tmp_path_factory.mktemp("t") / "scratch-de-en")
    learned = load(folder)
    model, both = learned.model, (learned.source_tokenizer, learned.target_tokenizer)
    small.learn(model, both, 250)
    card = learned.card
    languages = card.source_language, card.target_language
    save(folder, model, card.architecture, languages, both, card.training, card.metrics)
    sources = [source for source, _ in small.SENTENCES]
    written = Translator.load(folder, "cpu").translate(sources)
    assert all(len(translation.hypotheses[0].ids) > 3 for translation in written)
    assert len({translation.text for translation in written}) > 3
    return folder


@pytest.fixture(scope="session")
def translator(translating_folder) -> Translator:
    return Translator.load(translating_folder, device="cpu")


@pytest.fixture(scope="session")
def checkpoint_folder(data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "scratch-de-en"
    with (
        redirect_stdout(io.StringIO()),
        redirect_stderr(io.StringIO()),
    ):  # keeps `make soak` readable
        run_train("--data", data, "--out", folder)
    return folder


@pytest.fixture(scope="session")
def opus(tmp_path_factory) -> Path:
    """A Marian folder as Hugging Face saves it, with its reference.npz."""
    return saved_folders.write(tmp_path_factory.mktemp("saved") / "opus")


@pytest.fixture
def theirs(opus, tmp_path) -> Path:
    """A copy of `opus` that a test may change."""
    return Path(shutil.copytree(opus, tmp_path / "theirs"))


@pytest.fixture
def lines(monkeypatch, capfd):
    """Run a command in this process; return exit code, stdout and stderr."""

    def run(module, *arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, arguments)])
        monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
        run = getattr(module, "run", lambda parsed: parsed.run(parsed))
        code = 0
        try:
            command.main(module.parser(), run)
        except SystemExit as end:
            code = end.code
        out, error = capfd.readouterr()
        if isinstance(code, str):
            code, error = 1, error + code + "\n"
        return code, out, error

    return run
