"""A head's weights, output and intermediate steps match both implementations' passes."""

import importlib
import inspect
import math
import re

import numpy as np
import pytest
import torch

from core.analysis.inside_head import PLACES, Site, inside_head
from core.experiments.site import site
from core.kinds import KINDS
from core.model.build import build
from core.record.capture import after_attention, explicit_attention
from core.text.tokenizer import BOS, EOS
from tests import small

SOURCE, TARGET = (9, 8, 7, 6, 11, EOS), (30, 31, 32, EOS)
PAIR = dict(zip(("baseline", "scratch"), small.pair(), strict=True))
LAYERS = {"encoder": 2, "decoder": 3, "cross": 3}


def ran(model, kind: str, layer: int) -> dict[str, np.ndarray]:
    """Return one attention's weights [H, Q, K] and output [Q, D] in a pass."""
    found = {}

    def keep(site, call, output):
        if (site.kind, site.layer) == (kind, layer):
            found.update(output=output[0][0].numpy(), weights=output[1][0].numpy())

    sites = model.attention_sites()
    with torch.no_grad(), explicit_attention(sites), after_attention(sites, keep):
        model(torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET[:-1]]]))
    return found


@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_and_output_match_the_model(kind, architecture):
    model = PAIR[architecture]
    for layer in range(LAYERS[kind]):
        seen = ran(model, kind, layer)
        taken = site(model, SOURCE, TARGET, kind, layer)
        heads, queries, _ = seen["weights"].shape
        for query in range(queries):
            for head in range(heads):
                inside = inside_head(taken, head, query)
                expected = seen["weights"][head, query]
                np.testing.assert_allclose(inside.weights_K, expected, rtol=0, atol=1e-12)
            np.testing.assert_allclose(inside.output_D, seen["output"][query], rtol=0, atol=1e-12)
        np.testing.assert_allclose(taken.maps_HQK, seen["weights"], rtol=0, atol=1e-7)


def test_steps_are_consistent():
    taken = site(PAIR["scratch"], SOURCE, TARGET, "decoder", 1)
    inside = inside_head(taken, 1, 2)
    E = len(inside.q_E)
    for k in range(len(TARGET)):
        terms = [inside.q_E[e] * inside.k_KE[k, e] for e in range(E)]
        assert inside.products_KE[k] == pytest.approx(terms)
        assert inside.scores_K[k] == pytest.approx(sum(terms))
        assert inside.scaled_K[k] == pytest.approx(sum(terms) / math.sqrt(E))
    assert list(inside.open_K) == [True, True, True, False]
    assert inside.masked_K[3] == -math.inf and inside.weights_K[3] == 0
    shares = [math.exp(s) for s in inside.scaled_K[:3]]
    assert inside.weights_K[:3] == pytest.approx([s / sum(shares) for s in shares])
    z = sum(w * v for w, v in zip(inside.weights_K, inside.v_KE, strict=True))
    assert inside.z_E == pytest.approx(z)


@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
def test_weights_and_output_match_without_biases_and_with_a_finite_mask_score(architecture):
    model = build(architecture, small.config(qkv_bias=False, mask_score=-1e4)).double().eval()
    taken = site(model, SOURCE, TARGET, "decoder", 2)
    inside = inside_head(taken, 0, 1)
    assert inside.masked_K[3] == -1e4
    seen = ran(model, "decoder", 2)
    np.testing.assert_allclose(inside.weights_K, seen["weights"][0, 1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(inside.output_D, seen["output"][1], rtol=0, atol=1e-12)


def test_hooks_are_removed():
    model = PAIR["scratch"]
    assert isinstance(site(model, SOURCE, TARGET, "cross", 0), Site)
    for place in model.attention_sites():
        assert not place.module._forward_hooks and not place.module._forward_pre_hooks
    with pytest.raises(KeyError):
        site(model, SOURCE, TARGET, "cross", 9)


@pytest.mark.parametrize("architecture", ["scratch", "baseline", "referee"])
@pytest.mark.parametrize("stage", PLACES["scratch"])
def test_listed_code_lines_exist(stage, architecture):
    assert set(PLACES[architecture]) == set(PLACES["scratch"])
    for place in PLACES[architecture][stage]:
        found = importlib.import_module(place.module)
        assert inspect.getsourcefile(found).endswith(place.file)
        for name in place.function.split("."):
            found = getattr(found, name)

        def packed(text: str) -> str:
            return re.sub(r"\s", "", text)

        assert packed(place.line) in packed(inspect.getsource(found)), place
