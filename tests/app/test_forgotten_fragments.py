"""A run that `st.stop` ends forgets the fragments of the page before, as a whole run does."""

from streamlit.testing.v1 import AppTest


def script() -> None:
    import streamlit as st
    from streamlit.runtime.scriptrunner import get_script_run_ctx

    from app.streamlit_internals import forget_fragments_on_stop

    @st.fragment
    def first() -> None:
        st.text("first")

    @st.fragment
    def second() -> None:
        st.text("second")

    context = get_script_run_ctx()
    kept = context.fragment_storage._fragments  # ty: ignore
    st.session_state.setdefault("kept", []).append(len(kept))
    with forget_fragments_on_stop():
        first()
        if len(st.session_state["kept"]) > 1:
            st.stop()
        second()


def test_a_stopped_run_forgets_what_it_did_not_draw():
    test = AppTest.from_function(script).run().run().run()
    assert test.session_state["kept"] == [0, 2, 1]
