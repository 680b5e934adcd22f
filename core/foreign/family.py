"""What a family says about a network (names, configuration, ids), and how weights are filled in."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from core.checkpoint.header import check_range
from core.config import ModelConfig
from core.files import printable
from core.foreign.weights import Weights
from core.model.positions import sinusoids
from core.model.transformer import Transformer
from core.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

ABSENT = -1
"""In `Vocabulary.rows`: an id that the original lacks. Its embedding and probability are 0."""

NEVER = -10_000.0
"""Classifier bias of an absent row: its probability is exactly 0 in float64."""

POSITION_LIMIT = 1e-4
"""Largest accepted error of a stored position table; rounding to float32 alone causes 3e-5."""


@dataclass(frozen=True)
class Options:
    """What the user says about a network, because no file holds it."""

    languages: tuple[str, str]
    heads: int | None = None
    words: tuple[Path, ...] = ()  # word lists, source and target
    words_from: tuple[Path, ...] = ()  # training text, source and target
    first: str | None = None  # a token in front of each source, such as >>fra<<


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
    copied. `notes` say what could not be verified.
    """

    config: ModelConfig
    names: Names
    source: Vocabulary
    target: Vocabulary
    features: np.ndarray | None = None
    biases: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    position_tables: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


Read = Callable[[Weights, Options], Plan]
"""A family's function, which reads shapes, settings and vocabularies. Raises ValueError."""


def special_rows(pad: int, start: int, end: int, unknown: int, size: int) -> np.ndarray:
    """Return the original's id for each of our ids: <pad> <bos> <eos> <unk>, then all others.

    If the original begins targets with <pad>, its row of <pad> becomes our <bos>, and our <pad> is
    ABSENT. This loses nothing, because the search never writes <pad> or <bos>, and our embedding of
    <pad> is 0 anyway.
    """
    rows = [0] * 4
    rows[PAD] = ABSENT if start == pad else pad
    rows[BOS], rows[EOS], rows[UNK] = start, end, unknown
    others = [id for id in range(size) if id not in {pad, start, end, unknown}]
    return np.array([*rows, *others])


def count_layers(weights: Weights, prefix: str) -> int:
    """Return how many layers have names that begin with `prefix` and a number.

    Raises ValueError if there are none, or if they are not numbered from 0 without gaps.
    """
    found = {
        int(index)
        for name in weights.names
        if name.startswith(prefix) and (index := name[len(prefix) :].partition(".")[0]).isdigit()
    }
    if found != set(range(len(found))) or not found:
        raise ValueError(
            f"{printable(str(weights.source))}: the layers called {prefix}… are numbered "
            f"{sorted(found)[:8]}, not from 0 without gaps: save the complete state dict"
        )
    return len(found)


def fill(weights: Weights, plan: Plan) -> Transformer:
    """Build the network. Raises ValueError for a tensor missing, misshaped, unused or too large."""
    network = Transformer(plan.config)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            _fill(parameter, name, weights, plan)
            check_range(name, parameter)
    for name, reason in plan.skipped.items():
        if name in weights and reason:
            weights.leave_out(name)
    if unused := weights.unused:
        raise ValueError(
            f"{printable(str(weights.source))}: {printable(unused[0])[:100]} is not used"
            f"{f' (and {len(unused) - 1} more)' if len(unused) > 1 else ''}: this network has "
            "something that its family lacks, so the conversion would compute something else; "
            "nothing was written"
        )
    return network.eval()


def _fill(parameter: Tensor, name: str, weights: Weights, plan: Plan) -> None:
    vocabulary = _rows_of(name, plan)
    shape = list(parameter.shape)
    if vocabulary is not None:
        shape[0] = int(vocabulary.rows.max()) + 1
    if theirs := plan.biases.get(name):
        value = weights.take(theirs, [1, *shape])[0]
    else:
        theirs, third = plan.names.theirs(name)
        if third is not None:
            shape[0] *= 3
        value = weights.take(theirs, shape)
        if third is not None:
            value = value.chunk(3)[third]
    if plan.features is not None:
        value = _reordered(name, value, torch.from_numpy(plan.features))
    if vocabulary is not None:
        _copy_rows(parameter, value, vocabulary, name.endswith("bias"))
    else:
        parameter.copy_(value)


def _copy_rows(parameter: Tensor, value: Tensor, vocabulary: Vocabulary, bias: bool) -> None:
    rows = torch.from_numpy(vocabulary.rows)
    absent = rows == ABSENT
    torch.index_select(value, 0, rows.clamp(min=0), out=parameter.data)
    parameter.data[absent] = NEVER if bias else 0.0


def _rows_of(name: str, plan: Plan) -> Vocabulary | None:
    """Return the vocabulary whose ids index a parameter's rows, or None."""
    if name == "embeddings.source_table.weight":
        return plan.source
    if name.startswith(
        ("embeddings.target_table", "embeddings.classifier", "embeddings.tied_bias")
    ):
        return plan.target
    return None


def _reordered(name: str, value: Tensor, features: Tensor) -> Tensor:
    """Reorder every axis of a parameter that runs over the features of the residual stream."""
    if "norm" in name or ".output." in name or ".outer." in name:
        return value[features]  # it writes to the stream, or is a norm
    if name.endswith(".bias") or name.endswith("tied_bias"):
        return value
    return value[:, features]  # it reads the stream, or is a table


def check_positions(weights: Weights, plan: Plan) -> np.ndarray | None:
    """Return the file's position table in float64, with features in our order, or None.

    Raises ValueError if a table has another width or does not follow the paper's formula.
    """
    found = None
    for name in plan.position_tables:
        if name not in weights:
            continue
        table = weights.take(name)
        table = table.reshape(-1, table.shape[-1])[: plan.config.max_length].double().numpy()
        if table.shape[1] != plan.config.d_model:
            raise ValueError(f"{printable(str(weights.source))}: {name} is not d_model wide")
        found = table if plan.features is None else table[:, plan.features]
        difference_P = np.abs(found - position_formula(plan.config)[: len(found)]).max(axis=1)
        if difference_P.max() > POSITION_LIMIT:
            raise ValueError(
                f"{printable(str(weights.source))}: {name} is not the table of sines and cosines "
                f"of Vaswani et al. 2017 (position {int(difference_P.argmax())} differs by "
                f"{difference_P.max():.2g}): such a network cannot be converted"
            )
    return found


def position_formula(config: ModelConfig) -> np.ndarray:
    """Return the paper's table, float64 [position, feature]."""
    return sinusoids(config.max_length, config.d_model).numpy()
