"""The line above every page while a plan runs or a page is presented: its stop, Back and Next."""

from pathlib import Path

import streamlit as st

from app.components.present import present
from app.look.markdown import plain
from app.state import plans
from app.stops import TOUR
from app.views import VIEWS
from app.views.shared.answers import offer_answers

STYLE = Path(__file__).parents[2] / "present.css"
"""A separate sheet: with `:root:has()` in look.css, each change would restyle the whole page."""


def show(page: str) -> None:
    """Draw the line; after a move to another stop, open that stop's page.

    `page` is the URL path of the page that is about to be drawn.
    """
    moved = plans.on_the_way()
    if moved is not None and moved.stop.url_path != page:
        stop = moved.stop
        sentence = {} if stop.on_tour else {"source": stop.source, "lesson": "1"}
        st.switch_page(VIEWS[stop.url_path].file, query_params=moved.query | sentence)
    plans.keep_in_url(page)
    now, note, presenting = plans.running(), plans.note(), plans.presenting()
    if presenting:
        with st.container(key="presenting"):
            st.html(STYLE)
            present(
                back=["plan_back", "tour_back"],
                onward=["tour_more", "plan_next", "tour_next"],
                leave="present_leave",
            )
    if note:
        st.warning(plain(note))
    # A presented tour draws its own line.
    if now is None and (page == TOUR if presenting else not note):
        return
    with st.container(horizontal=True, vertical_alignment="center", key="plan_bar"):
        if now is not None:
            _show_stop(now, page)
        if presenting:
            leave_button()
        else:
            if now is not None:
                present_button()
            words = "Dismiss" if now is None else "Leave the plan"
            st.button(words, key="plan_leave", type="tertiary", on_click=plans.leave)


def _show_stop(now: plans.Running, page: str) -> None:
    count, here = len(now.plan.stops), now.stop.url_path == page
    st.markdown(f"**{now.at + 1} of {count}** · {plain(now.stop.title)}", width="content")
    st.button(
        "Back",
        key="plan_back",
        disabled=now.at == 0 and not (here and plans.can_turn_back(now)),
        on_click=plans.back if here else plans.go,
        args=() if here else (now.at - 1,),
    )
    st.button(
        "Next",
        key="plan_next",
        disabled=now.at == count - 1,
        on_click=plans.go,
        args=(now.at + 1,),
    )
    if now.at == count - 1 and not plans.presenting():
        offer_answers("plan_answers")
    if not here:
        st.button("Return to this stop", key="plan_return", on_click=plans.go, args=(now.at,))


def leave_button() -> None:
    """Draw the button that ends presentation mode."""
    st.button(
        "Leave presentation (Esc)",
        key="present_leave",
        type="tertiary",
        on_click=plans.present,
        args=(False,),
    )


def present_button() -> None:
    """Draw the button that turns presentation mode on."""
    if not plans.presenting():
        st.button(
            "Present",
            key="present_start",
            help="large type, without sidebar and header; arrow keys or a presenter's remote go "
            "back and forth, Escape leaves",
            on_click=plans.present,
            args=(True,),
        )
