"""The three kinds of attention in an encoder-decoder, in order of execution, and its two sides."""

from typing import Literal

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
Side = Literal["encoder", "decoder"]
SIDES: tuple[Side, ...] = ("encoder", "decoder")


def side_of(kind: Kind) -> Side:
    """Return the side whose tokens are the queries of this kind."""
    return "encoder" if kind == "encoder" else "decoder"


def map_sizes(source: int, target: int) -> dict[Kind, tuple[int, int]]:
    """Return each kind's numbers of queries and keys for sides of `source` and `target` tokens."""
    return {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
