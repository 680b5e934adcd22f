"""Sums over a corpus: shards agree, interrupted runs continue, and damaged files are rejected."""

import gc
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from core.analysis.alignment import Gold
from core.atlas.corpus import CHUNK, chunked, corpus, tokenised
from core.atlas.intervals import holm, interval, no_effect, p_values
from core.atlas.partial import Partial
from core.atlas.shards import AHEAD, by_workers, in_process, in_processes
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


# Sums have the same bytes as a worker's only with as many threads: the command sets one.
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def checkpoint(checkpoint_folder):
    return load(checkpoint_folder)


@pytest.fixture(scope="module")
def whole(checkpoint, checkpoint_folder):
    found = corpus(checkpoint, PAIRS)
    total = Sums.total(in_process(checkpoint)(Loss(), checkpoint_folder, chunked(found.lines)))
    assert total["tokens"] == sum(len(s.target) for s in found.sentences)
    return found, total


class Pool:
    """Workers of a pretended cluster: threads that do not finish in order."""

    def __init__(self, checkpoint, count):
        self.checkpoint, self.threads = checkpoint, ThreadPoolExecutor(count)
        self.begun, self.under_way, self.most = [], 0, 0

    def submit(self, measure, folder, chunk):
        self.begun.append((measure.scale, chunk[0].index))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        return self.threads.submit(self._measured, measure, chunk)

    def _measured(self, measure, chunk):
        if chunk[0].index % 2 == 0:
            time.sleep(0.1)  # so that the next chunk is ready earlier
        return measure(self.checkpoint, tokenised(self.checkpoint, chunk))


def test_one_pool_serves_all_measures_and_each_chunk_is_sent_once(
    whole, checkpoint, checkpoint_folder
):
    lines, pool = whole[0].lines, Pool(checkpoint, 2)
    run = by_workers(pool.submit, 2)
    for scale in (1.0, 2.0):
        total = Sums()
        for sums in run(Loss(scale), checkpoint_folder, chunked(lines, 3)):
            pool.under_way -= 1
            total.include(sums)
        own = in_process(checkpoint)(Loss(scale), checkpoint_folder, chunked(lines, 3))
        assert total.to_bytes() == Sums.total(own).to_bytes()
    assert pool.begun == [(x, i) for x in (1.0, 2.0) for i in range(0, len(PAIRS), 3)]
    assert pool.most == AHEAD * 2, "more chunks than that are not read from the corpus"


def test_replicates_are_poisson_draws_that_depend_on_the_sentence_only():
    weights = bootstrap_weights(range(400))
    assert weights.shape == (400, 1 + REPLICATES) and (weights[:, 0] == 1).all()
    drawn = weights[:, 1:]
    assert drawn.mean() == pytest.approx(1, abs=0.01) and drawn.var() == pytest.approx(1, abs=0.02)
    assert (bootstrap_weights([7, 3]) == weights[[7, 3]]).all()
    assert len(np.unique(drawn[:50], axis=0)) == 50


def test_an_interrupted_measurement_continues(checkpoint, checkpoint_folder, tmp_path, whole):
    """The total has the same bytes as without an interruption."""
    lines, expected = whole[0].lines, whole[1]
    measured = []

    def stopping(measure, folder, chunks):
        for chunk in chunks:
            if len(measured) == 2:
                raise KeyboardInterrupt
            measured.append(chunk[0].index)
            yield from in_process(checkpoint)(measure, folder, [chunk])

    partial = Partial(tmp_path / "part", "weights and corpus")
    with pytest.raises(KeyboardInterrupt):
        partial.measured(Loss(), checkpoint_folder, lines, stopping)
    assert measured == [0, 25]

    def counting(measure, folder, chunks):
        for chunk in chunks:
            measured.append(chunk[0].index)
            yield from in_process(checkpoint)(measure, folder, [chunk])

    progress = []
    again = Partial(tmp_path / "part", "weights and corpus")
    total = again.measured(Loss(), checkpoint_folder, lines, counting, progress.append)
    assert measured == [0, 25, 50, 75, 100]
    assert progress == [2 * CHUNK, CHUNK, CHUNK, 7]
    assert total.to_bytes() == expected.to_bytes()
    again.measured(Loss(), checkpoint_folder, lines, counting)
    assert len(measured) == 5, "a finished measurement is not repeated"
    for other in (Partial(tmp_path / "part", "other weights"), partial):
        measure = Loss(2.0) if other is partial else Loss()
        other.measured(measure, checkpoint_folder, lines, counting)
        assert measured[-5:] == [0, 25, 50, 75, 100], "sums of other weights or measures"
    partial.measured(Loss(), checkpoint_folder, lines[1:], counting)
    assert measured[-5] == 1, "sums of other lines are not used"
    partial.measured(Loss(), checkpoint_folder, lines, counting, size=50)
    assert measured[-3:] == [0, 50, 100], "sums of other chunks are not used"
    partial.remove()
    assert not (tmp_path / "part").exists()


