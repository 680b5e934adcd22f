"""Decoding steps in step.c, with one KV cache tree per sentence for all of its hypotheses.

Axes as in transformer.py; B = N sentences × K hypotheses, grouped by sentence; M tokens in a
sentence's tree, over all hypotheses; L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from core.accelerate.kernels import Decoder, Layer, Product, supports
from core.accelerate.layers import product
from core.config import ModelConfig
from core.model.decoding import KVCache
from core.model.transformer import DecoderLayer, Transformer

_SPARE_STEPS = 8  # a new buffer has space for at least this many more steps


class _Buffer:
    """Keys and values of a tree, [L, 2, N, H, capacity, E]; the first `filled` tokens are set."""

    def __init__(self, tensor: Tensor, filled: int):
        self.tensor, self.filled = tensor, filled

    def with_space(self, length: int, more: int) -> _Buffer:
        """Return a buffer with the first `length` tokens and space for `more`.

        Reuse this one unless it is full or another step from the same state has extended it.
        """
        if self.filled == length and length + more <= self.tensor.shape[-2]:
            return self
        shape = list(self.tensor.shape)
        shape[-2] = max(length + _SPARE_STEPS * more, 2 * length)
        larger = self.tensor.new_empty(shape)
        larger[..., :length, :] = self.tensor[..., :length, :]
        return _Buffer(larger, length)

    def select(self, rows_N: Tensor, length: int) -> _Buffer:
        """Copy the first `length` tokens of the sentences `rows_N`; keep the capacity."""
        shape = list(self.tensor.shape)
        shape[2] = len(rows_N)
        selected = self.tensor.new_empty(shape)
        for old, new in zip(self.tensor.flatten(0, 1), selected.flatten(0, 1), strict=True):
            torch.index_select(old[..., :length, :], 0, rows_N, out=new[..., :length, :])
        return _Buffer(selected, length)


@dataclass(frozen=True)
class TreeCache:
    """A KV cache in which hypotheses are paths through a tree that grows by K tokens per step.

    Reordering a beam copies only the mask `path_BM`, not keys and values.
    """

    decoder: Decoder
    tree: _Buffer
    memory: Tensor  # keys and values of the encoder's output, [L, 2, N, H, S, E]
    source_mask: Tensor  # [N, 1, 1, S]
    sentence_B: Tensor  # the sentence of each row
    slot_BK: Tensor  # bool, one-hot: the row's index among its sentence's K rows
    path_BM: Tensor  # bool: the tree's tokens on the row's path
    length: int

    def select(self, rows_B: Tensor) -> TreeCache:
        """Reorder the state: new row i is old row rows_B[i].

        If sentences keep different numbers of rows, each row becomes a separate sentence.
        """
        sentence_B = self.sentence_B.index_select(0, rows_B)
        state = replace(self, path_BM=self.path_BM.index_select(0, rows_B))
        if torch.equal(sentence_B, self.sentence_B):
            return state
        sentences, rows_each = sentence_B.unique_consecutive(return_counts=True)
        if (rows_each != rows_each[:1]).any():
            sentences, rows_each = sentence_B, torch.ones_like(sentence_B)
        N = len(sentences)
        K = len(rows_B) // max(N, 1)
        state = replace(
            state,
            sentence_B=torch.arange(N, device="cpu").repeat_interleave(rows_each),
            slot_BK=torch.eye(K, dtype=torch.bool, device="cpu").repeat(N, 1),
        )
        if torch.equal(sentences, torch.arange(len(self.source_mask), device="cpu")):
            return state
        return replace(
            state,
            tree=self.tree.select(sentences, self.path_BM.shape[1]),
            memory=self.memory.index_select(2, sentences),
            source_mask=self.source_mask.index_select(0, sentences),
        )

    def as_kv_cache(self) -> KVCache:
        """Convert to a plain cache with one copy of the path per row."""
        index_BT = self.path_BM.nonzero()[:, 1].view(len(self.path_BM), self.length)

        def per_row(keys_NHSE: Tensor) -> Tensor:
            return keys_NHSE.index_select(0, self.sentence_B)

        def path(keys_NHME: Tensor) -> Tensor:
            rows_BHME = per_row(keys_NHME)
            shape = (-1, rows_BHME.shape[1], -1, rows_BHME.shape[-1])
            return rows_BHME.gather(2, index_BT[:, None, :, None].expand(shape))

        target = tuple((path(k), path(v)) for k, v in self.tree.tensor)
        cross = tuple((per_row(k), per_row(v)) for k, v in self.memory)
        mask = self.source_mask.index_select(0, self.sentence_B)
        return KVCache(target, cross, mask, self.length)


class FastTransformer(Transformer):
    """A Transformer that decodes with step.c.

    Falls back to torch for parts without a kernel, edited states, heads or softmax, a finite mask
    value, and what `supports` rejects.
    """

    @torch.inference_mode()
    def start(self, source_BS: Tensor) -> KVCache | TreeCache:
        weight = self.embeddings.target_weight
        if not supports(weight[:1]) or not self._is_standard():
            return super().start(source_BS)
        memory_NSD, source_mask = self.encode(source_BS)
        N, S, D = memory_NSD.shape
        layers = [_packed(layer) for layer in self.decoder]
        shape = N, S, 2, self.config.heads("cross"), -1
        projected = [kv.run(memory_NSD.view(N * S, D)).view(shape) for _, kv in layers]
        memory = torch.stack(projected).permute(0, 3, 1, 4, 2, 5).contiguous()
        return TreeCache(
            decoder=Decoder([layer for layer, _ in layers]),
            tree=_Buffer(memory[..., :0, :], 0),
            memory=memory,
            source_mask=source_mask.contiguous(),
            sentence_B=torch.arange(N, device="cpu"),
            slot_BK=source_mask.new_ones(N, 1),
            path_BM=source_mask.new_empty(N, 0),
            length=0,
        )

    @torch.inference_mode()
    def step(self, token_B: Tensor, state: KVCache | TreeCache) -> tuple[Tensor, Any]:
        if isinstance(state, KVCache):
            return super().step(token_B, state)
        x_BD = self.embeddings.target_token(token_B, state.length)
        if not supports(x_BD) or not self._is_standard():
            return super().step(token_B, state.as_kv_cache())
        K = state.slot_BK.shape[1]
        path_BM = torch.cat((state.path_BM, state.slot_BK), dim=1)
        M = path_BM.shape[1]
        tree = state.tree.with_space(M - K, K)
        bias_HT = None
        if self.config.relative_buckets:
            bias_HT = self.decoder_bias(1, state.length + 1)[:, 0].contiguous()
        state.decoder.step(x_BD, tree.tensor, path_BM, state.memory, state.source_mask, bias_HT)
        tree.filled = M
        logits_BV = self.classify(self.decoder_norm(x_BD))
        return logits_BV, replace(state, tree=tree, path_BM=path_BM, length=state.length + 1)

    def _is_standard(self) -> bool:
        return (
            _has_kernels(self.config)
            and "change_state" not in vars(self)
            and all(map(_is_standard, self.decoder))
        )


def _has_kernels(config: ModelConfig) -> bool:
    """Return whether step.c has every part of such a decoder's layers."""
    return config.norm != "deviation"


