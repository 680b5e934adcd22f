"""A generated language, and a network with hand-set weights in which one head plays each role.

Axes: D d_model, E size of one head, F features of a token: its position, then its id.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from core.analysis.alignment import Gold
from core.atlas.roles import ITSELF, ROLES
from core.checkpoint.configuration import ListedFile
from core.checkpoint.folder import Card, Checkpoint
from core.config import ModelConfig
from core.frozen import Doubles
from core.kinds import KINDS, Kind
from core.model.build import build
from core.model.transformer import Transformer
from core.record.edits import Head
from core.text.subwords import SubwordTokenizer
from core.text.tokenizer import EOS, SPECIALS

LANGUAGE = "en"
"""The language of both sides; in English, "a" and "i" are function words."""

_TRANSLATIONS = dict(zip("bcdefg", "opqrst", strict=True)) | dict(zip("aimn", "aimn", strict=True))
_LONG = {"hj": "uv", "kl": "wx"}  # words of two tokens, each at most once in a sentence
_STARTS = "".join((*_TRANSLATIONS, "opqrst", "hk", "uw"))
_LETTERS = _STARTS + "jlvx"
_POSITIONS = 16
_UNITS = 7  # the most units of two tokens in a sentence, so that <eos> fits too
_LAYERS, _HEADS = 3, 4
_SCORE = 30.0  # exp(30) outweighs all other keys of a row


@dataclass(frozen=True)
class Planted:
    """The network, sentence pairs with their alignments, and the head that plays each role."""

    checkpoint: Checkpoint
    pairs: tuple[tuple[str, str], ...]
    gold: tuple[Gold, ...]
    heads: Mapping[tuple[Kind, str], Head]


def planted(sentences: int = 60, seed: int = 0) -> Planted:
    """Generate sentences and build a network with a head for every role of every kind.

    A head's scores are a bilinear form of the query's and the key's features. They depend only on
    the positions and ids of these two tokens, so some roles rely on how sentences are built. A
    source and its target have equally many tokens, so the diagonal is where positions are equal.
    Positions come in pairs. The source word aligned to a target token covers the other position of
    the token's pair; the token's copy, if any, is at that position. All remaining heads attend
    evenly.
    """
    rng = random.Random(seed)
    generated = [_sentence(rng) for _ in range(sentences)]
    pairs = tuple((source, target) for source, target, _ in generated)
    tokenizer = _tokenizer()
    source_counts, target_counts = (
        Counter(token.id for pair in pairs for token in tokenizer.encode(pair[side]))
        for side in (0, 1)
    )
    counts: dict[Kind, Counter[int]] = {
        "encoder": source_counts,
        "decoder": target_counts,
        "cross": source_counts,
    }
    network = _network(tokenizer.size)
    heads: dict[tuple[Kind, str], Head] = {}
    for kind in KINDS:
        roles = [role.name for role in ROLES if kind in role.kinds]
        for number, role in enumerate(roles):
            layer, head = divmod(number, _HEADS)
            _plant(network, (kind, layer, head), _Forms(kind, tokenizer, counts[kind]).of(role))
            heads[kind, role] = (kind, layer, head)
    card = Card(
        folder=Path("planted"),
        architecture="scratch",
        source_language=LANGUAGE,
        target_language=LANGUAGE,
        model=network.config,
        training={},
        metrics={},
        weights=(file := ListedFile("", 0, "")),
        tokenizers=(file, file),
        sha256="",
    )
    checkpoint = Checkpoint(card, network, tokenizer, tokenizer)
    return Planted(checkpoint, pairs, tuple(gold for *_, gold in generated), heads)


def _sentence(rng: random.Random) -> tuple[str, str, Gold]:
    """Return a source, its translation and their alignment.

    A sentence is a sequence of units of two tokens: two words, which are swapped in the target; a
    word of two tokens; or a word and a comma.
    """
    source: list[str] = []
    target: list[str] = []
    links: list[tuple[int, int, bool]] = []
    long_words = rng.sample(sorted(_LONG), len(_LONG))
    for unit in rng.choices("swap long comma".split(), (4, 1, 2), k=rng.randint(3, _UNITS)):
        first = len(source)
        one, other = rng.choices([*_TRANSLATIONS], range(1, 1 + len(_TRANSLATIONS)), k=2)
        if unit == "comma" and one != _TRANSLATIONS[one]:  # copies are in swapped pairs only
            source.append(f"{one},")
            target.append(f"{_TRANSLATIONS[one]},")
            links.append((first, first, True))
        elif unit == "long" and long_words:
            word = long_words.pop()
            source.append(word)
            target.append(_LONG[word])
            links.append((first, first, True))
        else:
            source += one, other
            target += _TRANSLATIONS[other], _TRANSLATIONS[one]
            links += (first, first + 1, True), (first + 1, first, True)
    return " ".join(source), " ".join(target), Gold.of(links)


def _tokenizer() -> SubwordTokenizer:
    """Return a tokenizer with a token for each letter, and another for each that begins a word."""
    entries = [*SPECIALS, "▁", ",", *_LETTERS, *(f"▁{letter}" for letter in _STARTS)]
    return SubwordTokenizer.from_json(
        {
            "kind": "subwords",
            "vocabulary": {entry: id for id, entry in enumerate(entries)},
            "merges": [["▁", letter] for letter in _STARTS],
        }
    )


def _network(vocabulary: int) -> Transformer:
    """Return a network in which every layer sees the features of a token and changes nothing.

    The embedding of a token is 1 at its position and at its id, and 0 elsewhere. All such vectors
    have the same mean and variance, so each norm is set up to return its input. Sub-layers add 0.
    """
    features = _POSITIONS + vocabulary
    size = features + features % 2
    config = ModelConfig(
        source_vocab_size=vocabulary,
        target_vocab_size=vocabulary,
        d_model=_HEADS * size,
        num_heads=_HEADS,
        num_encoder_layers=_LAYERS,
        num_decoder_layers=_LAYERS,
        dim_feedforward=2,
        dropout=0.0,
        norm_first=True,
        learned_positions=True,
        max_length=_POSITIONS,
        share_embeddings=True,
        tie_classifier=True,
        scale_embeddings=False,
        final_norm=False,
    )
    network = build("scratch", config)
    assert isinstance(network, Transformer)
    D = config.d_model
    mean = 2 / D
    deviation = math.sqrt(mean * (1 - mean) + config.layer_norm_eps)
    identity_DD = torch.eye(D)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "norm" in name:
                parameter.fill_(deviation if name.endswith("weight") else mean)
            elif name == "embeddings.source_table.weight":
                parameter.copy_(identity_DD[_POSITIONS:features])
            elif name.endswith("positions.weight"):
                parameter.copy_(identity_DD[:_POSITIONS])
            else:
                parameter.zero_()
    return network.eval()


def _plant(network: Transformer, head: Head, form_FF: Doubles) -> None:
    """Give a head the scores form[f, g] of a query with feature f and a key with feature g."""
    kind, layer, number = head
    module = next(
        site.module
        for site in network.attention_sites()
        if (site.kind, site.layer) == (kind, layer)
    )
    F, E = len(form_FF), network.config.d_model // _HEADS
    first = number * E
    form = torch.from_numpy(form_FF).float()
    with torch.no_grad():
        _weight(module, "query")[first : first + F, :F] = form.T * math.sqrt(E)
        _weight(module, "key")[first : first + F, :F] = torch.eye(F)


def _weight(module: torch.nn.Module, name: str) -> Tensor:
    return getattr(module, name).weight


@dataclass(frozen=True)
class _Forms:
    """The forms [F, F] of heads that play a role: scores by query feature and key feature."""

    kind: Kind
    tokenizer: SubwordTokenizer
    counts: Counter[int]

    def of(self, role: str) -> Doubles:
        """Return the form of a role; KeyError if there is none."""
        P = _POSITIONS
        position = np.arange(P)
        form = np.zeros((P + self.tokenizer.size, P + self.tokenizer.size))
        at, tokens = form[:P, :P], form[P:, P:]  # by both positions; by both tokens
        any_query = form[:P]  # equal rows for all query positions, so for any query
        match role:
            case "previous token":
                at[position[1:], position[:-1]] = 1
            case "next token":
                at[position[:-1], position[1:]] = 1
            case "itself" | "diagonal":
                at[position, position] = 1
            case "sentence start":
                any_query[:, 0] = 1
            case "<eos>":
                any_query[:, P + EOS] = 1
            case "punctuation":
                any_query[:, P + self._id("b,")] = 1
            case "function words":
                any_query[:, [P + self._id("a"), P + self._id("i")]] = 1
            case "rarest token":
                for rank, count in enumerate(sorted(set(self.counts.values()), reverse=True)):
                    equally_rare = [id for id, n in self.counts.items() if n == count]
                    any_query[:, [P + id for id in equally_rare]] = 1 + rank
            case "same word":
                for word in (*_LONG, *_LONG.values()):
                    one, other = (token.id for token in self.tokenizer.encode(word))
                    tokens[one, other] = tokens[other, one] = 1
            case "earlier copy" | "copy of fed token":
                np.fill_diagonal(tokens, 1)
                if role == "earlier copy":
                    at[np.triu_indices(P)] = -2
            case "copy of produced token" | "aligned to produced token":
                at[position, position ^ 1] = 1
            case "aligned to fed token":
                at[position[1:], position[:-1] ^ 1] = 1
            case _:
                raise KeyError(role)
        if self.kind != "cross" and role != ITSELF:
            at[position, position] -= 2  # a query's own position is a target of no other role
        return _SCORE * form

    def _id(self, word: str) -> int:
        """Return the id of the last token of a word."""
        return self.tokenizer.encode(word)[-1].id
