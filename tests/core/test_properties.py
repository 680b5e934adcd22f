"""Properties of both models for random inputs, in float64 at 1e-12."""

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from core.data.batches import pad
from core.kinds import KINDS
from core.model.transformer import scaled_dot_product_attention
from core.record.capture import capture, explicit_attention
from core.text.tokenizer import BOS, EOS, PAD
from tests import small

LIMIT = dict(rtol=0, atol=1e-12)
VARIANTS = [
    dict(),
    dict(norm_first=True, share_embeddings=True, tie_classifier=True),
    dict(learned_positions=True, qkv_bias=False, layer_norm_eps=1e-12, mask_score=-10_000.0),
    dict(scale_embeddings=False, final_norm=False),
]
BOTH, SCRATCH = range(2), 1  # small.pair gives the baseline, then the scratch model


def examples(count: int) -> settings:
    return settings(derandomize=True, deadline=None, max_examples=count)


@functools.cache
def network(which: int, variant: int):
    """Return a cached small network; tests must not modify it."""
    return small.pair(**VARIANTS[variant])[which].requires_grad_(False)


def row(seed: int, length: int) -> list[int]:
    """Return random ids of a sentence with <eos>, reproducible by seed."""
    generator = torch.Generator().manual_seed(seed)
    return [*torch.randint(4, 40, (length - 1,), generator=generator).tolist(), EOS]


def fed(ids: list[int]) -> list[int]:
    """Return the decoder's input for a target."""
    return [BOS, *ids[:-1]]


which = st.sampled_from(BOTH)
variant = st.integers(0, len(VARIANTS) - 1)
seed = st.integers(0, 10_000)
lengths = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4)


@examples(40)
@given(which, variant, seed, st.data())
def test_later_tokens_change_no_earlier_output(which, variant, seed, data):
    """No bit changes, with fused and explicit attention; the later tokens may be padding."""
    model = network(which, variant)
    T = data.draw(st.integers(2, 9))
    t = data.draw(st.integers(1, T - 1))
    later = data.draw(
        st.lists(st.sampled_from([PAD, *range(2, 40)]), min_size=T - t, max_size=T - t)
    )
    source, target = torch.tensor([row(seed, 6)]), torch.tensor([fed(row(seed + 1, T))])
    changed = torch.cat((target[:, :t], torch.tensor([later])), dim=1)
    assert torch.equal(model(source, target)[:, :t], model(source, changed)[:, :t])
    with capture(model) as before:
        model(source, target)
    with capture(model) as after:
        model(source, changed)
    for kind in KINDS:
        rows = slice(None) if kind == "encoder" else slice(t)
        assert torch.equal(before.maps(kind)[..., rows, :], after.maps(kind)[..., rows, :])


@examples(40)
@given(which, variant, seed, lengths, st.integers(0, 4))
def test_batching_and_padding_change_nothing(which, variant, seed, lengths, tail):
    """Each row of a padded batch gives what its sentence gives alone."""
    model = network(which, variant)
    pairs = [(row(seed + i, s), fed(row(seed + 9 + i, t))) for i, (s, t) in enumerate(lengths)]
    source, target = (pad([pair[side] for pair in pairs]) for side in (0, 1))
    source, target = (
        torch.nn.functional.pad(ids, (0, tail), value=PAD) for ids in (source, target)
    )
    together = model(source, target)
    for i, (s, t) in enumerate(pairs):
        alone = model(torch.tensor([s]), torch.tensor([t]))[0]
        assert_close(together[i, : len(t)], alone, **LIMIT)


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("variant", range(len(VARIANTS)))
@pytest.mark.parametrize("which", BOTH)
def test_the_padding_embedding_affects_nothing(which, variant, poison):
    """The embedding of <pad> affects no output and no gradient.

    The logit of <pad> itself is left out: a tied classifier computes it from that embedding.
    """
    source, target = small.batch(padding=True)
    results = []
    for value in (0.0, poison):
        model = small.pair(**VARIANTS[variant])[which]
        with torch.no_grad():
            model.embeddings.source_table.weight[PAD] = value
            model.embeddings.target_weight[PAD] = value
        logits = model(source, target)[target != PAD][:, PAD + 1 :]
        with torch.inference_mode():
            shortcut = model(source, target)[target != PAD][:, PAD + 1 :]
        with explicit_attention(model.attention_sites()):
            explicit = model(source, target)[target != PAD][:, PAD + 1 :]
        model.decode(target, *model.encode(source))[target != PAD].square().sum().backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        results.append((logits, shortcut, explicit, gradients))
    clean, poisoned = results
    for a, b in zip([*clean[:3], *clean[3]], [*poisoned[:3], *poisoned[3]], strict=True):
        assert torch.isfinite(b).all() and torch.equal(a, b)


@examples(40)
@given(which, variant, seed, st.data())
def test_steps_equal_the_full_pass_for_any_reordering(which, variant, seed, data):
    model = network(which, variant)
    prefixes = [[BOS], [BOS], [BOS]]
    sources = [row(seed + i, n) for i, n in enumerate(data.draw(st.permutations([3, 6, 8])))]
    state = model.start(pad(sources))
    for t in range(data.draw(st.integers(1, 6))):
        logits, state = model.step(torch.tensor([p[-1] for p in prefixes]), state)
        full = model(pad(sources), torch.tensor(prefixes))[:, -1]
        assert_close(logits, full, **LIMIT)
        rows = data.draw(st.lists(st.integers(0, 2), min_size=3, max_size=3))
        state = state.select(torch.tensor(rows))
        sources = [sources[r] for r in rows]
        prefixes = [[*prefixes[r], row(seed + t, 4)[i]] for i, r in enumerate(rows)]


def masked_rows(mask_score: float | None) -> Tensor:
    """Return weights over scores 0, 1, 2 for a query with one unmasked key, and one with none."""
    q, k = torch.ones(1, 1, 2, 1).double(), torch.arange(3.0).double().view(1, 1, 3, 1)
    mask = torch.tensor([[False, True, False], [False, False, False]])
    return scaled_dot_product_attention(q, k, k, mask, mask_score=mask_score)[1][0, 0]


def test_a_finite_mask_score_changes_only_fully_masked_queries():
    assert masked_rows(None).tolist() == [[0, 1, 0], [0, 0, 0]]
    one, none = masked_rows(-10_000.0)
    assert one.tolist() == [0, 1, 0]
    assert_close(none, torch.full((3,), 1 / 3, dtype=torch.float64), **LIMIT)


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
def test_a_source_of_padding_only_gives_finite_numbers(variant):
    """All encoder and cross-attention queries of row 1 are fully masked, but no weight is NaN."""
    model = small.pair(**VARIANTS[variant])[SCRATCH]
    source, target = small.batch(padding=True)
    source[1] = PAD
    with capture(model) as captured:
        logits = model(source, target)
    logits.sum().backward()
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())
    if model.config.mask_score is None:
        assert_close(model(source, target), logits, **LIMIT)
        for kind in ("encoder", "cross"):
            assert (captured.maps(kind)[:, 1] == 0).all()
