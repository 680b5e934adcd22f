"""The page Find the bug shows the broken network's numbers, and scores the answer by them."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from app.components.question import Answer
from app.lessons.texts import template, text
from app.look.markdown import plain
from app.state import address
from app.views.bugs import symptoms
from app.views.bugs.mistakes import MISTAKES
from app.views.bugs.symptoms import name_of
from core.config import DecodeConfig
from core.experiments import bugs
from tests.app.page_checks import (
    map_names,
    map_row,
    nothing_else,
    number,
    percent,
    side,
    translator,
)
from tests.app.rendered import Rendered, read, render, skip, unpacked

SENTENCE = "Ein Mann in einem roten Hemd spricht mit einem Straßenmusiker."
ENGLISH = "Two young men are playing soccer in the park."
TELLS = {
    "no_causal_mask": "on_future",
    "inverted_mask": "on_allowed",
    "reshaped": "tokens_read",
    "over_queries": "column_sums",
    "no_padding_mask": "on_padding",
    "shifted": "position",
    "unscaled": "scale",
    "swapped": "transposed",
}
"""The number that reveals each mistake, in page order."""
ORDER = list(TELLS)
NAMES = {bug: text("bugs", f"bug.{bug}.name") for bug in ORDER}
P = 3  # padding tokens


def row_texts(found: bugs.Symptoms) -> dict[str, str]:
    """Return the expected number of each row of the table, as text."""

    def span(pair):
        low, high = (f"{value:.2f}" for value in pair)
        return low if low == high else f"{low}\u2060–\u2060{high}"

    def or_none(value, written):
        return "none" if math.isnan(value) else written

    return {
        "probability": percent(math.exp(-found.loss)),
        "loss": number(found.loss, 3),
        "row_sums": span(found.row_sums),
        "column_sums": span(found.column_sums),
        "on_allowed": percent(found.on_allowed),
        "on_future": percent(found.on_future),
        "on_padding": percent(found.on_padding),
        "entropy": f"{found.entropy:.2f} bits",
        "scale": or_none(found.scale, f"{number(found.scale, 2)}×"),
        "same": or_none(found.same, number(found.same, 3)),
        "transposed": or_none(found.transposed, number(found.transposed, 3)),
        "position": str(found.position),
        "tokens_read": f"{found.tokens_read} of {found.tokens_probed} replaced",
    }


def rows_of(page: Rendered) -> list[tuple[str, ...]]:
    """Return the rows of the table: name, healthy, broken."""
    table = page.table("bug_numbers").itertuples(index=False)
    return [tuple(map(unescaped, row)) for row in table]


def rows_for(*found: bugs.Symptoms) -> list[tuple[str, ...]]:
    """Return the expected rows: each number that core measures, of each network."""
    columns = [row_texts(one) for one in found]
    return [
        (unescaped(name_of(name)), *(unescaped(column[name]) for column in columns))
        for name in columns[0]
    ]


def case(direction: str):
    net = translator(f"scratch-{direction}")
    return net, net.inspect(SENTENCE if direction == "de-en" else ENGLISH)


def page_of(place: int, direction: str = "de-en", source: str | None = None, **more) -> Rendered:
    source = source or (SENTENCE if direction == "de-en" else ENGLISH)
    return render("bugs", source=source, direction=direction, bug=str(place), **more)


def unescaped(written: str) -> str:
    """Return Markdown without backslashes and with plain instead of no-break spaces."""
    return written.replace("\\", "").replace("\u00a0", " ")


def answered(page: Rendered, name: str | None) -> Rendered:
    """Answer with the option of this name, or skip the question if None, and rerun the page."""
    (asked,) = page.payloads["asked_bug"]
    chosen = [i for i, option in enumerate(asked["options"]) if option["name"] == name]
    right = bool(chosen) and chosen[0] in {*asked["correct"], *asked["near"]}
    answer = Answer(asked["question"], tuple(chosen), right, name is None)
    state = {f"saved answer {asked['question']}": answer}
    return render("bugs", state=state, **dict(page.app.query_params))


@pytest.mark.parametrize(
    ("bug", "direction"),
    [*((bug, "de-en") for bug in ORDER), ("inverted_mask", "en-de"), ("swapped", "en-de")],
)
def test_the_table_and_the_question_of_each_bug_match_the_symptoms(bug, direction):
    net, record = case(direction)
    page = page_of(ORDER.index(bug) + 1, direction)
    every = {one: bugs.bug_symptoms(net, record, one) for one in (None, *NAMES)}
    assert rows_of(page) == rows_for(every[None], every[bug])
    # Two numbers share a row; the loss has a second one, as a probability.
    assert len(rows_of(page)) == len(dataclasses.fields(bugs.Symptoms))
    asked = page.payload("asked_bug")
    assert asked["layout"] == "list" and not asked["every"]
    assert asked["near"] == [] and asked["given"] is None
    by_name = sorted(NAMES, key=NAMES.__getitem__)
    assert [(o["label"], o["name"], o["said"], o["value"]) for o in asked["options"]] == [
        # The losses of other bugs would answer the questions about them.
        (*(NAMES[one],) * 3, "")
        for one in by_name
    ]
    assert asked["correct"] == [by_name.index(bug)]
    values = {f"{name}_healthy": value for name, value in row_texts(every[None]).items()}
    values |= row_texts(every[bug]) | {"root": "6.93"}
    assert f"{{{TELLS[bug]}}}" in template("bugs", f"bug.{bug}.seen")
    seen = [text("bugs", f"bug.{bug}.{part}", **values) for part in ("what", "seen")]
    assert asked["explanation"] == seen
    assert asked["uncertain"] == text("bugs", "question.unique")
    whole, here = row_texts(every[None]), row_texts(every[bug])
    two = [name for name in whole if whole[name] != here[name]][:2]
    assert [hint["text"] for hint in asked["hints"]] == [
        text("bugs", "question.hint", measure=name_of(name), here=here[name], healthy=whole[name])
        for name in two
    ]
    # The page must not reveal the bug before the answer.
    assert bug not in asked["question"]
    assert not any(item.where == "bug_answer" for item in page.items)
    nothing_else(
        page,
        "bug_numbers",
        fixed=("Least certain", "Healthy:", "Both networks", "cut off after"),
        but=lambda item: item.where in ("bug", "bug_kind"),
    )


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("bug", ["inverted_mask", "no_padding_mask"])
def test_the_maps_are_those_of_both_networks_with_their_own_masks(bug, kind):
    net, record = case("de-en")
    page = page_of(ORDER.index(bug) + 1, bug_kind=kind, bug_layer="1", bug_head="2")
    header, values = map_row(page, "bug_maps")
    assert map_names(header) == ["Healthy", "Broken"]
    assert header["site"] == kind.capitalize() and header["layers"] == [0, 1, 2, 3]
    opened = header["opened"]
    assert (opened["layer"], opened["head"]) == (1, 2)
    assert opened["names"] == {"layer": "bug_layer", "head": "bug_head"}
    pads = [(None, "<pad>")] * P
    source = [(i + 1, t.text) for i, t in enumerate(record.source)] + pads
    fed = [(i, t.text) for i, t in enumerate(record.target_in)] + pads
    produced = [(i + 1, t.text) for i, t in enumerate(record.target_out)] + pads
    queries = source if kind == "encoder" else produced
    keys = fed if kind == "decoder" else source
    assert [text for _, text in side(header, "keys")] == [text for _, text in keys]
    for which, tokens in (("queries", queries), ("keys", keys)):
        numbers = [at for at, _ in side(header, which)]
        assert numbers == list(range(tokens[0][0], tokens[0][0] + len(tokens)))
    language = {"encoder": "German", "decoder": "English", "cross": "English"}[kind]
    assert header["queries"]["words"].startswith(f"{language} token")
    packed, blobs = unpacked(page.payload("bug_maps"))

    def mask_of(name):
        at = packed[name]
        bits = np.unpackbits(np.frombuffer(blobs[at["at"] : at["at"] + at["length"]], np.uint8))
        return bits[: len(queries) * len(keys)].reshape(len(queries), len(keys)).astype(bool)

    runs = [bugs.bug_pass(net, record, one) for one in (None, bug)]
    for place, run in enumerate(runs):
        assert np.allclose(values[place], run.maps[kind], atol=1e-5)
        assert np.array_equal(mask_of(f"mask_{place}"), run.masks[kind])
    assert np.array_equal(mask_of("mask"), runs[0].masks[kind] | runs[1].masks[kind])


def test_both_translations_and_a_cut_off_one_are_shown():
    net, record = case("de-en")
    best = net.translate(SENTENCE, DecodeConfig(beam=1)).text
    for bug, ended in (("inverted_mask", False), ("unscaled", True), (ORDER[0], True)):
        page = page_of(ORDER.index(bug) + 1)
        written = bugs.bug_translation(net, record, bug)
        tokens = net.target_tokens(written)
        words = "".join((" " if t.starts_word else "") + t.text for t in tokens if not t.special)
        expected = f"Healthy:  {best}\nBroken:  {words.strip()}"
        if words.strip() == best:
            expected = f"Both networks write the same:  {best}"
        page.claim(expected, "bug_translations")
        cut = f"cut off after {len(record.target_out) + 10} tokens"
        assert any(cut in said for said in page.texts(kind="caption")) != ended


def test_the_code_of_each_mistake_makes_it():
    """Run the healthy and the broken line of each mistake: only the broken one makes it."""
    torch.manual_seed(0)
    B, T, H, d_k, PAD = 1, 4, 2, 3, 0
    q, k, scores, x, table = (
        torch.randn(*shape)
        for shape in ((B, H, T, d_k), (B, H, T, d_k), (B, H, T, T), (T, 6), (T + 1, 6))
    )
    ids = torch.tensor([5, 6, 7, PAD])
    allowed = torch.tensor([True, True, True, False])
    rows = torch.randn(B, T, H * d_k)

    def run(line, **more):
        names = dict(q=q, k=k, scores=scores, x=x, table=table, ids=ids, mask=allowed)
        names |= dict(B=B, T=T, H=H, d_k=d_k, PAD=PAD, math=math, torch=torch)
        names |= dict(W_q=lambda s: f"query of {s}", W_k=lambda s: f"key of {s}") | more
        exec(line, names)
        return SimpleNamespace(**{n: v for n, v in names.items() if n != "__builtins__"})

    good, bad = ({bug: MISTAKES[bug][i] for bug in ORDER} for i in (0, 1))
    root = math.sqrt(d_k)
    assert torch.allclose(run(good["unscaled"]).scores * root, run(bad["unscaled"]).scores)
    assert torch.allclose(run(good["unscaled"]).scores[0, 1, 2, 3], q[0, 1, 2] @ k[0, 1, 3] / root)
    assert torch.allclose(run(good["over_queries"]).weights.sum(-1), torch.ones(B, H, T))
    assert torch.allclose(run(bad["over_queries"]).weights.sum(-2), torch.ones(B, H, T))
    masked = run(good["inverted_mask"]).scores == -math.inf
    assert masked[..., 3].all() and not masked[..., :3].any()
    assert torch.equal(run(bad["inverted_mask"]).scores == -math.inf, ~masked)
    causal = run(good["no_causal_mask"]).mask
    assert causal.tolist() == [[i <= j and i < 3 for i in range(T)] for j in range(T)]
    assert run(bad["no_causal_mask"]).mask.tolist() == allowed.tolist()
    assert run(good["no_padding_mask"]).mask.tolist() == allowed.tolist()
    assert run(bad["no_padding_mask"]).mask.all()
    names = dict(x="x", memory="memory")
    swapped = run(good["swapped"], **names), run(bad["swapped"], **names)
    assert [(s.q, s.k) for s in swapped] == [
        ("query of x", "key of memory"),
        ("key of x", "query of memory"),
    ]
    assert torch.equal(run(good["shifted"]).x, x + table[:-1])
    assert torch.equal(run(bad["shifted"]).x, x + table[1:])
    split, cut = (run(lines["reshaped"], q=rows).q for lines in (good, bad))
    assert split.shape == cut.shape == (B, H, T, d_k)
    assert torch.equal(split[0, 1, 2], rows[0, 2, 3:])
    assert torch.equal(cut[0, 1].flatten(), rows[0, 2:].flatten())


def compared(measure: str, there: bugs.Symptoms, here: bugs.Symptoms) -> str:
    """Return the expected line that compares a wrong answer with the network's mistake."""
    numbers = {"there": row_texts(there)[measure], "here": row_texts(here)[measure]}
    return unescaped(text("bugs", "question.compare", measure=name_of(measure), **numbers))


