"""Every sentence, number and name of the explorer, in many states, follows from its record."""

# ruff: noqa: E501 (page texts on one line)

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from app.components.explorer.payload import effects_answer, payload
from app.look.palette import diverging, sequential
from tests.app.explorer_drawn import at
from tests.app.explorer_harness import Record, Token, synthetic_quantity, synthetic_record
from tests.app.mounted import Mounted, plain
from tests.app.test_explorer_arithmetic import groups

__all__ = ["at"]
LAYERS = {"encoder": 3, "decoder": 2, "cross": 2}
HEADS = 4
VERB = {"encoder": "reading", "decoder": "writing", "cross": "writing"}
DIRECTION = {
    "encoder": "German looks at German",
    "decoder": "English looks back at English",
    "cross": "English looks at German",
}


def record_of() -> Record:
    """Return a record with two-token and repeated words on both sides, and an unknown word."""
    record = synthetic_record("short", LAYERS["encoder"], HEADS, LAYERS["decoder"])
    source, out = list(record.source), list(record.target_out)
    source[4] = replace(source[4], unknown=True)
    old, out[7] = out[7], Token("ks", starts_word=False)
    alternatives = list(record.alternatives)
    alternatives[7] = tuple(out[7] if token == old else token for token in alternatives[7])
    return replace(
        record,
        source=tuple(source),
        target_out=tuple(out),
        target_in=(record.target_in[0], *out[:-1]),
        alternatives=tuple(alternatives),
    )


RECORD = record_of()
STEPS = len(RECORD.target_out)
QUANTITIES = {name: synthetic_quantity(RECORD, name) for name in ("scores", "norms", "rollout")}
_random = np.random.default_rng(5)
QUANTITIES["change"] = {
    kind: np.tanh(_random.normal(0, 0.4, getattr(RECORD, kind).shape)) for kind in LAYERS
}
EFFECTS = {
    kind: _random.normal(0, 1, (LAYERS[kind], HEADS, STEPS)).astype(np.float32) for kind in LAYERS
}
CHANGE = _random.normal(0, 1, STEPS).round(6)
WHAT_IF = {
    "text": "off.cross.1.2",
    "edits": [{"text": "off.cross.1.2", "label": "cross layer 2, head 3 off"}],
    "problems": [],
    "before": -7.5,
    "change": CHANGE.tolist(),
}


def sent(record: Record = RECORD, **more: Any) -> dict[str, Any]:
    view = {"kind": "cross", "layer": 0, "head": 1}
    return payload(record, view, **{"quantities": QUANTITIES, **more})


@pytest.fixture
def shown(at: Mounted) -> Mounted:
    at.show(sent())
    return at


# Expected texts, computed from the record.


def fixed(value: float, digits: int = 2) -> str:
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")


def signed(value: float, digits: int = 2) -> str:
    return ("+" if value > 0 else "") + fixed(value, digits)


def share(value: float) -> str:
    assert 0.005 < value < 0.995, "values near 0 and 1 are tested separately"
    return f"{100 * value:.0f} %"


def numbered(labels: list[str], first: int) -> list[str]:
    """Return names as in running text: repeated words have their position as a subscript."""
    marks = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
    return [
        label + str(number).translate(marks)
        if labels.count(label) > 1 and not label.startswith("<")
        else label
        for number, label in enumerate(labels, first)
    ]


SOURCE = numbered([token.text for token in RECORD.source], 1)
TARGET = numbered(["<bos>", *(token.text for token in RECORD.target_out)], 0)
ROWS = {"encoder": SOURCE, "decoder": TARGET[1:], "cross": TARGET[1:]}
COLUMNS = {"encoder": SOURCE, "decoder": TARGET[:-1], "cross": SOURCE}


def bits(row: NDArray) -> float:
    row = row[row > 0]
    return float(-(row * np.log2(row)).sum())


def weights(kind: str, layer: int, head: int) -> NDArray:
    return getattr(RECORD, kind)[layer, head].astype(np.float64)


def mask(kind: str) -> NDArray:
    return getattr(RECORD, f"{kind}_mask")


def ranked(items: list, value: Callable[[Any], float]) -> list:
    return sorted(items, key=lambda item: -value(item))


def named(names: list[str], indices: Any, values: NDArray) -> str:
    return ", ".join(f"{names[i]} {fixed(values[i])}" for i in indices)


def press_head(kind: str, layer: int, head: int) -> tuple:
    thumbnail = f".thumbnail[data-l='{layer}'][data-h='{head}']:not(.missing)"
    return ("press", f"[data-kind-option={kind}]"), ("press", thumbnail)


def press_token(side: str, index: int) -> tuple:
    return ("press", f".{side} .token[data-index='{index}']")


