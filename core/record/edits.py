"""What can be changed in a pass: frozen values and their text form, which a link and a file hold.

core.record.editing applies them to a network; core.record.softmax works out weights under them.
"""

from __future__ import annotations

import dataclasses
import math
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

from core.kinds import KINDS, Kind

Head = tuple[Kind, int, int]
"""Kind, layer and head, both counted from 0."""

MAX_EDITS = 200
MAX_FACTOR = 1e6
_MAX_INDEX = 9_999  # of a layer, a head or a position; a network's own limits come later
_MAX_ROW = 512  # weights: as many as a record has tokens
_MAX_TEXT = 1 << 20
_MAX_PARTS = 2_000  # of a text that are looked at
_NAMED = 20  # problems of a text, each in a line of its own


class EditError(ValueError):
    """An edit that a model or a sentence cannot have; the message is one line for the reader."""


@dataclass(frozen=True)
class PositionEdit:
    """What is added at position p in place of PE(p): scale · PE(row(p)).

    row(p) = stretch · order[p] + shift, where positions behind the end of `order` keep their own p.
    """

    scale: float = 1.0
    stretch: int = 1
    shift: int = 0
    order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.order))):
            raise EditError(f"{self.order} is no order of the positions 0 to {len(self.order) - 1}")
        for name, value, limit in (
            ("scale", self.scale, 1000),
            ("stretch", self.stretch, 1000),
            ("shift", self.shift, 1_000_000),
        ):
            if not abs(value) <= limit:
                raise EditError(
                    f"a {name} of positions of {value} is out of range: choose from −{limit:,} to "
                    f"{limit:,}"
                )
        object.__setattr__(self, "scale", round(float(self.scale), 6))

    @classmethod
    def shuffled(cls, seed: int, length: int) -> Self:
        """The first `length` positions change rows among themselves, by chance.

        One seed gives one order; of two positions or more, at least one changes.
        """
        chance, order = random.Random(seed), list(range(length))
        while length > 1 and order == sorted(order):
            chance.shuffle(order)
        return cls(order=tuple(order))

    def rows(self, start: int, length: int) -> list[int]:
        """The rows of the table that the positions start … start+length−1 get."""
        own = range(start, start + length)
        ordered = (self.order[p] if p < len(self.order) else p for p in own)
        return [self.stretch * p + self.shift for p in ordered]


OFF = PositionEdit(scale=0.0)
DOUBLED = PositionEdit(scale=2.0)
STRETCHED = PositionEdit(stretch=2)


@dataclass(frozen=True)
class Edge:
    """exp(score) of some cells is multiplied by `factor` before the softmax; 0 cuts them.

    None stands for every layer, head, query or key. Edges that meet in a cell multiply; what is
    masked stays masked. A query with every key cut gets zeros, like one that is masked altogether.
    """

    kind: Kind
    layer: int | None
    head: int | None
    query: int | None
    key: int | None
    factor: float = 0.0

    def __post_init__(self) -> None:
        _check_kind(self.kind)
        for name in ("layer", "head", "query", "key"):
            _check_index(name, getattr(self, name), or_all=True)
        if not 0 <= self.factor <= MAX_FACTOR or 0 < self.factor < 1 / MAX_FACTOR:
            raise EditError(
                f"an edge cannot be multiplied by {self.factor}: choose 0 to cut it, or a factor "
                f"from {1 / MAX_FACTOR} to {MAX_FACTOR:,.0f}"
            )
        object.__setattr__(self, "factor", float(self.factor))

    @property
    def where(self) -> tuple:
        """What tells it from other edges: all but the factor."""
        return self.kind, self.layer, self.head, self.query, self.key


@dataclass(frozen=True)
class Row:
    """The weights of one query in one head, given by hand: each over the sum of all.

    Keys behind the end of `weights` get 0. What is given to a masked key, or in the decoder to one
    that is not there, is left out, and the others share its weight in proportion; edges and a
    temperature do not reach a given row. The weights are held to six decimals and sum to 1.
    """

    kind: Kind
    layer: int
    head: int
    query: int
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_kind(self.kind)
        for name in ("layer", "head", "query"):
            _check_index(name, getattr(self, name))
        weights = tuple(float(weight) for weight in self.weights)
        if not 0 < len(weights) <= _MAX_ROW:
            raise EditError(f"a row of {len(weights)} weights is given: choose 1 to {_MAX_ROW}")
        if not all(0 <= weight <= MAX_FACTOR for weight in weights) or not sum(weights) > 0:
            raise EditError(
                "a row is given with weights that are no shares: none may be below 0 or NaN, and "
                "one must be above 0"
            )
        total = math.fsum(weights)
        if abs(total - 1) > 5e-7 * len(weights) + 1e-12:  # more than six decimals leave open
            weights = tuple(weight / total for weight in weights)
        object.__setattr__(self, "weights", tuple(round(weight, 6) for weight in weights))

    @property
    def where(self) -> tuple:
        """What tells it from other rows."""
        return self.kind, self.layer, self.head, self.query


