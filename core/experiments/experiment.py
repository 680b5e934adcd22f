"""Decorators that let an experiment be called as f(translator, record) or f(model, ids…).

An experiment is written for a model and plain token ids. Its public form also takes a Translator
and a TranslationRecord, and then runs on the record's model, ids and edits. `help` shows the form
with a Translator.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Any, Concatenate, Literal, NamedTuple, Protocol, TypeVar, get_args, overload

import torch
from torch import Tensor

from core.analysis.attribution import source_words
from core.model.interface import Seq2Seq
from core.record.record import TranslationRecord
from core.record.words import Words
from core.text.tokenizer import BOS

Ids = Sequence[int]
Batch = Sequence[Ids]
Side = Literal["source", "target"]
Borrow = Callable[[], AbstractContextManager[Seq2Seq]]
"""Give exclusive access to the model for one batch; other threads wait until the block ends."""
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Progress(NamedTuple):
    """How many parts of a long experiment are completed (`done`), of `total` parts.

    `so_far` is the result of the completed parts, or None if the experiment gives none.
    """

    done: int
    total: int
    so_far: Any = None


Steps = Generator[Progress, None, R]
"""A long experiment: yields its progress after each batch, and returns its result."""


class Owner(Protocol):
    """Anything that guards a model, such as a Translator."""

    def model_for(self, record: TranslationRecord) -> AbstractContextManager[Seq2Seq]:
        """Give exclusive access to the model that made a record, with the record's edits applied.

        Raises ValueError for a record of another model.
        """
        ...


class Experiment(Protocol[R_co]):
    """An experiment in its public form.

    Both forms of the call take the same further arguments, except `edits`, which a record gives.
    """

    @overload
    def __call__(
        self,
        translator: Owner,
        record: TranslationRecord | Sequence[TranslationRecord],
        /,
        *rest: Any,
        **named: Any,
    ) -> R_co: ...
    @overload
    def __call__(
        self, model: Seq2Seq, source: Ids | Batch, /, *rest: Any, **named: Any
    ) -> R_co: ...


class LongExperiment(Experiment[R_co], Protocol[R_co]):
    """An experiment in batches, between which other threads may acquire the model.

    A call runs all batches; `on_progress(done, total)` is called after each. `steps` takes the same
    arguments except `on_progress` and returns a generator: closing it ends the experiment.
    """

    steps: Callable[..., Generator[Progress, None, Any]]


def ids_of(record: TranslationRecord) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the token ids of source and target, both with <eos>."""
    source, target = (tuple(t.id for t in side) for side in (record.source, record.target_out))
    return source, target


def model_inputs(model: Seq2Seq, source: Ids, target: Ids) -> tuple[Tensor, Tensor]:
    """Return source ids [1, S] and decoder input ids [1, T] on the model's device.

    Both `source` and `target` end with <eos>.
    """
    device = next(model.parameters()).device
    target_in = [BOS, *target[:-1]]
    return torch.tensor([list(source)], device=device), torch.tensor([target_in], device=device)