def press_row(kind: str, query: int) -> tuple:
    return press_token("source", query) if kind == "encoder" else press_token("target", query + 1)


def choose(part: str, value: str, event: str = "change") -> tuple:
    return ("set", f"[data-part={part}]", value, event)


def single_heads(said: dict) -> list[tuple[int, int, str]]:
    """Return layer, head and accessible name of every thumbnail of a single head."""
    layers = LAYERS[said["data"]["kind"]]
    return [(la, head, name) for la, head, name in said["heads"] if la < layers and head < HEADS]


# The readout.


def test_without_a_pin_the_readout_describes_the_head(shown: Mounted) -> None:
    for kind, layer, head in (("encoder", 2, 3), ("decoder", 1, 0), ("cross", 0, 2)):
        said = shown.does(*press_head(kind, layer, head))
        peak = fixed(weights(kind, layer, head).max(-1).mean())
        assert said["first"] == (
            f"On average, the largest weight in a row of head {head + 1} of layer {layer + 1} is {peak}"
        )
        assert said["parts"]["title"] == f"Layer {layer + 1}, head {head + 1}{DIRECTION[kind]}"
        data = said["data"]
        assert (data["kind"], data["layer"], data["head"]) == (kind, str(layer), str(head))
        assert "unpin" in said["hidden"]


@pytest.mark.parametrize("kind", LAYERS)
def test_a_pointed_cell_is_read_out(shown: Mounted, kind: str) -> None:
    layer, head = LAYERS[kind] - 1, 2
    values, rows, columns = weights(kind, layer, head), ROWS[kind], COLUMNS[kind]
    for query, key in ((5, 3), (9, 9), (3, 3), (len(rows) - 1, len(columns) - 1)):
        said = shown.does(*press_head(kind, layer, head), ("over", query, key))
        value = values[query, key]
        assert said["first"] == (
            f"While {VERB[kind]} {rows[query]}, head {head + 1} of layer {layer + 1} gives "
            f"{fixed(value)} to {columns[key]}"
        )
        unmasked = values[query][mask(kind)[query]]
        parts = [
            fixed(value, 4),
            f"rank {1 + int((unmasked > value).sum())} of {len(unmasked)} in its row",
            f"entropy {fixed(bits(values[query]), 1)} bits",
        ]
        if kind != "encoder":
            parts.append(f"row {query + 1}: reads {TARGET[query]}, next token {rows[query]}")
            assert said["data"]["step"] == str(query)
            assert said["parts"]["step-looked-at"] == f"at step {query + 1}"
        assert said["second"] == " · ".join(parts)
        assert (said["data"]["query"], said["data"]["key"]) == (str(query), str(key))
        assert float(said["data"]["weight"]) == pytest.approx(value, abs=5e-5)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_pinned_row_is_read_out(shown: Mounted, kind: str) -> None:
    layer, head, query = 1, 1, 8
    row, name, columns = weights(kind, layer, head)[query], ROWS[kind][query], COLUMNS[kind]
    said = shown.does(*press_head(kind, layer, head), press_row(kind, query))
    best, *rest = ranked(list(np.flatnonzero(mask(kind)[query])), lambda key: row[key])
    fed = "" if kind == "encoder" else f" after {TARGET[query]}"
    tops = [int(weights(kind, *at)[query].argmax()) for at in np.ndindex(LAYERS[kind], HEADS)]
    most = max(range(len(columns)), key=tops.count)
    votes = tops.count(most)
    voted = f"; {votes} of {len(tops)} heads look most at {columns[most]}"
    voted = voted if most != best and 2 * votes > len(tops) else ""
    assert said["first"] == (
        f"While {VERB[kind]} {name}{fed}, head {head + 1} of layer {layer + 1} looks most at "
        f"{columns[best]} {fixed(row[best])}{voted}"
    )
    written = f" · “{name}” has probability {fixed(np.exp(RECORD.log_probs[query]))}"
    assert said["second"] == (
        f"next: {named(columns, rest[: 2 if voted else 4], row)} · entropy {fixed(bits(row), 1)} bits"
        f"{'' if kind == 'encoder' else written}"
    )
    assert "unpin" not in said["hidden"]
    for layer_, head_, label in single_heads(said):
        own = weights(kind, layer_, head_)[query]
        best = int(own.argmax())
        assert label == (
            f"Head {head_ + 1} of layer {layer_ + 1}: at {name} it looks most at "
            f"{columns[best]} {fixed(own[best]).replace('0.', '.')}"
        )
    side, index = ("source", query) if kind == "encoder" else ("target", query + 1)
    assert [i for i, token in enumerate(said[side]) if token["pressed"] == "true"] == [index]


