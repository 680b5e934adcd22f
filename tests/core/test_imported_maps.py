"""Records from arrays of other tools: what is accepted, rejected, checked, saved and shown."""

import dataclasses
import io
import json
import re
from fractions import Fraction

import numpy as np
import pytest
import torch

import core
from core.analysis.difference import largest_difference
from core.analysis.leaks import leak
from core.analysis.rollout import can_roll_out, rollout
from core.kinds import KINDS
from core.record.record import RecordHypothesis, TranslationRecord
from core.translator import Translator
from tests.core.test_record import archive, members, npy
from tests.small import refused

SOURCE = ["▁Ein", "▁H", "und", "▁lacht", "</s>"]
TARGET = ["▁A", "▁dog", "▁laugh", "s", ".", "</s>"]
S, T = len(SOURCE), len(TARGET)
SHAPES = {"encoder": (3, 4, S, S), "decoder": (2, 1, T, T), "cross": (5, 2, T, S)}


def random_maps(seed: int = 0, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Return random maps whose unmasked weights are all positive; the decoder's maps are causal."""
    rng = np.random.default_rng(seed)
    maps = {}
    for kind, shape in (shapes or SHAPES).items():
        raw = rng.random(shape) + 0.05
        raw = np.tril(raw) if kind == "decoder" else raw
        maps[kind] = (raw / raw.sum(-1, keepdims=True)).astype(np.float32)
    return maps


def imported(*kinds: str, **named) -> TranslationRecord:
    maps = random_maps()
    return TranslationRecord.from_arrays(
        SOURCE, TARGET, **{kind: maps[kind] for kind in kinds or KINDS}, **named
    )


def test_kinds_may_differ_in_layers_and_heads():
    record = imported(start="<s>", model="toy", source_language="German")
    for kind, maps in random_maps().items():
        assert np.array_equal(record.maps(kind), maps)
        assert record.maps(kind).dtype == np.float32 and not record.maps(kind).flags.writeable
    assert record.tokens("source") == ["Ein", "H", "und", "lacht", "</s>"]
    assert record.tokens("target_in") == ["<s>", "A", "dog", "laugh", "s", "."]
    assert record.tokens("target") == ["A", "dog", "laugh", "s", ".", "</s>"]
    assert record.words("source") == ((0,), (1, 2), (3,), (4,))
    assert record.words("target") == ((0,), (1,), (2, 3), (4,), (5,))
    assert (record.source_text, record.translation) == ("Ein Hund lacht", "A dog laughs.")
    assert np.array_equal(record.decoder_mask, np.tri(T, dtype=bool))
    assert record.encoder_mask.all() and record.cross_mask.all()
    assert (record.model, record.source_language, record.target_language) == (
        "toy", "German", "Target",
    )  # fmt: skip
    assert (record.origin, record.search) == ("arrays", "maps from arrays")
    assert repr(record) == (
        "TranslationRecord('Ein Hund lacht' → 'A dog laughs.', 5 → 6 tokens, toy, maps from "
        "arrays, encoder 3 × 4, decoder 2 × 1, cross 5 × 2 (layers × heads), checks: 2 of 2 "
        "passed, 6 need the weights)"
    )


@pytest.mark.parametrize("kinds", [("encoder",), ("decoder",), ("cross",), ("encoder", "cross")])
def test_a_kind_may_be_missing(kinds):
    record = imported(*kinds)
    for kind in KINDS:
        assert record.has(kind) == (kind in kinds)
        shape = SHAPES[kind] if kind in kinds else (0, 0, *SHAPES[kind][2:])
        assert record.maps(kind).shape == shape
        assert record.entropy(kind).shape == shape[:3]
        assert len(record.to_dataframe(kind)) == np.prod(shape)
        if kind not in kinds:
            with pytest.raises(ValueError, match=f"the record has no {kind} maps"):
                record.attention(kind, 0, 0)
    assert ("no cross" in repr(record)) == ("cross" not in kinds)
    assert TranslationRecord.load(io.BytesIO(record.to_bytes())) == record


@pytest.mark.parametrize("kind", KINDS)
def test_a_dataframe_has_every_cell_with_its_tokens(kind):
    record = imported()
    weights = random_maps()[kind]
    produced = ["A", "dog", "laugh", "s", ".", "</s>"]
    read = ["Ein", "H", "und", "lacht", "</s>"]
    fed = ["<bos>", *produced[:-1]]
    rows, columns = read if kind == "encoder" else fed, fed if kind == "decoder" else read
    table = record.to_dataframe(kind)
    assert " ".join(table) == "layer head query key query_token produced_token key_token weight"
    for line in table.itertuples():
        assert line.weight == weights[line.layer, line.head, line.query, line.key]
        assert (line.query_token, line.key_token) == (rows[line.query], columns[line.key])
        assert line.produced_token == ("" if kind == "encoder" else produced[line.query])


@pytest.mark.parametrize(
    "form",
    [
        torch.from_numpy,
        lambda maps: tuple(torch.from_numpy(layer).double() for layer in maps),
        lambda maps: tuple(torch.from_numpy(layer)[None] for layer in maps),
        list,
        np.ndarray.tolist,
        lambda maps: maps.astype(np.float64),
        lambda maps: torch.from_numpy(maps).requires_grad_(),
    ],
    ids="tensor layers batch-of-one arrays lists float64 with-gradient".split(),
)
def test_maps_may_be_tensors_or_sequences(form):
    maps = {kind: form(weights) for kind, weights in random_maps().items()}
    assert TranslationRecord.from_arrays(SOURCE, TARGET, **maps) == imported()


CROSS = random_maps()["cross"]
AXES = {
    "a batch": (tuple(np.stack([one, one]) for one in CROSS), r"\[layer\[i\] for layer in cross\]"),
    "one sentence, batch first": (CROSS[None], r"pass cross\[0\] if the first axis is the batch"),
    "means over heads": (CROSS.mean(1), r"pass cross\[:, None\] for one map per layer"),
    "a single map": (CROSS[0, 0], r"pass cross\[None, None\]"),
    "steps of generate": (((CROSS[:1],) * 2,) * 3, "pass its outputs to from_generate"),
    "no eager attention": ((), 'attn_implementation="eager"'),
    "layers without weights": ((None, None), 'attn_implementation="eager"'),
    "another model's layers": ([CROSS[0], CROSS[1][:, :3]], "differ in shape"),
    "an expanded array": (
        np.broadcast_to(CROSS[:1, :1, :1, :1], (2, 3, 10**4, 10**4)),
        "would hold",
    ),
    "a sparse tensor": (torch.from_numpy(CROSS).to_sparse(), "cannot be read as an array"),
}


@pytest.mark.parametrize(("maps", "line"), AXES.values(), ids=AXES)
def test_other_axes_are_rejected_with_the_remedy(maps, line):
    rejects(line, cross=maps)


def test_the_remedies_work():
    ways = (CROSS.mean(1)[:, None], CROSS[0][None], CROSS[0, 0][None, None], CROSS[None][0])
    for maps in (*ways, [one[1] for one in (np.stack([one / 0.5, one]) for one in CROSS)]):
        assert TranslationRecord.from_arrays(SOURCE, TARGET, cross=maps).has("cross")


@pytest.mark.parametrize("start", ["<pad>", "<bos>", "<s>", "[CLS]"])
def test_the_tokens_fed_in_are_not_the_tokens_produced(start):
    maps = random_maps()
    for given in ({"start": start}, {}):
        rejects("these are the fed tokens; pass the produced", SOURCE, [start, *TARGET[:-1]],
                **maps, **given)  # fmt: skip
    record = TranslationRecord.from_arrays(SOURCE, [start, *TARGET[1:]], start="</s>", **maps)
    assert record.tokens("target")[0] == start, "a model may produce it after another one"


PIECES = {  # a space marks the start of a word
    "joiner in front": (["Der", "Hund", "bell", "￭t", "￭."], [" Der", " Hund", " bell", "t", "."]),
    "joiner behind": (
        ["(￭", "Hund", "￭)", "an￭", "￭ge", "sagt"], [" (", "Hund", ")", " an", "ge", " sagt"]),
    "joiner alone": (["Haus", "￭", "-", "￭", "Tür"], [" Haus", "", "-", "", "Tür"]),
    "case features": (["der￨C", "hund￨L", "￭e￨L", "￭.￨N"], [" der", " hund", "e", "."]),
    "case markup": (["｟mrk_case_C｠", "hund", "￭e"], [" ｟mrk_case_C｠", " hund", "e"]),
    "features without joiners": (["der￨C￨DET", "hund￨L￨N"], [" der", " hund"]),
    "subword-nmt": (["bell@@", "t", "laut", "</s>"], [" bell", "t", " laut", " </s>"]),
    "SentencePiece": (["▁bell", "t", "▁laut", ".", "</s>"], [" bell", "t", " laut", ".", " </s>"]),
    "byte-level BPE": (["ab", "c", "Ġd", ".", "</s>"], [" ab", "c", " d", ".", " </s>"]),
    "WordPiece": (["ab", "##c", "d", ".", "[SEP]"], [" ab", "c", " d", " .", " [SEP]"]),
    "the first BPE": (["ab", "c</w>", "d</w>", ".</w>"], [" ab", "c", " d", " ."]),
    "no marks": (["abc", "d", "."], [" abc", " d", " ."]),
}  # fmt: skip


@pytest.mark.parametrize(("pieces", "shown"), PIECES.values(), ids=PIECES)
def test_word_marks_of_other_tokenizers_are_read_not_shown(pieces, shown):
    N = len(pieces)
    record = TranslationRecord.from_arrays(pieces, ["x"], encoder=np.full((1, 1, N, N), 1 / N))
    assert [t.piece for t in record.source] == pieces
    assert [" " * t.starts_word + t.text for t in record.source] == shown
    words = [text for text in shown if not text.startswith((" <", " [", " ｟"))]
    assert [t.special for t in record.source] == [text not in words for text in shown]
    assert record.source_text == "".join(words).strip()


def test_float16_is_accepted_and_kept():
    maps = {kind: weights.astype(np.float16) for kind, weights in random_maps().items()}
    record = TranslationRecord.from_arrays(SOURCE, TARGET, **maps)
    sums = [abs(sum(map(Fraction, map(float, row))) - 1)
            for m in maps.values() for row in m.reshape(-1, m.shape[-1])]  # fmt: skip
    assert 1e-5 < max(sums) < 1e-3, "no rounding is tested"
    assert record.checks[0].figure == pytest.approx(float(max(sums)), abs=1e-9)
    assert record.checks[0].limit == 1e-3
    assert all(np.array_equal(record.maps(kind), maps[kind]) for kind in KINDS)


def test_the_checks_are_those_that_need_no_weights():
    record = imported()
    assert [(c.name, c.passed) for c in record.checks] == [
        ("Every row sums to 1", True), ("No attention to later tokens", True),
    ]  # fmt: skip
    rows = 3 * 4 * S + 2 * T + 5 * 2 * T
    assert f"each of {rows:,} rows" in record.checks[0].words
    assert f"{2 * T * (T - 1) // 2:,} weights" in record.checks[1].words
    (only,) = imported("cross").checks
    assert only.name == "Every row sums to 1"


def test_unchecked_lists_the_checks_that_need_the_network(translating_folder):
    own = Translator.load(translating_folder, device="cpu").inspect("Ein Hund.")
    # For imported maps, "No attention to later tokens" takes the place of the second.
    ran = {"Every row sums to 1", "A masked cell is exactly 0"}
    assert [c.name for c in own.checks if c.name not in ran] == list(imported().unchecked)
    assert own.unchecked == () and own.origin == ""


def test_a_decoder_that_sees_later_tokens_is_shown_and_fails_its_check():
    maps = random_maps()
    later = maps["decoder"].copy()
    later[1, 0, 2] = 1 / T  # the third row attends to all six
    record = TranslationRecord.from_arrays(SOURCE, TARGET, **{**maps, "decoder": later})
    assert record.decoder_mask.all(), "these cells are not masked"
    check = record.checks[1]
    assert (check.passed, check.figure) == (False, 3.0)
    assert "checks: 1 of 2 passed" in repr(record)


def changed(kind: str, at: tuple, value: float) -> dict[str, np.ndarray]:
    maps = random_maps()
    maps[kind][at] = value
    return maps


def rejects(message: str, source=SOURCE, target=TARGET, **named) -> None:
    with refused(message):
        TranslationRecord.from_arrays(source, target, **named)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (("cross", (3, 1, 2, 0)), np.nan, "cross, layer 4, head 2 holds a weight that is NaN"),
        (("encoder", (0, 3, 0, 0)), np.inf, "encoder, layer 1, head 4 holds a weight that is NaN"),
        (("decoder", (1, 0, 1, 0)), -0.1, "decoder, layer 2, head 1 holds a negative weight"),
        (
            ("cross", (4, 0, 5, 4)), 0.9,
            r"cross, layer 5, head 1, row 6 sums to 1\.\d+, not to 1 within 0\.001: pass the",
        ),
    ],
)  # fmt: skip
def test_invalid_weights_are_rejected_with_their_place(at, value, message):
    rejects(message, **changed(*at, value))


