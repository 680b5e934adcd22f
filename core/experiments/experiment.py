"""Put a question about a network's pass to (translator, record), or to a network and plain ids.

A record's edits are on the network while it is asked; a question that has a formula of its own for
what they change is told them as `edits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from typing import Any, Concatenate, Generic, Literal, Protocol, TypeVar, overload

from core.analysis.attribution import Words, source_words
from core.model.interface import Seq2Seq
from core.record.record import TranslationRecord

Ids = Sequence[int]
Batch = Sequence[Ids]
Side = Literal["source", "target"]
Lend = Callable[[], AbstractContextManager[Seq2Seq]]
"""Lends the network for one batch: until the block ends, other threads wait."""
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True)
class Progress(Generic[R_co]):
    """How far a long question is, after each of its batches; its result comes with the last."""

    done: int
    total: int
    result: R_co | None = None


def finished(steps: Iterable[Progress[R]]) -> R:
    """The result of a long question, which is asked to its end."""
    *_, last = steps
    if last.result is None:
        raise RuntimeError(f"the question ended at {last.done} of {last.total}")
    return last.result


class Holder(Protocol):
    """Who owns a network and lends it, such as a Translator."""

    def model_for(self, record: TranslationRecord) -> AbstractContextManager[Seq2Seq]:
        """The network behind a record, under its edits, until the block ends.

        Raises ValueError for another's record.
        """
        ...


def ids_of(record: TranslationRecord) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids of source and target, both as they were fed, with their <eos>."""
    source, target = (tuple(t.id for t in side) for side in (record.source, record.target_out))
    return source, target


class Question(Protocol[R_co]):
    """A question about a pass; what is asked beside it comes behind, in both forms."""

    @overload
    def __call__(
        self,
        translator: Holder,
        record: TranslationRecord | Sequence[TranslationRecord],
        /,
        *rest: Any,
        **named: Any,
    ) -> R_co: ...
    @overload
    def __call__(
        self, network: Seq2Seq, source: Ids | Batch, /, *rest: Any, **named: Any
    ) -> R_co: ...


def about_pass(question: Callable[Concatenate[Seq2Seq, Ids, Ids, ...], R]) -> Question[R]:
    """A question to a network with ids of source and target, which takes a record instead too."""
    return _about(question, lambda record, *rest: ids_of(record))


def about_source(question: Callable[Concatenate[Seq2Seq, Ids, ...], R]) -> Question[R]:
    """A question to a network with ids of a source, which takes a record instead too."""
    return _about(question, lambda record, *rest: ids_of(record)[:1])


def in_turns(question: Callable[Concatenate[Lend, Ids, Ids, ...], R]) -> Question[R]:
    """A long question, asked as `about_pass` says; it borrows the network for each batch anew.

    So others have their turns between two batches. Of a network itself nothing is held: the caller
    has its lock.
    """
    return _lent(question, ids_of)


def about_words(question: Callable[Concatenate[Lend, Ids, Ids, Words, ...], R]) -> Question[R]:
    """A question `in_turns` about source words: a record has its own, ids are given theirs."""
    return _lent(question, lambda record: (*ids_of(record), source_words(record.source)))


def _lent(
    question: Callable[..., R], asked: Callable[[TranslationRecord], tuple[Any, ...]]
) -> Question[R]:
    @wraps(question)
    def ask(first: Any, second: Any, *rest: Any, **named: Any) -> R:
        if not isinstance(second, TranslationRecord):
            return question(partial(nullcontext, first), second, *rest, **named)
        return question(partial(first.model_for, second), *asked(second), *rest, **named)

    return ask


def about_side(question: Callable[[Seq2Seq, Ids, Side], R]) -> Question[R]:
    """A question to a network with what one side was fed, which takes a record instead too."""

    def fed(record: TranslationRecord, side: Side) -> tuple[Ids]:
        return ([t.id for t in (record.source if side == "source" else record.target_in)],)

    return _about(question, fed)


def about_passes(question: Callable[Concatenate[Seq2Seq, Batch, Batch, ...], R]) -> Question[R]:
    """A question to a network with ids of several sentences, which takes records instead too."""

    @wraps(question)
    def ask(first: Any, second: Any, *rest: Any, **named: Any) -> R:
        if not all(isinstance(record, TranslationRecord) for record in second):
            return question(first, second, *rest, **named)
        if len({record.edits for record in second}) > 1:
            raise ValueError("these records were made under different edits: ask of each by itself")
        for record in second[1:]:
            with first.model_for(record):
                pass  # each is looked at; the network runs under the edits of all once
        with first.model_for(second[0]) as network:
            sources, targets = zip(*map(ids_of, second), strict=True)
            return question(network, sources, targets, *rest, **named)

    return ask


def _about(question: Callable[..., R], ids: Callable[..., tuple[Ids, ...]]) -> Question[R]:
    @wraps(question)
    def ask(first: Any, second: Any, *rest: Any, **named: Any) -> R:
        if not isinstance(second, TranslationRecord):
            return question(first, second, *rest, **named)
        if "edits" in signature(question).parameters:
            named["edits"] = second.edits
        with first.model_for(second) as network:
            return question(network, *ids(second, *rest), *rest, **named)

    return ask
