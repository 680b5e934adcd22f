"""The command that imports networks: its JSON report and its one-line errors."""

import json
import math
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from core import analyse, convert, evaluate, translate, verify
from core.checkpoint.errors import CheckpointError
from core.foreign.weights import Weights
from core.translator import Translator


def test_a_folder_is_written_and_reported(lines, opus, tmp_path):
    out, report = tmp_path / "opus-de-en", tmp_path / "report.json"
    code, *_ = lines(
        *(convert, "--from", "marian", opus, "--out", out, "--reference", opus / "reference.npz"),
        *("--author", "Somebody", "--licence", "CC-BY 4.0", "--json", report),
    )
    assert code == 0
    values = json.loads(report.read_text())
    assert [*values] == "source family out parameters compared not_proven notes".split()
    assert values["source"] == str(opus) and values["family"] == "marian"
    weights = Weights(out / "model.safetensors")
    assert values["parameters"] == sum(math.prod(weights.shape(name)) for name in weights.names)
    assert {tuple(one) for one in values["compared"]} == {
        ("what", "max_abs_diff", "limit", "passed")
    }
    card = Translator.load(out, "cpu").card
    assert card.imported is not None
    assert (card.imported.author, card.imported.licence) == ("Somebody", "CC-BY 4.0")
    code, _, error = lines(convert, "--from", "marian", opus, "--out", out)
    assert code == 1 and "exists already: choose another --out" in error


def test_a_folder_of_the_other_direction_is_named(lines, theirs, tmp_path):
    """Its languages are known only if its tokenizer's settings say them; a check needs none."""
    languages = {"source_lang": "en", "target_lang": "de"}
    (theirs / "tokenizer_config.json").write_text(json.dumps(languages))
    command = convert, "--from", "marian", theirs, "--out"
    code, _, error = lines(*command, tmp_path / "wrong-de-en")
    assert code == 1 and "from en to de, as its tokenizer_config.json says" in error
    assert "let --out end with -en-de" in error
    for arguments in ((*command, tmp_path / "right-en-de"), (convert, "--check", theirs)):
        assert "from en to de" not in "".join(lines(*arguments)[1:]), arguments


def test_half_precision_on_disk_stays(lines, theirs, tmp_path):
    (file,) = theirs.glob("*.safetensors")
    halves = {name: tensor.half() for name, tensor in load_file(file).items()}
    folders = tmp_path / "full-de-en", tmp_path / "half-de-en"
    for folder, dtype in zip(folders, (torch.float32, torch.float16), strict=True):
        code, *_ = lines(convert, "--from", "marian", theirs, "--out", folder)
        assert code == 0
        saved = load_file(folder / "model.safetensors").values()
        assert {tensor.dtype for tensor in saved} == {dtype}
        save_file(halves, file, {"format": "pt"})
    full, half = (load_file(folder / "model.safetensors") for folder in folders)
    assert all(torch.equal(full[name].half(), half[name]) for name in full)


def test_commands_name_author_and_licence_on_standard_error(lines, opus, tmp_path, monkeypatch):
    out, text, gold = (tmp_path / name for name in ("opus-de-en", "de", "gold"))
    lines(
        *(convert, "--from", "marian", opus, "--out", out),
        *("--author", "Some\nBody", "--licence", "MIT"),
    )
    text.write_text("Ein Mann läuft .\n")
    gold.write_text("0-0\n")
    files = ("--src", text, "--ref", text)
    for module, *arguments in (
        (translate, "--checkpoint", out),
        (evaluate, "--checkpoint", out, *files),
        (analyse, "importance", "--checkpoint", out, *files),
        (analyse, "alignment", "--checkpoint", out, *files, "--gold", gold),
        (verify, "--checkpoint", out),
    ):
        with text.open() as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            code, written, error = lines(module, *arguments)
        assert code == 0, error[-500:]
        said = "opus-de-en (imported, by Some Body, licence MIT)\n"
        assert error.count(said) == 1 and said not in written


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--from plbart x --out y-de-en", "plbart cannot be converted: it splits code"),
        ("--from Blenderbot x --out y-de-en", "Blenderbot cannot be converted: it continues"),
        ("--from gpt x --out y-de-en", "is unknown: choose friendshipkim, hyunwoongko, tutorial"),
        ("--from marian x --out y", "does not end with a direction: call it y-de-en"),
        ("--from marian x --out y-de-en", "x does not exist: check the path"),
        ("--from marian", "needs SOURCE and --out DIR"),
    ],
)
def test_errors_are_one_line(lines, arguments, says):
    code, out, error = lines(convert, *arguments.split())
    assert code == 1 and says in error and error.count("\n") == 1 and out == ""


def test_the_reference_script_is_printed_and_compiles(lines):
    for family in ("marian", "tutorial"):
        code, out, _ = lines(convert, "--from", family, "--reference-script")
        assert code == 0 and "reference.npz" in out
        compile(out, "script", "exec")


def test_the_error_for_a_file_given_as_a_checkpoint_does_not_say_delete(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"x")
    with pytest.raises(CheckpointError, match=r"is a file.*python -m core\.convert") as error:
        Translator.load(tmp_path / "model.pt", "cpu")
    assert "delete" not in str(error.value)


HEADERS = {
    "no safetensors": b"hello world, this is text",
    "another type": b'{"a": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}}',
    "cut off": b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}',
}


@pytest.mark.parametrize("case", HEADERS)
def test_hostile_headers_are_refused(tmp_path, case):
    header = HEADERS[case]
    if header.startswith(b"{"):
        header = len(header).to_bytes(8, "little") + header + bytes(4)
    (tmp_path / "x.safetensors").write_bytes(header)
    with pytest.raises(ValueError, match="cannot be read .*: save it as safetensors again"):
        Weights(tmp_path / "x.safetensors")