@dataclass(frozen=True)
class Temperature:
    """The scores of one head are divided by `value` before the softmax: below 1 it is sharper."""

    kind: Kind
    layer: int
    head: int
    value: float

    def __post_init__(self) -> None:
        _check_kind(self.kind)
        for name in ("layer", "head"):
            _check_index(name, getattr(self, name))
        if not 0.01 <= self.value <= 100:
            raise EditError(f"a temperature of {self.value} is out of range: choose 0.01 to 100")
        object.__setattr__(self, "value", float(self.value))

    @property
    def where(self) -> tuple:
        """The head whose temperature it is."""
        return self.kind, self.layer, self.head


@dataclass(frozen=True)
class Limits:
    """How far a network reaches, and with `source_length` a sentence: its tokens with <eos>."""

    encoder_layers: int
    decoder_layers: int
    num_heads: int
    max_length: int
    source_length: int | None = None

    def layers(self, kind: Kind) -> int:
        """How many layers have an attention of this kind."""
        return self.encoder_layers if kind == "encoder" else self.decoder_layers


@dataclass(frozen=True)
class Edits:
    """What is changed in a pass; as it stands by default, nothing.

    `hidden_source` are places of the source that no query may look at, in the encoder and from the
    decoder. Heads are named as (kind, layer, head), counted from 0: the part of those in
    `heads_off` is taken out of what their attention hands on, that of those in `heads_mean` is its
    mean over a sample, and those in `heads_uniform` weigh all keys alike that they may look at.
    `edges`, `rows` and `temperatures` change single weights; in one head the temperature comes
    first, then the edges, then the mask and the softmax, and a given row last.
    Without the causal mask nothing can be searched: what is to come is not yet written.

    Equal edits are equal, in whatever order they were given, and what changes nothing (a factor or
    a temperature of 1) is left out. Raises EditError for two edits of one thing that disagree, and
    for more than 200 in all.
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

    def __post_init__(self) -> None:
        if min(self.hidden_source, default=0) < 0:
            raise EditError(f"hidden places {self.hidden_source} must be counted from 0")
        self._set("hidden_source", tuple(sorted(set(self.hidden_source))))
        for name in ("heads_off", "heads_uniform", "heads_mean"):
            self._set(name, frozenset(self._heads(name)))
        if both := self.heads_off & self.heads_mean:
            raise EditError(f"{_name(*min(both))} is switched off and put at its mean: choose one")
        for name, neutral in (("edges", "factor"), ("rows", ""), ("temperatures", "value")):
            found: dict[tuple, Any] = {}
            for one in getattr(self, name):
                if found.setdefault(one.where, one) != one:
                    raise EditError(f"{one} and {found[one.where]} change the same: choose one")
            kept = [one for one in found.values() if not neutral or getattr(one, neutral) != 1]
            self._set(name, tuple(sorted(kept, key=lambda one: _in_order(one.where))))
        if (count := self._count()) > MAX_EDITS:
            raise EditError(f"{count} edits are too many: the limit is {MAX_EDITS}, undo some")

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
        """Whether a mask is another than the network's own."""
        return not (self.causal_mask and self.padding_mask) or bool(self.hidden_source)

    @property
    def changes_weights(self) -> bool:
        """Whether a softmax is another than that of the scores and the mask."""
        return bool(self.edges or self.rows or self.temperatures or self.heads_uniform)

    def of_site(self, kind: Kind, layer: int) -> Edits:
        """Those that change the weights of one attention: edges, rows, temperatures, uniform."""
        at = kind, layer
        return Edits(
            edges=tuple(e for e in self.edges if e.kind == kind and e.layer in (None, layer)),
            rows=tuple(row for row in self.rows if row.where[:2] == at),
            temperatures=tuple(one for one in self.temperatures if one.where[:2] == at),
            heads_uniform=frozenset(head for head in self.heads_uniform if head[:2] == at),
        )

    def listed(self) -> list[Edits]:
        """Each edit by itself, in the order of the text form; all of them together are these."""
        found: list[dict[str, Any]] = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, frozenset):
                value = tuple(sorted(value, key=_in_order))
            if isinstance(value, tuple):
                found += [{field.name: (one,)} for one in value]
            elif value != field.default:
                found.append({field.name: value})
        return [Edits(**values) for values in found]

    def without(self, one: Edits) -> Edits:
        """These edits but for those of `one`, from `listed`; what is not there is ignored."""
        kept: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value, gone = getattr(self, field.name), getattr(one, field.name)
            if isinstance(value, tuple | frozenset):
                kept[field.name] = tuple(item for item in value if item not in gone)
            elif value == gone:
                kept[field.name] = field.default
        return dataclasses.replace(self, **kept)

    def plus(self, other: Edits) -> Edits:
        """These edits and those of `other`, which come in the place of what they disagree with."""
        both: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value, new = getattr(self, field.name), getattr(other, field.name)
            if field.name in ("edges", "rows", "temperatures"):
                taken = {one.where for one in new}
                both[field.name] = (*(one for one in value if one.where not in taken), *new)
            elif isinstance(value, tuple | frozenset):
                both[field.name] = (*value, *new)
            elif new != field.default:
                both[field.name] = new
        both["heads_off"] = set(both["heads_off"]) - other.heads_mean
        both["heads_mean"] = set(both["heads_mean"]) - other.heads_off
        return dataclasses.replace(self, **both)

    def to_text(self) -> str:
        """One line of letters, digits and `. - _ ~`, such as `off.cross.2.0~hide.3`; "" of none."""
        return "~".join(_text_of(one) for one in self.listed())

    @staticmethod
    def parse(text: str) -> tuple[Edits, list[str]]:
        """The edits that a text names, and one line for each part of it that is none.

        What is valid is taken, the first 200; whatever a stranger wrote costs little.
        """
        if len(text) > _MAX_TEXT:
            return Edits(), [f"{len(text):,} characters of edits are too many: the limit is 1 MB"]
        problems: list[str] = []
        singles: dict[tuple, Edits] = {}
        items = text.split("~", _MAX_PARTS) if text else []
        if len(items) > _MAX_PARTS:
            problems.append(f"what stands behind {_MAX_PARTS:,} edits is left out: undo some")
        for item in items[:_MAX_PARTS]:
            try:
                one = _read(item)
            except (EditError, ValueError, OverflowError) as error:
                known = isinstance(error, EditError)
                reason = str(error) if known else "its form is unknown"
                problems.append(f"{_shown(item)} is left out: {reason}")
                continue
            place = _place_of(one)
            if place is not None and place in singles:
                problems.append(f"{_shown(item)} is left out: another edit changes the same")
            elif place is not None:
                singles[place] = one
        if (more := len(singles) - MAX_EDITS) > 0:
            problems.append(f"{more:,} more edits are left out: the limit is {MAX_EDITS}")
        edits = _joined(list(singles.values())[:MAX_EDITS])
        if (more := len(problems) - _NAMED) > 0:
            problems = [*problems[:_NAMED], f"{more:,} more parts are left out"]
        return edits, problems

    def fitting(self, limits: Limits) -> tuple[Edits, list[str]]:
        """The edits that a network and a sentence of these limits can have, and why not the others.

        One line for each other. Positions of the target are bounded by the network alone: one that
        a translation does not reach changes nothing.
        """
        kept, problems = [], []
        for one in self.listed():
            if reason := _unfit(one, limits, self):
                problems.append(reason)
            else:
                kept.append(one)
        return (_joined(kept) if problems else self), problems


