"""Records from text: maps equal those of decoding, and inconsistent records are rejected."""

import dataclasses
import io
import json
import math
import re
import shutil
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from core.checkpoint.folder import load
from core.config import DecodeConfig
from core.record.capture import capture
from core.record.record import TranslationRecord
from core.text.tokenizer import BOS, EOS
from core.translator import InputError, Translator
from tests.core import strange_folders

SENTENCE = "Zwei junge Männer spielen im Park Fußball."


@pytest.fixture(scope="module")
def record(translator):
    found = translator.inspect(SENTENCE)
    assert len(found.target_out) > 3, "too short to test rows"
    return found


def test_a_record_matches_the_translation(translator, record):
    (translation,) = translator.translate([SENTENCE])
    assert record.translation == translation.text
    assert record.source_text == SENTENCE
    assert (record.source_language, record.target_language) == ("German", "English")
    assert record.search == "beam 5"
    assert record.source[-1].id == EOS and record.target_in[0].id == BOS
    assert tuple(t.id for t in record.target_out) == record.hypotheses[0].ids
    assert record.log_prob == pytest.approx(record.hypotheses[0].log_prob, abs=1e-3)


def test_capture_leaves_outputs_unchanged_and_removes_its_hooks(checkpoint_folder):
    model = load(checkpoint_folder).model
    source, target = torch.tensor([[9, 8, 7, EOS]]), torch.tensor([[BOS, 30, 40]])
    before = model(source, target)
    with pytest.raises(RuntimeError, match="oops"), capture(model) as captured:
        model(source, target)
        raise RuntimeError("oops")
    assert captured.maps("cross").shape == (2, 1, 2, 3, 4)
    assert torch.equal(model(source, target), before)
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())


def test_two_passes_in_one_capture_are_rejected(checkpoint_folder):
    model = load(checkpoint_folder).model
    source, target = torch.tensor([[9, EOS]]), torch.tensor([[BOS]])
    with pytest.raises(RuntimeError, match="ran twice"), capture(model):
        model(source, target)
        model(source, target)


@pytest.mark.parametrize("text", [SENTENCE, "Ein Hund."])
def test_the_other_implementation_gives_the_same_record(translator, text):
    ours, theirs = translator.inspect(text), translator.other_implementation().inspect(text)
    assert theirs.translation == ours.translation
    for kind in ("encoder", "decoder", "cross"):
        np.testing.assert_allclose(theirs.maps(kind), ours.maps(kind), rtol=0, atol=1e-5)
    np.testing.assert_allclose(theirs.log_probs, ours.log_probs, rtol=0, atol=1e-4)
    back = translator.other_implementation().other_implementation()
    assert back.inspect(text).id == ours.id


def assert_rejected(content: bytes | Path, *patterns: str) -> None:
    """Assert that loading fails with one line; test_archives.py has more hostile files."""
    file = content if isinstance(content, Path) else io.BytesIO(content)
    with pytest.raises(ValueError, match="is not a saved record") as caught:
        TranslationRecord.load(file)
    message = str(caught.value)
    assert type(caught.value) is ValueError
    assert "\n" not in message and len(message) < 600
    for pattern in patterns:
        assert re.search(pattern, message), message


def archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return buffer.getvalue()


def members(record: TranslationRecord) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(record.to_bytes())) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def with_metadata(record: TranslationRecord, change) -> bytes:
    """Return the bytes of the saved record, after `change` has modified its JSON in place."""
    saved = members(record)
    values = json.loads(np.load(io.BytesIO(saved["words.npy"])).tobytes())
    change(values)
    text = json.dumps(values).encode()
    return archive({**saved, "words.npy": npy(np.frombuffer(text, np.uint8))})


def test_a_missing_file_and_a_folder_are_rejected(tmp_path):
    assert_rejected(tmp_path / "x.npz", "x.npz", "No such file")
    assert_rejected(tmp_path, "it is a folder")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.update(format=1), "format is 1, not 2"),
        (lambda w: w["alternatives"][0].pop(), "axis K"),
        (lambda w: w["target_in"][0].update(id=10**30), r"target_in\.0\.id is 10+, not"),
        (
            lambda w: w["hypotheses"][0].update(log_prob=-(10**400)),
            r"hypotheses\.0\.log_prob .* not a number that is finite",
        ),
        (lambda w: w["checks"][0].update(passed=False), "contradicts passed=False"),
        (
            lambda w: w["checks"][0].update(name="a\nb " * 10**5, passed=False),
            r"checks\.0 is invalid: a b a b",
        ),
        (lambda w: w.update(credit="x" * 1_101), "credit is .* of 0 to 1,100 characters"),
        (lambda w: w.update(source=[], target_in=[], target_out=[], alternatives=[]), "axis"),
    ],
)
def test_invalid_metadata_is_rejected(record, change, message):
    assert_rejected(with_metadata(record, change), message)


