"""Roles that a head may have, each defined by the keys that are a query's targets in a sentence.

Axes: Q queries, K keys of one sentence's map of a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from core.atlas.corpus import Corpus, Sentence
from core.frozen import Bools, Doubles
from core.kinds import KINDS, Kind
from core.record.words import group_words, is_punctuation
from core.text.function_words import function_words
from core.text.line import words_of_line
from core.text.tokenizer import Token

Tokens = tuple[Token, ...]


_SEED = 3

ITSELF = "itself"
"""The only self-attention role for which a query's own position is a target."""


def diagonal(queries: int, keys: int) -> NDArray[np.int64]:
    """Return the key on the monotone diagonal for each query q, round(q·(K−1)/(Q−1)): [Q]."""
    return np.rint(np.arange(queries) * (keys - 1) / max(queries - 1, 1)).astype(np.int64)


def reordered(sentence: Sentence) -> Sentence:
    """Put the source's tokens in a random order that depends only on the sentence's index.

    Special tokens stay in place: <eos> at the end, and any others in front.
    """
    lead, _ = sentence.leads
    text = sentence.source[lead:-1]
    order = np.random.default_rng((_SEED, sentence.index)).permutation(len(text))
    source = (*sentence.source[:lead], *(text[i] for i in order), sentence.source[-1])
    return replace(sentence, source=source, gold=None)


def visible(kind: Kind, queries: int, keys: int) -> Bools:
    """Return which keys each query may see, [Q, K]: all, except later ones in the decoder."""
    cells = np.ones((queries, keys), np.bool_)
    return np.tril(cells) if kind == "decoder" else cells


@dataclass(frozen=True)
class Facts:
    """The facts about a corpus that roles need: token counts by id, each language's function words.

    Function words are in lower case; None if there is no list for the language. `notes` has one
    line for each part of the corpus on which a role cannot be measured.
    """

    source_counts: Mapping[int, int]
    target_counts: Mapping[int, int]
    # Not in `repr`, which identifies a measure: the order of a set differs between processes.
    source_function_words: frozenset[str] | None = field(repr=False)
    target_function_words: frozenset[str] | None = field(repr=False)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, corpus: Corpus) -> Facts:
        """Collect the facts of a corpus. Only sentences with alignments are read."""
        notes: list[str] = []
        lists: list[frozenset[str] | None] = []
        for language in (corpus.source_language, corpus.target_language):
            try:
                lists.append(function_words(language))
            except ValueError as error:
                lists.append(None)
                notes.append(str(error))
        if any(line.gold is not None for line in corpus.lines):
            for sentence in corpus.sentences:
                try:
                    _aligned_words(sentence)
                except ValueError as error:
                    notes.append(f"the alignment of line {sentence.index + 1} is not used: {error}")
        return cls(corpus.source_counts, corpus.target_counts, *lists, tuple(dict.fromkeys(notes)))


def _words(tokens: Tokens) -> list[str]:
    """Return the text of each word, in the order of `group_words`."""
    return ["".join(tokens[i].text for i in word) for word in group_words(tokens)]


@dataclass(frozen=True)
class Maps:
    """What roles need about one sentence's maps of one kind, such as the tokens along both axes."""

    kind: Kind
    sentence: Sentence
    facts: Facts

    @cached_property
    def queries(self) -> Tokens:
        """The tokens along axis Q: the source in the encoder, else the decoder's input tokens."""
        return self.sentence.source if self.kind == "encoder" else self.sentence.target_in

    @cached_property
    def keys(self) -> Tokens:
        """The tokens along axis K."""
        return self.sentence.target_in if self.kind == "decoder" else self.sentence.source

    @property
    def shape(self) -> tuple[int, int]:
        """The lengths Q and K."""
        return len(self.queries), len(self.keys)

    @cached_property
    def visible(self) -> Bools:
        """Which keys each query may see: [Q, K]."""
        return visible(self.kind, *self.shape)

    @property
    def key_counts(self) -> Doubles:
        """The count of each key's token in the corpus; infinity for special tokens: [K]."""
        facts = self.facts
        counts = facts.target_counts if self.kind == "decoder" else facts.source_counts
        return np.array([np.inf if t.special else counts[t.id] for t in self.keys], np.float64)

    @property
    def function_words(self) -> frozenset[str] | None:
        """The function words of the keys' language, if known."""
        facts = self.facts
        return (
            facts.target_function_words if self.kind == "decoder" else facts.source_function_words
        )

    def of_keys(self, flags: Sequence[bool] | Bools) -> Bools:
        """Return the same target keys [K] for every query: [Q, K]."""
        return np.tile(np.asarray(flags, np.bool_), (len(self.queries), 1))

    def none(self) -> Bools:
        """Return no target at all: [Q, K]."""
        return np.zeros(self.shape, np.bool_)


