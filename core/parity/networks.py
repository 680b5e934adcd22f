"""Networks and input batches for the parity checklist."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from core.checkpoint.folder import Checkpoint
from core.config import ModelConfig
from core.data.batches import Batch, Pair, collate, encode_pairs
from core.model.baseline import Baseline, copy_weights
from core.model.build import Model, build
from core.model.transformer import Transformer
from core.text.tokenizer import EOS, PAD

TAIL = 3  # padding-only columns

CASES = (
    "without padding",
    "with padding",
    "with an all-padding tail",
    "in training mode, dropout 0",
)

SENTENCES = {
    "de": ("Zwei junge Männer spielen im Park Fußball.", "Ein Hund läuft.", "Kinder lachen laut."),
    "en": ("Two young men play soccer in the park.", "A dog runs fast.", "Children laugh."),
}


def small(**changes: Any) -> ModelConfig:
    """Return the configuration of a network with a few thousand weights."""
    values: dict[str, Any] = dict(
        source_vocab_size=40,
        target_vocab_size=40,
        d_model=16,
        num_heads=4,
        num_encoder_layers=2,
        num_decoder_layers=2,
        dim_feedforward=24,
        max_length=64,
    )
    return ModelConfig(**{**values, **changes})


def _shape(layers: int, norm_first: bool, tied: bool) -> tuple[str, ModelConfig]:
    order, classifier = "pre" if norm_first else "post", "tied" if tied else "untied"
    return f"{layers}+{layers} layers, {order}-norm, {classifier}", small(
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        norm_first=norm_first,
        share_embeddings=tied,
        tie_classifier=tied,
    )


VARIANTS: Mapping[str, ModelConfig] = {
    **dict(
        _shape(layers, norm_first, tied)
        for layers, norm_first, tied in [
            (1, False, False),
            (2, True, True),
            (3, False, True),
            (4, True, False),
            (5, False, False),
            (6, True, True),
        ]
    ),
    "learned positions": small(learned_positions=True),
    "q, k, v without bias": small(qkv_bias=False),
    "norm epsilon 1e-12": small(layer_norm_eps=1e-12),
    "mask −10000, for queries with an unmasked key": small(mask_score=-10_000.0),
    "SiLU, a bias under a tied classifier": small(
        activation="silu", share_embeddings=True, tie_classifier=True, tied_bias=True
    ),
    "embeddings not scaled, no final norm, fairseq's positions": small(
        scale_embeddings=False, final_norm=False, position_table="fairseq"
    ),
    "all variants together": small(
        learned_positions=True,
        embedding_norm=True,
        qkv_bias=False,
        layer_norm_eps=1e-12,
        mask_score=-10_000.0,
        scale_embeddings=False,
        final_norm=False,
        norm_first=True,
        num_decoder_layers=3,
        activation="silu",
        share_embeddings=True,
        tie_classifier=True,
        tied_bias=True,
    ),
}


def fresh(config: ModelConfig) -> Model:
    """Return a baseline with random biases and norms as well, so that a swap of two is noticed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build("baseline", config)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return network


def same_weights(network: Model) -> tuple[Baseline, Transformer]:
    """Return both architectures with a network's weights, in float64 on the CPU without dropout.

    Raises ValueError if the parameters do not match.
    """
    config = replace(network.config, dropout=0.0, attention_dropout=None)
    baseline, scratch = Baseline(config).double(), Transformer(config).double()
    copy_weights(network, baseline)
    copy_weights(network, scratch)
    return baseline.eval(), scratch.eval()


def random_pairs(config: ModelConfig) -> list[Pair]:
    """Return three pairs of random ids; on each side, all lengths differ."""
    generator = torch.Generator().manual_seed(1)

    def row(length: int, size: int) -> list[int]:
        return [*torch.randint(4, size, (length - 1,), generator=generator).tolist(), EOS]

    sizes = config.source_vocab_size, config.target_vocab_size
    return [(row(s, sizes[0]), row(t, sizes[1])) for s, t in [(9, 7), (5, 8), (7, 3)]]


def checkpoint_pairs(checkpoint: Checkpoint) -> list[Pair]:
    """Return sentence pairs encoded by the checkpoint's tokenizers, cut so that TAIL fits."""
    card = checkpoint.card
    sides = (card.source_language, card.target_language)
    sources, targets = (SENTENCES.get(language, SENTENCES["en"]) for language in sides)
    pairs = encode_pairs(
        list(zip(sources, targets, strict=True)),
        checkpoint.source_tokenizer,
        checkpoint.target_tokenizer,
    )
    limit = card.model.max_length - TAIL
    return [(source[:limit], target[:limit]) for source, target in pairs]


def case_batches(pairs: list[Pair]) -> dict[str, Batch]:
    """Return one batch for each of CASES."""
    padded = collate(pairs)
    tailed = (F.pad(ids, (0, TAIL), value=PAD) for ids in vars(padded).values())
    return dict(zip(CASES, (collate(pairs[:1]), padded, Batch(*tailed), padded), strict=True))