@pytest.mark.parametrize("figure", [math.nan, math.inf])
def test_a_failed_check_may_lack_a_finite_figure(record, figure):
    content = with_metadata(record, lambda w: w["checks"][0].update(figure=figure, passed=False))
    assert repr(TranslationRecord.load(io.BytesIO(content)).checks[0].figure) == repr(figure)


def test_the_repr_is_one_short_line(record):
    shown = repr(record)
    assert len(shown) < 300 and "\n" not in shown
    tokens = f"{len(record.source)} → {len(record.target_out)} tokens"
    for part in (SENTENCE, record.translation, tokens, "1 + 2 layers", "2 heads", "8 of 8 passed"):
        assert part in shown
    assert len(repr(dataclasses.replace(record, translation="x\n" * 10_000))) < 400


def test_the_id_covers_maps_and_search_but_not_checks(translator, record):
    assert translator.inspect(SENTENCE).id == record.id
    assert translator.inspect(SENTENCE, decode=DecodeConfig(beam=1)).id != record.id
    weights = record.cross.copy()
    weights[0, 0, 0] = weights[0, 0, 0][::-1]
    assert dataclasses.replace(record, cross=weights).id != record.id
    assert dataclasses.replace(record, checks=()).id == record.id


def spoiled(array: np.ndarray, change) -> np.ndarray:
    array = array.copy()
    change(array)
    return array


def below_zero(weights: np.ndarray) -> None:
    """Make a weight negative in a row that still sums to 1."""
    weights[0, 0, 0] = 0
    weights[0, 0, 0, :2] = 1.5, -0.5


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("cross", lambda r: r.cross.swapaxes(2, 3).copy(), "axis"),
        ("cross", lambda r: r.cross.astype(np.float64), "float64"),
        ("cross", lambda r: r.cross * np.float32(0.9), "does not sum to 1"),
        ("decoder", lambda r: r.decoder[:, :1].copy(), "axis H"),
        ("encoder", lambda r: spoiled(r.encoder, lambda a: a.fill(np.nan)), "not probabilities"),
        ("cross", lambda r: spoiled(r.cross, below_zero), "not probabilities"),
        ("encoder", lambda r: r.encoder[:0].copy(), "axis e is empty"),
        ("source_positions", lambda r: r.source_positions[:, :0].copy(), "axis D is empty"),
        ("decoder", lambda r: r.decoder[..., ::-1].copy(), "masked cell"),
        ("target_in", lambda r: r.target_out, "shifted right by one"),
        ("target_in", lambda r: (r.target_out[0], *r.target_in[1:]), "shifted right by one"),
        ("source", lambda r: r.source[1:], "axis S"),
        ("alternatives", lambda r: r.alternatives[1:], "differ in length"),
    ],
)
def test_an_inconsistent_record_is_rejected(translator, name, spoil, message):
    record = translator.inspect(SENTENCE, target="A dog runs.")
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(record, **{name: spoil(record)})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "nothing to translate"),
        ("   \n", "nothing to translate"),
        ("x" * 501, "501 characters are too many: the limit is 500"),
        ("x " * 120, "tokens are too many: the limit is 100"),
    ],
)
def test_bad_input_is_rejected_before_decoding(translator, monkeypatch, text, message):
    monkeypatch.setattr("core.translator.search", None)
    with pytest.raises(InputError, match=message) as caught:
        translator.inspect(text)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def narrow(translating_folder, tmp_path_factory):
    """The trained network with max_length 32; the weights fit, as sinusoids are not stored."""
    folder = shutil.copytree(
        translating_folder, tmp_path_factory.mktemp("narrow") / "scratch-de-en"
    )
    strange_folders.network(max_length=32)(folder)
    return Translator.load(folder, device="cpu")


