"""The guided tour: sentences in which an effect shows, and how to find the head that shows it."""

from collections.abc import Callable
from dataclasses import dataclass

from core.analysis import roles
from core.record.record import TranslationRecord

FIRST_FREE_ROW = 2  # of the decoder: the rows before it may look at one or two tokens only


@dataclass(frozen=True)
class Highlight:
    """What to show of a record: a head, the share that was measured, perhaps a row pinned."""

    kind: str
    head: roles.Strongest
    query: int | None = None


@dataclass(frozen=True)
class Stop:
    """One stop: a sentence, what to look for, and how to find it in the model's record.

    `measured` completes "Here layer … head … puts 90 % of its weight …". `find` raises LookupError
    where a model's translation lacks the words that it needs.
    """

    title: str
    source: str
    look_for: str
    measured: str
    find: Callable[[TranslationRecord], Highlight]


def _translates(*pairs: tuple[str, str]) -> Callable[[TranslationRecord], Highlight]:
    """The cross-attention head that best looks from each target word at its source word."""

    def find(record: TranslationRecord) -> Highlight:
        cells: list[tuple[int, list[int]]] = []
        for target_word, source_word in pairs:
            rows = roles.positions(record.target_out, target_word)
            columns = roles.positions(record.source, source_word)
            if len(rows) < 1 or len(columns) < len(rows):
                raise LookupError(f"this model did not write {target_word!r} for {source_word!r}")
            cells += [(row[0], keys) for row, keys in zip(rows, columns, strict=False)]
        head = roles.strongest(roles.on_cells(record.cross, cells))
        return Highlight("cross", head, cells[-1][0])

    return find


def _compound(target_word: str, *source_words: str) -> Callable[[TranslationRecord], Highlight]:
    """The head whose rows for the tokens of one word look at these words, one after the other."""

    def find(record: TranslationRecord) -> Highlight:
        words = roles.positions(record.target_out, target_word)
        columns = [roles.positions(record.source, word) for word in source_words]
        if not words or not all(columns):
            raise LookupError(f"this model did not write {target_word!r}")
        if len(words[0]) < len(source_words):
            raise LookupError(f"this model writes {target_word!r} as a single token")
        cells = [(row, keys[0]) for row, keys in zip(words[0], columns, strict=False)]
        head = roles.strongest(roles.on_cells(record.cross, cells))
        return Highlight("cross", head, words[0][0])

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
        raise LookupError("this model wrote too few tokens to have a third row")


def _back_by_one(source: str) -> Stop:
    return Stop(
        "A head that looks back by one",
        source,
        "Some heads of the encoder care for positions, not for meaning: this one looks at the "
        "token before. Look for the dark line just below the diagonal.",
        "on the token before",
        _previous,
    )


def _nothing_to_look_for(source: str) -> Stop:
    return Stop(
        "Nothing to look for",
        source,
        "The weights of a row must sum to 1, even where there is nothing to look for. Heads of the "
        "decoder then give them to <bos>, which stands first in every sentence and means nothing: "
        "an attention sink. Look for the first column.",
        "on <bos>, over all rows from the third",
        _attention_to_bos,
    )


def _never_ahead(source: str) -> Stop:
    return Stop(
        "Never ahead",
        source,
        "The decoder may look back at what is written, never ahead: everything right of the "
        "staircase is hatched, which means masked, not unused. The head shown keeps closest to "
        "that edge.",
        "on the token just fed in, the last that it may look at, over all rows from the third",
        _staircase,
    )


_FROM_GERMAN = (
    Stop(
        "A word that moves",
        "Zwei junge Männer spielen im Park Fußball.",
        "German puts Fußball last, English writes soccer in the middle. While it produces soccer, "
        "the model looks at the end of the German sentence: the line of dark cells leaves the "
        "diagonal.",
        "on Fußball while producing soccer",
        _translates(("soccer", "Fußball")),
    ),
    Stop(
        "One word becomes two",
        "Ein Straßenmusiker spielt an einer Bushaltestelle Gitarre.",
        "Straßenmusiker is one German word, split into tokens; English needs two words. The rows "
        "of street and of musician both look at tokens of that one word.",
        "on the tokens of Straßenmusiker while producing street and musician",
        _translates(("street", "Straßenmusiker"), ("musician", "Straßenmusiker")),
    ),
    Stop(
        "The same word twice",
        "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd.",
        "Two men, two shirts. The word alone cannot tell which Hemd is meant; its position can. "
        "The first shirt looks at the first Hemd, the second at the second.",
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
        "English says buy in the middle, German puts kaufen last. While it produces kaufen, the "
        "model looks back to the middle of the English sentence: the dark cells leave the "
        "diagonal.",
        "on buy while producing kaufen",
        _translates(("kaufen", "buy")),
    ),
    Stop(
        "Two words become one",
        "A street musician is playing guitar at a bus stop.",
        "A street musician is two English words and one German one, Straßenmusiker, which the "
        "model writes token by token. Its first token looks at street, the next at musician.",
        "on street, then on musician, while producing the first tokens of Straßenmusiker",
        _compound("Straßenmusiker", "street", "musician"),
    ),
    Stop(
        "One verb in two places",
        "A woman is preparing the food in the kitchen.",
        "The German verb is split: bereitet stands second, its other half, zu, at the end. Both "
        "rows look at the one English verb, far apart as they are.",
        "on preparing, while producing bereitet and while producing zu",
        _translates(("bereitet", "preparing"), ("zu", "preparing")),
    ),
    Stop(
        "The same word twice",
        "A man in a red shirt is talking to a man in a blue shirt.",
        "Two men, two shirts. The word alone cannot tell which shirt is meant; its position can. "
        "The first Hemd looks at the first shirt, the second at the second.",
        "on its own shirt, over both times that Hemd is produced",
        _translates(("Hemd", "shirt")),
    ),
    _back_by_one("A little boy is sitting on a swing."),
    _nothing_to_look_for("Two young men are playing soccer in the park."),
    _never_ahead("Two dogs are running through the snow."),
)

STOPS = {"de-en": _FROM_GERMAN, "en-de": _FROM_ENGLISH}
