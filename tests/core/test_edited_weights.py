"""Edges, rows, temperatures and head ablations: in both models, in passes and in decoding."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from core.config import DecodeConfig
from core.data.batches import pad
from core.record.capture import after_attention, capture
from core.record.editing import NestedEditsError, edited
from core.record.edits import (
    DOUBLED,
    OFF,
    Donor,
    Edge,
    EditError,
    Edits,
    HeadPatch,
    Patch,
    RandomPush,
    Row,
    Temperature,
)
from core.search.beam import search
from core.search.tree import search_tree
from core.text.tokenizer import BOS, PAD
from tests import small
from tests.core import test_edits
from tests.core.test_edits import traces

KINDS = ("encoder", "decoder", "cross")
POSITIONS_OFF = Edits(target_positions=OFF)
models = small.models("post-norm", "pre-norm", max_length=12)  # short decoding
EDITS = {
    "an edge cut": Edits(edges=(Edge("cross", 2, 0, 1, 3),)),
    "an edge of the encoder cut": Edits(edges=(Edge("encoder", 0, 1, 2, 1),)),
    "an edge of the decoder cut": Edits(edges=(Edge("decoder", 1, 2, 3, 0),)),
    "a key cut for all queries": Edits(edges=(Edge("cross", None, None, None, 2),)),
    "a decoder key cut for all queries": Edits(edges=(Edge("decoder", None, None, None, 1),)),
    "edges strengthened": Edits(
        edges=(Edge("cross", 1, None, None, 0, 50.0), Edge("decoder", 2, 1, 3, 2, 20.0))
    ),
    "an edge weakened": Edits(edges=(Edge("encoder", None, 0, None, 3, 0.01),)),
    "all keys of a query cut": Edits(edges=(Edge("cross", 0, 1, 2, None),)),
    "rows of every kind": Edits(
        rows=(
            Row("encoder", 1, 0, 2, (0, 0.5, 0.5)),
            Row("decoder", 0, 0, 2, (0.2, 0.3, 0.5)),
            Row("cross", 1, 1, 1, (0, 1)),
        )
    ),
    "a row longer than the prefix": Edits(rows=(Row("decoder", 2, 3, 1, (1, 2, 9, 9)),)),
    "temperatures": Edits(
        temperatures=tuple(Temperature(kind, 1, 1, t) for kind, t in zip(KINDS, (0.2, 5.0, 0.1)))  # noqa: B905
    ),
    "uniform heads": Edits(heads_uniform={(kind, 1, 3) for kind in KINDS}),
    "a uniform head with an edge cut": Edits(
        heads_uniform={("cross", 0, 0)}, edges=(Edge("cross", 0, 0, None, 1),)
    ),
    "states copied and pushed, heads copied": Edits(
        edges=(Edge("cross", 1, None, 1, 0, 9.0),),
        donor=Donor((9, 8, 7, 6, 2), (1, 30, 9, 12, 5)),
        patches=(
            *(Patch("encoder", 1, 2, 3), Patch("encoder", 0, 0, 4)),
            *(Patch("decoder", 0, 1, 3), Patch("decoder", 2, 3, 4)),
        ),
        head_patches=(
            *(HeadPatch("encoder", 0, 1, 2, 0), HeadPatch("decoder", 2, 3, 2, 3)),
            *(HeadPatch("cross", 1, 2, 1, 3), HeadPatch("cross", 0, 2, 3, 2)),
        ),
        pushes=(RandomPush("encoder", 2, 1, 5, 3.0), RandomPush("decoder", 3, 2, 5, 9.0)),
    ),
    "a head copied": Edits(
        donor=Donor((9, 8, 2), (1, 30, 9)), head_patches=(HeadPatch("decoder", 0, 1, 2, 1),)
    ),
    "all at once": Edits(
        hidden_source=(1,),
        heads_off={("encoder", 0, 2), ("cross", 2, 1)},
        heads_uniform={("decoder", 0, 1)},
        edges=(
            Edge("cross", None, 1, 2, 0, 9.0),
            Edge("cross", 1, None, None, 3),
            Edge("decoder", None, None, 4, 2, 0.1),
        ),
        rows=(Row("cross", 1, 1, 3, (1, 0, 0, 1)),),
        temperatures=(Temperature("cross", 1, 0, 0.3),),
    ),
}
each = pytest.mark.parametrize("edits", EDITS.values(), ids=EDITS)


def means_of(model) -> dict:
    """Return random head means [H, D] for each attention site."""
    torch.manual_seed(5)
    H, D = model.config.num_heads, model.config.d_model
    sites = [(site.kind, site.layer) for site in model.attention_sites()]
    return {at: torch.randn(H, D, dtype=torch.float64) for at in sites}


def by_hand(call, edits: Edits, mask: np.ndarray) -> np.ndarray:
    """Return the weights of one site, computed cell by cell from its inputs: [B, H, Q, K]."""
    kind, layer, H = call.site.kind, call.site.layer, call.site.num_heads
    query, key, *_ = call.site.projections()
    q, k = (
        F.linear(x, *to).unflatten(-1, (H, -1)).numpy()
        for x, to in ((call.query, query), (call.memory, key))
    )
    found = np.zeros((len(q), H, q.shape[1], k.shape[1]))
    for b, h, i in np.ndindex(*found.shape[:3]):
        shares = []
        for j in range(found.shape[3]):
            score = float(q[b, i, h] @ k[b, j, h]) / math.sqrt(q.shape[-1])
            for one in edits.temperatures:
                score /= one.value if (one.kind, one.layer, one.head) == (kind, layer, h) else 1
            if (kind, layer, h) in edits.heads_uniform:
                score = 0.0
            share = math.exp(score) if mask[b, i, j] else 0.0
            for edge in edits.edges:
                said = (edge.layer, edge.head, edge.query, edge.key)
                if edge.kind == kind and all(
                    s is None or s == is_ for s, is_ in zip(said, (layer, h, i, j), strict=True)
                ):
                    share *= edge.factor
            shares.append(share)
        for row in edits.rows:
            if (row.kind, row.layer, row.head, row.query) == (kind, layer, h, i):
                given = [*row.weights, *[0.0] * len(shares)]
                shares = [w if seen else 0.0 for w, seen in zip(given, mask[b, i], strict=False)]
        found[b, h, i] = np.array(shares) / (sum(shares) or 1)
    return found


@each
@torch.inference_mode()
def test_edited_weights_match_a_calculation_by_hand(models, edits):
    source, target = small.batch(padding=False)
    keys = np.ones(source.shape, bool)
    keys[:, list(edits.hidden_source)] = False
    B, S, T = *source.shape, target.shape[1]
    masks = {
        "encoder": np.broadcast_to(keys[:, None], (B, S, S)),
        "decoder": np.broadcast_to(np.tri(T, dtype=bool), (B, T, T)),
        "cross": np.broadcast_to(keys[:, None], (B, T, S)),
    }
    for model in models:
        with edited(model, edits), capture(model) as captured:
            model(source, target)
        for call in captured.calls():
            expected = by_hand(call, edits, masks[call.site.kind])
            assert np.abs(call.weights.numpy() - expected).max() < 1e-12
            assert not call.weights.numpy()[expected == 0].any()  # exactly


ALL = test_edits.EDITS | EDITS


@pytest.mark.parametrize("edits", ALL.values(), ids=ALL)
@torch.inference_mode()
def test_both_models_agree_and_are_restored(models, edits):
    """Nothing is captured, so torch's encoder could take its fused path, which bypasses edits."""
    source, target = small.batch(padding=True)
    real = target != PAD
    before = [model(source, target) for model in models]
    found = []
    for model in models:
        with pytest.raises(RuntimeError, match="oops"), edited(model, edits):
            found.append(model(source, target))
            assert traces(model) or edits.heads_off
            raise RuntimeError("oops")
    assert torch.allclose(found[0][real], found[1][real], rtol=0, atol=1e-12)
    assert (found[1][real] - before[1][real]).abs().max() > 1e-4  # the edit did something
    for model, logits in zip(models, before, strict=True):
        assert traces(model) == []
        assert torch.equal(model(source, target), logits)