@dataclass(frozen=True)
class Role:
    """A role: its name, the kinds it applies to, a definition for readers, and its source.

    `targets` returns a map's target keys, bool [Q, K]. A head's share of attention in a row is the
    sum of its weights on the targets. A role with `reordered` is measured in sentences whose source
    tokens are in random order, to tell attention to positions from attention to words. The targets
    of a `positional` role are at a fixed distance, so a distance profile already shows the role.
    """

    name: str
    kinds: tuple[Kind, ...]
    definition: str
    source: str
    targets: Callable[[Maps], Bools] = field(repr=False)  # its address differs between processes
    reordered: bool = False
    positional: bool = False

    def cells(self, maps: Maps) -> tuple[Bools, Bools]:
        """Return the target cells [Q, K] and which queries count [Q].

        In self-attention, a query's own position is a target only for the role "itself". A query
        counts if, of the keys that it may see, at least one is a target and at least one is not.
        The share of any other query is 0 or 1 for every head.
        """
        cells = self.targets(maps) & maps.visible
        if maps.kind != "cross" and self.name != ITSELF:
            np.fill_diagonal(cells, False)
        counts = np.logical_or.reduce(cells, -1)
        counts &= np.logical_or.reduce(maps.visible & ~cells, -1)
        return cells, counts


def _previous(maps: Maps) -> Bools:
    return np.eye(*maps.shape, k=-1, dtype=np.bool_)


def _next(maps: Maps) -> Bools:
    return np.eye(*maps.shape, k=1, dtype=np.bool_)


def _itself(maps: Maps) -> Bools:
    return np.eye(*maps.shape, dtype=np.bool_)


def _start(maps: Maps) -> Bools:
    return maps.of_keys(np.arange(len(maps.keys)) == 0)


def _end(maps: Maps) -> Bools:
    return maps.of_keys(np.arange(len(maps.keys)) == len(maps.keys) - 1)


def _punctuation(maps: Maps) -> Bools:
    return maps.of_keys([is_punctuation(token.text) for token in maps.keys])


def _same_word(maps: Maps) -> Bools:
    word = np.empty(len(maps.keys), np.int64)
    for number, positions in enumerate(group_words(maps.keys)):
        word[list(positions)] = number
    return word[:, None] == word


def _earlier_copy(maps: Maps) -> Bools:
    # The text tells unknown tokens apart, which share one id.
    names = [None if token.special else (token.id, token.text) for token in maps.keys]
    return np.tril(_equal(names, names), -1)


def _rarest(maps: Maps) -> Bools:
    counts_QK = np.where(maps.visible, maps.key_counts, np.inf)
    least_Q1 = counts_QK.min(-1, keepdims=True)
    return (counts_QK == least_Q1) & np.isfinite(counts_QK)


def _function_words(maps: Maps) -> Bools:
    if maps.function_words is None:
        return maps.none()
    flags = np.zeros(len(maps.keys), np.bool_)
    for word, text in zip(group_words(maps.keys), _words(maps.keys), strict=True):
        flags[list(word)] = text.lower() in maps.function_words
    return maps.of_keys(flags)


def _diagonal(maps: Maps) -> Bools:
    distance_QK = np.arange(len(maps.keys)) - diagonal(*maps.shape)[:, None]
    return np.abs(distance_QK) <= 1


def _copy_of_fed(maps: Maps) -> Bools:
    return _equal(_forms(maps.queries), _forms(maps.keys))


def _copy_of_produced(maps: Maps) -> Bools:
    return _equal(_forms(maps.sentence.target), _forms(maps.keys))


def _forms(tokens: Tokens) -> list[tuple[str, bool] | None]:
    """Return each token's text and whether it starts a word.

    The flag tells the word “a” from an “a” inside a word. Special tokens, punctuation and lone word
    boundaries are None.
    """
    return [
        None if t.special or not t.text or is_punctuation(t.text) else (t.text, t.starts_word)
        for t in tokens
    ]


def _equal(queries: Sequence[object], keys: Sequence[object]) -> Bools:
    """Compare each query with each key; None equals nothing: [Q, K]."""
    return np.array([[q is not None and q == k for k in keys] for q in queries], np.bool_)


def _aligned_to_fed(maps: Maps) -> Bools:
    cells = maps.none()
    produced = _aligned_to_produced(maps)
    cells[1:] = produced[:-1]  # row t is fed the token that row t − 1 produced
    return cells


def _aligned_to_produced(maps: Maps) -> Bools:
    cells = maps.none()
    try:
        words = _aligned_words(maps.sentence)
    except ValueError:  # reported in the notes of Facts
        words = None
    if words is not None and maps.sentence.gold is not None:
        of_source, of_target = map(np.array, words)
        of_keys, of_rows = (slice(lead, -1) for lead in maps.sentence.leads)
        for source, target in maps.sentence.gold.sure:
            # The last row produces <eos> and the last key is <eos>: neither is part of a word.
            cells[of_rows, of_keys] |= (of_target == target)[:, None] & (of_source == source)
    return cells


