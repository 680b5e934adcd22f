"""Trials of the tour's stops: without positions or masks, with another search or copied heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

import core
from app.lessons.texts import text
from app.look.labels import labels
from app.look.markdown import plain
from app.look.numbers import number, percent
from app.state import results
from app.stops import Stop
from app.views.states.readings import first_difference
from app.views.tour.finders import Highlight
from core.analysis import roles
from core.analysis.inside_head import inside_head
from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.kinds import Kind
from core.record.edits import OFF, Edits
from core.record.record import TranslationRecord

if TYPE_CHECKING:
    from core.analysis.inside_head import InsideHead, Site
    from core.frozen import Doubles

Head = tuple[int, int]
"""Layer and head, counted from 0."""
GREEDY, BEAM = DecodeConfig(beam=1), DecodeConfig(beam=5)
_SAME_NATS = 5e-4  # a smaller difference counts as none


@dataclass(frozen=True)
class Bench:
    """Runs the network of a record again; results are cached."""

    card: Card

    def translate(self, source: str, decode: DecodeConfig, edits: Edits) -> TranslationRecord:
        """Translate a sentence under edits."""
        changed = None if edits == Edits() else edits
        return results.inspect(self.card, source, edits=changed, decode=decode)

    def rerun(self, record: TranslationRecord, edits: Edits) -> TranslationRecord:
        """Repeat the pass of a record's own translation under edits."""
        ids = results.token_ids(record.target_out)
        return results.inspect(self.card, record.source_text, edits=edits, target_ids=ids)

    def site(self, record: TranslationRecord, kind: Kind, layer: int) -> Site:
        """Return the inputs, weight matrices, mask and maps of one attention in a record's pass."""
        sides = results.token_ids(record.source), results.token_ids(record.target_out)
        return results.run(self.card, core.site, *sides, kind, layer)


def show_trial(stop: Stop, card: Card, record: TranslationRecord, shown: Highlight | None) -> None:
    """Run a stop's trial and show its lines; if the model cannot run it, say why in one line."""
    name, *words = stop.trial
    with st.container(key="tour_trial", gap="small"):
        try:
            for line in _TRIALS[name](Bench(card), record, shown, *words):
                st.markdown(plain(line))
        except ValueError as error:
            st.error(plain(error))


# Each trial returns what was measured, as lines of plain text; `shown` is the stop's head, if any.


def without_positions(
    bench: Bench, record: TranslationRecord, shown: Highlight | None, first: str, second: str
) -> tuple[str, ...]:
    """Translate with all positional encodings off; compare the order of two target words."""
    edits = Edits(source_positions=OFF, target_positions=OFF)
    own = bench.translate(record.source_text, BEAM, Edits()).translation
    other = bench.translate(record.source_text, BEAM, edits).translation
    places = [[_place(written, word) for word in (first, second)] for written in (own, other)]
    if None in places[0]:
        verdict = "missing"
    elif own == other:
        verdict = "unchanged"
    elif None in places[1]:
        verdict = "lost"
    else:
        before, after = ([p for p in pair if p is not None] for pair in places)
        verdict = "same" if np.sign(np.diff(before)) == np.sign(np.diff(after)) else "swapped"
    return (
        text("tour", "no-positions.with", translation=own),
        text("tour", "no-positions.without", translation=other or "(empty)"),
        text("tour", f"no-positions.{verdict}", first=first, second=second),
    )


def without_mask(
    bench: Bench, record: TranslationRecord, shown: Highlight | None
) -> tuple[str, ...]:
    """Repeat the pass without the causal mask; compare the probability of each token."""
    other = bench.rerun(record, Edits(causal_mask=False))
    before, after = np.exp(record.log_probs), np.exp(other.log_probs)
    most = int(np.abs(after - before).argmax())
    means = [percent(float(mean)) for mean in (before.mean(), after.mean())]
    falls = after.mean() < before.mean()
    verdict = "same" if means[0] == means[1] else "fall" if falls else "rise"
    return (
        text(
            "tour",
            f"no-mask.{verdict}",
            count=len(before),
            before=means[0],
            after=means[1],
        ),
        text(
            "tour",
            "no-mask.most",
            token=labels(record.target_out, 1)[most],
            before=percent(float(before[most])),
            after=percent(float(after[most])),
            nats=number(float(other.log_probs[most] - record.log_probs[most]), 1, "+"),
        ),
    )


def vectors_of(bench: Bench, record: TranslationRecord, shown: Highlight) -> tuple[InsideHead, int]:
    """Return the steps of a stop's row, and the key with most of its weight."""
    head, query = shown.head, shown.query
    assert query is not None
    inside = inside_head(bench.site(record, shown.kind, head.layer), head.head, query)
    return inside, int(np.argmax(inside.weights_K))


def two_vectors(
    bench: Bench, record: TranslationRecord, shown: Highlight | None
) -> tuple[str, ...]:
    """Compute the score of the key that the stop's row looks at most, from the vectors q and k."""
    if shown is None or shown.query is None:
        return ()
    head, query = shown.head, shown.query
    inside, key = vectors_of(bench, record, shown)
    second = int(np.argsort(-inside.weights_K, kind="stable")[1])
    read, produced = labels(record.source, 1), labels(record.target_out, 1)
    size = len(inside.q_E)
    return (
        text(
            "tour",
            "q-k.score",
            layer=head.layer + 1,
            head=head.head + 1,
            query=produced[query],
            key=read[key],
            size=size,
            sum=number(float(inside.scores_K[key]), 2),
            score=number(float(inside.scaled_K[key]), 2),
        ),
        text(
            "tour",
            "q-k.softmax",
            count=int(inside.open_K.sum()),
            weight=percent(float(inside.weights_K[key])),
            other=read[second],
            other_score=number(float(inside.scaled_K[second]), 2),
            other_weight=percent(float(inside.weights_K[second])),
        ),
    )


