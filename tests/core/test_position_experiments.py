"""Position experiments and tables, checked against separate passes and the model's vectors."""

import numpy as np
import pytest
import torch

from core.analysis.position_table import products_by_distance, rotation, rotation_error, sums
from core.experiments.positions import equivariance, extrapolation
from core.experiments.score_parts import embedded
from core.model.positions import sinusoids
from core.record.edits import EditError
from core.text.tokenizer import BOS, EOS
from tests import small

SOURCE, TARGET = [9, 8, 7, 6, 11, EOS], [30, 9, 31, EOS]
ORDER = [2, 0, 1, 4, 3, 5]


@pytest.mark.parametrize("shape", [{}, {"norm_first": True}, {"learned_positions": True}])
@torch.inference_mode()
def test_without_positions_the_encoder_is_equivariant(shape):
    for model in small.pair(**shape):
        off, on = (equivariance(model, SOURCE, ORDER, positions) for positions in (False, True))
        assert off.map_difference < 1e-12 and off.output_difference < 1e-12
        assert on.map_difference > 1e-3 and on.output_difference > 1e-2
        assert off.order == tuple(ORDER)
        for seen in (off, on):
            again = model.encode(torch.tensor([[SOURCE[i] for i in ORDER]]))[0]
            assert seen.moved_maps.shape == seen.new_maps.shape == (2, 4, 6, 6)
            plain = model.encode(torch.tensor([SOURCE]))[0]
            if seen is on:
                by_hand = (plain[0, ORDER] - again[0]).abs().max().item()
                assert seen.output_difference == pytest.approx(by_hand)


@torch.inference_mode()
def test_extrapolation_shifts_positions_only():
    _, model = small.pair()
    found = extrapolation(model, SOURCE, TARGET, [0, 3, 400])
    following = torch.tensor(TARGET)[:, None]
    fed = torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET[:-1]]])

    def by_hand() -> float:
        return model(*fed)[0].softmax(-1).gather(1, following).mean().item()

    assert found.probability[0] == pytest.approx(by_hand())
    d_model = model.config.d_model
    for table in (model.embeddings.source_positions, model.embeddings.target_positions):
        table.table = sinusoids(500, d_model)[400:]  # starts at the shifted position
    assert found.probability[2] == pytest.approx(by_hand(), abs=1e-6)
    assert len(set(np.round(found.probability, 8))) == 3


def test_a_learned_table_does_not_extrapolate():
    _, model = small.pair(learned_positions=True, max_length=12)
    assert len(extrapolation(model, SOURCE, TARGET, [0, 6]).probability) == 2
    with pytest.raises(EditError, match="was never learned"):
        extrapolation(model, SOURCE, TARGET, [0, 7])


IDS = [9, 8, 7, 6, 11, EOS]


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    """Return a model's sinusoidal table in float32."""
    _, model = small.pair()
    return model.embeddings.source_positions(40).float().numpy()


@pytest.mark.parametrize("k", [0, 1, 5, 39])
def test_a_shift_is_a_rotation(table, k):
    matrix = rotation(k, table.shape[1])
    for p in range(len(table) - k):
        assert np.abs(matrix @ table[p] - table[p + k]).max() < 1e-6
    assert rotation_error(table, k) < 1e-6
    assert np.allclose(matrix @ matrix.T, np.eye(table.shape[1]))  # orthogonal
    assert np.linalg.det(matrix) == pytest.approx(1)


def test_other_matrices_and_learned_tables_are_no_rotation(table):
    learned = np.random.default_rng(0).normal(size=table.shape)
    assert rotation_error(learned, 3) > 0.1
    turned_back = rotation(3, table.shape[1]).T
    assert np.abs(turned_back @ table[5] - table[8]).max() > 0.1
    assert not np.allclose(rotation(2, 16), rotation(3, 16))


def test_products_are_grouped_by_distance(table):
    distance, mean, low, high = products_by_distance(table)
    assert (distance == np.arange(-39, 40)).all() and (high - low).max() < 1e-4
    exact = sinusoids(41, table.shape[1]).numpy()
    for d, value in zip(distance, mean, strict=True):
        assert value == pytest.approx(exact[0] @ exact[abs(d)], abs=1e-4)
    learned = np.random.default_rng(0).normal(size=(4, 6))
    _, mean, low, high = products_by_distance(learned)
    pairs = [learned[p] @ learned[p + 2] for p in range(2)]
    assert (mean[5], low[5], high[5]) == pytest.approx((np.mean(pairs), min(pairs), max(pairs)))


def test_sums_match_the_models_vectors():
    _, model = small.pair()
    found = sums(*embedded(model, IDS, "source"))
    with torch.inference_mode():
        ids = torch.tensor([IDS])
        words = model.embeddings.source_table(ids)[0] * model.config.d_model**0.5
        places = model.embeddings.source_positions(len(IDS))
        total = model.embeddings.source(ids)[0]
    for mine, theirs in ((found.content, words), (found.position, places), (found.total, total)):
        assert np.allclose(mine, theirs.norm(dim=-1).numpy(), atol=1e-9)
    cosine = torch.nn.functional.cosine_similarity(words, total, dim=-1)
    assert np.allclose(found.cosine, cosine.numpy(), atol=1e-9)
    assert np.allclose(found.position, (model.config.d_model / 2) ** 0.5)  # sin² + cos² = 1


def test_the_plane_is_the_first_two_principal_components():
    """Compare with the eigenvectors of the covariance of embeddings and sums."""
    _, model = small.pair()
    content, position = embedded(model, IDS, "source")
    found = sums(content, position)
    points = np.concatenate([content, content + position])
    values, vectors = np.linalg.eigh(np.cov(points.T))
    assert found.explained == pytest.approx(values[-2:].sum() / values.sum())
    drawn = np.concatenate([found.before, found.after])
    expected = (points - points.mean(0)) @ vectors[:, :-3:-1]
    assert np.allclose(np.abs(drawn), np.abs(expected), atol=1e-9)
    step = found.after - found.before  # the projection is linear
    assert np.allclose(np.abs(step), np.abs(position @ vectors[:, :-3:-1]), atol=1e-9)


def test_zero_vectors_have_cosine_0():
    found = sums(np.zeros((3, 4)), np.eye(3, 4))
    assert (found.cosine == 0).all() and (found.total == 1).all()
