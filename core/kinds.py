"""The three kinds of attention in an encoder-decoder, in order of execution."""

from typing import Literal

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
