"""Ask why: which heads matter, why this word, what each layer knew, where a word came from."""

import streamlit as st

from app.look.glossary import meaning
from app.state import visit
from app.views.shared.lesson import ask_for_sentence
from app.views.shared.section import section
from app.views.why import cost
from app.views.why.heads import matters, pairs
from app.views.why.layers import decoder_lens, lens
from app.views.why.sources import sources
from app.views.why.words import word_choice

_STEPS = 40  # passes for one token: terms, alternatives, removals

st.title("Ask why")
st.caption(
    "Attention is not explanation: a large attention weight need not change the translation. "
    "So every answer here comes from running the network again. Sums are exact up to rounding, "
    "predictions are shown next to the true effect, and sampled values have 95 % intervals."
)
lesson = ask_for_sentence()
record = lesson.record

st.subheader("Which head matters here?", help=meaning("head", "ablation", "nats"))
matters(lesson)

kind = visit.get("why_pairs") or "cross"
section(
    "Which heads back each other up?",
    "open_pairs",
    pairs,
    lesson,
    choices=("why_pairs",),
    promise="A map of all pairs of heads, and the pairs that interact most",
    seconds=cost.seconds(lesson, cost.pairs_passes(lesson, kind)),
    help=meaning("head", "ablation", "log-probability"),
)
section(
    "Why this word and not that one?",
    "open_choice",
    word_choice,
    lesson,
    choices=("why_step", "why_other"),
    promise="Terms that add up to the logit difference of two words, next to the true effects",
    seconds=cost.seconds(lesson, _STEPS),
    help=meaning("logit", "residual stream"),
)
section(
    "What did each layer already know?",
    "open_lens",
    lens,
    lesson,
    promise="The most probable token after each layer of the decoder",
    seconds=cost.seconds(lesson, 2),
    help=meaning("logit lens", "softmax"),
)
section(
    "What if the encoder stopped earlier?",
    "open_decoder_lens",
    decoder_lens,
    lesson,
    promise="The tokens that the decoder would write after each layer of the encoder",
    seconds=cost.seconds(lesson, 2 + lesson.card.model.num_encoder_layers),
    help=meaning("cross-attention", "teacher-forced"),
)
section(
    "Where did this token come from?",
    "open_sources",
    sources,
    lesson,
    choices=("why_token",),
    promise="What each source word contributes: Shapley values and seven faster methods",
    seconds=cost.seconds(lesson, cost.sources_passes(lesson)),
    help=meaning("Shapley value", "nats", "rollout", "value norms", "Spearman"),
)
