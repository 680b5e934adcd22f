"""Scores, their parts and their terms, checked against the modules and against removals."""

import math

import numpy as np
import pytest
import torch

from core.experiments.score_parts import SOURCES, embedded, score_parts, scores
from core.experiments.score_split import ENDS, score_split
from core.experiments.tracing import traces
from core.kinds import KINDS
from core.record.capture import capture
from core.record.editing import edited
from core.record.edits import Edits, PositionEdit
from core.text.tokenizer import BOS, EOS
from tests import small

SOURCE, TARGET = [9, 8, 7, 6, 11, EOS], [30, 9, 30, EOS]
models = small.models("pre-norm", "post-norm", "no final norm", "learned positions")
CELLS = [
    ("encoder", 0, 3, 2, 5),
    ("encoder", 1, 0, 5, 0),
    ("decoder", 0, 2, 3, 1),
    ("decoder", 2, 1, 2, 2),
    ("cross", 0, 3, 0, 4),
    ("cross", 2, 1, 3, 2),
]
ALL = 99  # more than there are components


def weight_of(scores_K, key: int, open_K) -> float:
    shares = np.exp(np.where(open_K, scores_K, -np.inf))
    return shares[key] / shares.sum()


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_terms_add_up_to_the_score(models, cell):
    kind, layer, head, query, key = cell
    for model in models:
        split = score_split(model, SOURCE, TARGET, *cell)
        drawn = scores(model, SOURCE, TARGET)[kind][layer, head]
        assert split.score == pytest.approx(drawn[query, key], abs=1e-9)
        assert split.terms.sum() == pytest.approx(drawn[query, key], abs=1e-6)
        assert split.largest_error < 1e-6
        for end in ENDS:
            assert len(split.components(end)) == len(split.by_component(end))
            assert split.by_component(end).sum() == pytest.approx(split.score, abs=1e-6)
        open_K = np.arange(len(drawn[query])) <= query if kind == "decoder" else True
        assert split.weight == pytest.approx(weight_of(drawn[query], key, open_K), abs=1e-6)


def test_the_first_layer_matches_score_parts(models):
    for model in models:
        parts = score_parts(model, SOURCE, TARGET, "encoder")
        split = score_split(model, SOURCE, TARGET, "encoder", 0, 1, 3, 2)
        for q, query in enumerate(("content", "position")):
            for k, key in enumerate(("content", "position")):
                cell = parts.part(query, key)[1, 3, 2]
                assert split.terms[q, k] == pytest.approx(cell, abs=1e-9)


def test_largest_terms_come_first(models):
    split = score_split(models[1], SOURCE, TARGET, *CELLS[3])
    first = split.largest(5)
    assert [abs(value) for *_, value in first] == sorted(np.abs(split.terms).ravel())[:-6:-1]
    query, key, value = first[0]
    place = split.query_components.index(query), split.key_components.index(key)
    assert split.terms[place] == value
    sizes = [
        abs(split.by_component(r.end)[split.components(r.end).index(r.component)])
        for r in split.removals
    ]
    every = np.concatenate([np.abs(split.by_component(end)) for end in ENDS])
    assert sizes == sorted(every)[: -len(sizes) - 1 : -1] and len(sizes) == 6


def test_groups_sum_their_terms(models):
    split = score_split(models[1], SOURCE, TARGET, "cross", 1, 0, 2, 1)
    rows, columns, sums = split.by_group()
    both = {"token", "position", "feed-forward", "norms, biases"}
    assert {*rows} == both | {"decoder heads", "cross heads"}
    assert {*columns} == both | {"encoder heads"}
    for r, row in enumerate(rows):
        for c, column in enumerate(columns):
            by_hand = sum(
                split.terms[q, k]
                for q, a in enumerate(split.query_components)
                for k, b in enumerate(split.key_components)
                if (a.group, b.group) == (row, column)
            )
            assert sums[r, c] == pytest.approx(by_hand, abs=1e-12)
    assert sums.sum() == pytest.approx(split.score, abs=1e-6)
    heads = [c for c in split.query_components if c.head is not None]
    assert {c.group for c in heads} == {"decoder heads", "cross heads"}
    assert {c.what for c in split.key_components if c.group == "norms, biases"} <= {
        "output bias", "norm shift", "feed-forward norm shift", "final norm shift", "key bias",
    }  # fmt: skip


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_predicted_removals_hold_the_norm(models, cell):
    """Scores lose exactly the component's terms; the weight is the softmax of the new scores."""
    kind, layer, head, query, key = cell
    for model in models:
        split = score_split(model, SOURCE, TARGET, *cell, removals=ALL)
        row_K = scores(model, SOURCE, TARGET)[kind][layer, head, query]
        open_K = np.arange(len(row_K)) <= query if kind == "decoder" else np.full(len(row_K), True)
        rows = [
            score_split(model, SOURCE, TARGET, kind, layer, head, query, k, removals=0)
            for k in range(len(row_K))
        ]
        assert len(split.removals) == sum(split.terms.shape)
        for removal in split.removals:
            c = split.components(removal.end).index(removal.component)
            assert removal.predicted.score == pytest.approx(
                -split.by_component(removal.end)[c], abs=1e-6
            )
            after_K = row_K - [one.by_component(removal.end)[c] for one in rows]
            change = weight_of(after_K, key, open_K) - weight_of(row_K, key, open_K)
            assert removal.predicted.weight == pytest.approx(change, abs=1e-6)


