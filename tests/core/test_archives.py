"""A saved record, a film and head means from a stranger are refused in one line, whatever is in
them; what was saved here opens again."""

import dataclasses
import io
import random
import resource
import shutil
import zipfile

import numpy as np
import pytest
import torch

from core.checkpoint.folder import CheckpointError, list_cards
from core.checkpoint.head_means import FILE, HeadMeans, load_means, save_means
from core.config import ModelConfig
from core.data import tatoeba
from core.model.build import build
from core.record.attention_snapshots import FILE as FILM
from core.record.attention_snapshots import AttentionSnapshots, Sentence
from core.record.edits import Edits
from core.record.record import TranslationRecord, check_size
from core.serving import wire
from core.training import resume
from core.training.distributed import Processes
from core.translator import InputError, Translator
from tests.core import strange_folders
from tests.core.hostile_archives import FILMS, RECORDS, Kind, array, hostile

KINDS = ("encoder", "decoder", "cross")


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
def film() -> bytes:
    """Three points of two sentences in a network of two layers and two heads."""
    draw = np.random.default_rng(0)
    sentences = tuple(
        Sentence(("a", "b", "<eos>")[:n], ("<bos>", "c")[:m], ("c", "<eos>")[:m])
        for n, m in ((3, 2), (2, 1))
    )
    maps: dict[str, tuple] = {}
    for kind in KINDS:
        found = []
        for sentence in sentences:
            Q, K = sentence.shape(kind)
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
    """One printable line, as ValueError itself, and little memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError) as caught:
        read(file)
    line = str(caught.value)
    assert type(caught.value) is ValueError and line.isprintable() and len(line) < 600
    assert "pickle" not in line and "unsafe" not in line
    for words in says:
        assert words in line, line
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "KB"


def test_there_are_enough_kinds():
    for kinds in (RECORDS, FILMS):
        assert len(kinds) > 50 and len({kind.name for kind in kinds}) == len(kinds)


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.name)
def test_a_hostile_record_is_refused(kind, record):
    file = io.BytesIO(hostile(record, kind))
    refused(TranslationRecord.load, file, "is not a saved record (", kind.says)


@pytest.mark.parametrize("kind", FILMS, ids=lambda kind: kind.name)
def test_a_hostile_film_is_refused(kind, film, tmp_path):
    (tmp_path / FILM).write_bytes(hostile(film, kind))
    says = "is not a saved snapshot file ("
    refused(AttentionSnapshots.load, tmp_path / FILM, says, FILM, kind.says)


@pytest.mark.parametrize("what", ["record", "film"])
def test_every_bit_counts(what, record, film):
    """One bit flipped anywhere: refused, or what it was."""
    content, kind = {"record": (record, TranslationRecord), "film": (film, AttentionSnapshots)}[
        what
    ]
    draw = random.Random(0)
    outcomes = set()
    for _ in range(400):
        spoiled = bytearray(content)
        spoiled[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
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
    """Which of them would be read, and whose size would be counted?"""
    buffer = io.BytesIO(record)
    with zipfile.ZipFile(buffer, "a") as opened:
        opened.writestr(name, opened.read(name))
    refused(TranslationRecord.load, buffer, "two of its arrays have the same name")


def test_an_array_may_lie_by_columns(record):
    by_columns = Kind("", "", array("cross", np.asfortranarray))
    content = hostile(record, by_columns)
    assert b"'fortran_order': True" in hostile(record, Kind("", "", by_columns.change, packed=0))
    assert TranslationRecord.load(io.BytesIO(content)) == TranslationRecord.load(io.BytesIO(record))


def test_a_film_comes_back(film):
    again = AttentionSnapshots.load(io.BytesIO(film))
    assert again.to_bytes() == film
    assert again.sentences[0].source == ("a", "b", "<eos>") and again.steps.tolist() == [0, 5, 9]


def test_a_film_that_could_not_be_loaded_is_not_saved(film):
    long = tuple("x" * 600_000 for _ in range(2))
    small = AttentionSnapshots.load(io.BytesIO(film))
    sentence = Sentence(small.sentences[1].source, ("<bos>",), (long[0],))
    other = AttentionSnapshots(
        (Sentence(small.sentences[0].source, ("<bos>", long[1]), (long[1], "<eos>")), sentence),
        *(small.steps, small.loss, small.bleu, small.maps, small.entropy, small.roles),
    )
    with pytest.raises(ValueError, match="too large: the limit is 32 MB"):
        other.to_bytes()


def means(translator, value: float, at: tuple[str, int] = ("encoder", 0)) -> HeadMeans:
    model = translator.card.model
    parts = {
        (kind, 0): torch.zeros(model.num_heads, model.d_model) for kind in KINDS
    }  # one layer of each kind
    parts[at][-1, -1] = value
    return HeadMeans(parts, 3, "x")  # ty: ignore[invalid-argument-type]


@pytest.mark.parametrize("at", [("encoder", 0), ("cross", 0)])
@pytest.mark.parametrize("value", [1e30, 65_536.0, -65_536.0, float("nan"), -float("inf")])
def test_head_means_out_of_range_are_refused(translator, folder, value, at):
    model = translator.card.model
    save_means(folder, means(translator, value, at))
    try:
        with pytest.raises(CheckpointError) as caught:
            load_means(folder, model)
    finally:
        (folder / FILE).unlink()
    what = "beyond ±65,504" if np.isfinite(value) else "that are not finite"
    assert f"{at[0]} holds values {what}" in str(caught.value) and str(caught.value).isprintable()


@pytest.mark.parametrize("value", [65_504.0, -65_504.0])
def test_the_largest_head_means_can_be_inspected(folder, value):
    translator = Translator.load(folder, "cpu")
    save_means(folder, means(translator, value))
    try:
        edits = Edits(heads_mean=frozenset({("encoder", 0, 1)}))
        found = translator.inspect("A dog.", edits=edits)
    finally:
        (folder / FILE).unlink()
    assert np.isfinite(found.log_probs).all()


def test_a_folder_in_the_place_of_another_is_refused_by_name(folder, tmp_path):
    """A model is listed by its folder's name without the direction, and its twin behind it."""
    for name in ("good-de-en", "good", "good-twin-de-en", "Good-Twin-de-en", "x-twin", "y", "en"):
        shutil.copytree(folder, tmp_path / name)
    cards, problems = list_cards(tmp_path)
    assert [card.folder.name for card in cards] == ["en", "good-de-en", "y"]
    assert len(problems) == 4 and all(problem.isprintable() for problem in problems)
    for name, says in {
        "good-twin-de-en": "ends with -twin",
        "Good-Twin-de-en": "ends with -twin",
        "x-twin": "ends with -twin",
        "good": "would have the same name as good-de-en",
    }.items():
        (line,) = [p for p in problems if f"/{name} " in f"{p} " and says in p]
        assert line.endswith(("rename the folder", "rename one of them"))


