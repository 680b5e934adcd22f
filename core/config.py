"""The frozen settings of a model, a training run and a search, and their JSON forms."""

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Any, Literal, Self


@dataclass(frozen=True)
class _Json:
    """Dataclass to and from a plain JSON object; unknown or missing keys are refused by name."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Rebuild from a JSON object. Raises ValueError naming unknown or missing keys."""
        fields = {f.name: f for f in dataclasses.fields(cls)}
        unknown = sorted(set(values) - set(fields))
        missing = sorted(
            name
            for name, f in fields.items()
            if name not in values and f.default is dataclasses.MISSING
        )
        if unknown or missing:
            raise ValueError(f"{cls.__name__}: unknown keys {unknown}, missing keys {missing}")
        return cls(**values)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)  # True is an int to Python


def _is_finite(value: Any) -> bool:
    return (isinstance(value, float) or _is_integer(value)) and math.isfinite(value)


# The largest sizes that are built: a file that asks for more would fill the memory or never end.
_LARGEST = {
    "source_vocab_size": 300_000,
    "target_vocab_size": 300_000,
    "d_model": 16_384,
    "num_heads": 128,
    "num_encoder_layers": 96,
    "num_decoder_layers": 96,
    "dim_feedforward": 131_072,
    "max_length": 4_096,
}
_LEAST = {"max_length": 2}  # a token and <eos>; of the other sizes it is 1
_MOST_LAYERS = 96  # of both stacks together
_MOST_MAPS = 4_096  # of attention, of all kinds, layers and heads: 160 MB at 100 tokens
_LOWEST_FLOAT32 = -3.4028234e38
_HIGHEST_MASK_SCORE = -1_000.0  # above, softmax could leave a masked cell a weight that is not 0
_LEAST_EPS = 1e-12  # below, float32 would divide by 0 where a vector is constant


@dataclass(frozen=True, kw_only=True)
class ModelConfig(_Json):
    """The shape of a network; the names are the paper's and torch's (Vaswani et al. 2017, table 3).

    `attention_dropout` of None means the same rate as `dropout`, which is what nn.Transformer does.
    `max_length` bounds both sides, in tokens. With `share_embeddings` the two sides use one table
    (one joint vocabulary); with `tie_classifier` the output projection is the target table.
    `mask_score` is what a masked score is set to before the softmax, −1,000 or less so that its
    weight is exactly 0 in float32; None is the paper's −∞.
    Without `scale_embeddings` they are not multiplied by √d_model (paper §3.4); without
    `final_norm` nothing is normalised behind the last layer of either stack, as in the paper's
    figure 1, where torch.nn.Transformer has one more norm. hyunwoongko/transformer has neither.
    Raises ValueError for a value of another type or out of its range.
    """

    source_vocab_size: int
    target_vocab_size: int
    d_model: int = 512
    num_heads: int = 8
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    dim_feedforward: int = 2048
    dropout: float = 0.1
    attention_dropout: float | None = None
    norm_first: bool = False
    layer_norm_eps: float = 1e-5
    qkv_bias: bool = True
    mask_score: float | None = None
    learned_positions: bool = False
    max_length: int = 256
    share_embeddings: bool = False
    tie_classifier: bool = False
    scale_embeddings: bool = True
    final_norm: bool = True

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.type is bool and not isinstance(getattr(self, field.name), bool):
                raise ValueError(f"{field.name} {getattr(self, field.name)!r} is not true or false")
        for name, largest in _LARGEST.items():
            value, least = getattr(self, name), _LEAST.get(name, 1)
            if not _is_integer(value) or not least <= value <= largest:
                raise ValueError(
                    f"{name} {value!r} is out of range: it must be a whole number from {least} to "
                    f"{largest:,}"
                )
        for name in ("dropout", "attention_dropout"):
            rate = getattr(self, name)
            if not (rate is None and name == "attention_dropout") and not (
                _is_finite(rate) and 0 <= rate < 1
            ):
                raise ValueError(f"{name} {rate!r} is out of range: it must be at least 0, below 1")
        if not _is_finite(self.layer_norm_eps) or not _LEAST_EPS <= self.layer_norm_eps < 1:
            raise ValueError(
                f"layer_norm_eps {self.layer_norm_eps!r} is out of range: it must lie between "
                f"{_LEAST_EPS:g} and 1, such as 1e-5"
            )
        layers = self.num_encoder_layers + self.num_decoder_layers
        if layers > _MOST_LAYERS:
            raise ValueError(
                f"{layers} layers are out of range: the two stacks may have {_MOST_LAYERS} together"
            )
        maps = (layers + self.num_decoder_layers) * self.num_heads
        if maps > _MOST_MAPS:
            raise ValueError(
                f"{maps:,} heads in all are out of range: the limit is {_MOST_MAPS:,}, over the "
                "attentions of all layers"
            )
        if self.d_model % self.num_heads:
            raise ValueError(f"num_heads {self.num_heads} must divide d_model {self.d_model}")
        if self.d_model % 2:
            raise ValueError(
                f"d_model {self.d_model} must be even: positions are sine/cosine pairs"
            )
        if self.share_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                "share_embeddings needs one joint vocabulary, but the two sizes differ"
            )
        if self.mask_score is not None and not (
            _is_finite(self.mask_score)
            and _LOWEST_FLOAT32 <= self.mask_score <= _HIGHEST_MASK_SCORE
        ):
            raise ValueError(
                f"mask_score {self.mask_score!r} is out of range: it must lie between "
                f"{_LOWEST_FLOAT32:g} and {_HIGHEST_MASK_SCORE:,.0f}, or be left out for −∞"
            )

    @property
    def head_size(self) -> int:
        """d_k = d_v = d_model / num_heads (paper §3.2.2)."""
        return self.d_model // self.num_heads


