"""The shared widgets, and the one frozen Selection that they amount to.

Keys of widgets and result containers (each becomes the CSS class st-key-<key>):
source, translate, direction, model, search, translation, explorer, example_0…, mask_kind,
position_side, model_note, first_model, second_model, run_checks, checks, compare_kind,
compare_layer, compare_head, compare_scale, show_largest, largest, first_map, second_map,
difference_map, compare_matched, matched_heads, matched_pairs, first_scores, second_scores, curves,
measure_speed, speed, side_by_side, state_dict_map.
"""

from dataclasses import dataclass

import streamlit as st

from app import session
from app.examples import EXAMPLES
from core.checkpoint import Card
from core.config import DecodeConfig
from core.corpora import CORPORA, LANGUAGES

SEARCHES = {"greedy": DecodeConfig(beam=1), "beam": DecodeConfig(beam=5)}
MODELS = {"scratch": "From scratch", "baseline": "Baseline: torch.nn.Transformer"}


@dataclass(frozen=True)
class Selection:
    """What a page is asked to show; `card` is None while there is no usable checkpoint."""

    source: str
    direction: str
    card: Card | None
    search: str

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


def selection() -> Selection:
    """The widgets' values as they stand."""
    direction = session.get("direction") or next(iter(_directions()), "de-en")
    source = session.get("source")
    return Selection(
        source=EXAMPLES[0].text(direction) if source is None else source.strip(),
        direction=direction,
        card=session.cards().get((direction, session.get("model"))),
        search=session.get("search") or "beam",
    )


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
        with st.container(gap=None):
            for i, example in enumerate(EXAMPLES):
                st.button(
                    example.title,
                    key=f"example_{i}",
                    type="tertiary",
                    on_click=session.put,
                    args=("source", example.text(direction)),
                )
                st.caption(example.look_for)


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
        placeholder=f"Type a {language} sentence",
        label_visibility="collapsed",
    )
    button.button("Translate", key="translate", width="stretch")


def model_note() -> None:
    """Device, size and score of the model in use, at the sidebar's foot."""
    chosen = selection()
    if chosen.card is None:
        return
    card, shape = chosen.card, chosen.card.model
    final = card.metrics.get("final", {})
    score = (
        f" · BLEU {final['sacrebleu']:.1f} on its validation set" if "sacrebleu" in final else ""
    )
    with st.sidebar.container(key="model_note"):
        st.badge(session.device_label(card), color="gray")
        st.caption(
            f"{shape.num_encoder_layers} + {shape.num_decoder_layers} layers, "
            f"{shape.num_heads} heads, d {shape.d_model}, "
            f"{card.parameters / 1e6:.1f} million weights{score}"
        )
        if (corpus := CORPORA.get(card.training.get("corpus", ""))) is not None:
            st.caption(f"It knows {corpus.about}. On other text it guesses.")
