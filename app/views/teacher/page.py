"""For teachers: two ready lessons, and one's own: a link, an offline page and a worksheet."""

import streamlit as st

from app import controls
from app.examples import examples
from app.look.markdown import plain
from app.plan import LONGEST_LINK, MOST_STOPS, Plan, offered, parse
from app.state import address, log, models, plans, session
from app.stops import Stop
from app.views.teacher import draft
from app.views.teacher.answers import show_class_answers
from app.views.teacher.files import show_files
from app.views.teacher.ready import show_ready
from app.views.teacher.training_lesson import show_training_lesson


def label_of(stop: Stop) -> str:
    """Return a stop's title, after "Guided tour" if the stop is on the tour."""
    return f"Guided tour: {stop.title}" if stop.on_tour else stop.title


def read_link(direction: str) -> None:
    """Fill the draft from this page's own link, once."""
    if (text := address.pop("plan")) is None:
        return
    read, said = parse(text, direction)
    draft.fill(direction, read.stops)
    session.save_result("draft note", said)


def show_rows(direction: str) -> None:
    """Show the stops of the draft, each with its sentence and buttons."""
    rows = draft.rows(direction)
    unusable = any(draft.problem(row.stop) for row in rows)
    for place, row in enumerate(rows):
        title, sentence, buttons = st.columns([4, 6, 7], vertical_alignment="center")
        title.markdown(f"{place + 1}. {plain(label_of(row.stop))}")
        if row.stop.on_tour:
            sentence.text(row.stop.source)
        else:
            key = draft.box(row)
            if session.get(key) is None:
                session.put(key, row.stop.source)
            sentence.text_input(
                f"Sentence of stop {place + 1}",
                key=key,
                persist_state="session",
                label_visibility="collapsed",
            )
            if said := draft.problem(row.stop):
                sentence.error(plain(said))
        with buttons, st.container(horizontal=True, gap="small", key=f"class_row_{row.number}"):
            for icon, words, by in (("↑", "Move up", -1), ("↓", "Move down", 1)):
                st.button(
                    icon,
                    key=f"class_{words.split()[1]}_{row.number}",
                    help=f"{words}: stop {place + 1}",
                    disabled=not 0 <= place + by < len(rows),
                    on_click=draft.move,
                    args=(direction, place, by),
                )
            st.button(
                "Remove",
                key=f"class_remove_{row.number}",
                on_click=draft.remove,
                args=(direction, place),
            )
            st.button(
                "Preview",
                key=f"class_preview_{row.number}",
                help="runs the plan in this window, from this stop",
                disabled=unusable,
                on_click=plans.start,
                args=(draft.plan(direction), direction, controls.selection().link["model"], place),
            )


def add_chosen(direction: str, choices: list[Stop]) -> None:
    """Add the stop that is chosen in the list."""
    number = session.get("class_stop")
    if number is not None:
        draft.add(direction, (choices[number],))


def show_link(made: Plan, query: dict[str, str]) -> None:
    """Show the link that runs the plan, or say why there is none."""
    if any(map(draft.problem, made.stops)):
        st.caption("There is no link while a sentence is missing or too long: see its stop above.")
        return
    link = plans.link(made, query)
    if len(link) > LONGEST_LINK:
        st.error(
            f"The link would have {len(link):,} characters; some programs cut links after "
            f"{LONGEST_LINK:,}. Shorten sentences or remove stops."
        )
        return
    st.caption(
        "This link runs the stops in this order, with this direction and model "
        f"({len(link):,} of at most {LONGEST_LINK:,} characters):"
    )
    with st.container(key="class_link"):
        st.code(link, language=None, wrap_lines=True)


st.title(
    "For teachers",
    anchor=False,
    help="Start presents a lesson: each stop asks its question first, and the next screen shows "
    "the map that answers it. Without a projector, hand out the link or the worksheet; answers "
    "that a class has saved are counted at the end of this page.",
)
st.markdown("Ask, collect guesses, show the map.")
chosen = controls.selection()
for line in models.problems():
    st.error(plain(line))
if chosen.card is None:
    st.stop()
direction = chosen.direction
read_link(direction)
if said := session.saved_result("draft note"):
    st.warning(plain(said))
show_ready(chosen)
known = examples(direction)
usual = known[0].text(direction) if known else chosen.source
choices = list(offered(direction, usual or "…"))
made = draft.plan(direction)
with st.expander("Your own lesson", expanded=bool(made.stops)):
    kept = (
        "the log of this server holds the sentences that it translates, and nothing else is stored"
        if log.keeps_sentences()
        else "nothing is stored"
    )
    st.caption(
        "Choose stops and sentences. Everything is kept in the link and the files: there are no "
        f"accounts, and {kept} on the server. {chosen.source_language} → "
        f"{chosen.target_language}, {models.model_label(chosen.card)}: direction and model are "
        "those of the sidebar, and the link fixes them."
    )
    show_rows(direction)
    made = draft.plan(direction)
    with st.container(horizontal=True, vertical_alignment="bottom", key="class_add"):
        st.selectbox(
            "A stop to add",
            range(len(choices)),
            format_func=lambda number: label_of(choices[number]),
            key="class_stop",
            persist_state="session",
        )
        full = len(made.stops) >= MOST_STOPS
        st.button(
            "Add",
            key="class_add_stop",
            disabled=full,
            on_click=add_chosen,
            args=(direction, choices),
        )
        if any(stop.on_tour for stop in choices):
            st.button(
                "Add the whole tour",
                key="class_add_tour",
                disabled=full,
                on_click=draft.add_tour,
                args=(direction,),
            )
    text = made.to_text() if made.stops else None
    address.write({"plan": text if text and len(text) <= LONGEST_LINK else None}, "draft")
    if made.stops:
        st.subheader("Link", anchor=False)
        show_link(made, chosen.link)
        if all(stop.source for stop in made.stops):
            st.subheader("Files", anchor=False)
            show_files(made, chosen)
    else:
        st.caption("Add a stop to get a link.")
show_training_lesson()
show_class_answers()
