"""The page on masks: every number, name and title is the record's, with every section open."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from core.record.capture import capture
from core.record.editing import edited
from core.record.edits import Edits
from core.text.tokenizer import BOS, PAD
from tests.app.lesson_pages import (
    changes,
    drawn,
    from_scientific,
    in_the_sidebar,
    least_certain,
    names,
    number,
    percent,
    texts_are,
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


@pytest.fixture(scope="module")
def net():
    return translator("scratch-de-en")


@pytest.fixture(scope="module")
def records(net):
    return [net.inspect(text) for text in BATCH]


@pytest.fixture(scope="module")
def shown() -> Rendered:
    return render("masks", *SECTIONS, source=SENTENCE, direction="de-en")


def padded(rows: list[list[int]]) -> np.ndarray:
    width = max(map(len, rows))
    return np.array([row + [PAD] * (width - len(row)) for row in rows])


def ids(tokens) -> list[int]:
    return [token.id for token in tokens]


def test_the_batch_is_as_it_is_fed_in(shown, records):
    sides = {
        "source": ([r.source for r in records], 1),
        "target": ([r.target_in for r in records], 0),
    }
    cells = 0
    for side, (rows, first) in sides.items():
        sent = shown.payload(f"{side}_batch")
        expected = padded([ids(row) for row in rows])
        assert [[id for id, _ in line] for line in sent["rows"]] == expected.tolist()
        words = [[word for _, word in line if word is not None] for line in sent["rows"]]
        assert words == [names(row, first) for row in rows]
        assert sent["first"] == first  # so that Mann₂ is in the column of token 2
        assert sent["title"] == f"{side.capitalize()}, as fed in"
        cells += int((expected == PAD).sum())
    shown.claim(f"Hatched: {cells} cells of padding, which no attention may read.")


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_masks_and_their_axes(records, kind):
    """The shortest target is shown; queries are rows, keys are columns, and both are named."""
    page = render("masks", source=SENTENCE, direction="de-en", mask_kind=kind)
    shown = int(np.argmin([len(r.target_in) for r in records]))
    record = records[shown]
    source, target = (
        padded([ids(r.source) for r in records])[shown],
        padded([ids(r.target_in) for r in records])[shown],
    )
    sides = {
        "source": (source, [*names(record.source, 1)], "source token"),
        "target": (target, [*names(record.target_in, 0)], "target token fed in"),
    }
    query, key = {
        "encoder": ("source", "source"),
        "decoder": ("target", "target"),
        "cross": ("target", "source"),
    }[kind]
    (rows, row_words, row_title), (columns, column_words, column_title) = sides[query], sides[key]
    padding = np.broadcast_to(columns != PAD, (len(rows), len(columns)))
    causal = np.tri(len(rows), len(columns), dtype=bool)
    parts = {"combined": padding}
    if kind == "decoder":
        parts = {"padding": padding, "causal": causal, "combined": padding & causal}
    titles = {"padding": "Padding mask", "causal": "Causal mask", "combined": "Combined mask"}
    for part, mask in parts.items():
        figure = page.figure(f"mask_{part}")
        layout, data = figure["layout"], figure["data"]
        title = titles[part] if kind == "decoder" else "Padding mask: all there is"
        assert layout["title"]["text"] == title
        said = f"{mask.sum()} of {mask.size} cells are unmasked"
        assert layout["title"]["subtitle"]["text"] == said
        assert layout["yaxis"]["title"]["text"] == f"query: {row_title}"
        assert layout["xaxis"]["title"]["text"] == f"key: {column_title}"
        for axis, words, count in (
            ("yaxis", row_words, len(rows)),
            ("yaxis2", row_words, len(rows)),
            ("xaxis", column_words, len(columns)),
            ("xaxis2", column_words, len(columns)),
        ):
            expected = drawn(words + ["<pad>"] * (count - len(words)))
            assert [text[:4] for text in layout[axis]["ticktext"]] == [w[:4] for w in expected]
        assert list(layout["xaxis3"]["ticktext"]) == [str(i) for i in columns]
        heats = {
            trace["hovertemplate"]: ~np.isnan(array(trace["z"]).astype(float))
            for trace in data
            if trace["type"] == "heatmap"
        }
        one_padding = np.ones_like(mask) if part == "causal" else padding
        one_causal = causal if part != "padding" and kind == "decoder" else np.ones_like(mask)
        cells = {
            ("may look at", "", "M = 0"): mask,
            ("may not look at", "the future: written later, ", "M = −∞"): one_padding & ~one_causal,
            ("may not look at", "padding: no token at all, ", "M = −∞"): ~one_padding & one_causal,
            ("may not look at", "padding, and in the future, ", "M = −∞"): ~one_padding
            & ~one_causal,
        }
        hovers = {
            f"%{{y}}<br>{verb} <b>%{{x}}</b><br>{reason}{m}<extra></extra>": where
            for (verb, reason, m), where in cells.items()
            if where.any()
        }
        assert heats.keys() == hovers.keys()
        for hover, where in hovers.items():
            np.testing.assert_array_equal(heats[hover], where)
        letters = {}
        for trace in data:
            if trace.get("mode") == "text":
                where = np.zeros_like(mask)
                where[array(trace["y"]).astype(int), array(trace["x"]).astype(int)] = True
                letters[trace["text"][0]] = where
        for letter, reason in (
            ("f", "the future: w"),
            ("p", "padding: no"),
            ("pf", "padding, and"),
        ):
            at = next(where for (_, why, _), where in cells.items() if why.startswith(reason))
            if letter in letters:
                np.testing.assert_array_equal(letters[letter], at)


def test_shapes_in_torch(shown, records, net):
    B, H = len(records), net.card.model.num_heads
    S, T = max(len(r.source) for r in records), max(len(r.target_in) for r in records)
    table = next(t for t in shown.tables[""] if "as held" in t)
    assert table.to_numpy().tolist() == [
        ["source mask in the encoder", f"[{B}, 1, 1, {S}]", f"[{B}, {H}, {S}, {S}]"],
        ["source mask in cross-attention", f"[{B}, 1, 1, {S}]", f"[{B}, {H}, {T}, {S}]"],
        ["target mask: padding", f"[{B}, 1, 1, {T}]", f"[{B}, {H}, {T}, {T}]"],
        ["target mask: causal", f"[{T}, {T}]", f"[{B}, {H}, {T}, {T}]"],
        ["target mask: both", f"[{B}, 1, {T}, {T}]", f"[{B}, {H}, {T}, {T}]"],
    ]


def test_one_row_from_score_to_weight(shown, records, net):
    """Layer 1 head 1: the weights are the record's, their logarithms the scores up to a sum."""
    record = records[0]
    T = len(record.target_in)
    row = T // 2
    figure = shown.figure("closing_strip")
    words = drawn(names(record.target_in, 0))
    produced = names(record.target_out, 1)[row]
    assert (
        figure["layout"]["title"]["text"] == f"Row {row + 1}, producing {produced}: layer 1, head 1"
    )
    assert [text[:4] for text in figure["layout"]["xaxis"]["ticktext"]] == [w[:4] for w in words]
    strips = ["score q·k/√dₖ", "after the mask", "after softmax"]
    assert figure["layout"]["yaxis"]["ticktext"] == strips
    scores, weights = (t for t in figure["data"] if t["type"] == "heatmap")
    before, after, _ = array(scores["z"]).astype(float)
    shares = array(weights["z"]).astype(float)[2]
    weight = record.decoder[0, 0, row]
    np.testing.assert_allclose(shares[: row + 1], weight[: row + 1], atol=1e-6)
    assert np.isnan(shares[row + 1 :]).all() and np.isnan(after[row + 1 :]).all()
    np.testing.assert_allclose(after[: row + 1], before[: row + 1], atol=1e-6)
    exact = np.log(weight[: row + 1].astype(float))
    np.testing.assert_allclose(np.diff(before[: row + 1]), np.diff(exact), atol=1e-4)
    assert scores["customdata"] == [words] * 3
    masked = T - row - 1
    texts = next(
        t for t in figure["data"] if t.get("mode") == "text" and any("each" in x for x in t["text"])
    )
    assert list(texts["text"]) == ["−∞ each", "0 each"] and list(array(texts["y"])) == [1, 2]
    (hatched,) = (t for t in figure["data"] if t.get("name") == "masked")
    assert array(hatched["y"]).tolist() == [1, 2]
    assert array(hatched["base"]).tolist() == [row + 0.5] * 2
    assert array(hatched["x"]).tolist() == [masked] * 2
    shown.claim_matching(rf"Look at the {masked} masked cells: .*they hold exactly 0, and .*")