@pytest.mark.parametrize(
    ("size", "fits"),
    [
        (((2, 2), 4, 100, 100), True),
        (((4094, 1), 1, 1, 1), True),  # 4,096 maps
        (((4095, 1), 1, 1, 1), False),
        (((1, 2048), 1, 1, 1), False),  # 4,097: each decoder layer has two
        (((1, 1), 1366, 1, 1), False),  # 4,098
        (((63, 1), 1, 512, 256), True),  # 63·2^18 + 2^16 + 2^17
        (((64, 1), 1, 512, 256), False),
        (((1, 32), 1, 1, 512), True),  # 1 + 32·(2^18 + 2^9)
        (((1, 64), 1, 1, 512), False),
        (((1, 1), 64, 512, 1), False),  # 64·(2^18 + 1 + 2^9)
    ],
)
def test_how_much_a_record_holds(size, fits):
    layers, heads, source, target = size
    maps = heads * (layers[0] + 2 * layers[1])
    weights = heads * (
        layers[0] * source * source + layers[1] * target * target + layers[1] * target * source
    )
    assert (maps <= 4_096 and weights <= 16_777_216) == fits
    if fits:
        check_size(*size)
        return
    with pytest.raises(ValueError, match="maps are too many|the limit is 16,777,216") as caught:
        check_size(*size)
    assert str(caught.value).isprintable()


def test_a_pass_that_no_record_holds_is_not_made(folder, monkeypatch):
    """The bound counts the tokens of this sentence, before a map is made."""
    translator = Translator.load(folder, "cpu")
    model = dataclasses.replace(translator.card.model, num_encoder_layers=3)  # so it says
    translator.card = dataclasses.replace(translator.card, model=model)
    S, T = len(translator.tokens("A dog.", "source")), 3
    assert S != T
    weights = 2 * (3 * S * S + T * T + T * S)  # two heads

    def pass_made(*_: object) -> None:
        raise AssertionError("a pass was made")

    monkeypatch.setattr("core.record.record.MAX_RECORD_WEIGHTS", weights)
    assert translator.inspect("A dog.", target_ids=[5, 6, 2]).cross.shape[2:] == (T, S)
    monkeypatch.setattr("core.record.record.MAX_RECORD_WEIGHTS", weights - 1)
    monkeypatch.setattr("core.translator.teacher_forced_passes", pass_made)
    with pytest.raises(InputError, match=rf"{weights} weights: the limit is {weights - 1}"):
        translator.inspect("A dog.", target_ids=[5, 6, 2])
    with pytest.raises(InputError, match="the limit is"):
        translator.inspect_many(["A dog."], ["A dog is here."])


