"""Decode one token at a time with a KV cache.

Axes as in transformer.py; B counts hypotheses, T tokens decoded so far. Decoding runs without
gradients and dropout.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

KeysValues = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class KVCache:
    """Keys and values of every decoder layer; immutable, so a search can reorder and reuse it."""

    own: tuple[KeysValues, ...]
    """Self-attention, each [B, H, T, E]."""
    cross: tuple[KeysValues, ...]
    """Cross-attention, projected once from the encoder's output, each [B, H, S, E]."""
    source_mask: Tensor
    """[B, 1, 1, S], True = may attend."""
    length: int
    """T, the number of tokens decoded so far."""

    def select(self, rows_B: Tensor) -> KVCache:
        """Reorder the cache: new row i is old row rows_B[i] (used to follow surviving beams)."""

        def select(pairs: tuple[KeysValues, ...]) -> tuple[KeysValues, ...]:
            return tuple((k.index_select(0, rows_B), v.index_select(0, rows_B)) for k, v in pairs)

        mask = self.source_mask.index_select(0, rows_B)
        return KVCache(select(self.own), select(self.cross), mask, self.length)


class Network(Protocol):
    """The part of Transformer that decoding uses.

    A protocol avoids importing transformer.py, which imports this file.
    """

    embeddings: Any
    decoder_norm: Any

    @property
    def decoder(self) -> Iterable[Any]: ...
    def encode(self, source_BS: Tensor) -> tuple[Tensor, Tensor]: ...
    def classify(self, hidden: Tensor) -> Tensor: ...
    def change_state(self, layer: int, state_B1D: Tensor) -> Tensor: ...


@torch.inference_mode()
def start(network: Network, source_BS: Tensor) -> KVCache:
    """Encode the source and project it to every layer's cross-attention keys and values."""
    memory_BSD, source_mask = network.encode(source_BS)
    cross = tuple(layer.cross_attention.keys_values(memory_BSD) for layer in network.decoder)
    return KVCache(tuple((k[:, :, :0], v[:, :, :0]) for k, v in cross), cross, source_mask, 0)


@torch.inference_mode()
def step(network: Network, token_B: Tensor, cache: KVCache) -> tuple[Tensor, KVCache]:
    """Feed one token per row; return logits [B, V] for the next token, and the extended cache."""
    change = network.change_state
    x_B1D = change(0, network.embeddings.target_token(token_B, cache.length)[:, None])
    written = []
    layers = zip(network.decoder, cache.own, cache.cross, strict=True)
    for number, (layer, own, cross) in enumerate(layers, start=1):
        x_B1D, own = _layer_step(layer, x_B1D, own, cross, cache.source_mask)
        x_B1D = change(number, x_B1D)
        written.append(own)
    logits_BV = network.classify(network.decoder_norm(x_B1D))[:, 0]
    return logits_BV, KVCache(tuple(written), cache.cross, cache.source_mask, cache.length + 1)


def _layer_step(
    layer: Any, x_B1D: Tensor, own: KeysValues, cross: KeysValues, source_mask: Tensor
) -> tuple[Tensor, KeysValues]:
    """Run `DecoderLayer.forward` for one new token; append its keys and values to `own`."""

    def attend_to_prefix(x_B1D: Tensor) -> Tensor:
        nonlocal own
        new = layer.self_attention.keys_values(x_B1D)
        k_BHTE, v_BHTE = (torch.cat(pair, dim=2) for pair in zip(own, new, strict=True))
        own = k_BHTE, v_BHTE
        # Every position is visible, but interventions (core.record.editing) need a mask.
        all_B11T = source_mask.new_ones(len(x_B1D), 1, 1, k_BHTE.shape[2])
        return layer.self_attention.attend(x_B1D, *own, all_B11T, False)[0]

    def attend_to_source(x_B1D: Tensor) -> Tensor:
        return layer.cross_attention.attend(x_B1D, *cross, source_mask, False)[0]

    x_B1D = layer.residual(x_B1D, layer.norm1, attend_to_prefix)
    x_B1D = layer.residual(x_B1D, layer.norm2, attend_to_source)
    return layer.residual(x_B1D, layer.norm3, layer.feed_forward), own
