"""The analyse command: JSON, tables and one-line errors."""

import dataclasses
import json
import re
import shutil

import pytest
import torch
from safetensors.torch import load

from core import analyse
from core.atlas import command
from core.atlas.atlas import AlignmentHeads
from core.atlas.report import report
from core.checkpoint.head_means import FILE
from tests.app.atlases import atlas as random_atlas


def run(*arguments: object) -> None:
    parsed = analyse.parser().parse_args(list(map(str, arguments)))
    parsed.run(parsed)


@pytest.fixture
def text(tmp_path):
    (tmp_path / "s.de").write_text("Ein Hund läuft .\nEine Frau liest .\n")
    (tmp_path / "s.en").write_text("A dog runs .\nA woman reads .\n")
    (tmp_path / "gold").write_text("0-0 1-1 2-2 3-3\n0-0 1?1 2-2 3p3\n")
    return tmp_path


def printed(capsys) -> list[str]:
    """Return the lines printed so far, with single spaces."""
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def importance_line(row) -> str:
    return (
        f"{row['kind']} layer {row['layer'] + 1} head {row['head'] + 1} "
        f"{row['loss_change']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}]"
    )


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
    said = printed(capsys)
    assert any(f"{found['best']['aer']:.4f}" in line for line in said)
    named = {
        f"{row['reading']}, {row['quantity']}, layer "
        f"{'mean' if row['layer'] is None else row['layer'] + 1}, head "
        f"{'mean' if row['head'] is None else row['head'] + 1} "
        f"{row['aer']:.4f} {row['precision']:.4f} {row['recall']:.4f}"
        for row in found["rows"]
    }
    lines = [line for line in said if re.match(r"(output|input), ", line)]
    assert len(lines) > 3 and set(lines) <= named
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
    rows = sorted(found["rows"], key=lambda row: -row["loss_change"])
    assert printed(capsys)[-len(rows) :] == [*map(importance_line, rows)]
    assert all(row["low"] < row["high"] for row in rows[:3]), "the order of the bounds shows"


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
    said = printed(capsys)
    assert f"2 largest of {found['tokens']} tokens" in " ".join(said)
    assert f"{found['mean_error']:.4f} {found['mean_true']:.4f}" in " ".join(said)
    for row, line in zip(found["rows"], said[-len(found["rows"]) :], strict=True):
        numbers = f"{row['mean_error']:.4f} {row['mean_true']:.4f}"
        assert line.startswith(f"{row['kind']} layer {row['layer'] + 1} {numbers}")


def test_the_line_about_aligning_heads_has_their_numbers():
    found = AlignmentHeads(((2, 0), (1, 3)), "input", "norms", 0.2515, 0.2218, 0.2897)
    line = analyse._heads_line(found, 0.7654, by_agreement=False)
    assert "layer 3 head 1, layer 2 head 4" in line and "norms of the row that is fed" in line
    assert "error rate 0.252, 95 % CI [0.222, 0.290]; of a random head 0.765" in line
    other = dataclasses.replace(found, reading="output")
    assert "produces" in analyse._heads_line(other, 0.7654, by_agreement=True)


def test_the_tables_of_an_atlas_have_the_numbers_of_its_report(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")  # no line is wrapped
    atlas = random_atlas(4, layers=3, heads=2)
    entries = report(atlas)
    command._atlas_tables(atlas, entries)
    said = printed(capsys)
    loss, low, high = atlas.arrays["loss"].tolist()
    assert f"loss, nats per token {loss:.4f} [{low:.4f}, {high:.4f}]" in said
    rows = [line for line in said if re.match(r"(encoder|decoder|cross) layer", line)]
    ordered = sorted(entries, key=lambda entry: -entry["loss_change"])
    for line, entry in zip(rows, ordered, strict=True):
        named = [name for name, role in entry["roles"].items() if role["label"]]
        assert line == f"{importance_line(entry)}; {', '.join(named) or 'none'}"
    chosen = atlas.alignment_heads
    names = ", ".join(f"{layer + 1}.{head + 1}" for layer, head in chosen.heads)
    assert any(layer != head for layer, head in chosen.heads)
    bounds = f"{chosen.aer:.3f} [{chosen.low:.3f}, {chosen.high:.3f}]"
    assert said[-1] == f"alignment heads (from 1) {names}; {chosen.reading} reading, AER {bounds}"


def test_empty_and_too_long_texts_are_rejected(checkpoint_folder, text):
    for source, target, message in (
        ("", "", "contains no sentences: at least 1"),
        ("Hund " * 300 + "\n", "dog\n", r"pair 1 has \d+ tokens with <eos>: the limit is 256"),
    ):
        (text / "s.de").write_text(source)
        (text / "s.en").write_text(target)
        with pytest.raises(ValueError, match=message):
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
