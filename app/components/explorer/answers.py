"""Answers what is asked in an explorer: another quantity, exact numbers, the page as a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from app.components.explorer.payload import Answers, Arrays, Exact, payload
from app.export.page import page
from core.kinds import KINDS

Numbers = Mapping[str, Callable[[], Arrays]]
"""How to work out each quantity that can be chosen beside the weights."""

# What may go wrong in a network's pass: bad input, an id it has no row for, no memory.
_FAILURES = (ValueError, IndexError, RuntimeError, MemoryError)


def answered(
    record: Any,
    view: dict[str, Any],
    asked: Mapping[str, Any],
    numbers: Numbers,
    effects: Callable[[], Arrays] | None = None,
    **further: Any,
) -> dict[str, Any]:
    """The payload of a record with what its explorer asks for.

    `asked` is the component's state: `quantity`, a name; `exact`, which maps are wanted as they
    are; `page`, the view with which the page is to be saved; `effects`, what each head matters,
    which the function of that name works out. Each of the latter names its `sentence`, so that a
    question about another record is not answered. `further` goes to `payload` as it is. What fails
    is one line in the payload, and never an exception.
    """
    failed: dict[str, str] = {}
    given: dict[str, Arrays | None] = dict.fromkeys(numbers)

    def work_out(name: str) -> Arrays | None:
        if name in numbers and given[name] is None:
            arrays = numbers[name]()
            for kind in KINDS:
                if not np.isfinite(arrays[kind][..., getattr(record, f"{kind}_mask")]).all():
                    raise ValueError(f"the {kind} maps hold a number that is not finite")
            given[name] = arrays
        return given.get(name)

    def attempt(what: str, words: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except _FAILURES as error:
            line = " ".join(str(error).split()) or type(error).__name__
            failed[what] = f"{words} could not be made: {line[:200]}"
            return None

    wanted = asked.get("quantity") or "weights"
    attempt("quantity", f"The {wanted}", lambda: work_out(wanted))
    exact = file = None
    if _of(record, asked.get("exact")):
        exact = attempt(
            "exact", "The exact numbers", lambda: _exact(record, asked["exact"], work_out)
        )
    if _of(record, asked.get("page")):
        file = attempt("page", "The page", lambda: _page(record, asked["page"], numbers, work_out))
    worth = None
    if effects and _of(record, asked.get("effects")):
        worth = attempt("effects", "The effect of each head", effects)
    shown = {name: given[name] if name == wanted else None for name in numbers}
    answers = Answers(exact, file, worth, failed)
    return payload(
        record,
        view,
        quantities=shown,
        answers=answers,
        offers_effects=effects is not None,
        **further,
    )


def _of(record: Any, question: Any) -> bool:
    return isinstance(question, Mapping) and question.get("sentence") == record.id


def _page(
    record: Any,
    question: Mapping[str, Any],
    numbers: Numbers,
    work_out: Callable[[str], Arrays | None],
) -> bytes:
    """The page with the view on screen, and with every quantity that could be chosen there."""
    known = {name: arrays for name in numbers if (arrays := work_out(name)) is not None}
    return page(record, question["view"], known).encode()


def _exact(
    record: Any, question: Mapping[str, Any], work_out: Callable[[str], Arrays | None]
) -> Exact:
    """The maps that a question names. Raises ValueError if there are no such maps."""
    quantity, kind = question.get("quantity", ""), question.get("kind")
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind!r}")
    arrays = {k: getattr(record, k) for k in KINDS} if quantity == "weights" else work_out(quantity)
    if arrays is None:
        raise ValueError(f"there is no quantity {quantity!r}")
    numbers = np.asarray(arrays[kind])
    places = []
    for axis, name in enumerate(("layer", "head")):
        place = question.get(name)
        if place is not None and place not in range(numbers.shape[axis]):
            raise ValueError(f"there is no {name} {place!r}")
        places.append(place)
        chosen = slice(None) if place is None else slice(place, place + 1)
        numbers = numbers[chosen] if axis == 0 else numbers[:, chosen]
    return Exact(quantity, kind, places[0], places[1], numbers)
