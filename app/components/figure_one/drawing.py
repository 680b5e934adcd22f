"""Lays out figure 1 of the paper (Vaswani et al. 2017) for a network's configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from core.config import ModelConfig
from core.kinds import KINDS

WIDTH = 356
_BLOCK = 112  # width of a block
_COLUMNS = {"encoder": 92, "decoder": 264}  # centre of each stack
_FRAME = 22  # from a block to the frame of its stack: room for the residual connection
_TWO_LINES, _ONE_LINE, _THIN = 31, 21, 16  # heights of blocks
_FORK = 14  # height of the arrows for queries, keys and values
_STEP = 8  # length of a plain arrow
_SPLIT = 5  # above a block: where the residual connection begins

Point = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, top, width and height. In `_Stack`, y points up, so the second number is the bottom."""
Href = Callable[[str], str | None]
"""Returns a block's link, or None for a block without one."""


def names(config: ModelConfig) -> dict[str, str]:
    """Return a description of each block for this network, by the block's id."""
    heads = {kind: f"{n} head{'s' * (n > 1)}" for kind in KINDS if (n := config.heads(kind))}
    norm = "before each attention and each feed-forward layer"
    if not config.norm_first:
        norm = "after each attention and each feed-forward layer"
    encoder, decoder = (
        f"in each of {count} layers" if count > 1 else "in its one layer"
        for count in (config.num_encoder_layers, config.num_decoder_layers)
    )
    positions = "a learned table" if config.learned_positions else "sines and cosines"
    size = f"{config.d_model:,} numbers"
    first = "after the embeddings, " * config.embedding_norm
    final = " and after the last layer of each stack" if config.final_norm else ""
    return {
        "inputs": "Inputs: the tokens of the source sentence",
        "source_embedding": f"Input embedding: {size} for each source token",
        "source_positions": f"Positional encoding of the source: {positions}",
        "encoder": f"Encoder self-attention, {heads['encoder']} {encoder}: source tokens look at "
        "each other",
        "norm": f"Add & norm: a layer's input is added to its output; norms {first}{norm}{final}",
        "feed": f"Feed-forward layers: {config.dim_feedforward:,} hidden numbers for each token",
        "outputs": "Outputs, shifted right: the tokens written so far, after <bos>",
        "target_embedding": f"Output embedding: {size} for each token written so far",
        "target_positions": f"Positional encoding of the target: {positions}",
        "decoder": f"Masked decoder self-attention, {heads['decoder']} {decoder}: tokens written "
        "so far look at each other, never ahead",
        "cross": f"Cross-attention, {heads['cross']} {decoder}: tokens being written look at the "
        "source",
        "linear": f"Linear: a logit for each of {config.target_vocab_size:,} tokens",
        "softmax": "Softmax: the probabilities of the next token",
    }


def draw(
    config: ModelConfig, href: Href, current: Iterable[str] = (), in_view: str = ""
) -> dict[str, Any]:
    """Lay out a network's figure in the form that the component's JavaScript reads.

    `blocks` have lines of text in a box, a link from `href`, and a description for tooltips and
    screen readers; of a block that is not boxed, only the text is drawn. Arrows and lines are
    polylines, `sums` the places of plus signs. `current` has the ids of the highlighted blocks. The
    caption is `in_view` or, if that is "", the description of the first highlighted block.

    With `norm_first`, each norm is drawn below its sub-layer, as computed; otherwise above it, as
    in the paper. `final_norm` adds a norm above each stack, `embedding_norm` one above
    the embeddings. Without a table of positions, nothing is added to the embeddings.
    """
    encoder, decoder = (_Stack(config, x) for x in _COLUMNS.values())
    encoder.inputs("inputs", "source", ("Inputs",), "Input")
    decoder.inputs("outputs", "target", ("Outputs", "(shifted right)"), "Output")
    encoder.sublayer("encoder", ("Multi-head", "attention"), _self_attention)
    encoder.sublayer("feed", ("Feed forward",))
    decoder.sublayer("decoder", ("Masked multi-head", "attention"), _self_attention)
    decoder.sublayer("cross", ("Multi-head", "attention"), _cross_attention)
    decoder.sublayer("feed", ("Feed forward",))
    encoder.end(config.num_encoder_layers)
    decoder.end(config.num_decoder_layers)
    decoder.block("linear", ("Linear",), _ONE_LINE)
    decoder.block("softmax", ("Softmax",), _ONE_LINE)
    decoder.block("softmax", ("Output probabilities",), 15, boxed=False)
    memory, middle = encoder.y + _SPLIT, (encoder.x + decoder.x) / 2
    encoder.lines.append(
        ((encoder.x, encoder.y), (encoder.x, memory), (middle, memory), (middle, decoder.cross_y))
    )
    for x in (decoder.x - _BLOCK / 4, decoder.x):
        end = decoder.cross_y + _FORK / 2 - 1
        decoder.arrows.append(((middle, decoder.cross_y), (x, decoder.cross_y), (x, end)))
    height, about = decoder.y + 2, names(config)

    def flipped(box: Box) -> Box:
        left, bottom, width, tall = box
        return left, height - bottom - tall, width, tall

    def downwards(lines: Iterable[tuple[Point, ...]]) -> tuple[tuple[Point, ...], ...]:
        return tuple(tuple((x, height - y) for x, y in line) for line in lines)

    stacks = (encoder, decoder)
    return {
        "width": WIDTH,
        "height": height,
        "title": f"Figure 1 of Vaswani et al. 2017 for this network: {config.num_encoder_layers} "
        f"encoder and {config.num_decoder_layers} decoder layers, {config.heads_label} "
        f"head{'s' * (config.heads_label != '1')} per attention",
        "current": list(current),
        "inView": in_view,
        "blocks": [
            {"id": id, "lines": text, "box": flipped(box), "about": about[id], "href": href(id),
             "boxed": boxed}
            for stack in stacks
            for id, text, box, boxed in stack.blocks
        ],
        "arrows": downwards(encoder.arrows + decoder.arrows),
        "lines": downwards(encoder.lines + decoder.lines),
        "frames": [{"label": label, "box": flipped(box)}
                   for stack in stacks for label, box in stack.frames],
        "sums": [(x, height - y) for stack in stacks for x, y in stack.sums],
    }  # fmt: skip


