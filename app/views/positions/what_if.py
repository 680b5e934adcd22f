"""Edits positions or reorders tokens, and shows the resulting maps and translations."""

from collections.abc import Iterator, Sequence
from functools import partial

import streamlit as st

import core
from app.components.map_row import map_row
from app.components.map_row.payload import Difference, Map, MapRow, sides
from app.lessons.texts import rules, text
from app.look.numbers import scientific
from app.state import address, results
from app.views.positions.formula import embedding
from app.views.shared import asked
from app.views.shared.choices import choose
from app.views.shared.inspection import Inspection, show_edited_translation, translate_with_edits
from core.analysis import roles
from core.record.record import RecordToken, TranslationRecord

ROUNDING = 1e-4  # of an output vector
FORMULA = {
    "off": "",
    "shuffled": r" + PE_{\pi(p)}",
    "shifted": " + PE_{p+k}",
    "doubled": r" + 2\,PE_p",
    "stretched": " + PE_{2p}",
}
"""What each edit adds to the embedding."""


_say = partial(text, "positions")


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
    st.write(_say("reordering.about"))
    st.latex(r"\mathrm{Encoder}(P\,x) = P\,\mathrm{Encoder}(x) \quad \text{without } PE")
    state = choose("Positions", {"off": "Off", "on": "On"}, "off", "order_positions")
    order = PositionEdit.shuffled(1, len(record.source)).order
    result = inspection.run(core.equivariance, inspection.source_ids, order, state == "on")
    tokens = [record.source[i] for i in order]
    _show_maps(
        record,
        tokens,
        [place + 1 for place in order],
        (
            Map("The map, reordered", "reordered", "of the sentence as typed", result.moved_maps),
            Map("The map of the new order", "new order", "words reordered", result.new_maps),
            Difference("First − second", "difference", 0, 1),
        ),
        "order_maps",
    )
    st.caption(_say("reordering.look"))
    measured = _say(
        "reordering.measured",
        state=state,
        maps=scientific(result.map_difference),
        outputs=scientific(result.output_difference),
    )
    rounding = 0 < result.output_difference < ROUNDING
    st.write(f"{measured} {_say('reordering.rounding')}" if rounding else measured)


def show_position_edits(inspection: Inspection) -> None:
    """Show the translation, its probabilities and the encoder's maps under edited positions."""
    from core.record.edits import Edits

    record, table = inspection.record, rules("positions")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        changes = {change: _say(f"changes.{change}.name") for change in table["changes"]}
        change = choose(_say("change.choice"), changes, table["change"], "position_change")
        names = {side: _say(f"sides.{side}") for side in table["sides"]}
        side = choose(_say("change.side"), names, table["side"], "position_change_side")
        number = _ask_for_number(change)
    lengths = {"source": len(record.source), "target": len(record.target_in)}
    sides = [side] if side in lengths else list(lengths)
    edits, _ = Edits.parse("~".join(_edit(change, number, one, lengths[one]) for one in sides))
    st.latex(f"x_p = {embedding(inspection.card)}{FORMULA[change]}")
    result = translate_with_edits(inspection, edits)
    if result is None:
        return
    show_edited_translation(
        inspection,
        result,
        (_say("change.before.state"), _say("change.after.state")),
        "position",
        _say("change.look"),
    )
    _show_maps(
        record,
        record.source,
        range(1, len(record.source) + 1),
        (
            _map("before", result.before),
            _map("after", result.after),
            Difference("Edited − as trained", "difference", 1, 0),
        ),
        "position_maps",
    )
    st.caption(_say("change.unseen" if side == "target" else "change.maps"))


def _ask_for_number(change: str) -> int:
    """Show the number box of a change that has one; return its number."""
    rule = rules("positions")["changes"][change]
    if "number" not in rule:
        return 0
    key, least, most, usual = (rule[name] for name in ("number", "least", "most", "usual"))
    with st.container(width=150):
        address.initialise(key, range(least, most + 1), usual)
        number = st.number_input(_say(f"changes.{change}.number.name"), least, most, key=key)
        address.write_choice(key, number, usual)
    return int(number)


def _edit(change: str, number: int, side: str, length: int) -> str:
    """Return the text form of a change on a side of `length` tokens."""
    from core.record.edits import PositionEdit

    order = "-".join(map(str, PositionEdit.shuffled(number, length).order))
    edit = rules("positions")["changes"][change]["edit"]
    return f"positions.{side}.{edit.format(order=order, number=number)}"


def _map(when: str, record: TranslationRecord) -> Map:
    """Return the encoder's maps before or after a change, with their names."""
    name, short, note = (_say(f"change.{when}.{part}") for part in ("name", "short", "note"))
    return Map(name, short, note, record.encoder)


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
