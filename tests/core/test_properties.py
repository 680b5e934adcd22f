"""What must hold for every input, tried on many, in float64 at 1e-12."""

import functools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from core.config import DecodeConfig, ModelConfig
from core.data.batches import pad
from core.kinds import KINDS
from core.model.transformer import MultiHeadAttention, scaled_dot_product_attention
from core.record.capture import capture, explicit_attention
from core.search.beam import search
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
    """A small network that no test changes."""
    return small.pair(**VARIANTS[variant])[which].requires_grad_(False)


def row(seed: int, length: int) -> list[int]:
    """Ids of one sentence with its <eos>; the same seed gives the same sentence."""
    generator = torch.Generator().manual_seed(seed)
    return [*torch.randint(4, 40, (length - 1,), generator=generator).tolist(), EOS]


def fed(ids: list[int]) -> list[int]:
    """The target as it is fed in."""
    return [BOS, *ids[:-1]]


which = st.sampled_from(BOTH)
variant = st.integers(0, len(VARIANTS) - 1)
seed = st.integers(0, 10_000)
lengths = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4)


@examples(40)
@given(which, variant, seed, st.data())
def test_the_future_changes_nothing_before_it(which, variant, seed, data):
    """Causality, to the last bit: any later tokens, padding among them, fused and explicit."""
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
def test_company_and_padding_change_nothing(which, variant, seed, lengths, tail):
    """Every row of a padded batch gives what its sentence gives alone."""
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
def test_poisoned_padding_reaches_no_real_position(which, variant, poison):
    """What the tables hold for <pad> is never read: outputs and gradients stay the same bits.

    Only the score that a tied classifier gives to <pad> itself is that row's, and is left out.
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
        with explicit_attention(model):
            explicit = model(source, target)[target != PAD][:, PAD + 1 :]
        model.decode(target, *model.encode(source))[target != PAD].square().sum().backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        results.append((logits, shortcut, explicit, gradients))
    clean, poisoned = results
    for a, b in zip([*clean[:3], *clean[3]], [*poisoned[:3], *poisoned[3]], strict=True):
        assert torch.isfinite(b).all() and torch.equal(a, b)


@functools.cache
def without_positions(which: int):
    model = small.pair()[which].requires_grad_(False)
    model.embeddings.source_positions.table.zero_()
    return model


@examples(30)
@given(which, seed, st.integers(1, 9), st.randoms(use_true_random=False))
def test_without_positions_the_encoder_follows_any_order(which, seed, length, random):
    """Permutation equivariance: words in another order give the same vectors in that order."""
    model = without_positions(which)
    order = list(range(length))
    random.shuffle(order)
    source = torch.tensor([[*row(seed, length), PAD, PAD]])
    order += [length, length + 1]
    with capture(model) as straight:
        memory = model.encode(source)[0]
    with capture(model) as shuffled:
        again = model.encode(source[:, order])[0]
    assert_close(again[:, :length], memory[:, order][:, :length], **LIMIT)
    maps = straight.maps("encoder")[..., order, :][..., order]
    assert_close(shuffled.maps("encoder"), maps, **LIMIT)


def test_with_positions_the_encoder_does_not():
    model, source = network(SCRATCH, 0), torch.tensor([row(1, 6)])
    memory, again = (model.encode(ids)[0] for ids in (source, source.flip(1)))
    assert (again.flip(1) - memory).abs().max() > 0.01


@examples(40)
@given(which, variant, seed, st.data())
def test_steps_equal_the_full_pass_however_the_rows_are_reordered(which, variant, seed, data):
    """The cache, through any sequence of the selections that a beam makes."""
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


@examples(30)
@given(which, variant, seed, st.integers(1, 4), st.data())
def test_steps_equal_the_full_pass_while_beams_are_followed(which, variant, seed, beam, data):
    """K hypotheses of each sentence, survivors of its own only, and sentences that are done."""
    model = network(which, variant)
    lengths = data.draw(st.lists(st.integers(2, 8), min_size=1, max_size=3))
    encoded = [row(seed + i, n) for i, n in enumerate(lengths)]
    going = list(range(len(encoded)))
    rows = [n for n in going for _ in range(beam)]
    state = model.start(pad(encoded)).select(torch.tensor(rows))
    prefixes = [[BOS] for _ in rows]
    for t in range(data.draw(st.integers(1, 6))):
        logits, state = model.step(torch.tensor([p[-1] for p in prefixes]), state)
        sources = [encoded[n] for n in going for _ in range(beam)]
        full = model(pad(sources), torch.tensor(prefixes))[:, -1]
        assert_close(logits, full, **LIMIT)
        places = data.draw(st.sets(st.integers(0, len(going) - 1), min_size=1).map(sorted))
        going = [going[place] for place in places]
        rows = [
            beam * place + data.draw(st.integers(0, beam - 1))
            for place in places
            for _ in range(beam)
        ]
        state = state.select(torch.tensor(rows))
        prefixes = [[*prefixes[r], 4 + (seed + t + i) % 30] for i, r in enumerate(rows)]


@examples(60)
@given(
    sizes=st.tuples(*[st.integers(1, n) for n in (3, 3, 8, 8, 6)]),
    seed=seed,
    density=st.sampled_from([0.0, 0.2, 0.6, 1.0]),
    scale=st.sampled_from([0.0, 1.0, 1e4]),
)
def test_fused_and_explicit_attention_are_the_same(sizes, seed, density, scale):
    """Values up to ±10⁴, all scores equal, and queries that may attend to nothing."""
    B, H, T, S, E = sizes
    generator = torch.Generator().manual_seed(seed)
    D = 2 * H * E
    attention = MultiHeadAttention(small.config(d_model=D, num_heads=H)).double()
    for parameter in attention.requires_grad_(False).parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) / math.sqrt(D))
    x, y = (torch.randn(B, n, D, generator=generator, dtype=torch.float64) * scale for n in (T, S))
    mask = torch.rand(B, 1, T, S, generator=generator) < density
    explicit, weights = attention(x, y, mask, need_weights=True)
    fused, nothing = attention(x, y, mask)
    assert nothing is None
    assert_close(fused, explicit, rtol=1e-12, atol=1e-12 * max(scale, 1.0))
    assert ((weights == 0) | mask).all() and torch.isfinite(weights).all()
    assert_close(weights.sum(-1), mask.any(-1).expand(B, H, T).double(), **LIMIT)


def masked_rows(mask_score: float | None) -> Tensor:
    """The weights of a query with one key and of one without any, over scores 0, 1, 2."""
    q, k = torch.ones(1, 1, 2, 1).double(), torch.arange(3.0).double().view(1, 1, 3, 1)
    mask = torch.tensor([[False, True, False], [False, False, False]])
    return scaled_dot_product_attention(q, k, k, mask, mask_score=mask_score)[1][0, 0]


def test_what_a_mask_score_does():
    """−∞ and −10000 are the same wherever there is a key; where there is none, only −∞ gives 0."""
    assert masked_rows(None).tolist() == [[0, 1, 0], [0, 0, 0]]
    one, none = masked_rows(-10_000.0)
    assert one.tolist() == [0, 1, 0]
    assert_close(none, torch.full((3,), 1 / 3, dtype=torch.float64), **LIMIT)
    for wrong in (0.0, 3.0, -math.inf, math.nan):
        with pytest.raises(ValueError, match="mask_score"):
            small.config(mask_score=wrong)


def test_a_configuration_from_before_mask_score_stays_readable():
    values = small.config().to_json()
    del values["mask_score"]
    assert ModelConfig.from_json(values) == small.config()


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
def test_a_source_of_nothing_but_padding_gives_numbers(variant):
    """In the encoder and in cross-attention every query is fully masked: 0 and not NaN."""
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


rows = st.lists(st.integers(1, 9), min_size=2, max_size=5)


@examples(12)
@given(variant, seed, rows, st.integers(1, 4), st.randoms(use_true_random=False))
def test_search_does_not_depend_on_company_or_order(variant, seed, rows, beam, random):
    """Any number of sentences at a time, in any order, write the same tokens."""
    model, decode = network(SCRATCH, variant), DecodeConfig(beam=beam)
    sources = [row(seed + i, n) for i, n in enumerate(rows)]

    def written(some: list[list[int]]) -> list[list[tuple[int, ...]]]:
        return [[h.ids for h in found] for found in search(model, pad(some), decode)]

    together = written(sources)
    order = random.sample(range(len(sources)), len(sources))
    assert written([sources[i] for i in order]) == [together[i] for i in order]
    cut = random.randrange(1, len(sources))
    assert written(sources[:cut]) + written(sources[cut:]) == together


@examples(12)
@given(which, variant, seed, st.integers(1, 6), st.integers(1, 4), st.sampled_from([0.0, 0.6, 1.0]))
def test_scores_of_both_models_recompute(which, variant, seed, length, beam, alpha):
    """One pass over the finished target gives the sum and the score again."""
    model, source = network(which, variant), row(seed, length)
    decode = DecodeConfig(beam=beam, length_penalty=alpha)
    for found in search(model, pad([source]), decode)[0]:
        target = torch.tensor([found.ids])
        logits = model(pad([source]), torch.tensor([fed(list(found.ids))]))
        total = logits.log_softmax(-1).gather(2, target[..., None]).sum().item()
        assert found.log_prob == pytest.approx(total, rel=1e-12)
        expected = total / ((5 + len(found.ids)) / 6) ** (0.0 if beam == 1 else alpha)
        assert found.score == pytest.approx(expected, rel=1e-12)
