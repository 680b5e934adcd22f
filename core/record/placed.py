"""What all edits at a place of the network share: the error, the limits of indices, the checks."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from core.kinds import KINDS, SIDES, Kind

MAX_FACTOR = 1e6
DECIMAL = r"\d{1,7}(?:\.\d{1,30})?"  # in a regular expression
MAX_ID = 9_999_999  # of a token; `Edits.fitting` checks the model's own limits
_MAX_INDEX = 9_999  # of a layer, head or position
_INDICES = ("layer", "head", "query", "key", "position", "donor_position", "donor_query", "seed")


class EditError(ValueError):
    """Raised for an edit that a model or sentence does not allow; the message is one line."""


class Placed:
    """An edit at a place: kind or side, indices, then what happens there."""

    _may_be_all = False  # whether an index may be None
    _choices: tuple[str, ...] = KINDS

    def __post_init__(self) -> None:
        name, kind = next(iter(vars(self).items()))
        if kind not in self._choices:
            raise EditError(f"unknown {name} {str(kind)[:20]!r}: choose {', '.join(self._choices)}")
        for name in _INDICES:
            index = vars(self).get(name, 0)
            is_all = index is None and self._may_be_all
            if not is_all and (type(index) is not int or not 0 <= index <= _MAX_INDEX):
                raise EditError(
                    f"{name.replace('_', ' ')} {str(index)[:20]} is out of range: choose 0 to "
                    f"{_MAX_INDEX:,}"
                )

    @property
    def where(self) -> tuple:
        """All fields but the last: edits of one class that agree in these conflict."""
        return tuple(vars(self).values())[:-1]

    @property
    def is_neutral(self) -> bool:
        """Whether the edit changes nothing."""
        return False


class PlacedState(Placed):
    """An edit of a state of one side, or of several."""

    _choices = SIDES


@dataclass(frozen=True)
class Limits:
    """The limits of a model and, with `source_length` (tokens with <eos>), of a sentence.

    The vocabularies' sizes may be unknown, as those of a record. Without `decoder_heads`, both
    sides have `num_heads`.
    """

    encoder_layers: int
    decoder_layers: int
    num_heads: int
    max_length: int
    source_length: int | None = None
    source_vocab: int | None = None
    target_vocab: int | None = None
    decoder_heads: int | None = None

    def heads(self, kind: Kind) -> int:
        """Return the number of heads of each attention of this kind."""
        return self.num_heads if kind == "encoder" else self.decoder_heads or self.num_heads

    def layers(self, kind: Kind) -> int:
        """Return the number of layers with attention of this kind."""
        return self.encoder_layers if kind == "encoder" else self.decoder_layers


def name_of(kind: str, layer: int | None, head: int | None) -> str:
    layers, heads = ("all" if i is None else str(i) for i in (layer, head))
    return f"{kind} layer {layers}, head {heads}"


def number(value: float) -> str:
    """Format without an exponent, whose sign would read as a separator."""
    digits = f"{Decimal(repr(value)):f}"
    return digits.removesuffix(".0")


def head_problem(kind: Kind, layer: int | None, head: int | None, limits: Limits) -> str | None:
    layers, heads = limits.layers(kind), limits.heads(kind)
    if (layer or 0) < layers and (head or 0) < heads:
        return None
    return f"counted from 0, the layers end at {layers - 1} and the heads at {heads - 1}"


def position_problem(kind: Kind, name: str, position: int | None, limits: Limits) -> str | None:
    """Return why a position does not exist, or None if it does.

    Encoder queries and the keys of encoder and cross-attention are source positions; all others are
    target positions.
    """
    of_source = kind == "encoder" or (kind == "cross" and name == "key")
    length = limits.source_length if of_source else limits.max_length
    if position is None or length is None or position < length:
        return None
    side = "source" if of_source else "target"
    last = f"the {side} ends at {length - 1}, counted from 0"
    return f"{name} {position} of {kind} does not exist: {last}"
