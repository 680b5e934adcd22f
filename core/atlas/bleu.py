"""BLEU of greedy translations with heads ablated, as sums over a corpus.

Axes: B sentences; N heads; C sets of ablated heads (index 0 of [1 + C] is the unedited network); R
replicates (index 0 of [1 + R] is the sample itself); G = 10 n-gram statistics of sacreBLEU (the
lengths of translation and reference, then matches and totals of 1- to 4-grams).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from core.accelerate.network import accelerate
from core.atlas.corpus import Sentence
from core.atlas.intervals import holm, interval, p_values
from core.atlas.losses import Arrays
from core.atlas.sums import Array, Sums, bootstrap_weights
from core.checkpoint.folder import Checkpoint
from core.config import DecodeConfig
from core.experiments.head_effects import heads_of
from core.frozen import Doubles
from core.model.baseline import Baseline, copy_to_scratch
from core.model.build import Model
from core.model.transformer import Transformer
from core.record.editing import edited
from core.record.edits import Edits, Head
from core.search.many import translate_ids

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU

LARGE_CHUNK = 85
"""Sentences in a chunk where only BLEU is measured: more of them have similar lengths."""

_TOKENS = 800  # in a batch of sentences of similar length
_NGRAMS = 4


class Statistics:
    """Compute sacreBLEU's n-gram statistics of translations, always against the same references.

    sacreBLEU adds these up to score a corpus but has no public function that returns them. This
    class is the only place that calls the private method of `BLEU`.
    """

    def __init__(self, references: Sequence[str]):
        self._bleu = _bleu([references])

    def __call__(self, translations: Sequence[str]) -> NDArray[np.int64]:
        """Return the statistics of each translation: [B, G]."""
        return np.array(self._bleu._extract_corpus_statistics(translations, None), np.int64)


def bleu(statistics: Array) -> Doubles:
    """Compute BLEU (0 to 100) from summed statistics as `corpus_score` does: [..., G] → [...].

    The score is NaN for statistics of no sentences.
    """
    settings = _bleu()
    scores = [
        settings.compute_bleu(
            row[2 : 2 + _NGRAMS],
            row[2 + _NGRAMS :],
            row[0],
            row[1],
            smooth_method=settings.smooth_method,
            smooth_value=settings.smooth_value,
        ).score
        if row[1]
        else np.nan
        for row in statistics.reshape(-1, statistics.shape[-1]).tolist()
    ]
    return np.array(scores).reshape(statistics.shape[:-1])


@dataclass(frozen=True, eq=False)
class SetBleu:
    """Measure the BLEU statistics of greedy translations with each set of heads zero-ablated.

    Sums: NAME_ngrams int64 [1 + R, 1 + C, G] and NAME_sentences. Column 0 is without ablation, the
    others are the sets in the order of `choices`. Sets with the same encoder heads share the
    encoder's passes. A baseline has no KV cache, so the from-scratch model translates with its
    weights.
    """

    name: str
    choices: tuple[tuple[Head, ...], ...]

    def __call__(self, checkpoint: Checkpoint, chunk: Sequence[Sentence]) -> Sums:
        statistics = Statistics([sentence.reference for sentence in chunk])
        sources = [sentence.ids[0][:-1] for sentence in chunk]
        model = with_kv_cache(checkpoint.model)
        device = str(next(model.parameters()).device)
        forced = checkpoint.target_tokenizer.frame.forced
        greedy = DecodeConfig(beam=1)
        memories: dict[frozenset[Head], _Memory] = {}
        found_CBG = []
        for choice in ((), *self.choices):
            memory = memories.setdefault(frozenset(h for h in choice if h[0] == "encoder"), {})
            edits = Edits(heads_off=frozenset(choice))
            with edited(model, edits), _remembering(model, memory):
                results = translate_ids(model, sources, greedy, device, _TOKENS, forced=forced)
            texts = [checkpoint.target_tokenizer.decode(list(first.ids)) for first, *_ in results]
            found_CBG.append(statistics(texts))
        weights_BR = bootstrap_weights(sentence.index for sentence in chunk)
        # An exact product of whole numbers; numpy multiplies doubles faster than integers.
        ngrams_RCG = np.tensordot(weights_BR.T, np.array(found_CBG, np.float64), axes=(1, 1))
        return Sums(
            {
                f"{self.name}_ngrams": ngrams_RCG.astype(np.int64),
                f"{self.name}_sentences": np.array(len(chunk), np.int64),
            }
        )


def each_head(model: Model) -> SetBleu:
    """Return the measure with each head zero-ablated by itself."""
    return SetBleu("bleu", tuple((head,) for head in heads_of(model)))


def head_bleu(sums: Sums) -> Arrays:
    """Return the `Atlas` arrays bleu, bleu_zero and bleu_zero_p from the sums of `each_head`.

    A change is a difference within a replicate, so both scores are of the same sentences.
    """
    bleu_RC, count = bleu(sums["bleu_ngrams"]), int(sums["bleu_sentences"])
    change_RN = bleu_RC[:, 1:] - bleu_RC[:, :1]
    arrays = {
        "bleu": interval(bleu_RC[:, 0], count),
        "bleu_zero": interval(change_RN, count),
        "bleu_zero_p": holm(p_values(change_RN, count)),
    }
    return {name: array.astype(np.float32) for name, array in arrays.items()}


_Memory = dict[tuple[tuple[int, ...], ...], tuple[torch.Tensor, torch.Tensor]]


@contextmanager
def _remembering(model: Model, memory: _Memory) -> Generator[None]:
    """Cache the results of `model.encode` in `memory` inside the block."""
    encode = model.encode

    def remembered(source_BS: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ids = tuple(map(tuple, source_BS.tolist()))
        if ids not in memory:
            memory[ids] = encode(source_BS)
        return memory[ids]

    vars(model)["encode"] = remembered  # hides the class's method
    try:
        yield
    finally:
        del vars(model)["encode"]


@torch.inference_mode(False)  # step.c repacks inference tensors at each use
def with_kv_cache(model: Model) -> Model:
    """Return the network itself, or a baseline's weights in the from-scratch model."""
    if not isinstance(model, Baseline):
        return model
    scratch = Transformer(model.config).to(next(model.parameters())).eval()
    copy_to_scratch(model, scratch)
    accelerate(scratch)
    return scratch


def _bleu(references: Sequence[Sequence[str]] | None = None) -> BLEU:
    """Return sacreBLEU's default BLEU, as in `core.evaluate`.

    `force` suppresses the warning about text that looks tokenised.
    """
    from sacrebleu.metrics import BLEU

    return BLEU(force=True, references=references)
