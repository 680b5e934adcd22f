"""The page Masks, with every section open, agrees with the record and the model."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from core.record.capture import capture
from core.record.editing import edited
from core.record.edits import Edits
from core.text.tokenizer import PAD
from tests.app.page_checks import (
    CHANGE,
    axis_titles,
    begin,
    changes,
    drawn,
    from_scientific,
    least_certain,
    names,
    nothing_else,
    number,
    percent,
    texts_are,
    titles,
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
SECTIONS = ("open_causal", "open_padding", "open_word", "closing_table")
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


def test_sentences_are_numbered_from_one_and_the_shortest_is_chosen(shown, records):
    targets, sources = ([len(getattr(r, of)) for r in records] for of in ("target_in", "source"))
    for key, lengths in (("mask_sentence", targets), ("padding_sentence", sources)):
        assert shown.texts(key, "option") == ["1", "2", "3"]
        (control,) = [group for group in shown.app.button_group if group.key == key]
        assert control.value == int(np.argmin(lengths))


def padded(rows) -> np.ndarray:
    """Return the ids of several rows of tokens, padded to the longest."""
    width = max(map(len, rows))
    return np.array([[t.id for t in row] + [PAD] * (width - len(row)) for row in rows])


def compare_change(page, key, title, states, words, before, after, control=()) -> dict:
    """Check a figure of probabilities and all of its texts."""
    bar, dot = states
    ticks = f"tick: {control[0]}<br>" if control else ""
    legend = f"bar: {bar}<br>{ticks}dot: {dot} (blue: more, orange: less)"
    hover = CHANGE.format(bar, dot)
    texts_are(page, key, title, legend, "probability", bar, *control, hover, *words)
    return changes(page, key, words, before, after)


def test_the_batch_matches_the_ids_fed_in(shown, records):
    cells = 0
    for side, rows, first in (
        ("source", [r.source for r in records], 1),
        ("target", [r.target_in for r in records], 0),
    ):
        sent = shown.payload(f"{side}_batch")
        expected = padded(rows)
        assert [[id for id, _ in line] for line in sent["rows"]] == expected.tolist()
        words = [[word for _, word in line if word is not None] for line in sent["rows"]]
        assert words == [names(row, first) for row in rows]
        assert (sent["first"], sent["title"]) == (first, f"{side.capitalize()}, as fed in")
        cells += int((expected == PAD).sum())
    shown.claim(f"Hatched: {cells} cells of padding, which no attention may read.")


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
    for side, tokens, first, title in (
        ("source", [r.source for r in records], 1, "source token"),
        ("target", [r.target_in for r in records], 0, "target token fed in"),
    ):
        ids, words = padded(tokens)[at], names(tokens[at], first)
        sides[side] = ids, drawn(words + ["<pad>"] * (len(ids) - len(words))), title
    (rows, row_words, row_title), (columns, column_words, column_title) = sides[query], sides[key]
    everything = np.ones((len(rows), len(columns)), bool)
    padding, causal = everything & (columns != PAD), np.tril(everything)
    parts = {"Padding mask: the only one": ("combined", padding, everything)}
    if kind == "decoder":
        parts = {
            "Padding mask": ("padding", padding, everything),
            "Causal mask": ("causal", everything, causal),
            "Combined mask": ("combined", padding, causal),
        }
    for title, (part, padding, causal) in parts.items():
        figure = page.figure(f"mask_{part}")
        mask = padding & causal
        assert titles(figure) == (title, f"{mask.sum()} of {mask.size} cells are unmasked")
        assert axis_titles(figure) == (f"key: {column_title}", f"query: {row_title}")
        layout = figure["layout"]
        for axis, words in (("xaxis", column_words), ("yaxis", row_words)):
            for ticks in (layout[axis], layout[axis + "2"]):
                assert begin(ticks["ticktext"]) == begin(words)
        assert layout["yaxis"]["range"][0] > layout["yaxis"]["range"][1]  # first row on top
        assert list(layout["xaxis3"]["ticktext"]) == [str(i) for i in columns]
        reasons = {
            "f": ("the future: written later", padding & ~causal),
            "p": ("padding: not part of the sentence", ~padding & causal),
            "pf": ("padding, and in the future", ~padding & ~causal),
        }
        expected = {"%{y}<br>may look at <b>%{x}</b><br>M = 0": mask} | {
            f"%{{y}}<br>may not look at <b>%{{x}}</b><br>{reason}, M = −∞": where
            for reason, where in reasons.values()
            if where.any()
        }
        heats = {
            t["hovertemplate"].removesuffix("<extra></extra>"): np.isfinite(
                array(t["z"]).astype(float)
            )
            for t in traces(figure, type="heatmap")
        }
        assert heats.keys() == expected.keys()
        for hover, where in expected.items():
            np.testing.assert_array_equal(heats[hover], where)
        for trace in traces(figure, mode="text"):
            where = np.zeros_like(mask)
            where[array(trace["y"]).astype(int), array(trace["x"]).astype(int)] = True
            np.testing.assert_array_equal(where, reasons[trace["text"][0]][1])


def test_the_table_of_shapes_matches_torch(shown, records, net):
    B, H = len(records), net.card.model.num_heads
    S, T = max(len(r.source) for r in records), max(len(r.target_in) for r in records)
    table = next(t for t in shown.tables[""] if "as stored" in t)
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
    figure = shown.figure("closing_strip")
    words = drawn(names(record.target_in, 0))
    produced = names(record.target_out, 1)[row]
    assert titles(figure)[0] == f"Row {row + 1}, producing “{produced}”: layer 1, head 1"
    assert begin(figure["layout"]["xaxis"]["ticktext"]) == begin(words)
    strips = ["score q·k/√dₖ", "after the mask", "after softmax"]
    assert figure["layout"]["yaxis"]["ticktext"] == strips
    scores, weights = traces(figure, type="heatmap")
    before, after, _ = array(scores["z"]).astype(float)
    shares = array(weights["z"]).astype(float)[2]
    weight = record.decoder[0, 0, row, : row + 1].astype(float)
    np.testing.assert_allclose(shares[: row + 1], weight, atol=1e-6)
    assert np.isnan(shares[row + 1 :]).all() and np.isnan(after[row + 1 :]).all()
    np.testing.assert_allclose(after[: row + 1], before[: row + 1], atol=1e-6)
    np.testing.assert_allclose(np.diff(before[: row + 1]), np.diff(np.log(weight)), atol=1e-4)
    assert (scores["zmin"], weights["zmin"], weights["zmax"]) == (-scores["zmax"], 0, 1)
    assert [len(t["colorbar"]["ticktext"]) for t in (scores, weights)] == [3, 2]
    bars = [trace["colorbar"] for trace in (scores, weights)]
    assert bars[1]["xpad"] - bars[0]["xpad"] >= 60  # room for the first bar's ticks and title
    assert scores["customdata"] == [words] * 3
    masked = T - row - 1
    (labels,) = (t for t in traces(figure, mode="text") if any("each" in x for x in t["text"]))
    assert list(labels["text"]) == ["−∞ each", "0 each"] and list(array(labels["y"])) == [1, 2]
    (hatched,) = traces(figure, name="masked")
    for name, values in (("y", [1, 2]), ("base", [row + 0.5] * 2), ("x", [masked] * 2)):
        assert array(hatched[name]).tolist() == values
    shown.claim_matching(rf"Look at the {masked} masked cells: .* weight is exactly 0\. .*")


@pytest.mark.parametrize("masked", [1, -1])
def test_one_masked_or_unmasked_cell_is_singular(net, masked):
    T = len(net.inspect("Schnee").target_in)
    masked %= T
    row = T - 1 - masked
    page = render("masks", source="Schnee", direction="de-en", closing_row=str(row))
    page.claim(
        (
            "Look at the masked cell: it has a score like any other, but after the softmax its "
            f"weight is exactly 0. The other {T - 1} share all the weight."
        )
        if masked == 1
        else f"Look at the {masked} masked cells: they have scores like any other, but after the "
        "softmax their total weight is exactly 0. The only other cell gets all the weight."
    )


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
        for text, all_masked in ((written, torch.full_like(row, fill)), (added, row + fill)):
            everywhere = all_masked.softmax(-1)
            low, high = everywhere.min().item(), everywhere.max().item()
            expected = f"each {low:.3f}" if high - low < 5e-4 else f"{low:.3f} to {high:.3f}"
            assert text == ("NaN" if np.isnan(low) else expected)


def test_the_effect_of_removing_the_causal_mask_matches_both_passes(shown, net, records):
    record = records[0]
    opened = net.inspect(SENTENCE, record.translation, Edits(causal_mask=False))
    before, after = np.exp(record.log_probs), np.exp(opened.log_probs)
    title, states = (
        "Probability of the next token of the target",
        ("with the causal mask", "without it"),
    )
    words = drawn(names(record.target_out, 1))
    compare_change(shown, "leak", title, states, words, before, after)
    T = len(before)
    share = (opened.decoder.mean((0, 1)) * np.triu(np.ones((T, T)), 1)).sum(-1)[:-1].mean()
    gain = (after - before).mean()
    assert gain < -0.005
    shown.claim(
        f"Mean probability of the next token of the target: from **{percent(before.mean())}** to "
        f"**{percent(after.mean())}** (change {number(gain, 3, '+')}); of {T} tokens, "
        f"{(after > before).sum()} became more probable and {(after < before).sum()} less. In the "
        f"rows that have future tokens, {percent(share)} of the decoder's self-attention now goes "
        "to them. On average, future tokens are noise to this network: it was trained with the "
        "mask, so it could not learn to use them."
    )


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
    match = page.claim_matching(r"Mean probability of the next token .* goes to them\. (.*)")
    assert verdict in match[1]


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
    control = "in its batch with the mask"
    figure = compare_change(
        shown,
        "padding_effect",
        "Probability of each token of its translation",
        ("the sentence alone", "in its batch without the mask"),
        drawn(names(record.target_out, 1)),
        alone,
        opened,
        (control,),
    )
    (ticks,) = traces(figure, name=control)
    np.testing.assert_allclose(array(ticks["y"]), masked, atol=1e-6)
    match = shown.claim_matching(
        rf"{max(lengths) - S} padding positions follow this sentence\. Largest change of a "
        r"probability: (.+?) with the mask, which is rounding; \*\*(.+?)\*\* without it, when "
        rf"{percent(on_padding)} of the encoder's attention falls on padding\."
    )
    assert from_scientific(match[1]) < 1e-5
    assert from_scientific(match[2]) == pytest.approx(np.abs(opened - alone).max(), rel=0.01, abs=0)


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
    for choice, hidden in (("Straßenmusiker", tuple(range(first, stop))), (".", (stop,))):
        query = {"source": SENTENCE, "hidden_word": str(options.index(choice))}
        page = render("masks", "open_word", direction="de-en", **query)
        edits = Edits(hidden_source=hidden)
        free, forced = (net.inspect(SENTENCE, t, edits) for t in (None, record.translation))
        page.claim(f"with the word:  {record.translation}", "hidden_translation")
        page.claim(f"without it:  {free.translation}", "hidden_translation")
        compare_change(
            page,
            "hidden_probabilities",
            "Probability of each token of the first translation",
            ("with the word", "without it"),
            drawn(names(record.target_out, 1)),
            np.exp(record.log_probs),
            np.exp(forced.log_probs),
        )


def test_curves_of_two_small_networks_are_drawn():
    from core.experiments.cheating import STEPS, WORDS, CheatingPoint

    points = [CheatingPoint(0, 0.02, 0.03), CheatingPoint(STEPS, 0.125, 0.75)]
    page = render("masks", "open_causal", source=SENTENCE, state={"saved cheating": points})
    page.claim_matching(
        rf"After {STEPS} steps, the next token has a probability of 75\u00a0% without the mask and "
        rf"12\u00a0% with it; guessing gives {re.escape(percent(1 / WORDS))}\. .*"
    )
    figure = page.figure("cheating")
    curves = {t["name"]: array(t["y"]).tolist() for t in traces(figure, mode="lines+markers")}
    assert curves == {"with the causal mask": [0.02, 0.125], "without": [0.03, 0.75]}
    assert array(figure["data"][-1]["x"]).tolist() == [0, STEPS]
    assert figure["layout"]["shapes"][0]["y0"] == pytest.approx(1 / WORDS)


def test_every_number_on_the_page_is_compared(shown, records, net):
    test_the_batch_matches_the_ids_fed_in(shown, records)
    test_one_row_from_score_to_weight_matches_the_record(shown, records)
    test_the_effect_of_removing_the_causal_mask_matches_both_passes(shown, net, records)
    test_probabilities_alone_and_in_a_batch_match_the_model(shown, net, records)
    shown.claim(f"{SENTENCE}\n→ {records[0].translation}", "lesson_sentence")
    shown.claim(least_certain(records[0]))
    shown.claim(f"with the word:  {records[0].translation}")
    nothing_else(
        shown,
        *("mask_padding", "mask_causal", "mask_combined", "closing_strip", "closing_table", ""),
        "hidden_probabilities",
        fixed=("Several sentences", "True = may attend", "float32 has steps", "−∞ gives NaN"),
    )
