"""The fold of Scratch and baseline: two models map by map, head by head, and their speed."""

from collections.abc import Mapping

import numpy as np
import streamlit as st

import core
from app import controls
from app.examples import examples
from app.figures import comparison
from app.look.glossary import meaning
from app.look.markdown import plain
from app.look.numbers import scientific
from app.state import address, models, results
from app.views.comparison.heads import show_matching
from app.views.comparison.maps import Matchings, show_agreement, show_maps
from app.views.comparison.names import CODE, model_name
from app.views.comparison.side_by_side import show_facts, show_speed
from app.views.shared.figure import show
from app.views.shared.progress_bar import ProgressBar
from app.views.shared.quality_warnings import show_certainty
from core.analysis.difference import check_comparable, largest_difference
from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.data.corpora import LANGUAGES
from core.record.record import TranslationRecord

CHOICES = (
    *("first_model", "second_model"),
    *("compare_kind", "compare_scale", "compare_layer", "compare_head", "compare_matched"),
)
"""The query parameters of the widgets in the fold: a link with one of them opens it."""


def shape(lengths: tuple[int, ...]) -> str:
    """Format a shape: 384 × 128."""
    return " × ".join(map(str, lengths))


def what_is_compared(first: models.Implementation, second: models.Implementation) -> str:
    """Name the two models and say what a difference between them would mean."""
    names = f"The first is {plain(model_name(first))}. The second is {plain(model_name(second))}. "
    if first.card.weights_sha256 != second.card.weights_sha256:
        return names + (
            "They were trained independently, so their maps may differ even if both "
            "implementations are correct."
        )
    if first.architecture == second.architecture:
        return names + "Both are the same model: choose another one to compare."
    return names + (
        "Both hold the same weights, so a difference beyond rounding would be an error in one "
        "of the two implementations."
    )


def own_translation(
    model: models.Implementation, source: str, decode: DecodeConfig
) -> TranslationRecord:
    """Return a model's record of its own translation, found by the search of the scratch code.

    torch.nn.Transformer has no KV cache: with a large network its search takes half a minute, but a
    single pass over the same tokens takes one second.
    """
    record = results.inspect(models.in_scratch_code(model), source, decode=decode)
    if model.architecture == "scratch":
        return record
    return results.inspect(model, source, target_ids=results.token_ids(record.target_out))


def largest_change(first: TranslationRecord, second: TranslationRecord) -> str:
    """Say how closely two models with the same weights agree on one translation."""
    largest = float(np.abs(first.log_probs - second.log_probs).max())
    return (
        "Both are fed the same translation; the log-probability of a token differs by at most "
        f"{scientific(largest)} nats. The two may still differ in speed."
    )


