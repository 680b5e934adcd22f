"""Training recipes by name: each one frozen configuration with its source."""

from dataclasses import dataclass
from typing import Any

from core.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A corpus, a joint vocabulary size, the network's shape, and how it is trained."""

    name: str
    source: str
    corpus: str
    vocabulary: int
    network: dict[str, Any]
    training: TrainConfig


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="tiny",
            source="the shape of Transformer-Tiny (Wu et al. 2021), pre-norm, cased joint BPE",
            corpus="multi30k",
            vocabulary=6000,
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
            vocabulary=300,
            network=dict(
                d_model=16,
                num_heads=2,
                num_encoder_layers=1,
                num_decoder_layers=2,
                dim_feedforward=32,
                norm_first=True,
                share_embeddings=True,
                tie_classifier=True,
            ),
            training=TrainConfig(
                steps=12,
                batch_tokens=256,
                warmup_steps=4,
                validate_every=4,
                snapshot_every=2,
                average_last=3,
            ),
        ),
    )
}
