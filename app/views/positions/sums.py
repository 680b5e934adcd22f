"""Shows what adding positions does to this sentence's vectors: norms, angles, a projection."""

import numpy as np
import streamlit as st

import core
from app.figures import positions, vectors
from app.lessons.texts import text
from app.state import results
from app.views.positions.formula import embedding, in_words
from app.views.shared.choices import choose
from app.views.shared.figure import show
from app.views.shared.inspection import Inspection
from core.analysis.position_table import sums as summed


def show_sums(inspection: Inspection) -> None:
    """Show norms and angles per token, then all tokens in two dimensions."""
    record = inspection.record
    st.write(text("positions", "sums.about", embedding=in_words(inspection.card)))
    st.latex(f"x_p = {embedding(inspection.card)} + PE_p")
    sides = {"source": record.source_language, "target": record.target_language}
    side = choose("Sentence", sides, "source", "sum_side")
    tokens = record.source if side == "source" else record.target_in
    names = positions.position_labels(tokens)
    result = summed(*inspection.run(core.embedded, results.token_ids(tokens), side))
    show(
        vectors.lengths_figure(result, names),
        "sum_lengths",
        text("positions", "sums.lengths"),
    )
    ratio = float(np.mean(result.position / np.maximum(result.content, 1e-12)))
    st.write(
        text(
            "positions",
            "sums.measured",
            ratio=f"{ratio:.2f}",
            mean=f"{result.cosine.mean():.3f}",
            least=f"{result.cosine.min():.3f}",
            most=f"{result.cosine.max():.3f}",
        )
    )
    repeated = len({token.id for token in tokens}) < len(tokens)
    show(
        vectors.plane_figure(result, names),
        "sum_plane",
        text("positions", "sums.repeated" if repeated else "sums.distinct"),
    )
