"""Sums over a corpus: shards agree, interrupted runs continue, and damaged files are rejected."""

import os
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from core.analysis.alignment import Gold
from core.atlas.corpus import CHUNK, corpus
from core.atlas.partial import Partial
from core.atlas.shards import in_process, in_processes
from core.atlas.sums import REPLICATES, Sums, bootstrap_weights
from core.checkpoint.folder import load
from core.text.tokenizer import BOS, EOS
from tests import small

PAIRS = [
    (f"{small.SENTENCES[i % 6][0]} {small.SENTENCES[i * i % 6][0]}", small.SENTENCES[i % 6][1])
    for i in range(4 * CHUNK + 7)
]


@dataclass(frozen=True)
class Loss:
    """Measure the loss, its bootstrap replicates and the number of target tokens."""

    scale: float = 1.0

    def __call__(self, checkpoint, chunk) -> Sums:
        losses, tokens = [], 0
        for sentence in chunk:
            source, target = (torch.tensor([ids]) for ids in sentence.ids)
            target_in = torch.cat([torch.tensor([[BOS]]), target[:, :-1]], 1)
            with torch.inference_mode():
                logits = checkpoint.model(source, target_in)
            losses.append(F.cross_entropy(logits[0].double(), target[0], reduction="sum").item())
            tokens += target.shape[1]
        weights = bootstrap_weights(sentence.index for sentence in chunk)
        return Sums(
            {"loss": self.scale * (weights.T @ np.array(losses)), "tokens": np.array(tokens)}
        )


@pytest.fixture(scope="module")
def checkpoint(checkpoint_folder):
    return load(checkpoint_folder)


@pytest.fixture(scope="module")
def whole(checkpoint, checkpoint_folder):
    found = corpus(checkpoint, PAIRS)
    runs = in_process(checkpoint)(Loss(), checkpoint_folder, [*enumerate(found.chunks())])
    return found, Sums.total(sums for _, sums in runs)


@pytest.fixture(scope="module")
def by_processes(whole, checkpoint_folder):
    """The sums of each chunk by its number, from three processes."""
    with in_processes(3) as run:
        return dict(run(Loss(), checkpoint_folder, [*enumerate(whole[0].chunks())]))


@pytest.mark.parametrize("shards", [1, 3, 7])
def test_any_number_of_shards_gives_the_same_sums(whole, by_processes, shards):
    """Counts agree exactly, and sums to a relative 1e-12, in any order of the chunks."""
    found, expected = whole
    assert sorted(by_processes) == list(range(5))
    parts = [
        Sums.total(by_processes[number] for number in range(shard, 5, shards))
        for shard in range(shards)
    ]
    total = Sums.total(reversed(parts))
    assert total["tokens"] == expected["tokens"] == sum(len(s.target) for s in found.sentences)
    np.testing.assert_allclose(total["loss"], expected["loss"], rtol=1e-12)


def test_replicates_are_poisson_draws_that_depend_on_the_sentence_only():
    weights = bootstrap_weights(range(400))
    assert weights.shape == (400, 1 + REPLICATES) and (weights[:, 0] == 1).all()
    drawn = weights[:, 1:]
    assert drawn.mean() == pytest.approx(1, abs=0.01) and drawn.var() == pytest.approx(1, abs=0.02)
    assert (bootstrap_weights([7, 3]) == weights[[7, 3]]).all()
    assert len(np.unique(drawn[:50], axis=0)) == 50


def test_an_interrupted_measurement_continues(checkpoint, checkpoint_folder, tmp_path, whole):
    found, expected = whole
    chunks = [*found.chunks()]
    measured = []

    def stopping(measure, folder, numbered):
        for number, sums in in_process(checkpoint)(measure, folder, numbered):
            if len(measured) == 2:
                raise KeyboardInterrupt
            measured.append(number)
            yield number, sums

    partial = Partial(tmp_path / "part", "weights and corpus")
    with pytest.raises(KeyboardInterrupt):
        partial.measured(Loss(), checkpoint_folder, chunks, stopping)
    assert measured == [0, 1]

    def counting(measure, folder, numbered):
        measured.extend(number for number, _ in numbered)
        return in_process(checkpoint)(measure, folder, numbered)

    progress = []
    again = Partial(tmp_path / "part", "weights and corpus")
    total = again.measured(Loss(), checkpoint_folder, chunks, counting, progress.append)
    assert measured == [0, 1, 2, 3, 4]
    assert progress == [2 * CHUNK, CHUNK, CHUNK, 7]
    np.testing.assert_allclose(total["loss"], expected["loss"], rtol=1e-12)
    again.measured(Loss(), checkpoint_folder, chunks, counting)
    assert measured == [0, 1, 2, 3, 4], "a finished measurement is not repeated"
    for other in (Partial(tmp_path / "part", "other weights"), partial):
        measure = Loss(2.0) if other is partial else Loss()
        other.measured(measure, checkpoint_folder, chunks, counting)
        assert measured[-5:] == [0, 1, 2, 3, 4], "sums of other weights or measures are not used"
    partial.measured(Loss(), checkpoint_folder, [found.sentences], counting)
    assert measured[-1] == 0, "sums of other chunks are not used"
    partial.remove()
    assert not (tmp_path / "part").exists()


