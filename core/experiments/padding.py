"""Effect of the padding mask: a sentence alone, in a batch, and in the batch without the mask."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from core.data.batches import pad
from core.experiments.experiment import of_passes
from core.frozen import Doubles, Frozen
from core.model.interface import Seq2Seq
from core.record.capture import capture
from core.record.editing import edited
from core.record.edits import Edits
from core.text.tokenizer import BOS


@dataclass(frozen=True, eq=False)
class PaddingEffect(Frozen):
    """The probability of each target token [T] of a sentence in three passes.

    `alone`: the sentence by itself. `masked`: in a padded batch with the padding mask. `open`: in
    that batch without the mask. `padded` counts the padding tokens after the source. `on_padding`
    is the share of the encoder's attention on padding without the mask, averaged over layers, heads
    and the sentence's queries.
    """

    alone: Doubles
    masked: Doubles
    open: Doubles
    padded: int
    on_padding: float


@of_passes
@torch.inference_mode()
def padding_effect(
    model: Seq2Seq, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], row: int
) -> PaddingEffect:
    """Run sentence `row` by itself and in its batch; sources and targets end with <eos>.

    Call it with (translator, records, row), or with (model, sources, targets, row).
    """
    device = next(model.parameters()).device
    S, T = len(sources[row]), len(targets[row])
    following = torch.tensor(targets[row])[:, None]

    def probabilities(rows: Sequence[int]) -> Tensor:
        source = pad([list(sources[i]) for i in rows]).to(device)
        target = pad([[BOS, *targets[i][:-1]] for i in rows]).to(device)
        logits = model(source, target)[list(rows).index(row), :T]
        return logits.cpu().double().softmax(-1).gather(1, following)[:, 0]

    every = range(len(sources))
    alone, masked = probabilities([row]), probabilities(every)
    with edited(model, Edits(padding_mask=False)), capture(model) as captured:
        opened = probabilities(every)
    on_padding_LHS = captured.maps("encoder")[:, row, :, :S, S:].cpu()
    return PaddingEffect(
        alone=alone.numpy(),
        masked=masked.numpy(),
        open=opened.numpy(),
        padded=max(map(len, sources)) - S,
        on_padding=float(on_padding_LHS.sum(-1, dtype=torch.float64).mean()),
    )