def two_searches(
    bench: Bench, record: TranslationRecord, shown: Highlight | None
) -> tuple[str, ...]:
    """Translate greedily and with a beam of 5; compare probabilities and the first difference."""
    source = record.source_text
    greedy, beam = (bench.translate(source, decode, Edits()) for decode in (GREEDY, BEAM))
    lines = [
        text(
            "tour",
            f"beam.{name}",
            translation=found.translation or "(empty)",
            probability=percent(float(np.exp(_log_prob(found)))),
            log_prob=number(_log_prob(found), 2),
        )
        for name, found in (("greedy", greedy), ("five", beam))
    ]
    ids = [[token.id for token in found.target_out] for found in (greedy, beam)]
    if ids[0] == ids[1]:
        return (*lines, text("tour", "beam.same"))
    at = next(i for i, (a, b) in enumerate(zip(*ids, strict=False)) if a != b)
    said = [
        (labels(found.target_out, 1)[at], percent(float(np.exp(found.log_probs[at]))))
        for found in (greedy, beam)
    ]
    lines.append(
        text(
            "tour",
            "beam.differ",
            number=at + 1,
            greedy=said[0][0],
            greedy_probability=said[0][1],
            beam=said[1][0],
            beam_probability=said[1][1],
        )
    )
    gain = _log_prob(beam) - _log_prob(greedy)
    verdict = "equal" if abs(gain) < _SAME_NATS else "higher" if gain > 0 else "lower"
    return (*lines, text("tour", f"beam.{verdict}"))


def _log_prob(record: TranslationRecord) -> float:
    return float(record.log_probs.sum(dtype=np.float64))


def where_and_what(
    bench: Bench, record: TranslationRecord, shown: Highlight | None, other: str, read: str
) -> tuple[str, ...]:
    """Compare the head that marks the place of the word `read` with the one that brings it.

    Heads are switched off, and copied from the pass of the `other` sentence, one at a time. `shown`
    pins the row that reads the word's translation.
    """
    if shown is None or shown.query is None:
        return ()
    clean = bench.translate(other, record.decode or BEAM, Edits())
    found = results.patched(bench.card, clean, record)
    if found.reason:
        return (text("tour", "where-what.undefined", reason=found.reason),)
    step = first_difference(clean, record)
    assert step is not None  # else the passes could not be compared
    on_word = record.cross[..., roles.positions(record.source, read)[0]].sum(-1)
    off_LH = results.head_effects(bench.card, record)["cross"].sum(-1)
    shares_LH = found.heads["cross"]
    marks, fetches, verdict = marks_and_fetches(on_word[..., shown.query], shares_LH)
    word, own = (labels(one.target_out, 1)[step] for one in (clean, record))

    def said(key: str, at: Head, row: int) -> str:
        return text(
            "tour",
            f"where-what.{key}",
            word=word,
            own=own,
            read=read,
            layer=at[0] + 1,
            head=at[1] + 1,
            weight=percent(float(on_word[*at, row])),
            off=number(float(off_LH[at]), 2, "+"),
            restored=number(float(shares_LH[at]), 2),
        )

    return (
        said("marks", marks, shown.query),
        said("fetches", fetches, step),
        text("tour", f"where-what.{verdict}", read=read, own=own),
    )


def marks_and_fetches(weights_LH: Doubles, shares_LH: Doubles) -> tuple[Head, Head, str]:
    """Return the head that marks a place, the one that fetches its word, and a verdict.

    The first has the most weight on the word once it is translated; if this is less than half, no
    head marks the place ("unmarked"). The other restores most. They are the "same", or they are
    "apart" if the first restores less than half of what the second does, or "both" fetch.
    """
    width = weights_LH.shape[1]
    marks, fetches = (divmod(int(of.argmax()), width) for of in (weights_LH, shares_LH))
    if weights_LH[marks] < 0.5:
        return marks, fetches, "unmarked"
    if marks == fetches:
        return marks, fetches, "same"
    return marks, fetches, "apart" if shares_LH[marks] < shares_LH[fetches] / 2 else "both"


def translates_word(
    bench: Bench, record: TranslationRecord, shown: Highlight | None, word: str, *right: str
) -> tuple[str, ...]:
    """Check whether the translation contains one of the right words for a source word."""
    written = record.translation
    found = [one for one in right if _place(written, one) is not None]
    return (
        text("tour", "wrong.wrote", translation=written or "(empty)"),
        text("tour", "wrong.right", word=word, right=found[0])
        if found
        else text("tour", "wrong.wrong", word=word, right=" / ".join(right)),
    )


def _place(written: str, word: str) -> int | None:
    """Return the index of a word in a text, ignoring case and punctuation; None if it is absent."""
    words = ["".join(filter(str.isalpha, one)).casefold() for one in written.split()]
    return words.index(word.casefold()) if word.casefold() in words else None


_TRIALS = {
    "without_positions": without_positions,
    "without_mask": without_mask,
    "two_vectors": two_vectors,
    "two_searches": two_searches,
    "where_and_what": where_and_what,
    "translates_word": translates_word,
}
