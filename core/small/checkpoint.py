"""Save a run's network as a checkpoint folder."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from pathlib import Path

import torch

from core.checkpoint import folder as checkpoint
from core.record.attention_snapshots import FILE, LIMIT
from core.small.history import History

RECIPE = "small"
"""The recipe's name in config.json."""


def save(history: History, folder: Path, machine: str) -> None:
    """Write the network as it is now, its curve and, without a mistake, its attention snapshots.

    The weights are rounded to float16. Points are left out if the snapshots of a long example would
    be too large. The folder must not exist.
    """
    history.add()
    run, points = history.run, history.points
    bleu = history.bleu() if run.config.bug is None else [run.bleu()]
    curve = [
        {"step": one.step, "train_loss": loss, "val_loss": one.loss, "exact": one.exact}
        for one, loss in zip(points, [points[0].loss, *_mean_losses(history)], strict=True)
    ]
    task = run.examples.task
    corpus = f"{task}, {len(run.examples.held.examples)} held-out examples"
    training = {
        "recipe": RECIPE,
        "source": f"trained on the page Train one here: {task}",
        "corpora": {task: 1},
        "steps_done": run.step_number,
        "seconds": round(run.seconds, 1),
        "settings": asdict(run.config),
        "config": run.config.training.to_json(),
        "machine": machine,
        "torch": torch.__version__,
    }
    final = {corpus: {"sacrebleu": bleu[-1], "exact": points[-1].exact, "beam": 1}}
    tokenizer = run.examples.tokenizer
    checkpoint.save(
        folder,
        run.model,
        "scratch",
        run.examples.sides,
        (tokenizer, tokenizer),
        training,
        {"curve": curve, "final": final},
        half_precision=True,
    )
    if run.config.bug is None:
        snapshots = history.snapshots(bleu)
        while len(snapshots.to_bytes()) > LIMIT:
            snapshots = snapshots.thinned()
        snapshots.save(folder / FILE)


def _mean_losses(history: History) -> list[float]:
    """Return the mean training loss of the steps between consecutive points."""
    steps = [one.step for one in history.points]
    losses = history.run.losses
    return [sum(losses[a:b]) / (b - a) for a, b in itertools.pairwise(steps)]