def _aligned_words(sentence: Sentence) -> tuple[Sequence[int], Sequence[int]] | None:
    """Return the word of each source and target token that is not special, or None without gold.

    Raises ValueError for an alignment that does not fit the text.
    """
    if not sentence.gold:
        return None
    texts = [words_of_line(text) for text in (sentence.source_text, sentence.reference)]
    for link in sentence.gold.possible:
        if link[0] >= len(texts[0]) or link[1] >= len(texts[1]):
            raise ValueError(
                f"it links word {link[0]} to word {link[1]} (counted from 0), but the sides have "
                f"{len(texts[0])} and {len(texts[1])} words"
            )
    return sentence.words


_SELF: tuple[Kind, ...] = ("encoder", "decoder")
_CROSS: tuple[Kind, ...] = ("cross",)
_HERE = "this project"

ROLES: tuple[Role, ...] = (
    Role(
        "previous token",
        _SELF,
        "Attends to the token just before the query.",
        "Voita et al. 2019, §5.1 (there: the largest weight; here: the share of attention)",
        _previous,
        positional=True,
    ),
    Role(
        "next token",
        ("encoder",),
        "Attends to the token just after the query.",
        "Voita et al. 2019, §5.1 (there: the largest weight; here: the share of attention)",
        _next,
        positional=True,
    ),
    Role(
        ITSELF,
        _SELF,
        "Attends to the query's own position.",
        "Clark et al. 2019, §3.1 (there: most heads of BERT put little attention here)",
        _itself,
        positional=True,
    ),
    Role(
        "sentence start",
        KINDS,
        "Attends to the first position: the first source token or, in the decoder, <bos>.",
        "Clark et al. 2019, §3.2 (there: BERT's [CLS])",
        _start,
    ),
    Role(
        "<eos>",
        ("encoder", "cross"),
        "Attends to <eos>, the last position of the source.",
        "Clark et al. 2019, §3.2 (there: BERT's [SEP])",
        _end,
    ),
    Role(
        "punctuation",
        KINDS,
        "Attends to punctuation marks; in self-attention, only to those at other positions than "
        "the query.",
        "Clark et al. 2019, §3.2",
        _punctuation,
    ),
    Role(
        "same word",
        _SELF,
        "Attends to the other tokens of the query's own word, if the word has several.",
        "Correia et al. 2019 (there: a BPE-merging head)",
        _same_word,
    ),
    Role(
        "earlier copy",
        _SELF,
        "Attends to earlier occurrences of the query's own token.",
        "Wang et al. 2022 (there: a duplicate token head)",
        _earlier_copy,
    ),
    Role(
        "rarest token",
        KINDS,
        "Attends to the token that is rarest in the corpus among those that the query may see, or "
        "to all such tokens if several tie. A query that is itself the only rarest token is left "
        "out.",
        "Voita et al. 2019, §5.3 (there: the largest weight; here: the share of attention)",
        _rarest,
    ),
    Role(
        "function words",
        KINDS,
        "Attends to words in spaCy's list of stop words: articles, pronouns, prepositions and "
        "other frequent words, among them some verbs and adjectives. In self-attention, only "
        "positions other than the query's count.",
        _HERE,
        _function_words,
    ),
    Role(
        "diagonal",
        _CROSS,
        "Attends as far along the source as the query is along the target, give or take one "
        "position. It is measured with the source tokens in random order. Otherwise, where word "
        "orders are similar, every head that finds the translation would seem to go by position.",
        _HERE,
        _diagonal,
        reordered=True,
        positional=True,
    ),
    Role(
        "copy of fed token",
        _CROSS,
        "Attends to source tokens spelled like the target token that the decoder is fed; "
        "punctuation is left out.",
        _HERE,
        _copy_of_fed,
    ),
    Role(
        "copy of produced token",
        _CROSS,
        "Attends to source tokens spelled like the target token to be produced; punctuation is "
        "left out.",
        _HERE,
        _copy_of_produced,
    ),
    Role(
        "aligned to fed token",
        _CROSS,
        "Attends to the source word that is manually aligned (sure links) to the target token that "
        "the decoder is fed.",
        "Chen et al. 2020, abstract (alignment from the decoder's input)",
        _aligned_to_fed,
    ),
    Role(
        "aligned to produced token",
        _CROSS,
        "Attends to the source word that is manually aligned (sure links) to the target token to "
        "be produced.",
        "the baseline in Chen et al. 2020, abstract",
        _aligned_to_produced,
    ),
)
"""All roles, in the order in which they are shown."""

GOLD_ROLES: tuple[Role, ...] = tuple(role for role in ROLES if role.name.startswith("aligned to"))
"""The roles that need manual alignments, which may belong to another text."""
