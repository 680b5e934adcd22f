"""What a family says about a network (names, configuration, ids), and how weights are filled in."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from core.checkpoint.configuration import MAX_PARAMETERS
from core.checkpoint.header import check_range
from core.config import ModelConfig
from core.files import printable
from core.foreign.sources import shown
from core.foreign.weights import MissingError, Weights
from core.model.build import WithoutInitialising
from core.model.interface import Projections
from core.model.positions import sinusoids
from core.model.shapes import count_parameters, weight_shapes
from core.model.transformer import Transformer
from core.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

ABSENT = -1
"""In `Vocabulary.rows`: an id that the original lacks. Its embedding and probability are 0."""

NEVER = -10_000.0
"""Classifier bias of an absent row: its probability is exactly 0 in float64."""

POSITION_LIMIT = 1e-4
"""Largest accepted error of a stored position table; rounding to float32 alone causes 3e-5."""

_BLOCK = 8_192  # rows of a table
_MAX_POSITIONS = 1 << 16  # rows of a stored position table


@dataclass(frozen=True)
class Options:
    """What the user says about a network, because no file holds it."""

    languages: tuple[str, str]
    heads: int | None = None
    words: tuple[Path, ...] = ()  # word lists, source and target
    words_from: tuple[Path, ...] = ()  # training text, source and target
    first: str | None = None  # a token in front of each source, such as >>fra<<
    codes: tuple[str | None, str | None] = (None, None)  # languages' codes, such as deu_Latn
    any_codes: bool = False  # if the codes above are missing and not obvious, any will do
    prefix: str | None = None  # a text in front of each source, such as "translate German to ..."


@dataclass(frozen=True)
class Vocabulary:
    """One side's tokenizer, and `rows`: the original's id for each of our ids, or ABSENT.

    `original` encodes a text with the original's tokenizer; it is None if that cannot run here.
    `notes` say where our tokenizer differs from the original's.
    """

    tokenizer: Tokenizer
    rows: np.ndarray
    original: Callable[[str], tuple[int, ...]] | None = None
    notes: tuple[str, ...] = ()

    @property
    def start(self) -> int:
        """The id with which the original begins a target."""
        return int(self.rows[BOS])

    @property
    def pad(self) -> int:
        """The id with which the original pads."""
        return self.start if self.rows[PAD] == ABSENT else int(self.rows[PAD])

    @property
    def theirs_to_ours(self) -> dict[int, int]:
        """Our id for each of the original's ids."""
        return {int(theirs): ours for ours, theirs in enumerate(self.rows) if theirs != ABSENT}


def attention(ours: str, theirs: str, *names: str) -> dict[str, str]:
    """Return the original's names of an attention's projections: q, k, v and output."""
    parts = zip(Projections._fields, names, strict=True)
    return {f"{ours}.{part}": f"{theirs}.{name}" for part, name in parts}


@dataclass(frozen=True)
class Names:
    """The original's names for the parts of our network.

    `layer` is a format string for a layer's name; `parts` are relative to it, `outside` are
    complete names. A part may be followed by `[i]`: the i-th third of a matrix that packs q, k and
    v. `encoder_parts` are parts that have another name in the encoder; `norm_leaves` are the
    original's names of a norm's weight and bias.
    """

    layer: str
    parts: dict[str, str]
    outside: dict[str, str]
    norm_leaves: dict[str, str] = field(default_factory=dict)
    encoder_parts: dict[str, str] = field(default_factory=dict)

    def theirs(self, ours: str) -> tuple[str, int | None]:
        """Return the original's name of one of our parameters, and which third if it is packed."""
        part, _, leaf = ours.rpartition(".")
        if part in self.outside:
            name = self.outside[part]
        else:
            side, layer, part = part.split(".", 2)
            parts = self.parts | (self.encoder_parts if side == "encoder" else {})
            name = f"{self.layer.format(side=side, layer=layer)}.{parts[part]}"
        if "norm" in part:
            leaf = self.norm_leaves.get(leaf, leaf)
        if name.endswith("]"):
            return f"{name[:-3]}_{leaf}", int(name[-2])
        return f"{name}.{leaf}", None


@dataclass(frozen=True)
class Plan:
    """Everything needed to build a network from its weights.

    `features[i]` is the original's feature that becomes our feature i; None keeps the order.
    `biases` maps one of our parameters to the original's tensor, if that has another name and an
    extra first axis of size 1. `skipped` maps the tensors to leave out to the reasons.
    `position_tables` are the names of position tables, which are compared with the formula and not
    copied; `first_position` is the row of position 0 in them and in learned tables. `zeros` are our
    parameters that the original lacks: biases that it does not have. `notes` say what only a
    comparison with the original can verify, `remarks` what differs from the original.
    """

    config: ModelConfig
    names: Names
    source: Vocabulary
    target: Vocabulary
    features: np.ndarray | None = None
    biases: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    position_tables: tuple[str, ...] = ()
    first_position: int = 0
    zeros: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


