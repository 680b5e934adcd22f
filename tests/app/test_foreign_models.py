"""Models from other folders: shipped, own and imported ones, with author, licence and languages."""

from __future__ import annotations

import dataclasses
import io
import os
import re
import subprocess
import sys

import pytest

from app.export import arrays, page
from app.state import folders, models, results
from core.checkpoint.folder import read_card
from core.checkpoint.imported import Imported
from core.data.corpora import LANGUAGES
from core.record.record import TranslationRecord
from core.text.words import WordTokenizer
from core.translator import Translator
from tests.app import foreign_models
from tests.app.conftest import clear_caches
from tests.app.foreign_models import IMPORTED, SENTENCES
from tests.app.page_checks import ROOT
from tests.app.rendered import Rendered, render, unpacked

CREDIT = "imported, by Language Group <b>X</b>, licence CC-BY-4.0"
ARABIC = SENTENCES["ar"][0]


def clear() -> None:
    clear_caches()
    folders._logged.clear()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Return a folder of three networks: ar-en imported and own, en-he imported without author."""
    folder = tmp_path_factory.mktemp("models")
    foreign_models.write(folder / "opus-ar-en")
    foreign_models.write(folder / "night-ar-en", None, seed=1)
    unknown = {**IMPORTED, "author": "", "licence": "", "compared": [], "not_proven": []}
    foreign_models.write(folder / "anonymous-en-he", unknown)
    return folder


@pytest.fixture
def named(root, monkeypatch):
    """Name the folder in the environment, and return it."""
    monkeypatch.setenv(folders.VARIABLE, str(root))
    clear()
    yield root
    clear()


# --- which folders


def test_folders_come_from_options_then_from_the_environment(tmp_path):
    """A bad folder is one line, and the others work."""
    good = [tmp_path / name for name in "abc"]
    for folder in good:
        folder.mkdir()
    (tmp_path / "file").touch()
    bad = [tmp_path / "none", tmp_path / "file"]
    options = ["--checkpoints", str(good[2]), "ignored", f"--checkpoints={good[0]}"]
    options += [f"--checkpoints={folder}" for folder in bad]
    environment = {folders.VARIABLE: os.pathsep.join(map(str, [good[1], good[0]]))}
    found, problems = folders.named_folders(options, environment)
    assert found == [good[2], good[0], good[1]]
    for folder, said, line in zip(
        bad, ("does not exist", "is not a folder"), problems, strict=True
    ):
        assert line.startswith(f"{folder} {said}: correct --checkpoints or HEADLIGHT_CHECKPOINTS;")
    (line,) = folders.named_folders(["--checkpoints"], {})[1]
    assert line.startswith("--checkpoints names no folder: write --checkpoints DIR")


def test_the_servers_command_passes_folders_on_as_absolute_paths(tmp_path, monkeypatch):
    """Relative paths would break, since the command changes into the project's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(folders.VARIABLE, "second")
    folders.set_folders(["first"])
    assert os.environ[folders.VARIABLE] == f"{tmp_path / 'first'}{os.pathsep}{tmp_path / 'second'}"


def test_a_problem_is_logged_once(caplog, monkeypatch):
    monkeypatch.setattr(folders._LOG, "handlers", [caplog.handler])
    caplog.clear()
    folders._logged.clear()
    folders.log_once(["a line", "a line", "another"])
    folders.log_once(["a line"])
    assert caplog.messages == ["a line", "another"]


def test_the_makefile_passes_each_folder():
    line = ["make", "--dry-run", "--assume-old=.venv/ready", "app", "CHECKPOINTS=a b"]
    shown = subprocess.run(line, cwd=ROOT, capture_output=True, text=True).stdout
    assert "--checkpoints a --checkpoints b" in shown


def test_a_script_gets_the_option_and_one_checkpoint_can_be_named_itself(named, monkeypatch):
    """`streamlit run app/main.py -- --checkpoints DIR` puts the option into sys.argv."""
    monkeypatch.delenv(folders.VARIABLE)
    for folder, new in ((named, {"ar-en", "en-he"}), (named / "opus-ar-en", {"ar-en"})):
        monkeypatch.setattr(sys, "argv", ["app/main.py", "--checkpoints", str(folder)])
        clear()
        assert {direction for direction, _ in models.cards()} == {"de-en", "en-de"} | new
        assert models.problems() == []


def test_of_equal_names_the_first_is_used_and_a_line_says_so(named, tmp_path, monkeypatch):
    foreign_models.write(tmp_path / "opus-ar-en", None, seed=2)
    empty = tmp_path / "empty"
    empty.mkdir()
    given = [named, tmp_path, empty, named]
    monkeypatch.setenv(folders.VARIABLE, os.pathsep.join(map(str, given)))
    clear()
    assert models.cards()["ar-en", "opus"].folder == named / "opus-ar-en"
    left_out, *more = [line for line in models.problems() if "is left out, as" in line]
    assert not more
    assert f"{tmp_path / 'opus-ar-en'} is left out, as {named / 'opus-ar-en'} has the" in left_out
    assert any(line.startswith(f"{empty} contains no checkpoint") for line in models.problems())


