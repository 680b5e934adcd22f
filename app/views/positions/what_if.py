"""Takes positions away, shuffles, shifts or stretches them, and shows maps and translations."""

import numpy as np
import streamlit as st

from app import session
from app.figures.comparison import scientific
from app.figures.experiments import change_figure
from app.figures.grid import Axes, signed_figure, weights_figure
from app.figures.style import labels
from app.views.lesson import Lesson, choose, show
from core.record import TranslationRecord

CHANGES = {
    "off": "Off",
    "shuffled": "Shuffled",
    "shifted": "Shifted by k",
    "doubled": "Doubled",
    "stretched": "Stretched",
}
FORMULA = {
    "off": r"x_p = \sqrt{d_{\text{model}}}\,E_{w_p}",
    "shuffled": r"x_p = \sqrt{d_{\text{model}}}\,E_{w_p} + PE_{\pi(p)}",
    "shifted": r"x_p = \sqrt{d_{\text{model}}}\,E_{w_p} + PE_{p+k}",
    "doubled": r"x_p = \sqrt{d_{\text{model}}}\,E_{w_p} + 2\,PE_p",
    "stretched": r"x_p = \sqrt{d_{\text{model}}}\,E_{w_p} + PE_{2p}",
}
SIDES = {"source": "Source", "target": "Target", "both": "Both"}


def head_choice(record: TranslationRecord, key: str) -> tuple[int, int]:
    """Layer and head of the encoder, counted from 0."""
    layers, heads = record.encoder.shape[:2]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        layer = choose("Layer", {i: str(i + 1) for i in range(layers)}, 0, f"{key}_layer")
        head = choose("Head", {i: str(i + 1) for i in range(heads)}, 0, f"{key}_head")
    return layer, head


@st.fragment
def order(given: Lesson) -> None:
    """Permutation equivariance: the maps of reordered words are the reordered maps."""
    from core.edits import Places

    record = given.record
    st.write(
        "Take the words in another order and let the encoder run again. Without positions nothing "
        "is new to it: every map comes out with its rows and columns in the new order, and every "
        "output vector in its new place. With positions it does not."
    )
    st.latex(r"\mathrm{Encoder}(P\,x) = P\,\mathrm{Encoder}(x) \quad \text{without } PE")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state = choose("Positions", {"off": "Off", "on": "On"}, "off", "order_positions")
        layer, head = head_choice(record, "order")
    places = Places.shuffled(1, len(record.source)).order
    found = session.equivariance(given.card, given.source_ids, places, state == "on")
    source = labels(record.source, 1)
    words = [source[place] for place in places]
    side = record.source_language
    axes = Axes(words, words, f"{side} that looks", f"{side} looked at")
    moved, new = found.moved_maps[layer, head], found.new_maps[layer, head]
    difference = moved - new.astype(np.float64)
    theme = session.theme()
    with st.container(horizontal=True, gap="small"):
        show(
            weights_figure(
                moved, {}, axes, "The map, reordered", "of the sentence as typed", theme
            ),
            "order_moved",
        )
        show(
            weights_figure(new, {}, axes, "The map of the new order", "words reordered", theme),
            "order_new",
        )
        subtitle = f"largest in this map: {scientific(float(np.abs(difference).max()))}"
        show(
            signed_figure(
                difference, 1.0, {}, axes, "First − second", subtitle, theme, "difference"
            ),
            "order_difference",
        )
    st.caption("Look at the third picture: empty means that order meant nothing to the encoder.")
    st.write(
        f"Positions {state}: over all layers and heads the maps differ by at most "
        f"**{scientific(found.map_difference)}**, the output vectors by at most "
        f"**{scientific(found.output_difference)}**."
        + (" That is rounding." if found.output_difference < 1e-4 else "")
    )


@st.fragment
def what_if(given: Lesson) -> None:
    """The translation, its probability and the encoder's maps under other positions."""
    from core.edits import Edits

    record = given.record
    with st.container(horizontal=True, vertical_alignment="bottom"):
        change = choose("Positions", CHANGES, "off", "position_change")
        side = choose("Of the", SIDES, "source", "position_change_side")
        seed = shift = 0
        with st.container(width=150):
            if change == "shuffled":
                seed = st.number_input("Shuffle number", 1, 999, 1, key="position_seed")
            elif change == "shifted":
                shift = st.number_input("k", -500, 500, 5, key="position_shift")
    changed = {
        name: _places(change, int(seed), int(shift), length) if side in (name, "both") else None
        for name, length in (("source", len(record.source)), ("target", len(record.target_in)))
    }
    edits = Edits(**{f"{name}_positions": p for name, p in changed.items() if p is not None})
    st.latex(FORMULA[change])
    try:
        edited = session.edited(given.card, record.source_text, None, edits, given.decode)
        before, after = (
            session.edited(given.card, record.source_text, given.target_ids, e, given.decode)
            for e in (Edits(), edits)
        )
    except ValueError as error:
        st.error(str(error))
        return
    theme = session.theme()
    with st.container(key="position_translation"):
        st.text(f"as trained:  {record.translation}")
        st.text(f"edited:  {edited.translation}")
    show(
        change_figure(
            labels(before.target_out, 1),
            np.exp(before.log_probs),
            np.exp(after.log_probs),
            ("positions as trained", "edited"),
            "Probability of each token of the first translation",
            theme,
        ),
        "position_change_figure",
        "Look for the tokens that fall: there the network needs to know where a word stands. "
        "Where nothing falls, the words alone were enough for it.",
    )
    layer, head = head_choice(record, "position")
    words = labels(record.source, 1)
    axes = Axes(
        words, words, f"{record.source_language} that looks", f"{record.source_language} looked at"
    )
    a, b = before.encoder[layer, head], after.encoder[layer, head]
    difference = b.astype(np.float64) - a
    name = f"encoder, layer {layer + 1}, head {head + 1}"
    with st.container(horizontal=True, gap="small"):
        show(weights_figure(a, {}, axes, "As trained", name, theme), "map_trained")
        show(weights_figure(b, {}, axes, "Edited", name, theme), "map_edited")
        subtitle = f"largest in this map: {scientific(float(np.abs(difference).max()))}"
        show(
            signed_figure(
                difference, 1.0, {}, axes, "Edited − as trained", subtitle, theme, "difference"
            ),
            "map_difference",
        )
    st.caption(
        "Look for diagonals: heads that look at a neighbour lose them when positions go, heads "
        "that look at a word keep their columns."
        if side != "target"
        else "Only the target's positions are edited: the encoder sees none of it."
    )


def _places(change: str, seed: int, shift: int, length: int):
    from core.edits import DOUBLED, OFF, STRETCHED, Places

    return {
        "off": OFF,
        "shuffled": Places.shuffled(seed, length),
        "shifted": Places(shift=shift),
        "doubled": DOUBLED,
        "stretched": STRETCHED,
    }[change]
