"""What each layer already knew: states on the way, read as if they were the last.

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
from core.frozen import Frozen
from core.model.interface import Seq2Seq
from core.record.activations import hidden_states

Sublayer = Literal["self-attention", "cross-attention", "feed-forward"]
_DECODER: tuple[Sublayer, ...] = ("self-attention", "cross-attention", "feed-forward")


@dataclass(frozen=True)
class LensRow:
    """Behind which layer, counted from 0, and which of its sub-layers a state was read.

    Without a layer it is what enters the first; without a sub-layer it is what a layer hands on.
    """

    layer: int | None = None
    sublayer: Sublayer | None = None

    @property
    def label(self) -> str:
        """What a person reads, counted from 1: "embeddings", "layer 1 feed-forward"."""
        if self.layer is None:
            return "embeddings"
        return f"layer {self.layer + 1}" + ("" if self.sublayer is None else f" {self.sublayer}")


@dataclass(frozen=True, eq=False)
class Lens(Frozen):
    """A grid of rows R by target tokens T, the model's own output in the last row.

    `ids` [R, T] are the likeliest tokens and `probabilities` [R, T] theirs. Of the token that was
    `written` [T] at each step stand its probabilities [R, T] and its ranks [R, T], from 1 on.
    `exact` says whether the last row's logits are those of the network's pass, bit for bit.
    """

    rows: tuple[LensRow, ...]
    ids: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    written: tuple[int, ...]
    written_probabilities: NDArray[np.float64]
    written_ranks: NDArray[np.int64]
    exact: bool


@of_passes
@torch.inference_mode()
def lenses(model: Seq2Seq, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Lens]:
    """The decoder's state behind each sub-layer, through its last norm and the classifier.

    Of L layers 3L + 1 rows, the first before any layer. Asked of (translator, records); or of a
    network and ids of sentences with their <eos>, while the caller holds its lock. nostalgebraist
    2020, "interpreting GPT: the logit lens".
    """
    batch = _batch(model, sources, targets)
    memory_BSD, mask = model.encode(batch.source)
    with hidden_states(model) as states:
        output_BTD = model.decode(batch.target_in, memory_BSD, mask)
    norm = model.stack("decoder").norm
    rows, found = [LensRow()], [states.embeddings["decoder"]]
    for layer, sublayers in enumerate(states.sublayers("decoder")):
        for sublayer, state_BTD in zip(_DECODER, sublayers, strict=True):
            rows.append(LensRow(layer, sublayer))
            found.append(state_BTD)
    logits = (model.classify(norm(state_BTD)) for state_BTD in found)
    return _read(rows, logits, model.classify(output_BTD), targets)


@of_passes
@torch.inference_mode()
def decoder_lenses(model: Seq2Seq, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Lens]:
    """What the decoder writes when it reads an encoder's layer through the encoder's last norm.

    Of L layers L + 1 rows, the first the embeddings. Asked as `lenses`. DecoderLens (Langedijk et
    al. 2023, arXiv 2310.03686).
    """
    batch = _batch(model, sources, targets)
    memory_BSD, mask = model.encode(batch.source)
    with hidden_states(model) as states:
        model.encode(batch.source)
    norm = model.stack("encoder").norm
    layers_LBSD = states.sublayers("encoder")[:, -1]
    rows = [LensRow(), *map(LensRow, range(len(layers_LBSD)))]
    # The last is the encoder's own output: unwatched, the library runs it in faster code.
    read = [norm(x_BSD) for x_BSD in (states.embeddings["encoder"], *layers_LBSD[:-1])]
    logits = (
        model.classify(model.decode(batch.target_in, x_BSD, mask)) for x_BSD in (*read, memory_BSD)
    )
    return _read(rows, logits, model(batch.source, batch.target_in), targets)


@of_pass
def lens(model: Seq2Seq, source: Ids, target: Ids) -> Lens:
    """`lenses` of one sentence. Asked of (translator, record); or of a network and ids."""
    return lenses(model, [source], [target])[0]


@of_pass
def decoder_lens(model: Seq2Seq, source: Ids, target: Ids) -> Lens:
    """`decoder_lenses` of one sentence. Asked of (translator, record); or of a network and ids."""
    return decoder_lenses(model, [source], [target])[0]


def _batch(model: Seq2Seq, sources: Sequence[Ids], targets: Sequence[Ids]) -> Batch:
    pairs = [(list(s), list(t)) for s, t in zip(sources, targets, strict=True)]
    return collate(pairs).to(next(model.parameters()).device)


def _read(
    rows: list[LensRow], logits: Iterable[Tensor], output_BTV: Tensor, targets: Sequence[Ids]
) -> list[Lens]:
    """The grids of a batch from the logits of its rows, one [B, T, V] in memory at a time."""
    grids = []
    written_BT = pad([list(ids) for ids in targets]).to(output_BTV.device)
    for logits_BTV in logits:
        chances_BTV = logits_BTV.double().softmax(-1)
        best = chances_BTV.max(-1)
        own_BT1 = logits_BTV.gather(-1, written_BT[..., None])
        ranks_BT = 1 + (logits_BTV > own_BT1).sum(-1)
        own_chances_BT = chances_BTV.gather(-1, written_BT[..., None])[..., 0]
        grids.append((best.indices, best.values, own_chances_BT, ranks_BT))
        last_BTV = logits_BTV
    ids, chances, own_chances, ranks = (
        torch.stack(grid, 1).cpu().numpy() for grid in zip(*grids, strict=True)
    )
    return [
        Lens(
            rows=tuple(rows),
            ids=ids[b, :, : len(target)],
            probabilities=chances[b, :, : len(target)],
            written=tuple(target),
            written_probabilities=own_chances[b, :, : len(target)],
            written_ranks=ranks[b, :, : len(target)],
            exact=torch.equal(last_BTV[b, : len(target)], output_BTV[b, : len(target)]),
        )
        for b, target in enumerate(targets)
    ]
