"""Values with arrays are immutable, also when pickled, copied or replaced."""

import copy
import dataclasses
import io
import pickle
import pkgutil
import re
from collections.abc import Mapping
from importlib import import_module

import numpy as np
import pytest

import core
from core.analysis.attribution import Attributions, Shapley
from core.analysis.head_effects import HeadEffects
from core.frozen import Frozen
from core.record.record import TranslationRecord
from core.text.tokenizer import special
from core.translator import Translator
from tests.core import strange_folders

COPIES = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "pickle 2": lambda value: pickle.loads(pickle.dumps(value, 2)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "replace": dataclasses.replace,
}
PACKAGES = ("record", "analysis", "experiments", "search")


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frozen") / "good-de-en"
    return Translator.load(strange_folders.good(folder), "cpu")


@pytest.fixture(scope="module")
def record(translator):
    return translator.inspect("A dog.", activations=True)


@pytest.fixture(scope="module")
def tree(translator):
    return translator.search_tree("A dog.")


def arrays_of(value) -> list[np.ndarray]:
    """Return every array in a value."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, Mapping):
        return [array for item in value.values() for array in arrays_of(item)]
    if isinstance(value, tuple | list):
        return [array for item in value for array in arrays_of(item)]
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return [array for field in fields for array in arrays_of(getattr(value, field.name))]
    return []


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape)


VALUES = {
    "effects": lambda: HeadEffects(ones(3), {"cross": ones(2, 2, 3)}),
    "attributions": lambda: Attributions(((0,),), (5, 6), {"rollout": ones(2, 1)}),
    "shapley": lambda: Shapley(((0,),), (5,), *[ones(1, 1)] * 3, ones(1), ones(1), 2, 0),
}


def check_frozen(value) -> None:
    arrays = arrays_of(value)
    assert arrays
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            array.flags.writeable = True


@pytest.mark.parametrize("method", COPIES)
@pytest.mark.parametrize("what", VALUES)
def test_a_copy_of_a_value_is_frozen_and_equal(what, method):
    value = VALUES[what]()
    check_frozen(value)
    again = COPIES[method](value)
    assert type(again) is type(value)
    check_frozen(again)
    for one, other in zip(arrays_of(value), arrays_of(again), strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)


@pytest.mark.parametrize("method", COPIES)
def test_a_copy_of_a_record_is_frozen_equal_and_keeps_its_checks(record, method):
    check_frozen(record)
    again = COPIES[method](record)
    check_frozen(again)
    assert again == record and hash(again) == hash(record) and again.id == record.id
    assert again.checks == record.checks and len(again.checks) == 8
    assert np.array_equal(again.activations.cross_scores, record.activations.cross_scores)


def test_a_value_does_not_share_memory_with_its_arguments():
    own = ones(2, 2, 3)
    changes = {"cross": own}
    value = HeadEffects(ones(3), changes)
    own[:] = 7
    changes["cross"] = changes["encoder"] = own
    assert list(value.changes) == ["cross"] and (value.changes["cross"] == 1).all()
    with pytest.raises(TypeError):
        value.changes["cross"] = own  # ty: ignore[invalid-assignment]


@pytest.mark.parametrize("method", COPIES)
def test_a_search_tree_is_frozen(tree, method):
    again = COPIES[method](tree)
    assert dict(again.tokens) == dict(tree.tokens) and again.texts == tree.texts
    with pytest.raises(TypeError):
        again.tokens[5] = special(2)


def test_every_value_with_arrays_is_frozen():
    """Every frozen dataclass with arrays must inherit from Frozen."""
    found, loose = [], []
    for info in pkgutil.walk_packages(core.__path__, "core."):
        if info.name.split(".")[1] not in PACKAGES:
            continue
        for kind in vars(import_module(info.name)).values():
            if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
                continue
            types = " ".join(str(field.type) for field in dataclasses.fields(kind))
            if kind.__dataclass_params__.frozen and re.search(
                r"ndarray|NDArray|Floats|Doubles|Bools", types
            ):
                (found if issubclass(kind, Frozen) else loose).append(kind.__name__)
    assert loose == [] and len(set(found)) > 15


def other_row(weights: np.ndarray) -> np.ndarray:
    weights = weights.copy()
    weights[-1, -1, -1] = weights[-1, -1, -1, ::-1]
    assert weights[-1, -1, -1, 0] != weights[-1, -1, -1, -1]
    return weights


@pytest.mark.parametrize(
    "change",
    [
        lambda r: {"cross": other_row(r.cross)},
        lambda r: {"log_probs": r.log_probs - np.float32(1)},
        lambda r: {"alternative_log_probs": r.alternative_log_probs - np.float32(1)},
        lambda r: {"translation": "x"},
        lambda r: {"weights_sha256": "0"},
        lambda r: {"target_positions": r.target_positions[:, ::-1].copy()},
    ],
)
def test_a_changed_record_loses_its_checks(record, change):
    other = dataclasses.replace(record, activations=None, **change(record))
    assert other.checks == () and other != record and other.id != record.id
    assert "0 of 0 passed" in repr(other)
    back = dataclasses.replace(other, checks=record.checks)
    assert back.checks == (), "the checks belong to another record"


def test_a_saved_record_is_equal(record, tmp_path):
    stream = io.BytesIO()
    record.save(stream)
    record.save(tmp_path / "record.npz")
    assert stream.getvalue() == (tmp_path / "record.npz").read_bytes() == record.to_bytes()
    for file in (stream, tmp_path / "record.npz", str(tmp_path / "record.npz")):
        again = TranslationRecord.load(file)
        assert again == record and (again != record) is False and hash(again) == hash(record)
        assert again in [record] and len({again, record}) == 1
    assert dataclasses.replace(record, checks=()) == record
    assert record != "a record"
    assert [file.name for file in tmp_path.iterdir()] == ["record.npz"]


def test_an_invalid_record_is_not_saved(record):
    """Arrays are read-only, but Python lets anyone replace a field."""
    spoiled = copy.copy(record)
    weights = record.cross.copy()
    weights[0, 0, 0] = 7
    object.__setattr__(spoiled, "cross", weights)
    with pytest.raises(ValueError, match="does not sum to 1"):
        spoiled.save(io.BytesIO())


def test_maps_of_other_heads_make_another_record(record):
    """Reshape the maps of two heads in one layer to one head in each of two layers."""
    maps = {kind: getattr(record, kind) for kind in ("encoder", "decoder", "cross")}
    reshaped = {kind: m.reshape(2, 1, *m.shape[2:]) for kind, m in maps.items()}
    other = dataclasses.replace(record, activations=None, **reshaped)
    assert other != record and other.checks == ()