def test_a_pinned_column_is_read_out(shown: Mounted) -> None:
    kind, layer, head, key = "cross", 0, 3, 3
    values, name = weights(kind, layer, head), COLUMNS[kind][key]
    shown.does(*press_head(kind, layer, head))
    said = shown.does(press_token("source", key), ("leave",))
    column = values[:, key]
    best, *rest = np.argsort(-column)
    assert said["first"] == (
        f"{name} is looked at most while writing {ROWS[kind][best]} {fixed(column[best])}"
    )
    assert said["second"] == (
        f"next: {named(ROWS[kind], rest[:3], column)} · it receives "
        f"{share(column.sum() / values.sum())} of everything head {head + 1} of layer {layer + 1} gives"
    )
    for layer_, head_, label in single_heads(said):
        own = weights(kind, layer_, head_)
        assert label == (
            f"Head {head_ + 1} of layer {layer_ + 1}: share of all its weight on {name} gives "
            f"{share(own[:, key].sum() / own.sum())}"
        )


def test_masked_cells_and_unknown_words_are_explained(shown: Mounted) -> None:
    said = shown.does(*press_head("decoder", 0, 0), ("over", 3, 7))
    assert said["first"] == (
        f"While writing {TARGET[4]}, {TARGET[7]} is masked: it has not been written yet."
    )
    assert "causal mask forbids this cell" in said["second"]
    for kind, token, words in (
        ("encoder", press_token("target", 3), "looks only at German tokens"),
        ("decoder", press_token("source", 3), "looks only at English tokens; German reaches it"),
    ):
        assert words in shown.does(*press_head(kind, 0, 0), token)["first"]
    said = shown.does(*press_head("cross", 0, 0), ("over", 2, 4))
    assert said["second"].startswith("roten is not in the vocabulary: the model sees <unk> · ")


def test_rows_with_few_keys_say_so(shown: Mounted) -> None:
    said = shown.does(*press_head("decoder", 0, 0), press_token("target", 1), ("leave",))
    assert "it may attend to nothing else" in said["second"]
    said = shown.does(("press", "[data-part=hide-eos]"), press_token("target", 2), ("leave",))
    assert "it may attend to nothing else" not in said["second"]
    assert f"hidden: <bos> {fixed(weights('decoder', 0, 0)[1, 0])}" in said["second"]
    said = shown.does(*press_head("encoder", 0, 0), choose("quantity", "rollout"), ("leave",))
    assert "in a row of layer 1 is" in said["first"]
    said = shown.does(("press", ".thumbnail[data-l='1']:not(.missing)"))
    assert "in a row of the rollout of the first 2 layers is" in said["first"]


def test_merged_words_are_read_out_as_sums_and_means(shown: Mounted) -> None:
    """A weight is summed over the tokens of a key word, averaged over those of a query word."""
    query, key = 6, 6  # both words have two tokens
    said = shown.does(*press_head("cross", 1, 2), ("key", "w"), ("over", query, key))
    rows, columns = (np.eye(max(g) + 1)[g] for g in map(groups, (RECORD.target_out, RECORD.source)))
    row = ((rows / rows.sum(0)).T @ weights("cross", 1, 2) @ columns)[query]
    assert said["first"] == (
        f"While writing talksks, head 3 of layer 2 gives {fixed(row[key])} to spricht"
    )
    assert said["second"] == (
        f"{fixed(row[key], 4)}, derived: tokens of a key word added, those of a query word averaged "
        f"· rank {1 + int((row > row[key]).sum())} of {len(row)} in its row · entropy "
        f"{fixed(bits(row), 1)} bits"
    )
    assert "tokens of a key word are added, those of a query word averaged" in said["note"]
    said = shown.does(press_token("target", 8), ("leave",))
    chance = np.exp(RECORD.log_probs[6:8].sum())
    assert f"“talksks” has probability {fixed(chance)}" in said["second"]
    pressed = [token["pressed"] == "true" for token in said["target"][6:10]]
    assert pressed == [False, True, True, False]


WORDING = {
    "scores": (
        *("has the score", "for", "gives its highest score to", "scores highest"),
        "q·k/√d, before mask and softmax",
    ),
    "change": (
        *("changes by", "at", "gains most at", "gains most"),
        "attention weight after the edit minus before",
    ),
    "norms": (
        *(
            "adds a vector of length",
            "from",
            "adds the longest vector from",
            "adds the longest vector",
        ),
        "the length of the vector that a key adds in this head",
    ),
    "rollout": (
        *("attributes", "to", "attributes most to", "gets the largest share"),
        "Each row sums to 1. Rollout: this layer’s weights, averaged over heads",
    ),
}


