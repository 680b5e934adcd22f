"""Training recipes by name: each one frozen configuration with its source."""

from dataclasses import dataclass
from typing import Any, Protocol

from core.config import TrainConfig
from core.text.tokenizer import Tokenizer

Pairs = list[tuple[str, str]]


class Vocabulary(Protocol):
    """How the two tokenizers of a network are learned from its training pairs."""

    def learn(self, pairs: Pairs, languages: tuple[str, str]) -> tuple[Tokenizer, Tokenizer]: ...


@dataclass(frozen=True)
class JointSubwords:
    """One BPE vocabulary for both sides."""

    size: int

    def learn(self, pairs: Pairs, languages: tuple[str, str]) -> tuple[Tokenizer, Tokenizer]:
        from core.text.subwords import SubwordTokenizer

        both = SubwordTokenizer.train((side for pair in pairs for side in pair), self.size)
        return both, both


@dataclass(frozen=True)
class Words:
    """spaCy's words, a vocabulary a side, of those that occur at least `min_count` times."""

    min_count: int
    lower: bool

    def learn(self, pairs: Pairs, languages: tuple[str, str]) -> tuple[Tokenizer, Tokenizer]:
        from core.text.words import WordTokenizer

        source, target = (
            WordTokenizer.train((pair[side] for pair in pairs), code, self.min_count, self.lower)
            for side, code in enumerate(languages)
        )
        return source, target


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A corpus, a vocabulary, the network's shape, and how it is trained."""

    name: str
    source: str
    corpus: str
    vocabulary: Vocabulary
    network: dict[str, Any]
    training: TrainConfig


_SMOKE_SHAPE = dict(
    d_model=16,
    num_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=2,
    dim_feedforward=32,
    norm_first=True,
)
_SMOKE_TRAINING = TrainConfig(
    steps=12,
    batch_tokens=256,
    warmup_steps=4,
    validate_every=4,
    snapshot_every=2,
    average_last=3,
)

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="tiny",
            source="the shape of Transformer-Tiny (Wu et al. 2021), pre-norm, cased joint BPE",
            corpus="multi30k",
            vocabulary=JointSubwords(6000),
            network=dict(
                d_model=128,
                num_heads=4,
                num_encoder_layers=4,
                num_decoder_layers=4,
                dim_feedforward=256,
                dropout=0.3,
                attention_dropout=0.0,
                norm_first=True,
                share_embeddings=True,
                tie_classifier=True,
            ),
            training=TrainConfig(steps=6000, warmup_steps=800, peak_lr=5e-3),
        ),
        Recipe(
            name="smoke",
            source="this project's tests: seconds, not quality",
            corpus="multi30k",
            vocabulary=JointSubwords(300),
            network=dict(**_SMOKE_SHAPE, share_embeddings=True, tie_classifier=True),
            training=_SMOKE_TRAINING,
        ),
        Recipe(
            name="smoke-words",
            source="this project's tests: the same with whole words",
            corpus="multi30k",
            vocabulary=Words(min_count=1, lower=False),
            network=_SMOKE_SHAPE,
            training=_SMOKE_TRAINING,
        ),
    )
}
