"""Loss with heads ablated, as sums over a corpus.

Axes: B sentences of a chunk, C sets of ablated heads, N heads, R replicates, T target tokens, H
heads of a layer, D d_model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.atlas.atlas import TokenLoss
from core.atlas.corpus import Sentence
from core.atlas.intervals import holm, interval, p_values
from core.atlas.sums import Sums, bootstrap_weights
from core.checkpoint.folder import Checkpoint
from core.experiments.head_effects import Off, choice_batches, heads_of, log_probs_without
from core.experiments.importance import batches_of, head_sums
from core.frozen import Doubles
from core.kinds import KINDS, Kind
from core.model.interface import Seq2Seq
from core.record.editing import Means
from core.record.edits import Head
from core.text.tokenizer import Tokenizer

Chunk = Sequence[Sentence]
Arrays = dict[str, NDArray]

TOKENS = 12
"""The most target tokens that are named for a head."""
LEAST_COUNT = 5
"""How often a token must occur in the corpus to be named."""

_RESOLUTION = 1e-6  # nats: float32 logits round a log-probability by about as much


def losses_without(
    checkpoint: Checkpoint,
    sentence: Sentence,
    choices: Sequence[Off],
    means: Means | None = None,
) -> Doubles:
    """Return the loss of each target token with each set of heads ablated: [C, T], in nats."""
    source, target = sentence.ids
    return np.concatenate(
        [
            -log_probs_without(checkpoint.model, source, target, batch, means)
            for batch in choice_batches(checkpoint.model.config, choices, source, target)
        ]
    )


def losses_without_each(
    checkpoint: Checkpoint, sentence: Sentence, means: Means | None = None
) -> Doubles:
    """Return the loss of each target token without ablation and without each head: [1 + N, T]."""
    return losses_without(checkpoint, sentence, none_and_each(checkpoint.model), means)


def none_and_each(model: Seq2Seq) -> list[Off]:
    """Return the empty set of heads, then one set for each head."""
    return [frozenset(), *(frozenset({head}) for head in heads_of(model))]


@dataclass(frozen=True, eq=False)
class SetLosses:
    """Measure the loss with each set of heads in `choices` zero-ablated. Sums:

    - NAME_loss [1 + R, 1 + C]: in nats. Row 0 is the corpus, the others its bootstrap replicates;
      column 0 is without ablation, the others follow `choices`
    - NAME_tokens [1 + R]: the target tokens
    - NAME_sentences: the sentences
    """

    name: str
    choices: tuple[tuple[Head, ...], ...]

    def __call__(self, checkpoint: Checkpoint, chunk: Chunk) -> Sums:
        choices = [frozenset(choice) for choice in ((), *self.choices)]
        losses_BC = [losses_without(checkpoint, s, choices).sum(-1) for s in chunk]
        return Sums(_weighted(self.name, chunk, np.array(losses_BC)))


@dataclass(frozen=True, eq=False, repr=False)
class HeadLosses:
    """Measure the loss with each head ablated by itself, to zero or to its mean (see `means_of`).

    The sums are those of `SetLosses`, with the method as NAME and N heads for C. Zero ablation adds
    two:

    - zero_token_ID [N]: the change of the loss, summed over a token's occurrences
    - zero_each_INDEX [B, N]: each sentence's change in nats per token; INDEX is the index of the
      chunk's first sentence

    """

    means: Means | None = None

    @property
    def method(self) -> Literal["zero", "mean"]:
        """The kind of ablation."""
        return "mean" if self.means else "zero"

    def __repr__(self) -> str:
        """Identify the measure, with a hash of its means: a tensor's repr omits most values."""
        digest = hashlib.sha256()
        for where, mean_HD in sorted((self.means or {}).items()):
            digest.update(repr(where).encode() + mean_HD.cpu().numpy().tobytes())
        means = f", means={digest.hexdigest()}" if self.means else ""
        return f"HeadLosses({self.method!r}{means})"

    def __call__(self, checkpoint: Checkpoint, chunk: Chunk) -> Sums:
        losses_BCT = [losses_without_each(checkpoint, s, self.means) for s in chunk]
        return self.sums(chunk, losses_BCT)

    def sums(self, chunk: Chunk, losses_BCT: Sequence[Doubles]) -> Sums:
        """Return the sums of a chunk from its sentences' losses; see `losses_without_each`."""
        arrays = _weighted(self.method, chunk, np.array([x.sum(-1) for x in losses_BCT]))
        if self.method == "zero":
            changes_B = [losses[1:] - losses[0] for losses in losses_BCT]
            first = min(sentence.index for sentence in chunk)
            arrays[f"zero_each_{first:09}"] = np.array([change.mean(-1) for change in changes_B])
            for sentence, change_NT in zip(chunk, changes_B, strict=True):
                for token, change_N in zip(sentence.target, change_NT.T, strict=True):
                    name = f"zero_token_{token.id}"
                    arrays[name] = arrays.get(name, 0) + change_N
        return Sums(arrays)