@dataclass(frozen=True, kw_only=True)
class TrainConfig(_Json):
    """How a network is trained; lengths are in optimiser steps, unless another word stands there.

    A batch holds `batch_tokens` padded tokens at most, or `batch_sentences` pairs where that is
    given. Its pairs are of like length, and each epoch makes other batches; `as_they_stand`, it
    holds pairs in the order of the text, in every epoch the same. The schedule "plateau" multiplies
    the rate by `plateau_factor` after more than `plateau_patience` validations without a better
    loss, as torch's ReduceLROnPlateau does. The rate of the other two falls towards 0 over the last
    `cooldown_steps`.
    `validate_every` of None is once an epoch. `patience` ends a run after as many validations
    without a better loss. The network as it was after each of `keep_epochs` is kept on its own.
    """

    steps: int
    batch_tokens: int = 4096
    batch_sentences: int | None = None
    as_they_stand: bool = False
    schedule: Literal["inverse_sqrt", "constant", "plateau"] = "inverse_sqrt"
    peak_lr: float = 5e-3
    warmup_steps: int = 800
    cooldown_steps: int = 0
    plateau_factor: float = 0.9
    plateau_patience: int = 10
    label_smoothing: float = 0.1
    optimizer: Literal["adamw", "adam"] = "adamw"
    betas: tuple[float, float] = (0.9, 0.98)
    adam_eps: float = 1e-8
    weight_decay: float = 0.01
    clip_norm: float | None = 1.0
    validate_every: int | None = 240
    patience: int | None = None
    snapshot_every: int = 120
    average_last: int = 10
    save_every: int | None = None
    keep_epochs: tuple[int, ...] = ()
    max_pair_tokens: int = 100
    seed: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", tuple(self.betas))
        object.__setattr__(self, "keep_epochs", tuple(self.keep_epochs))
        for name, choices in (
            ("schedule", ("inverse_sqrt", "constant", "plateau")),
            ("optimizer", ("adamw", "adam")),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{name} {getattr(self, name)!r} is unknown: choose one of {', '.join(choices)}"
                )
        for name in (
            "steps",
            "batch_tokens",
            "batch_sentences",
            "validate_every",
            "patience",
            "snapshot_every",
            "average_last",
            "save_every",
        ):
            value = getattr(self, name)
            required = name in ("steps", "batch_tokens", "snapshot_every", "average_last")
            if (value is not None or required) and (not _is_integer(value) or value < 1):
                raise ValueError(
                    f"{name} {value!r} is out of range: it must be a whole number of at least 1"
                )
        for name, below in (
            ("peak_lr", math.inf),
            ("plateau_factor", 1.0),
            ("label_smoothing", 1.0),
            ("adam_eps", math.inf),
            ("weight_decay", math.inf),
        ):
            value = getattr(self, name)
            if not _is_finite(value) or not 0 <= value < below:
                raise ValueError(
                    f"{name} {value!r} is out of range: it must be at least 0, "
                    + ("and finite" if below == math.inf else f"below {below:g}")
                )
        if self.cooldown_steps and self.schedule == "plateau":
            raise ValueError("cooldown_steps do not go with the schedule 'plateau': leave them out")
        if any(epoch < 1 for epoch in self.keep_epochs):
            raise ValueError(f"keep_epochs {self.keep_epochs}: epochs are counted from 1")


@dataclass(frozen=True, kw_only=True)
class DecodeConfig(_Json):
    """How a translation is searched; beam 1 is greedy.

    `length_penalty` is alpha of Wu et al. 2016, eq. 14: score = log P / ((5 + length) / 6)^alpha.
    1 was chosen on the validation sets: with 0.6 the shipped networks write too little.
    """

    beam: int = 5
    length_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not _is_integer(self.beam) or not 1 <= self.beam <= 16:
            raise ValueError(f"beam {self.beam!r} is out of range: choose 1 (greedy) to 16")
        # A negative alpha would reward short translations: the search's bound, that the longest
        # open one can do best, would no longer hold.
        if not _is_finite(self.length_penalty) or not 0 <= self.length_penalty <= 10:
            raise ValueError(
                f"length_penalty {self.length_penalty!r} is out of range: choose 0 (none) to 10"
            )

    @property
    def label(self) -> str:
        """What a person reads: "greedy", "beam 5", or "beam 5, length penalty 0.6"."""
        if self.beam == 1:
            return "greedy"
        usual = self.length_penalty == type(self).length_penalty
        return f"beam {self.beam}" + ("" if usual else f", length penalty {self.length_penalty!r}")

    @classmethod
    def from_label(cls, label: str) -> Self:
        """Return the settings that `label` printed. Raises ValueError for any other text."""
        match = re.fullmatch(r"greedy|beam (\d{1,2})(?:, length penalty ([\d.e+-]+))?", label)
        if match:
            beam, penalty = match.groups()
            settings = {"length_penalty": float(penalty)} if penalty else {}
            found = cls(beam=int(beam or 1), **settings)
            if found.label == label:
                return found
        raise ValueError(f"{label[:40]!r} names no search")
