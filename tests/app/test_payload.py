"""Checks that the explorer's payload says exactly what the record holds."""

from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import replace

import numpy as np
import pytest

from app.components.explorer.answers import answered
from app.components.explorer.payload import BYTE_LIMIT, KINDS, pack, payload
from app.components.tokens import described, short
from app.look.labels import label
from tests.app.explorer_harness import (
    CHECKS,
    Token,
    broken,
    synthetic_quantity,
    synthetic_record,
)

VIEW = {"kind": "cross", "layer": 1, "head": "mean"}


def decoded(data: dict, record, kind: str) -> np.ndarray:
    dtype = {None: "<f4", 65535: "<u2", 255: "u1"}[data["levels"]]
    maps = getattr(record, kind)
    found = np.zeros(maps.shape)
    # Only the open cells are sent, in their order.
    codes = np.frombuffer(data[kind], dtype=dtype).reshape(*maps.shape[:2], -1)
    found[..., getattr(record, f"{kind}_mask")] = codes.astype(np.float64) / (data["levels"] or 1)
    return found


def map_bytes(data: dict) -> int:
    return sum(len(data[kind]) for kind in KINDS)


@pytest.mark.parametrize(
    ("case", "layers", "heads", "levels"),
    [("short", 4, 4, None), ("long", 4, 8, 65535), ("long", 6, 8, 255)],
)
def test_maps_decode_to_the_record(case: str, layers: int, heads: int, levels: int | None) -> None:
    record = synthetic_record(case, layers, heads, decoder_layers=layers - 1)
    data = payload(record, VIEW)
    assert data["levels"] == levels
    assert data["heads"] == heads
    assert data["layers"] == {"encoder": layers, "decoder": layers - 1, "cross": layers - 1}
    assert map_bytes(data) <= BYTE_LIMIT
    for kind in KINDS:
        weights = getattr(record, kind).astype(np.float64)
        found = decoded(data, record, kind)
        assert np.abs(found - weights).max() <= {None: 0, 65535: 0.51 / 65535}.get(levels, 1 / 255)
        assert not found[:, :, ~getattr(record, f"{kind}_mask")].any()
        np.testing.assert_allclose(found.sum(-1), 1, atol=0.5 * weights.shape[-1] / 65535)


def test_alone_every_number_is_the_records_own() -> None:
    record = synthetic_record("long", 6, 8)
    rollout = synthetic_quantity(record, "rollout")
    data = payload(record, VIEW, quantities={"rollout": rollout}, alone=True)
    assert data["levels"] is None and data["quantities"]["rollout"]["levels"] is None
    for kind in KINDS:
        assert np.array_equal(decoded(data, record, kind), getattr(record, kind))


ANSWERS = {"scores": lambda: synthetic_quantity(synthetic_record("long", 6, 8), "scores")}


@pytest.mark.parametrize("quantity", ["weights", "scores"])
@pytest.mark.parametrize(("layer", "head"), [(2, 3), (None, 3), (2, None), (None, None)])
def test_an_exact_answer_is_the_records_own(quantity, layer, head) -> None:
    record = synthetic_record("long", 6, 8)
    place = {"quantity": quantity, "kind": "decoder", "layer": layer, "head": head}
    data = answered(record, VIEW, {"exact": {"sentence": record.id, **place}}, ANSWERS)
    assert data["exact"] == place and data["failed"] == {}
    own = record.decoder if quantity == "weights" else ANSWERS["scores"]()["decoder"]
    own = own[slice(None) if layer is None else [layer]]
    own = own[:, slice(None) if head is None else [head]][..., record.decoder_mask]
    found = np.frombuffer(data["exact_numbers"], "<f4")
    assert np.array_equal(found, own.astype(np.float32).ravel())


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "self"}, {"layer": 6}, {"layer": -1}, {"head": "x"}, {"quantity": "norms"}],
    ids=str,
)
def test_what_cannot_be_answered_is_one_line(wrong) -> None:
    record = synthetic_record("long", 6, 8)
    place = {"quantity": "weights", "kind": "decoder", "layer": 0, "head": 0} | wrong
    data = answered(record, VIEW, {"exact": {"sentence": record.id, **place}}, ANSWERS)
    assert "exact" not in data
    assert re.fullmatch(
        r"The exact numbers could not be computed: there is no .+", data["failed"]["exact"]
    )


