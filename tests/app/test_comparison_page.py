"""The page "Scratch and baseline" agrees with the checkpoints and the records."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from app.examples import EXAMPLES
from core.analysis.difference import largest_difference
from core.analysis.matching import match_heads
from core.parity.checklist import Check
from tests.app.page_checks import (
    ROOT,
    axis_titles,
    begin,
    drawn,
    from_scientific,
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
KINDS = ("encoder", "decoder", "cross")
SAME, APART = "same weights", "trained apart"
TEXTS = {SAME: SENTENCE, APART: "Zwei junge Männer spielen im Park Fußball."}
QUERIES = {SAME: {}, APART: {"second_model": "baseline"}}
FOLDERS = {
    SAME: ("scratch-de-en", "scratch-de-en"),
    APART: ("scratch-de-en", "baseline-de-en"),
}
CODES = ("the scratch code", "torch.nn.Transformer")
N = 16  # heads of a kind, 4 per layer
each_pair = pytest.mark.parametrize("which", [SAME, APART])


@pytest.fixture(scope="module")
def models():
    scratch, baseline = translator("scratch-de-en"), translator("baseline-de-en")
    return {SAME: (scratch, scratch.other_implementation()), APART: (scratch, baseline)}


@pytest.fixture(scope="module")
def pages() -> dict[str, Rendered]:
    return {
        which: render("comparison", source=TEXTS[which], **QUERIES[which])
        for which in (SAME, APART)
    }


@pytest.fixture(scope="module")
def matchings(models):
    """Return the matched heads over all examples, by pair and kind."""
    found = {}
    for which, pair in models.items():
        both = [[model.inspect(example.de, example.en) for example in EXAMPLES] for model in pair]
        found[which] = {
            kind: match_heads(*([record.maps(kind) for record in side] for side in both))
            for kind in KINDS
        }
    return found


def head(n: int) -> str:
    return f"layer {n // 4 + 1}, head {n % 4 + 1}"


def sha256(folder: str) -> str:
    weights = ROOT / "checkpoints" / folder / "model.safetensors"
    return hashlib.sha256(weights.read_bytes()).hexdigest()


def stored(folder: str, name: str) -> dict:
    return json.loads((ROOT / "checkpoints" / folder / name).read_text(encoding="utf-8"))


def records(models, which):
    first, second = models[which]
    target = first.inspect(TEXTS[which]).translation
    return first.inspect(TEXTS[which], target), second.inspect(TEXTS[which], target)


TRAINED = "{}: as trained, in {}"
TWIN = "{}: the same weights in {}"


@pytest.mark.parametrize(
    ("query", "first", "second", "meaning"),
    [
        (
            {"model": "baseline"},
            TRAINED.format("baseline-de-en", CODES[1]),
            TWIN.format("baseline-de-en", CODES[0]),
            "would be an error in one of the two implementations",
        ),
        (
            {"second_model": "baseline"},
            TRAINED.format("scratch-de-en", CODES[0]),
            TRAINED.format("baseline-de-en", CODES[1]),
            "trained independently",
        ),
        (
            {"second_model": "scratch"},
            TRAINED.format("scratch-de-en", CODES[0]),
            TRAINED.format("scratch-de-en", CODES[0]),
            "Both are the same model",
        ),
    ],
)
def test_the_first_sentence_names_the_chosen_models(query, first, second, meaning):
    page = render("comparison", source="Ein Hund.", **query)
    shown = [text.replace("\\", "").replace("\u2060", "") for text in page.texts(kind="caption")]
    (said,) = [one for one in shown if one.startswith("The first is")]
    assert said.startswith(f"The first is {first}. The second is {second}. ") and meaning in said


def claim_largest_difference(page, models, matchings, which):
    first, second = records(models, which)
    found = largest_difference(first, second, None if which == SAME else matchings[which])
    kind, q, k, one, other = found.kind, found.query, found.key, found.first, found.second
    n, m = 4 * found.layer + found.head, 4 * found.second_layer + found.second_head
    queries = names(first.source if kind == "encoder" else first.target_out, 1)
    keys = names(first.target_in, 0) if kind == "decoder" else names(first.source, 1)
    page.claim(
        f"Largest: {kind}, {head(n)}{f' (second: {head(m)})' if n != m else ''}, "
        f"{'from' if kind == 'encoder' else 'producing'} “{queries[q]}” (row {q + 1}), looking at "
        f"“{keys[k]}” (column {k + 1}): first {one:.7f}, second {other:.7f}",
        "largest",
    )
    cells = sum(first.maps(kind).size for kind in KINDS)
    match = page.claim_matching(
        r"\*\*All attention weights agree within 1e-5\.\*\* The largest difference over all "
        rf"{cells:,}, of every kind, layer and head, is \*\*(.+?)\*\*: .*"
        if which == SAME
        else rf"\*\*The largest difference over all {cells:,} attention weights is (.+?)\.\*\* .*"
    )
    assert from_scientific(match[1]) == pytest.approx(abs(one - other), rel=0.06, abs=0)


@pytest.mark.parametrize("kind", KINDS)
@each_pair
def test_maps_are_those_of_both_models_and_matched_heads(models, matchings, which, kind):
    page = render("comparison", source=TEXTS[which], compare_kind=kind, **QUERIES[which])
    first, second = records(models, which)
    header, (one, other) = map_row(page, "compared_maps")
    np.testing.assert_allclose(one, first.maps(kind), atol=1e-6)
    expected = second.maps(kind)
    if which == APART:
        expected = matchings[which][kind].reordered(expected)
        notes = [note for layer in header["maps"][1]["note"] for note in layer]
        assert notes == [head(n) for n in matchings[which][kind].partner]
    np.testing.assert_allclose(other, expected, atol=1e-6)
    firsts = [f"First: {CODES[0]}", f"Second: {CODES[1]}", "First − second"]
    assert map_names(header) == firsts and header["maps"][2]["minus"] == [0, 1]
    queries = first.source if kind == "encoder" else first.target_out
    keys = first.target_in if kind == "decoder" else first.source
    assert side(header, "queries") == numbered(queries, 1)
    assert side(header, "keys") == numbered(keys, 0 if kind == "decoder" else 1)
    assert (header["queries"]["words"], header["keys"]["words"]) == {
        "encoder": ("German token", "German token"),
        "decoder": ("English token being produced", "English token"),
        "cross": ("English token being produced", "German token"),
    }[kind]


def claim_matched_heads(page, matchings, which):
    matching = matchings[which]["cross"]
    similarity, partner = matching.similarity, np.array(matching.partner)
    heads = [f"{n // 4 + 1}.{n % 4 + 1}" for n in range(N)]
    figure = page.figure("matched_heads")
    (heat,) = traces(figure, type="heatmap")
    np.testing.assert_allclose(array(heat["z"]), similarity, atol=1e-5)
    assert axis_titles(figure) == ("second model: layer.head", "first model: layer.head")
    for axis in ("xaxis", "yaxis"):
        assert list(figure["layout"][axis]["ticktext"]) == heads
    for ring in traces(figure, mode="markers"):
        assert array(ring["x"]).tolist() == partner.tolist()
    kept = int((partner == np.arange(N)).sum())
    subtitle = f"{kept} of {N} are matched to the head with the same number"
    assert titles(figure) == ("Heads of the cross-attention, matched", subtitle)
    table = next(t for t in page.tables[""] if "in common" in t)
    assert list(table["first"]) == heads
    assert list(table["second"]) == [heads[p] for p in partner]
    matched, own = matching.matched, matching.same_number
    np.testing.assert_allclose(table["in common"].astype(float), matched, atol=1e-4)
    np.testing.assert_allclose(table["same number"].astype(float), own, atol=1e-4)
    if which == SAME:
        assert kept == N
        page.claim(
            f"All {N} heads are matched to themselves; the least similar pair shares "
            f"{percent(matched.min())} of its attention."
        )
    else:
        page.claim(
            f"On average, matched heads share {percent(matched.mean())} of their attention, heads "
            f"with the same number {percent(own.mean())}."
        )
    page.claim_matching(rf"Independently trained models .*, over {len(EXAMPLES)} sentences, .*")


def facts(folder: str, code: str, own, forced) -> dict[str, str]:
    """Return a model's column of the table, from its files and records."""
    final = stored(folder, "metrics.json")["final"]
    shape = stored(folder, "config.json")["model"]
    tensors = load_file(ROOT / "checkpoints" / folder / "model.safetensors")

    def scores(measure: str, places: int) -> str:
        return ", ".join(f"{name} {score[measure]:.{places}f}" for name, score in final.items())

    return {
        "code": code,
        "weights": f"{folder} ({sha256(folder)[:8]})",
        "parameters": f"{sum(t.size for t in tensors.values()):,}",
        "layers, heads, d_model": f"{shape['num_encoder_layers']} + "
        f"{shape['num_decoder_layers']}, {shape['num_heads']}, {shape['d_model']}",
        "BLEU (validation sets)": scores("sacrebleu", 2),
        "bits per character (validation sets)": scores("bits_per_char", 4),
        "log-probability of its own translation": number(own.log_probs.sum(), 3),
        "log-probability of the first model's translation": number(forced.log_probs.sum(), 3),
    }


