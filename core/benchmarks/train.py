"""Compare training speed with torch.nn.Transformer, in real target tokens per second.

`baseline` is nn.Transformer with cross_entropy over all logits and torch's AdamW in float32.
`baseline-tuned` adds fused AdamW, gradient clipping and autocast where the hardware supports
bfloat16, like the other contestants. `headlight-compiled`, with --compile, uses torch.compile. All
train on the same batches from the same weights, interleaved step by step.
"""

import copy
import functools
import random
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from core.benchmarks.contest import BASELINE, Cell, Missing, Options, Row, alternate, speedup
from core.benchmarks.networks import Weights
from core.config import TrainConfig
from core.data.batches import Pair, collate, encode_pairs, plan
from core.data.corpora import read_pairs
from core.device import autocast_dtype
from core.model.baseline import Baseline, copy_weights
from core.model.build import Model
from core.text.tokenizer import EOS, PAD
from core.training.loop import Stepped, train
from core.training.loss import negative_log_likelihood

PACKAGES = ()
OPTIONS = ("checkpoint", "random", "data", "device", "compile")
# Untimed steps. On a GPU, loading and selecting kernels for new shapes takes tens of steps, as do
# the recompilations of torch.compile.
_WARM_UP, _WARM_UP_ON_GPU = 1, 60
_NO_END = 10**9  # steps, so that no validation or snapshot is timed
_EPSILON = 1e-4  # relative tolerance for the loss of the first batch


def rows(options: Options) -> Iterator[Row | Missing]:
    """Yield tokens per second of each contestant, and the share of padding in the batches."""
    weights = Weights.of(options.checkpoint, options.random)
    torch.set_num_threads(options.threads)
    config = TrainConfig(
        steps=_NO_END, batch_tokens=2048, validate_every=_NO_END, snapshot_every=_NO_END
    )
    on_gpu = torch.device(options.device).type == "cuda"
    warm_up = _WARM_UP_ON_GPU if on_gpu else _WARM_UP
    pairs = _pairs(weights, options, options.rounds + warm_up)
    batches = plan(pairs, config.batch_tokens, seed=config.seed * 100_003)
    if len(batches) < warm_up + 3:
        raise ValueError(
            f"{len(pairs):,} pairs make {len(batches)} batches of {config.batch_tokens:,} tokens: "
            "give more text, or leave out --data"
        )
    tokens = [sum(len(pairs[i][1]) for i in batch) for batch in batches]
    networks = {
        BASELINE: _network(weights, "baseline"),
        "baseline-tuned": _network(weights, "baseline"),
        "headlight": _network(weights, "scratch"),
        "headlight-baseline": _network(weights, "baseline"),
    }
    if options.compile:
        networks["headlight-compiled"] = _network(weights, "scratch")
    first = collate([pairs[i] for i in batches[0]])
    losses = {name: negative_log_likelihood(x.eval(), first)[0] for name, x in networks.items()}
    with tempfile.TemporaryDirectory() as folder:
        steps = {}
        for name, network in networks.items():
            network.to(options.device)
            if name in (BASELINE, "baseline-tuned"):
                tuned = name != BASELINE
                steps[name] = _tutorial_loop(network, pairs, batches, config, options.device, tuned)
            else:
                state, compiled = Path(folder) / name, name == "headlight-compiled"
                device = options.device
                events = train(
                    network, pairs, pairs[:1], config, state, device, False, compiled=compiled
                )
                steps[name] = (event for event in events if isinstance(event, Stepped))
        works = [functools.partial(_step, run, on_gpu) for run in steps.values()]
        for work in works:
            for _ in range(warm_up):
                work()
        rounds = min(options.rounds, len(batches) - warm_up)
        times = dict(zip(steps, alternate(works, rounds, options.seconds), strict=True))
    length = round(statistics.mean(len(target) for _, target in pairs))
    cell = Cell("train", weights.shape, len(batches[0]), 1, length)
    for name, seconds in times.items():
        more: Row = {"reason": f"different loss: {losses[name]:.6g}, not {losses[BASELINE]:.6g}"}
        if abs(losses[name] / losses[BASELINE] - 1) <= _EPSILON:
            more = speedup(seconds, times[BASELINE])
        speeds = [n / t for n, t in zip(tokens[warm_up:], seconds, strict=False)]
        yield cell.measured(name, speeds, "target tokens per second", **more)
    cells = sum(
        len(batch) * max(len(pairs[i][side]) for i in batch) for batch in batches for side in (0, 1)
    )
    real = sum(len(source) + len(target) for source, target in pairs)
    yield Cell("padding", weights.shape, len(batches[0]), 1, length).row(
        "headlight", 100 * (1 - real / cells), "%"
    )


def _step(run: Iterator[object], on_gpu: bool) -> None:
    """Run one step to completion; pending GPU work would count towards the next step's time."""
    next(run)
    if on_gpu:
        torch.cuda.synchronize()


def _network(weights: Weights, architecture: str) -> Model:
    network = copy.deepcopy(weights.network)
    if architecture == "baseline":
        network = Baseline(weights.network.config)
        copy_weights(weights.network, network)
    return network.requires_grad_(True)


def _pairs(weights: Weights, options: Options, steps: int) -> list[Pair]:
    """Return Multi30k's pairs if --data is given, or else random ids for `steps` steps.

    Random weights have no tokenizers, so they always get random ids.
    """
    config = weights.network.config
    if options.data and weights.tokenizers:
        text = read_pairs("multi30k", "train", *weights.languages, options.data)
        return list(encode_pairs(text, *weights.tokenizers))
    rng = random.Random(0)

    def row(length: int, size: int) -> list[int]:
        return [*(rng.randrange(4, size) for _ in range(length - 1)), EOS]

    pairs = []
    for _ in range(200 * (steps + 1)):
        length = min(round(rng.lognormvariate(2.6, 0.3)), config.max_length)
        other = min(max(2, round(length * rng.gauss(1.0, 0.15))), config.max_length)
        pairs.append((row(length, config.source_vocab_size), row(other, config.target_vocab_size)))
    return pairs


def _tutorial_loop(
    network: Model,
    pairs: Sequence[Pair],
    batches: list[list[int]],
    config: TrainConfig,
    device: str,
    tuned: bool,
) -> Iterator[None]:
    """Yield after each optimiser step of a tutorial-style training loop."""
    network.embeddings.register_module("dropout", nn.Dropout(network.config.dropout))
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=tuned or None)
    dtype = autocast_dtype(device)
    amp = torch.autocast(torch.device(device).type, dtype, enabled=tuned and dtype != torch.float32)
    network.train()
    for indices in batches:
        batch = collate([pairs[i] for i in indices]).to(device)
        with amp:
            logits = network(batch.source, batch.target_in)
            loss = F.cross_entropy(
                logits.flatten(0, 1),
                batch.target_out.flatten(),
                ignore_index=PAD,
                label_smoothing=config.label_smoothing,
            )
        optimizer.zero_grad()
        loss.backward()
        if tuned:
            nn.utils.clip_grad_norm_(network.parameters(), config.clip_norm or 1.0)
        optimizer.step()
        loss.item()
        yield
