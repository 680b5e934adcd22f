"""Two at once: compare two passes, copy a state of one into the other, or push a state."""

from collections.abc import Iterable
from difflib import SequenceMatcher

import numpy as np
import streamlit as st

from app import controls
from app.components.one_line import one_line
from app.examples import minimal_change, minimal_pairs
from app.export.notebook import name_of
from app.look.glossary import meaning
from app.look.labels import ATTENTION
from app.look.markdown import plain
from app.look.numbers import number
from app.state import address, models, results, session
from app.views.comparison.names import model_name
from app.views.comparison.two_passes import show_largest
from app.views.shared.choices import choose
from app.views.shared.explorer import show_explorer
from app.views.shared.notebook import offer_notebook, view_choices, view_values
from app.views.shared.quality_warnings import show_certainty
from app.views.shared.section import section
from app.views.shared.what_if import current_edits, edit, show_edits
from app.views.states.copying import show_copying
from app.views.states.pushing import show_pushing
from core.checkpoint.folder import Card
from core.record.record import TranslationRecord

MODES = {"compare": "Compare maps", "copy": "Copy a state", "push": "Push a state"}
COMPARISONS = {
    "sentence": "Another sentence",
    "model": "Another model",
    "edits": "The same with edits",
}


def ask_for_second_sentence(chosen: controls.Selection) -> str:
    """Ask for the second sentence, by default a known minimal change of the first, or the first."""
    default = minimal_change(chosen.source, chosen.languages)
    before = session.saved_result("default_second")
    # It follows the first sentence to another known pair, unless the visitor has edited it.
    if session.get("second_source") == before and default != chosen.source:
        session.put("second_source", default)
        session.save_result("default_second", default)
    address.initialise_text("second_source", default)
    with st.container(horizontal=True, vertical_alignment="center", key="minimal_pairs"):
        text = st.text_area(
            "Second sentence",
            height="content",
            key="second_source",
            persist_state="session",
            label_visibility="collapsed",
        )
        one_line("second_source", key="second_line")
        for i, pair in enumerate(minimal_pairs(chosen.languages)):
            st.button(
                pair.title(chosen.languages),
                key=f"minimal_pair_{i}",
                on_click=use_pair,
                args=pair.texts(chosen.languages),
            )
    address.write({"second_source": text}, "second_source")
    if address.one_line(text) == chosen.source:
        st.caption("Both sentences are the same: change a word in one of them.")
    return address.one_line(text)


def use_pair(first: str, second: str) -> None:
    """Fill both boxes with a pair of sentences."""
    session.put("source", first)
    session.put("second_source", second)


def offer_edit(card: Card, record: TranslationRecord) -> None:
    """Offer to switch off the head that the translation needs most."""
    effects = {
        (kind, layer, head): float(change[layer, head].sum())
        for kind, change in results.head_effects(card, record).items()
        for layer, head in np.ndindex(change.shape[:2])
    }
    most = min(effects, key=effects.__getitem__)
    st.caption(
        "No edit is made yet. The translation needs this head most: without it, its "
        f"log-probability changes by {number(effects[most], 2, '+')} nats. "
        "The page Translate offers other edits, under “What if”."
    )
    kind, layer, head = most
    st.button(
        f"Switch off head {head + 1} of layer {layer + 1}, {ATTENTION[kind]}",
        key="offer_edit",
        type="primary",
        on_click=edit,
        args=(f"+off.{kind}.{layer}.{head}",),
    )


def second_pass(
    compared: str, card: Card, record: TranslationRecord, chosen: controls.Selection
) -> tuple[TranslationRecord, Card]:
    """Return the record and model on the right. Raises ValueError with a user-facing line."""
    if compared == "sentence":
        text = ask_for_second_sentence(chosen)
        return results.inspect(card, text, decode=chosen.decode), card
    target = results.token_ids(record.target_out)
    if compared == "edits":
        edits, problems = current_edits(card, record)
        show_edits(edits, problems, record)
        if edits is None:
            offer_edit(card, record)
            st.stop()
        return results.inspect(card, record.source_text, edits=edits, target_ids=target), card
    others = {
        key: other
        for (direction, key), other in models.cards().items()
        if direction == chosen.direction and other.weights_sha256 != card.weights_sha256
    }
    if not others:
        raise ValueError("There is no other model for this direction.")
    names = {key: model_name(models.Implementation(other)) for key, other in others.items()}
    other = others[choose("Model", names, next(iter(names)), "second_of_two")]
    return results.inspect(other, record.source_text, record.translation), other


