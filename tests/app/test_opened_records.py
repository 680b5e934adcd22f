"""The app opens every saved record that the format allows; other files give a one-line error."""

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.components.explorer import payload as module
from app.components.explorer.answers import answers
from app.components.explorer.payload import pack, payload
from app.state.address import initial_view
from core.kinds import KINDS
from core.record.record import RecordToken, TranslationRecord
from tests.app.explorer_harness import synthetic_quantity, synthetic_record

MAIN = Path(__file__).resolve().parents[2] / "app/main.py"
VIEW = {"kind": "cross", "layer": 0, "head": 0}
SERVER_LIMIT = 20 * 1_000_000  # maxMessageSize of .streamlit/config.toml


def even(layers: tuple[int, int], heads: int, S: int, T: int, K: int = 1, **changes):
    """Return a record with uniform attention over the unmasked keys."""
    token = RecordToken(5, "a", "a", True, False, False)
    bos = RecordToken(1, "<bos>", "<bos>", True, True, False)
    past = np.tri(T, dtype=np.float32)
    uniform = {
        "encoder": (layers[0], np.full((S, S), 1 / S)),
        "decoder": (layers[1], past / past.sum(1, keepdims=True)),
        "cross": (layers[1], np.full((T, S), 1 / S)),
    }
    maps = {
        kind: np.ascontiguousarray(np.broadcast_to(np.float32(rows), (count, heads, *rows.shape)))
        for kind, (count, rows) in uniform.items()
    }
    values: dict[str, Any] = {
        **maps,
        "model": "x-de-en",
        "weights_sha256": "0" * 64,
        "source_language": "German",
        "target_language": "English",
        "decode": None,
        "source_text": "a",
        "translation": "a",
        "source": (token,) * S,
        "target_in": (bos, *[token] * (T - 1)),
        "target_out": (token,) * T,
        "encoder_mask": np.ones((S, S), bool),
        "decoder_mask": past.astype(bool),
        "cross_mask": np.ones((T, S), bool),
        "source_positions": np.zeros((S, 2), np.float32),
        "target_positions": np.zeros((T, 2), np.float32),
        "log_probs": np.full(T, -1.5, np.float32),
        "alternatives": ((token,) * K,) * T,
        "alternative_log_probs": np.full((T, K), -1.5, np.float32),
        "hypotheses": (),
    }
    return TranslationRecord(**(values | changes))


LARGEST = {
    "4,096 maps": ((4_094, 1), 1, 1, 1),
    "4,095 maps of heads": ((1, 1), 1_365, 2, 2),
    "512 tokens on both sides": ((1, 1), 21, 512, 512),
    "16.7 million weights": ((63, 1), 1, 512, 256),
}


@pytest.mark.parametrize("size", LARGEST.values(), ids=LARGEST)
def test_the_largest_records_can_be_sent(size):
    record = TranslationRecord.load(io.BytesIO(even(*size).to_bytes()))
    sent = payload(record, initial_view(record))
    assert len(pack(sent)) < SERVER_LIMIT
    for kind in KINDS:
        maps = record.maps(kind)
        step = {None: 4, 65_535: 2, 255: 1}[sent["levels"]]
        cells = maps.shape[0] * maps.shape[1] * int(record.mask(kind).sum())
        assert len(sent[kind]) == step * cells


def with_arrays(record: TranslationRecord, **arrays: np.ndarray) -> bytes:
    """Return a saved record with some arrays replaced by invalid ones."""
    with zipfile.ZipFile(io.BytesIO(record.to_bytes())) as opened:
        found = {name: opened.read(name) for name in opened.namelist()}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.save(buffer, array)
        found[f"{name}.npy"] = buffer.getvalue()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in found.items():
            opened.writestr(name, content)
    return buffer.getvalue()


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


