"""Train a checkpoint by a named recipe.

python -m core.train --recipe dates --out checkpoints/dates-de-en  (a minute, without a corpus)
python -m core.train --recipe tiny --data DIR --out checkpoints/NAME [--direction de-en] [--resume]
torchrun --nproc-per-node N [--max-restarts M] -m core.train …  (data-parallel on N processes)
"""

from core.command import Parser, main, whole_number
from core.training.job import run
from core.training.recipes import RECIPES

_MAX_SEED = 2**32 - 1  # accepted by every random generator in use
_MAX_THREADS = 256  # no processor gains from more, and torch fails to start thousands


def _epoch_numbers(text: str) -> tuple[int, ...]:
    return tuple(map(whole_number(1), text.split(",")))


def _recipes() -> str:
    """Return a table of all recipes: weights, steps and the time that a run took."""
    rows = []
    for recipe in RECIPES.values():
        training = recipe.training
        of = f"{training.batch_sentences or training.batch_tokens:,}"
        of += " pairs" if training.batch_sentences else " tokens"
        steps = f"{training.steps:>7,} steps of {of:<14}"
        rows.append(f"  {recipe.name:<15}{recipe.millions:>5.2f}  {steps}{recipe.took}".rstrip())
    return "\n".join(["recipes: millions of weights, steps, measured time", *rows])


def parser() -> Parser:
    p = Parser(prog="python -m core.train", description=__doc__, epilog=_recipes())
    p.add_argument("--recipe", choices=RECIPES, required=True)
    p.path("--data", "folder of corpora; without it they are downloaded")
    p.path("--src", "your own training text, in place of the corpora")
    p.path("--ref", "its translation, line for line")
    p.path("--val-src", "your own validation text")
    p.path("--val-ref", "its translation, line for line")
    p.path("--out", "the checkpoint's folder", required=True)
    p.add_argument("--model", choices=("scratch", "baseline"), default="scratch")
    p.add_argument("--direction", choices=("de-en", "en-de"), default="de-en")
    p.add_argument("--seed", type=whole_number(0, _MAX_SEED), default=1)
    p.number("--max-steps", "number of steps; default: the recipe's", 1)
    p.number(
        "--threads",
        "torch threads; two parallel runs with one thread each finish sooner than two "
        "consecutive runs with two threads each",
        1,
        _MAX_THREADS,
    )
    p.flag("--resume", "continue from the last saved state")
    p.number("--save-every", "save the state every N steps", 1)
    p.add_argument(
        "--keep-epochs",
        type=_epoch_numbers,
        help="epochs to keep as checkpoints in OUT/epochs, such as 1,2,5",
        metavar="N,N",
    )
    p.flag("--compile", "use torch.compile; mainly for GPUs")
    p.add_argument("--device", default="auto")
    return p


if __name__ == "__main__":
    main(parser(), run)
