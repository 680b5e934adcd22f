"""The page that proves the scratch model: checklist, the same maps twice, matched heads, names."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import streamlit as st

from app import controls, session
from app.examples import EXAMPLES
from app.figures import comparison
from app.figures.comparison import scientific
from app.figures.style import CONFIG
from app.session import Contestant
from core.analysis.difference import (
    KINDS,
    SAME,
    Largest,
    check_comparable,
    largest_difference,
)
from core.analysis.matching import Matching
from core.checkpoint import Card
from core.corpora import LANGUAGES
from core.record import TranslationRecord

CODE = {"scratch": "the scratch code", "baseline": "torch.nn.Transformer"}
ROUNDS = 7  # of each model, when speed is measured
Matchings = Mapping[str, Matching] | None


def name(contestant: Contestant) -> str:
    """What a list calls a model: whose weights, in which code."""
    code = CODE[contestant.architecture]
    return f"{contestant.card.folder.name}: " + (
        f"the same weights in {code}" if contestant.twin else f"as trained, in {code}"
    )


@st.fragment
def checklist(card: Card) -> None:
    """The checklist, run line by line when asked; its lines stay for the visit."""
    st.write(
        "If the scratch code is right, it is the same function as the library's model: with the "
        "same weights copied into both, everything one computes, the other computes too, down to "
        "the last digits that a computer keeps. Each line compares one thing, from the masks to "
        "the gradients, and says how far apart the two ever were and how far they may be."
    )
    kept = f"checks {card.weights_sha256}"
    run = st.button(f"Run the checklist on {card.folder.name}", key="run_checks")
    with st.container(key="checks"):
        verdict, place = st.empty(), st.empty()
        if run:
            try:
                total, checks = session.checks(card)
            except ValueError as error:
                verdict.error(str(error))
                return
            lines, drawn = [], 0.0
            for check in checks:
                lines.append(check)
                done = f"{len(lines)} of {total} lines"
                verdict.progress(min(1.0, len(lines) / total), f"{done} · {check.name}")
                if time.monotonic() - drawn > 0.4:  # each drawing sends the whole table
                    drawn = time.monotonic()
                    show_checks(place, lines[::-1])
            session.keep(kept, lines)
        if lines := session.kept(kept):
            failed = sum(not check.passed for check in lines)
            if failed:
                verdict.error(f"{failed} of {len(lines)} lines failed: the two models differ.")
            else:
                verdict.write(f"✓ All {len(lines)} lines hold: the two are the same function.")
            show_checks(place, sorted(lines, key=lambda check: check.passed))


def show_checks(place: Any, lines: list) -> None:
    """Lines of the checklist as a table of its own height, in their order."""
    rows = {
        "": ["✓" if check.passed else "✗" for check in lines],
        "compared": [check.name for check in lines],
        "largest difference": [scientific(check.max_abs_diff) for check in lines],
        "limit": [scientific(check.limit) for check in lines],
        "of what": [check.detail for check in lines],
    }
    height = 400 if len(lines) > 8 else "content"
    with place.container(height=height, border=False):
        st.table(rows, border="horizontal", hide_index=True)


def say_largest(largest: Largest, record: TranslationRecord, twins: bool) -> None:
    """The verdict over everything, in words."""
    cells = sum(record.maps(kind).size for kind in KINDS)
    size = scientific(abs(largest.difference))
    if largest.difference == 0:
        st.write(
            f"**Every difference lies within 0 to 1e-5:** all {cells:,} weights, of every kind, "
            "layer and head, are equal to the last bit."
        )
    elif twins and abs(largest.difference) <= SAME:
        st.write(
            f"**Every difference lies within 0 to 1e-5.** The largest over all {cells:,} weights, "
            f"of every kind, layer and head, is **{size}**: the two add the same numbers in "
            "another order, and float32 rounds after about seven digits. In float64, in the "
            "checklist above, it shrinks below 1e-12: it is rounding."
        )
    elif twins:
        st.error(
            f"The same weights give different maps: the largest difference is {size}, more than "
            "the 1e-5 that rounding explains. One of the two implementations is wrong."
        )
    else:
        st.write(
            f"**The largest difference over all {cells:,} weights is {size}.** These two learned "
            "apart from each other, so their maps differ; each head is compared with the one "
            "matched to it below, because equal numbers mean nothing between them."
        )


def where(largest: Largest, record: TranslationRecord) -> str:
    """The cell in words: plain text, because its tokens are a person's."""
    query = comparison.row_words(record, largest.kind)[largest.query]
    key = comparison.column_words(record, largest.kind)[largest.key]
    there = ""
    if (largest.layer, largest.head) != (largest.second_layer, largest.second_head):
        there = f" (second: layer {largest.second_layer + 1}, head {largest.second_head + 1})"
    return (
        f"Largest: {largest.kind}, layer {largest.layer + 1}, head {largest.head + 1}{there}, "
        f"{'from' if largest.kind == 'encoder' else 'producing'} “{query}” "
        f"(row {largest.query + 1}), looking at “{key}” (column {largest.key + 1}): "
        f"first {largest.first:.7f}, second {largest.second:.7f}"
    )


