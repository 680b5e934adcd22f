"""The command that imports networks: its JSON report and its one-line errors."""

import json
import math
import shlex
import sys
from pathlib import Path

import pytest

from core import analyse, convert, evaluate, translate, verify
from core.checkpoint.errors import CheckpointError
from core.command import main
from core.foreign.weights import Weights
from core.translator import Translator
from tests.core.saved_folders import write


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "opus"
    write(folder, "marian", "swish")
    return folder


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command in this process; return its exit code or message, and its output."""

    def run(*arguments: object) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["convert", *map(str, arguments)])
        code: object = 0
        try:
            main(convert.parser(), convert.run)
        except SystemExit as end:
            code = end.code
        return code, capsys.readouterr().out

    return run


def test_a_folder_is_written_and_reported(command, folder, tmp_path):
    out, report = tmp_path / "opus-de-en", tmp_path / "report.json"
    code, _ = command(
        *("--from", "marian", folder, "--out", out, "--reference", folder / "reference.npz"),
        *("--author", "Somebody", "--licence", "CC-BY 4.0", "--json", report),
    )
    assert code == 0
    values = json.loads(report.read_text())
    assert list(values) == [
        "source",
        "family",
        "out",
        "parameters",
        "compared",
        "not_proven",
        "notes",
    ]
    assert values["source"] == str(folder) and values["family"] == "marian"
    weights = Weights(out / "model.safetensors")
    assert values["parameters"] == sum(math.prod(weights.shape(name)) for name in weights.names)
    assert {tuple(one) for one in values["compared"]} == {
        ("what", "max_abs_diff", "limit", "passed")
    }
    card = Translator.load(out, "cpu").card
    assert card.imported is not None
    assert (card.imported.author, card.imported.licence) == ("Somebody", "CC-BY 4.0")
    code, _ = command("--from", "marian", folder, "--out", out)
    assert "exists already: choose another --out" in str(code)


def test_commands_name_author_and_licence_on_standard_error(lines, folder, tmp_path, monkeypatch):
    out, text, gold = (tmp_path / name for name in ("opus-de-en", "de", "gold"))
    lines(
        *(convert, "--from", "marian", folder, "--out", out),
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
        ("--from bart x --out y-de-en", "bart cannot be converted: it adds a norm"),
        ("--from T5 x --out y-de-en", "T5 cannot be converted: its self-attention scores"),
        ("--from nllb x --out y-de-en", "its first target token is forced"),
        ("--from mBART x --out y-de-en", "it adds a norm to the embeddings"),
        ("--from m2m100 x --out y-de-en", "its first target token is forced"),
        ("--from fsmt x --out y-de-en", "it splits text by Moses and BPE"),
        ("--from annotated-transformer x --out y-de-en", "its norm divides by another"),
        ("--from bentrevett x --out y-de-en", "its positions are learned"),
        ("--from gpt x --out y-de-en", "is unknown: choose friendshipkim, hyunwoongko, tutorial"),
        ("--from marian x --out y", "does not end with a direction: call it y-de-en"),
        ("--from marian x --out y-de-en", "x does not exist: check the path"),
        ("--from marian", "needs SOURCE and --out DIR"),
    ],
)
def test_errors_are_one_line(command, arguments, says):
    code, out = command(*shlex.split(arguments))
    assert says in str(code) and "\n" not in str(code) and out == ""


def test_the_reference_script_is_printed_and_compiles(command):
    for family in ("marian", "tutorial"):
        code, out = command("--from", family, "--reference-script")
        assert code == 0 and "reference.npz" in out
        compile(out, "script", "exec")


def test_the_error_for_a_file_given_as_a_checkpoint_does_not_say_delete(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"x")
    with pytest.raises(CheckpointError, match=r"is a file.*python -m core\.convert") as error:
        Translator.load(tmp_path / "model.pt", "cpu")
    assert "delete" not in str(error.value)


HEADERS = {
    "no safetensors": b"hello world, this is text",
    "longer than the file": (10**9).to_bytes(8, "little") + b"{}",
    "twice the same name": b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
    b'"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
    "an overlap": b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
    b'"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
    "another type": b'{"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}}',
    "a type that is a list": b'{"a":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}}',
    "a wrong size": b'{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,4]}}',
    "a negative place": b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}',
    "cut off": b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
}


@pytest.mark.parametrize("case", HEADERS)
def test_hostile_headers_are_refused(tmp_path, case):
    header = HEADERS[case]
    if header.startswith(b"{"):
        data = bytes(8 if case == "an overlap" else 4)
        header = len(header).to_bytes(8, "little") + header + data
    (tmp_path / "x.safetensors").write_bytes(header)
    with pytest.raises(ValueError, match="cannot be read .*: save it as safetensors again"):
        Weights(tmp_path / "x.safetensors")
