"""Families with a word vocabulary: shapes come from the file, heads and words from the user."""

from functools import partial
from typing import Any

from core.config import ModelConfig
from core.foreign.family import Names, Options, Plan, Reader, attention, count_layers, signature
from core.foreign.sources import naming, shown
from core.foreign.weights import Weights
from core.foreign.words import TORCHTEXT, word_vocabularies

_MAX_LENGTH = 256  # tokens; sinusoids set no limit
_POSITIONS = "embeddings.source_positions"


def plan(
    weights: Weights,
    options: Options,
    names: Names,
    *,
    position_tables: tuple[str, ...] = (),
    min_count: int = 1,
    lower: bool = False,
    order: tuple[str, ...] = TORCHTEXT,
    **settings: Any,
) -> Plan:
    """Return the plan of a word-based network; `settings` of ModelConfig that no shape reveals.

    Raises ValueError for a missing tensor, a wrong number of heads, a size out of range or a wrong
    vocabulary.
    """

    def matrix(ours: str) -> tuple[int, ...]:
        name = names.theirs(ours)[0]
        shape = weights.shape(name)
        if len(shape) != 2:
            raise ValueError(
                f"{shown(weights.source)}: {name} is {list(shape)[:8]}, not a matrix: save the "
                "complete state dict again"
            )
        return shape

    source_size, d_model = matrix("embeddings.source_table.weight")
    target_size = matrix("embeddings.target_table.weight")[0]
    heads = options.heads
    if heads is None:
        raise ValueError("no tensor reveals the number of heads: give it with --heads")
    if heads < 1 or d_model % heads:
        raise ValueError(
            f"--heads {heads} does not divide the width {d_model} of "
            f"{shown(weights.source)}: give the number it was trained with"
        )
    inner = matrix("encoder.0.feed_forward.inner.weight")[0]
    learned = _POSITIONS in names.outside
    sides = {
        side: count_layers(weights, names.layer.format(side=side, layer=""))
        for side in ("encoder", "decoder")
    }
    with naming(weights.source):
        config = ModelConfig(
            **settings,
            source_vocab_size=source_size,
            target_vocab_size=target_size,
            d_model=d_model,
            num_heads=heads,
            num_encoder_layers=sides["encoder"],
            num_decoder_layers=sides["decoder"],
            dim_feedforward=inner,
            max_length=matrix(f"{_POSITIONS}.weight")[0] if learned else _MAX_LENGTH,
            learned_positions=learned,
        )
    sizes = source_size, target_size
    source, target = word_vocabularies(options, sizes, min_count, lower, order)
    note = (
        f"The number of heads, {heads}, comes from --heads: no tensor reveals it, and a wrong "
        "number changes every map."
    )
    return Plan(config, names, source, target, position_tables=position_tables, notes=(note,))


def _parts(
    own: str,
    cross: str,
    projections: tuple[str, ...],
    inner: str,
    outer: str,
    norms: tuple[str, ...] = ("norm1", "norm2", "norm3"),
) -> dict[str, str]:
    """Return the original's names of a layer's attentions, feed-forward layer and norms."""
    return {
        **attention("self_attention", own, *projections),
        **attention("cross_attention", cross, *projections),
        "feed_forward.inner": inner,
        "feed_forward.outer": outer,
        **{f"norm{i}": name for i, name in enumerate(norms, start=1)},
    }


def _outside(source: str, target: str, classifier: str) -> dict[str, str]:
    names = "source_table", "target_table", "classifier"
    theirs = source, target, classifier
    return {f"embeddings.{ours}": name for ours, name in zip(names, theirs, strict=True)}


def _reader(names: Names, final_norm: bool = True, **settings: Any) -> Reader:
    read = partial(plan, names=names, final_norm=final_norm, **settings)
    learned = _POSITIONS in names.outside
    return Reader(signature(names, final_norm=final_norm, learned_positions=learned), read)