@dataclass
class _Stack:
    """One column, drawn from the bottom up; `y` is the top of what has been drawn so far."""

    config: ModelConfig
    x: float
    y: float = 0.0
    blocks: list[tuple[str, tuple[str, ...], Box, bool]] = field(default_factory=list)
    arrows: list[tuple[Point, ...]] = field(default_factory=list)
    lines: list[tuple[Point, ...]] = field(default_factory=list)
    frames: list[tuple[str, Box]] = field(default_factory=list)
    sums: list[Point] = field(default_factory=list)
    bottom: float = 0.0
    cross_y: float = 0.0

    @property
    def side(self) -> int:
        """The side of residual connections and positions: −1 for left, 1 for right."""
        return -1 if self.x < WIDTH / 2 else 1

    def box(self, id: str, text: tuple[str, ...], height: float, boxed: bool = True) -> None:
        self.blocks.append((id, text, (self.x - _BLOCK / 2, self.y, _BLOCK, height), boxed))
        self.y += height

    def block(
        self, id: str, text: tuple[str, ...], height: float, boxed: bool = True, gap: float = _STEP
    ) -> None:
        """Add a box above an arrow."""
        self.arrows.append(((self.x, self.y), (self.x, self.y + gap)))
        self.y += gap
        self.box(id, text, height, boxed)

    def inputs(self, id: str, side: str, text: tuple[str, ...], word: str) -> None:
        self.box(id, text + ("",) * (2 - len(text)), 26, boxed=False)
        self.block(f"{side}_embedding", (f"{word} embedding",), _ONE_LINE)
        if self.config.position_table == "none":
            self.bottom = self.y + 2 * _STEP
            return
        at = self.y + 20
        self.arrows.append(((self.x, self.y), (self.x, at - 7)))
        self.sums.append((self.x, at))
        near, far = (self.x + self.side * n for n in (18, _BLOCK / 2 + _FRAME + 12))
        place = min(near, far), at - 15, abs(far - near), 30
        self.blocks.append((f"{side}_positions", ("Positional", "encoding"), place, True))
        self.arrows.append(((near, at), (self.x + self.side * 7, at)))
        self.y = at + 7
        self.bottom = at + 20  # of the frame
        if self.config.embedding_norm:
            self.block("norm", ("Norm",), _THIN)
            self.bottom = self.y + 13

    def sublayer(
        self, id: str, text: tuple[str, ...], fork: Callable[[_Stack], None] | None = None
    ) -> None:
        """Add an attention or feed-forward layer, its residual connection and its norm."""
        split = max(self.y, self.bottom) + _SPLIT
        if self.config.norm_first:
            self.block("norm", ("Norm",), _THIN, gap=split + _STEP - 2 - self.y)
        elif self.y < split:
            self.lines.append(((self.x, self.y), (self.x, split)))
            self.y = split
        if fork:
            fork(self)
            self.y += _FORK
            self.box(id, text, _TWO_LINES)
        else:
            self.block(id, text, _ONE_LINE)
        self.block("norm", ("Add",) if self.config.norm_first else ("Add & norm",), _THIN)
        edge, outer = (self.x + self.side * (_BLOCK / 2 + n) for n in (0, _FRAME / 2))
        middle = self.y - _THIN / 2
        self.arrows.append(((self.x, split), (outer, split), (outer, middle), (edge, middle)))

    def end(self, layers: int) -> None:
        """Frame the stack; above the frame, add the final norm or, without one, a line."""
        top, width = self.y + 6, _BLOCK + 2 * _FRAME
        self.frames.append(
            (f"{layers}×", (self.x - width / 2, self.bottom, width, top - self.bottom))
        )
        if self.config.final_norm:
            self.block("norm", ("Norm",), _THIN, gap=6 + _STEP)
        else:
            self.lines.append(((self.x, self.y), (self.x, top)))
            self.y = top


def _self_attention(stack: _Stack) -> None:
    """Draw the arrows of queries, keys and values, all from below."""
    fork = stack.y + _FORK / 2
    stack.lines.append(((stack.x, stack.y), (stack.x, fork)))
    for x in (stack.x - _BLOCK / 4, stack.x, stack.x + _BLOCK / 4):
        stack.arrows.append(((stack.x, fork), (x, fork), (x, stack.y + _FORK)))


def _cross_attention(stack: _Stack) -> None:
    """Draw the arrow of the queries; keys and values come from the encoder, at `cross_y`."""
    stack.cross_y = stack.y + _FORK / 2 + 1
    x, low = stack.x + _BLOCK / 4, stack.y + 3
    stack.arrows.append(((stack.x, stack.y), (stack.x, low), (x, low), (x, stack.y + _FORK)))