def test_a_wrong_answer_is_compared_by_the_number_of_its_own_mistake(monkeypatch):
    """If its own number is the same, by another one: `swapped` may report another position."""
    net, record = case("de-en")
    measured = bugs.bug_symptoms
    here = measured(net, record, "shifted")
    page = page_of(ORDER.index("shifted") + 1)
    for answer in ("unscaled", "over_queries", "no_padding_mask", "reshaped"):
        found = answered(page, NAMES[answer])
        line = compared(TELLS[answer], measured(net, record, answer), here)
        assert line in map(unescaped, found.texts(kind="markdown"))
        given = found.payload("asked_bug")["given"]
        assert not given["right"] and not given["skipped"]
    for answer in (NAMES["shifted"], None):  # right, and skipped
        found = answered(page, answer)
        assert not any("that you chose" in said for said in found.texts())
        assert found.texts("bug_answer", "code_text") == [*MISTAKES["shifted"][:2]]

    def like_shifted(owner, record, bug):
        found = measured(owner, record, bug)
        return dataclasses.replace(found, position=1) if bug == "swapped" else found

    monkeypatch.setattr(bugs, "bug_symptoms", like_shifted)
    page = answered(page_of(ORDER.index("swapped") + 1), NAMES["shifted"])
    line = compared("probability", here, measured(net, record, "swapped"))
    assert line in map(unescaped, page.texts(kind="markdown"))


