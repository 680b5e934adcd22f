"""The tokenizer protocol, its tokens, the four special ids, and text normalisation."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Protocol, Self

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
PAD, BOS, EOS, UNK = range(4)
BOUNDARY = "▁"
"""U+2581, marks the space before a word in subwords and pieces."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token as the model sees it and as it is displayed.

    `piece` is the vocabulary entry. `text` is the surface form without a word-boundary mark; for an
    unknown token, it is the text as typed.
    """

    id: int
    piece: str
    text: str
    starts_word: bool = True
    special: bool = False
    unknown: bool = False


def special(id: int) -> Token:
    """Return the token of a special id."""
    return Token(id, SPECIALS[id], SPECIALS[id], special=True)


@dataclass(frozen=True)
class Frame:
    """What a network reads and writes around a text, beside <bos> and <eos>.

    `first` are the ids in front of every source, such as <bos> or the token of its language;
    `forced` those with which every target begins, after <bos>. `languages` holds the id of each
    language's token by its code, such as "de_DE"; it is empty if the network has no such tokens.
    `controls` are the ids of other special tokens, such as <mask>: no text is read as one, and
    decoding skips them. `prefix` is the text in front of every source, such as T5's "translate
    English to German: ", which `core.text.line.encode_source_line` puts there.
    """

    first: tuple[int, ...] = ()
    forced: tuple[int, ...] = ()
    languages: Mapping[str, int] = field(default_factory=dict)
    controls: frozenset[int] = frozenset()
    prefix: str = ""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read the frame in a tokenizer's JSON form, once core.text.vocabulary has checked it."""
        ids = {name: tuple(values.get(name, ())) for name in ("first", "forced")}
        controls = frozenset(values.get("controls", ()))
        return cls(
            **ids,
            languages=dict(values.get("languages", {})),
            controls=controls,
            prefix=values.get("prefix", ""),
        )

    def to_json(self) -> dict[str, Any]:
        """Return what is not empty, for a tokenizer's JSON form."""
        values: dict[str, Any] = {"first": list(self.first), "forced": list(self.forced)}
        values |= {"languages": dict(self.languages), "controls": sorted(self.controls)}
        return {name: value for name, value in values.items() if value} | (
            {"prefix": self.prefix} if self.prefix else {}
        )

    def prefixed(self, text: str) -> str:
        """Return a source with the prefix in front, unless it is empty or begins with it."""
        return text if not normalise(text) or text.startswith(self.prefix) else self.prefix + text

    @property
    def special(self) -> frozenset[int]:
        """The ids of all special tokens other than the four of SPECIALS."""
        return self.controls.union(self.languages.values())

    def language(self, code: str) -> int:
        """Return the id of a language's token. Raises ValueError, naming the nearest codes."""
        if not self.languages:
            raise ValueError(f"this network has no language codes: leave out {code[:40]!r}")
        if code not in self.languages:
            near = get_close_matches(code, self.languages, n=5, cutoff=0.0)
            raise ValueError(
                f"this network has no language {code[:40]!r}: the nearest of its "
                f"{len(self.languages)} codes are {', '.join(near)}"
            )
        return self.languages[code]


