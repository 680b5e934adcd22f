"""Progress of long tasks: the place in the queue, then a progress bar."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.look.numbers import percent
from app.views.shared.section import duration_in_words


class ProgressBar:
    """A line with the number of requests ahead, then a progress bar; empty when idle."""

    def __init__(self, place: DeltaGenerator | None = None) -> None:
        self._place = st.empty() if place is None else place

    def show_queue(self, ahead: int) -> None:
        """Show how many requests are ahead."""
        self._place.caption(f"Waiting for others: {ahead} ahead.")

    def show_progress(self, done: int, total: int, what: str) -> None:
        """Show that `done` of `total` items are done; `what` names the items."""
        self._place.progress(min(1.0, done / total), f"{done:,} of {total:,} {what}")

    def show_time(self, share: float, seconds: float) -> None:
        """Show which share is done, and the estimated time left if it is at least a second."""
        left = f", {duration_in_words(seconds)} left" if seconds >= 1 else ""
        self._place.progress(min(1.0, share), f"{percent(share)}{left}")

    def empty(self) -> None:
        """Clear the display."""
        self._place.empty()
