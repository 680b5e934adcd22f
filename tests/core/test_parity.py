"""Copying weights between both implementations, and the ways to compute one pass."""

import pytest
import torch
from torch.testing import assert_close

from core.model.baseline import copy_to_baseline, copy_to_scratch
from core.model.build import build
from core.record.capture import capture
from tests import small


@pytest.mark.parametrize("padding", [False, True], ids=["full", "padded"])
def test_fused_and_explicit_attention_agree(padding):
    _, scratch = small.pair()
    source, target = small.batch(padding)
    fused = scratch(source, target)
    with capture(scratch):
        explicit = scratch(source, target)
    assert_close(explicit, fused, rtol=0, atol=1e-12)


def test_copying_there_and_back_gives_the_same_weights():
    baseline, scratch = small.pair(share_embeddings=True, tie_classifier=True)
    again = build("baseline", baseline.config).double()
    copy_to_baseline(scratch, again)
    for name, parameter in baseline.named_parameters():
        assert torch.equal(dict(again.named_parameters())[name], parameter), name


@pytest.mark.parametrize("changes", [{"num_decoder_layers": 2}, {"dim_feedforward": 32}])
def test_copying_between_different_shapes_is_refused(changes):
    baseline, _ = small.pair()
    with pytest.raises(ValueError, match="do not match"):
        copy_to_scratch(baseline, build("scratch", small.config(**changes)))
