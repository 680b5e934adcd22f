"""Decoding steps equal full passes, plain and accelerated, also after weights have changed."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from core.accelerate import decoder, layers
from core.accelerate.kernels import supports
from core.accelerate.layers import linear
from core.accelerate.library import library
from core.accelerate.network import accelerate
from core.model.decoding import KVCache
from core.model.top_tokens import log_probabilities
from core.record.editing import edited
from core.record.edits import Edits
from core.text.tokenizer import BOS, EOS, PAD
from tests import small

PLAIN, FAST = False, pytest.param(
    True, marks=pytest.mark.skipif(library() is None, reason="no C compiler here")
)  # fmt: skip
both = pytest.mark.parametrize("fast", [PLAIN, FAST], ids=["plain", "accelerated"])


def network(fast: bool, **changes):
    torch.manual_seed(0)
    found = small.pair(**changes)[1]
    if fast:
        found = found.float()
        accelerate(found)
    return found


def off(fast: bool) -> float:
    """Return the tolerance of a logit: for float32 in another order of summation, or float64."""
    return 2e-5 if fast else 1e-12


def all_steps(model, source, target):
    state, found = model.start(source), []
    for t in range(target.shape[1]):
        logits, state = model.step(target[:, t], state)
        found.append(logits)
    return torch.stack(found, dim=1)


SOURCE, TARGET = torch.randint(4, 40, (3, 6)), small.ids(3, 5, first=BOS)


@both
@pytest.mark.parametrize("changes", [{}, {"qkv_bias": False}, {"mask_score": -1e9}])
def test_a_weight_changed_between_two_searches_takes_effect(fast, changes):
    model = network(fast, **changes)
    before = all_steps(model, SOURCE, TARGET)
    for name, parameter in model.named_parameters():
        if name.startswith("decoder.1"):
            with torch.no_grad():
                parameter.add_(0.3 * torch.randn_like(parameter))
            after = all_steps(model, SOURCE, TARGET)
            with torch.inference_mode():
                assert_close(after, model(SOURCE, TARGET), rtol=off(fast), atol=off(fast), msg=name)
            if not name.endswith(("key.bias",)):  # softmax ignores a constant
                assert (after - before).abs().max() > 1e-4 * off(fast), name
            before = after


@both
def test_ablated_heads_do_not_reuse_each_others_weights(fast):
    model = network(fast)
    whole = all_steps(model, SOURCE, TARGET)
    for kind in ("decoder", "cross"):
        for layer in range(3):
            for head in range(model.config.num_heads):  # their weights may share an address
                with edited(model, Edits(heads_off=frozenset({(kind, layer, head)}))):
                    found = all_steps(model, SOURCE, TARGET)
                    with torch.inference_mode():
                        assert_close(found, model(SOURCE, TARGET), rtol=0, atol=off(fast))
                assert (found - whole).abs().max() > 10 * off(fast)
    assert torch.equal(all_steps(model, SOURCE, TARGET), whole)
    for layer in model.decoder if fast else ():  # kept alive, so that no address is reused
        state, kept, _ = decoder._cache[layer]
        assert [tensor.data_ptr() for tensor in kept] == [address for address, _ in state]


@both
def test_a_state_can_be_stepped_twice(fast):
    model = network(fast)
    _, state = model.step(TARGET[:, 0], model.start(SOURCE))
    one, after_one = model.step(TARGET[:, 1], state)
    _, other = model.step(TARGET[:, 2], state)
    assert torch.equal(model.step(TARGET[:, 1], state)[0], one)
    for again in (after_one, other):
        tokens = TARGET[:, [0, 1 if again is after_one else 2, 3]]
        found = model.step(TARGET[:, 3], again)[0]
        with torch.inference_mode():
            assert_close(found, model(SOURCE, tokens)[:, -1], rtol=0, atol=off(fast))


@both
def test_an_edit_within_a_search_falls_back_to_the_plain_cache(fast):
    """Reordered rows keep their own paths, sentences and masks."""
    model, K = network(fast), 2
    source = SOURCE.clone()
    source[1, 4:] = PAD
    written = small.ids(3 * K, 4, first=BOS)
    rows = torch.arange(3).repeat_interleave(K)
    state = model.start(source).select(rows)
    for t in range(2):
        _, state = model.step(written[:, t], state)
    order = torch.tensor([1, 0, 2, 2, 5, 4])
    state, written = state.select(order), written[order]
    uniform = Edits(heads_uniform=frozenset({("cross", 0, 0)}))
    with edited(model, uniform):
        _, plain = model.step(written[:, 2], state)
    assert isinstance(plain, KVCache)
    last, _ = model.step(written[:, 2], state)
    if fast:
        again, _ = model.step(written[:, 2], state.as_kv_cache())
        assert_close(again, last, rtol=0, atol=off(fast))
    with torch.inference_mode():
        whole = model(source.repeat_interleave(K, 0), written[:, :3])[:, -1]
    assert_close(last, whole, rtol=0, atol=off(fast))


@pytest.mark.skipif(library() is None, reason="no C compiler here")
@pytest.mark.parametrize("rows", [1, 2, 129])
@pytest.mark.parametrize("biased", [True, False])
def test_a_packed_product_equals_torch_after_the_weight_changed(rows, biased):
    weight = torch.nn.Parameter(torch.randn(33, 17))
    bias = torch.randn(33) if biased else None
    x = torch.randn(rows, 17)
    with torch.inference_mode():
        assert_close(linear(x, weight, bias), F.linear(x, weight, bias))
        assert (id(weight) in layers._packed) == supports(x)
    with torch.no_grad():
        weight.mul_(2)
    with torch.inference_mode():
        assert_close(linear(x, weight, bias), F.linear(x, weight, bias))
    weight.data = torch.randn(33, 17)
    with torch.inference_mode():
        assert_close(linear(x[None], weight, bias), F.linear(x[None], weight, bias))
    with torch.inference_mode():
        made_here = torch.randn(33, 17)
        for _ in range(2):
            assert_close(linear(x, made_here), F.linear(x, made_here))
            made_here.mul_(2)
    key = id(weight)
    del weight
    assert key not in layers._packed


@both
def test_a_finite_mask_value_lets_a_query_without_unmasked_keys_attend_to_all(fast):
    model = network(fast, mask_score=-1e9)
    source = SOURCE.clone()
    source[1] = PAD
    with torch.inference_mode():
        wanted = model(source, TARGET)
        assert_close(all_steps(model, source, TARGET), wanted, rtol=0, atol=off(fast))


def test_pad_and_bos_have_probability_0():
    log_probs = log_probabilities(torch.zeros(2, 3, 9))
    assert (log_probs[..., [PAD, BOS]] == -torch.inf).all()
    assert log_probs[..., EOS:].isfinite().all()