# --- what is said of a model


def test_models_are_shipped_own_or_imported(named):
    found = models.cards()
    assert {models.origin(card) for (d, _), card in found.items() if d in ("de-en", "en-de")} == {
        "shipped"
    }
    assert [name for d, name in found if d == "ar-en"] == ["night", "opus"]  # own ones first
    assert models.origin(found["ar-en", "night"]) == "own"
    assert models.origin(found["ar-en", "opus"]) == "imported"


@pytest.mark.parametrize(
    ("imported", "label"), [(None, "Own: scratch, "), (IMPORTED, "Imported: scratch (by Lang")]
)
def test_a_shipped_name_does_not_make_other_weights_shipped(tmp_path, monkeypatch, imported, label):
    """`make train` writes to a folder with a shipped name, and an import may do so too."""
    foreign_models.write(tmp_path / "scratch-de-en", imported)
    monkeypatch.setattr(models, "CHECKPOINTS", tmp_path)
    clear()
    shown = render("masks", direction="de-en", source="Zwei Hunde laufen .", search="greedy")
    (option,) = shown.texts("model", "option")
    assert option.startswith(label) and "scratch" not in option.removeprefix(label)
    assert not any("from scratch" in item.text.lower() for item in shown.items)
    clear()


def test_the_sidebar_names_author_licence_size_and_verification(named):
    shown = render("masks", direction="ar-en", model="opus", source=ARABIC, search="greedy")
    count = read_card(named / "opus-ar-en").parameters
    size = f"{count:,} weights"
    assert shown.texts("model", "raw_value") == [
        f"Imported: opus (by Language Group <b>X</b>, licence CC-BY-4.0), {size}"
    ]
    assert shown.texts("model", "option")[0] == f"Own: night, {size}"
    assert shown.texts("direction", "raw_value") == ["Arabic → English"]
    (said,) = shown.texts("model", "help")
    for line in (
        r"Imported from opus-mt-ar-en (marian). Author: Language Group \<b\>X\</b\>. Licence: "
        "CC-BY-4.0.",
        "Compared with the original on import: 1 of 2 comparisons passed. Not verified: 1 point, "
        "listed beside the checks of a sentence.",
    ):
        assert line in said.split("\n\n")
    (line,) = shown.texts("model_note", "caption")
    assert line == f"CPU, 2 + 2 layers, 2 heads, d_model 16, {size}"


def test_other_models_claim_no_more_than_is_known(named):
    shown = render("masks", direction="en-he", source="Two dogs run .", search="greedy")
    (said,) = shown.texts("model", "help")
    assert "Not compared with the original." in said.split("\n\n")
    assert "Author: unknown. Licence: unknown." in said
    shown = render("masks", direction="ar-en", model="night", source=ARABIC, search="greedy")
    (said,) = shown.texts("model", "help")
    assert "Imported from" not in said and "ompared with the original" not in said


def test_every_bug_can_be_asked_about_an_import_of_another_language(named):
    given = {"direction": "ar-en", "model": "opus", "source": ARABIC, "search": "greedy"}
    for bug in range(1, 9):
        shown = render("bugs", bug=str(bug), **given)
        assert not shown.app.error
        asked = shown.payload("asked_bug")
        assert len(asked["options"]) == 8 and len(asked["correct"]) == 1
        assert len(shown.table("bug_numbers")) == 13


def test_shipped_models_alone_need_no_prefix_and_no_explanation():
    shown = render("masks", direction="de-en", source="Ein Hund.", search="greedy")
    assert not any(re.match("Own|Imported", text) for text in shown.texts("model", "option"))
    (said,) = shown.texts("model", "help")
    assert "without a prefix" not in said


def test_the_import_is_listed_beside_the_checks(named):
    shown = render("", direction="ar-en", model="opus", source=ARABIC, search="greedy")
    listed = unpacked(shown.payload("explorer"))[0]["imported"]
    assert listed["credit"] == CREDIT
    assert listed["compared"] == IMPORTED["compared"]
    assert listed["not_proven"] == IMPORTED["not_proven"]
    (warning,) = shown.texts("doubts", "warning")
    assert "Which sentences the network was trained on is not recorded." in warning
    other = render("", direction="ar-en", model="night", source=ARABIC, search="greedy")
    assert "imported" not in unpacked(other.payload("explorer"))[0]


