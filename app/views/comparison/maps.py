"""Shows one head of both models, their difference, and the largest difference overall."""

from collections.abc import Mapping

import streamlit as st

from app.components.map_row import map_row
from app.components.map_row.payload import DIFFERENCE, Difference, Map, MapRow, Opened, own_scale
from app.look.numbers import scientific
from app.state import address, session, waiting
from app.state.models import Implementation
from app.views.comparison.names import CODE
from app.views.shared.axes import axis_words, map_sides, source_of
from app.views.shared.choices import choose
from core.analysis.difference import SAME, Largest
from core.analysis.matching import Matching
from core.kinds import KINDS
from core.record.record import TranslationRecord

Matchings = Mapping[str, Matching] | None


def show_agreement(largest: Largest, record: TranslationRecord, same_weights: bool) -> None:
    """Say how far all maps of the two models agree."""
    cells = sum(record.maps(kind).size for kind in KINDS)
    size = scientific(abs(largest.difference))
    if largest.difference == 0:
        st.write(
            f"**All attention weights agree exactly:** all {cells:,}, of every kind, layer and "
            "head, are equal to the last bit."
        )
    elif same_weights and abs(largest.difference) <= SAME:
        st.write(
            "**All attention weights agree within 1e-5.** The largest difference over all "
            f"{cells:,}, of every kind, layer and head, is **{size}**: the models add the same "
            "numbers in a different order, and float32 rounds after about seven digits. The "
            "checklist above repeats the comparison in float64, where a difference may not exceed "
            "1e-12."
        )
    elif same_weights:
        st.error(
            f"The same parameters give different maps: the largest difference is {size}, more than "
            "the 1e-5 that rounding explains. One of the two implementations is wrong."
        )
    else:
        st.write(
            f"**The largest difference over all {cells:,} attention weights is {size}.** These two "
            "were trained independently, so their maps differ. Their heads are numbered "
            "arbitrarily, so each head is compared with the one matched to it below."
        )


def describe_cell(largest: Largest, record: TranslationRecord) -> str:
    """Describe a cell as plain text, because its tokens are user input."""
    queries, keys = axis_words(record, largest.kind)
    query, key = queries[largest.query], keys[largest.key]
    there = ""
    if (largest.layer, largest.head) != (largest.second_layer, largest.second_head):
        there = f" (second: layer {largest.second_layer + 1}, head {largest.second_head + 1})"
    return (
        f"Largest: {largest.kind}, layer {largest.layer + 1}, head {largest.head + 1}{there}, "
        f"{'from' if largest.kind == 'encoder' else 'producing'} “{query}” "
        f"(row {largest.query + 1}), looking at “{key}” (column {largest.key + 1}): "
        f"first {largest.first:.7f}, second {largest.second:.7f}"
    )


def select_head(layer: int, head: int) -> None:
    """Show one head, overriding the choice made in the maps."""
    session.put("compare_layer", layer)
    session.put("compare_head", head)
    session.put("compare_turn", (session.get("compare_turn") or 0) + 1)


def show_cell(kind: str, layer: int, head: int) -> None:
    """Show one head of a kind; call before the widget of the kind is drawn."""
    session.put("compare_kind", kind)
    select_head(layer, head)


def selected_head(layers: int, heads: int) -> Opened:
    """Return the head last set by a link or a button; later choices stay in the browser."""
    names = {"layer": "compare_layer", "head": "compare_head"}
    linked = [address.pop(key) for key in names.values()]
    at = []
    for key, text, count, default in zip(
        names.values(), linked, (layers, heads), (max(0, layers - 2), 0), strict=True
    ):
        is_valid = text is not None and text in map(str, range(count))
        value = int(text) if is_valid else session.get(key)
        at.append(value if value in range(count) else default)
    if any(linked):
        select_head(*at)
    return Opened(*at, turn=session.get("compare_turn") or 0, names=names)


def map_row_of(
    pair: tuple[Implementation, Implementation],
    records: tuple[TranslationRecord, TranslationRecord],
    kind: str,
    is_own: bool,
    matching: Matching | None,
) -> MapRow:
    """Return all heads of a kind: first model, matched heads of the second, differences."""
    first, second = (record.maps(kind) for record in records)
    layers, heads = first.shape[:2]
    notes: str | list[list[str]] = ""
    if matching:
        there = [[matching.of(layer, head) for head in range(heads)] for layer in range(layers)]
        second = matching.reordered(second)
        notes = [[f"layer {layer + 1}, head {head + 1}" for layer, head in line] for line in there]
    scale = DIFFERENCE
    if is_own:
        scale = own_scale(first, second)
    names = [CODE[model.architecture] for model in pair]
    return MapRow(
        kind.capitalize(),
        range(layers),
        *map_sides(records[0], kind),
        [
            Map(f"First: {names[0]}", "first", "", first),
            Map(f"Second: {names[1]}", "second", notes, second),
            Difference("First − second", "difference", 0, 1, scale),
        ],
        records[0].mask(kind),
        selected_head(layers, heads),
        about=source_of(records[0]),
    )


@waiting.fragment
def show_maps(
    pair: tuple[Implementation, Implementation],
    records: tuple[TranslationRecord, TranslationRecord],
    largest: Largest,
    matchings: Matchings,
) -> None:
    """Show one head of the first model, its match in the second, and their difference."""
    with st.container(key="largest", horizontal=True, wrap=False):
        st.text(describe_cell(largest, records[0]), width="stretch")
        st.button(
            "Show it",
            key="show_largest",
            on_click=show_cell,
            args=(largest.kind, largest.layer, largest.head),
        )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kinds = {kind: kind.capitalize() for kind in KINDS}
        kind = choose("Attention", kinds, "cross", "compare_kind")
        scales = {"weights": "−1 to 1", "own": "Its own"}
        scale = choose("Scale of the difference", scales, "weights", "compare_scale")
    matching = matchings[kind] if matchings else None
    map_row(map_row_of(pair, records, kind, scale == "own", matching), key="compared_maps")
    st.latex(r"\Delta_{qk} = A^{\text{first}}_{qk} - A^{\text{second}}_{qk}")
    scale_words = (
        "The scale ends at the largest difference; differences up to "
        f"{scientific(SAME)} are only rounding."
        if scale == "own"
        else "The scale is that of the weights, in both directions, so a small difference "
        "looks small."
    )
    st.caption(f"Blue: the first model looks there more. Orange: the second does. {scale_words}")
    if kind == "decoder":
        st.caption("Hatched: masked, because these tokens are written later.")