@pytest.mark.parametrize("shape", ["pre-norm", "post-norm"])
def test_true_removals_recompute_the_norm(shape):
    """Recompute a layer's query without one component, with torch's own norm."""
    for model in small.pair(**small.SHAPES[shape]):
        kind, layer, head, query, key = cell = ("encoder", 1, 2, 3, 0)
        (trace,) = traces(model, [SOURCE], [TARGET])
        stream = trace.queries(kind, layer)
        layers, _ = model.stack("encoder")
        norm = layers[1].norm1 if model.config.norm_first else layers[0].norm2
        site = trace.sites[kind, layer]
        split = score_split(model, SOURCE, TARGET, *cell, removals=ALL)
        moved = 0
        for removal in split.removals:
            c = split.components(removal.end).index(removal.component)
            if removal.end == "key" or c >= len(stream.before):
                continue
            left = torch.from_numpy(stream.before.sum(0) - stream.before[c])
            with torch.inference_mode():
                x = norm(left).numpy()[query]
            size = x.size // site.num_heads
            own = slice(head * size, (head + 1) * size)
            q = (site.to_query @ x + site.query_bias)[own]
            k = (site.memory_KD @ site.to_key.T + site.key_bias)[:, own]
            move = (k @ q / math.sqrt(size))[key] - split.score
            assert removal.true.score == pytest.approx(move, abs=1e-6)
            moved += abs(removal.true.score - removal.predicted.score) > 1e-4
        assert moved


def test_ablating_a_directly_preceding_head_equals_removing_it_from_the_input(models):
    """No head lies between a layer's self-attention and the query of its cross-attention."""
    for model in models:
        split = score_split(model, SOURCE, TARGET, "cross", 1, 2, 3, 4, removals=ALL)
        heads = [r for r in split.removals if r.component.head is not None and r.end == "query"]
        just_before = [r for r in heads if (r.component.kind, r.component.layer) == ("decoder", 1)]
        assert len(just_before) == model.config.num_heads
        for removal in just_before:
            assert removal.whole.score == pytest.approx(removal.true.score, abs=1e-6)
            assert removal.whole.weight == pytest.approx(removal.true.weight, abs=1e-6)
        others = [r for r in heads if r not in just_before]
        assert max(abs(r.whole.score - r.true.score) for r in others) > 1e-3


@pytest.mark.parametrize("cell", [CELLS[1], CELLS[5]], ids=str)
def test_whole_pass_removals_match_edits(models, cell):
    kind, layer, head, query, key = cell
    for model in models:
        split = score_split(model, SOURCE, TARGET, *cell, removals=ALL)
        before = scores(model, SOURCE, TARGET)[kind][layer, head, query]
        for removal in split.removals:
            assert (removal.whole is None) == (removal.component.what != "head")
            if removal.whole is None:
                continue
            with edited(model, Edits(heads_off=frozenset({removal.component.place}))):
                after = scores(model, SOURCE, TARGET)[kind][layer, head, query]
            weight = weight_of(after, key, True)
            assert removal.whole.score == pytest.approx((after - before)[key], abs=1e-9)
            assert removal.whole.weight == pytest.approx(weight - split.weight, abs=1e-6)


def test_cells_out_of_range_are_rejected(models):
    for wrong, message in (
        (("cross", 9, 0, 0, 0), "cross layer 9 does not exist: counted from 0, the last is 2"),
        (("cross", 0, 4, 0, 0), "head 4 does not exist: counted from 0, the last is 3"),
        (("cross", 0, 0, 4, 0), "query 4 does not exist: counted from 0, the last is 3"),
        (("cross", 0, 0, 0, -1), "key -1 does not exist: counted from 0, the last is 5"),
    ):
        with pytest.raises(ValueError, match=message):
            score_split(models[1], SOURCE, TARGET, *wrong)


def modules_scores(model) -> dict[str, list[np.ndarray]]:
    """Return q·k/√d_k by kind and layer, from the modules' own projections."""
    fed = torch.tensor([SOURCE]), torch.tensor([[BOS, *TARGET[:-1]]])
    with torch.inference_mode(), capture(model) as captured:
        model(*fed)
        found: dict[str, list[np.ndarray]] = {kind: [] for kind in KINDS}
        for call in captured.calls():
            to_query, to_key, *_ = call.site.projections()
            q, k = (
                torch.nn.functional.linear(x[0], *to).unflatten(-1, (4, -1)).transpose(0, 1)
                for x, to in ((call.query, to_query), (call.memory, to_key))
            )
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
