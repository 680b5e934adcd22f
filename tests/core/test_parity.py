"""With the same weights, the scratch model and torch.nn.Transformer are equivalent."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from core.kinds import KINDS
from core.model.baseline import copy_to_baseline, copy_to_scratch, scratch_names
from core.model.build import build
from core.record.capture import capture
from core.text.tokenizer import PAD
from tests import small

LIMIT = dict(rtol=0, atol=1e-12)
VARIANTS = [
    dict(norm_first=norm_first, share_embeddings=tied, tie_classifier=tied, qkv_bias=qkv_bias)
    for norm_first, tied, qkv_bias in itertools.product((False, True), repeat=3)
] + [
    dict(learned_positions=True),
    dict(num_encoder_layers=1, num_decoder_layers=1),
    dict(scale_embeddings=False, final_norm=False),
    dict(scale_embeddings=False, final_norm=False, norm_first=True, tie_classifier=True),
    dict(activation="silu", share_embeddings=True, tie_classifier=True, tied_bias=True),
]


@pytest.mark.parametrize("padding", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_logits_maps_and_gradients_are_equal(variant, padding):
    baseline, scratch = small.pair(**variant)
    source, target = small.batch(padding)
    real = target != PAD
    results = []
    for model in (baseline, scratch):
        model.train()  # dropout is 0; nn.Transformer's inference shortcut stays off
        with capture(model) as captured:
            logits = model(source, target)
        F.cross_entropy(logits[real], target[real]).backward()
        results.append((logits, captured))
    (theirs, their_maps), (ours, our_maps) = results
    assert_close(ours[real], theirs[real], **LIMIT)
    for kind in KINDS:
        maps = our_maps.maps(kind)
        assert maps.std() > 0.01  # so that a transposed map is noticed
        assert_close(maps, their_maps.maps(kind), **LIMIT)

    our_gradients = {name: p.grad for name, p in scratch.named_parameters()}
    for name, parameter in baseline.named_parameters():
        names = scratch_names(name)
        for ours_name, gradient in zip(names, parameter.grad.chunk(len(names)), strict=True):
            assert_close(our_gradients.pop(ours_name), gradient, **LIMIT, msg=ours_name)
    assert not our_gradients


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_inference_shortcut_and_single_steps_agree(norm_first):
    baseline, scratch = small.pair(norm_first=norm_first)
    source, target = small.batch(padding=True)
    real = target != PAD
    with torch.inference_mode():
        assert_close(scratch(source, target)[real], baseline(source, target)[real], **LIMIT)
        theirs, ours = baseline.start(source), scratch.start(source)
        for column in target[:, :2].T:
            their_logits, theirs = baseline.step(column, theirs)
            our_logits, ours = scratch.step(column, ours)
            assert_close(our_logits, their_logits, **LIMIT)


@pytest.mark.parametrize("padding", [False, True], ids=["full", "padded"])
def test_fused_and_explicit_attention_agree(padding):
    _, scratch = small.pair()
    source, target = small.batch(padding)
    fused = scratch(source, target)
    with capture(scratch):
        explicit = scratch(source, target)
    assert_close(explicit, fused, **LIMIT)


def test_copying_there_and_back_gives_the_same_weights():
    baseline, scratch = small.pair(share_embeddings=True, tie_classifier=True)
    again = build("baseline", baseline.config).double()
    copy_to_baseline(scratch, again)
    for name, parameter in baseline.named_parameters():
        assert torch.equal(dict(again.named_parameters())[name], parameter), name


def test_copying_between_different_shapes_is_refused():
    baseline, _ = small.pair()
    with pytest.raises(ValueError, match="do not match"):
        copy_to_scratch(baseline, build("scratch", small.config(num_decoder_layers=2)))
    with pytest.raises(ValueError, match="do not match"):
        copy_to_scratch(baseline, build("scratch", small.config(dim_feedforward=32)))
