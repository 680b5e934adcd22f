"""Interventions on a forward pass, as frozen values with a text form for links and files.

core.record.editing applies them to a model; core.record.softmax computes weights under them.
"""

from __future__ import annotations

import dataclasses
import math
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

from core.kinds import KINDS, Kind
from core.record.placed import (
    DECIMAL,
    MAX_FACTOR,
    EditError,
    Limits,
    Placed,
    head_problem,
    name_of,
    number,
    position_problem,
)
from core.record.state_edits import (
    STATE_BUILDERS,
    STATE_PATTERNS,
    Donor,
    HeadPatch,
    Patch,
    Push,
    RandomPush,
    state_problem,
    text_of_state,
)

Head = tuple[Kind, int, int]
"""Kind, layer and head; layer and head are counted from 0."""

MAX_EDITS = 200
_PLACED = ("edges", "rows", "temperatures", "patches", "head_patches", "pushes")
_MAX_ROW = 512  # weights: the maximum number of tokens in a record
_MAX_TEXT = 1 << 20  # characters
_MAX_PARTS = 2_000  # parsed per text
_MAX_PROBLEMS = 20  # reported per text, one line each


@dataclass(frozen=True)
class PositionEdit:
    """Replace the position encoding PE(p) by scale · PE(row(p)).

    row(p) = stretch · order[p] + shift, with order[p] = p for positions past the end of `order`.
    """

    scale: float = 1.0
    stretch: int = 1
    shift: int = 0
    order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.order))):
            raise EditError(
                f"{self.order} is not a permutation of the positions 0 to {len(self.order) - 1}"
            )
        for name, value, limit in (
            ("scale", self.scale, 1000),
            ("stretch", self.stretch, 1000),
            ("shift", self.shift, 1_000_000),
        ):
            if not abs(value) <= limit:
                raise EditError(
                    f"a position {name} of {value} is out of range: choose from −{limit:,} to "
                    f"{limit:,}"
                )
        object.__setattr__(self, "scale", round(float(self.scale), 6))

    @classmethod
    def shuffled(cls, seed: int, length: int) -> Self:
        """Return an edit that permutes the first `length` positions at random, fixed by the seed.

        With two or more positions the permutation is never the identity.
        """
        rng, order = random.Random(seed), list(range(length))
        while length > 1 and order == sorted(order):
            rng.shuffle(order)
        return cls(order=tuple(order))

    def rows(self, start: int, length: int) -> list[int]:
        """Return the table rows for the positions start … start+length−1."""
        own = range(start, start + length)
        ordered = (self.order[p] if p < len(self.order) else p for p in own)
        return [self.stretch * p + self.shift for p in ordered]


OFF = PositionEdit(scale=0.0)
DOUBLED = PositionEdit(scale=2.0)
STRETCHED = PositionEdit(stretch=2)


@dataclass(frozen=True)
class Edge(Placed):
    """Multiply exp(score) of some cells by `factor` before the softmax; 0 cuts the edge.

    None means all layers, heads, queries or keys. The factors of overlapping edges multiply; masked
    cells stay masked. A query with all keys cut gets weights of 0, like a fully masked row.
    """

    kind: Kind
    layer: int | None
    head: int | None
    query: int | None
    key: int | None
    factor: float = 0.0
    _may_be_all = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.factor <= MAX_FACTOR or 0 < self.factor < 1 / MAX_FACTOR:
            raise EditError(
                f"an edge cannot be multiplied by {self.factor}: choose 0 to cut it, or a factor "
                f"from {1 / MAX_FACTOR} to {MAX_FACTOR:,.0f}"
            )
        object.__setattr__(self, "factor", float(self.factor))

    @property
    def is_neutral(self) -> bool:
        return self.factor == 1


@dataclass(frozen=True)
class Row(Placed):
    """Set the attention weights of one query in one head.

    `weights` are normalised to sum to 1 and rounded to six decimals. Keys after the last
    weight get 0. In the pass, the row is renormalised over its unmasked keys; edges and
    temperatures do not affect it.
    """

    kind: Kind
    layer: int
    head: int
    query: int
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = tuple(float(weight) for weight in self.weights)
        if not 0 < len(weights) <= _MAX_ROW:
            raise EditError(f"a row has {len(weights)} weights: give 1 to {_MAX_ROW}")
        if not all(0 <= weight <= MAX_FACTOR for weight in weights) or not sum(weights) > 0:
            raise EditError(
                f"a row cannot have these weights: each must be from 0 to {MAX_FACTOR:,.0f}, and "
                "one must be above 0"
            )
        total = math.fsum(weights)
        if abs(total - 1) > 5e-7 * len(weights) + 1e-12:  # beyond rounding to six decimals
            weights = tuple(weight / total for weight in weights)
        object.__setattr__(self, "weights", tuple(round(weight, 6) for weight in weights))


