"""One token at a time: the keys and values that are kept, and the tree of a search's hypotheses.

Axes as in transformer.py; B rows are K hypotheses of each of N sentences, one sentence after the
other, and M are the tokens that all of a sentence's hypotheses have written so far.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class LayerCache:
    """One decoder layer's keys and values: of the M tokens written, and of the memory."""

    k: Tensor  # [N, H, M, E]
    v: Tensor
    cross_k: Tensor  # [N, H, S, E]
    cross_v: Tensor

    def select(self, rows_N: Tensor) -> "LayerCache":
        """The cache of these sentences."""
        return LayerCache(*(x.index_select(0, rows_N) for x in vars(self).values()))

    def append(self, k_NHKE: Tensor, v_NHKE: Tensor) -> "LayerCache":
        """The cache with K tokens more of each sentence."""
        k, v = torch.cat((self.k, k_NHKE), dim=2), torch.cat((self.v, v_NHKE), dim=2)
        return replace(self, k=k, v=v)


@dataclass(frozen=True)
class DecoderState:
    """All that decoding one more token needs; a value, so a search may reorder it freely.

    Its rows are paths through a tree of M tokens, K more with each step. All of a sentence's
    hypotheses are queries of one attention, over the whole tree, and a mask keeps each one to its
    path: so to follow the survivors of a beam nothing is copied but that mask. Against a cache for
    each hypothesis on its own: 1.09 for 24 sentences at once with beam 5, 0.97 for one, 1.01 for
    one with beam 16 (scratch-de-en, processor time, alternating in one run, AMD EPYC (Zen 3), 2
    cores, one thread, shared load): `bench_model tree --batch-tokens 2048`.
    """

    layers: tuple[LayerCache, ...]
    source_mask: Tensor  # [N, 1, 1, S]
    path_BM: Tensor  # bool: which tokens of the tree a hypothesis consists of
    length: int

    def select(self, rows_B: Tensor) -> "DecoderState":
        """The state whose row i is this state's row rows[i]: how a beam follows its survivors.

        Rows that are not as many of each sentence become sentences of their own.
        """
        N = len(self.source_mask)
        state = replace(self, path_BM=self.path_BM.index_select(0, rows_B))
        sentence_B = rows_B // (len(self.path_BM) // N)
        sentences, rows_each = sentence_B.unique_consecutive(return_counts=True)
        if (rows_each != rows_each[:1]).any():
            sentences = sentence_B
        if torch.equal(sentences, torch.arange(N, device=sentences.device)):
            return state
        return replace(
            state,
            layers=tuple(layer.select(sentences) for layer in self.layers),
            source_mask=self.source_mask.index_select(0, sentences),
        )


class Network(Protocol):
    """What is needed of the Transformer, which stands above this file and its `DecoderLayer`s."""

    embeddings: Any
    decoder_norm: Any

    @property
    def decoder(self) -> Iterable[Any]: ...
    def encode(self, source_BS: Tensor) -> tuple[Tensor, Tensor]: ...
    def classify(self, hidden: Tensor) -> Tensor: ...


def start(network: Network, source_BS: Tensor) -> DecoderState:
    """Encode once and project the memory to every layer's cross keys and values."""
    memory_BSD, source_mask = network.encode(source_BS)
    caches = []
    for layer in network.decoder:
        cross_k, cross_v = layer.cross_attention.keys_values(memory_BSD)
        nothing_yet = cross_k[:, :, :0]
        caches.append(LayerCache(nothing_yet, nothing_yet, cross_k, cross_v))
    return DecoderState(
        layers=tuple(caches),
        source_mask=source_mask,
        path_BM=source_mask.new_empty(len(source_BS), 0),
        length=0,
    )


def step(network: Network, token_B: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
    """Feed one token a row: logits [B, V] for the next, and the state that includes it."""
    N, K = len(state.source_mask), len(token_B) // len(state.source_mask)
    itself_BK = torch.eye(K, dtype=torch.bool, device=token_B.device).repeat(N, 1)
    path_BM = torch.cat((state.path_BM, itself_BK), dim=1)
    path_mask = path_BM.view(N, 1, K, -1)
    x_NKD = network.embeddings.target(token_B[:, None], state.length).view(N, K, -1)
    caches = []
    for layer, cache in zip(network.decoder, state.layers, strict=True):
        x_NKD, cache = _layer_step(layer, x_NKD, cache, path_mask, state.source_mask)
        caches.append(cache)
    logits_BV = network.classify(network.decoder_norm(x_NKD)).flatten(0, 1)
    return logits_BV, DecoderState(tuple(caches), state.source_mask, path_BM, state.length + 1)


def _layer_step(
    layer: Any, x_NKD: Tensor, cache: LayerCache, path_mask: Tensor, source_mask: Tensor
) -> tuple[Tensor, LayerCache]:
    """`DecoderLayer.forward` for one new position: output [N, K, D] and the cache that has it."""

    def look_back(x: Tensor) -> Tensor:
        nonlocal cache
        cache = cache.append(*layer.self_attention.keys_values(x))
        return layer.self_attention.attend(x, cache.k, cache.v, path_mask, False)[0]

    def look_across(x: Tensor) -> Tensor:
        cross_k, cross_v = cache.cross_k, cache.cross_v
        return layer.cross_attention.attend(x, cross_k, cross_v, source_mask, False)[0]

    x_NKD = layer.residual(x_NKD, layer.norm1, look_back)
    x_NKD = layer.residual(x_NKD, layer.norm2, look_across)
    return layer.residual(x_NKD, layer.norm3, layer.feed_forward), cache
