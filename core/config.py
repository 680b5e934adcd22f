"""Frozen settings of a model, a training run and a search, with their JSON forms."""

import dataclasses
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from core.kinds import Kind
from core.typed import Rule, between, check


@dataclass(frozen=True)
class _Json:
    """Convert a dataclass to a plain JSON object, which core.typed reads, and check its fields."""

    def __post_init__(self) -> None:
        check(self)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


# Larger networks are rejected: a file that asks for one would exhaust memory or time.
_Vocabulary = Annotated[int, between(1, 300_000)]
_Layers = Annotated[int, between(1, 96)]
_MAX_LAYERS = 96  # in both stacks together
_MAX_HEADS = 4_096  # over all attention layers: 160 MB of maps at 100 tokens
# The lowest float32, and a score so low that a masked weight always rounds to 0.
_MaskScore = Annotated[float, between(-3.4028234e38, -1_000.0)]
# float32 must not round it to 0, which would divide a constant vector by 0.
_Eps = Annotated[float, Rule("from 1e-12 and below 1, such as 1e-5", lambda n: 1e-12 <= n < 1)]
_Share = Annotated[float, Rule("from 0 and below 1", lambda n: 0 <= n < 1)]
_FromOne = Annotated[int, between(1)]
_FromZero = Annotated[float, between(0)]


Activation = Literal["relu", "silu", "gelu", "gelu_tanh"]
Norm = Literal["layer", "rms", "deviation"]
PositionTable = Literal["paper", "fairseq", "none"]


_PARTS = """gated norm embedding_norm linear_bias scale_scores head_size decoder_heads
    decoder_feedforward position_table relative_buckets scale_output""".split()