@pytest.mark.parametrize("name", WORDING)
def test_other_quantities_are_read_out_in_their_words(shown: Mounted, name: str) -> None:
    gives, to, most, column, explained = WORDING[name]
    rollout = name == "rollout"
    head = "layer 2" if rollout else "head 1 of layer 2"
    every = np.asarray(QUANTITIES[name]["cross"], np.float32).astype(float)
    values, rows = every[1, 0], ROWS["cross"]
    said = shown.does(*press_head("cross", 1, 0), choose("quantity", name), ("over", 8, 2))
    value = values[8, 2]
    assert said["first"] == (
        f"While writing {rows[8]}, {head} {gives} {fixed(value)} {to} {SOURCE[2]}"
    )
    parts = [
        fixed(value, 4) + (", derived: rollout" if rollout else ""),
        f"rank {1 + int((values[8] > value).sum())} of {len(SOURCE)} in its row",
        *([f"entropy {fixed(bits(values[8]), 1)} bits"] if rollout else []),
        f"row 9: reads {TARGET[8]}, next token {rows[8]}",
    ]
    assert said["second"] == " · ".join(parts)
    said = shown.does(press_token("target", 5), ("leave",))
    order = np.argsort(-values[4])
    assert said["first"] == (
        f"While writing {rows[4]} after {TARGET[4]}, "
        f"{head} {most} {named(SOURCE, order[:1], values[4])}"
    )
    if name == "change":
        loss = named(SOURCE, order[-1:], values[4])
        assert f" · loses most at {loss} · " in said["second"]
    said = shown.does(press_token("source", 2), ("leave",))
    best = named(rows, [values[:, 2].argmax()], values[:, 2])
    assert said["first"] == f"{SOURCE[2]} {column} while writing {best}"
    mean = f"its mean over the rows that may attend to it is {fixed(values[:, 2].mean())}"
    assert rollout or mean in said["second"]
    low, high = min(0.0, every.min()), 1.0 if rollout else every.max()
    if name in ("scores", "change"):
        low, high = -max(-low, high), max(-low, high)
    ends = (said["parts"]["scale-low"], said["parts"]["scale-high"])
    assert ends == tuple(fixed(end, 0 if float(end).is_integer() else 1) for end in (low, high))
    assert said["data"]["quantity"] == name
    assert explained in f"{said['note']} {said['parts']['quantity-note']}"


def test_means_and_maxima_are_called_derived(shown: Mounted) -> None:
    every = RECORD.cross.astype(float)
    for layer, head, how, values, title, count, name in (
        (0, HEADS, "mean", every[0].mean(0), "Layer 1, mean of 4 heads", "4 heads", "the mean of layer 1’s heads"),
        (2, 1, "mean", every[:, 1].mean(0), "Head 2, mean of all layers", "2 layers", "the mean of head 2 over all layers"),
        (2, HEADS, "max", every.max((0, 1)), "All layers, maximum of all heads", "8 heads", "the maximum of all 8 heads"),
        (1, HEADS, "max", every[1].max(0), "Layer 2, maximum of 4 heads", "4 heads", "the maximum of layer 2’s heads"),
    ):  # fmt: skip
        combine = ("press", f"[data-combine-option={how}]")
        said = shown.does(*press_head("cross", layer, head), combine, ("over", 7, 1))
        assert said["parts"]["title"] == f"{title}English looks at German"
        assert said["first"] == (
            f"While writing {ROWS['cross'][7]}, {name} gives {fixed(values[7, 1])} to {SOURCE[1]}"
        )
        word = "maximum" if how == "max" else how
        assert said["second"].startswith(
            f"{fixed(values[7, 1], 4)}, derived: the {word} of {count}"
        )
        both = (said["data"]["layer"], said["data"]["head"])
        assert both == (str(layer) if layer < 2 else how, str(head) if head < HEADS else how)
        assert said["parts"]["not-checked"] == "derived, not checked"
        assert ("Each cell is the largest of its values" in said["note"]) == (how == "max")
        assert "switch-head" in said["hidden"], "an edit needs a single head"


def test_a_row_without_change_says_so(at: Mounted) -> None:
    still = {kind: np.zeros_like(getattr(RECORD, kind)) for kind in LAYERS}
    still["encoder"][0, 0, 0, :2] = 0.25, -0.25
    at.show(sent(quantities={"change": still}))
    acts = choose("quantity", "change"), press_token("target", 3), ("leave",)
    assert at.does(*press_head("cross", 1, 0), *acts)["first"] == (
        "While writing in, no weight of head 1 of layer 2 changes by 0.005 or more"
    )


# Below the map, and the head's measures.


