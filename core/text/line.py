"""A line as it is given: its words, the text that a network reads, and marks of other tools.

Words are what ASCII blanks part, as in fast_align, GIZA++ and Pharaoh files. Any other white space
or invisible character belongs to a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from core.text.tokenizer import Token, Tokenizer, normalise, with_first, with_forced

MARKS = {
    "tab": "a tab",
    "id": "an id in front",
    "language": "a language code",
    "escape": "HTML or Moses escapes",
    "hyphen": "Moses hyphens",
    "bpe": "BPE marks",
    "joiner": "OpenNMT joiners",
    "case": "OpenNMT case features",
    "piece": "SentencePiece marks",
    "wordpiece": "WordPiece marks",
    "tag": "HTML tags",
}
"""The marks of other tools, as named in a warning."""

_ID = re.compile(r"\A[ ]*[0-9]+\t(?:[a-z]{2,3}\t)?(?=[^\t]*\Z)")
_LANGUAGE = re.compile(
    r">>[A-Za-z]{2,3}(?:[_-][A-Za-z]+)*<<|__[a-z]{2,3}(?:_[A-Za-z]+)?__|<2[A-Za-z]{2,3}(?:[_-][A-Za-z]+)?>"
)
_HYPHEN = re.compile(r"@([-\u2013/,.:])@")
_CASE = re.compile("\uffe8([CLUMN])\\Z")
_TAG = re.compile(
    r"</?(?:a|b|big|blockquote|br|center|code|div|em|font|h[1-6]|hr|i|img|li|ol|p|pre|s|seg|small|"
    r"span|strong|sub|sup|table|td|th|tr|tt|u|ul)(?: [^<>]*)?/?>",
    re.IGNORECASE,
)
_NAMED = {
    **{"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "nbsp": "\u00a0", "bar": "|"},
    **{"lsqb": "[", "rsqb": "]", "auml": "ä", "ouml": "ö", "uuml": "ü", "Auml": "Ä", "Ouml": "Ö"},
    **{"Uuml": "Ü", "szlig": "ß", "eacute": "é", "agrave": "à", "egrave": "è", "euro": "€"},
    **{"ndash": "–", "mdash": "—", "hellip": "…", "laquo": "«", "raquo": "»", "bdquo": "„"},
    **{"ldquo": "“", "rdquo": "”", "lsquo": "‘", "rsquo": "’", "sbquo": "‚", "deg": "°"},
    **{"shy": "\u00ad", "pound": "£", "copy": "©", "reg": "®", "times": "×", "frac12": "½"},
}
_ESCAPE = re.compile(rf"&(?:amp;)*(#[0-9]{{1,7}}|#[xX][0-9A-Fa-f]{{1,6}}|{'|'.join(_NAMED)});")
_FOUND: dict[str, re.Pattern[str]] = {
    "tab": re.compile("\t"),
    "id": _ID,
    "language": re.compile(rf"(?:(?<= )|^)(?:{_LANGUAGE.pattern})(?= |\Z)"),
    "escape": _ESCAPE,
    "hyphen": re.compile(rf"(?:(?<= )|^){_HYPHEN.pattern}(?= |\Z)"),
    "bpe": re.compile(r"(?<=[^ @])@@(?= |\Z)|</w>"),
    "joiner": re.compile("\uffed"),
    "case": re.compile("\uffe8[CLUMN](?= |\\Z)"),
    "piece": re.compile("(?:(?<= )|^)\u2581(?=[^ \u2581])"),
    "wordpiece": re.compile(r"(?<= )##(?=[^ #])"),
    "tag": _TAG,
}
_JOINS = "\uffed"

_QUOTES = dict.fromkeys("«»‟″‶〝〞〟＂❝❞", '"') | dict.fromkeys("‹›‛′‵´`ʹʼ＇❛❜", "'")
_PAIRED = re.compile("``|''|´´|‘‘|’’|‚‚|,,(?=[^ ,])")
_ENGLISH = dict.fromkeys("“”", '"')
_GERMAN = {"”": "“"}


@dataclass(frozen=True)
class Line:
    """A line as a network reads it.

    `words` are the words of the given line. `text` is what the tokenizer is given; its character i
    belongs to word `owners[i]`, a space to the word that follows it. A word of which nothing is
    read owns no character.
    """

    words: tuple[str, ...]
    text: str
    owners: tuple[int, ...]


def words_of_line(line: str) -> tuple[str, ...]:
    """Return the words of a line, which ASCII blanks part; runs of blanks make no empty word."""
    return tuple(word for word in line.split(" ") if word)


def marks(line: str, known: Collection[str] = ()) -> tuple[tuple[str, str], ...]:
    """Return the marks of other tools in a line, as kinds of MARKS, each with its first text.

    `known` are marks that the network was trained with, such as the language code that it needs.
    """
    found = []
    for kind, pattern in _FOUND.items():
        match = next((m for m in pattern.finditer(line) if m[0] not in known), None)
        if match and not (kind == "tab" and _ID.match(line)):
            found.append((kind, match[0].split("\t")[0].strip(" ")))
    return tuple(found)


def describe(found: tuple[tuple[str, str], ...], shown: Callable[[str], str] = str) -> str:
    """Name marks in one clause; `shown` makes invisible characters visible."""
    return ", ".join(MARKS[kind] + (f" (“{shown(text)}”)" if text else "") for kind, text in found)


def warning(line: str) -> str:
    """Return one clause about a line's marks of other tools, or "" without any."""
    found = marks(line)
    return f"{describe(found)}: give plain text" if found else ""


