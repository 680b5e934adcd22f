"""Compares facts about the two models in a table, and measures their speed on request."""

import streamlit as st

from app import controls
from app.look.markdown import plain
from app.look.numbers import number
from app.state import models, results, session, waiting
from app.state.models import Implementation
from app.views.comparison.names import CODE
from app.views.shared.progress_bar import ProgressBar
from core.record.record import TranslationRecord

ROUNDS = 7  # translations per model when measuring speed


def _by_corpus(scores: dict[str, dict], measure: str, digits: int) -> str:
    """Format one metric on each validation corpus."""
    known = [
        f"{corpus} {score[measure]:.{digits}f}"
        for corpus, score in scores.items()
        if measure in score
    ]
    return ", ".join(known) or "not measured"


def show_facts(
    pair: tuple[Implementation, Implementation],
    own: list[TranslationRecord],
    shared: tuple[TranslationRecord, TranslationRecord],
) -> None:
    """Show facts about the two models, one column each."""
    rows: dict[str, list[str]] = {}
    for model, translated, forced in zip(pair, own, shared, strict=True):
        card = model.card
        shape, scores = card.model, card.metrics.get("final", {})
        facts = {
            "code": CODE[model.architecture],
            "weights": f"{card.title} ({card.weights_sha256[:8]})",
            "parameters": f"{card.parameters:,}",
            "layers, heads, d_model": f"{shape.num_encoder_layers} + {shape.num_decoder_layers}, "
            f"{shape.heads_label}, {shape.d_model}",
            "BLEU (validation sets)": _by_corpus(scores, "sacrebleu", 2),
            "bits per character (validation sets)": _by_corpus(scores, "bits_per_char", 4),
            "log-probability of its own translation": number(translated.log_prob, 3),
            "log-probability of the first model's translation": number(forced.log_prob, 3),
        }
        for key, value in facts.items():
            rows.setdefault(key, []).append(value)
    st.dataframe(
        {
            "": list(rows),
            "first": [first for first, _ in rows.values()],
            "second": [second for _, second in rows.values()],
        },
        hide_index=True,
        height="content",
        key="side_by_side",
    )


@waiting.fragment
def show_speed(
    pair: tuple[Implementation, Implementation], source: str, search: controls.Selection
) -> None:
    """Measure both models on this sentence, interleaved."""
    key = f"speed {[models.key_of(c) for c in pair]} {search.search} {source}"
    if st.button("Measure the speed of both on this sentence", key="measure_speed"):
        bar = ProgressBar()
        try:
            with st.spinner("Translating alternately…"):
                seconds = results.decoding_seconds(
                    pair, source, search.decode, ROUNDS, bar.show_queue
                )
        except ValueError as error:  # BusyError: one user-facing line
            st.error(plain(error))
            return
        bar.empty()
        session.save_result(key, seconds)
    if (result := session.saved_result(key)) is None:
        return
    # The ratio is relative to torch's model, or to the second if both use the same code.
    codes = [c.architecture for c in pair]
    against = 0 if codes == ["baseline", "scratch"] else 1
    words = [("first", "second")[i] + f", {CODE[c.architecture]}" for i, c in enumerate(pair)]
    ratio = result[against] / result[1 - against]
    with st.container(key="speed"):
        st.write(
            f"The {words[0]}: **{1000 * result[0]:.1f} ms**. The {words[1]}: "
            f"**{1000 * result[1]:.1f} ms**. The {words[1 - against]}, is **{ratio:.2f} times** as "
            f"fast as the {words[against]}."
        )
        st.caption(
            f"{search.decode.label.capitalize()}, median of {ROUNDS} translations each, "
            f"alternating, on {models.device_label(pair[0].card)}."
            + (
                " The scratch code has a KV cache; torch.nn.Transformer has none and recomputes "
                "the whole prefix for each token."
                if len(set(codes)) == 2
                else ""
            )
        )
