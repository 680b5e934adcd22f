"""Train two small models on random targets: only the model without a causal mask predicts them."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from core.config import ModelConfig
from core.model.build import build
from core.record.editing import edited
from core.record.edits import Edits
from core.text.tokenizer import BOS, EOS

WORDS = 16
LENGTH = 8
STEPS = 200
_BATCH = 64
_FIRST = 4  # the first id after the special tokens
_EVERY = 10


@dataclass(frozen=True)
class CheatingPoint:
    """The mean probability of the correct next word after some steps, on unseen random sequences.

    `masked` is the model with a causal mask, `open` the one without. Guessing gives 1/WORDS, and a
    model that cannot see the future cannot do better.
    """

    step: int
    masked: float
    open: float


def cheating(seed: int = 0) -> Iterator[CheatingPoint]:
    """Train two models that differ only in the mask, and yield a point every few steps.

    Every source and target word is drawn independently, so the model cannot predict a target word
    that it does not see.
    """
    config = ModelConfig(
        source_vocab_size=_FIRST + WORDS,
        target_vocab_size=_FIRST + WORDS,
        d_model=32,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dim_feedforward=64,
        dropout=0.0,
        norm_first=True,
        max_length=LENGTH + 1,
    )
    generator = torch.Generator().manual_seed(seed)

    def sequences() -> torch.Tensor:
        return torch.randint(_FIRST, _FIRST + WORDS, (_BATCH, LENGTH), generator=generator)

    runs = []
    for edits in (Edits(), Edits(causal_mask=False)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = build("scratch", config)
        runs.append((model, edits, torch.optim.Adam(model.parameters(), lr=3e-3)))
    for step in range(STEPS + 1):
        source, target = sequences(), sequences()
        target_in, target_out = F.pad(target, (1, 0), value=BOS), F.pad(target, (0, 1), value=EOS)
        means = []
        for model, edits, optimiser in runs:
            with edited(model, edits):
                logits = model(source, target_in)
            correct = logits.softmax(-1).gather(2, target_out[..., None])[:, :LENGTH]
            means.append(correct.mean().item())
            optimiser.zero_grad()
            F.cross_entropy(logits.flatten(0, 1), target_out.flatten()).backward()
            optimiser.step()
        if step % _EVERY == 0:
            yield CheatingPoint(step, *means)
