"""Relevances are conserved, follow the paper's rules, and are those of a planted network."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from core.experiments.attribution import attributions
from core.experiments.experiment import model_inputs
from core.experiments.relevance import PARTS, _Rules, relevances
from core.model.build import build
from core.record.editing import edited
from core.record.edits import Edits
from core.text.tokenizer import BOS, EOS
from tests import small

SOURCE, TARGET = [9, 8, 7, 6, 11, 15, 21, EOS], [30, 9, 31, 5, EOS]
OTHERS: dict[str, dict[str, Any]] = {
    "T5": {
        **{"norm": "rms", "gated": True, "activation": "gelu_tanh", "linear_bias": False},
        **{"qkv_bias": False, "scale_scores": False, "position_table": "none"},
        **{"relative_buckets": 8, "relative_distance": 20, "norm_first": True},
        "scale_output": True,
    },
    "the Annotated Transformer": {"norm": "deviation", "norm_first": True},
    "BART": {"activation": "gelu", "embedding_norm": True, "learned_positions": True},
}


def networks(name: str) -> list[Any]:
    if name in small.SHAPES:
        return list(small.pair(**small.SHAPES[name]))
    torch.manual_seed(0)
    model = build("scratch", small.config(**OTHERS[name])).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return [model]


@torch.inference_mode()
def logits(model) -> np.ndarray:
    return model(*model_inputs(model, SOURCE, TARGET))[0][range(len(TARGET)), TARGET].numpy()


@pytest.mark.parametrize("name", [*small.SHAPES, *OTHERS])
def test_relevances_sum_to_the_logit(name):
    found = [relevances(model, SOURCE, TARGET, range(len(TARGET))) for model in networks(name)]
    for model, (of_source, of_prefix, parts) in zip(networks(name), found, strict=True):
        np.testing.assert_allclose(parts["logit"], logits(model), rtol=1e-9)
        np.testing.assert_allclose(sum(parts[part] for part in PARTS), logits(model), rtol=1e-9)
        np.testing.assert_allclose(of_source.sum(1), parts["source"], rtol=1e-9)
        np.testing.assert_allclose(of_prefix.sum(1), parts["target prefix"], rtol=1e-9)
        assert not np.triu(of_prefix, 1).any(), "later tokens have no relevance"
        assert all(np.abs(parts[part]).max() > 1e-3 for part in PARTS)
        # Both implementations agree.
        np.testing.assert_allclose(of_source, found[0][0], rtol=0, atol=1e-9)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_relevances_are_those_of_an_edited_network():
    for model in small.pair(norm_first=True):
        before = relevances(model, SOURCE, TARGET, [1])[0]
        with edited(model, Edits(hidden_source=(2,), heads_off=frozenset({("cross", 1, 0)}))):
            of_source, _, parts = relevances(model, SOURCE, TARGET, [1])
            np.testing.assert_allclose(parts["logit"], logits(model)[1], rtol=1e-9)
        np.testing.assert_allclose(sum(parts[part] for part in PARTS), parts["logit"], rtol=1e-9)
        assert np.abs(of_source[0] - before[0]).max() > 1e-3
        assert of_source[0, 2] == 0 and np.abs(before[0, 2]) > 1e-6


def test_each_batch_of_tokens_gives_the_same():
    model = small.pair(norm_first=True)[1]
    of_all, _, parts = relevances(model, SOURCE, TARGET, range(len(TARGET)))
    for t in range(len(TARGET)):
        one, _, own = relevances(model, SOURCE, TARGET, [t])
        np.testing.assert_allclose(one[0], of_all[t], rtol=0, atol=1e-12)
        assert own["softmax"] == pytest.approx(parts["softmax"][t : t + 1])


# A planted network: the decoder adds the mean of the source's embeddings to the target's.


def planted():
    """Return a network of one layer a side whose logits are W(y_t + mean of x_s + b) + c."""
    torch.manual_seed(3)
    changes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "num_heads": 1}
    config = small.config(**changes, norm_first=True, final_norm=False)
    model = build("scratch", config).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith(("encoder.", "decoder.")) and "norm" not in name:
                parameter.zero_()
        cross = model.decoder[0].cross_attention
        cross.value.weight.copy_(torch.eye(config.d_model))
        cross.output.weight.copy_(torch.eye(config.d_model))
        cross.output.bias.copy_(torch.randn(config.d_model))
        model.embeddings.classifier.bias.copy_(torch.randn(config.target_vocab_size))
    return model


@torch.no_grad()
def test_the_relevance_of_a_planted_network_is_known_by_hand():
    """All scores are 0, so the half of each word's term that belongs to the weights goes on to c.

    The weights' half cannot reach the words: a score of 0 has no relevance to pass on.
    """
    model = planted()
    x_SD = model.embeddings.source(torch.tensor([SOURCE]))[0]
    y_TD = model.embeddings.target(torch.tensor([[BOS, *TARGET[:-1]]]))[0]
    w_TD = model.embeddings.classifier.weight[TARGET]
    terms_TS = (w_TD @ x_SD.T / len(SOURCE)).numpy()
    added = model.decoder[0].cross_attention.output.bias
    biases_T = (w_TD @ added + model.embeddings.classifier.bias[TARGET]).numpy()
    of_source, of_prefix, parts = relevances(model, SOURCE, TARGET, range(len(TARGET)))
    np.testing.assert_allclose(of_source, terms_TS / 2, rtol=0, atol=1e-12)
    np.testing.assert_allclose(parts["softmax"], terms_TS.sum(1) / 2, rtol=0, atol=1e-12)
    own_T = (w_TD * y_TD).sum(1).numpy()
    np.testing.assert_allclose(of_prefix, np.diag(own_T), rtol=0, atol=1e-12)
    np.testing.assert_allclose(parts["biases"], biases_T, rtol=0, atol=1e-12)


# Each rule, against the formula in the paper.


def propagated(operation, *inputs, seed: int = 5) -> tuple[Any, Any, list[Any], _Rules]:
    """Return the output z, its relevances R, those of the inputs, and the rules used."""
    inputs = [one.clone().requires_grad_() for one in inputs]
    with _Rules() as rules:
        z = operation(*inputs)
    R = torch.randn(z.shape, generator=torch.Generator().manual_seed(seed), dtype=z.dtype)
    leaves = [*inputs, *rules.biases, *rules.softmax]
    found = torch.autograd.grad(z, leaves, R / z.detach(), allow_unused=True)
    return z.detach(), R, [x.detach() * g for x, g in zip(leaves, found, strict=True)], rules


def drawn(*shape: int) -> Any:
    return torch.randn(shape, dtype=torch.float64)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(1)


def test_the_linear_rule():
    """The ε-rule with ε = 0: R_i = Σ_j W_ji x_i R_j / z_j; a bias gets b_j R_j / z_j."""
    W, b, x = nn.Parameter(drawn(3, 4)), nn.Parameter(drawn(3)), drawn(2, 4)
    z, R, (of_x, of_b), _ = propagated(lambda x: F.linear(x, W, b), x)
    torch.testing.assert_close(of_x, torch.einsum("ji,ni,nj->ni", W.data, x, R / z))
    torch.testing.assert_close(of_b, b.data * R / z)


def test_the_rule_of_products():
    """The uniform rule: R(A_ji) = Σ_p A_ji V_ip R_jp / 2z_jp, and as much for V_ip."""
    A, V = drawn(5, 4), drawn(4, 3)
    z, R, (of_A, of_V), _ = propagated(lambda a, v: a @ v, A, V)
    shares = torch.einsum("ji,ip,jp->jip", A, V, R / (2 * z))
    torch.testing.assert_close(of_A, shares.sum(2))
    torch.testing.assert_close(of_V, shares.sum(0))
    _, R, (of_x, of_y), _ = propagated(lambda x, y: x * y, drawn(4), drawn(4))
    torch.testing.assert_close(of_x, R / 2)
    torch.testing.assert_close(of_y, R / 2)


def test_the_rule_of_the_softmax():
    """Proposition 3.1: R_i = x_i (R_i − s_i Σ_j R_j); the constant term gets the rest."""
    x = drawn(2, 6)
    x[0, 2] = -np.inf
    s, R, found, rules = propagated(lambda x: torch.where(x.isinf(), 1.0, x.softmax(-1)), x)
    R[0, 2], s[0, 2], x[0, 2] = 0, 0, 0
    of_x, of_c = found
    of_x = of_x.nan_to_num()
    torch.testing.assert_close(of_x, x * (R - s * R.sum(-1, keepdim=True)))
    torch.testing.assert_close((of_x + of_c).sum(-1), R.sum(-1))
    assert len(rules.softmax) == 1


@pytest.mark.parametrize("function", [F.gelu, F.silu, F.relu])
def test_an_activation_passes_its_relevance_on(function):
    x = drawn(5).abs()
    _, R, (of_x,), _ = propagated(function, x)
    torch.testing.assert_close(of_x, R)


def test_a_norm_passes_on_what_the_centred_numbers_bring():
    """The division is an identity; centring, weight and bias are linear."""
    x, weight, bias = drawn(2, 6), nn.Parameter(drawn(6)), nn.Parameter(drawn(6))
    z, R, (of_x, of_b), _ = propagated(lambda x: F.layer_norm(x, (6,), weight, bias, 0.01), x)
    deviation = (x.var(-1, correction=0, keepdim=True) + 0.01).sqrt()
    centre = torch.eye(6, dtype=x.dtype) - 1 / 6
    shares = weight.data[:, None] * centre * x[:, None] / deviation[..., None]
    torch.testing.assert_close(of_x, (shares * (R / z)[..., None]).sum(1))
    torch.testing.assert_close(of_b, bias.data * R / z)


def test_relevance_is_an_attribution_method():
    model, words = small.pair(norm_first=True)[1], ((0,), (1, 2), (3,), (4,), (5, 6))
    found = attributions(model, SOURCE, TARGET, words)
    of_source, of_prefix, parts = relevances(model, SOURCE, TARGET, range(len(TARGET)))
    assert of_prefix.shape == (len(TARGET), len(TARGET))
    expected = np.stack([of_source[:, list(word)].sum(1) for word in words], -1)
    np.testing.assert_allclose(found.scores["relevance (AttnLRP)"], expected, atol=1e-12)
    assert found.parts.keys() == {*PARTS, "logit"}
    for name, part in parts.items():
        np.testing.assert_allclose(found.parts[name], part, atol=1e-12)
