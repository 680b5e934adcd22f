"""The page Positions agrees with the formula, the weights and the record."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file

import core
from app.state import models, results
from app.views.positions import formula as formula_of
from core.record.edits import DOUBLED, OFF, STRETCHED, Edits, PositionEdit
from tests.app.charts import changes, plain, says, shows
from tests.app.page_checks import (
    ROOT,
    map_names,
    map_row,
    names,
    nothing_else,
    number,
    numbered,
    percent,
    side,
    titles,
    traces,
    translator,
)
from tests.app.rendered import Rendered, array, render

SENTENCE = "Ein Mann in einem roten Hemd spricht mit einem Straßenmusiker."
SECTIONS = (
    *("open_waves", "open_distance", "open_rotation", "open_sums", "open_learned"),
    *("open_beyond", "open_order", "open_what_if", "open_scores"),
)
D, HEADS = 192, 4


@pytest.fixture(scope="module")
def net():
    return translator("scratch-de-en")


@pytest.fixture(scope="module")
def record(net):
    return net.inspect(SENTENCE)


@pytest.fixture(scope="module")
def weights():
    stored = load_file(ROOT / "checkpoints/scratch-de-en/model.safetensors")
    return {name: values.astype(float) for name, values in stored.items()}


@pytest.fixture(scope="module")
def shown() -> Rendered:
    return render("positions", *SECTIONS, source=SENTENCE, direction="de-en")


def formula(positions) -> np.ndarray:
    """Evaluate the formula in §3.5 of the Transformer paper, dimension by dimension."""
    table = np.empty((len(positions), D))
    for d in range(D):
        angle = np.asarray(positions) / 10_000 ** (d // 2 * 2 / D)
        table[:, d] = np.sin(angle) if d % 2 == 0 else np.cos(angle)
    return table


def wavelength(d: int) -> str:
    value = 2 * np.pi * 10_000 ** (d // 2 * 2 / D)
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"


def read(record, which: str):
    """Return a side's tokens and the number of the first token."""
    return (record.target_in, 0) if which in ("target", "decoder") else (record.source, 1)


def position_labels(tokens) -> list[str]:
    return [f"pos {p} {token.text}" for p, token in enumerate(tokens)]


def points(*traces: dict) -> np.ndarray:
    """Return x and y of all markers, [marker, 2]."""
    return np.concatenate([np.column_stack([array(t["x"]), array(t["y"])]) for t in traces])


@pytest.mark.parametrize("which", ["source", "target"])
def test_the_table_and_its_waves_match_the_formula(record, which):
    page = render(
        "positions", "open_waves", source=SENTENCE, direction="de-en", position_side=which
    )
    tokens, _ = read(record, which)
    words, N = position_labels(tokens), len(tokens)
    table = formula(range(N))
    named = [
        f"dimension {d}: {'cosine' if d % 2 else 'sine'}, wavelength {wavelength(d)}"
        for d in range(D)
    ]
    rows = [(f"{words[p]}, {named[d]}", table[p, d]) for p, d in np.ndindex(table.shape)]
    axes = "dimension: even = sine, odd = cosine", "wavelength", "pos and its token"
    figure = shows(page, "position_table", rows, "from 0, as in the formula", f"{D} dim", *axes)
    layout, heat = figure["layout"], figure["data"][0]
    assert (heat["zmin"], heat["zmax"]) == (-1, 1)
    assert [plain(tick) for tick in layout["yaxis2"]["ticktext"]] == words
    assert list(layout["xaxis2"]["ticktext"]) == named
    above = layout["xaxis3"]
    lengths = [2 * np.pi * 10_000 ** (d / D) for d in array(above["tickvals"])]
    assert list(above["ticktext"]) == [f"{value:,.0f}" for value in lengths]
    drawn = [0, 24, 48, 96, 190]
    rows = [(f"dimension {d}", words[p], table[p, d]) for d in drawn for p in range(N)]
    notes = [named[d].replace(", ", "\n") for d in drawn]
    hovers = [(words[p], f"dimension {d}", number(table[p, d])) for d in drawn for p in range(N)]
    waves = shows(page, "position_waves", rows, *notes, hovers=hovers)
    lines, dots = (traces(waves, mode=mode) for mode in ("lines", "markers"))
    for d, line, dot, note in zip(drawn, lines, dots, waves["layout"]["annotations"], strict=True):
        np.testing.assert_allclose(array(line["y"]), formula(array(line["x"]))[:, d], atol=1e-6)
        assert note["yref"] == dot["yaxis"] == line["yaxis"]


