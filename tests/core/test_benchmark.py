"""Benchmarks compare contestants of equal output; others are rejected or reported missing."""

import json
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
import torch

from core import benchmark
from core.benchmarks import capture, decode, scale, shards, train, tutorial
from core.benchmarks.contest import (
    BASELINE,
    Cell,
    Contestant,
    Missing,
    Options,
    Size,
    alternate,
    compete,
)
from core.benchmarks.networks import Weights, baseline_of
from core.foreign.family import Options as Languages
from core.foreign.importing import import_network
from core.record.capture import capture as watching
from core.text.tokenizer import BOS, EOS, PAD
from tests.core.library_networks import NETWORKS, codes, saved

TINY = (
    "source_vocab_size=60,target_vocab_size=60,d_model=16,num_heads=4,"
    "num_encoder_layers=2,num_decoder_layers=1,dim_feedforward=24"
)
KEYS = {"what", "contestant", "shape", "batch", "beam", "length", "value", "unit", "ratio"}
SIZES = (Size(3, 1, 6), Size(2, 3, 5))
ALTERNATIVES = {"transformers": ("hf", "hf+maps"), "ctranslate2": ("ct2", "ct2-int8")}


def tiny(**more: object) -> Options:
    return Options(**{"rounds": 2, "random": TINY, **more})


@pytest.fixture
def no_alternatives(monkeypatch):
    """Simulate that no alternative is installed."""
    for name in ALTERNATIVES:
        monkeypatch.setitem(sys.modules, name, None)


def by_contestant(found: list) -> dict[str, list[dict]]:
    rows: dict[str, list[dict]] = {}
    for row in found:
        if not isinstance(row, Missing):
            rows.setdefault(row["contestant"], []).append(row)
    return rows


@pytest.mark.parametrize("norm", ["", ",norm_first=true,final_norm=true"])
def test_own_decoders_write_what_the_tutorial_does(no_alternatives, norm):
    found = list(decode.rows(tiny(random=TINY + norm, sizes=SIZES)))
    rows = by_contestant(found)
    assert set(rows) == {BASELINE, "headlight", "headlight+maps", "headlight-baseline"}
    for own in rows.values():
        assert [(r["batch"], r["beam"], r["length"]) for r in own] == list(SIZES)
        for row in own:
            assert row.keys() >= KEYS and row["same"] == row["batch"] and "reason" not in row
            assert row["ratio"] > 0 and row["low"] <= row["value"] <= row["high"]
    assert {row["ratio"] for row in rows[BASELINE]} == {1.0}
    missing = [one for one in found if isinstance(one, Missing)]
    assert [one.contestant for one in missing] == ["ct2", "ct2-int8", "hf", "hf+maps"]
    assert "transformers is not installed: pip install -e .[benchmark]" in missing[-1].reason


def test_compile_adds_a_contestant_that_compiles_encoder_and_steps(no_alternatives, monkeypatch):
    compiled = []
    record = lambda function, dynamic: compiled.append(function.__name__) or function  # noqa: E731
    monkeypatch.setattr(torch, "compile", record)
    rows = by_contestant(list(decode.rows(tiny(sizes=SIZES[:1], compile=True))))
    assert rows["headlight-compiled"][0]["same"] == SIZES[0].batch
    assert compiled == ["encode", "step"]


def test_a_different_output_is_rejected(no_alternatives, monkeypatch):
    real = decode.run_search

    def other(*given: object, **more: object) -> list[tuple[int, ...]]:
        first, *rest = real(*given, **more)
        return [(*first[:-1], 4 + (first[-1] == 4)), *rest]

    monkeypatch.setattr(decode, "run_search", other)
    rows = by_contestant(list(decode.rows(tiny(sizes=SIZES[:1]))))
    (refused,), (kept,) = rows["headlight+maps"], rows[BASELINE]
    assert refused["ratio"] is None and refused["reason"] == "different output: 2 of 3 equal"
    assert refused["same"] == 2 and refused["value"] > 0 and kept["ratio"] == 1.0


def test_lower_precision_is_marked():
    answers = {"exact": [(4,), (5,)], "int8": [(4,), (6,)], BASELINE: [(4,), (5,)]}
    contestants = [
        Contestant(name, lambda own=own: own, name != "int8") for name, own in answers.items()
    ]
    rows = by_contestant(list(compete(Cell("decode", "none", 2, 1, 1), contestants, 3, 9.0)))
    (int8,) = rows["int8"]
    assert int8["ratio"] > 0 and int8["reason"] == "lower precision: 1 of 2 equal"
    assert "reason" not in rows["exact"][0]


def test_rounds_are_interleaved_and_limited_in_time():
    done: list[int] = []
    works = [lambda i=i: done.append(i) for i in range(3)]
    assert [len(own) for own in alternate(works, 5, 60.0)] == [5, 5, 5]
    rounds = [tuple(done[i : i + 3]) for i in range(0, 15, 3)]
    assert all(sorted(one) == [0, 1, 2] for one in rounds) and len(set(rounds)) > 1
    assert [len(own) for own in alternate(works, 50, 0.0)] == [3, 3, 3]


