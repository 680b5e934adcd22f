"""What each layer already knew: logit lens and DecoderLens."""

import numpy as np
import streamlit as st

import core
from app.figures.style import tick
from app.figures.why import Grid, words_grid_figure
from app.look.labels import labels
from app.look.numbers import percent
from app.state import results, session
from app.state.results import Function
from app.views.shared.figure import show
from app.views.shared.inspection import Inspection


def show_logit_lens(inspection: Inspection) -> None:
    """Show the logit lens: the output layer applied after every sub-layer of the decoder."""
    st.write(
        "The output layer was trained to read the decoder's last state only. "
        + (
            "It is also the table of target embeddings, so a state that is still close to the "
            "embedding of the token fed in points to that token. "
            if inspection.card.model.tie_classifier
            else ""
        )
        + "Applied to earlier states"
        f"{_norm(inspection, 'decoder')}, it shows which token the network would write if it ended "
        "there."
    )
    _show_grid(
        inspection,
        core.lens,
        "The most probable token after each sub-layer",
        "why_lens",
        "Read each column from top to bottom: where does its final token first appear?",
    )


def show_decoder_lens(inspection: Inspection) -> None:
    """Show the DecoderLens: the decoder reads an earlier layer of the encoder."""
    st.write(
        "Let the decoder read an earlier layer of the encoder instead of the last"
        f"{_norm(inspection, 'encoder')} (DecoderLens, Langedijk et al. 2023). In every row "
        "the decoder is still fed the translation up to the previous token."
    )
    _show_grid(
        inspection,
        core.decoder_lens,
        "The most probable token when the decoder reads layer k of the encoder",
        "why_decoder_lens",
        "If one token is the most probable in every row of its column, the source embeddings and "
        "the translation so far are enough for it.",
    )


def _norm(inspection: Inspection, side: str) -> str:
    """Mention the final norm if the model has one."""
    return f", through the {side}'s final norm" if inspection.card.model.final_norm else ""


def _show_grid(
    inspection: Inspection, experiment: Function, title: str, key: str, look_for: str
) -> None:
    record = inspection.record
    result = inspection.run_experiment(experiment)
    columns = labels(record.target_out, 1)
    names = results.target_labels(inspection.card, tuple(np.unique(result.ids).tolist()))
    rows = [row.label for row in result.rows]
    texts = [[names[int(i)] for i in row] for row in result.ids]
    own = [f"{word}: " for word in columns]
    hovers = [
        [
            f"{row}<br>most probable: <b>{tick(texts[r][t])}</b> "
            f"{percent(result.probabilities[r, t])}<br>"
            f"{tick(own[t])}{percent(result.written_probabilities[r, t])}, "
            f"rank {result.written_ranks[r, t]:,}"
            for t in range(len(columns))
        ]
        for r, row in enumerate(rows)
    ]
    grid = Grid(rows, columns, result.probabilities, texts, hovers)
    stronger = "darker" if session.theme() == "light" else "brighter"
    show(
        words_grid_figure(
            grid,
            title,
            f"{stronger} = more probable; the last row is the output"
            + (", bit for bit" if result.exact else ""),
            1.0,
            False,
        ),
        key,
        look_for,
    )
