"""Shows one claim of the literature board: what was published, what was measured, the verdict."""

import re
from typing import Literal
from urllib.parse import parse_qsl

import streamlit as st

from app.figures.amounts import spread, with_interval
from app.figures.literature import MEAN, claim_figure
from app.look.markdown import plain
from app.views import VIEWS
from app.views.shared.figure import show
from core.atlas.claims.board import Row
from core.atlas.claims.claim import (
    DIFFERS,
    FAILS,
    HOLDS,
    OPEN,
    Claim,
    Estimate,
    Unit,
    Verdict,
    amount,
)
from core.atlas.claims.literature import EXAMPLES

VERDICT_COLOURS: dict[Verdict, Literal["blue", "orange", "primary", "gray"]] = {
    HOLDS: "blue",
    FAILS: "orange",
    DIFFERS: "primary",  # not a colour of the board's dots: those that differ have two
    OPEN: "gray",
}
IN_TABLE = {HOLDS: "holds", FAILS: "does not hold", DIFFERS: "differs", OPEN: "undecided"}


def authors(claim: Claim) -> str:
    """Return the authors and the year of a claim's paper: Voita et al. 2019."""
    found = re.match(r".*?\b(?:19|20)\d\d\)?(?=[,;]|$)", claim.source)
    named = found[0] if found else claim.source
    return re.sub(r",.* (?=\S+$)", " et al. ", named)


def threshold(claim: Claim) -> str:
    """Format a claim's threshold as in the reason of the verdict."""
    return amount(claim.threshold, claim.unit)


def measured(estimate: Estimate | None, unit: Unit) -> str:
    """Format an estimate with its interval; "" for none."""
    if estimate is None:
        return ""
    return with_interval(estimate.value, estimate.low, estimate.high, unit)


def said_otherwise(row: Row, method: str, other: Estimate) -> str:
    """Say on which side of the threshold the mean lies by another method, and by the claim's."""
    claim, side = row.claim, _side(other, row.claim.threshold)
    said = f"By {method}, the {MEAN} is {measured(other, claim.unit)}, {side} {threshold(claim)}"
    if side in contradicting(row).values() and row.mean is not None:
        said += f"; measured as above, it lies {_side(row.mean, claim.threshold)}"
    return f"{said}."


def contradicting(row: Row) -> dict[str, str]:
    """Return the methods by which the mean lies on another side than by the claim's, with it."""
    sides = {name: _side(one, row.claim.threshold) for name, one in row.variants.items()}
    own = row.mean and _side(row.mean, row.claim.threshold)
    return {name: side for name, side in sides.items() if own not in (side, None)}


def _side(one: Estimate, threshold: float) -> str:
    return "above" if one.low > threshold else "below" if one.high < threshold else "around"


def show_claim(row: Row) -> None:
    """Show a claim with its picture, verdict and reason, and a link to the page that shows it."""
    claim = row.claim
    with st.container(key=f"claim_{claim.id.replace('-', '_')}", border=True):
        st.markdown(f"##### {plain(claim.claim)}")
        st.badge(row.verdict, color=VERDICT_COLOURS[row.verdict])
        st.text(row.reason)
        st.markdown(f"**Published.** {plain(claim.theirs)} {_linked(claim.source)}.")
        st.markdown(f"**Measured here.** {plain(claim.ours)}")
        for method, one in row.variants.items():
            st.markdown(f"**Measured otherwise.** {plain(said_otherwise(row, method, one))}")
        if row.estimates:
            side = "above" if claim.above else "below"
            look_for = [
                f"The claim is about values {side} {threshold(claim)}, the shaded side of the "
                "dotted line."
            ]
            if row.mean is not None:
                look_for.append(f"{MEAN.capitalize()}: {measured(row.mean, claim.unit)}.")
            if claim.published:
                look_for.append(f"Published (diamonds): {spread(claim.published, claim.unit)}.")
            nulls = tuple(e.null for e in row.estimates.values() if e.null is not None)
            if nulls:
                chance = spread(nulls, claim.unit)
                look_for.append(f"Chance level (short lines; {claim.null}): {chance}.")
            show(
                claim_figure(row),
                f"literature_{claim.id.replace('-', '_')}",
                " ".join(look_for),
                alt=f"{claim.claim} {row.reason}",
            )
        with st.container(horizontal=True):
            if example := EXAMPLES.get(claim.id):
                _link(example, "See one example on the page {}")
            _link(claim.see, "Open the page {}")


def _linked(source: str) -> str:
    """Return a source as Markdown, in which papers and addresses in brackets are links."""
    papers = re.sub(r"(arXiv) ([\d.]+)", r"[\1 \2](https://arxiv.org/abs/\2)", plain(source))
    return re.sub(r"\((\w[\w-]*\.[^\s)]+)\)", r"([\1](https://\1))", papers)


def _link(link: str, label: str) -> None:
    path, _, query = link.partition("?")
    page = VIEWS[path.removeprefix("/")]
    values = dict(parse_qsl(query))
    st.page_link(page.file, label=label.format(page.title), query_params=values, width="content")
