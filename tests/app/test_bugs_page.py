"""The page Find the bug shows the broken network's numbers, and scores the answer by them."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from app.components.question import Answer
from app.views.bugs import symptoms
from core.config import DecodeConfig
from core.experiments import bugs
from core.record.capture import capture
from core.text.tokenizer import BOS, PAD
from tests.app.page_checks import (
    map_names,
    map_row,
    nothing_else,
    number,
    percent,
    side,
    translator,
)
from tests.app.rendered import Rendered, render, unpacked

SENTENCE = "Ein Mann in einem roten Hemd spricht mit einem Straßenmusiker."
ENGLISH = "Two young men are playing soccer in the park."
NAMES = {
    "unscaled": "The scores are not divided by √d_k",
    "over_queries": "The softmax runs over the queries",
    "inverted_mask": "The mask is inverted",
    "no_causal_mask": "The decoder has no causal mask",
    "no_padding_mask": "Padding is not masked",
    "swapped": "Query and key are swapped",
    "shifted": "Positions are shifted by one",
    "reshaped": "Heads are reshaped instead of split",
}
ORDER = (
    "no_causal_mask inverted_mask reshaped over_queries no_padding_mask shifted unscaled swapped"
).split()
TELLS = {
    "unscaled": "Scale of the scores, relative to the healthy network",
    "over_queries": "Sums of columns",
    "inverted_mask": "Weight on cells that a correct mask allows",
    "no_causal_mask": "Decoder's weight on later tokens",
    "no_padding_mask": "Encoder's weight on padding",
    "swapped": "Correlation of log-weights with the transposed healthy scores",
    "shifted": "Position of the first token, counted from 0",
    "reshaped": "Source tokens that the map of a first-layer head depends on (fewest of all heads)",
}
"""The table row whose number reveals each mistake."""
P = 3  # padding tokens


def row_texts(found: bugs.Symptoms) -> dict[str, str]:
    """Return the expected number of each row of the table, as text."""

    def span(pair):
        low, high = (f"{value:.2f}" for value in pair)
        return low if low == high else f"{low}\u2060–\u2060{high}"

    def or_none(value, text):
        return "none" if math.isnan(value) else text

    return {
        "Mean probability per token (geometric), fed the healthy translation": percent(
            math.exp(-found.loss)
        ),
        "Healthy translation: loss per token (nats)": number(found.loss, 3),
        "Sums of rows": span(found.row_sums),
        "Sums of columns": span(found.column_sums),
        "Weight on cells that a correct mask allows": percent(found.on_allowed),
        "Decoder's weight on later tokens": percent(found.on_future),
        "Encoder's weight on padding": percent(found.on_padding),
        "Entropy of a row, first encoder layer": f"{found.entropy:.2f} bits",
        TELLS["unscaled"]: or_none(found.scale, f"{number(found.scale, 2)}×"),
        "Correlation of log-weights with the healthy scores": or_none(
            found.same, number(found.same, 3)
        ),
        TELLS["swapped"]: or_none(found.transposed, number(found.transposed, 3)),
        TELLS["shifted"]: str(found.position),
        TELLS["reshaped"]: f"{found.tokens_read} of {found.tokens_probed}",
    }


def case(direction: str):
    net = translator(f"scratch-{direction}")
    return net, net.inspect(SENTENCE if direction == "de-en" else ENGLISH)


def page_of(place: int, direction: str = "de-en", source: str | None = None, **more) -> Rendered:
    source = source or (SENTENCE if direction == "de-en" else ENGLISH)
    return render("bugs", source=source, direction=direction, bug=str(place), **more)


def ids(tokens) -> list[int]:
    return [token.id for token in tokens]


def pass_of(net, record, bug):
    """Return maps and log-probabilities of the sentence, run in a batch with a longer copy."""
    source, target = ids(record.source), ids(record.target_out)
    sources = torch.tensor([source + [PAD] * P, [*source[:-1], *source[:P], source[-1]]])
    fed = [BOS, *target[:-1]]
    targets = torch.tensor([fed + [PAD] * P, [*fed, *target[:P]]])
    with (
        net.exclusive_model() as model,
        torch.inference_mode(),
        bugs.broken(model, bug),
        capture(model) as captured,
    ):
        logits = model(sources, targets)[0, : len(target)]
    log_probs = logits.log_softmax(-1)[range(len(target)), target]
    return {k: captured.maps(k)[:, 0].numpy() for k in ("encoder", "decoder", "cross")}, log_probs


def unescaped(text: str) -> str:
    """Return Markdown without backslashes and with plain instead of no-break spaces."""
    return text.replace("\\", "").replace("\u00a0", " ")


def answered(page: Rendered, name: str | None) -> Rendered:
    """Answer with the option of this name, or skip the question if None, and rerun the page."""
    (asked,) = page.payloads["asked_bug"]
    chosen = [i for i, option in enumerate(asked["options"]) if option["name"] == name]
    right = bool(chosen) and chosen[0] in {*asked["correct"], *asked["near"]}
    answer = Answer(asked["question"], tuple(chosen), right, name is None)
    state = {f"saved answer {asked['question']}": answer}
    return render("bugs", state=state, **dict(page.app.query_params))


@pytest.mark.parametrize("direction", ["de-en", "en-de"])
@pytest.mark.parametrize("place", range(1, 9))
def test_the_table_and_the_question_of_each_bug_match_the_symptoms(place, direction):
    net, record = case(direction)
    bug = ORDER[place - 1]
    page = page_of(place, direction)
    every = {one: bugs.bug_symptoms(net, record, one) for one in (None, *NAMES)}
    healthy, broken = row_texts(every[None]), row_texts(every[bug])
    table = page.table("bug_numbers")
    assert list(table.columns)[1:] == ["Healthy", "Broken"]
    assert [tuple(map(unescaped, row)) for row in table.itertuples(index=False)] == [
        tuple(map(unescaped, (name, healthy[name], broken[name]))) for name in healthy
    ]
    log_probs = pass_of(net, record, bug)[1]
    assert float(-log_probs.mean()) == pytest.approx(every[bug].loss, abs=1e-5)

    asked = page.payload("asked_bug")
    assert asked["layout"] == "list" and asked["prompt"] == "Which mistake is it?"
    assert not asked["every"] and asked["near"] == [] and asked["given"] is None
    by_name = sorted(NAMES, key=NAMES.__getitem__)
    assert [(o["label"], o["name"], o["said"]) for o in asked["options"]] == [
        (NAMES[one],) * 3 for one in by_name
    ]
    assert [o["value"] for o in asked["options"]] == [number(every[o].loss, 3) for o in by_name]
    assert asked["correct"] == [by_name.index(bug)]
    assert asked["words"]["yours"] == "Your answer: {option}."
    seen = asked["explanation"][1]
    assert broken[TELLS[bug]] in seen
    if bug not in ("inverted_mask", "swapped", "unscaled"):
        assert healthy[TELLS[bug]] in seen.split("healthy network")[-1]
    assert asked["uncertain"] == (
        "The numbers of the seven other mistakes differ from those of this one. Beside each "
        "mistake is the loss per token, in nats, that it would give on this sentence; in the "
        f"broken network it is {number(every[bug].loss, 3)}."
    )
    # The page must not reveal the bug before the answer.
    assert bug not in asked["question"] and "asked_bug" in page.payloads
    assert not any(item.where == "bug_answer" for item in page.items)


SEEN = {
    "unscaled": "In the first encoder layer the differences of log-weights are {scale} those of "
    "the healthy scores, and √d_k is 6.93; the entropy of a row is {entropy} there, and "
    "{entropy_healthy} in the healthy network.",
    "over_queries": "The sums of the columns are {columns} and those of the rows {rows}; in the "
    "healthy network they are {columns_healthy} and {rows_healthy}.",
    "inverted_mask": "Of all weight, {allowed} is on cells that a correct mask allows; in the "
    "healthy network it is {allowed_healthy}.",
    "no_causal_mask": "Of the weight of the decoder's self-attention, {future} is on later tokens, "
    "and in the healthy network {future_healthy}; of the encoder's weight, {padding} is on "
    "padding.",
    "no_padding_mask": "Of the encoder's weight, {padding} is on padding, and in the healthy "
    "network {padding_healthy}; of the decoder's weight, {future} is on later tokens.",
    "swapped": "In the first encoder layer the correlation of the log-weights with the transposed "
    "healthy scores is {transposed}, and with the healthy scores themselves {same}.",
    "shifted": "The vector that is added to the first source token is that of position {position}; "
    "in the healthy network it is that of position {position_healthy}.",
    "reshaped": "For each head of the first layer, count the replaced tokens that change its map. "
    "The smallest count is {read}; in the healthy network it is {read_healthy}.",
}


@pytest.mark.parametrize("bug", SEEN)
def test_the_explanation_names_the_number_that_shows_the_mistake(bug):
    net, record = case("de-en")
    asked = page_of(ORDER.index(bug) + 1).payload("asked_bug")
    values = {}
    for end, one in (("", bug), ("_healthy", None)):
        rows = row_texts(bugs.bug_symptoms(net, record, one))
        for name, row in (
            ("scale", TELLS["unscaled"]),
            ("entropy", "Entropy of a row, first encoder layer"),
            ("columns", TELLS["over_queries"]),
            ("rows", "Sums of rows"),
            ("allowed", TELLS["inverted_mask"]),
            ("future", TELLS["no_causal_mask"]),
            ("padding", TELLS["no_padding_mask"]),
            ("transposed", TELLS["swapped"]),
            ("same", "Correlation of log-weights with the healthy scores"),
            ("position", TELLS["shifted"]),
            ("read", TELLS["reshaped"]),
        ):
            values[name + end] = rows[row]
    assert asked["explanation"][1] == SEEN[bug].format(**values)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("bug", ["inverted_mask", "over_queries", "no_padding_mask"])
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
    queries, keys = {"encoder": (source, source), "decoder": (fed, fed), "cross": (fed, source)}[
        kind
    ]
    for which, expected in (("queries", queries), ("keys", keys)):
        assert [text for _, text in side(header, which)] == [text for _, text in expected]
        numbers = [at for at, _ in side(header, which)]
        first = expected[0][0]
        assert numbers == list(range(first, first + len(expected)))
    language = {"encoder": "German", "decoder": "English", "cross": "English"}[kind]
    assert header["queries"]["words"].startswith(f"{language} token")
    packed, blobs = unpacked(page.payload("bug_maps"))

    def mask_of(name):
        at = packed[name]
        bits = np.unpackbits(np.frombuffer(blobs[at["at"] : at["at"] + at["length"]], np.uint8))
        return bits[: len(queries) * len(keys)].reshape(len(queries), len(keys)).astype(bool)

    used = []
    for place, one in enumerate((None, bug)):
        maps = pass_of(net, record, one)[0][kind]
        assert np.allclose(values[place], maps, atol=1e-5)
        used.append((maps > 0).any((0, 1)))
        assert np.array_equal(mask_of(f"mask_{place}"), used[-1])
    assert np.array_equal(mask_of("mask"), used[0] | used[1])


def test_both_translations_and_a_cut_off_one_are_shown():
    net, record = case("de-en")
    best = net.translate(SENTENCE, DecodeConfig(beam=1)).text
    for bug, ended in (("inverted_mask", False), ("unscaled", True)):
        page = page_of(ORDER.index(bug) + 1)
        written = bugs.bug_translation(net, record, bug)
        tokens = net.target_tokens(written)
        words = "".join((" " if t.starts_word else "") + t.text for t in tokens if not t.special)
        page.claim(f"Healthy:  {best}\nBroken:  {words.strip()}", "bug_translations")
        cut = (
            " The broken network's translation was cut off after "
            f"{len(record.target_out) + 10} tokens, as it had not ended."
        )
        (note,) = (text for text in page.texts(kind="caption") if text.startswith("Both networks"))
        assert (cut in note) != ended


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

    code, record = {}, case("de-en")[1]
    for place, bug in enumerate(ORDER, start=1):
        id = f"{record.id} bug {place}"
        page = page_of(place, state={f"saved answer {id}": Answer(id, (), False, True)})
        code[bug] = [item.text for item in page.found("bug_answer", "code_text")]
        captions = page.texts("bug_answer", "caption")
        assert captions == ["The healthy line", "The broken line"]
        assert len(code[bug]) == 2
    good, bad = ({bug: lines[i] for bug, lines in code.items()} for i in (0, 1))
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


def test_a_wrong_answer_is_compared_by_the_number_of_its_own_mistake():
    net, record = case("de-en")
    here = row_texts(bugs.bug_symptoms(net, record, "shifted"))
    page = page_of(ORDER.index("shifted") + 1)
    for answer in ("unscaled", "over_queries", "no_padding_mask", "reshaped"):
        found = answered(page, NAMES[answer])
        there = row_texts(bugs.bug_symptoms(net, record, answer))[TELLS[answer]]
        sentence = (
            f"With the mistake that you chose, the number “{TELLS[answer]}” would be {there}; here "
            f"it is {here[TELLS[answer]]}."
        )
        assert unescaped(sentence) in map(unescaped, found.texts(kind="markdown"))
        given = found.payload("asked_bug")["given"]
        assert not given["right"] and not given["skipped"]
    for answer in (NAMES["shifted"], None):  # right, and skipped
        found = answered(page, answer)
        assert not any("that you chose" in text for text in found.texts())
        assert len(found.texts("bug_answer", "code_text")) == 2


def test_a_wrong_answer_is_compared_by_another_number_if_its_own_is_the_same(monkeypatch):
    """Let `swapped` report the position of `shifted`, so that another number is compared."""
    measured = bugs.bug_symptoms

    def like_shifted(owner, record, bug):
        found = measured(owner, record, bug)
        return dataclasses.replace(found, position=1) if bug == "swapped" else found

    monkeypatch.setattr(bugs, "bug_symptoms", like_shifted)
    page = answered(page_of(ORDER.index("swapped") + 1), NAMES["shifted"])
    net, record = case("de-en")
    there, here = (
        percent(math.exp(-measured(net, record, bug).loss)) for bug in ("shifted", "swapped")
    )
    sentence = (
        "With the mistake that you chose, the number “Mean probability per token (geometric), "
        f"fed the healthy translation” would be {there}; here it is {here}."
    )
    assert unescaped(sentence) in map(unescaped, page.texts(kind="markdown"))


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
    assert asked["uncertain"].startswith(
        "On this sentence several mistakes give the same numbers, and each of them counts as "
        f"right: {NAMES['swapped']}; {NAMES['unscaled']}."
    )
    found = answered(page, NAMES["unscaled"])
    assert found.payload("asked_bug")["given"]["right"]
    assert not any("that you chose" in text for text in found.texts())


def test_a_sentence_that_shows_nothing_is_not_asked_about(monkeypatch):
    """Without padding a missing padding mask has no effect; another sentence is offered."""
    monkeypatch.setattr(bugs, "PADDING", 0)
    page = page_of(ORDER.index("no_padding_mask") + 1, source="Der Hund schläft heute.")
    assert "asked_bug" not in page.payloads
    page.claim(
        "No question is asked about this sentence. On this sentence the mistake changes none of "
        "the numbers, so it cannot be found here. Choose another sentence, or another bug."
    )
    page.claim(
        "This sentence or its translation is as long as the network allows, so it cannot be "
        "padded beside a longer one."
    )
    button = page.app.button("bug_other_sentence")
    other = unescaped(button.label).removeprefix("Try: ")
    monkeypatch.undo()
    assert button.click().run().text_area("source").value == other != "Der Hund schläft heute."
    assert not page.app.exception


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
        assert header["site"] == "Encoder" and header["opened"]["layer"] == 0
    opened = render("bugs", "bug_measures", source=SENTENCE, direction="de-en")
    texts = [unescaped(text) for text in opened.texts("bug_measures", "markdown")]
    named = [text.split(".** ")[0].removeprefix("**") for text in texts]
    assert named == [
        unescaped(row[0]) for row in opened.table("bug_numbers").itertuples(index=False)
    ]
    assert any("√d_k is 6.93" in text for text in texts)
    assert any(
        text.startswith("**Source tokens that") and "Up to 8 source" in text for text in texts
    )


def test_every_number_of_the_page_was_compared():
    page = page_of(3)
    nothing_else(
        page,
        "bug_numbers",
        fixed=("Least certain", "Healthy:", "cut off after"),
        but=lambda item: item.where in ("bug", "bug_kind"),
    )


def test_the_baseline_is_broken_in_the_same_way():
    page = page_of(7, model="baseline")
    assert any("torch.nn.MultiheadAttention" in text for text in page.texts(kind="caption"))
    asked = page.payload("asked_bug")
    net = translator("baseline-de-en")
    record = net.inspect(SENTENCE)
    broken = row_texts(bugs.bug_symptoms(net, record, "unscaled"))
    table = page.table("bug_numbers")
    assert [unescaped(cell) for cell in table["Broken"]] == [*map(unescaped, broken.values())]
    assert asked["options"][asked["correct"][0]]["name"] == NAMES["unscaled"]
    assert not any(
        "torch.nn.MultiheadAttention" in text for text in page_of(7).texts(kind="caption")
    )


def test_symptoms_have_a_row_each():
    """Each number that core measures has a row; the loss has a second one, as a probability."""
    fields = [field.name for field in dataclasses.fields(bugs.Symptoms)]
    page = page_of(1)
    assert len(page.table("bug_numbers")) == len(fields)  # tokens read and probed share a row


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
    assert [line.replace("\\", "").replace("\u2060", "") for line in said] == [
        "Equal in both networks: 3 of 5 numbers."
    ]
