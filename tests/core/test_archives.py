"""Hostile record, snapshot and head-means files are rejected with one line; valid ones round-trip.

A case changes the members of a valid .npz file by name, or its bytes (`spoil`); the error must
contain `says`.
"""

import dataclasses
import io
import json
import random
import resource
import shutil
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import safetensors.torch
import torch

from core.checkpoint.folder import CheckpointError, list_cards
from core.checkpoint.head_means import FILE, HeadMeans, load_means, save_means
from core.data import tatoeba
from core.record.attention_snapshots import FILE as SNAPSHOTS_FILE
from core.record.attention_snapshots import AttentionSnapshots, Sentence
from core.record.edits import Edits
from core.record.record import TranslationRecord
from core.serving import wire
from core.translator import InputError, Translator
from tests.core import strange_folders
from tests.core.test_record import npy

KINDS = ("encoder", "decoder", "cross")
Members = dict[str, bytes]
Change = Callable[[Members], Any]
NAN, INF = float("nan"), float("inf")


class Case(NamedTuple):
    name: str
    says: str
    change: Change = lambda members: None
    spoil: Callable[[bytes], bytes] = bytes
    packed: int = zipfile.ZIP_DEFLATED


def hostile(content: bytes, case: Case) -> bytes:
    """Apply a case to a valid file."""
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        members = {name: opened.read(name) for name in opened.namelist()}
    case.change(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", case.packed) as opened:
        for name, member in members.items():
            opened.writestr(name, member)
    return case.spoil(buffer.getvalue())


def member(name: str, edit: Callable[[bytes], bytes]) -> Change:
    return lambda members: members.update({f"{name}.npy": edit(members[f"{name}.npy"])})


def raw(name: str, content: bytes) -> Change:
    return member(name, lambda _: content)


def without(name: str) -> Change:
    return lambda members: members.pop(f"{name}.npy")


def text(content: bytes) -> Change:
    return raw("words", npy(np.frombuffer(content, np.uint8)))


def words(edit: Callable[[dict], Any]) -> Change:
    """Edit, in place, the JSON values that the array `words` contains as bytes."""

    def changed(content: bytes) -> bytes:
        values = json.loads(np.load(io.BytesIO(content)).tobytes())
        edit(values)
        return npy(np.frombuffer(json.dumps(values).encode(), np.uint8))

    return member("words", changed)


def array(name: str, edit: Callable[[np.ndarray], Any]) -> Change:
    """Edit an array: `edit` changes it in place or returns another."""

    def changed(content: bytes) -> bytes:
        values = np.load(io.BytesIO(content)).copy()
        given = edit(values)
        return npy(values if given is None else given)

    return member(name, changed)


def put(name: str, at: tuple[int, ...], number: float) -> Change:
    return array(name, lambda values: values.__setitem__(at, number))


def zeros(**shapes: tuple[int, ...]) -> Change:
    """Replace arrays by zeros of these shapes."""
    arrays = {f"{name}.npy": npy(np.zeros(shape, "f4")) for name, shape in shapes.items()}
    return lambda members: members.update(arrays)


def header(name: str, old: bytes, new: bytes) -> Change:
    """Change the .npy header, keeping its length."""

    def changed(content: bytes) -> bytes:
        start = content[:128].replace(old, new)
        assert start != content[:128]
        return start[:127].rstrip().ljust(127) + b"\n" + content[128:]

    return member(name, changed)


def encrypted(content: bytes) -> bytes:
    """Set the encryption flag of every member."""
    found = bytearray(content)
    for mark, at in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        start = -1
        while (start := content.find(mark, start + 1)) >= 0:
            found[start + at] |= 1
    return bytes(found)


def of_any_archive(maps: str) -> list[Case]:
    """Return the cases for any archive; `maps` names one of the arrays of attention weights."""
    bomb = {f"x{i}": bytes(65 << 20) for i in range(4)}
    many = {f"x{i}.npy": b"" for i in range(5_000)}
    missing = f"{maps} is missing"
    version_2 = member(maps, lambda content: content.replace(b"NUMPY\x01", b"NUMPY\x02", 1))
    swapped = array(maps, lambda a: a.astype(a.dtype.newbyteorder()))
    shape = b"'shape': ("
    return [
        Case("a pickle", "", spoil=lambda _: b"\x80\x04N."),
        Case("cut", "", spoil=lambda c: c[: len(c) // 2]),
        Case("encrypted", "", spoil=encrypted),
        Case("packed by lzma", "", packed=zipfile.ZIP_LZMA),
        Case("a bomb", "it unpacks to", lambda m: m.update(bomb)),
        Case("a bomb of the words", "its metadata takes more than", raw("words", bytes(5 << 20))),
        Case("5,000 arrays", "arrays, the limit is 4,096", lambda m: m.update(many)),
        Case("no words", "words is missing", without("words")),
        Case("words in 2D", "should be 1-D", raw("words", npy(np.zeros((3, 3), "u1")))),
        Case("a deep list", "nested deeper", text(b"[" * 100_000)),
        Case("nine levels", "nested deeper than 8", text(b"[" * 9 + b"]" * 9)),
        Case("items without end", "the limit is 500,000", text(b"[" + b"0," * 500_001 + b"0]")),
        Case("a name twice", "occurs twice", text(b'{"format": 2, "format": 2}')),
        Case("another format", "format", words(lambda w: w.update(format=99))),
        Case("no map", missing, without(maps)),
        Case("a map that is no array", missing, raw(maps, b"\x93NUMPY\x01\x00")),
        Case("a map of objects", missing, raw(maps, npy(np.array([[None]], object)))),
        Case("a map in another byte order", missing, swapped),
        Case("a map of fewer axes", "should be", array(maps, lambda a: a[0])),
        Case("a map of version 2", missing, version_2),
        Case("a map that is cut", "does not fit its shape", member(maps, lambda c: c[:-1])),
        Case("a negative shape", "", header(maps, shape, shape + b"-")),
        *(Case(f"a weight of {w}", "", put(maps, (0,) * 4, w)) for w in (NAN, 1.5, -0.5)),
    ]


TOO_LONG = "a token of 1,001 characters"
LONG_TOKEN = {"text": "x" * 1_001, "piece": "x" * 1_001}
SMALL = (1, 1, 1, 1)
RECORDS = [
    *of_any_archive("cross"),
    *(
        Case(f"{v} in {name} {at}", f"{name} holds a number that is not finite", put(name, at, v))
        for name, at, v in (
            *(("log_probs", (0,), NAN), ("log_probs", (-1,), -INF)),
            *(("alternative_log_probs", (0, 0), -INF), ("alternative_log_probs", (-1, -1), NAN)),
            *(("source_positions", (0, 0), INF), ("target_positions", (-1, -1), NAN)),
        )
    ),
    *(
        Case(f"{name} above 0", f"{name} holds a value above 0", put(name, at, 0.5))
        for name, at in (("log_probs", (0,)), ("alternative_log_probs", (0, 0)))
    ),
    *(
        Case(
            f"a hypothesis with {name} {value}",
            f"hypotheses.4.{name} is {value}, not a number that is finite",
            words(lambda w, name=name, value=value: w["hypotheses"][-1].update({name: value})),
        )
        for name, value in (("log_prob", -INF), ("score", NAN))
    ),
    Case(
        "a hypothesis with log_prob 1.0",
        "a hypothesis has a log-probability",
        words(lambda w: w["hypotheses"][-1].update(log_prob=1.0)),
    ),
    *(
        Case(
            f"a long {part} of {side}",
            TOO_LONG,
            words(lambda w, s=side, p=part: w[s][0].update({p: LONG_TOKEN[p]})),
        )
        for side, part in (("source", "text"), ("target_out", "piece"))
    ),
    Case("513 tokens", "513 tokens are too many", zeros(cross=(2, 2, 3, 513))),
    Case(
        "4,097 maps",
        "4,097 maps, the limit is 4,096",
        zeros(encoder=SMALL, decoder=(64, 32, 1, 1), cross=(64, 32, 1, 1)),
    ),
    Case(
        "16,777,217 weights",
        "16,777,217 weights, the limit is 16,777,216",
        zeros(encoder=SMALL, decoder=(64, 1, 512, 256), cross=(64, 1, 512, 256)),
    ),
    Case("edits of another text", "edits", words(lambda w: w.update(edits="off=cross.9.9"))),
]


def sentence(i: int, **changes: Any) -> Change:
    return words(lambda w: w["sentences"][i].update(changes))


NOISE = np.random.default_rng(0).bytes(4 << 20)
NOT_A_SHARE = "a value outside 0..1"
SNAPSHOTS = [
    *of_any_archive("cross_0"),
    Case("no tokens", "an empty side", sentence(0, source=[])),
    Case("steps that fall", "the steps do not increase", array("steps", lambda a: a[::-1].copy())),
    Case("a missing loss", "loss must hold", array("loss", lambda a: a[1:])),
    *(
        Case(
            f"a {name} of {v}",
            f"{name} must hold a finite, nonnegative number",
            put(name, (-1,), v),
        )
        for name, v in (("loss", -1), ("bleu", NAN))
    ),
    Case("an entropy above 1", NOT_A_SHARE, put("entropy_cross", (-1, -1, -1), 1.5)),
    Case("a NaN role", NOT_A_SHARE, put("roles_decoder", (0, -1, 0, 0), NAN)),
    Case("a file of 4 MB", "the limit is 3,145,728", lambda m: m.update(x=NOISE)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return strange_folders.good(tmp_path_factory.mktemp("good") / "good-de-en")


@pytest.fixture(scope="module")
def translator(folder):
    return Translator.load(folder, "cpu")


@pytest.fixture(scope="module")
def record(translator) -> bytes:
    return translator.inspect("A dog.").to_bytes()


@pytest.fixture(scope="module")
def snapshots() -> bytes:
    """Three snapshots of two sentences in a network of two layers and two heads."""
    draw = np.random.default_rng(0)
    sentences = tuple(
        Sentence(("a", "b", "<eos>")[:n], ("<bos>", "c")[:m], ("c", "<eos>")[:m])
        for n, m in ((3, 2), (2, 1))
    )
    maps: dict[str, tuple] = {}
    for kind in KINDS:
        found = []
        for sentence in sentences:
            Q, K = sentence.map_sizes[kind]
            weights = draw.random((3, 2, 2, Q, K))
            weights *= np.tri(Q, K) if kind == "decoder" else 1
            found.append((weights / weights.sum(-1, keepdims=True)).astype(np.float16))
        maps[kind] = tuple(found)
    roles = {"encoder": 3, "decoder": 3, "cross": 1}
    return AttentionSnapshots(
        sentences,
        np.array([0, 5, 9], np.int32),
        np.array([3, 2, 1], np.float32),
        np.array([0, 1, 2], np.float32),
        maps,
        {kind: draw.random((3, 2, 2)).astype(np.float32) for kind in KINDS},
        {kind: draw.random((3, roles[kind], 2, 2)).astype(np.float32) for kind in KINDS},
    ).to_bytes()


def refused(read, file, *says: str) -> None:
    """Assert that reading raises a one-line ValueError and adds less than 200 MB to peak memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError) as caught:
        read(file)
    line = str(caught.value)
    assert type(caught.value) is ValueError and line.isprintable() and len(line) < 600
    assert "pickle" not in line and "unsafe" not in line
    assert all(words in line for words in says), line
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "KB"


@pytest.mark.parametrize("case", RECORDS, ids=lambda case: case.name)
def test_a_hostile_record_is_refused(case, record):
    file = io.BytesIO(hostile(record, case))
    refused(TranslationRecord.load, file, "is not a saved record (", case.says)


@pytest.mark.parametrize("case", SNAPSHOTS, ids=lambda case: case.name)
def test_hostile_snapshots_are_refused(case, snapshots, tmp_path):
    file = tmp_path / SNAPSHOTS_FILE
    file.write_bytes(hostile(snapshots, case))
    refused(AttentionSnapshots.load, file, "is not a saved snapshot file (", file.name, case.says)


def flipped(content: bytes, count: int, seed: int = 0):
    """Yield copies with one random bit flipped."""
    draw = random.Random(seed)
    for _ in range(count):
        spoiled = bytearray(content)
        spoiled[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        yield bytes(spoiled)


@pytest.mark.parametrize("kind", [TranslationRecord, AttentionSnapshots])
def test_a_flipped_bit_is_refused_or_changes_nothing(kind, record, snapshots):
    content = record if kind is TranslationRecord else snapshots
    outcomes = set()
    for spoiled in flipped(content, 400):
        try:
            found = kind.load(io.BytesIO(spoiled))
        except ValueError as error:
            assert "is not a saved" in str(error) and str(error).isprintable()
            outcomes.add("refused")
        else:
            assert found.to_bytes() == content
            outcomes.add("the same")
    assert outcomes == {"refused", "the same"}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["words.npy", "cross.npy", "log_probs.npy"])
def test_two_arrays_of_one_name_are_refused(record, name):
    buffer = io.BytesIO(record)
    with zipfile.ZipFile(buffer, "a") as opened:
        opened.writestr(name, opened.read(name))
    refused(TranslationRecord.load, buffer, "two of its arrays have the same name")


def test_an_array_may_be_in_column_order(record):
    by_columns = Case("", "", array("cross", np.asfortranarray), packed=zipfile.ZIP_STORED)
    content = hostile(record, by_columns)
    assert b"'fortran_order': True" in content
    assert TranslationRecord.load(io.BytesIO(content)) == TranslationRecord.load(io.BytesIO(record))


def test_snapshots_round_trip(snapshots):
    again = AttentionSnapshots.load(io.BytesIO(snapshots))
    assert again.to_bytes() == snapshots
    assert again.sentences[0].source == ("a", "b", "<eos>") and again.steps.tolist() == [0, 5, 9]


def test_snapshots_too_large_to_load_are_not_saved(snapshots):
    small, long = AttentionSnapshots.load(io.BytesIO(snapshots)), "x" * 600_000
    first, second = small.sentences
    sentences = (
        Sentence(first.source, ("<bos>", long), (long, "<eos>")),
        Sentence(second.source, ("<bos>",), (long,)),
    )
    with pytest.raises(ValueError, match="too large: the limit is 32 MB"):
        dataclasses.replace(small, sentences=sentences).to_bytes()


@pytest.fixture
def with_means(folder, translator):
    """Return a function that saves head means with one nonzero value; delete them afterwards."""

    def save(value: float, kind: str = "encoder") -> None:
        H, D = translator.card.model.num_heads, translator.card.model.d_model
        parts = {(k, 0): torch.zeros(H, D) for k in KINDS}
        parts[kind, 0][-1, -1] = value
        save_means(folder / FILE, HeadMeans(parts, 3, "x"))  # ty: ignore[invalid-argument-type]

    yield save
    (folder / FILE).unlink()


@pytest.mark.parametrize("kind", ["encoder", "cross"])
@pytest.mark.parametrize("value", [1e30, 65_536.0, -65_536.0, NAN, -INF])
def test_head_means_out_of_range_are_refused(translator, folder, with_means, value, kind):
    with_means(value, kind)
    with pytest.raises(CheckpointError) as caught:
        load_means(folder, translator.card.model)
    what = "beyond ±65,504" if np.isfinite(value) else "that are not finite"
    assert f"{kind} contains values {what}" in str(caught.value) and str(caught.value).isprintable()


@pytest.mark.parametrize(
    "sentences",
    [None, "", "0", "-5", "+5", "1_0", " 7", "7\n", "٣", "1.0", "9" * 4_000, "9" * 5_000],
)
def test_a_number_of_sentences_is_written_in_digits(translator, folder, with_means, sentences):
    with_means(1.0)
    assert load_means(folder, translator.card.model).sentences == 3
    metadata = {"corpus": "x"} | ({} if sentences is None else {"sentences": sentences})
    tensors = safetensors.torch.load((folder / FILE).read_bytes())
    (folder / FILE).write_bytes(safetensors.torch.save(tensors, metadata))
    with pytest.raises(CheckpointError, match="not a whole number from 1") as caught:
        load_means(folder, translator.card.model)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 500


@pytest.mark.parametrize("value", [65_504.0, -65_504.0])
def test_the_largest_head_means_can_be_inspected(folder, with_means, value):
    with_means(value)
    edits = Edits(heads_mean=frozenset({("encoder", 0, 1)}))
    found = Translator.load(folder, "cpu").inspect("A dog.", edits=edits)
    assert np.isfinite(found.log_probs).all()


def test_folders_whose_names_collide_are_refused(folder, tmp_path):
    """A model is named like its folder, without the direction; no name may end with -twin."""
    for name in ("good-de-en", "good", "good-twin-de-en", "Good-Twin-de-en", "x-twin", "y", "en"):
        shutil.copytree(folder, tmp_path / name)
    cards, problems = list_cards(tmp_path)
    assert [card.folder.name for card in cards] == ["en", "good-de-en", "y"]
    assert len(problems) == 4 and all(problem.isprintable() for problem in problems)
    says = dict.fromkeys(("good-twin-de-en", "Good-Twin-de-en", "x-twin"), "ends with -twin")
    for name, words in {**says, "good": "would have the same name as good-de-en"}.items():
        (line,) = [p for p in problems if f"/{name} " in f"{p} " and words in p]
        assert line.endswith(("rename the folder", "rename one of them"))


def test_a_pass_too_large_for_a_record_is_not_made(folder, monkeypatch):
    """The limit applies to the tokens of this sentence and is checked before the pass."""
    translator = Translator.load(folder, "cpu")
    model = dataclasses.replace(translator.card.model, num_encoder_layers=3)  # only on the card
    translator.card = dataclasses.replace(translator.card, model=model)
    S, T = len(translator.tokens("A dog.", "source")), 3
    assert S != T
    weights = 2 * (3 * S * S + T * T + T * S)  # two heads

    def forbidden(*_: object) -> None:
        raise AssertionError("a pass was made")

    monkeypatch.setattr("core.record.record.MAX_RECORD_WEIGHTS", weights)
    assert translator.inspect("A dog.", target_ids=[5, 6, 2]).cross.shape[2:] == (T, S)
    monkeypatch.setattr("core.record.record.MAX_RECORD_WEIGHTS", weights - 1)
    monkeypatch.setattr("core.translator.teacher_forced_passes", forbidden)
    with pytest.raises(InputError, match=rf"{weights} weights: the limit is {weights - 1}"):
        translator.inspect("A dog.", target_ids=[5, 6, 2])
    with pytest.raises(InputError, match="the limit is"):
        translator.inspect_many(["A dog."], ["A dog is here."])


def test_a_compressed_backend_message_is_refused(monkeypatch):
    content = wire.to_bytes([np.zeros(50_000)])
    assert np.array_equal(wire.from_bytes(content)[0], np.zeros(50_000))
    monkeypatch.setattr(np, "load", None)  # nothing is unpacked
    with pytest.raises(ValueError, match="not a backend message .ValueError."):
        wire.from_bytes(hostile(content, Case("", "")))


def test_a_broken_corpus_is_refused_in_one_line(tmp_path, monkeypatch):
    file = tmp_path / "deu-eng.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("deu.txt", "Hi.\tHallo.\tx\n" * 100)
    assert tatoeba.read(file)[0] == ("Hallo.", "Hi.")
    content = file.read_bytes()
    for spoiled in flipped(content, 200):
        file.write_bytes(spoiled)
        try:
            assert tatoeba.read(file) == [("Hallo.", "Hi.")] * 100
        except ValueError as error:
            assert "is not Tatoeba's deu-eng.zip" in str(error)
    file.write_bytes(content)
    monkeypatch.setattr(tatoeba, "_MAX_BYTES", 1_299)
    with pytest.raises(ValueError, match="unpacks to 1,300 bytes, the limit is 1,299"):
        tatoeba.read(file)
