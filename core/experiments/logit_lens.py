"""Logit lens and DecoderLens: read intermediate states as if they were the final ones.

Axes: R row of the grid, B sentence, T target token, S source token, D d_model, V vocabulary.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.data.batches import Batch, collate, pad
from core.experiments.experiment import Ids, of_pass, of_passes
from core.frozen import Doubles, Frozen
from core.model.interface import Seq2Seq
from core.record.activations import hidden_states

Sublayer = Literal["self-attention", "cross-attention", "feed-forward"]
_DECODER: tuple[Sublayer, ...] = ("self-attention", "cross-attention", "feed-forward")


@dataclass(frozen=True)
class LensRow:
    """The layer, counted from 0, and the sub-layer after which a state is read.

    If `layer` is None, the state is the first layer's input. If only `sublayer` is None, the state
    is the layer's output.
    """

    layer: int | None = None
    sublayer: Sublayer | None = None

    @property
    def label(self) -> str:
        """The user-facing label, counted from 1: "embeddings", "layer 1 feed-forward"."""
        if self.layer is None:
            return "embeddings"
        return f"layer {self.layer + 1}" + ("" if self.sublayer is None else f" {self.sublayer}")


@dataclass(frozen=True, eq=False)
class Lens(Frozen):
    """A grid of lens rows R by target tokens T; the last row is the model's own output.

    `ids` [R, T] are the most probable tokens, with their `probabilities` [R, T]. `written` [T] are
    the target's tokens, with their `written_probabilities` and `written_ranks` [R, T], from 1.
    `exact` says whether the last row's logits equal the model's output bit for bit.
    """

    rows: tuple[LensRow, ...]
    ids: NDArray[np.int64]
    probabilities: Doubles
    written: tuple[int, ...]
    written_probabilities: Doubles
    written_ranks: NDArray[np.int64]
    exact: bool


@of_passes
@torch.inference_mode()
def lenses(model: Seq2Seq, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Lens]:
    """Apply the final norm and the classifier to the decoder state after each sub-layer.

    L layers give 3L + 1 rows, starting with the embeddings. Call it with (translator, records), or
    with (model, sources, targets) and ids that end with <eos>, holding the model's lock. See
    nostalgebraist 2020, "interpreting GPT: the logit lens".
    """
    batch = _batch(model, sources, targets)
    memory_BSD, mask = model.encode(batch.source)
    with hidden_states(model) as states:
        output_BTD = model.decode(batch.target_in, memory_BSD, mask)
    norm = model.stack("decoder").norm
    rows, read = [LensRow()], [states.embeddings["decoder"]]
    for layer, sublayers in enumerate(states.sublayers("decoder")):
        for sublayer, state_BTD in zip(_DECODER, sublayers, strict=True):
            rows.append(LensRow(layer, sublayer))
            read.append(state_BTD)
    logits = (model.classify(norm(state_BTD)) for state_BTD in read)
    return _read(rows, logits, model.classify(output_BTD), targets)


@of_passes
@torch.inference_mode()
def decoder_lenses(model: Seq2Seq, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Lens]:
    """Let the decoder read each encoder layer, through the encoder's final norm.

    L layers give L + 1 rows, starting with the embeddings. Call it like `lenses`. This is the
    DecoderLens (Langedijk et al. 2023, arXiv 2310.03686).
    """
    batch = _batch(model, sources, targets)
    memory_BSD, mask = model.encode(batch.source)
    with hidden_states(model) as states:
        model.encode(batch.source)
    norm = model.stack("encoder").norm
    layers_LBSD = states.sublayers("encoder")[:, -1]
    rows = [LensRow(), *map(LensRow, range(len(layers_LBSD)))]
    # For the last row, use the encoder's output from the pass without hooks: with hooks,
    # torch.nn.Transformer takes another code path, whose last bits differ.
    read = [norm(x_BSD) for x_BSD in (states.embeddings["encoder"], *layers_LBSD[:-1])]
    logits = (
        model.classify(model.decode(batch.target_in, x_BSD, mask)) for x_BSD in (*read, memory_BSD)
    )
    return _read(rows, logits, model(batch.source, batch.target_in), targets)


@of_pass
def lens(model: Seq2Seq, source: Ids, target: Ids) -> Lens:
    """Apply `lenses` to one sentence: (translator, record) or (model, source, target)."""
    return lenses(model, [source], [target])[0]


@of_pass
def decoder_lens(model: Seq2Seq, source: Ids, target: Ids) -> Lens:
    """Apply `decoder_lenses` to one sentence: (translator, record) or (model, source, target)."""
    return decoder_lenses(model, [source], [target])[0]


def _batch(model: Seq2Seq, sources: Sequence[Ids], targets: Sequence[Ids]) -> Batch:
    pairs = [(list(s), list(t)) for s, t in zip(sources, targets, strict=True)]
    return collate(pairs).to(next(model.parameters()).device)


def _read(
    rows: list[LensRow], logits: Iterable[Tensor], output_BTV: Tensor, targets: Sequence[Ids]
) -> list[Lens]:
    """Build a batch's grids from each row's logits; hold only one [B, T, V] in memory at a time."""
    grids = []
    written_BT1 = pad([list(ids) for ids in targets]).to(output_BTV.device)[..., None]
    for logits_BTV in logits:
        probabilities_BTV = logits_BTV.double().softmax(-1)
        best = probabilities_BTV.max(-1)
        own_BT1 = logits_BTV.gather(-1, written_BT1)
        ranks_BT = 1 + (logits_BTV > own_BT1).sum(-1)
        own_probabilities_BT = probabilities_BTV.gather(-1, written_BT1)[..., 0]
        grids.append((best.indices, best.values, own_probabilities_BT, ranks_BT))
        last_BTV = logits_BTV
    ids, probabilities, own_probabilities, ranks = (
        torch.stack(grid, 1).cpu().numpy() for grid in zip(*grids, strict=True)
    )
    return [
        Lens(
            rows=tuple(rows),
            ids=ids[b, :, : len(target)],
            probabilities=probabilities[b, :, : len(target)],
            written=tuple(target),
            written_probabilities=own_probabilities[b, :, : len(target)],
            written_ranks=ranks[b, :, : len(target)],
            exact=torch.equal(last_BTV[b, : len(target)], output_BTV[b, : len(target)]),
        )
        for b, target in enumerate(targets)
    ]