@each
@torch.inference_mode()
def test_decoding_agrees_with_a_full_pass_under_the_edits(models, edits):
    """In the scratch model, hypotheses share one tree of cached keys; the baseline has no cache."""
    beam = 5 if models[0].config.norm_first else 1
    source, _ = small.batch(padding=True)
    searched, trees = [], []
    for model in models:
        with edited(model, edits):
            searched.append(search(model, source, DecodeConfig(beam=beam)))
            for row, hypotheses in zip(source, searched[-1], strict=True):
                ids = row[row != PAD].expand(len(hypotheses), -1)
                written = pad([list(h.ids) for h in hypotheses])
                fed = torch.cat((torch.full((len(ids), 1), BOS), written[:, :-1]), 1)
                log_probs = model(ids, fed).log_softmax(-1).gather(2, written[..., None])[..., 0]
                totals = log_probs.masked_fill(written == PAD, 0).sum(-1).tolist()
                found = [h.log_prob for h in hypotheses]
                assert found == pytest.approx(totals, abs=1e-9)
            trees.append(search_tree(model, source[:1], DecodeConfig(beam=beam)))
        assert traces(model) == []
    for theirs, ours in zip(*searched, strict=True):
        assert [h.ids for h in theirs] == [h.ids for h in ours]
        assert [h.log_prob for h in theirs] == pytest.approx([h.log_prob for h in ours], abs=1e-9)
    assert [t.hypotheses[0].ids for t in trees] == [s[0][0].ids for s in searched]
    assert [n.id for n in trees[0].nodes] == [n.id for n in trees[1].nodes]