def test_one_masked_cell_and_one_unmasked_cell_are_spoken_of_as_one(net):
    T = len(net.inspect("Schnee").target_in)
    assert T > 2
    for row, masked, gets in (
        (0, T - 1, "the only other cell gets"),
        (T - 2, 1, f"the other {T - 1} share"),
    ):
        page = render("masks", source="Schnee", direction="de-en", closing_row=str(row))
        one = masked == 1
        page.claim(
            f"Look at the {'masked cell' if one else f'{masked} masked cells'}: before the mask "
            f"{'it scores' if one else 'they score'} like any other; after the softmax "
            f"{'it holds' if one else 'they hold'} exactly 0, and {gets} all the weight."
        )


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_a_sentence_without_padding_is_not_said_to_have_any(records, kind):
    side = "target_in" if kind == "decoder" else "source"
    lengths = [len(getattr(record, side)) for record in records]
    for row, length in enumerate(lengths):
        page = render(
            "masks", source=SENTENCE, direction="de-en", mask_kind=kind, mask_sentence=str(row)
        )
        texts = " ".join(page.texts(kind="caption"))
        assert ("This sentence has no padding" in texts) == (length == max(lengths))
        assert ("p padding" in texts) == (length < max(lengths))
        assert ("staircase" in texts) == (kind == "decoder")