def test_products_by_distance_match_the_formula(shown, record):
    N = len(record.source)
    table = formula(range(N)).astype(np.float32).astype(float)
    pairs = {d: (table @ table.T).diagonal(d) for d in range(-N + 1, N)}
    rows = [("", f"{d}".replace("-", "−"), p.mean(), p.min(), p.max()) for d, p in pairs.items()]
    half, spread = str(D // 2), pytest.approx(0, abs=1e-4)
    hovers = [
        (f"distance {place}", number(mean, 3), str(len(pairs[d])), number(low, 3), number(high, 3))
        for d, (_, place, mean, low, high) in zip(pairs, rows, strict=True)
    ]
    said = "PE(p) · PE(q)", spread, "distance q − p", "dot product", half, half
    figure = shows(shown, "position_products", rows, *said, hovers=hovers, atol=1e-4)
    (dots,) = traces(figure, mode="markers")
    assert not dots["error_y"]["visible"]


@pytest.mark.parametrize(("k", "p"), [(3, 0), (5, 7)])
def test_a_step_is_a_rotation(k, p):
    page = render("positions", source=SENTENCE, rotation_k=str(k), rotation_p=str(p))
    matrix = np.zeros((8, 8))
    for even in range(0, 8, 2):
        angle = k / 10_000 ** (even / D)
        matrix[even, even] = matrix[even + 1, even + 1] = np.cos(angle)
        matrix[even, even + 1], matrix[even + 1, even] = np.sin(angle), -np.sin(angle)
    rows = [(f"{row}, {column}", value) for (row, column), value in np.ndenumerate(matrix)]
    heat, over = shows(page, "rotation_matrix", rows, f"k = {k}", "8", str(D))["data"]
    written = [["" if v == 0 else number(v, 2) for v in line] for line in matrix]
    assert heat["text"] == written
    assert over["text"] == [written[y][x] for x, y in points(over).astype(int)]
    pairs, table = [0, 24, 48, 96], formula([p, p + k])
    rows = [
        (f"pos {pos}, dimension {d + odd}", table[at, d + odd])
        for d in pairs
        for at, pos in enumerate((p, p + k))
        for odd in (0, 1)
    ]
    notes = [f"{d} and {d + 1}\nλ = {wavelength(d)}" for d in pairs]
    said = f"pos {p}", f"pos {p + k}", "2π / λ", *notes
    circles = shows(page, "rotation_circles", rows, *said)
    marks, arcs = traces(circles, mode="markers"), traces(circles, mode="lines")[1::2]
    for d, ring, dot, arc in zip(pairs, marks[::2], marks[1::2], arcs, strict=True):
        ends = table[:, [d + 1, d]]
        np.testing.assert_allclose(points(ring, dot), ends, atol=1e-6)
        np.testing.assert_allclose(points(arc)[[0, -1]], 1.1 * ends, atol=1e-5)
        for mark, pos, symbol in ((ring, p, "circle-open"), (dot, p + k, "circle")):
            hover = f"pos {pos}: sin %{{y:.4f}}, cos %{{x:.4f}}<extra></extra>"
            assert (mark["hovertemplate"], mark["marker"]["symbol"]) == (hover, symbol)
    error = pytest.approx(0, abs=1e-6)
    said = says(page, None, str(64 - k), str(D), f"p+{k}", error, "float32")
    assert "10⁻" in said, "not exactly 0"


def test_the_formula_has_the_factor_of_networks_that_scale_embeddings():
    card = models.cards()["de-en", "scratch"]
    assert formula_of.embedding(card) == r"\sqrt{d_{\text{model}}}\,E_{w_p}"
    assert "times √d_model" in formula_of.in_words(card)
    unscaled = dataclasses.replace(
        card, model=dataclasses.replace(card.model, scale_embeddings=False)
    )
    assert formula_of.embedding(unscaled) == "E_{w_p}"
    assert "leaves out the factor √d_model" in formula_of.in_words(unscaled)


@pytest.mark.parametrize("which", ["source", "target"])
def test_sums_of_embeddings_and_positions_match_the_weights(record, weights, which):
    page = render("positions", source=SENTENCE, direction="de-en", sum_side=which)
    tokens, _ = read(record, which)
    words = position_labels(tokens)
    content = embedded(weights, which, tokens)
    position = formula(range(len(tokens)))
    total = content + position
    lengths = {
        name: np.linalg.norm(x, axis=1)
        for name, x in (("embedding", content), ("position", position), ("sum", total))
    }
    cosine = (content * total).sum(1) / lengths["embedding"] / lengths["sum"]
    rows = [(name, *row) for name, of in lengths.items() for row in zip(words, of, strict=True)]
    values = zip(*lengths.values(), strict=True)
    told = [
        [word, "embedding", *(number(value, 3) for value in three), "cosine", number(c)]
        for word, three, c in zip(words, values, cosine, strict=True)
    ]
    said = "bar: embedding; dash: position; dot: their sum", "length of the vector"
    hovers = [*told, *[[]] * (2 * len(words))]
    _, dash, dot = shows(page, "sum_lengths", rows, *said, hovers=hovers, atol=1e-4)["data"]
    assert dash["marker"]["symbol"] == "line-ew-open" and "symbol" not in dot["marker"]
    ratio = np.mean(lengths["position"] / lengths["embedding"])
    means = (number(v, 3) for v in (cosine.mean(), cosine.min(), cosine.max()))
    says(page, None, f"{ratio:.2f} times", *means, "1")
    both = np.concatenate([content, total])
    both -= both.mean(0)
    _, singular, components = np.linalg.svd(both, full_matrices=False)
    plane = page.figure("sum_plane")
    share = (singular[:2] ** 2).sum() / (singular**2).sum()
    assert percent(share) in titles(plane)[1]
    rings, dots = plane["data"][1:]
    assert (rings["mode"], dots["mode"]) == ("markers", "markers+text")
    assert "embedding alone" in rings["hovertemplate"]
    assert "with its position" in dots["hovertemplate"]
    for shown, word in zip(dots["text"], words, strict=True):
        assert plain(shown) == word or word.startswith(plain(shown).removesuffix("…"))
    expected = np.abs(both @ components[:2].T)  # the signs of components are arbitrary
    np.testing.assert_allclose(np.abs(points(rings, dots)), expected, atol=1e-3)


def embedded(weights, which: str, tokens) -> np.ndarray:
    """Return the tokens' embeddings · √d_model; both sides may share one table."""
    own, tied = f"embeddings.{which}_table.weight", "embeddings.source_table.weight"
    return weights[own if own in weights else tied][[t.id for t in tokens]] * D**0.5


def test_probabilities_beyond_the_longest_training_sentence_match_shifted_passes(
    shown, net, record
):
    own = max(len(record.source), len(record.target_out))
    source, target = net.card.training["longest"]
    longest = max(source, target)
    says(shown, None, f"{source} (German)", f"{target} (English)")
    shifts, probabilities = points(shown.figure("extrapolation")["data"][0]).T
    for i in (0, 3, -1):
        shift = PositionEdit(shift=int(shifts[i]))
        edits = Edits(source_positions=shift, target_positions=shift)
        forced = net.inspect(SENTENCE, record.translation, edits)
        assert probabilities[i] == pytest.approx(np.exp(forced.log_probs).mean(), abs=1e-5)
    rows = [(f"{k:.0f}", share) for k, share in zip(shifts, probabilities, strict=True)]
    hovers = [(place, number(share)) for place, share in rows]
    said = "k, added to every position", "probability", "never seen in training"
    figure = shows(shown, "extrapolation", rows, *said, hovers=hovers)
    assert figure["layout"]["shapes"][0]["x0"] == longest - own
    inside = shifts <= longest - own
    means = [percent(probabilities[where].mean()) for where in (inside, ~inside)]
    lowest = int(shifts[probabilities.argmin()])
    says(shown, None, *means, percent(probabilities.min()), f"k = {lowest}")


def changed_card(monkeypatch, longest: list[int]) -> None:
    """Let the longest sentences in training have these numbers of tokens."""
    card = models.cards()["de-en", "scratch"]
    changed = dataclasses.replace(card, training={**card.training, "longest": longest})
    monkeypatch.setattr(models, "cards", lambda: {("de-en", "scratch"): changed})


def test_each_side_has_its_longest_sentence(monkeypatch):
    """The bundled models have equal limits on both sides, which would hide a mistake."""
    changed_card(monkeypatch, [41, 52])
    page = render("positions", "open_beyond", source=SENTENCE)
    says(page, None, "41 (German)", "52 (English)")


def test_the_last_shift_within_training_counts_as_within(record, monkeypatch):
    """One of the shifts drawn puts the last token at the last position of training."""
    own = max(len(record.source), len(record.target_out))
    longest = own + 2
    shifts = np.arange(4 * longest + 1)
    falling = SimpleNamespace(shift=shifts, probability=0.9 ** shifts.astype(float))
    original = results.run

    def run(card, function, *arguments, **options):
        if function is core.extrapolation:
            return falling
        return original(card, function, *arguments, **options)

    monkeypatch.setattr(results, "run", run)
    changed_card(monkeypatch, [longest, longest - 3])
    page = render("positions", "open_beyond", source=SENTENCE)
    assert page.figure("extrapolation")["layout"]["shapes"][0]["x0"] == 2
    assert any(f"**{percent((1 + 0.9 + 0.81) / 3)}** within" in said for said in page.texts())


@pytest.mark.parametrize("state", ["off", "on"])
def test_maps_of_reordered_tokens_match_the_network(net, record, state):
    page = render("positions", "open_order", source=SENTENCE, order_positions=state)
    header, (moved, new) = map_row(page, "order_maps")
    order = [n - 1 for n, _ in side(header, "queries")]  # numbered as on all pages, from 1
    assert sorted(order) == list(range(len(record.source))) != order
    assert side(header, "keys") == side(header, "queries")
    assert [word for _, word in side(header, "queries")] == [record.source[i].text for i in order]
    assert map_names(header) == ["The map, reordered", "The map of the new order", "First − second"]
    assert header["maps"][2]["minus"] == [0, 1]
    edits = Edits() if state == "on" else Edits(source_positions=OFF)
    maps = net.inspect(SENTENCE, record.translation, edits).encoder
    np.testing.assert_allclose(moved, maps[..., order, :][..., order], atol=2e-6)
    largest = np.abs(moved.astype(float) - new).max()
    numbers = pytest.approx(largest, rel=0.05, abs=0), pytest.approx(0, abs=100)
    said = says(page, None, f"Positions {state}", *numbers)
    assert said.endswith("That is rounding.") == (state == "off")


FORMULAS = {
    "off": r"x_p = ",
    "shuffled": r"\pi(p)",
    "shifted": "p+k",
    "doubled": r"2\,PE_p",
    "stretched": "PE_{2p}",
}


@pytest.mark.parametrize("sides", ["both", "source", "target"])
@pytest.mark.parametrize("change", FORMULAS)
def test_each_position_edit_shows_the_edited_pass(net, record, change, sides):
    query = {"position_change": change, "position_change_side": sides, "position_shift": "9"}
    page = render("positions", "open_what_if", source=SENTENCE, **query)
    edited = {
        f"{which}_positions": {
            "off": OFF,
            "shuffled": PositionEdit.shuffled(1, len(tokens)),
            "shifted": PositionEdit(shift=9),
            "doubled": DOUBLED,
            "stretched": STRETCHED,
        }[change]
        for which, tokens in (("source", record.source), ("target", record.target_in))
        if sides in (which, "both")
    }
    edits = Edits(**edited)
    forced, free = (net.inspect(SENTENCE, text, edits) for text in (record.translation, None))
    page.claim(f"as trained:  {record.translation}", "position_translation")
    page.claim(f"edited:  {free.translation}", "position_translation")
    words, both = names(record.target_out, 1), (record.log_probs, forced.log_probs)
    states = "as trained", "edited"
    changes(page, "position_probabilities", words, *map(np.exp, both), states)
    header, (trained, changed) = map_row(page, "position_maps")
    np.testing.assert_allclose(trained, record.encoder, atol=2e-6)
    np.testing.assert_allclose(changed, forced.encoder, atol=2e-6)
    assert map_names(header) == ["As trained", "Edited", "Edited − as trained"]
    assert header["maps"][2]["minus"] == [1, 0]
    assert side(header, "queries") == side(header, "keys") == numbered(record.source, 1)
    assert header["queries"]["words"] == "German token being read"
    assert FORMULAS[change] in page.texts("open_what_if", "latex")[0]
    only = "Only the target's positions are edited, and the encoder does not see them."
    assert (only in page.texts()) == (sides == "target")


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_the_parts_of_a_score_match_the_weights(record, weights, kind):
    """Recompute the parts from the weights in float64; this network is pre-norm."""
    page = render("positions", "open_scores", source=SENTENCE, parts_kind=kind)
    tokens, _ = read(record, kind)
    N = len(tokens)
    content = embedded(weights, "source" if kind == "encoder" else "target", tokens)
    position = formula(range(N)).astype(np.float32).astype(float)
    gamma, beta = (weights[f"{kind}.0.norm1.{x}"] for x in ("weight", "bias"))
    sigma = np.sqrt((content + position).var(-1, keepdims=True) + 1e-5)
    parts = {
        "content": gamma * (content - content.mean(-1, keepdims=True)) / sigma,
        "position": gamma * (position - position.mean(-1, keepdims=True)) / sigma,
        "bias": np.broadcast_to(beta, content.shape),
    }

    def projected(which: str, part: str) -> np.ndarray:
        prefix = f"{kind}.0.self_attention.{which}."
        bias = weights.get(prefix + "bias", 0.0) if part == "bias" else 0.0
        made = parts[part] @ weights[prefix + "weight"].T + bias
        return made.reshape(N, HEADS, -1).swapaxes(0, 1)

    products = {
        f"{a} · {b}": projected("query", a)
        @ projected("key", b).swapaxes(1, 2)
        / np.sqrt(D // HEADS)
        for a in parts
        for b in parts
    }
    expected = {name: value for name, value in products.items() if "bias" not in name}
    expected["with a bias"] = sum(value for name, value in products.items() if "bias" in name)
    expected["The score"] = sum(products.values())
    header, values = map_row(page, "score_parts")
    assert map_names(header) == list(expected)
    mask = np.tri(N, dtype=bool) if kind == "decoder" else np.ones((N, N), bool)
    sent = np.stack([value[0][:, mask] for value in values])
    np.testing.assert_allclose(sent, [e[:, mask] for e in expected.values()], atol=2e-4)
    for drawn_map in header["maps"]:
        np.testing.assert_allclose(
            np.ravel(drawn_map["limits"]), np.abs(sent).max((0, 2)), rtol=1e-5
        )
    note = "the sum of the five"
    assert header["maps"][5]["note"] in (note, [[note] * HEADS])
    assert side(header, "queries") == side(header, "keys") == numbered(tokens, 1)
    says(page, None, "parts add up", pytest.approx(0, abs=1e-5), pytest.approx(1e-5))


@pytest.mark.parametrize(("source", "repeated"), [("Ein Hund läuft.", False), (SENTENCE, True)])
def test_repeated_tokens_are_mentioned_only_if_there_are_any(net, source, repeated):
    ids = [token.id for token in net.inspect(source).source]
    assert (len(set(ids)) < len(ids)) == repeated
    texts = " ".join(render("positions", *SECTIONS, source=source, direction="de-en").texts())
    assert ("A token that occurs more than once has one ring" in texts) == repeated
    assert ("No token occurs twice in this sentence" in texts) != repeated


def test_every_number_on_the_page_is_compared(shown, net, record):
    """Texts that other tests compare on similar pages are recognised by their beginnings."""
    test_products_by_distance_match_the_formula(shown, record)
    test_probabilities_beyond_the_longest_training_sentence_match_shifted_passes(shown, net, record)
    for beginning in (
        "Positions off: over all layers ",
        r"Over \d+ starting positions ",
        "On average the position vector is ",
        "Over all heads, the parts add ",
    ):
        shown.claim_matching(beginning + ".*")
    nothing_else(
        shown,
        *("position_table", "position_waves", "rotation_matrix", "rotation_circles"),
        *("sum_lengths", "sum_plane", "position_probabilities"),
        fixed=("§3.5, table 3, row E", "(§3.4 of the paper)", "2 × 2 blocks"),
    )
