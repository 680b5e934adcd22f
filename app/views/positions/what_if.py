"""Edits positions or reorders tokens, and shows the resulting maps and translations."""

from collections.abc import Iterator, Sequence

import streamlit as st

import core
from app.components.map_row import map_row
from app.components.map_row.payload import Difference, Map, MapRow, sides
from app.lessons.texts import text
from app.look.numbers import scientific
from app.state import address, results
from app.views.positions.formula import embedding
from app.views.shared import asked
from app.views.shared.choices import choose
from app.views.shared.inspection import Inspection, show_edited_translation, translate_with_edits
from core.analysis import roles
from core.record.record import RecordToken, TranslationRecord

EDITS = {
    "off": "Off",
    "shuffled": "Shuffled",
    "shifted": "Shifted by k",
    "doubled": "Encodings × 2",
    "stretched": "Positions × 2",
}
FORMULA = {
    "off": "",
    "shuffled": r" + PE_{\pi(p)}",
    "shifted": " + PE_{p+k}",
    "doubled": r" + 2\,PE_p",
    "stretched": " + PE_{2p}",
}
"""What each edit adds to the embedding."""
SIDES = {"source": "Source", "target": "Target", "both": "Both"}


def questions(inspection: Inspection) -> Iterator[asked.Candidate]:
    """Yield the question about the translation without positions, then those about one head.

    That head is the encoder head with the most weight on the previous token.
    """
    yield lambda: asked.order(inspection.record, _without_positions(inspection))
    encoder = inspection.record.encoder
    if encoder.shape[-1] > 1:
        head = roles.strongest(roles.on_previous(encoder))
        yield from asked.other_rows(inspection.record, "encoder", head.layer, head.head)


def _without_positions(inspection: Inspection) -> TranslationRecord:
    """Translate without positions on either side. Raises NotAskable if that fails."""
    from core.record.edits import OFF, Edits

    edits = Edits(source_positions=OFF, target_positions=OFF)
    source = inspection.record.source_text
    try:
        return results.inspect(inspection.card, source, edits=edits, decode=inspection.decode)
    except ValueError as error:
        raise asked.NotAskable(text("positions", "order.failed", error=error)) from None


def show_reordering(inspection: Inspection) -> None:
    """Show permutation equivariance: maps of reordered tokens are the reordered maps."""
    from core.record.edits import PositionEdit

    record = inspection.record
    st.write(
        "Put the tokens in another order and run the encoder again. Without positions, nothing "
        "else changes: every map has its rows and columns in the new order, and every output "
        "vector moves with its token. With positions, neither is true. In the formula, the rows of "
        "x are the input vectors, and P puts them in another order."
    )
    st.latex(r"\mathrm{Encoder}(P\,x) = P\,\mathrm{Encoder}(x) \quad \text{without } PE")
    state = choose("Positions", {"off": "Off", "on": "On"}, "off", "order_positions")
    order = PositionEdit.shuffled(1, len(record.source)).order
    result = inspection.run(core.equivariance, inspection.source_ids, order, state == "on")
    tokens, numbers = [record.source[i] for i in order], [i + 1 for i in order]
    _show_maps(
        record,
        tokens,
        numbers,
        (
            Map("The map, reordered", "reordered", "of the sentence as typed", result.moved_maps),
            Map("The map of the new order", "new order", "words reordered", result.new_maps),
            Difference("First − second", "difference", 0, 1),
        ),
        "order_maps",
    )
    st.caption(
        "Look at the third map: where it shows no colour, the order made no difference to the "
        "encoder."
    )
    st.write(
        f"Positions {state}: over all layers and heads the maps differ by at most "
        f"**{scientific(result.map_difference)}**, the output vectors by at most "
        f"**{scientific(result.output_difference)}**."
        + (" That is rounding." if 0 < result.output_difference < 1e-4 else "")
    )


def show_position_edits(inspection: Inspection) -> None:
    """Show the translation, its probabilities and the encoder's maps under edited positions."""
    from core.record.edits import Edits

    record = inspection.record
    with st.container(horizontal=True, vertical_alignment="bottom"):
        change = choose("Positions", EDITS, "off", "position_change")
        side = choose("Side", SIDES, "both", "position_change_side")
        seed = shift = 0
        with st.container(width=150):
            if change == "shuffled":
                address.initialise("position_seed", range(1, 1000), 1)
                seed = st.number_input("Shuffle number", 1, 999, key="position_seed")
                address.write_choice("position_seed", seed, 1)
            elif change == "shifted":
                address.initialise("position_shift", range(-500, 501), 5)
                shift = st.number_input("k", -500, 500, key="position_shift")
                address.write_choice("position_shift", shift, 5)
    changed = {
        name: _position_edit(change, int(seed), int(shift), length)
        if side in (name, "both")
        else None
        for name, length in (("source", len(record.source)), ("target", len(record.target_in)))
    }
    edits = Edits(**{f"{name}_positions": p for name, p in changed.items() if p is not None})
    st.latex(f"x_p = {embedding(inspection.card)}{FORMULA[change]}")
    result = translate_with_edits(inspection, edits)
    if result is None:
        return
    show_edited_translation(
        inspection,
        result,
        ("as trained", "edited"),
        "position",
        "A token whose probability changes, up or down, depended on the original positions.",
    )
    _show_maps(
        record,
        record.source,
        range(1, len(record.source) + 1),
        (
            Map("As trained", "as trained", "positions as trained", result.before.encoder),
            Map("Edited", "edited", "the same words", result.after.encoder),
            Difference("Edited − as trained", "difference", 1, 0),
        ),
        "position_maps",
    )
    st.caption(
        "Compare diagonals and columns: does a head that looks at neighbours lose its diagonal, "
        "and does one that looks at a certain token keep its column?"
        if side != "target"
        else "Only the target's positions are edited, and the encoder does not see them."
    )


def _show_maps(
    record: TranslationRecord,
    tokens: Sequence[RecordToken],
    numbers: Sequence[int],
    maps: Sequence[Map | Difference],
    key: str,
) -> None:
    """Show encoder maps of all layers and heads."""
    layers = range(record.encoder.shape[0])
    both = sides(tokens, numbers, record.source_language)
    map_row(MapRow("Encoder", layers, *both, maps), key=key)


def _position_edit(change: str, seed: int, shift: int, length: int):
    from core.record.edits import DOUBLED, OFF, STRETCHED, PositionEdit

    return {
        "off": OFF,
        "shuffled": PositionEdit.shuffled(seed, length),
        "shifted": PositionEdit(shift=shift),
        "doubled": DOUBLED,
        "stretched": STRETCHED,
    }[change]
