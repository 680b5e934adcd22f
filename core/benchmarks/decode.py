"""Compare decoding speed with alternatives that run the same weights on the same input.

`baseline` is the usual tutorial loop over torch.nn.Transformer (core.benchmarks.tutorial). All
contestants generate as many tokens as the source has, and the generated ids are compared. With
--library, an imported network is compared with its original folder, opened by transformers (`hf`).
`headlight-compiled`, with --compile, runs the encoder and the decoding steps through torch.compile.
"""

import inspect
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from core.benchmarks import ctranslate2, hugging_face, tutorial
from core.benchmarks.contest import (
    BASELINE,
    Cell,
    Contestant,
    Ids,
    Missing,
    Options,
    Row,
    Size,
    compete,
)
from core.benchmarks.networks import Weights, baseline_of
from core.config import DecodeConfig
from core.data.batches import pad
from core.device import pick_device
from core.kinds import KINDS
from core.model import decoding
from core.model.baseline import Baseline
from core.model.interface import Seq2Seq
from core.model.transformer import Transformer
from core.record.capture import capture
from core.search.beam import search
from core.text.tokenizer import BOS

PACKAGES = ("transformers", "ctranslate2")
OPTIONS = ("checkpoint", "random", "sizes", "device", "compile", "library")
SIZES = (Size(1, 1, 13), Size(1, 5, 13), Size(64, 1, 13), Size(64, 5, 13), Size(64, 5, 60))


Decode = Callable[[Tensor], Sequence[Ids]]


def rows(options: Options) -> Iterator[Row | Missing]:
    """Yield a row for each contestant and size; report a missing contestant once."""
    weights = Weights.of(options.checkpoint, options.random)
    torch.set_num_threads(options.threads)
    device = pick_device(options.device)
    reported: set[Missing] = set()
    for size in options.sizes or SIZES:
        source_NS = weights.sources(size.batch, size.length).to(device)
        with tempfile.TemporaryDirectory() as folder:
            decoders, missing = contestants(weights, size, options, Path(folder))
            yield from sorted(missing - reported)
            reported |= missing
            ready = [
                Contestant(name, partial(run, source_NS), exact=name != "ct2-int8")
                for name, run in decoders.items()
            ]
            cell = Cell("decode", weights.shape, *size)
            yield from compete(cell, ready, options.rounds, options.seconds)


def contestants(
    weights: Weights, size: Size, options: Options, folder: Path
) -> tuple[dict[str, Decode], set[Missing]]:
    """Return each contestant's decoder by name, the one to compare with first; and the missing."""
    device = pick_device(options.device)
    scratch = weights.fixed_length(size.length).to(device)
    beam, steps = size.beam, size.length
    own: dict[str, Decode] = {
        "headlight": lambda ids: run_search(scratch, ids, beam),
        "headlight+maps": lambda ids: run_search(scratch, ids, beam, maps=True),
    }
    if options.compile:
        compiled = compiled_copy(scratch)
        own["headlight-compiled"] = lambda ids: run_search(compiled, ids, beam)
    if options.library is not None:
        return _original(options.library, weights, size, device) | own, set()
    baseline = baseline_of(scratch).to(device)
    decoders = {
        BASELINE: lambda ids: tutorial.translate(baseline, ids, beam, steps),
        **own,
        "headlight-baseline": lambda ids: run_search(baseline, ids, beam),
    }
    missing: set[Missing] = set()
    for names, add in ((("hf", "hf+maps"), _hugging_face), (("ct2", "ct2-int8"), _ctranslate2)):
        try:
            decoders |= add(scratch, size, options.threads, folder)
        except ImportError as error:
            reason = f"{error.name} is not installed: pip install -e .[benchmark]"
            missing |= {Missing(name, reason) for name in names}
        except ValueError as error:
            missing |= {Missing(name, str(error)) for name in names}
    return decoders, missing


def run_search(
    network: Transformer | Baseline, source_NS: Tensor, beam: int, maps: bool = False
) -> list[Ids]:
    """Run the project's search and, with `maps`, capture all maps of its output.

    On a GPU, return only after the maps have been computed.
    """
    best = [hypotheses[0].ids for hypotheses in search(network, source_NS, DecodeConfig(beam=beam))]
    if maps:
        capture_maps(network, source_NS, best)
        if source_NS.is_cuda:
            torch.cuda.synchronize(source_NS.device)
    return best


def compiled_copy(network: Transformer) -> Transformer:
    """Return a copy whose encoder and decoding steps run through torch.compile."""
    copy: Any = Transformer(network.config).eval().requires_grad_(False)
    copy.load_state_dict(network.state_dict())
    copy.to(next(network.parameters()).device)
    copy.encode = torch.compile(copy.encode, dynamic=True)
    # Unwrap `step`: torch.compile cannot trace its inference-mode decorator. The search enters
    # inference mode anyway.
    copy.step = partial(torch.compile(inspect.unwrap(decoding.step), dynamic=True), copy)
    return copy


@torch.inference_mode()
def capture_maps(network: Seq2Seq, source_NS: Tensor, targets: Sequence[Ids]) -> list[Tensor]:
    """Capture all maps in one teacher-forced pass: [layer, batch, head, query, key] per kind."""
    target_in = pad([[BOS, *ids[:-1]] for ids in targets]).to(source_NS.device)
    with capture(network) as captured:
        network.decode(target_in, *network.encode(source_NS))
    return [captured.maps(kind) for kind in KINDS]


def _original(folder: Path, weights: Weights, size: Size, device: str) -> dict[str, Decode]:
    """Return the decoders of the original network. Raises ValueError for another folder."""
    original = hugging_face.Original.of(folder, weights.imported, weights.tokenizers)
    try:
        plain, watched = (original.open(maps).to(device) for maps in (False, True))
    except ImportError as error:
        raise ValueError(f"--library needs {error.name}: pip install -e .[benchmark]") from None
    beam, steps = size.beam, size.length
    return {
        "hf": lambda ids: original.translate(plain, ids, beam, steps, False),
        "hf+maps": lambda ids: original.translate(watched, ids, beam, steps, True),
    }


def _hugging_face(
    network: Transformer, size: Size, threads: int, folder: Path
) -> dict[str, Decode]:
    plain, watched = (
        hugging_face.convert(network, maps).to(next(network.parameters()).device)
        for maps in (False, True)
    )
    beam, steps = size.beam, size.length
    return {
        "hf": lambda ids: hugging_face.translate(plain, ids, beam, steps, False),
        "hf+maps": lambda ids: hugging_face.translate(watched, ids, beam, steps, True),
    }


def _ctranslate2(network: Transformer, size: Size, threads: int, folder: Path) -> dict[str, Decode]:
    if next(network.parameters()).device.type != "cpu":
        raise ValueError("this benchmark runs CTranslate2 on a CPU only")
    ctranslate2.write(network, folder)
    exact, int8 = (
        ctranslate2.open_translator(folder, kind, threads) for kind in ("float32", "int8")
    )
    return {
        "ct2": lambda ids: ctranslate2.translate(exact, ids, size.beam, size.length),
        "ct2-int8": lambda ids: ctranslate2.translate(int8, ids, size.beam, size.length),
    }
