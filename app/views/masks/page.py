"""The lesson on masks: what is masked, how, and what happens without masks."""

from contextlib import suppress

import streamlit as st

from app.components.question import Asked
from app.lessons.texts import text
from app.look.glossary import meaning
from app.views.masks.batch import CHOICES, batch_texts, show_batch
from app.views.masks.mask_value import ROW_CHOICES, show_mask_values
from app.views.masks.without import (
    show_without_causal_mask,
    show_without_padding_mask,
    show_without_word,
    without_causal_mask,
)
from app.views.shared import asked
from app.views.shared.glance import lesson_top, show_glance
from app.views.shared.inspection import ask_for_inspection
from app.views.shared.question import open_with
from app.views.shared.section import section


def ask_masked() -> Asked:
    """Ask about the decoder's mask, beside its map without the mask if that pass succeeds."""
    with suppress(ValueError):
        return asked.masked(inspection.record, without_causal_mask(inspection))
    return asked.masked(inspection.record)


page, beside = lesson_top()
with page:
    st.title(text("masks", "title"))
    st.caption(
        text("masks", "about"),
        help=meaning("query", "key", "mask", "cross-attention"),
    )
    show_glance("decoder", "encoder", "cross", in_view=text("figure_one", "masks"), beside=beside)
    inspection = ask_for_inspection()
    shape = inspection.card.model
    product = r"\frac{QK^\top}{\sqrt{d_k}}" if shape.scale_scores else r"QK^\top"
    bias = " + B" * bool(shape.relative_buckets)
    st.latex(
        rf"\mathrm{{Attention}}(Q, K, V) = \mathrm{{softmax}}\left({product}{bias} + M\right)V",
        help=meaning("softmax", "value", "attention score", "head", "layer"),
    )
    if bias:
        st.caption(text("masks", "bias"))
    found = open_with("masks", inspection.record, [ask_masked])

hidden = found.hides("masked")
texts = batch_texts(inspection)
for name, body, given, choices in (
    ("batch", show_batch, (texts, hidden), CHOICES),
    ("row", show_mask_values, (hidden,), ROW_CHOICES),
    ("causal", show_without_causal_mask, (), ()),
    ("padding", show_without_padding_mask, (texts,), ("padding_sentence",)),
    ("word", show_without_word, (), ("hidden_word",)),
):
    section(
        text("masks", f"{name}.heading"),
        f"open_{name}",
        body,
        inspection,
        *given,
        choices=choices,
        summary=text("masks", f"{name}.summary"),
    )
