"""Measure the cost of capturing all attention maps relative to search, and of a full record."""

from collections.abc import Iterator

import torch

from core.benchmarks.contest import Cell, Missing, Options, Row, Size, alternate
from core.benchmarks.decode import capture_maps, run_search
from core.benchmarks.networks import Weights, baseline_of
from core.config import DecodeConfig
from core.search.beam import search
from core.translator import Translator

PACKAGES = ()
OPTIONS = ("checkpoint", "sizes")
SIZES = (Size(64, 1, 13), Size(64, 5, 13), Size(64, 5, 60))
_SENTENCES = {  # 13 tokens each for the shipped models, <eos> included
    "de": "Ein kleines Mädchen in einem rosa Kleid spielt allein im Garten.",
    "en": "A little girl in a pink dress plays alone in the garden.",
}


def rows(options: Options) -> Iterator[Row | Missing]:
    """Time search and maps, with their ratio, at each size; then one sentence's record."""
    assert options.checkpoint is not None
    weights = Weights.of(options.checkpoint, None)
    torch.set_num_threads(options.threads)
    for size in options.sizes or SIZES:
        yield from _maps(weights, size, options)
    yield from _record(weights, options)


def _maps(weights: Weights, size: Size, options: Options) -> Iterator[Row]:
    source_NS = weights.sources(size.batch, size.length)
    scratch = weights.fixed_length(size.length)
    baseline = baseline_of(scratch)
    for name, network in (("headlight", scratch), ("headlight-baseline", baseline)):
        if network is baseline and size.beam > 1:
            # A search without a KV cache takes minutes, and the maps cost the same as for beam 1.
            continue
        targets = run_search(network, source_NS, size.beam)
        capture_maps(network, source_NS, targets)
        searching, capturing = alternate(
            [
                lambda network=network: run_search(network, source_NS, size.beam),
                lambda network=network, targets=targets: capture_maps(network, source_NS, targets),
            ],
            options.rounds,
            options.seconds,
        )
        shares = [100 * b / a for a, b in zip(searching, capturing, strict=True)]
        for what, values, unit in (
            ("search", [1000 * x / size.batch for x in searching], "ms per sentence"),
            ("all maps", [1000 * x / size.batch for x in capturing], "ms per sentence"),
            ("all maps, relative to the search", shares, "%"),
        ):
            yield Cell(what, weights.shape, *size).measured(name, values, unit)


def _record(weights: Weights, options: Options) -> Iterator[Row]:
    """Time `inspect` of one sentence, and separately its search and its passes with checks."""
    assert options.checkpoint is not None
    translator = Translator.load(options.checkpoint, device="cpu")
    torch.set_num_threads(options.threads)
    text = _SENTENCES.get(weights.languages[0], _SENTENCES["en"])
    decode = DecodeConfig()
    record = translator.inspect(text, decode=decode)
    length = len(record.source)
    ids = torch.tensor([[token.id for token in translator.tokens(text, "source")]])

    def searching() -> None:
        with translator.exclusive_model() as network:
            search(network, ids, decode)

    works = {
        "a sentence's search": searching,
        "a sentence's passes and checks": lambda: translator.recheck(record),
        "a sentence's record, search included": lambda: translator.inspect(text, decode=decode),
    }
    times = alternate(list(works.values()), options.rounds, options.seconds)
    for what, values in zip(works, times, strict=True):
        cell = Cell(what, weights.shape, 1, decode.beam, length)
        yield cell.measured("headlight", [1000 * x for x in values], "ms")
