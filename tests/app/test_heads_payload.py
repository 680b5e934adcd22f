"""What a head's story says: each number is a value of the atlas, each claim follows from them."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

from app.components.atlas.measures import measures
from app.components.atlas.payload import Shown, payload
from app.components.explorer.payload import pack
from core.atlas.atlas import Atlas, with_fetch
from tests.app.atlases import atlas, bare, origin, reported, told, without

SMALL = atlas(seed=3, layers=2, heads=3)  # N = 18: encoder 0–5, decoder 6–11, cross 12–17
EVERY = slice(None)
NAN = float("nan")


def sent(whole: Atlas, **shown: Any) -> dict[str, Any]:
    return payload(whole, Shown(**shown))


def story(data: dict[str, Any], n: int, start: str = "") -> str:
    """Return the sentences of a head that start with some words."""
    (text,) = (text for text in data["stories"][n] if text.startswith(start))
    return text


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


def test_a_change_that_cannot_be_told_from_0_follows_the_corrected_p_value() -> None:
    whole = changed(SMALL, zero_p=[(0, 0.049), (1, 0.05), (2, 0.8)], zero=[(2, (0.1, 0.05, 0.15))])
    marked = measure(sent(whole), "zero")["no_effect"]
    assert 0 not in marked and 1 in marked and 2 in marked
    zero = whole.arrays["zero"]
    marked = measure(sent(without(whole, "zero_p")), "zero")["no_effect"]
    assert marked == [n for n in range(18) if zero[n, 1] <= 0 <= zero[n, 2]]


def test_what_heads_fetch_is_a_measure_if_its_file_is_there(tmp_path) -> None:
    """Heads are found by name, in any order; a share may be negative, and have no interval."""
    rows = [
        {"kind": kind, "layer": layer, "head": head, "share": n / 10 - 0.2, "low": -1, "high": None}
        for n, (kind, layer, head) in enumerate(SMALL.heads)
    ]
    file = tmp_path / "patch.json"
    values = {"weights_sha256": SMALL.origin.weights_sha256, "heads": rows[::-1]}
    file.write_text(json.dumps(values))
    found = measure(sent(with_fetch(SMALL, file)), "fetch")
    assert found["signed"] and found["label"] == "Fetches the word"
    (fetch,) = (one for one in measures(with_fetch(SMALL, file)) if one.key == "fetch")
    assert fetch.values[:, 0] == pytest.approx([row["share"] for row in rows])
    assert np.isnan(fetch.values[:, 2]).all()
    assert "fetch" not in {one.key for one in measures(SMALL)}
    for wrong, problem in (
        ({"weights_sha256": "0" * 64}, "other weights"),
        ({"heads": rows[1:]}, "encoder"),
        ({"heads": None}, "NoneType"),
    ):
        file.write_text(json.dumps(values | wrong))
        with pytest.raises(ValueError, match=problem) as refused:
            with_fetch(SMALL, file)
        assert "core.analyse patch --out" in str(refused.value)


def test_decimals_follow_the_interval() -> None:
    """Show two significant digits of half the interval's width, but at most four decimals."""
    for width, places in ((0.2, 2), (0.02, 3), (0.002, 4), (0.0002, 4)):
        whole = changed(SMALL, zero=[(EVERY, (0.5, 0.5 - width, 0.5 + width))])
        assert measure(sent(whole), "zero")["places"] == places


def with_pairs(*rows: tuple[int, tuple[float, float, float]]) -> Atlas:
    """Return an atlas in which decoder 1.2 (n = 7) interacts with these decoder heads only."""
    return changed(
        SMALL,
        pair_decoder=[((1, EVERY), (0.0, -1.0, 1.0)), *(((1, at), row) for at, row in rows)],
    )


def test_pairs_beyond_their_interval_are_listed_the_largest_first() -> None:
    data = sent(
        with_pairs(
            (0, (0.02, 0.01, 0.03)), (2, (0.05, 0.01, 0.09)), (3, (0.5, -0.1, 0.9)),
            (4, (-0.04, -0.06, -0.02)), (1, (3.0, 2.0, 4.0)),
        )
    )  # fmt: skip
    pairs = data["pairs"][7]
    assert [row[0] for row in pairs["covers"]] == [8, 6]
    assert [row[0] for row in pairs["needs"]] == [10]
    assert (pairs["tested"], pairs["by_chance"], pairs["more"]) == (5, "0.3", [0, 0])
    text = story(data, 7, "Among heads of its kind, decoder 1.3 covers for it most")
    assert told(text) == [1.3, 0.05, 0.01, 0.09, 2.2, 0.04, 0.02, 0.06, 5, 0.3]
    covers, needs = text.split("; without decoder 2.2")
    assert ") more than" in covers and ") less than" in needs


