"""Position experiments, checked against separate passes; also with learned positions."""

import numpy as np
import pytest
import torch

from core.experiments.positions import equivariance, extrapolation
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