def test_the_limit_of_a_rows_sum_is_one_thousandth():
    row = np.full((1, 1, T, S), 1 / S)
    for off in (0.0009, -0.0009):
        maps = row.copy()
        maps[0, 0, 3, 1] += off
        record = TranslationRecord.from_arrays(SOURCE, TARGET, cross=maps)
        assert record.checks[0].figure == pytest.approx(0.0009, abs=1e-6)
    for off in (0.0011, -0.0011):
        maps = row.copy()
        maps[0, 0, 3, 1] += off
        rejects("row 4 sums to", cross=maps)


def test_wrong_shapes_and_tokens_are_rejected_in_one_line():
    maps = random_maps()
    rejects("no attention: pass encoder, decoder or cross")
    rejects(r"cross has 3 axes \(2, 6, 5\), not \[layer", cross=maps["cross"][:, 0][:2])
    rejects("cross is <U1 .*, not numbers", cross=np.full((1, 1, T, S), "x"))
    rejects("cross is bool .*, not numbers", cross=np.ones((1, 1, T, S), bool))
    rejects("cross is complex64", cross=maps["cross"].astype(np.complex64))
    rejects(
        "decoder has 6 queries and 6 keys, but the tokens need 5 and 5", target=TARGET[1:], **maps
    )
    rejects("encoder has 5 queries and 5 keys, but the tokens need 4 and 4", SOURCE[1:], **maps)
    rejects("cross has 5 queries and 6 keys", cross=maps["cross"].swapaxes(2, 3))
    rejects("differ in shape", cross=[maps["cross"][0], maps["cross"][1][:1]])
    rejects("source is one text: pass the list", "Ein Hund", cross=maps["cross"])
    rejects("target has no tokens", target=[], encoder=maps["encoder"])
    rejects("target holds '7', which is not a text", target=[*TARGET[:-1], 7], **maps)
    rejects("cross has layers without heads", cross=np.zeros((2, 0, T, S)))
    rejects("no map of any kind", cross=np.zeros((0, 0, T, S)))
    rejects("513 tokens of the target", target=["a"] * 513, encoder=maps["encoder"])
    rejects("4,097 maps are too many", ["a"], ["b"], encoder=np.ones((4097, 1, 1, 1)))
    rejects("hold 20,971,520 weights", ["a"] * 512, encoder=np.full((80, 1, 512, 512), 1 / 512))