def _is_head(value: object) -> bool:
    match value:
        case (kind, int(layer), int(head)):
            return kind in KINDS and min(layer, head) >= 0
    return False


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise EditError(f"unknown kind {str(kind)[:20]!r}: choose {', '.join(KINDS)}")


def _check_index(name: str, value: int | None, or_all: bool = False) -> None:
    if value is None and or_all:
        return
    if type(value) is not int or not 0 <= value <= _MAX_INDEX:
        raise EditError(f"{name} {str(value)[:20]} must be counted from 0 to {_MAX_INDEX:,}")


def _in_order(where: tuple) -> tuple:
    """A key to sort by: encoder, decoder, cross; then by number, with all before any."""
    kind, *numbers = where
    return KINDS.index(kind), *(-1 if number is None else number for number in numbers)


def _name(kind: str, layer: int | None, head: int | None) -> str:
    layers, heads = ("all" if i is None else str(i) for i in (layer, head))
    return f"{kind} layer {layers}, head {heads}"


def _joined(singles: list[Edits]) -> Edits:
    """Edits that do not disagree, as one value."""
    values: dict[str, Any] = {}
    for one in singles:
        for field in dataclasses.fields(one):
            value = getattr(one, field.name)
            if isinstance(value, tuple | frozenset):
                values.setdefault(field.name, []).extend(value)
            elif value != field.default:
                values[field.name] = value
    return Edits(**values)


