"""The page Masks, with every section open, agrees with the record and the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from app.figures.masks import BOTH, FUTURE, PADDING
from app.lessons.texts import text
from core.record.capture import capture
from core.record.editing import edited
from core.record.edits import Edits
from core.text.tokenizer import PAD
from tests.app.charts import changes, says, shows
from tests.app.page_checks import (
    from_scientific,
    names,
    nothing_else,
    number,
    percent,
    traces,
    translator,
)
from tests.app.rendered import Rendered, array, render

SENTENCE = "Ein Mann in einem roten Hemd spricht mit einem Straßenmusiker."
BATCH = (
    SENTENCE,
    "Zwei junge Männer spielen im Park Fußball.",
    "Ein Straßenmusiker spielt an einer Bushaltestelle Gitarre.",
)
SECTIONS = (
    *("open_batch", "open_row", "open_causal", "open_padding", "open_word"),
    "closing_table",
)
FILLS = {"−∞": -torch.inf, "−10⁴": -1e4, "−10⁹": -1e9}


@pytest.fixture(scope="module")
def net():
    return translator("scratch-de-en")


@pytest.fixture(scope="module")
def records(net):
    return [net.inspect(text) for text in BATCH]


@pytest.fixture(scope="module")
def shown() -> Rendered:
    return render("masks", *SECTIONS, source=SENTENCE, direction="de-en")


def padded(rows) -> np.ndarray:
    """Return the ids of several rows of tokens, padded to the longest."""
    width = max(map(len, rows))
    return np.array([[t.id for t in row] + [PAD] * (width - len(row)) for row in rows])


def states(what: str) -> list[str]:
    """Return the names of the passes before and after a change."""
    return [text("masks", f"{what}.{when}.state") for when in ("before", "after")]


def test_the_batch_matches_the_ids_fed_in(shown, records):
    """The shortest sentence of each side is chosen."""
    cells = 0
    for side, rows, first, key in (
        ("source", [r.source for r in records], 1, "padding_sentence"),
        ("target", [r.target_in for r in records], 0, "mask_sentence"),
    ):
        assert shown.texts(key, "option") == ["1", "2", "3"]
        (control,) = [group for group in shown.app.button_group if group.key == key]
        assert control.value == int(np.argmin([*map(len, rows)]))
        sent = shown.payload(f"{side}_batch")
        expected = padded(rows)
        assert [[id for id, _ in line] for line in sent["rows"]] == expected.tolist()
        words = [[word for _, word in line if word is not None] for line in sent["rows"]]
        assert words == [names(row, first) for row in rows]
        assert sent["first"] == first and side in sent["title"].lower()
        cells += int((expected == PAD).sum())
    says(shown, None, "Grey", str(cells))


@pytest.mark.parametrize(
    ("kind", "query", "key"),
    [
        ("encoder", "source", "source"),
        ("decoder", "target", "target"),
        ("cross", "target", "source"),
    ],
)
def test_masks_and_their_axes_match_the_batch(records, kind, query, key):
    """The shortest target is shown; queries are rows, keys are columns."""
    page = render("masks", source=SENTENCE, direction="de-en", mask_kind=kind)
    at = int(np.argmin([len(r.target_in) for r in records]))
    sides = {}
    for side, tokens, first in (
        ("source", [r.source for r in records], 1),
        ("target", [r.target_in for r in records], 0),
    ):
        ids, words = padded(tokens)[at], names(tokens[at], first)
        sides[side] = ids, words + ["<pad>"] * (len(ids) - len(words))
    (rows, row_words), (columns, column_words) = sides[query], sides[key]
    everything = np.ones((len(rows), len(columns)), bool)
    padding, causal = everything & (columns != PAD), np.tril(everything)
    parts = {"combined": (padding, everything)}
    if kind == "decoder":
        parts = {
            "padding": (padding, everything),
            "causal": (everything, causal),
            "combined": (padding, causal),
        }
    for part, (padding, causal) in parts.items():
        mask = padding & causal
        cells = [("may look at", 0, mask)]
        for series, where in (
            (FUTURE, padding & ~causal),
            (PADDING, ~padding & causal),
            (BOTH, ~padding & ~causal),
        ):
            cells += [(series, -np.inf, where)] if where.any() else []
        expected, hovers = [], []
        for series, value, where in cells:
            says_of = ["look at", series, "M = −∞"] if value else ["look at", "M = 0"]
            for q, k in np.argwhere(where):
                expected.append((series, f"{row_words[q]}, {column_words[k]}", value))
                hovers.append([row_words[q], says_of[0], column_words[k], *says_of[1:]])
        title = part.capitalize() if kind == "decoder" else "Padding"
        axes = f"key: {key} token", f"query: {query} token"
        counted = str(mask.sum()), str(mask.size)
        figure = shows(page, f"mask_{part}", expected, title, *counted, *axes, hovers=hovers)
        assert list(figure["layout"]["xaxis3"]["ticktext"]) == [str(i) for i in columns]
        letters = {FUTURE: "f", PADDING: "p", BOTH: "pf"}
        drawn = {t["text"][0]: (array(t["y"]), array(t["x"])) for t in traces(figure, mode="text")}
        assert drawn.keys() == {letters[series] for series, *_ in cells[1:]}
        for series, _, where in cells[1:]:
            np.testing.assert_array_equal(drawn[letters[series]], np.nonzero(where))


def test_the_table_of_shapes_matches_torch(shown, records, net):
    B, H = len(records), net.card.model.num_heads
    S, T = max(len(r.source) for r in records), max(len(r.target_in) for r in records)
    table = next(t for t in shown.tables["open_batch"] if "as stored" in t)
    assert table.to_numpy().tolist() == [
        ["source mask in the encoder", f"[{B}, 1, 1, {S}]", f"[{B}, {H}, {S}, {S}]"],
        ["source mask in cross-attention", f"[{B}, 1, 1, {S}]", f"[{B}, {H}, {T}, {S}]"],
        ["target mask: padding", f"[{B}, 1, 1, {T}]", f"[{B}, {H}, {T}, {T}]"],
        ["target mask: causal", f"[{T}, {T}]", f"[{B}, {H}, {T}, {T}]"],
        ["target mask: both", f"[{B}, 1, {T}, {T}]", f"[{B}, {H}, {T}, {T}]"],
    ]


def test_one_row_from_score_to_weight_matches_the_record(shown, records):
    """Weights are those of layer 1, head 1; scores differ as the logarithms of the weights do."""
    record = records[0]
    T = len(record.target_in)
    row = T // 2
    words, masked = names(record.target_in, 0), T - row - 1
    weight = record.decoder[0, 0, row, : row + 1].astype(float)
    z = array(traces(shown.figure("closing_strip"), type="heatmap")[0]["z"]).astype(float)
    scores = z[0]
    np.testing.assert_allclose(np.diff(scores[: row + 1]), np.diff(np.log(weight)), atol=1e-4)
    lines = {"score q·k/√dₖ": scores, "after the mask": scores[: row + 1], "after softmax": weight}
    rows = [(f"{at}, {word}", value) for at, line in lines.items()
            for word, value in zip(words, line, strict=False)]  # fmt: skip
    produced = f"producing “{names(record.target_out, 1)[row]}”"
    said = [str(row + 1), produced, "1", "head 1", "0", "0 to 1"]
    hovers = [[place.split(", ", 1)[1], number(value)] for place, value in rows]
    figure = shows(shown, "closing_strip", rows, *said, hovers=hovers)
    first, second = traces(figure, type="heatmap")
    assert (first["zmin"], second["zmin"], second["zmax"]) == (-first["zmax"], 0, 1)
    room = second["colorbar"]["xpad"] - first["colorbar"]["xpad"]
    assert room >= 60, "room for the first bar's ticks and title"
    (labels,) = (t for t in traces(figure, mode="text") if any("each" in x for x in t["text"]))
    assert list(labels["text"]) == ["−∞ each", "0 each"] and list(array(labels["y"])) == [1, 2]
    (hatched,) = traces(figure, name="masked")
    for name, values in (("y", [1, 2]), ("base", [row + 0.5] * 2), ("x", [masked] * 2)):
        assert array(hatched[name]).tolist() == values
    says(shown, None, str(masked), "exactly 0", f"other {row + 1}")


@pytest.mark.parametrize("masked", [1, -1])
def test_one_masked_or_unmasked_cell_is_singular(net, masked):
    T = len(net.inspect("Schnee").target_in)
    masked %= T
    row = str(T - 1 - masked)
    page = render("masks", source="Schnee", direction="de-en", closing_row=row)
    one = ["the masked cell", "0", f"other {T - 1} share"]
    says(page, None, *(one if masked == 1 else [str(masked), "cells", "0", "only other cell"]))


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_only_padded_sentences_have_padding(records, kind):
    lengths = [len(r.target_in if kind == "decoder" else r.source) for r in records]
    for row, length in enumerate(lengths):
        query = {"mask_kind": kind, "mask_sentence": str(row)}
        page = render("masks", source=SENTENCE, direction="de-en", **query)
        texts = " ".join(page.texts(kind="caption"))
        longest = length == max(lengths)
        assert ("This sentence has no padding" in texts) == longest
        assert ("p padding" in texts) != longest
        assert ("staircase" in texts) == (kind == "decoder")


@pytest.mark.parametrize(("row", "padded"), [(0, True), (1, False)])
def test_padding_is_that_of_the_keys(row, padded):
    """In cross-attention the keys are source tokens, so the target's padding does not count."""
    page = render(
        "masks",
        mask_input="ids",
        mask_source_ids="[1, 5, 0]\n[1, 8, 7]",
        mask_target_ids="[1, 5, 6, 2]\n[1, 5, 2, 0]",
        mask_kind="cross",
        mask_ids_sentence=str(row),
    )
    assert ("This sentence has no padding" in " ".join(page.texts(kind="caption"))) != padded


