"""A generated language pair with known alignments, and a network with planted aligning heads.

A method that finds or scores alignments must find what was planted. The pair has what makes real
alignments hard: different word order, words with two translations or none, words of several tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice, product
from pathlib import Path

import numpy as np
import torch
from torch import nn

from core.analysis.alignment import Gold
from core.checkpoint.folder import save
from core.config import ModelConfig
from core.model.build import build
from core.model.transformer import MultiHeadAttention, Transformer
from core.text.subwords import SubwordTokenizer
from core.text.tokenizer import BOS, EOS, SPECIALS

ENTRIES = 16
"""The number of source words in the language."""

_SHORTEST, _LONGEST = 4, 9  # source words of a sentence
_SHARPNESS = 40.0  # scales a planted head's queries: the aligned word gets all weight but 1e-6
_BOUNDARY = "▁"

Word = tuple[str, ...]
"""A word as its syllables, each of which is a token that no other word has."""


@dataclass(frozen=True)
class Language:
    """A dictionary: source word k, of one to three syllables, is translated by `target[k]`.

    Every fifth word has two translations, which follow each other; every seventh has none.
    """

    source: tuple[Word, ...]
    target: tuple[tuple[Word, ...], ...]

    def pairs(self, count: int, seed: int = 0) -> list[tuple[tuple[str, str], Gold]]:
        """Draw sentence pairs, words separated by spaces, and their alignments: all links are sure.

        No source word occurs twice. The target order is the source order with a block of words
        moved to the end. At least one word has a translation.
        """
        random = np.random.default_rng(seed)
        drawn = []
        while len(drawn) < count:
            words = random.permutation(ENTRIES)[: random.integers(_SHORTEST, _LONGEST + 1)]
            start, end = sorted(random.choice(len(words) + 1, 2, replace=False))
            order = [*range(start), *range(end, len(words)), *range(start, end)]
            target = [(place, word) for place in order for word in self.target[words[place]]]
            if target:
                texts = (
                    " ".join("".join(self.source[k]) for k in words),
                    " ".join("".join(word) for _, word in target),
                )
                links = ((place, at, True) for at, (place, _) in enumerate(target))
                drawn.append((texts, Gold.of(links)))
        return drawn


def language() -> Language:
    """Return the language, which is always the same."""
    of_source, of_target = _syllables("bdfgklmn"), _syllables("pqrstvwz")
    source = tuple(tuple(islice(of_source, 1 + k % 3)) for k in range(ENTRIES))
    target = tuple(
        tuple(tuple(islice(of_target, 1 + (k + n) % 2)) for n in range(_fertility(k)))
        for k in range(ENTRIES)
    )
    return Language(source, target)


def plant(
    folder: Path,
    heads: Mapping[tuple[int, int], Iterable[int]],
    languages: tuple[str, str] = ("xx", "yy"),
    reverse: bool = False,
) -> None:
    """Write a checkpoint whose cross-attention `heads` (layer, head) align the given entries.

    If the token that a row is fed translates one of a planted head's entries, the head attends to
    all tokens of that source word. Otherwise it attends about evenly. Its links are therefore right
    in the reading "input" and wrong in "output", whose rows are fed the preceding token. All other
    heads attend evenly. The network has 1 encoder layer and 2 decoder layers of 2 heads. Embeddings
    are one-hot by entry, there are no positions, and self-attention and feed-forward layers output
    0. `reverse` swaps the two sides.
    """
    made = language()
    entries = [tuple((word,) for word in made.source), made.target]
    if reverse:
        entries.reverse()
    sides = [_tokenizer(word for words in side for word in words) for side in entries]
    sizes = [tokenizer.size for tokenizer in sides]
    config = ModelConfig(
        source_vocab_size=sizes[0],
        target_vocab_size=sizes[1],
        d_model=2 * ENTRIES,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=2,
        dim_feedforward=4,
        dropout=0.0,
        learned_positions=True,
        max_length=64,
    )
    network = build("scratch", config)
    assert isinstance(network, Transformer)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:  # norms keep their scale of 1
                parameter.zero_()
        table_of = network.embeddings.source_table.weight, network.embeddings.target_table.weight
        for tokenizer, table_VD, words in zip(sides, table_of, entries, strict=True):
            for special in (BOS, EOS):
                table_VD[special, ENTRIES + special] = 1
            for k, syllables in enumerate(words):
                for token in tokenizer.encode(" ".join("".join(word) for word in syllables)):
                    table_VD[token.id, k] = 1
        for site in network.attention_sites():
            if site.kind == "cross":
                _plant_heads(
                    site.module,
                    {head: known for (layer, head), known in heads.items() if layer == site.layer},
                )
    save(folder, network, "scratch", languages, (sides[0], sides[1]), {}, {})


def _plant_heads(site: nn.Module, words: Mapping[int, Iterable[int]]) -> None:
    """Make each head's queries and keys agree in the dimensions of its words alone."""
    assert isinstance(site, MultiHeadAttention)
    for head, known in words.items():
        for k in known:
            site.query.weight[head * ENTRIES + k, k] = _SHARPNESS
            site.key.weight[head * ENTRIES + k, k] = 1
    site.value.weight[:, :ENTRIES] = torch.eye(ENTRIES).repeat(2, 1)
    site.output.weight += 0.01 * torch.eye(2 * ENTRIES)


def _fertility(k: int) -> int:
    return 0 if k % 7 == 6 else 2 if k % 5 == 4 else 1


def _syllables(consonants: str) -> Iterator[str]:
    return ("".join(pair) for pair in product(consonants, "aeiou"))


def _tokenizer(words: Iterable[Word]) -> SubwordTokenizer:
    """Return a tokenizer with two tokens per syllable: at the start of a word, and inside."""
    syllables = sorted({syllable for word in words for syllable in word})
    merges = [list(s) for s in syllables] + [[_BOUNDARY, s] for s in syllables]
    letters = sorted({letter for s in syllables for letter in s})
    entries = [*SPECIALS, _BOUNDARY, *letters, *syllables, *(_BOUNDARY + s for s in syllables)]
    vocabulary = dict(zip(entries, count()))
    return SubwordTokenizer.from_json({"vocabulary": vocabulary, "merges": merges})
