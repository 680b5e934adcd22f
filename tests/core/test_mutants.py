"""A good checkpoint folder, damaged or rewritten at random: it is refused in one line, or it works.

The normal suite takes a few hundred mutants, `make soak` ten thousand, and there it measures what
the refusals cost.
"""

import copy
import json
import os
import random
import resource
import shutil
import signal
import struct
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from core.checkpoint.folder import CheckpointError, list_cards, load
from core.config import DecodeConfig
from core.translator import InputError, Translator
from tests.core import strange_folders
from tests.core.hostile_kinds import KINDS
from tests.core.strange_folders import TOKENIZER, WEIGHTS

FILES = ("config.json", WEIGHTS, TOKENIZER, "metrics.json")
TEXT = "A dog, xyz."
ODD: list[Any] = [
    *(0, 1, -1, 2, 7, 255, 65_536, 2**31, 2**63, 10**30, 0.5, -0.0, 1e-300, 1e30, 1e308, -1e9),
    *("", "x", "\x1b[2J", "../x", "<eos>", "![x](//y)", "\ud800", "ä" * 300),
    *(None, True, False, [], {}, [0], [[]], {"a": 1}, [None] * 20),
]


class TookTooLong(BaseException):
    """No loader may take this for something that is wrong with the folder."""


@contextmanager
def within(seconds: int):
    """What hangs fails; seconds of the processor, because others may use it too."""

    def stop(*_: object) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """The path of every value inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, each in inner:
        found.append((*path, key))
        if isinstance(each, dict | list):
            found += places(each, (*path, key))
    return found


def other_json(value: Any, rng: random.Random) -> Any:
    """One or two values changed, taken away, renamed, doubled or put in each other's place."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2))):
        found = places(value)
        if not found:
            break
        *path, key = rng.choice(found)
        owner = value
        for name in path:
            owner = owner[name]
        match rng.randrange(6):
            case 0:
                del owner[key]
            case 1 if isinstance(owner, dict):
                owner[rng.choice(["", "x", key + "s", key.upper()])] = owner.pop(key)
            case 2:
                *path, other = rng.choice(found)
                second = value
                for name in path:
                    second = second[name]
                owner[key], second[other] = copy.deepcopy((second[other], owner[key]))
            case 3 if type(owner[key]) in (int, float):
                owner[key] = rng.choice(
                    [owner[key] + 1, owner[key] * 2, -owner[key], owner[key] / 2]
                )
            case 4 if isinstance(owner[key], bool):
                owner[key] = not owner[key]
            case _:
                owner[key] = copy.deepcopy(rng.choice(ODD))
    return value


def other_bytes(content: bytes, rng: random.Random) -> bytes:
    """A bit, a byte or a stretch changed, taken away, put in or doubled."""
    if not content:
        return content
    found = bytearray(content)
    start = rng.randrange(len(found))
    end = min(len(found), start + rng.choice((1, 1, 2, 4, 8, 64, 512)))
    match rng.randrange(7):
        case 0:
            found[start] ^= 1 << rng.randrange(8)
        case 1:
            found[start] = rng.randrange(256)
        case 2:
            del found[start:end]
        case 3:
            found[start:start] = rng.randbytes(end - start)
        case 4:
            found[start:start] = found[start:end]
        case 5:
            del found[start:]
        case 6:
            found[start:end] = rng.choice((b"\0", b"\xff", b"9")) * (end - start)
    return bytes(found)


