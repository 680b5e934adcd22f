"""The encoder knew, the decoder lost it: a word's rank in every state, by the Jacobian lens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st
from numpy.typing import NDArray

import core
from app.figures.style import tick
from app.figures.why import Grid, words_grid_figure
from app.look.labels import label, labels
from app.look.markdown import plain
from app.look.numbers import digits, number
from app.state import address, results
from app.views.shared.choices import choose_word
from app.views.shared.figure import show
from app.views.shared.inspection import Inspection
from core.kinds import Side
from core.record.words import group_words, is_punctuation

if TYPE_CHECKING:
    from core.checkpoint.lens import Lens
    from core.record.record import RecordToken, TranslationRecord

_BEST = 5
"""As many of a state's most probable tokens are said to be read, as in the lens's own test."""
_OTHER = "why_knew_other"


@dataclass(frozen=True, eq=False)
class Ranks:
    """Where a token ranks, from 1, in each state: [layer from the embeddings, position].

    The encoder's last position, <eos>, is left out: the lens is not tested there.
    """

    encoder: NDArray[np.int64]
    decoder: NDArray[np.int64]

    @property
    def place(self) -> int:
        """The source position where most layers read the token; of equal ones, the best rank."""
        hits = (self.encoder <= _BEST).sum(0)
        return min(range(len(hits)), key=lambda n: (-hits[n], self.encoder[:, n].min()))

    @property
    def layers(self) -> int:
        """In how many layers the state at `place` reads the token."""
        return int((self.encoder[:, self.place] <= _BEST).sum())

    def step(self, written: int | None) -> int:
        """The step that writes the token or, if none does, the one whose output ranks it best."""
        return int(self.decoder[-1].argmin()) if written is None else written


def show_knew(inspection: Inspection) -> None:
    """Rank a word of the translation, or one that the visitor types, in every state."""
    from core.checkpoint.lens import fit_command

    card, record = inspection.card, inspection.record
    lens = results.lens(card)
    if lens is None:
        st.write("This network has no Jacobian lens yet. This command fits one:")
        st.code(fit_command(card), language="sh", wrap_lines=True)
        return
    written, name, ids = _chosen(inspection)
    if not ids:
        st.caption("Type a word with at least one letter.")
        return
    tokens = results.target_tokens(card, ids)
    readings = inspection.run_experiment(core.jacobian_lens, ids[:1])
    found = Ranks(readings.encoder.ranks[:, :-1, 0], readings.decoder.ranks[..., 0])
    with st.container(key="why_knew_verdict"):
        st.text(verdict(record, found, name, written))
        if len(ids) > 1:
            st.text(
                f"“{name}” has {len(ids)} tokens, {' + '.join(map(label, tokens))}. All ranks are "
                f"those of the first, “{label(tokens[0])}”."
            )
    _show_ranks(record, found.encoder, "encoder", name)
    _show_ranks(record, found.decoder, "decoder", name)
    st.caption(_about(lens))


def _chosen(inspection: Inspection) -> tuple[int | None, str, tuple[int, ...]]:
    """Return the step that writes the chosen word (None: typed), its text and its tokens' ids."""
    target = inspection.record.target_out
    words = [w for w in group_words(target) if not target[w[0]].special]
    names = ["".join(target[t].text for t in word) for word in words]
    chances = [
        0.0 if is_punctuation(name) else float(inspection.record.log_probs[word[0]])
        for word, name in zip(words, names, strict=True)
    ]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        with st.container(width=260):
            at = choose_word("Word", names, int(np.argmin(chances)), "why_knew") if words else None
        address.initialise_text(_OTHER, "")
        typed = st.text_input(
            "or any other word", key=_OTHER, width=260, persist_state="session", max_chars=60
        ).strip()
        address.write({_OTHER: typed or None}, _OTHER)
    if typed or at is None:
        ids = results.continuation(inspection.card, typed) if typed else ()
        written = results.token_ids(target)
        places = range(len(written) - len(ids) + 1)
        found = next((t for t in places if ids and written[t : t + len(ids)] == ids), None)
        return found, typed, ids
    return words[at][0], names[at], tuple(target[t].id for t in words[at])


def verdict(record: TranslationRecord, found: Ranks, name: str, written: int | None) -> str:
    """Say who knew the word: the encoder, the decoder, both or neither."""
    source, steps = labels(record.source, 1), labels(record.target_out, 1)
    states, step, word = len(found.encoder), found.step(written), f"“{name}”"
    best = int(found.encoder.min())
    _, place = np.unravel_index(found.encoder.argmin(), found.encoder.shape)
    knew = (
        f"the encoder reads {word} at “{source[found.place]}”: among the five best in "
        f"{found.layers} of {states} layers, the embeddings included"
        if found.layers
        else f"no state of the encoder has {word} among its five best; its best rank is {best:,}, "
        f"at “{source[place]}”"
    )
    ranks = found.decoder[:, step]
    later = (f"{rank:,} after layer {n}" for n, rank in enumerate(ranks[1:], 1))
    path = ", ".join([f"its rank in the decoder is {ranks[0]:,} in the embeddings", *later])
    at = f"At step {step + 1}, "
    if written is not None:
        who = "Both knew it" if found.layers else "Only the decoder knew it"
        return f"{who}: {knew}. {at}which writes it, {path}."
    nearest = f"{at}which comes closest and writes “{steps[step]}”, {path}."
    if not found.layers:
        had = int(ranks.min()) <= _BEST
        who = "The encoder did not know it, the decoder considered it" if had else "Nobody knew it"
        return f"{who}: {knew}. {nearest}"
    who = "considered it" if ranks[-1] <= _BEST else "lost it"
    return f"The encoder knew it, the decoder {who}: {knew}. {nearest}"


def _show_ranks(record: TranslationRecord, ranks: NDArray, side: Side, name: str) -> None:
    tokens: tuple[RecordToken, ...] = record.source[:-1] if side == "encoder" else record.target_out
    columns = labels(tokens, 1)
    rows = ["embeddings", *(f"layer {n}" for n in range(1, len(ranks)))]
    what = "at" if side == "encoder" else "writing"
    hovers = [
        [
            f"{row}, {what} {tick(column)}: rank <b>{rank:,}</b>"
            for column, rank in zip(columns, of, strict=True)
        ]
        for row, of in zip(rows, ranks, strict=True)
    ]
    texts = [[str(rank) if rank < 1000 else "" for rank in of] for of in ranks.tolist()]
    chart = words_grid_figure(
        Grid(rows, columns, 1 / ranks, texts, hovers),
        f"Rank of “{name}” in the {side}’s states",
        "colour: 1 / rank",
        1.0,
        False,
    )
    column = "a source token" if side == "encoder" else "a step, named by what it writes"
    show(chart, f"why_knew_{side}", f"Each column is {column}.")


def _about(lens: Lens) -> str:
    """Say what the lens is, and how well it reads."""
    table, last = lens.about.table, len(lens.about.table["jacobian_hits"]) - 1
    shares = []
    for name in ("jacobian_hits", "jacobian_null"):
        value, low, high = table[name][last]
        places = max(0, digits(low, high) - 2)
        of = [number(100 * share, places) for share in (value, low, high)]
        shares.append(f"{of[0]} % ({of[1]} to {of[2]})")
    return plain(
        "The Jacobian lens is a fitted average, not a calibrated probability. On "
        f"{lens.about.tested} other sentences, one of the five best words of an encoder state "
        f"(layer {last}) is in the translation for {shares[0]} of tokens, and in another "
        f"sentence’s translation for {shares[1]}."
    )