@pytest.mark.parametrize("name", ["comparison", "together", "positions"])
def test_other_pages_name_author_and_licence(named, name):
    query = {"direction": "ar-en", "model": "opus", "source": ARABIC, "search": "greedy"}
    shown = render(name, "open_details", **query)
    every = " ".join(item.text for item in shown.items if "opus-ar-en" in item.text)
    if name == "comparison":
        assert f"opus-ar-en ({CREDIT}): as converted, in the scratch code" in every
        assert "opus-ar-en: " not in every and "as trained" not in every.split("night")[0]
    assert not any("from scratch" in item.text.lower() for item in shown.items)


@pytest.mark.parametrize("passed", [True, False])
def test_what_torch_cannot_compute_was_compared_on_import(named, monkeypatch, passed):
    """With the original, so the page need not say that nothing was compared."""

    def refused(*_: object) -> None:
        raise ValueError("torch.nn.Transformer lacks x")

    monkeypatch.setattr(results, "run_checklist", refused)
    monkeypatch.setattr(Imported, "passed", passed)
    shown = render("comparison", direction="ar-en", model="opus", source=ARABIC, search="greedy")
    (said,) = shown.texts("checks_head", "markdown")
    held = "Yes: all 2 comparisons with the original held when it was converted."
    assert f"**{held if passed else 'Not compared.'}**" in said
    assert "torch.nn.Transformer lacks x" in shown.texts(kind="info" if passed else "error")


def test_files_name_author_and_licence(named):
    translator = Translator.load(named / "opus-ar-en")
    record = translator.inspect(ARABIC, beam=1)
    assert record.credit == CREDIT and record.model == "opus-ar-en"
    assert TranslationRecord.load(io.BytesIO(record.to_bytes())).credit == CREDIT
    escaped = CREDIT.replace("<", "&lt;").replace(">", "&gt;")
    assert f"Made with Headlight by opus-ar-en ({escaped})" in page.page(record)
    assert f"opus-ar-en ({escaped})" in record._repr_html_()
    about = arrays._about(record).set_index("name")["value"]
    assert about["credit"] == CREDIT and about["model"] == "opus-ar-en"
    assert f"Translator(opus-ar-en ({CREDIT}), Arabic → English" in repr(translator)
    forged = dataclasses.replace(record, credit="imported, by Somebody Else, licence X")
    with pytest.raises(ValueError, match="it claims to be of"):
        translator.recheck(forged)
    record = Translator.load(named / "night-ar-en").inspect(ARABIC, beam=1)
    assert record.credit == "" and "credit" not in record._metadata()
    assert "credit" not in set(arrays._about(record)["name"])
    assert "Made with Headlight by night-ar-en, Arabic" in page.page(record)


# --- languages


@pytest.mark.parametrize(
    ("code", "name"),
    [("ar", "Arabic"), ("deu", "German"), ("el", "Modern Greek"), ("sw", "Swahili"),
     ("roa", "roa"), ("german", "german"), ("xx", "xx")],
)  # fmt: skip
def test_a_language_code_has_its_name_or_is_shown_itself(code, name):
    assert LANGUAGES[code] == name
    assert set(LANGUAGES) == {"de", "en"}  # the languages of the corpora


@pytest.mark.parametrize("code", ["zz", "ja"])
def test_words_of_any_language_are_split(code):
    words = WordTokenizer.train(["שלום, עולם"], code, min_count=1)
    assert [token.text for token in words.encode("שלום, עולם")] == ["שלום", ",", "עולם"]


def test_a_sentence_without_a_translation_stays_and_an_example_leaves(named):
    """An example leaves with its language and returns; there are none in Arabic."""

    def turned(*directions: str, source: str | None = None) -> Rendered:
        def act(app):
            if source:
                app.text_area(key="source").set_value(source).run()
            for direction in directions:
                app.selectbox(key="direction").set_value(direction).run()

        return render("", direction="de-en", search="greedy", act=act)

    arabic = turned("ar-en")
    assert arabic.app.text_area(key="source").value == "" and not arabic.texts("examples")
    assert "Type a sentence in Arabic." in arabic.texts()
    again = turned("ar-en", "de-en").app.text_area(key="source").value
    assert again.startswith("Ein Mann in einem roten Hemd")
    kept = turned("ar-en", source="Ein Hund schläft.").app.text_area(key="source").value
    assert kept == "Ein Hund schläft."


def test_lessons_use_the_visitors_sentence(named):
    shown = render(
        "masks", "open_batch", direction="ar-en", model="opus", source=ARABIC, search="greedy"
    )
    (batch,) = [
        i.text for i in shown.items if i.where.startswith("mask_batch_") and ARABIC in i.text
    ]
    assert batch == f"{ARABIC}\n{' '.join(ARABIC.split()[:3])}"
    tour = render("tour", direction="ar-en", model="opus", source=ARABIC)
    assert any("The lessons work with any Arabic sentence" in i.text for i in tour.items)
    assert {"Masks", "Positions", "Inside a head"} <= {i.text for i in tour.items}
