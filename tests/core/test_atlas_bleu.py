"""BLEU from summed n-gram statistics equals sacreBLEU's score of the texts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sacrebleu.metrics import BLEU

from core.atlas.bleu import SetBleu, Statistics, bleu, each_head, head_bleu
from core.atlas.corpus import drawn
from core.atlas.examples import Examples, examples, quoted_lines
from core.atlas.sums import bootstrap_weights
from core.model.baseline import copy_to_baseline
from core.model.build import build
from core.record.capture import capture
from core.text.tokenizer import BOS
from tests.core.atlas_network import checkpoint, heads, sentences, token_losses, total, translation

REFERENCES = ["The cat sat on the mat, didn't it?", "A dog.", "Two men play in the park today."]
TEXTS = {
    "close": ["The cat sat on the mat, did it?", "A dog.", "Two men play in a park."],
    "no four-gram": ["The mat.", "dog", "men in park"],
    "no four-gram right": [
        "The cat the mat sat, it did?",
        "A dog runs.",
        "Two men the park in play",
    ],
    "other case": [
        "the Cat sat on the mat, didn't it?",
        "a dog.",
        "Two Men play in the park today.",
    ],
    "no bigram": ["cat The", "dog A", "today play"],
    "nothing right": ["x y z", "y", "q r s t u"],
    "long": ["The cat sat on the mat " * 3, "A dog. A dog.", "Two men play in the park today."],
    "empty": ["", "", ""],
    "right": REFERENCES,
}


@pytest.mark.parametrize("texts", TEXTS.values(), ids=TEXTS)
def test_bleu_of_sums_is_the_corpus_score(texts):
    counted = Statistics(REFERENCES)(texts)
    assert counted.shape == (3, 10) and counted.dtype == np.int64
    expected = BLEU().corpus_score(texts, [REFERENCES]).score
    assert bleu(counted.sum(0)) == expected
    repeated = [0, 0, 2, 2, 2]  # a replicate: the first twice, the last three times
    score = BLEU().corpus_score([texts[i] for i in repeated], [[REFERENCES[i] for i in repeated]])
    both = np.stack([counted.sum(0), counted[repeated].sum(0)])
    assert bleu(both).tolist() == [expected, score.score]


def test_no_sentence_has_no_bleu():
    assert np.isnan(bleu(np.zeros((2, 10), np.int64))).all()


@pytest.fixture(scope="module")
def texts():
    """Translations by the whole network, then with one head ablated, for every third head."""
    network = checkpoint()
    choices = [[], *([head] for head in heads(network.model)[::3])]
    return [
        [translation(network, s.source_text, off) for s in sentences().sentences] for off in choices
    ]


@pytest.fixture(scope="module")
def arrays():
    return head_bleu(total(each_head(checkpoint().model)))


def test_changes_match_corpus_scores(arrays, texts):
    references = [s.reference for s in sentences().sentences]
    whole, *others = (BLEU().corpus_score(t, [references]).score for t in texts)
    assert 10 < whole < 90 and len(set(others)) > 3
    assert arrays["bleu"][0] == pytest.approx(whole, abs=1e-4)
    found = arrays["bleu_zero"][::3, 0]
    np.testing.assert_allclose(found, [score - whole for score in others], atol=1e-4)
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}
    assert arrays["bleu_zero_p"].shape == (len(arrays["bleu_zero"]),)


@pytest.mark.parametrize("architecture", ["scratch", "baseline"])
def test_sets_with_the_same_encoder_heads_share_the_encoder_passes(architecture):
    """The order of the sets does not matter; no hook or method stays on the network."""
    network, some = checkpoint(), sentences().sentences[:5]
    one, two = ("encoder", 0, 1), ("encoder", 0, 2)
    choices = ((one,), (("cross", 0, 1),), (one, two), (("decoder", 1, 0), one), (two, one))
    passes = []
    if architecture == "baseline":
        baseline = build("baseline", network.model.config).double().eval()
        copy_to_baseline(network.model, baseline)
        network = replace(network, model=baseline)
    else:
        hook = network.model.encoder[0].register_forward_hook(lambda *call: passes.append(call))
    found = SetBleu("x", choices)(network, some)["x_ngrams"][0]
    if architecture == "scratch":
        hook.remove()
        assert len(passes) == 3, "encoder heads off: none, `one`, `one` and `two`"
    assert "encode" not in vars(network.model)
    for row, choice in zip(found, ((), *choices), strict=True):
        texts = [translation(network, s.source_text, choice) for s in some]
        score = BLEU().corpus_score(texts, [[s.reference for s in some]])
        assert row.tolist() == [score.sys_len, score.ref_len, *score.counts, *score.totals]


def test_each_replicate_compares_two_scores_of_the_same_sentences(texts):
    """Intervals are recomputed from sacreBLEU's scores of the resampled sentences."""
    network, lines = checkpoint(), sentences().sentences[:14]
    arrays = head_bleu(each_head(network.model)(network, lines))
    weights = bootstrap_weights(s.index for s in lines).astype(int)
    index = 1 + max(range(len(texts) - 1), key=lambda i: abs(arrays["bleu_zero"][3 * i, 0]))
    whole, changes = [], []
    for column in weights.T[1:]:
        drawn = np.repeat(np.arange(len(lines)), column)
        scores = [
            BLEU().corpus_score([t[i] for i in drawn], [[lines[i].reference for i in drawn]]).score
            for t in (texts[0], texts[index])
        ]
        whole.append(scores[0])
        changes.append(scores[1] - scores[0])
    for found, values in ((arrays["bleu"], whole), (arrays["bleu_zero"][3 * (index - 1)], changes)):
        np.testing.assert_allclose(found[1:], np.percentile(values, (2.5, 97.5)), atol=1e-3)


