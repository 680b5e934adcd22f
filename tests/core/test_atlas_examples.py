"""Quoted sentences: how they are drawn, and each head's strength and strongest cell in them."""

import numpy as np
import pytest
import torch

from core.atlas.corpus import drawn
from core.atlas.examples import Examples, examples, quoted_lines
from core.record.capture import capture
from core.text.tokenizer import BOS
from tests.core.atlas_network import checkpoint, heads, sentences, token_losses


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