def show_cell(kind: str, layer: int, head: int) -> None:
    """Turn the maps to one head."""
    for key, value in (("kind", kind), ("layer", layer), ("head", head)):
        session.put(f"compare_{key}", value)


@st.fragment
def maps(
    pair: tuple[Contestant, Contestant],
    records: tuple[TranslationRecord, TranslationRecord],
    largest: Largest,
    matchings: Matchings,
) -> None:
    """One head of the first, its counterpart in the second, and their difference."""
    first, second = records
    with st.container(key="largest", horizontal=True, wrap=False):
        st.text(where(largest, first), width="stretch")
        st.button(
            "Show it",
            key="show_largest",
            on_click=show_cell,
            args=(largest.kind, largest.layer, largest.head),
        )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = choose("Attention", {kind: kind.capitalize() for kind in KINDS}, "cross", "kind")
        layers, heads = first.maps(kind).shape[:2]
        numbers = {i: str(i + 1) for i in range(layers)}
        layer = choose("Layer", numbers, max(0, layers - 2), "layer")
        head = choose("Head", {i: str(i + 1) for i in range(heads)}, 0, "head")
        scales = {"weights": "−1 to 1", "own": "Its own"}
        scale = choose("Scale of the difference", scales, "weights", "scale")
    there = matchings[kind].of(layer, head) if matchings else (layer, head)
    a, b = first.maps(kind)[layer, head], second.maps(kind)[there]
    own = float(np.abs(a.astype(np.float64) - b).max()) or 1.0
    theme = session.theme()
    codes = [CODE[contestant.architecture] for contestant in pair]
    figures = {
        "first_map": comparison.map_figure(first, kind, layer, head, f"First: {codes[0]}", theme),
        "second_map": comparison.map_figure(second, kind, *there, f"Second: {codes[1]}", theme),
        "difference_map": comparison.difference_figure(
            first, kind, a, b, own if scale == "own" else 1.0, theme
        ),
    }
    if scale == "own" and own <= SAME:
        scale_words = f"On its own scale, ±{scientific(own)}, the picture shows rounding alone."
    elif scale == "own":
        scale_words = f"The scale spans ±{scientific(own)}, this map's largest difference."
    else:
        scale_words = "The scale is as long as the weights' own: a difference looks its size."
    with st.container(horizontal=True, gap="medium"):
        for key, figure in figures.items():
            alt = f"{figure.layout.title.text}, {figure.layout.title.subtitle.text}"
            st.plotly_chart(figure, width="content", theme=None, config=CONFIG, key=key, alt=alt)
        with st.container(width=340):
            st.latex(r"\Delta_{qk} = A^{\text{first}}_{qk} - A^{\text{second}}_{qk}")
            st.caption(f"Blue: the first looks there more. Orange: the second does. {scale_words}")
            if kind == "decoder":
                st.caption("Hatched: not yet written, so no token may look there.")


def choose(label: str, options: Mapping[Any, str], first: Any, name: str) -> Any:
    """One of a few options, by what people read; `first` is what a visit opens with."""
    key = f"compare_{name}"
    if session.get(key) not in options:  # also a layer that this model does not have
        session.put(key, first)
    return st.segmented_control(
        label,
        list(options),
        format_func=options.get,
        required=True,
        key=key,
        persist_state="session",
    )


