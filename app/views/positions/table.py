"""Shows the positional table, its waves, dot products by distance, and steps as rotations."""

import streamlit as st
from numpy.typing import NDArray

import core
from app.figures import positions, vectors
from app.lessons.texts import text
from app.look.numbers import scientific
from app.state import address, session
from app.views.shared.choices import choose
from app.views.shared.figure import show
from app.views.shared.inspection import Inspection
from core.analysis.position_table import rotation as rotation_matrix
from core.analysis.position_table import rotation_error
from core.config import PositionTable
from core.record.record import RecordToken, TranslationRecord

WAVES = 8  # maximum number of waves drawn
_ROWS = 64  # rows of the table that `show_rotation` compares: more than most sentences need


def show_table(inspection: Inspection) -> None:
    """Show this sentence's rows of the table."""
    record = inspection.record
    sides = {"source": record.source_language, "target": record.target_language}
    rows, tokens = _rows(record, choose("Sentence", sides, "source", "position_side"))
    show(
        positions.table_figure(rows, tokens),
        "position_table",
        text("positions", "table.look" if positions.is_sinusoidal(rows) else "table.learned"),
    )


def show_waves(inspection: Inspection) -> None:
    """Show the formula of the table, and a few of its columns as waves, of the chosen side."""
    rows, tokens = _rows(inspection.record, session.get("position_side"))
    formula = positions.formula_of(rows)
    if formula:
        place = r"(pos + 2)" if formula == "fairseq" else "pos"
        angle = rf"\left({place} / 10000^{{{_exponent(formula)}}}\right)"
        st.latex(
            r"\begin{aligned}"
            rf"PE_{{(pos,\,2i)}} &= \sin{angle} \\"
            rf"PE_{{(pos,\,2i+1)}} &= \cos{angle}"
            r"\end{aligned}"
        )
    d_model = rows.shape[1]
    default = list(positions.sample_dimensions(d_model))
    linked = (address.pop("wave_dimensions") or "").split(".")
    if all(dimension in map(str, range(d_model)) for dimension in linked):
        session.put("wave_dimensions", [*dict.fromkeys(map(int, linked))][:WAVES])
    elif session.get("wave_dimensions") is None:
        session.put("wave_dimensions", default)
    chosen = st.multiselect(
        "Dimensions drawn as waves",
        list(range(d_model)),
        max_selections=WAVES,
        key="wave_dimensions",
        persist_state="session",
    )
    drawn = sorted(chosen or default)
    address.write_choice("wave_dimensions", ".".join(map(str, drawn)), ".".join(map(str, default)))
    show(
        positions.waves_figure(rows, tokens, drawn),
        "position_waves",
        f"{text('positions', 'table.waves')} {text('positions', 'table.digits')}"
        if formula
        else text("positions", "table.no-waves"),
    )
    if formula:
        st.latex(rf"\lambda_i = 2\pi \cdot 10000^{{{_exponent(formula)}}}")


def _exponent(formula: PositionTable) -> str:
    """Return the exponent of a wavelength in LaTeX."""
    return "2i/(d_{\\text{model}} - 2)" if formula == "fairseq" else "2i/d_{\\text{model}}"


def _rows(record: TranslationRecord, side: str | None) -> tuple[NDArray, tuple[RecordToken, ...]]:
    """Return a side's rows of the table, and its tokens."""
    if side == "target":
        return record.target_positions, record.target_in
    return record.source_positions, record.source


def show_products(inspection: Inspection) -> None:
    """Show the dot products of all pairs of rows by distance."""
    rows = inspection.record.source_positions
    sinusoidal = positions.is_sinusoidal(rows)
    show(
        positions.dot_product_figure(rows),
        "position_products",
        text("positions", "distance.look" if sinusoidal else "distance.learned"),
    )
    if sinusoidal:
        st.latex(
            r"PE_p \cdot PE_q = \sum_i \sin\omega_i p\,\sin\omega_i q + "
            r"\cos\omega_i p\,\cos\omega_i q = \sum_i \cos\omega_i (q - p)"
        )


def show_rotation(inspection: Inspection) -> None:
    """Show PE(p+k) = R_k PE(p), with the same R_k for every p."""
    rows = inspection.run(core.position_encodings, min(_ROWS, inspection.card.model.max_length))
    half, d_model = len(rows) // 2, rows.shape[1]
    formula = positions.formula_of(rows)
    if formula is None:
        st.write(text("positions", "rotation.learned"))
        return
    st.write(text("positions", "rotation.about"))
    st.latex(
        r"PE_{p+k} = R_k\,PE_p \qquad R_k = \operatorname{diag}_i \begin{pmatrix} "
        r"\cos\omega_i k & \sin\omega_i k \\ -\sin\omega_i k & \cos\omega_i k \end{pmatrix}"
        rf"\qquad \omega_i = 10000^{{-{_exponent(formula)}}}"
    )
    columns = st.columns(2)
    address.initialise("rotation_k", range(1, half + 1), 3)
    address.initialise("rotation_p", range(half), 0)
    k = columns[0].slider("k, the step", 1, half, key="rotation_k")
    position = columns[1].slider("p, the starting pos", 0, half - 1, key="rotation_p")
    address.write_choice("rotation_k", k, 3)
    address.write_choice("rotation_p", position, 0)
    pairs = positions.sample_dimensions(d_model)[:4]
    near = list(range(min(vectors.SHOWN, d_model)))
    matrix = rotation_matrix(k, d_model, formula)
    with st.container(horizontal=True, gap="medium"):
        show(
            vectors.rotation_figure(matrix, near, k),
            "rotation_matrix",
            text("positions", "rotation.blocks"),
        )
        with st.container(width=520):
            show(
                vectors.circles_figure(rows, position, k, pairs),
                "rotation_circles",
                text("positions", "rotation.circles"),
            )
    error = rotation_error(rows, k, formula)
    st.write(
        text(
            "positions",
            "rotation.rounding" if error < 1e-6 else "rotation.measured",
            starts=len(rows) - k,
            dimensions=d_model,
            k=k,
            error=scientific(error),
        )
    )
