"""Residual-stream parts, checked against the modules' inputs and against head ablations."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from core.analysis.residual_stream import Component
from core.checkpoint.folder import load
from core.experiments.tracing import traces
from core.record.editing import edited
from core.record.edits import Edits, PositionEdit
from core.text.tokenizer import EOS
from tests import small

SOURCE, TARGET = [9, 8, 7, 6, 11, EOS], [30, 9, 30, EOS]
models = small.models(*small.SHAPES)
HEADS = [("encoder", 0, 1), ("decoder", 1, 3), ("cross", 2, 0)]


def largest_errors(trace) -> list[float]:
    """Return the error of every stream, compared with the actual input."""
    found = []
    for (kind, layer), site in trace.sites.items():
        found.append(trace.queries(kind, layer).largest_error(site.inputs_QD))
        found.append(trace.keys(kind, layer).largest_error(site.memory_KD))
    for side, (_, output) in trace.ends.items():
        found.append(trace.final(side).largest_error(output))
        found.append(trace.final(side, by_key=True).largest_error(output))
    return found


def test_parts_add_up_to_every_input(models):
    for model in models:
        (trace,) = traces(model, [SOURCE], [TARGET])
        assert max(largest_errors(trace)) < 1e-7  # maps are float32


def test_parts_add_up_in_float32(checkpoint_folder):
    (trace,) = traces(load(checkpoint_folder).model, [SOURCE], [TARGET])
    assert max(largest_errors(trace)) < 1e-5


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_a_heads_part_is_the_difference_its_ablation_makes(models, head):
    """The difference is read at the next norm's input, before any downstream effect."""
    kind, layer, _ = head
    side = "encoder" if kind == "encoder" else "decoder"
    for model in models:
        (trace,) = traces(model, [SOURCE], [TARGET])
        with edited(model, Edits(heads_off=frozenset({head}))):
            (without,) = traces(model, [SOURCE], [TARGET])
        norms, last = trace.norms[side], trace.last[side]
        place = next(i for i, n in enumerate(norms) if (n.kind, n.layer) == (kind, layer))
        next_on, next_off = (t.norms[side][place + t.norm_first] for t in (trace, without))
        missing_ND = next_on.input_ND - next_off.input_ND
        assert np.abs(missing_ND).max() > 1e-2
        for norm in (*(() if trace.norm_first else norms[place:]), *([last] if last else ())):
            missing_ND = norm.linearised(missing_ND)
        stream = trace.final(side)
        part_ND = stream.parts[stream.components.index(Component("head", *head))]
        assert np.abs(part_ND - missing_ND).max() < 1e-6


def test_norms_are_linearised_at_their_actual_scale():
    """Pre-norm: each part is centred by its own mean and divided by the σ of the whole sum."""
    for model in small.pair(norm_first=True):
        (trace,) = traces(model, [SOURCE], [TARGET])
        stream = trace.queries("encoder", 1)
        layers, _ = model.stack("encoder")
        norm = layers[1].get_submodule("norm1")
        with torch.inference_mode():
            x = model.embeddings.source(torch.tensor([SOURCE]))[0]
            place = model.embeddings.source_positions(len(SOURCE))
            word = x - place
        fed = torch.tensor(trace.norms["encoder"][2].input_ND)
        sigma = (fed.var(-1, correction=0, keepdim=True) + norm.eps).sqrt()
        for i, part in enumerate((word, place)):
            by_hand = norm.weight * (part - part.mean(-1, keepdim=True)) / sigma
            assert np.abs(stream.parts[i] - by_hand.detach().numpy()).max() < 1e-9
        assert np.array_equal(stream.parts[-1], np.tile(norm.bias.detach(), (len(SOURCE), 1)))
        assert stream.components[-1] == Component("norm shift", "encoder", 1)


def test_head_parts_by_key_add_up(models):
    (trace,) = traces(models[1], [SOURCE], [TARGET])
    whole, split = (trace.final("decoder", by_key=by_key) for by_key in (False, True))
    sums: dict[Component, np.ndarray] = {}
    keys: dict[Component, int] = {}
    for component, part in zip(split.components, split.parts, strict=True):
        head = replace(component, key=None)
        sums[head] = sums.get(head, 0) + part
        keys[head] = keys.get(head, 0) + 1
    assert tuple(sums) == whole.components
    assert np.abs(np.stack(list(sums.values())) - whole.parts).max() < 1e-12
    for component, count in keys.items():
        length = {"decoder": len(TARGET), "cross": len(SOURCE)}.get(component.kind)
        assert count == (1 if component.head is None else length)
    future = [c for c in split.components if c.kind == "decoder" and c.key == len(TARGET) - 1]
    rows = split.parts[[split.components.index(c) for c in future]]
    assert not rows[:, :-1].any() and rows[:, -1].any()  # causal mask


def test_removing_a_component_recomputes_the_norm(models):
    for model in models:
        (trace,) = traces(model, [SOURCE], [TARGET])
        stream = trace.final("decoder")
        for c in (0, 5, len(stream.components) - 1):
            held = stream.parts.sum(0) - stream.parts[c]
            found = stream.without(c)
            if stream.norm is None or stream.components[c] == stream.norm.shift:
                assert np.array_equal(found, held)
            else:
                fed = torch.from_numpy(stream.before.sum(0) - stream.before[c])
                gain, shift = (
                    torch.tensor(part) for part in (stream.norm.gain_D, stream.norm.shift_D)
                )
                by_hand = torch.nn.functional.layer_norm(fed, gain.shape, gain, shift, 1e-5)
                assert np.abs(found - by_hand.numpy()).max() < 1e-9
                assert np.abs(found - held).max() > 1e-6


def test_padding_does_not_change_a_trace(models):
    for model in models:
        _, short = traces(model, [[8, *SOURCE], SOURCE], [[31, 7, *TARGET], TARGET])
        (alone,) = traces(model, [SOURCE], [TARGET])
        assert max(largest_errors(short)) < 1e-7
        for side in ("encoder", "decoder"):
            assert np.abs(short.final(side).parts - alone.final(side).parts).max() < 1e-6
        assert np.abs(short.logits_TV - alone.logits_TV).max() < 1e-9


def test_traces_run_under_edits(models):
    edits = Edits(hidden_source=(1,), source_positions=PositionEdit(shift=4))
    for model in models:
        with edited(model, edits):
            (trace,) = traces(model, [SOURCE], [TARGET])
        assert max(largest_errors(trace)) < 1e-7
        assert not trace.sites["cross", 0].mask_QK[:, 1].any()


def test_component_labels_are_unique(models):
    (trace,) = traces(models[0], [SOURCE], [TARGET])
    for side in ("encoder", "decoder"):
        stream = trace.final(side)
        labels = [component.label for component in stream.components]
        assert len(set(labels)) == len(labels) == len(stream.parts)
    assert "cross layer 3 head 1" in labels and "decoder layer 1 feed-forward" in labels
    with pytest.raises(ValueError, match="token is not a head"):
        _ = Component("token").place
    with pytest.raises(ValueError, match="cross layer 7 does not exist: .* the last is 2"):
        trace.site("cross", 7)
