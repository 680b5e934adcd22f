"""The referee in one file gives the ids and the maps of the search, and needs no package."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from core import micro, verify
from core.text import load
from core.text.line import encode_source_line

ROOT = Path(__file__).parents[2]
FILE = ROOT / "core/micro.py"
CAPTIONS = {
    "captions-de-en": "Ein Mann steht auf einer Leiter.",
    "captions-en-de": "Two dogs play.",
    "scratch-de-en": "Zwei Frauen, 12 Hunde.",
    "scratch-en-de": 'A "pink" dress.',
    "baseline-de-en": "Łukasz fährt.",
    "baseline-en-de": "A child eats ice cream!",
}
TEXTS = [
    *("", " ", "Hund", "  zwei \u00a0 Hunde\t.", "3,14 km/h – 12er-Gruppe (2 × 5)", "na\u0131ve …"),
    *(
        "U\u0308bung „so“ 'ne $5-Idee; a+b=c?",
        "漢字漢字 x漢 🐕",
        "aaaa llll ssssssss",
        "%&/()=-_.:,;#'*<>|",
    ),
]


def worst(name: str, caption: str) -> verify.Check:
    (check,) = verify.referee(ROOT / "checkpoints" / name, [caption])
    return check


@pytest.mark.parametrize("name", CAPTIONS)
def test_ids_and_maps_are_those_of_the_search(name):
    check = worst(name, CAPTIONS[name])
    assert check.passed and check.max_abs_diff < 1e-5


@pytest.mark.parametrize("name", ["captions-de-en", "scratch-en-de"])
def test_texts_are_tokenised_alike(name):
    file = ROOT / "checkpoints" / name / "tokenizer.json"
    ours, theirs = micro.Tokenizer(file), load(json.loads(file.read_bytes()))
    for text in TEXTS:
        expected = [token.id for token in encode_source_line(theirs, text)]
        assert ours.encode(text) == expected, text
        assert ours.decode([micro.BOS, *expected, micro.EOS]) == theirs.decode(expected)


def test_other_ids_or_weights_fail(monkeypatch):
    caption = CAPTIONS["captions-en-de"]
    with monkeypatch.context() as patch:
        patch.setattr(micro.math, "sqrt", lambda x, real=math.sqrt: real(x * (1 + 1e-3)))
        check = worst("captions-en-de", caption)
        assert not check.passed and 1e-5 < check.max_abs_diff < 1e-2
    monkeypatch.setattr(micro, "EOS", 5)
    assert worst("captions-en-de", caption).max_abs_diff == 1


def test_verify_compares_the_lines_of_a_file(lines, tmp_path, monkeypatch):
    (tmp_path / "captions").write_text("Two dogs.\nA dog!\n")
    given = ["--captions", tmp_path / "captions"]
    assert "--captions needs a network" in lines(verify, *given)[2]
    given += ["--checkpoint", ROOT / "checkpoints/captions-en-de", "--json", tmp_path / "json"]
    code, out, error = lines(verify, *given)
    assert code == 0 and "caption 2" in out, error
    assert [c["name"] for c in json.loads((tmp_path / "json").read_bytes())["checks"]] == [
        "caption 1",
        "caption 2",
    ]
    monkeypatch.setattr(micro, "EPS", 0.1)
    code, _, error = lines(verify, *given)
    assert code == 1 and "2 of 2 checks against core.micro failed, first: caption 1" in error


def test_the_file_runs_alone():
    """-I and -S leave only the standard library on the path."""
    command = [sys.executable, "-I", "-S", FILE, ROOT / "checkpoints/captions-en-de", "A dog."]
    done = subprocess.run([*command, "cross.2.1", "encoder.4.4"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    translation, *rows = done.stdout.splitlines()
    assert translation == "Ein Hund."
    weights = [list(map(float, row.split())) for row in rows]
    assert [len(row) for row in weights] == [4] * 8
    assert all(sum(row) == pytest.approx(1, abs=0.002) for row in weights)


def test_the_file_is_short_and_imports_the_standard_library_alone():
    text = FILE.read_text("utf-8")
    assert len(text.splitlines()) <= 250
    names = re.findall(r"^ *(?:import|from) (\w+)", text, re.MULTILINE)
    assert len(names) > 5 and set(names) <= sys.stdlib_module_names


@pytest.mark.parametrize("change", [{"norm_first": False}, {"gated": True}, {"norm": "rms"}])
def test_a_network_with_other_parts_is_refused(tmp_path, change):
    values = json.loads((ROOT / "checkpoints/captions-en-de/config.json").read_bytes())
    values["model"] |= change
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match="has parts that no shipped network has"):
        micro.Transformer(tmp_path)
