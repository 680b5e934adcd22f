"""A page that opens forgets the fragments of the page before; a stopped run, those it lacks."""

from streamlit.runtime.scriptrunner_utils import script_requests
from streamlit.testing.v1 import AppTest

from app.streamlit_internals import _drop_waiting_fragments


def script() -> None:
    import streamlit as st
    from streamlit.runtime.scriptrunner import get_script_run_ctx
    from streamlit.runtime.scriptrunner_utils.script_requests import RerunData

    from app.streamlit_internals import own_fragments

    @st.fragment
    def first() -> None:
        st.text("first")

    @st.fragment
    def second() -> None:
        st.text("second")

    context = get_script_run_ctx()
    is_new, stops = st.session_state["opens"]
    stored, requests = context.fragment_storage._fragments, context.script_requests
    requests.request_rerun(RerunData(fragment_id="late", page_script_hash="before"))
    with own_fragments(is_new):
        late = requests._rerun_data.fragment_id_queue
        st.session_state["kept"] = len(stored), bool(late)
        requests._rerun_data = RerunData()
        requests._state = type(requests._state).CONTINUE
        first()
        if stops:
            st.stop()
        second()


def kept(test: AppTest, is_new: bool, stops: bool = False) -> tuple[int, bool]:
    """Run the script; return the fragments and whether the late request is left at its start."""
    test.session_state["opens"] = is_new, stops
    return test.run().session_state["kept"]


def test_a_stopped_run_forgets_what_it_did_not_draw():
    test = AppTest.from_function(script)
    assert kept(test, False) == (0, True)
    assert kept(test, False, stops=True) == (2, True)
    assert kept(test, False) == (1, True)


def test_another_page_forgets_all_fragments_and_their_late_requests():
    test = AppTest.from_function(script)
    kept(test, False)
    assert kept(test, True) == (0, False)
    assert kept(test, False) == (2, True)


def test_a_session_that_is_stopped_stays_so():
    requests = script_requests.ScriptRequests()
    requests.request_rerun(script_requests.RerunData(fragment_id="late", page_script_hash="before"))
    requests.request_stop()
    _drop_waiting_fragments(requests)
    assert requests._state == script_requests.ScriptRequestType.STOP
