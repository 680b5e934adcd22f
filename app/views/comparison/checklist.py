"""Runs the parity checklist on request and shows its lines."""

import time
from contextlib import closing
from typing import Any

import streamlit as st

from app.look.markdown import plain
from app.look.numbers import scientific
from app.state import results, session, waiting
from app.views.shared.progress_bar import ProgressBar
from core.checkpoint.folder import Card


@waiting.fragment
def show_checklist(card: Card) -> None:
    """Run the checklist line by line on request; keep the lines for the session."""
    st.write(
        "If the scratch code is correct, it gives the same results as the library's model: with "
        "the same weights, the two differ only by rounding. Each check compares one thing, from "
        "the masks to the gradients, and shows the largest difference and the limit."
    )
    key = f"checks {card.weights_sha256}"
    run = st.button(f"Run the checklist on {plain(card.title)}", key="run_checks")
    with st.container(key="checks"):
        status, table = st.empty(), st.empty()
        if run:
            lines, drawn, bar = [], 0.0, ProgressBar(status)
            try:
                with closing(results.run_checklist(card, bar.show_queue)) as checks:
                    for total, check in checks:
                        lines.append(check)
                        bar.show_progress(len(lines), total, f"checks · {plain(check.name)}")
                        if time.monotonic() - drawn > 0.4:  # each update sends the whole table
                            drawn = time.monotonic()
                            show_lines(table, lines[::-1])
            except ValueError as error:  # CheckpointError, BusyError: one user-facing line
                status.error(plain(error))
                return
            session.save_result(key, lines)
        if lines := session.saved_result(key):
            failed = sum(not check.passed for check in lines)
            if failed:
                status.error(f"{failed} of {len(lines)} checks failed: the two models differ.")
            else:
                from core.parity.networks import SENTENCES

                status.write(
                    f"✓ All {len(lines)} checks passed. They compare the two models on "
                    f"{len(SENTENCES['en'])} sentence pairs, with and without padding; other "
                    "inputs could still show a difference."
                )
            show_lines(table, sorted(lines, key=lambda check: check.passed))


def show_lines(table: Any, lines: list) -> None:
    """Show lines of the checklist as a table with its own scroll bar."""
    rows = {
        "": ["✓" if check.passed else "✗" for check in lines],
        "compared": [check.name for check in lines],
        "largest difference": [scientific(check.max_abs_diff) for check in lines],
        "limit": [scientific(check.limit) for check in lines],
        "details": [check.detail for check in lines],
    }
    height = 400 if len(lines) > 8 else "content"
    with table.container(height=height, border=False):
        st.table(rows, border="horizontal", hide_index=True)