def show_details(chosen: controls.Selection, options: Mapping[str, models.Implementation]) -> None:
    """Choose two models and compare them on the sentence; show how weights are copied."""
    card = chosen.card
    assert card is not None, "the page stops without a network"
    st.subheader("One sentence, one translation, two models")
    st.markdown(
        "Both read and are fed the same words, so their maps can be subtracted. With the same "
        "weights the difference must be zero, up to rounding.",
        help=meaning("teacher-forced", "weight", "token", "query", "key", "mask"),
    )
    names = list(options)
    selected = names.index(models.model_name(card))
    both: list[models.Implementation] = []
    for column, which, default in zip(
        st.columns(2), ("first", "second"), names[selected:], strict=False
    ):
        key = f"{which}_model"
        address.initialise(key, names, default)
        with column:
            model = st.selectbox(
                f"{which.capitalize()} model",
                names,
                format_func=lambda n: model_name(options[n]),
                key=key,
                persist_state="session",
            )
            address.write_choice(key, model, default)
        both.append(options[model])
    pair = both[0], both[1]
    same_weights = pair[0].card.weights_sha256 == pair[1].card.weights_sha256
    st.caption(what_is_compared(*pair))
    source = chosen.source
    corpus = tuple(
        (example.text(chosen.languages), translation)
        for example in examples(chosen.languages)
        if (translation := example.text(chosen.target_code))
    )
    try:
        own = [own_translation(c, source, chosen.decode) for c in pair]
        corpus = corpus or ((source, own[0].translation),)
        if same_weights:
            ids = results.token_ids(own[0].target_out)
            first, second = (results.inspect(c, source, target_ids=ids) for c in pair)
        else:  # the models may have different tokenizers
            first, second = (
                results.inspect(c, source, own[0].translation, decode=chosen.decode) for c in pair
            )
        shared = first, second
    except ValueError as error:  # InputError, CheckpointError: one user-facing line
        st.error(plain(error))
        return
    st.text(f"{source}\n→ {own[0].translation}")
    show_certainty(own[0])
    if any(c.architecture == "baseline" for c in pair):
        st.caption(
            "The scratch code searches. torch.nn.Transformer has no KV cache and would be slow, so "
            "it is teacher-forced on the tokens that the scratch code found with its weights."
        )
    result: Matchings = None
    try:
        check_comparable(*shared)
        with st.spinner("Matching heads…"):
            bar = ProgressBar()
            result = results.matched_heads(pair, corpus, bar.show_queue)
            bar.empty()
        largest = largest_difference(*shared, None if same_weights else result)
    except ValueError as error:
        st.error(plain(error))
    else:
        show_agreement(largest, shared[0], same_weights)
        show_maps(pair, shared, largest, None if same_weights else result)

    st.subheader("Which head is which?")
    st.markdown(
        "Independently trained models number their heads arbitrarily. So heads are paired by what "
        f"they look at, over {len(corpus)} sentence{'s' * (len(corpus) > 1)}.",
        help=meaning("head", "layer"),
    )
    if len({c.card.weights_sha256 for c in options.values()}) == 1:
        st.write(
            "There is no second, independently trained checkpoint for "
            f"{models.languages(chosen.direction)} here, so the pair shares its weights and the "
            "answer is known: each head must be matched to itself."
        )
        if LANGUAGES.keys() >= set(chosen.direction.split("-")):
            st.write("To train a second checkpoint:")
            st.code(
                "python -m core.train --recipe tiny --model baseline "
                f"--direction {chosen.direction} --out checkpoints/baseline-{chosen.direction}",
                language=None,
                wrap_lines=True,
            )
    elif same_weights:
        st.write(
            "Both models share their weights, so each head must be matched to itself. Choose two "
            "checkpoints above to pair the heads of independently trained models."
        )
    if result is not None:
        show_matching(result, same_weights)
    else:
        st.caption("The heads of these two models cannot be matched; the reason is given above.")

    st.subheader("Side by side")
    if same_weights:
        st.markdown(largest_change(*shared), help=meaning("log-probability", "nats"))
    else:
        st.markdown(
            "Compare independently trained models by their BLEU. The checklist tests whether the "
            "code is correct.",
            help=meaning("BLEU", "log-probability", "nats"),
        )
    lowest = float(min(record.log_probs.min() for record in own))
    for column, label, implementation, record, key in zip(
        st.columns(2),
        ("First", "Second"),
        pair,
        own,
        ("first_scores", "second_scores"),
        strict=True,
    ):
        with column:
            st.text(record.translation)
            title = f"{label}: {CODE[implementation.architecture]}"
            show(comparison.scores_figure(record, lowest, title), key)
    show_facts(pair, own, shared)
    show_speed(pair, source, chosen)
    curves = {
        c.card.folder.name: c.card.metrics["curve"] for c in pair if c.card.metrics.get("curve")
    }
    if curves:
        show(comparison.curves_figure(curves), "curves")
        if same_weights:
            st.caption("Both models have the weights of this one training run.")

    show_names(card)


def show_names(card: Card) -> None:
    """Show which tensors hold the same numbers in both implementations."""
    st.subheader("The same weights under two names")
    st.write(
        "Each tensor of torch.nn.Transformer next to the scratch tensors that hold the same "
        "numbers. The library packs query, key and value into one matrix; the scratch code keeps "
        "three, each with the paper's matrices of all heads."
    )
    table = results.run(None, core.state_dict_map, card.model)
    st.dataframe(
        {
            "torch.nn.Transformer": [row.baseline for row in table],
            "shape": [shape(row.baseline_shape) for row in table],
            "scratch": [", ".join(row.scratch) for row in table],
            "shape of each": [shape(row.scratch_shape) for row in table],
        },
        hide_index=True,
        height=400,
        column_config={"scratch": st.column_config.Column(width="large")},
        key="state_dict_map",
    )