def test_mistakes_with_the_same_numbers_both_count(monkeypatch):
    measured = bugs.bug_symptoms

    def coinciding(owner, record, bug):
        return measured(owner, record, "swapped" if bug == "unscaled" else bug)

    monkeypatch.setattr(bugs, "bug_symptoms", coinciding)
    page = page_of(ORDER.index("swapped") + 1)
    asked = page.payload("asked_bug")
    options = [option["name"] for option in asked["options"]]
    assert [options[i] for i in asked["correct"]] == [NAMES["swapped"]]
    assert [options[i] for i in asked["near"]] == [NAMES["unscaled"]]
    answers = f"{NAMES['swapped']}; {NAMES['unscaled']}"
    several = text("bugs", "question.several", answers=answers)
    assert asked["uncertain"].startswith(several)
    found = answered(page, NAMES["unscaled"])
    assert found.payload("asked_bug")["given"]["right"]
    assert not any("that you chose" in text for text in found.texts())


def test_a_sentence_that_shows_nothing_is_not_asked_about(monkeypatch):
    """Without padding a missing padding mask has no effect; another sentence is offered."""
    monkeypatch.setattr(bugs, "PADDING", 0)
    page = page_of(ORDER.index("no_padding_mask") + 1, source="Der Hund schläft heute.")
    assert "asked_bug" not in page.payloads
    page.claim(text("questions", "page.none", reason=text("bugs", "page.no_effect")))
    assert any("it cannot be padded beside a longer one" in said for said in page.texts())
    button = page.app.button("bug_other_sentence")
    other = unescaped(button.label).removeprefix("Try: ")
    monkeypatch.undo()
    assert button.click().run().text_area("source").value == other != "Der Hund schläft heute."
    assert not page.app.exception