def claim_table(page, models, which):
    """Check the table and the bars of both models with files and records."""
    table = next(t for t in page.tables[""] if "" in t and "first" in t and len(t) > 5)
    own = [model.inspect(TEXTS[which]) for model in models[which]]
    columns = list(map(facts, FOLDERS[which], CODES, own, records(models, which)))
    assert table[""].tolist() == list(columns[0])
    for name, column in zip(("first", "second"), columns, strict=True):
        assert table[name].tolist() == list(column.values())
    if which == APART:  # equal models would hide exchanged columns
        last = [list(column.values())[-2:] for column in columns]
        assert last[0][0] != last[1][1] != last[1][0]
    for key, label, code, record in zip(
        ("first_scores", "second_scores"), ("First", "Second"), CODES, own, strict=True
    ):
        figure = page.figure(key)
        (bars,) = figure["data"]
        np.testing.assert_allclose(array(bars["y"]), record.log_probs, atol=1e-5)
        words = drawn(names(record.target_out, 1))
        assert [word for word, _ in bars["customdata"]] == words
        shares = [share for _, share in bars["customdata"]]
        np.testing.assert_allclose(shares, np.exp(record.log_probs), atol=1e-5)
        assert begin(figure["layout"]["xaxis"]["ticktext"]) == begin(words)
        whole = number(record.log_probs.sum(), 3)
        assert titles(figure) == (
            f"{label}: {code}",
            f"log-probability of the translation: {whole} ({len(words)} tokens)",
        )
        assert axis_titles(figure)[1] == "log-probability (nats)"
        lowest = min(r.log_probs.min() for r in own)
        assert figure["layout"]["yaxis"]["range"] == pytest.approx([1.08 * lowest, 0], rel=1e-4)
    if which == SAME:
        match = page.claim_matching(
            r"Both are fed the same translation; the log-probability of a token differs by at "
            r"most (.+?) nats\. The two may still differ in speed\."
        )
        ids = tuple(token.id for token in own[0].target_out)
        forced = [model.inspect(TEXTS[which], target_ids=ids) for model in models[which]]
        off = np.abs(forced[0].log_probs - forced[1].log_probs).max()
        assert from_scientific(match[1]) == pytest.approx(off, rel=0.5, abs=0)


