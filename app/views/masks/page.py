"""The lesson on masks: what is masked, how, and what happens without masks."""

import streamlit as st

from app.look.glossary import meaning
from app.views.masks.batch import batch
from app.views.masks.mask_value import mask_value
from app.views.masks.without import without_a_word, without_causal, without_padding
from app.views.shared.lesson import ask_for_sentence
from app.views.shared.section import section

st.title("Masks")
st.caption(
    "Without a mask, every query may attend to every key. A mask M forbids some cells: those of "
    "padding, which is not a token, and in the decoder those of tokens that are written later.",
    help=meaning("query", "key", "mask"),
)
lesson = ask_for_sentence()
st.latex(
    r"\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}} + M\right)V",
    help=meaning("softmax", "value"),
)

st.subheader("A batch, and what is masked in it")
texts = batch(lesson)

st.subheader("From score to weight")
mask_value(lesson)

section(
    "What if there were no causal mask?",
    "open_causal",
    without_causal,
    lesson,
    promise="The probability of each token when the decoder may look ahead",
)
section(
    "What if there were no padding mask?",
    "open_padding",
    without_padding,
    lesson,
    texts,
    choices=("padding_sentence",),
    promise="One sentence alone, in its batch, and in its batch without the mask",
)
section(
    "What if one word were masked?",
    "open_word",
    without_a_word,
    lesson,
    choices=("hidden_word",),
    promise="The translation, and the probability of each token, without a word",
)
