"""Logit lens and DecoderLens: the last row is the output, the others are recomputed."""

import numpy as np
import torch

from core.checkpoint.folder import load
from core.data.batches import collate
from core.experiments.logit_lens import decoder_lens, decoder_lenses, lens, lenses
from core.record.activations import hidden_states
from core.text.tokenizer import EOS
from tests import small

SOURCE, TARGET = [9, 8, 7, 6, 11, EOS], [30, 9, 30, EOS]
models = small.models("pre-norm", "post-norm", "no final norm")


def fed():
    batch = collate([(SOURCE, TARGET)])
    return batch.source, batch.target_in


def assert_reads(grid, row: int, logits_TV: torch.Tensor) -> None:
    """Check that a grid row matches these logits bit for bit."""
    chances = logits_TV.double().softmax(-1)
    own = torch.tensor(TARGET)[:, None]
    assert np.array_equal(grid.ids[row], chances.argmax(-1))
    assert np.array_equal(grid.probabilities[row], chances.max(-1).values)
    assert np.array_equal(grid.written_probabilities[row], chances.gather(-1, own)[:, 0])
    order = logits_TV.argsort(-1, descending=True)
    assert np.array_equal(grid.written_ranks[row] - 1, (order == own).nonzero()[:, 1])


@torch.inference_mode()
def test_the_last_row_equals_the_output(models, checkpoint_folder):
    for model in (*models, load(checkpoint_folder).model):
        output = model(*fed())[0]
        for question in (lens, decoder_lens):
            grid = question(model, SOURCE, TARGET)
            assert grid.exact
            assert_reads(grid, -1, output)
            assert grid.written == tuple(TARGET)
            assert len(grid.rows) == len(grid.ids) == len(grid.written_ranks)


@torch.inference_mode()
def test_lens_applies_final_norm_and_classifier(models):
    for model in models:
        grid = lens(model, SOURCE, TARGET)
        source, target_in = fed()
        memory = model.encode(source)
        with hidden_states(model) as states:
            model.decode(target_in, *memory)
        _, norm = model.stack("decoder")
        entering = model.embeddings.target(target_in)
        every = [entering, *states.sublayers("decoder").flatten(0, 1)]
        assert len(every) == len(grid.ids) == 3 * 3 + 1
        for row, state in enumerate(every):
            assert_reads(grid, row, model.classify(norm(state))[0])
        labels = [row.label for row in grid.rows]
        assert labels[:3] == ["embeddings", "layer 1 self-attention", "layer 1 cross-attention"]
        assert labels[-1] == "layer 3 feed-forward" and len(set(labels)) == 10


@torch.inference_mode()
def test_decoder_lens_applies_the_encoders_final_norm(models):
    for model in models:
        grid = decoder_lens(model, SOURCE, TARGET)
        source, target_in = fed()
        state, (layers, norm) = model.embeddings.source(source), model.stack("encoder")
        memory, mask = model.encode(source)
        assert [row.label for row in grid.rows] == ["embeddings", "layer 1", "layer 2"]
        given = {} if hasattr(model, "transformer") else {"source_mask": mask}
        for row in range(3):
            read = norm(state)
            logits = model.classify(model.decode(target_in, read, mask))[0]
            chances = logits.double().softmax(-1)
            assert np.abs(grid.probabilities[row] - chances.max(-1).values.numpy()).max() < 1e-9
            if row < 2:
                assert (read - memory).abs().max() > 1e-3
                state = layers[row](state, **given)


def test_padding_does_not_change_a_lens(models):
    for model in models:
        sources, targets = [[8, *SOURCE], SOURCE], [[31, 7, *TARGET], TARGET]
        for many, question in ((lenses, lens), (decoder_lenses, decoder_lens)):
            _, short = many(model, sources, targets)
            alone = question(model, SOURCE, TARGET)
            assert short.exact and short.written == alone.written
            assert np.array_equal(short.ids, alone.ids)
            assert np.abs(short.written_probabilities - alone.written_probabilities).max() < 1e-9
