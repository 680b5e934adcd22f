"""Random damage to a valid checkpoint folder: it is rejected with one line, or it works.

The normal suite tries a few hundred mutants, `make soak` ten thousand.
"""

import copy
import json
import random
import shutil
import signal
import struct
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.checkpoint.folder import CheckpointError, list_cards, load
from core.config import DecodeConfig
from core.translator import InputError, Translator
from tests.core import strange_folders
from tests.core.strange_folders import CONFIG, TOKENIZER, WEIGHTS

FILES = (CONFIG, WEIGHTS, TOKENIZER, "metrics.json")
TEXT = "A dog, xyz."
ODD: list[Any] = [
    *(0, 1, -1, 2, 7, 255, 65_536, 2**31, 2**63, 10**30, 0.5, -0.0, 1e-300, 1e30, 1e308, -1e9),
    *("", "x", "\x1b[2J", "../x", "<eos>", "![x](//y)", "\ud800", "ä" * 300),
    *(None, True, False, [], {}, [0], [[]], {"a": 1}, [None] * 20),
]


class TookTooLong(BaseException):
    """No handler takes this for a defect of the folder."""


@contextmanager
def within(seconds: int):
    """Limit the processor time of the block."""

    def stop(*_: object) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def slots(value: Any) -> list[tuple[Any, Any]]:
    """Return the owner and key of every value inside a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    found = [(value, key) for key in keys]
    for key in keys:
        if isinstance(value[key], dict | list):
            found += slots(value[key])
    return found


def other_json(value: Any, rng: random.Random) -> Any:
    """Change, delete, rename or exchange one or two values."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2))):
        if not (found := slots(value)):
            break
        (owner, key), (other, second) = rng.choice(found), rng.choice(found)
        old = owner[key]
        match rng.randrange(6):
            case 0:
                del owner[key]
            case 1 if isinstance(owner, dict):
                owner[rng.choice(["", "x", key + "s", key.upper()])] = owner.pop(key)
            case 2:
                owner[key], other[second] = copy.deepcopy((other[second], old))
            case 3 if type(old) in (int, float):
                owner[key] = rng.choice([old + 1, old * 2, -old, old / 2])
            case 4 if isinstance(old, bool):
                owner[key] = not old
            case _:
                owner[key] = copy.deepcopy(rng.choice(ODD))
    return value


def other_bytes(content: bytes, rng: random.Random) -> bytes:
    """Change, delete, insert or duplicate a bit, a byte or a range."""
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


def other_weights(content: bytes, rng: random.Random) -> bytes:
    """Change the header, or replace a weight by another number."""
    end = 8 + int.from_bytes(content[:8], "little")
    if rng.random() < 0.5:
        text = json.dumps(other_json(json.loads(content[8:end]), rng)).encode()
        return struct.pack("<Q", len(text)) + text + content[end:]
    at = end + 4 * rng.randrange((len(content) - end) // 4)
    number = rng.choice((0.0, 1e4, -6e4, 7e4, 1e30, 3e38, float("nan"), float("inf"), 1e-40))
    return content[:at] + struct.pack("<f", number) + content[at + 4 :]


def mutate(folder: Path, rng: random.Random) -> None:
    """Change one file."""
    file = folder / rng.choice(FILES)
    content = file.read_bytes()
    if rng.random() < 0.5:
        content = other_bytes(content, rng)
    elif file.name == WEIGHTS:
        content = other_weights(content, rng)
    else:
        content = json.dumps(other_json(json.loads(content), rng)).encode()
    file.write_bytes(content)


def rewrite_hashes(folder: Path) -> None:
    """Update sizes and hashes as an attacker would, as far as config.json is still readable."""
    try:
        strange_folders.write(folder, strange_folders.read(folder))
        strange_folders.sign(folder)
    except (ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError):
        pass


def use(folder: Path) -> tuple | None:
    """Use a folder as the app does and return its output, or None if it is rejected."""
    cards, problems = list_cards(folder.parent)
    assert len(cards) + len(problems) == 1
    for card in cards:
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
    except InputError as error:  # a smaller max_length
        return (str(error),)
    record = translator.inspect(TEXT, decode=DecodeConfig(beam=3))
    assert record.translation.isprintable()
    return greedy.hypotheses, record.hypotheses, record.translation, record.source_language


def outcomes(good: Path, scratch: Path, seeds: range) -> Counter:
    """Try the mutants of these seeds; even ones get new hashes."""
    found: Counter = Counter()
    expected = use(good)
    for seed in seeds:
        rng, stale = random.Random(seed), bool(seed % 2)
        shutil.rmtree(scratch, ignore_errors=True)
        folder = shutil.copytree(good, scratch / "good-de-en")
        try:
            mutate(folder, rng)
            if not stale:
                rewrite_hashes(folder)
            with within(30):
                output = use(folder)
            assert output is None or not stale or output == expected, "stale hashes, other output"
        except (Exception, TookTooLong) as error:
            raise AssertionError(f"mutant {seed}: {type(error).__name__}: {error}") from error
        found["refused" if output is None else "the same" if stale else "works"] += 1
    return found


@pytest.fixture(scope="module", params=["scratch", "baseline"])
def good(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("good") / "good-de-en"
    return strange_folders.good(folder, request.param)


@pytest.mark.parametrize("count", [150, pytest.param(5_000, marks=pytest.mark.soak)])
def test_mutants_are_refused_or_work(good, tmp_path, count):
    first = 20_000 * ('"scratch"' in (good / CONFIG).read_text()) + 10 * count
    found = outcomes(good, tmp_path / "x", range(first, first + count))
    print(f"\n{count:,} mutants: {dict(found)}")  # noqa: T201
    assert set(found) == {"refused", "the same", "works"}
