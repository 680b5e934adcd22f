"""The explorer's payload holds the record's numbers; an answer holds only what was requested."""

from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from app.components.explorer.answers import answers
from app.components.explorer.payload import BYTE_LIMIT, pack, payload
from app.components.tokens import sent
from core.kinds import KINDS
from tests.app.explorer_harness import (
    CHECKS,
    Record,
    Token,
    broken,
    synthetic_quantity,
    synthetic_record,
)

VIEW = {"kind": "cross", "layer": 1, "head": "mean"}
SHORT, LONG = synthetic_record("short"), synthetic_record("long", 6, 8)
SCORES = {"scores": lambda: synthetic_quantity(LONG, "scores")}
DTYPES = {None: "<f4", 65535: "<u2", 255: "u1"}


def mask(record: Record, kind: str) -> NDArray:
    return getattr(record, f"{kind}_mask")


def decoded(data: dict, record: Record, kind: str) -> NDArray:
    """Return the maps of a payload, which holds unmasked cells only."""
    maps, levels = getattr(record, kind), data["levels"]
    found = np.zeros(maps.shape)
    codes = np.frombuffer(data[kind], dtype=DTYPES[levels]).reshape(*maps.shape[:2], -1)
    found[..., mask(record, kind)] = codes.astype(np.float64) / (levels or 1)
    return found


@pytest.mark.parametrize(
    ("case", "layers", "heads", "levels"),
    [("short", 4, 4, None), ("long", 4, 4, None), ("long", 4, 8, 65535), ("long", 6, 8, 255)],
)
def test_maps_decode_to_the_record(case: str, layers: int, heads: int, levels: int | None) -> None:
    """At 60 tokens, a weight is a float for 4 x 4 heads, 2 bytes for 4 x 8 and 1 byte for 6 x 8."""
    record = synthetic_record(case, layers, heads, decoder_layers=layers - 1)
    data = payload(record, VIEW)
    assert (data["levels"], data["heads"]) == (levels, heads)
    assert data["layers"] == {"encoder": layers, "decoder": layers - 1, "cross": layers - 1}
    assert sum(len(data[kind]) for kind in KINDS) <= BYTE_LIMIT
    for kind in KINDS:
        weights, found = getattr(record, kind).astype(np.float64), decoded(data, record, kind)
        error = {None: 0, 65535: 0.51 / 65535, 255: 1 / 255}[levels]
        assert np.abs(found - weights).max() <= error
        assert not found[:, :, ~mask(record, kind)].any()
        np.testing.assert_allclose(found.sum(-1), 1, atol=0.5 * weights.shape[-1] / 65535)


def test_a_saved_page_has_all_numbers_as_floats() -> None:
    rollout = synthetic_quantity(LONG, "rollout")
    data = payload(LONG, VIEW, quantities={"rollout": rollout}, host=None)
    assert data["levels"] is None and data["quantities"]["rollout"]["levels"] is None
    for kind in KINDS:
        assert np.array_equal(decoded(data, LONG, kind), getattr(LONG, kind))


def test_one_byte_per_weight_keeps_row_sums() -> None:
    flat = np.full_like(LONG.encoder, 1 / LONG.encoder.shape[-1])
    record = replace(LONG, encoder=flat)
    found = decoded(payload(record, VIEW), record, "encoder")
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-12)
    one = np.zeros_like(flat)
    one[..., -1] = 1
    found = decoded(payload(replace(record, encoder=one), VIEW), record, "encoder")
    np.testing.assert_array_equal(found, one)


def test_a_long_sentence_stays_small() -> None:
    """The maps have 60 tokens and 6 x 8 heads of three kinds."""
    assert len(pack(payload(LONG, VIEW))) < 500_000


@pytest.mark.parametrize("name", ["scores", "norms", "rollout"])
def test_a_quantity_decodes_to_its_numbers(name: str) -> None:
    for record, levels in ((synthetic_record("short", 3, 4, 2), None), (LONG, 65535)):
        arrays = synthetic_quantity(record, name)
        data = payload(record, VIEW, quantities={name: arrays, "other": None})
        assert data["offered"] == ["weights", name, "other"] and list(data["quantities"]) == [name]
        about = data["quantities"][name]
        heads = 1 if name == "rollout" else data["heads"]
        assert (about["levels"], about["heads"]) == (levels, heads)
        for kind in KINDS:
            low, high = about["range"][kind]
            expected = arrays[kind][..., mask(record, kind)].ravel()
            assert low == min(0, expected.min())
            found = np.frombuffer(data[f"{name}_{kind}"], dtype=DTYPES[levels])
            if levels:
                found = low + (high - low) * found / levels
            error = 0.51 * (high - low) / levels if levels else 0
            np.testing.assert_allclose(found, expected.astype(np.float32), rtol=1e-6, atol=error)
        pack(data)


def test_tokens_masks_and_alternatives_are_sent() -> None:
    record = synthetic_record("unknown")
    data = payload(record, VIEW)
    for kind in KINDS:
        bits = np.unpackbits(np.frombuffer(data[f"{kind}_mask"], np.uint8))
        assert np.array_equal(bits[: mask(record, kind).size], mask(record, kind).ravel())
    assert (data["sentence"], data["view"]) == (record.id, VIEW)
    assert (data["source_language"], data["target_language"]) == ("German", "English")
    for side in ("source", "target_in", "target_out"):
        assert data[side] == [*map(sent, getattr(record, side))]
    assert data["source"][-1] == {**sent(Token("<eos>")), "special": True}
    assert [token["text"] for token in data["source"] if "unknown" in token] == ["Ł", "ó", "ź"]
    assert data["alternatives"] == [[*map(sent, row)] for row in record.alternatives]
    for name in ("log_probs", "alternative_log_probs"):
        assert np.array_equal(np.frombuffer(data[name], "<f4"), getattr(record, name).ravel())


