"""The guided tour: stops at which the model in use shows something, each with a link."""

import streamlit as st

from app import controls
from app.look.glossary import meaning
from app.look.labels import label
from app.look.markdown import plain
from app.look.numbers import percent
from app.state import address, models, results, visit
from app.views.shared.explored import explored
from app.views.tour.stops import STOPS
from core.analysis.attribution import source_words
from core.data.corpora import LANGUAGES
from core.record.record import TranslationRecord

LESSONS = (
    ("views/steps.py", "Step by step", "how the beam search found this translation"),
    ("views/inside_head/page.py", "Inside a head", "one weight, from two vectors to the output"),
    ("views/why/page.py", "Ask why", "which heads matter here, and why this word"),
    ("views/masks/page.py", "Masks", "what the hatched cells are for"),
    ("views/positions/page.py", "Positions", "how the network knows the order of the tokens"),
)


def go_to(number: int) -> None:
    """Another stop opens on what it shows, whatever a link asked for at this one."""
    visit.put("stop", number + 1)
    for name in address.VIEW:
        address.take(name)


def other_half(direction: str) -> None:
    """The first stop of the tour in another direction."""
    controls.choose_direction(direction)
    go_to(0)


KIND = {
    "encoder": "encoder's self-attention",
    "decoder": "decoder's self-attention",
    "cross": "cross-attention",
}


def tokens_in_words(record: TranslationRecord) -> str:
    """How many tokens the sentence is, and, where one of its words is split, into which."""
    tokens = record.source
    said = f"The model reads {len(tokens)} tokens: whole words, punctuation and {plain('<eos>')}"
    split = [word for word in source_words(tokens) if len(word) > 1]
    if not split:
        return said + "."
    shown = " | ".join(label(tokens[place]) for place in split[0])
    return said + f", and parts of words, such as {plain(shown)}."


chosen = controls.selection()
stops = STOPS.get(chosen.direction, ())
st.title("Guided tour", anchor=False)
for line in models.problems():
    st.error(plain(line))
if chosen.card is None:
    st.stop()
if not stops:
    st.caption(
        f"There is no tour from {chosen.source_language} to {chosen.target_language}: "
        "its sentences are German and English."
    )
    st.stop()

address.settle("stop", range(1, len(stops) + 1), 1)
number = visit.get("stop") - 1
stop = stops[number]
address.keep({"stop": number + 1}, "stop", entry=address.VIEW)
try:
    record = results.inspect(chosen.card, stop.source, decode=chosen.decode)
except ValueError as error:  # InputError and CheckpointError carry one line for the reader
    st.error(plain(error))
    st.stop()
link = {**chosen.link, "source": stop.source}
text, picture = st.columns([2, 5], gap="medium")
with text, st.container(key="tour_text", gap="small"):
    languages = f"{chosen.source_language} → {chosen.target_language}"
    st.caption(f"Stop {number + 1} of {len(stops)}, {languages}")
    st.subheader(stop.title, anchor=False)
    st.write(stop.look_for)
    try:
        result = stop.find(record)
        head = result.head
        at = {"kind": result.kind, "layer": head.layer, "head": head.head}
        st.markdown(
            f"Of all heads of the {KIND[result.kind]}, layer {head.layer + 1} head {head.head + 1} "
            f"does so most: it puts **{percent(head.share)}** of its weight {stop.measured}. "
            f"{result.said}".strip(),
            help=meaning("head", "weight"),
        )
        row = {"q": result.query, "k": None}
    except LookupError as missing:
        st.caption(
            plain(f"{missing}, so there is nothing to measure here. Another model may show it.")
        )
        at, row = address.first_view(record), {"q": None, "k": None}
    st.caption(tokens_in_words(record), help=meaning("token", "<eos>"))
    view = {name: str(value) for name, value in (link | at | row).items() if value is not None}
    with st.container(horizontal=True, vertical_alignment="center", key="tour_links"):
        for label_of, to in (("Back", number - 1), ("Next stop", number + 1)):
            st.button(
                label_of,
                key=f"tour_{label_of.split()[0].lower()}",
                disabled=not 0 <= to < len(stops),
                on_click=go_to,
                args=(to,),
            )
        st.page_link("views/translate.py", label="Open on the first page", query_params=view)
with picture:
    explored(record, address.asked_view(record) or at | row, chosen.card, key=f"tour_{number}")

if number == len(stops) - 1:
    with st.container(border=True, gap="small", key="tour_end"):
        st.markdown("**The tour ends here. The lessons continue with the same sentence.**")
        for page, label, about in LESSONS:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.page_link(page, label=label, query_params=view, width="content")
                st.caption(about, width="content")
        for other in sorted(STOPS.keys() - {chosen.direction}):
            if (other, chosen.link["model"]) in models.cards():
                st.button(
                    "The same tour, " + " → ".join(LANGUAGES[code] for code in other.split("-")),
                    key="tour_other",
                    on_click=other_half,
                    args=(other,),
                )