@pytest.mark.parametrize(("row", "padded"), [(0, True), (1, False)])
def test_the_padding_that_is_spoken_of_is_the_keys(row, padded):
    """In cross-attention the keys are the source's, however the target is padded."""
    page = render(
        "masks",
        direction="de-en",
        mask_input="ids",
        mask_source_ids="[1, 5, 0]\n[1, 8, 7]",
        mask_target_ids="[1, 5, 6, 2]\n[1, 5, 2, 0]",
        mask_kind="cross",
        mask_ids_sentence=str(row),
    )
    assert ("This sentence has no padding" in " ".join(page.texts(kind="caption"))) != padded


def test_the_table_of_mask_values(shown, net, records):
    """Each is worked out here, from the scores in the strip, in the precision that it names."""
    figure = shown.figure("closing_strip")
    z = array(next(t for t in figure["data"] if t["type"] == "heatmap")["z"]).astype(float)
    scores, open_keys = torch.tensor(z[0]), torch.tensor(~np.isnan(z[1]))
    exact = scores.float().masked_fill(~open_keys, -torch.inf).softmax(-1)
    rows = shown.table("closing_table").to_numpy().tolist()
    fills = {"−∞": -torch.inf, "−10⁴": -1e4, "−10⁹": -1e9}
    assert [row[:2] for row in rows] == [
        [fill, precision] for precision in ("float32", "bfloat16") for fill in fills
    ]
    for fill, precision, held, on_masked, change, written, added in rows:
        dtype = getattr(torch, precision)
        row = scores.to(dtype)
        assert held == number(torch.tensor(fills[fill], dtype=dtype).item(), 0).replace("inf", "∞")
        weights = row.masked_fill(~open_keys, fills[fill]).softmax(-1).float()
        assert on_masked == "0" and weights[~open_keys].sum() == 0
        off = (weights - exact)[open_keys].abs().max().item()
        assert from_scientific(change) == pytest.approx(off, rel=0.01, abs=1e-7)
        for said, everywhere in (
            (written, torch.full_like(row, fills[fill]).softmax(-1)),
            (added, (row + fills[fill]).softmax(-1)),
        ):
            low, high = everywhere.min().item(), everywhere.max().item()
            expected = f"each {low:.3f}" if high - low < 5e-4 else f"{low:.3f} to {high:.3f}"
            assert said == ("NaN" if np.isnan(low) else expected)