def test_checks_are_sent_unchanged() -> None:
    first = payload(SHORT, VIEW)["checks"][0]
    assert first == {**vars(CHECKS[0]), "passed": True}
    for figure in (math.nan, math.inf):
        record = replace(SHORT, checks=(replace(CHECKS[0], figure=figure),))
        (check,) = payload(record, VIEW)["checks"]
        assert (check["passed"], check["figure"]) == (False, None)
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
    record = replace(SHORT, source=(Token("half \ud83d"), *SHORT.source[1:]))
    assert b'"half ?"' in pack(payload(record, VIEW))


def with_weight(weight: float) -> Record:
    cross = SHORT.cross.copy()
    cross[0, 0, 0, 0] = weight
    return replace(SHORT, cross=cross)


def test_invalid_records_are_rejected() -> None:
    invalid = synthetic_quantity(SHORT, "scores")
    invalid["decoder"][0, 0, 0, 5] = np.inf  # masked, so not sent
    payload(SHORT, VIEW, quantities={"scores": invalid})
    more = {**invalid, "encoder": np.repeat(invalid["encoder"], 2, 1)}  # twice the heads
    sent = payload(SHORT, VIEW, quantities={"scores": more})["quantities"]["scores"]["heads"]
    assert sent == {kind: more[kind].shape[1] for kind in KINDS}
    invalid["decoder"][0, 0, 5, 0] = np.inf
    for record, view, quantities, words in (
        *((with_weight(weight), VIEW, {}, "cross") for weight in (np.nan, -0.1, 1.5)),
        (SHORT, {**VIEW, "kind": "self"}, {}, "kind"),
        (SHORT, VIEW, {"scores": invalid}, "decoder"),
    ):
        with pytest.raises(ValueError, match=words):
            payload(record, view, quantities=quantities)


# Requests.


def exact(**request: Any) -> dict[str, Any]:
    place = {"quantity": "weights", "kind": "decoder", "layer": 0, "head": 0} | request
    requests = {"exact": {"sentence": LONG.id, "request": 4, **place}}
    return answers(LONG, requests, SCORES)["exact"]


@pytest.mark.parametrize("quantity", ["weights", "scores"])
@pytest.mark.parametrize(("layer", "head"), [(2, 3), (None, 3), (2, None), (None, None)])
def test_exact_numbers_are_the_records_own(quantity, layer, head) -> None:
    place = {"quantity": quantity, "kind": "decoder", "layer": layer, "head": head}
    answer = exact(**place)
    assert answer.pop("exact") == place
    own = LONG.decoder if quantity == "weights" else SCORES["scores"]()["decoder"]
    own = own[slice(None) if layer is None else [layer]]
    own = own[:, slice(None) if head is None else [head]][..., LONG.decoder_mask]
    found = np.frombuffer(answer.pop("exact_numbers"), "<f4")
    assert np.array_equal(found, own.astype(np.float32).ravel())
    assert answer == {"sentence": LONG.id, "name": "exact", "request": 4}, "nothing else is sent"


def test_an_answer_holds_the_quantity_as_the_payload_would() -> None:
    requests = {"quantity": {"quantity": "scores", "request": 7}, "page": None}
    answer = answers(LONG, requests, SCORES)
    whole = payload(LONG, VIEW, quantities={"scores": SCORES["scores"]()})
    parts = {name: whole[name] for name in ("quantities", *(f"scores_{kind}" for kind in KINDS))}
    about = {"sentence": LONG.id, "name": "quantity", "request": 7}
    assert answer == {"quantity": about | parts}


def test_a_page_and_effects_are_answered() -> None:
    effects = {kind: np.ones((6, 8, 3), np.float32) for kind in KINDS}
    given = {"sentence": LONG.id, "request": 2}
    requests = {"page": {**given, "view": VIEW}, "effects": given, "exact": None}
    made = answers(LONG, requests, SCORES, lambda: effects)
    assert made.keys() == {"page", "effects"}
    assert made["page"]["page"].startswith(b"<!doctype html>")
    assert np.frombuffer(made["effects"]["effects_cross"], "<f4").tolist() == [1] * 144
    assert "effects" not in answers(LONG, requests, SCORES), "they cannot be computed"


def test_a_request_that_fails_is_one_line() -> None:
    for wrong in ({"kind": "self"}, {"layer": 6}, {"layer": -1}, {"head": "x"}, {"quantity": "n"}):
        answer = exact(**wrong)
        line = "The exact numbers could not be computed: there is no .+"
        assert answer.keys() == {"sentence", "name", "request", "failed"}, wrong
        assert re.fullmatch(line, answer["failed"]), wrong
    requests = {"quantity": {"quantity": "norms"}}
    answer = answers(SHORT, requests, {"norms": broken})["quantity"]
    assert answer["failed"] == "The norms could not be computed: out of memory"
    without_view = answers(LONG, {"page": {"sentence": LONG.id, "request": 3}}, SCORES)["page"]
    assert without_view["failed"].endswith("could not be computed: the request has no view")


def test_other_requests_get_no_answer() -> None:
    place = {"quantity": "weights", "kind": "cross", "layer": 0, "head": 0}
    requests = {
        "exact": {"sentence": "x", **place},
        "page": {"sentence": "x", "view": VIEW},
        "quantity": {"quantity": "weights"},
    }
    assert answers(SHORT, requests, SCORES) == {}