def test_forced_networks_write_a_fixed_number_of_tokens():
    weights = Weights.of(None, TINY)
    scratch = weights.fixed_length(7)
    baseline = baseline_of(scratch)
    source = weights.sources(4, 7)
    assert source.shape == (4, 7) and (source[:, -1] == EOS).all() and (source != PAD).all()
    assert len({tuple(row) for row in source.tolist()}) == 4
    for beam in (1, 3):
        answers = decode.run_search(scratch, source, beam)
        assert {len(ids) for ids in answers} == {7}
        assert not {PAD, BOS, EOS} & {id for ids in answers for id in ids}
        assert answers == tutorial.translate(baseline, source, beam, 7)
    with watching(scratch) as captured:
        scratch(source, torch.full((4, 1), BOS))
    kinds = decode.capture_maps(scratch, source, [tuple(row) for row in source.tolist()])
    assert torch.allclose(kinds[0], captured.maps("encoder"), atol=1e-6)
    assert [kind.shape for kind in kinds] == [(n, 4, 4, 7, 7) for n in (2, 1, 1)]


def test_a_checkpoints_sentences_differ_and_have_the_given_length(checkpoint_folder):
    weights = Weights.of(checkpoint_folder, None)
    source = weights.sources(3, 40)
    assert source.shape == (3, 40) and len({tuple(row) for row in source.tolist()}) == 3
    assert weights.shape.startswith("scratch-de-en") and weights.languages == ("de", "en")


@pytest.mark.parametrize("norm", ["", ",norm_first=true,final_norm=true", ",final_norm=true"])
@pytest.mark.parametrize("package", sorted(ALTERNATIVES))
def test_an_alternative_with_the_same_weights_answers_the_same(package, norm):
    """The alternatives support no final norm in a post-norm network."""
    pytest.importorskip(package)
    found = list(decode.rows(tiny(random=TINY + norm, sizes=SIZES)))
    rows, reasons = by_contestant(found), {}
    for one in found:
        if isinstance(one, Missing):
            reasons[one.contestant] = one.reason
    for name in ALTERNATIVES[package]:
        if norm == ",final_norm=true":
            assert "norm" in reasons[name]
            continue
        exact = name != "ct2-int8"
        assert all(row["same"] == row["batch"] or not exact for row in rows[name])
        assert all(row["ratio"] for row in rows[name])


@pytest.mark.parametrize("name", ["t5", "m2m100", "fsmt"])
def test_an_imported_network_is_compared_with_the_folder_it_is_from(name, tmp_path):
    pytest.importorskip("transformers")
    theirs, mine = saved(tmp_path / "theirs", name), tmp_path / "mine-de-en"
    import_network(NETWORKS[name][0], theirs, mine, Languages(("de", "en"), **codes(name)))
    options = Options(rounds=1, checkpoint=mine, library=theirs, sizes=SIZES)
    rows = by_contestant(list(decode.rows(options)))
    assert list(rows) == ["hf", "hf+maps", "headlight", "headlight+maps"]
    for own in rows.values():
        assert [row["same"] for row in own] == [size.batch for size in SIZES]
    assert {row["ratio"] for row in rows["hf"]} == {1.0}
    changed = saved(tmp_path / "changed", "t5 1.1")
    with pytest.raises(ValueError, match="changed.* holds other weights than those that were"):
        list(decode.rows(replace(options, library=changed)))


def test_a_network_that_was_trained_here_has_no_original(checkpoint_folder, tmp_path):
    with pytest.raises(ValueError, match="--library needs a --checkpoint that core.convert wrote"):
        list(decode.rows(Options(checkpoint=checkpoint_folder, library=tmp_path)))


def test_capture_reports_the_cost_of_maps(checkpoint_folder):
    options = Options(rounds=2, checkpoint=checkpoint_folder, sizes=(Size(2, 1, 5), Size(2, 2, 5)))
    found = list(capture.rows(options))
    assert all(row.keys() >= KEYS for row in found)
    shares = [row for row in found if row["unit"] == "%"]
    assert [(r["contestant"], r["beam"]) for r in shares] == [
        ("headlight", 1),
        ("headlight-baseline", 1),
        ("headlight", 2),
    ]
    assert [row["what"] for row in found[-3:]] == [
        "a sentence's search",
        "a sentence's passes and checks",
        "a sentence's record, search included",
    ]


def test_training_contestants_start_with_equal_losses(monkeypatch):
    found = list(train.rows(tiny()))
    rows = by_contestant(found[:-1])
    assert set(rows) == {BASELINE, "baseline-tuned", "headlight", "headlight-baseline"}
    assert all(row["ratio"] > 0 and row["value"] > 0 for (row,) in rows.values())
    assert found[-1]["what"] == "padding" and 0 <= found[-1]["value"] < 50

    real = train._network

    def other(weights: Weights, architecture: str):
        network = real(weights, architecture)
        if architecture == "scratch":
            with torch.no_grad():
                network.embeddings.source_table.weight += 0.1
        return network

    monkeypatch.setattr(train, "_network", other)
    (refused,) = by_contestant(list(train.rows(tiny()))[:-1])["headlight"]
    assert refused["ratio"] is None and refused["reason"].startswith("different loss: ")


