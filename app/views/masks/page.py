"""The lesson on masks: who may look at whom, how a cell is closed, and what if it were not."""

import streamlit as st

from app.views.masks.batch import batch
from app.views.masks.closing import closing
from app.views.masks.without import without_a_word, without_causal, without_padding
from app.views.shared.lesson import lesson

st.title("Masks")
st.caption(
    "Attention by itself looks everywhere. A mask M says where it may not: at padding, which is no "
    "word, and in the decoder at words that are not yet written."
)
given = lesson()
st.latex(
    r"\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}} + M\right)V"
)

st.subheader("A batch, and what is closed in it")
texts = batch(given)

st.subheader("From score to weight")
closing(given)

st.subheader("What if there were no causal mask?")
without_causal(given)

st.subheader("What if there were no padding mask?")
without_padding(given, texts)

st.subheader("What if one word were masked away?")
without_a_word(given)
