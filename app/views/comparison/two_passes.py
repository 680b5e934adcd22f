"""The largest difference between two passes, in a line, and the maps of the head that has it."""

from __future__ import annotations

import streamlit as st

from app.components.map_row import map_row
from app.components.map_row.payload import Difference, Map, MapRow, Opened, own_scale
from app.look.labels import ATTENTION
from app.look.numbers import number
from app.views.shared.axes import axis_words, map_sides, source_of
from core.analysis.difference import Largest, largest_cell, same_shapes
from core.kinds import KINDS
from core.record.record import TranslationRecord


def show_largest(first: TranslationRecord, second: TranslationRecord, where: str) -> bool:
    """Show where two passes of one network differ most; `where` says which pass is the second.

    Return whether their maps were drawn.
    """
    with st.container(key="largest_of_two", gap="small"):
        if not same_shapes(first, second):
            counts = [f"{len(one.source)} and {len(one.target_out)}" for one in (first, second)]
            st.caption(
                f"The first has {counts[0]} source and target tokens, the second {counts[1]}: maps "
                "of different sizes cannot be subtracted. Below, both explorers show one head."
            )
            return False
        largest = largest_cell(first, second)
        st.text(describe(largest, first, second, where))
        if not largest.difference:
            return False
        kind = largest.kind
        weights = first.maps(kind), second.maps(kind)
        maps = [
            Map("First", "first", "", weights[0]),
            Map("Second", "second", "", weights[1], sides=map_sides(second, kind)),
            Difference("First − second", "difference", 0, 1, own_scale(*weights)),
        ]
        place = int.from_bytes(f"{first.id}{second.id}".encode()) % 10**8  # opens each pair afresh
        opened = Opened(largest.layer, largest.head, place, None)
        cell = largest.query, largest.key
        row = MapRow(
            kind.capitalize(),
            range(len(first.maps(kind))),
            *map_sides(first, kind),
            maps,
            first.mask(kind) & second.mask(kind),
            opened,
            pinned=cell,
            about=source_of(first),
        )
        map_row(row, key="maps_of_two")
        return True


def describe(
    largest: Largest, first: TranslationRecord, second: TranslationRecord, where: str
) -> str:
    """Say in words where two passes differ most. The words are user input: show them as text."""
    kind, at = largest.kind, f"head {largest.head + 1} of layer {largest.layer + 1}"
    if not largest.difference:
        return "No attention weight differs."
    (row, key), (other_row, other_key) = (
        (queries[largest.query], keys[largest.key])
        for queries, keys in (axis_words(one, kind) for one in (first, second))
    )
    count = sum(first.maps(kind).size for kind in KINDS if first.has(kind))
    doing = "reading" if kind == "encoder" else "writing"
    weights = [number(weight, 2) for weight in (largest.first, largest.second)]
    while_other = "" if row == other_row else f", while {doing} “{other_row}”"
    on_other = "" if key == other_key else f" “{other_key}”"
    return (
        f"Most different of {count:,} weights: {at} of the {ATTENTION[kind]}. While {doing} "
        f"“{row}”, it gives “{key}” {weights[0]}; {where}{while_other}, it gives{on_other} "
        f"{weights[1]}."
    )