def row_batches(rows: Sequence[R], source: Ids, target: Ids, tokens: int) -> list[Sequence[R]]:
    """Split rows of passes over a sentence into batches, to bound their memory and time.

    A batch has at most `tokens` tokens on the longer side, but at least one row.
    """
    size = max(1, tokens // max(len(source), len(target)))
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def of_pass(experiment: Callable[Concatenate[Seq2Seq, Ids, Ids, ...], R]) -> Experiment[R]:
    """Publish an experiment on one pass: f(model, source, target, …)."""
    return _of_record(experiment, lambda record, *rest: ids_of(record), 3)


def of_source(experiment: Callable[Concatenate[Seq2Seq, Ids, ...], R]) -> Experiment[R]:
    """Publish an experiment on a source sentence: f(model, source, …)."""
    return _of_record(experiment, lambda record, *rest: ids_of(record)[:1], 2)


def of_side(experiment: Callable[[Seq2Seq, Ids, Side], R]) -> Experiment[R]:
    """Publish an experiment on one side's input ids: f(model, ids, "source" or "target")."""

    def fed(record: TranslationRecord, side: Side) -> tuple[Ids]:
        return ([t.id for t in (record.source if side == "source" else record.target_in)],)

    return _of_record(experiment, fed, 2)


def of_passes(experiment: Callable[Concatenate[Seq2Seq, Batch, Batch, ...], R]) -> Experiment[R]:
    """Publish an experiment on a batch of passes: f(model, sources, targets, …).

    Its public form takes several records, all made under the same edits.
    """

    @wraps(experiment)
    def call(first: Any, second: Any, *rest: Any, **named: Any) -> R:
        if not all(isinstance(record, TranslationRecord) for record in second):
            return experiment(first, second, *rest, **named)
        if len({record.edits for record in second}) > 1:
            raise ValueError("these records were made under different edits: pass them one by one")
        for record in second[1:]:
            with first.model_for(record):
                pass  # checks that the record belongs to this model
        with first.model_for(second[0]) as model:
            sources, targets = zip(*map(ids_of, second), strict=True)
            return experiment(model, sources, targets, *rest, **named)

    return _published(call, experiment, 3, "records")


def of_pass_in_batches(
    experiment: Callable[Concatenate[Borrow, Ids, Ids, ...], Steps[R]],
) -> LongExperiment[R]:
    """Publish a long experiment on one pass: f(borrow, source, target, …)."""
    return _in_batches(experiment, ids_of, 3)


def of_words_in_batches(
    experiment: Callable[Concatenate[Borrow, Ids, Ids, Words, ...], Steps[R]],
) -> LongExperiment[R]:
    """Publish a long experiment on source words: f(borrow, source, target, words, …)."""
    return _in_batches(experiment, lambda r: (*ids_of(r), source_words(r.source)), 4)


def _of_record(
    experiment: Callable[..., R], ids: Callable[..., tuple[Ids, ...]], leading: int
) -> Experiment[R]:
    takes_edits = "edits" in signature(experiment).parameters

    @wraps(experiment)
    def call(first: Any, second: Any, *rest: Any, **named: Any) -> R:
        if not isinstance(second, TranslationRecord):
            return experiment(first, second, *rest, **named)
        if takes_edits:
            named["edits"] = second.edits
        with first.model_for(second) as model:
            return experiment(model, *ids(second, *rest), *rest, **named)

    return _published(call, experiment, leading)


def _in_batches(
    experiment: Callable[..., Steps[R]],
    arguments: Callable[[TranslationRecord], tuple[Any, ...]],
    leading: int,
) -> LongExperiment[R]:
    def steps(first: Any, second: Any, *rest: Any, **named: Any) -> Steps[R]:
        if not isinstance(second, TranslationRecord):  # the caller holds the model's lock
            return experiment(partial(nullcontext, first), second, *rest, **named)
        borrow = partial(first.model_for, second)
        return experiment(borrow, *arguments(second), *rest, **named)

    @wraps(experiment)
    def call(
        first: Any,
        second: Any,
        *rest: Any,
        on_progress: Callable[[int, int], object] = lambda done, total: None,
        **named: Any,
    ) -> R:
        running = steps(first, second, *rest, **named)
        try:
            while True:
                step = next(running)
                on_progress(step.done, step.total)
        except StopIteration as end:
            return end.value
        finally:
            running.close()

    published: Any = _published(call, experiment, leading, progress=True)
    published.steps = steps
    return published


def _published(
    call: Any, experiment: Callable, leading: int, record: str = "record", progress: bool = False
) -> Any:
    """Give `call` the public signature (translator, record, …) in place of the experiment's own."""
    own = signature(experiment)
    rest = [p for p in list(own.parameters.values())[leading:] if p.name != "edits"]
    first = [Parameter(name, Parameter.POSITIONAL_ONLY) for name in ("translator", record)]
    last = [Parameter("on_progress", Parameter.KEYWORD_ONLY, default=None)] if progress else []
    result = own.return_annotation
    if progress:  # the experiment returns Steps[R], but a call returns R
        *_, result = get_args(result)
    call.__signature__ = own.replace(parameters=[*first, *rest, *last], return_annotation=result)
    return call
