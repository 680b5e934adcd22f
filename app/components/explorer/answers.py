"""Handles explorer requests: other quantities, exact values, head effects, HTML export."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from app.components.explorer.payload import Answers, Arrays, Exact, payload
from app.export.page import page
from core.kinds import KINDS

Numbers = Mapping[str, Callable[[], Arrays]]
"""How to compute each quantity beside the weights."""

# A network's pass may fail on bad input, on an id without an embedding, or for lack of memory.
_FAILURES = (ValueError, IndexError, RuntimeError, MemoryError)


def answered(
    record: Any,
    view: dict[str, Any],
    requests: Mapping[str, Any],
    numbers: Numbers,
    effects: Callable[[], Arrays] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return the payload of a record, with the responses to its explorer's requests.

    `requests` is the component's state: `quantity`, a name; `exact`, the maps to send in full
    precision; `page`, the view that a saved page opens with; `effects`, the effect of each head,
    computed by the function of that name. All but the first name their `sentence`; requests about
    another record are ignored. `options` are passed to `payload`. A failure becomes a line in the
    payload, never an exception.
    """
    failed: dict[str, str] = {}
    computed: dict[str, Arrays] = {}

    def compute(name: str) -> Arrays | None:
        if name in numbers and name not in computed:
            arrays = numbers[name]()
            for kind in KINDS:
                if not np.isfinite(arrays[kind][..., getattr(record, f"{kind}_mask")]).all():
                    raise ValueError(f"the {kind} maps contain a number that is not finite")
            computed[name] = arrays
        return computed.get(name)

    def attempt(request: str, what: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except _FAILURES as error:
            line = " ".join(str(error).split()) or type(error).__name__
            failed[request] = f"{what}: {line[:200]}"
            return None

    def asked(request: str) -> bool:
        given = requests.get(request)
        return isinstance(given, Mapping) and given.get("sentence") == record.id

    wanted = requests.get("quantity") or "weights"
    attempt("quantity", f"The {wanted} could not be computed", lambda: compute(wanted))
    exact = file = head_effects = None
    if asked("exact"):
        exact = attempt(
            "exact",
            "The exact numbers could not be computed",
            lambda: _exact(record, requests["exact"], compute),
        )
    if asked("page"):
        file = attempt(
            "page",
            "The page could not be created",
            lambda: _page(record, requests["page"]["view"], numbers, compute),
        )
    if effects and asked("effects"):
        head_effects = attempt("effects", "The effect of each head could not be computed", effects)
    return payload(
        record,
        view,
        quantities={name: computed.get(name) if name == wanted else None for name in numbers},
        answers=Answers(exact, file, head_effects, failed),
        offers_effects=effects is not None,
        **options,
    )


def _page(
    record: Any,
    view: dict[str, Any],
    numbers: Numbers,
    compute: Callable[[str], Arrays | None],
) -> bytes:
    """The standalone page, with the current view and every available quantity."""
    quantities = {name: arrays for name in numbers if (arrays := compute(name)) is not None}
    return page(record, view, quantities).encode()


def _exact(
    record: Any, request: Mapping[str, Any], compute: Callable[[str], Arrays | None]
) -> Exact:
    """The requested maps. Raises ValueError if they do not exist."""
    quantity, kind = request.get("quantity", ""), request.get("kind")
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind!r}")
    arrays = {k: getattr(record, k) for k in KINDS} if quantity == "weights" else compute(quantity)
    if arrays is None:
        raise ValueError(f"there is no quantity {quantity!r}")
    numbers = np.asarray(arrays[kind])
    chosen = []
    for axis, name in enumerate(("layer", "head")):
        index = request.get(name)
        if index is not None and index not in range(numbers.shape[axis]):
            raise ValueError(f"there is no {name} {index!r}")
        chosen.append(index)
    layer, head = (slice(None) if i is None else slice(i, i + 1) for i in chosen)
    return Exact(quantity, kind, chosen[0], chosen[1], numbers[layer, head])