@each_pair
def test_training_curves_match_the_metrics(pages, which):
    figure = pages[which].figure("curves")
    expected = [
        (f"{folder}: {word}", loss, stored(folder, "metrics.json")["curve"])
        for folder in dict.fromkeys(FOLDERS[which])
        for loss, word in (("val_loss", "validation"), ("train_loss", "training"))
    ]
    for trace, (name, loss, curve) in zip(figure["data"], expected, strict=True):
        assert trace["name"] == name and "%{fullData.name}" in trace["hovertemplate"]
        assert array(trace["x"]).tolist() == [point["step"] for point in curve]
        assert array(trace["y"]).tolist() == [point[loss] for point in curve]
    assert axis_titles(figure) == ("optimiser step", "loss")
    one = "Both models have the weights of this one training run."
    assert (one in pages[which].texts(kind="caption")) == (which == SAME)


def test_the_state_dict_map_covers_the_checkpoint(pages):
    """Each row has the shape of the tensors it names; all rows name the whole checkpoint."""
    tensors = load_file(ROOT / "checkpoints/scratch-de-en/model.safetensors")
    table = next(t for t in pages[SAME].tables[""] if "shape of each" in t)
    named = []
    for _, row in table.iterrows():
        shapes = [tensors[name].shape for name in row["scratch"].split(", ")]
        named += row["scratch"].split(", ")
        assert {" × ".join(map(str, shape)) for shape in shapes} == {row["shape of each"]}
        assert row["shape"].split(" × ")[0] == str(sum(shape[0] for shape in shapes))
    assert sorted(named) == sorted(tensors)


@pytest.mark.parametrize("failed", [0, 2])
def test_the_checklist_says_how_much_it_compared(failed):
    checks = [
        Check(f"line {n}", n >= failed, 2e-13 * (n + 1), 1e-12, f"detail {n}") for n in range(5)
    ]
    state = {f"saved checks {sha256('scratch-de-en')}": checks}
    page = render("comparison", source="Ein Hund.", state=state)
    if failed:
        assert ["2 of 5 checks failed" in e.value for e in page.app.error] == [True]
    else:
        page.claim_matching(r"✓ All 5 checks passed\. .* on 3 sentence pairs, .*", "checks")
    for n, row in enumerate(page.table("checks").to_numpy().tolist()):
        tick, name, difference, limit, detail = row
        assert (tick, name, detail) == ("✗✓"[n >= failed], f"line {n}", f"detail {n}")
        assert from_scientific(difference) == pytest.approx(2e-13 * (n + 1), rel=0.01, abs=0)
        assert from_scientific(limit) == pytest.approx(1e-12, rel=0.01, abs=0)


@each_pair
def test_every_number_on_the_page_is_compared(pages, models, matchings, which):
    page = pages[which]
    claim_largest_difference(page, models, matchings, which)
    claim_matched_heads(page, matchings, which)
    claim_table(page, models, which)
    nothing_else(page, "matched_heads", "first_scores", "second_scores", "curves", "")
