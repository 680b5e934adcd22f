"""The claims command loads texts and gold in each network's direction, and writes the board."""

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from core import analyse
from core.atlas.claims.attention import attention
from core.atlas.claims.board import Board
from core.atlas.claims.claim import FAILS, HOLDS, Estimate
from core.atlas.claims.load import GoldFile, load_checkpoints, networks_of, runner
from core.checkpoint.folder import Checkpoint
from tests.app.boards import board
from tests.planted_roles import planted

PLANTED = planted(sentences=1).checkpoint


def directed(source: str, target: str, name: str = "scratch") -> Checkpoint:
    folder = Path(f"{name}-{source}-{target}")
    languages = {"source_language": source, "target_language": target, "folder": folder}
    return replace(PLANTED, card=replace(PLANTED.card, **languages))


@pytest.fixture
def folder(tmp_path) -> Path:
    """A corpus of three pairs, and two other pairs with alignments."""
    (tmp_path / "multi30k").mkdir()
    for language, lines in {"de": ["b c", "d e f", "g b"], "en": ["o p", "q r s", "t o"]}.items():
        file = tmp_path / "multi30k" / f"val.{language}"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        file.with_name(f"train.{language}").write_text(f"{lines[0]} {lines[0]}\n", "utf-8")
    for language, lines in {"de": ["b c d", "e f"], "en": ["o p", "q r s"]}.items():
        file = tmp_path / f"words.{language}"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "words.align").write_text("0-1 2?0\n1-2\n", encoding="utf-8")
    return tmp_path


def test_gold_is_turned_to_a_networks_direction(folder):
    gold = GoldFile(folder / "words.align")
    forward, backward = gold.read(directed("de", "en")), gold.read(directed("en", "de"))
    assert [s.source_text for s in forward.sentences] == ["b c d", "e f"]
    assert [s.source_text for s in backward.sentences] == ["o p", "q r s"]
    assert [set(s.gold.sure) for s in forward.sentences] == [{(0, 1)}, {(1, 2)}]
    assert [set(s.gold.sure) for s in backward.sentences] == [{(1, 0)}, {(2, 1)}]
    (folder / "words.align").write_text("2-1\n1-1\n", encoding="utf-8")
    english_first = GoldFile(folder / "words.align", one_based=True, english_first=True)
    assert [set(s.gold.sure) for s in english_first.read(directed("de", "en")).sentences] == [
        {(0, 1)},
        {(0, 0)},
    ]


def test_gold_of_another_text_is_named_by_its_line(folder):
    (folder / "words.align").write_text("0-1\n4-2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="sentence 2") as error:
        GoldFile(folder / "words.align").read(directed("de", "en"))
    assert "\n" not in str(error.value)
    (folder / "words.align").write_text("0-1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="2 sentence pairs and 1 alignments"):
        GoldFile(folder / "words.align").read(directed("de", "en"))


def networks(folder: Path, *checkpoints: Checkpoint, **more):
    with runner(checkpoints, 1) as run:
        return networks_of(checkpoints, folder, more.get("gold"), run, None, more.get("first"))


def test_networks_are_paired_with_the_other_implementation(folder):
    found = networks(
        folder,
        directed("de", "en"),
        directed("de", "en", "baseline"),
        directed("en", "de"),
        first=2,
    )
    assert [len(n.text.sentences) for n in found] == [2, 2, 2]
    assert [n.text.sentences[0].source_text for n in found] == ["b c", "b c", "o p"]
    assert [n.other and n.other.name for n in found] == ["baseline-de-en", None, None], (
        "each pair is listed once"
    )
    assert [n.gold for n in found] == [None] * 3
    b, c = (token.id for token in PLANTED.source_tokenizer.encode("b c"))
    assert found[0].frequencies == {b: 2, c: 2}, "counted on the source side of the training data"
    assert set(found[2].frequencies).isdisjoint({b, c})


def test_networks_of_other_languages_are_named(folder):
    with pytest.raises(ValueError, match="scratch-de-fr translates de-fr"):
        networks(folder, directed("de", "fr"))


def test_a_missing_network_is_named_in_one_line(tmp_path):
    with pytest.raises((ValueError, OSError)) as error:
        load_checkpoints(tmp_path)
    assert "scratch-de-en" in str(error.value) and "\n" not in str(error.value)


def test_unfinished_work_is_saved_for_each_network_separately(folder):
    """Two networks with the same measure and sentences do not read each other's sums."""
    both = directed("de", "en"), directed("de", "en", "baseline")
    both = both[0], replace(both[1], card=replace(both[1].card, weights_sha256="1"))
    with runner(both, 1) as run:
        for one in networks_of(both, folder, None, run, folder / "unfinished"):
            attention(one)
            attention(one)
    assert len(list((folder / "unfinished").iterdir())) == 2


def test_the_command_writes_the_board_and_all_rows(folder, monkeypatch, capsys):
    low = {"scratch-de-en": Estimate(0.1, 0.05, 0.15)}
    measured = board(fifth_free=low)
    asked = []

    def measure(networks, corpus, gold, command, on_progress):
        asked.append(([n.name for n in networks], corpus, gold, command))
        return measured

    both = [directed("de", "en"), directed("en", "de")]
    monkeypatch.setattr(analyse, "load_checkpoints", lambda root, device: both)
    monkeypatch.setattr(analyse, "measure_board", measure)
    arguments = ["claims", "--data", str(folder), "--gold", str(folder / "words.align")]
    arguments += ["--first", "2", "--device", "cpu", "--out", str(folder / "board.json")]
    parsed: Namespace = analyse.parser().parse_args(
        [*arguments, "--json", str(folder / "all.json")]
    )
    parsed.run(parsed)
    assert asked == [
        (
            ["scratch-de-en", "scratch-en-de"],
            "multi30k, val, first 2",
            "words.align",
            "python -m core.analyse claims --data DIR --gold FILE --first 2",
        )
    ]
    assert Board.load(folder / "board.json") == measured
    rows = {r["id"]: r for r in json.loads((folder / "all.json").read_text())["rows"]}
    assert rows["fifth-free"]["verdict"] == FAILS
    assert rows["removal-order"]["verdict"] == HOLDS
    printed = capsys.readouterr().out
    assert "fifth-free" in printed and "does not hold" in printed