def test_quoted_sentences_are_short_and_drawn_evenly():
    """Drawn from 400 sentences, every fourth of which has a side that is too long."""
    some = sentences().sentences
    long = {0: {"source_text": "x" * 201}, 4: {"reference": "y" * 201}}
    many = tuple(
        some[i % len(some)].line._replace(index=i, **long.get(i % 8, {"reference": "z" * 200}))
        for i in range(400)
    )
    found = quoted_lines(many)
    indices = [s.index for s in found]
    assert len(found) == 64 and indices == sorted(set(indices))
    assert not any(i % 4 == 0 for i in indices)
    quarters = np.histogram(indices, 4, (0, 400))[0]
    assert quarters.min() > 6
    assert found == quoted_lines(many)
    assert drawn(many, 1000, 1) == many and len(drawn(many, 7, 1)) == 7
    assert drawn(many, 7, 1) != drawn(many, 7, 2)


@torch.inference_mode()
def maps_of(network, sentence) -> dict:
    source, target = sentence.ids
    with capture(network.model) as captured:
        network.model(torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]]))
    return {(c.site.kind, c.site.layer): c.weights[0].numpy() for c in captured.calls()}


def test_strength_and_cells_match_edited_passes():
    network, some = checkpoint(), sentences().sentences[4:9]
    sums = Examples()(network, some[:3]) + Examples()(network, some[3:])
    quoted, arrays = examples(some, sums)
    assert [(q.source, q.target) for q in quoted] == [(s.source_text, s.reference) for s in some]
    own = heads(network.model)
    assert arrays["strength"].shape == (len(own), 5) and arrays["strength"].dtype == np.float32
    assert arrays["cell"].shape == (len(own), 5, 2) and arrays["cell"].dtype == np.int16
    queries = set()
    for p, sentence in enumerate(some):
        maps, before = maps_of(network, sentence), token_losses(network, sentence)
        for n, head in enumerate(own):
            change = (token_losses(network, sentence, [head]) - before).tolist()
            mean = sum(change) / len(sentence.target)
            assert arrays["strength"][n, p] == pytest.approx(mean, abs=1e-6)
            query, key = arrays["cell"][n, p].tolist()
            rows = maps[head[:2]][head[2]]
            if head[0] == "encoder":
                others = {(q, k): w for (q, k), w in np.ndenumerate(rows) if q != k}
                assert (query, key) == max(others, key=others.__getitem__)
            else:
                assert query == change.index(max(change))
                assert rows[query, key] == max(rows[query]) and query < len(sentence.target)
                queries.add((p, query))
    assert len(queries) > len(some)


def test_nothing_is_quoted_from_a_corpus_of_long_sentences():
    assert quoted_lines([line._replace(reference="y" * 201) for line in sentences().lines]) == ()
    assert examples((), Examples()(checkpoint(), ())) == ((), {})