def read(line: str, kept: Collection[str] = (), quotes: bool = False) -> Line:
    """Read a line: resolve marks of other tools, and normalise each word.

    A mark of a `kept` kind stays as it is. With `quotes`, quotation marks that German and English
    training text hardly has become those that it has.
    """
    words = words_of_line(line)
    in_front = _ID.match(line)
    id_words = len(words_of_line(in_front[0])) if in_front else 0
    fold = _quotes_of(line) if quotes else str
    text, owners, joins = "", [], False
    for number, word in enumerate(words):
        if number < id_words:
            word = _without_id(word)
        part, before, after = _plain(word, number, len(words), kept)
        part = normalise(fold(part))
        if not part:
            joins = joins or before or after
            continue
        glued = text and (joins or before) and normalise(text + part) == text + part
        part = part if glued or not text else f" {part}"
        text += part
        owners += [number] * len(part)
        joins = after
    return Line(words, text, tuple(owners))


def _without_id(word: str) -> str:
    """Return what follows an id in the word that holds its tab, and nothing of one before it."""
    return word.rpartition("\t")[2]


def _plain(word: str, number: int, count: int, kept: Collection[str]) -> tuple[str, bool, bool]:
    """Return a word without marks, and whether it is joined to the words before and after it."""
    before = after = False
    if "language" not in kept and number in (0, count - 1) and _LANGUAGE.fullmatch(word):
        return "", False, False
    if "hyphen" not in kept and (match := _HYPHEN.fullmatch(word)):
        return match[1], True, True
    if "case" not in kept and (match := _CASE.search(word)):
        word = word[: match.start()]
        letters = word.lstrip(_JOINS)
        if match[1] == "U":
            word = word.upper()
        elif match[1] == "C":
            word = word[: len(word) - len(letters)] + letters[:1].upper() + letters[1:]
    if "joiner" not in kept and _JOINS in word:
        before, after = word.startswith(_JOINS), word.endswith(_JOINS)
        word = word.strip(_JOINS)
    if "bpe" not in kept and word.endswith("@@") and word.strip("@"):
        word, after = word[:-2], True
    if "wordpiece" not in kept and number and word.startswith("##") and word.strip("#"):
        word, before = word[2:], True
    if "escape" not in kept:
        word = _ESCAPE.sub(_character, word)
    return word, before, after


def _character(match: re.Match[str]) -> str:
    """Return the character of an escape; a number that is no visible one stays as it is."""
    name = match[1]
    if not name.startswith("#"):
        return _NAMED[name]
    code = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
    return chr(code) if 0x20 < code < 0x110000 and not 0xD800 <= code < 0xE000 else match[0]


def _quotes_of(line: str) -> Callable[[str], str]:
    """Return the quotation marks' replacement, which depends on the line: “ also closes a „."""
    table = str.maketrans(_QUOTES | (_GERMAN if "„" in line else _ENGLISH))
    return lambda word: _PAIRED.sub('"', word).translate(table)