def test_a_question_about_another_sentence_is_not_answered() -> None:
    record = synthetic_record("short")
    place = {"quantity": "weights", "kind": "cross", "layer": 0, "head": 0}
    asked = {"exact": {"sentence": "x", **place}, "page": {"sentence": "x", "view": VIEW}}
    data = answered(record, VIEW, asked, ANSWERS)
    assert not {"exact", "page"} & set(data) and data["failed"] == {}


def test_a_network_without_memory_fails_in_one_line() -> None:
    record = synthetic_record("short")
    data = answered(record, VIEW, {"quantity": "norms"}, {"norms": broken})
    assert data["failed"] == {"quantity": "The norms could not be computed: out of memory"}
    assert data["offered"] == ["weights", "norms"] and data["quantities"] == {}


def test_no_byte_fewer_than_fit() -> None:
    # The sentence of 60 tokens fits as it is with 16 maps of each kind, at two bytes with 32.
    assert payload(synthetic_record("long", 4, 4), VIEW)["levels"] is None
    assert payload(synthetic_record("long", 4, 8), VIEW)["levels"] == 65535


def test_small_weights_keep_their_row_sum_at_one_byte() -> None:
    record = synthetic_record("long", 6, 8)
    flat = np.full_like(record.encoder, 1 / record.encoder.shape[-1])
    record = replace(record, encoder=flat)
    found = decoded(payload(record, VIEW), record, "encoder")
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-12)
    one = np.zeros_like(flat)
    one[..., -1] = 1
    found = decoded(payload(replace(record, encoder=one), VIEW), record, "encoder")
    np.testing.assert_array_equal(found, one, "a row that lacks nothing is left alone")


def test_masks_and_tokens() -> None:
    record = synthetic_record("unknown")
    data = payload(record, VIEW)
    for kind in KINDS:
        mask = getattr(record, f"{kind}_mask")
        bits = np.unpackbits(np.frombuffer(data[f"{kind}_mask"], np.uint8), count=mask.size)
        assert (bits.reshape(mask.shape) == mask).all()
    assert data["sentence"] == record.id
    assert (data["source_language"], data["target_language"]) == ("German", "English")
    assert data["view"] == VIEW
    assert [token["label"] for token in data["source"]] == [label(token) for token in record.source]
    assert [token["label"] for token in data["source"] if token["unknown"]] == ["Ł", "ó", "ź"]
    assert data["source"][-1] == described(Token("<eos>", special=True))
    assert data["target_in"][0]["special"]
    assert [token["p"] for token in data["target_out"]] == pytest.approx(np.exp(record.log_probs))
    assert data["log_prob"] == pytest.approx(record.log_prob)


def test_what_was_written_stands_among_the_likeliest() -> None:
    record = synthetic_record("short")
    for step, row in enumerate(payload(record, VIEW)["alternatives"]):
        (written,) = [item for item in row if item[2]]
        assert written[0] == short(record.target_out[step])
        assert written[1] == pytest.approx(np.exp(record.log_probs[step]), abs=1e-6)
        if written is not row[4]:  # among the likeliest by itself: nothing was replaced
            assert [item[0] for item in row] == [short(t) for t in record.alternatives[step]]


@pytest.mark.parametrize("name", ["scores", "norms", "rollout"])
def test_a_quantity_decodes_to_its_numbers(name: str) -> None:
    record = synthetic_record("short", 3, 4, 2)
    arrays = synthetic_quantity(record, name)
    data = payload(record, VIEW, quantities={name: arrays, "other": None})
    assert data["offered"] == ["weights", name, "other"] and list(data["quantities"]) == [name]
    about = data["quantities"][name]
    assert (about["levels"], about["heads"]) == (None, 1 if name == "rollout" else 4)
    for kind in KINDS:
        mask = getattr(record, f"{kind}_mask")
        low, high = about["range"][kind]
        assert low == (min(0, arrays[kind][..., mask].min()))
        found = np.frombuffer(data[f"{name}_{kind}"], dtype="<f4")
        assert np.array_equal(found, arrays[kind][..., mask].ravel().astype(np.float32))
    record = synthetic_record("long", 6, 8)
    arrays = synthetic_quantity(record, name)
    data = payload(record, VIEW, quantities={name: arrays})
    about = data["quantities"][name]
    for kind in KINDS:
        low, high = about["range"][kind]
        codes = np.frombuffer(data[f"{name}_{kind}"], dtype="<u2")
        found = low + (high - low) * codes / about["levels"]
        expected = arrays[kind][..., getattr(record, f"{kind}_mask")].ravel()
        np.testing.assert_allclose(found, expected, atol=0.51 * (high - low) / 65535)
    pack(data)