@pytest.mark.parametrize("picture", ["map", "lines"])
def test_notes_name_queries_and_keys(shown: Mounted, picture: str) -> None:
    row, column = ("row", "column") if picture == "map" else ("right", "left")
    each = "Each row sums to 1." if picture == "map" else "The weights of each query sum to 1."
    for kind in LAYERS:
        said = shown.does(*press_head(kind, 0, 1), ("press", f"[data-view-option={picture}]"))
        query = "German token being read" if kind == "encoder" else "English token being produced"
        key = "English tokens already written" if kind == "decoder" else "German tokens"
        assert said["note"] == f"Query ({row}): the {query}. Key ({column}): the {key}. {each}"


@pytest.mark.parametrize("kind", LAYERS)
def test_hidden_tokens_are_counted(shown: Mounted, kind: str) -> None:
    name, column = ("<bos>", 0) if kind == "decoder" else ("<eos>", -1)
    values = weights(kind, 0, 0)[:, column]
    said = shown.does(*press_head(kind, 0, 0), ("press", "[data-part=hide-eos]"))
    worst = int(values.argmax())
    assert said["note"].endswith(
        f"Hidden: {name} holds {share(values.mean())} of all weight, at most "
        f"{fixed(values[worst])} in the row of {ROWS[kind][worst]} (grey bars)."
    )
    assert (said["parts"]["hide-eos-name"], said["data"]["hide"]) == (name, "eos")


@pytest.mark.parametrize("kind", LAYERS)
def test_lines_state_their_share_and_count(shown: Mounted, kind: str) -> None:
    lines = ("press", "[data-view-option=lines]")
    said = shown.does(*press_head(kind, 0, 1), lines, choose("mass", "60", "input"))
    values = weights(kind, 0, 1)
    held = np.sort(values, -1)[:, ::-1].cumsum(-1)
    count = int((held < 0.6 * values.sum(-1, keepdims=True) - 1e-9).sum() + len(values))
    assert said["parts"]["lines-count"] == (
        f"of each token’s weight: {count} lines for {int(mask(kind).sum())} unmasked cells"
    )
    assert said["parts"]["mass-value"] == "60 %"
    drawn = shown.saves("map-svg")
    query = "German, being read" if kind == "encoder" else "English, being produced"
    key = "English" if kind == "decoder" else "German"
    assert f">query: {query}<" in drawn and f">key: {key}<" in drawn
    assert drawn.count('<path d="M') - drawn.count("<clipPath") >= count


def measures(kind: str, values: NDArray) -> list[list[str]]:
    """Return a head's measures as the page lists them."""
    queries, keys = values.shape
    rows = np.arange(queries)
    own = {"encoder": rows, "decoder": rows + 1, "cross": rows * (keys - 1) / (queries - 1)}[kind]
    far = float((values * np.abs(np.arange(keys)[None] - own[:, None])).sum() / queries)
    entropy = np.mean([bits(row) for row in values])

    def on(step: int, first: int = 0) -> str:
        seen = [values[q, q + step] for q in range(first, queries) if 0 <= q + step < keys]
        return share(float(np.mean(seen)))

    lines = {
        "mean largest weight": share(values.max(-1).mean()),
        "entropy": f"{fixed(entropy, 1)} of {fixed(np.log2(keys), 1)} bits",
        "off the diagonal" if kind == "cross" else "distance": f"{fixed(far, 1)} tokens",
    }
    if kind == "decoder":
        lines |= {"on the previous token": on(0, 2), "on the token 2 back": on(-1, 2)}
        lines["attention to <bos>"] = share(values[2:, 0].mean())
        return [list(line) for line in lines.items()]
    if kind == "encoder":
        lines |= {
            "on the previous token": on(-1),
            "on itself": on(0),
            "on the next token": on(1),
        }
    lines["attention to <eos>"] = share(values[:, -1].mean())
    return [list(line) for line in lines.items()]


@pytest.mark.parametrize("kind", LAYERS)
def test_statistics_match_the_record(shown: Mounted, kind: str) -> None:
    layer, head = LAYERS[kind] - 1, 3
    said = shown.does(*press_head(kind, layer, head))
    assert said["statistics"] == measures(kind, weights(kind, layer, head))
    assert said["parts"]["statistics-title"] == f"Layer {layer + 1}, head {head + 1}"
    name = "cross-attention" if kind == "cross" else kind
    assert said["parts"]["statistics-note"] == (
        f"Each short tick is one of the {LAYERS[kind] * HEADS} {name} heads; "
        "the tall tick is the chosen map."
    )


# Steps and sentences.


