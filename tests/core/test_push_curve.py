"""The curve of a push: its probabilities are those of passes with the edit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import core
from core.experiments.push_curve import LIKELY, LONGEST, STEPS, replacements
from core.record.edits import Edits, Push, RandomPush
from core.text.tokenizer import BOS

TEXT = "Ein Hund läuft durch den Schnee."


def test_each_point_is_a_pass_with_the_edit():
    translator = core.load("scratch-de-en", device="cpu")
    record = translator.inspect(TEXT)
    ids = [token.id for token in record.target_out]
    step = [token.text for token in record.target_out].index("dog")
    (new, _) = (token.id for token in translator.tokens("cat", "target"))
    push = Push("encoder", 2, 1, ids[step], new, 1.0)
    curve = core.push_curve(translator, record, push, step, seeds=2)
    assert len(curve.strengths) == STEPS + 1 and curve.strengths[0] == 0
    assert 0.6 < curve.strengths[-1] / (LONGEST * curve.length) < 1.5

    def chances(one: Push | RandomPush) -> list[float]:
        found = []
        for word in (ids[step], new):
            target = [*ids[:step], word, *ids[step + 1 :]]
            edited = translator.inspect(TEXT, edits=Edits(pushes=(one,)), target_ids=target)
            found.append(float(np.exp(edited.log_probs[step])))
        return found

    for k in (0, 3, STEPS):
        strength = float(curve.strengths[k])
        same = chances(Push("encoder", 2, 1, ids[step], new, strength))
        assert [curve.old[k], curve.new[k]] == pytest.approx(same, rel=1e-3)
        for seed in (0, 1):
            same = chances(RandomPush("encoder", 2, 1, seed, strength))
            found = [curve.random_old[seed, k], curve.random_new[seed, k]]
            assert found == pytest.approx(same, rel=1e-3)
    assert curve.new[-1] > 0.5 > curve.random_new[:, -1].max()


def test_what_may_replace_a_word_is_likely_in_its_place_and_similar():
    translator = core.load("scratch-de-en", device="cpu")
    record = translator.inspect(TEXT)
    ids = [token.id for token in record.target_out]
    step = [token.text for token in record.target_out].index("dog")
    found = replacements(translator, record, step, count=30)
    model = translator.checkpoint.model
    source = torch.tensor([[token.id for token in record.source]])
    with torch.inference_mode():
        logits = model(source, torch.tensor([[BOS, *ids[:step]]]))[0, -1]
        weight = model.embeddings.projection.weight.double().numpy()
        for id, after in found[:3]:
            fed = torch.tensor([[BOS, *ids[:step], id]])
            assert int(model(source, fed)[0, -1].argmax()) == after
    centred = weight - weight.mean(axis=0)
    cosines = centred @ centred[ids[step]] / np.linalg.norm(centred, axis=1)
    likely = {int(one) for one in logits.argsort(descending=True)[:LIKELY]} - {ids[step]}
    assert [id for id, _ in found] == sorted(likely, key=lambda id: -cosines[id])[:30]
    assert set(np.argsort(-cosines)[1:31].tolist()) - likely, "more similar"
