"""Answers whether the scratch code is correct: runs the parity checklist when the page opens."""

import time
from typing import Any

import streamlit as st

from app.figures.checklist import checks_figure
from app.look.markdown import plain
from app.look.numbers import scientific
from app.state import results, session, waiting
from app.views.shared.figure import show
from app.views.shared.progress_bar import ProgressBar
from core.checkpoint.folder import Card

QUESTION = "Is the code correct?"


@waiting.fragment
def show_checklist(card: Card) -> None:
    """Run the checklist once per process, or again on request, and show the worst differences."""
    with st.container(horizontal=True, vertical_alignment="center", key="checks_head"):
        with st.container(width="stretch"):
            answer = st.empty()
        every = st.empty()
        again = st.button("Run again", key="run_checks", type="tertiary")
    place = st.empty()

    drawn = 0.0

    def show_so_far(lines: list, total: int) -> None:
        nonlocal drawn
        if time.monotonic() - drawn > 1:  # each update sends the whole chart
            drawn = time.monotonic()
            answer.markdown(f"##### {QUESTION} Compared so far: {len(lines)} of {total}.")
            with place.container():
                show(checks_figure(lines, total), f"checks_after_{len(lines)}")

    key = f"checks {card.weights_sha256}"
    if again:
        session.save_result(key, time.time())
    answer.markdown(f"##### {QUESTION} Comparing with torch.nn.Transformer …")
    with place.container():
        show(checks_figure([], 1), "checks_after_0")  # its frame: nothing below it moves
    try:
        done = results.run_checklist(
            card, session.saved_result(key), show_so_far, ProgressBar(place).show_queue
        )
    except ValueError as error:  # CheckpointError, BusyError: one user-facing line
        if card.imported is not None and card.imported.passed:
            said = f"Yes: all {len(card.imported.compared)} comparisons with the original held"
            answer.markdown(f"##### {QUESTION} **{said} when it was converted.**")
            place.info(plain(error))
        else:
            answer.markdown(f"##### {QUESTION} **Not compared.**")
            place.error(plain(error))
        return
    lines = done.checks
    failed = sum(not check.passed for check in lines)
    said = (
        f"**No: {failed} of {len(lines)} comparisons with torch.nn.Transformer fail.**"
        if failed
        else f"**Yes: all {len(lines)} comparisons with torch.nn.Transformer hold.**"
    )
    answer.markdown(f"##### {QUESTION} {said}")
    with place.container(key="checks"):
        show(
            checks_figure(lines, len(lines)),
            "checks_worst",
            "Worst difference, in float64 unless stated. Shorter is better: a bar must end before "
            "its limit; “All comparisons” says why limits differ. Run at "
            f"{done.at:%H:%M} on {done.at.day} {done.at:%B %Y}.",
        )
    with every.popover("All comparisons", type="tertiary"), st.container(key="all_checks"):
        show_lines(sorted(lines, key=lambda check: check.passed))
        st.caption(
            f"They compare the two codes on {done.pairs} sentence pairs, with and without "
            "padding; other inputs could still show a difference. The limit is wider in float32, "
            "which keeps seven digits, and for key biases after training: their gradient is truly "
            "zero, and Adam amplifies its rounding. Another wider limit is explained in its line."
        )


def show_lines(lines: list[Any]) -> None:
    """Show lines of the checklist as a table with its own scroll bar."""
    rows = {
        "": ["✓" if check.passed else "✗" for check in lines],
        "compared": [check.name for check in lines],
        "largest difference": [scientific(check.max_abs_diff) for check in lines],
        "limit": [scientific(check.limit) for check in lines],
        "details": [check.detail for check in lines],
    }
    height = 400 if len(lines) > 8 else "content"
    with st.container(height=height, border=False):
        st.table(rows, border="horizontal", hide_index=True)
