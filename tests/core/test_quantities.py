"""Value norms are checked against the sites' outputs, rollout against its definition."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from core.analysis.rollout import rollout
from core.experiments.values import transformed_values, value_norms
from core.record.capture import after_attention, capture
from core.text.tokenizer import BOS
from tests.small import pair, source_row

TARGET = [7, 9, 11, 13, 2]


def networks(**changes):
    torch.manual_seed(3)
    return dict(zip(("baseline", "scratch"), pair(**changes), strict=True))


def source() -> list[int]:
    torch.manual_seed(4)
    return source_row(6)


@pytest.mark.parametrize("name", ["scratch", "baseline"])
@pytest.mark.parametrize("changes", [{}, {"norm_first": True, "qkv_bias": False}], ids=str)
def test_weighted_values_add_up_to_the_sites_output(name, changes):
    model = networks(**changes)[name]
    outputs = {}

    def keep(site, call, output):
        outputs[site.kind, site.layer] = output[0][0]

    sites = model.attention_sites()
    with torch.no_grad(), after_attention(sites, keep), capture(model) as captured:
        model(torch.tensor([source()]), torch.tensor([[BOS, *TARGET[:-1]]]))
    norms = value_norms(model, source(), TARGET)
    for call in captured.calls():
        module = call.site.module
        bias = module.out_proj.bias if name == "baseline" else module.output.bias
        vectors_HQKD = call.weights[0][..., None] * transformed_values(call)[:, None]
        output_QD = vectors_HQKD.sum((0, 2)) + bias
        torch.testing.assert_close(output_QD, outputs[call.site.kind, call.site.layer])
        np.testing.assert_allclose(
            norms[call.site.kind][call.site.layer],
            vectors_HQKD.norm(dim=-1).detach().numpy(),
            rtol=1e-5,
            atol=1e-7,
        )


def test_rollout_of_two_layers():
    """Two tokens, two heads, exact in binary; "with I" is the mean of a matrix and the identity."""
    first = [[[1, 0], [1, 0]], [[1, 0], [0, 1]]]  # mean [1 0; ½ ½], with I: [1 0; ¼ ¾]
    second = [[[0.5, 0.5], [0, 1]], [[0.5, 0.5], [1, 0]]]  # mean ½ everywhere, with I: [¾ ¼; ¼ ¾]
    encoder, decoder = np.array([first, second]), np.array([first])
    cross = np.array([[[[1, 0], [0, 1]], [[0, 1], [0, 1]]]])  # mean [½ ½; 0 1]
    maps = {"encoder": encoder, "decoder": decoder, "cross": cross}
    found = rollout(SimpleNamespace(maps=maps.get, cross=cross))
    assert found["encoder"].tolist() == [
        [[[1, 0], [0.25, 0.75]]],
        [[[0.8125, 0.1875], [0.4375, 0.5625]]],
    ]
    assert found["decoder"].tolist() == [[[[1, 0], [0.25, 0.75]]]]
    assert found["cross"].tolist() == [[[[0.625, 0.375], [0.4375, 0.5625]]]]
