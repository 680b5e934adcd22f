"""The observed inputs of a forward pass, sufficient to verify it independently of the model.

Axes: Q query, K key, D d_model, T target token, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from core.config import ModelConfig
from core.kinds import Kind, map_sizes
from core.record.capture import AttentionCall, Captured
from core.text.tokenizer import PAD


@dataclass(frozen=True)
class SiteEvidence:
    """The inputs of one attention site, and (weight, bias) of its query and key projections.

    `distances` is the table of biases by distance
    [bucket, head], and `bias_HQK` what the model adds to the scores, both None in most networks.
    """

    kind: Kind
    layer: int
    num_heads: int
    query_QD: Tensor
    memory_KD: Tensor
    to_query: tuple[Tensor, Tensor | None]
    to_key: tuple[Tensor, Tensor | None]
    distances: Tensor | None = None
    bias_HQK: Tensor | None = None


@dataclass(frozen=True)
class Evidence:
    """The sites of one pass, in the order in which they ran, its token ids and its logits.

    `plain_logits_TV` are the logits of a second pass, without hooks. `log_probs` maps the target
    ids of hypotheses to the sum of their log-probabilities in that second pass. `learned_positions`
    are the tables of both sides, [max_length, D], or None for a fixed table. `config` is the
    network's.
    """

    sites: tuple[SiteEvidence, ...]
    source_ids: tuple[int, ...]
    target_ids: tuple[int, ...]
    logits_TV: Tensor
    plain_logits_TV: Tensor
    log_probs: Mapping[tuple[int, ...], float]
    learned_positions: tuple[Tensor, Tensor] | None
    config: ModelConfig

    @classmethod
    def of(
        cls,
        captured: Captured,
        row: int,
        lengths: tuple[int, int],
        logits_TV: Tensor,
        plain_logits_TV: Tensor,
        log_probs: Mapping[tuple[int, ...], float],
        learned_positions: tuple[Tensor, Tensor] | None,
        config: ModelConfig,
    ) -> Evidence:
        """Return the evidence of one batch row, with `lengths` tokens of source and target.

        The caller must hold the model's lock. Raises RuntimeError unless the pass embedded exactly
        two sequences, source and target, and only padding follows these lengths.
        """
        if len(captured.embedded) != 2:
            raise RuntimeError(f"the pass embedded {len(captured.embedded)} sequences, not 2")
        source, target = (
            _row(ids[row].tolist(), length)
            for ids, length in zip(captured.embedded, lengths, strict=True)
        )
        sizes = map_sizes(*lengths)
        sites = tuple(
            _site_evidence(call, row, *sizes[call.site.kind]) for call in captured.calls()
        )
        return cls(
            *(sites, source, target, logits_TV, plain_logits_TV, log_probs, learned_positions),
            config,
        )

    def sites_of(self, kind: Kind) -> list[SiteEvidence]:
        """Return the sites of a kind, sorted by layer."""
        return sorted((s for s in self.sites if s.kind == kind), key=lambda s: s.layer)


def _row(ids: list[int], length: int) -> tuple[int, ...]:
    if any(id != PAD for id in ids[length:]):
        raise RuntimeError(f"a row of {length} tokens is followed by more than padding")
    return tuple(ids[:length])


def _site_evidence(call: AttentionCall, row: int, queries: int, keys: int) -> SiteEvidence:
    site = call.site
    to_query, to_key, *_ = site.projections()
    query, memory = call.query[row, :queries], call.memory[row, :keys]
    return SiteEvidence(
        *(site.kind, site.layer, site.num_heads, query, memory, to_query, to_key),
        *(site.distances, site.bias(queries, keys)),
    )
