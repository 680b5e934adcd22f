"""Train a checkpoint by a named recipe.

python -m core.train --recipe tiny --data DIR --out checkpoints/NAME [--direction de-en] [--resume]
torchrun --nproc-per-node N [--max-restarts M] -m core.train …  the same run on N processes
"""

import argparse
from pathlib import Path

from core.command import Parser, main, whole_number
from core.training import job
from core.training.recipes import RECIPES


def run(arguments: argparse.Namespace) -> None:
    """Do the run that is asked for."""
    job.run(job.Options(**vars(arguments)))


_LARGEST_SEED = 2**32 - 1  # a seed of every generator that is drawn from
_MOST_THREADS = 256  # more than any processor gains from; beyond some thousands none start


def _epoch_numbers(text: str) -> tuple[int, ...]:
    return tuple(map(whole_number(1), text.split(",")))


def parser() -> Parser:
    """The command line."""
    p = Parser(prog="python -m core.train", description=__doc__)
    p.add_argument("--recipe", choices=RECIPES, required=True)
    p.add_argument("--data", type=Path, help="folder of corpora; fetched if left out")
    p.add_argument("--src", type=Path, help="own training text in place of the recipe's corpora")
    p.add_argument("--ref", type=Path, help="its translation, line for line")
    p.add_argument("--val-src", type=Path, help="own validation text")
    p.add_argument("--val-ref", type=Path, help="its translation, line for line")
    p.add_argument("--out", type=Path, required=True, help="the checkpoint's folder")
    p.add_argument("--model", choices=("scratch", "baseline"), default="scratch")
    p.add_argument("--direction", choices=("de-en", "en-de"), default="de-en")
    p.add_argument("--seed", type=whole_number(0, _LARGEST_SEED), default=1)
    p.add_argument(
        "--max-steps", type=whole_number(1), help="stop earlier than the recipe says", metavar="N"
    )
    p.add_argument(
        "--threads",
        type=whole_number(1, _MOST_THREADS),
        help="torch threads; two runs of one beat one of two",
        metavar="N",
    )
    p.add_argument("--resume", action="store_true", help="go on where the last run stopped")
    p.add_argument(
        "--save-every", type=whole_number(1), help="steps between saved states", metavar="N"
    )
    p.add_argument(
        "--keep-epochs",
        type=_epoch_numbers,
        help="epochs kept in OUT/epochs, such as 1,2,5",
        metavar="N,N",
    )
    p.add_argument("--compile", action="store_true", help="torch.compile; try it on a GPU")
    p.add_argument("--device", default="auto")
    return p


if __name__ == "__main__":
    main(parser(), run)
