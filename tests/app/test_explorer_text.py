"""Every sentence, number and name of the explorer, in many states, against numpy on its record."""

# ruff: noqa: E501 (what the page says, in one line)

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser

from app.components.explorer.payload import Answers, payload
from app.look.palette import diverging, sequential
from tests.app.explorer_harness import Record, Token, synthetic_quantity, synthetic_record
from tests.app.mounted import Mounted, plain
from tests.app.test_explorer_arithmetic import groups

LAYERS = {"encoder": 3, "decoder": 2, "cross": 2}
HEADS = 4
VERB = {"encoder": "reading", "decoder": "producing", "cross": "producing"}
LOOKS = {
    "encoder": "German looks at German",
    "decoder": "English looks back at English",
    "cross": "English looks at German",
}


def record_of() -> Record:
    """Words of two tokens and repeated words on both sides, and a word that has no token."""
    record = synthetic_record("short", LAYERS["encoder"], HEADS, LAYERS["decoder"])
    source, out = list(record.source), list(record.target_out)
    source[4] = replace(source[4], unknown=True)
    out[7] = Token("ks", starts_word=False)
    return replace(
        record,
        source=tuple(source),
        target_out=tuple(out),
        target_in=(record.target_in[0], *out[:-1]),
        alternatives=tuple(
            tuple(out[i] if t == record.target_out[i] else t for t in row)
            for i, row in enumerate(record.alternatives)
        ),
    )


RECORD = record_of()
QUANTITIES = {name: synthetic_quantity(RECORD, name) for name in ("scores", "norms", "rollout")}
_random = np.random.default_rng(5)
QUANTITIES["change"] = {
    kind: np.tanh(_random.normal(0, 0.4, getattr(RECORD, kind).shape)) for kind in LAYERS
}
EFFECTS = {
    kind: _random.normal(0, 1, (LAYERS[kind], HEADS, len(RECORD.target_out))).astype(np.float32)
    for kind in LAYERS
}
CHANGE = _random.normal(0, 1, len(RECORD.target_out)).round(6)
WHAT_IF = {
    "text": "off.cross.1.2",
    "edits": [{"text": "off.cross.1.2", "label": "cross layer 2, head 3 off"}],
    "problems": [],
    "before": -7.5,
    "change": CHANGE.tolist(),
}
VIEW = {"kind": "cross", "layer": 0, "head": 1}


def sent(record: Record = RECORD, **more: Any) -> dict[str, Any]:
    answers = Answers(effects=more.pop("effects", None))
    return payload(record, VIEW, quantities=QUANTITIES, answers=answers, address=False, **more)


@pytest.fixture(scope="module")
def at(browser: Browser) -> Iterator[Mounted]:
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield Mounted(page)
    page.close()
    assert not errors


@pytest.fixture
def shown(at: Mounted) -> Mounted:
    at.show(sent())
    return at


# What is expected, by hand from the record.


