"""Training recipes by name, each a frozen configuration with its source."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from core.config import TrainConfig
from core.data import dates
from core.data.augmentation import Augmentation
from core.text.tokenizer import Tokenizer

Corpora = Sequence[Iterable[tuple[str, str]]]


class Vocabulary(Protocol):
    """A way to learn both tokenizers; it reads the corpora repeatedly."""

    def learn(self, text: Corpora, languages: tuple[str, str]) -> tuple[Tokenizer, Tokenizer]: ...


@dataclass(frozen=True)
class _Sentences:
    """Re-iterable sentences of one or both sides of all corpora."""

    text: Corpora
    sides: tuple[int, ...]

    def __iter__(self) -> Iterator[str]:
        for pairs in self.text:
            for pair in pairs:
                for side in self.sides:
                    yield pair[side]


@dataclass(frozen=True)
class JointSubwords:
    """One BPE vocabulary for both sides; if `spelled`, it covers any name and splits digits."""

    size: int
    spelled: bool = False

    def learn(self, text: Corpora, languages: tuple[str, str]) -> tuple[Tokenizer, Tokenizer]:
        from core.text.subwords import SPELLING, SubwordTokenizer

        both = SubwordTokenizer.train(
            _Sentences(text, (0, 1)),
            self.size,
            spelling=SPELLING if self.spelled else "",
            single_digits=self.spelled,
        )
        return both, both


@dataclass(frozen=True)
class Words:
    """One vocabulary per side: the spaCy tokens that occur at least `min_count` times."""

    min_count: int
    lower: bool

    def learn(self, text: Corpora, languages: tuple[str, str]) -> tuple[Tokenizer, Tokenizer]:
        from core.text.words import WordTokenizer

        source, target = (
            WordTokenizer.train(_Sentences(text, (side,)), code, self.min_count, self.lower)
            for side, code in enumerate(languages)
        )
        return source, target


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Corpora with their repeats per epoch, a vocabulary, a network shape and training settings.

    `millions` of weights are those of a network on the recipe's corpora, and `took` is how long a
    run took, if one was measured. `augmentation` is redrawn in each epoch.
    `snapshots` records attention during training (see core.training.snapshots), on
    `snapshot_pairs` (German, English) if there are any. `xavier_embeddings` also initialises the
    embeddings with Xavier's rule, as tutorials do. `half_precision` saves the weights as float16.
    """

    name: str
    source: str
    corpora: dict[str, int]
    vocabulary: Vocabulary
    network: dict[str, Any]
    training: TrainConfig
    millions: float
    took: str = ""
    augmentation: Augmentation | None = None
    snapshots: bool = False
    snapshot_pairs: tuple[tuple[str, str], ...] = ()
    xavier_embeddings: bool = False
    half_precision: bool = False


_TINY = dict(
    d_model=128,
    num_heads=4,
    num_encoder_layers=4,
    num_decoder_layers=4,
    attention_dropout=0.0,
    norm_first=True,
    share_embeddings=True,
    tie_classifier=True,
)
_CAPTIONS_AUGMENTATION = Augmentation(
    source_noise=0.25, concatenation=0.1, concatenate_up_to=6, names=0.5, numbers=0.6
)
_MIXED_AUGMENTATION = replace(_CAPTIONS_AUGMENTATION, names=0.9, number_copies=10, segmentation=0.1)
_BASE = dict(  # Vaswani et al. 2017, table 3
    d_model=512, num_heads=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048
)
_SMOKE_SHAPE = dict(
    d_model=16,
    num_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=2,
    dim_feedforward=32,
    norm_first=True,
)
_SMOKE_TRAINING = TrainConfig(
    steps=12, batch_tokens=256, warmup_steps=4, validate_every=4, snapshot_every=2, average_last=3
)

_SMALL_BATCHES: dict[str, Any] = dict(  # these give a lower loss after the same number of sentences
    batch_tokens=2048, warmup_steps=1000, validate_every=500, snapshot_every=200, average_last=5
)

# Batches per epoch of 29,000 pairs.
_EPOCH_OF_128, _EPOCH_OF_32 = 227, 907


