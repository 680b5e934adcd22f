"""The scratch model's modules follow the paper's formulas, and its settings are limited."""

import functools
import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from core.config import DecodeConfig, ModelConfig, TrainConfig
from core.model.build import build
from core.model.masks import causal_mask, padding_mask, target_mask
from core.model.positions import sinusoids
from core.model.transformer import LayerNorm, scaled_dot_product_attention
from core.typed import typed
from tests import small

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")


def test_sinusoids_follow_the_paper():
    table = sinusoids(50, 16)
    for position in (0, 1, 7, 49):
        for i in range(8):
            angle = position / 10000 ** (2 * i / 16)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-12)


@pytest.mark.parametrize("eps", [1e-5, 0.1])
@pytest.mark.parametrize("training", [True, False])
def test_layer_norm_equals_its_formula_in_value_and_gradient(training, eps):
    norm = LayerNorm(12, eps).double().train(training)
    with torch.no_grad():
        norm.weight.normal_()
        norm.bias.normal_()
    x = (torch.randn(4, 5, 12, dtype=torch.float64) * 3 + 1).requires_grad_()
    ours, written_out = norm(x), norm.formula(x)
    assert_close(ours, written_out, rtol=0, atol=1e-12)
    leaves, direction = (x, norm.weight, norm.bias), torch.randn_like(x)
    gradients = (torch.autograd.grad(y, leaves, direction) for y in (ours, written_out))
    for one, other in zip(*gradients, strict=True):
        assert one.abs().max() > 0.1
        assert_close(one, other, rtol=0, atol=1e-12)


def test_masks_are_true_where_attention_is_allowed():
    ids = torch.tensor([[5, 6, 7], [5, 0, 0]])
    assert padding_mask(ids, 0).tolist() == [[[[True, True, True]]], [[[True, False, False]]]]
    assert causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True] * 3]
    assert target_mask(ids, 0)[1, 0].tolist() == [[True, False, False]] * 3
    assert target_mask(ids, 0).shape == (2, 1, 3, 3)


@given(
    B=st.integers(1, 3),
    H=st.integers(1, 3),
    T=st.integers(1, 7),
    S=st.integers(1, 7),
    E=st.integers(1, 8),
    seed=st.integers(0, 999),
    scale=st.sampled_from([0.0, 1.0, 30.0]),
    density=st.sampled_from([0.0, 0.6, 1.0]),
)
def test_explicit_attention_equals_plain_loops_and_torch(B, H, T, S, E, seed, scale, density):
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (
        torch.randn(B, H, n, E, dtype=torch.float64, generator=generator) * scale for n in (T, S, S)
    )
    mask = torch.rand(B, 1, T, S, generator=generator) < density
    out, weights = scaled_dot_product_attention(q, k, v, mask)
    assert (weights[~mask.expand_as(weights)] == 0).all()
    some = mask.any(-1).expand(B, H, T)
    assert_close(weights.sum(-1)[some], torch.ones_like(weights.sum(-1)[some]), rtol=0, atol=1e-12)
    assert (weights[~some] == 0).all() and (out[~some] == 0).all()  # fully masked: 0, not NaN
    assert_close(out, F.scaled_dot_product_attention(q, k, v, mask), rtol=0, atol=1e-10)
    for b, h, t in [(0, 0, 0), (B - 1, H - 1, T - 1)]:
        scores = [
            sum(q[b, h, t, e] * k[b, h, s, e] for e in range(E)).item() / math.sqrt(E)
            if mask[b, 0, t, s]
            else -math.inf
            for s in range(S)
        ]
        if max(scores) > -math.inf:
            exps = [math.exp(x - max(scores)) for x in scores]
            expected = torch.tensor([x / sum(exps) for x in exps], dtype=torch.float64)
            assert_close(weights[b, h, t], expected, rtol=0, atol=1e-10)


def test_query_weights_start_with_the_same_spread_in_both_implementations():
    torch.manual_seed(0)
    size = dict(d_model=64, num_heads=4, dim_feedforward=64)
    scratch, baseline = (build(name, small.config(**size)) for name in ("scratch", "baseline"))
    packed = baseline.transformer.encoder.layers[0].self_attn.in_proj_weight
    separate = scratch.encoder[0].self_attention.query.weight
    assert packed.std().item() == pytest.approx(separate.std().item(), rel=0.05)