def test_the_edits_affect_long_diverging_hypotheses(models):
    """Guard for the tests above: hypotheses are long enough to be edited, and differ."""
    source, _ = small.batch(padding=True)
    for edits in (EDITS["an edge of the decoder cut"], EDITS["all at once"]):
        with edited(models[1], edits):
            found = search(models[1], source, DecodeConfig(beam=5))
        assert all(len(h.ids) > 5 for hypotheses in found for h in hypotheses)
        assert any(len({h.ids[:5] for h in hypotheses}) > 1 for hypotheses in found)
        plain = search(models[1], source, DecodeConfig(beam=5))
        assert [h[0].log_prob for h in found] != [h[0].log_prob for h in plain]


@torch.inference_mode()
def test_mean_ablation_zeroes_the_head_and_adds_the_mean(models):
    source, target = small.batch(padding=True)
    heads = {("cross", 1, 1), ("cross", 1, 3), ("encoder", 0, 0)}
    for model in models:
        means = means_of(model)
        outputs = {}
        for name, edits in (("off", Edits(heads_off=heads)), ("mean", Edits(heads_mean=heads))):

            def keep(site, call, output, name=name):
                outputs[name, site.kind, site.layer] = output[0]  # noqa: B023

            with edited(model, edits, means), after_attention(model.attention_sites(), keep):
                model(source, target)
        first = outputs["mean", "encoder", 0] - outputs["off", "encoder", 0]
        expected = means["encoder", 0][0].expand_as(first)
        assert torch.allclose(first, expected, rtol=0, atol=1e-12)  # the inputs are equal
        with edited(model, Edits(heads_mean=heads), means), capture(model) as captured:
            model(source, target)
        call = captured.of_kind("cross")[1]
        *_, value, output = call.site.projections()
        v = F.linear(call.memory, *value).unflatten(-1, (4, -1))
        z = torch.einsum("bhqk,bkhe->bqhe", call.weights, v)
        z[:, :, [1, 3]] = 0
        by_hand = F.linear(z.flatten(2), *output) + means["cross", 1][[1, 3]].sum(0)
        assert torch.allclose(outputs["mean", "cross", 1], by_hand, rtol=0, atol=1e-12)


