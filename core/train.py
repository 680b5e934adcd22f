"""Train a checkpoint by a named recipe.

python -m core.train --recipe tiny --data DIR --out checkpoints/NAME [--direction de-en] [--resume]
"""

import argparse
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from core import checkpoint
from core.batches import encode_pairs
from core.command import main, table
from core.config import DecodeConfig, ModelConfig
from core.corpora import read_pairs
from core.device import pick_device
from core.evaluate import evaluate
from core.files import write_atomic, write_json
from core.model.interface import build
from core.training import card, resume
from core.training.loop import Stepped, Validated, train, validation_loss
from core.training.recipes import RECIPES


def run(arguments: argparse.Namespace) -> None:
    """Read, train, keep the better of best and averaged weights, score on val, write the card."""
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    device, out = pick_device(arguments.device), arguments.out
    if not arguments.resume and (out / "config.json").exists():
        raise ValueError(
            f"{out} already holds a checkpoint: delete it, choose another, or --resume"
        )
    recipe = RECIPES[arguments.recipe]
    config = replace(recipe.training, seed=arguments.seed)
    if arguments.max_steps:
        config = replace(config, steps=arguments.max_steps)
    languages = tuple(arguments.direction.split("-"))
    text, val_text = (
        read_pairs(recipe.corpus, split, *languages, data=arguments.data)
        for split in ("train", "val")
    )
    tokenizers = recipe.vocabulary.learn(text, languages)
    pairs, val_pairs = (encode_pairs(t, *tokenizers) for t in (text, val_text))
    pairs = [pair for pair in pairs if max(map(len, pair)) <= config.max_pair_tokens]

    torch.manual_seed(config.seed)
    network = ModelConfig(
        source_vocab_size=tokenizers[0].size,
        target_vocab_size=tokenizers[1].size,
        **recipe.network,
    )
    model = build(arguments.model, network).to(device)

    def keep(kept: str, curve: list[dict[str, float]], final: dict[str, Any]) -> None:
        training = {
            "recipe": recipe.name,
            "source": recipe.source,
            "corpus": recipe.corpus,
            "config": config.to_json(),
            "machine": torch.cuda.get_device_name() if device == "cuda" else _processor(),
            "torch": torch.__version__,
            "hours": round(curve[-1]["seconds"] / 3600, 3),
            "kept": kept,
        }
        checkpoint.save(
            out,
            model,
            arguments.model,
            languages,
            tokenizers,
            training,
            {"curve": curve, "final": final},
        )

    state = out / "resume"
    best_loss, curve = _watch(
        train(model, pairs, val_pairs, config, state, device, arguments.resume),
        config.steps,
        keep,
        out / "metrics.json",
    )

    kept = checkpoint.read_card(out).training["kept"]
    model.load_state_dict(resume.average_snapshots(state), strict=True)
    loss = validation_loss(model, val_pairs, config.batch_tokens, device)
    if loss < best_loss:
        apart = f"{config.snapshot_every} steps apart"
        kept = f"the mean of the last {config.average_last} snapshots, {apart}"
    else:
        model.load_state_dict(checkpoint.load(out, device).model.state_dict())
    keep(kept, curve, {"val_loss": round(min(loss, best_loss), 5)})
    scores = evaluate(checkpoint.load(out, device), val_text, DecodeConfig(), device)
    keep(kept, curve, scores)
    write_atomic(out / "MODEL_CARD.md", card.render(checkpoint.read_card(out)).encode())
    table(scores.items())


def _watch(events, steps: int, keep, metrics_file: Path) -> tuple[float, list[dict[str, float]]]:
    """Show progress, keep the best weights as they come; returns the best loss and the curve."""
    from tqdm import tqdm

    best_loss, curve = float("inf"), []
    with tqdm(total=steps, unit="step", mininterval=1) as bar:
        for event in events:
            match event:
                case Stepped(step=step, loss=loss, tokens_per_second=speed):
                    bar.update(step - bar.n)
                    bar.set_postfix_str(f"loss {loss:.3f}, {speed:,.0f} tokens/s", refresh=False)
                case Validated(curve=curve, best_loss=best_loss):
                    row = curve[-1]
                    bar.write("  ".join(f"{name} {value:g}" for name, value in row.items()))
                    if row["val_loss"] == best_loss:
                        keep(
                            f"the best validation, step {row['step']:,}",
                            curve,
                            {"val_loss": best_loss},
                        )
                    else:
                        write_json(metrics_file, {"curve": curve, "final": {}})
    return best_loss, curve


def _processor() -> str:
    return f"one CPU ({platform.machine()}, {torch.get_num_threads()} thread(s))"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m core.train", description=__doc__)
    p.add_argument("--recipe", choices=RECIPES, required=True)
    p.add_argument("--data", type=Path, help="folder of corpora; fetched if left out")
    p.add_argument("--out", type=Path, required=True, help="the checkpoint's folder")
    p.add_argument("--model", choices=("scratch", "baseline"), default="scratch")
    p.add_argument("--direction", choices=("de-en", "en-de"), default="de-en")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--max-steps", type=int, help="stop earlier than the recipe says")
    p.add_argument("--threads", type=int, help="torch threads; two runs of one beat one of two")
    p.add_argument("--resume", action="store_true", help="go on where the last run stopped")
    p.add_argument("--device", default="auto")
    return p


if __name__ == "__main__":
    main(parser(), run)