@dataclass(frozen=True)
class Temperature(Placed):
    """Divide the scores of one head by `value` before the softmax; below 1 sharpens."""

    kind: Kind
    layer: int
    head: int
    value: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.01 <= self.value <= 100:
            raise EditError(f"a temperature of {self.value} is out of range: choose 0.01 to 100")
        object.__setattr__(self, "value", float(self.value))

    @property
    def is_neutral(self) -> bool:
        return self.value == 1


@dataclass(frozen=True)
class Edits:
    """A set of interventions on a forward pass; empty by default.

    `hidden_source` are source positions masked for all queries, in the encoder and in
    cross-attention. Heads are (kind, layer, head), counted from 0. Those in `heads_off` are
    zero-ablated. Those in `heads_mean` are mean-ablated: their output is the mean over a sample.
    Those in `heads_uniform` attend uniformly to all unmasked keys. `edges`, `rows` and
    `temperatures` change individual weights. Within a head they are applied in the order
    temperature, edges, mask, softmax, rows. Decoding requires the causal mask, because future
    tokens do not exist yet.

    `patches` and `head_patches` copy states and heads' outputs from the pass of `donor`, another
    sentence's or another target's. `pushes` then move states along a direction. In decoding, an
    edit of the decoder applies when its position is computed, to every hypothesis.

    Equality does not depend on order, and edits without effect (a factor or temperature of 1) are
    dropped. Raises EditError for conflicting edits of one target, and for more than 200 edits.
    """

    causal_mask: bool = True
    padding_mask: bool = True
    hidden_source: tuple[int, ...] = ()
    source_positions: PositionEdit = PositionEdit()
    target_positions: PositionEdit = PositionEdit()
    heads_off: frozenset[Head] = frozenset()
    heads_uniform: frozenset[Head] = frozenset()
    heads_mean: frozenset[Head] = frozenset()
    edges: tuple[Edge, ...] = ()
    rows: tuple[Row, ...] = ()
    temperatures: tuple[Temperature, ...] = ()
    donor: Donor | None = None
    patches: tuple[Patch, ...] = ()
    head_patches: tuple[HeadPatch, ...] = ()
    pushes: tuple[Push | RandomPush, ...] = ()

    def __post_init__(self) -> None:
        if min(self.hidden_source, default=0) < 0:
            raise EditError(f"hidden positions {self.hidden_source} must be counted from 0")
        self._set("hidden_source", tuple(sorted(set(self.hidden_source))))
        for name in ("heads_off", "heads_uniform", "heads_mean"):
            self._set(name, frozenset(self._heads(name)))
        if both := self.heads_off & self.heads_mean:
            raise EditError(
                f"{name_of(*min(both))} is both switched off and set to its mean: choose one"
            )
        for name in _PLACED:
            found: dict[tuple, Any] = {}
            for one in getattr(self, name):
                if found.setdefault(one.where, one) != one:
                    raise EditError(f"{one} and {found[one.where]} conflict: choose one")
            kept = [one for one in found.values() if not one.is_neutral]
            self._set(name, tuple(sorted(kept, key=lambda one: _sort_key(one.where))))
        if (count := self._count()) > MAX_EDITS:
            raise EditError(f"{count} edits are too many: the limit is {MAX_EDITS}. Undo some.")

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _heads(self, name: str) -> Iterable[Head]:
        heads = getattr(self, name)
        if isinstance(heads, tuple) and heads[:1] and isinstance(heads[0], str):
            raise EditError(f"{name} takes a set of heads: write {name}={{{heads!r}}}")
        for one in heads:
            if not _is_head(one):
                raise EditError(
                    f"{str(one)[:40]} is not a head: give (kind, layer, head), with a kind of "
                    f"{', '.join(KINDS)} and layer and head counted from 0"
                )
            yield tuple(one)

    def _count(self) -> int:
        values = (getattr(self, f.name) for f in dataclasses.fields(self))
        return sum(len(v) if isinstance(v, tuple | frozenset) else 0 for v in values)

    @property
    def changes_masks(self) -> bool:
        """Whether any mask differs from the model's own."""
        return not (self.causal_mask and self.padding_mask) or bool(self.hidden_source)

    @property
    def changes_weights(self) -> bool:
        """Whether any weights differ from the softmax of scores and mask."""
        return bool(self.edges or self.rows or self.temperatures or self.heads_uniform)

    @property
    def copies(self) -> tuple[Patch | HeadPatch, ...]:
        """All edits that need the donor."""
        return *self.patches, *self.head_patches

    @property
    def changes_states(self) -> bool:
        """Whether states are copied or pushed."""
        return bool(self.copies or self.pushes)

    def of_site(self, kind: Kind, layer: int) -> Edits:
        """Return the edits that change the weights of one attention site."""
        at = kind, layer
        return Edits(
            edges=tuple(e for e in self.edges if e.kind == kind and e.layer in (None, layer)),
            rows=tuple(row for row in self.rows if row.where[:2] == at),
            temperatures=tuple(one for one in self.temperatures if one.where[:2] == at),
            heads_uniform=frozenset(head for head in self.heads_uniform if head[:2] == at),
        )

    def listed(self) -> list[Edits]:
        """Return each edit as a separate `Edits`, in the order of the text form."""
        found: list[dict[str, Any]] = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, frozenset):
                value = tuple(sorted(value, key=_sort_key))
            if isinstance(value, tuple):
                found += [{field.name: (one,)} for one in value]
            elif value != field.default:
                found.append({field.name: value})
        return [Edits(**values) for values in found]

    def without(self, one: Edits) -> Edits:
        """Remove the edits of `one`, an item of `listed`; absent edits are ignored.

        The donor goes with the last copy from it, and all copies go with their donor.
        """
        kept: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value, removed = getattr(self, field.name), getattr(one, field.name)
            if isinstance(value, tuple | frozenset):
                kept[field.name] = tuple(item for item in value if item not in removed)
            elif value == removed:
                kept[field.name] = field.default
        if one.donor == self.donor is not None:
            kept |= {"patches": (), "head_patches": ()}
        elif self.copies and not (kept["patches"] or kept["head_patches"]):
            kept["donor"] = None
        return dataclasses.replace(self, **kept)

    def plus(self, other: Edits) -> Edits:
        """Merge two sets of edits; `other` wins on conflict.

        Copies from another donor than that of `other` are dropped.
        """
        both: dict[str, Any] = {}
        if other.donor not in (None, self.donor):
            self = dataclasses.replace(self, patches=(), head_patches=())
        for field in dataclasses.fields(self):
            value, new = getattr(self, field.name), getattr(other, field.name)
            if field.name in _PLACED:
                replaced = {one.where for one in new}
                both[field.name] = (*(one for one in value if one.where not in replaced), *new)
            elif isinstance(value, tuple | frozenset):
                both[field.name] = (*value, *new)
            elif new != field.default:
                both[field.name] = new
        both["heads_off"] = set(both["heads_off"]) - other.heads_mean
        both["heads_mean"] = set(both["heads_mean"]) - other.heads_off
        return dataclasses.replace(self, **both)

    def to_text(self) -> str:
        """Encode as one line of letters, digits and `. - _ ~`: `off.cross.2.0~hide.3`, or ""."""
        return "~".join(_text_of(one) for one in self.listed())

    @staticmethod
    def parse(text: str) -> tuple[Edits, list[str]]:
        """Parse the text form; return up to 200 valid edits, and one message per rejected part.

        The cost is bounded for untrusted input.
        """
        if len(text) > _MAX_TEXT:
            return Edits(), [f"{len(text):,} characters of edits are too many: the limit is 1 MB"]
        problems: list[str] = []
        singles: dict[tuple, Edits] = {}
        items = text.split("~", _MAX_PARTS) if text else []
        if len(items) > _MAX_PARTS:
            problems.append(
                f"everything after the first {_MAX_PARTS:,} edits is ignored: undo some"
            )
        for item in items[:_MAX_PARTS]:
            try:
                one = _parse_one(item)
            except (EditError, ValueError, OverflowError) as error:
                known = isinstance(error, EditError)
                reason = str(error) if known else "unknown syntax"
                problems.append(f"{_quoted(item)} is ignored: {reason}")
                continue
            target = _target_of(one)
            if target is not None and target in singles:
                problems.append(f"{_quoted(item)} is ignored: it conflicts with an earlier edit")
            elif target is not None:
                singles[target] = one
        if (more := len(singles) - MAX_EDITS) > 0:
            problems.append(f"{more:,} more edits are ignored: the limit is {MAX_EDITS}")
        edits = _merged(list(singles.values())[:MAX_EDITS])
        if (more := len(problems) - _MAX_PROBLEMS) > 0:
            problems = [*problems[:_MAX_PROBLEMS], f"{more:,} more problems are not listed"]
        return edits, problems

    def fitting(self, limits: Limits) -> tuple[Edits, list[str]]:
        """Return the edits that apply within these limits, and one message per rejected edit.

        Only the model limits target positions: an edit at a position that a translation does not
        reach has no effect.
        """
        kept, problems = [], []
        for one in self.listed():
            if reason := _problem_with(one, limits, self):
                problems.append(reason)
            else:
                kept.append(one)
        fits = _merged(kept)
        if fits.copies and fits.donor is None:
            fits = dataclasses.replace(fits, patches=(), head_patches=())
            if self.donor is None:
                problems.append("copies need the pass that they come from: add pass.SOURCE.TARGET")
        return (fits if problems else self), problems


