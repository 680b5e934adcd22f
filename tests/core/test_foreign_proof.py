"""Each comparison with the original notices the smallest difference at the last place it covers.

A good folder is converted while one number differs: in what the original computed (in
reference.npz), or in what the network computes (after its pass).
"""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from core.checkpoint.folder import load
from core.foreign import comparison, family
from core.foreign.family import Options
from core.foreign.importing import import_network
from core.kinds import KINDS
from tests.core.saved_folders import HEADS, LENGTH, Change, arrays, tokens, weights, write
from tests.core.seed_networks import Seed, make_seed


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "opus"
    write(folder, "marian", "swish")
    return folder


@pytest.fixture
def folder(original, tmp_path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "theirs"))


def convert(folder: Path):
    options = Options(languages=("de", "en"))
    out = folder.parent / "x-de-en"
    return import_network("marian", folder, out, options, folder / "reference.npz")


def refused(folder: Path, says: str) -> None:
    with pytest.raises(comparison.DifferentError, match=says) as error:
        convert(folder)
    assert "\n" not in str(error.value) and not (folder.parent / "x-de-en").exists()


@pytest.fixture(scope="module")
def limits(original, tmp_path_factory) -> dict[str, float]:
    """The limit of each comparison, computed here from the reference."""
    largest = np.abs(np.load(original / "reference.npz")["logits_32"]).max()
    return {"float64": 1e-9, "float32": 1e-4 * max(1.0, float(largest))}


# The last sentence is the only one whose last token is no padding.
LAST = (-1, -1)
ARRAYS = {
    "encoder": "attention maps",
    "decoder": "attention maps",
    "cross": "attention maps",
    "logits": "logits",
}


@pytest.mark.parametrize("factor", [3.0, 0.3])
@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize("name", ARRAYS)
def test_one_number_of_the_original(folder, limits, name, bits, factor):
    """In the last layer, sentence, head and row; three times the limit is refused, a third not."""
    limit = limits[f"float{bits}"]

    def change(values: dict[str, np.ndarray]) -> None:
        array = values[f"{name}_{bits}"]
        place = (-1, -1, -1, -1, 0) if array.ndim == 5 else (-1, -1, 5)
        array[place] += factor * limit

    arrays(change)(folder)
    if factor > 1:
        refused(folder, f"^{ARRAYS[name]}, float{bits} differ by .*limit {limit:.2g}")
    else:
        compared = {one.what: one for one in convert(folder).imported.compared}
        assert compared[f"{ARRAYS[name]}, float{bits}"].max_abs_diff > 0.1 * limit


def last_row(ours: Any) -> dict[str, Callable[[float], object]]:
    """Return, for each result, a function that adds to one of its numbers in the last row."""
    return {
        "logits": lambda by: ours.logits[LAST].__setitem__(5, ours.logits[LAST][5] + by),
        "log-probabilities": lambda by: ours.log_probs[LAST].__setitem__(
            5, ours.log_probs[LAST][5] + by
        ),
        "logits of single steps": lambda by: ours.steps[LAST].__setitem__(
            5, ours.steps[LAST][5] + by
        ),
        **{
            kind: lambda by, kind=kind: ours.maps[kind][-1, -1, -1, -1].__setitem__(
                0, ours.maps[kind][-1, -1, -1, -1][0] + by
            )
            for kind in KINDS
        },
    }


RESULTS = ("logits", "log-probabilities", "logits of single steps", *KINDS)


@pytest.mark.parametrize("by", [3.0, float("nan")])
@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize("name", RESULTS)
def test_one_number_of_the_network(folder, limits, monkeypatch, name, bits, by):
    """Each result is compared by itself: no other one differs."""
    real, precision = comparison._run, f"float{bits}"

    def run(network, batch):
        ours = real(network, batch)
        if ours.logits.dtype == np.dtype(precision):
            last_row(ours)[name](by * limits[precision])
        return ours

    monkeypatch.setattr(comparison, "_run", run)
    what = "attention maps" if name in KINDS else name
    amount = "inf" if by != by else r"[\d.e-]+"
    refused(folder, f"^{what}, {precision} differ by {amount} ")


def later(values: np.ndarray) -> tuple[int, int]:
    """Return the place of the last greedy id before the first <eos> or end of some sentence."""
    lengths = [list(row).index(0) if 0 in row else len(row) for row in values]
    sentence = int(np.argmax(lengths))
    assert lengths[sentence] > 3
    return sentence, lengths[sentence] - 1


GREEDY = {"first": lambda values: (2, 0), "last": later}


@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize("which", GREEDY)
def test_one_greedy_id(folder, bits, which):
    """All logits agree; one id of one sentence differs."""

    def change(values: dict[str, np.ndarray]) -> None:
        ids = values[f"greedy_{bits}"]
        place = GREEDY[which](ids)
        ids[place] = 9 if ids[place] != 9 else 10

    arrays(change)(folder)
    refused(folder, f"^the greedy ids of 1 of 8 sentences differ in float{bits}, although")


@pytest.mark.parametrize("bits", [64, 32])
def test_a_greedy_translation_that_ends_earlier(folder, bits):
    def change(values: dict[str, np.ndarray]) -> None:
        ids = values[f"greedy_{bits}"]
        sentence, place = later(ids)
        ids[sentence, place:] = 0

    arrays(change)(folder)
    refused(folder, f"^the greedy ids of 1 of 8 sentences differ in float{bits}")


