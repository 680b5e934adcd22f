"""The steps of a search by step.c: all hypotheses of a sentence share one tree of keys and values.

Axes as in transformer.py; B rows are K hypotheses of each of N sentences, one sentence after the
other; M are the tokens that all of a sentence's hypotheses have written so far; L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from core.accelerate.kernels import Decoder, Layer, Product, takes
from core.accelerate.layers import product
from core.model.decoding import KVCache
from core.model.transformer import DecoderLayer, MultiHeadAttention, Transformer

_ROOM = 8  # steps that a new buffer has room for


class _Buffer:
    """Keys and values of a tree, [L, 2, N, H, room, E]: the first `filled` tokens are written."""

    def __init__(self, tensor: Tensor, filled: int):
        self.tensor, self.filled = tensor, filled

    def with_room(self, written: int, more: int) -> _Buffer:
        """Return a buffer of the first `written` tokens with room for `more`: itself, if it can.

        It cannot for a state that is stepped a second time, because its room is taken.
        """
        room = self.tensor.shape[-2]
        if self.filled == written and written + more <= room:
            return self
        shape = list(self.tensor.shape)
        shape[-2] = max(written + _ROOM * more, 2 * written)
        wider = self.tensor.new_empty(shape)
        wider[..., :written, :] = self.tensor[..., :written, :]
        return _Buffer(wider, written)

    def select(self, rows_N: Tensor, written: int) -> _Buffer:
        """Return the first `written` tokens of these sentences, with as much room."""
        shape = list(self.tensor.shape)
        shape[2] = len(rows_N)
        chosen = self.tensor.new_empty(shape)
        for old, new in zip(self.tensor.flatten(0, 1), chosen.flatten(0, 1), strict=True):
            torch.index_select(old[..., :written, :], 0, rows_N, out=new[..., :written, :])
        return _Buffer(chosen, written)


@dataclass(frozen=True)
class TreeCache:
    """The KV cache of all hypotheses as paths through a tree of M tokens, K more with each step.

    To follow the survivors of a beam, only the mask `path_BM` is copied.
    """

    decoder: Decoder
    tree: _Buffer
    memory: Tensor  # [L, 2, N, H, S, E]: keys and values of the encoder's output
    source_mask: Tensor  # [N, 1, 1, S]
    sentence_B: Tensor  # the sentence of each row
    itself_BK: Tensor  # bool: which of a sentence's K rows it is
    path_BM: Tensor  # bool: the tokens of the tree that it consists of
    length: int

    def select(self, rows_B: Tensor) -> TreeCache:
        """Return the state whose row i is this state's row rows[i].

        Where sentences keep different numbers of rows, each row becomes a sentence of its own.
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
            itself_BK=torch.eye(K, dtype=torch.bool, device="cpu").repeat(N, 1),
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
        """Return the same as a plain cache with one path a row."""
        place_BT = self.path_BM.nonzero()[:, 1].view(len(self.path_BM), self.length)

        def written(keys_NHME: Tensor) -> Tensor:
            rows_BHME = keys_NHME.index_select(0, self.sentence_B)
            shape = (-1, rows_BHME.shape[1], -1, rows_BHME.shape[-1])
            return rows_BHME.gather(2, place_BT[:, None, :, None].expand(shape))

        def of_source(keys_NHSE: Tensor) -> Tensor:
            return keys_NHSE.index_select(0, self.sentence_B)

        own = tuple((written(k), written(v)) for k, v in self.tree.tensor)
        cross = tuple((of_source(k), of_source(v)) for k, v in self.memory)
        mask = self.source_mask.index_select(0, self.sentence_B)
        return KVCache(own, cross, mask, self.length)