def test_the_models_own_length_limit_is_enforced_everywhere(narrow):
    long = "x " * 40
    for ask in (
        lambda: narrow.inspect(long),
        lambda: narrow.inspect(SENTENCE, target=long),
        lambda: narrow.search_tree(long),
        lambda: narrow.tokens(long, "source"),
        lambda: narrow.tokens(long, "target"),
        lambda: narrow.continuation(long),
    ):
        with pytest.raises(InputError, match="tokens are too many: the limit is 31"):
            ask()
    with pytest.raises(InputError, match="33 target ids are too many: the limit is 32"):
        narrow.inspect(SENTENCE, target_ids=[5] * 33)
    assert len(narrow.inspect(SENTENCE, target_ids=[5] * 32).target_out) == 32
    dots = ("." * n for n in range(1, 32))
    fitting = next(text for text in dots if len(narrow._source.encode(text)) == 31)
    assert len(narrow.inspect(fitting, target=fitting).source) == 32
    assert narrow.search_tree(fitting).tree.nodes and narrow.continuation(fitting)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([], "no target ids are given"),
        ([99_999], "99999 is not in the vocabulary: choose from 2 to"),
        ([-1], "-1 is not in the vocabulary"),
        ([5.0], "5.0 is not in the vocabulary"),
        ([True], "True is not in the vocabulary"),
        (["5"], "'5' is not in the vocabulary"),
        ([0], "target id 0 \\(<pad>\\) is not allowed at position 0"),
        ([5, 1, 2], "target id 1 \\(<bos>\\) is not allowed at position 1"),
        ([5, 2, 6], "target id 2 \\(<eos>\\) is not allowed at position 1"),
        ([5] * 257, "257 target ids are too many: the limit is 256"),
    ],
)
def test_invalid_target_ids_are_rejected(translator, monkeypatch, ids, message):
    monkeypatch.setattr("core.translator.teacher_forced_passes", None)
    with pytest.raises(InputError, match=message):
        translator.inspect(SENTENCE, target_ids=ids)


def test_target_ids_are_limited_by_the_size_of_a_record(translator, monkeypatch):
    monkeypatch.setattr("core.translator.MAX_RECORD_TOKENS", 7)
    with pytest.raises(InputError, match="8 target ids are too many: the limit is 7"):
        translator.inspect(SENTENCE, target_ids=[5] * 8)


def test_target_ids_are_recorded_as_given(translator):
    with pytest.raises(InputError, match="target and target_ids are both given"):
        translator.inspect(SENTENCE, target="A dog.", target_ids=[5])
    for ids in ([5, 6, EOS], [EOS], [5, 3], np.array([5, 6])):
        record = translator.inspect(SENTENCE, target_ids=ids)
        assert [t.id for t in record.target_out] == list(ids)
        assert record.search == "given target"
    assert translator.inspect(SENTENCE, target="").search == "given target"


def wait_for_two_waiters(lock) -> None:
    deadline = time.monotonic() + 20
    while len(lock._queue) < 2:
        assert time.monotonic() < deadline, "the other thread does not wait"
        time.sleep(0.001)


def test_other_threads_acquire_the_model_between_batches(translator):
    served: list[str] = []
    others: list[threading.Thread] = []

    def other() -> None:
        with translator.exclusive_model():
            translator.inspect("Ein Hund.")
            served.append("other")

    def on_progress(count: int) -> None:
        if count:
            served.append("batch")

    original = translator._model.start

    def start(source):  # called within the first batch, while the lock is held
        if not others:
            others.append(threading.Thread(target=other))
            others[0].start()
            wait_for_two_waiters(translator._lock)
        return original(source)

    vars(translator._model)["start"] = start
    try:
        translator.translate(
            [SENTENCE, "Ein Hund.", "Eine Frau."] * 3, batch_tokens=16, on_progress=on_progress
        )
    finally:
        del vars(translator._model)["start"]
        others[0].join()
    assert served.count("batch") > 3
    assert served.index("other") <= 2 and not translator._lock.locked()


def test_a_thread_that_gives_up_waiting_is_skipped(translator, monkeypatch):
    def interrupted(seconds) -> None:
        raise KeyboardInterrupt

    lock = translator._lock
    with lock, monkeypatch.context() as patched:
        patched.setattr(lock._changed, "wait", interrupted)
        with ThreadPoolExecutor() as other:  # another thread, because the lock is reentrant
            error = other.submit(lock.__enter__).exception()
        assert isinstance(error, KeyboardInterrupt)
    with lock:
        assert lock.locked()
    assert not lock.locked()


def test_each_thread_gets_its_own_maps(translator):
    """Hooks are process-wide: without the lock a capture could hold another thread's maps."""
    sentences = ["Ein Hund.", SENTENCE, "Eine Frau liest ein Buch.", "Der Mann trägt ein Hemd."]
    alone = [translator.inspect(s).id for s in sentences]
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(lambda s: translator.inspect(s).id, sentences * 8)] == alone * 8
