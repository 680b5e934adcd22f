"""Answers the explorer's requests: other quantities, exact numbers, head effects, HTML export."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from app.components.explorer.payload import (
    Arrays,
    check_size,
    effects_answer,
    exact_answer,
    lens_answer,
    quantity_answer,
)
from app.components.tokens import sent
from app.export.page import page
from core.kinds import KINDS

Numbers = Mapping[str, Callable[[], Arrays]]
"""How to compute each quantity other than the weights."""

_NAMES = {
    "exact": "exact numbers",
    "page": "page",
    "effects": "effect of each head",
    "lens": "reading of the states",
}

# A network's pass may fail on bad input, on an id without an embedding, or for lack of memory.
_FAILURES = (ValueError, IndexError, RuntimeError, MemoryError)


def answers(
    record: Any,
    requests: Mapping[str, Any],
    numbers: Numbers,
    effects: Callable[[], Arrays] | None = None,
    lens: Callable[[], tuple[Any, Mapping[int, Any], Any]] | None = None,
) -> dict[str, dict[str, Any]]:
    """Return the answer to each request about a record, by the request's name.

    `requests` is the component's state: see `Requests` and `Answer` in types.js. A chosen quantity
    applies to every sentence. All other requests name a sentence, and get no answer while another
    sentence is shown. `effects` computes the effect of each head, `lens` the arguments of
    `lens_answer`; without them, such requests get no answer. If a computation fails, the answer has
    `failed`: one line for the reader.
    """
    computed: dict[str, Arrays] = {}

    def compute(name: str) -> Arrays:
        if name not in numbers:
            raise ValueError(f"there is no quantity {name!r}")
        if name not in computed:
            arrays = numbers[name]()
            for kind in KINDS:
                if not np.isfinite(arrays[kind][..., getattr(record, f"{kind}_mask")]).all():
                    raise ValueError(f"the {kind} maps contain a number that is not finite")
            computed[name] = arrays
        return computed[name]

    def make_page(request: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(request.get("view"), Mapping):
            raise ValueError("the request has no view")
        quantities = {name: compute(name) for name in numbers}
        return {"page": page(record, request["view"], quantities).encode()}

    def make_quantity(request: Mapping[str, Any]) -> dict[str, Any]:
        name = request["quantity"]
        return quantity_answer(record, name, compute(name))

    makers: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
        "quantity": make_quantity,
        "exact": lambda request: _exact(record, request, compute),
        "page": make_page,
    }
    if effects is not None:
        makers["effects"] = lambda request: effects_answer(effects())
    if lens is not None:
        makers["lens"] = lambda request: lens_answer(*lens())
    return {
        name: _answer(record, name, request, make)
        for name, make in makers.items()
        if (request := requests.get(name)) and _needs_answer(record, name, request)
    }


def again_answer(
    record: Any, again: Any, search: str, own: str, problem: str = ""
) -> dict[str, Any]:
    """Return the answer with the translation under a record's edits, which nobody requests.

    `again` is its record, or None with one line about the `problem`; `own` is the translation
    without the edits.
    """
    found = {"translation": "", "target": [], "log_prob": 0.0, "search": search, "own": own}
    if again is None:
        found["problem"] = problem
    else:
        found["translation"], found["log_prob"] = again.translation, float(again.log_prob)
        found["target"] = [sent(token) for token in again.target_out]
    return {"sentence": record.id, "name": "again", "request": None, "again": found}


def _needs_answer(record: Any, name: str, request: Any) -> bool:
    if not isinstance(request, Mapping):
        return False
    if name == "quantity":
        return request.get("quantity") not in (None, "weights")
    return request.get("sentence") == record.id


def _answer(
    record: Any,
    name: str,
    request: Mapping[str, Any],
    make: Callable[[Mapping[str, Any]], dict[str, Any]],
) -> dict[str, Any]:
    """Return the answer that `make` computes or, if it fails, one line for the reader."""
    about = {"sentence": record.id, "name": name, "request": request.get("request")}
    try:
        answer = {**about, **make(request)}
        check_size(answer, "the answer")
    except _FAILURES as error:
        what = request["quantity"] if name == "quantity" else _NAMES[name]
        line = " ".join(str(error).split()) or type(error).__name__
        return {**about, "failed": f"The {what} could not be computed: {line[:200]}"}
    return answer


def _exact(
    record: Any, request: Mapping[str, Any], compute: Callable[[str], Arrays]
) -> dict[str, Any]:
    """Return the answer with the requested maps. Raises ValueError if they do not exist."""
    quantity, kind = request.get("quantity", ""), request.get("kind")
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind!r}")
    arrays = {k: getattr(record, k) for k in KINDS} if quantity == "weights" else compute(quantity)
    numbers = np.asarray(arrays[kind])
    chosen = []
    for axis, name in enumerate(("layer", "head")):
        index = request.get(name)
        if index is not None and index not in range(numbers.shape[axis]):
            raise ValueError(f"there is no {name} {index!r}")
        chosen.append(index)
    layer, head = (slice(None) if i is None else slice(i, i + 1) for i in chosen)
    return exact_answer(record, quantity, kind, chosen[0], chosen[1], numbers[layer, head])
