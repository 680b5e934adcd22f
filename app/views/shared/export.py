"""Export of a record and its tables, and import of a saved record."""

import streamlit as st

from app.export.arrays import csv_zip
from app.look.markdown import plain
from app.state import address, results
from app.views.shared.explored import explored
from core.record.record import TranslationRecord


def export(record: TranslationRecord) -> None:
    """Offer files of a record, built only when requested, and open a saved record."""
    with st.expander("Export, or open a saved record", key="take_away"):
        files = (
            ("Record", "npz", "application/octet-stream",
             "all arrays and tokens; can be opened here again", record.to_bytes),
            ("Tables", "csv.zip", "application/zip", "all arrays as CSV, labelled with the tokens",
             lambda: csv_zip(record)),
        )  # fmt: skip
        with st.container(horizontal=True):
            for label, ending, mime, what, make in files:
                st.download_button(
                    f"{label} (.{ending})",
                    make,
                    file_name=f"headlight-{record.id}.{ending}",
                    mime=mime,
                    help=what,
                    on_click="ignore",
                    key=f"save_{label.lower()}",
                )
        uploaded = st.file_uploader("A saved record", type="npz", key="open_record")
    if uploaded is None:
        return
    try:
        opened = TranslationRecord.load(uploaded)
    except ValueError as error:
        st.error(plain(error))
        return
    st.subheader(f"Opened: {plain(uploaded.name)}")
    st.text(f"{opened.source_text}\n{opened.translation}\n{opened.model}, {opened.search}")
    with st.spinner("Checking the record…"):
        rechecked = results.recheck(opened)
    verdict = "here" if rechecked else "saved"
    opened, card = rechecked or (opened, None)
    view = address.initial_view(opened)
    try:
        explored(opened, view, card, key="opened_explorer", verdict=verdict, address=False)
    except ValueError as error:  # its tokens and texts alone exceed the payload limit
        st.error(plain(f"{uploaded.name} cannot be shown: {error}"))