@st.fragment
def heads(matchings: Mapping[str, Matching], twins: bool) -> None:
    """Which heads belong together, for one kind."""
    kind = choose("Attention", {k: k.capitalize() for k in KINDS}, "cross", "matched")
    matching = matchings[kind]
    N = len(matching.partner)
    with st.container(horizontal=True, gap="medium"):
        st.plotly_chart(
            comparison.matching_figure(matching, kind, session.theme()),
            width="content",
            theme=None,
            config=CONFIG,
            key="matched_heads",
            alt=f"similarity of {kind} heads",
        )
        with st.container(width=340):
            if twins and matching.kept == N:
                st.write(
                    f"All {N} heads find themselves; the pair least alike has "
                    f"{matching.matched.min():.5f} of its attention in common. The matching finds "
                    "what is there."
                )
            else:
                st.write(
                    f"Matched heads share {matching.matched.mean():.2f} of their attention; heads "
                    f"of the same number share {matching.same_number.mean():.2f}."
                )
            st.latex(r"s(a, b) = \frac{1}{Q} \sum_{q} \sum_{k} \min\left(A_{qk}, B_{qk}\right)")
            st.caption(
                "s is the share of attention that two heads put on the same cells, mean over all "
                "rows. The rings are the one-to-one pairs with the largest sum of s (Hungarian "
                "method)."
            )
            places = [divmod(n, matching.heads) for n in range(N)]
            st.dataframe(
                {
                    "first": [f"{layer + 1}.{head + 1}" for layer, head in places],
                    "second": [
                        ".".join(str(i + 1) for i in matching.of(layer, head))
                        for layer, head in places
                    ],
                    "in common": matching.matched.round(4),
                    "same number": matching.same_number.round(4),
                },
                hide_index=True,
                height=220,
                column_config={
                    column: st.column_config.NumberColumn(format="%.4f")
                    for column in ("in common", "same number")
                },
                key="matched_pairs",
            )


def side_by_side(
    pair: tuple[Contestant, Contestant], own: list[TranslationRecord], shared: list
) -> None:
    """What is known of the two models, a column each."""
    rows: dict[str, list[str]] = {}
    for contestant, translated, given in zip(pair, own, shared, strict=True):
        card = contestant.card
        shape, final = card.model, card.metrics.get("final", {})
        loss = final.get("loss_per_token", final.get("val_loss"))
        said = {
            "code": CODE[contestant.architecture],
            "weights": f"{card.folder.name} ({card.weights_sha256[:8]})",
            "parameters": f"{card.parameters:,}",
            "layers, heads, d_model": f"{shape.num_encoder_layers} + {shape.num_decoder_layers}, "
            f"{shape.num_heads}, {shape.d_model}",
            "BLEU (validation set)": f"{final['sacrebleu']:.2f}"
            if "sacrebleu" in final
            else "not measured",
            "loss per token (validation set)": f"{loss:.4f}" if loss else "not measured",
            "log P of its own translation": f"{translated.log_prob:.5f}",
            "log P of the first's translation": f"{given.log_prob:.5f}",
        }
        for key, value in said.items():
            rows.setdefault(key, []).append(value.replace("-", "−") if key[:3] == "log" else value)
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


@st.fragment
def speed(pair: tuple[Contestant, Contestant], source: str, search: controls.Selection) -> None:
    """How long each takes for this sentence, measured now and in turns."""
    asked = f"speed {[c.key for c in pair]} {search.search} {source}"
    if st.button("Measure the speed of both on this sentence", key="measure_speed"):
        with st.spinner("Translating in turns…"):
            session.keep(
                asked, session.decoding_seconds(pair, source, search.decode, rounds=ROUNDS)
            )
    if (found := session.kept(asked)) is None:
        return
    # The ratio is told against torch's model; between two of one kind, against the second.
    codes = [c.architecture for c in pair]
    against = 0 if codes == ["baseline", "scratch"] else 1
    words = [("first", "second")[i] + f", {CODE[c.architecture]}" for i, c in enumerate(pair)]
    ratio = found[against] / found[1 - against]
    with st.container(key="speed"):
        st.write(
            f"The {words[0]}: **{1000 * found[0]:.1f} ms**. The {words[1]}: "
            f"**{1000 * found[1]:.1f} ms**. The {words[1 - against]}, is **{ratio:.2f} times** as "
            f"fast as the {words[against]}."
        )
        st.caption(
            f"{search.decode.label.capitalize()}, median of {ROUNDS} translations each, in turns, "
            f"on {session.device_label(pair[0].card)}."
            + (
                " The scratch code keeps the keys and values of what it has written; "
                "torch.nn.Transformer has no such memory and computes the whole prefix again for "
                "each token."
                if len(set(codes)) == 2
                else ""
            )
        )


def shape(lengths: tuple[int, ...]) -> str:
    """384 × 128"""
    return " × ".join(map(str, lengths))


st.header("Scratch and baseline")
st.caption(
    "The model on the first page was written from scratch. Beside it stands torch.nn.Transformer, "
    "the library's own. Look for any difference between the two that is more than rounding."
)
chosen = controls.selection()
options = session.contestants(chosen.direction)
if chosen.card is None:
    st.error("There is no checkpoint to compare: make one with `make train`.")
    st.stop()

