"""Edits as values: equality, validation, removal and the text form."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.record.edits import (
    OFF,
    STRETCHED,
    Edge,
    EditError,
    Edits,
    Limits,
    PositionEdit,
    Row,
    Temperature,
)

KINDS = ("encoder", "decoder", "cross")
LINKS = {
    "causal": Edits(causal_mask=False),
    "padding": Edits(padding_mask=False),
    "hide.3": Edits(hidden_source=(3,)),
    "positions.source.scale-0": Edits(source_positions=OFF),
    "positions.target.stretch-2": Edits(target_positions=STRETCHED),
    "positions.source.scale-0.5_shift--3_order-1-0": Edits(
        source_positions=PositionEdit(scale=0.5, shift=-3, order=(1, 0))
    ),
    "off.cross.2.0": Edits(heads_off={("cross", 2, 0)}),
    "uniform.encoder.0.1": Edits(heads_uniform={("encoder", 0, 1)}),
    "mean.decoder.1.2": Edits(heads_mean={("decoder", 1, 2)}),
    "cut.cross.2.0.5.3": Edits(edges=(Edge("cross", 2, 0, 5, 3),)),
    "cut.cross.all.all.all.3": Edits(edges=(Edge("cross", None, None, None, 3),)),
    "times.cross.2.0.5.3.4": Edits(edges=(Edge("cross", 2, 0, 5, 3, 4.0),)),
    "times.decoder.2.all.5.3.0.000001": Edits(edges=(Edge("decoder", 2, None, 5, 3, 1e-6),)),
    "row.cross.2.0.5.0.1-0.9-0": Edits(rows=(Row("cross", 2, 0, 5, (0.1, 0.9, 0)),)),
    "temp.cross.2.0.0.5": Edits(temperatures=(Temperature("cross", 2, 0, 0.5),)),
}


@pytest.mark.parametrize("text", LINKS)
def test_each_kind_of_edit_is_parsed_and_written(text):
    assert Edits.parse(text) == (LINKS[text], [])
    assert LINKS[text].to_text() == text
    assert LINKS[text].listed() == [LINKS[text]] and LINKS[text] != Edits()


def test_a_star_means_all():
    assert Edits.parse("cut.cross.*.all.*.3")[0] == LINKS["cut.cross.all.all.all.3"]


small = st.integers(0, 4)
kinds = st.sampled_from(KINDS)
heads = st.frozensets(st.tuples(kinds, small, small), max_size=4)
maybe = st.none() | small
orders = st.integers(0, 6).flatmap(lambda n: st.permutations(range(n))).map(tuple)
positions = st.builds(
    PositionEdit,
    scale=st.floats(-10, 10),
    stretch=st.integers(-5, 5),
    shift=st.integers(-99, 99),
    order=orders,
)
factors = st.just(0.0) | st.floats(1e-6, 1e6)
weights = st.lists(st.just(0.0) | st.floats(0, 9), min_size=1, max_size=9).filter(
    lambda given: sum(given) > 1e-3
)


def without_conflicts(many):
    """Return a strategy for tuples of edits that do not conflict."""
    return st.lists(many, max_size=5, unique_by=lambda one: one.where).map(tuple)


edits = st.builds(
    Edits,
    causal_mask=st.booleans(),
    padding_mask=st.booleans(),
    hidden_source=st.lists(small, max_size=4).map(tuple),
    source_positions=positions,
    target_positions=positions,
    heads_off=heads,
    heads_uniform=heads,
    edges=without_conflicts(st.builds(Edge, kinds, maybe, maybe, maybe, maybe, factors)),
    rows=without_conflicts(st.builds(Row, kinds, small, small, small, weights.map(tuple))),
    temperatures=without_conflicts(
        st.builds(Temperature, kinds, small, small, st.floats(0.01, 100))
    ),
)


@settings(max_examples=50, deadline=None)
@given(edits, st.randoms())
def test_the_text_form_round_trips(found, rng):
    text = found.to_text()
    assert re.fullmatch(r"[A-Za-z0-9.~_-]*", text)
    assert Edits.parse(text) == (found, [])
    parts = text.split("~") if text else []
    rng.shuffle(parts)
    assert Edits.parse("~".join(parts)) == (found, [])  # in any order
    assert hash(Edits.parse(text)[0]) == hash(found)


@settings(max_examples=50, deadline=None)
@given(edits)
def test_edits_can_be_removed_one_by_one(found):
    singles = found.listed()
    assert [one.to_text() for one in singles] == [p for p in found.to_text().split("~") if p]
    left = found
    for count, one in enumerate(singles, start=1):
        assert one.listed() == [one]
        assert found.without(one).plus(one) == found
        left = left.without(one)
        assert left.listed() == singles[count:]
    assert left == Edits()


def test_order_and_duplicates_do_not_matter():
    edges = [Edge("cross", 0, h, None, k, 2.0) for h in range(3) for k in range(3)]
    shuffled = random.Random(1).sample(edges, len(edges))
    assert Edits(edges=tuple(edges)) == Edits(edges=tuple(shuffled))
    assert Edits(edges=(edges[0], edges[0])) == Edits(edges=(edges[0],))
    assert Edits(hidden_source=(3, 1, 3)) == Edits(hidden_source=(1, 3))


def test_edits_without_effect_are_dropped():
    edge, temperature = Edge("cross", 0, 0, 0, 0, 1.0), Temperature("cross", 0, 0, 1.0)
    assert Edits(edges=(edge,), temperatures=(temperature,)) == Edits()
    assert Edits.parse("") == (Edits(), []) and Edits().to_text() == ""
    assert Edits.parse("temp.cross.0.0.1~positions.source.scale-1") == (Edits(), [])


def test_rows_are_normalised():
    assert Row("cross", 0, 0, 0, (1, 2, 1)).weights == (0.25, 0.5, 0.25)
    thirds = Row("cross", 0, 0, 0, (1, 1, 1))
    assert thirds.weights == (0.333333,) * 3
    assert Row("cross", 0, 0, 0, thirds.weights) == thirds


WRONG = {
    "a kind": lambda: Edge("middle", 0, 0, 0, 0),
    "a layer below 0": lambda: Edge("cross", -1, 0, 0, 0),
    "a layer of None": lambda: Temperature("cross", None, 0, 2.0),
    "a head of True": lambda: Row("cross", 0, True, 0, (1,)),
    "a key above the maximum": lambda: Edge("cross", 0, 0, 0, 10_000),
    "a factor below 0": lambda: Edge("cross", 0, 0, 0, 0, -1.0),
    "a NaN factor": lambda: Edge("cross", 0, 0, 0, 0, float("nan")),
    "an infinite factor": lambda: Edge("cross", 0, 0, 0, 0, float("inf")),
    "a factor near 0": lambda: Edge("cross", 0, 0, 0, 0, 1e-9),
    "a row without weights": lambda: Row("cross", 0, 0, 0, ()),
    "a row of zeros": lambda: Row("cross", 0, 0, 0, (0.0, 0.0)),
    "a weight below 0": lambda: Row("cross", 0, 0, 0, (1.5, -0.5)),
    "a NaN weight": lambda: Row("cross", 0, 0, 0, (1.0, float("nan"))),
    "a long row": lambda: Row("cross", 0, 0, 0, (1.0,) * 513),
    "a temperature of 0": lambda: Temperature("cross", 0, 0, 0.0),
    "a NaN temperature": lambda: Temperature("cross", 0, 0, float("nan")),
    "a huge shift": lambda: PositionEdit(shift=10**9),
    "a NaN scale": lambda: PositionEdit(scale=float("nan")),
    "a head both off and at its mean": lambda: Edits(
        heads_off={("cross", 0, 0)}, heads_mean={("cross", 0, 0)}
    ),
    "two factors of one edge": lambda: Edits(
        edges=(Edge("cross", 0, 0, 0, 0), Edge("cross", 0, 0, 0, 0, 2.0))
    ),
    "two rows of one query": lambda: Edits(
        rows=(Row("cross", 0, 0, 0, (1,)), Row("cross", 0, 0, 0, (0, 1)))
    ),
    "201 edits": lambda: Edits(hidden_source=tuple(range(201))),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_invalid_edits_are_rejected_in_one_line(wrong):
    with pytest.raises(EditError) as refused:
        WRONG[wrong]()
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


def test_parse_keeps_valid_parts_and_reports_the_others():
    broken = [
        "off.cross.2",
        "off.middle.0.0",
        "off.cross.-1.0",
        "off.cross.2.0.0",
        "temp.cross.0.0.999",
        "temp.cross.0.0.nan",
        "temp.cross.0.0.1e1",
        "row.cross.0.0.0.0-0",
        "times.cross.0.0.0.0.-2",
        "hide.٣",
        "positions.source.order-0-2",
        "",
        "<script>\n",
    ]
    text = "~".join([*broken[:6], "hide.2", *broken[6:], "off.cross.0.1", "mean.cross.0.1"])
    found, problems = Edits.parse(text)
    assert found == Edits(hidden_source=(2,), heads_off={("cross", 0, 1)})
    assert len(problems) == len(broken) + 1
    for part, problem in zip([*broken, "mean.cross.0.1"], problems, strict=True):
        assert problem.startswith(repr(part)) and "\n" not in problem
    assert "a temperature of 999.0 is out of range" in problems[4]
    assert "it conflicts with an earlier edit" in problems[-1]


def test_parse_is_bounded_for_large_inputs():
    many = "~".join(f"cut.cross.0.0.{i}.0" for i in range(1000))
    found, problems = Edits.parse(many)
    assert len(found.edges) == 200 and found.edges[-1].query == 199
    assert problems == ["800 more edits are ignored: the limit is 200"]
    _, problems = Edits.parse("~".join(["x"] * 1000))
    assert len(problems) == 21 and problems[-1] == "980 more problems are not listed"
    for text in (
        "~" * 10**6,
        "off.cross.0.0~" * 70_000,
        "row.cross.0.0.0." + "1-" * 500_000,
        "hide." + "9" * 10**6,
        "positions.source.order-" + "0-" * 500_000,
        "x" * 10**7,
    ):
        found, problems = Edits.parse(text)
        assert found in (Edits(), Edits(heads_off={("cross", 0, 0)})) and problems
        assert sum(map(len, problems)) < 5000


LIMITS = Limits(2, 3, 4, 20, source_length=6)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("off.encoder.2.0", "encoder layer 2, head 0 cannot be switched off: counted from 0, the "),
        ("mean.cross.2.4", "cross layer 2, head 4 cannot be set to its mean: counted from 0"),
        ("uniform.encoder.2.0", "cannot be made uniform: counted from 0, the layers end at 1"),
        ("temp.cross.3.0.2", "cross layer 3, head 0 cannot be edited: counted from 0"),
        ("cut.cross.all.9.all.0", "cross layer all, head 9 cannot be edited"),
        ("hide.6", "position 6 cannot be hidden: there are 6 tokens"),
        ("cut.cross.0.0.0.6", "key 6 of cross does not exist: the source ends at 5, counted"),
        ("cut.encoder.0.0.6.0", "query 6 of encoder does not exist: the source ends at 5"),
        ("cut.decoder.0.0.20.0", "query 20 of decoder does not exist: the target ends at 19"),
        ("row.cross.0.0.0.0-0-0-0-0-0-1", "key 6 of cross does not exist"),
        ("row.decoder.0.0.1.0-0-1", "has weight only on masked keys"),
    ],
)
def test_fitting_reports_inapplicable_edits(text, problem):
    good = Edits.parse("off.encoder.1.3~cut.cross.2.3.19.5~row.decoder.0.0.2.0-0-1")[0]
    both, problems = Edits.parse(f"{text}~{good.to_text()}")
    assert problems == []
    kept, problems = both.fitting(LIMITS)
    assert kept == good and len(problems) == 1 and problem in problems[0]
    assert good.fitting(LIMITS) == (good, [])


def test_a_row_needs_an_unmasked_key():
    row = Edits.parse("row.cross.0.0.0.0-1~hide.1")[0]
    kept, (problem,) = row.fitting(LIMITS)
    assert kept == Edits(hidden_source=(1,)) and "only on masked keys" in problem
    assert Edits.parse("row.decoder.0.0.1.0-0-1~causal")[0].fitting(LIMITS)[1] == []
