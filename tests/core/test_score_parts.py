"""Scores and their parts, checked against the modules' own queries and keys."""

import math

import numpy as np
import pytest
import torch

from core.experiments.score_parts import SOURCES, embedded, score_parts, scores
from core.model.baseline import Baseline
from core.record.capture import capture
from core.record.editing import edited
from core.record.edits import Edits, PositionEdit
from core.text.tokenizer import BOS, EOS
from tests import small

SOURCE, TARGET = [9, 8, 7, 6, 11, EOS], [30, 9, 30, EOS]
models = small.models("pre-norm", "post-norm", "no q/k/v bias", "tied, learned positions")


def modules_scores(model) -> dict[str, list[np.ndarray]]:
    """Return q·k/√d_k by kind and layer, from the modules' own projections."""
    fed = torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET[:-1]]])
    with torch.inference_mode(), capture(model) as captured:
        model(*fed)
    found = {"encoder": [], "decoder": [], "cross": []}
    for call in captured.calls():
        module, heads = call.site.module, call.site.module.num_heads
        with torch.inference_mode():
            if isinstance(model, Baseline):
                weights = module.in_proj_weight.chunk(3)
                packed = module.in_proj_bias
                biases = (None,) * 3 if packed is None else packed.chunk(3)
                linear = torch.nn.functional.linear
                q = linear(call.query, weights[0], biases[0])
                k = linear(call.memory, weights[1], biases[1])
            else:
                q, k = module.query(call.query), module.key(call.memory)
            q, k = (x[0].unflatten(-1, (heads, -1)).transpose(0, 1) for x in (q, k))
            found[call.site.kind].append((q @ k.mT / math.sqrt(q.shape[-1])).numpy())
    return found


def test_scores_match_the_modules(models):
    for model in models:
        expected, found = modules_scores(model), scores(model, SOURCE, TARGET)
        for kind in expected:
            assert np.abs(np.stack(expected[kind]) - found[kind]).max() < 1e-9


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_parts_add_up_to_the_score(models, kind):
    for model in models:
        parts = score_parts(model, SOURCE, TARGET, kind)
        whole = modules_scores(model)[kind][0]
        four = sum(parts.part(q, k) for q in SOURCES[:2] for k in SOURCES[:2])
        assert np.abs(four + parts.with_bias - whole).max() < 1e-9
        assert parts.largest_error < 1e-9
        masked = np.where(parts.mask, parts.parts.sum((0, 1)), -np.inf)
        weights = np.exp(masked) / np.exp(masked).sum(-1, keepdims=True)
        assert np.abs(weights - parts.weights).max() < 1e-6
        assert np.array_equal(parts.mask, np.tri(4) == 1) or kind == "encoder"
        assert parts.norm_first == model.config.norm_first


def test_parts_depend_only_on_their_sources():
    """Post-norm: content parts do not depend on positions, nor position parts on words."""
    for model in small.pair():
        parts = score_parts(model, SOURCE, TARGET, "encoder")
        words = score_parts(model, [20, 21, 22, 23, 24, EOS], TARGET, "encoder")
        moved = Edits(source_positions=PositionEdit(shift=4))
        with edited(model, moved):
            places = score_parts(model, SOURCE, TARGET, "encoder")

        def unchanged(other, query, key, parts=parts):
            return np.abs(parts.part(query, key) - other.part(query, key)).max() < 1e-9

        by_place = [("position", "position"), ("position", "bias"), ("bias", "position")]
        by_word = [("content", "content"), ("content", "bias"), ("bias", "content")]
        assert all(unchanged(places, *pair) for pair in by_word)
        assert not any(unchanged(words, *pair) for pair in by_word)
        assert all(unchanged(words, *pair) for pair in by_place)
        assert not any(unchanged(places, *pair) for pair in by_place)
        assert not unchanged(words, "content", "position")


def test_embedded_adds_up_to_the_first_layers_input(models):
    for model in models:
        for side, ids in (("source", SOURCE), ("target", [BOS, *TARGET[:-1]])):
            content, position = embedded(model, ids, side)
            with torch.inference_mode():
                fed = getattr(model.embeddings, side)(torch.tensor([ids]))[0].numpy()
                table = getattr(model.embeddings, f"{side}_positions")(len(ids)).numpy()
            assert np.abs(content + position - fed).max() < 1e-12
            assert np.array_equal(position, table)