@dataclass(frozen=True, kw_only=True)
class ModelConfig(_Json):
    """The shape of a network, named as in the paper (Vaswani et al. 2017, table 3) and in torch.

    `attention_dropout` defaults to `dropout`, as in nn.Transformer. `max_length` limits the tokens
    of each side. `share_embeddings` uses one table for both sides, which needs a joint vocabulary.
    `tie_classifier` uses the target table as output projection; `tied_bias` gives this projection a
    bias, as in Marian and Pegasus ("final_logits_bias" in Hugging Face's transformers).
    `mask_score` replaces a masked score before the softmax. It must be −1,000 or lower, so that the
    weight is exactly 0 in float32; None stands for the paper's −∞.
    `scale_embeddings` multiplies embeddings by √d_model (paper §3.4). `final_norm` adds a norm
    after the last layer of each stack, as torch.nn.Transformer does and the paper's figure 1 does
    not. hyunwoongko/transformer has neither the factor √d_model nor these norms.

    The parts of other families; `core.model.parts` states where each is from.
    `activation` is the feed-forward layers' activation: "relu", max(0, x) (paper §3.3); "silu",
    x · sigmoid(x), as in Marian; "gelu", x · Φ(x), as in BART; "gelu_tanh", its approximation by a
    tanh, as in T5 1.1. `gated` multiplies the activation by a second projection, as in T5 1.1.
    `norm` is each norm of a layer or stack: "layer" (Ba et al. 2016); "rms", x / √(mean of x² +
    eps) · weight, as in T5; "deviation", (x − mean) / (s + eps) · weight + bias with the standard
    deviation s of n − 1 values, as in the Annotated Transformer. `embedding_norm` adds a LayerNorm
    after the embeddings of each side, as in BART.
    `linear_bias` is whether W^O and the feed-forward layers have biases; T5 has none. `qkv_bias` is
    the same for W^Q, W^K and W^V. `scale_scores` divides scores by √d_k (paper §3.2.1), not in T5.
    `head_size` is d_k = d_v; None stands for d_model / num_heads, which must then be whole.
    `decoder_heads` and `decoder_feedforward` are the decoder's `num_heads` and `dim_feedforward`;
    None stands for those of the encoder. See `heads`, `size_of_head` and `feedforward`.
    `position_table` is the table that is added to embeddings unless `learned_positions` is set:
    "paper" (§3.5); "fairseq", sines and cosines of other rates, from position 2 on, as in M2M100;
    "none", as in T5. With `relative_buckets`, each score of a self-attention has a bias that
    depends on the distance from query to key, by buckets up to `relative_distance` tokens, as in
    T5; the layers of a stack share it.
    `scale_output` multiplies the decoder's output by d_model^−0.5 before the classifier, as in
    T5 1.0.
    Raises ValueError for a value of the wrong type or out of range.
    """

    source_vocab_size: _Vocabulary
    target_vocab_size: _Vocabulary
    d_model: Annotated[int, between(1, 16_384)] = 512
    num_heads: Annotated[int, between(1, 128)] = 8
    num_encoder_layers: _Layers = 6
    num_decoder_layers: _Layers = 6
    dim_feedforward: Annotated[int, between(1, 131_072)] = 2048
    dropout: _Share = 0.1
    attention_dropout: _Share | None = None
    norm_first: bool = False
    layer_norm_eps: _Eps = 1e-5
    qkv_bias: bool = True
    mask_score: _MaskScore | None = None
    learned_positions: bool = False
    max_length: Annotated[int, between(2, 4_096)] = 256  # one token and <eos>
    share_embeddings: bool = False
    tie_classifier: bool = False
    scale_embeddings: bool = True
    final_norm: bool = True
    activation: Activation = "relu"
    tied_bias: bool = False
    gated: bool = False
    norm: Norm = "layer"
    embedding_norm: bool = False
    linear_bias: bool = True
    scale_scores: bool = True
    head_size: Annotated[int, between(1, 16_384)] | None = None
    decoder_heads: Annotated[int, between(1, 128)] | None = None
    decoder_feedforward: Annotated[int, between(1, 131_072)] | None = None
    position_table: PositionTable = "paper"
    relative_buckets: Annotated[int, between(4, 1_024)] | None = None
    relative_distance: Annotated[int, between(4, 65_536)] = 128
    scale_output: bool = False

    def heads(self, kind: Kind) -> int:
        """Return the number of heads H of each attention of a kind; cross is the decoder's."""
        return self.num_heads if kind == "encoder" else self.decoder_heads or self.num_heads

    @property
    def other_parts(self) -> list[str]:
        """The names of the settings that give this network a part of another family."""
        fields = {field.name: field for field in dataclasses.fields(self)}
        return [name for name in _PARTS if getattr(self, name) != fields[name].default]

    @property
    def heads_label(self) -> str:
        """The number of heads for display: "8", or "8 + 4" if the decoder has another number."""
        encoder, decoder = self.heads("encoder"), self.heads("decoder")
        return str(encoder) if encoder == decoder else f"{encoder} + {decoder}"

    def size_of_head(self, kind: Kind) -> int:
        """Return d_k = d_v of an attention of a kind."""
        return self.head_size or self.d_model // self.heads(kind)

    def feedforward(self, kind: Kind) -> int:
        """Return the inner size of the feed-forward layers of a kind's stack."""
        if kind == "encoder":
            return self.dim_feedforward
        return self.decoder_feedforward or self.dim_feedforward

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tied_bias and not self.tie_classifier:
            raise ValueError("tied_bias needs tie_classifier: an untied classifier has a bias")
        layers = self.num_encoder_layers + self.num_decoder_layers
        if layers > _MAX_LAYERS:
            raise ValueError(
                f"{layers} layers are out of range: the two stacks may have {_MAX_LAYERS} together"
            )
        heads = self.num_encoder_layers * self.num_heads
        heads += 2 * self.num_decoder_layers * self.heads("decoder")
        if heads > _MAX_HEADS:
            raise ValueError(
                f"{heads:,} heads in total are out of range: the limit is {_MAX_HEADS:,} over all "
                "attention layers"
            )
        for name, number in ("num_heads", self.num_heads), ("decoder_heads", self.decoder_heads):
            if number and not self.head_size and self.d_model % number:
                raise ValueError(f"{name} {number} must divide d_model {self.d_model}")
        if self.d_model % 2:
            raise ValueError(
                f"d_model {self.d_model} must be even: positions are sine/cosine pairs"
            )
        if self.share_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise ValueError("share_embeddings needs a joint vocabulary, but the two sizes differ")
        if self.learned_positions and self.position_table != "paper":
            raise ValueError(
                f"position_table {self.position_table!r} and learned_positions exclude each other"
            )
        if self.position_table == "fairseq" and self.d_model < 4:
            raise ValueError("position_table 'fairseq' needs a d_model of 4 or more")
        if self.scale_output and not (self.norm == "rms" and self.final_norm):
            raise ValueError('scale_output needs a final norm and norm "rms"')
        if self.relative_buckets and self.relative_distance <= self.relative_buckets // 2:
            raise ValueError(
                f"relative_distance {self.relative_distance} must be above half of "
                f"relative_buckets {self.relative_buckets}: nearer distances have a bucket each"
            )


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

    steps: _FromOne
    batch_tokens: _FromOne = 4096
    batch_sentences: _FromOne | None = None
    as_they_stand: bool = False
    schedule: Schedule = "inverse_sqrt"
    peak_lr: _FromZero = 5e-3
    warmup_steps: int = 800
    cooldown_steps: int = 0
    plateau_factor: _Share = 0.9
    plateau_patience: int = 10
    label_smoothing: _Share = 0.1
    optimizer: Optimizer = "adamw"
    betas: tuple[float, float] = (0.9, 0.98)
    adam_eps: _FromZero = 1e-8
    weight_decay: _FromZero = 0.01
    clip_norm: float | None = 1.0
    validate_every: _FromOne | None = 240
    patience: _FromOne | None = None
    snapshot_every: _FromOne = 120
    average_last: _FromOne = 10
    save_every: _FromOne | None = None
    keep_epochs: tuple[_FromOne, ...] = ()
    max_pair_tokens: int = 100
    seed: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", tuple(self.betas))
        object.__setattr__(self, "keep_epochs", tuple(self.keep_epochs))
        super().__post_init__()
        if self.cooldown_steps and self.schedule == "plateau":
            raise ValueError("the schedule 'plateau' has no cooldown: leave out cooldown_steps")


@dataclass(frozen=True, kw_only=True)
class DecodeConfig(_Json):
    """Decoding settings; beam 1 is greedy.

    `length_penalty` is alpha of Wu et al. 2016, eq. 14: score = log P / ((5 + length) / 6)^alpha.
    The default of 1 was chosen on the validation sets; at 0.6, translations were too short.
    """

    beam: Annotated[int, between(1, 16)] = 5
    # A negative alpha would reward short translations and break the search's bound, which assumes
    # that the longest possible translation scores best.
    length_penalty: Annotated[float, between(0, 10)] = 1.0

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
