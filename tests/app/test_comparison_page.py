"""The page on scratch and baseline: every number and name is the models' and the records'."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from safetensors.numpy import load_file
from scipy.optimize import linear_sum_assignment

from app.examples import EXAMPLES
from core.parity.checklist import Check
from tests.app.lesson_pages import (
    ROOT,
    drawn,
    from_scientific,
    in_the_sidebar,
    map_row,
    names,
    number,
    percent,
    side,
    translator,
)
from tests.app.rendered import Rendered, array, render

SENTENCE = "Ein Mann in einem roten Hemd spricht mit einem Straßenmusiker."
KINDS = ("encoder", "decoder", "cross")
SAME, APART = "same weights", "trained apart"
TEXTS = {SAME: SENTENCE, APART: "Zwei junge Männer spielen im Park Fußball."}


@pytest.fixture(scope="module")
def models():
    scratch, baseline = translator("scratch-de-en"), translator("baseline-de-en")
    return {SAME: (scratch, scratch.other_implementation()), APART: (scratch, baseline)}


@pytest.fixture(scope="module")
def pages() -> dict[str, Rendered]:
    return {
        SAME: render("comparison", source=SENTENCE),
        APART: render("comparison", source=TEXTS[APART], second_model="baseline"),
    }


@pytest.fixture(scope="module")
def similarities(models):
    """By pair and kind, the share of attention that each two heads put on the same cells."""
    found = {}
    for which, pair in models.items():
        common = dict.fromkeys(KINDS, 0)
        rows = dict.fromkeys(KINDS, 0)
        for example in EXAMPLES:
            first, second = (model.inspect(example.de, example.en) for model in pair)
            for kind in KINDS:
                a, b = (r.maps(kind).astype(float) for r in (first, second))
                a, b = (m.reshape(16, *m.shape[2:]) for m in (a, b))
                common[kind] = common[kind] + np.array(
                    [[np.minimum(one, other).sum() for other in b] for one in a]
                )
                rows[kind] += a.shape[1]
        found[which] = {kind: common[kind] / rows[kind] for kind in KINDS}
    return found


def sha256(folder: str) -> str:
    weights = ROOT / "checkpoints" / folder / "model.safetensors"
    return hashlib.sha256(weights.read_bytes()).hexdigest()


def records(models, which):
    first, second = models[which]
    target = first.inspect(TEXTS[which]).translation
    return first.inspect(TEXTS[which], target), second.inspect(TEXTS[which], target)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            {},
            "First: scratch-de-en: as trained, in the scratch code. Second: scratch-de-en: the "
            "same weights in torch.nn.Transformer. Both hold the same weights, so a difference "
            "beyond rounding would be a mistake in one of the two codes.",
        ),
        (
            {"model": "baseline"},
            "First: baseline-de-en: as trained, in torch.nn.Transformer. Second: baseline-de-en: "
            "the same weights in the scratch code. Both hold the same weights, so a difference "
            "beyond rounding would be a mistake in one of the two codes.",
        ),
        (
            {"second_model": "baseline"},
            "First: scratch-de-en: as trained, in the scratch code. Second: baseline-de-en: as "
            "trained, in torch.nn.Transformer. They were trained apart from each other, so their "
            "maps may differ without a mistake in either code.",
        ),
        (
            {"second_model": "scratch"},
            "First: scratch-de-en: as trained, in the scratch code. Second: scratch-de-en: as "
            "trained, in the scratch code. That is one model twice: choose another one to compare "
            "it with.",
        ),
    ],
)
def test_the_first_sentence_is_of_the_chosen_models(query, said):
    page = render("comparison", source="Ein Hund.", **query)
    shown = [text.replace("\\", "").replace("\u2060", "") for text in page.texts(kind="caption")]
    assert said in shown


@pytest.mark.parametrize("which", [SAME, APART])
def test_the_largest_difference(pages, models, similarities, which):
    page = pages[which]
    first, second = records(models, which)
    largest = (-1.0,)
    for kind in KINDS:
        a, b = (r.maps(kind).astype(float) for r in (first, second))
        partner = np.arange(16)
        if which == APART:
            partner = linear_sum_assignment(similarities[which][kind], maximize=True)[1]
        b = b.reshape(16, *b.shape[2:])[partner].reshape(b.shape)
        at = np.unravel_index(np.abs(a - b).argmax(), a.shape)
        if abs(a[at] - b[at]) > largest[0]:
            there = divmod(int(partner[at[0] * 4 + at[1]]), 4)
            largest = (abs(a[at] - b[at]), kind, *map(int, at), there, a[at], b[at])
    size, kind, layer, head, q, k, (other_layer, other_head), one, other = largest
    queries = names(first.source if kind == "encoder" else first.target_out, 1)
    keys = names(first.target_in, 0) if kind == "decoder" else names(first.source, 1)
    there = ""
    if (layer, head) != (other_layer, other_head):
        there = f" (second: layer {other_layer + 1}, head {other_head + 1})"
    page.claim(
        f"Largest: {kind}, layer {layer + 1}, head {head + 1}{there}, "
        f"{'from' if kind == 'encoder' else 'producing'} “{queries[q]}” (row {q + 1}), looking at "
        f"“{keys[k]}” (column {k + 1}): first {one:.7f}, second {other:.7f}",
        "largest",
    )
    cells = sum(first.maps(kind).size for kind in KINDS)
    if which == SAME:
        match = page.claim_matching(
            r"\*\*All weights agree within 1e-5\.\*\* The largest difference over all "
            rf"{cells:,} weights, of every kind, layer and head, is \*\*(.+?)\*\*: .*"
        )
    else:
        match = page.claim_matching(
            rf"\*\*The largest difference over all {cells:,} weights is (.+?)\.\*\* .*"
        )
    assert from_scientific(match[1]) == pytest.approx(size, rel=0.06, abs=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", [SAME, APART])
def test_the_maps_and_what_is_subtracted(models, similarities, which, kind):
    query = {"second_model": "baseline"} if which == APART else {}
    page = render("comparison", source=TEXTS[which], compare_kind=kind, **query)
    first, second = records(models, which)
    header, (one, other) = map_row(page, "compared_maps")
    np.testing.assert_allclose(one, first.maps(kind), atol=1e-6)
    partner = np.arange(16)
    if which == APART:
        partner = linear_sum_assignment(similarities[which][kind], maximize=True)[1]
    maps = second.maps(kind)
    expected = maps.reshape(16, *maps.shape[2:])[partner].reshape(maps.shape)
    np.testing.assert_allclose(other, expected, atol=1e-6)
    if which == APART:
        notes = [note for line in header["maps"][1]["note"] for note in line]
        assert notes == [f"layer {p // 4 + 1}, head {p % 4 + 1}" for p in partner]
    assert [m["name"] for m in header["maps"]] == [
        "First: the scratch code",
        "Second: torch.nn.Transformer",
        "First − second",
    ]
    assert header["maps"][2]["minus"] == [0, 1]
    queries = first.source if kind == "encoder" else first.target_out
    keys = first.target_in if kind == "decoder" else first.source
    assert side(header, "queries") == [(i + 1, t.text) for i, t in enumerate(queries)]
    start = 0 if kind == "decoder" else 1
    assert side(header, "keys") == [(i + start, t.text) for i, t in enumerate(keys)]
    languages = {
        "encoder": ("German token", "German token"),
        "decoder": ("English token being produced", "English token"),
        "cross": ("English token being produced", "German token"),
    }[kind]
    assert (header["queries"]["words"], header["keys"]["words"]) == languages


@pytest.mark.parametrize("which", [SAME, APART])
def test_which_head_is_which(pages, similarities, which):
    page, similarity = pages[which], similarities[which]["cross"]
    partner = linear_sum_assignment(similarity, maximize=True)[1]
    heads = [f"{n // 4 + 1}.{n % 4 + 1}" for n in range(16)]
    figure = page.figure("matched_heads")
    layout = figure["layout"]
    heat = next(t for t in figure["data"] if t["type"] == "heatmap")
    np.testing.assert_allclose(array(heat["z"]), similarity, atol=1e-5)
    assert (heat["zmin"], heat["zmax"]) == (0, 1)
    assert layout["yaxis"]["title"]["text"] == "first model: layer.head"  # rows of z
    assert layout["xaxis"]["title"]["text"] == "second model: layer.head"
    for axis in ("xaxis", "yaxis", "xaxis2", "yaxis2"):
        assert list(layout[axis]["ticktext"]) == heads
    assert heat["hovertemplate"] == (
        "first: layer.head %{y}<br>second: layer.head %{x}<br>attention in common: <b>%{z:.4f}</b>"
        "<extra></extra>"
    )
    for ring in (t for t in figure["data"] if t.get("mode") == "markers"):
        assert array(ring["x"]).tolist() == partner.tolist()
        assert array(ring["y"]).tolist() == list(range(16))
    kept = int((partner == np.arange(16)).sum())
    assert layout["title"]["text"] == "Heads of the cross-attention, matched"
    assert (
        layout["title"]["subtitle"]["text"]
        == f"{kept} of 16 are matched to the head of the same number"
    )
    table = next(t for t in page.tables[""] if "in common" in t)
    assert list(table["first"]) == heads
    assert list(table["second"]) == [heads[p] for p in partner]
    matched = similarity[np.arange(16), partner]
    np.testing.assert_allclose(table["in common"].astype(float), matched, atol=1e-4)
    own = similarity.diagonal()
    np.testing.assert_allclose(table["same number"].astype(float), own, atol=1e-4)
    if which == SAME:
        assert kept == 16 and 0.9995 < matched.min() < 1
        page.claim(
            "All 16 heads are matched to themselves; the pair least alike has >99.9\u00a0% of its "
            "attention in common."
        )
    else:
        page.claim(
            f"Matched heads have {percent(matched.mean())} of their attention in common on "
            f"average, heads of the same number {percent(own.mean())}."
        )
    page.claim_matching(rf"Models that were trained apart .*, over {len(EXAMPLES)} sentences, .*")


@pytest.mark.parametrize("which", [SAME, APART])
def test_side_by_side(pages, models, which):
    page = pages[which]
    rows = next(
        t for t in page.tables[""] if "" in t and "first" in t and "second" in t and len(t) > 5
    )
    rows = {row[0]: tuple(row[1:]) for row in rows.to_numpy().tolist()}
    own = [model.inspect(TEXTS[which]) for model in models[which]]
    forced = records(models, which)
    folders = ["scratch-de-en", "scratch-de-en" if which == SAME else "baseline-de-en"]
    expected = {
        "code": [], "weights": [], "parameters": [], "layers, heads, d_model": [],
        "BLEU (validation sets)": [], "bits per character (validation sets)": [],
        "log-probability of its own translation": [],
        "log-probability of the first's translation": [],
    }  # fmt: skip
    for place, folder in enumerate(folders):
        path = ROOT / "checkpoints" / folder
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        final = json.loads((path / "metrics.json").read_text(encoding="utf-8"))["final"]
        shape = config["model"]
        tensors = load_file(path / "model.safetensors")
        said = {
            "code": ("the scratch code", "torch.nn.Transformer")[place],
            "weights": f"{folder} ({sha256(folder)[:8]})",
            "parameters": f"{sum(t.size for t in tensors.values()):,}",
            "layers, heads, d_model": f"{shape['num_encoder_layers']} + "
            f"{shape['num_decoder_layers']}, {shape['num_heads']}, {shape['d_model']}",
            "BLEU (validation sets)": ", ".join(
                f"{name} {score['sacrebleu']:.2f}" for name, score in final.items()
            ),
            "bits per character (validation sets)": ", ".join(
                f"{name} {score['bits_per_char']:.4f}" for name, score in final.items()
            ),
            "log-probability of its own translation": number(own[place].log_probs.sum(), 3),
            "log-probability of the first's translation": number(forced[place].log_probs.sum(), 3),
        }
        for key, value in said.items():
            expected[key].append(value)
    assert rows == {key: tuple(values) for key, values in expected.items()}
    if which == APART:  # else a mistaken column would not show
        first, second = rows["log-probability of its own translation"]
        assert second != rows["log-probability of the first's translation"][1] != first
    for key, record, label in zip(
        ("first_scores", "second_scores"),
        own,
        ("First: the scratch code", "Second: torch.nn.Transformer"),
        strict=True,
    ):
        figure = page.figure(key)
        (bars,) = figure["data"]
        np.testing.assert_allclose(array(bars["y"]), record.log_probs, atol=1e-5)
        for (word, p), name, log_prob in zip(
            bars["customdata"], names(record.target_out, 1), record.log_probs, strict=True
        ):
            assert [word] == drawn([name]) and p == pytest.approx(np.exp(log_prob), abs=1e-5)
        assert [t[:4] for t in figure["layout"]["xaxis"]["ticktext"]] == [
            w[:4] for w in drawn(names(record.target_out, 1))
        ]
        assert figure["layout"]["title"]["text"] == label
        assert figure["layout"]["title"]["subtitle"]["text"] == (
            f"log-probability of the whole: {number(record.log_probs.sum(), 3)} "
            f"({len(record.log_probs)} tokens)"
        )
        assert figure["layout"]["yaxis"]["title"]["text"] == "log-probability (nats)"
        assert bars["hovertemplate"] == (
            "%{customdata[0]}<br>probability <b>%{customdata[1]:.4f}</b>, log-probability "
            "%{y:.3f}<extra></extra>"
        )
        lowest = min(r.log_probs.min() for r in own)
        assert figure["layout"]["yaxis"]["range"] == pytest.approx([1.08 * lowest, 0], rel=1e-4)
    if which == SAME:
        match = page.claim_matching(
            r"The two write the same translation; the log-probability of a token differs by at "
            r"most (.+?) nats\. Their speed may differ\."
        )
        off = np.abs(own[0].log_probs - own[1].log_probs).max()
        assert from_scientific(match[1]) == pytest.approx(off, rel=0.5, abs=0)


@pytest.mark.parametrize("which", [SAME, APART])
def test_the_curves_of_training(pages, which):
    folders = ["scratch-de-en"] + ["baseline-de-en"] * (which == APART)
    traces = pages[which].figure("curves")["data"]
    expected = [
        (f, w, n)
        for f in folders
        for w, n in (("val_loss", "validation"), ("train_loss", "training"))
    ]
    for trace, (folder, loss, word) in zip(traces, expected, strict=True):
        path = ROOT / "checkpoints" / folder / "metrics.json"
        curve = json.loads(path.read_text(encoding="utf-8"))["curve"]
        assert trace["name"] == f"{folder}: {word}"
        assert array(trace["x"]).tolist() == [point["step"] for point in curve]
        assert array(trace["y"]).tolist() == [point[loss] for point in curve]
    layout = pages[which].figure("curves")["layout"]
    assert layout["xaxis"]["title"]["text"] == "optimiser step"
    assert layout["yaxis"]["title"]["text"] == "loss"
    one = "One curve: both hold the weights of this training."
    assert (one in pages[which].texts(kind="caption")) == (which == SAME)


def test_tensors_under_two_names(pages):
    """Shapes are those of the named tensors, and together these are all of the checkpoint."""
    tensors = load_file(ROOT / "checkpoints/scratch-de-en/model.safetensors")
    table = next(t for t in pages[SAME].tables[""] if "shape of each" in t)
    named = []
    for _, row in table.iterrows():
        scratch = row["scratch"].split(", ")
        named += scratch
        shapes = {" × ".join(map(str, tensors[name].shape)) for name in scratch}
        assert shapes == {row["shape of each"]}
        whole = sum(tensors[name].shape[0] for name in scratch)
        assert row["shape"].split(" × ")[0] == str(whole)
    assert sorted(named) == sorted(tensors)


@pytest.mark.parametrize("failed", [0, 2])
def test_the_verdict_says_how_much_was_compared(failed):
    checks = [
        Check(f"line {n}", n >= failed, 2e-13 * (n + 1), 1e-12, f"detail {n}") for n in range(5)
    ]
    page = render(
        "comparison", source="Ein Hund.", state={f"kept checks {sha256('scratch-de-en')}": checks}
    )
    if failed:
        assert [e.value for e in page.app.error] == ["2 of 5 lines failed: the two models differ."]
    else:
        page.claim(
            "✓ All 5 lines hold. They compare the two on 3 sentence pairs, with padding and "
            "without; other inputs could still show a difference.",
            "checks",
        )
    (table,) = page.tables["checks"]
    for n, row in enumerate(table.to_numpy().tolist()):
        tick, name, difference, limit, detail = row
        assert (tick, name, detail) == ("✗✓"[n >= failed], f"line {n}", f"detail {n}")
        assert from_scientific(difference) == pytest.approx(2e-13 * (n + 1), rel=0.01, abs=0)
        assert from_scientific(limit) == pytest.approx(1e-12, rel=0.01, abs=0)


@pytest.mark.parametrize("which", [SAME, APART])
def test_nothing_else_on_the_page_is_a_number(pages, models, similarities, which):
    page = pages[which]
    test_the_largest_difference(pages, models, similarities, which)
    test_which_head_is_which(pages, similarities, which)
    test_side_by_side(pages, models, which)
    compared = ("matched_heads", "first_scores", "second_scores", "curves", "")
    page.everything_was_claimed(
        but=lambda item: (
            in_the_sidebar(item)
            or item.kind in ("latex", "help", "option", "label", "text_area", "raw_value")
            or (item.where in compared and item.kind in ("figure", "cell", "column"))
        )
    )