def fixed(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")


def share(value: float) -> str:
    assert 0.005 < value < 0.995, "numbers near an end are tested by themselves"
    return f"{100 * value:.0f} %"


def numbered(labels: list[str], numbers: list[int]) -> list[str]:
    """Names as they are read: repeated words with their number as a subscript."""
    marks = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
    return [
        label + str(number).translate(marks)
        if labels.count(label) > 1 and not label.startswith("<")
        else label
        for label, number in zip(labels, numbers, strict=True)
    ]


def names(kind: str, axis: str) -> list[str]:
    """Of a kind's rows ("query") or columns ("key")."""
    source = [token.text for token in RECORD.source]
    target = [RECORD.target_in[0].text, *(token.text for token in RECORD.target_out)]
    if kind == "encoder" or (kind == "cross" and axis == "key"):
        return numbered(source, list(range(1, len(source) + 1)))
    both = numbered(target, list(range(len(target))))
    return both[1:] if axis == "query" else both[:-1]


def bits(row: NDArray) -> float:
    row = row[row > 0]
    return float(-(row * np.log2(row)).sum())


def weights(kind: str, layer: int, head: int) -> NDArray:
    return getattr(RECORD, kind)[layer, head].astype(np.float64)


def press_head(kind: str, layer: int, head: int) -> tuple:
    thumbnail = f".thumbnail[data-l='{layer}'][data-h='{head}']:not(.missing)"
    return ("press", f"[data-kind-option={kind}]"), ("press", thumbnail)


def quantity(name: str) -> tuple:
    return ("set", "[data-part=quantity]", name)


def after_is(start: list[str], rest: list[str]) -> str:
    return " · ".join([*start, *rest])


# What is said of the place looked at.


def test_nothing_pinned(shown: Mounted) -> None:
    for kind, layer, head in (("encoder", 2, 3), ("decoder", 1, 0), ("cross", 0, 2)):
        told = shown.does(*press_head(kind, layer, head))
        peak = weights(kind, layer, head).max(-1).mean()
        assert told["parts"]["readout-first"] == (
            f"On average, head {head + 1} of layer {layer + 1} puts {fixed(peak, 2)} of a row on a "
            "single token"
        )
        assert told["parts"]["title"] == f"Layer {layer + 1}, head {head + 1}{LOOKS[kind]}"
        assert (told["data"]["kind"], told["data"]["layer"], told["data"]["head"]) == (
            kind,
            str(layer),
            str(head),
        )
        assert "unpin" in told["hidden"]


@pytest.mark.parametrize("kind", LAYERS)
def test_a_cell(shown: Mounted, kind: str) -> None:
    layer, head = LAYERS[kind] - 1, 2
    values = weights(kind, layer, head)
    rows, columns = names(kind, "query"), names(kind, "key")
    fed = names("decoder", "key")
    for query, key in ((5, 3), (9, 9), (3, 3), (len(rows) - 1, len(columns) - 1)):
        told = shown.does(*press_head(kind, layer, head), ("over", query, key))
        value = values[query, key]
        assert told["parts"]["readout-first"] == (
            f"While {VERB[kind]} {rows[query]}, head {head + 1} of layer {layer + 1} gives "
            f"{fixed(value, 2)} to {columns[key]}"
        )
        opened = values[query][getattr(RECORD, f"{kind}_mask")[query]]
        parts = [
            fixed(value, 4),
            f"number {1 + int((opened > value).sum())} of {len(opened)} in its row",
            f"entropy {fixed(bits(values[query]), 1)} bits",
        ]
        if kind != "encoder":
            parts.append(f"row {query + 1}: {fed[query]} was fed in, {rows[query]} came out")
        assert told["parts"]["readout-second"] == " · ".join(parts)
        assert told["data"]["query"] == str(query) and told["data"]["key"] == str(key)
        assert float(told["data"]["weight"]) == pytest.approx(value, abs=5e-5)
        if kind != "encoder":
            assert told["data"]["step"] == str(query)
            assert told["parts"]["step-looked-at"] == f"at step {query + 1}"


@pytest.mark.parametrize("kind", LAYERS)
def test_a_pinned_row(shown: Mounted, kind: str) -> None:
    layer, head, query = 1, 1, 8
    values, rows, columns = weights(kind, layer, head), names(kind, "query"), names(kind, "key")
    side, index = ("source", query) if kind == "encoder" else ("target", query + 1)
    told = shown.does(
        *press_head(kind, layer, head), ("press", f".{side} .token[data-index='{index}']")
    )
    opened = getattr(RECORD, f"{kind}_mask")[query]
    order = [int(key) for key in np.argsort(-values[query]) if opened[key]]
    assert told["parts"]["readout-first"] == (
        f"While {VERB[kind]} {rows[query]}, head {head + 1} of layer {layer + 1} looks most at "
        f"{columns[order[0]]} {fixed(values[query, order[0]], 2)}"
    )
    written = f"written with probability {share(np.exp(RECORD.log_probs[query]))}"
    others = ", ".join(f"{columns[key]} {fixed(values[query, key], 2)}" for key in order[1:5])
    start = [] if kind == "encoder" else [written]
    rest = [f"then {others}", f"entropy {fixed(bits(values[query]), 1)} bits"]
    assert told["parts"]["readout-second"] == after_is(start, rest)
    assert "unpin" not in told["hidden"]
    for layer_, head_, label in told["heads"]:
        if layer_ == LAYERS[kind] or head_ == HEADS:
            continue
        own = weights(kind, layer_, head_)[query]
        best = int(own.argmax())
        number = fixed(own[best], 2).replace("0.", ".")
        assert label == (
            f"Head {head_ + 1} of layer {layer_ + 1}: at {rows[query]} it looks most at "
            f"{columns[best]} {number}"
        )
    pressed = [place for place, token in enumerate(told[side]) if token["pressed"] == "true"]
    assert pressed == [index]


def test_a_pinned_column(shown: Mounted) -> None:
    """In the readout and under each thumbnail."""
    kind, layer, head, key = "cross", 0, 3, 3
    values, rows, columns = weights(kind, layer, head), names(kind, "query"), names(kind, "key")
    shown.does(*press_head(kind, layer, head))
    told = shown.does(("press", f".source .token[data-index='{key}']"), ("leave",))
    order = list(np.argsort(-values[:, key]))
    assert told["parts"]["readout-first"] == (
        f"{columns[key]} is looked at most while producing {rows[order[0]]} "
        f"{fixed(values[order[0], key], 2)}"
    )
    others = ", ".join(f"{rows[query]} {fixed(values[query, key], 2)}" for query in order[1:4])
    received = values[:, key].sum() / values.sum()
    assert told["parts"]["readout-second"] == (
        f"then {others} · it receives {share(received)} of everything head {head + 1} of layer "
        f"{layer + 1} gives"
    )
    for layer_, head_, label in told["heads"]:
        if layer_ < LAYERS[kind] and head_ < HEADS:
            own = weights(kind, layer_, head_)
            assert label == (
                f"Head {head_ + 1} of layer {layer_ + 1}: share of all its weight on "
                f"{columns[key]} gives {share(own[:, key].sum() / own.sum())}"
            )


def test_masked_and_unseen(shown: Mounted) -> None:
    rows, columns = names("decoder", "query"), names("decoder", "key")
    told = shown.does(*press_head("decoder", 0, 0), ("over", 3, 7))
    assert told["parts"]["readout-first"] == (
        f"While producing {rows[3]}, {columns[7]} is masked: it has not been written yet."
    )
    assert "causal mask forbids this cell" in told["parts"]["readout-second"]
    told = shown.does(*press_head("encoder", 0, 0), ("press", ".target .token[data-index='3']"))
    assert "looks only at German tokens" in told["parts"]["readout-first"]
    told = shown.does(*press_head("decoder", 0, 0), ("press", ".source .token[data-index='3']"))
    assert "looks only at English tokens; German reaches it" in told["parts"]["readout-first"]
    told = shown.does(*press_head("cross", 0, 0), ("over", 2, 4))
    assert told["parts"]["readout-second"].startswith(
        "roten is not in the vocabulary: the model sees <unk> · "
    )


def test_words(shown: Mounted) -> None:
    """A word's weights are sums over its key tokens, means over its query tokens."""
    query, key = 6, 6  # the words that are made of two tokens
    told = shown.does(*press_head("cross", 1, 2), ("key", "w"), ("over", query, key))
    ways, ends = groups(RECORD.target_out), groups(RECORD.source)
    values = weights("cross", 1, 2)
    words = np.array(
        [
            [
                values[np.ix_(ways == q, ends == k)].sum() / (ways == q).sum()
                for k in range(ends.max() + 1)
            ]
            for q in range(ways.max() + 1)
        ]
    )
    value = words[query, key]
    assert told["parts"]["readout-first"] == (
        f"While producing talksks, head 3 of layer 2 gives {fixed(value, 2)} to spricht"
    )
    assert told["parts"]["readout-second"] == (
        f"{fixed(value, 4)}, derived: the sum over a word’s tokens · number "
        f"{1 + int((words[query] > value).sum())} of {len(words[0])} in its row · entropy "
        f"{fixed(bits(words[query]), 1)} bits"
    )
    assert (
        "tokens of a key word are added, those of a query word averaged"
        in (told["parts"]["axis-note"])
    )
    told = shown.does(("press", ".target .token[data-index='8']"), ("leave",))
    chance = np.exp(RECORD.log_probs[6:8].sum())
    assert f"written with probability {share(chance)}" in told["parts"]["readout-second"]
    assert [token["pressed"] for token in told["target"][6:10]] == [
        "false",
        "true",
        "true",
        "false",
    ]


SAYS = {
    "scores": ("has the score", "for", "gives its highest score to", "scores highest"),
    "change": ("gives", "more to", "gains most at", "gains most"),
    "norms": ("takes a vector of length", "from", "takes most from", "contributes most"),
    "rollout": ("brings", "from", "brings most from", "counts most"),
}


@pytest.mark.parametrize("name", SAYS)
def test_another_quantity(shown: Mounted, name: str) -> None:
    kind, layer, head = "cross", 1, 0
    head_name = "layer 2" if name == "rollout" else "head 1 of layer 2"
    values = np.asarray(QUANTITIES[name][kind][layer, 0], np.float32).astype(float)
    rows, columns = names(kind, "query"), names(kind, "key")
    gives, to, most, column = SAYS[name]
    told = shown.does(*press_head(kind, layer, head), quantity(name), ("over", 8, 2))
    digits = 2
    assert told["parts"]["readout-first"] == (
        f"While producing {rows[8]}, {head_name} {gives} {fixed(values[8, 2], digits)} {to} "
        f"{columns[2]}"
    )
    rank = 1 + int((values[8] > values[8, 2]).sum())
    derived = ", derived: rollout" if name == "rollout" else ""
    entropy = [f"entropy {fixed(bits(values[8]), 1)} bits"] if name == "rollout" else []
    assert told["parts"]["readout-second"] == " · ".join(
        [
            fixed(values[8, 2], 4) + derived,
            f"number {rank} of {len(columns)} in its row",
            *entropy,
            f"row 9: {names('decoder', 'key')[8]} was fed in, {rows[8]} came out",
        ]
    )
    told = shown.does(("press", ".target .token[data-index='5']"), ("leave",))
    order = np.argsort(-values[4])
    assert told["parts"]["readout-first"] == (
        f"While producing {rows[4]}, {head_name} {most} {columns[order[0]]} "
        f"{fixed(values[4, order[0]], digits)}"
    )
    if name == "change":
        least = f"loses most at {columns[order[-1]]} {fixed(values[4, order[-1]], 2)}"
        assert told["parts"]["readout-second"].endswith(f" · {least}")
    told = shown.does(("press", ".source .token[data-index='2']"), ("leave",))
    order = np.argsort(-values[:, 2])
    assert told["parts"]["readout-first"] == (
        f"{columns[2]} {column} while producing {rows[order[0]]} "
        f"{fixed(values[order[0], 2], digits)}"
    )
    if name != "rollout":
        mean = fixed(values[:, 2].mean(), digits)
        assert (
            f"its mean over the rows that may attend to it is {mean}"
            in (told["parts"]["readout-second"])
        )
    every = np.asarray(QUANTITIES[name][kind], np.float32)
    high, low = float(every.max()), float(min(0, every.min()))
    ends = {
        "scores": (-max(-low, high), max(-low, high)),
        "change": (-max(-low, high), max(-low, high)),
        "norms": (0.0, high),
        "rollout": (0.0, 1.0),
    }[name]
    seen = (told["parts"]["scale-low"], told["parts"]["scale-high"])
    assert seen == tuple(fixed(end, 0 if float(end).is_integer() else 1) for end in ends)
    assert told["data"]["quantity"] == name
    explained = {
        "scores": "q·k/√d, before mask and softmax",
        "change": "attention weight after the edit minus before",
        "norms": "the length of the vector that a key adds in this head",
        "rollout": "Each row sums to 1. Rollout: this layer’s weights averaged over heads",
    }[name]
    note = told["parts"]["axis-note"] + " " + told["parts"]["quantity-note"]
    assert explained in note


def test_means_and_maxima(shown: Mounted) -> None:
    every = RECORD.cross.astype(float)
    rows, columns = names("cross", "query"), names("cross", "key")
    for layer, head, how, values, title, count, name in (
        (0, HEADS, "mean", every[0].mean(0), "Layer 1, mean of 4 heads", "4 heads", "the mean of layer 1’s heads"),
        (2, 1, "mean", every[:, 1].mean(0), "Head 2, mean of all layers", "2 layers", "the mean of head 2 over all layers"),
        (2, HEADS, "max", every.max((0, 1)), "All layers, maximum of all heads", "8 heads", "the maximum of all 8 heads"),
        (1, HEADS, "max", every[1].max(0), "Layer 2, maximum of 4 heads", "4 heads", "the maximum of layer 2’s heads"),
    ):  # fmt: skip
        told = shown.does(
            *press_head("cross", layer, head),
            ("press", f"[data-combine-option={how}]"),
            ("over", 7, 1),
        )
        assert told["parts"]["title"] == f"{title}English looks at German"
        assert told["parts"]["readout-first"] == (
            f"While producing {rows[7]}, {name} gives {fixed(values[7, 1], 2)} to {columns[1]}"
        )
        assert told["parts"]["readout-second"].startswith(
            f"{fixed(values[7, 1], 4)}, derived: the {'maximum' if how == 'max' else how} of {count}"
        )
        both = (told["data"]["layer"], told["data"]["head"])
        assert both == (str(layer) if layer < 2 else how, str(head) if head < HEADS else how)
        assert told["parts"]["not-checked"] == "derived, not checked"
        assert ("Each cell is its own maximum" in told["parts"]["axis-note"]) == (how == "max")
        assert "switch-head" in told["hidden"], "an edit is of one head"


def test_a_row_that_a_change_leaves_alone(at: Mounted) -> None:
    still = {kind: np.zeros_like(getattr(RECORD, kind)) for kind in LAYERS}
    still["encoder"][0, 0, 0, :2] = 0.25, -0.25
    at.show(payload(RECORD, VIEW, quantities={"change": still}, address=False))
    told = at.does(
        *press_head("cross", 1, 0),
        quantity("change"),
        ("press", ".target .token[data-index='3']"),
        ("leave",),
    )
    assert told["parts"]["readout-first"] == (
        "While producing in, no weight of head 1 of layer 2 changes by 0.005 or more"
    )


def test_what_a_row_may_look_at(shown: Mounted) -> None:
    first, second = (".target .token[data-index='1']", ".target .token[data-index='2']")
    told = shown.does(*press_head("decoder", 0, 0), ("press", first), ("leave",))
    assert "it may attend to nothing else" in told["parts"]["readout-second"]
    told = shown.does(("press", "[data-part=hide-eos]"), ("press", second), ("leave",))
    assert "it may attend to nothing else" not in told["parts"]["readout-second"]
    hidden = fixed(weights("decoder", 0, 0)[1, 0], 2)
    assert f"hidden: <bos> {hidden}" in told["parts"]["readout-second"]
    told = shown.does(*press_head("encoder", 0, 0), quantity("rollout"), ("leave",))
    assert "in a row of layer 1 is" in told["parts"]["readout-first"]
    told = shown.does(("press", ".thumbnail[data-l='1']:not(.missing)"))
    assert "in a row of the first 2 layers together is" in told["parts"]["readout-first"]


# What is said under the map, of the head, of the step.


@pytest.mark.parametrize("picture", ["map", "lines"])
def test_notes(shown: Mounted, picture: str) -> None:
    place = ("row", "column") if picture == "map" else ("right", "left")
    queries = {
        "encoder": "the German token being read.",
        "decoder": "the English token being produced.",
        "cross": "the English token being produced.",
    }
    keys = {"decoder": "the English tokens already written."}
    for kind in LAYERS:
        told = shown.does(*press_head(kind, 0, 1), ("press", f"[data-view-option={picture}]"))
        says = "Each row sums to 1." if picture == "map" else "The weights of each query sum to 1."
        assert told["parts"]["axis-note"] == (
            f"Query ({place[0]}): {queries[kind]} Key ({place[1]}): "
            f"{keys.get(kind, 'the German tokens.')} {says}"
        )


@pytest.mark.parametrize("kind", LAYERS)
def test_what_is_hidden(shown: Mounted, kind: str) -> None:
    values = weights(kind, 0, 0)
    column = 0 if kind == "decoder" else values.shape[1] - 1
    name = "<bos>" if kind == "decoder" else "<eos>"
    told = shown.does(*press_head(kind, 0, 0), ("press", "[data-part=hide-eos]"))
    worst = int(values[:, column].argmax())
    assert told["parts"]["axis-note"].endswith(
        f"Hidden: {name} holds {share(values[:, column].mean())} of all weight, at most "
        f"{fixed(values[worst, column], 2)} in the row of {names(kind, 'query')[worst]} (grey bars)."
    )
    assert told["parts"]["hide-eos-name"] == name
    assert told["data"]["hide"] == "eos"


@pytest.mark.parametrize("kind", LAYERS)
def test_lines(shown: Mounted, kind: str) -> None:
    told = shown.does(
        *press_head(kind, 0, 1),
        ("press", "[data-view-option=lines]"),
        ("set", "[data-part=mass]", "60", "input"),
    )
    values = weights(kind, 0, 1)
    held = np.sort(values, -1)[:, ::-1].cumsum(-1)
    count = int((held < 0.6 * values.sum(-1, keepdims=True) - 1e-9).sum() + len(values))
    opened = int(getattr(RECORD, f"{kind}_mask").sum())
    assert told["parts"]["lines-count"] == (
        f"of each token’s weight: {count} lines for {opened} unmasked cells"
    )
    assert told["parts"]["mass-value"] == "60 %"
    drawn = shown.saves("map-svg")
    language = {"encoder": ("German", "German"), "decoder": ("English", "English")}
    query, key = language.get(kind, ("English", "German"))
    doing = "read" if kind == "encoder" else "produced"
    assert f">query: {query}, being {doing}<" in drawn and f">key: {key}<" in drawn
    assert drawn.count('<path d="M') - drawn.count("<clipPath") >= count


def places(kind: str, values: NDArray) -> list[tuple[str, str]]:
    """A head's statistics as the page lists them."""
    queries, keys = values.shape
    rows = np.arange(queries)
    own = {"encoder": rows, "decoder": rows + 1, "cross": rows * (keys - 1) / (queries - 1)}[kind]
    far = float((values * np.abs(np.arange(keys)[None] - own[:, None])).sum() / queries)
    entropy = np.mean([bits(row) for row in values])
    lines = [
        ("largest weight", share(values.max(-1).mean())),
        ("entropy", f"{fixed(entropy, 1)} of {fixed(np.log2(keys), 1)} bits"),
        ("off the diagonal" if kind == "cross" else "distance", f"{fixed(far, 1)} tokens"),
    ]

    def on(step: int, first: int = 0) -> str:
        seen = [values[q, q + step] for q in range(first, queries) if 0 <= q + step < keys]
        return share(float(np.mean(seen)))

    if kind == "encoder":
        lines += [
            ("on the token before", on(-1)),
            ("on itself", on(0)),
            ("on the token after", on(1)),
        ]
    if kind == "decoder":
        lines += [("on the token before", on(0, 2)), ("two tokens before", on(-1, 2))]
        lines.append(("attention to <bos>", share(values[2:, 0].mean())))
    else:
        lines.append(("attention to <eos>", share(values[:, -1].mean())))
    return lines


@pytest.mark.parametrize("kind", LAYERS)
def test_statistics(shown: Mounted, kind: str) -> None:
    layer, head = LAYERS[kind] - 1, 3
    told = shown.does(*press_head(kind, layer, head))
    assert [tuple(line) for line in told["statistics"]] == places(kind, weights(kind, layer, head))
    assert told["parts"]["statistics-title"] == f"Layer {layer + 1}, head {head + 1}"
    assert told["parts"]["statistics-note"] == (
        f"Short ticks: the {LAYERS[kind] * HEADS} {kind} heads, their weights on this sentence; "
        "tall tick: the chosen one."
    )


def test_the_step_strip(shown: Mounted) -> None:
    for step in (0, 3, 4, len(RECORD.target_out) - 1):
        told = shown.does(("set", "[data-part=step]", str(step + 1), "input"))
        assert told["parts"]["step-number"] == str(step + 1)
        assert told["parts"]["step-count"] == str(len(RECORD.target_out))
        written = RECORD.target_out[step]
        likely = list(
            zip(RECORD.alternatives[step], RECORD.alternative_log_probs[step], strict=True)
        )
        if written.id not in {token.id for token, _ in likely}:
            likely[-1] = (written, RECORD.log_probs[step])
        for item, (token, nats) in zip(told["steps"], likely, strict=True):
            inside = not token.starts_word and token.text not in ".,"
            label = ("‐" if inside else "") + token.text
            chance = np.exp(float(nats))
            assert item["form"] == label
            text = "<0.01" if chance < 0.005 else ">0.99" if chance >= 0.995 else fixed(chance, 2)
            assert item["chance"] == text
            assert float(item["bar"].rstrip("%")) == pytest.approx(100 * chance, abs=1e-3)
            assert item["written"] == (token.id == written.id)
            says = f"{label}: written at this step" if token.id == written.id else label
            if token.id == written.id and written.id not in {
                t.id for t in RECORD.alternatives[step]
            }:
                says += ", though not among the most likely"
            assert item["title"] == says


def test_the_sentences(shown: Mounted) -> None:
    told = shown.does()
    source, target = RECORD.source, RECORD.target_out
    assert told["parts"]["source-language"] == "German"
    assert told["parts"]["source-note"] == f"read by the encoder, {len(source)} tokens"
    assert told["parts"]["target-note"].startswith("written by the decoder, one token per step")
    assert told["parts"]["score"] == f"log-probability {fixed(RECORD.log_prob, 2)}, beam 5"
    assert [token["form"] for token in told["source"]] == [token.text for token in source]
    texts = ["<bos>", *(token.text for token in target)]
    assert [token["form"] for token in told["target"]] == texts
    count = [token.text for token in source]
    for index, token in enumerate(told["source"]):
        repeated = count.count(count[index]) > 1
        assert token["number"] == (str(index + 1) if repeated else "")
        unknown = ", not in the vocabulary" if index == 4 else ""
        assert token["label"] == f"{count[index]}{unknown}, token {index + 1} of {len(source)}"
    for step, token in enumerate(told["target"][1:], start=1):
        chance = np.exp(RECORD.log_probs[step - 1])
        assert float(token["bar"].rstrip("%")) == pytest.approx(100 * chance, abs=1e-3)
        assert f", step {step}, probability " in token["label"]
        assert token["number"] == (str(step) if texts.count(texts[step]) > 1 else "")


def rgb(colour: NDArray) -> str:
    return f"rgb({', '.join(str(int(part)) for part in colour)})"


@pytest.mark.parametrize("kind", LAYERS)
def test_shades_of_the_words(shown: Mounted, kind: str) -> None:
    """A row shades the words that it looks at; what it may not see is greyed."""
    query = 8
    side, index = ("source", query) if kind == "encoder" else ("target", query + 1)
    told = shown.does(*press_head(kind, 1, 3), ("press", f".{side} .token[data-index='{index}']"))
    row = weights(kind, 1, 3)[query]
    seen = told["target" if kind == "decoder" else "source"]
    for key, weight in enumerate(row):
        step = np.round(weight * 255) / 255
        ground = rgb(sequential(np.array(step), "light")) if weight >= 0.02 else ""
        assert seen[key]["ground"] == ground, (kind, key)
    if kind == "decoder":
        masked = ["masked" in token["looks"] for token in told["target"]]
        assert masked == [place > query + 1 for place in range(len(masked))]


def test_a_column_shades_the_rows_that_look_at_it(shown: Mounted) -> None:
    told = shown.does(*press_head("cross", 0, 1), ("press", ".source .token[data-index='4']"))
    column = weights("cross", 0, 1)[:, 4]
    for query, weight in enumerate(column):
        ground = rgb(sequential(np.round(weight * 255) / 255, "light")) if weight >= 0.02 else ""
        assert told["target"][query + 1]["ground"] == ground


# The order of heads by effect.


def order_of(told: dict) -> list[tuple[int, int]]:
    return [(layer, head) for layer, head, _ in told["heads"] if layer < 2 and head < HEADS]


@pytest.mark.parametrize("unit", ["pieces", "words"])
def test_effects_go_by_size_of_what_is_named(at: Mounted, unit: str) -> None:
    at.show(sent(effects=EFFECTS, offers_effects=True))
    acts = [*press_head("cross", 0, 0), ("press", f"[data-unit-option={unit}]")]
    by_effect = ("set", "[data-part=sort]", "effect")
    sums = EFFECTS["cross"].astype(float)

    def check(told: dict, effects: NDArray, of: str) -> None:
        flat = [(layer, head) for layer in range(2) for head in range(HEADS)]
        assert order_of(told) == sorted(flat, key=lambda place: -abs(effects[place]))
        for layer, head, label in told["heads"]:
            if layer == 2 or head == HEADS:
                continue
            change = effects[layer, head]
            text = ("+" if change > 0 else "") + fixed(change, 2)
            assert label == (
                f"Head {head + 1} of layer {layer + 1}: change of the log-probability {of}, in "
                f"nats, when this head is switched off {layer + 1}.{head + 1} {text}"
            )

    told = at.does(*acts, by_effect)
    check(told, sums.sum(-1), "of the whole translation")
    assert told["order"] == ["nats without the head,", "of the whole"]
    assert at.page.locator(".head-label:not(.missing)").count() == 0, "the line has their place"
    told = at.does(("press", ".target .token[data-index='8']"), ("leave",))
    tokens, name = ([7], "ks") if unit == "pieces" else ([6, 7], "talksks")
    check(told, sums[..., tokens].sum(-1), f"of {name}")
    assert told["order"] == ["nats without the head,", f"of {name}", "of the whole"]
    told = at.does(("press", ".effect-of[data-whole=true]"))
    check(told, sums.sum(-1), "of the whole translation")
    told = at.does(("press", ".effect-of[data-whole=false]"))
    check(told, sums[..., tokens].sum(-1), f"of {name}")
    assert (
        f"<title>Every layer and head, by the change of the log-probability of {name}, in nats"
        in (plain(at.saves("overview-svg")))
    )


def test_the_other_orders(shown: Mounted) -> None:
    def mean_of(measure) -> NDArray:
        return np.array(
            [
                [measure(weights("encoder", layer, head)) for head in range(HEADS)]
                for layer in range(3)
            ]
        )

    spread = mean_of(lambda values: np.mean([bits(row) for row in values]))
    peak = mean_of(lambda values: values.max(-1).mean())
    far = mean_of(
        lambda values: (
            (values * np.abs(np.subtract.outer(*[np.arange(len(values))] * 2))).sum(-1).mean()
        )
    )
    for sort, values, shown_as in (
        ("confidence", peak, share),
        ("spread", spread, lambda value: f"{fixed(value, 1)} bits"),
        ("distance", far, lambda value: fixed(value, 1)),
    ):
        told = shown.does(*press_head("encoder", 0, 0), ("set", "[data-part=sort]", sort))
        heads = [one for one in told["heads"] if one[0] < 3 and one[1] < HEADS]
        places = [(layer, head) for layer in range(3) for head in range(HEADS)]
        assert [(layer, head) for layer, head, _ in heads] == sorted(
            places, key=lambda place: -values[place]
        )
        for layer, head, label in heads:
            assert label.endswith(f" {layer + 1}.{head + 1} {shown_as(values[layer, head])}")
        shown.does(("set", "[data-part=sort]", "layer"))


def test_rollout_stands_at_the_left(shown: Mounted) -> None:
    told = shown.does(*press_head("encoder", 2, 1), quantity("rollout"))
    assert [(layer, head) for layer, head, _ in told["heads"]] == [(n, HEADS) for n in range(3)]
    lefts = shown.page.evaluate(
        "[...root().querySelectorAll('.thumbnail:not(.missing)')].map((at) => at.offsetLeft)"
    )
    assert lefts == sorted(lefts) and lefts[0] < 60
    tops = shown.page.evaluate(
        "[...root().querySelectorAll('.thumbnail:not(.missing)')].map((at) => at.offsetTop)"
    )
    assert len(set(tops)) == 1


# What if.


def test_an_edited_pass(at: Mounted) -> None:
    edited = replace(RECORD, search="given target, edited")
    at.show(sent(edited, what_if=WHAT_IF))
    told = at.does(*press_head("cross", 1, 2))
    total = CHANGE.sum()
    sign = "+" if total > 0 else ""
    assert told["parts"]["edit-sum"] == (
        f"The log-probability of “{RECORD.translation}” changes by {sign}{fixed(total, 3)} nats, from "
        f"{fixed(-7.5, 3)} to {fixed(-7.5 + total, 3)}."
    )
    assert told["parts"]["score"] == (
        f"log-probability {fixed(RECORD.log_prob, 2)}, {sign}{fixed(total, 2)} from the edits"
    )
    assert told["parts"]["target-note"] == (
        "same tokens; the line under a token is its probability after the edits"
    )
    words = names("cross", "query")
    for place, (text, ground) in enumerate(told["changes"]):
        change = CHANGE[place]
        assert text == words[place] + ("+" if change > 0 else "") + fixed(change, 2)
        step = np.clip(np.round(127 * np.clip(change / 2, -1, 1)), -127, 127) / 127
        assert ground == rgb(diverging(np.array(step), "light"))
    assert "orange is less likely, blue more, full colour at ±2" in told["parts"]["edit-legend"]
    assert told["edits"] == ["cross layer 2, head 3 off×"]
    assert told["parts"]["switch-head"] == "Switch this head back on"
    at.does(("press", "[data-part=switch-head]"))
    assert ["edit", "-off.cross.1.2"] in at.asked()


def test_what_each_button_would_do(at: Mounted) -> None:
    none = {**WHAT_IF, "text": "", "edits": [], "change": None}
    keys, fed = names("cross", "key"), names("decoder", "key")

    def buttons(told: dict) -> dict[str, tuple[str, bool]]:
        return {name: (words, disabled) for name, words, disabled in told["buttons"]}

    for kind, columns in (("cross", keys), ("decoder", fed), ("encoder", keys)):
        rows = names(kind, "query")
        at.show(sent(what_if=none))
        told = at.does(*press_head(kind, 1, 3), ("cell", 8, 2))
        found = buttons(told)
        assert found["head"] == ("Switch off head 4 of layer 2", False)
        assert found["cut"] == (f"Cut {columns[2]} → {rows[8]}", False)
        assert found["times"] == (f"Strengthen {columns[2]} → {rows[8]}", False)
        side = "target" if kind == "decoder" else "source"
        assert found["positions"] == (f"Remove the positions of the {side}", False)
        hides = {"cross": keys[2], "encoder": rows[8]}.get(kind)
        assert found["hide"] == (
            (f"Hide {hides}", False) if hides else ("Hide a word: pin it", True)
        )
        assert told["parts"]["switch-head"] == "Switch this head off"
        for edit, text in (
            ("head", f"off.{kind}.1.3"),
            ("cut", f"cut.{kind}.1.3.8.2"),
            ("times", f"times.{kind}.1.3.8.2.4"),
            ("sharper", f"temp.{kind}.1.3.0.5"),
            ("flatter", f"temp.{kind}.1.3.2"),
            ("causal", "causal"),
            ("positions", f"positions.{side}.scale-0"),
        ):
            at.show(sent(what_if=none))
            at.does(*press_head(kind, 1, 3), ("cell", 8, 2), ("press", f"[data-edit={edit}]"))
            assert at.asked()[-1] == ["edit", f"+{text}"]
    at.show(sent(what_if=none))
    at.does(*press_head("encoder", 2, 0), ("press", "[data-part=switch-head]"))
    assert at.asked()[-1] == ["edit", "+off.encoder.2.0"]


# Files.


def rows_of(text: str) -> list[list[str]]:
    assert text.startswith("\ufeff")
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"))))


@pytest.mark.parametrize("kind", LAYERS)
def test_the_saved_numbers(shown: Mounted, kind: str) -> None:
    shown.does(*press_head(kind, 1, 2))
    head, *lines = rows_of(shown.saves("map-csv"))
    values, mask = getattr(RECORD, kind)[1, 2], getattr(RECORD, f"{kind}_mask")
    source = [token.text for token in RECORD.source]
    out = [token.text for token in RECORD.target_out]
    fed = [token.text for token in RECORD.target_in]
    columns, first = (fed, 0) if kind == "decoder" else (source, 1)
    assert head[1:] == [f"{number} {text}" for number, text in enumerate(columns, start=first)]
    made = [f"{before} → {text}" for before, text in zip(fed, out, strict=True)]
    named = source if kind == "encoder" else made
    assert [line[0] for line in lines] == [f"{n} {text}" for n, text in enumerate(named, start=1)]
    for query, line in enumerate(lines):
        for key, text in enumerate(line[1:]):
            assert (text == "") == (not mask[query, key])
            assert not text or np.float32(text) == values[query, key]
    about = head[0].split("; ")
    assert about[0] == f"attention weights · {LOOKS[kind]} · beam 5"
    assert about[1] == "Layer 2, head 3"
    assert about[4] == "synthetic-de-en (weights 01234567), German to English, beam 5"
    assert about[-2:] == [RECORD.source_text, RECORD.translation]


def test_the_badge(at: Mounted) -> None:
    at.show(sent())
    told = at.does()
    held = sum(check.passed for check in RECORD.checks)
    assert told["parts"]["badge"] == f"Checks: {held} of {len(RECORD.checks)} passed"
    assert told["data"]["checks"] == f"{held}/{len(RECORD.checks)}"
    for check in RECORD.checks:
        assert plain(check.name) in told["parts"]["checks"]


# Digits.


def test_no_digit_more_than_a_byte_has(at: Mounted) -> None:
    """A long sentence is sent in one byte a weight: what is printed is true of the record all the same."""
    long = synthetic_record("long", 6, 8)
    at.show(payload(long, {"kind": "cross", "layer": 0, "head": 0}, address=False))
    for layer, head in ((0, 0), (3, 5), (5, 7)):
        told = at.does(*press_head("cross", layer, head), ("over", 20, 20))
        values = long.cross[layer, head].astype(float)
        number, _, within = told["parts"]["readout-second"].partition(" ± ")
        assert abs(float(number) - values[20, 20]) <= float(within.split(" ")[0])
        share_of = dict(told["statistics"])["largest weight"]
        assert "." not in share_of, "a byte has no tenth of a percent"
        row, mean = bits(values[20]), np.mean([bits(row) for row in values])
        for text, entropy in (
            (told["parts"]["readout-second"].split("entropy ")[1], row),
            (dict(told["statistics"])["entropy"], mean),
        ):
            said = text.split(" ")[0]
            assert "." not in said and abs(float(said) - entropy) < 0.7
        truth = 100 * values.max(-1).mean()
        assert abs(float(share_of.strip("<> %")) - truth) <= 0.9