class Reader(NamedTuple):
    """Recognises the networks of a family by `signature`, its names of weights, and reads them.

    `read` returns the plan from shapes, settings and vocabularies. Raises ValueError.
    """

    signature: frozenset[str]
    read: Callable[[Weights, Options], Plan]


def signature(names: Names, *, tied: bool = False, **settings: Any) -> frozenset[str]:
    """Return the original's names in a network of one layer, by which a family is recognised."""
    config = ModelConfig(
        source_vocab_size=8,
        target_vocab_size=8,
        num_encoder_layers=1,
        num_decoder_layers=1,
        share_embeddings=tied,
        tie_classifier=tied,
        **settings,
    )
    return frozenset(names.theirs(ours)[0] for ours in weight_shapes("scratch", config))


def special_rows(pad: int, start: int, end: int, unknown: int, size: int) -> np.ndarray:
    """Return the original's id for each of our ids: <pad> <bos> <eos> <unk>, then all others.

    If the original begins targets with <pad>, its row of <pad> becomes our <bos>, and our <pad> is
    ABSENT. This loses nothing, because the search never writes <pad> or <bos>, and our embedding of
    <pad> is 0 anyway. If it begins them with </s>, as BART does, that row is our <bos> as well.
    """
    rows = [0] * 4
    rows[PAD] = ABSENT if start == pad else pad
    rows[BOS], rows[EOS], rows[UNK] = start, end, unknown
    others = [id for id in range(size) if id not in {pad, start, end, unknown}]
    return np.array([*rows, *others])


def check_ids(where: str, ids: dict[str, int], size: int) -> None:
    """Check the special ids `pad`, `start`, `end` and `unknown` of a vocabulary of this size.

    Each needs a row of its own; only `start` may equal `pad`, as in Marian, or `end`, as in BART.
    Raises ValueError.
    """
    for role, id in ids.items():
        if not 0 <= id < size:
            raise ValueError(
                f"{where}: the {role} id {id} is not in the vocabulary of {size:,} (0 to "
                f"{size - 1:,}): get the folder again"
            )
    for first, second in combinations(ids, 2):
        if ids[first] == ids[second] and {first, second} not in (
            {"pad", "start"},
            {"start", "end"},
        ):
            raise ValueError(
                f"{where}: {first} and {second} are both id {ids[first]}, but each needs an id of "
                "its own: such a network cannot be converted"
            )


def count_layers(weights: Weights, prefix: str) -> int:
    """Return how many layers have names that begin with `prefix` and a number.

    Raises ValueError if there are none, or if they are not numbered from 0 without gaps.
    """
    numbers = (re.match(re.escape(prefix) + r"([0-9]{1,4})\.", name) for name in weights.names)
    found = {int(number[1]) for number in numbers if number}
    if not found:
        raise MissingError(f"{shown(weights.source)} lacks {prefix}0")
    if found != set(range(len(found))):
        raise ValueError(
            f"{shown(weights.source)}: the layers called {prefix}… are numbered "
            f"{sorted(found)[:8]}, not from 0 without gaps: save the complete state dict"
        )
    return len(found)


def check_shapes(weights: Weights, plan: Plan) -> None:
    """Check the shapes of all weights and position tables; read and allocate nothing.

    Raises ValueError for a wrong shape and for too many weights, MissingError for a missing tensor.
    """
    where, shapes = shown(weights.source), weight_shapes("scratch", plan.config)
    if (count := count_parameters(shapes)) > MAX_PARAMETERS:
        raise ValueError(
            f"{where} has {count:,} weights, but the limit is {MAX_PARAMETERS:,}: such a network "
            "cannot be converted"
        )
    for name, shape in shapes.items():
        if name in plan.zeros:
            continue
        theirs, _, expected = _original(name, shape, plan)
        weights.expect(theirs, expected)
    for name in filter(weights.__contains__, plan.position_tables):
        *rows, width = weights.shape(name) or (0,)
        if width != plan.config.d_model or not 1 <= math.prod(rows) <= _MAX_POSITIONS:
            raise ValueError(
                f"{where}: {name} is {[*rows, width]}, not a table of up to {_MAX_POSITIONS:,} "
                f"positions, each of {plan.config.d_model} numbers: such a network cannot be "
                "converted"
            )


def fill(weights: Weights, plan: Plan) -> Transformer:
    """Build the network, after `check_shapes`. Raises ValueError for unused and large weights."""
    with WithoutInitialising():
        network = Transformer(plan.config)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name in plan.zeros:
                parameter.zero_()
                _bar(parameter, name, plan)
                continue
            _fill(parameter, name, weights, plan)
            check_finite(parameter, _original(name, tuple(parameter.shape), plan)[0], weights)
    for name, reason in plan.skipped.items():
        if name in weights and reason:
            weights.leave_out(name)
    if unused := weights.unused:
        raise ValueError(
            f"{shown(weights.source)}: {printable(unused[0])[:100]} is not used"
            f"{f' (and {len(unused) - 1} more)' if len(unused) > 1 else ''}: this network has "
            "something that its family lacks, so the conversion would compute something else; "
            "nothing was written"
        )
    return network.eval()