def test_a_damaged_part_is_rejected_in_one_line(checkpoint, checkpoint_folder, tmp_path, whole):
    partial = Partial(tmp_path / "part", "i")
    measured = partial.measured, (Loss(), checkpoint_folder, whole[0].lines, in_process(checkpoint))
    measured[0](*measured[1])
    (file,) = (tmp_path / "part").iterdir()
    damaged = [file.read_bytes()[:-1], b"{}"]
    damaged += [Sums({"chunks_done": np.array(n)}).to_bytes() for n in (-1, 0, 6, [1, 2])]
    for content in damaged:
        file.write_bytes(content)
        with pytest.raises(ValueError, match="cannot be continued: .* delete it and") as caught:
            measured[0](*measured[1])
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


def test_lines_are_kept_outside_memory_and_read_back_as_they_were(checkpoint, monkeypatch):
    """They are read once, so that pairs may come from a pipe."""
    monkeypatch.setattr("core.atlas.corpus._IN_MEMORY", 1000)
    odd = ["Ein  Hund\u2028läuft. ", '"\\\t\r\x85', "犬" * 9, "\U0001f415"]
    pairs = [(f"{odd[i % 4]} {i}", f"{odd[i % 3]} {-i}") for i in range(3000)]
    gold = [Gold.parse(f"{i % 2}-0") for i in range(3000)]
    found = corpus(checkpoint, iter(pairs), gold)
    kept = [line.index for line in found.lines]
    assert 2000 < len(kept) <= 3000
    assert [*found.lines] == [(i, *pairs[i], gold[i]) for i in kept]
    assert found.lines[7:2000:90] == tuple(found.lines[i] for i in range(7, 2000, 90))
    assert found.sentences[-1] == tokenised(checkpoint, found.lines[-1:])[0]
    few, many = (corpus(checkpoint, pairs[:n]) for n in (300, 3000))
    assert 0 < size_in_memory(many) - size_in_memory(few) < 2700 * 10


def size_in_memory(text) -> int:
    """Return the bytes of all objects that a corpus refers to, except its token counts."""
    found, left = {}, [text.lines]
    while left:
        one = left.pop()
        if id(one) not in found and not isinstance(one, type | ModuleType | FunctionType):
            found[id(one)] = sys.getsizeof(one)
            left += gc.get_referents(one)
    return sum(found.values())


def test_ray_gives_the_same_sums_and_survives_a_death(whole, checkpoint_folder, tmp_path):
    """Ray runs a local cluster. The test is skipped where the extra `ray` is not installed."""
    pytest.importorskip("ray")
    from core.atlas.ray_workers import on_ray

    survives(on_ray(2), whole, checkpoint_folder, tmp_path)


def survives(workers, whole, checkpoint_folder, tmp_path):
    """Check that the workers replace one that dies, and name the lines that kill all of them."""
    found, expected = whole
    with workers as run:
        for measure in (Loss(), DyingOnce(tmp_path / "died")):
            parts = run(measure, checkpoint_folder, chunked(found.lines))
            assert Sums.total(parts).to_bytes() == expected.to_bytes()
        assert (tmp_path / "died").exists()
        with pytest.raises(RuntimeError, match="3 workers died, .* at lines 1 to 25 ") as caught:
            next(run(Dying(), checkpoint_folder, chunked(found.lines[:CHUNK])))
        assert str(caught.value).isprintable()
        with pytest.raises(ValueError, match="^a wrong sentence$"):
            next(run(Failing(), checkpoint_folder, chunked(found.lines)))


