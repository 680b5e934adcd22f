"""Export of a record and its tables, and import of a saved record."""

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from app.export.arrays import csv_zip
from app.look.markdown import plain
from app.state import address, models, results, session
from app.views.shared.explorer import show_explorer
from core.checkpoint.folder import Card
from core.kinds import KINDS
from core.record.adapters.map_checks import check_maps
from core.record.record import TranslationRecord
from core.text.tokenizer import normalise


def offline_page(card: Card) -> bytes:
    """Return the app as one HTML file with this model, made once for all sessions."""
    from app.export import offline  # loads torch, which the first screen need not wait for

    return results.cached(
        ("offline page", models.key_of(card)),
        lambda: offline.page([offline.network(card.folder)]).encode(),
    )


def _download_app(card: Card) -> None:
    megabytes = (2 * card.parameters * 4 / 3 + 500_000) / 1e6  # two bytes per weight, in base64
    st.download_button(
        "App (.html)",
        lambda: offline_page(card),
        file_name=f"headlight-{card.folder.name}.html",
        mime="text/html",
        help="this model as one file that opens without a server or a network: it translates, "
        f"shows all maps and makes edits; about {megabytes:.0f} MB",
        on_click="ignore",
        key="save_app",
    )


def export(record: TranslationRecord, card: Card, more: Callable[[], None] = lambda: None) -> None:
    """Offer the record's files and the app as one HTML file, and open a saved record.

    `more` draws further buttons. Each file is built when requested, in a separate thread. The
    closed fold is empty, so that a new sentence draws less; it keeps a record that was opened.
    """
    fold = st.expander("Export, or open a saved record", key="take_away", on_change="rerun")
    if not fold.open and session.get("open_record") is None:
        return
    with fold:
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
            if (card.folder / "tokenizer.json").is_file():  # subwords, which the page needs
                _download_app(card)
            more()
        uploaded = st.file_uploader("A saved record", type="npz", key="open_record")
    if uploaded is None:
        return
    try:
        opened = TranslationRecord.load(uploaded)
    except ValueError as error:
        st.error(plain(error))
        return
    st.subheader(f"Opened: {plain(uploaded.name)}")
    # Imported maps may name no model.
    made = ", ".join(filter(None, (opened.model_title, opened.search)))
    st.text(f"{normalise(opened.source_text)}\n{opened.translation}\n{made}")
    if opened.origin:
        maps = {kind: opened.maps(kind) for kind in KINDS}
        opened, made_by, checked = replace(opened, checks=check_maps(maps)), None, "here"
    else:
        with st.spinner("Checking the record…"):
            rechecked = results.recheck(opened)
        checked = "here" if rechecked else "elsewhere"
        opened, made_by = rechecked or (opened, None)
    view = address.initial_view(opened)
    try:
        show_explorer(opened, view, made_by, key="opened_explorer", checked=checked, in_url=False)
    except ValueError as error:  # its tokens and texts alone exceed the payload limit
        st.error(plain(f"{uploaded.name} cannot be shown: {error}"))