def show_maps(card: Card, record: TranslationRecord, chosen: controls.Selection) -> None:
    """Draw two passes side by side, on one scale."""
    compared = choose(
        "Compare with",
        COMPARISONS,
        "sentence",
        "beside",
        help=meaning("head", "weight", "log-probability", "entropy"),
    )
    second, second_card = second_pass(compared, card, record, chosen)
    drawn = False
    if compared != "model":  # two networks number their heads arbitrarily
        show_translations(record, second)
        where = "in the second sentence" if compared == "sentence" else "with the edits"
        drawn = show_largest(record, second, where)
    note = ", with edits" if compared == "edits" else ""
    sides = (record, card, "first_of_two", ""), (second, second_card, "second_explorer", note)
    if drawn:
        summary = "Every head of both, their words and probabilities"
        section("", "full_passes", show_both, record, sides, choices=address.VIEW, summary=summary)
    else:
        show_both(record, sides)
    offer_notebook(
        "together",
        card,
        record,
        view_choices(record),
        COMPARE=compared,
        SECOND_SOURCE=second.source_text,
        SECOND_MODEL=name_of(second_card.folder),
        EDITS=second.edits.to_text(),
        **view_values(record),
    )


def show_translations(first: TranslationRecord, second: TranslationRecord) -> None:
    """Draw two translations, with the words bold that differ, or say that they are the same."""
    with st.container(key="two_translations", gap=None):
        differ = first.source_text != second.source_text
        alike = f"{'The sentences differ, yet both' if differ else 'Both'} get the same translation"
        names = ("First", "Second") if first.translation != second.translation else (alike,)
        both = (first, second), (second, first)
        for name, (one, other) in zip(names, both, strict=False):
            st.markdown(f"{name}: {marked(one.translation, other.translation)}")
            show_certainty(one)


def marked(text: str, other: str) -> str:
    """Return a text as Markdown, with the words bold that another text lacks."""
    words = text.split()
    changes = SequenceMatcher(None, other.split(), words, autojunk=False).get_opcodes()
    runs = ((kind, plain(" ".join(words[start:end]))) for kind, _, _, start, end in changes)
    return " ".join(run if kind == "equal" else f"**{run}**" for kind, run in runs if run)


def show_both(
    record: TranslationRecord, sides: Iterable[tuple[TranslationRecord, Card, str, str]]
) -> None:
    """Draw the explorers of two passes, which follow each other; the first one's view is linked."""
    view = address.initial_view(record)
    with st.container(key="two_at_once"):
        for column, (one, card, key, note) in zip(st.columns(2, gap="medium"), sides, strict=True):
            with column:
                st.caption(
                    f"{plain(card.folder.name)}, log-probability {number(one.log_prob, 2)}{note}"
                )
                show_certainty(one)
                in_url = key == "first_of_two"
                show_explorer(one, view, card, key=key, in_url=in_url, strip=True, together="two")


def show_grids(card: Card, record: TranslationRecord, chosen: controls.Selection) -> None:
    """Draw the grids of two sentences, to copy states from one into the other."""
    second = results.inspect(card, ask_for_second_sentence(chosen), decode=chosen.decode)
    show_copying(card, record, second, chosen)


def show_push(card: Card, record: TranslationRecord, chosen: controls.Selection) -> None:
    """Draw one sentence, whose states can be pushed; at first towards a known other sentence's."""
    other = minimal_change(chosen.source, chosen.languages)
    second = results.inspect(card, other, decode=chosen.decode)
    show_pushing(card, record, second, chosen)


with st.container(horizontal=True, vertical_alignment="center", key="two_title"):
    st.title("Two at once", width="content")
    mode = choose("What to do", MODES, "compare", "two", show_label=False)
card, record = controls.ask_for_record(given_target=False)
chosen = controls.selection()
show = {"compare": show_maps, "copy": show_grids, "push": show_push}[mode]
try:
    show(card, record, chosen)
except ValueError as error:  # one line
    st.error(plain(str(error)))
