"""The payload and texts of the page Heads agree with the atlas: measures, stories, examples."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from typing import Any

import numpy as np
import pytest

from app.components.atlas.payload import Shown, payload
from app.components.explorer.payload import pack
from core.atlas.atlas import Atlas
from tests.app.atlases import ROLES, atlas, bare, origin, without

SMALL = atlas(seed=3, layers=2, heads=3)  # N = 18: encoder 0–5, decoder 6–11, cross 12–17


def sent(whole: Atlas, **shown: Any) -> dict[str, Any]:
    return payload(whole, Shown(**shown))


def values_of(data: dict[str, Any], key: str) -> np.ndarray:
    """Return a measure's values as sent: [N, 3]."""
    keys = [measure["key"] for measure in data["measures"]]
    return np.frombuffer(data["values"], "<f4").reshape(len(keys), -1, 3)[keys.index(key)]


def measure(data: dict[str, Any], key: str) -> dict[str, Any]:
    (found,) = (measure for measure in data["measures"] if measure["key"] == key)
    return found


def changed(whole: Atlas, **parts: Any) -> Atlas:
    """Return an atlas with some numbers replaced: `name=[(index, value), …]`."""
    arrays = {name: array.copy() for name, array in whole.arrays.items()}
    for name, replaced in parts.items():
        for index, value in replaced:
            arrays[name][index] = value
    return dataclasses.replace(whole, arrays=arrays)


EVERY = slice(None)


def test_measures_are_sent_as_the_atlas_holds_them() -> None:
    data, arrays = sent(SMALL), SMALL.arrays
    for key, name in (
        ("zero", "zero"), ("mean", "mean"), ("bleu", "bleu_zero"), ("entropy", "entropy"),
        ("largest", "largest"), ("similarity", "similarity"),
    ):  # fmt: skip
        assert np.array_equal(values_of(data, key), arrays[name]), key
    assert np.array_equal(
        np.frombuffer(data["distance"], "<f4").reshape(18, -1), arrays["distance"]
    )
    removed = values_of(data, "removed")[:, 0]
    for place, head in enumerate(arrays["prune_all_order"]):
        assert removed[head] == place + 1


def test_a_role_of_several_kinds_is_one_measure() -> None:
    values, arrays = values_of(sent(SMALL), "role-previous-token"), SMALL.arrays
    assert np.array_equal(values[:6], arrays["role_encoder"][0])
    assert np.array_equal(values[6:12], arrays["role_decoder"][0])
    assert np.isnan(values[12:]).all()
    punctuation = values_of(sent(SMALL), "role-punctuation")
    assert np.array_equal(punctuation[12:], arrays["role_cross"][3])


def test_roles_are_sent_with_their_nulls() -> None:
    data, arrays = sent(SMALL), SMALL.arrays
    for kind, names in ROLES.items():
        numbers = np.frombuffer(data[f"role_{kind}"], "<f4").reshape(len(names), 6, 7)
        assert np.array_equal(numbers[..., :3], arrays[f"role_{kind}"])
        assert np.array_equal(numbers[..., 3], arrays[f"role_{kind}_shuffled"])
        for role in range(len(names)):
            assert (numbers[role, :, 4] == arrays[f"role_{kind}_random"][role]).all()
            assert (numbers[role, :, 6] == arrays[f"role_{kind}_rows"][role]).all()
        profile = arrays[f"role_{kind}_profile"]
        assert np.array_equal(numbers[..., 5], profile, equal_nan=True)


def test_alignment_measures_are_by_reading_and_quantity() -> None:
    data, aer = sent(SMALL), SMALL.arrays["aer"]
    values = values_of(data, "aer-input-weights")
    assert np.isnan(values[:12]).all()
    for layer in range(2):
        for head in range(3):
            assert np.array_equal(values[12 + 3 * layer + head], aer[1, 0, layer, head])
    rows = data["alignment"]["rows"]
    assert [(row["reading"], row["quantity"]) for row in rows] == [
        ("the row that produces the target word", "attention weights"),
        ("the row that produces the target word", "value norms"),
        ("the row that is fed the target word", "attention weights"),
        ("the row that is fed the target word", "value norms"),
    ]
    numbers = rows[1]["heads"][4]  # layer 1, head 1
    wanted = [*aer[0, 1, 1, 1], *(SMALL.arrays[n][0, 1, 1, 1] for n in ("precision", "recall"))]
    assert numbers == pytest.approx(wanted, abs=1e-4)
    assert data["alignment"]["best"]["heads"] == ["cross 1.1", "cross 3.2"]


