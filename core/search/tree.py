"""The tree of a beam search: every hypothesis considered, its score and its status.

The tree is built from the steps of core.search.beam; a plain search does not build it.
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
"""The status of a hypothesis.

open: extended by the next step. left: still in the beam when the search terminated. finished: one
of the results. overtaken: it ended, but so did K better hypotheses. pruned: not among the best
candidates of its step.
"""


@dataclass(frozen=True)
class TreeNode:
    """A hypothesis: its parent's tokens plus one with log-probability `log_prob` (nats).

    `parent` is an index into the tree's nodes, None for the root (<bos>). `step` is the number of
    tokens on the path, `rank` the rank among that step's candidates, from 0. `total` is the sum of
    log-probabilities along the path, `score` that sum after the length penalty. `next` holds the
    most likely next ids with their log-probabilities, if the hypothesis was extended.
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
    """The search tree of one sentence: the root first, each parent before its children.

    `hypotheses` are the results, best first, and `ends` their nodes. `limit` is the maximum length
    of a path. The first `forced` steps followed a forced prefix.
    """

    nodes: tuple[TreeNode, ...]
    hypotheses: tuple[Hypothesis, ...]
    ends: tuple[int, ...]
    decode: DecodeConfig
    limit: int
    forced: int

    def path(self, index: int) -> tuple[int, ...]:
        """Return the indices of the nodes from the first token to this one."""
        indices: list[int] = []
        at: int | None = index
        while at is not None:
            indices.append(at)
            at = self.nodes[at].parent
        return tuple(indices[-2::-1])

    def ids(self, index: int) -> tuple[int, ...]:
        """Return the token ids along the path, without <bos>."""
        return tuple(self.nodes[i].id for i in self.path(index))


@dataclass(frozen=True)
class WrittenTree(Frozen):
    """A search tree with the tokens of its ids and the texts of its hypotheses."""

    tree: SearchTree
    tokens: Mapping[int, Token]
    texts: tuple[str, ...]


@torch.inference_mode()
def search_tree(
    model: Seq2Seq,
    source_1S: Tensor,
    config: DecodeConfig,
    prefix: tuple[int, ...] = (),
    certain: int = 0,
) -> SearchTree:
    """Search one sentence like core.search.beam and record every step; beam 1 is greedy.

    A forced `prefix` of ids is followed first, whatever its probability; its first `certain` ids,
    which the network forces, have the log-probability 0. Raises ValueError if it is too long,
    continues after <eos>, or contains an id that cannot be generated.
    """
    limit = length_limit(source_1S.shape[1], model.config.max_length)
    if len(prefix) > limit:
        raise ValueError(f"a prefix of {len(prefix)} tokens is too long: the limit is {limit}")
    if EOS in prefix[:-1]:
        raise ValueError("nothing may follow after <eos>: leave it out to continue")
    if not all(EOS <= id < model.config.target_vocab_size for id in prefix):
        raise ValueError("a token of the prefix is not in the vocabulary: choose another")
    if config.beam == 1:  # greedy search never compares different lengths
        config = dataclasses.replace(config, length_penalty=0.0)
    root = TreeNode(None, BOS, 0, 0, 0.0, 0.0, 0.0, "open")
    nodes = [root]
    index_of: dict[tuple[int, ...], int] = {(): 0}
    state = first_beam_state(config.beam)
    for number, step in enumerate(steps(model, source_1S, config, prefix, certain), start=1):
        log_probs_KV, candidates, after = step.log_probs()[0], step.candidates[0], step.beams[0]
        best = log_probs_KV.topk(min(ALTERNATIVES, log_probs_KV.shape[-1]), dim=-1)
        for row, (ids, total) in enumerate(zip(state.prefixes, state.totals, strict=True)):
            if total > -math.inf:
                pairs = zip(best.indices[row].tolist(), best.values[row].tolist(), strict=True)
                node = nodes[index_of[ids]]
                nodes[index_of[ids]] = dataclasses.replace(node, next=tuple(pairs), status="open")
        survivors = set(after.prefixes)
        for rank, candidate in enumerate(candidates):
            if candidate.total == -math.inf:
                continue
            ids = (*state.prefixes[candidate.row], candidate.id)
            status: Status = "pruned"
            if ids in survivors:
                status = "left"  # until the next step extends it
            elif rank < config.beam and (candidate.id == EOS or number == limit):
                status = "overtaken"  # unless it is one of the results
            index_of[ids] = len(nodes)
            nodes.append(
                TreeNode(
                    parent=index_of[ids[:-1]],
                    id=candidate.id,
                    step=number,
                    rank=rank,
                    log_prob=log_probs_KV[candidate.row, candidate.id].item()
                    if number > certain
                    else 0.0,
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
