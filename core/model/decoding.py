"""One token at a time: the keys and values that are kept, and the tree of a search's hypotheses.

Axes as in transformer.py; B rows are K hypotheses of each of N sentences, one sentence after the
other, and M are the tokens that all of a sentence's hypotheses have written so far; L layers.
Nothing here has gradients or dropout: the steps are those of a search.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from core.model.compiled import Decoder, takes
from core.model.packed import Multiply, PackedLayer, packed

_ROOM = 8  # steps that a new buffer has room for


class _Buffer:
    """Keys and values of a tree, [L, 2, N, H, room, E]: the first `filled` tokens are written."""

    def __init__(self, tensor: Tensor, filled: int):
        self.tensor, self.filled = tensor, filled

    def with_room(self, written: int, more: int) -> _Buffer:
        """A buffer of the first `written` tokens that has room behind them: itself, if it can.

        It cannot for a state that is stepped a second time, whose room is taken.
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
        """The first `written` tokens of these sentences, with as much room."""
        shape = list(self.tensor.shape)
        shape[2] = len(rows_N)
        chosen = self.tensor.new_empty(shape)
        for old, new in zip(self.tensor.flatten(0, 1), chosen.flatten(0, 1), strict=True):
            torch.index_select(old[..., :written, :], 0, rows_N, out=new[..., :written, :])
        return _Buffer(chosen, written)


class Cells(NamedTuple):
    """Where queries may look: `mask`, True = may, and its score: 0 or −∞; None if everywhere."""

    mask: Tensor
    score: Tensor | None

    @classmethod
    def of(cls, mask: Tensor, dtype: torch.dtype) -> Cells:
        if mask.all():
            return cls(mask, None)
        zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        return cls(mask, zeros.masked_fill_(~mask, -torch.inf))

    def select(self, rows_N: Tensor) -> Cells:
        score = None if self.score is None else self.score.index_select(0, rows_N)
        return Cells(self.mask.index_select(0, rows_N), score)


@dataclass(frozen=True)
class DecoderState:
    """All that decoding one more token needs; a value, so a search may reorder it freely.

    Its rows are paths through a tree of M tokens, K more with each step. All of a sentence's
    hypotheses are queries of one attention, over the whole tree, and a mask keeps each one to its
    path: so to follow the survivors of a beam nothing is copied but that mask. Against a cache for
    each hypothesis on its own, of a layer's own calls: 1.10 to 1.38, see `bench_model tree`.
    """

    weights: tuple[PackedLayer, ...]
    compiled: Decoder | None  # the same for step.c, where that is
    tree: _Buffer
    memory: Tensor  # [L, 2, N, H, S, E]: keys and values of the encoder's output
    source: Cells  # [N, 1, 1, S]
    sentence_B: Tensor  # whose hypothesis each row is
    itself_BK: Tensor  # bool: which of a sentence's K rows it is
    path_BM: Tensor  # bool: which tokens of the tree it consists of
    length: int

    def select(self, rows_B: Tensor) -> DecoderState:
        """The state whose row i is this state's row rows[i]: how a beam follows its survivors.

        Rows that are not as many of each sentence become sentences of their own.
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
            sentence_B=torch.arange(N, device=rows_B.device).repeat_interleave(rows_each),
            itself_BK=torch.eye(K, dtype=torch.bool, device=rows_B.device).repeat(N, 1),
        )
        if torch.equal(sentences, torch.arange(len(self.source.mask), device=rows_B.device)):
            return state
        return replace(
            state,
            tree=self.tree.select(sentences, self.path_BM.shape[1]),
            memory=self.memory.index_select(2, sentences),
            source=self.source.select(sentences),
        )


class Network(Protocol):
    """What is needed of the Transformer, which stands above this file and its `DecoderLayer`s."""

    embeddings: Any
    decoder_norm: Any

    @property
    def decoder(self) -> Iterable[Any]: ...
    def encode(self, source_BS: Tensor) -> tuple[Tensor, Tensor]: ...
    def classify(self, hidden: Tensor) -> Tensor: ...


@torch.inference_mode()
def start(network: Network, source_BS: Tensor) -> DecoderState:
    """Encode once and project the memory to every layer's cross keys and values."""
    memory_NSD, source_mask = network.encode(source_BS)
    N, S, D = memory_NSD.shape
    weights = tuple(packed(layer) for layer in network.decoder)
    compiled = [w.compiled for w in weights if w.compiled is not None]
    shape = N, S, 2, weights[0].num_heads, -1
    every = [w.cross_keys_values(memory_NSD.view(N * S, D)).view(shape) for w in weights]
    memory = torch.stack(every).permute(0, 3, 1, 4, 2, 5).contiguous()
    return DecoderState(
        weights=weights,
        compiled=Decoder(compiled) if len(compiled) == len(weights) else None,
        tree=_Buffer(memory[..., :0, :], 0),
        memory=memory,
        source=Cells.of(source_mask.contiguous(), memory.dtype),
        sentence_B=torch.arange(N, device=source_BS.device),
        itself_BK=source_mask.new_ones(N, 1),
        path_BM=source_mask.new_empty(N, 0),
        length=0,
    )