def saved(record: TranslationRecord, change=lambda words: None, **arrays: np.ndarray) -> bytes:
    """Return the saved record with its JSON modified in place and arrays replaced."""
    kept = members(record)
    words = json.loads(np.load(io.BytesIO(kept["words.npy"])).tobytes())
    change(words)
    arrays["words"] = np.frombuffer(json.dumps(words).encode(), np.uint8)
    return archive(kept | {f"{name}.npy": npy(array) for name, array in arrays.items()})


ONES = {"decoder_mask": np.ones((T, T), bool)}
HOSTILE = {
    "a search": (lambda w: w.update(search="beam 5"), {}, "no search and no edits"),
    "edits": (lambda w: w.update(edits="off.cross.2.0"), {}, "no search and no edits"),
    "a long origin": (lambda w: w.update(origin="x" * 61), {}, "of 1 to 60 characters"),
    "an empty origin": (lambda w: w.update(origin=""), {}, "of 1 to 60 characters"),
    "origin left out": (lambda w: w.pop("origin"), {}, "is not a search|settings|maps from"),
    "claimed weights": (
        lambda w: w.update(weights_sha256="0" * 64), {}, "cannot have a network, a search, edits"),
    "hypotheses": (
        lambda w: w.update(hypotheses=[{"text": "a", "ids": [5], "log_prob": -1.0, "score": -1.0}]),
        {}, "cannot have a network, a search, edits"),
    "another token fed in": (
        lambda w: w["target_in"][2].update(text="cat"), {}, "target_in shifted by one"),
    "probabilities": (lambda w: None, {"log_probs": np.zeros(T, np.float32)}, "log_probs"),
    "positions": (
        lambda w: None, {"source_positions": np.zeros((S, 4), np.float32)}, "source_positions"),
    "another mask": (lambda w: None, ONES, "decoder_mask does not follow from its maps"),
    "a masked encoder": (
        lambda w: None, {"encoder_mask": np.eye(S, dtype=bool)}, "encoder has a masked cell"),
    "a row of 0.9": (
        lambda w: None, {"cross": 0.9 * random_maps()["cross"]}, "cross has a row that does not"),
    "a NaN": (lambda w: None, {"cross": np.full((1, 1, T, S), np.nan, np.float32)}, "cross holds"),
    "no heads": (
        lambda w: None, {"cross": np.zeros((3, 0, T, S), np.float32)}, "layers without heads"),
    "513 tokens": (
        lambda w: None, {"cross": np.zeros((1, 1, 513, S), np.float32)}, "513 tokens are too many"),
    "5,000 maps": (
        lambda w: None, {"cross": np.zeros((5_000, 1, T, S), np.float32)}, "the limit is 4,096"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "arrays", "message"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_rejected_in_one_line(change, arrays, message):
    content = saved(imported(), change, **arrays)
    with pytest.raises(ValueError, match="is not a saved record") as caught:
        TranslationRecord.load(io.BytesIO(content))
    assert re.search(message, str(caught.value)) and "\n" not in str(caught.value)


def test_a_record_of_a_network_cannot_become_one_of_maps_and_back(translating_folder):
    translator = Translator.load(translating_folder, device="cpu")
    own = translator.inspect("Ein Hund.")
    with pytest.raises(ValueError, match="imported maps cannot have|source_positions|log_probs"):
        dataclasses.replace(own, origin="arrays")
    with pytest.raises(ValueError, match="cross .*: axis d should be 2"):
        dataclasses.replace(imported(), origin="")
    hypothesis = RecordHypothesis("a", (5,), -1.0, -1.0)
    with pytest.raises(ValueError, match="imported maps cannot have"):
        dataclasses.replace(imported(), hypotheses=(hypothesis,))
    assert "origin" not in own._metadata(), "the file of a network's record has no origin"


def test_what_needs_a_network_is_rejected_with_the_reason(translating_folder):
    translator, record = Translator.load(translating_folder, device="cpu"), imported()
    for ask in (
        lambda: translator.recheck(record),
        lambda: core.scores(translator, record),
        lambda: core.head_effects(translator, record),
    ):
        with pytest.raises(ValueError, match="imported from arrays, without weights"):
            ask()
    with pytest.raises(ValueError, match="imported maps have no log-probabilities"):
        _ = record.log_prob
    with pytest.raises(ValueError, match="imported maps have no log-probabilities"):
        leak(record, record)


def test_rollout_uses_the_kinds_that_are_there():
    maps = random_maps()
    found = rollout(imported())
    residual = [0.5 * layer.mean(0) + 0.5 * np.eye(S) for layer in maps["encoder"]]
    encoder = residual[2] @ residual[1] @ residual[0]
    assert np.allclose(found["encoder"][2, 0], encoder, atol=1e-6)
    assert np.allclose(found["cross"][4, 0], maps["cross"][4].mean(0) @ encoder, atol=1e-6)
    assert found["decoder"].shape == (2, 1, T, T)
    alone = rollout(imported("encoder"))
    assert np.array_equal(alone["encoder"], found["encoder"])
    assert alone["cross"].shape == (0, 1, T, S) and alone["decoder"].shape == (0, 1, T, T)
    assert can_roll_out(imported("encoder", "cross")) and not can_roll_out(imported("cross"))
    with pytest.raises(ValueError, match="needs the encoder's maps"):
        rollout(imported("cross"))


def test_two_records_of_maps_are_compared_where_both_have_them():
    other = random_maps()["cross"].copy()
    other[3, 1, 2] = np.roll(other[3, 1, 2], 1)
    largest = largest_difference(
        imported("cross"), TranslationRecord.from_arrays(SOURCE, TARGET, cross=other)
    )
    assert (largest.kind, largest.layer, largest.head, largest.query) == ("cross", 3, 1, 2)


def test_the_card_in_a_notebook_shows_depths_and_what_was_not_checked():
    shown = imported("encoder", "cross", model="<b>toy</b>")._repr_html_()
    assert "encoder 3 × 4, no decoder, cross 5 × 2 (layers × heads)" in shown
    assert "Checks: 1 of 1 passed, 6 need the weights" in shown
    assert shown.count("needs the weights") == 6 and "&lt;b&gt;toy" in shown
    assert "– Log-probabilities recomputed: needs the weights" in shown