_TABLES = ("src_tok_emb.embedding", "tgt_tok_emb.embedding")
_PACKED = ("in_proj[0]", "in_proj[1]", "in_proj[2]", "out_proj")
TUTORIAL = _reader(
    Names(
        "transformer.{side}.layers.{layer}",
        _parts("self_attn", "multihead_attn", _PACKED, "linear1", "linear2"),
        _outside(*_TABLES, "generator")
        | {f"{side}_norm": f"transformer.{side}.norm" for side in ("encoder", "decoder")},
    ),
    position_tables=("positional_encoding.pos_embedding",),
)
"""PyTorch's tutorial "Language Translation with nn.Transformer and torchtext"."""

_SEPARATE = ("fc_q", "fc_k", "fc_v", "fc_concat")
FRIENDSHIPKIM = _reader(
    Names(
        "{side}.layers.{layer}",
        _parts("self_attn", "cross_attn", _SEPARATE, "ffn.fc_1", "ffn.fc_2"),
        _outside(*_TABLES, "classifier")
        | {f"{side}_norm": f"{side}.norm" for side in ("encoder", "decoder")},
    ),
    position_tables=("positional_encoding.encoding",),
)
"""friendshipkim/transformer-from-scratch: the tutorial's network with hand-written attention."""

_MATRICES = ("w_q", "w_k", "w_v", "w_concat")
HYUNWOONGKO = _reader(
    Names(
        "{side}.layers.{layer}",
        _parts("self_attention", "enc_dec_attention", _MATRICES, "ffn.linear1", "ffn.linear2"),
        _outside("encoder.emb.tok_emb", "decoder.emb.tok_emb", "decoder.linear"),
        norm_leaves={"weight": "gamma", "bias": "beta"},
        encoder_parts=attention("self_attention", "attention", *_MATRICES),
    ),
    min_count=2,
    lower=True,
    attention_dropout=0.0,
    layer_norm_eps=1e-12,
    mask_score=-10_000.0,
    scale_embeddings=False,
    final_norm=False,
)
"""hyunwoongko/transformer: no final norms, no √d_model on the embeddings, masked with −10,000."""

BENTREVETT = _reader(
    Names(
        "{side}.layers.{layer}",
        _parts(
            "self_attention",
            "encoder_attention",
            ("fc_q", "fc_k", "fc_v", "fc_o"),
            "positionwise_feedforward.fc_1",
            "positionwise_feedforward.fc_2",
            ("self_attn_layer_norm", "enc_attn_layer_norm", "ff_layer_norm"),
        ),
        _outside("encoder.tok_embedding", "decoder.tok_embedding", "decoder.fc_out")
        | {_POSITIONS: "encoder.pos_embedding"}
        | {"embeddings.target_positions": "decoder.pos_embedding"},
        encoder_parts={"norm2": "ff_layer_norm"},
    ),
    min_count=2,
    lower=True,
    final_norm=False,
)
"""bentrevett/pytorch-seq2seq, notebook 6, "Attention is All You Need": learned positions."""

ANNOTATED = _reader(
    Names(
        "{side}.layers.{layer}",
        _parts(
            "self_attn",
            "src_attn",
            tuple(f"linears.{i}" for i in range(4)),
            "feed_forward.w_1",
            "feed_forward.w_2",
            tuple(f"sublayer.{i}.norm" for i in range(3)),
        ),
        _outside("src_embed.0.lut", "tgt_embed.0.lut", "generator.proj")
        | {f"{side}_norm": f"{side}.norm" for side in ("encoder", "decoder")},
        norm_leaves={"weight": "a_2", "bias": "b_2"},
    ),
    position_tables=("src_embed.1.pe", "tgt_embed.1.pe"),
    min_count=2,
    order=("<sos>", "<eos>", "<pad>", "<unk>"),
    norm="deviation",
    norm_first=True,
    layer_norm_eps=1e-6,
)
"""The Annotated Transformer of 2022: norms first, by the deviation of n − 1 values."""
