"""Compare the workers of an atlas: processes on this machine, and Ray.

`time` runs the command `core.analyse atlas` with two workers on TIMED sentences. `memory` measures
the mean outputs of heads on corpora of the sizes in MEASURED. Both need Linux, and Multi30k.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from core.benchmarks.contest import Cell, Missing, Options, Row, speedup
from core.benchmarks.networks import Weights
from core.checkpoint.folder import load, save
from core.data.corpora import read_pairs

PACKAGES = ("ray",)
OPTIONS = ("checkpoint", "random", "data", "axes")
WORKERS = 2
TIMED = 1000
MEASURED = (1000, 20_000)
AXES = ("time", "memory")

_ROOT = Path(__file__).resolve().parents[2]
_CHECKPOINT = _ROOT / "checkpoints/scratch-de-en"
_WORKER_NAMES = ("ray::_Worker", "multiprocessing.spawn", "multiprocessing-fork")
_MEANS = """
import sys; from pathlib import Path
from core.atlas.command import runner; from core.atlas.corpus import corpus
from core.atlas.losses import HeadOutputs; from core.atlas.partial import Partial
from core.checkpoint.folder import load; from core.data.text_files import LinePairs
folder, source, target = map(Path, sys.argv[1:4])
text = corpus(load(folder), LinePairs(source, target))
with runner(load(folder), int(sys.argv[4]), sys.argv[5] == "ray") as run:
    Partial(None, "").measured(HeadOutputs(), folder, text.lines, run)
"""


@dataclass
class Usage:
    """What a command and its descendants used: seconds and, at the peak, MiB of memory each."""

    wall: float = 0.0
    cpu: dict[int, float] = field(default_factory=dict)
    driver: float = 0.0
    worker: float = 0.0

    @property
    def seconds(self) -> float:
        """CPU time of all processes."""
        return sum(self.cpu.values())


def rows(options: Options) -> Iterator[Row | Missing]:
    """Yield time and memory with processes and with Ray; `ratio` compares with the processes."""
    if not Path("/proc/self/status").exists():
        yield Missing("all", "processes can be measured only on Linux")
        return
    kinds = ["processes"]
    try:
        import ray  # noqa: F401

        kinds.append("ray")
    except ImportError:
        yield Missing("ray", 'ray is not installed: pip install -e ".[ray]"')
    for axis in options.axes or AXES:
        if axis not in AXES:
            raise ValueError(f"unknown axis {axis!r}: choose from {', '.join(AXES)}")
    with tempfile.TemporaryDirectory() as place:
        folder, shape = _network(options, Path(place))
        if "time" in (options.axes or AXES):
            yield from _times(options, folder, shape, kinds, Path(place))
        if "memory" in (options.axes or AXES):
            yield from _memory(options, folder, shape, kinds, Path(place))


def _network(options: Options, place: Path) -> tuple[Path, str]:
    """Return the folder of the network; a random one gets the shipped network's tokenizers."""
    weights = Weights.of(options.checkpoint, options.random)
    if options.checkpoint is not None:
        return options.checkpoint.resolve(), weights.shape
    shipped = load(_CHECKPOINT)
    both = shipped.source_tokenizer, shipped.target_tokenizer
    folder = place / "random-de-en"
    save(folder, weights.network, "scratch", ("de", "en"), both, {}, {})
    return folder, weights.shape


def _files(options: Options, folder: Path, count: int, place: Path) -> list[str]:
    card = load(folder).card
    languages = card.source_language, card.target_language
    pairs = read_pairs("multi30k", "train", *languages, options.data)[:TIMED]
    files = [place / f"{count}.{side}" for side in ("source", "target")]
    for side, file in enumerate(files):
        lines = (pairs[i % len(pairs)][side] + "\n" for i in range(count))  # lengths stay the same
        file.write_text("".join(lines), "utf-8")
    return [str(file) for file in files]


def _times(
    options: Options, folder: Path, shape: str, kinds: list[str], place: Path
) -> Iterator[Row]:
    source, target = _files(options, folder, TIMED, place)
    found: dict[str, list[Usage]] = {kind: [] for kind in kinds}
    arrays: dict[str, bytes] = {}
    for _ in range(max(1, options.rounds // 7)):
        for kind in kinds:
            out = place / f"{kind}.npz"
            command = ["-m", "core.analyse", "atlas", "--no-bleu", "--checkpoint", str(folder)]
            command += ["--src", source, "--ref", target, "--out", str(out)]
            command += ["--shards", str(WORKERS), *["--ray"] * (kind == "ray")]
            found[kind].append(_use(command))
            with np.load(out) as npz:
                arrays[kind] = b"".join(npz[name].tobytes() for name in npz if name != "words")
    cell = Cell(f"atlas of {TIMED:,} sentences", shape, WORKERS, 1, 13)
    for kind in kinds:
        same = {"same": TIMED} if arrays[kind] == arrays[kinds[0]] else {"reason": "other numbers"}
        for unit, of_use in (("s", lambda use: use.wall), ("CPU s", lambda use: use.seconds)):
            own, baseline = ([of_use(use) for use in found[each]] for each in (kind, kinds[0]))
            yield cell.measured(kind, own, unit, **same, **speedup(own, baseline))


def _memory(
    options: Options, folder: Path, shape: str, kinds: list[str], place: Path
) -> Iterator[Row]:
    for kind in kinds:
        for count in MEASURED:
            files = _files(options, folder, count, place)
            use = _use(["-c", _MEANS, str(folder), *files, str(WORKERS), kind])
            for what, value in (("driver", use.driver), ("a worker", use.worker)):
                cell = Cell(f"{what}, {count:,} sentences", shape, WORKERS, 1, 13)
                yield cell.row(kind, value, "MiB")


def _use(command: list[str]) -> Usage:
    """Run Python with arguments and return what it used. Raises RuntimeError if it fails."""
    usage, started = Usage(), time.monotonic()
    paths = str(_ROOT), os.environ.get("PYTHONPATH", "")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, *command], env=environment, stdout=subprocess.DEVNULL, stderr=errors
        )
        while process.poll() is None:
            for number in descendants(process.pid):
                _observe(number, process.pid, usage)
            time.sleep(0.1)
        usage.wall = time.monotonic() - started
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"{command[:3]} failed: {errors.read().decode()[-300:]}")
    return usage


def descendants(number: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended meanwhile
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [number]
    for one in found:
        found += children.get(one, [])
    return found


def _observe(number: int, driver: int, usage: Usage) -> None:
    folder = Path(f"/proc/{number}")
    try:
        ticks = folder.joinpath("stat").read_text().rpartition(")")[2].split()[11:13]
        status = folder.joinpath("status").read_text().splitlines()
        name = folder.joinpath("cmdline").read_text()
    except OSError:  # it has ended meanwhile
        return
    usage.cpu[number] = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    peak = next((int(x.split()[1]) / 1024 for x in status if x.startswith("VmHWM:")), 0.0)
    if number == driver:
        usage.driver = max(usage.driver, peak)
    elif any(worker in name for worker in _WORKER_NAMES):
        usage.worker = max(usage.worker, peak)