def other_header(content: bytes, rng: random.Random) -> bytes:
    length = int.from_bytes(content[:8], "little")
    text = json.dumps(other_json(json.loads(content[8 : 8 + length]), rng)).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def other_number(content: bytes, rng: random.Random) -> bytes:
    """A weight becomes another number, some of them no finite one."""
    length = int.from_bytes(content[:8], "little")
    at = 8 + length + 4 * rng.randrange((len(content) - 8 - length) // 4)
    number = rng.choice((0.0, 1e4, -6e4, 7e4, 1e30, 3e38, float("nan"), float("inf"), 1e-40))
    return content[:at] + struct.pack("<f", number) + content[at + 4 :]


def mutate(folder: Path, rng: random.Random) -> str:
    """Change one file; which one."""
    name = rng.choice(FILES)
    file = folder / name
    content = file.read_bytes()
    if rng.random() < 0.5:
        content = other_bytes(content, rng)
    elif name == WEIGHTS:
        content = rng.choice((other_header, other_number))(content, rng)
    else:
        content = json.dumps(other_json(json.loads(content), rng)).encode()
    file.write_bytes(content)
    return name


def rewrite_hashes(folder: Path) -> None:
    """As a stranger would who knows the format: as far as what is left of config.json allows."""
    try:
        config = json.loads((folder / "config.json").read_text())
        strange_folders.write(folder, config)
        strange_folders.sign(folder)
    except (ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError):
        pass


def use(folder: Path) -> tuple | None:
    """What the app does with a folder; None if it is refused, which is one printable line."""
    cards, problems = list_cards(folder.parent)
    assert len(cards) + len(problems) == 1
    for card in cards:  # as the page does
        [f"{score['sacrebleu']:.1f}" for score in card.metrics.get("final", {}).values()]
        [row["step"] + row["val_loss"] for row in card.metrics.get("curve", [])]
        assert card.note.isprintable() and max(card.training.get("longest", [1, 1])) > 0
    assert all(problem.isprintable() for problem in problems)
    try:
        checkpoint = load(folder)
    except CheckpointError as error:
        assert str(error).isprintable(), error
        return None
    translator = Translator(checkpoint, "cpu")
    try:
        (greedy,) = translator.translate([TEXT], DecodeConfig(beam=1))
    except InputError as error:  # a network may have room for fewer tokens
        return (str(error),)
    record = translator.inspect(TEXT, decode=DecodeConfig(beam=3))
    assert record.translation.isprintable()
    return greedy.hypotheses, record.hypotheses, record.translation, record.source_language


def judge(good: Path, scratch: Path, seed: int, kept: bool, expected: object) -> tuple[str, str]:
    """One mutant: which file was changed, and what became of it."""
    rng = random.Random(seed)
    shutil.rmtree(scratch, ignore_errors=True)
    folder = shutil.copytree(good, scratch / "good-de-en")
    name = mutate(folder, rng)
    if not kept:
        rewrite_hashes(folder)
    with within(30):
        found = use(folder)
    if found is None:
        return name, "refused"
    if kept:
        assert found == expected, f"mutant {seed}: other output under the old hashes"
        return name, "the same"
    return name, "works"


def many(good: Path, scratch: Path, seeds: range) -> Counter:
    """All mutants of these seeds, half of them with their hashes rewritten."""
    found: Counter = Counter()
    expected = use(good)
    for seed in seeds:
        kept = bool(seed % 2)
        try:
            name, outcome = judge(good, scratch, seed, kept, expected)
        except (Exception, TookTooLong) as error:
            raise AssertionError(f"mutant {seed}: {type(error).__name__}: {error}") from error
        found["hashes kept" if kept else "hashes rewritten", name, outcome] += 1
    return found


@pytest.fixture(scope="module", params=["scratch", "baseline"])
def good(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("good") / "good-de-en"
    return strange_folders.good(folder, request.param)


def test_mutants_are_refused_or_work(good, tmp_path):
    first = 0 if "scratch" in (good / "config.json").read_text() else 200
    found = many(good, tmp_path / "x", range(first, first + 150))
    assert {outcome for _, _, outcome in found} == {"refused", "the same", "works"}


@pytest.mark.soak
def test_ten_thousand_mutants_are_refused_or_work(good, tmp_path):
    first = 10_000 if "scratch" in (good / "config.json").read_text() else 20_000
    found = many(good, tmp_path / "x", range(first, first + 5_000))
    counts: Counter = Counter()
    for (hashes, _, outcome), count in found.items():
        counts[f"{hashes}, {outcome}"] += count
    said = "; ".join(f"{what} {counts[what]:,}" for what in sorted(counts))
    print(f"\n{sum(counts.values()):,} mutants: {said}; other output 0, crashes 0, hangs 0")  # noqa: T201
    assert {outcome for _, _, outcome in found} == {"refused", "the same", "works"}
    assert sum(found.values()) == 5_000


def cost(ask: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds of processor time and MB of memory, in a child of this process."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        before = resource.getrusage(resource.RUSAGE_SELF)
        started = time.process_time()
        ask()
        spent = time.process_time() - started
        after = resource.getrusage(resource.RUSAGE_SELF)
        os.write(
            write, json.dumps([spent * 1e3, (after.ru_maxrss - before.ru_maxrss) / 1024]).encode()
        )
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as stream:
        return tuple(json.loads(stream.read()))


@pytest.mark.soak
def test_what_refusals_cost(tmp_path):
    """What is known without the weights takes no memory; times are printed: machines differ."""
    good = strange_folders.good(tmp_path / "good" / "good-de-en")
    load(good)  # torch is there, as in an app that runs
    costs = {}
    for number, kind in enumerate(KINDS):
        folder = shutil.copytree(good, tmp_path / str(number) / "bad-de-en")
        kind.change(folder)

        def refuse(folder: Path = folder) -> None:
            with pytest.raises(CheckpointError):
                load(folder)

        costs[kind.name] = cost(refuse)
        shutil.rmtree(folder.parent)
    early = [kind.name for kind in KINDS if not kind.late]
    said = []
    for column, unit, most in ((0, "ms of the processor", 100), (1, "MB", 20)):
        values = {name: costs[name][column] for name in early}
        worst = sorted(values, key=values.__getitem__)[:-4:-1]
        above = sum(value > most for value in values.values())
        named = ", ".join(f"{name} {values[name]:.1f}" for name in worst)
        said.append(
            f"{unit}: median {median(values.values()):.1f}, above {most}: {above}, most: {named}"
        )
    late = max(costs[kind.name][0] for kind in KINDS if kind.late)
    print(  # noqa: T201
        f"\n{len(early)} refusals before the weights, {'; '.join(said)}; "
        f"{len(costs) - len(early)} after them, at most {late:.0f} ms"
    )
    assert max(costs[name][1] for name in early) <= 20