SMALL = even((1, 1), 2, 3, 4)
SHOWN = {
    "no alternatives": lambda: even((1, 1), 2, 3, 4, K=0).to_bytes(),
    "100 alternatives": lambda: even((1, 1), 2, 3, 4, K=100).to_bytes(),
    "one token": lambda: even((1, 1), 1, 1, 1).to_bytes(),
    "4,096 maps": lambda: even((4_094, 1), 1, 1, 1).to_bytes(),
}
NOT_SHOWN = {
    "101 alternatives": (
        lambda: with_arrays(SMALL, alternative_log_probs=zeros(4, 101)),
        "101 alternatives at each step are too many: the limit is 100",
    ),
    "a NaN": (
        lambda: with_arrays(SMALL, log_probs=zeros(4) + np.nan),
        "log_probs holds a number that is not finite",
    ),
    "a million maps": (
        lambda: with_arrays(
            SMALL, encoder=zeros(1_000, 1_000, 1, 1), cross=zeros(1_000, 1_000, 1, 1)
        ),
        "it holds 2,000,002 maps, the limit is 4,096",
    ),
    "1,500 layers of 60 tokens": (
        lambda: with_arrays(SMALL, encoder=zeros(1_500, 2, 60, 60), decoder=zeros(900, 2, 60, 60)),
        "it holds 17,280,024 weights, the limit is 16,777,216",
    ),
    "6 x 8 heads of 512 tokens": (
        lambda: with_arrays(SMALL, encoder=zeros(6, 8, 512, 512), decoder=zeros(6, 8, 512, 512)),
        "it holds 25,165,848 weights, the limit is 16,777,216",
    ),
}


@pytest.fixture(scope="module")
def app():
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    app.session_state["take_away"] = True
    return app.run()


def test_what_the_format_allows_is_shown_and_the_rest_is_one_line(app):
    def opened(content: bytes) -> None:
        app.file_uploader(key="open_record").set_value(("x.npz", content, "")).run()
        assert not app.exception

    for name, make in SHOWN.items():
        opened(make())
        assert not app.error and app.subheader[-1].value == "Opened: x.npz", name
    for make, line in NOT_SHOWN.values():
        opened(make())
        (error,) = app.error
        said = error.value.replace("\\", "")
        assert f"is not a saved record ({line})" in said and "\n" not in said
        assert app.get("bidi_component"), "the page's own record stays"


def test_answers_that_do_not_fit_are_one_line(monkeypatch):
    record = synthetic_record("long", 6, 8)
    effects = {kind: zeros(6, 8, 9) for kind in KINDS}
    request = {"sentence": record.id, "request": 1}
    requests = {
        "quantity": {"quantity": "scores"},
        "exact": {**request, "quantity": "weights", "kind": "cross", "layer": None, "head": None},
        "effects": request,
        "page": {**request, "view": VIEW},
    }
    scores = {"scores": lambda: synthetic_quantity(record, "scores")}
    sent = len(pack(payload(record, VIEW)))

    def failures(limit: int) -> dict:
        monkeypatch.setattr(module, "MESSAGE_LIMIT", limit)
        made = answers(record, requests, scores, lambda: effects)
        assert made.keys() == requests.keys()
        assert all(len(pack(answer)) <= limit + 1_000 for answer in made.values())
        return {name: answer["failed"] for name, answer in made.items() if "failed" in answer}

    assert failures(18 << 20) == {}
    (line,) = failures(3 << 20).values()
    assert re.fullmatch(
        r"The page could not be computed: the answer takes \d\.\d MiB; .* is 3 MiB", line
    )
    assert failures(1 << 19).keys() == {"page", "quantity", "exact"}
    payload(record, VIEW)
    monkeypatch.setattr(module, "MESSAGE_LIMIT", sent - 5_000)
    with pytest.raises(
        ValueError, match="the record takes .* MiB; the limit is 0 MiB: use a shorter"
    ):
        payload(record, VIEW)


def test_a_saved_page_has_no_limit(monkeypatch):
    monkeypatch.setattr(module, "MESSAGE_LIMIT", 1_000)
    record = synthetic_record("long", 6, 8)
    assert payload(record, VIEW, host=None)["levels"] is None
