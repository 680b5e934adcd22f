"""Word vocabularies of imported networks: a word list, or a recount by torchtext's rule."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from core.data.corpora import LANGUAGES
from core.data.text_files import stream_lines
from core.files import printable
from core.foreign.family import Options, Vocabulary, special_rows
from core.foreign.sources import opened, shown
from core.text.tokenizer import BOS, BOUNDARY, SPECIALS
from core.text.vocabulary import MAX_TOKEN_CHARACTERS, UNPRINTABLE
from core.text.words import WordTokenizer, splitter

TORCHTEXT = ("<unk>", "<pad>", "<sos>", "<eos>")
"""The special words of torchtext's vocabularies, ids 0 to 3, unless a family has another order."""
_ALIASES = {"<bos>": "<sos>", "<s>": "<sos>", "</s>": "<eos>", "<blank>": "<pad>"}

_MAX_WORDS = 400_000  # read of a list, which is more than a table may have
_MAX_TEXT = 8 << 30  # bytes of a training text
_MAX_LINE = 100_000  # bytes of a line of a word list or a training text


def word_vocabularies(
    options: Options,
    sizes: tuple[int, int],
    min_count: int,
    lower: bool,
    order: tuple[str, ...] = TORCHTEXT,
) -> tuple[Vocabulary, Vocabulary]:
    """Return both sides' vocabularies, for tables of these sizes. Raises ValueError.

    `order` has the special words by their ids.
    """
    if bool(options.words) == bool(options.words_from):
        raise ValueError(
            "the file of weights does not hold the vocabulary: give the word lists with --words "
            "SOURCE TARGET, or the text it was trained on with --words-from SOURCE TARGET"
        )
    for language in options.languages:
        if language not in LANGUAGES:
            raise ValueError(
                f"words are split by spaCy's rules for {' and '.join(LANGUAGES.values())} only, "
                f"not {language}: this network cannot be converted"
            )
    files = options.words or options.words_from
    if len(files) != 2:
        raise ValueError(
            f"{len(files)} vocabulary files: give two, of the source and of the target"
        )
    source, target = (
        _vocabulary(file, language, size, not options.words, min_count, lower, order, first)
        for file, language, size, first in zip(
            files, options.languages, sizes, ((BOS,), ()), strict=True
        )
    )
    return source, target


def _vocabulary(
    file: Path,
    language: str,
    size: int,
    recount: bool,
    min_count: int,
    lower: bool,
    order: tuple[str, ...],
    first: tuple[int, ...],
) -> Vocabulary:
    if recount:
        words = count_words(file, language, min_count, lower)
    else:
        words, order = _listed(file, order)
    if len(words) + len(order) != size:
        how = "are counted in" if recount else "are in"
        remedy = "give the complete training text" if recount else "give the network's own list"
        raise ValueError(
            f"{len(words):,} words {how} {printable(str(file))}, "
            f"{len(words) + len(order):,} with the special ones, but the network's table has "
            f"{size:,} rows: {remedy}"
        )
    unknown, pad, start, end = (order.index(name) for name in TORCHTEXT)
    return Vocabulary(
        WordTokenizer(language, printable_words(words, file), lower, first),
        special_rows(pad, start, end, unknown, size),
    )


def count_words(file: Path, language: str, min_count: int, lower: bool) -> list[str]:
    """Return a text's words in the order of torchtext's vocabularies: by count, then by spelling.

    spaCy's white-space tokens count as words: without them, all later ids would shift.
    """
    split = splitter(language)
    counts: Counter[str] = Counter()
    for line in _lines(file):
        counts.update(word.text.lower() if lower else word.text for word in split(line))
    for special in (*TORCHTEXT, *_ALIASES):
        counts.pop(special, None)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [word for word, count in ordered if count >= min_count]


def _lines(file: Path) -> Iterator[str]:
    """Yield a regular file's lines. Raises ValueError, also for a pipe and for a huge line."""
    with opened(file, _MAX_TEXT):
        pass
    return stream_lines(file, _MAX_LINE)


def _listed(file: Path, order: tuple[str, ...]) -> tuple[list[str], tuple[str, ...]]:
    """Return a list's words, and its four special words, or those of `order` if it has none."""
    words = list(islice(_lines(file), _MAX_WORDS))
    head = tuple(_ALIASES.get(word, word) for word in words[: len(TORCHTEXT)])
    if set(head) == set(TORCHTEXT):
        return words[len(TORCHTEXT) :], head
    return words, order


def stand_in(word: str) -> str:
    """Return the word, or the codes of its characters if some are control characters or line ends.

    Spaces separate the codes, so no tokenizer can read a stand-in in a text. A word mark in front
    is kept.
    """
    if not UNPRINTABLE.search(word):
        return word
    bare = word.removeprefix(BOUNDARY)
    kind = "white space" if bare.isspace() else "characters"
    codes = " ".join([kind, *(f"U+{ord(c):04X}" for c in bare)])
    return BOUNDARY + codes if bare != word else codes


def printable_words(words: list[str], file: Path) -> list[str]:
    """Return the words with a stand-in for each that no vocabulary may hold, such as a tab.

    Raises ValueError for an empty, overlong or special word, and for a word that occurs twice.
    """
    where = f"the vocabulary of {shown(file)}"
    found = list(map(stand_in, words))
    for word, stands in zip(words, found, strict=True):
        if not word or len(stands) > MAX_TOKEN_CHARACTERS or word in SPECIALS:
            raise ValueError(
                f"{where} holds {printable(word[:40])!r}, which cannot be a word: it is empty, a "
                f"special token or longer than {MAX_TOKEN_CHARACTERS} characters; give the "
                "network's own list"
            )
    if len(set(found)) < len(found):
        ((twice, _),) = Counter(found).most_common(1)
        raise ValueError(
            f"{where} holds {printable(twice[:40])!r} twice: every word needs one id; give the "
            "network's own list"
        )
    return found
