"""Edits as values: equality, validation, removal and the text form."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.record.edits import (
    OFF,
    STRETCHED,
    Donor,
    Edge,
    EditError,
    Edits,
    HeadPatch,
    Limits,
    Patch,
    PositionEdit,
    Push,
    RandomPush,
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
    "pass.9-8-2.1-30": Edits(donor=Donor((9, 8, 2), (1, 30))),
    "copy.encoder.0.3.1": Edits(patches=(Patch("encoder", 0, 3, 1),)),
    "copyhead.cross.2.0.5.3": Edits(head_patches=(HeadPatch("cross", 2, 0, 5, 3),)),
    "push.decoder.4.2.77.568.16.5": Edits(pushes=(Push("decoder", 4, 2, 77, 568, 16.5),)),
    "push.encoder.0.2.none.568.-3": Edits(pushes=(Push("encoder", 0, 2, None, 568, -3),)),
    "pushrandom.encoder.0.2.7.0.000001": Edits(pushes=(RandomPush("encoder", 0, 2, 7, 1e-6),)),
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
sides = st.sampled_from(KINDS[:2])
strengths = st.floats(-1e6, 1e6)
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
    patches=without_conflicts(st.builds(Patch, sides, small, small, small)),
    head_patches=without_conflicts(st.builds(HeadPatch, kinds, small, small, small, small)),
    pushes=without_conflicts(
        st.builds(Push, sides, small, small, st.none() | small, st.integers(5, 9), strengths)
        | st.builds(RandomPush, sides, small, small, small, strengths)
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
    "a copy in cross-attention": lambda: Patch("cross", 0, 0, 0),
    "a donor position below 0": lambda: Patch("encoder", 0, 0, -1),
    "a donor query above the maximum": lambda: HeadPatch("cross", 0, 0, 0, 10_000),
    "a push of a token towards itself": lambda: Push("encoder", 0, 0, 5, 5, 1.0),
    "a push towards no token": lambda: Push("encoder", 0, 0, 5, None, 1.0),
    "a huge token": lambda: Push("encoder", 0, 0, 5, 10**9, 1.0),
    "a NaN strength": lambda: Push("encoder", 0, 0, 5, 6, float("nan")),
    "an infinite strength": lambda: RandomPush("encoder", 0, 0, 5, float("inf")),
    "a seed of None": lambda: RandomPush("encoder", 0, 0, None, 1.0),
    "two copies to one state": lambda: Edits(
        patches=(Patch("encoder", 0, 0, 0), Patch("encoder", 0, 0, 1))
    ),
    "a pass without <eos>": lambda: Donor((9, 8), (1,)),
    "a pass without <bos>": lambda: Donor((9, 2), (9,)),
    "a pass with padding": lambda: Donor((0, 2), (1,)),
    "an empty pass": lambda: Donor((), (1,)),
    "a long pass": lambda: Donor((9,) * 512 + (2,), (1,)),
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
        "pass.9-8.1",
        "copy.cross.0.0.0",
        "copy.encoder.0.0.x",
        "push.encoder.0.0.5.6.1e3",
        "pushrandom.encoder.0.0.5.9999999",
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
        "pass." + "9-" * 500_000 + "2.1",
        "x" * 10**7,
    ):
        found, problems = Edits.parse(text)
        assert found in (Edits(), Edits(heads_off={("cross", 0, 0)})) and problems
        assert sum(map(len, problems)) < 5000


LIMITS = Limits(2, 3, 4, 20, source_length=6, source_vocab=40, target_vocab=50)


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
        ("copy.encoder.3.0.0", "the encoder has no state after layer 3: the layers end at 2, and"),
        ("copy.encoder.2.6.0", "position 6 of encoder does not exist: the source ends at 5"),
        ("copy.decoder.3.20.0", "position 20 of decoder does not exist: the target ends at 19"),
        ("copy.encoder.0.0.3", "position 3 of encoder cannot be copied: the other pass ends at 2"),
        ("copyhead.cross.2.3.0.2", "query 2 of cross cannot be copied: the other pass ends at 1"),
        ("copyhead.cross.3.0.0.0", "cross layer 3, head 0 cannot be copied: counted from 0"),
        ("push.decoder.4.0.5.6.1", "the decoder has no state after layer 4"),
        ("push.decoder.3.0.5.60.1", "token 60 does not exist: the vocabulary ends at 49"),
        ("push.encoder.0.0.50.6.1", "token 50 does not exist"),
        ("pushrandom.encoder.0.6.5.1", "position 6 of encoder does not exist"),
    ],
)
def test_fitting_reports_inapplicable_edits(text, problem):
    good = Edits.parse(
        "off.encoder.1.3~cut.cross.2.3.19.5~row.decoder.0.0.2.0-0-1~pass.9-39-2.1-30~"
        "copy.encoder.2.5.2~copy.decoder.3.19.1~copyhead.cross.2.3.19.1~push.encoder.0.5.1.49.2"
    )[0]
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


@pytest.mark.parametrize(
    ("donor", "problem"),
    [
        ("pass.9-40-2.1", "token 40 does not exist: the vocabulary ends at 39"),
        ("pass.9-2.1-50", "token 50 does not exist: the vocabulary ends at 49"),
        (f"pass.{'9-' * 20}2.1", "a pass of 21 source tokens is too long: the limit is 20"),
        ("hide.1", "copies need the pass that they come from"),
    ],
)
def test_copies_go_with_their_donor(donor, problem):
    copies = "copy.encoder.0.0.0~copyhead.encoder.0.0.1.0~hide.2"
    edits, problems = Edits.parse(f"{donor}~{copies}")
    kept, (found,) = edits.fitting(LIMITS)
    assert not problems and problem in found
    assert not kept.copies and kept.donor is None and 2 in kept.hidden_source


def test_the_donor_is_shared_and_replaced_as_a_whole():
    donor, copies = "pass.9-8-2.1-30", ("copy.encoder.0.3.1", "copyhead.cross.0.0.1.1")
    both = Edits.parse("~".join(("hide.1", donor, *copies)))[0]
    first, second, of_donor = (Edits.parse(text)[0] for text in (*copies, donor))
    assert both.without(of_donor) == Edits(hidden_source=(1,))
    assert both.without(first).donor == both.donor
    assert both.without(first).without(second) == Edits(hidden_source=(1,))
    assert both.without(Edits(hidden_source=(1,))).plus(Edits(hidden_source=(1,))) == both
    other = Edits(donor=Donor((7, 2), (1,)), patches=(Patch("encoder", 1, 0, 0),))
    assert both.plus(other) == Edits(hidden_source=(1,), donor=other.donor, patches=other.patches)
    again = Edits(donor=both.donor, patches=(Patch("encoder", 0, 3, 2),))
    assert both.plus(again).to_text() == both.to_text().replace("0.3.1", "0.3.2")
    assert Edits.parse(f"{donor}~pass.7-2.1")[1][0].endswith("it conflicts with an earlier edit")


def test_a_push_of_no_strength_is_no_edit():
    pushes = Push("encoder", 0, 0, 5, 6, 0.0), RandomPush("decoder", 1, 0, 5, -4e-7)
    assert Edits(pushes=pushes) == Edits()