def check_finite(values: Tensor, name: str, weights: Weights) -> None:
    """Raise ValueError, naming the original's tensor, unless all values are within ±65,504."""
    try:
        check_range(name, values)
    except ValueError as error:
        raise ValueError(
            f"{shown(weights.source)}: {error}: its training has diverged, or the file is damaged; "
            "give another checkpoint"
        ) from None


def _original(
    name: str, shape: tuple[int, ...], plan: Plan
) -> tuple[str, int | None, tuple[int, ...]]:
    """Return the original's name of a parameter, which third of it, and the original's shape."""
    vocabulary = _rows_of(name, plan)
    if vocabulary is not None:
        shape = (int(vocabulary.rows.max()) + 1, *shape[1:])
    if name in _LEARNED:
        shape = (shape[0] + plan.first_position, *shape[1:])
    if theirs := plan.biases.get(name):
        return theirs, None, (1, *shape)
    theirs, third = plan.names.theirs(name)
    return theirs, third, shape if third is None else (3 * shape[0], *shape[1:])


def _fill(parameter: Tensor, name: str, weights: Weights, plan: Plan) -> None:
    vocabulary = _rows_of(name, plan)
    theirs, third, shape = _original(name, tuple(parameter.shape), plan)
    value = weights.take(theirs, shape)
    if name in plan.biases:
        value = value[0]
    if third is not None:
        value = value.chunk(3)[third]
    if name in _LEARNED:
        value = value[plan.first_position :]
    if vocabulary is None:
        parameter.copy_(value)
    else:
        rows = torch.from_numpy(vocabulary.rows)
        torch.index_select(value, 0, rows.clamp(min=0), out=parameter.data)
        parameter.data[rows == ABSENT] = 0.0
    del value  # a large network's table takes a gigabyte
    if plan.features is not None:
        _reorder(name, parameter, torch.from_numpy(plan.features))
    if vocabulary is not None and name.endswith("bias"):
        _bar(parameter, name, plan)


def _bar(bias: Tensor, name: str, plan: Plan) -> None:
    """Make the classifier's words that the original lacks impossible, by their biases."""
    vocabulary = _rows_of(name, plan)
    if vocabulary is not None:
        bias.data[torch.from_numpy(vocabulary.rows == ABSENT)] = NEVER
        if vocabulary.start == vocabulary.rows[EOS]:  # the row of <eos>, a second time
            bias.data[BOS] = NEVER


def _rows_of(name: str, plan: Plan) -> Vocabulary | None:
    """Return the vocabulary whose ids index a parameter's rows, or None."""
    if name == "embeddings.source_table.weight":
        return plan.source
    if name.startswith(
        ("embeddings.target_table", "embeddings.classifier", "embeddings.tied_bias")
    ):
        return plan.target
    return None


def _reorder(name: str, parameter: Tensor, features: Tensor) -> None:
    """Reorder, in place, every axis of a parameter that runs over the residual stream's features.

    At most `_BLOCK` rows are copied at a time.
    """
    if "norm" in name or ".output." in name or ".outer." in name:
        parameter.copy_(parameter[features])  # it writes to the stream, or is a norm
    elif not name.endswith("bias"):  # it reads the stream, or is a table
        for block in parameter.split(_BLOCK):
            block.copy_(block[:, features])


_LEARNED = tuple(f"embeddings.{side}_positions.weight" for side in ("source", "target"))
_TABLES = {"paper": "Vaswani et al. 2017", "fairseq": "fairseq"}


def check_positions(weights: Weights, plan: Plan) -> np.ndarray | None:
    """Return the file's position table in float64, with features in our order, or None.

    At most `max_length` rows are read. Raises ValueError if one differs from the paper's formula.
    """
    found, config = None, plan.config
    for name in filter(weights.__contains__, plan.position_tables):
        first, width = plan.first_position, config.d_model
        rows = min(config.max_length + first, math.prod(weights.shape(name)) // width)
        table = weights.start_of(name, rows * width).view(rows, -1)[first:].double().numpy()
        found = table if plan.features is None else table[:, plan.features]
        difference_P = np.abs(found - position_formula(config)[: len(found)]).max(axis=1)
        wrong_P = ~(difference_P <= POSITION_LIMIT)  # also if it is NaN
        if wrong_P.any():
            first = int(wrong_P.argmax())
            raise ValueError(
                f"{shown(weights.source)}: {name} is not the table of sines and cosines of "
                f"{_TABLES[config.position_table]} (position {first} differs by "
                f"{difference_P[first]:.2g}): such a network cannot be converted"
            )
    return found


def position_formula(config: ModelConfig) -> np.ndarray:
    """Return the network's fixed table, float64 [position, feature]."""
    return sinusoids(config.max_length, config.d_model, config.position_table).numpy()