@dataclass(frozen=True)
class DyingOnce:
    """Measure the loss, but let the first process that begins the third chunk die."""

    file: Path

    def __call__(self, checkpoint, chunk) -> Sums:
        if chunk[0].index == 2 * CHUNK and not self.file.exists():
            self.file.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Loss()(checkpoint, chunk)


@dataclass(frozen=True)
class Failing:
    def __call__(self, checkpoint, chunk) -> Sums:
        raise ValueError("a wrong sentence")


@dataclass(frozen=True)
class Dying:
    """A measure that kills its process, as running out of memory would."""

    def __call__(self, checkpoint, chunk) -> Sums:
        os._exit(9)


def test_a_process_that_dies_is_replaced(whole, checkpoint_folder, tmp_path):
    survives(in_processes(1), whole, checkpoint_folder, tmp_path)


SENTENCES, DRAWS = 80, 500


@pytest.fixture(scope="module")
def replicates():
    """Return replicates of the change in loss per token, for many drawn corpora: [1 + R, DRAWS].

    The change of a sentence is skewed and grows with its length; its mean per token is 0.3.
    """
    rng = np.random.default_rng(5)
    tokens = rng.integers(4, 30, (SENTENCES, DRAWS))
    change = tokens * rng.exponential(0.3, (SENTENCES, DRAWS))
    weights = bootstrap_weights(range(SENTENCES)).T
    return (weights @ change) / (weights @ tokens)


def test_intervals_cover_the_true_value(replicates):
    """About 95 % do: 500 draws and a bootstrap over 80 sentences leave some error."""
    value, low, high = interval(replicates, SENTENCES).T
    np.testing.assert_array_equal(value, replicates[0])
    below, above = (high < 0.3).mean(), (low > 0.3).mean()
    assert 0.91 < 1 - below - above < 0.98
    assert 0.005 < above < below < 0.07  # skewed: samples often lack large values
    by_hand = np.sort(replicates[1:, 7])
    assert by_hand[24] < low[7] < by_hand[25] and by_hand[974] < high[7] < by_hand[975]


def test_p_values_of_no_change_are_calibrated(replicates):
    p = p_values(replicates - 0.3, SENTENCES)
    assert 0.02 < (p < 0.05).mean() < 0.09
    assert 0.4 < np.median(p) < 0.6
    assert p_values(replicates, SENTENCES).max() < 1e-4


def test_p_values_are_those_of_the_normal_distribution():
    """A change of ±1.96 standard errors has p = 0.05, one of 2.576 has p = 0.01."""
    error = np.random.default_rng(0).normal(size=1000)
    error = (error - error.mean()) / error.std(ddof=1)
    z = np.array([1.959964, -1.959964, 2.575829, 0.0])
    found = p_values(np.vstack([z, error[:, None] + z]), 9)
    np.testing.assert_allclose(found, [0.05, 0.05, 0.01, 1.0], atol=1e-6)


def test_rounding_errors_are_no_effect_but_a_constant_change_is():
    replicates = np.full((1001, 3), [2e-7, -0.5, 0.0])
    np.testing.assert_array_equal(p_values(replicates, 4, resolution=1e-6), [1.0, 0.0, 1.0])


def test_holm_by_hand():
    """p = 0.005·4, 0.01·3, 0.03·2, then 0.04·1 is raised to 0.06; NaN does not count as a test."""
    p = np.array([0.01, 0.04, np.nan, 0.03, 0.005])
    found = holm(p)
    np.testing.assert_allclose(found, [0.03, 0.06, np.nan, 0.06, 0.02], atol=1e-15)
    assert no_effect(found).tolist() == [False, True, True, True, False]
    np.testing.assert_array_equal(holm(np.array([0.6, 0.7])), [1.0, 1.0])
    assert no_effect(np.array([0.05, 0.0499])).tolist() == [True, False]


def test_a_single_sentence_has_no_interval():
    replicates = np.full((1001, 2), 0.4)
    replicates[1::3] = np.nan  # replicates that did not draw the sentence
    np.testing.assert_array_equal(interval(replicates, 1), [[0.4, np.nan, np.nan]] * 2)
    assert np.isnan(p_values(replicates, 1)).all()
    assert no_effect(holm(p_values(replicates, 1))).all()
    assert np.isfinite(interval(replicates, 2)).all()
