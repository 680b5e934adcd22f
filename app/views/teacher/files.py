"""The files made from a plan: the offline page that runs it, and the worksheet."""

import streamlit as st

from app import controls
from app.export import offline
from app.export.tour import Inspect, not_offline
from app.export.worksheet import Sheet, sheet, worksheet
from app.look.markdown import plain
from app.plan import Plan
from app.state import models, results
from app.stops import Stop
from app.views.tour.finders import find
from core.checkpoint.folder import Card
from core.record.record import TranslationRecord

LONGEST_QUOTE = 60  # characters


def show_files(made: Plan, chosen: controls.Selection) -> None:
    """Offer the files, and say first what they leave out."""
    card = chosen.card
    assert card is not None

    def inspect(text: str) -> TranslationRecord:
        return results.inspect(card, text, decode=chosen.decode)

    with st.spinner("Translating the sentences…"):
        shown, left_out = sheets(made, inspect)
        not_shown = not_offline(made, inspect)
    _offer_page(made, card, not_shown)
    _offer_worksheet(shown, left_out, card)


def sheets(made: Plan, inspect: Inspect) -> tuple[list[Sheet], list[str]]:
    """Return a sheet per distinct sentence of the plan, and a line per sentence without a sheet."""
    found: dict[str, Sheet] = {}
    left_out: dict[str, str] = {}
    for stop in made.stops:
        sentence = stop.source
        try:
            shown = sheet_of(stop, inspect(sentence))
        except ValueError as error:  # InputError: one line
            left_out[sentence] = f"{quoted(sentence)}: {error}"
            continue
        if stop.on_tour or sentence not in found:
            found[sentence] = shown
    return list(found.values()), list(left_out.values())


def quoted(sentence: str) -> str:
    """Quote a sentence, shortened to `LONGEST_QUOTE` characters."""
    return (
        f"“{sentence if len(sentence) <= LONGEST_QUOTE else sentence[: LONGEST_QUOTE - 1] + '…'}”"
    )


def sheet_of(stop: Stop, record: TranslationRecord) -> Sheet:
    """Return the sheet of a stop's sentence; a stop of the tour chooses the head."""
    if stop.on_tour:
        try:
            shown = find(stop.find, record)
        except LookupError:
            return sheet(record)
        return Sheet(record, shown.kind, shown.head.layer, shown.head.head, shown.rows)
    return sheet(record)


def _offer_page(made: Plan, card: Card, not_shown: list[str]) -> None:
    st.markdown("**Offline page**: the app as one file with this plan inside; needs no server.")
    if not has_page(card):
        st.caption("This model has no subword tokenizer, which the offline page needs.")
        return
    if not_shown:
        st.caption(plain("Not in the offline page: " + "; ".join(not_shown) + "."))
    if len(not_shown) == len(made.stops):
        st.caption("None of these stops works without the app.")
        return
    page_button("Offline page (.html)", made, card, "class_page")


def has_page(card: Card) -> bool:
    """Whether the offline page can run the network: it needs one tokenizer for both languages."""
    return (card.folder / "tokenizer.json").is_file()


def page_button(label: str, made: Plan, card: Card, key: str, help: str = "") -> None:
    """Draw the button that saves the offline page with a plan inside."""
    st.download_button(
        label,
        lambda: _page(made, card),
        file_name=f"headlight-plan-{card.folder.name}.html",
        mime="text/html",
        on_click="ignore",
        key=key,
        help=help or None,
    )


def _page(made: Plan, card: Card) -> bytes:
    """Return the offline page with a plan, made once for all sessions."""
    return results.cached(
        ("offline page", models.key_of(card), made.to_text()),
        lambda: offline.page([offline.network(card.folder, plan=made)]).encode(),
    )


def _offer_worksheet(shown: list[Sheet], left_out: list[str], card: Card) -> None:
    st.markdown(
        "**Worksheet**: each sentence starts a new page, with a picture, questions and blanks; the "
        "answers come last, from a new page on. It prints on A4 and Letter, in black and white."
    )
    if left_out:
        st.caption(plain("Not in the worksheet: " + "; ".join(left_out)))
    if shown:
        worksheet_button("Worksheet (.html)", shown, card, "class_worksheet")


def worksheet_button(label: str, shown: list[Sheet], card: Card, key: str) -> None:
    """Draw the button that saves the worksheet of these sheets."""
    st.download_button(
        label,
        lambda: worksheet(shown).encode(),
        file_name=f"headlight-worksheet-{card.folder.name}.html",
        mime="text/html",
        on_click="ignore",
        key=key,
    )
