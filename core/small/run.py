"""A run: a small network that is trained one step at a time, and measured when asked.

The network is `core.model.transformer`; the loss, Adam and its schedule are those of
`core.training`. Weights and batches are drawn by whole numbers from one seed, so the same settings
give the same curve, and the offline page can repeat it. Runs compute in float64: in float32, within
200 steps, rounding decides whether a ReLU passes a number on, and the curves part.
Axes: B batch, S source and T target tokens, P parts, L layers, H heads.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
import sacrebleu
import torch
from torch import Tensor, nn
from torch.optim import Adam

from core.config import ModelConfig, TrainConfig
from core.data.batches import Batch, pad
from core.experiments.bugs import Bug, broken
from core.frozen import Floats
from core.kinds import KINDS, Kind
from core.model.transformer import MultiHeadAttention, Transformer
from core.record.capture import capture, explicit_attention
from core.small.examples import MAX_LENGTH, Examples
from core.text.tokenizer import BOS, EOS, PAD
from core.training.loss import Objective
from core.training.schedule import Schedule
from core.typed import between, check

Positions = Literal["sinusoids", "learned", "none"]
BATCH = 64
_MORE = 2  # tokens that a written answer may be longer than the longest right one
_LOOKING_AHEAD: tuple[Bug, ...] = ("over_queries", "inverted_mask", "no_causal_mask", "reshaped")
"""Mistakes with which a state depends on later tokens."""


@dataclass(frozen=True, kw_only=True)
class SmallConfig:
    """What a visitor may choose. Raises ValueError for a value out of range.

    `layers` is the number of encoder layers, and of decoder layers. `bug` is a mistake of
    `core.experiments.bugs` that is made in every step, or None.
    """

    layers: Annotated[int, between(1, 3)] = 2
    heads: Annotated[int, between(1, 8)] = 4
    d_model: Annotated[int, between(16, 128)] = 64
    positions: Positions = "sinusoids"
    norm_first: bool = True
    label_smoothing: Annotated[float, between(0, 0.5)] = 0.0
    warmup: Annotated[int, between(1, 1_000)] = 50
    steps: Annotated[int, between(1, 5_000)] = 500
    seed: Annotated[int, between(0, 9_999)] = 1
    bug: Bug | None = None

    def __post_init__(self) -> None:
        check(self)
        if self.d_model % (4 * self.heads):
            raise ValueError(
                f"d_model {self.d_model} must be a multiple of 4 times the number of heads, "
                f"{self.heads}"
            )

    def network(self, vocabulary: int) -> ModelConfig:
        """Return the network's shape; without positions, its table of positions is zero."""
        return ModelConfig(
            source_vocab_size=vocabulary,
            target_vocab_size=vocabulary,
            d_model=self.d_model,
            num_heads=self.heads,
            num_encoder_layers=self.layers,
            num_decoder_layers=self.layers,
            dim_feedforward=2 * self.d_model,
            dropout=0.0,
            norm_first=self.norm_first,
            learned_positions=self.positions != "sinusoids",
            max_length=MAX_LENGTH,
            share_embeddings=True,
            tie_classifier=True,
        )

    @property
    def training(self) -> TrainConfig:
        return TrainConfig(
            steps=self.steps,
            batch_sentences=BATCH,
            peak_lr=3e-3,
            warmup_steps=self.warmup,
            label_smoothing=self.label_smoothing,
            optimizer="adam",
            weight_decay=0.0,
            seed=self.seed,
        )


@dataclass(frozen=True, eq=False)
class Measured:
    """Measurements after `step` steps, on the held-out examples.

    `loss` is in nats per target token, unsmoothed. `exact` is the share of answers that the network
    writes without a mistake, greedily. `shares` [P, L, H] is the mean weight of a cross-attention
    head on the right source tokens of the task's parts; `chance` [P] is that of uniform weights.
    """

    step: int
    loss: float
    exact: float
    shares: Floats
    chance: Floats

    def best(self, part: int) -> tuple[int, int, float]:
        """Return the layer and head, from 0, with the largest share of a part, and the share."""
        layer, head = np.unravel_index(int(self.shares[part].argmax()), self.shares.shape[1:])
        return int(layer), int(head), float(self.shares[part, layer, head])


