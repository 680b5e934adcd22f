"""An atlas on a pretended Ray: one pool of workers, any of which may die or never start."""

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.atlas.atlas import Atlas
from core.atlas.corpus import chunked, corpus
from core.atlas.ray_workers import on_ray
from core.atlas.shards import in_process
from core.atlas.sums import Sums
from core.checkpoint.folder import load
from tests.core.atlas_network import PAIRS, pair_files, run_atlas
from tests.core.test_atlas_sums import Failing, Loss

pytestmark = pytest.mark.usefixtures("one_thread")


class RayError(Exception):
    """The pretended Ray's own error, such as of a dead actor."""


class RayTaskError(RayError):
    """The error of a method, as `cause`."""

    def __init__(self, cause):
        self.cause = cause


class PretendedRay:
    """The parts of `ray` that the atlas uses, with `processors` for actors.

    `dies` is called with the number of an actor and the first line of a chunk, before the actor
    measures it, and says whether the actor dies.
    """

    exceptions = sys.modules[__name__]  # has RayError and RayTaskError

    def __init__(self, processors, dies=lambda actor, line: False):
        self.processors, self.dies = threading.Semaphore(processors), dies
        self.actors, self.sent = [], []
        self.lock, self.model = threading.Lock(), threading.Lock()

    def remote(self, **options):
        assert options == {"num_cpus": 1}
        return lambda of: SimpleNamespace(remote=lambda: self.start(of))

    def start(self, of):
        with self.lock:
            self.actors.append(Actor(self, len(self.actors), of))
        return self.actors[-1]

    def get(self, future):
        return future.result(60)

    def kill(self, actor):
        actor.die()


class Actor:
    """A pretended handle. `ready` and each call under way fail when the actor is killed."""

    def __init__(self, ray, number, of):
        self.ray, self.number, self.of, self.dead = ray, number, of, False
        self.running, self.ready = False, Future()
        threading.Thread(target=self._start, daemon=True).start()
        self.__dict__["__ray_ready__"] = SimpleNamespace(remote=lambda: self.ready)
        self.measure = SimpleNamespace(remote=self._measure)

    def _start(self):
        while not self.ray.processors.acquire(timeout=0.05):
            if self.dead:
                return
        self.running, self.worker = True, self.of()
        if not self.ready.done():
            self.ready.set_result(True)

    def _measure(self, measure, folder, chunk):
        assert self.ready.done() and folder.is_absolute()
        answer = Future()
        with self.ray.lock:
            self.ray.sent.append((repr(measure), chunk[0].index, len(chunk)))
            if self.ray.dies(self.number, chunk[0].index):
                self.die()
        if self.dead:
            answer.set_exception(RayError("The actor died."))
            return answer
        try:
            with self.ray.model:  # the pretended actors share a process and its network
                answer.set_result(self.worker.measure(measure, folder, chunk))
        except Exception as error:
            answer.set_exception(RayTaskError(error))
        return answer

    def die(self):
        if not self.dead:
            self.dead = True
            if self.running:
                self.ray.processors.release()
            if not self.ready.done():
                self.ready.set_exception(RayError("The actor died."))


@pytest.fixture
def connected(monkeypatch):
    """Return a function that replaces Ray by a pretended one, which is returned."""

    def replace(*arguments):
        ray = PretendedRay(*arguments)
        monkeypatch.setattr("core.atlas.ray_workers.connect", lambda: ray)
        return ray

    return replace


@pytest.fixture
def text(tmp_path):
    return pair_files(tmp_path)


def atlas_of(folder, text, *more) -> Atlas:
    return run_atlas(folder, text, "--no-bleu", *more)


def test_one_pool_of_actors_measures_a_whole_atlas(translating_folder, text, connected):
    alone = atlas_of(translating_folder, text)
    deaths = []

    def dies(actor, line):
        deaths.append((actor, line))
        return len(deaths) == 5

    ray = connected(2, dies)
    atlas = atlas_of(translating_folder, text, "--ray", "--shards", "2")
    assert alone.arrays.keys() == atlas.arrays.keys()
    for name, array in alone.arrays.items():
        assert array.tobytes() == atlas.arrays[name].tobytes(), name
    assert alone.quoted == atlas.quoted and alone.tokens == atlas.tokens
    assert len(ray.actors) == 3, "two actors, and one in place of the dead one"
    assert all_end(ray), "the processors are given back"
    sent = Counter(ray.sent)
    twice = [chunk for chunk, times in sent.items() if times > 1]
    assert len(twice) == 1 and sent[twice[0]] == 2, "the chunk of the dead one is sent again"
    of_orders = {(line, count) for measure, line, count in sent if "ChoiceLosses" in measure}
    assert of_orders == {(0, 5), (5, 5), (10, 2)}, "orders are found in chunks"


def all_end(ray) -> bool:
    """Return whether all actors end within seconds: a thread that starts one may be late."""
    deadline = time.monotonic() + 10
    while not all(actor.dead for actor in ray.actors) and time.monotonic() < deadline:
        time.sleep(0.02)
    return all(actor.dead for actor in ray.actors)


@pytest.mark.parametrize("processors", [1, 3])
def test_a_cluster_may_have_fewer_processors_than_workers(checkpoint_folder, connected, processors):
    """The others wait; all end with the block."""
    ray, network = connected(processors), load(checkpoint_folder)
    found = corpus(network, PAIRS)
    expected = Sums.total(in_process(network)(Loss(), checkpoint_folder, chunked(found.lines, 2)))
    before = threading.active_count()
    with on_ray(3) as run:
        total = Sums.total(run(Loss(), checkpoint_folder, chunked(found.lines, 2)))
        assert total.to_bytes() == expected.to_bytes()
        assert sum(actor.running for actor in ray.actors) <= processors
        with pytest.raises(ValueError, match="^a wrong sentence$"):
            next(run(Failing(), checkpoint_folder, chunked(found.lines, 2)))
    assert all_end(ray) and len(ray.actors) == 3
    assert threading.active_count() <= before + 3  # pretended actors, which end by themselves


def test_actors_that_always_die_end_the_run(checkpoint_folder, connected):
    ray, network = connected(2, lambda actor, line: line == 4), load(checkpoint_folder)
    with on_ray(2) as run:
        sums = run(Loss(), checkpoint_folder, chunked(corpus(network, PAIRS).lines, 4))
        next(sums)
        with pytest.raises(RuntimeError, match="3 workers died, the last ones at lines 5 to 8"):
            next(sums)
    assert all(actor.dead for actor in ray.actors)


def test_without_ray_the_command_says_how_to_install_it(translating_folder, text, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match="Ray is not installed: pip install"):
        atlas_of(translating_folder, text, "--ray")


_NAME = """
import sys; from pathlib import Path
from core.atlas.attention import Attention; from core.atlas.build import TEXT_ROLES
from core.atlas.corpus import corpus; from core.atlas.roles import Facts
from core.checkpoint.folder import load
text = corpus(load(Path(sys.argv[1])), [("Ein Hund.", "A dog.")])
print(repr(Attention(Facts.of(text), TEXT_ROLES)))
"""


def test_a_measure_has_the_same_name_in_each_process(checkpoint_folder):
    """Otherwise an interrupted command would not find its unfinished sums."""
    root = Path(__file__).resolve().parents[2]
    names = {
        subprocess.run(
            [sys.executable, "-c", _NAME, checkpoint_folder],
            env={**os.environ, "PYTHONHASHSEED": seed},
            **{"cwd": root, "check": True, "capture_output": True},
        ).stdout
        for seed in "12"
    }
    assert len(names) == 1 and b"previous token" in next(iter(names))
