"""The shared widgets, and the one frozen Selection that they amount to.

Keys of widgets and result containers (each becomes the CSS class st-key-<key>):
source, translate, target, use_reference, direction, model, search, translation, own_translation,
explorer, beam_tree, tree_shown, free, free_result, forced_result, steps_above, steps_problem,
steps_source, step_words, step_heads, path_maps, path_explorer,
head_kind, head_layer, head_head, head_q, head_k, head_sentence, head_row,
stage_project … stage_output, inside_project … inside_output, example_0…,
lesson_sentence, mask_input, mask_batch_…, mask_source_ids, mask_target_ids, source_batch,
target_batch, mask_kind, mask_sentence, mask_ids_sentence, mask_grids, mask_padding, mask_causal,
mask_combined, closing_layer, closing_head, closing_row, closing_fill, closing_precision,
closing_strip, leak, train_cheating, cheating, padding_sentence, padding_effect, hidden_word,
hidden_translation, hidden_probabilities, position_side, position_table, wave_dimensions,
position_waves, position_products, rotation_k, rotation_p, rotation_matrix, rotation_circles,
sum_side, sum_lengths, sum_plane, learned_model, table_waves, table_learned, products_waves,
products_learned, extrapolation, order_positions, order_maps, position_change,
position_change_side, position_seed, position_shift, position_translation, position_probabilities,
position_maps, parts_kind, score_parts,
tour_links, tour_0 …, examples, take_away, save_page, save_record, save_tables, open_record,
opened_explorer, model_note, first_model, second_model, run_checks, checks,
compare_kind, compare_layer, compare_head, compare_scale, show_largest, largest,
first_map, second_map, difference_map, compare_matched, matched_heads, matched_pairs,
first_scores, second_scores, curves, measure_speed, speed, side_by_side, state_dict_map.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from app import session
from app.examples import EXAMPLES
from core.checkpoint import Card
from core.config import DecodeConfig
from core.corpora import LANGUAGES, about

if TYPE_CHECKING:
    from core.record import TranslationRecord

SEARCHES = {"greedy": DecodeConfig(beam=1), "beam": DecodeConfig(beam=5)}
GIVEN = "given target"  # a record's search if nothing was searched
_GIVEN_FOR = "given_for"  # the text, direction and sentence of a translation that was given
MODELS = {
    "scratch": "From scratch",
    "captions": "From scratch, captions only",
    "baseline": "Baseline: torch.nn.Transformer",
}


@dataclass(frozen=True)
class Selection:
    """What a page is asked to show; `card` is None while there is no usable checkpoint."""

    source: str
    direction: str
    card: Card | None
    search: str
    target: str = ""

    @property
    def decode(self) -> DecodeConfig:
        return SEARCHES[self.search]

    @property
    def link(self) -> dict[str, str]:
        """What a link needs beside the sentence; the explorer keeps it in the address."""
        model = session.model_name(self.card) if self.card else ""
        return {"direction": self.direction, "model": model, "search": self.search}

    @property
    def source_language(self) -> str:
        return LANGUAGES[self.direction.split("-")[0]]

    @property
    def target_language(self) -> str:
        return LANGUAGES[self.direction.split("-")[1]]


def selection() -> Selection:
    """The widgets' values as they stand."""
    direction = session.get("direction") or next(iter(_directions()), "de-en")
    source = session.get("source")
    source = EXAMPLES[0].text(direction) if source is None else source.strip()
    return Selection(
        source=source,
        direction=direction,
        card=session.cards().get((direction, session.get("model"))),
        search=session.get("search") or "beam",
        target=_target(direction, source),
    )


def _target(direction: str, source: str) -> str:
    """The translation in the box, if it was given for this sentence and not for one before.

    A browser repeats what is in the box until it has been told otherwise, so that emptying the box
    is not enough: two quick clicks would bring the old translation to the new sentence.
    """
    text = str(session.get("target") or "").strip()
    given = session.get(_GIVEN_FOR)
    if text and (given is None or given[0] != text):
        given = (text, direction, source)
        session.put(_GIVEN_FOR, given)
    return text if given == (text, direction, source) else ""


def target_shown() -> None:
    """The page stands to its end: from now on the box's old text may be given to a new sentence."""
    if not selection().target:
        session.put(_GIVEN_FOR, None)


def _directions() -> list[str]:
    return sorted({direction for direction, _ in session.cards()})