def _is_head(value: object) -> bool:
    match value:
        case (kind, int(layer), int(head)):
            return kind in KINDS and min(layer, head) >= 0
    return False


def _sort_key(where: tuple) -> tuple:
    """Order by kind (encoder, decoder, cross), then by number, with "all" first."""
    kind, *numbers = where
    return KINDS.index(kind), *(-1 if number is None else number for number in numbers)


def _merged(singles: list[Edits]) -> Edits:
    """Combine edits that do not conflict."""
    values: dict[str, Any] = {}
    for one in singles:
        for field in dataclasses.fields(one):
            value = getattr(one, field.name)
            if isinstance(value, tuple | frozenset):
                values.setdefault(field.name, []).extend(value)
            elif value != field.default:
                values[field.name] = value
    return Edits(**values)


def _target_of(one: Edits) -> tuple | None:
    """Return a key for what a single edit changes, to detect conflicts; None for no edit."""
    for field in dataclasses.fields(one):
        value = getattr(one, field.name)
        if isinstance(value, tuple | frozenset):
            for item in value:
                kind = "heads_off" if field.name == "heads_mean" else field.name
                return kind, getattr(item, "where", item)
        elif value != field.default:
            return (field.name,)
    return None


# Text encoding, restricted to characters that URLs do not escape.


