"""The masks of a batch: a published worked example cell by cell, and parsing of typed ids."""

import numpy as np
import pytest
import torch

from core.experiments.batch_masks import BatchError, batch_masks, parse_rows
from core.model.masks import padding_mask, target_mask
from core.text.tokenizer import PAD
from tests import small

SOURCE = "[1,5,6,4,3,9,5,2,0]\n[1,8,7,3,4,5,6,7,2]"
TARGET = "[1,7,4,3,5,0,0,0]\n[1,5,6,2,4,7,6,2]"


@pytest.fixture(scope="module", params=["scratch", "baseline"])
def model(request):
    return dict(zip(("baseline", "scratch"), small.pair(), strict=True))[request.param]


@pytest.fixture(scope="module")
def blog(model):
    target_in = [row[:-1] for row in parse_rows(TARGET)]
    return batch_masks(model, parse_rows(SOURCE), target_in)


def test_the_masks_are_those_of_the_worked_example(blog):
    """In the first pair, the last source token and the last targets are <pad>."""
    source, target = np.ones((2, 9), bool), np.ones((2, 7), bool)
    source[0, 8] = target[0, 5:] = False
    assert np.array_equal(blog.masks["encoder"], np.repeat(source[:, None], 9, axis=1))
    assert np.array_equal(blog.masks["cross"], np.repeat(source[:, None], 7, axis=1))
    assert np.array_equal(blog.masks["decoder"], target[:, None] & np.tri(7, dtype=bool))


def test_shapes_broadcast_as_in_torch(blog, model):
    """The stored and the broadcast shapes, for 2 sentences and 4 heads."""
    heads = model.config.num_heads
    stored = {shape.name: shape.stored for shape in blog.shapes}
    broadcast = {shape.name: shape.broadcast for shape in blog.shapes}
    assert stored == {
        "source mask in the encoder": (2, 1, 1, 9),
        "source mask in cross-attention": (2, 1, 1, 9),
        "target mask: padding": (2, 1, 1, 7),
        "target mask: causal": (7, 7),
        "target mask: both": (2, 1, 7, 7),
    }
    assert set(broadcast.values()) == {(2, heads, 9, 9), (2, heads, 7, 9), (2, heads, 7, 7)}
    for name in stored:
        assert np.broadcast_shapes(stored[name], broadcast[name]) == broadcast[name]


def test_padding_and_causal_combine(blog):
    for kind in ("encoder", "decoder", "cross"):
        for row in range(2):
            padding, causal = blog.part(kind, row, "padding"), blog.part(kind, row, "causal")
            assert np.array_equal(padding & causal, blog.part(kind, row, "combined"))
    assert np.array_equal(blog.part("decoder", 0, "causal"), np.tri(7, dtype=bool))
    assert np.array_equal(blog.part("decoder", 0, "padding")[0], [1, 1, 1, 1, 1, 0, 0])
    assert blog.part("encoder", 1, "causal").all()


def test_shorter_rows_are_padded(model):
    found = batch_masks(model, [[5, 6, 2], [7, 2]], [[1, 8], [1, 9, 10, 11]])
    assert found.source.tolist() == [[5, 6, 2], [7, 2, PAD]]
    assert found.target_in.tolist() == [[1, 8, PAD, PAD], [1, 9, 10, 11]]
    source, target = torch.tensor(found.source), torch.tensor(found.target_in)
    assert np.array_equal(found.masks["decoder"], target_mask(target, PAD)[:, 0].numpy())
    assert np.array_equal(found.masks["encoder"][:, 0], padding_mask(source, PAD)[:, 0, 0].numpy())


def test_rows_of_ids_are_parsed_or_rejected():
    assert parse_rows(" [1, 5,0]\n\n1 5 0 \n1,5,0") == [[1, 5, 0]] * 3
    assert parse_rows("[7]") == [[7]] and parse_rows("") == []
    for wrong in ("[1, x]", "1.5", "-3", "<b>", "1\n[]", "1" * 7):
        with pytest.raises(BatchError, match="is not a list of ids: write numbers"):
            parse_rows(wrong)


@pytest.mark.parametrize(
    ("source", "target", "line"),
    [
        ([], [], "the source has an empty row"),
        ([[1]], [[]], "the target has an empty row"),
        ([[1]] * 7, [[1]] * 7, "7 source rows are too many: the limit is 6, remove some"),
        ([[1] * 129], [[1]], "a source row of 129 tokens is too long to draw: the limit is 128"),
        ([[1]], [[1, 99999]], "id 99999 is not in the target vocabulary: its ids end at"),
        ([[1], [2]], [[1]], "2 source rows and 1 target rows: the numbers must match"),
    ],
)
def test_bad_batches_are_rejected(model, source, target, line):
    with pytest.raises(BatchError, match=line):
        batch_masks(model, source, target)
