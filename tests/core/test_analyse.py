"""The analyse command: JSON, tables and one-line errors."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load

from core import analyse
from core.checkpoint.head_means import FILE


def run(*arguments: object) -> None:
    parsed = analyse.parser().parse_args(list(map(str, arguments)))
    parsed.run(parsed)


@pytest.fixture
def text(tmp_path):
    (tmp_path / "s.de").write_text("Ein Hund läuft .\nEine Frau liest .\n")
    (tmp_path / "s.en").write_text("A dog runs .\nA woman reads .\n")
    (tmp_path / "gold").write_text("0-0 1-1 2-2 3-3\n0-0 1?1 2-2 3p3\n")
    return tmp_path


def given(text, checkpoint_folder):
    sides = ["--src", text / "s.de", "--ref", text / "s.en"]
    return ["--checkpoint", checkpoint_folder, *sides, "--json", text / "found.json"]


def test_alignment_writes_the_agreed_keys(checkpoint_folder, text, capsys):
    arguments = [*given(text, checkpoint_folder), "--gold", text / "gold"]
    run("alignment", *arguments)
    found = json.loads((text / "found.json").read_text())
    assert list(found) == ["checkpoint", "sentences", "rows", "best"]
    assert found["sentences"] == 2 and len(found["rows"]) == 36
    keys = ["reading", "quantity", "layer", "head", "aer", "precision", "recall"]
    assert all(list(row) == keys for row in found["rows"])
    assert found["best"]["aer"] == min(row["aer"] for row in found["rows"])
    assert {row["layer"] for row in found["rows"]} == {0, 1, None}
    assert f"{found['best']['aer']:.4f}" in capsys.readouterr().out
    (text / "gold").write_text("1-1 2-2 3-3 4-4\n1-1 2?2 3-3 4p4\n")
    run("alignment", *arguments, "--one-based")
    assert json.loads((text / "found.json").read_text()) == found
    (text / "gold").write_text("0-0\n0_0\n")
    with pytest.raises(ValueError, match="gold line 2: '0_0' is not a link"):
        run("alignment", *arguments)


@pytest.mark.parametrize("method", ["zero", "mean", "gradient"])
def test_importance_writes_the_agreed_keys(checkpoint_folder, text, capsys, method):
    run("importance", *given(text, checkpoint_folder), "--method", method)
    found = json.loads((text / "found.json").read_text())
    assert {"loss", "rows"} <= set(found) and found["method"] == method
    assert len(found["rows"]) == 5 * 2 and found["loss"] > 0
    keys = ["kind", "layer", "head", "loss_change", "low", "high"]
    assert all(list(row) == keys for row in found["rows"])
    assert found["rows"][0]["kind"] == "encoder" and found["rows"][0]["head"] == 0
    assert "encoder layer 1 head 1" in capsys.readouterr().out


def test_words_writes_the_agreed_keys(checkpoint_folder, text, capsys):
    run("words", *given(text, checkpoint_folder), "--tokens", 3, "--largest", 2)
    found = json.loads((text / "found.json").read_text())
    keys = ["count", "mean_error", "mean_true", "correlation"]
    assert list(found) == ["checkpoint", "sentences", "tokens", "largest", *keys, "rows"]
    assert found["sentences"] == 1 and found["tokens"] >= 3 and found["largest"] == 2
    assert found["count"] == 2 * found["tokens"] == sum(row["count"] for row in found["rows"])
    assert all(list(row) == ["kind", "layer", *keys] for row in found["rows"])
    for key in ("mean_error", "mean_true"):
        total = sum(row["count"] * row[key] for row in found["rows"])
        assert found[key] == pytest.approx(total / found["count"]) and found[key] > 0
    printed = capsys.readouterr().out
    assert f"2 largest of {found['tokens']} tokens" in printed
    assert f"{found['mean_error']:.4f}  {found['mean_true']:.4f}" in printed


def test_empty_and_too_long_texts_are_rejected(checkpoint_folder, text):
    (text / "s.de").write_text("")
    (text / "s.en").write_text("")
    with pytest.raises(ValueError, match="contains no sentences: at least 1"):
        run("importance", *given(text, checkpoint_folder))
    (text / "s.de").write_text("Hund " * 300 + "\n")
    (text / "s.en").write_text("dog\n")
    with pytest.raises(ValueError, match=r"pair 1 has \d+ tokens with <eos>: the limit is 256"):
        run("importance", *given(text, checkpoint_folder))


def same_means(one, other) -> bool:
    one, other = (load(file.read_bytes()) for file in (one, other))
    return all(torch.equal(one[kind], other[kind]) for kind in one)


def test_means_are_not_replaced_unless_asked(checkpoint_folder, text, tmp_path):
    folder = shutil.copytree(checkpoint_folder, tmp_path / "scratch-de-en")
    default, other = folder / FILE, tmp_path / "other.safetensors"
    run("means", *given(text, folder), "--out", other, "--first", 1)
    assert other.exists() and not default.exists()
    run("means", *given(text, folder))
    kept = default.read_bytes()
    assert not same_means(default, other), "one sentence of two"
    for more in ([], ["--out", default], ["--out", other]):
        with pytest.raises(ValueError, match="exists already: choose another --out, or .* --force"):
            run("means", *given(text, folder), *more, "--first", 1)
    assert default.read_bytes() == kept
    run("means", *given(text, folder), "--first", 1, "--force")
    assert same_means(default, other)