class DivergedError(RuntimeError):
    """The loss is not a finite number any more."""


@dataclass
class SmallRun:
    """A network in training. Not thread-safe: one thread at a time may call its methods."""

    examples: Examples
    config: SmallConfig
    step_number: int = 0
    losses: list[float] = field(default_factory=list)
    """The training loss of each step, in nats per target token (with label smoothing, if any)."""
    seconds: float = 0.0
    """Time spent in steps."""

    def __post_init__(self) -> None:
        self.model = Transformer(self.config.network(self.examples.tokenizer.size))
        self._rng = random.Random(self.config.seed)
        initialise(self.model, self._rng)
        self.model.double()
        if self.config.positions == "none":
            for name, table in self.model.named_parameters():
                if name.endswith("_positions.weight"):
                    nn.init.zeros_(table)
                    table.requires_grad_(False)
        training = self.config.training
        self._trained = [p for p in self.model.parameters() if p.requires_grad]
        self._adam = Adam(
            self._trained, training.peak_lr, training.betas, training.adam_eps, fused=True
        )
        self._schedule = Schedule(self._adam, training)

    @contextmanager
    def mistaken(self) -> Generator[None]:
        """Make the configured mistake inside the block, in full passes."""
        with broken(self.model, self.config.bug), explicit_attention(self.model.attention_sites()):
            yield

    def step(self) -> float:
        """Train on the next batch; return its loss. Raises DivergedError."""
        started = time.perf_counter()
        batch = self.examples.batch(self._rng, BATCH)
        self._schedule.before(self.step_number + 1)
        self.model.train()
        with self.mistaken():
            # Made here, because it keeps the network's methods, which a mistake may replace.
            objective = Objective(self.model, self.config.label_smoothing)
            loss = objective(batch, float((batch.target_out != PAD).sum()))
            loss.backward()
        clip = self.config.training.clip_norm or math.inf
        norm = nn.utils.clip_grad_norm_(self._trained, clip)
        if not (math.isfinite(loss.item()) and torch.isfinite(norm)):
            raise DivergedError(
                f"the loss is {loss.item()} at step {self.step_number + 1}: start again with a "
                "longer warm-up"
            )
        self._adam.step()
        torch.autograd.graph.increment_version(self._trained)
        self._adam.zero_grad()
        self.model.eval()
        self.step_number += 1
        self.losses.append(loss.item())
        self.seconds += time.perf_counter() - started
        return loss.item()

    @torch.inference_mode()
    def measure(self) -> Measured:
        """Measure the network on the held-out examples."""
        held = self.examples.held
        maps, logits_NTV = self._pass(held.batch)
        real = held.batch.target_out != PAD
        loss = nn.functional.cross_entropy(logits_NTV[real], held.batch.target_out[real])
        right = held.right.double()
        rows = held.right.any(-1).sum((-2, -1)).clamp(min=1)  # [P]
        shares = torch.einsum("lnhts,pnts->plh", maps["cross"], right) / rows[:, None, None]
        lengths_N = (held.batch.source != PAD).sum(-1)
        chance = (right.sum(-1) / lengths_N[:, None]).sum((-2, -1)) / rows
        if self.config.bug in _LOOKING_AHEAD:
            exact = self.exactness()
        else:
            # A token depends on those before it alone: an answer that is fed is written just if
            # each of its tokens is predicted.
            best = self.model.top_tokens.best(logits_NTV)[1]
            exact = float((~real | (best == held.batch.target_out)).all(-1).double().mean())
        return Measured(
            self.step_number, float(loss), exact, shares.float().numpy(), chance.float().numpy()
        )

    @torch.inference_mode()
    def exactness(self) -> float:
        """Return the share of held-out answers that the network writes without a mistake.

        An answer is written on only while it is right, so it begins as the right one.
        """
        batch = self.examples.held.batch
        open_N = torch.ones(len(batch.source), dtype=torch.bool)
        with self.mistaken():
            memory, mask = self.model.encode(batch.source)
            for t, wanted_N in enumerate(batch.target_out.T):
                rows = (open_N & (wanted_N != PAD)).nonzero()[:, 0]
                if not len(rows):
                    break
                fed = batch.target_in[rows, : t + 1]
                states = self.model.decode(fed, memory[rows], mask[rows])
                best = self.model.top_tokens.best(self.model.classify(states[:, -1]))[1]
                open_N[rows] = best == wanted_N[rows]
        return float(open_N.double().mean())

    def bleu(self) -> float:
        """Return the BLEU of the answers to the held-out examples."""
        batch = self.examples.held.batch
        written = self.write(batch.source, batch.target_out.shape[1] + _MORE)
        targets = [[id for id in row if id != PAD] for row in batch.target_out.tolist()]
        answers, references = (
            [self.examples.tokenizer.decode(ids) for ids in side] for side in (written, targets)
        )
        return sacrebleu.corpus_bleu(answers, [references]).score

    @torch.inference_mode()
    def write(self, source_BS: Tensor, limit: int) -> list[list[int]]:
        """Translate padded sources greedily: ids of each answer, with <eos> unless cut off.

        With a mistake, each token comes from a full pass over the prefix, as in training, so that
        it acts here too; without one, the KV cache saves that.
        """
        limit = min(limit, MAX_LENGTH - 1)
        ids_BT = torch.full((len(source_BS), 1), BOS)
        over = torch.zeros(len(source_BS), dtype=torch.bool)
        with self.mistaken():
            if self.config.bug is None:
                state = self.model.start(source_BS)
            else:
                memory, mask = self.model.encode(source_BS)
            while ids_BT.shape[1] <= limit and not over.all():
                if self.config.bug is None:
                    logits, state = self.model.step(ids_BT[:, -1], state)
                else:
                    logits = self.model.classify(self.model.decode(ids_BT, memory, mask)[:, -1])
                best_B = self.model.top_tokens.best(logits)[1].masked_fill(over, PAD)
                ids_BT = torch.cat((ids_BT, best_B[:, None]), 1)
                over = over | (best_B == EOS)
        rows = ids_BT[:, 1:].tolist()
        return [[id for id in row if id != PAD] for row in rows]

    @torch.inference_mode()
    def maps(self, source: list[int], target: list[int]) -> dict[Kind, Floats]:
        """Return the maps [L, H, Q, K] of a teacher-forced pass; both sides end with <eos>."""
        batch = Batch(pad([source]), pad([[BOS, *target[:-1]]]), pad([target]))
        return {kind: m[:, 0].float().numpy() for kind, m in self._pass(batch)[0].items()}

    def _pass(self, batch: Batch) -> tuple[dict[Kind, Tensor], Tensor]:
        """Return the maps [L, N, H, Q, K] by kind and the logits [N, T, V] of one pass."""
        with self.mistaken(), capture(self.model) as captured:
            logits = self.model(batch.source, batch.target_in)
        return {kind: captured.maps(kind) for kind in KINDS}, logits


def initialise(model: Transformer, rng: random.Random) -> None:
    """Draw all weights uniformly, from 32 random bits each, in the order of the parameters' names.

    Matrices follow Glorot & Bengio 2010; those of queries, keys and values have the gain √½, as in
    `core.model.transformer`. Tables have variance 1/d_model. Norms begin as the identity.
    """
    of_attention = {
        id(layer.weight)
        for module in model.modules()
        if isinstance(module, MultiHeadAttention)
        for layer in (module.query, module.key, module.value)
    }
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() < 2:
                parameter.fill_(float(name.endswith("weight")))
                continue
            rows, columns = parameter.shape
            if name.startswith("embeddings."):
                bound = math.sqrt(3 / columns)
            else:
                gain = math.sqrt(0.5) if id(parameter) in of_attention else 1.0
                bound = gain * math.sqrt(6 / (rows + columns))
            bits = [rng.getrandbits(32) for _ in range(rows * columns)]
            uniform = np.array(bits, np.float64) / 2**31 - 1
            parameter.copy_(torch.from_numpy(uniform * bound).view(rows, columns))