def test_a_change_that_cannot_be_told_from_0_follows_the_corrected_p_value() -> None:
    whole = changed(SMALL, zero_p=[(0, 0.049), (1, 0.05), (2, 0.8)], zero=[(2, (0.1, 0.05, 0.15))])
    marked = measure(sent(whole), "zero")["no_effect"]
    assert 0 not in marked and 1 in marked and 2 in marked
    without_p = without(whole, "zero_p")
    marked = measure(sent(without_p), "zero")["no_effect"]
    zero = whole.arrays["zero"]
    assert marked == [n for n in range(18) if zero[n, 1] <= 0 <= zero[n, 2]]


def test_decimals_follow_the_interval() -> None:
    """Show two significant digits of half the interval's width, but at most four decimals."""
    for width, places in ((0.2, 2), (0.02, 3), (0.002, 4), (0.0002, 4)):
        zero = np.stack([np.full(18, value) for value in (0.5, 0.5 - width, 0.5 + width)], -1)
        whole = changed(SMALL, zero=[(EVERY, zero)])
        assert measure(sent(whole), "zero")["places"] == places


def test_examples_are_sorted_into_tenths_of_the_corpus() -> None:
    data = sent(SMALL)
    strength, deciles = SMALL.arrays["strength"], SMALL.arrays["deciles"]
    sent_deciles = np.frombuffer(data["decile"], "u1").reshape(18, -1)
    for n in (0, 7, 17):
        for sentence in range(len(SMALL.quoted)):
            expected = sum(strength[n, sentence] >= bound for bound in deciles[n])
            assert sent_deciles[n, sentence] == expected
    cells = np.frombuffer(data["cell"], "<i2").reshape(18, -1, 2)
    assert np.array_equal(cells, SMALL.arrays["cell"])
    assert np.array_equal(
        np.frombuffer(data["strength"], "<f4").reshape(18, -1), SMALL.arrays["strength"]
    )


def test_pairs_beyond_their_interval_are_listed_the_largest_first() -> None:
    whole = changed(
        SMALL,
        pair_decoder=[
            ((1, EVERY), (0.0, -1.0, 1.0)),
            ((1, 0), (0.02, 0.01, 0.03)),
            ((1, 2), (0.05, 0.01, 0.09)),
            ((1, 3), (0.5, -0.1, 0.9)),
            ((1, 4), (-0.04, -0.06, -0.02)),
            ((1, 1), (3.0, 2.0, 4.0)),
        ],
    )
    pairs = sent(whole)["pairs"][7]
    assert [row[0] for row in pairs["covers"]] == [8, 6]
    assert [row[0] for row in pairs["needs"]] == [10]
    assert pairs["covers"][0][1:4] == pytest.approx([0.05, 0.01, 0.09])
    assert (pairs["tested"], pairs["by_chance"], pairs["more"]) == (5, "0.3", [0, 0])
    (text,) = (t for t in sent(whole)["stories"][7] if t.startswith("Among heads of its kind"))
    assert text == (
        "Among heads of its kind, decoder 1.3 covers for it most: removing both raises the loss by "
        "0.050 nats per token (0.010 to 0.090) more than the two single changes add up to; without "
        "decoder 2.2 it helps less, or harms more, than without any other: removing both raises "
        "the loss by 0.040 nats per token (0.020 to 0.060) less than the two single changes add "
        "up to. Of 5 pairs, about 0.3 would be listed by chance alone."
    )


def test_bounds_of_pairs_have_the_decimals_that_exclude_0() -> None:
    for low, high, value, places in (
        (0.0004, 0.004, 0.002, 4),
        (0.0006, 0.004, 0.002, 3),
        (0.00003, 0.004, 0.002, 5),
        (-0.004, -0.0004, -0.002, 4),
    ):
        whole = changed(
            SMALL, pair_decoder=[((1, EVERY), (0.0, -1.0, 1.0)), ((1, 0), (value, low, high))]
        )
        data = sent(whole)
        (row,) = data["pairs"][7]["covers"] + data["pairs"][7]["needs"]
        assert row[4] == places
        (text,) = (t for t in data["stories"][7] if t.startswith("Among heads of its kind"))
        bounds = [f"{v:.{places}f}" for v in sorted((abs(low), abs(high)))]
        assert f"({bounds[0]} to {bounds[1]})" in text


