"""Stops of the guided tour: sentences with an effect, and the head that shows it most."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from app.lessons.texts import keys, template
from app.look.labels import ATTENTION, label, labels
from app.look.numbers import percent
from app.views.tour.highlight import Highlight
from app.views.tour.trials import (
    Trial,
    translates_word,
    two_searches,
    two_vectors,
    without_mask,
    without_positions,
)
from core.analysis import roles
from core.analysis.attribution import source_words
from core.record.record import TranslationRecord
from core.record.words import is_punctuation

FIRST_FREE_ROW = 2  # of the decoder: earlier rows can attend to one or two tokens only


Find = Callable[[TranslationRecord], Highlight]


@dataclass(frozen=True)
class Stop:
    """One stop: a sentence, what to look for, and how to find it in the model's record.

    `id` names it in links and in the lesson's texts; it is never changed, whatever its title.
    `look_for` describes only the sentence and the model's design, which all networks share; what a
    network does is measured. `measured` is a sentence with the placeholders {attention}, {layer},
    {head} and {share}. `find` raises LookupError if the translation lacks a word that it needs.
    `asks` names the question that comes first: "attends", "masked", "order" (without positions),
    "leak" (without the causal mask) or "wins" (of a beam search). `first_row` is the first row in
    which the head is measured, and the first that questions are about. Until the question is
    answered, `before` replaces a `look_for` that gives the answer away. `trial` runs the network
    again, for stops that ask what changes. `blocks` are the blocks of figure 1 that the stop is
    about, by default the head's attention.
    """

    id: str
    title: str
    source: str
    look_for: str
    measured: str
    find: Find
    asks: str = "attends"
    first_row: int = 0
    before: str = ""
    trial: Trial | None = None
    blocks: tuple[str, ...] = ()


def measured(stop: Stop, shown: Highlight) -> tuple[str, str, str]:
    """Return the sentence about a stop's head: text before the share, the share, and text after."""
    head = shown.head
    before, after = stop.measured.split("{share}")
    where = {"attention": ATTENTION[shown.kind], "layer": head.layer + 1, "head": head.head + 1}
    return (
        before.format_map(where).strip(),
        percent(head.share),
        f"{after.format_map(where).strip()} {shown.said}".strip(),
    )


def tokens_in_words(record: TranslationRecord) -> str:
    """Say how many tokens the sentence has, and how its first split word is split: plain text."""
    tokens = record.source
    added = " and ".join(token.text for token in tokens if token.special)
    counted = f"The model reads {len(tokens)} tokens: whole words, punctuation and {added}"
    split = [word for word in source_words(tokens) if len(word) > 1]
    if not split:
        return counted + "."
    shown = " | ".join(label(tokens[place]) for place in split[0])
    return f"{counted}, and parts of words, such as {shown}."


Cells = list[tuple[int, list[int]]]
"""Rows, each with the keys that it should look at."""


def _cross(record: TranslationRecord, cells: Cells) -> Highlight:
    """Find the cross-attention head with most weight on these cells, and describe its rows."""
    head = roles.strongest(roles.on_cells(record.cross, cells))
    produced, read = labels(record.target_out, 1), labels(record.source, 1)
    best = record.cross[head.layer, head.head].argmax(-1)
    rows = [
        f"“{produced[row]}”, token {row + 1} of {len(produced)}, looks most at "
        f"“{read[best[row]]}”, token {best[row] + 1} of {len(read)}"
        for row, _ in cells
    ]
    return Highlight("cross", head, cells[-1][0], "; ".join(rows) + ".")