NAN, INF = math.nan, math.inf
OUT_OF_RANGE = {
    small.config: {
        "num_heads": (0, -2, 2.0, True),
        "d_model": (-4,),
        "source_vocab_size": (0,),
        "num_encoder_layers": (0,),
        "num_decoder_layers": (97,),
        "dim_feedforward": ("24",),
        "max_length": (0, 1, 4097),
        "dropout": (-1, 1, None),
        "attention_dropout": (NAN,),
        "layer_norm_eps": (0.0, 1e-13, NAN, "1e-5"),
        "mask_score": (-INF, -1e39, -999.0, 0.0, 3.0, NAN, "low"),
    },
    DecodeConfig: {
        "beam": (0, 17, 2.0, True, "5"),
        "length_penalty": (-1, 10.5, NAN, INF, "1", None),
    },
    functools.partial(TrainConfig, steps=1): {
        "steps": (0, 2.0, None, True),
        "patience": (0, 1.5),
        "peak_lr": (-1, NAN, INF, "1e-3"),
        "label_smoothing": (-0.1, 1),
    },
}


def test_values_out_of_range_are_rejected():
    for make, fields in OUT_OF_RANGE.items():
        for name, values in fields.items():
            for value in values:
                said = rf"^{name} is {re.escape(repr(value))}, not "
                with pytest.raises(ValueError, match=said):
                    make(**{name: value})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(num_heads=3), "must divide"),
        (dict(d_model=15, num_heads=5), "even"),
        (dict(share_embeddings=True, target_vocab_size=41), "joint"),
        (dict(num_encoder_layers=48, num_decoder_layers=49), "may have 96 together"),
        (dict(d_model=128, num_heads=128, num_decoder_layers=16), "4,352 heads .* limit is 4,096"),
        (dict(layer_norm_eps=2), "from 1e-12 and below 1"),
        (dict(activation="tanh"), "activation is 'tanh', not one of relu, silu, gelu, gelu_tanh"),
        (dict(decoder_heads=3), "decoder_heads 3 must divide"),
        (dict(learned_positions=True, position_table="none"), "exclude each other"),
        (dict(scale_output=True), "needs a final norm and norm"),
        (dict(relative_buckets=32, relative_distance=16), "must be above half of"),
        (dict(tied_bias=True), "tied_bias needs tie_classifier"),
    ],
)
def test_invalid_shapes_are_rejected(wrong, message):
    with pytest.raises(ValueError, match=message):
        small.config(**wrong)


def test_range_limits_are_inclusive():
    shape = small.config(max_length=4096, dropout=0, attention_dropout=0.0, num_encoder_layers=1)
    assert shape.max_length == 4096 and shape.attention_dropout == 0
    assert DecodeConfig(length_penalty=0).length_penalty == 0
    assert DecodeConfig(beam=16, length_penalty=10).beam == 16


def test_configurations_reject_unknown_and_missing_keys():
    values = small.config().to_json()
    assert typed(ModelConfig, values) == small.config()
    newer = (
        "scale_embeddings",
        "final_norm",
        "mask_score",
        "activation",
        "tied_bias",
    )  # older files do not have them
    older = {name: value for name, value in values.items() if name not in newer}
    assert typed(ModelConfig, older) == small.config()
    with pytest.raises(ValueError, match="heads is an unknown field"):
        typed(ModelConfig, {**values, "heads": 8})
    del values["source_vocab_size"]
    with pytest.raises(ValueError, match="source_vocab_size is missing"):
        typed(ModelConfig, values)


@pytest.mark.parametrize("activation", ["relu", "silu"])
@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
def test_the_feed_forward_layer_applies_the_activation(activation, architecture):
    torch.manual_seed(0)
    network = build(architecture, small.config(activation=activation)).double().eval()
    weights = {name: p.detach().numpy() for name, p in network.named_parameters()}
    stem, names = {
        "scratch": ("encoder.0.feed_forward", ("inner", "outer")),
        "baseline": ("transformer.encoder.layers.0", ("linear1", "linear2")),
    }[architecture]
    (w1, b1), (w2, b2) = (
        (weights[f"{stem}.{name}.weight"], weights[f"{stem}.{name}.bias"]) for name in names
    )
    x = np.random.default_rng(0).normal(size=(5, 16)) * 3
    inner = x @ w1.T + b1
    inner = np.maximum(inner, 0) if activation == "relu" else inner / (1 + np.exp(-inner))
    layer = network.stack("encoder").layers[0]
    own = layer.feed_forward if architecture == "scratch" else layer._ff_block
    with torch.no_grad():
        assert np.abs(own(torch.tensor(x)).numpy() - (inner @ w2.T + b2)).max() < 1e-12


def test_an_unknown_architecture_is_rejected():
    with pytest.raises(ValueError, match="choose one of scratch, baseline"):
        build("lstm", small.config())