class FastTransformer(Transformer):
    """A Transformer whose searches step by step.c.

    An edited softmax, a finite mask value, another device or type go the plain way.
    """

    @torch.inference_mode()
    def start(self, source_BS: Tensor) -> KVCache | TreeCache:
        weight = self.embeddings.target_weight
        if not takes(weight[:1]) or not all(map(_plain, self.decoder)):
            return super().start(source_BS)
        memory_NSD, source_mask = self.encode(source_BS)
        N, S, D = memory_NSD.shape
        layers = [_packed(layer) for layer in self.decoder]
        shape = N, S, 2, self.config.num_heads, -1
        every = [kv.run(memory_NSD.view(N * S, D)).view(shape) for _, kv in layers]
        memory = torch.stack(every).permute(0, 3, 1, 4, 2, 5).contiguous()
        return TreeCache(
            decoder=Decoder([layer for layer, _ in layers]),
            tree=_Buffer(memory[..., :0, :], 0),
            memory=memory,
            source_mask=source_mask.contiguous(),
            sentence_B=torch.arange(N, device="cpu"),
            itself_BK=source_mask.new_ones(N, 1),
            path_BM=source_mask.new_empty(N, 0),
            length=0,
        )

    @torch.inference_mode()
    def step(self, token_B: Tensor, state: KVCache | TreeCache) -> tuple[Tensor, Any]:
        if isinstance(state, KVCache):
            return super().step(token_B, state)
        x_BD = self.embeddings.target_token(token_B, state.length)
        if not takes(x_BD) or not all(map(_plain, self.decoder)):
            return super().step(token_B, state.as_kv_cache())
        K = state.itself_BK.shape[1]
        path_BM = torch.cat((state.path_BM, state.itself_BK), dim=1)
        M = path_BM.shape[1]
        tree = state.tree.with_room(M - K, K)
        state.decoder.step(x_BD, tree.tensor, path_BM, state.memory, state.source_mask)
        tree.filled = M
        logits_BV = self.classify(self.decoder_norm(x_BD))
        return logits_BV, replace(state, tree=tree, path_BM=path_BM, length=state.length + 1)


def _plain(layer: nn.Module) -> bool:
    """Whether both attentions of a layer are the paper's: without an edit or a mask value."""
    assert isinstance(layer, DecoderLayer)
    return not any(map(_changed, (layer.self_attention, layer.cross_attention)))


def _changed(attention: MultiHeadAttention) -> bool:
    return "attend" in vars(attention) or attention.mask_score is not None


_Known = tuple[tuple[tuple[int, int], ...], list[Tensor], tuple[Layer, Product]]
_known: WeakKeyDictionary[nn.Module, _Known] = WeakKeyDictionary()


def _packed(layer: Any) -> tuple[Layer, Product]:
    """Return a layer for step.c, and its product from memory to cross keys and values.

    Packed again when a weight is another tensor or was written to. The tensors that were packed are
    kept, so that no other can be allocated at their address.
    """
    parameters = _parameters(layer)
    if any(p.is_inference() for p in parameters):  # these do not count their writes
        return _pack(layer)
    state = tuple((p.data_ptr(), p._version) for p in parameters)
    known = _known.get(layer)
    if known is None or known[0] != state:
        known = _known[layer] = state, [p.detach() for p in parameters], _pack(layer)
    return known[2]


def _parameters(module: nn.Module) -> list[nn.Parameter]:
    """torch's `module.parameters()`, which takes 3.5 times as long to skip duplicates."""
    own = [p for p in module._parameters.values() if p is not None]
    for part in module._modules.values():
        if part is not None:
            own += _parameters(part)
    return own


@torch.no_grad()
def _pack(layer: Any) -> tuple[Layer, Product]:
    own, cross, feed_forward = layer.self_attention, layer.cross_attention, layer.feed_forward
    joined = [_joined(own.query, own.key, own.value)]
    single = own.output, cross.query, cross.output, feed_forward.inner, feed_forward.outer
    joined += [_joined(one) for one in single]
    norms = [
        (norm.weight.detach(), norm.bias.detach(), norm.eps)
        for norm in (layer.norm1, layer.norm2, layer.norm3)
    ]
    return Layer(joined, norms, layer.norm_first), _joined(cross.key, cross.value)


def _joined(*layers: nn.Linear) -> Product:
    """Return layers with the same input as one product: their outputs side by side.

    A single one shares what `linear` keeps, so that the pass after a search finds it in the cache.
    """
    weight, bias = layers[0].weight, layers[0].bias
    if len(layers) == 1 and not weight.is_inference():
        return product(weight, bias)
    weight = torch.cat([layer.weight for layer in layers])
    biases: Sequence[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
    return Product(weight, torch.cat(list(biases)) if biases else None)