@pytest.mark.parametrize("bits", [64, 32])
def test_a_search_that_differs_from_the_network(folder, monkeypatch, bits):
    """The network's last greedy id is another one, in one precision and one sentence."""
    real = comparison._run

    def run(network, batch):
        ours = real(network, batch)
        if ours.logits.dtype == np.dtype(f"float{bits}"):
            theirs = ours.greedy[6]
            ours.greedy[6] = (*theirs[:2], theirs[2] % 7 + 4, *theirs[3:])
        return ours

    monkeypatch.setattr(comparison, "_run", run)
    refused(folder, f"^the greedy ids of 1 of 8 sentences differ in float{bits}")


TOKENS: dict[str, Change] = {
    "the last id of the last line": tokens(
        lambda t: t["ids"][-1].__setitem__(-1, t["ids"][-1][-1] % 7 + 4)
    ),
    "one id more": tokens(lambda t: t["ids"][-1].append(4)),
    "one id less": tokens(lambda t: t["ids"][-1].pop()),
    "no ids": tokens(lambda t: t["ids"][-1].clear()),
}


@pytest.mark.parametrize("case", TOKENS)
def test_one_token(folder, case):
    TOKENS[case](folder)
    refused(folder, "^the tokens of 1 of 4 source lines differ")


@pytest.mark.parametrize("row", [0, LENGTH - 1])
@pytest.mark.parametrize("by", [3e-4, float("nan")])
def test_one_position_of_the_network(folder, monkeypatch, row, by):
    """The formula itself differs, in one feature of the first or last position."""
    real = family.position_formula

    def formula(config):
        table = real(config).copy()
        table[row, -1] += by
        return table

    monkeypatch.setattr(comparison, "position_formula", formula)
    refused(folder, f"^wrong positions: position {row} of")


def test_one_position_of_the_original(folder):
    arrays(lambda values: values["positions"].__setitem__((LENGTH - 1, -1), 0.3))(folder)
    refused(folder, f"^wrong positions: position {LENGTH - 1} of")


def test_one_number_of_a_tied_table(folder):
    def change(state: dict[str, torch.Tensor]) -> None:
        for name in ("model.encoder.embed_tokens.weight", "lm_head.weight"):
            state[name] = state["model.shared.weight"].clone()
        last = state["lm_head.weight"][-1]
        last[-1] = torch.nextafter(last[-1], torch.tensor(9.0))

    weights(change)(folder)
    with pytest.raises(ValueError, match=r"lm_head\.weight differs from model\.shared\.weight"):
        convert(folder)


def test_the_reports_say_what_was_compared(folder):
    """The model card's columns hold the differences and the limits of config.json."""
    result = convert(folder)
    card = (folder.parent / "x-de-en/MODEL_CARD.md").read_text()
    header, _, *rows = [line for line in card.splitlines() if line.startswith("|")]
    assert header == "| compared | largest difference | limit | passed |"
    assert rows == [
        f"| {one.what} | {one.max_abs_diff:.2g} | {one.limit:.2g} | yes |"
        for one in result.imported.compared
    ]
    found = {one.what: one for one in result.imported.compared}
    assert list(found) == [
        "positions",
        *(
            f"{what}, {precision}"
            for precision in ("float64", "float32")
            for what in (
                *("attention maps", "logits", "log-probabilities", "logits of single steps"),
                "greedy ids",
            )
        ),
        *(f"tokens of {n} lines" for n in ("4 source", "200 generated source")),
        "tokens of 200 generated target lines",
    ]
    for one in found.values():
        exact = "ids" in one.what or "tokens" in one.what
        assert one.passed and (one.max_abs_diff < one.limit or (exact and one.limit == 0))
    model = load(folder.parent / "x-de-en").card.model
    assert (model.max_length, model.num_heads) == (LENGTH, HEADS)


def test_the_float32_limit_grows_with_the_logits(folder, limits):
    found = {one.what: one.limit for one in convert(folder).imported.compared}
    assert found["logits, float32"] == pytest.approx(limits["float32"], rel=1e-6)
    assert found["logits, float64"] == limits["float64"]


@pytest.fixture(scope="module")
def seed(tmp_path_factory) -> Seed:
    return make_seed("hyunwoongko", tmp_path_factory.mktemp("seed"))


def test_few_lines_are_a_gap_in_the_proof(seed, tmp_path):
    """The reference has 8 lines: config.json and the model card say so."""
    result = import_network(
        seed.family, seed.weights, tmp_path / "x-de-en", seed.options(), seed.reference
    )
    sentence = "Tokens were compared on 8 lines only, not on 200."
    assert result.imported.not_proven == (sentence,)
    assert f"\n- {sentence}\n" in (tmp_path / "x-de-en/MODEL_CARD.md").read_text()
    card = load(tmp_path / "x-de-en").card
    assert card.imported == result.imported and card.model.max_length == 256


def test_a_comparison_that_failed_is_no_pass():
    """A verdict follows from the numbers, whoever wrote them."""
    one = comparison._counted("greedy ids", 1)
    assert not one.passed
    assert not dataclasses.replace(one, max_abs_diff=0, passed=False).passed
