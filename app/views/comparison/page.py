"""The page that proves the scratch model: checklist, the same maps twice, matched heads, names."""

import streamlit as st

from app import controls
from app.examples import examples
from app.figures import comparison
from app.look.markdown import plain
from app.state import address, models, results, visit
from app.views.comparison.checklist import checklist
from app.views.comparison.heads import heads
from app.views.comparison.maps import Matchings, maps, say_largest
from app.views.comparison.names import CODE, name
from app.views.comparison.side_by_side import side_by_side, speed
from app.views.shared.figure import show
from app.views.shared.long_work import Bar
from core.analysis.difference import check_comparable, largest_difference
from core.data.corpora import LANGUAGES


def shape(lengths: tuple[int, ...]) -> str:
    """384 × 128"""
    return " × ".join(map(str, lengths))


st.title("Scratch and baseline")
st.caption(
    "The model on the first page was written from scratch. Beside it stands torch.nn.Transformer, "
    "the library's own. Look for any difference between the two that is more than rounding."
)
chosen = controls.selection()
options = models.implementations(chosen.direction)
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
opening = names.index(models.model_name(chosen.card))
both: list[models.Implementation] = []
for column, which, usual in zip(st.columns(2), ("first", "second"), names[opening:], strict=False):
    key = f"{which}_model"
    address.settle(key, names, usual)
    with column:
        model = st.selectbox(
            f"{which.capitalize()} model",
            names,
            format_func=lambda n: name(options[n]),
            key=key,
            persist_state="session",
        )
        address.keep_choice(key, model, usual)
    both.append(options[model])
pair = both[0], both[1]
same_weights = pair[0].card.weights_sha256 == pair[1].card.weights_sha256
controls.source_box()
if not (source := controls.selection().source):
    controls.ask(chosen)
corpus = tuple(
    (example.text(chosen.direction), translation)
    for example in examples(chosen.direction)
    if (translation := example.text(chosen.target_code))
)
try:
    own = [results.inspect(c, source, decode=chosen.decode) for c in pair]
    corpus = corpus or ((source, own[0].translation),)
    first, second = (
        results.inspect(c, source, own[0].translation, decode=chosen.decode) for c in pair
    )
    shared = first, second
except ValueError as error:  # InputError and CheckpointError carry one line for the reader
    st.error(plain(error))
    st.stop()
st.text(f"{source}\n→ {own[0].translation}")
result: Matchings = None
try:
    check_comparable(*shared)
    with st.spinner("Matching heads…"):
        bar = Bar()
        result = results.matched(pair, corpus, bar.waits)
        bar.empty()
    largest = largest_difference(*shared, None if same_weights else result)
except ValueError as error:
    st.error(plain(error))
else:
    say_largest(largest, shared[0], same_weights)
    maps(pair, shared, largest, None if same_weights else result)

st.subheader("Which head is which?")
st.write(
    "Two models that learned apart from each other number their heads by chance: head 3 of one has "
    "no tie to head 3 of the other. So before such models are compared, their heads are paired by "
    f"what they look at, over {len(corpus)} sentence{'s' * (len(corpus) > 1)}."
)
languages = " → ".join(LANGUAGES[code] for code in chosen.direction.split("-"))
if len({c.card.weights_sha256 for c in options.values()}) == 1:
    st.write(
        f"There is no second, independently trained checkpoint for {languages} here, so the pair "
        "shares its weights and the matching has a known answer: each head must find itself."
    )
    if LANGUAGES.keys() >= set(chosen.direction.split("-")):
        st.write("To train a second one:")
        st.code(
            "python -m core.train --recipe tiny --model baseline "
            f"--direction {chosen.direction} --out checkpoints/baseline-{chosen.direction}",
            language=None,
            wrap_lines=True,
        )
elif same_weights:
    st.write(
        "The two chosen above share their weights, so each head must find itself. Choose two "
        "checkpoints above to pair the heads of models that learned apart."
    )
if result is not None:
    heads(result, same_weights)
else:
    st.caption("These two cannot be matched: see the line above.")

st.subheader("Side by side")
if same_weights:
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
        title = f"{label}: {CODE[contestant.architecture]}"
        show(comparison.scores_figure(record, lowest, title, visit.theme()), key)
side_by_side(pair, own, shared)
speed(pair, source, chosen)
curves = {c.card.folder.name: c.card.metrics["curve"] for c in pair if c.card.metrics.get("curve")}
if curves:
    show(comparison.curves_figure(curves, visit.theme()), "curves")
    if same_weights:
        st.caption("One curve: the second was not trained, it was given these weights.")

st.subheader("The same weights under two names")
st.write(
    "This is how weights are copied: each tensor of torch.nn.Transformer and the scratch tensors "
    "that hold the same numbers. The library packs query, key and value into one matrix; the "
    "scratch code keeps three, as in the paper. Nothing is left over on either side."
)
table = results.run(None, "core.parity.state_dicts:state_dict_map", chosen.card.model)
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