@torch.inference_mode()
def step(network: Network, token_B: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
    """Feed one token a row: logits [B, V] for the next, and the state that includes it."""
    K = state.itself_BK.shape[1]
    path_BM = torch.cat((state.path_BM, state.itself_BK), dim=1)
    M = path_BM.shape[1]
    x_BD = network.embeddings.target_token(token_B, state.length)
    tree = state.tree.with_room(M - K, K)
    if state.compiled is not None and takes(x_BD) and all(map(_plain, network.decoder)):
        state.compiled.step(x_BD, tree.tensor, path_BM, state.memory, state.source.mask)
    else:
        x_BD = _layers(network, x_BD, state, tree.tensor, path_BM)
    tree.filled = M
    logits_BV = network.classify(network.decoder_norm(x_BD))
    return logits_BV, replace(state, tree=tree, path_BM=path_BM, length=state.length + 1)


_KeysValues = tuple[Tensor, Tensor]


def _plain(layer: Any) -> bool:
    """Whether both attentions of a layer are the paper's: without an edit or a mask value."""
    return not any(map(_changed, (layer.self_attention, layer.cross_attention)))


def _changed(attention: Any) -> bool:
    return "attend" in vars(attention) or attention.mask_score is not None


def _layers(
    network: Network, x_BD: Tensor, state: DecoderState, tree: Tensor, path_BM: Tensor
) -> Tensor:
    """What step.c does, in torch: on every device, in every type, under every edit."""
    (B, M), K = path_BM.shape, state.itself_BK.shape[1]
    path = Cells.of(path_BM.view(B // K, 1, K, M), x_BD.dtype)
    # One call for all layers: a slice costs as much as a small product.
    new = tree[..., M - K : M, :].unbind(0)
    own = zip(*(tree[:, i, ..., :M, :].unbind(0) for i in (0, 1)), strict=True)
    cross = zip(*(state.memory[:, i].unbind(0) for i in (0, 1)), strict=True)
    layers = zip(network.decoder, state.weights, new, own, cross, strict=True)
    for layer, w, new_kv, kv, cross_kv in layers:
        x_BD = _layer_step(layer, w, x_BD, new_kv, (kv, path), (cross_kv, state.source))
    return x_BD


def _layer_step(
    layer: Any,
    w: PackedLayer,
    x_BD: Tensor,
    new_kv: Tensor,
    own: tuple[_KeysValues, Cells],
    memory: tuple[_KeysValues, Cells],
) -> Tensor:
    """`DecoderLayer.forward` for one new token a row, whose keys and values go to `new_kv`."""
    _, N, _, K, _ = new_kv.shape

    def look_back(h_BD: Tensor) -> Tensor:
        q_NHKE, *kv = _heads(w.qkv(h_BD), (N, K, 3, w.num_heads))
        for room, written in zip(new_kv, kv, strict=True):
            room.copy_(written)
        return _attend(layer.self_attention, h_BD, q_NHKE, *own, w.output)

    def look_across(h_BD: Tensor) -> Tensor:
        (q_NHKE,) = _heads(w.cross_query(h_BD), (N, K, 1, w.num_heads))
        return _attend(layer.cross_attention, h_BD, q_NHKE, *memory, w.cross_output)

    def feed_forward(h_BD: Tensor) -> Tensor:
        return w.outer(w.inner(h_BD).relu_())

    for norm, sublayer in zip(w.norms, (look_back, look_across, feed_forward), strict=True):
        x_BD = x_BD + sublayer(norm(x_BD)) if w.norm_first else norm(x_BD + sublayer(x_BD))
    return x_BD


def _heads(x: Tensor, shape: tuple[int, int, int, int]) -> tuple[Tensor, ...]:
    """Joined projections of B rows, apart: each [N, H, K, E]; shape is N, K, how many, H."""
    return x.view(*shape, -1).permute(2, 0, 3, 1, 4).unbind(0)


def _attend(
    attention: Any,
    h_BD: Tensor,
    q_NHKE: Tensor,
    kv: _KeysValues,
    cells: Cells,
    output: Multiply,
) -> Tensor:
    """`MultiHeadAttention.attend` with its query projected: [B, D]; its own where an edit or a
    finite mask value stands in it, which the fused kernel does not know.
    """
    if _changed(attention):
        N, _, K, _ = q_NHKE.shape
        h_NKD = h_BD.view(N, K, -1)
        return attention.attend(h_NKD, *kv, cells.mask, False)[0].flatten(0, 1)
    heads_NHKE = F.scaled_dot_product_attention(q_NHKE, *kv, cells.score)
    return output(heads_NHKE.transpose(1, 2).reshape(h_BD.shape))