def _text_of(one: Edits) -> str:
    """Encode a single edit, an item of `listed`."""
    for word, heads in _ablations(one):
        for kind, layer, head in heads:
            return f"{word}.{kind}.{layer}.{head}"
    for item in (one.donor, *one.copies, *one.pushes):
        if item is not None:
            return text_of_state(item)
    for item in (*one.edges, *one.rows, *one.temperatures):
        where = ".".join("all" if part is None else str(part) for part in item.where)
        match item:
            case Edge(factor=factor):
                return f"times.{where}.{number(factor)}" if factor else f"cut.{where}"
            case Row(weights=weights):
                return f"row.{where}.{'-'.join(map(number, weights))}"
            case Temperature(value=value):
                return f"temp.{where}.{number(value)}"
    for position in one.hidden_source:
        return f"hide.{position}"
    for side in ("source", "target"):
        if (edit := getattr(one, f"{side}_positions")) != PositionEdit():
            return f"positions.{side}.{_text_of_positions(edit)}"
    return "padding" if one.causal_mask else "causal"


def _ablations(one: Edits) -> tuple[tuple[str, frozenset[Head]], ...]:
    return ("off", one.heads_off), ("uniform", one.heads_uniform), ("mean", one.heads_mean)


def _text_of_positions(edit: PositionEdit) -> str:
    parts = [
        f"{name}-{number(getattr(edit, name))}"
        for name in ("scale", "stretch", "shift")
        if getattr(edit, name) != getattr(PositionEdit(), name)
    ]
    if edit.order:
        parts.append("order-" + "-".join(map(str, edit.order)))
    return "_".join(parts)