def test_a_quantity_that_is_not_finite_is_refused() -> None:
    record = synthetic_record("short")
    arrays = synthetic_quantity(record, "scores")
    arrays["decoder"][0, 0, 0, 5] = np.inf  # masked: nobody sees it
    payload(record, VIEW, quantities={"scores": arrays})
    arrays["decoder"][0, 0, 5, 0] = np.inf
    with pytest.raises(ValueError, match="decoder"):
        payload(record, VIEW, quantities={"scores": arrays})


def test_sixty_tokens_stay_small() -> None:
    """Maps of 6 x 8 heads of three kinds and all words: with the scripts, below 0.7 MB."""
    assert len(pack(payload(synthetic_record("long", 6, 8), VIEW))) < 500_000


def test_checks_are_sent_as_they_are() -> None:
    record = synthetic_record("short")
    assert [check["passed"] for check in payload(record, VIEW)["checks"]] == [True] * 8
    assert payload(record, VIEW)["checks"][0] == {
        "name": "Recomputed outside the model",
        "passed": True,
        "figure": 4.4e-7,
        "limit": 1e-5,
        "words": CHECKS[0].words,
    }
    for figure in (math.nan, math.inf):
        record = replace(record, checks=(replace(CHECKS[0], figure=figure),))
        (check,) = payload(record, VIEW)["checks"]
        assert (check["passed"], check["figure"]) == (False, None)
        pack(payload(record, VIEW))


def test_broken_text_can_be_sent() -> None:
    record = synthetic_record("short")
    record = replace(record, source=(Token("half \ud83d"), *record.source[1:]))
    assert payload(record, VIEW)["source"][0]["label"] == "half ?"
    pack(payload(record, VIEW))


def test_pack_can_be_undone() -> None:
    data = payload(synthetic_record("hostile", 3, 2), VIEW)
    packed = pack(data)
    (length,) = struct.unpack_from("<I", packed)
    header = json.loads(packed[4 : 4 + length])
    assert header.keys() == data.keys()
    for name, value in data.items():
        if isinstance(value, bytes):
            start = 4 + length + header[name]["at"]
            assert start % 4 == 0
            assert packed[start : start + header[name]["length"]] == value
        else:
            assert header[name] == value


@pytest.mark.parametrize("bad", [np.nan, -0.1, 1.5])
def test_a_weight_that_cannot_be_is_refused(bad: float) -> None:
    record = synthetic_record("short")
    broken = record.cross.copy()
    broken[0, 0, 0, 0] = bad
    with pytest.raises(ValueError, match="cross"):
        payload(replace(record, cross=broken), VIEW)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="kind"):
        payload(synthetic_record("short"), {"kind": "self", "layer": 0, "head": 0})


def test_unequal_heads_are_refused() -> None:
    record = synthetic_record("short")
    with pytest.raises(ValueError, match="heads"):
        payload(replace(record, decoder=record.decoder[:, :2]), VIEW)


def test_what_is_shown_of_a_token_is_made_here_once() -> None:
    """Hidden characters in parts of their own, in the explorer and in a row of maps alike."""
    token = Token("a\u200bb\u2009", starts_word=False)
    shown = {"label": "a‹U+200B›b‹U+2009›", "start": False, "special": False, "unknown": False}
    parts = [["a", False], ["‹U+200B›", True], ["b", False], ["‹U+2009›", True]]
    assert described(token) == {**shown, "punctuation": False, "parts": parts}
    for text, words in {"  ": "␣␣", "👩\u200d🚀": "👩\u200d🚀", "\u0600": "\u0600"}.items():
        assert described(Token(text))["label"] == words
        assert "parts" not in described(Token(text))
    for text, punctuation in {".": True, "?!": True, "a.": False, "$": False, "": False}.items():
        assert described(Token(text))["punctuation"] is punctuation
    assert not described(Token("<eos>", special=True))["punctuation"]
    assert short(Token("ing", starts_word=False)) == "\u2010ing"
    assert short(Token(",", starts_word=False)) == ","