@pytest.mark.parametrize(
    ("low", "high", "places"),
    [(0.0004, 0.004, 4), (0.0006, 0.004, 3), (0.00003, 0.004, 5), (-0.004, -0.0004, 4)],
)
def test_bounds_of_pairs_have_the_decimals_that_exclude_0(low, high, places) -> None:
    data = sent(with_pairs((0, (math.copysign(0.002, low), low, high))))
    (row,) = data["pairs"][7]["covers"] + data["pairs"][7]["needs"]
    assert row[4] == places
    bounds = [f"{bound:.{places}f}" for bound in sorted((abs(low), abs(high)))]
    assert f"({bounds[0]} to {bounds[1]})" in story(data, 7, "Among heads of its kind")


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
    assert role.startswith("It has the role “aligned to the token fed”")
    assert told(role) == [79, 84, 95, 82, 86, 52, 30, 40]
    more = sum(low > np.float32(0.29) for low in whole.arrays["zero"][:, 1])
    assert more == 2 and sum(change > 0.25 for change in whole.arrays["zero"][:, 0]) == 3
    lost = round(100 * (1 - math.exp(-0.25)))
    expected = [0.25, 95, 0.04, 0.001, 18, lost, more, 18, 0.125]
    assert told(effect) == pytest.approx(expected, abs=0.0051)
    assert "+0.250 nats per token (95 % interval ±0.040;" in effect, "two digits of the interval"
    assert "p < 0.001" in effect and " falls by " in effect
    value, *rest = reported(whole.arrays["bleu_zero"][15])
    said = told(bleu)[: 4 + len(rest)]
    assert said == pytest.approx([38.4, 0, value, 95, *rest], abs=0.051)
    assert told(focus) == [61, 35]
    errors = 100 * whole.arrays["aer"][:, :, 1, 0]
    reading, quantity = divmod(int(errors[..., 0].argmin()), 2)
    where = ("in the row that produces it", "in the row that is fed the word")
    what = ("attention weight", "value norm")[quantity]
    assert f"largest {what}" in alignment
    assert alignment.index(where[reading]) < alignment.index(where[1 - reading])
    average = 100 * np.mean(
        [whole.arrays["aer"][:, :, i, j, 0].min() for i in (0, 1) for j in range(3)]
    )
    expected = [*errors[reading, quantity], errors[1 - reading, quantity, 0], 61, average, 500]
    assert told(alignment) == pytest.approx(expected, abs=0.51)


def test_a_word_aligner_worse_than_the_diagonal_is_called_so() -> None:
    """If the gold alignments are not of the corpus, the text names both."""
    about = origin(gold="europarl150.align of a.de, a.en", gold_sentences=150)
    for diagonal, worse in ((0.05, True), (0.95, False)):
        whole = changed(
            SMALL,
            aer=[((EVERY, EVERY, 0, 0), (0.5, 0.4, 0.6))],
            aer_diagonal=[(EVERY, diagonal)],
        )
        text = story(sent(dataclasses.replace(whole, origin=about)), 12, "As a word aligner")
        assert ("less than this head" in text) == worse
        assert text.endswith("(europarl150), not on val.de.gz, val.en.gz.")


def test_the_story_of_a_head_without_role_or_effect() -> None:
    """If only the interval of a change excludes 0, the text says why this is not enough."""
    whole = changed(
        SMALL,
        role_encoder=[((EVERY, 2), (0.3, 0.29, 0.31))],
        role_encoder_shuffled=[((EVERY, 2), 0.2)],
        role_encoder_random=[(EVERY, 0.1)],
        zero=[(2, (0.004, -0.002, 0.01)), (4, (-0.2, -0.25, -0.15))],
        zero_p=[(2, 0.31), (4, 0.0)],
        bleu_zero=[(2, (-0.63, -1.08, -0.19))],
        bleu_zero_p=[(2, 0.26)],
    )
    data = sent(whole)
    role, effect, bleu, *_ = data["stories"][2]
    assert role.startswith("No label") and told(role) == [10, 4, 30, 10]
    for rows, said in ((0, (3, "No label")), (EVERY, (10, "Its role is unknown"))):
        rare = changed(whole, role_encoder_rows=[(EVERY, 1.0), (rows, 0.09)])
        text = story(sent(rare), 2, said[1])
        assert said[0] in told(text)
    assert told(effect)[:5] == [0, 0.004, 95, 0.006, 0.31] and 0.31 in told(effect)
    assert told(bleu) == pytest.approx([38.4, 0, -0.63, 95, 0.445, 0.26, 18, 0, 18], abs=0.0051)
    for text, excludes in ((effect, False), (bleu, True)):
        assert "not distinguishable from 0" in text
        assert ("Its interval alone excludes 0" in text) == excludes
    rises = story(data, 4, "Removing it").partition("token rises by ")[2]
    assert told(rises)[0] == round(100 * (math.exp(0.2) - 1))


def test_one_sentence_alone_says_nothing_of_others() -> None:
    whole = changed(bare(SMALL), zero=[(EVERY, (0.5, NAN, NAN))], zero_p=[(EVERY, NAN)],
                    role_encoder=[((EVERY, 0), (0.9, NAN, NAN))])  # fmt: skip
    data = sent(dataclasses.replace(whole, origin=origin(sentences=1)))
    assert measure(data, "zero")["no_effect"] is None, "nothing was tested"
    assert told(story(data, 0, "Removing it")) == [0.5]
    texts = [text for story in data["stories"] for text in story]
    assert not any("role" in text or "nan" in text for text in texts)
    assert data["samples"] == {"order": 1, "pairs": 1}


def test_what_was_not_measured_is_not_offered() -> None:
    data = sent(bare(SMALL))
    assert (data["pruning"], data["alignment"], data["partner"]) == ([], None, None)
    missing = ["BLEU", "pairs of heads", "pruning", "its counterpart"]
    for n, words in ((0, missing), (17, [*missing, "word alignment"])):
        assert story(data, n, "Not measured here") == f"Not measured here: {', '.join(words)}."
    nothing = sent(without(SMALL, "strength", "role"))
    assert nothing["quoted"] == [] and "decile" not in nothing
    assert not any(measure["key"].startswith("role") for measure in nothing["measures"])
    nan = changed(SMALL, similarity=[(EVERY, NAN)])
    assert "similarity" not in {measure["key"] for measure in sent(nan)["measures"]}


def test_a_payload_is_small_and_valid() -> None:
    packed = pack(sent(atlas()))
    assert len(packed) < 300_000, "bytes, for a network of the shipped size"
    length = int.from_bytes(packed[:4], "little")
    json.loads(packed[4 : 4 + length], parse_constant=lambda name: pytest.fail(name))
