"""The page "Scratch and baseline" agrees with the checkpoints and the records."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import datetime

import numpy as np
import pytest
from safetensors.numpy import load_file

from app.examples import EXAMPLES
from app.figures.checklist import GROUPS, grouped
from app.state import results
from core.analysis.difference import largest_difference
from core.analysis.first_cell import first_cell
from core.analysis.matching import match_heads
from core.atlas.atlas import Atlas
from core.parity.checklist import Check, compare
from core.parity.networks import CASES, VARIANTS, fresh, random_pairs, same_weights
from tests.app.charts import says, shows
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
        which: render("comparison", "open_details", source=TEXTS[which], **QUERIES[which])
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
    page = render("comparison", "open_details", source="Ein Hund.", **query)
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
    page = render(
        "comparison", "open_details", source=TEXTS[which], compare_kind=kind, **QUERIES[which]
    )
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
        "decoder": ("English token being produced", "English token fed in"),
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
    table = next(t for t in page.tables["open_details"] if "in common" in t)
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
    page.claim_matching(rf"Independently trained models .*, over {len(EXAMPLES)} sentences\.")


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
    table = next(t for t in page.tables["open_details"] if "" in t and "first" in t and len(t) > 5)
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
    table = next(t for t in pages[SAME].tables["open_details"] if "shape of each" in t)
    named = []
    for _, row in table.iterrows():
        shapes = [tensors[name].shape for name in row["scratch"].split(", ")]
        named += row["scratch"].split(", ")
        assert {" × ".join(map(str, shape)) for shape in shapes} == {row["shape of each"]}
        assert row["shape"].split(" × ")[0] == str(sum(shape[0] for shape in shapes))
    assert sorted(named) == sorted(tensors)


NAMES = ("every weight after copying", "encoder output, with padding", "logits, with padding",
         "encoder layer 2, with padding", "logits, float32")  # fmt: skip


@pytest.mark.parametrize("failed", [0, 2])
def test_the_checklist_shows_the_worst_difference_of_each_group(monkeypatch, failed):
    checks = tuple(
        Check(name, n >= failed, 2e-13 * n, 1e-12 * (n > 0), f"detail {n}")
        for n, name in enumerate(NAMES)
    )
    done = results.Checklist(checks, datetime(2026, 3, 9, 7, 5), 3)
    monkeypatch.setattr(results, "run_checklist", lambda *_: done)
    page = render("comparison", source="Ein Hund.")
    said = "**No: 2 of 5 comparisons" if failed else "**Yes: all 5 comparisons"
    assert said in page.texts("checks_head", "markdown")[0]
    says(page, "checks", "64", "07:05", "9 March 2026")
    groups = ["Shapes, weights, masks", "Encoder layers", "Logits", "In float32"]
    worst = [checks[n] for n in (0, 1 if failed else 3, 2, 4)]
    pairs = list(zip(groups, worst, strict=True))
    rows = [("worst difference", group, c.max_abs_diff) for group, c in pairs]
    rows += [("limit", group, 1e-12) for group in groups[1:]]
    sizes = [pytest.approx(c.max_abs_diff, rel=0.06) if c.max_abs_diff else "equal" for c in worst]
    hovers = [[group, c.name, size] for (group, c), size in zip(pairs, sizes, strict=True)]
    hovers += [[group, pytest.approx(1e-12)] for group in groups[1:]]
    figure = shows(page, "checks_worst", rows, hovers=hovers, atol=1e-16)
    ticks = next(t["text"] for t in figure["data"] if t.get("text", [""])[0].endswith(("✓", "✗")))
    passed = ["0 of 1 ✗", "1 of 2 ✗"] if failed else ["1 of 1 ✓", "2 of 2 ✓"]
    assert ticks == [*passed, "1 of 1 ✓", "1 of 1 ✓"]
    order = [NAMES.index(row[1]) for row in page.table("all_checks").to_numpy().tolist()]
    assert sorted(order) == list(range(5)) and set(order[:failed]) == set(range(failed))
    for n, row in zip(order, page.table("all_checks").to_numpy().tolist(), strict=True):
        tick, _, difference, limit, detail = row
        assert (tick, detail) == ("✗✓"[n >= failed], f"detail {n}")
        assert from_scientific(difference) == pytest.approx(2e-13 * n, rel=0.01, abs=0)
        assert from_scientific(limit) == pytest.approx(1e-12 * (n > 0), rel=0.01, abs=0)


def test_every_line_of_the_checklist_has_its_group():
    config = list(VARIANTS.values())[1]
    lines = list(compare(*same_weights(fresh(config)), random_pairs(config)))
    groups = grouped(lines)
    assert list(groups) == list(GROUPS) and sum(map(len, groups.values())) == len(lines)
    for name, of in groups.items():
        assert (name == "In float32") == all("float32" in line.name for line in of), name
        assert (name == "Attention maps") == all("attention maps" in line.name for line in of)
    assert len(groups["Encoder layers"]) == (config.num_encoder_layers + 1) * len(CASES)
    assert len(groups["Decoder layers"]) == (config.num_decoder_layers + 1) * len(CASES)


@pytest.mark.parametrize("direction", ["de-en", "en-de"])
def test_the_training_is_compared_with_the_network_of_the_same_recipe(direction):
    """BLEU of both folders, and the head of each on the same words."""
    folders = [f"{name}-{direction}" for name in ("scratch", "baseline")]
    page = render("comparison", direction=direction, source=TEXTS[APART])
    finals = [stored(folder, "metrics.json")["final"] for folder in folders]
    atlases = [Atlas.load(ROOT / "checkpoints" / folder / "atlas.npz") for folder in folders]
    measured = [atlas.arrays["bleu"] for atlas in atlases]
    corpora = {"multi30k": "captions of photographs", "tatoeba": "short everyday sentences"}
    greedy = f"{atlases[0].origin.sentences:,} sentences, greedily"
    rows = [
        row
        for code, final, bleu in zip(CODES, finals, measured, strict=True)
        for row in [
            *((code, corpora[name], score["sacrebleu"]) for name, score in final.items()),
            (code, greedy, bleu[0]),
        ]
    ]
    hovers = [[corpus, code, number(value, 1)] for code, corpus, value in rows]
    shows(page, "bleu_of_both", rows, "BLEU", hovers=hovers, atol=1e-3)
    gaps = [finals[0][name]["sacrebleu"] - finals[1][name]["sacrebleu"] for name in corpora]
    gaps.append(measured[0][0] - measured[1][0])
    (said,) = page.texts("training_answer", "markdown")
    assert re.findall(r"[+−]?\d+\.\d", said) == [number(float(gap), 1, "+") for gap in gaps]
    reached = sum(round(float(gap), 1) >= 0 for gap in gaps)
    assert f"At least as well on {reached} of {len(gaps)} sets" in said
    assert "within" not in said, "overlapping intervals do not show equality"
    scratch, baseline = (translator(folder) for folder in folders)
    first = scratch.inspect(TEXTS[APART])
    pair = [one.inspect(TEXTS[APART], first.translation) for one in (scratch, baseline)]
    matching = match_heads(*([one.maps("cross")] for one in pair))
    cell = first_cell(pair[0].cross, pair[0].source, pair[0].target_out)
    at = (cell.layer, cell.head) if cell else (2, 0)
    heads = [at, matching.of(*at)]
    rows = [
        (f"{code}, head {layer + 1}.{head + 1}", f"{q}, {k}", one.cross[layer, head, i, j])
        for code, one, (layer, head) in zip(CODES, pair, heads, strict=True)
        for i, q in enumerate(names(first.target_out, 1))
        for j, k in enumerate(names(first.source, 1))
    ]
    named = [f"{layer + 1}.{head + 1}" for layer, head in heads]
    shows(page, "heads_of_both", rows, *named)
    darkest = [one.cross[at].argmax(-1) for one, at in zip(pair, heads, strict=True)]
    same, every = int((darkest[0] == darkest[1]).sum()), len(first.target_out)
    assert same < every, "a sentence on which both do not agree everywhere"
    says(
        page,
        "training_answer",
        str(same),
        str(every),
        *[number(one.log_prob, 2) for one in pair],
    )


def test_a_network_without_a_counterpart_gets_a_true_line():
    page = render("comparison", model="captions", source="Ein Hund.")
    (said,) = page.texts("training_answer", "markdown")
    assert (
        "Nothing to compare captions-de-en with:** no network here was trained by its recipe"
        in (said.replace("\\", "").replace("\u2060", ""))
    )
    assert "bleu_of_both" not in page.figures and "heads_of_both" not in page.figures


@each_pair
def test_every_number_on_the_page_is_compared(pages, models, matchings, which):
    page = pages[which]
    claim_largest_difference(page, models, matchings, which)
    claim_matched_heads(page, matchings, which)
    claim_table(page, models, which)
    first_screen = ("checks_head", "checks", "all_checks", "training_answer")  # have own tests
    answers = ("checks_worst", "bleu_of_both", "heads_of_both")
    compared = ("matched_heads", "first_scores", "second_scores", "curves", "open_details")
    nothing_else(
        page, *compared, *answers, *first_screen, but=lambda item: item.where in first_screen
    )