@dataclass(frozen=True)
class HeadOutputs:
    """Measure each head's output, whose mean replaces it in mean ablation.

    Sums: outputs_KIND_LAYER [H, D] over all queries, and queries_KIND_LAYER.
    """

    def __call__(self, checkpoint: Checkpoint, chunk: Chunk) -> Sums:
        model = checkpoint.model
        device = str(next(model.parameters()).device)
        sums, counts = head_sums(model, batches_of([s.ids for s in chunk], device))
        arrays: dict[str, np.ndarray] = {}
        for (kind, layer), sum_HD in sums.items():
            arrays[f"outputs_{kind}_{layer}"] = sum_HD.cpu().numpy()
            arrays[f"queries_{kind}_{layer}"] = np.array(counts[kind, layer], np.int64)
        return Sums(arrays)


def means_of(sums: Sums, device: str = "cpu") -> Means:
    """Return the means for mean ablation from the sums of `HeadOutputs`, float32 [H, D]."""
    means: dict[tuple[Kind, int], Tensor] = {}
    for kind in KINDS:
        for layer in range(sum(name.startswith(f"outputs_{kind}_") for name in sums)):
            mean_HD = sums[f"outputs_{kind}_{layer}"] / sums[f"queries_{kind}_{layer}"]
            means[kind, layer] = torch.tensor(mean_HD, dtype=torch.float32, device=device)
    return means


def per_token(sums: Sums, name: str) -> Doubles:
    """Return the loss in nats per target token: [1 + R, 1 + C]; row 0 is the corpus itself.

    The other rows are the bootstrap replicates; a replicate that drew no sentence is NaN.
    """
    with np.errstate(invalid="ignore"):
        return sums[f"{name}_loss"] / sums[f"{name}_tokens"][:, None]


def changes(sums: Sums, name: str) -> Doubles:
    """Return the change of the loss per token with each set of heads ablated: [1 + R, C]."""
    loss_RC = per_token(sums, name)
    return loss_RC[:, 1:] - loss_RC[:, :1]


def sentences_of(sums: Sums, name: str) -> int:
    """Return how many sentences were measured."""
    return int(sums[f"{name}_sentences"])


def head_losses(sums: Sums, method: Literal["zero", "mean"] = "zero") -> Arrays:
    """Return the `Atlas` arrays from the sums of `HeadLosses`.

    For "zero", these are loss, zero, zero_p and deciles; for "mean", they are mean and mean_p.
    """
    change_RN, count = changes(sums, method), sentences_of(sums, method)
    p_N = p_values(change_RN, count, _RESOLUTION)
    arrays = {method: interval(change_RN, count), f"{method}_p": holm(p_N)}
    if method == "zero":
        each_BN = np.concatenate([sums[name] for name in sums if name.startswith("zero_each_")])
        arrays["loss"] = interval(per_token(sums, method)[:, 0], count)
        arrays["deciles"] = np.quantile(each_BN, np.arange(1, 10) / 10, axis=0).T
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def affected_tokens(
    sums: Sums, counts: Mapping[int, int], tokenizer: Tokenizer
) -> tuple[tuple[TokenLoss, ...], ...]:
    """Return, per head, the target tokens whose mean loss rises most when the head is zero-ablated.

    Each head gets at most TOKENS, largest rise first. Only tokens whose loss rises and that occur
    at least LEAST_COUNT times in the corpus are named; `counts` are these occurrences. The rarer a
    token, the more easily it ranks high by chance.
    """
    ids = sorted(id for id, count in counts.items() if count >= LEAST_COUNT)
    if not ids:
        return tuple(() for _ in range(sums["zero_loss"].shape[1] - 1))
    mean_NI = np.stack([sums[f"zero_token_{id}"] / counts[id] for id in ids], axis=1)
    return tuple(
        tuple(
            TokenLoss(tokenizer.token(ids[i]).text, float(np.float32(mean_I[i])), counts[ids[i]])
            for i in np.argsort(-mean_I, kind="stable")[:TOKENS]
            if mean_I[i] > _RESOLUTION
        )
        for mean_I in mean_NI
    )


def _weighted(name: str, chunk: Chunk, losses_BC: Doubles) -> dict[str, np.ndarray]:
    """Return the sums of `SetLosses` from the loss of each sentence, [B, 1 + C], in nats."""
    weights_BR = bootstrap_weights(sentence.index for sentence in chunk)
    tokens_B = np.array([len(sentence.target) for sentence in chunk], np.float64)
    return {
        f"{name}_loss": weights_BR.T @ losses_BC,
        f"{name}_tokens": weights_BR.T @ tokens_B,
        f"{name}_sentences": np.array(len(chunk), np.int64),
    }
