"""A saved record, a film and head means from a stranger are refused in one line, whatever is in
them; what was saved here opens again."""

import io
import random
import resource

import numpy as np
import pytest
import torch

from core.checkpoint.folder import CheckpointError
from core.checkpoint.head_means import FILE, HeadMeans, load_means, save_means
from core.record.edits import Edits
from core.record.history import FILE as FILM
from core.record.history import History, Sentence
from core.record.record import TranslationRecord
from core.translator import Translator
from tests.core import strange_folders
from tests.core.hostile_archives import FILMS, RECORDS, hostile

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
    return History(
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
    says = "is not a saved film of a training run ("
    refused(History.load, tmp_path / FILM, says, FILM, kind.says)


@pytest.mark.parametrize("what", ["record", "film"])
def test_every_bit_counts(what, record, film):
    """One bit flipped anywhere: refused, or what it was."""
    content, kind = {"record": (record, TranslationRecord), "film": (film, History)}[what]
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


def test_a_film_comes_back(film):
    again = History.load(io.BytesIO(film))
    assert again.to_bytes() == film
    assert again.sentences[0].source == ("a", "b", "<eos>") and again.steps.tolist() == [0, 5, 9]


def test_a_film_that_could_not_be_loaded_is_not_saved(film):
    long = tuple("x" * 600_000 for _ in range(2))
    small = History.load(io.BytesIO(film))
    sentence = Sentence(small.sentences[1].source, ("<bos>",), (long[0],))
    other = History(
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