def _plain(steps: int, batch: int, **changes: Any) -> TrainConfig:
    """Return settings with Adam as in paper §5.3, a constant rate and no averaging of snapshots.

    Pass `as_they_stand` for the tutorial and the recipes derived from it, which do not shuffle.
    """
    usual: dict[str, Any] = dict(
        steps=steps,
        batch_sentences=batch,
        schedule="constant",
        peak_lr=1e-4,
        warmup_steps=0,
        label_smoothing=0.0,
        optimizer="adam",
        adam_eps=1e-9,
        weight_decay=0.0,
        clip_norm=None,
        validate_every=None,
        average_last=1,
    )
    return TrainConfig(**{**usual, **changes})


_TINY_RECIPE = Recipe(
    name="tiny",
    millions=2.09,
    source="the shape of Transformer-Tiny (Wu et al. 2021), pre-norm, cased joint BPE",
    corpora={"multi30k": 1},
    vocabulary=JointSubwords(6000),
    network=dict(**_TINY, dim_feedforward=256, dropout=0.3),
    training=TrainConfig(steps=10_400, warmup_steps=800, peak_lr=5e-3, cooldown_steps=2000),
)
_CAPTIONS = replace(
    _TINY_RECIPE,
    name="captions",
    millions=2.09,
    took="1.2 hours on two CPU cores",
    source="tiny, with a vocabulary that can spell any name, source noise (Karpukhin et "
    "al. 2019), concatenated sentences (Nguyen, Murray & Chiang 2021), and replaced names "
    "and numbers (after Luong et al. 2015)",
    vocabulary=JointSubwords(6000, spelled=True),
    training=replace(_TINY_RECIPE.training, validate_every=400),
    augmentation=_CAPTIONS_AUGMENTATION,
    snapshots=True,
    half_precision=True,
)
_MIXED = replace(
    _CAPTIONS,
    name="mixed",
    millions=5.69,
    took="2 to 4.6 hours on two CPU cores",
    source="pre-norm, of a width between Transformer-Tiny (Wu et al. 2021) and "
    "Transformer-Small, with source noise (Karpukhin et al. 2019), concatenated sentences "
    "(Nguyen, Murray & Chiang 2021), replaced names and numbers (after Luong et al. 2015) "
    "and random subword segmentation (Provilkov et al. 2020)",
    corpora={"multi30k": 2, "tatoeba": 1},
    vocabulary=JointSubwords(8000, spelled=True),
    network=dict(**_TINY | dict(d_model=192), dim_feedforward=768, dropout=0.1),
    training=TrainConfig(
        steps=28_000, **_SMALL_BATCHES, peak_lr=3e-3, cooldown_steps=5600, save_every=100
    ),
    augmentation=_MIXED_AUGMENTATION,
)
_TUTORIAL = Recipe(
    name="tutorial",
    millions=33.57,
    source="PyTorch's tutorial 'Language Translation with nn.Transformer and torchtext': "
    "spaCy's words, 3 + 3 layers, Adam at 1e-4, batches of 128 pairs, 18 epochs",
    corpora={"multi30k": 1},
    vocabulary=Words(min_count=1, lower=False),
    network=_BASE
    | dict(num_encoder_layers=3, num_decoder_layers=3, dim_feedforward=512, dropout=0.1),
    training=_plain(18 * _EPOCH_OF_128, 128, as_they_stand=True),
    xavier_embeddings=True,
)
_FRIENDSHIPKIM = replace(
    _TUTORIAL,
    name="friendshipkim",
    millions=65.08,
    took="12 hours or more on one CPU core",
    source="friendshipkim/transformer-from-scratch: the tutorial's data and optimiser with "
    "6 + 6 layers and feed-forward 2048 (its config.py), batches of 32 pairs, 15 epochs",
    network=dict(**_BASE, dropout=0.1),
    training=_plain(15 * _EPOCH_OF_32, 32, as_they_stand=True),
)
_HYUNWOONGKO = Recipe(
    name="hyunwoongko",
    millions=54.2,
    source="hyunwoongko/transformer: lower-cased words seen at least twice, 6 + 6 layers, "
    "no √d_model on the embeddings, no final norms, norm epsilon 1e-12, mask −10,000, no "
    "dropout on the attention weights; rate 1e-5, reduced on plateaus after 100 epochs, "
    "weight decay 5e-4, 1,000 epochs",
    corpora={"multi30k": 1},
    vocabulary=Words(min_count=2, lower=True),
    network=dict(
        **_BASE,
        dropout=0.1,
        attention_dropout=0.0,
        layer_norm_eps=1e-12,
        mask_score=-10_000.0,
        scale_embeddings=False,
        final_norm=False,
    ),
    training=_plain(
        1000 * _EPOCH_OF_128,
        128,
        schedule="plateau",
        peak_lr=1e-5,
        warmup_steps=100 * _EPOCH_OF_128,
        plateau_factor=0.9,
        plateau_patience=10,
        betas=(0.9, 0.999),
        adam_eps=5e-9,
        weight_decay=5e-4,
        clip_norm=1.0,
    ),
)
_BLOG = replace(
    _FRIENDSHIPKIM,
    name="blog",
    millions=65.32,
    took="",
    source="A. Persson's widely copied walk-through (2020): learned positions, q, k and v "
    "without bias, 6 + 6 layers, feed-forward 2048; dropout 0.5, and the tutorial's "
    "training, because the walk-through specifies no training",
    network=dict(**_BASE, dropout=0.5, qkv_bias=False, learned_positions=True),
    training=_plain(15 * _EPOCH_OF_128, 128, as_they_stand=True),
    xavier_embeddings=False,
)
_PAPER_BASE = Recipe(
    name="paper-base",
    millions=49.26,
    source="the base model of Vaswani et al. 2017 (table 3, §5): 100,000 steps of 25,000 "
    "tokens, warm-up 4,000, the last 5 of its snapshots averaged",
    corpora={"multi30k": 1},
    vocabulary=JointSubwords(10000),
    network=dict(**_BASE, dropout=0.1, share_embeddings=True, tie_classifier=True),
    training=TrainConfig(
        steps=100_000,
        batch_tokens=25_000,
        peak_lr=(512 * 4000) ** -0.5,
        warmup_steps=4000,
        optimizer="adam",
        adam_eps=1e-9,
        weight_decay=0.0,
        clip_norm=None,
        validate_every=500,
        snapshot_every=1000,
        average_last=5,
    ),
)
_DATES = Recipe(
    name="dates",
    millions=0.18,
    took="a minute on one CPU core",
    source="this project's toy: generated dates, so it needs neither a corpus nor the internet",
    corpora={"dates": 1},
    vocabulary=JointSubwords(130, spelled=True),
    network=dict(**_TINY | dict(d_model=64, num_encoder_layers=2, num_decoder_layers=2))
    | dict(dim_feedforward=128, dropout=0.0),
    training=TrainConfig(
        steps=400,
        batch_tokens=2048,
        warmup_steps=100,
        cooldown_steps=200,
        validate_every=100,
        snapshot_every=20,
        average_last=5,
    ),
    snapshots=True,
    snapshot_pairs=tuple(dates.read("val")[:6]),
    half_precision=True,
)
_SMOKE = Recipe(
    name="smoke",
    millions=0.01,
    took="seconds",
    source="this project's tests: seconds, not quality",
    corpora={"multi30k": 1},
    vocabulary=JointSubwords(300),
    network=dict(**_SMOKE_SHAPE, share_embeddings=True, tie_classifier=True),
    training=_SMOKE_TRAINING,
)
_SMOKE_WORDS = replace(
    _SMOKE,
    name="smoke-words",
    millions=0.67,
    took="seconds",
    source="this project's tests: smoke with a word vocabulary",
    vocabulary=Words(min_count=1, lower=False),
    network=_SMOKE_SHAPE,
)
_SMOKE_CHANGING = replace(
    _SMOKE,
    name="smoke-changing",
    millions=0.02,
    took="seconds",
    source="this project's tests: augmented pairs and attention snapshots",
    vocabulary=JointSubwords(400, spelled=True),
    augmentation=_MIXED_AUGMENTATION,
    snapshots=True,
    half_precision=True,
)

RECIPES = {
    recipe.name: recipe
    for recipe in (
        *(_TINY_RECIPE, _CAPTIONS, _MIXED, _TUTORIAL, _FRIENDSHIPKIM, _HYUNWOONGKO, _BLOG),
        *(_PAPER_BASE, _DATES, _SMOKE, _SMOKE_WORDS, _SMOKE_CHANGING),
    )
}
