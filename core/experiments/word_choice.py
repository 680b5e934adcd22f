"""Direct logit attribution: split the difference of two words' logits over the components.

Axes: C component, H head, K key, L layer, T target token, D d_model, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from core.analysis.residual_stream import Component, Trace, check_index
from core.experiments.experiment import model_inputs, of_pass
from core.experiments.site import double
from core.experiments.tracing import traces
from core.frozen import Doubles, Frozen
from core.kinds import Kind
from core.model.interface import Seq2Seq
from core.record.editing import edited
from core.record.edits import Edits
from core.text.tokenizer import EOS

IdPair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class WordChoice(Frozen):
    """One target id's logit minus another's at one step, and the terms [C] that add up to it.

    Layer norm is linearised at its actual scale (core.analysis.residual_stream); the last term is
    the classifier's bias. `edges` [L, H, K], for `decoder` and `cross`, split the heads' terms by
    key; `weights` [L, H, K] are the attention rows. Encoder heads act through the keys of `cross`.
    """

    step: int
    words: IdPair
    components: tuple[Component, ...]
    terms: Doubles
    edges: dict[Kind, Doubles]
    weights: dict[Kind, Doubles]
    difference: float

    @property
    def largest_error(self) -> float:
        """The absolute deviation of the sum of the terms from the difference."""
        return abs(float(self.terms.sum()) - self.difference)

    def largest(self, count: int) -> list[tuple[Component, float]]:
        """Return the terms with the largest magnitude."""
        order = np.argsort(-np.abs(self.terms), kind="stable")[:count]
        return [(self.components[i], float(self.terms[i])) for i in order]

    def predicted(self, kind: Kind, layer: int, head: int, key: int | None = None) -> float:
        """Predict the change in the difference if a head, or one of its keys, is ablated.

        This is the direct effect: norms keep their scale and later layers are ignored. If a key is
        given, only this key is removed, and the other weights of the attention row are divided by
        1 − the key's weight. If no weight is left, the head contributes 0. Raises ValueError for a
        kind whose heads are not in the decoder.
        """
        if kind not in self.edges:
            raise ValueError(
                f"{kind} heads do not write the decoder's state: choose decoder or cross"
            )
        row_K = self.edges[kind][layer, head]
        if key is None:
            return -float(row_K.sum())
        left = 1 - self.weights[kind][layer, head, key]
        rest = float(row_K.sum() - row_K[key]) / left if left > 1e-6 else 0.0
        return rest - float(row_K.sum())


@of_pass
@torch.inference_mode()
def word_choice(
    model: Seq2Seq, source: Sequence[int], target: Sequence[int], step: int, words: IdPair
) -> WordChoice:
    """Split the difference of two words' logits at the step that produces `target[step]`.

    Call it with (translator, record, step, (id, other id)), or with (model, source, target, step,
    words). In the second form, `source` and `target` end with <eos>, and the caller must hold the
    model's lock. Raises a one-line ValueError for a step or an id out of range.
    """
    check_index("step", step, len(target))
    for word in words:
        check_index("id", word, model.config.target_vocab_size)
    (trace,) = traces(model, [source], [target])
    stream = trace.final("decoder", slice(step, step + 1), by_key=True)
    direction_1D, bias_1 = logit_direction(model, [words])
    term_C = stream.parts[:, 0] @ direction_1D[0]
    terms: dict[Component, float] = {}
    edges: dict[Kind, list[float]] = {"decoder": [], "cross": []}
    for component, term in zip(stream.components, term_C.tolist(), strict=True):
        whole = replace(component, key=None)
        terms[whole] = terms.get(whole, 0.0) + term
        if component.kind is not None and component.key is not None:
            edges[component.kind].append(term)
    terms[Component("classifier bias")] = float(bias_1[0])
    weights = {kind: _rows(trace, kind, step) for kind in edges}
    one, other = words
    return WordChoice(
        step=step,
        words=words,
        components=tuple(terms),
        terms=np.array(list(terms.values())),
        edges={kind: np.array(e).reshape(weights[kind].shape) for kind, e in edges.items()},
        weights=weights,
        difference=float(trace.logits_TV[step, one] - trace.logits_TV[step, other]),
    )


@of_pass
@torch.inference_mode()
def true_change(
    model: Seq2Seq,
    source: Sequence[int],
    target: Sequence[int],
    step: int,
    words: IdPair,
    change: Edits,
) -> float:
    """Return the change in the difference of two words' logits under edits of the whole model.

    Takes the arguments of `word_choice` and then the edits, such as an ablated head or a cut edge.
    """
    check_index("step", step, len(target))
    inputs = model_inputs(model, source, target)
    differences = []
    for edits in (Edits(), change):
        with edited(model, edits):
            logits_V = model(*inputs)[0, step].double()
        differences.append(float(logits_V[words[0]] - logits_V[words[1]]))
    return differences[1] - differences[0]


@dataclass(frozen=True)
class Rivals:
    """The most probable other tokens at one step of a pass, and the next token after each.

    `rank` (by logit, from 1) and `probability` describe the target's own token. `ids` are the
    other tokens, most probable first, with their `probabilities`. `following` holds the most
    probable next id after each of them. It shows whether the token is a word or only its start.
    """

    rank: int
    probability: float
    ids: tuple[int, ...]
    probabilities: tuple[float, ...]
    following: tuple[int, ...]


@of_pass
@torch.inference_mode()
def rivals(
    model: Seq2Seq, source: Sequence[int], target: Sequence[int], step: int, count: int = 32
) -> Rivals:
    """Return the `count` most probable tokens at a step, other than `target[step]`.

    Call it with (translator, record, step) or (model, source, target, step). Raises a one-line
    ValueError for a step out of range.
    """
    check_index("step", step, len(target))
    source_1S, target_in_1T = model_inputs(model, source, target)
    memory_1SD, mask = model.encode(source_1S)
    read_1T = target_in_1T[:, : step + 1]
    logits_V = model.classify(model.decode(read_1T, memory_1SD, mask))[0, -1].double()
    probabilities_V = logits_V.softmax(-1)
    own = target[step]
    ids = [i for i in logits_V.argsort(descending=True)[: count + 1].tolist() if i != own][:count]
    following = [EOS] * len(ids)  # no token has a position after the last one
    if step + 1 < model.config.max_length:
        ids_B1 = torch.tensor(ids, device=read_1T.device)[:, None]
        B = len(ids)
        read_BT = torch.cat((read_1T.expand(B, -1), ids_B1), 1)
        memory_BSD = memory_1SD.expand(B, -1, -1)
        hidden_BTD = model.decode(read_BT, memory_BSD, mask.expand(B, *mask.shape[1:]))
        following = model.classify(hidden_BTD)[:, -1].argmax(-1).tolist()
    return Rivals(
        rank=1 + int((logits_V > logits_V[own]).sum()),
        probability=float(probabilities_V[own]),
        ids=tuple(ids),
        probabilities=tuple(probabilities_V[ids].tolist()),
        following=tuple(following),
    )


def logit_direction(model: Seq2Seq, words: Sequence[IdPair]) -> tuple[Doubles, Doubles]:
    """Return the direction [N, D] and bias [N] of the logit difference of each pair of words."""
    weight, bias = model.embeddings.projection
    ids_N2 = torch.tensor(words, device=weight.device)
    rows_N2D = double(weight[ids_N2])
    bias_N2 = np.zeros(ids_N2.shape) if bias is None else double(bias[ids_N2])
    return rows_N2D[:, 0] - rows_N2D[:, 1], bias_N2[:, 0] - bias_N2[:, 1]


def _rows(trace: Trace, kind: Kind, step: int) -> Doubles:
    """Return the weights of one query in all layers and heads of a kind: [L, H, K]."""
    layers = sorted(layer for k, layer in trace.sites if k == kind)
    maps = [trace.sites[kind, layer].maps_HQK[:, step] for layer in layers]
    return np.stack(maps).astype(np.float64)
