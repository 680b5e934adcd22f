"""Compare a converted network with what the original computes, and name the first difference."""

import math
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from core.accelerate.network import accelerate
from core.checkpoint.imported import Comparison
from core.foreign.family import POSITION_LIMIT, Plan, Vocabulary, position_formula
from core.foreign.library import Precision
from core.foreign.reference import Pass, Reference
from core.kinds import KINDS, Kind
from core.model.transformer import Transformer
from core.record.capture import capture
from core.search.beam import greedy
from core.text.tokenizer import BOS, EOS, PAD, encode_source, normalise

_EXACT, _OWN_TABLE, _FLOAT32 = 1e-9, 1e-6, 1e-4
"""Limits: in float64 with the original's position table, in float64 without it, and in float32.

The float32 limit is multiplied by the largest absolute logit, if that is above 1."""


class DifferentError(ValueError):
    """Raised if the converted network does not compute what the original computes.

    `quoted` is the text of the vocabulary that the message quotes, which may be private.
    """

    def __init__(self, message: str, quoted: str = ""):
        super().__init__(message)
        self.quoted = quoted


@dataclass(frozen=True)
class _Batch:
    """The reference's ids, converted to ours."""

    source: Tensor  # [N, S]
    target: Tensor  # [N, T], from <bos>
    columns: np.ndarray  # our id for each of the original's target ids

    @property
    def real_queries(self) -> dict[Kind, np.ndarray]:
        """Which queries [N, query] of each kind are not padding."""
        source, target = (self.source != PAD).numpy(), (self.target != PAD).numpy()
        return {"encoder": source, "decoder": target, "cross": target}


@dataclass(frozen=True)
class _Ours:
    logits: np.ndarray  # [real query, V]
    steps: np.ndarray  # logits again, computed one token at a time, as in a search
    maps: dict[Kind, np.ndarray]
    greedy: list[tuple[int, ...]]


def compare_network(
    network: Transformer,
    plan: Plan,
    reference: Reference,
    stored: np.ndarray | None,
    kernels: bool = True,
) -> list[Comparison]:
    """Compare a network with the reference in float64 and float32, with `kernels` accelerated.

    `stored` is the position table of the weights' file. It is used if the reference has no table or
    one that is too short. Raises DifferentError naming the first difference.
    """
    batch = _batch(plan, reference)
    found: list[Comparison] = []
    table = reference.positions
    if table is not None:
        table = table if plan.features is None else table[:, plan.features]
        table = table if len(table) >= plan.config.max_length or stored is None else stored
    table = stored if table is None else table
    if table is not None:
        found.append(_positions(table, plan))
    fixed = not plan.config.learned_positions and plan.config.position_table != "none"
    limit = _OWN_TABLE if fixed and table is None else _EXACT
    with _position_table(network, table), Precision(torch.float64):
        found += _pass(network, batch, reference.passes[64], "float64", limit)
    if kernels:
        accelerate(network)
    largest = float(np.abs(reference.passes[32].logits).max())
    limit = _FLOAT32 * max(1.0, largest)
    return found + _pass(network, batch, reference.passes[32], "float32", limit)


