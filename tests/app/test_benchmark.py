"""The page benchmark: text lengths, message sizes and timings."""

import json
import re
import tomllib
from pathlib import Path
from urllib.parse import unquote

import pytest

from app.benchmark import BENCHMARKS
from app.benchmark.browser import (
    EXPLORER,
    HARNESS,
    SENTENCES,
    count_bytes,
    text_of,
    timed,
    wait_for_explorer,
)
from app.benchmark.page import edits
from core import benchmark
from core.benchmarks.contest import Cell
from core.checkpoint.folder import read_card
from tests.app.explorer_harness import synthetic_record

ROOT = Path(__file__).resolve().parents[2]


def test_a_benchmark_is_found_by_name(monkeypatch, tmp_path):
    assert benchmark.plugins() == BENCHMARKS
    row = Cell("nothing", "none", 1, 1, 3).row("headlight", 1.5, "ms")

    class Installed:
        def load(self) -> dict:
            return {"nothing": (lambda options: iter([row] * options.rounds), ("numpy",), ())}

    groups = []
    monkeypatch.setattr(
        benchmark, "entry_points", lambda group: groups.append(group) or [Installed()]
    )
    file = tmp_path / "rows.json"
    arguments = ["nothing", "--rounds", "2", "--json", str(file)]
    benchmark.run(benchmark.parser().parse_args(arguments))
    report = json.loads(file.read_text())
    assert report["rows"] == [row, row] and set(report["versions"]) == {"torch", "numpy"}
    known = "capture, decode, nothing, scale, shards, small, train, why"
    with pytest.raises(ValueError, match=f"unknown benchmark 'page': choose from {known}"):
        benchmark.run(benchmark.parser().parse_args(["page"]))
    assert set(groups) == {"headlight.benchmarks"}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert declared == {"headlight.benchmarks": {"app": "app.benchmark:BENCHMARKS"}}


def test_texts_have_the_stated_number_of_tokens(translator):
    for tokens in (13, 60, 100):
        texts = [text_of(tokens, number) for number in (0, 20, 512)]
        assert {len(translator.inspect(text).source) for text in texts} == {tokens}
        assert len({text_of(tokens, number) for number in range(1000)}) == 1000
    assert {len(translator.inspect(text).source) for text in SENTENCES} == {13}


def test_clicks_are_timed_and_messages_measured(local_page, serve):
    received = count_bytes(local_page)
    local_page.goto(f"{serve(HARNESS)}/?case=long&layers=2&heads=2")
    root = local_page.locator(EXPLORER)
    root.and_(local_page.locator("[data-painted]")).wait_for()
    record = synthetic_record("long", 2, 2)
    cells = sum(
        4 * int(getattr(record, f"{k}_mask").sum()) for k in ("encoder", "decoder", "cross")
    )
    assert max(received) > 2 * cells, "one message holds the maps"
    before = int(root.get_attribute("data-painted"))
    assert timed(local_page, "click", root.locator("[data-kind-option=encoder]").click) > 0
    assert int(root.get_attribute("data-painted")) > before


def test_edits_ablate_one_head_after_the_other(local_page, serve):
    local_page.goto(serve(ROOT / "app/main.py"))
    wait_for_explorer(local_page)
    assert all(seconds > 0 for seconds in edits(local_page, 5))
    heads = read_card(ROOT / "checkpoints/scratch-de-en").model.num_heads
    off = re.findall(r"off\.cross\.(\d)\.(\d)", unquote(local_page.url))
    assert off == [(str(n // heads), str(n % heads)) for n in range(6)]