def test_the_leak(shown, net, records):
    record = records[0]
    opened = net.inspect(SENTENCE, record.translation, Edits(causal_mask=False))
    before, after = np.exp(record.log_probs), np.exp(opened.log_probs)
    words = drawn(names(record.target_out, 1))
    changes(shown, "leak", words, before, after)
    T = len(before)
    future = np.triu(np.ones((T, T)), 1)
    share = (opened.decoder.mean((0, 1)) * future).sum(-1)[:-1].mean()
    gain = (after - before).mean()
    assert gain < -0.005
    shown.claim(
        f"Mean probability of the right token: from **{percent(before.mean())}** to "
        f"**{percent(after.mean())}** (gain {number(gain, 3, '+')}); of {T} tokens, "
        f"{(after > before).sum()} became more probable and {(after < before).sum()} less. In the "
        f"rows that have tokens to come, {percent(share)} of the decoder's self-attention now goes "
        "to them. On the whole the tokens to come disturb this network: it was trained with the "
        "mask, where it could not learn to use them."
    )
    texts_are(
        shown,
        "leak",
        "Probability of the right next token",
        "bar: with the causal mask<br>dot: without it (blue: more, orange: less)",
        "probability",
        "with the causal mask",
        "<b>%{customdata[0]}</b><br>with the causal mask: %{customdata[1]:.4f}<br>"
        "without it: %{customdata[2]:.4f}<br>change: <b>%{customdata[3]:+.4f}</b><extra></extra>",
        *words,
    )


@pytest.mark.parametrize(
    ("gained", "said"),
    [
        (-0.3, "disturb this network"),
        (-0.004, "next to nothing"),
        (0.0001, "next to nothing"),
        (0.2, "the answer leaked"),
    ],
)
def test_what_a_gain_says_follows_its_sign_and_size(monkeypatch, gained, said):
    from core.analysis import leaks

    def one(masked, opened):
        T = len(masked.log_probs)
        return leaks.Leak(np.full(T, 0.5), np.full(T, 0.5 + gained), np.full(T, 0.25))

    monkeypatch.setattr("app.views.masks.without.leaks.leak", one)
    page = render("masks", "open_causal", source=SENTENCE, direction="de-en")
    match = page.claim_matching(r"Mean probability of the right token: .* goes to them\. (.*)")
    assert said in match[1]


def test_a_sentence_in_its_batch(shown, net, records):
    """The shortest sentence alone, in the batch, and in the batch without the padding mask."""
    lengths = [len(record.source) for record in records]
    row = int(np.argmin(lengths))
    record = records[row]
    source = torch.tensor(padded([ids(r.source) for r in records]))
    target = torch.tensor(padded([[BOS, *ids(r.target_out)[:-1]] for r in records]))
    right = torch.tensor(ids(record.target_out))

    def probabilities(model) -> np.ndarray:
        logits = model(source, target)[row, : len(right)].double()
        return logits.softmax(-1).gather(1, right[:, None])[:, 0].numpy()

    with net.exclusive_model() as model, torch.inference_mode():
        masked = probabilities(model)
        with edited(model, Edits(padding_mask=False)), capture(model) as captured:
            opened = probabilities(model)
        maps = captured.maps("encoder")[:, row]
    alone = np.exp(record.log_probs)
    S = lengths[row]
    on_padding = float(maps[..., :S, S:].double().sum(-1).mean())
    words = drawn(names(record.target_out, 1))
    figure = changes(shown, "padding_effect", words, alone, opened)
    (ticks,) = (t for t in figure["data"] if t.get("name") == "in its batch with the mask")
    np.testing.assert_allclose(array(ticks["y"]), masked, atol=1e-6)
    said = shown.claim_matching(
        rf"{max(lengths) - S} padding positions follow this sentence\. Largest change of a "
        r"probability: (.+?) with the mask, which is rounding; \*\*(.+?)\*\* without it, when "
        rf"{percent(on_padding)} of the encoder's attention falls on padding\."
    )
    assert from_scientific(said[1]) < 1e-5
    assert from_scientific(said[2]) == pytest.approx(np.abs(opened - alone).max(), rel=0.01, abs=0)
    control = "in its batch with the mask"
    texts_are(
        shown,
        "padding_effect",
        "Probability of each token of its translation",
        f"bar: the sentence alone<br>tick: {control}<br>"
        "dot: in its batch without the mask (blue: more, orange: less)",
        "probability",
        "the sentence alone",
        control,
        "<b>%{customdata[0]}</b><br>the sentence alone: %{customdata[1]:.4f}<br>in its batch "
        "without the mask: %{customdata[2]:.4f}<br>change: <b>%{customdata[3]:+.4f}</b>"
        "<extra></extra>",
        *words,
    )