def test_the_table_of_mask_values_is_recomputed(shown):
    """Compute expected values from the scores of the row above, in the precision of each line."""
    z = array(traces(shown.figure("closing_strip"), type="heatmap")[0]["z"]).astype(float)
    scores, masked = torch.tensor(z[0]), torch.tensor(np.isnan(z[1]))
    exact = scores.float().masked_fill(masked, -torch.inf).softmax(-1)
    rows = shown.table("closing_table").to_numpy().tolist()
    precisions = ("float32", "bfloat16")
    assert [row[:2] for row in rows] == [[fill, p] for p in precisions for fill in FILLS]
    for name, precision, held, on_masked, change, written, added in rows:
        fill, row = FILLS[name], scores.to(getattr(torch, precision))
        assert held == number(torch.tensor(fill, dtype=row.dtype).item(), 0)
        weights = row.masked_fill(masked, fill).softmax(-1).float()
        assert on_masked == "0" and weights[masked].sum() == 0
        off = (weights - exact)[~masked].abs().max().item()
        assert from_scientific(change) == pytest.approx(off, rel=0.01, abs=1e-7)
        for shown_as, all_masked in ((written, torch.full_like(row, fill)), (added, row + fill)):
            everywhere = all_masked.softmax(-1)
            low, high = everywhere.min().item(), everywhere.max().item()
            expected = f"each {low:.3f}" if high - low < 5e-4 else f"{low:.3f} to {high:.3f}"
            assert shown_as == ("NaN" if np.isnan(low) else expected)


