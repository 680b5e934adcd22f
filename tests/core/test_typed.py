"""JSON is read by types: each value of another kind, missing field and unknown field is refused.

A file's values are changed one at a time. Whatever type its reader declares, a text where a number
stood, or a list where an object stood, must raise one printable line that names the place.
"""

import io
import json
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import numpy as np
import pytest
import safetensors.numpy

from core.atlas.atlas import Atlas
from core.atlas.claims.board import Board
from core.checkpoint.configuration import read_configuration
from core.checkpoint.header import read_header
from core.checkpoint.metrics import read_metrics
from core.foreign.weights import Weights
from core.record.archive import Archive
from core.record.attention_snapshots import AttentionSnapshots
from core.record.record import TranslationRecord
from core.text.vocabulary import check
from core.translator import Translator
from core.typed import AnyFloat, Count, Rule, Sha256, between, characters, line, typed
from tests.core import strange_folders

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
SHIPPED = CHECKPOINTS / "scratch-de-en"
NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True)
class Inner:
    size: Annotated[int, between(1, 64)]
    name: str = "none"

    def __post_init__(self) -> None:
        if self.name == str(self.size):
            raise ValueError("the name is the size")


class Open(TypedDict):
    needed: bool
    extra: NotRequired[tuple[Inner, ...]]


EVEN = Annotated[int, Rule("that is even", lambda n: n % 2 == 0)]
FITTING: list[tuple[Any, Any, Any]] = [
    (float, 1, 1),
    (float, 1.7e308, 1.7e308),
    (AnyFloat, INF, INF),
    (Annotated[float, between(0)], 0, 0),
    (int | None, None, None),
    (tuple[int, ...], [], ()),
    (tuple[int, str], [1, "a"], (1, "a")),
    (Mapping[Literal["a", "b"], int], {"b": 1, "a": 2}, {"b": 1, "a": 2}),
    (Inner, {"size": 64}, Inner(64)),
    (Open, {"needed": True, "more": []}, {"needed": True, "more": []}),
    (Open, {"needed": False, "extra": [{"size": 1}]}, {"needed": False, "extra": (Inner(1),)}),
    (EVEN, 4, 4),
]
MISFITS: list[tuple[Any, Any, str]] = [
    (int, True, "it is True, not a whole number from -9,007,199,254,740,992 to"),
    (float, NAN, "it is nan, not a number that is finite"),
    (float, 10**309, "not a number that is finite"),
    (AnyFloat, 1 << 60, "not a number"),
    (Annotated[float, between(0)], INF, "it is inf, not a number from 0"),
    (Annotated[float, between(0, 1e30)], 1.1e30, "it is 1.1e+30, not a number from 0 to 1e+30"),
    (Annotated[int, between(0, 1000)], 1001, "it is 1001, not a whole number from 0 to 1,000"),
    (Count, (1 << 40) + 1, "not a whole number from 0 to 1,099,511,627,776"),
    (EVEN, 3, "it is 3, not a whole number that is even"),
    (Annotated[str, characters(1, 3)], "", "it is '', not a text of 1 to 3 characters"),
    (
        Annotated[str, line(9)],
        "a\x1b[2J",
        r"it is 'a\x1b[2J', not a text of one line of at most 9 printable",
    ),
    (Sha256, "0" * 64 + "\n", "not a text that is a SHA-256 in hexadecimal"),
    (Literal[1], True, "it is True, not 1"),
    (int | None, "", "it is '', not a whole number"),
    (Inner | None, {"size": 0}, "size is 0, not a whole number from 1 to 64"),
    (tuple[int, int], [1], "it is [1], not a list of length from 2 to 2"),
    (Annotated[tuple[int, ...], between(0, 2)], [1] * 3, "not a list of length from 0 to 2"),
    (Mapping[Sha256, int], {"a": 1}, "(a name) is 'a', not a text that is a SHA-256"),
    (Mapping[Literal["a", "b"], int], {"a": 1}, "b is missing"),
    (
        Annotated[Mapping[str, int], between(0, 1)],
        {"a": 1, "b": 1},
        "an object of length from 0 to 1",
    ),
    (Mapping[str, int], {"a\n\x1b`": ""}, r"'a\n\x1b`' is '', not a whole number"),
    (Mapping[str, int], {"x" * 200: ""}, f"'{'x' * 80}' is '', not a whole number"),
    (Inner, {"size": 1, "name": "1"}, "it is invalid: the name is the size"),
    (Open, {"needed": True, "extra": [{"size": 1}, {}]}, "extra.1.size is missing"),
]