def test_a_word_masked_away_is_that_word_and_no_other(shown, net, records):
    """The tokens of Straßenmusiker; the full stop is a choice of its own."""
    record = records[0]
    texts = [token.text for token in record.source]
    first = texts.index("Straßen")
    last = texts.index(".") - 1
    assert last > first  # the word is split
    options = shown.app.selectbox(key="hidden_word").options
    numbered = names(record.source, 1)
    assert options == [*numbered[:first], "Straßenmusiker", "."]
    assert "einem₄" in options and "einem₉" in options
    assert shown.texts("hidden_word", "raw_value") == ["einem₉"]  # the last but one that is no mark
    for choice, hidden in (("Straßenmusiker", tuple(range(first, last + 1))), (".", (last + 1,))):
        chosen = render(
            "masks",
            "open_word",
            source=SENTENCE,
            direction="de-en",
            hidden_word=str(options.index(choice)),
        )
        edits = Edits(hidden_source=hidden)
        without = net.inspect(SENTENCE, None, edits)
        chosen.claim(f"with the word:  {record.translation}", "hidden_translation")
        chosen.claim(f"without it:  {without.translation}", "hidden_translation")
        forced = net.inspect(SENTENCE, record.translation, edits)
        words = drawn(names(record.target_out, 1))
        changes(
            chosen,
            "hidden_probabilities",
            words,
            np.exp(record.log_probs),
            np.exp(forced.log_probs),
        )
    texts_are(
        shown,
        "hidden_probabilities",
        "Probability of each token of the first translation",
        "bar: with the word<br>dot: without it (blue: more, orange: less)",
        "probability",
        "with the word",
        "<b>%{customdata[0]}</b><br>with the word: %{customdata[1]:.4f}<br>without it: "
        "%{customdata[2]:.4f}<br>change: <b>%{customdata[3]:+.4f}</b><extra></extra>",
        *drawn(names(record.target_out, 1)),
    )


def test_two_small_networks_say_what_they_learned():
    from core.experiments.cheating import STEPS, WORDS, CheatingPoint

    points = [CheatingPoint(0, 0.02, 0.03), CheatingPoint(STEPS, 0.125, 0.75)]
    page = render("masks", "open_causal", source=SENTENCE, state={"kept cheating": points})
    page.claim_matching(
        rf"After {STEPS} steps the right token gets 75\u00a0% without the mask and 12\u00a0% with "
        rf"it; a guess gets {re.escape(f'{100 / WORDS:.0f}')}\u00a0%\. .*"
    )
    masked, opened = (
        t for t in page.figure("cheating")["data"] if t.get("mode") == "lines+markers"
    )
    assert (masked["name"], opened["name"]) == ("with the causal mask", "without")
    assert array(masked["y"]).tolist() == [0.02, 0.125]
    assert array(opened["y"]).tolist() == [0.03, 0.75]
    assert array(opened["x"]).tolist() == [0, STEPS]


def test_nothing_else_on_the_page_is_a_number(shown, records, net):
    """What the tests above do not compare fails here."""
    test_the_batch_is_as_it_is_fed_in(shown, records)
    test_one_row_from_score_to_weight(shown, records, net)
    test_the_leak(shown, net, records)
    test_a_sentence_in_its_batch(shown, net, records)
    test_a_word_masked_away_is_that_word_and_no_other(shown, net, records)
    shown.claim(f"{SENTENCE}\n→ {records[0].translation}", "lesson_sentence")
    shown.claim(least_certain(records[0]))
    compared = (
        "mask_padding",
        "mask_causal",
        "mask_combined",
        "closing_strip",
        "closing_table",
        "",
    )
    fixed = ("M_{qk}", "A_{qk}", "gain", "Attention", "Several sentences", "True = may attend")
    shown.everything_was_claimed(
        but=lambda item: (
            in_the_sidebar(item)
            or item.kind in ("latex", "help", "option", "label", "text_area", "raw_value")
            or (item.where in compared and item.kind in ("figure", "cell", "column"))
            or any(word in item.text for word in fixed)
            or "float32 has steps" in item.text
            or "−∞ gives NaN" in item.text
        )
    )
