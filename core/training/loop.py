"""The training loop: a generator of events that can be stopped anywhere and resumed bit for bit."""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from core.batches import Pair, collate, plan
from core.capture import explicit_attention
from core.config import TrainConfig
from core.training import resume
from core.training.loss import backward, negative_log_likelihood
from core.training.schedule import inverse_sqrt


@dataclass(frozen=True)
class Stepped:
    """One optimiser step: its smoothed loss, and target tokens a second since it last validated."""

    step: int
    loss: float
    tokens_per_second: float


@dataclass(frozen=True)
class Validated:
    """One validation: the curve so far, whose last row is new, and the best loss on it."""

    curve: list[dict[str, float]]
    best_loss: float


@dataclass
class Progress:
    """Where a run stands, beyond weights, optimiser and random state."""

    step: int = 0
    epoch: int = 0
    position: int = 0
    seconds: float = 0.0
    best_loss: float = float("inf")
    curve: list[dict[str, float]] = field(default_factory=list)


class DivergedError(RuntimeError):
    """The loss is no number any more; nothing was saved after it."""


def train(
    model: nn.Module,
    pairs: list[Pair],
    validation: list[Pair],
    config: TrainConfig,
    state_folder: Path,
    device: str,
    resuming: bool,
) -> Iterator[Stepped | Validated]:
    """Train until `config.steps`, yielding an event a step and one a validation.

    State is written at each validation, so an interrupted run loses less than `validate_every`
    steps and continues exactly as if it had not stopped. Raises DivergedError.
    """
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=config.peak_lr,
        betas=config.betas,
        weight_decay=config.weight_decay,
        fused=True,
    )
    progress = Progress()
    if resuming:
        progress = Progress(**resume.read(state_folder, model, optimizer))
    else:
        torch.manual_seed(config.seed + 1)  # dropout; the weights were drawn by the caller
    amp = torch.autocast(device, torch.bfloat16)
    # On CPU explicit attention is 2.4× as fast as the fused call with dropout at these lengths.
    explicit = explicit_attention(model) if device == "cpu" else nullcontext()
    with explicit:
        losses: list[Tensor] = []
        tokens, started = 0, time.perf_counter()
        while progress.step < config.steps:
            batches = plan(pairs, config.batch_tokens, seed=config.seed * 100_003 + progress.epoch)
            for indices in batches[progress.position :]:
                batch = collate([pairs[i] for i in indices]).to(device)
                progress.step += 1
                progress.position += 1
                rate = inverse_sqrt(progress.step, config.peak_lr, config.warmup_steps)
                for group in optimizer.param_groups:
                    group["lr"] = rate
                model.train()
                with amp:
                    loss = backward(model, batch, config.label_smoothing)
                if not torch.isfinite(loss):
                    raise DivergedError(
                        f"the loss is {loss.item()} at step {progress.step}: "
                        "the last good state is kept; lower the learning rate and resume"
                    )
                nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss)
                tokens += sum(len(pairs[i][1]) for i in indices)
                speed = tokens / (time.perf_counter() - started)
                yield Stepped(progress.step, loss.item(), speed)
                if progress.step % config.snapshot_every == 0:
                    resume.write_snapshot(state_folder, model, progress.step, config.average_last)
                last = progress.step == config.steps
                if progress.step % config.validate_every == 0 or last:
                    progress.seconds += time.perf_counter() - started
                    loss_now = validation_loss(model, validation, config.batch_tokens, device)
                    loss_now = round(loss_now, 5)
                    progress.best_loss = min(loss_now, progress.best_loss)
                    row = {
                        "step": progress.step,
                        "epoch": round(progress.epoch + progress.position / len(batches), 3),
                        "train_loss": round(torch.stack(losses).mean().item(), 5),
                        "val_loss": loss_now,
                        "tokens_per_second": round(speed, 1),
                        "seconds": round(progress.seconds, 1),
                    }
                    progress.curve.append(row)
                    # The caller keeps the best weights now, before the state that remembers them.
                    yield Validated(list(progress.curve), progress.best_loss)
                    resume.write(state_folder, model, optimizer, vars(progress))
                    losses, tokens, started = [], 0, time.perf_counter()
                if last:
                    return
            progress.epoch += 1
            progress.position = 0


def validation_loss(model: nn.Module, pairs: list[Pair], budget: int, device: str) -> float:
    """Unsmoothed loss a target token, in nats, over all pairs; float32, no dropout."""
    was_training = model.training
    model.eval()
    total, count = 0.0, 0
    for indices in plan(pairs, budget):
        nll, tokens = negative_log_likelihood(
            model, collate([pairs[i] for i in indices]).to(device)
        )
        total, count = total + nll, count + tokens
    model.train(was_training)
    return total / count
