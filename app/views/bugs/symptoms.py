"""Writes the numbers that tell mistakes apart: a table of both networks, and explanations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import streamlit as st

from app.lessons.texts import text
from app.look.glossary import meaning
from app.look.markdown import plain
from app.look.numbers import number, percent

if TYPE_CHECKING:  # imports torch
    from core.experiments.bugs import Symptoms

NONE = "none"


def written(found: Symptoms) -> dict[str, str]:
    """Return each number as the page shows it, by name, in the order of the table."""
    return {
        "probability": percent(math.exp(-found.loss)),
        "loss": number(found.loss, 3),
        "row_sums": _range(found.row_sums),
        "column_sums": _range(found.column_sums),
        "on_allowed": _share(found.on_allowed),
        "on_future": _share(found.on_future),
        "on_padding": _share(found.on_padding),
        "entropy": f"{number(found.entropy, 2)} bits" if found.entropy == found.entropy else NONE,
        "scale": f"{number(found.scale, 2)}×" if found.scale == found.scale else NONE,
        "same": number(found.same, 3) or NONE,
        "transposed": number(found.transposed, 3) or NONE,
        "position": NONE if found.position != found.position else f"{found.position:.0f}",
        "tokens_read": f"{found.tokens_read} of {found.tokens_probed} replaced",
    }


def _range(sums: tuple[float, float]) -> str:
    low, high = (number(value, 2) for value in sums)
    return low if low == high else f"{low}\u2060–\u2060{high}"  # on one line


def _share(share: float) -> str:
    return NONE if math.isnan(share) else percent(share)


def _escaped(written: str) -> str:
    """Escape <0.1 % and >99.9 % for Markdown; unlike `plain`, keep no-break spaces."""
    return written.replace("<", "\\<").replace(">", "\\>")


def name_of(measure: str) -> str:
    """Return the displayed name of a measure."""
    return text("bugs", f"measure.{measure}.name")


def show_differences(healthy: Symptoms, broken: Symptoms) -> None:
    """Show the numbers that differ between the networks, and say how many are equal."""
    left, right = written(healthy), written(broken)
    differing = [name for name in left if left[name] != right[name]]
    if differing:
        _table({name: left[name] for name in differing}, right)
    if same := len(left) - len(differing):
        st.caption(plain(text("bugs", "page.equal", same=same, all=len(left))))


def _table(left: Mapping[str, str], right: Mapping[str, str]) -> None:
    """Show the numbers of `left` beside those of `right`."""
    st.table(
        [
            {
                "": plain(name_of(name)),
                text("bugs", "page.healthy"): _escaped(left[name]),
                text("bugs", "page.broken"): _escaped(right[name]),
            }
            for name in left
        ],
        border="horizontal",
        hide_index=True,
    )


def show_symptoms(healthy: Symptoms, broken: Symptoms, d_k: int, probes: int) -> None:
    """Show all numbers of both networks and, on request, what each number means."""
    left, right = written(healthy), written(broken)
    _table(left, right)
    fold = st.expander(text("bugs", "page.explained"), key="bug_measures", on_change="rerun")
    if fold.open:
        values = {"root": number(math.sqrt(d_k), 2), "most": str(probes)}
        for name in left:
            about = text("bugs", f"measure.{name}.about", **values)
            fold.markdown(f"**{plain(name_of(name))}.** {plain(about)}")
        fold.caption(meaning("entropy"))
