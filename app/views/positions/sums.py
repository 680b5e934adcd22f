"""Shows what adding positions does to this sentence's vectors: norms, angles, a projection."""

import numpy as np
import streamlit as st

import core
from app.figures import positions, vectors
from app.look.labels import labels
from app.state import results, waiting
from app.views.positions.formula import embedding, in_words
from app.views.shared.choices import choose
from app.views.shared.figure import show
from app.views.shared.inspection import Inspection
from core.analysis.position_table import sums as summed


@waiting.fragment
def show_sums(inspection: Inspection) -> None:
    """Show norms and angles per token, then all tokens in two dimensions."""
    record = inspection.record
    st.write(
        f"The first layer reads one vector for each token: {in_words(inspection.card)}, plus "
        "the table's row for its position. Below, *embedding* means this term of the sum."
    )
    st.latex(f"x_p = {embedding(inspection.card)} + PE_p")
    sides = {"source": record.source_language, "target": record.target_language}
    side = choose("Sentence", sides, "source", "sum_side")
    tokens, first = (record.source, 1) if side == "source" else (record.target_in, 0)
    result = summed(*inspection.run(core.embedded, results.token_ids(tokens), side))
    show(
        vectors.lengths_figure(result, positions.position_labels(tokens, first)),
        "sum_lengths",
        "Compare each dash, the length of the position vector, with its bar, the length of "
        "the embedding.",
    )
    ratio = float(np.mean(result.position / np.maximum(result.content, 1e-12)))
    st.write(
        f"On average the position vector is **{ratio:.2f} times** as long as the embedding. "
        "The angle between the embedding alone and the sum has a mean cosine of "
        f"{result.cosine.mean():.3f} (from {result.cosine.min():.3f} to "
        f"{result.cosine.max():.3f}; 1 would be no change)."
    )
    show(
        vectors.plane_figure(result, labels(tokens, first)),
        "sum_plane",
        "Follow the line from each ring to its dot. "
        + (
            "A token that occurs more than once has one ring but several dots. They may be close "
            "together in these two dimensions; in all dimensions the network can tell them apart."
            if len({token.id for token in tokens}) < len(tokens)
            else "No token occurs twice in this sentence; a repeated token would have a single "
            "ring, and a dot for each position."
        ),
    )