def test_pruning_orders_are_counted_over_all_heads() -> None:
    curves = {curve["kind"]: curve for curve in sent(SMALL)["pruning"]}
    arrays = SMALL.arrays
    assert list(curves) == ["all", "encoder", "decoder", "cross"]
    for kind, start in (("all", 0), ("encoder", 0), ("decoder", 6), ("cross", 12)):
        assert curves[kind]["order"] == [start + n for n in arrays[f"prune_{kind}_order"]]
        assert np.allclose(curves[kind]["loss"], arrays[f"prune_{kind}_loss"], atol=1e-4)
        assert np.allclose(curves[kind]["bleu"], arrays[f"prune_{kind}_bleu"], atol=1e-4)


def labelled_head() -> Atlas:
    """Return an atlas whose head cross 2.1 (n = 15) has one label, 30 points above its nulls."""
    role = [((o, 3), (0.2, 0.19, 0.21)) for o in range(5)]
    return changed(
        SMALL,
        role_cross=[*role, ((1, 3), (0.84, 0.82, 0.86))],
        role_cross_shuffled=[((EVERY, 3), 0.15), ((1, 3), 0.52)],
        role_cross_random=[(EVERY, 0.19), (1, 0.3)],
        role_cross_profile=[((1, 3), 0.4)],
        role_cross_rows=[(1, 0.79)],
        zero=[
            (15, (0.25, 0.21, 0.29)),
            (0, (0.4, 0.3, 0.5)),
            (1, (0.5, 0.35, 0.6)),
            (2, (0.3, 0.2, 0.4)),  # larger, but with an interval that overlaps
        ],
        zero_p=[(15, 0.0004)],
        mean=[(15, (0.125, 0.1, 0.15))],
        mean_p=[(15, 0.001)],
        entropy=[(15, (0.35, 0.34, 0.36))],
        largest=[(15, (0.61, 0.6, 0.62))],
    )


def test_the_story_of_a_head_with_a_role_and_an_effect() -> None:
    whole = labelled_head()
    data = sent(whole)
    assert data["labels"][15] == ["aligned to the token fed"]
    role, effect, bleu, focus, alignment, *_ = data["stories"][15]
    assert role == (
        "It has the role “aligned to the token fed”: in the 79\u00a0% of rows that have such a "
        "key, 84\u00a0% of its attention goes there (95 % interval 82\u00a0% to 86\u00a0%). "
        "With its rows shuffled it would be 52\u00a0%; among the heads of networks with random "
        "weights the highest is 30\u00a0%; from its mean attention by distance alone, one would "
        "expect 40\u00a0%."
    )
    more = sum(low > np.float32(0.29) for low in whole.arrays["zero"][:, 1])
    assert more == 2 and sum(change > 0.25 for change in whole.arrays["zero"][:, 0]) == 3
    places = measure(data, "zero")["places"]
    numbers = [f"+{value:.{places}f}" for value in (0.25, 0.21, 0.29)]
    mean = f"+{0.125:.{measure(data, 'mean')['places']}f}"
    assert effect == (
        f"Removing it (zero ablation) changes the loss by {numbers[0]} nats per token (95 % "
        f"interval {numbers[1]} to {numbers[2]}; p < 0.001 after Holm's correction for 18 heads): "
        f"the probability of a target token falls by {100 * (1 - math.exp(-0.25)):.0f}\u00a0% "
        "(geometric mean). At least 2 of 18 heads are needed more: their whole interval is above "
        "this head's. "
        f"Replacing its output by the mean instead of zeros changes the loss by {mean} nats."
    )
    value, low, high = whole.arrays["bleu_zero"][15]
    assert bleu.startswith("BLEU of 38.4 (greedy) changes by ") and " points (95 % " in bleu
    text = re.findall(r"[+−]?\d+\.\d+", bleu.split("(greedy)")[1])
    assert [float(t.replace("−", "-")) for t in text[:3]] == pytest.approx(
        [value, low, high], abs=0.051
    )
    assert focus == (
        "On average, its largest weight in a row is 61\u00a0%, and a row has 35\u00a0% of the "
        "entropy of an even spread."
    )
    errors = whole.arrays["aer"][:, :, 1, 0, 0]
    reading, quantity = divmod(int(errors.argmin()), 2)
    where = ("in the row that produces it", "in the row that is fed the word")
    what = (
        "attention weight",
        "value norm (attention weight times the length of the projected value)",
    )[quantity]
    value, low, high = (
        f"{100 * v:.0f}\u00a0%" for v in whole.arrays["aer"][reading, quantity, 1, 0]
    )
    average = np.mean([whole.arrays["aer"][:, :, i, j, 0].min() for i in (0, 1) for j in range(3)])
    assert alignment == (
        "As a word aligner: if each target word is linked to the source word with the largest "
        f"{what} {where[reading]}, the alignment error rate is {value} ({low} to {high}), the "
        "lowest of four ways to read the head (either row, by weights or norms); "
        f"{where[1 - reading]}, it is {100 * errors[1 - reading, quantity]:.0f}\u00a0%. The plain "
        "diagonal errs by 61\u00a0%; the average head of this network, read in the best of the "
        f"four ways, by {100 * average:.0f}\u00a0%. Measured on 500 sentences with manual "
        "alignments (gold)."
    )