def test_a_message_that_unpacks_to_more_than_it_is_is_refused(monkeypatch):
    content = wire.to_bytes([np.zeros(50_000)])
    assert np.array_equal(wire.from_bytes(content)[0], np.zeros(50_000))
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(packed, "w", 8) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    monkeypatch.setattr(np, "load", None)  # nothing of it is unpacked
    with pytest.raises(ValueError, match="not a backend message .ValueError."):
        wire.from_bytes(packed.getvalue())


def test_a_broken_corpus_is_refused_in_one_line(tmp_path, monkeypatch):
    file = tmp_path / "deu-eng.zip"
    with zipfile.ZipFile(file, "w", 8) as opened:
        opened.writestr("deu.txt", "Hi.\tHallo.\tx\n" * 100)
    assert tatoeba.read(file)[0] == ("Hallo.", "Hi.")
    content, draw = file.read_bytes(), random.Random(0)
    for _ in range(200):
        spoiled = bytearray(content)
        spoiled[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        file.write_bytes(spoiled)
        try:
            assert tatoeba.read(file) == [("Hallo.", "Hi.")] * 100
        except ValueError as error:
            assert "is not Tatoeba's deu-eng.zip" in str(error)
    file.write_bytes(content)
    monkeypatch.setattr(tatoeba, "_MAX_BYTES", 1_299)
    with pytest.raises(ValueError, match="unpacks to 1,300 bytes, the limit is 1,299"):
        tatoeba.read(file)


@pytest.fixture
def run(tmp_path):
    """A run that has been stopped: its network, its optimiser and what it was told it is."""
    torch.manual_seed(0)
    config = ModelConfig(
        source_vocab_size=9,
        target_vocab_size=9,
        d_model=4,
        num_heads=1,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dim_feedforward=4,
        max_length=8,
    )
    model = build("scratch", config)
    optimizer = torch.optim.Adam(model.parameters())
    torch.stack([p.sum() for p in model.parameters()]).sum().backward()
    optimizer.step()
    return tmp_path, model, optimizer


def resumed(run, identity: dict | None = None):
    folder, model, optimizer = run
    return resume.read(folder, model, optimizer, identity or {"seed": 1}, Processes())


def stopped(run, **changes) -> None:
    notes = {"identity": {"seed": 1}, "progress": {"step": 3}, "schedule": {}} | changes
    folder, model, optimizer = run
    resume.write(folder, model, optimizer, notes, Processes())


@pytest.mark.parametrize(
    "changes",
    [
        {"identity": None},
        {"identity": "x"},
        {"progress": []},
        {"progress": {}},
        {"progress": {"step": "x"}},
        {"progress": {"step": None}},
        {"progress": {"step": float("inf")}},
    ],
    ids=str,
)
def test_notes_of_another_kind_are_refused(run, changes):
    stopped(run)
    assert resumed(run)["progress"] == {"step": 3}
    stopped(run, **changes)
    with pytest.raises(ValueError, match="is damaged or from another version"):
        resumed(run)


def without_seal(tensors: dict, notes: dict[str, str]) -> bytes:
    """As versions wrote it that had no hash yet: whatever it holds must be said in one line."""
    from safetensors.torch import save

    return save(tensors, notes)


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors, notes: notes.update(progress="[" * 100_000),
        lambda tensors, notes: tensors.update({"optimizer.0": torch.zeros(1)}),
        lambda tensors, notes: tensors.update({"optimizer.x.step": torch.zeros(1)}),
        lambda tensors, notes: tensors.update({"random.cpu": torch.zeros(0, 9)}),
        lambda tensors, notes: tensors.update({"random.cpu": torch.zeros(1, 9)}),
        lambda tensors, notes: tensors.update({n: torch.zeros(7, 3) for n in tensors}),
    ],
)
def test_a_state_of_another_kind_is_refused(run, change):
    stopped(run)
    file = run[0] / "state.safetensors"
    tensors, notes = resume._opened(file.read_bytes())
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    file.write_bytes(without_seal(tensors, notes))
    resumed(run)
    change(tensors, notes)
    file.write_bytes(without_seal(tensors, notes))
    with pytest.raises(ValueError, match="is damaged or from another version"):
        resumed(run)


def test_snapshots_of_different_shapes_are_refused(run):
    folder, model, _ = run
    resume.write_snapshot(folder, model, 1, 5)
    (folder / "snapshot-00000002.safetensors").write_bytes(
        without_seal({n: torch.zeros(3, 5, 7) for n, _ in model.named_parameters()}, {})
    )
    with pytest.raises(ValueError, match="snapshot-00000002.safetensors is damaged"):
        resume.average_snapshots(folder)