st.subheader("Is the scratch code right?")
checklist(chosen.card)

st.subheader("One sentence, one translation, two models")
st.write(
    "Both models read the same sentence and are led through the same translation, word by word, so "
    "each cell of one map has its cell in the other and the two can be subtracted. With the same "
    "weights the difference must be zero, up to rounding."
)
names = list(options)
columns = st.columns(2)
opening = names.index(session.model_name(chosen.card))
pair = tuple(
    options[
        column.selectbox(
            label,
            names,
            index=index,
            format_func=lambda n: name(options[n]),
            key=key,
            persist_state="session",
        )
    ]
    for column, label, index, key in zip(
        columns,
        ("First model", "Second model"),
        (opening, opening + 1),
        ("first_model", "second_model"),
        strict=True,
    )
)
twins = pair[0].card.weights_sha256 == pair[1].card.weights_sha256
latest = session.current_record()
source = EXAMPLES[0].text(chosen.direction)
if latest is not None and latest.source_language == chosen.source_language:
    source = latest.source_text
corpus = tuple(
    (example.text(chosen.direction), example.text(chosen.direction.split("-")[1]))
    for example in EXAMPLES
)
try:
    own = [session.compared(c, source, None, chosen.decode) for c in pair]
    shared = tuple(session.compared(c, source, own[0].translation, chosen.decode) for c in pair)
except ValueError as error:  # InputError and CheckpointError carry one line for the reader
    st.error(str(error))
    st.stop()
st.text(f"{source}\n→ {own[0].translation}")
found: Matchings = None
try:
    check_comparable(*shared)
    found = session.matchings(*pair, corpus)
    largest = largest_difference(*shared, None if twins else found)
except ValueError as error:
    st.error(str(error))
else:
    say_largest(largest, shared[0], twins)
    maps(pair, shared, largest, None if twins else found)

st.subheader("Which head is which?")
st.write(
    "Two models that learned apart from each other number their heads by chance: head 3 of one has "
    "no tie to head 3 of the other. So before such models are compared, their heads are paired by "
    f"what they look at, over {len(corpus)} sentences."
)
languages = " → ".join(LANGUAGES[code] for code in chosen.direction.split("-"))
if len({c.card.weights_sha256 for c in options.values()}) == 1:
    st.write(
        f"There is no second, independently trained checkpoint for {languages} here, so the pair "
        "shares its weights and the matching has a known answer: each head must find itself. To "
        "train a second one:"
    )
    st.code(
        "python -m core.train --recipe tiny --model baseline "
        f"--direction {chosen.direction} --out checkpoints/baseline-{chosen.direction}",
        language=None,
        wrap_lines=True,
    )
elif twins:
    st.write(
        "The two chosen above share their weights, so each head must find itself. Choose two "
        "checkpoints above to pair the heads of models that learned apart."
    )
if found is not None:
    heads(found, twins)
else:
    st.caption("These two cannot be matched: see the line above.")

st.subheader("Side by side")
if twins:
    st.write(
        "The same function gives the same translation with the same probabilities; only the way "
        "there may be faster or slower."
    )
else:
    st.write(
        "Two models that learned apart may both be right code: judge them by their scores, and the "
        "code by the checklist."
    )
lowest = float(min(record.log_probs.min() for record in own))
for column, label, contestant, record, key in zip(
    st.columns(2), ("First", "Second"), pair, own, ("first_scores", "second_scores"), strict=True
):
    with column:
        st.text(record.translation)
        st.plotly_chart(
            comparison.scores_figure(
                record, lowest, f"{label}: {CODE[contestant.architecture]}", session.theme()
            ),
            theme=None,
            config=CONFIG,
            key=key,
            alt="log-probability of each token",
        )
side_by_side(pair, own, shared)
speed(pair, source, chosen)
curves = {c.card.folder.name: c.card.metrics["curve"] for c in pair if c.card.metrics.get("curve")}
if curves:
    st.plotly_chart(
        comparison.curves_figure(curves, session.theme()),
        theme=None,
        config=CONFIG,
        key="curves",
        alt="training curves",
    )
    if twins:
        st.caption("One curve: the twin was not trained, it was given these weights.")

st.subheader("The same weights under two names")
st.write(
    "This is how weights are copied: each tensor of torch.nn.Transformer and the scratch tensors "
    "that hold the same numbers. The library packs query, key and value into one matrix; the "
    "scratch code keeps three, as in the paper. Nothing is left over on either side."
)
table = session.state_dict_map(chosen.card)
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