def test_a_word_aligner_worse_than_the_diagonal_is_called_so() -> None:
    """If the gold alignments are not of the corpus, the text names both."""
    about = origin(gold="europarl150.align of a.de, a.en", gold_sentences=150)
    for diagonal, worse in ((0.05, True), (0.95, False)):
        whole = changed(
            SMALL,
            aer=[((EVERY, EVERY, 0, 0), (0.5, 0.4, 0.6))],
            aer_diagonal=[(EVERY, diagonal)],
        )
        whole = dataclasses.replace(whole, origin=about)
        (text,) = (t for t in sent(whole)["stories"][12] if t.startswith("As a word aligner"))
        assert ("less than this head" in text) == worse
        assert text.endswith(
            "150 sentences with manual alignments (europarl150), not on val.de.gz, val.en.gz."
        )


def test_a_change_of_bleu_that_holm_rejects_is_not_called_a_change() -> None:
    """If the change's interval excludes 0, the text says so, and why this is not enough."""
    whole = changed(SMALL, bleu_zero=[(2, (-0.63, -1.08, -0.19))], bleu_zero_p=[(2, 0.26)])
    (text,) = (t for t in sent(whole)["stories"][2] if t.startswith("BLEU"))
    places = measure(sent(whole), "bleu")["places"]
    value, low, high = (f"−{v:.{places}f}" for v in (0.63, 1.08, 0.19))
    assert text == (
        f"BLEU of 38.4 (greedy) changes by an amount not distinguishable from 0: {value} points "
        f"(95 % interval {low} to {high}; p = 0.26 after Holm's correction for 18 heads). Its "
        "interval alone excludes 0, but some of 18 intervals do by chance."
    )


def test_bleu_ranks_the_largest_loss_first() -> None:
    data = sent(SMALL)
    assert [m["key"] for m in data["measures"] if m["lowest_first"]] == ["bleu"]


def test_samples_behind_orders_and_pairs_are_no_larger_than_the_corpus() -> None:
    assert sent(SMALL)["samples"] == {"order": 50, "pairs": 250}
    small = dataclasses.replace(SMALL, origin=origin(sentences=60))
    assert sent(small)["samples"] == {"order": 50, "pairs": 60}


