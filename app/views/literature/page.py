"""Literature: published claims about attention heads, each tested on the networks shown here."""

import streamlit as st

from app.figures.amounts import spread
from app.look.glossary import meaning
from app.look.markdown import plain
from app.state import literature
from app.views.literature.claim import measured, show_claim
from app.views.shared.choices import choose
from core.atlas.claims.board import Board
from core.atlas.claims.claim import FAILS, HOLDS, OPEN
from core.atlas.claims.literature import FAMILIES

COMMAND = "python -m core.analyse claims --data DIR --gold FILE --out "


def counts(board: Board) -> str:
    """Say how many claims got each verdict."""
    verdicts = [row.verdict for row in board.rows]
    holds, fails, undecided = (verdicts.count(verdict) for verdict in (HOLDS, FAILS, OPEN))
    return (
        f"Claims: {len(verdicts)}. Hold in all networks here: {holds}. Do not hold: {fails}. "
        f"Cannot be decided here: {undecided}."
    )


def show_board(board: Board) -> None:
    """Show the verdicts, the claims of a chosen family, and how to measure them again."""
    st.caption(
        "What papers report about the heads of translation networks, measured again on the "
        "networks shown here.",
        help=meaning(
            *("head", "layer", "cross-attention", "ablation", "bootstrap", "BLEU", "Spearman")
        ),
    )
    if changed := literature.other_weights(board):
        st.warning(
            plain(
                f"{literature.BOARD} was measured on other weights of {', '.join(changed)}: write "
                "it again with the command below."
            )
        )
    origin = board.origin
    st.write(counts(board))
    st.caption(
        "A claim holds if in every network the whole 95 % interval lies on the claimed side of the "
        "threshold. It does not hold if in every network the whole interval lies on the other "
        "side, unless the reason says why that would not refute it. Everything else cannot be "
        "decided here, and neither can a claim whose test here differs from the paper's, which is "
        "then said. The intervals say how much a number depends on the choice of sentences. The "
        "networks differ in direction, implementation and training run at once, so their spread "
        "is only a rough guide to how much it depends on each."
    )
    with st.container(key="literature_table"):
        st.dataframe(
            {
                "claim": [row.claim.claim for row in board.rows],
                "published": [
                    spread(row.claim.published, row.claim.unit) if row.claim.published else ""
                    for row in board.rows
                ],
                "here, mean of all networks": [
                    measured(row.mean, row.claim.unit) for row in board.rows
                ],
                "verdict": [row.verdict for row in board.rows],
            },
            hide_index=True,
            height=35 * (len(board.rows) + 1) + 3,
            column_config={"claim": st.column_config.Column(width="large")},
        )
    family = choose("Claims about", {f: f for f in FAMILIES}, FAMILIES[0], "literature_family")
    for row in board.rows:
        if row.claim.family == family:
            show_claim(row)
    st.subheader("Measure it again")
    gold = (
        f", and {origin.gold_sentences:,} sentences with manual alignments ({origin.gold})"
        if origin.gold
        else ""
    )
    st.text(
        f"Networks: {', '.join(origin.weights)}. Text: {origin.sentences:,} sentence pairs "
        f"({origin.corpus}){gold}."
    )
    st.code(f"{origin.command} --out {literature.BOARD}", language=None, wrap_lines=True)


st.title("Literature")
try:
    board = literature.literature_board()
except ValueError as error:
    st.error(plain(error))
else:
    if board is not None:
        show_board(board)
    else:
        st.info(
            plain(
                f"There is no {literature.BOARD}, so no claim has been tested here: "
                f"`{COMMAND}{literature.BOARD}` writes it."
            )
        )
