"""Shows a batch of sentences or ids, its masks, and their shapes in torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st
from numpy.typing import NDArray

import core
from app.components.token_table import token_table
from app.examples import examples
from app.figures import masks
from app.figures.grid import Axes
from app.lessons.texts import text
from app.look.glossary import meaning
from app.look.labels import labels
from app.look.markdown import plain
from app.state import address, results, session
from app.views.shared import asked
from app.views.shared.choices import choose
from app.views.shared.figure import show
from app.views.shared.inspection import Inspection
from app.views.shared.question import ask, covered
from core.data.corpora import LANGUAGES

if TYPE_CHECKING:  # imports torch
    from core.experiments.batch_masks import BatchMasks

Rows = tuple[tuple[int, ...], ...]
Words = dict[str, list[list[str]]]
"""Labels of the tokens fed in, by side and sentence."""

BLOG_SOURCE = "[1, 5, 6, 4, 3, 9, 5, 2, 0]\n[1, 8, 7, 3, 4, 5, 6, 7, 2]"
BLOG_TARGET = "[1, 7, 4, 3, 5, 0, 0, 0]\n[1, 5, 6, 2, 4, 7, 6, 2]"
PADDING_FORMULA = (
    r"M_{qk} = \begin{cases} 0 & k \text{ is not padding} \\ "
    r"-\infty & k \text{ is padding}\end{cases}"
)
DECODER_FORMULA = (
    r"M_{qk} = \begin{cases} 0 & k \le q \text{ and } k \text{ is not padding} \\ -\infty & "
    r"\text{otherwise} \end{cases}"
)
FED = {"source": "source token", "target": "target token fed in"}
PARTS = {"padding": "Padding mask", "causal": "Causal mask", "combined": "Combined mask"}


CHOICES = (
    *("mask_input", "mask_source_ids", "mask_target_ids", "mask_kind", "mask_sentence"),
    "mask_ids_sentence",
)
"""Query parameters of what `show_batch` asks for, but for the sentences: `batch_texts`."""


def batch_texts(inspection: Inspection) -> tuple[str, ...]:
    """Return the sentences of the batch; a batch of ids has none. A link with sentences opens them.

    Until it is edited, the batch follows the visitor's sentence.
    """
    if address.requested("mask_batch") is not None:
        session.put("open_batch", True)
    first = inspection.record.source_text
    others = [example.text(inspection.direction) for example in examples(inspection.direction)[1:3]]
    if not others and len(words := first.split()) > 1:  # a shorter sentence, so that one is padded
        others = [" ".join(words[: len(words) // 2])]
    default_text = "\n".join([first, *(other for other in others if other != first)])
    address.initialise_text(_box(inspection), default_text, "mask_batch")
    address.write_choice("mask_batch", session.get(_box(inspection)), default_text)
    return _typed(inspection)


def _box(inspection: Inspection) -> str:
    return f"mask_batch_{inspection.record.id}"


def _typed(inspection: Inspection) -> tuple[str, ...]:
    if session.get("mask_input") == "ids":
        return ()
    return tuple(filter(None, map(str.strip, session.get(_box(inspection)).splitlines())))


def show_batch(inspection: Inspection, texts: tuple[str, ...], hidden: bool) -> None:
    """Ask for a batch and show its masks. Reruns the page if its sentences are no longer `texts`.

    `hidden` hides the masks, as they answer the page's question. They are also hidden until the
    question about this batch is settled or the learner asks to see them.
    """
    st.markdown(
        text("masks", "batch.about"),
        help=meaning("token", "<bos>", "<eos>"),
    )
    chosen_input = choose(
        "Input", {"sentences": "Sentences", "ids": "Ids"}, "sentences", "mask_input"
    )
    if chosen_input == "sentences":
        st.text_area(
            f"{LANGUAGES[inspection.card.source_language]} sentences, one per line",
            key=_box(inspection),
            height=110,
            persist_state="session",
        )
    else:
        st.caption(text("masks", "batch.ids"))
        columns = st.columns(2)
        typed_ids = []
        for column, side, default in zip(
            columns, ("source", "target"), (BLOG_SOURCE, BLOG_TARGET), strict=True
        ):
            key = f"mask_{side}_ids"
            address.initialise_text(key, default)
            label = f"{side.capitalize()} ids"
            typed_ids.append(column.text_area(label, key=key, persist_state="session"))
            address.write_choice(key, typed_ids[-1], default)
    if _typed(inspection) != texts:  # other sections use them
        st.rerun()
    from core.experiments.batch_masks import parse_rows

    try:
        if chosen_input == "sentences":
            source, target, words = _sentences(inspection, texts)
        else:
            source, target = (tuple(map(tuple, parse_rows(typed))) for typed in typed_ids)
            target = tuple(row[:-1] for row in target)
            words = None
        result = inspection.run(core.batch_masks, source, target)
    except ValueError as error:  # one user-facing line
        st.error(plain(error))
        return
    for side, ids, number in (("source", result.source, 1), ("target", result.target_in, 0)):
        lines = words[side] if words else None
        token_table(ids, lines, f"{side.capitalize()}, as fed in", number, key=f"{side}_batch")
    padded = sum(int((ids == 0).sum()) for ids in (result.source, result.target_in))
    st.caption(
        text("masks", "batch.one" if padded == 1 else "batch.several", count=padded)
        if padded
        else text("masks", "batch.equal")
    )
    found = ask("batch", [lambda: asked.padded(result, words["target"] if words else None)])
    if not covered("batch", hidden or found.hides("masked")):
        _show_masks(result, words)


def _sentences(inspection: Inspection, texts: tuple[str, ...]) -> tuple[Rows, Rows, Words]:
    """Return the ids of the texts and translations as fed in, and their labels."""
    from core.experiments.batch_masks import check_count

    check_count(len(texts), "sentences")  # before translating any
    records = [results.inspect(inspection.card, one, decode=inspection.decode) for one in texts]
    words = {
        "source": [labels(record.source, 1) for record in records],
        "target": [labels(record.target_in, 0) for record in records],
    }
    source = tuple(results.token_ids(record.source) for record in records)
    target = tuple(results.token_ids(record.target_in) for record in records)
    return source, target, words


def _show_masks(result: BatchMasks, words: Words | None) -> None:
    """Show one sentence's masks in one kind of attention, and all mask shapes."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = choose(
            "Attention",
            {"encoder": "Encoder", "decoder": "Decoder", "cross": "Cross"},
            "decoder",
            "mask_kind",
        )
        numbers = {row: str(row + 1) for row in range(len(result.source))}
        shortest = int(np.argmin((result.target_in != 0).sum(1)))
        key = "mask_sentence" if words else "mask_ids_sentence"
        row = choose("Sentence", numbers, shortest, key)
    queries = "source" if kind == "encoder" else "target"
    keys = "target" if kind == "decoder" else "source"
    ids = {"source": result.source[row], "target": result.target_in[row]}
    axes = Axes(
        rows=_names(ids[queries], words[queries][row] if words else None),
        columns=_names(ids[keys], words[keys][row] if words else None),
        row_title=f"query: {FED[queries]}",
        column_title=f"key: {FED[keys]}",
        ids=[int(i) for i in ids[keys]],
    )
    parts = ("padding", "causal", "combined") if kind == "decoder" else ("combined",)
    padding, causal = (result.part(kind, row, part) for part in ("padding", "causal"))
    with st.container(horizontal=True, gap="small", key="mask_grids"):
        for part in parts:
            mask = result.part(kind, row, part)
            masked = masks.reasons(
                np.ones_like(padding) if part == "causal" else padding,
                np.ones_like(causal) if part == "padding" else causal,
            )
            title = PARTS[part] if kind == "decoder" else "Padding mask: the only one"
            subtitle = f"{int(mask.sum()):,} of {mask.size:,} cells are unmasked"
            figure = masks.mask_figure(mask, masked, axes, title, subtitle)
            show(figure, f"mask_{part}")
    st.caption(_look_for(kind, bool((ids[keys] == 0).any()), len(ids[keys])))
    st.latex(DECODER_FORMULA if kind == "decoder" else PADDING_FORMULA)
    st.write(text("masks", "batch.tensor"))
    st.table(
        [
            {
                "mask": shape.name,
                "as stored": str(list(shape.stored)),
                "broadcast to": str(list(shape.broadcast)),
            }
            for shape in result.shapes
        ]
    )


def _look_for(kind: str, padded: bool, tokens: int) -> str:
    """Say what to look for in a sentence's mask, which may have no padding."""
    staircase = kind == "decoder" and tokens > 1
    key = kind if padded else "staircase" if staircase else "nothing"
    return text("masks", f"batch.{key}")


def _names(ids: NDArray[np.int64], words: list[str] | None) -> list[str]:
    """Return a row's labels followed by <pad>; without words, its ids."""
    if words is None:
        return ["<pad>" if i == 0 else str(i) for i in ids]
    return [*words, *["<pad>"] * (len(ids) - len(words))]