def sidebar() -> None:
    """Direction, model, search and examples: the same on every page."""
    directions = _directions()
    with st.sidebar:
        if not directions:
            return
        direction = st.radio(
            "Direction",
            directions,
            index=directions.index(session.asked("direction", directions, directions[0])),
            format_func=lambda d: " → ".join(LANGUAGES[code] for code in d.split("-")),
            key="direction",
            on_change=_translate_example,
        )
        models = [model for d, model in session.cards() if d == direction]
        usual = "scratch" if "scratch" in models else models[0]
        st.selectbox(
            "Model",
            models,
            index=models.index(session.asked("model", models, usual)),
            format_func=lambda model: MODELS.get(model, model),
            key="model",
        )
        st.segmented_control(
            "Search",
            list(SEARCHES),
            format_func=lambda name: SEARCHES[name].label.capitalize(),
            default=session.asked("search", list(SEARCHES), "beam"),
            required=True,
            key="search",
        )
        st.caption("Examples")
        with st.container(key="examples", gap=None):
            for i, example in enumerate(EXAMPLES):
                st.button(
                    example.title,
                    key=f"example_{i}",
                    type="tertiary",
                    on_click=session.put,
                    args=("source", example.text(direction)),
                )
                st.caption(example.hint(direction))


def _translate_example() -> None:
    """A new direction with an example in the box: the same example in the other language."""
    texts = {text: example for example in EXAMPLES for text in (example.de, example.en)}
    if (example := texts.get(str(session.get("source")))) is not None:
        session.put("source", example.text(str(session.get("direction"))))


def source_box() -> None:
    """The text area and its button."""
    language, direction = selection().source_language, selection().direction
    box, button = st.columns([6, 1], vertical_alignment="center")
    box.text_area(
        f"{language} sentence",
        value=EXAMPLES[0].text(direction),
        height="content",
        key="source",
        bind="query-params",
        persist_state="session",
        placeholder=f"Type a sentence in {language}",
        label_visibility="collapsed",
    )
    button.button("Translate", key="translate", width="stretch")


def target_box() -> None:
    """A translation to look at instead of the model's own: typed, or an example's reference."""
    chosen = selection()
    if session.get("target") and not chosen.target:
        session.put("target", "")
    language = chosen.target_language
    pairs = {example.text(chosen.direction): example for example in EXAMPLES}
    other_way = "-".join(reversed(chosen.direction.split("-")))
    box, button = st.columns([6, 1], vertical_alignment="center")
    box.text_input(
        f"{language} translation to look at",
        key="target",
        bind="query-params",
        persist_state="session",
        placeholder=f"Optional: another translation into {language} to look at instead",
        label_visibility="collapsed",
    )
    given = selection().target  # known only now, if it comes from a link
    reference = pairs[chosen.source].text(other_way) if chosen.source in pairs else ""
    button.button(
        "Clear" if given else "Use reference",
        key="use_reference",
        width="stretch",
        disabled=not (given or reference),
        on_click=session.put,
        args=("target", "" if given else reference),
    )


def sentence(nothing_yet: str) -> "tuple[Card, TranslationRecord]":
    """What a page about one sentence shows: what the first page would show now, or a link names.

    If nothing was translated yet and there is no link, says `nothing_yet` and stops the page; also
    where the sentence cannot be translated, with one line for the reader.
    """
    for name, value in session.linked("source", "target").items():
        if session.get(name) is None:
            session.put(name, value)
    chosen = selection()
    unused = session.get("source") is None and session.current_record() is None
    if unused or chosen.card is None or not chosen.source:
        st.caption(nothing_yet)
        st.stop()
    try:
        record = session.record(chosen.card, chosen.source, chosen.decode, chosen.target or None)
    except ValueError as error:  # InputError and CheckpointError carry one line for the reader
        st.error(str(error))
        st.stop()
    return chosen.card, record


def link(card: Card, record: "TranslationRecord") -> dict[str, str | None]:
    """What a link needs to bring back a sentence through a model."""
    return {
        "source": record.source_text,
        "target": record.translation if record.search == GIVEN else None,
        "direction": card.direction,
        "model": session.model_name(card),
        "search": selection().search,
    }


def model_note() -> None:
    """Device, size and score of the model in use, at the sidebar's foot."""
    chosen = selection()
    if chosen.card is None:
        return
    card, shape = chosen.card, chosen.card.model
    scores = ", ".join(
        f"{score['sacrebleu']:.1f} on {about([corpus])}"
        for corpus, score in card.metrics.get("final", {}).items()
    )
    with st.sidebar.container(key="model_note"):
        st.badge(session.device_label(card), color="gray")
        st.caption(
            f"{shape.num_encoder_layers} + {shape.num_decoder_layers} layers, "
            f"{shape.num_heads} heads, d_model {shape.d_model}, "
            f"{card.parameters / 1e6:.1f} million weights"
        )
        if scores:
            st.caption(f"BLEU {scores} that it was not trained on. Other text: expect errors.")