def test_the_step_strip_lists_the_alternatives(shown: Mounted) -> None:
    for step in (0, 3, 4, STEPS - 1):
        said = shown.does(choose("step", str(step + 1), "input"))
        assert (said["parts"]["step-number"], said["parts"]["step-count"]) == (
            str(step + 1),
            str(STEPS),
        )
        written = RECORD.target_out[step]
        likely = list(
            zip(RECORD.alternatives[step], RECORD.alternative_log_probs[step], strict=True)
        )
        added = written.id not in {token.id for token, _ in likely}
        if added:
            likely[-1] = (written, RECORD.log_probs[step])
        for item, (token, nats) in zip(said["steps"], likely, strict=True):
            inside = not token.starts_word and token.text not in ".,"
            label = ("‐" if inside else "") + token.text
            chance = np.exp(float(nats))
            rounded = "<0.01" if chance < 0.005 else ">0.99" if chance >= 0.995 else fixed(chance)
            assert (item["form"], item["chance"]) == (label, rounded)
            assert float(item["bar"].rstrip("%")) == pytest.approx(100 * chance, abs=1e-3)
            own = token.id == written.id
            unlikely = ", though not among the most probable" if added else ""
            title = f"{label}: written at this step{unlikely}" if own else label
            assert (item["written"], item["title"]) == (own, title)


def test_both_sentences_list_their_tokens(shown: Mounted) -> None:
    said = shown.does()
    texts = [token.text for token in RECORD.source]
    assert said["parts"]["source-language"] == "German"
    assert said["parts"]["source-note"] == (
        f"The encoder reads {len(texts)} tokens; the decoder writes {STEPS} tokens, one per step."
    )
    assert said["parts"]["target-note"] == ""
    assert said["parts"]["score"] == f"Log-probability {fixed(RECORD.log_prob)}, beam 5."
    assert [token["form"] for token in said["source"]] == texts
    for index, token in enumerate(said["source"]):
        assert token["number"] == (str(index + 1) if texts.count(texts[index]) > 1 else "")
        unknown = ", not in the vocabulary" if index == 4 else ""
        assert token["label"] == f"{texts[index]}{unknown}, token {index + 1} of {len(texts)}"
    texts = ["<bos>", *(token.text for token in RECORD.target_out)]
    assert [token["form"] for token in said["target"]] == texts
    for step, token in enumerate(said["target"][1:], start=1):
        chance = np.exp(RECORD.log_probs[step - 1])
        assert float(token["bar"].rstrip("%")) == pytest.approx(100 * chance, abs=1e-3)
        assert f", step {step}, probability " in token["label"]
        assert token["number"] == (str(step) if texts.count(texts[step]) > 1 else "")


def rgb(colour: NDArray) -> str:
    return f"rgb({', '.join(str(int(part)) for part in colour)})"


def shade(weight: float) -> str:
    """Return the background of a token with this weight."""
    step = np.array(np.round(weight * 255) / 255)
    return rgb(sequential(step, "light")) if weight >= 0.02 else ""


@pytest.mark.parametrize("kind", LAYERS)
def test_a_pinned_row_shades_its_keys(shown: Mounted, kind: str) -> None:
    """Tokens behind the causal mask are grey."""
    query = 8
    said = shown.does(*press_head(kind, 1, 3), press_row(kind, query))
    tokens = said["target" if kind == "decoder" else "source"]
    row = weights(kind, 1, 3)[query]
    assert [token["ground"] for token in tokens[: len(row)]] == [shade(weight) for weight in row]
    if kind == "decoder":
        masked = ["masked" in token["looks"] for token in said["target"]]
        assert masked == [index > query + 1 for index in range(len(masked))]


def test_a_column_shades_its_rows(shown: Mounted) -> None:
    said = shown.does(*press_head("cross", 0, 1), press_token("source", 4))
    shades = [shade(weight) for weight in weights("cross", 0, 1)[:, 4]]
    assert [token["ground"] for token in said["target"]] == ["", *shades]


# The order of the heads.


@pytest.mark.parametrize("unit", ["pieces", "words"])
def test_effects_are_sorted_by_magnitude(at: Mounted, unit: str) -> None:
    at.show(sent())
    about = {"sentence": RECORD.id, "name": "effects", "request": 1}
    at.answer({**about, **effects_answer(EFFECTS)})
    effects = EFFECTS["cross"].astype(float)

    def check(said: dict, changes: NDArray, of: str) -> None:
        heads = single_heads(said)
        order = ranked(list(np.ndindex(changes.shape)), lambda place: abs(changes[place]))
        assert [(layer, head) for layer, head, _ in heads] == order
        for layer, head, label in heads:
            assert label == (
                f"Head {head + 1} of layer {layer + 1}: change of the log-probability {of}, in "
                f"nats, when this head is switched off {layer + 1}.{head + 1} "
                f"{signed(changes[layer, head])}"
            )

    unit_ = ("press", f"[data-unit-option={unit}]")
    said = at.does(*press_head("cross", 0, 0), unit_, choose("sort", "effect"))
    check(said, effects.sum(-1), "of the whole translation")
    assert said["order"] == ["nats without the head,", "of the whole"]
    assert at.page.locator(".head-label:not(.missing)").count() == 0, "the order line replaces them"
    said = at.does(press_token("target", 8), ("leave",))
    tokens, name = ([7], "ks") if unit == "pieces" else ([6, 7], "talksks")
    check(said, effects[..., tokens].sum(-1), f"of {name}")
    assert said["order"] == ["nats without the head,", f"of {name}", "of the whole"]
    said = at.does(("press", ".effect-of[data-whole=true]"))
    check(said, effects.sum(-1), "of the whole translation")
    said = at.does(("press", ".effect-of[data-whole=false]"))
    check(said, effects[..., tokens].sum(-1), f"of {name}")
    title = f"<title>Every layer and head, by the change of the log-probability of {name}, in nats"
    assert title in plain(at.saves("overview-svg"))


