"""The page on positions: every number, name and title is the weights' and the record's."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from safetensors.numpy import load_file

from core.record.edits import DOUBLED, OFF, STRETCHED, Edits, PositionEdit
from core.text.tokenizer import BOS
from tests.app.lesson_pages import (
    ROOT,
    changes,
    drawn,
    from_scientific,
    in_the_sidebar,
    least_certain,
    map_row,
    names,
    number,
    percent,
    side,
    texts_are,
    translator,
)
from tests.app.rendered import Rendered, array, render

SENTENCE = "Ein Mann in einem roten Hemd spricht mit einem Straßenmusiker."
SECTIONS = ("open_beyond", "open_order", "open_what_if", "open_scores")
D = 192


@pytest.fixture(scope="module")
def net():
    return translator("scratch-de-en")


@pytest.fixture(scope="module")
def record(net):
    return net.inspect(SENTENCE)


@pytest.fixture(scope="module")
def weights():
    return load_file(ROOT / "checkpoints/scratch-de-en/model.safetensors")


@pytest.fixture(scope="module")
def shown() -> Rendered:
    return render("positions", *SECTIONS, source=SENTENCE, direction="de-en")


def formula(positions) -> np.ndarray:
    """The paper's §3.5, dimension by dimension."""
    table = np.empty((len(positions), D))
    for d in range(D):
        angle = np.asarray(positions) / 10_000 ** (d // 2 * 2 / D)
        table[:, d] = np.sin(angle) if d % 2 == 0 else np.cos(angle)
    return table


def wavelength(d: int) -> str:
    value = 2 * np.pi * 10_000 ** (d // 2 * 2 / D)
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f}"


def placed(tokens, first: int) -> list[str]:
    return drawn(f"pos {p} {name}" for p, name in enumerate(names(tokens, first)))


def cut(words: list[str]) -> list[str]:
    """Labels are cut, to the same length for all: their beginnings are compared."""
    return [word[:9] for word in words]


@pytest.mark.parametrize("which", ["source", "target"])
def test_the_table_and_its_waves(record, which):
    page = render("positions", source=SENTENCE, direction="de-en", position_side=which)
    tokens, first = (record.source, 1) if which == "source" else (record.target_in, 0)
    words = placed(tokens, first)
    N = len(tokens)
    figure = page.figure("position_table")
    layout = figure["layout"]
    heat = figure["data"][0]
    np.testing.assert_allclose(array(heat["z"]), formula(range(N)), atol=1e-6)
    assert (heat["zmin"], heat["zmax"]) == (-1, 1)
    assert cut(layout["yaxis"]["ticktext"]) == cut(words)
    assert cut(layout["yaxis2"]["ticktext"]) == cut(words)
    named = [
        f"dimension {d}: {'cosine' if d % 2 else 'sine'}, wavelength {wavelength(d)}"
        for d in range(D)
    ]
    assert list(layout["xaxis2"]["ticktext"]) == named
    assert layout["title"]["subtitle"]["text"] == f"float32 [position, dimension] = [{N}, {D}]"
    assert layout["xaxis"]["title"]["text"] == "dimension: even = sine, odd = cosine"
    assert layout["yaxis"]["title"]["text"] == "pos and its token"
    above = layout["xaxis3"]
    assert above["title"]["text"] == "wavelength of the dimension, in positions"
    lengths = [2 * np.pi * 10_000 ** (d / D) for d in array(above["tickvals"])]
    assert list(above["ticktext"]) == [f"{value:,.0f}" for value in lengths]
    assert heat["hovertemplate"] == "%{y}<br>%{x}<br><b>%{z:.4f}</b><extra></extra>"
    opening = names(tokens, first)[0].rstrip("₀₁₂₃₄₅₆₇₈₉").replace("<", "\\<").replace(">", "\\>")
    page.claim(
        f"pos counts from 0, as the formula does: “{opening}” is token {first} and has pos 0."
    )
    waves = page.figure("position_waves")
    dots = [t for t in waves["data"] if t.get("mode") == "markers"]
    lines = [t for t in waves["data"] if t.get("mode") == "lines"]
    dimensions = [0, 24, 48, 96, 190]
    assert len(dots) == len(lines) == len(dimensions)
    for d, dot, line, note in zip(
        dimensions, dots, lines, waves["layout"]["annotations"], strict=True
    ):
        np.testing.assert_allclose(array(dot["y"]), formula(range(N))[:, d], atol=1e-6)
        np.testing.assert_allclose(array(line["y"]), formula(array(line["x"]))[:, d], atol=1e-6)
        assert dot["customdata"] == words
        assert f"dimension {d}: " in dot["hovertemplate"]
        assert note["text"] == named[d].replace(", ", "<br>")
        assert note["yref"] == dot["yaxis"] == line["yaxis"]


def test_products_by_distance(shown, record):
    figure = shown.figure("position_products")
    N = len(record.source)
    table = formula(range(N)).astype(np.float32).astype(float)
    products = table @ table.T
    dots = next(t for t in figure["data"] if t.get("mode") == "markers")
    assert array(dots["x"]).tolist() == list(range(-N + 1, N))
    for distance, mean, (pairs, low, high), up, down in zip(
        array(dots["x"]),
        array(dots["y"]),
        array(dots["customdata"]),
        array(dots["error_y"]["array"]),
        array(dots["error_y"]["arrayminus"]),
        strict=True,
    ):
        here = [products[p, p + distance] for p in range(N) if 0 <= p + distance < N]
        assert pairs == len(here)
        np.testing.assert_allclose(
            (mean, low, high), (np.mean(here), min(here), max(here)), atol=1e-4
        )
        np.testing.assert_allclose((up, down), (high - mean, mean - low), atol=1e-9)
    assert not dots["error_y"]["visible"]
    (said,) = [t for t in shown.texts("position_products", "figure") if t.startswith("pairs at")]
    assert (
        from_scientific(said.removeprefix("pairs at the same distance differ by up to about "))
        < 1e-4
    )
    texts_are(
        shown,
        "position_products",
        said,
        "Dot products PE(p) · PE(q)",
        "distance q − p, in positions",
        "dot product",
        f"{D // 2} · (sin² + cos²) = {D // 2}",
        "distance %{x}: <b>%{y:.3f}</b><br>pairs: %{customdata[0]}, from %{customdata[1]:.3f} to "
        "%{customdata[2]:.3f}<extra></extra>",
    )


@pytest.mark.parametrize(("k", "p"), [(3, 0), (5, 7)])
def test_a_step_is_a_rotation(k, p):
    page = render("positions", source=SENTENCE, rotation_k=str(k), rotation_p=str(p))
    matrix = np.zeros((8, 8))
    for even in range(0, 8, 2):
        angle = k / 10_000 ** (even / D)
        matrix[even, even] = matrix[even + 1, even + 1] = np.cos(angle)
        matrix[even, even + 1], matrix[even + 1, even] = np.sin(angle), -np.sin(angle)
    figure = page.figure("rotation_matrix")
    heat = figure["data"][0]
    np.testing.assert_allclose(array(heat["z"]), matrix, atol=1e-9)
    written = [["" if v == 0 else number(v, 2) for v in line] for line in matrix]
    assert heat["text"] == written
    over = figure["data"][1]
    for x, y, text in zip(array(over["x"]), array(over["y"]), over["text"], strict=True):
        assert text == written[int(y)][int(x)]
    assert figure["layout"]["title"]["text"] == f"R, for k = {k}"
    assert figure["layout"]["title"]["subtitle"]["text"] == f"8 of its {D} rows and columns"
    circles = page.figure("rotation_circles")
    assert circles["layout"]["title"]["text"] == f"From pos {p} to pos {p + k}"
    points = [t for t in circles["data"] if t.get("mode") == "markers"]
    pairs = [0, 24, 48, 96]
    notes = [note["text"] for note in circles["layout"]["annotations"]]
    assert notes == [f"{d} and {d + 1}<br>λ = {wavelength(d)}" for d in pairs]
    for place, d in enumerate(pairs):
        for at, point in zip((p, p + k), points[2 * place : 2 * place + 2], strict=True):
            expected = formula([at])[0]
            np.testing.assert_allclose(array(point["x"]), expected[d + 1 : d + 2], atol=1e-6)
            np.testing.assert_allclose(array(point["y"]), expected[d : d + 1], atol=1e-6)
            hover = f"pos {at}: sin %{{y:.4f}}, cos %{{x:.4f}}<extra></extra>"
            assert point["hovertemplate"] == hover
        assert [t["marker"]["symbol"] for t in points[2 * place : 2 * place + 2]] == [
            "circle-open",
            "circle",
        ]
        arc = [t for t in circles["data"] if t.get("mode") == "lines"][2 * place + 1]
        ends = np.column_stack([array(arc["x"]), array(arc["y"])])[[0, -1]]
        table = formula([p, p + k])
        np.testing.assert_allclose(ends, 1.1 * table[:, [d + 1, d]], atol=1e-5)
    match = page.claim_matching(
        rf"Over {64 - k} starting positions and all {D} dimensions, the largest difference of "
        rf"R·PE\(p\) from PE\(p\+{k}\) is \*\*(.+?)\*\*: the rounding of float32, .*"
    )
    assert 0 < from_scientific(match[1]) < 1e-6


@pytest.mark.parametrize("which", ["source", "target"])
def test_what_the_sum_does(record, weights, which):
    page = render("positions", source=SENTENCE, direction="de-en", sum_side=which)
    tokens, first = (record.source, 1) if which == "source" else (record.target_in, 0)
    table = "source_table" if which == "source" else "target_table"
    name = f"embeddings.{table}.weight"
    if name not in weights:
        name = "embeddings.source_table.weight"  # tied
    content = weights[name][[t.id for t in tokens]].astype(float) * D**0.5
    position = formula(range(len(tokens)))
    total = content + position
    lengths = [np.linalg.norm(x, axis=1) for x in (content, position, total)]
    cosine = (content * total).sum(1) / lengths[0] / lengths[2]
    figure = page.figure("sum_lengths")
    bar, dash, dot = figure["data"]
    assert (dash["marker"]["symbol"], dot["marker"]["symbol"]) == ("line-ew-open", "circle")
    for trace, expected in zip((bar, dash, dot), lengths, strict=True):
        np.testing.assert_allclose(array(trace["y"]), expected, rtol=1e-5)
    assert figure["layout"]["title"]["subtitle"]["text"] == (
        "bar: embedding · √d_model · dash: position · dot: their sum"
    )
    for row, (word, *values) in enumerate(bar["customdata"]):
        assert word == placed(tokens, first)[row]
        expected = [x[row] for x in (*lengths, cosine)]
        np.testing.assert_allclose(values, expected, rtol=1e-5)
    assert bar["hovertemplate"] == (
        "<b>%{customdata[0]}</b><br>embedding · √d_model: %{customdata[1]:.3f}<br>position: "
        "%{customdata[2]:.3f}<br>sum: %{customdata[3]:.3f}<br>cosine of embedding and sum: "
        "%{customdata[4]:.4f}<extra></extra>"
    )
    ratio = np.mean(lengths[1] / lengths[0])
    page.claim(
        f"On average the position is **{ratio:.2f} times** as long as the token's embedding, and "
        f"the angle between the embedding alone and the sum has a cosine of {cosine.mean():.3f} "
        f"(from {cosine.min():.3f} to {cosine.max():.3f}; 1 would be no change)."
    )
    points = np.concatenate([content, total])
    points -= points.mean(0)
    spread = np.linalg.eigvalsh(points.T @ points)[::-1]
    plane = page.figure("sum_plane")
    share = spread[:2].sum() / spread.sum()
    assert percent(share) in plane["layout"]["title"]["subtitle"]["text"]
    rings, dots = plane["data"][1:]
    assert rings["mode"] == "markers" and dots["mode"] == "markers+text"
    assert "embedding alone" in rings["hovertemplate"]
    assert "with its position" in dots["hovertemplate"]
    assert [w[:5] for w in dots["text"]] == [w[:5] for w in drawn(names(tokens, first))]
    # Distances in the plane do not depend on how it is turned.
    _, _, axes = np.linalg.svd(points, full_matrices=False)
    expected = points @ axes[:2].T
    for trace, rows in ((rings, expected[: len(tokens)]), (dots, expected[len(tokens) :])):
        xy = np.column_stack([array(trace["x"]), array(trace["y"])])
        np.testing.assert_allclose(np.abs(xy), np.abs(rows), atol=1e-3)


def test_beyond_the_longest_training_sentence(shown, net, record):
    own = max(len(record.source), len(record.target_out))
    source, target = net.card.training["longest"]
    longest = max(source, target)
    shown.claim_matching(
        rf"The longest sentences in training had {source} \(German\) and {target} \(English\) "
        r"tokens\. .*"
    )
    figure = shown.figure("extrapolation")
    line = figure["data"][0]
    shifts, drawn_at = array(line["x"]).astype(int), array(line["y"])
    for k in (shifts[0], shifts[3], shifts[-1]):
        edits = Edits(
            source_positions=PositionEdit(shift=int(k)), target_positions=PositionEdit(shift=int(k))
        )
        forced = net.inspect(SENTENCE, record.translation, edits)
        at = drawn_at[list(shifts).index(k)]
        assert at == pytest.approx(np.exp(forced.log_probs).mean(), abs=1e-5)
    assert figure["layout"]["shapes"][0]["x0"] == longest - own
    inside = shifts <= longest - own
    shown.claim(
        f"Mean probability of its translation's tokens: **{percent(drawn_at[inside].mean())}** at "
        f"positions that training could reach, **{percent(drawn_at[~inside].mean())}** beyond. The "
        "formula has a row for every position; the shares say how well this network uses them here."
    )
    texts_are(
        shown,
        "extrapolation",
        "The same sentence, further and further up the table",
        "mean probability of its translation's tokens",
        "k, added to every position",
        "probability",
        "positions beyond: never seen in training",
        "all positions + %{x}: mean probability <b>%{y:.4f}</b><extra></extra>",
    )


def test_longest_sentences_by_side(monkeypatch):
    """The sides of the shipped networks are equally long, and would not show a mistake."""
    from app.state import models

    card = models.cards()["de-en", "scratch"]
    changed = dataclasses.replace(card, training={**card.training, "longest": [41, 52]})
    monkeypatch.setattr(models, "cards", lambda: {("de-en", "scratch"): changed})
    page = render("positions", "open_beyond", source=SENTENCE)
    page.claim_matching(
        r"The longest sentences in training had 41 \(German\) and 52 \(English\) tokens\. .*"
    )


@pytest.mark.parametrize("state", ["off", "on"])
def test_another_order(net, record, state):
    page = render("positions", "open_order", source=SENTENCE, order_positions=state)
    header, (moved, new) = map_row(page, "order_maps")
    order = [n - 1 for n, _ in side(header, "queries")]
    assert sorted(order) == list(range(len(record.source))) != order
    assert side(header, "keys") == side(header, "queries")
    assert [word for _, word in side(header, "queries")] == [record.source[i].text for i in order]
    assert [drawn_map["name"] for drawn_map in header["maps"]] == [
        "The map, reordered",
        "The map of the new order",
        "First − second",
    ]
    assert header["maps"][2]["minus"] == [0, 1]
    edits = Edits() if state == "on" else Edits(source_positions=OFF)
    maps = net.inspect(SENTENCE, record.translation, edits).encoder
    np.testing.assert_allclose(moved, maps[..., order, :][..., order], atol=2e-6)
    match = page.claim_matching(
        rf"Positions {state}: over all layers and heads the maps differ by at most \*\*(.+?)\*\*, "
        r"the output vectors by at most \*\*(.+?)\*\*\.( That is rounding\.)?"
    )
    largest = np.abs(moved.astype(float) - new).max()
    assert from_scientific(match[1]) == pytest.approx(largest, rel=0.05, abs=0)
    assert (match[3] is not None) == (state == "off")


@pytest.mark.parametrize("sides", ["both", "source", "target"])
@pytest.mark.parametrize("change", ["off", "shuffled", "shifted", "doubled", "stretched"])
def test_other_positions(net, record, change, sides):
    page = render(
        "positions",
        "open_what_if",
        source=SENTENCE,
        position_change=change,
        position_change_side=sides,
        position_shift="9",
    )

    def edit(length: int) -> PositionEdit:
        return {
            "off": OFF,
            "shuffled": PositionEdit.shuffled(1, length),
            "shifted": PositionEdit(shift=9),
            "doubled": DOUBLED,
            "stretched": STRETCHED,
        }[change]

    edited = {}
    if sides != "target":
        edited["source_positions"] = edit(len(record.source))
    if sides != "source":
        edited["target_positions"] = edit(len(record.target_in))
    edits = Edits(**edited)
    forced = net.inspect(SENTENCE, record.translation, edits)
    free = net.inspect(SENTENCE, None, edits)
    page.claim(f"as trained:  {record.translation}", "position_translation")
    page.claim(f"edited:  {free.translation}", "position_translation")
    words = drawn(names(record.target_out, 1))
    changes(
        page, "position_probabilities", words, np.exp(record.log_probs), np.exp(forced.log_probs)
    )
    header, (trained, changed) = map_row(page, "position_maps")
    np.testing.assert_allclose(trained, record.encoder, atol=2e-6)
    np.testing.assert_allclose(changed, forced.encoder, atol=2e-6)
    assert [drawn_map["name"] for drawn_map in header["maps"]] == [
        "As trained",
        "Edited",
        "Edited − as trained",
    ]
    assert header["maps"][2]["minus"] == [1, 0]  # as its name says
    assert side(header, "queries") == side(header, "keys")
    assert side(header, "keys") == [(i + 1, t.text) for i, t in enumerate(record.source)]
    assert header["queries"]["words"] == "German token being read"
    formulas = {"off": r"x_p = ", "shuffled": r"\pi(p)", "shifted": "p+k", "doubled": r"2\,PE_p"}
    assert formulas.get(change, "PE_{2p}") in page.texts("open_what_if", "latex")[0]
    only = "Only the target's positions are edited: the encoder sees none of it."
    assert (only in page.texts()) == (sides == "target")


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_the_parts_of_a_score(record, weights, kind):
    """Worked out from the weights in float64; the network normalises first."""
    page = render("positions", "open_scores", source=SENTENCE, parts_kind=kind)
    ids = [t.id for t in record.source]
    table = "embeddings.source_table.weight"
    if kind == "decoder":
        ids = [BOS, *(t.id for t in record.target_out)][:-1]
        table = next(
            (n for n in weights if n.startswith("embeddings.target") and n.endswith("weight")),
            table,
        )
    N = len(ids)
    content = weights[table][ids].astype(float) * D**0.5
    position = formula(range(N)).astype(np.float32).astype(float)
    layer = {name: w.astype(float) for name, w in weights.items() if name.startswith(f"{kind}.0.")}
    gamma, beta = (layer[f"{kind}.0.norm1.{x}"] for x in ("weight", "bias"))
    x = content + position
    sigma = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    parts = {
        "content": gamma * (content - content.mean(-1, keepdims=True)) / sigma,
        "position": gamma * (position - position.mean(-1, keepdims=True)) / sigma,
        "bias": np.broadcast_to(beta, x.shape),
    }
    H = 4

    def projected(which: str, part: str) -> np.ndarray:
        prefix = f"{kind}.0.self_attention.{which}."
        bias = layer.get(prefix + "bias", 0.0) if part == "bias" else 0.0
        return (parts[part] @ layer[prefix + "weight"].T + bias).reshape(N, H, -1).swapaxes(0, 1)

    def product(a: str, b: str) -> np.ndarray:
        q, k = projected("query", a), projected("key", b)
        return q @ k.swapaxes(-1, -2) / np.sqrt(D // H)

    every = {(a, b): product(a, b) for a in parts for b in parts}
    with_bias = sum(value for pair, value in every.items() if "bias" in pair)
    header, values = map_row(page, "score_parts")
    found = {m["name"]: v[0] for m, v in zip(header["maps"], values, strict=True)}
    assert list(found) == [
        "content · content",
        "content · position",
        "position · content",
        "position · position",
        "with a bias",
        "The score",
    ]
    mask = np.tri(N, dtype=bool) if kind == "decoder" else np.ones((N, N), bool)
    for name, value in found.items():
        pair = tuple(name.split(" · "))
        expected = every.get(pair, with_bias if name == "with a bias" else sum(every.values()))
        np.testing.assert_allclose(value[:, mask], expected[:, mask], atol=2e-4)
    largest = np.max([np.abs(value[:, mask]).max(1) for value in found.values()], axis=0)
    for drawn_map in header["maps"]:
        np.testing.assert_allclose(np.ravel(drawn_map["limits"]), largest, rtol=1e-5)
    assert header["maps"][5]["note"] in ("the sum of the five", [["the sum of the five"] * H])
    tokens, first = (record.source, 1) if kind == "encoder" else (record.target_in, 0)
    assert side(header, "queries") == [(first + i, t.text) for i, t in enumerate(tokens)]
    assert side(header, "keys") == side(header, "queries")
    match = page.claim_matching(
        r"Over all heads, the parts add to the score within \*\*(.+?)\*\* "
        r"\(limit 1\.0\u00a0·\u00a010⁻⁵\)\."
    )
    assert from_scientific(match[1]) < 1e-5


@pytest.mark.parametrize(("source", "twice"), [("Ein Hund läuft.", False), (SENTENCE, True)])
def test_only_a_token_that_comes_twice_is_said_to(net, source, twice):
    ids = [token.id for token in net.inspect(source).source]
    assert (len(set(ids)) < len(ids)) == twice
    texts = " ".join(render("positions", source=source, direction="de-en").texts())
    assert ("A token that comes twice has one ring" in texts) == twice
    assert ("No token comes twice in this sentence" in texts) != twice


def test_nothing_else_on_the_page_is_a_number(shown, net, record):
    """What the tests above compare on pages like this one is excused by its place."""
    test_products_by_distance(shown, record)
    test_beyond_the_longest_training_sentence(shown, net, record)
    shown.claim_matching(r"Positions off: over all layers .*")
    shown.claim(least_certain(record))
    shown.claim_matching(r"Over \d+ starting positions .*")
    shown.claim_matching(r"On average the position is .*")
    shown.claim_matching(r"pos counts from 0, as the formula does: .*")
    shown.claim_matching(r"Over all heads, the parts add .*")
    compared = ("position_table", "position_waves", "rotation_matrix", "rotation_circles")
    compared += ("sum_lengths", "sum_plane", "position_probabilities")
    fixed = ("§3.5, table 3, row E", "(§3.4 of the paper)", "2 × 2 blocks")
    shown.everything_was_claimed(
        but=lambda item: (
            in_the_sidebar(item)
            or item.kind in ("latex", "help", "option", "label", "text_area", "raw_value")
            or (item.where in compared and item.kind == "figure")
            or any(word in item.text for word in fixed)
        )
    )


def test_the_contents_lead_to_the_sections(shown):
    """Each link of the contents is the anchor of the heading that it names."""
    (contents,) = [t for t in shown.texts(kind="markdown") if t.startswith("[The table](#table)")]
    links = re.findall(r"\[([^]]+)\]\(#([\w-]+)\)", contents)
    headings = [(e.value, e.proto.anchor) for e in shown.app.subheader]
    assert links == headings and len(links) == 9
