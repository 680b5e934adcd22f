"""Wrong calls of each adapter end in a one-line ValueError or TypeError, or in a usable record.

Each call is a valid one with one to three of its values replaced, dropped, repeated or reordered.
"""

from __future__ import annotations

import io
import itertools
import math
import random
import tracemalloc
from collections import Counter, UserDict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from core.record.record import TranslationRecord
from tests.core.test_record_adapters import NAMES, Tokenizer, cached, generated, truth

REJECTED = 500
"""Wrong calls of each adapter that must be rejected."""


class Opaque:
    """An object whose attributes raise."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}\nhere")


def expanded(*shape: int) -> Any:
    """Return weights that would fill the memory if they were copied."""
    return np.broadcast_to(np.float32(0.25), shape)


SPARSE = torch.eye(4).to_sparse()
RECURSIVE: list[Any] = [np.ones(2)]
RECURSIVE.append(RECURSIVE)
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 10**9, 10**5000, 1.0, 0.5, float("nan"), float("inf"), 1j,
    "", "0", "a\nb", b"ab", (), [], {}, set(), [[]], [[], []], [None], ["a"], [7], object(),
    Opaque, np.float32(1), np.zeros(0), np.zeros((0, 4)), np.zeros((2, 0, 3, 4)), np.ones(4),
    np.ones((1, 1, 1, 1)), np.ones((1, 1, 1, 1, 1, 1)), np.array([None, "a"], object),
    np.full((2, 3, 3, 4), "x"), np.zeros((2, 3, 3, 4), "M8[s]"), np.full((3, 4), np.nan),
    np.full((2, 3, 3, 4), 1e308), np.zeros((2, 3, 3, 4), "f4,i4"), np.ones((3, 6), complex),
    SPARSE, torch.empty(2, 3, 3, 4, device="meta"), torch.ones(3, 5),
    torch.full((3, 6), float("nan")), torch.full((3, 6), -3), torch.ones(3, 4, dtype=torch.cfloat),
    torch.ones(1, 1).expand(10**6, 10**6), expanded(10**5, 10**5, 4, 4), expanded(10**12),
    expanded(10**6, 1, 10**6, 1, 4), [[[[0.25] * 4] * 10**4] * 10**4] * 10**4,
    [expanded(10**9)] * 9, [np.ones((2, 3)), np.ones((3, 2))], RECURSIVE, itertools.repeat("a"),
    (x for x in "ab"),
    ["a"] * 10**5, ["a" * 10**6], {"a": 1}, UserDict(), SimpleNamespace(), Tokenizer(),
)  # fmt: skip


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """Return the paths of the parts of short nested dicts, namespaces, lists and tuples."""
    parts = vars(value) if isinstance(value, SimpleNamespace) else value
    if not isinstance(parts, dict):
        parts = dict(enumerate(parts if isinstance(parts, list | tuple) else ()))
    if len(parts) > 20 or len(path) > 3:
        parts = {}
    inner = [place for key, part in parts.items() for place in places(part, (*path, key))]
    return [path] * bool(path) + inner


def replaced(value: Any, path: tuple, change) -> Any:
    """Return a copy in which the part at a path is changed; `change` may return `DROP`."""
    if not path:
        return change(value)
    key, *rest = path
    if isinstance(value, SimpleNamespace):
        return SimpleNamespace(**replaced(vars(value), path, change))
    items = dict(value) if isinstance(value, dict) else dict(enumerate(value))
    new = replaced(items[key], tuple(rest), change)
    items.pop(key)
    if new is not DROP:
        items[key] = new
    return items if isinstance(value, dict) else type(value)(items[k] for k in sorted(items))


DROP = object()


DISTORTED = (
    lambda a: a[:1], lambda a: a[..., :-1], lambda a: np.concatenate([a, a]), lambda a: a[None],
    lambda a: a[0], lambda a: a[..., None], lambda a: a.swapaxes(0, -1), lambda a: a.astype("i8"),
    lambda a: a.astype("c8"), lambda a: a.astype("O"), lambda a: a.astype("U3"), lambda a: 0 - a,
    lambda a: a * np.nan, lambda a: a + 1e300, lambda a: np.where(a == a.max(), np.inf, a),
)  # fmt: skip
REORDERED = (
    lambda items: items[:1], lambda items: items[1:], lambda items: items + items,
    lambda items: items[::-1], lambda items: [items],
)  # fmt: skip


def distorted(rng: random.Random, part: Any) -> Any:
    """Return a part of a call with a wrong value, dtype, length, order or number of axes."""
    if isinstance(part, np.ndarray | torch.Tensor) and 0 < math.prod(part.shape) < 10**4:
        readable = isinstance(part, np.ndarray) or not (part.is_sparse or part.is_meta)
        if readable and part.ndim and np.asarray(part).dtype.kind in "fiub" and rng.random() < 0.6:
            return rng.choice(DISTORTED)(np.asarray(part))
    if isinstance(part, list | tuple) and part and rng.random() < 0.5:
        return type(part)(rng.choice(REORDERED)(list(part)))
    return DROP if rng.random() < 0.1 else rng.choice(VALUES)


LAYER_NUMBERS = (10**7, 10**9, -1, "01", "٣", "9" * 5000)


def arrays_call() -> dict[str, Any]:
    maps = truth(0)
    tokens = {"source": list(NAMES[0]), "target": list(NAMES[1][1:])}
    return tokens | maps | {"cross": tuple(map(torch.from_numpy, maps["cross"]))} | {"start": "<s>"}


def generate_call() -> dict[str, Any]:
    outputs, inputs = generated(True)
    named = {"outputs": outputs, "inputs": inputs, "index": 0, "config": {"eos_token_id": [1]}}
    return named | {"tokenizer": Tokenizer(), "source_tokenizer": Tokenizer(), "model": "toy"}


def greedy_call() -> dict[str, Any]:
    outputs, inputs = generated(False)
    named = {"outputs": outputs, "inputs": inputs["input_ids"], "index": 2}
    return named | {"tokenizer": Tokenizer(), "source_language": "German"}


def lens_call() -> dict[str, Any]:
    return {"cache": cached((0, 1)), "tokens": tuple(map(list, NAMES)), "index": 1, "model": "toy"}


ADAPTERS = {
    "arrays": (TranslationRecord.from_arrays, arrays_call),
    "generate, beams": (TranslationRecord.from_generate, generate_call),
    "generate, greedy": (TranslationRecord.from_generate, greedy_call),
    "transformer_lens": (TranslationRecord.from_transformer_lens, lens_call),
}


@pytest.mark.parametrize(("adapter", "valid"), ADAPTERS.values(), ids=ADAPTERS)
def test_wrong_calls_are_rejected_in_one_line(adapter, valid):
    unchanged = valid()
    assert adapter(**unchanged).has("cross")
    rng, outcomes = random.Random(61), Counter()
    while outcomes["rejected"] < REJECTED:
        call = unchanged
        for _ in range(rng.randint(1, 3)):
            part = rng.choice(places(call))
            call = replaced(call, part, lambda value: distorted(rng, value))
        try:
            record = adapter(**call)
        except (ValueError, TypeError) as error:
            text = str(error)
            assert type(error) in (ValueError, TypeError), error
            assert text.isprintable() and len(text) < 400, text[:1000]
            outcomes["rejected"] += 1
        else:
            assert TranslationRecord.load(io.BytesIO(record.to_bytes())) == record
            outcomes["accepted"] += 1
    assert outcomes["accepted"] < outcomes["rejected"] * 2, outcomes


INDICES = (
    True,
    False,
    1.0,
    "0",
    -1,
    3,
    10**9,
    10**5000,
    None,
    np.True_,
    np.float64(0),
    [0],
    Opaque(),
)


@pytest.mark.parametrize("index", INDICES, ids=lambda index: type(index).__name__)
def test_an_index_is_a_whole_number_within_the_batch(index):
    for adapter, valid in list(ADAPTERS.values())[1:]:
        with pytest.raises(ValueError, match=r"^choose one .* of \d: index=0 to \d, not \S{1,12}$"):
            adapter(**valid() | {"index": index})


@pytest.mark.parametrize("number", LAYER_NUMBERS)
def test_hostile_layer_numbers_cost_nothing(number):
    cache: dict[Any, Any] = {5: 1, None: 1, "": 1, **cached()}
    cache |= {f"encoder_blocks.{number}.attn.hook_pattern": torch.ones(1, 4, 4, 4) / 4}
    tracemalloc.start()
    try:
        if number in (-1, "٣"):  # no layer of TransformerLens
            TranslationRecord.from_transformer_lens(cache, NAMES)
        else:
            with pytest.raises(ValueError, match="layers are 0 to 4,095"):
                TranslationRecord.from_transformer_lens(cache, NAMES)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
