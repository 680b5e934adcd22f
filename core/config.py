"""Frozen settings of a model, a training run and a search, with their JSON forms."""

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args


@dataclass(frozen=True)
class _Json:
    """Convert a dataclass to and from a plain JSON object."""

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

    def _require(self, valid: bool, name: str, rule: str) -> None:
        """Raise ValueError, naming the field and the `rule`, unless `valid`."""
        if not valid:
            raise ValueError(f"{name} {getattr(self, name)!r} is out of range: {rule}")


def _require_choice(config: Any, name: str, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless the named field is one of the choices."""
    value = getattr(config, name)
    if value not in choices:
        shown = repr(value)[:80]
        raise ValueError(f"{name} {shown} is unknown: choose one of {', '.join(choices)}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)  # True is an int to Python


def _is_finite(value: Any) -> bool:
    return (isinstance(value, float) or _is_integer(value)) and math.isfinite(value)


def _is_share(value: Any) -> bool:
    return _is_finite(value) and 0 <= value < 1


# Larger networks are rejected: a file that asks for one would exhaust memory or time.
_MAX_SIZES = {
    "source_vocab_size": 300_000,
    "target_vocab_size": 300_000,
    "d_model": 16_384,
    "num_heads": 128,
    "num_encoder_layers": 96,
    "num_decoder_layers": 96,
    "dim_feedforward": 131_072,
    "max_length": 4_096,
}
_MIN_SIZES = {"max_length": 2}  # one token and <eos>; all other sizes start at 1
_MAX_LAYERS = 96  # in both stacks together
_MAX_HEADS = 4_096  # over all attention layers: 160 MB of maps at 100 tokens
_LOWEST_FLOAT32 = -3.4028234e38
_HIGHEST_MASK_SCORE = -1_000.0  # with a higher score, a masked weight might not round to 0
_MIN_EPS = 1e-12  # float32 must not round it to 0, which would divide a constant vector by 0


Activation = Literal["relu", "silu"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig(_Json):
    """The shape of a network, named as in the paper (Vaswani et al. 2017, table 3) and in torch.

    `attention_dropout` defaults to `dropout`, as in nn.Transformer. `max_length` limits the tokens
    of each side. `share_embeddings` uses one table for both sides, which needs a joint vocabulary.
    `tie_classifier` uses the target table as output projection; `tied_bias` gives this projection a
    bias, as in Marian and Pegasus ("final_logits_bias" in Hugging Face's transformers).
    `activation` is the feed-forward layers' activation: "relu", max(0, x) (paper §3.3), or "silu",
    x · sigmoid(x), as in Marian (also called Swish: Ramachandran et al. 2017).
    `mask_score` replaces a masked score before the softmax. It must be −1,000 or lower, so that the
    weight is exactly 0 in float32; None stands for the paper's −∞.
    `scale_embeddings` multiplies embeddings by √d_model (paper §3.4). `final_norm` adds a norm
    after the last layer of each stack, as torch.nn.Transformer does and the paper's figure 1 does
    not. hyunwoongko/transformer has neither the factor √d_model nor these norms.
    Raises ValueError for a value of the wrong type or out of range.
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
    activation: Activation = "relu"
    tied_bias: bool = False

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.type is bool and not isinstance(getattr(self, field.name), bool):
                raise ValueError(f"{field.name} {getattr(self, field.name)!r} is not true or false")
        for name, largest in _MAX_SIZES.items():
            least = _MIN_SIZES.get(name, 1)
            rule = f"it must be a whole number from {least} to {largest:,}"
            value = getattr(self, name)
            self._require(_is_integer(value) and least <= value <= largest, name, rule)
        _require_choice(self, "activation", get_args(Activation))
        if self.tied_bias and not self.tie_classifier:
            raise ValueError("tied_bias needs tie_classifier: an untied classifier has a bias")
        rule = "it must be at least 0 and below 1"
        self._require(_is_share(self.dropout), "dropout", rule)
        if self.attention_dropout is not None:
            self._require(_is_share(self.attention_dropout), "attention_dropout", rule)
        eps, rule = self.layer_norm_eps, f"it must lie between {_MIN_EPS:g} and 1, such as 1e-5"
        self._require(_is_finite(eps) and _MIN_EPS <= eps < 1, "layer_norm_eps", rule)
        layers = self.num_encoder_layers + self.num_decoder_layers
        if layers > _MAX_LAYERS:
            raise ValueError(
                f"{layers} layers are out of range: the two stacks may have {_MAX_LAYERS} together"
            )
        heads = (layers + self.num_decoder_layers) * self.num_heads
        if heads > _MAX_HEADS:
            raise ValueError(
                f"{heads:,} heads in total are out of range: the limit is {_MAX_HEADS:,} over all "
                "attention layers"
            )
        if self.d_model % self.num_heads:
            raise ValueError(f"num_heads {self.num_heads} must divide d_model {self.d_model}")
        if self.d_model % 2:
            raise ValueError(
                f"d_model {self.d_model} must be even: positions are sine/cosine pairs"
            )
        if self.share_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise ValueError("share_embeddings needs a joint vocabulary, but the two sizes differ")
        score = self.mask_score
        if score is not None:
            rule = (
                f"it must lie between {_LOWEST_FLOAT32:g} and {_HIGHEST_MASK_SCORE:,.0f}, or be "
                "omitted for −∞"
            )
            valid = _is_finite(score) and _LOWEST_FLOAT32 <= score <= _HIGHEST_MASK_SCORE
            self._require(valid, "mask_score", rule)


Schedule = Literal["inverse_sqrt", "constant", "plateau"]
Optimizer = Literal["adamw", "adam"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig(_Json):
    """How a network is trained; durations are in optimiser steps unless stated otherwise.

    A batch holds at most `batch_tokens` padded tokens per side or, if set, `batch_sentences` pairs.
    Pairs are grouped by length and reshuffled every epoch; `as_they_stand` keeps the text's order.
    The schedule "plateau" multiplies the learning rate by `plateau_factor` after more than
    `plateau_patience` validations without improvement, like torch's ReduceLROnPlateau. With the
    other schedules, the rate decays towards 0 over the last `cooldown_steps`.
    If `validate_every` is None, the run validates at the end of each epoch. If `patience` is set,
    the run stops after that many validations without improvement. A separate checkpoint is kept at
    the end of each of `keep_epochs`, counted from 1.
    """

    steps: int
    batch_tokens: int = 4096
    batch_sentences: int | None = None
    as_they_stand: bool = False
    schedule: Schedule = "inverse_sqrt"
    peak_lr: float = 5e-3
    warmup_steps: int = 800
    cooldown_steps: int = 0
    plateau_factor: float = 0.9
    plateau_patience: int = 10
    label_smoothing: float = 0.1
    optimizer: Optimizer = "adamw"
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
        for name, choices in (("schedule", get_args(Schedule)), ("optimizer", get_args(Optimizer))):
            _require_choice(self, name, choices)
        required = ("steps", "batch_tokens", "snapshot_every", "average_last")
        optional = ("batch_sentences", "validate_every", "patience", "save_every")
        for name in (*required, *(name for name in optional if getattr(self, name) is not None)):
            value, rule = getattr(self, name), "it must be a whole number of at least 1"
            self._require(_is_integer(value) and value >= 1, name, rule)
        for name in ("peak_lr", "adam_eps", "weight_decay"):
            value, rule = getattr(self, name), "it must be finite and at least 0"
            self._require(_is_finite(value) and value >= 0, name, rule)
        for name in ("plateau_factor", "label_smoothing"):
            rule = "it must be at least 0 and below 1"
            self._require(_is_share(getattr(self, name)), name, rule)
        if self.cooldown_steps and self.schedule == "plateau":
            raise ValueError("the schedule 'plateau' has no cooldown: leave out cooldown_steps")
        if any(epoch < 1 for epoch in self.keep_epochs):
            raise ValueError(f"keep_epochs {self.keep_epochs}: epochs are counted from 1")


@dataclass(frozen=True, kw_only=True)
class DecodeConfig(_Json):
    """Decoding settings; beam 1 is greedy.

    `length_penalty` is alpha of Wu et al. 2016, eq. 14: score = log P / ((5 + length) / 6)^alpha.
    The default of 1 was chosen on the validation sets; at 0.6, translations were too short.
    """

    beam: int = 5
    length_penalty: float = 1.0

    def __post_init__(self) -> None:
        valid = _is_integer(self.beam) and 1 <= self.beam <= 16
        self._require(valid, "beam", "choose 1 (greedy) to 16")
        # A negative alpha would reward short translations and break the search's bound, which
        # assumes that the longest possible translation scores best.
        valid = _is_finite(self.length_penalty) and 0 <= self.length_penalty <= 10
        self._require(valid, "length_penalty", "choose 0 (none) to 10")

    @property
    def label(self) -> str:
        """The user-facing label: "greedy", "beam 5" or "beam 5, length penalty 0.6"."""
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
            config = cls(beam=int(beam or 1), **settings)
            if config.label == label:
                return config
        raise ValueError(f"{label[:40]!r} is not a decoding label")
