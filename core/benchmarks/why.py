"""Time the experiments of core.experiments on one sentence's record."""

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from core.benchmarks.contest import Cell, Missing, Options, Row, seconds
from core.experiments.attribution import METHODS, attributions, shapley
from core.experiments.head_effects import head_effects, pair_effects
from core.experiments.jacobian_lens import jacobian_lens
from core.experiments.logit_lens import lens
from core.experiments.patching import patch_all
from core.experiments.push_curve import push_curve
from core.experiments.score_split import score_split
from core.record.state_edits import Push
from core.translator import Translator

PACKAGES = ()
OPTIONS = ("checkpoint",)
WHY: tuple[tuple[Callable[..., Any], str, tuple[Any, ...], int], ...] = (
    # experiment, name, arguments after the record, maximum rounds
    (head_effects, "ablation of each head", (), 21),
    (pair_effects, "ablation of each pair of cross heads", ("cross",), 3),
    (score_split, "split of a score", ("cross", 2, 3, 5, 6), 21),
    (lens, "logit lens on the decoder", (), 21),
    (attributions, f"{len(METHODS)} attributions to source words", (), 5),
    (shapley, "Shapley values over all subsets", (), 3),
    (jacobian_lens, "Jacobian lens on all states", (), 21),
)
_SENTENCE = "Drei Männer in blauen Hemden stehen vor einem Haus."  # 10 words and marks
_OTHER = "Drei Frauen in blauen Hemden stehen vor einem Haus."


def rows(options: Options) -> Iterator[Row | Missing]:
    """Yield a row for each experiment; there is no baseline, so `ratio` is None."""
    assert options.checkpoint is not None
    translator = Translator.load(options.checkpoint, device="cpu")
    torch.set_num_threads(options.threads)
    record = translator.inspect(_SENTENCE)
    length = len(record.source)
    other = translator.inspect(_OTHER)
    new, old = (r.target_out[1].id for r in (other, record))
    states = (
        (patch_all, "copies of each state and head", (other,), 21),
        (push_curve, "pushes of one state", (Push("encoder", 0, 1, old, new, 0.0), 1), 21),
    )
    for experiment, what, arguments, max_rounds in (*WHY, *states):
        run = partial(experiment, translator, record, *arguments)
        times = [seconds(run) for _ in range(min(options.rounds, max_rounds))]
        cell = Cell(what, f"shipped model, {length} tokens", 1, 5, length)
        yield cell.row("headlight", 1000 * statistics.median(times), "ms")
