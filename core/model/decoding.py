"""Decode one token at a time with a KV cache.

Axes as in transformer.py; B rows are hypotheses, T tokens written so far. A search runs without
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
    """Keys and values of every decoder layer: a value, so a search may reorder its rows."""

    own: tuple[KeysValues, ...]
    """Of self-attention, each [B, H, T, E]."""
    cross: tuple[KeysValues, ...]
    """Of cross-attention, projected once from the encoder's output, each [B, H, S, E]."""
    source_mask: Tensor
    """[B, 1, 1, S], True = may attend."""
    length: int
    """T."""

    def select(self, rows_B: Tensor) -> KVCache:
        """Return the cache whose row i is this one's row rows[i]: how a beam follows survivors."""

        def chosen(pairs: tuple[KeysValues, ...]) -> tuple[KeysValues, ...]:
            return tuple((k.index_select(0, rows_B), v.index_select(0, rows_B)) for k, v in pairs)

        mask = self.source_mask.index_select(0, rows_B)
        return KVCache(chosen(self.own), chosen(self.cross), mask, self.length)


class Network(Protocol):
    """What decoding needs of the Transformer, which imports this file."""

    embeddings: Any
    decoder_norm: Any

    @property
    def decoder(self) -> Iterable[Any]: ...
    def encode(self, source_BS: Tensor) -> tuple[Tensor, Tensor]: ...
    def classify(self, hidden: Tensor) -> Tensor: ...


@torch.inference_mode()
def start(network: Network, source_BS: Tensor) -> KVCache:
    """Encode the source once and project it to every layer's cross-attention keys and values."""
    memory_BSD, source_mask = network.encode(source_BS)
    cross = tuple(layer.cross_attention.keys_values(memory_BSD) for layer in network.decoder)
    return KVCache(tuple((k[:, :, :0], v[:, :, :0]) for k, v in cross), cross, source_mask, 0)


@torch.inference_mode()
def step(network: Network, token_B: Tensor, cache: KVCache) -> tuple[Tensor, KVCache]:
    """Feed one token to each row: logits [B, V] for the next, and the cache that includes it."""
    x_B1D = network.embeddings.target_token(token_B, cache.length)[:, None]
    written = []
    for layer, own, cross in zip(network.decoder, cache.own, cache.cross, strict=True):
        x_B1D, own = _layer_step(layer, x_B1D, own, cross, cache.source_mask)
        written.append(own)
    logits_BV = network.classify(network.decoder_norm(x_B1D))[:, 0]
    return logits_BV, KVCache(tuple(written), cache.cross, cache.source_mask, cache.length + 1)


def _layer_step(
    layer: Any, x_B1D: Tensor, own: KeysValues, cross: KeysValues, source_mask: Tensor
) -> tuple[Tensor, KeysValues]:
    """`DecoderLayer.forward` for one new token, whose keys and values join `own`."""

    def attend_to_written(x_B1D: Tensor) -> Tensor:
        nonlocal own
        new = layer.self_attention.keys_values(x_B1D)
        k_BHTE, v_BHTE = (torch.cat(pair, dim=2) for pair in zip(own, new, strict=True))
        own = k_BHTE, v_BHTE
        all_B11T = source_mask.new_ones(len(x_B1D), 1, 1, k_BHTE.shape[2])  # edits are told it
        return layer.self_attention.attend(x_B1D, *own, all_B11T, False)[0]

    def attend_to_source(x_B1D: Tensor) -> Tensor:
        return layer.cross_attention.attend(x_B1D, *cross, source_mask, False)[0]

    x_B1D = layer.residual(x_B1D, layer.norm1, attend_to_written)
    x_B1D = layer.residual(x_B1D, layer.norm2, attend_to_source)
    return layer.residual(x_B1D, layer.norm3, layer.feed_forward), own