def test_a_damaged_part_is_rejected_in_one_line(checkpoint, checkpoint_folder, tmp_path, whole):
    chunks = [*whole[0].chunks()]
    partial = Partial(tmp_path / "part", "i")
    partial.measured(Loss(), checkpoint_folder, chunks, in_process(checkpoint))
    (file,) = (tmp_path / "part").iterdir()
    for content in (file.read_bytes()[:-1], Sums({"done": np.array([9])}).to_bytes(), b"{}"):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="cannot be continued: it .* delete it and") as caught:
            partial.measured(Loss(), checkpoint_folder, chunks, in_process(checkpoint))
        assert str(caught.value).isprintable()


def test_sums_that_do_not_fit_are_rejected():
    ones = Sums({"a": np.ones(3)})
    assert dict(ones + Sums({"b": np.ones(2)})).keys() == {"a", "b"}
    assert (ones + ones)["a"].tolist() == [2, 2, 2] and ones["a"].tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match=r"a is float64 \(2,\) in one part and float64 \(3,\)"):
        ones + Sums({"a": np.ones(2)})
    with pytest.raises(ValueError, match="a is float32: sums are float64 or int64"):
        Sums({"a": np.ones(3, np.float32)})
    found = Sums.from_bytes(Sums({"a": np.ones((2, 3)), "n": np.array(4)}).to_bytes())
    assert found["a"].shape == (2, 3) and found["n"] == 4


def test_a_corpus_skips_what_cannot_be_measured_and_counts_the_rest(checkpoint):
    limit = checkpoint.card.model.max_length
    pairs = [PAIRS[0], ("", "A dog."), ("Ein Hund.", " "), ("Hund " * limit, "A dog."), PAIRS[1]]
    gold = [Gold.parse(f"0-{i}") for i in range(5)]
    found = corpus(checkpoint, pairs, gold)
    assert [s.index for s in found.sentences] == [0, 4]
    assert [s.gold for s in found.sentences] == [gold[0], gold[4]]
    assert found.skipped[:2] == ("line 2 has an empty side", "line 3 has an empty side")
    assert found.skipped[2].startswith("line 4 has ")
    assert found.skipped[2].endswith(f" tokens with <eos>: the limit is {limit}")
    first = found.sentences[0]
    assert first.source[-1].id == first.target[-1].id == EOS and first.target_in[0].id == BOS
    assert first.target_in[1:] == first.target[:-1]
    dog = first.source[1].id
    assert found.source_counts[dog] == sum(t.id == dog for s in found.sentences for t in s.source)
    assert found.target_counts[EOS] == 2
    with pytest.raises(ValueError, match="no sentence pair to measure .line 1 has an empty side"):
        corpus(checkpoint, [("", "")])
    with pytest.raises(ValueError, match="1 sentence pairs and 5 alignments"):
        corpus(checkpoint, PAIRS[:1], gold)


def test_chunks_are_fixed_and_keep_the_order(whole):
    found, _ = whole
    chunks = [*found.chunks()]
    assert [len(chunk) for chunk in chunks] == [CHUNK] * 4 + [7]
    assert [s for chunk in chunks for s in chunk] == [*found.sentences]


@pytest.mark.parametrize("workers", [1, 3])
def test_ray_gives_the_same_sums(whole, checkpoint_folder, workers):
    """Ray runs a local cluster. The test is skipped where the extra `ray` is not installed."""
    pytest.importorskip("ray.data")
    from core.atlas.ray_data import on_ray

    found, expected = whole
    numbered = dict(on_ray(workers)(Loss(), checkpoint_folder, [*enumerate(found.chunks())]))
    total = Sums.total(numbered.values())
    assert sorted(numbered) == list(range(5)) and total["tokens"] == expected["tokens"]
    np.testing.assert_allclose(total["loss"], expected["loss"], rtol=1e-12)


@dataclass(frozen=True)
class Dying:
    """A measure that kills its process, as running out of memory would."""

    def __call__(self, checkpoint, chunk) -> Sums:
        os._exit(9)


def test_a_process_that_dies_ends_the_run(whole, checkpoint_folder):
    with in_processes(1) as run, pytest.raises(BrokenProcessPool):
        next(run(Dying(), checkpoint_folder, [(0, whole[0].sentences[:1])]))
