"""The second page: which token may look at which, and how a token knows its place."""

import streamlit as st

from app import session
from app.figures import masks, positions
from app.figures.style import CONFIG
from core.analysis.closing import closings

LOOK_FOR = {
    "encoder": "The source is all there from the start: each of its tokens may look at every "
    "token, to both sides. Only padding would be closed.",
    "decoder": "Look for the staircase: a token may look at itself and at what was fed in before "
    "it. Rows are tokens fed in; a row predicts the next one, and that is the first cell closed "
    "to it.",
    "cross": "While it writes, the decoder may look at the whole source. Only padding would be "
    "closed.",
}
FORMULA = {
    "encoder": r"M_{qk} = \begin{cases} 0 & k \text{ is a token} \\ -\infty & k \text{ is padding}"
    r"\end{cases}",
    "decoder": r"M_{qk} = \begin{cases} 0 & k \le q \\ -\infty & k > q \text{, or } k \text{ is "
    r"padding} \end{cases}",
    "cross": r"M_{qk} = \begin{cases} 0 & k \text{ is a token} \\ -\infty & k \text{ is padding}"
    r"\end{cases}",
}

st.header("Masks and positions")
record = session.current_record()
if record is None:
    st.caption("Translate a sentence on the first page: its masks and positions appear here.")
    st.stop()
st.caption(
    "Attention alone knows neither time nor order. A mask forbids it to look ahead; a pattern of "
    "waves added to each word tells it where the word stands."
)
theme = session.theme()

st.subheader("Masks")
kind = st.segmented_control(
    "Attention",
    ("encoder", "decoder", "cross"),
    format_func=str.capitalize,
    default="decoder",
    required=True,
    key="mask_kind",
    persist_state="session",
)
with st.container(horizontal=True, gap="medium"):
    st.plotly_chart(
        masks.mask_figure(record, kind, theme),
        width="content",
        theme=None,
        config=CONFIG,
        key="mask",
        alt=f"{kind} mask",
    )
    with st.container(width=360):
        st.write(LOOK_FOR[kind])
        st.latex(r"A = \mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}} + M\right)")
        st.latex(FORMULA[kind])
        st.caption("A closed score becomes −∞, so its weight is exactly 0 and the others share 1.")

st.subheader("Why −∞?")
row = len(record.target_in) // 2
st.write(
    f"Other code writes −10,000 into a closed cell, or −1,000,000,000. Here row {row + 1} of the "
    "decoder's first head is closed in each of these ways. As long as one cell is open, nothing "
    "changes but rounding. The last column is a row with nothing to look at, such as a sentence of "
    "padding: a very low score then spreads attention evenly over cells that should be closed; −∞ "
    "has no answer (NaN), which is why the attention of this project gives 0 there."
)
st.table(
    [
        {
            "score of a closed cell": f"{way.score:,.0f}".replace("inf", "∞").replace("-", "−"),
            "precision": way.precision,
            "weight on closed cells": f"{way.on_closed:g}",
            "largest change of an open weight": f"{way.change:.1g}",
            "each weight when nothing is open": f"{way.nothing_open:.3f}".replace("nan", "NaN"),
        }
        for way in closings(record.decoder[0, 0, row], record.decoder_mask[row])
    ]
)

st.subheader("Positions")
side = st.segmented_control(
    "Sentence",
    ("source", "target"),
    format_func={"source": record.source_language, "target": record.target_language}.get,
    default="source",
    required=True,
    key="position_side",
    persist_state="session",
)
if side == "source":
    table, tokens = record.source_positions, record.source
else:
    table, tokens = record.target_positions, record.target_in
figures = {
    "position_table": positions.table_figure(table, tokens, theme),
    "position_waves": positions.waves_figure(
        table, tokens, positions.some_dimensions(table.shape[1]), theme
    ),
    "position_products": positions.dot_product_figure(table, theme),
}
if positions.is_sinusoidal(table):
    st.write(
        "Each row is added to one token's embedding. Left, waves so fast that neighbours differ; "
        "right, waves so slow that the whole sentence sees one value. The dot product of two rows "
        "tells how far apart they are, wherever they stand."
    )
    st.latex(
        r"\begin{aligned}"
        r"PE_{(pos,\,2i)} &= \sin\left(pos / 10000^{2i/d_{\text{model}}}\right) \\"
        r"PE_{(pos,\,2i+1)} &= \cos\left(pos / 10000^{2i/d_{\text{model}}}\right)"
        r"\end{aligned}"
    )
else:
    st.write("This model learned its positions: each row is trained, and added to an embedding.")
for key, figure in figures.items():
    st.plotly_chart(figure, theme=None, config=CONFIG, key=key, alt=figure.layout.title.text)