_KIND = f"(?P<kind>{'|'.join(KINDS)})"
_AT = r"\.(?P<layer>\d{1,5})\.(?P<head>\d{1,5})"
_WIDE = r"".join(rf"\.(?P<{name}>\d{{1,5}}|all|\*)" for name in ("layer", "head", "query", "key"))
_SIGNED = f"-?{DECIMAL}"
_PATTERNS: dict[str, re.Pattern[str]] = {
    name: re.compile(form, re.ASCII)
    for name, form in {
        "mask": r"(?P<mask>causal|padding)",
        "hide": r"hide\.(?P<position>\d{1,5})",
        "positions": rf"positions\.(?P<side>source|target)\.(?:scale-(?P<scale>{_SIGNED}))?_?"
        rf"(?:stretch-(?P<stretch>-?\d{{1,7}}))?_?(?:shift-(?P<shift>-?\d{{1,7}}))?_?"
        r"(?:order-(?P<order>\d{1,3}(?:-\d{1,3})*))?",
        "heads": rf"(?P<word>off|uniform|mean)\.{_KIND}{_AT}",
        "cut": rf"cut\.{_KIND}{_WIDE}",
        "times": rf"times\.{_KIND}{_WIDE}\.(?P<factor>{DECIMAL})",
        "row": rf"row\.{_KIND}{_AT}\.(?P<query>\d{{1,5}})\."
        rf"(?P<weights>{DECIMAL}(?:-{DECIMAL})*)",
        "temp": rf"temp\.{_KIND}{_AT}\.(?P<value>{DECIMAL})",
        **STATE_PATTERNS,
    }.items()
}


def _parse_one(item: str) -> Edits:
    """Parse a single edit. Raises ValueError for unknown syntax."""
    for name, form in _PATTERNS.items():
        if found := form.fullmatch(item):
            return Edits(**_BUILDERS[name](found.groupdict()))
    raise ValueError(item)


def _at(found: dict[str, Any]) -> tuple[Any, ...]:
    """Return kind, layer and head of a match, and its query and key if present."""
    numbers = [found[name] for name in ("layer", "head", "query", "key") if name in found]
    return found["kind"], *(None if n in ("all", "*") else int(n) for n in numbers)


def _positions(found: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if found["scale"]:
        values["scale"] = float(found["scale"])
    values |= {name: int(found[name]) for name in ("stretch", "shift") if found[name]}
    if found["order"]:
        values["order"] = tuple(map(int, found["order"].split("-")))
    return {f"{found['side']}_positions": PositionEdit(**values)}


_BUILDERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "mask": lambda found: {f"{found['mask']}_mask": False},
    "hide": lambda found: {"hidden_source": (int(found["position"]),)},
    "positions": _positions,
    "heads": lambda found: {f"heads_{found['word']}": (_at(found),)},
    "cut": lambda found: {"edges": (Edge(*_at(found)),)},
    "times": lambda found: {"edges": (Edge(*_at(found), float(found["factor"])),)},
    "row": lambda found: {
        "rows": (Row(*_at(found), tuple(map(float, found["weights"].split("-")))),)
    },
    "temp": lambda found: {"temperatures": (Temperature(*_at(found), float(found["value"])),)},
    **STATE_BUILDERS,
}


def _quoted(item: str) -> str:
    """Quote untrusted text, shortened and on one line."""
    return repr(item if len(item) <= 40 else f"{item[:39]}…")


def _problem_with(one: Edits, limits: Limits, among: Edits) -> str | None:
    """Return why a single edit does not apply within these limits, or None if it does."""
    S = limits.source_length
    for position in one.hidden_source:
        if S is not None and position >= S:
            return f"position {position} cannot be hidden: there are {S} tokens"
    words = {"off": "switched off", "uniform": "made uniform", "mean": "set to its mean"}
    for word, heads in _ablations(one):
        for kind, layer, head in heads:
            if reason := head_problem(kind, layer, head, limits):
                return f"{name_of(kind, layer, head)} cannot be {words[word]}: {reason}"
    for item in (*one.edges, *one.rows, *one.temperatures):
        if reason := head_problem(item.kind, item.layer, item.head, limits):
            return f"{name_of(item.kind, item.layer, item.head)} cannot be edited: {reason}"
    for edge in one.edges:
        for name, position in (("query", edge.query), ("key", edge.key)):
            if reason := position_problem(edge.kind, name, position, limits):
                return reason
    for row in one.rows:
        keys = [k for k, weight in enumerate(row.weights) if weight]
        positions = [("query", row.query)]
        if row.kind != "decoder":
            positions.append(("key", keys[-1]))
        for name, position in positions:
            if reason := position_problem(row.kind, name, position, limits):
                return reason
        if row.kind == "decoder" and among.causal_mask:
            keys = [k for k in keys if k <= row.query]
        elif row.kind != "decoder":
            keys = [k for k in keys if k not in among.hidden_source]
        if not keys:
            return (
                f"the row of {name_of(row.kind, row.layer, row.head)}, query {row.query} has "
                "weight only on masked keys: give some to another key"
            )
    return state_problem(one.donor, (*one.copies, *one.pushes), limits, among.donor)