def compare_tokens(
    vocabulary: Vocabulary, tokens: tuple[tuple[str, tuple[int, ...]], ...], side: str
) -> tuple[list[Comparison], list[str]]:
    """Compare our ids of each line with the original's. Raises DifferentError if some differ.

    Lines that `normalise` changes may differ. Return the comparison, and a sentence that counts
    those lines if there are any. Without `tokens`, return two empty lists.
    """
    if not tokens:
        return [], []
    different, simplified = [], 0
    for line, theirs in tokens:
        encoded = encode_source(vocabulary.tokenizer, line)
        ours = vocabulary.rows[[token.id for token in encoded]] if encoded else []
        if tuple(ours) == theirs or not line.strip():
            continue
        if normalise(line) != line:
            simplified += 1
        else:
            different.append((line, tuple(map(int, ours)), theirs))
    if different:
        line, ours, theirs = different[0]
        at = next(
            (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
            min(len(ours), len(theirs)),
        )
        raise DifferentError(
            f"the tokens of {len(different)} of {len(tokens)} {side} lines differ, first in "
            f"{line[:60]!r}, token {at + 1}: id {_at(theirs, at)} in the original, {_at(ours, at)} "
            "here: the vocabulary or its order is different",
            repr(line[:60]),
        )
    compared = [_counted(f"tokens of {len(tokens) - simplified} {side} lines", 0)]
    if not simplified:
        return compared, []
    return compared, [
        f"{simplified} of {len(tokens)} {side} lines have other tokens than in the original, "
        "because unusual white space, hyphens or ligatures are simplified here first."
    ]


def _at(ids: tuple[int, ...], place: int) -> str:
    return str(ids[place]) if place < len(ids) else "none"


def _counted(what: str, different: int) -> Comparison:
    return Comparison(what=what, max_abs_diff=different, limit=0, passed=different == 0)


def _batch(plan: Plan, reference: Reference) -> _Batch:
    source = _mapped(plan.source, reference.source, "source")
    if (wrong := reference.target[:, 0] != plan.target.start).any():
        raise DifferentError(
            f"wrong start token: the original begins a target with id "
            f"{int(reference.target[wrong][0, 0])}, the conversion with id {plan.target.start}"
        )
    rest = _mapped(plan.target, reference.target[:, 1:], "target")
    if not ((source != PAD).sum(axis=1) > 1).any() or not (rest != PAD).any():
        raise DifferentError(
            "the reference's sentences are padding only, so nothing would be compared: make it "
            "again with the script that --reference-script prints"
        )
    target = np.concatenate((np.full((len(rest), 1), BOS), rest), axis=1)
    ours = plan.target.theirs_to_ours
    columns = np.array([ours[id] for id in range(reference.passes[64].logits.shape[-1])])
    return _Batch(torch.from_numpy(source), torch.from_numpy(target), columns)


def _mapped(vocabulary: Vocabulary, ids: np.ndarray, side: str) -> np.ndarray:
    ours = vocabulary.theirs_to_ours | {vocabulary.pad: PAD}
    if unknown := sorted(set(ids.ravel().tolist()) - set(ours)):
        raise DifferentError(f"the reference's {side} holds id {unknown[0]}, which is unknown here")
    return np.vectorize(ours.__getitem__, otypes=[np.int64])(ids)


def _positions(table: np.ndarray, plan: Plan) -> Comparison:
    formula = position_formula(plan.config)[: len(table)]
    difference_P = np.abs(table[: len(formula)] - formula).max(axis=1)
    worst = float(difference_P.max())
    if not worst <= POSITION_LIMIT:  # also if it is NaN
        first = int((~(difference_P <= POSITION_LIMIT)).argmax())
        raise DifferentError(
            f"wrong positions: position {first} of the original's table is the first that "
            f"differs from the formula, by {difference_P[first]:.2g} (limit {POSITION_LIMIT:g}): "
            "an offset, or features in another order"
        )
    return Comparison(what="positions", max_abs_diff=worst, limit=POSITION_LIMIT, passed=True)


@contextmanager
def _position_table(network: Transformer, table: np.ndarray | None) -> Generator[None]:
    """Inside the block, use the original's position table for all rows that it has."""
    sides: tuple[Any, Any] = (
        network.embeddings.source_positions,
        network.embeddings.target_positions,
    )
    if table is None:
        yield
        return
    kept = [side.table for side in sides]
    for side in sides:
        side.table = side.table.double()
        rows = min(len(table), len(side.table))
        side.table[:rows] = torch.from_numpy(table[:rows])
    try:
        yield
    finally:
        for side, own in zip(sides, kept, strict=True):
            side.table = own


@torch.inference_mode()
def _run(network: Transformer, batch: _Batch) -> _Ours:
    real = torch.from_numpy(batch.real_queries["decoder"])
    position = real.nonzero()[:, 1]
    with capture(network) as captured:
        logits = network(batch.source, batch.target)[real]
    maps = {kind: captured.maps(kind).numpy() for kind in KINDS}
    del captured  # the states of all layers
    state = network.start(batch.source)
    steps = torch.empty_like(logits)
    for t, token_N in enumerate(batch.target.T):
        step, state = network.step(token_N.masked_fill(token_N == PAD, EOS), state)
        steps[position == t] = step[real[:, t]]
    return _Ours(
        logits.numpy(),
        steps.numpy(),
        maps,
        [hypotheses[0].ids for hypotheses in greedy(network, batch.source)],
    )


def _pass(
    network: Transformer, batch: _Batch, theirs: Pass, precision: str, limit: float
) -> list[Comparison]:
    ours = _run(network, batch)
    queries = batch.real_queries
    maps = {
        (kind, layer): _difference(
            ours.maps[kind][layer].swapaxes(1, 2), theirs.maps[kind][layer].swapaxes(1, 2), real
        )
        for kind, real in queries.items()
        for layer in range(len(theirs.maps[kind]))
    }
    real = queries["decoder"]
    of_rows = [
        _of_row(whole, step, theirs.logits[n, t], batch.columns)
        for whole, step, n, t in zip(ours.logits, ours.steps, *real.nonzero(), strict=True)
    ]
    whats = ("attention maps", "logits", "log-probabilities", "logits of single steps")
    worst = (max(maps.values()), *np.nan_to_num(of_rows, nan=math.inf).max(axis=0).tolist())
    differences = {f"{what}, {precision}": one for what, one in zip(whats, worst, strict=True)}
    for (what, difference), explain in zip(
        differences.items(),
        (
            lambda: _of_maps(maps, limit),
            lambda: _of_logits(ours, theirs, real, batch.columns),
            lambda: (
                "the logits agree, so a word that the original lacks, such as <pad>, is left in "
                "the softmax"
            ),
            lambda: (
                "a whole pass agrees, so one path of the network uses another activation or mask"
            ),
        ),
        strict=True,
    ):
        if not difference <= limit:
            raise DifferentError(
                f"{what} differ by {difference:.2g} (limit {limit:.2g}): {explain()}"
            )
    compared = [
        Comparison(what=what, max_abs_diff=difference, limit=limit, passed=True)
        for what, difference in differences.items()
    ]
    different = sum(_differ(a, b, batch) for a, b in zip(ours.greedy, theirs.greedy, strict=True))
    if different:
        raise DifferentError(
            f"the greedy ids of {different} of {len(ours.greedy)} sentences differ in {precision}, "
            "although all logits agree: the search starts or ends with another token"
        )
    return [*compared, _counted(f"greedy ids, {precision}", 0)]


def _difference(ours: np.ndarray, theirs: np.ndarray, real: np.ndarray) -> float:
    """Return the largest difference of two arrays [N, query, …] at real queries; inf for NaN."""
    difference = float(np.abs(ours[real] - theirs[real]).max())
    return math.inf if math.isnan(difference) else difference


def _of_row(
    whole_V: np.ndarray, step_V: np.ndarray, theirs_V: np.ndarray, columns: np.ndarray
) -> tuple[float, ...]:
    """Return the differences of one row's logits, log-probabilities and logits of a single step.

    Those of all rows at once would take half of a large network's memory.
    """
    whole, step, expected = map(torch.tensor, (whole_V, step_V, theirs_V))
    pairs = (whole, expected), (whole.log_softmax(-1), expected.log_softmax(-1)), (step, expected)
    return tuple(float((a[columns] - b).abs().max()) for a, b in pairs)


def _of_maps(maps: dict[tuple[Kind, int], float], limit: float) -> str:
    """Name the first map that differs, in order of execution, and the possible causes."""
    order = sorted(maps, key=lambda site: (site[0] != "encoder", site[1], site[0] == "cross"))
    kind, layer = next(site for site in order if not maps[site] <= limit)
    written = {
        "encoder": f"what encoder layer {layer} writes: values, output projection, feed-forward",
        "decoder": f"what decoder layer {layer} writes: values, output projection, feed-forward",
        "cross": f"what the encoder or the self-attention of decoder layer {layer + 1} writes",
    }[kind]
    source = "the embeddings" if layer == 0 and kind != "cross" else written
    return f"first in the {kind} attention of layer {layer + 1}: its queries or keys, or {source}"


def _of_logits(ours: _Ours, theirs: Pass, real: np.ndarray, columns: np.ndarray) -> str:
    difference_V = np.abs(ours.logits[:, columns] - theirs.logits[real]).max(axis=0)
    return (
        "all maps agree, so the last layer's values, output projection or feed-forward, the last "
        f"norm or the classifier differ, most for the original's id {int(difference_V.argmax())}"
    )


def _differ(ours: tuple[int, ...], theirs: np.ndarray, batch: _Batch) -> bool:
    """Return whether greedy ids differ in their common part, up to the original's <eos>."""
    written: Iterator[int] = (int(batch.columns[id]) for id in theirs)
    return any(a != b for a, b in zip(ours, _until_end(written), strict=False))


def _until_end(ids: Iterator[int]) -> Iterator[int]:
    for id in ids:
        yield id
        if id == EOS:
            return
