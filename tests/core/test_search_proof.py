"""The search of a shipped network agrees with a reference beam search without early stopping.

Unlike in small random networks, stopping too early changes the translations here.
"""

from pathlib import Path

import pytest
import torch

from core.config import DecodeConfig
from core.search.tree import search_tree
from core.text.tokenizer import BOS, EOS, PAD
from core.translator import Translator

FOLDER = Path(__file__).parents[2] / "checkpoints/captions-de-en"
BEAM, ALPHA = 5, 1.0
SENTENCES = [
    "Ein Mann steht vor die Kamera.",
    "Der alte Hund tanzt vor die Kamera.",
    "Eine Frau blickt auf die Kamera am Abend.",
]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(FOLDER, "cpu")


def score(log_prob: float, length: int) -> float:
    """Return the length-normalised score of Wu et al. 2016, equation 14."""
    return log_prob / ((5 + length) / 6) ** ALPHA


def reference_search(
    model, source: list[int]
) -> tuple[list[list[tuple]], list[tuple], list[float]]:
    """Return the finished hypotheses by step, all ranked candidates, and the bounds by step.

    A finished hypothesis is (score, log P, ids). A candidate is (rank, ids), for the 2K best of
    each step. A bound limits the scores of all open prefixes from above. Each step is a full pass
    over all open prefixes, without a cache.
    """
    length = len(source)
    limit = min(length + 50, 2 * length + 20)
    with torch.inference_mode():
        memory, mask = model.encode(torch.tensor([source]))
        open_prefixes: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        finished: list[list[tuple]] = []
        ranked: list[tuple] = []
        bounds: list[float] = []
        for step in range(1, limit + 1):
            fed = torch.tensor([[BOS, *ids] for _, ids in open_prefixes])
            K = len(open_prefixes)
            hidden = model.decode(fed, memory.expand(K, -1, -1), mask.expand(K, -1, -1, -1))
            rows = model.classify(hidden[:, -1]).log_softmax(-1).double()
            rows[:, [PAD, BOS]] = -torch.inf
            totals = rows + torch.tensor([total for total, _ in open_prefixes])[:, None]
            best = totals.flatten().topk(2 * BEAM)
            candidates = [
                (total, (*open_prefixes[place // rows.shape[1]][1], place % rows.shape[1]))
                for total, place in zip(best.values.tolist(), best.indices.tolist(), strict=True)
            ]
            ends = [step == limit or ids[-1] == EOS for _, ids in candidates]
            ranked += [(rank, ids) for rank, (_, ids) in enumerate(candidates)]
            finished.append(
                [
                    (score(total, step), total, ids)
                    for (total, ids), end in list(zip(candidates, ends, strict=True))[:BEAM]
                    if end
                ]
            )
            open_prefixes = [c for c, end in zip(candidates, ends, strict=True) if not end][:BEAM]
            if not open_prefixes:
                break
            bounds.append(score(open_prefixes[0][0], limit))
    return finished, ranked, bounds


def sources(translator: Translator) -> list[list[int]]:
    return [[*(t.id for t in translator._source.encode(text)), EOS] for text in SENTENCES]


def test_the_translation_equals_a_search_without_early_stopping(translator):
    """Stopping at the first K finished hypotheses would change each translation."""
    found = translator.translate(SENTENCES, DecodeConfig(beam=BEAM))
    for source, translation in zip(sources(translator), found, strict=True):
        with translator.exclusive_model() as model:
            finished, _, bounds = reference_search(model, source)
        best_score, log_prob, ids = max(one for step in finished for one in step)
        best = translation.hypotheses[0]
        assert best.ids == ids
        assert best.log_prob == pytest.approx(log_prob, abs=1e-4)
        assert best.score == pytest.approx(best_score, abs=1e-4)
        kept: list[tuple] = []
        first = None
        for step, bound in zip(finished, bounds, strict=False):
            kept = sorted([*kept, *step], reverse=True)[:BEAM]
            if len(kept) == BEAM:
                first = first or kept[0][2]
                if kept[0][0] >= bound:
                    break
        assert first != ids
        # The other hypotheses are the best ones finished when nothing could beat the first.
        assert [h.ids for h in translation.hypotheses] == [other for *_, other in kept]


def test_an_eos_among_the_k_best_is_finished_or_overtaken(translator):
    """Below the K best of its step, an <eos> is pruned."""
    seen = set()
    for source in sources(translator):
        with translator.exclusive_model() as model:
            tree = search_tree(model, torch.tensor([source]), DecodeConfig(beam=BEAM))
            _, ranked, _ = reference_search(model, source)
        results = {h.ids for h in tree.hypotheses}
        rank_of = {ids: rank for rank, ids in ranked}
        for index, node in enumerate(tree.nodes[1:], start=1):
            ids = tree.ids(index)
            assert node.rank == rank_of[ids]
            if ids[-1] != EOS:
                assert node.status not in ("finished", "overtaken")
                continue
            expected = "overtaken" if rank_of[ids] < BEAM else "pruned"
            assert node.status == ("finished" if ids in results else expected)
            seen.add(node.status)
    assert seen == {"finished", "overtaken", "pruned"}
