"""The word alignment of a sentence, by the heads that align words best in the network's atlas."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.components.atlas.measures import gold_name
from app.figures.word_alignment import alignment_figure
from app.look.glossary import meaning
from app.look.labels import label, word_labels
from app.look.markdown import plain
from app.look.numbers import number, percent
from app.state import atlases, results
from app.views.shared.figure import show
from core.analysis.alignment import SentenceAlignment, align_sentence, pharaoh
from core.atlas.atlas import AlignmentHeads, Origin
from core.checkpoint.folder import Card
from core.data.corpora import LANGUAGES
from core.record.edits import Edits
from core.record.parts import RecordToken
from core.record.record import TranslationRecord
from core.record.words import Words
from core.text.line import words_of_line

_READING = {"input": "reads", "output": "produces"}
_ROWS = {"input": "the row that takes it as input", "output": "the row that produces it"}


def show_word_alignment(card: Card, record: TranslationRecord) -> None:
    """Offer the word alignment of a record, if the network's atlas has alignment heads."""
    try:
        atlas = atlases.shipped_atlas(card)
    except ValueError as error:
        st.caption(plain(str(error)))
        return
    if atlas is None or atlas.alignment_heads is None:
        return
    fold = st.expander("Word alignment", key="word_alignment", on_change="rerun")
    if fold.open:
        with fold:
            _show(card, record, atlas.alignment_heads, atlas.origin)


def aligned_by_heads(
    card: Card, record: TranslationRecord, found: AlignmentHeads, words: tuple[Words, Words]
) -> SentenceAlignment:
    """Return the alignment of a record's source and target words by a network's alignment heads."""
    by_weights = found.quantity == "weights"
    maps = record.cross if by_weights else results.quantity(card, record, "norms")["cross"]
    return align_sentence(maps, found.heads, found.reading, *words)


def _show(card: Card, record: TranslationRecord, found: AlignmentHeads, origin: Origin) -> None:
    by_weights = found.quantity == "weights"
    aligned = aligned_by_heads(card, record, found, results.given_words(card, record))
    if not aligned.values:
        st.caption("This sentence has no words to align.")
        return
    lines = [
        # As the line spells them, unless another tokenizer made the record.
        given if len(given := words_of_line(line)) == len(words) else _spelled(tokens, words)
        for line, tokens, words in (
            (record.source_text, record.source, aligned.source),
            (record.translation, record.target_out, aligned.target),
        )
    ]
    source = word_labels(record.source, aligned.source, 1, lines[0])
    target = word_labels(record.target_out, aligned.target, 1, lines[1])
    linked = {s for s, _ in aligned.values}
    alone = [word for s, word in enumerate(source) if s not in linked]
    names = [f"layer {layer + 1} head {head + 1}" for layer, head in found.heads]
    heads = f"cross-attention {names[0]}"
    if len(names) > 1:
        heads = f"the mean of the cross-attention heads {', '.join(names)}"
    s, t = max(aligned.values, key=lambda link: aligned.values[link])
    st.markdown(
        plain(
            f"Each word of the translation is linked to the source word with the largest "
            f"{'weight' if by_weights else 'value norm'} in {heads} while the decoder "
            f"{_READING[found.reading]} the word, in {_ROWS[found.reading]}. For example: while "
            f"the decoder {_READING[found.reading]} “{target[t]}”, “{source[s]}” has the largest "
            f"{'weight' if by_weights else 'value norm'}, so these two are linked."
        ),
        help=meaning("word alignment") if by_weights else meaning("word alignment", "value norms"),
    )
    with st.container(width=560):
        show(
            alignment_figure(
                source,
                target,
                aligned.values,
                {
                    link: percent(value) if by_weights else number(value, 3)
                    for link, value in aligned.values.items()
                },
                (LANGUAGES[record.source_language], LANGUAGES[record.target_language]),
                f"{len(aligned.values)} links between {len(source)} and {len(target)} words",
                "a thicker line has a larger " + ("weight" if by_weights else "value norm"),
            ),
            "alignment_figure",
            "Not linked: " + plain(", ".join(f"“{word}”" for word in alone)) if alone else "",
            alt="Word alignment: "
            + ", ".join(f"{source[s]} – {target[t]}" for s, t in sorted(aligned.values))
            + ".",
        )
    st.caption(
        _error(found, origin, record), help=meaning("alignment error rate", "teacher-forced")
    )
    st.markdown("**Pharaoh format:** source word – target word, counted from 0")
    st.code(
        "\n".join([*map(" ".join, lines), pharaoh(aligned.values)]), language=None, wrap_lines=True
    )


def _spelled(tokens: Sequence[RecordToken], words: Words) -> list[str]:
    return ["".join(label(tokens[i]) for i in word) for word in words]


def _error(found: AlignmentHeads, origin: Origin, record: TranslationRecord) -> str:
    """State the alignment error rate, what it was measured on, and what it does not cover."""
    interval = f"95 % interval {percent(found.low)} to {percent(found.high)}"
    return (
        f"Alignment error rate {percent(found.aer)} ({interval}), read in the same row. It was "
        f"measured on half of {origin.gold_sentences:,} sentences with manual alignments "
        f"({plain(gold_name(origin))}); the other half chose the heads. For this "
        "measurement, the decoder was fed human translations (teacher-forced): for this sentence "
        "and this translation the error may differ."
        + ("" if record.edits == Edits() else " It does not cover the edits of this pass.")
    )