@pytest.mark.parametrize(("kind", "value", "read"), FITTING)
def test_a_value_of_its_kind_is_read(kind, value, read):
    found = typed(kind, value)
    assert found == read and type(found) is type(read)


@pytest.mark.parametrize(("kind", "value", "says"), MISFITS)
def test_another_value_is_refused_with_its_place_and_the_limit(kind, value, says):
    with pytest.raises(ValueError) as caught:
        typed(kind, value)
    assert says in str(caught.value) and str(caught.value).isprintable()
    with pytest.raises(ValueError, match="^its words(: | is )"):
        typed(kind, value, "its words")


def test_a_long_value_is_shortened():
    for kind, value in ((int, "x" * 10_000), (str, [["x" * 100] * 100] * 100), (str, 10**4000)):
        with pytest.raises(ValueError) as caught:
            typed(kind, value)
        assert len(str(caught.value)) < 400


def test_a_type_that_no_json_has_is_an_error_of_the_program():
    with pytest.raises(KeyError):
        typed(bytes, b"")


class File(NamedTuple):
    """A kind of file: valid values, their reader, and regular expressions of paths.

    Values at `loose` paths may be of another kind, those at `optional` paths may be missing, and
    objects at `open` paths may hold further fields. Numbers and texts at `free` paths are not
    limited.
    """

    values: Any
    read: Callable[[Any], object]
    loose: str = "$^"
    optional: str = "$^"
    open: str = "$^"
    free: str = "$^"


def config_file(folder: Path) -> File:
    values = strange_folders.read(folder)
    comparison = {"what": "logits", "max_abs_diff": 0.5, "limit": 1.0, "passed": True}
    imported = {"family": "marian", "source": "opus-mt", "sha256": "0" * 64, "author": "A"}
    imported |= {"licence": "B", "compared": [comparison], "not_proven": ["The training."]}
    values["training"] = {"imported": imported, **values["training"]}
    del values["sha256"], values["training"]["before"]

    def read(values: Any) -> None:
        strange_folders.write(folder, dict(values) if isinstance(values, dict) else values)
        read_configuration(folder)

    return File(
        values,
        read,
        loose=r"model\.(attention_dropout|mask_score)",
        optional=r"model\..*|training\.((imported\.)?[a-z_]+|(config|corpora)\..*)",
        open=r"|training(\.config)?|files\.[^.]+\.(json|safetensors)",
        free=r"files\..*\.bytes",  # compared with the files later
    )


def metrics_file(folder: Path) -> File:
    values = json.loads((folder / "metrics.json").read_bytes())

    def read(values: Any) -> None:
        (folder / "metrics.json").write_text(json.dumps(values))
        if note := read_metrics(folder)[1]:
            raise ValueError(note)

    loose = r"final\.multi30k\.signature"
    return File(values, read, loose, rf"curve|final|final\.multi30k|{loose}|.*bits_per_char", "")


def tensors_file(read: Callable[[bytes], object], optional: str) -> File:
    content = safetensors.numpy.save({"table": np.zeros((2, 3), np.float32)}, {"corpus": "x"})
    start = 8 + int.from_bytes(content[:8], "little")

    def changed(values: Any) -> None:
        words = json.dumps(values).encode()
        read(len(words).to_bytes(8, "little") + words + content[start:])

    return File(json.loads(content[8:start]), changed, optional=optional, free="__metadata__.*")


def own_tensors(folder: Path) -> File:
    shapes = {"table": (2, 3)}
    optional = "__metadata__.*"
    return tensors_file(lambda raw: read_header(io.BytesIO(raw), len(raw), shapes), optional)


def other_tensors(folder: Path) -> File:
    def read(raw: bytes) -> None:
        (folder / "other.safetensors").write_bytes(raw)
        Weights(folder / "other.safetensors")

    path = "__metadata__.*"  # not read
    return tensors_file(read, path)._replace(loose=path, open=path)


def subwords(folder: Path) -> File:
    values = json.loads((folder / "tokenizer.json").read_bytes())
    values |= {"first": [1], "single_digits": False}
    return File(values, check, optional="first|single_digits")


def words(folder: Path) -> File:
    values = {"kind": "words", "language": "de", "lower": False, "vocabulary": ["a"], "first": [1]}
    return File(values, check, optional="first")


def pieces(folder: Path) -> File:
    values = {"kind": "pieces", "vocabulary": ["a"], "scores": [-1.5], "charsmap": "", "first": [1]}
    values |= {"unlisted": {"b": -2.0}}
    return File(values, check, loose=r"scores\.0", optional="first|unlisted.*")