def test_the_story_of_a_head_without_role_or_effect() -> None:
    whole = changed(
        SMALL,
        role_encoder=[((EVERY, 2), (0.3, 0.29, 0.31))],
        role_encoder_shuffled=[((EVERY, 2), 0.2)],
        role_encoder_random=[(EVERY, 0.1)],
        zero=[(2, (0.004, -0.002, 0.01))],
        zero_p=[(2, 0.31)],
        bleu_zero=[(2, (-0.1, -0.4, 0.2))],
        bleu_zero_p=[(2, 1.0)],
    )
    data = sent(whole)
    role, effect, bleu, *_ = data["stories"][2]
    assert role == (
        "No label: of the roles that can be measured in at least 10\u00a0% of its rows (4), none "
        "has an interval whose lower end reaches 30\u00a0% of the attention and exceeds chance by "
        "more than 10 percentage points."
    )
    rare = changed(whole, role_encoder_rows=[(EVERY, 1.0), (0, 0.09)])
    assert "of its rows (3), none" in sent(rare)["stories"][2][0]
    rare = changed(whole, role_encoder_rows=[(EVERY, 0.09)])
    assert sent(rare)["stories"][2][0] == (
        "Its role is unknown: no role was measured with an interval and nulls in at "
        "least 10\u00a0% of the rows."
    )
    assert effect.startswith(
        "Removing it (zero ablation) changes the loss by an amount not distinguishable from 0: "
        "+0.004"
    )
    assert effect.endswith("p = 0.31 after Holm's correction for 18 heads).")
    assert bleu.startswith("BLEU of 38.4 (greedy) changes by an amount not distinguishable from 0")
    beyond = changed(whole, zero=[(2, (0.004, 0.001, 0.01))])
    assert sent(beyond)["stories"][2][1].endswith(
        "Its interval alone excludes 0, but some of 18 intervals do by chance."
    )


def test_a_head_that_harms_raises_probabilities_when_removed() -> None:
    whole = changed(SMALL, zero=[(4, (-0.2, -0.25, -0.15))], zero_p=[(4, 0.0)])
    text = sent(whole)["stories"][4][1]
    assert f"the probability of a target token rises by {100 * (math.exp(0.2) - 1):.0f}" in text


def test_one_sentence_alone_says_nothing_of_others() -> None:
    nan = float("nan")
    whole = changed(bare(SMALL), zero=[(EVERY, (0.5, nan, nan))], zero_p=[(EVERY, nan)],
                    role_encoder=[((EVERY, 0), (0.9, nan, nan))])  # fmt: skip
    whole = dataclasses.replace(whole, origin=origin(sentences=1))
    data = sent(whole)
    assert measure(data, "zero")["no_effect"] is None, "nothing was tested"
    effect, *_ = data["stories"][0]
    assert effect == "Removing it (zero ablation) changes the loss by +0.50 nats per token."
    assert not any("role" in text for story in data["stories"] for text in story)
    assert not any("nan" in text for story in data["stories"] for text in story)


def test_what_was_not_measured_is_not_offered() -> None:
    data = sent(bare(SMALL))
    keys = {measure["key"] for measure in data["measures"]}
    assert not keys & {"bleu", "similarity", "removed"} and not any(
        k.startswith("aer") for k in keys
    )
    assert (data["pruning"], data["alignment"], data["partner"]) == ([], None, None)
    assert data["pairs"] == [None] * 18
    assert data["stories"][0][-1] == (
        "Not measured here: BLEU, pairs of heads, pruning, its counterpart."
    )
    assert data["stories"][17][-1].endswith("its counterpart, word alignment.")
    nothing = sent(without(SMALL, "strength", "role"))
    assert nothing["quoted"] == [] and "decile" not in nothing
    assert not any(measure["key"].startswith("role") for measure in nothing["measures"])
    nan = changed(SMALL, similarity=[(EVERY, float("nan"))])
    assert "similarity" not in {measure["key"] for measure in sent(nan)["measures"]}


def test_what_a_link_asks_for_is_opened() -> None:
    asked = {"head": "cross.1.2", "measure": "entropy", "x": "role-punctuation", "y": "mean"}
    opened = sent(SMALL, opened=asked, turn=4)["opened"]
    assert (opened["head"], opened["turn"]) == (17, 4)
    assert [opened[name] for name in ("measure", "x", "y")] == [
        "entropy",
        "role-punctuation",
        "mean",
    ]
    for wrong in ("cross.2.0", "cross.1", "x", "", "decoder.-1.0"):
        opened = sent(SMALL, opened={"head": wrong, "measure": "nonsense"})["opened"]
        assert opened["head"] == SMALL.arrays["zero"][:, 0].argmax(), "the head needed most"
        assert (opened["measure"], opened["x"], opened["y"]) == ("zero", "entropy", "zero")


def test_a_payload_is_small_and_valid() -> None:
    packed = pack(sent(atlas()))
    assert len(packed) < 300_000, "bytes, for a network of the shipped size"
    length = int.from_bytes(packed[:4], "little")
    json.loads(packed[4 : 4 + length], parse_constant=lambda name: pytest.fail(name))
