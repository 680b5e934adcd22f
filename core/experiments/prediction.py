"""Measure how well a head's direct effect predicts the effect of ablating it on a logit difference.

Axes: N target token, A head of the decoder's two attentions, T target token of one sentence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.analysis.residual_stream import Component
from core.data.batches import Pair, collate, plan
from core.experiments.tracing import traces
from core.experiments.word_choice import logit_direction
from core.frozen import Bools, Doubles, Frozen
from core.model.interface import Seq2Seq
from core.record.editing import edited
from core.record.edits import Edits
from core.text.tokenizer import PAD

_TOKENS = 1024  # per batch, with padding: traces are float64 and take memory

OnProgress = Callable[[int], object]


@dataclass(frozen=True)
class Agreement:
    """How well `count` predicted changes in a logit difference agree with the true changes.

    `mean_error` is the mean of |predicted − true|, `mean_true` the mean of |true|. `correlation` is
    Pearson's r, or NaN if the predicted or the true changes do not vary.
    """

    count: int
    mean_error: float
    mean_true: float
    correlation: float

    @classmethod
    def of(cls, predicted: Doubles, true: Doubles) -> "Agreement":
        constant = len(true) < 2 or not predicted.std() or not true.std()
        return cls(
            count=len(true),
            mean_error=float(np.abs(predicted - true).mean()),
            mean_true=float(np.abs(true).mean()),
            correlation=float("nan") if constant else float(np.corrcoef(predicted, true)[0, 1]),
        )


@dataclass(frozen=True, eq=False)
class Predictions(Frozen):
    """Predicted and true changes [N, A] for each target token and each decoder or cross head.

    The logit difference is between the token itself and the most probable other one: `words`
    [N, 2].
    """

    sentences: int
    heads: tuple[Component, ...]
    words: NDArray[np.int64]
    predicted: Doubles
    true: Doubles

    def largest(self, count: int) -> Bools:
        """Return a mask [N, A] of the `count` largest predicted changes of each token."""
        order = np.argsort(-np.abs(self.predicted), axis=1, kind="stable")[:, :count]
        chosen = np.zeros(self.predicted.shape, bool)
        np.put_along_axis(chosen, order, True, axis=1)
        return chosen

    def agreement(self, chosen: Bools) -> Agreement:
        """Compute the agreement over the chosen cells of [N, A]."""
        return Agreement.of(self.predicted[chosen], self.true[chosen])


@torch.inference_mode()
def prediction_error(
    model: Seq2Seq,
    pairs: Sequence[Pair],
    tokens: int = 200,
    device: str = "cpu",
    on_progress: OnProgress = lambda count: None,
) -> Predictions:
    """Predict each head's effect on the target tokens of pairs of ids, then measure it by ablation.

    Whole sentences are taken in order until they have at least `tokens` target tokens in total.
    `on_progress` is called with the number of newly completed heads. Hooks are process-wide: the
    caller must hold the model's lock. Raises ValueError for no pairs.
    """
    if not pairs:
        raise ValueError("there is no sentence pair: at least 1 is needed")
    reached = list(accumulate(len(target) for _, target in pairs))
    pairs = pairs[: 1 + sum(n < tokens for n in reached)]
    samples = [
        _Sample(model, [pairs[i] for i in indices], device) for indices in plan(pairs, _TOKENS)
    ]
    before_N = np.concatenate([sample.difference(model) for sample in samples])
    heads, changes = samples[0].heads, []
    for head in heads:
        with edited(model, Edits(heads_off=frozenset({head.place}))):
            after_N = np.concatenate([sample.difference(model) for sample in samples])
        changes.append(after_N - before_N)
        on_progress(1)
    return Predictions(
        sentences=len(pairs),
        heads=heads,
        words=np.concatenate([sample.words_N2.cpu().numpy() for sample in samples]),
        predicted=np.concatenate([sample.predicted_NA for sample in samples]),
        true=np.stack(changes, axis=1),
    )


class _Sample:
    """A batch of sentences: per target token, the two compared words and each head's prediction."""

    def __init__(self, model: Seq2Seq, pairs: list[Pair], device: str) -> None:
        self._batch = collate(pairs).to(device)
        self._real_BT = self._batch.target_out != PAD
        own_N = self._batch.target_out[self._real_BT]
        other_N = self._logits(model).scatter(1, own_N[:, None], -torch.inf).argmax(1)
        self.words_N2 = torch.stack((own_N, other_N), 1)
        direction_ND, _ = logit_direction(model, self.words_N2.tolist())
        sources, targets = zip(*pairs, strict=True)
        terms, n = [], 0
        for trace in traces(model, sources, targets):
            stream = trace.final("decoder")
            T = stream.parts.shape[1]
            terms.append(np.einsum("ctd,td->tc", stream.parts, direction_ND[n : n + T]))
            n += T
        columns = [i for i, c in enumerate(stream.components) if c.what == "head"]
        self.heads = tuple(stream.components[i] for i in columns)
        self.predicted_NA = -np.concatenate(terms)[:, columns]

    def difference(self, model: Seq2Seq) -> Doubles:
        """Return the first word's logit minus the other's at each target token: [N]."""
        picked_N2 = self._logits(model).gather(1, self.words_N2).double()
        return (picked_N2[:, 0] - picked_N2[:, 1]).cpu().numpy()

    def _logits(self, model: Seq2Seq) -> Tensor:
        """Return the logits at all tokens that are not padding: [N, V]."""
        batch = self._batch
        hidden_BTD = model.decode(batch.target_in, *model.encode(batch.source))
        return model.classify(hidden_BTD[self._real_BT])
