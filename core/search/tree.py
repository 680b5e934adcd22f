"""A search as a tree: every hypothesis that a beam looked at, what it scored and what became of it.

The tree is built beside core.search.beam's own steps; a search that nobody watches builds none.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from core.config import DecodeConfig
from core.frozen import Frozen
from core.model.interface import Seq2Seq
from core.search.beam import Hypothesis, first_beam_state, length_limit, penalised, steps
from core.text.tokenizer import BOS, EOS, Token

ALTERNATIVES = 5

Status = Literal["open", "left", "finished", "overtaken", "pruned"]
"""What became of a hypothesis.

open: the model was asked how it goes on. left: it still stood when the search was settled.
finished: it is among the results. overtaken: it ended, and K better ones did. pruned: others did
better in its step.
"""


@dataclass(frozen=True)
class TreeNode:
    """One hypothesis: its parent's tokens and one more, whose log-probability is `log_prob` (nats).

    `parent` is an index into the tree's nodes, None for the root (<bos>). `step` counts the tokens
    of the path, `rank` its place among all that were looked at in that step, from 0. `total` is
    the sum along the path, `score` that sum after the length penalty, as if it ended here. `next`
    are the likeliest next ids with their log-probabilities, if the model was asked for them.
    """

    parent: int | None
    id: int
    step: int
    rank: int
    log_prob: float
    total: float
    score: float
    status: Status
    forced: bool = False
    next: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class SearchTree:
    """All of one sentence's search: the root first, and each parent before its children.

    `hypotheses` are what the search found, best first, and `ends` their nodes. `limit` is how many
    tokens a path may have. The first `forced` steps followed a given prefix.
    """

    nodes: tuple[TreeNode, ...]
    hypotheses: tuple[Hypothesis, ...]
    ends: tuple[int, ...]
    decode: DecodeConfig
    limit: int
    forced: int

    def path(self, index: int) -> tuple[int, ...]:
        """The nodes from the first token to this one."""
        indices: list[int] = []
        at: int | None = index
        while at is not None:
            indices.append(at)
            at = self.nodes[at].parent
        return tuple(indices[-2::-1])

    def ids(self, index: int) -> tuple[int, ...]:
        """The token ids along the path, without <bos>."""
        return tuple(self.nodes[i].id for i in self.path(index))


@dataclass(frozen=True)
class WrittenTree(Frozen):
    """A tree with the words for it: its ids' tokens, and the hypotheses' texts in their order."""

    tree: SearchTree
    tokens: Mapping[int, Token]
    texts: tuple[str, ...]


@torch.inference_mode()
def search_tree(
    model: Seq2Seq, source_1S: Tensor, config: DecodeConfig, prefix: tuple[int, ...] = ()
) -> SearchTree:
    """Search one sentence as core.search.beam does and keep everything; beam 1 is greedy.

    The search follows the ids of `prefix` first, whatever their probability. Raises ValueError for
    one that is longer than a translation may be, goes on after <eos>, or cannot be written.
    """
    limit = length_limit(source_1S.shape[1], model.config.max_length)
    if len(prefix) > limit:
        raise ValueError(f"{len(prefix)} tokens are too many to begin with: the limit is {limit}")
    if EOS in prefix[:-1]:
        raise ValueError("nothing comes after <eos>: leave it out to go on")
    if not all(EOS <= id < model.config.target_vocab_size for id in prefix):
        raise ValueError("a token to begin with is not in the vocabulary: choose another")
    if config.beam == 1:  # greedy compares nothing of different length
        config = dataclasses.replace(config, length_penalty=0.0)
    root = TreeNode(None, BOS, 0, 0, 0.0, 0.0, 0.0, "open")
    nodes = [root]
    index_of: dict[tuple[int, ...], int] = {(): 0}
    state = first_beam_state(config.beam)
    for number, step in enumerate(steps(model, source_1S, config, prefix), start=1):
        log_probs_KV, candidates, after = step.log_probs()[0], step.candidates[0], step.beams[0]
        best = log_probs_KV.topk(min(ALTERNATIVES, log_probs_KV.shape[-1]), dim=-1)
        for row, (ids, total) in enumerate(zip(state.prefixes, state.totals, strict=True)):
            if total > -math.inf:
                pairs = zip(best.indices[row].tolist(), best.values[row].tolist(), strict=True)
                asked = dataclasses.replace(nodes[index_of[ids]], next=tuple(pairs), status="open")
                nodes[index_of[ids]] = asked
        standing = set(after.prefixes)
        for rank, candidate in enumerate(candidates):
            if candidate.total == -math.inf:
                continue
            ids = (*state.prefixes[candidate.row], candidate.id)
            status: Status = "pruned"
            if ids in standing:
                status = "left"  # until the next step asks how it goes on
            elif rank < config.beam and (candidate.id == EOS or number == limit):
                status = "overtaken"  # unless it is found among the results
            index_of[ids] = len(nodes)
            nodes.append(
                TreeNode(
                    parent=index_of[ids[:-1]],
                    id=candidate.id,
                    step=number,
                    rank=rank,
                    log_prob=log_probs_KV[candidate.row, candidate.id].item(),
                    total=candidate.total,
                    score=penalised(candidate.total, number, config.length_penalty),
                    status=status,
                    forced=number <= len(prefix),
                )
            )
        state = after
    ends = tuple(index_of[h.ids] for h in state.finished)
    for end in ends:
        nodes[end] = dataclasses.replace(nodes[end], status="finished")
    return SearchTree(tuple(nodes), tuple(state.finished), ends, config, limit, len(prefix))