def _is_standard(layer: nn.Module) -> bool:
    """Return whether a layer has no edited heads, no edited softmax and no finite mask value."""
    assert isinstance(layer, DecoderLayer)
    return all(
        attention.mask_score is None
        and "attend" not in vars(attention)
        and not attention.output._forward_pre_hooks
        for attention in (layer.self_attention, layer.cross_attention)
    )


_Entry = tuple[tuple[tuple[int, int], ...], list[Tensor], tuple[Layer, Product]]
_cache: WeakKeyDictionary[nn.Module, _Entry] = WeakKeyDictionary()


def _packed(layer: Any) -> tuple[Layer, Product]:
    """Return a layer for step.c, and its product from memory to cross keys and values.

    Both are repacked if a weight was replaced or written to. The packed tensors are kept alive, so
    that their addresses cannot be reused.
    """
    parameters = _parameters(layer)
    if any(p.is_inference() for p in parameters):  # they have no version counter
        return _pack(layer)
    state = tuple((p.data_ptr(), p._version) for p in parameters)
    entry = _cache.get(layer)
    if entry is None or entry[0] != state:
        entry = _cache[layer] = state, [p.detach() for p in parameters], _pack(layer)
    return entry[2]


def _parameters(module: nn.Module) -> list[nn.Parameter]:
    """Return a module's parameters; `module.parameters()` skips duplicates and is 3.5× slower."""
    parameters = [p for p in module._parameters.values() if p is not None]
    for child in module._modules.values():
        if child is not None:
            parameters += _parameters(child)
    return parameters


@torch.no_grad()
def _pack(layer: Any) -> tuple[Layer, Product]:
    attention, cross = layer.self_attention, layer.cross_attention
    feed = layer.feed_forward
    products = [_fused(attention.query, attention.key, attention.value)]
    products += map(_fused, (attention.output, cross.query, cross.output))
    products += [_fused(feed.inner, *([feed.gate] if feed.gate else [])), _fused(feed.outer)]
    norms = [
        (norm.weight.detach(), None if norm.bias is None else norm.bias.detach(), norm.eps)
        for norm in (layer.norm1, layer.norm2, layer.norm3)
    ]
    packed = Layer(
        products,
        norms,
        norm_first=layer.norm_first,
        activation=feed.activation,
        scaled=attention.scale_scores,
        gated=feed.gate is not None,
    )
    return packed, _fused(cross.key, cross.value)


def _fused(*layers: nn.Linear) -> Product:
    """Fuse layers with the same input into one product, with their outputs concatenated.

    A single layer uses the packed copy of accelerate.layers, which the pass after a search reuses.
    """
    weight, bias = layers[0].weight, layers[0].bias
    if len(layers) == 1 and not weight.is_inference():
        return product(weight, bias)
    weight = torch.cat([layer.weight for layer in layers])
    biases: Sequence[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
    return Product(weight, torch.cat(list(biases)) if biases else None)