def test_a_text_too_short_to_train_on_is_rejected_in_one_line(checkpoint_folder, data):
    with pytest.raises(ValueError, match="120 pairs make 1 batches of 2,048 tokens: give more"):
        list(train.rows(Options(checkpoint=checkpoint_folder, data=data)))


def test_exponents_are_log_log_slopes(monkeypatch):
    assert scale.exponent([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2)
    assert scale.exponent([10, 100], [5, 5]) == pytest.approx(0)
    assert scale.exponent([10], [5]) is None and scale.exponent([1, 2], [0, 3]) is None
    monkeypatch.setattr(
        scale, "AXES", {axis: (what, (2, 4)) for axis, (what, _) in scale.AXES.items()}
    )
    found = list(scale.rows(tiny(rounds=3)))
    slopes = {row["what"] for row in found if row["unit"] == "exponent"}
    expected = {f"exponent of {axis}, {unit}" for axis in scale.AXES for unit in ("ms", "MiB")}
    assert {f"exponent of {axis}, ms" for axis in scale.AXES} <= slopes <= expected
    assert len([row for row in found if row["unit"] == "ms"]) == 2 * len(scale.AXES)
    assert [row["batch"] for row in found if row["what"] == "a corpus's search"][:2] == [2, 4]


def test_peak_memory_is_that_of_the_largest_tensor():
    if not scale._memory_is_measurable():
        pytest.skip("measurable only on Linux with glibc")
    found = scale._peak(lambda: torch.ones(8 << 20).sum())
    assert 30 < found < 45  # 32 MiB, plus what the sum itself needs


def test_workers_of_an_atlas_are_compared_by_time_memory_and_numbers(
    checkpoint_folder, data, monkeypatch
):
    """One run for memory is real. For time, the second kind of worker finds other numbers."""
    if sys.platform != "linux":
        pytest.skip("processes can be measured only on Linux")
    monkeypatch.setattr(shards, "MEASURED", (3,))
    monkeypatch.setitem(sys.modules, "ray", None)
    options = Options(rounds=1, checkpoint=checkpoint_folder, data=data, axes=("memory",))
    missing, driver, worker = shards.rows(options)
    assert missing.contestant == "ray"
    assert [driver["what"], worker["what"]] == ["driver, 3 sentences", "a worker, 3 sentences"]
    assert 50 < driver["value"] < 3000 and 50 < worker["value"] < 3000 and worker["unit"] == "MiB"

    def use(command):
        ray = "--ray" in command
        assert command[command.index("--shards") + 1] == "2"
        np.savez(command[command.index("--out") + 1], zero=np.array([1.0 + ray]))
        return shards.Usage(2.0 + ray, {1: 4.0, 2: 0.5 + ray})

    monkeypatch.setattr(shards, "_use", use)
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    found = list(shards.rows(replace(options, axes=("time",))))
    rows = [(row["contestant"], row["unit"], row["value"], row["ratio"]) for row in found]
    assert rows == [
        ("processes", "s", 2, 1),
        ("processes", "CPU s", 4.5, 1),
        ("ray", "s", 3, pytest.approx(2 / 3, abs=1e-3)),
        ("ray", "CPU s", 5.5, pytest.approx(4.5 / 5.5, abs=1e-3)),
    ]
    assert ["same" in row for row in found] == [True, True, False, False]
    assert found[2]["reason"] == "other numbers"


def command(*given: object) -> None:
    benchmark.run(benchmark.parser().parse_args([str(x) for x in given]))


def test_the_command_writes_rows_and_what_is_missing(no_alternatives, tmp_path, capsys):
    file = tmp_path / "rows.json"
    command("decode", "--random", TINY, "--size", "1,1,3", "--rounds", 1, "--json", file)
    result = json.loads(file.read_text())
    assert result.keys() == {"machine", "versions", "rows", "missing"}
    assert {row["contestant"] for row in result["rows"]} >= {BASELINE, "headlight"}
    assert "torch" in result["versions"]
    said = capsys.readouterr().out
    assert "without ct2: ctranslate2 is not installed" in said and "headlight+maps" in said


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("nothing",), "unknown benchmark 'nothing': choose from capture, decode, "),
        (("train", "--size", "1,1,3"), "the benchmark train takes no --size"),
        (("why", "--random"), "the benchmark why takes no --random"),
        (("shards", "--axis", "width"), "unknown axis 'width': choose from time, memory"),
        (("scale", "--axis", "width"), "unknown axis 'width': choose from length, "),
        (("decode", "--random", "d_modell=3"), "--random 'd_modell=3' is not a network setting"),
        (("decode", "--random", "norm_first=1"), "--random 'norm_first=1' is not a"),
        (
            ("decode", "--random", "--checkpoint", "x"),
            "--checkpoint and --random exclude each other",
        ),
    ],
)
def test_invalid_options_are_rejected_in_one_line(given, message):
    with pytest.raises(ValueError, match=message):
        command(*given)
