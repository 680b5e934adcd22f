"""The guided tour: six stops at which the model in use shows something, each with a link."""

import streamlit as st

from app import controls, linked, session
from app.components.explorer import explorer
from app.components.explorer.payload import payload
from app.figures.numbers import percent
from app.tour import STOPS


def go_to(number: int) -> None:
    """Another stop opens on what it shows, whatever a link asked for at this one."""
    session.put("stop", number + 1)
    for name in linked.VIEW:
        session.take_asked(name)


linked.settle("stop", range(1, len(STOPS) + 1), 1)
number = session.get("stop") - 1
stop = STOPS[number]
linked.keep({"stop": number + 1}, "stop", entry=linked.VIEW)
chosen = controls.selection()

st.title("Guided tour")
if chosen.card is None or chosen.direction != "de-en":
    st.caption("The tour's sentences are German: choose the direction German → English.")
    st.stop()
st.caption(f"Stop {number + 1} of {len(STOPS)}")
st.subheader(stop.title)
st.write(stop.look_for)

try:
    record = session.example_record(chosen.card, stop.source, chosen.decode)
except ValueError as error:  # InputError and CheckpointError carry one line for the reader
    st.error(str(error))
    st.stop()
link = {**chosen.link, "source": stop.source}
try:
    found = stop.find(record)
    at = {"kind": found.kind, "layer": found.head.layer, "head": found.head.head}
    st.write(
        f"Here layer {found.head.layer + 1}, head {found.head.head + 1} of the {found.kind} "
        f"attention puts **{percent(found.head.share)}** of its weight {stop.measured}."
    )
    row = {"q": found.query, "k": None}
except LookupError as missing:
    st.caption(f"{missing}, so there is nothing to measure here. Another model may show it.")
    at, row = session.first_view(record), {"q": None, "k": None}

with st.container(horizontal=True, key="tour_links"):
    for label, to in (("Back", number - 1), ("Next stop", number + 1)):
        st.button(
            label,
            key=f"tour_{label.split()[0].lower()}",
            disabled=not 0 <= to < len(STOPS),
            on_click=go_to,
            args=(to,),
        )
    view = {name: str(value) for name, value in (link | at | row).items() if value is not None}
    st.page_link("views/translate.py", label="Open on the first page", query_params=view)

explorer(payload(record, session.asked_view(record) or at | row), key=f"tour_{number}")