def test_the_effect_of_removing_the_causal_mask_matches_both_passes(shown, net, records):
    record = records[0]
    opened = net.inspect(SENTENCE, record.translation, Edits(causal_mask=False))
    before, after = np.exp(record.log_probs), np.exp(opened.log_probs)
    changes(shown, "leak", names(record.target_out, 1), before, after, states("causal"))
    T = len(before)
    share = (opened.decoder.mean((0, 1)) * np.triu(np.ones((T, T)), 1)).sum(-1)[:-1].mean()
    gain = (after - before).mean()
    assert gain < -0.005
    means = percent(before.mean()), percent(after.mean()), f"change {number(gain, 3, '+')}"
    counts = str(T), str((after > before).sum()), str((after < before).sum())
    says(shown, None, *means, *counts, percent(share), text("masks", "causal.noise"))


@pytest.mark.parametrize(
    ("gained", "verdict"),
    [
        (-0.3, "are noise to this network"),
        (-0.004, "next to nothing"),
        (0.0001, "next to nothing"),
        (0.2, "the answer leaked"),
    ],
)
def test_a_gain_is_interpreted_by_sign_and_size(monkeypatch, gained, verdict):
    from core.analysis import leaks

    def fixed_gain(masked, opened):
        T = len(masked.log_probs)
        return leaks.Leak(np.full(T, 0.5), np.full(T, 0.5 + gained), np.full(T, 0.25))

    monkeypatch.setattr("app.views.masks.without.leaks.leak", fixed_gain)
    page = render("masks", "open_causal", source=SENTENCE, direction="de-en")
    assert any("goes to them" in said and verdict in said for said in page.texts())


