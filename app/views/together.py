"""Two at once: two sentences, two models, or before and after edits, pinned together."""

import streamlit as st

from app import controls
from app.examples import minimal_pairs
from app.look.markdown import plain
from app.look.numbers import number
from app.state import address, models, results, visit
from app.views.comparison.names import name
from app.views.shared.choices import choose
from app.views.shared.explored import explored
from app.views.shared.what_if import asked_edits, edits_line
from core.checkpoint.folder import Card
from core.record.record import TranslationRecord

SECONDS = {
    "sentence": "Another sentence",
    "model": "Another model",
    "edits": "The same, changed",
}


def another_sentence(chosen: controls.Selection) -> str:
    """The second sentence: typed, or one of the pairs that differ in one thing."""
    pairs = minimal_pairs(chosen.direction)
    if pairs:
        with st.container(horizontal=True, vertical_alignment="center", key="minimal_pairs"):
            st.caption("Pairs that differ in one thing:", width="content")
            for i, pair in enumerate(pairs):
                st.button(
                    pair.title,
                    key=f"minimal_pair_{i}",
                    type="tertiary",
                    on_click=take_pair,
                    args=pair.texts(chosen.direction),
                )
    opening = pairs[0].texts(chosen.direction)[1] if pairs else chosen.source
    address.settle_text("second_source", opening)
    text = st.text_input("Second sentence", key="second_source", persist_state="session")
    address.keep({"second_source": text}, "second_source")
    return address.one_line(text)


def take_pair(first: str, second: str) -> None:
    """Both sentences of a pair into the two boxes."""
    visit.put("source", first)
    visit.put("second_source", second)


def second_of(
    asked: str, card: Card, record: TranslationRecord, chosen: controls.Selection
) -> tuple[TranslationRecord, Card]:
    """What stands on the right. Raises ValueError, in one line for the reader."""
    if asked == "sentence":
        text = another_sentence(chosen)
        return results.inspect(card, text, decode=chosen.decode), card
    target = results.ids(record.target_out)
    if asked == "edits":
        edits, problems = asked_edits(card, record)
        edits_line(edits, problems, record)
        if edits is None:
            raise ValueError("nothing is changed: make a change under “What if” on the first page")
        return results.inspect(card, record.source_text, edits=edits, target_ids=target), card
    others = {
        key: other
        for (direction, key), other in models.cards().items()
        if direction == chosen.direction and other.weights_sha256 != card.weights_sha256
    }
    if not others:
        raise ValueError("there is no other model of this direction")
    names = {key: name(models.Implementation(other)) for key, other in others.items()}
    other = others[choose("Model", names, next(iter(names)), "second_of_two")]
    return results.inspect(other, record.source_text, record.translation), other


st.title("Two at once")
card, record = controls.sentence(given_target=False)
chosen = controls.selection()
st.caption(
    "Two passes beside each other, both drawn on one scale. Choose a head or pin a word in one, "
    "and the other follows: look where it answers in another way."
)
asked = choose("Beside it", SECONDS, "sentence", "beside")
try:
    second, second_card = second_of(asked, card, record, chosen)
except ValueError as error:
    st.error(plain(str(error)))
    st.stop()
view = address.first_view(record)
with st.container(key="two_at_once"):
    left, right = st.columns(2, gap="medium")
    for column, one, of, key in (
        (left, record, card, "first_of_two"),
        (right, second, second_card, "second_explorer"),
    ):
        with column:
            st.text(f"{one.translation}\n{of.folder.name}, log P {number(one.log_prob, 2)}")
            explored(one, view, of, key=key, address=key == "first_of_two", together="two")