def _place_of(one: Edits) -> tuple | None:
    """What a single edit changes, so that a second of the same is seen; None if nothing."""
    for field in dataclasses.fields(one):
        value = getattr(one, field.name)
        if isinstance(value, tuple | frozenset):
            for item in value:
                kind = "heads_off" if field.name == "heads_mean" else field.name
                return kind, getattr(item, "where", item)
        elif value != field.default:
            return (field.name,)
    return None


# The text form. Only characters that no address escapes stand in it.


def _number(value: float) -> str:
    """A number without an exponent, whose sign would look like a separator."""
    digits = f"{Decimal(repr(value)):f}"
    return digits.removesuffix(".0")


def _index(value: int | None) -> str:
    return "all" if value is None else str(value)


def _text_of(one: Edits) -> str:
    """The text of a single edit, as `listed` gives it."""
    for word, heads in _words_of_heads(one):
        for kind, layer, head in heads:
            return f"{word}.{kind}.{layer}.{head}"
    for edge in one.edges:
        where = ".".join((edge.kind, *map(_index, edge.where[1:])))
        return f"times.{where}.{_number(edge.factor)}" if edge.factor else f"cut.{where}"
    for row in one.rows:
        weights = "-".join(map(_number, row.weights))
        return f"row.{row.kind}.{row.layer}.{row.head}.{row.query}.{weights}"
    for t in one.temperatures:
        return f"temp.{t.kind}.{t.layer}.{t.head}.{_number(t.value)}"
    for place in one.hidden_source:
        return f"hide.{place}"
    for side in ("source", "target"):
        if (edit := getattr(one, f"{side}_positions")) != PositionEdit():
            return f"positions.{side}.{_text_of_positions(edit)}"
    return "padding" if one.causal_mask else "causal"


def _words_of_heads(one: Edits) -> tuple[tuple[str, frozenset[Head]], ...]:
    return ("off", one.heads_off), ("uniform", one.heads_uniform), ("mean", one.heads_mean)


def _text_of_positions(edit: PositionEdit) -> str:
    parts = [
        f"{name}-{_number(getattr(edit, name))}"
        for name in ("scale", "stretch", "shift")
        if getattr(edit, name) != getattr(PositionEdit(), name)
    ]
    if edit.order:
        parts.append("order-" + "-".join(map(str, edit.order)))
    return "_".join(parts)


_KIND = f"(?P<kind>{'|'.join(KINDS)})"
_AT = r"\.(?P<layer>\d{1,5})\.(?P<head>\d{1,5})"
_WIDE = r"".join(rf"\.(?P<{name}>\d{{1,5}}|all|\*)" for name in ("layer", "head", "query", "key"))
_DECIMAL = r"\d{1,7}(?:\.\d{1,30})?"
_SIGNED = f"-?{_DECIMAL}"
_FORMS: dict[str, re.Pattern[str]] = {
    name: re.compile(form, re.ASCII)
    for name, form in {
        "mask": r"(?P<mask>causal|padding)",
        "hide": r"hide\.(?P<place>\d{1,5})",
        "positions": rf"positions\.(?P<side>source|target)\.(?:scale-(?P<scale>{_SIGNED}))?_?"
        rf"(?:stretch-(?P<stretch>-?\d{{1,7}}))?_?(?:shift-(?P<shift>-?\d{{1,7}}))?_?"
        r"(?:order-(?P<order>\d{1,3}(?:-\d{1,3})*))?",
        "heads": rf"(?P<word>off|uniform|mean)\.{_KIND}{_AT}",
        "cut": rf"cut\.{_KIND}{_WIDE}",
        "times": rf"times\.{_KIND}{_WIDE}\.(?P<factor>{_DECIMAL})",
        "row": rf"row\.{_KIND}{_AT}\.(?P<query>\d{{1,5}})\."
        rf"(?P<weights>{_DECIMAL}(?:-{_DECIMAL})*)",
        "temp": rf"temp\.{_KIND}{_AT}\.(?P<value>{_DECIMAL})",
    }.items()
}