REJECTED = {
    "cross layer 1, head 3 cannot be set to its mean": Edits(heads_mean={("cross", 1, 3)}),
    "cross layer 3, head 0 cannot be edited": Edits(edges=(Edge("cross", 3, 0, 0, 0),)),
    "encoder layer 2, head 0 cannot be edited": Edits(rows=(Row("encoder", 2, 0, 0, (1,)),)),
    "decoder layer 0, head 4 cannot": Edits(temperatures=(Temperature("decoder", 0, 4, 2.0),)),
    "cross layer 0, head 4 cannot be made uniform": Edits(heads_uniform={("cross", 0, 4)}),
}


@pytest.mark.parametrize("match", REJECTED)
def test_edits_outside_the_model_are_rejected(models, match):
    for model in models:
        with pytest.raises(EditError, match=match), edited(model, REJECTED[match]):
            pass
        assert traces(model) == []


@torch.inference_mode()
def test_a_key_beyond_the_source_is_rejected_in_the_pass(models):
    for model in models:
        beyond = edited(model, Edits(edges=(Edge("cross", 0, 0, 0, 9),)))
        match = "key 9 of cross does not exist: the source ends at 8"
        with pytest.raises(EditError, match=match), beyond:
            model(*small.batch(padding=True))
        assert traces(model) == []


NESTED = {  # an edit, one that cannot be made inside it, and one that can
    "masks": (Edits(hidden_source=(1,)), Edits(padding_mask=False), Edits(source_positions=OFF)),
    "positions": (Edits(source_positions=DOUBLED), Edits(source_positions=OFF), POSITIONS_OFF),
    "both sides": (
        Edits(source_positions=DOUBLED),
        Edits(target_positions=OFF, source_positions=OFF, hidden_source=(1,)),
        POSITIONS_OFF,
    ),
    "weights": (
        EDITS["an edge cut"],
        EDITS["a key cut for all queries"],
        EDITS["an edge of the encoder cut"],
    ),
}


@pytest.mark.parametrize(("outer", "inner", "other"), NESTED.values(), ids=NESTED)
def test_edits_of_the_same_target_do_not_nest(models, outer, inner, other):
    for model in models:
        with edited(model, outer):
            left = traces(model)
            match = "cannot be nested"
            with pytest.raises(NestedEditsError, match=match), edited(model, inner):
                pass
            assert traces(model) == left and left
            with edited(model, other):
                assert len(traces(model)) > len(left)
        assert traces(model) == []


def test_a_finite_mask_score_keeps_masked_keys_at_zero():
    """Edits must not let the finite score of a masked key become the largest."""
    models = small.pair(mask_score=-1e9)
    source, target = small.batch(padding=True)
    cut = Edits(edges=tuple(Edge("cross", None, None, None, k) for k in range(5)))
    found = []
    for model in models:
        with torch.inference_mode(), edited(model, cut), capture(model) as captured:
            found.append(model(source, target))
        assert not captured.maps("cross")[:, 1].any()  # row 1 has five tokens, then padding
        assert torch.allclose(captured.maps("cross")[:, 0].sum(-1), torch.tensor(1.0).double())
    real = target != PAD
    assert torch.allclose(found[0][real], found[1][real], rtol=0, atol=1e-12)


def test_gradients_flow_under_edits(models):
    source, target = small.batch(padding=False)
    for model in models:
        with edited(model, EDITS["all at once"]), torch.enable_grad():
            loss = model(source, target).logsumexp(-1).sum()
            weight = model.attention_sites()[0].projections().value.weight
            (gradient,) = torch.autograd.grad(loss, [next(iter(model.parameters()))])
        assert gradient.isfinite().all() and gradient.any() and weight.isfinite().all()
