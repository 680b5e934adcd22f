"""Each comparison with the original notices the smallest difference at the last place it covers.

A good folder is converted while one number differs: in what the original computed (in
reference.npz), or in what the network computes (after its pass).
"""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from core.checkpoint.folder import load
from core.foreign import comparison
from core.foreign.importing import import_network
from core.kinds import KINDS
from core.text.tokenizer import PAD
from tests.core import saved_folders as s
from tests.core.seed_networks import make_seed

BITS = pytest.mark.parametrize("bits", [64, 32])
LAST_ROW = (-1, -1)  # the last sentence is the only one whose last token is no padding


@pytest.fixture(scope="module")
def limits(opus) -> dict[int, float]:
    """The limit of each comparison, computed here from the reference."""
    largest = np.abs(np.load(opus / "reference.npz")["logits_32"]).max()
    return {64: 1e-9, 32: 1e-4 * max(1.0, float(largest))}


@pytest.mark.parametrize("factor", [3.0, 0.3])
@BITS
@pytest.mark.parametrize("name", [*KINDS, "logits"])
def test_one_number_of_the_original(theirs, limits, name, bits, factor):
    """In the last layer, sentence, head and row; three times the limit is refused, a third not."""
    limit = limits[bits]

    def change(values: dict[str, np.ndarray]) -> None:
        array = values[f"{name}_{bits}"]
        place = (-1, -1, -1, -1, 0) if array.ndim == 5 else (-1, -1, 5)
        array[place] += factor * limit

    s.arrays(change)(theirs)
    what = "logits" if name == "logits" else "attention maps"
    if factor > 1:
        s.refused(theirs, f"^{what}, float{bits} differ by .*limit {limit:.2g}")
    else:
        compared = {one.what: one for one in s.convert(theirs).imported.compared}
        assert compared[f"{what}, float{bits}"].max_abs_diff > 0.1 * limit


def last_row(ours: Any, name: str) -> np.ndarray:
    """Return the numbers of a result of our network in its last row."""
    if name in KINDS:
        return ours.maps[name][-1, -1, -1, -1]
    return (ours.steps if name == "logits of single steps" else ours.logits)[-1]


def with_changed_run(monkeypatch, bits: int, change) -> None:
    """Change what our network computes in this precision."""
    real = comparison._run

    def run(network, batch):
        ours = real(network, batch)
        if ours.logits.dtype == f"float{bits}":
            change(ours)
        return ours

    monkeypatch.setattr(comparison, "_run", run)


CAUSES = {
    "logits": "all maps agree, so the last layer's values.* most for the original's id 5",
    "log-probabilities": "such as <pad>, is left in the softmax",
    "logits of single steps": "one path of the network uses another activation or mask",
    "encoder": "first in the encoder attention of layer 2",
    "decoder": "first in the decoder attention of layer 3: .* what decoder layer 2 writes",
    "cross": "first in the cross attention of layer 3: .* self-attention of decoder layer 3",
}


@pytest.mark.parametrize("by", [3.0, float("nan")])
@BITS
@pytest.mark.parametrize("name", CAUSES)
def test_one_number_of_the_network(theirs, limits, monkeypatch, name, bits, by):
    """Each result is compared by itself: no other one differs."""

    def change(ours: Any) -> None:
        row, difference = last_row(ours, name), by * limits[bits]
        if name == "log-probabilities":  # <pad>, which the original lacks, takes this probability
            row[PAD] = np.log(np.exp(row).sum() * difference)
        else:
            row[0 if name in KINDS else 7] += difference  # 7 is the original's id 5

    with_changed_run(monkeypatch, bits, change)
    what = "attention maps" if name in KINDS else name
    amount = "inf" if by != by else r"[\d.e-]+"
    s.refused(theirs, f"^{what}, float{bits} differ by {amount} .*{CAUSES[name]}")


def later(values: np.ndarray) -> tuple[int, int]:
    """Return the place of the last greedy id before the first <eos> or end of some sentence."""
    lengths = [list(row).index(0) if 0 in row else len(row) for row in values]
    sentence = int(np.argmax(lengths))
    assert lengths[sentence] > 3
    return sentence, lengths[sentence] - 1


def another(ids: np.ndarray, place: tuple[int, int]) -> None:
    ids[place] = 9 if ids[place] != 9 else 10


def ends_earlier(ids: np.ndarray) -> None:
    sentence, place = later(ids)
    ids[sentence, place:] = 0


GREEDY = {
    "the first id": lambda ids: another(ids, (2, 0)),
    "the last id": lambda ids: another(ids, later(ids)),
    "an earlier end": ends_earlier,
}