def _translates(*pairs: tuple[str, str]) -> Find:
    """Find the cross-attention head that looks most from each target word at its source word."""

    def find(record: TranslationRecord) -> Highlight:
        cells: Cells = []
        split = False
        for target_word, source_word in pairs:
            rows = roles.positions(record.target_out, target_word)
            columns = roles.positions(record.source, source_word)
            if len(rows) < 1 or len(columns) < len(rows):
                raise LookupError(f"This model did not write {target_word!r} for {source_word!r}")
            cells += [(row[0], keys) for row, keys in zip(rows, columns, strict=False)]
            split |= any(len(row) > 1 for row in rows)
        shown = _cross(record, cells)
        if not split:
            return shown
        first = "If a produced word has several tokens, the row of its first token is measured."
        return replace(shown, said=f"{shown.said} {first}")

    return find


def _compound(target_word: str, *source_words: str) -> Find:
    """Find the head that looks most from a target word's tokens at these source words, in order."""

    def find(record: TranslationRecord) -> Highlight:
        words = roles.positions(record.target_out, target_word)
        columns = [roles.positions(record.source, word) for word in source_words]
        if not words or not all(columns):
            raise LookupError(f"This model did not write {target_word!r}")
        if len(words[0]) < len(source_words):
            raise LookupError(f"This model writes {target_word!r} as a single token")
        return _cross(
            record, [(row, keys[0]) for row, keys in zip(words[0], columns, strict=False)]
        )

    return find


def _previous(record: TranslationRecord) -> Highlight:
    return Highlight("encoder", roles.strongest(roles.on_previous(record.encoder)))


def _attention_to_bos(record: TranslationRecord) -> Highlight:
    _third_row(record)
    free = record.decoder[:, :, FIRST_FREE_ROW:]
    return Highlight("decoder", roles.strongest(roles.on_column(free, 0)))


def _staircase(record: TranslationRecord) -> Highlight:
    _third_row(record)
    return Highlight("decoder", roles.strongest(roles.on_itself(record.decoder, FIRST_FREE_ROW)))


def _most_on(word: str) -> Find:
    """Find the row with most weight on a source word over all heads, and its strongest head.

    The mean over heads is used because single heads may look one row late. Rows that produce
    punctuation or a special token do not count.
    """

    def find(record: TranslationRecord) -> Highlight:
        columns = roles.positions(record.source, word)
        if not columns:
            raise LookupError(f"This model does not read {word!r} as a word")
        rows = [
            row
            for row, token in enumerate(record.target_out)
            if not token.special and not is_punctuation(token.text)
        ]
        if not rows:
            raise LookupError("This model wrote no word")
        on_word = record.cross[:, :, rows][..., columns[0]].sum(-1)
        nth = int(on_word.mean((0, 1), dtype=np.float64).argmax())
        layer, head = np.unravel_index(int(on_word[..., nth].argmax()), on_word.shape[:2])
        row = rows[nth]
        share = float(on_word[layer, head, nth])
        produced = labels(record.target_out, 1)
        return Highlight(
            "cross",
            roles.Strongest(int(layer), int(head), share),
            row,
            f"The row produces “{produced[row]}”, token {row + 1} of {len(produced)}.",
        )

    return find


def _third_row(record: TranslationRecord) -> None:
    if record.decoder.shape[-1] <= FIRST_FREE_ROW:
        raise LookupError("This model wrote too few tokens to have a third row")


def _stop(
    id: str,
    source: str,
    find: Find,
    asks: str = "attends",
    trial: Trial | None = None,
    blocks: tuple[str, ...] = (),
    first_row: int = 0,
) -> Stop:
    """Return a stop with its texts from the lesson."""
    parts = ["title", "look_for", "measured"]
    if f"{id}.before" in keys("tour"):
        parts.append("before")
    said = {part: template("tour", f"{id}.{part}") for part in parts}
    return Stop(
        id=id,
        source=source,
        find=find,
        asks=asks,
        first_row=first_row,
        trial=trial,
        blocks=blocks,
        **said,
    )


_POSITIONS = ("source_positions", "target_positions")
_SEARCH = ("softmax", "outputs")