def _read(item: str) -> Edits:
    """A single edit from its text. Raises ValueError for what has no known form."""
    for name, form in _FORMS.items():
        if found := form.fullmatch(item):
            return Edits(**_MADE[name](found.groupdict()))
    raise ValueError(item)


def _at(found: dict[str, Any]) -> tuple[Any, ...]:
    """Kind, layer and head of a match, and its query and key where it has them."""
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


_MADE: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "mask": lambda found: {f"{found['mask']}_mask": False},
    "hide": lambda found: {"hidden_source": (int(found["place"]),)},
    "positions": _positions,
    "heads": lambda found: {f"heads_{found['word']}": (_at(found),)},
    "cut": lambda found: {"edges": (Edge(*_at(found)),)},
    "times": lambda found: {"edges": (Edge(*_at(found), float(found["factor"])),)},
    "row": lambda found: {
        "rows": (Row(*_at(found), tuple(map(float, found["weights"].split("-")))),)
    },
    "temp": lambda found: {"temperatures": (Temperature(*_at(found), float(found["value"])),)},
}


def _shown(item: str) -> str:
    """A part of a stranger's text, short and in one line."""
    return repr(item if len(item) <= 40 else f"{item[:39]}…")


def _unfit(one: Edits, limits: Limits, among: Edits) -> str | None:
    """Why a network or a sentence of these limits cannot have a single edit; None if it can."""
    S = limits.source_length
    for place in one.hidden_source:
        if S is not None and place >= S:
            return f"place {place} cannot be hidden: there are {S} tokens"
    words = {"off": "switched off", "uniform": "made uniform", "mean": "put at its mean"}
    for word, heads in _words_of_heads(one):
        for kind, layer, head in heads:
            if reason := _unfit_head(kind, layer, head, limits):
                return f"{_name(kind, layer, head)} cannot be {words[word]}: {reason}"
    for item in (*one.edges, *one.rows, *one.temperatures):
        if reason := _unfit_head(item.kind, item.layer, item.head, limits):
            return f"{_name(item.kind, item.layer, item.head)} cannot be edited: {reason}"
    for edge in one.edges:
        for name, place in (("query", edge.query), ("key", edge.key)):
            if reason := _unfit_place(edge.kind, name, place, limits):
                return reason
    for row in one.rows:
        last = max(k for k, weight in enumerate(row.weights) if weight)
        places = [("query", row.query)]
        if row.kind != "decoder":
            places.append(("key", last))
        for name, place in places:
            if reason := _unfit_place(row.kind, name, place, limits):
                return reason
        seen = [k for k, weight in enumerate(row.weights) if weight]
        if row.kind == "decoder" and among.causal_mask:
            seen = [k for k in seen if k <= row.query]
        elif row.kind != "decoder":
            seen = [k for k in seen if k not in among.hidden_source]
        if not seen:
            return (
                f"the row given to {_name(row.kind, row.layer, row.head)}, query {row.query} has "
                "weight only where it may not look: give some to another key"
            )
    return None


def _unfit_head(kind: Kind, layer: int | None, head: int | None, limits: Limits) -> str | None:
    layers, heads = limits.layers(kind), limits.num_heads
    if (layer or 0) < layers and (head or 0) < heads:
        return None
    return f"counted from 0, the layers end at {layers - 1} and the heads at {heads - 1}"


def _unfit_place(kind: Kind, name: str, place: int | None, limits: Limits) -> str | None:
    """Queries of the encoder and keys of encoder and cross are of the source."""
    of_source = kind == "encoder" or (kind == "cross" and name == "key")
    length = limits.source_length if of_source else limits.max_length
    if place is None or length is None or place < length:
        return None
    side = "source" if of_source else "target"
    return f"{name} {place} of {kind} is not there: the {side} ends at {length - 1}, from 0"
