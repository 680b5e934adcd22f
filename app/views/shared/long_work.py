"""What a page shows of long work: how many wait before it, then how far it is."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator


class Bar:
    """A line that says that others come first, then a bar; empty before and behind."""

    def __init__(self, place: DeltaGenerator | None = None) -> None:
        self._place = st.empty() if place is None else place

    def waits(self, ahead: int) -> None:
        """So many are ahead."""
        self._place.caption(f"Waiting for others: {ahead} ahead.")

    def done(self, done: int, total: int, what: str) -> None:
        """So many of how many are done, of what."""
        self._place.progress(min(1.0, done / total), f"{done:,} of {total:,} {what}")

    def empty(self) -> None:
        """The work is done."""
        self._place.empty()