_FROM_GERMAN = (
    _stop(
        "fussball",
        "Zwei junge Männer spielen im Park Fußball.",
        _translates(("soccer", "Fußball")),
    ),
    _stop(
        "strassenmusiker",
        "Ein Straßenmusiker spielt an einer Bushaltestelle Gitarre.",
        _translates(("street", "Straßenmusiker"), ("musician", "Straßenmusiker")),
    ),
    _stop(
        "hemd",
        "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd.",
        _translates(("shirt", "Hemd")),
    ),
    _stop("back", "Eine Frau bereitet in der Küche das Essen zu.", _previous, first_row=1),
    _stop(
        "sink",
        "Ein kleiner Junge sitzt auf einer Schaukel.",
        _attention_to_bos,
        first_row=FIRST_FREE_ROW,
    ),
    _stop(
        "ahead",
        "Zwei Hunde laufen durch den Schnee.",
        _staircase,
        "masked",
        first_row=FIRST_FREE_ROW,
    ),
    _stop(
        "no-positions",
        "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd.",
        _translates(("shirt", "Hemd")),
        asks="order",
        trial=without_positions("red", "blue"),
        blocks=_POSITIONS,
    ),
    _stop(
        "no-mask",
        "Zwei Hunde laufen durch den Schnee.",
        _staircase,
        "leak",
        without_mask,
        first_row=FIRST_FREE_ROW,
    ),
    _stop(
        "q-k",
        "Zwei junge Männer spielen im Park Fußball.",
        _translates(("soccer", "Fußball")),
        trial=two_vectors,
    ),
    _stop(
        "ohne",
        "Ein Mann ohne Hut sitzt auf einer Bank.",
        _most_on("ohne"),
        asks="wins",
        trial=two_searches,
        blocks=_SEARCH,
    ),
    _stop(
        "igel",
        "Ein Igel läuft durch den Garten.",
        _most_on("Igel"),
        trial=translates_word("Igel", "hedgehog"),
    ),
)

_FROM_ENGLISH = (
    _stop("buy", "A man wants to buy a washing machine.", _translates(("kaufen", "buy"))),
    _stop(
        "street-musician",
        "A street musician is playing guitar at a bus stop.",
        _compound("Straßenmusiker", "street", "musician"),
    ),
    _stop(
        "preparing",
        "A woman is preparing the food in the kitchen.",
        _translates(("bereitet", "preparing"), ("zu", "preparing")),
    ),
    _stop(
        "shirt",
        "A man in a red shirt is talking to a man in a blue shirt.",
        _translates(("Hemd", "shirt")),
    ),
    _stop("back", "A little boy is sitting on a swing.", _previous, first_row=1),
    _stop(
        "sink",
        "Two young men are playing soccer in the park.",
        _attention_to_bos,
        first_row=FIRST_FREE_ROW,
    ),
    _stop(
        "ahead",
        "Two dogs are running through the snow.",
        _staircase,
        "masked",
        first_row=FIRST_FREE_ROW,
    ),
    _stop(
        "no-positions",
        "A man in a red shirt is talking to a man in a blue shirt.",
        _translates(("Hemd", "shirt")),
        asks="order",
        trial=without_positions("roten", "blauen"),
        blocks=_POSITIONS,
    ),
    _stop(
        "no-mask",
        "Two dogs are running through the snow.",
        _staircase,
        "leak",
        without_mask,
        first_row=FIRST_FREE_ROW,
    ),
    _stop(
        "q-k",
        "A man wants to buy a washing machine.",
        _translates(("kaufen", "buy")),
        trial=two_vectors,
    ),
    _stop(
        "mouse",
        "The cat chases the mouse.",
        _most_on("mouse"),
        asks="wins",
        trial=two_searches,
        blocks=_SEARCH,
    ),
    _stop(
        "without",
        "A man without a hat is sitting on a bench.",
        _most_on("without"),
        trial=translates_word("without", "ohne", "hutlos", "hutloser"),
    ),
)

STOPS = {"de-en": _FROM_GERMAN, "en-de": _FROM_ENGLISH}
