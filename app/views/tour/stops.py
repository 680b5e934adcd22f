"""Stops of the guided tour: sentences with an effect, and the head that shows it most."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from app.look.labels import ATTENTION, label, labels
from app.look.numbers import percent
from core.analysis import roles
from core.analysis.attribution import source_words
from core.record.record import TranslationRecord

FIRST_FREE_ROW = 2  # of the decoder: earlier rows can attend to one or two tokens only


@dataclass(frozen=True)
class Highlight:
    """What to show of a record: a head with its measured share, and a row to pin.

    `said` describes the map in plain text: the rows of a word and where each looks most.
    """

    kind: str
    head: roles.Strongest
    query: int | None = None
    said: str = ""


@dataclass(frozen=True)
class Stop:
    """One stop: a sentence, what to look for, and how to find it in the model's record.

    `look_for` describes only the sentence and the model's design, which all networks share; what a
    network does is measured. `measured` completes "it puts 90 % of its weight …". `find` raises
    LookupError if the translation lacks a word that it needs.
    """

    title: str
    source: str
    look_for: str
    measured: str
    find: Callable[[TranslationRecord], Highlight]


def measured(stop: Stop, shown: Highlight) -> tuple[str, str, str]:
    """Return the sentence about the head of a stop as plain text: before, the share, and after."""
    head = shown.head
    return (
        f"Of all heads of the {ATTENTION[shown.kind]}, layer {head.layer + 1} head "
        f"{head.head + 1} does this most: it puts",
        percent(head.share),
        f"of its weight {stop.measured}. {shown.said}".strip(),
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


def _translates(*pairs: tuple[str, str]) -> Callable[[TranslationRecord], Highlight]:
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
        return replace(
            shown, said=f"{shown.said} For a word of several tokens, the first one counts."
        )

    return find


def _compound(target_word: str, *source_words: str) -> Callable[[TranslationRecord], Highlight]:
    """Find the head whose rows for the tokens of one word look at these words in order."""

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


def _third_row(record: TranslationRecord) -> None:
    if record.decoder.shape[-1] <= FIRST_FREE_ROW:
        raise LookupError("This model wrote too few tokens to have a third row")


def _back_by_one(source: str) -> Stop:
    return Stop(
        "A head that looks back by one",
        source,
        "A head of the encoder may follow positions rather than words. This stop shows the head "
        "that looks most at the token before. Look at the line just below the diagonal.",
        "on the token before, over all rows from the second",
        _previous,
    )


def _nothing_to_look_for(source: str) -> Stop:
    return Stop(
        "A head with nothing to find",
        source,
        "The weights of a row sum to 1, even where a head finds nothing to look for. They have "
        "to go somewhere: often to the first token, which starts every translation "
        "and means nothing. That is called an attention sink. Look at the first column of the "
        "head that puts most there.",
        "on the first token, over all rows from the third",
        _attention_to_bos,
    )


def _never_ahead(source: str) -> Stop:
    return Stop(
        "Never ahead",
        source,
        "The decoder may look back at what is written, never ahead: all cells right of the "
        "staircase are hatched, which means masked, not unused. This stop shows the head that "
        "puts most on the edge, the last cell that is not masked.",
        "on the token just fed in, over all rows from the third",
        _staircase,
    )


_FROM_GERMAN = (
    Stop(
        "A word that moves",
        "Zwei junge Männer spielen im Park Fußball.",
        "The German sentence ends with Fußball; English has soccer right after the verb. Where "
        "does the model look while it produces soccer? Look for the cell that leaves the "
        "diagonal.",
        "on Fußball while producing soccer",
        _translates(("soccer", "Fußball")),
    ),
    Stop(
        "One word becomes two",
        "Ein Straßenmusiker spielt an einer Bushaltestelle Gitarre.",
        "Straßenmusiker is one German word, street musician two English ones. Do the rows of "
        "street and of musician both look at tokens of that one word?",
        "on the tokens of Straßenmusiker while producing street and musician",
        _translates(("street", "Straßenmusiker"), ("musician", "Straßenmusiker")),
    ),
    Stop(
        "The same word twice",
        "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd.",
        "Two men, two shirts. The word alone cannot tell which Hemd is meant; its position and its "
        "neighbours can. Which Hemd does each shirt look at?",
        "on its own Hemd, over both shirts",
        _translates(("shirt", "Hemd")),
    ),
    _back_by_one("Eine Frau bereitet in der Küche das Essen zu."),
    _nothing_to_look_for("Ein kleiner Junge sitzt auf einer Schaukel."),
    _never_ahead("Zwei Hunde laufen durch den Schnee."),
)

_FROM_ENGLISH = (
    Stop(
        "A word that moves",
        "A man wants to buy a washing machine.",
        "English has buy in the middle; in German an infinitive comes last. Where does the model "
        "look while it produces kaufen? Look for the cell that leaves the diagonal.",
        "on buy while producing kaufen",
        _translates(("kaufen", "buy")),
    ),
    Stop(
        "Two words become one",
        "A street musician is playing guitar at a bus stop.",
        "Street musician is two English words, Straßenmusiker one German one. If it is written "
        "in several tokens, which of them looks at street, and which at musician?",
        "on street, then on musician, while producing the first tokens of Straßenmusiker",
        _compound("Straßenmusiker", "street", "musician"),
    ),
    Stop(
        "One verb in two places",
        "A woman is preparing the food in the kitchen.",
        "The German verb zubereiten is split in a sentence: bereitet comes second, its other "
        "half, zu, at the end. Do both rows look at the one English verb?",
        "on preparing, while producing bereitet and while producing zu",
        _translates(("bereitet", "preparing"), ("zu", "preparing")),
    ),
    Stop(
        "The same word twice",
        "A man in a red shirt is talking to a man in a blue shirt.",
        "Two men, two shirts. The word alone cannot tell which shirt is meant; its position and "
        "its neighbours can. Which shirt does each Hemd look at?",
        "on its own shirt, over both times that Hemd is produced",
        _translates(("Hemd", "shirt")),
    ),
    _back_by_one("A little boy is sitting on a swing."),
    _nothing_to_look_for("Two young men are playing soccer in the park."),
    _never_ahead("Two dogs are running through the snow."),
)

STOPS = {"de-en": _FROM_GERMAN, "en-de": _FROM_ENGLISH}
