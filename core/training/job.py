"""Run one training job, from its options to a scored checkpoint with a model card."""

import json
import math
import multiprocessing
import platform
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from core.accelerate.network import accelerate
from core.checkpoint import folder as checkpoint
from core.command import refuse_unwritable, table
from core.config import DecodeConfig, ModelConfig, TrainConfig
from core.data.text_files import LinePairs, refuse_pipes
from core.device import device_label, pick_device
from core.files import sha256, write_atomic
from core.model.build import Model, build
from core.training import model_card as card
from core.training import resume
from core.training.data import Epochs, PairFiles, Prepared, prepare
from core.training.distributed import Processes, joined, restarted
from core.training.loop import (
    EpochEnded,
    Event,
    Row,
    Started,
    Stepped,
    Stopped,
    Validated,
    best,
    train,
    validation_loss,
)
from core.training.recipes import RECIPES, Recipe
from core.training.scoring import evaluate
from core.training.snapshots import SENTENCES, SnapshotRecorder


def run(options: Namespace) -> None:
    """Train by the parsed options of core.train, score the weights and write the model card.

    The best or the averaged weights are kept, whichever have the lower validation loss. With
    several processes, only rank 0 writes files and scores the result.
    """
    if options.threads:
        torch.set_num_threads(options.threads)
    device = pick_device(options.device)
    with joined(device) as processes:
        resuming = _resuming(options, processes)
        job = _prepare(options, device, processes)
        with _save_errors(), _compile_errors(), _signals(processes) as should_stop:
            events = train(
                job.model,
                job.data.train,
                job.data.validation,
                job.config,
                job.state,
                device,
                resuming,
                job.identity(),
                processes,
                options.compile,
                should_stop,
            )
            curve = _watch(events, job, processes)
    if processes.first:
        with _save_errors():
            _finish(job, curve)


@dataclass(frozen=True)
class _Job:
    """The model, data and configuration of a run."""

    options: Namespace
    recipe: Recipe
    config: TrainConfig
    languages: tuple[str, str]
    data: Prepared
    model: Model
    device: str

    @property
    def state(self) -> Path:
        return self.options.out / "resume"

    def identity(self) -> dict[str, Any]:
        """Return the settings that must not change between a saved state and a resumed run."""
        vocabularies = [json.dumps(t.to_json()).encode() for t in self.data.tokenizers]
        shape = {f"network {k}": v for k, v in self.model.config.to_json().items()}
        return {
            "recipe": self.recipe.name,
            "model": self.options.model,
            "direction": "-".join(self.languages),
            "vocabulary": sha256(b"".join(vocabularies))[:16],
            "training text": self.data.train.sha256[:16],
            "validation text": self.data.validation.sha256[:16],
            **shape,
        }

    def snapshot_recorder(self) -> SnapshotRecorder:
        """Return the recorder of this run's attention snapshots."""
        validation = [pair for text in self.data.validation_text.values() for pair in text]
        return SnapshotRecorder(
            self.options.out,
            self.languages,
            self.data.tokenizers,
            validation,
            self.config.steps,
            self.device,
            self.recipe.snapshot_pairs or SENTENCES,
        )

    def save_checkpoint(
        self, folder: Path, kept: str, curve: list[Row], scores: dict[str, Any]
    ) -> None:
        """Save the current network as a checkpoint."""
        training = {
            "recipe": self.recipe.name,
            "source": self.recipe.source,
            "corpora": self.data.corpora,
            "augmentation": self.recipe.augmentation and asdict(self.recipe.augmentation),
            "longest": self.data.longest,
            "config": self.config.to_json(),
            "machine": _processor() if self.device == "cpu" else device_label(self.device),
            "torch": torch.__version__,
            "hours": round(curve[-1]["seconds"] / 3600, 3),
            "kept": kept,
        }
        metrics = {"curve": curve, "final": scores}
        checkpoint.save(
            folder,
            self.model,
            self.options.model,
            self.languages,
            self.data.tokenizers,
            training,
            metrics,
            self.recipe.half_precision,
        )


def _resuming(options: Namespace, processes: Processes) -> bool:
    """Return whether to resume from a saved state; rank 0 decides for all processes.

    Raises ValueError if the folder already holds a run, or cannot be written.
    """
    resuming = options.resume
    if processes.first:
        refuse_unwritable("--out", options.out / "config.json")
    if processes.first and not resuming:
        out = options.out
        started, saved = resume.exists(out / "resume"), (out / "config.json").exists()
        if restarted():
            resuming = started
        elif started or saved:
            raise ValueError(
                f"{out} already holds a {'checkpoint' if saved else 'run'}: "
                "delete it, choose another, or --resume"
            )
    return processes.broadcast(bytes([resuming])) == b"\1"