@BITS
@pytest.mark.parametrize("case", GREEDY)
def test_one_greedy_id_of_the_original(theirs, bits, case):
    """All logits agree; one id of one sentence differs."""
    s.arrays(lambda values: GREEDY[case](values[f"greedy_{bits}"]))(theirs)
    s.refused(theirs, f"^the greedy ids of 1 of 8 sentences differ in float{bits}, although")


@BITS
def test_one_greedy_id_of_the_network(theirs, monkeypatch, bits):
    def change(ours: Any) -> None:
        ids = ours.greedy[6]
        ours.greedy[6] = (*ids[:2], ids[2] % 7 + 4, *ids[3:])

    with_changed_run(monkeypatch, bits, change)
    s.refused(theirs, f"^the greedy ids of 1 of 8 sentences differ in float{bits}")


TOKENS: dict[str, s.Change] = {
    "the last id of the last line": s.tokens(
        lambda t: t["ids"][-1].__setitem__(-1, t["ids"][-1][-1] % 7 + 4)
    ),
    "one id more": s.tokens(lambda t: t["ids"][-1].append(4)),
    "one id less": s.tokens(lambda t: t["ids"][-1].pop()),
}


@pytest.mark.parametrize("case", TOKENS)
def test_one_token(theirs, case):
    TOKENS[case](theirs)
    s.refused(theirs, "^the tokens of 1 of 4 source lines differ")


@pytest.mark.parametrize("row", [0, s.LENGTH - 1])
@pytest.mark.parametrize("by", [3e-4, float("nan")])
def test_one_position_of_the_network(theirs, monkeypatch, row, by):
    """The formula itself differs, in one feature of the first or last position."""
    real = comparison.position_formula

    def formula(config):
        table = real(config).copy()
        table[row, -1] += by
        return table

    monkeypatch.setattr(comparison, "position_formula", formula)
    s.refused(theirs, f"^wrong positions: position {row} of")


def test_one_number_of_a_tied_table(theirs):
    def change(state: dict[str, torch.Tensor]) -> None:
        for name in ("model.encoder.embed_tokens.weight", "lm_head.weight"):
            state[name] = state["model.shared.weight"].clone()
        last = state["lm_head.weight"][-1]
        last[-1] = torch.nextafter(last[-1], torch.tensor(9.0))

    s.weights(change)(theirs)
    s.refused(theirs, "logits, float64 differ")


def test_the_reports_say_what_was_compared(theirs, limits):
    """The model card's columns hold the differences and the limits of config.json."""
    result = s.convert(theirs)
    card = (theirs.parent / "mine-de-en/MODEL_CARD.md").read_text()
    header, _, *rows = [line for line in card.splitlines() if line.startswith("|")]
    assert header == "| compared | largest difference | limit | passed |"
    assert rows == [
        f"| {one.what} | {one.max_abs_diff:.2g} | {one.limit:.2g} | yes |"
        for one in result.imported.compared
    ]
    found = {one.what: one for one in result.imported.compared}
    of_pass = ("attention maps", *list(CAUSES)[:3], "greedy ids")
    assert list(found) == [
        "positions",
        *(f"{what}, float{bits}" for bits in limits for what in of_pass),
        *(f"tokens of {n} lines" for n in ("4 source", "200 generated source")),
        "tokens of 200 generated target lines",
    ]
    for one in found.values():
        exact = "ids" in one.what or "tokens" in one.what
        assert one.passed and (one.max_abs_diff < one.limit or (exact and one.limit == 0))
    for bits, limit in limits.items():
        assert found[f"logits, float{bits}"].limit == pytest.approx(limit, rel=1e-6)
    model = load(theirs.parent / "mine-de-en").card.model
    assert (model.max_length, model.num_heads) == (s.LENGTH, s.HEADS)


def test_few_lines_are_a_gap_in_the_proof(tmp_path):
    """The reference has 8 lines: config.json and the model card say so."""
    seed, out = make_seed("hyunwoongko", tmp_path), tmp_path / "x-de-en"
    result = import_network(seed.family, seed.weights, out, seed.options(), seed.reference)
    sentence = "Tokens were compared on 8 lines only, not on 200."
    assert result.imported.not_proven == (sentence,)
    assert f"\n- {sentence}\n" in (out / "MODEL_CARD.md").read_text()
    card = load(out).card
    assert card.imported == result.imported and card.model.max_length == 256


def test_a_comparison_that_failed_is_no_pass():
    """A verdict follows from the numbers, whoever wrote them."""
    one = comparison._counted("greedy ids", 1)
    assert not one.passed
    assert not dataclasses.replace(one, max_abs_diff=0, passed=False).passed
