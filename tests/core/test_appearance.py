"""When heads take on a role during training, in planted snapshots and in shipped ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.analysis.appearance import (
    agreement,
    marks,
    measures,
    near_diagonal,
    one_to_one,
    random_one_to_one,
    uniform_shares,
)
from core.config import ModelConfig
from core.kinds import KINDS
from core.record.attention_snapshots import FILE, AttentionSnapshots, Sentence

SHIPPED = Path(__file__).parents[2] / "checkpoints"
HEADS = 2
SIZES = ((3, 3), (4, 3))  # source and target tokens
UNTRAINED = 2  # number of points before the planted head aligns


def looking_at(keys, K):
    """Return a map whose row q puts all weight on keys[q]."""
    return np.eye(K)[list(keys)]


def planted(**changes):
    """Return snapshots of one layer at four points.

    Cross-attention head 0 aligns from the third point on, head 1 never.
    """
    sentences = tuple(
        Sentence(("a", "b", "c", "<eos>")[-S:], ("<bos>", "x", "y")[:T], ("x", "y", "<eos>")[-T:])
        for S, T in SIZES
    )
    maps: dict[str, tuple] = {}
    for kind in KINDS:
        found = []
        for sentence in sentences:
            Q, K = sentence.map_sizes[kind]
            unmasked = np.tril(np.ones((Q, K))) if kind == "decoder" else np.ones((Q, K))
            even = unmasked / unmasked.sum(-1, keepdims=True)
            weights = np.broadcast_to(even, (4, 1, HEADS, Q, K)).copy()
            if kind == "cross":
                weights[:] = looking_at([K - 1] * Q, K)  # all rows on <eos>
                order = [1, 0, 2] if K == 3 else [3, 0, 2]
                weights[UNTRAINED:, 0, 0] = looking_at(order, K)
            found.append(weights.astype(np.float16))
        maps[kind] = tuple(found)
    roles = {"encoder": 3, "decoder": 3, "cross": 1}
    values: dict[str, Any] = {
        "sentences": sentences,
        "steps": np.array([0, 10, 20, 40], np.int32),
        "loss": np.array([3, 2, 1, 1], np.float32),
        "bleu": np.zeros(4, np.float32),
        "maps": maps,
        "entropy": {kind: np.full((4, 1, HEADS), 0.5, np.float32) for kind in KINDS},
        "roles": {kind: np.zeros((4, roles[kind], 1, HEADS), np.float32) for kind in KINDS},
    }
    return AttentionSnapshots(**(values | changes))


def with_role(kind, role, shares, head=1, **changes):
    """Return `planted` with other shares for one role of one head, one share per point."""
    roles = {k: v.copy() for k, v in planted().roles.items()}
    roles[kind][:, role, 0, head] = shares
    return planted(roles=roles, **changes)


def with_keys(points, *orders, **changes):
    """Return `planted`, in which cross-attention head 0 attends to other keys at some points."""
    maps = {kind: tuple(m.copy() for m in of_kind) for kind, of_kind in planted().maps.items()}
    for map_PLHQK, order in zip(maps["cross"], orders, strict=False):
        map_PLHQK[points, 0, 0] = looking_at(order, map_PLHQK.shape[-1])
    return planted(maps=maps, **changes)


def described(snapshots):
    return [(m.kind, m.role, m.layer, m.head, m.point) for m in marks(snapshots)]


ALIGNED = ("cross", "aligning", 0, 0, 2)


def test_uniform_shares_are_those_of_even_rows():
    shares = uniform_shares(planted(), "encoder")
    np.testing.assert_allclose(shares, [(1 / 3 + 1 / 4) / 2] * 3)
    # Decoder rows have 1, 2 and 3 unmasked keys. The second row is the first with a previous token;
    # "itself" skips the first two, where every head would score high.
    expected = [(1 / 2 + 1 / 3) / 2, 1 / 3, (1 + 1 / 2 + 1 / 3) / 3]
    np.testing.assert_allclose(uniform_shares(planted(), "decoder"), expected)
    np.testing.assert_allclose(uniform_shares(planted(), "cross"), [(1 / 3 + 1 / 4) / 2])


def test_one_to_one_is_the_share_of_rows_whose_key_no_other_row_shares():
    assert one_to_one(planted())[:, 0].T.tolist() == [[0, 0, 1, 1], [0, 0, 0, 0]]
    two_of_three_rows_share_a_key = with_keys(3, [1, 1, 2])
    assert one_to_one(two_of_three_rows_share_a_key)[3, 0, 0] == pytest.approx((1 + 3) / 6)


def test_one_to_one_of_random_keys_equals_a_simulation():
    draw = np.random.default_rng(0)
    own = []
    for K, Q in SIZES:
        keys = draw.integers(K, size=(20_000, Q))
        own.append((keys[:, :, None] == keys[:, None, :]).sum(-1) == 1)
    expected = np.concatenate(own, -1).mean()
    assert random_one_to_one(planted()) == pytest.approx(expected, abs=0.01)


def test_agreement_is_with_the_last_point_and_near_diagonal_within_one_key():
    # At first all rows attend to <eos>. At the end the keys are [1, 0, 2] and [3, 0, 2], so the
    # last row of the first sentence and the first row of the second agree.
    found = agreement(planted())[:, 0].T.tolist()
    assert found == [pytest.approx([2 / 6, 2 / 6, 1, 1]), [1, 1, 1, 1]]
    # The diagonal of three rows is 0, 1, 2 over 3 keys and 0, 1.5, 3 over 4 keys. Over 4 keys, row
    # 0 attends to key 3, at distance 3, and row 1 to key 0, at distance 1.5. All rows of head 1
    # attend to <eos>: keys 2, 2, 2 and 3, 3, 3.
    assert near_diagonal(planted())[0] == pytest.approx([(3 + 1) / 6, (2 + 1) / 6])


def test_an_aligning_head_is_marked_at_the_point_from_which_it_aligns():
    (mark,) = marks(planted())
    assert (mark.kind, mark.role, mark.layer, mark.head, mark.point) == ALIGNED
    assert mark.last == 1 and mark.diagonal == pytest.approx(4 / 6)
    # One to one at point 1 already, but with other links than at the end.
    changed = with_keys(1, [2, 1, 0], [2, 1, 0])
    assert one_to_one(changed)[1, 0, 0] == 1 and agreement(changed)[1, 0, 0] < 0.5
    assert described(changed) == [ALIGNED]
    # One to one before training; without step 0, a head is compared with chance alone.
    always = slice(None), [1, 0, 2], [3, 0, 2]
    assert described(with_keys(*always)) == []
    late = with_keys(*always, steps=np.array([10, 20, 30, 40], np.int32))
    assert described(late) == [(*ALIGNED[:4], 0)]


@pytest.mark.parametrize(
    ("shares", "point"),
    [
        ([0.1, 0.5, 0.6, 0.7], 1),
        ([0.1, 0.5, 0.2, 0.7], 3),  # not kept at the third point
        ([0.1, 0.5, 0.6, 0.2], None),  # lost at the end
        ([0.1, 0.2, 0.29, 0.29], None),  # below 30 %
        ([0.1, 0.2, 0.31, 0.31], None),  # not 10 points above the 29 % of uniform attention
        ([0.1, 0.2, 0.40, 0.41], 2),
        ([0.35, 0.5, 0.44, 0.44], None),  # not 10 points above step 0
        ([0.35, 0.5, 0.46, 0.46], 1),
    ],
)
def test_a_role_is_marked_from_where_its_share_stays_above_the_level(shares, point):
    expected = [] if point is None else [("encoder", "itself", 0, 1, point)]
    assert described(with_role("encoder", 1, shares)) == [*expected, ALIGNED]


def test_each_share_is_marked_under_its_kind_role_and_head():
    names = {
        ("encoder", 0): "previous token",
        ("encoder", 2): "<eos>",
        ("decoder", 0): "previous token",
        ("decoder", 1): "itself",
        ("decoder", 2): "<bos>",
        ("cross", 0): "<eos>",
    }
    for (kind, role), name in names.items():
        for head in range(HEADS):
            found = described(with_role(kind, role, [0, 0.9, 0.9, 0.9], head))
            assert sorted(found) == sorted([(kind, name, 0, head, 1), ALIGNED])


def test_next_token_is_measured_on_the_maps():
    """From the second point on, head 1 puts 80 % on the next token; head 0 stays uniform."""
    maps = {kind: tuple(m.copy() for m in of_kind) for kind, of_kind in planted().maps.items()}
    for m in maps["encoder"]:
        K = m.shape[-1]
        rows = np.full((K, K), 0.2 / (K - 1))
        rows[range(K - 1), range(1, K)] = 0.8
        rows[-1] = 1 / K  # the last row has no next token and does not count
        m[1:, 0, 1] = rows
    snapshots = planted(maps=maps)
    assert described(snapshots) == [("encoder", "next token", 0, 1, 1), ALIGNED]
    (measure,) = (m for m in measures(snapshots)["encoder"] if m.name == "next token")
    even = (1 / 3 + 1 / 4) / 2
    np.testing.assert_allclose(measure.values[:, 0, 0], even, atol=1e-3)
    np.testing.assert_allclose(measure.values[:, 0, 1], [even, 0.8, 0.8, 0.8], atol=1e-3)
    assert measure.chance == pytest.approx(even)


def test_measures_equal_the_values_in_the_file():
    history = AttentionSnapshots.load(SHIPPED / "captions-en-de" / FILE)
    found = measures(history)
    for kind in KINDS:
        entropy, *rest = found[kind]
        assert np.array_equal(entropy.values, history.entropy[kind])
        for r, measure in enumerate(rest[: history.roles[kind].shape[1]]):
            assert np.array_equal(measure.values, history.roles[kind][:, r])


@pytest.mark.parametrize("name", ["scratch-de-en", "scratch-en-de", "captions-en-de"])
def test_the_marked_heads_of_a_shipped_network_keep_their_role(name):
    """Recompute previous-token shares at each point, and aligned keys at the last, from maps."""
    history = AttentionSnapshots.load(SHIPPED / name / FILE)
    found = described(history)
    for _, role, layer, head, point in (mark for mark in found if mark[0] == "encoder"):
        if role == "previous token":
            maps = [m[:, layer, head] for m in history.maps["encoder"]]
            of_each = [np.diagonal(m, -1, 1, 2).mean(-1) for m in maps]
            shares = np.mean(of_each, axis=0)
            assert min(shares[point:]) >= 0.3 - 1e-3 and shares[point - 1] < 0.3 + 1e-3
    aligning = [(layer, head) for _, role, layer, head, _ in found if role == "aligning"]
    assert aligning, "each shipped network has a head that aligns"
    for layer, head in aligning:
        keys = [m[-1, layer, head].argmax(-1).tolist() for m in history.maps["cross"]]
        assert np.mean([of_one.count(key) == 1 for of_one in keys for key in of_one]) >= 0.5


def test_snapshots_without_points_or_sentences_are_rejected():
    with pytest.raises(ValueError, match="no sentences or no points"):
        measures(planted().until(-1))


def test_the_file_of_another_network_is_rejected(tmp_path):
    sizes = {"source_vocab_size": 8, "target_vocab_size": 8, "d_model": 8, "num_heads": HEADS}
    config = ModelConfig(**sizes, num_encoder_layers=1, num_decoder_layers=1)
    assert AttentionSnapshots.of_network(tmp_path, config) is None
    planted().save(tmp_path / FILE)
    found = AttentionSnapshots.of_network(tmp_path, config)
    assert found is not None and found.steps.tolist() == [0, 10, 20, 40]
    for changes, kind, heads in (
        ({"num_decoder_layers": 2}, "decoder", "2 × 2"),
        ({"num_encoder_layers": 3}, "encoder", "3 × 2"),
        ({"num_heads": 4}, "encoder", "1 × 4"),
    ):
        words = f"its {kind} attention has 1 × 2 heads .layers × heads., not {heads}"
        with pytest.raises(ValueError, match=words) as caught:
            AttentionSnapshots.of_network(tmp_path, dataclasses.replace(config, **changes))
        assert str(caught.value).isprintable()