class Tokenizer(Protocol):
    """Text of one language ↔ ids. Special tokens that a user types are plain text."""

    frame: Frame = Frame()
    folds_quotes: bool = True
    """Whether `core.text.line.read` simplifies rare quotation marks for this tokenizer."""

    @property
    def first(self) -> tuple[int, ...]:
        """The ids in front of every source; see `Frame`."""
        return self.frame.first

    def between(
        self, source: str | None = None, target: str | None = None, prefix: str | None = None
    ) -> Self:
        """Return this tokenizer for other languages or another prefix; None keeps the present one.

        The source's token goes in front of every source, the target's is forced. Raises ValueError
        for an unknown code.
        """
        changed, frame = copy(self), self.frame
        if prefix is not None:
            frame = replace(frame, prefix=prefix)
        if source is not None:
            frame = replace(frame, first=(frame.language(source),))
        if target is not None:
            frame = replace(frame, forced=(frame.language(target),))
        changed.frame = frame
        return changed

    @property
    def size(self) -> int:
        """The number of ids, including the four special ones."""
        ...

    def encode(self, text: str) -> tuple[Token, ...]:
        """Tokenise a plain text, without <bos> and <eos>; see `core.text.line` for given lines."""
        return tuple(token for token, _ in self.placed(text))

    def placed(self, text: str) -> list[tuple[Token, int]]:
        """Return the tokens of `encode`, each with its offset in the normalised text.

        The offset of a token that begins with a word boundary is that of the space, if any.
        """
        ...

    def decode(self, ids: list[int]) -> str:
        """Return the text of ids; special ids are skipped, <unk> becomes ⁇.

        HTML escapes such as `&amp;` are resolved; the tokens keep them.
        """
        ...

    def token(self, id: int) -> Token:
        """Return the token of an id, as displayed in a translation. Raises ValueError."""
        if not 0 <= id < self.size:
            raise ValueError(f"a vocabulary of {self.size:,} tokens has no id {id}")
        if id < len(SPECIALS):
            return special(id)
        piece = self.piece(id)
        if id in self.frame.special:
            return Token(id, piece, piece, special=True)
        return Token(id, piece, piece.lstrip(BOUNDARY), piece.startswith(BOUNDARY))

    def written(self, ids: Sequence[int]) -> list[int]:
        """Return the ids that are text: without special ones, but with <unk>."""
        return [id for id in ids if id >= UNK and id not in self.frame.special]

    def piece(self, id: int) -> str:
        """Return the vocabulary's entry of an id."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return a JSON form from which `core.text.load` rebuilds the tokenizer."""
        ...


def encode_source(tokenizer: Tokenizer, text: str) -> tuple[Token, ...]:
    """Tokenise a source, without <eos>: the tokenizer's `first` ids, then the text.

    The `first` tokens count as special, even if they are ordinary entries. An empty text has no
    tokens at all.
    """
    return with_first(tokenizer, tokenizer.encode(text))


def with_first(tokenizer: Tokenizer, tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Put the tokenizer's `first` ids in front of a source's tokens, if there are any tokens."""
    if not tokens:
        return ()
    return (*_special(tokenizer, tokenizer.first), *tokens)


def with_forced(tokenizer: Tokenizer, tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Put the tokenizer's `forced` ids in front of a target's tokens."""
    return (*_special(tokenizer, tokenizer.frame.forced), *tokens)


def _special(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Token]:
    tokens = map(tokenizer.token, ids)
    return [replace(token, starts_word=True, special=True) for token in tokens]


_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos|#39|nbsp)(?:;|(?![A-Za-z0-9]))")
_CHARACTERS = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "#39": "'", "nbsp": " "}


def unescaped(text: str) -> str:
    """Replace `&amp;` and similar escapes by their characters.

    Corpora made from web pages contain them, so networks learn to generate them.
    """
    return _ENTITY.sub(lambda match: _CHARACTERS[match[1]], text)


_LEFT_OUT = dict.fromkeys((0xAD, 0x200B, 0x200C, 0x200E, 0x200F, 0x2060, 0xFEFF), "")
_FOLDED = {0x2010: "-", 0x2011: "-", 0x2212: "-", 0x1E9E: "ß"}
_FOLDED |= {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}
_TYPOGRAPHY = _LEFT_OUT | _FOLDED
"""Typographic characters: line-break hints, special hyphens, ligatures, ẞ."""


def normalise(text: str) -> str:
    """Normalise a text for the models: NFC, with each run of white space as one space.

    Typography is simplified: soft hyphens and zero-width spaces are removed, non-breaking hyphens
    become hyphens, and ligatures become letters. A lone surrogate becomes U+FFFD.
    """
    text = re.sub("[\ud800-\udfff]", "\ufffd", text).translate(_TYPOGRAPHY)
    return re.sub(r"\s+", " ", unicodedata.normalize("NFC", text)).strip()


def typography(text: str) -> tuple[str, ...]:
    """Return the distinct characters of a text that `normalise` removes or simplifies."""
    return tuple(dict.fromkeys(c for c in text if ord(c) in _TYPOGRAPHY))
