"""Mounts a question in the app and returns the learner's answer, which the script has scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from app.components.mount import component
from app.components.question.payload import Asked, payload

_mount = component(__file__, "main.js", ".question")


@dataclass(frozen=True)
class Answer:
    """A learner's answer: the question's id, the options pointed at, and whether they are right.

    A skipped question has no options and is not right. `wrong` are all wrong answers, and `asked`
    has, for each hint, how many of them came before it. Until an answer is `settled`, the learner
    may try again.
    """

    question: str
    answer: tuple[int, ...]
    right: bool
    skipped: bool
    wrong: tuple[tuple[int, ...], ...] = ()
    asked: tuple[int, ...] = ()
    settled: bool = True


def question(asked: Asked, given: Answer | None, *, key: str) -> Answer | None:
    """Ask a question; return the answer to it, or None until there is one.

    `given` is the answer from an earlier visit, with which the question opens. Raises ValueError
    like `payload`.
    """
    shown = replace(asked, given=None if given is None else asdict(given))
    result = _mount(
        key=key,
        data=payload(shown),
        width="stretch",
        height="content",
        on_answered_change=lambda: None,
    )
    return read_answer(result.answered, asked) or given


def read_answer(state: Any, asked: Asked) -> Answer | None:
    """Return the answer in the component's state; None if malformed or of another question."""
    if not isinstance(state, Mapping) or state.get("question") != asked.id:
        return None
    flags = [state.get(name) for name in ("right", "skipped", "settled")]
    chosen, wrong, hints = (state.get(name) for name in ("answer", "wrong", "asked"))
    if not isinstance(wrong, list) or not all(type(flag) is bool for flag in flags):
        return None
    limits = [len(wrong) + 1, *[len(asked.question.options)] * (len(wrong) + 1)]
    for numbers, limit in zip((hints, chosen, *wrong), limits, strict=True):
        if not isinstance(numbers, list):
            return None
        if not all(type(number) is int and 0 <= number < limit for number in numbers):
            return None
    tried = tuple(map(tuple, wrong))
    return Answer(asked.id, tuple(chosen), *flags[:2], tried, tuple(hints), flags[2])
