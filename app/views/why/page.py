"""Ask why: which heads matter, why this word, what each layer knew, where a word came from."""

import streamlit as st

from app.lessons.texts import text
from app.look.glossary import meaning
from app.state import address, session
from app.views.shared.glance import lesson_top, show_glance
from app.views.shared.inspection import ask_for_inspection
from app.views.shared.notebook import offer_notebook
from app.views.shared.question import open_with
from app.views.shared.section import section
from app.views.why import cost
from app.views.why.heads import questions, show_important_heads, show_looks, show_pairs
from app.views.why.knew import show_knew
from app.views.why.layers import show_decoder_lens, show_logit_lens
from app.views.why.sources import METHODS, show_sources
from app.views.why.words import show_word_choice

_WORD_CHOICE_PASSES = 40  # passes for one token: terms, alternatives, removals

page, beside = lesson_top()
with page:
    st.title("Ask why")
    st.caption(
        "A large weight need not change the translation: here the network runs again to find out.",
        help=meaning("weight", "token", "layer", "embedding", "norm"),
    )
    show_glance(
        "encoder",
        "decoder",
        "cross",
        "feed",
        "linear",
        "softmax",
        in_view=text("figure_one", "why"),
        beside=beside,
    )
    inspection = ask_for_inspection()
    record = inspection.record
    linked = any(address.requested(name) is not None for name in ("why_for", "why_pairs"))
    pictures = {"matters": show_looks}
    found = open_with(
        "why",
        record,
        questions(inspection),
        linked=linked,
        expected=session.get("why_for") is not None,
        pictures=pictures,
    )

st.subheader(
    "Which head matters here?", help=meaning("head", "ablation", "nats", "log-probability")
)
show_important_heads(inspection, found.hides("matters"))

kind = session.get("why_pairs") or "cross"
section(
    "Which heads back each other up?",
    "open_pairs",
    show_pairs,
    inspection,
    found.hides("matters"),
    choices=("why_pairs",),
    summary="A map of all pairs of heads, and the pairs that interact most",
    seconds=cost.estimate_seconds(inspection, cost.pairs_passes(inspection, kind)),
    help=meaning("head", "ablation", "log-probability"),
)
section(
    "Why this word and not that one?",
    "open_choice",
    show_word_choice,
    inspection,
    choices=("why_step", "why_other"),
    summary="Terms that add up to the logit difference of two words, next to the true effects",
    seconds=cost.estimate_seconds(inspection, _WORD_CHOICE_PASSES),
    help=meaning("logit", "residual stream"),
)
section(
    "What did each layer already know?",
    "open_lens",
    show_logit_lens,
    inspection,
    summary="The most probable token after each layer of the decoder, by the logit lens",
    seconds=cost.estimate_seconds(inspection, 2),
    help=meaning("logit lens", "softmax"),
)
section(
    "Did the encoder know a word?",
    "open_knew",
    show_knew,
    inspection,
    choices=("why_knew", "why_knew_other"),
    summary="A word’s rank in every state of encoder and decoder",
    seconds=cost.estimate_seconds(inspection, 2),
    help=meaning("softmax"),
)
section(
    "What if the encoder stopped earlier?",
    "open_decoder_lens",
    show_decoder_lens,
    inspection,
    summary="The tokens that the decoder would write after each layer of the encoder",
    seconds=cost.estimate_seconds(inspection, 2 + inspection.card.model.num_encoder_layers),
    help=meaning("cross-attention", "teacher-forced"),
)
section(
    "Where did this token come from?",
    "open_sources",
    show_sources,
    inspection,
    choices=("why_token",),
    summary=f"What each source word contributes: Shapley values and {len(METHODS)} faster methods",
    seconds=cost.estimate_seconds(inspection, cost.sources_passes(inspection)),
    help=meaning("Shapley value", "nats", "rollout", "value norms", "Spearman"),
)
st.caption(
    "Sums are exact up to rounding, predictions are shown next to the true effect, and sampled "
    "values have 95 % intervals."
)
tokens = len(record.target_out)
chosen = {"why_for": "FOR", "why_step": "STEP", "why_token": "TOKEN", "why_pairs": "PAIRS"}
offer_notebook(
    "why",
    inspection.card,
    record,
    {name: (constant, tokens) for name, constant in chosen.items()},
    STEP=max(0, tokens - 3),
    TOKEN=max(0, tokens - 3),
)
