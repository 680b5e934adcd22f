"""Edits of states: copy one from another sentence's pass, or push it in a direction.

A state is a vector of the residual stream: of a side, after a layer (0: the embeddings), at a
position. core.record.states applies these edits to a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, Self

from core.kinds import KINDS, SIDES, Kind, Side
from core.record.parts import RecordToken
from core.record.placed import (
    DECIMAL,
    MAX_FACTOR,
    MAX_ID,
    EditError,
    Limits,
    Placed,
    PlacedState,
    head_problem,
    name_of,
    number,
    position_problem,
)

_BOS, _EOS = 1, 2  # as in core.text.tokenizer, which needs more than a record may import
_MAX_TOKENS = 512  # of a side: the maximum number of tokens in a record


class _Record(Protocol):
    """The part of a TranslationRecord that a donor is made from."""

    @property
    def source(self) -> tuple[RecordToken, ...]: ...
    @property
    def target_in(self) -> tuple[RecordToken, ...]: ...


@dataclass(frozen=True)
class Donor:
    """The pass that copies come from: the ids of its source, with <eos>, and those fed, with <bos>.

    It runs without edits.
    """

    source: tuple[int, ...]
    target: tuple[int, ...]

    def __post_init__(self) -> None:
        for side in ("source", "target"):
            ids = tuple(getattr(self, side))
            object.__setattr__(self, side, ids)
            if not 0 < len(ids) <= _MAX_TOKENS:
                raise EditError(
                    f"a pass has {len(ids)} {side} tokens: give 1 to {_MAX_TOKENS} on each side"
                )
            if wrong := [id for id in ids if not _is_id(id) or id == 0]:
                raise EditError(f"a pass cannot be fed token {str(wrong[0])[:20]}: give ids from 1")
        if self.source[-1] != _EOS or self.target[0] != _BOS:
            raise EditError(
                f"the source of a pass must end with <eos>, id {_EOS}, and its target must begin "
                f"with <bos>, id {_BOS}"
            )

    @classmethod
    def of(cls, record: _Record) -> Self:
        """Return the pass of a record, without the record's edits."""
        return cls(*(tuple(t.id for t in side) for side in (record.source, record.target_in)))

    def length(self, kind: Kind | Side) -> int:
        """Return the number of states of a side, or of queries of a kind."""
        return len(self.source if kind == "encoder" else self.target)


@dataclass(frozen=True)
class Patch(PlacedState):
    """Replace the state at `position` by the donor's at `donor_position`."""

    side: Side
    layer: int
    position: int
    donor_position: int


@dataclass(frozen=True)
class HeadPatch(Placed):
    """Replace a head's output at `query` by the donor's at `donor_query`.

    The output is the head's slice of the input of W^O. A head that is also switched off stays off.
    """

    kind: Kind
    layer: int
    head: int
    query: int
    donor_query: int


@dataclass(frozen=True)
class Push(PlacedState):
    """Add `strength` times a unit vector to a state: less of token `old`, more of token `new`.

    The vector is J_lᵀ(w_new − w_old), normalised: J_l is the layer's Jacobian lens, w a row of the
    output projection, or 0 for an `old` of None. A push comes after a copy to the same state.
    """

    side: Side
    layer: int
    position: int
    old: int | None
    new: int
    strength: float

    def __post_init__(self) -> None:
        super().__post_init__()
        for id in (self.old, self.new):
            if not _is_id(id) and (id is not None or self.new is None):
                raise EditError(f"token {str(id)[:20]} is out of range: choose 0 to {MAX_ID:,}")
        if self.old == self.new:
            raise EditError(f"token {self.new} cannot be pushed towards itself: choose two tokens")
        _set_strength(self)

    @property
    def is_neutral(self) -> bool:
        return self.strength == 0


@dataclass(frozen=True)
class RandomPush(PlacedState):
    """Add `strength` times a random unit vector, fixed by `seed`, to a state."""

    side: Side
    layer: int
    position: int
    seed: int
    strength: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _set_strength(self)

    @property
    def is_neutral(self) -> bool:
        return self.strength == 0


def _is_id(id: object) -> bool:
    return type(id) is int and 0 <= id <= MAX_ID


def _set_strength(push: Push | RandomPush) -> None:
    if not abs(push.strength) <= MAX_FACTOR:
        raise EditError(
            f"a strength of {push.strength} is out of range: choose −{MAX_FACTOR:,.0f} to "
            f"{MAX_FACTOR:,.0f}"
        )
    object.__setattr__(push, "strength", round(float(push.strength), 6))


