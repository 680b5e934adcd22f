"""Sums over a corpus: shards agree, interrupted runs continue, and damaged files are rejected."""

import gc
import os
import signal
import sys
import time
from collections import Counter
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from core.analysis.alignment import Gold
from core.atlas.corpus import CHUNK, chunked, corpus, tokenised
from core.atlas.partial import Partial
from core.atlas.shards import AHEAD, DEATHS, by_workers, in_process, in_processes
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


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Sums have the same bytes as a worker's only with as many threads: the command sets one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def checkpoint(checkpoint_folder):
    return load(checkpoint_folder)


@pytest.fixture(scope="module")
def whole(checkpoint, checkpoint_folder):
    found = corpus(checkpoint, PAIRS)
    total = Sums.total(in_process(checkpoint)(Loss(), checkpoint_folder, chunked(found.lines)))
    assert total["tokens"] == sum(len(s.target) for s in found.sentences)
    return found, total


def test_processes_give_the_same_bytes_for_every_measure(whole, checkpoint_folder):
    found, expected = whole
    with in_processes(3) as run:
        for scale in (1.0, 0.5):
            parts = [*run(Loss(scale), checkpoint_folder, chunked(found.lines))]
            assert len(parts) == 5
            assert Sums.total(parts)["loss"].tobytes() == (scale * expected["loss"]).tobytes()


class Pool:
    """Workers of a pretended cluster: threads that do not finish in order, and die as told.

    `deaths` says how often the worker dies that measures the chunk beginning at a line.
    """

    def __init__(self, checkpoint, count, deaths=()):
        self.checkpoint, self.deaths = checkpoint, dict(deaths)
        self.threads = ThreadPoolExecutor(count)
        self.begun, self.under_way, self.most = [], 0, 0

    def submit(self, measure, folder, chunk):
        self.begun.append((measure, [line.index for line in chunk]))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        return self.threads.submit(self._measured, measure, chunk)

    def _measured(self, measure, chunk):
        if chunk[0].index % 2 == 0:
            time.sleep(0.1)  # so that the next chunk is ready earlier
        if self.deaths.get(chunk[0].index, 0):
            self.deaths[chunk[0].index] -= 1
            raise BrokenExecutor
        return measure(self.checkpoint, tokenised(self.checkpoint, chunk))

    def ended(self):
        """Count a chunk whose sums were read."""
        self.under_way -= 1


def test_one_pool_serves_all_measures_and_each_chunk_is_sent_once(
    whole, checkpoint, checkpoint_folder
):
    found, expected = whole
    pool = Pool(checkpoint, 2)
    run = by_workers(pool.submit, 2)
    for scale in (1.0, 2.0, 0.5):
        total = Sums()
        for sums in run(Loss(scale), checkpoint_folder, chunked(found.lines, 3)):
            pool.ended()
            total.include(sums)
        own = run_here(checkpoint, Loss(scale), chunked(found.lines, 3))
        assert total.to_bytes() == own.to_bytes()
        np.testing.assert_allclose(total["loss"], scale * expected["loss"], rtol=1e-12)
    starts = [(measure.scale, lines[0]) for measure, lines in pool.begun]
    assert starts == [(x, i) for x in (1.0, 2.0, 0.5) for i in range(0, len(PAIRS), 3)]
    assert pool.most == AHEAD * 2, "more chunks than that are not read from the corpus"


def run_here(checkpoint, measure, chunks):
    return Sums.total(in_process(checkpoint)(measure, checkpoint.card.folder, chunks))


@pytest.mark.parametrize("deaths", [{0: 1}, {50: 2}, {0: 1, 25: 2, 100: 2}])
def test_the_chunk_of_a_dead_worker_is_measured_again(whole, checkpoint, checkpoint_folder, deaths):
    found, expected = whole
    pool = Pool(checkpoint, 2, deaths)
    total = Sums.total(by_workers(pool.submit, 2)(Loss(), checkpoint_folder, chunked(found.lines)))
    assert total.to_bytes() == expected.to_bytes()
    begun = Counter(lines[0] for _, lines in pool.begun)
    assert begun == {i: 1 + deaths.get(i, 0) for i in range(0, len(PAIRS), CHUNK)}


def test_a_chunk_that_kills_every_worker_ends_the_run_with_its_lines(
    whole, checkpoint, checkpoint_folder
):
    pool = Pool(checkpoint, 2, {50: 99})
    run = by_workers(pool.submit, 2)(Loss(), checkpoint_folder, chunked(whole[0].lines))
    assert len([next(run), next(run)]) == 2
    with pytest.raises(RuntimeError, match="3 workers died, the last ones at lines 51 to 75"):
        next(run)
    assert pool.deaths[50] == 99 - DEATHS


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


def test_chunks_are_fixed_and_keep_the_order(whole):
    found, _ = whole
    chunks = [*chunked(found.lines)]
    assert [len(chunk) for chunk in chunks] == [CHUNK] * 4 + [7]
    assert [line for chunk in chunks for line in chunk] == [s.line for s in found.sentences]
    assert [line[1:3] for line in found.lines] == PAIRS


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


@pytest.mark.parametrize("workers", [1, 2])
def test_ray_gives_the_same_sums_and_survives_a_death(whole, checkpoint_folder, workers, tmp_path):
    """Ray runs a local cluster. The test is skipped where the extra `ray` is not installed."""
    pytest.importorskip("ray")
    from core.atlas.ray_workers import on_ray

    found, expected = whole
    with on_ray(workers) as run:
        for measure in (Loss(), DyingOnce(tmp_path / "died")):
            parts = run(measure, checkpoint_folder, chunked(found.lines))
            assert Sums.total(parts).to_bytes() == expected.to_bytes()
        assert (tmp_path / "died").exists()
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
    found, expected = whole
    with in_processes(2) as run:
        parts = run(DyingOnce(tmp_path / "died"), checkpoint_folder, chunked(found.lines))
        assert Sums.total(parts).to_bytes() == expected.to_bytes()
        assert (tmp_path / "died").exists()
        with pytest.raises(RuntimeError, match="3 workers died, .* at lines 1 to 25 ") as caught:
            next(run(Dying(), checkpoint_folder, chunked(found.lines[:CHUNK])))
        assert str(caught.value).isprintable()
        with pytest.raises(ValueError, match="^a wrong sentence$"):
            next(run(Failing(), checkpoint_folder, chunked(found.lines)))