def _prepare(options: Namespace, device: str, processes: Processes) -> _Job:
    """Prepare the data and initialise the network."""
    recipe = RECIPES[options.recipe]
    config = replace(recipe.training, seed=options.seed)
    for name, value in (
        ("steps", options.max_steps),
        ("save_every", options.save_every),
        ("keep_epochs", options.keep_epochs),
    ):
        if value is not None:
            config = replace(config, **{name: value})
    source, target = options.direction.split("-")
    languages = source, target
    files = None
    src, ref, val_src, val_ref = options.src, options.ref, options.val_src, options.val_ref
    if src and ref and val_src and val_ref:
        refuse_pipes((src, ref, val_src, val_ref), "training")
        files = PairFiles(LinePairs(src, ref), LinePairs(val_src, val_ref))
    elif src or ref or val_src or val_ref:
        raise ValueError("your own text needs all four of --src, --ref, --val-src and --val-ref")
    data = prepare(
        recipe,
        languages,
        options.data,
        files,
        config.max_pair_tokens,
        config.seed,
        recipe.network.get("max_length", ModelConfig.max_length),
    )
    if isinstance(data.train, Epochs):
        can_fork = "fork" in multiprocessing.get_all_start_methods()
        data.train.prefetch = can_fork and torch.device(device).type == "cuda"
    for reason, count in data.left_out.items():
        if count and processes.first:
            sys.stdout.write(f"left out: {count:,} pairs {reason}\n")
    torch.manual_seed(config.seed)
    network = ModelConfig(
        source_vocab_size=data.tokenizers[0].size,
        target_vocab_size=data.tokenizers[1].size,
        **recipe.network,
    )
    model = build(options.model, network)
    if recipe.xavier_embeddings:
        model.reset_parameters(xavier_embeddings=True)
    accelerate(model)
    return _Job(options, recipe, config, languages, data, model.to(device), device)


def _watch(events: Iterator[Event], job: _Job, processes: Processes) -> list[Row]:
    """Consume the events: show progress and save the best weights. Return the loss curve."""
    from tqdm import tqdm

    out = job.options.out
    started = next(events)
    assert isinstance(started, Started)
    curve = started.curve
    recorder = job.snapshot_recorder() if job.recipe.snapshots and processes.first else None
    if recorder:
        recorder.on_start(job.model, started.step)
    with tqdm(
        initial=started.step,  # done, but ignored in the estimated time left
        total=job.config.steps,
        unit="step",
        mininterval=1,
        smoothing=0,
        disable=not processes.first,
    ) as bar:
        for event in events:
            if not processes.first:
                if isinstance(event, Stopped):
                    sys.exit(1)
                continue
            match event:
                case Stepped(step=step, loss=loss, tokens_per_second=speed):
                    if recorder:  # before the loop saves a state at this step
                        recorder.on_step(job.model, step)
                    bar.set_postfix_str(f"loss {loss:.3f}, {speed:,.0f} tokens/s", refresh=False)
                    bar.update()
                case Validated(curve=curve):
                    row = curve[-1]
                    bar.write("  ".join(f"{name} {value:g}" for name, value in row.items()))
                    if row is best(curve):
                        job.save_checkpoint(
                            job.options.out, f"the best validation, step {row['step']:,}", curve, {}
                        )
                    else:
                        checkpoint.save_metrics(out, {"curve": curve, "final": {}})
                case EpochEnded(epoch=epoch, curve=until):
                    row = until[-1]
                    kept = f"the end of epoch {epoch}, step {row['step']:,}"
                    job.save_checkpoint(out / "epochs" / f"epoch-{epoch:02d}", kept, until, {})
                case Stopped(step=step):
                    bar.close()
                    sys.exit(f"stopped and saved after step {step:,}: continue with --resume")
        if processes.first and curve[-1]["step"] < job.config.steps:
            bar.write(f"early stopping: no better loss in {job.config.patience} validations")
    return curve


def _finish(job: _Job, curve: list[Row]) -> None:
    """Keep the mean of the last saved weights if it is better; score the result, write its card."""
    out, config, model = job.options.out, job.config, job.model
    kept = checkpoint.read_card(out).training["kept"]
    mean = resume.average_snapshots(job.state)
    loss = math.inf
    if mean is not None:
        model.load_state_dict(mean, strict=True)
        loss = validation_loss(model, job.data.validation, config.batch_tokens, job.device)
    if loss < best(curve)["val_loss"]:
        snapshots = f"{config.average_last} snapshots, {config.snapshot_every} steps apart"
        kept = f"the mean of the last {snapshots}"
    else:
        model.load_state_dict(checkpoint.load(out, job.device).model.state_dict())
    job.save_checkpoint(out, kept, curve, {})
    kept_model = checkpoint.load(out, job.device)
    scores = {
        name: evaluate(kept_model, pairs, DecodeConfig(), job.device)
        for name, pairs in job.data.validation_text.items()
    }
    job.save_checkpoint(out, kept, curve, scores)
    written = checkpoint.read_card(out)
    if written.note:
        raise ValueError(written.note)
    write_atomic(out / "MODEL_CARD.md", card.render(written).encode())
    for name, measured in scores.items():
        table([("corpus", f"{name}, validation split"), *measured.items()])


@contextmanager
def _signals(processes: Processes) -> Generator[Callable[[], bool]]:
    """Record the first SIGTERM or SIGINT; a second one is handled by the previous handlers.

    One Ctrl-C reaches a torchrun process twice, from the terminal and from torchrun. With several
    processes, signals are therefore only recorded; torchrun kills the processes after 30 seconds.
    """
    received: list[int] = []
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def record(number: int, _: Any) -> None:
        received.append(number)
        if processes.size == 1:
            restore()

    for number, handler in previous.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, record)
    try:
        yield lambda: bool(received)
    finally:
        restore()


@contextmanager
def _save_errors() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise OSError(
            f"cannot save: {error}; the last saved state is intact: "
            "free some disk space and continue with --resume"
        ) from None


@contextmanager
def _compile_errors() -> Generator[None]:
    try:
        yield
    except RuntimeError as error:
        if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise ValueError(
                f"torch.compile does not work here ({type(error).__name__}): leave out --compile"
            ) from error
        raise


def _processor() -> str:
    return f"one CPU ({platform.machine()}, {torch.get_num_threads()} thread(s))"