_WORDS: dict[type, str] = {
    Patch: "copy",
    HeadPatch: "copyhead",
    Push: "push",
    RandomPush: "pushrandom",
}
_IDS = r"\d{1,7}(?:-\d{1,7})*"
_STATE = rf"\.(?P<side>{'|'.join(SIDES)})\.(?P<layer>\d{{1,5}})\.(?P<position>\d{{1,5}})"
STATE_PATTERNS = {
    "pass": rf"pass\.(?P<source>{_IDS})\.(?P<target>{_IDS})",
    "copy": rf"copy{_STATE}\.(?P<donor_position>\d{{1,5}})",
    "copyhead": rf"copyhead\.(?P<kind>{'|'.join(KINDS)})\.(?P<layer>\d{{1,5}})\.(?P<head>\d{{1,5}})"
    r"\.(?P<query>\d{1,5})\.(?P<donor_query>\d{1,5})",
    "push": rf"push{_STATE}\.(?P<old>\d{{1,7}}|none)\.(?P<new>\d{{1,7}})"
    rf"\.(?P<strength>-?{DECIMAL})",
    "pushrandom": rf"pushrandom{_STATE}\.(?P<seed>\d{{1,5}})\.(?P<strength>-?{DECIMAL})",
}
"""The text forms, as regular expressions whose groups are fields."""
STATE_BUILDERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "pass": lambda found: {"donor": Donor(_ids(found["source"]), _ids(found["target"]))},
    "copy": lambda found: {"patches": (Patch(**_values(found)),)},
    "copyhead": lambda found: {"head_patches": (HeadPatch(**_values(found)),)},
    "push": lambda found: {"pushes": (Push(**_values(found)),)},
    "pushrandom": lambda found: {"pushes": (RandomPush(**_values(found)),)},
}
"""The field of `Edits` and its value, from the groups of a match."""


def text_of_state(item: Donor | Patch | HeadPatch | Push | RandomPush) -> str:
    """Return the text form of a donor, or of an edit of a state."""
    if isinstance(item, Donor):
        return f"pass.{'-'.join(map(str, item.source))}.{'-'.join(map(str, item.target))}"
    *where, last = vars(item).values()
    parts = ("none" if part is None else str(part) for part in (*where, number(last)))
    return f"{_WORDS[type(item)]}.{'.'.join(parts)}"


def _values(found: dict[str, Any]) -> dict[str, Any]:
    """Convert the parts of an edit of a state, by field."""

    def value(name: str, part: str) -> str | int | float | None:
        if name in ("kind", "side"):
            return part
        return None if part == "none" else float(part) if name == "strength" else int(part)

    return {name: value(name, part) for name, part in found.items()}


def _ids(found: str) -> tuple[int, ...]:
    return tuple(map(int, found.split("-")))


def state_problem(
    donor: Donor | None,
    items: Iterable[Patch | HeadPatch | Push | RandomPush],
    limits: Limits,
    copied: Donor | None,
) -> str | None:
    """Return why a donor or edits of states do not apply within these limits, or None if they do.

    `copied` is the donor of all edits.
    """
    reason = None if donor is None else _donor_problem(donor, limits)
    for item in items:
        reason = reason or _item_problem(item, limits, copied)
    return reason


def _donor_problem(donor: Donor, limits: Limits) -> str | None:
    for side, vocab in (("source", limits.source_vocab), ("target", limits.target_vocab)):
        ids = getattr(donor, side)
        if len(ids) > (most := limits.max_length):
            return f"a pass of {len(ids)} {side} tokens is too long: the limit is {most}"
        if reason := _id_problem(max(ids), vocab):
            return reason
    return None


def _item_problem(
    item: Patch | HeadPatch | Push | RandomPush, limits: Limits, copied: Donor | None
) -> str | None:
    kind, layer, *_ = item.where
    if isinstance(item, HeadPatch):
        name, position = "query", item.query
        if reason := head_problem(kind, layer, item.head, limits):
            return f"{name_of(kind, layer, item.head)} cannot be copied: {reason}"
    else:
        name, position = "position", item.position
        if layer > (last := limits.layers(kind)):
            return (
                f"the {kind} has no state after layer {layer}: the layers end at {last}, and 0 is "
                "the embeddings"
            )
    if reason := position_problem(kind, name, position, limits):
        return reason
    if isinstance(item, Push):
        reasons = (_id_problem(id, limits.target_vocab) for id in (item.old, item.new))
        return next(filter(None, reasons), None)
    if isinstance(item, RandomPush) or copied is None:
        return None
    donor_position = item.donor_position if isinstance(item, Patch) else item.donor_query
    if donor_position < (length := copied.length(kind)):
        return None
    return (
        f"{name} {donor_position} of {kind} cannot be copied: the other pass ends at {length - 1}, "
        "counted from 0"
    )


def _id_problem(id: int | None, vocab: int | None) -> str | None:
    if id is None or vocab is None or id < vocab:
        return None
    return f"token {id} does not exist: the vocabulary ends at {vocab - 1}"
