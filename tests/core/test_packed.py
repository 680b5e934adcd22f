"""Joined and blocked copies of weights are those of the weights as they are now."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from core.model import fast, packed
from core.model.compiled import takes
from core.model.fast import linear
from core.record.editing import edited
from core.record.edits import Edits
from core.search.beam import _largest, _next_log_probs
from core.text.tokenizer import BOS, EOS, PAD
from tests import small


def network(**changes):
    torch.manual_seed(0)
    return small.pair(**changes)[1]


def all_steps(model, source, target):
    state, found = model.start(source), []
    for t in range(target.shape[1]):
        logits, state = model.step(target[:, t], state)
        found.append(logits)
    return torch.stack(found, dim=1)


SOURCE, TARGET = torch.randint(4, 40, (3, 6)), small.ids(3, 5, first=BOS)


@pytest.mark.parametrize("changes", [{}, {"qkv_bias": False}, {"mask_score": -1e9}])
def test_a_weight_written_to_between_two_searches_counts(changes):
    model = network(**changes)
    before = all_steps(model, SOURCE, TARGET)
    for name, parameter in model.named_parameters():
        if name.startswith("decoder"):
            with torch.no_grad():
                parameter.add_(0.3 * torch.randn_like(parameter))
            after = all_steps(model, SOURCE, TARGET)
            with torch.inference_mode():
                assert_close(after, model(SOURCE, TARGET), rtol=0, atol=1e-12, msg=name)
            if not name.endswith(("key.bias",)):  # the same for every key: a softmax ignores it
                assert (after - before).abs().max() > 1e-9, name
            before = after


def test_heads_that_are_off_one_after_the_other_do_not_take_each_others_weights():
    model = network()
    whole = all_steps(model, SOURCE, TARGET)
    for kind in ("decoder", "cross"):
        for layer in range(3):
            for head in range(model.config.num_heads):  # whose tensors lie at one address
                with edited(model, Edits(heads_off=frozenset({(kind, layer, head)}))):
                    found = all_steps(model, SOURCE, TARGET)
                    with torch.inference_mode():
                        assert_close(found, model(SOURCE, TARGET), rtol=0, atol=1e-12)
                assert (found - whole).abs().max() > 1e-9
    assert torch.equal(all_steps(model, SOURCE, TARGET), whole)
    for layer in model.decoder:  # kept, so that no other tensor comes to lie at their address
        state, kept, _ = packed._known[layer]
        assert [tensor.data_ptr() for tensor in kept] == [address for address, _ in state]


def test_a_state_that_is_stepped_twice_is_two_states():
    model = network()
    _, state = model.step(TARGET[:, 0], model.start(SOURCE))
    one, after_one = model.step(TARGET[:, 1], state)
    _, other = model.step(TARGET[:, 2], state)
    assert torch.equal(model.step(TARGET[:, 1], state)[0], one)
    for again in (after_one, other):
        tokens = TARGET[:, [0, 1 if again is after_one else 2, 3]]
        found = model.step(TARGET[:, 3], again)[0]
        with torch.inference_mode():
            assert_close(found, model(SOURCE, tokens)[:, -1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 2, 5, 128, 129])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_rearranged_product_is_torchs_also_after_the_weight_changed(
    compiled, rows, biased, monkeypatch
):
    monkeypatch.setattr(fast, "_MANY", 0)
    monkeypatch.setattr(fast, "takes", lambda x: compiled and takes(x))
    weight = torch.nn.Parameter(torch.randn(33, 17))
    bias = torch.randn(33) if biased else None
    x = torch.randn(rows, 17)
    with torch.inference_mode():
        assert_close(linear(x, weight, bias), F.linear(x, weight, bias))
        assert (id(weight) in fast._rearranged) == ((compiled and takes(x)) or 1 < rows < 129)
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
    assert key not in fast._rearranged


def test_a_finite_mask_value_leaves_a_query_without_an_open_key_looking_at_all():
    model = network(mask_score=-1e9)
    source = SOURCE.clone()
    source[1] = PAD
    with torch.inference_mode():
        assert_close(all_steps(model, source, TARGET), model(source, TARGET), rtol=0, atol=1e-12)


def test_padding_and_the_beginning_are_never_written():
    log_probs = _next_log_probs(torch.zeros(2, 3, 9))
    assert (log_probs[..., [PAD, BOS]] == -torch.inf).all()
    assert log_probs[..., EOS:].isfinite().all()


def test_the_largest_is_torchs_of_few_rows_and_of_many():
    for shape in ((1, 400), (9, 400), (70, 8000), (9, 401), (8, 16)):
        x = torch.randn(shape)
        x[0] = 1.0  # equal everywhere: the first
        for ours, theirs in zip(_largest(x), x.max(dim=-1), strict=True):
            assert torch.equal(ours, theirs)
