"""Measure what each acceleration gains: `python -m tests.core.bench_model NAME`.

The other side of each comparison is what torch or a textbook has in its place. Printed are the
median of the ratios, above 1 where the trick is the faster one, and their middle half.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor

from core.config import DecodeConfig
from core.data.batches import collate
from core.record.capture import explicit_attention
from core.text.tokenizer import PAD
from core.training.loss import Objective
from core.translator import Translator
from tests import small

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"


def plain_loss(self: Objective, batch: Any, count: int) -> Tensor:
    """Cross-entropy of all logits at once."""
    logits = self.model(batch.source, batch.target_in)
    return F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=PAD,
        label_smoothing=self.smoothing,
    )


PLAIN: dict[str, list[Any]] = {
    "compiled": [patch("core.accelerate.kernels.library", lambda: None)],
    "loss": [patch.object(Objective, "forward", plain_loss)],
}


@contextmanager
def plain(name: str) -> Iterator[None]:
    with ExitStack() as stack:
        for change in PLAIN[name]:
            stack.enter_context(change)
        yield


def translating(folder: Path, batch_tokens: int, beam: int) -> list[Callable[[], object]]:
    """Each of the tests' sentences alone, or all of them in batches."""
    translator = Translator.load(folder, "cpu")
    side = 0 if translator.card.source_language == "de" else 1
    texts = [pair[side] for pair in small.SENTENCES]
    units = [texts * 4] if batch_tokens > 1 else [[text] for text in texts]
    decode = DecodeConfig(beam=beam)
    return [partial(translator.translate, unit, decode, batch_tokens) for unit in units]


def training(folder: Path, batch_tokens: int) -> list[Callable[[], object]]:
    """The gradients of one step of training on random tokens, in sentences of 10 to 20."""
    model = Translator.load(folder, "cpu")._model
    model.requires_grad_(True).train()
    torch.manual_seed(0)
    size, rows = model.config.target_vocab_size, batch_tokens // 15

    def row() -> list[int]:
        return torch.randint(4, size, (int(torch.randint(10, 21, ())),)).tolist()

    batch = collate([(row(), row()) for _ in range(rows)])
    objective, count = Objective(model, 0.1), int((batch.target_out != PAD).sum())

    def run() -> None:
        with explicit_attention(model):
            model.zero_grad(set_to_none=True)
            objective(batch, count).backward()

    return [run]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(PLAIN))
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINTS / "scratch-de-en")
    parser.add_argument("--batch-tokens", type=int, help="1: a sentence at a time")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    torch.set_num_threads(1)
    folder = given.checkpoint
    if given.name == "loss":
        work = training(folder, given.batch_tokens or 2048)
    else:
        work = translating(folder, given.batch_tokens or 1, given.beam)

    pairs = []
    for _ in range(given.rounds + 1):
        for unit in work:
            ours = seconds(unit)
            with plain(given.name):
                pairs.append((ours, seconds(unit)))
    pairs = pairs[len(work) :]  # the first round only warms up
    ratios = sorted(theirs / ours for ours, theirs in pairs)
    low, high = (ratios[at] for at in (len(ratios) // 4, -1 - len(ratios) // 4))
    ours, theirs = (1000 * statistics.median(column) for column in zip(*pairs, strict=True))
    sys.stdout.write(
        f"{given.name}: {ours:.1f} ms, without {theirs:.1f} ms; "
        f"ratio {statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})\n"
    )


def seconds(work: Callable[[], object]) -> float:
    """Of the processor, on one thread: other processes' turns do not count."""
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
