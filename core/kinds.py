"""The three kinds of attention of an encoder-decoder, in the order of a pass."""

from typing import Literal

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
