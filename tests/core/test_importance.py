"""Head importance (zero ablation, mean ablation, gradient) agrees with independent passes."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from core.data.batches import collate
from core.experiments.importance import batches_of, head_means, importance
from core.record.capture import capture
from core.record.editing import edited
from core.record.edits import Edits
from core.text.tokenizer import EOS, PAD
from tests import small

HEADS = [("encoder", 0, 1), ("decoder", 2, 0), ("cross", 1, 1)]
models = small.models("post-norm", "pre-norm")


def pairs(count: int = 7, longest: int = 8, seed: int = 2) -> list[tuple[list[int], list[int]]]:
    torch.manual_seed(seed)
    lengths = torch.randint(2, longest + 1, (count, 2)).tolist()
    return [(small.source_row(s), small.source_row(t)) for s, t in lengths]


@torch.no_grad()
def loss_of(model) -> float:
    batch = collate(pairs())
    logits = model(batch.source, batch.target_in)
    return F.cross_entropy(logits.mT, batch.target_out, ignore_index=PAD).item()


def test_loss_changes_match_edited_passes(models):
    for model in models:
        counts = []
        loss, rows = importance(model, pairs(), on_progress=counts.append)
        whole = loss_of(model)
        assert loss == pytest.approx(whole, abs=1e-6)
        sites = len(model.attention_sites())
        heads = model.config.num_heads
        assert len(rows) == sites * heads == sum(counts)
        for row in rows:
            head = row.kind, row.layer, row.head
            with edited(model, Edits(heads_off=frozenset({head}))):
                assert row.loss_change == pytest.approx(loss_of(model) - whole, abs=1e-6)
            assert row.low <= row.loss_change <= row.high
            assert row.low < row.high
    assert importance(models[1], pairs())[1] == rows
    with pytest.raises(ValueError, match="no sentence pair: at least 1"):
        importance(models[1], [])


def test_the_gradient_matches_finite_differences(models):
    """Compare with central differences: the head's output columns are scaled by 1 ± 1e-5."""
    for model in models:
        _, rows = importance(model, pairs(), "gradient")
        sites = {(s.kind, s.layer): s for s in model.attention_sites()}
        for row in rows:
            weight = sites[row.kind, row.layer].projections().output.weight
            found = []
            with torch.no_grad():
                columns = weight.unflatten(1, (model.config.num_heads, -1))[:, row.head]
                kept = columns.clone()
                for gate in (1 - 1e-5, 1 + 1e-5):
                    columns.copy_(kept * gate)
                    found.append(loss_of(model))
                columns.copy_(kept)
            assert row.loss_change == pytest.approx((found[0] - found[1]) / 2e-5, abs=1e-5)


def test_a_constant_head_equals_its_mean():
    _, model = small.pair(norm_first=True)
    for site in model.attention_sites():  # values that do not depend on the attended token
        with torch.no_grad():
            site.projections().value.weight.zero_()
    _, zero = importance(model, pairs())
    _, mean = importance(model, pairs(), "mean")
    assert max(abs(row.loss_change) for row in mean) < 1e-6
    assert max(abs(row.loss_change) for row in zero) > 1e-3


UNEQUAL = pairs(30, 21, seed=7)
"""Some are ten times as long as others."""


def sentence_losses(model, pairs) -> np.ndarray:
    """Return the loss of each sentence in nats, from one pass per sentence."""
    found = []
    for pair in pairs:
        batch = collate([pair])
        logits = model(batch.source, batch.target_in)[0]
        found.append(F.cross_entropy(logits, batch.target_out[0], reduction="sum").item())
    return np.array(found)


@torch.no_grad()
def test_intervals_match_a_bootstrap_over_sentences():
    """Compare with 20,000 resamples: summed changes over summed tokens of the same sentences."""
    _, model = small.pair(norm_first=True)
    # All targets repeat one word, so that heads affect long sentences more than short ones.
    given = [(source, [5] * (len(target) - 1) + [EOS]) for source, target in UNEQUAL]
    tokens = np.array([len(target) for _, target in given])
    before = sentence_losses(model, given)
    drawn = np.random.default_rng(5).integers(len(given), size=(20_000, len(given)))
    rows = {(row.kind, row.layer, row.head): row for row in importance(model, given)[1]}
    distinguishable = 0
    for head in HEADS:
        with edited(model, Edits(heads_off=frozenset({head}))):
            change = sentence_losses(model, given) - before
        row = rows[head]
        assert row.loss_change == pytest.approx(change.sum() / tokens.sum(), abs=1e-6)
        means = change[drawn].sum(1) / tokens[drawn].sum(1)
        low, high = np.percentile(means, [2.5, 97.5])
        near = 0.05 * (high - low)  # three standard errors: `importance` draws 2,000 times
        assert row.low == pytest.approx(low, abs=near) and row.high == pytest.approx(high, abs=near)
        fixed = np.percentile(change[drawn].sum(1) / tokens.sum(), [2.5, 97.5])
        distinguishable += max(abs(fixed - (low, high))) > 3 * near
    assert distinguishable, "dividing by fixed token counts must be detectable for some head"


@torch.no_grad()
def test_head_means_exclude_padding(models):
    """The means over padded batches equal the means over unpadded passes, one per sentence."""
    for model in models:
        sums: dict = {}
        for pair in UNEQUAL:
            batch = collate([pair])
            with capture(model) as captured:
                model(batch.source, batch.target_in)
            for call in captured.calls():
                *_, value, output = call.site.projections()
                H = call.site.num_heads
                v_KHE = F.linear(call.memory[0], *value).unflatten(-1, (H, -1))
                z_QHE = torch.einsum("hqk,khe->qhe", call.weights[0], v_KHE)
                part_QHD = torch.einsum("qhe,dhe->qhd", z_QHE, output.weight.unflatten(1, (H, -1)))
                sums.setdefault((call.site.kind, call.site.layer), []).append(part_QHD)
        found = head_means(model, batches_of(UNEQUAL))
        assert set(found) == set(sums)
        for at, parts in sums.items():
            expected = torch.cat(parts).mean(0).float()
            assert torch.allclose(found[at], expected, rtol=0, atol=1e-6)