def opens_at(header: dict[str, Any]) -> tuple[str, int, int]:
    return header["site"].lower(), header["opened"]["layer"], header["opened"]["head"]


def changed_most(bug: str, kind: str, layer: int, head: int) -> bool:
    """Return whether a bug changes no head of a kind more, and no earlier kind half as much."""
    net, record = case("de-en")
    passes = [bugs.bug_pass(net, record, one) for one in (bug, None)]
    changes = {
        of: np.abs(passes[0].maps[of] - passes[1].maps[of]).mean((-1, -2))
        for of in ("encoder", "decoder", "cross")
    }
    half = max(of.max() for of in changes.values()) / 2
    first = next(of for of in changes if changes[of].max() >= half)
    return kind == first and changes[kind][layer, head] > changes[kind].max() - 1e-4


def test_a_bug_opens_where_it_is_seen_and_its_numbers_are_a_hint():
    page = page_of(1)
    for place, bug in enumerate(ORDER[:4]):
        assert changed_most(bug, *opens_at(map_row(page, "bug_maps")[0]))
        (fold,) = [one for one in page.app.expander if one.label == text("bugs", "page.hint")]
        assert not fold.proto.expanded and fold.table, "the numbers give the answer away"
        page.app.button("bug_next").click().run()
        page = read(page.app)
        assert page.app.session_state["bug"] == place + 2
    skip(page.app)
    assert not [one for one in page.app.expander if one.label == text("bugs", "page.hint")]
    assert text("bugs", "page.numbers") in read(page.app).texts("bug_numbers", "subheader")


