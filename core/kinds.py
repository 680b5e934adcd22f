"""The three kinds of attention in an encoder-decoder, in order of execution, and its two sides."""

from typing import Literal

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
Side = Literal["encoder", "decoder"]


def map_sizes(source: int, target: int) -> dict[Kind, tuple[int, int]]:
    """Return the numbers of queries and keys of each kind's maps, given the tokens of each side."""
    return {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