def test_while_effects_are_computed_the_order_says_so(at: Mounted) -> None:
    at.show(sent())
    said = at.does(choose("sort", "effect"))
    heads = sum(
        maps.shape[0] * maps.shape[1] for maps in (RECORD.encoder, RECORD.decoder, RECORD.cross)
    )
    assert said["parts"]["sort-effect"] == f"switching off {heads} heads…"
    at.answer({"sentence": RECORD.id, "name": "effects", "request": 1, **effects_answer(EFFECTS)})
    assert at.does()["parts"]["sort-effect"] == "largest effect first"


def test_heads_are_sorted_by_each_measure(shown: Mounted) -> None:
    def distance(values: NDArray) -> float:
        away = np.abs(np.subtract.outer(*[np.arange(len(values))] * 2))
        return (values * away).sum(-1).mean()

    for sort, measure, text in (
        ("confidence", lambda values: values.max(-1).mean(), share),
        (
            "spread",
            lambda values: np.mean([bits(row) for row in values]),
            lambda value: f"{fixed(value, 1)} bits",
        ),
        ("distance", distance, lambda value: fixed(value, 1)),
    ):
        said = shown.does(*press_head("encoder", 0, 0), choose("sort", sort))
        found = {
            (layer, head): measure(weights("encoder", layer, head))
            for layer, head in np.ndindex(3, HEADS)
        }
        heads = single_heads(said)
        assert [(layer, head) for layer, head, _ in heads] == ranked(list(found), found.get)
        for layer, head, label in heads:
            assert label.endswith(f" {layer + 1}.{head + 1} {text(found[layer, head])}")
        shown.does(choose("sort", "layer"))


def test_rollout_is_one_row_from_the_left(shown: Mounted) -> None:
    said = shown.does(*press_head("encoder", 2, 1), choose("quantity", "rollout"))
    assert [(layer, head) for layer, head, _ in said["heads"]] == [(n, HEADS) for n in range(3)]
    places = shown.page.evaluate(
        "[...root().querySelectorAll('.thumbnail:not(.missing)')].map((at) => [at.offsetLeft, at.offsetTop])"
    )
    lefts, tops = zip(*places, strict=True)
    assert list(lefts) == sorted(lefts) and lefts[0] < 60 and len(set(tops)) == 1


# What if.


def test_a_given_target_is_never_said_to_be_written(at: Mounted) -> None:
    for lost in (False, True):
        at.show(sent(replace(RECORD, decode=None, lost_edits=lost)))
        said = at.does()["parts"]
        assert said["target-note"] == "given, not written by the model"
        assert "writes" not in said["source-note"] and "translation" not in said["claim"]


def test_an_edited_pass_states_its_changes(at: Mounted) -> None:
    at.show(sent(replace(RECORD, lost_edits=True), what_if=WHAT_IF))
    said = at.does(*press_head("cross", 1, 2))
    total = CHANGE.sum()
    assert said["parts"]["edit-sum"] == (
        f"The log-probability of “{RECORD.translation}” changes by {signed(total, 3)} nats, from "
        f"{fixed(-7.5, 3)} to {fixed(-7.5 + total, 3)}."
    )
    assert said["parts"]["score"] == (
        f"Log-probability {fixed(RECORD.log_prob)}, {signed(total)} from the edits."
    )
    for word, change, (text, ground) in zip(TARGET[1:], CHANGE, said["changes"], strict=True):
        assert text == word + signed(change)
        step = np.round(127 * np.clip(change / 2, -1, 1)) / 127
        assert ground == rgb(diverging(np.array(step), "light"))
    assert "orange is less likely, blue more, full colour at ±2" in said["parts"]["edit-legend"]
    assert said["edits"] == ["cross layer 2, head 3 off×"]
    assert said["parts"]["switch-head"] == "Switch this head back on"
    at.does(("press", "[data-part=switch-head]"))
    assert at.edits() == ["-off.cross.1.2"]


