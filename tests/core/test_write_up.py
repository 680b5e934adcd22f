"""The recipe hyunwoongko matches an independent implementation of the network it is named after.

The implementation is in numpy and float64: a post-norm Transformer without √d_model on the
embeddings and without final norms, with epsilon 1e-12 and masked scores of −10,000. Its target mask
blocks padding queries, not keys, so only the target's real rows are compared.
"""

import dataclasses
import math

import numpy as np
import pytest
import torch

from core.config import ModelConfig
from core.kinds import KINDS
from core.model.build import build
from core.model.interface import Seq2Seq
from core.parity import networks
from core.record.capture import capture
from core.text.tokenizer import PAD
from core.training.recipes import RECIPES
from tests import small

SMALL = dict(
    d_model=16, num_heads=4, num_encoder_layers=2, num_decoder_layers=3, dim_feedforward=24
)
NETWORK = RECIPES["hyunwoongko"].network
CONFIG = ModelConfig(source_vocab_size=40, target_vocab_size=40, **{**NETWORK, **SMALL})


class WriteUp:
    """A forward pass from a dictionary of weights; `maps` collects attention weights."""

    def __init__(self, weights: dict[str, np.ndarray], heads: int, layers: tuple[int, int]):
        self.weights, self.heads, self.layers = weights, heads, layers
        self.maps: dict[str, list[np.ndarray]] = {kind: [] for kind in KINDS}

    def __call__(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        see_source = (source != 0)[:, None, None, :]
        see_target = (target != 0)[:, None, :, None] & np.tri(target.shape[1], dtype=bool)
        x = self.embed("source", source)
        for layer in range(self.layers[0]):
            name = f"encoder.{layer}"
            x = self.norm(
                f"{name}.norm1", x + self.attend("encoder", name, "self", x, x, see_source)
            )
            x = self.norm(f"{name}.norm2", x + self.feed_forward(name, x))
        memory, x = x, self.embed("target", target)
        for layer in range(self.layers[1]):
            name = f"decoder.{layer}"
            x = self.norm(
                f"{name}.norm1", x + self.attend("decoder", name, "self", x, x, see_target)
            )
            looked = self.attend("cross", name, "cross", x, memory, see_source)
            x = self.norm(f"{name}.norm2", x + looked)
            x = self.norm(f"{name}.norm3", x + self.feed_forward(name, x))
        return self.linear("embeddings.classifier", x)

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return self.weights[f"{name}.weight"] * centred / deviation + self.weights[f"{name}.bias"]

    def embed(self, side: str, ids: np.ndarray) -> np.ndarray:
        table = self.weights[f"embeddings.{side}_table.weight"]
        length, width = ids.shape[1], table.shape[1]
        waves = np.zeros((length, width))
        for position in range(length):
            for i in range(0, width, 2):
                angle = position / 10_000 ** (i / width)
                waves[position, i : i + 2] = math.sin(angle), math.cos(angle)
        # The sinusoids are float32, and padding embeds to 0.
        words = np.where((ids == 0)[..., None], 0.0, table[ids])
        return words + waves.astype(np.float32)

    def attend(
        self, kind: str, layer: str, which: str, x: np.ndarray, memory: np.ndarray, see: np.ndarray
    ) -> np.ndarray:
        name = f"{layer}.{which}_attention"

        def heads(part: str, values: np.ndarray) -> np.ndarray:
            rows = self.linear(f"{name}.{part}", values)
            return rows.reshape(*rows.shape[:2], self.heads, -1).transpose(0, 2, 1, 3)

        q, k, v = heads("query", x), heads("key", memory), heads("value", memory)
        scores = np.einsum("bhqe,bhke->bhqk", q, k) / math.sqrt(q.shape[-1])
        scores = np.where(see, scores, -10_000.0)
        exps = np.exp(scores - scores.max(-1, keepdims=True))
        weights = exps / exps.sum(-1, keepdims=True)
        self.maps[kind].append(weights)
        joined = np.einsum("bhqk,bhke->bqhe", weights, v).reshape(x.shape)
        return self.linear(f"{name}.output", joined)

    def feed_forward(self, layer: str, x: np.ndarray) -> np.ndarray:
        inner = np.maximum(self.linear(f"{layer}.feed_forward.inner", x), 0)
        return self.linear(f"{layer}.feed_forward.outer", inner)


def difference(model: Seq2Seq, weights: Seq2Seq, padding: bool) -> float:
    """Return the largest difference in logits and maps from the independent implementation."""
    source, target = small.batch(padding)
    values = {name: p.detach().numpy() for name, p in weights.named_parameters()}
    shape = weights.config.num_encoder_layers, weights.config.num_decoder_layers
    theirs = WriteUp(values, weights.config.num_heads, shape)
    logits = theirs(source.numpy(), target.numpy())
    with torch.no_grad(), capture(model) as captured:
        found = model(source, target).numpy()
    real = {"encoder": (source != PAD).numpy(), "decoder": (target != PAD).numpy()}
    real["cross"] = real["decoder"]
    gaps = [np.abs(found - logits)[real["decoder"]].max()]
    for kind in KINDS:
        maps = captured.maps(kind).numpy().transpose(1, 3, 0, 2, 4)[real[kind]]
        expected = np.stack(theirs.maps[kind]).transpose(1, 3, 0, 2, 4)[real[kind]]
        assert expected.std() > 0.01  # not all alike
        gaps.append(np.abs(maps - expected).max())
    return max(gaps)


@pytest.mark.parametrize("padding", [False, True], ids=["full", "padded"])
def test_logits_and_maps_match_the_independent_implementation(padding):
    baseline, scratch = networks.same_weights(networks.fresh(CONFIG))
    for model in (scratch, baseline):
        assert difference(model, scratch, padding) <= 1e-12


@pytest.mark.parametrize(
    "change",
    [dict(scale_embeddings=True), dict(final_norm=True), dict(layer_norm_eps=1e-5)],
    ids=str,
)
def test_each_deviation_changes_the_output(change):
    _, scratch = networks.same_weights(networks.fresh(dataclasses.replace(CONFIG, **change)))
    assert difference(scratch, scratch, padding=True) > 1e-7


def test_settings_without_effect_on_logits_are_the_projects():
    """−10,000 and −∞ differ only in fully masked rows; dropout acts only in training."""
    assert (CONFIG.mask_score, CONFIG.attention_dropout, CONFIG.dropout) == (-10_000.0, 0.0, 0.1)


def test_the_parameter_count_is_the_published_one():
    """The project prints 55,207,087 for English to German: 5,893 and 7,855 words of Multi30k."""
    config = ModelConfig(source_vocab_size=5893, target_vocab_size=7855, **NETWORK)
    with torch.device("meta"):
        for architecture in ("scratch", "baseline"):
            model = build(architecture, config)
            assert sum(p.numel() for p in model.parameters()) == 55_207_087