@lru_cache(maxsize=8)
def _habits(tokenizer: Any) -> tuple[frozenset[str], bool]:
    """Return the kinds of marks that a vocabulary has learnt, and whether to fold quotes."""
    pieces = {tokenizer.token(id).piece.lstrip("\u2581") for id in range(tokenizer.size)}
    learnt = {
        "escape": {"apos", "quot"} <= pieces or {"&apos;", "&quot;"} <= pieces,
        "language": any(_LANGUAGE.fullmatch(piece) for piece in pieces),
        "hyphen": "@-@" in pieces,
        "bpe": any(piece.endswith("@@") for piece in pieces),
        "joiner": any(_JOINS in piece for piece in pieces),
        "case": any(_CASE.search(piece) for piece in pieces),
        "wordpiece": any(piece.startswith("##") and piece.strip("#") for piece in pieces),
    }
    kept = {kind for kind, is_learnt in learnt.items() if is_learnt}
    if "escape" in kept:  # trained on text of the Moses tokenizer, which writes @-@ as well
        kept.add("hyphen")
    return frozenset(kept), tokenizer.folds_quotes


def read_by(tokenizer: Tokenizer, line: str) -> Line:
    """Read a line as a network does whose vocabulary may have learnt marks of other tools."""
    return read(line, *_habits(tokenizer))  # ty: ignore[invalid-argument-type]


def plain(line: str, tokenizer: Tokenizer) -> str:
    """Return a line without the marks of other tools that `read_by` resolves, for scoring it."""
    return read(line, _habits(tokenizer)[0]).text if marks(line) else line  # ty: ignore


def tokens_and_words(tokenizer: Tokenizer, line: str) -> tuple[tuple[Token, ...], list[int]]:
    """Tokenise a line, without <bos> and <eos>, and return the given word of each token.

    Words are counted from 0 in `words_of_line`; a token belongs to the word in which it begins.
    White space other than the ASCII blank starts a token, but no word.
    """
    read_line = read_by(tokenizer, line)
    tokens, words = [], []
    for token, start in tokenizer.placed(read_line.text):
        start = min(start, len(read_line.owners) - 1)
        word = read_line.owners[start]
        inside = bool(words) and words[-1] == word and _after_space(read_line.text, start)
        tokens.append(replace(token, starts_word=token.starts_word and not inside))
        words.append(word)
    return tuple(tokens), words


def words_by_start(tokens: Sequence[Token | Any]) -> tuple[tuple[int, ...], ...]:
    """Return the token positions of each word of a translation; special tokens are in no word."""
    words: list[tuple[int, ...]] = []
    for position, token in enumerate(tokens):
        if token.special:
            continue
        if words and not token.starts_word:
            words[-1] += (position,)
        else:
            words.append((position,))
    return tuple(words)


def source_words(
    tokenizer: Tokenizer, line: str, tokens: Sequence[Token | Any]
) -> tuple[tuple[int, ...], ...]:
    """Return the positions of each given word's tokens; a word that is not read has none.

    `tokens` are those of the line, with special ones. If the tokenizer reads the line differently,
    words are those that the tokens begin.
    """
    whole = tokenizer.frame.prefixed(line)
    own, words = tokens_and_words(tokenizer, whole)
    in_front = len(words_of_line(whole)) - len(words_of_line(line))
    at = [position for position, token in enumerate(tokens) if not token.special]
    if [token.id for token in own] != [tokens[position].id for position in at]:
        return words_by_start(tokens)
    found: list[tuple[int, ...]] = [()] * len(words_of_line(line))
    for position, word in zip(at, words, strict=True):
        if word >= in_front:
            found[word - in_front] += (position,)
    return tuple(found)


def _after_space(text: str, start: int) -> bool:
    return text[start] == " " or (start > 0 and text[start - 1] == " ")


def encode_line(tokenizer: Tokenizer, line: str) -> tuple[Token, ...]:
    """Tokenise a given line, without <bos> and <eos>; see `tokens_and_words`."""
    return tokens_and_words(tokenizer, line)[0]


def encode_source_line(tokenizer: Tokenizer, line: str) -> tuple[Token, ...]:
    """Tokenise a given source line, without <eos>, with the prefix and the `first` ids in front."""
    return with_first(tokenizer, encode_line(tokenizer, tokenizer.frame.prefixed(line)))


def encode_target_line(tokenizer: Tokenizer, line: str) -> tuple[Token, ...]:
    """Tokenise a given target line, without <eos>, with the forced ids in front."""
    return with_forced(tokenizer, encode_line(tokenizer, line))