def test_each_button_states_and_sends_its_edit(at: Mounted) -> None:
    none = {**WHAT_IF, "text": "", "edits": [], "change": None}
    for kind in LAYERS:
        edge = f"{COLUMNS[kind][2]} → {ROWS[kind][8]}"
        side = "target" if kind == "decoder" else "source"
        hides = {"cross": SOURCE[2], "encoder": SOURCE[8]}.get(kind)
        at.show(sent(what_if=none))
        said = at.does(*press_head(kind, 1, 3), ("cell", 8, 2))
        buttons = {name: (words, disabled) for name, words, disabled in said["buttons"]}
        expected = {
            "head": "Switch off head 4 of layer 2",
            "cut": f"Cut {edge}",
            "times": f"Strengthen {edge}",
            "positions": f"Remove the positions of the {side}",
        }
        assert {name: buttons[name] for name in expected} == {
            name: (words, False) for name, words in expected.items()
        }
        hide = (f"Hide {hides}", False) if hides else ("Hide a word: pin it", True)
        assert buttons["hide"] == hide
        assert said["parts"]["switch-head"] == "Switch this head off"
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
            assert at.edits() == [f"+{text}"]
    at.show(sent(what_if=none))
    at.does(*press_head("encoder", 2, 0), ("press", "[data-part=switch-head]"))
    assert at.edits() == ["+off.encoder.2.0"]


def test_an_edit_needs_a_single_token(at: Mounted) -> None:
    """A pinned word of several tokens disables the edits of a token."""
    at.show(sent(what_if={**WHAT_IF, "text": "", "edits": [], "change": None}))
    said = at.does(*press_head("encoder", 0, 1), ("key", "w"), ("cell", 6, 6))
    disabled = {name for name, _, disabled in said["buttons"] if disabled}
    assert disabled == {"cut", "times", "hide", "row"}
    said = at.does(("key", "w"))
    assert not any(disabled for _, _, disabled in said["buttons"])


# Files and digits.


@pytest.mark.parametrize("kind", LAYERS)
def test_the_saved_numbers_are_those_of_the_record(shown: Mounted, kind: str) -> None:
    shown.does(*press_head(kind, 1, 2))
    text = shown.saves("map-csv")
    assert text.startswith("\ufeff")
    head, *lines = csv.reader(io.StringIO(text.removeprefix("\ufeff")))
    source = [token.text for token in RECORD.source]
    fed, out = ([t.text for t in side] for side in (RECORD.target_in, RECORD.target_out))
    columns, first = (fed, 0) if kind == "decoder" else (source, 1)
    rows = source if kind == "encoder" else [f"{a} → {b}" for a, b in zip(fed, out, strict=True)]
    assert head[1:] == [f"{number} {text}" for number, text in enumerate(columns, first)]
    assert [line[0] for line in lines] == [f"{n} {text}" for n, text in enumerate(rows, 1)]
    for cells, values, unmasked in zip(
        (line[1:] for line in lines), getattr(RECORD, kind)[1, 2], mask(kind), strict=True
    ):
        assert [cell != "" for cell in cells] == unmasked.tolist()
        numbers = np.array([cell for cell in cells if cell], np.float32)
        assert np.array_equal(numbers, values[unmasked])
    about = head[0].split("; ")
    assert about[:2] == [f"attention weights · {DIRECTION[kind]} · beam 5", "Layer 2, head 3"]
    assert about[4] == "synthetic-de-en (weights 01234567), German to English, beam 5"
    assert about[-2:] == [RECORD.source_text, RECORD.translation]


def test_no_digit_is_printed_that_a_byte_does_not_hold(at: Mounted) -> None:
    """A long sentence has one byte per weight; all printed digits are still correct."""
    long = synthetic_record("long", 6, 8)
    at.show(payload(long, {"kind": "cross", "layer": 0, "head": 0}))
    for layer, head in ((0, 0), (3, 5), (5, 7)):
        said = at.does(*press_head("cross", layer, head), ("over", 20, 20))
        values = long.cross[layer, head].astype(float)
        number, _, within = said["second"].partition(" ± ")
        assert abs(float(number) - values[20, 20]) <= float(within.split(" ")[0])
        statistics = dict(said["statistics"])
        largest = statistics["mean largest weight"]
        assert "." not in largest, "a byte does not resolve tenths of a percent"
        assert abs(float(largest.strip("<> %")) - 100 * values.max(-1).mean()) <= 0.9
        for text, entropy in (
            (said["second"].split("entropy ")[1], bits(values[20])),
            (statistics["entropy"], np.mean([bits(row) for row in values])),
        ):
            printed = text.split(" ")[0]
            assert "." not in printed and abs(float(printed) - entropy) < 0.7