def board(folder: Path) -> File:
    def read(values: Any) -> None:
        (folder / "literature.json").write_text(json.dumps(values))
        Board.load(folder / "literature.json")

    texts = r"rows\.\d+\.(claim|source|theirs|published.*|quantity|ours|reason)"  # not read
    nullable, networks = r".*\.null|rows\.\d+\.mean", r"rows\.\d+\.networks\..*"
    values = json.loads((CHECKPOINTS / "literature.json").read_bytes())
    return File(values, read, f"{texts}|{nullable}", f"{texts}|{networks}", "", free=".*")


def of_archive(cls: Any, file: Any, loose: str = "$^", optional: str = "$^") -> File:
    with np.load(file) as npz:
        values = json.loads(npz["words"].tobytes())

    def read(values: Any) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Archive, "json", lambda *_, **__: values)
            cls.load(file)

    return File(values, read, loose, optional, free=".*")


def atlas(folder: Path) -> File:
    return of_archive(
        Atlas,
        SHIPPED / "atlas.npz",
        "alignment_heads",
        r"arrays\..*|origin\.gold.*|origin\.version",
    )


def snapshots(folder: Path) -> File:
    return of_archive(AttentionSnapshots, SHIPPED / "history.npz")


def record(folder: Path) -> File:
    content = Translator.load(folder, "cpu").inspect("A dog.").to_bytes()
    return of_archive(TranslationRecord, io.BytesIO(content))


FILES = (
    *(config_file, metrics_file, own_tensors, other_tensors, subwords, words, pieces, board),
    *(atlas, snapshots, record),
)
KINDS = {"null": None, "flag": True, "number": 7, "text": "x", "list": [], "object": {}}
EXTREMES = {"number": (10**31, -(10**31)), "text": ("\x1b]0;owned\x07\x1b[2J",)}


def kind_of(value: Any) -> str:
    kinds = {type(other): kind for kind, other in KINDS.items()} | {float: "number"}
    return kinds[type(value)]


def places(values: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value; of lists and long objects, only the first and the last one."""
    yield path
    inner = dict(enumerate(values)) if isinstance(values, list) else values
    names = list(inner) if isinstance(inner, dict) else []
    few = len(names) < 3 or (isinstance(values, dict) and len(names) < 40)
    for name in names if few else (names[0], names[-1]):
        yield from places(inner[name], *path, name)


def changed(values: Any, path: tuple[Any, ...], change: Callable[[Any, Any], object]) -> Any:
    """Return a copy, changed at a path: `change` gets the outer value and the name in it."""
    whole = {"": deepcopy(values)}
    *outer, name = ("", *path)
    change(reduce(operator.getitem, outer, whole), name)
    return whole[""]


@pytest.mark.parametrize("make", FILES)
def test_every_value_of_another_kind_and_every_unknown_field_is_refused(make, tmp_path):
    """An oracle of a line: a value may not change its kind, and an object not its fields.

    Nor may a number of a checkpoint be huge, or a text control a terminal.
    """
    file: File = make(strange_folders.good(tmp_path / "good-de-en"))
    file.read(file.values)
    tried = Counter()

    def refused(values: Any, what: str, name: str = "") -> None:
        tried[what] += 1
        try:
            file.read(values)
        except ValueError as error:
            assert str(error).isprintable() and len(str(error)) < 900
            assert name in str(error) or "another version" in str(error), (what, error)
        else:
            pytest.fail(f"{what}: {name}")

    for path in places(file.values):
        at = ".".join(map(str, path))
        value = reduce(operator.getitem, path, file.values)
        name = path[-1] if path else ""
        for kind, other in KINDS.items():
            if value is not None and kind != kind_of(value) and not re.fullmatch(file.loose, at):
                put = changed(file.values, path, lambda o, n, v=other: operator.setitem(o, n, v))
                refused(put, f"{at} is {kind}", str(name))
        if not re.fullmatch(f"{file.loose}|{file.free}", at):
            for extreme in EXTREMES.get(kind_of(value), ()):
                put = changed(file.values, path, lambda o, n, v=extreme: operator.setitem(o, n, v))
                refused(put, f"{at} is {extreme!r}")
        if isinstance(value, dict) and not re.fullmatch(file.open, at):
            more = changed(file.values, (*path, "unknown"), lambda o, n: o.update({n: None}))
            refused(more, f"{at} has more")
        if path and isinstance(name, str) and not re.fullmatch(file.optional, at):
            refused(changed(file.values, path, operator.delitem), f"{at} is missing")
    assert len(tried) > 20