def test_steps_and_links_select_a_bug_and_numbers_are_explained():
    page = page_of(1)
    assert page.app.button("bug_previous").disabled and not page.app.button("bug_next").disabled
    page.app.button("bug_next").click().run()
    assert page.app.session_state["bug"] == 2
    last = page_of(8)
    assert last.app.button("bug_next").disabled
    for wrong in ("9", "0", "x"):
        found = page_of(1, bug_kind="other", **{"bug_layer": "77"}) if wrong == "x" else None
        if found is None:
            found = render("bugs", source=SENTENCE, direction="de-en", bug=wrong)
        assert found.app.session_state["bug"] == 1
        header, _ = map_row(found, "bug_maps")
        assert changed_most(ORDER[0], *opens_at(header))
        site, layer, _ = opens_at(header)
        unknown = [("bug_kind", "other", site), ("bug_layer", "77", layer)]
        unknown = unknown if wrong == "x" else [("bug", wrong, 1)]
        lines = " ".join(address.unavailable(name, given, str(now)) for name, given, now in unknown)
        assert plain(lines) in found.texts(kind="caption")
    opened = render("bugs", "bug_measures", source=SENTENCE, direction="de-en")
    told = [unescaped(one) for one in opened.texts("bug_measures", "markdown")]
    assert [one.split(".** ")[0].removeprefix("**") for one in told] == [
        name for name, *_ in rows_of(opened)
    ]
    assert any("√dₖ is 6.93" in one for one in told)
    assert "Up to 8 source" in told[-1]


def test_the_baseline_is_broken_in_the_same_way():
    baseline, scratch = page_of(7, model="baseline"), page_of(7)
    net = translator("baseline-de-en")
    broken = (bugs.bug_symptoms(net, net.inspect(SENTENCE), bug) for bug in (None, "unscaled"))
    assert rows_of(baseline) == rows_for(*broken)
    for page in (baseline, scratch):
        said = " ".join(page.texts(kind="caption"))
        assert ("torch.nn.MultiheadAttention" in said) == (page is baseline)


def test_equal_numbers_of_both_networks_are_counted_and_left_out(monkeypatch):
    """Presentation mode shows only the numbers that differ: here two of five."""
    healthy = {"loss": "1", "scale": "2", "same": "3", "entropy": "4", "position": "5"}
    broken = healthy | {"loss": "9", "position": "6"}
    shown, said = [], []
    monkeypatch.setattr(symptoms, "written", lambda numbers: numbers)
    monkeypatch.setattr(symptoms.st, "table", lambda rows, **_: shown.extend(rows))
    monkeypatch.setattr(symptoms.st, "caption", said.append)
    symptoms.show_differences(healthy, broken)
    assert [tuple(row.values())[1:] for row in shown] == [("1", "9"), ("5", "6")]
    assert len(said) == 1 and "3 of 5 numbers" in said[0]
