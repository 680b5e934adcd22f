"""Computed names and shapes of weights equal those of the built network."""

import itertools
import subprocess
import sys

import pytest
import torch

from core.model.build import ARCHITECTURES, build
from core.model.shapes import count_parameters, weight_shapes
from tests import small

SWITCHES = (
    *("share_embeddings", "tie_classifier", "tied_bias"),
    *("learned_positions", "qkv_bias", "final_norm"),
)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_shapes_equal_those_of_the_network(architecture):
    """Try all combinations of options that add or remove weights, with stacks of unequal depth."""
    for switches in itertools.product([False, True], repeat=len(SWITCHES)):
        chosen = dict(zip(SWITCHES, switches, strict=True))
        if chosen["tied_bias"] and not chosen["tie_classifier"]:
            continue
        sizes = {} if chosen["share_embeddings"] else {"target_vocab_size": 44}
        config = small.config(**chosen, **sizes, dim_feedforward=20, max_length=18)
        with torch.device("meta"):
            built = build(architecture, config)
        expected = {name: tuple(p.shape) for name, p in built.named_parameters()}
        found = weight_shapes(architecture, config)
        assert found == expected, chosen
        assert count_parameters(found) == sum(p.numel() for p in built.parameters())


def test_shapes_do_not_import_torch():
    code = (
        "import sys, core.model.shapes, core.checkpoint.validate; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