def test_probabilities_alone_and_in_a_batch_match_the_model(shown, net, records):
    """The shortest sentence runs alone, in the batch, and in the batch without a padding mask."""
    lengths = [len(record.source) for record in records]
    row = int(np.argmin(lengths))
    record, S = records[row], lengths[row]
    source = torch.tensor(padded([r.source for r in records]))
    target = torch.tensor(padded([r.target_in for r in records]))
    right = torch.tensor([t.id for t in record.target_out])

    def probabilities(model) -> np.ndarray:
        logits = model(source, target)[row, : len(right)].double()
        return logits.softmax(-1).gather(1, right[:, None])[:, 0].numpy()

    with net.exclusive_model() as model, torch.inference_mode():
        masked = probabilities(model)
        with edited(model, Edits(padding_mask=False)), capture(model) as captured:
            opened = probabilities(model)
        maps = captured.maps("encoder")[:, row]
    alone = np.exp(record.log_probs)
    on_padding = float(maps[..., :S, S:].double().sum(-1).mean())
    control = text("masks", "padding.control.state"), masked
    words = names(record.target_out, 1)
    changes(shown, "padding_effect", words, alone, opened, states("padding"), control)
    rounding = pytest.approx(0, abs=1e-5)
    change = pytest.approx(np.abs(opened - alone).max(), rel=0.01, abs=0)
    followed = str(max(lengths) - S), "positions"
    says(shown, None, *followed, rounding, "rounding", change, percent(on_padding))


def test_hiding_a_word_hides_all_its_tokens_and_no_other(shown, net, records):
    """Straßenmusiker is several tokens; the full stop is a separate choice."""
    record = records[0]
    texts = [token.text for token in record.source]
    first, stop = texts.index("Straßen"), texts.index(".")
    assert stop - first > 1  # the word is split
    options = shown.app.selectbox(key="hidden_word").options
    assert options == [*names(record.source, 1)[:first], "Straßenmusiker", "."]
    assert "einem₄" in options
    assert shown.texts("hidden_word", "raw_value") == ["einem₉"]  # the second-to-last word
    before, after = states("word")
    for choice, hidden in (("Straßenmusiker", tuple(range(first, stop))), (".", (stop,))):
        query = {"source": SENTENCE, "hidden_word": str(options.index(choice))}
        page = render("masks", "open_word", direction="de-en", **query)
        edits = Edits(hidden_source=hidden)
        free, forced = (net.inspect(SENTENCE, t, edits) for t in (None, record.translation))
        page.claim(f"{before}:  {record.translation}", "hidden_translation")
        page.claim(f"{after}:  {free.translation}", "hidden_translation")
        words, both = names(record.target_out, 1), (record.log_probs, forced.log_probs)
        changes(page, "hidden_probabilities", words, *map(np.exp, both), (before, after))


def test_curves_of_two_small_networks_are_drawn():
    from core.experiments.cheating import STEPS, WORDS, CheatingPoint

    points = [CheatingPoint(0, 0.02, 0.03), CheatingPoint(STEPS, 0.125, 0.75)]
    page = render("masks", "open_causal", source=SENTENCE, state={"saved cheating": points})
    percents = (percent(share) for share in (0.75, 0.125, 1 / WORDS))
    says(page, None, str(STEPS), *percents)
    rows = [
        (series, str(point.step), getattr(point, of))
        for series, of in (("with the causal mask", "masked"), ("without", "open"))
        for point in points
    ]
    notes = "training step", "with the causal mask", "0.125", "without", "0.750"
    hovers = [[series, place, number(value)] for series, place, value in rows]
    figure = shows(page, "cheating", rows, f"{1 / WORDS:.4g}", *notes, hovers=hovers)
    assert figure["layout"]["shapes"][0]["y0"] == pytest.approx(1 / WORDS)


def test_every_number_on_the_page_is_compared(shown, records, net):
    test_the_batch_matches_the_ids_fed_in(shown, records)
    test_one_row_from_score_to_weight_matches_the_record(shown, records)
    test_the_effect_of_removing_the_causal_mask_matches_both_passes(shown, net, records)
    test_probabilities_alone_and_in_a_batch_match_the_model(shown, net, records)
    shown.claim(f"{SENTENCE}\n→ {records[0].translation}", "lesson_sentence")
    shown.claim(f"{states('word')[0]}:  {records[0].translation}")
    fixed = [text("masks", key) for key in ("batch.about", "batch.tensor", "row.ranges")]
    nothing_else(
        shown,
        *("mask_padding", "mask_causal", "mask_combined", "closing_table", "open_batch"),
        "hidden_probabilities",
        fixed=(*fixed, text("masks", "row.values")),
    )
