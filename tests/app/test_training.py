"""The training page: what is sent, shown, saved and linked at each point of a run."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from app.components.training.payload import payload
from app.state import atlases, models
from app.views import training as view
from core.kinds import KINDS
from core.record.attention_snapshots import FILE, AttentionSnapshots, Sentence
from core.training.recipes import RECIPES
from tests.app.mounted import plain
from tests.app.rendered import render, unpacked
from tests.app.training_run import HEADS, LAYERS, OPENED, SENTENCES, STEPS, Mounted, snapshots

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINTS = ROOT / "checkpoints"


def sent(run: AttentionSnapshots) -> dict[str, Any]:
    return payload(run, name="small", languages=("German", "English"), opened=OPENED)


# What is sent.


def test_the_maps_are_sent_as_recorded_without_masked_cells() -> None:
    run = snapshots()
    data = sent(run)
    for kind in KINDS:
        for i, sentence in enumerate(SENTENCES):
            Q, K = sentence.map_sizes[kind]
            unmasked = [(q, k) for q in range(Q) for k in range(K) if kind != "decoder" or k <= q]
            bits = np.unpackbits(np.frombuffer(data[f"mask_{kind}_{i}"], np.uint8), count=Q * K)
            assert [divmod(int(c), K) for c in bits.nonzero()[0]] == unmasked
            sent_maps = np.frombuffer(data[f"maps_{kind}_{i}"], "<f2")
            sent_maps = sent_maps.reshape(len(STEPS), LAYERS[kind], HEADS, len(unmasked))
            for n, (q, k) in enumerate(unmasked):
                assert np.array_equal(sent_maps[..., n], run.maps[kind][i][..., q, k])


def test_the_measures_are_sent_in_the_order_that_names_them() -> None:
    run = snapshots()
    data = sent(run)
    roles = {
        "encoder": ["previous token", "next token", "itself", "<eos>"],
        "decoder": ["itself", "previous token", "<bos>"],
        "cross": ["<eos>"],
    }
    places = {"encoder": [0, None, 1, 2], "decoder": [1, 0, 2], "cross": [0]}
    after = np.mean(
        [
            np.mean([m[..., q, q + 1].astype(float) for q in range(m.shape[-1] - 1)], axis=0)
            for m in run.maps["encoder"]
        ],
        axis=0,
    )
    for kind in KINDS:
        names = [measure["name"] for measure in data["measures"][kind]]
        more = ["one-to-one", "as at the end"] if kind == "cross" else []
        assert names == ["entropy", *roles[kind], *more]
        arrays = [
            run.entropy[kind],
            *(after if r is None else run.roles[kind][:, r] for r in places[kind]),
        ]
        for n, expected in enumerate(arrays):
            found = np.frombuffer(data[f"measure_{kind}_{n}"], "<f4").reshape(expected.shape)
            assert np.allclose(found, expected, atol=1e-7, rtol=0), (kind, names[n])


def test_tokens_become_words_and_text() -> None:
    first, second = sent(snapshots())["sentences"]
    assert (first["source_text"], first["translation"]) == ("Ein Hund bellt.", "A dog barks")
    assert [t["text"] for t in first["source"]] == ["Ein", "Hund", "be", "llt", ".", "<eos>"]
    assert ["starts_word" in t for t in first["source"]] == [True, True, True, False, False, False]
    assert ["special" in t for t in first["source"]] == [False] * 5 + [True]
    assert second["source_text"] == "<b>ja</b> in in"
    words = Sentence(("Ein", "<unk>", "<eos>"), ("<bos>", "A", "b"), ("A", "b", "<eos>"))
    (whole,) = sent(snapshots((words,)))["sentences"]
    assert whole["translation"] == "A b" and all("starts_word" in t for t in whole["source"])
    assert ["unknown" in t for t in whole["source"]] == [False, True, False]


# What the browser shows, without a server.

SECOND = """() => {
  const sentence = part("training-sentence");
  sentence.value = "1";
  sentence.dispatchEvent(new Event("change"));
}"""


@pytest.fixture
def mounted(page: Page) -> Mounted:
    page.set_viewport_size({"width": 1000, "height": 900})
    return Mounted(page)


def weight_shown(mounted: Mounted, query: int, key: int) -> str:
    return mounted.do("([q, k]) => point(q, k)", query, key)["explorer"]["weight"]


def go(mounted: Mounted, point: int) -> dict[str, Any]:
    script = (
        "([p]) => { part('point').value = p; part('point').dispatchEvent(new Event('input')); }"
    )
    return mounted.do(script, point)


def kind_of(mounted: Mounted, kind: str, layer: int, head: int) -> None:
    script = """([kind, layer, head]) => {
      training().querySelector(`[data-kind-option=${kind}]`).click();
      training().querySelector(`.thumbnail[data-l="${layer}"][data-h="${head}"]`).click();
    }"""
    mounted.do(script, kind, layer, head)


def test_the_slider_moves_the_map_to_each_point(mounted: Mounted) -> None:
    run = snapshots()
    said = mounted.show(run)
    assert said["at"] == "2,900" and said["data"]["step"] == "2900", "opens at the last point"
    for kind, layer, head, query, key in (
        ("cross", 1, 1, 2, 4),
        ("encoder", 1, 0, 5, 0),
        ("decoder", 2, 1, 3, 2),
    ):
        kind_of(mounted, kind, layer, head)
        for point in (0, 3, 1, 4, 2):
            said = go(mounted, point)
            assert [said["explorer"][n] for n in ("kind", "layer", "head")] == [
                kind,
                str(layer),
                str(head),
            ]
            expected = float(run.maps[kind][0][point, layer, head, query, key])
            assert weight_shown(mounted, query, key) == f"{expected:.4f}"
            assert said["data"]["step"] == str(STEPS[point])


def test_the_numbers_beside_the_slider_are_those_of_the_point(mounted: Mounted) -> None:
    run = snapshots()
    mounted.show(run)
    kind_of(mounted, "encoder", 1, 0)
    for point in (1, 3):
        said = go(mounted, point)
        entropy = run.entropy["encoder"][point, 1, 0]
        previous, itself, eos = run.roles["encoder"][point, :, 1, 0]
        after = np.mean(
            [
                np.mean([m[point, 1, 0, q, q + 1] for q in range(m.shape[-1] - 1)])
                for m in run.maps["encoder"]
            ]
        )
        loss, bleu = f"{run.loss[point]:.2f}", f"{run.bleu[point]:.1f}"
        assert plain(said["now"]) == f"loss {loss} nats per token · BLEU {bleu}"
        assert plain(said["valuetext"]) == (
            f"step {STEPS[point]:,} of 2,900: loss {loss} nats per token, BLEU {bleu}, "
            f"entropy {100 * entropy:.0f} %, previous token {100 * previous:.0f} %, "
            f"next token {100 * after:.0f} %, "
            f"itself {100 * itself:.0f} %, <eos> {100 * eos:.0f} %; encoder, head 2.1"
        )
        assert plain(said["curves"]).endswith(plain(said["valuetext"]))
    assert said["bold"] == "encoder head 2.1" and said["thin"] == "each of the 4 heads of this kind"
    assert plain(said["meanings"]).startswith("entropy: entropy of a row as a share of a uniform")
    assert "previous token: weight on the token before the one being read" in said["meanings"]


def test_the_decoders_roles_are_named_from_the_token_produced(mounted: Mounted) -> None:
    run = snapshots()
    mounted.show(run, kind="decoder", layer=2, head=0)
    previous, itself, bos = run.roles["decoder"][-1, :, 2, 0]
    assert (
        f"token just fed in {100 * itself:.0f} %, 2 back {100 * previous:.0f} %, "
        f"<bos> {100 * bos:.0f} %"
    ) in plain(mounted.state()["valuetext"])


def test_several_heads_are_shown_by_their_mean(mounted: Mounted) -> None:
    run = snapshots()
    mounted.show(run, kind="encoder", layer="mean", head=1)
    share = run.roles["encoder"][-1, 0, :, 1].mean()
    assert f"previous token {100 * share:.0f} %" in plain(mounted.state()["valuetext"])
    assert mounted.state()["bold"] == "encoder mean of 2 heads"


def test_nothing_is_said_about_probabilities(mounted: Mounted) -> None:
    mounted.show(snapshots())
    said = mounted.do("() => training().querySelector('.target .token:nth-child(1)').click()")
    assert said["bars"] == 0 and said["checked"] == "saved maps: not checked here"
    assert said["notes"] == "given, not written by the model, one token per step"
    assert not mounted.page.locator(".steps").is_visible()
    for query in range(5):
        said = mounted.do(
            "([q]) => training().querySelectorAll('.target .token')[q + 1].click()", query
        )
        assert "robability" not in said["first"] + said["second"]
        assert "NaN" not in said["first"] + said["second"]
    labels = mounted.page.locator(".target .token").evaluate_all(
        "tokens => tokens.map((token) => token.getAttribute('aria-label'))"
    )
    assert [plain(label) for label in labels[:2]] == ["<bos>, fed in first", "A, step 1"]


def test_a_weight_is_printed_to_the_precision_of_16_bits(mounted: Mounted) -> None:
    run = snapshots()
    mounted.show(run)
    said = mounted.do("([q, k]) => point(q, k)", 1, 2)
    weight = float(run.maps["cross"][0][-1, 1, 1, 1, 2])
    assert plain(said["second"]).startswith(f"{weight:.3f} ± 0.001")


def test_the_pinned_cell_is_followed_through_training(mounted: Mounted) -> None:
    run = snapshots()
    mounted.show(run, q="3", k="1", kind="decoder", layer=1, head=0)
    for point in (0, 2, 4):
        said = plain(go(mounted, point)["valuetext"])
        weight = float(run.maps["decoder"][0][point, 1, 0, 3, 1])
        assert f"pinned weight {100 * weight:.0f} %;" in said
    unpinned = mounted.do(
        "() => part('unpin')?.click() ?? training().querySelector('.unpin').click()"
    )
    assert "pinned weight" not in unpinned["valuetext"]
    # The largest of both heads, as in the map.
    mounted.show(run, q="4", k="2", kind="cross", layer=2, head="max")
    said = plain(mounted.state()["valuetext"])
    largest = float(run.maps["cross"][0][-1, 2, :, 4, 2].max())
    assert f"pinned weight {100 * largest:.0f} %;" in said


def test_the_thumbnails_and_captions_follow_the_point(mounted: Mounted) -> None:
    run = snapshots()
    mounted.show(run, q="2")
    captions = """() => Object.fromEntries(
      [...training().querySelectorAll(".thumbnail:not(.missing)")].map((at) => [`${at.dataset.l}.${at.dataset.h}`, at.ariaLabel])
    )"""  # noqa: E501
    for point in (1, 3):
        go(mounted, point)
        said = mounted.page.evaluate(captions)
        for layer in range(LAYERS["cross"]):
            for head in range(HEADS):
                most = float(run.maps["cross"][0][point, layer, head, 2].max())
                assert f"{most:.2f}".lstrip("0") in said[f"{layer}.{head}"], (point, layer, head)


def test_another_sentence_shows_its_own_maps(mounted: Mounted) -> None:
    run = snapshots()
    said = mounted.show(run, q="2", k="1")
    assert said["sentences"] == [
        "Ein Hund bellt. → A dog barks",
        "<b>ja</b> in in → =1+1 yes in in in",
    ]
    go(mounted, 1)
    said = mounted.do(SECOND)
    assert said["data"]["sentence"] == "1" and said["data"]["step"] == "50"
    assert "pinned weight" not in said["valuetext"], "the pinned cell was of the other sentence"
    expected = float(run.maps["cross"][1][1, 1, 1, 5, 3])
    assert weight_shown(mounted, 5, 3) == f"{expected:.4f}"


def test_steps_by_buttons_and_keys_stop_at_both_ends(mounted: Mounted) -> None:
    mounted.show(snapshots())
    said = mounted.state()
    assert said["later"] and not said["earlier"] and said["value"] == "4"
    said = mounted.do("() => part('earlier').click()")
    assert said["data"]["step"] == "1655" and said["value"] == "3" and not said["later"]
    assert plain(said["spoken"]).startswith("step 1,655 of 2,900: loss 2.23")
    press = (
        "([key]) => training().querySelector('.token').dispatchEvent("
        "new KeyboardEvent('keydown', { key, bubbles: true }))"
    )
    for step in (400, 50, 0, 0):
        assert mounted.do(press, ",")["data"]["step"] == str(step)
    assert mounted.state()["earlier"]
    assert mounted.do(press, ".")["data"]["step"] == "50"
    assert mounted.state()["explorer"]["step"] == "4", "the decoding step stays"


def test_play_runs_from_the_start_to_the_end(mounted: Mounted) -> None:
    mounted.show(snapshots())
    mounted.do(
        """() => {
          window.setInterval = (tick, every) => Object.assign(window, { tick, every }) && 7;
          window.clearInterval = (timer) => timer === 7 && (window.tick = null);
        }"""
    )
    said = mounted.do("() => part('run').click()")
    assert said["data"]["step"] == "0" and said["run"] == "Pause", "starts again after the end"
    assert mounted.page.evaluate("window.every") == 450
    for step in STEPS[1:3]:
        assert mounted.do("() => tick()")["data"]["step"] == str(step)
    assert mounted.do("() => part('run').click()")["run"] == "Play the training"
    assert mounted.page.evaluate("window.tick") is None, "paused"
    said = mounted.do("() => part('run').click()")
    assert (said["data"]["step"], said["run"]) == ("400", "Pause"), "goes on from there"
    for step in STEPS[3:]:
        assert mounted.do("() => tick()")["data"]["step"] == str(step)
    assert mounted.page.evaluate("window.tick") is None, "stops at the end"
    assert mounted.state()["run"] == "Play the training"


def test_marks_open_their_head_where_it_takes_on_its_role(mounted: Mounted) -> None:
    said = mounted.show(snapshots())
    assert said["marks"] == ["encoder: previous token", "2.1 step 400"]
    assert said["pressed"] == []
    said = mounted.do("() => training().querySelector('[data-part=marks] button').click()")
    assert [said["explorer"][n] for n in ("kind", "layer", "head")] == ["encoder", "1", "0"]
    assert said["data"]["step"] == "400" and said["pressed"] == ["2.1 step 400"]
    expected = float(snapshots().maps["encoder"][0][2, 1, 0, 3, 4])
    assert weight_shown(mounted, 3, 4) == f"{expected:.4f}"


def lanes_at(mounted: Mounted, point: int, value: float, lane: int) -> tuple[float, float]:
    """Return where on the page a value 0..1 is drawn in a lane, which is 62 px high."""
    box = mounted.page.locator("canvas.lanes").bounding_box()
    assert box is not None
    data = mounted.page.locator("canvas.lanes").evaluate("canvas => ({...canvas.dataset})")
    left, tops = float(data["left"]), [float(top) for top in data["tops"].split()]
    plot = box["width"] - left - 46
    x = box["x"] + left + 8 + point * (plot - 16) / (len(STEPS) - 1)
    return x, box["y"] + tops[lane] + 62 * (1 - value)


@pytest.mark.parametrize(("window", "width", "look"), [(1000, 980, "wide"), (390, 358, "narrow")])
def test_the_cursor_is_below_the_sliders_thumb(
    page: Page, window: int, width: int, look: str
) -> None:
    page.set_viewport_size({"width": window, "height": 900})
    mounted = Mounted(page, width)
    assert mounted.show(snapshots())["data"]["width"] == look
    assert page.evaluate("document.documentElement.scrollWidth") <= window
    go(mounted, 2)
    box = page.locator("[data-part=point]").bounding_box()
    assert box is not None
    centre = box["x"] + 8 + 2 / 4 * (box["width"] - 16)
    assert centre == pytest.approx(lanes_at(mounted, 2, 0, 2)[0], abs=1)


def test_pressing_in_the_lanes_moves_the_cursor_and_a_mark_opens_its_head(
    mounted: Mounted,
) -> None:
    run = snapshots()
    mounted.show(run, kind="encoder", layer=0, head=1)
    mounted.page.locator("canvas.lanes").scroll_into_view_if_needed()
    x, y = lanes_at(mounted, 1, 0.5, 5)
    mounted.page.mouse.click(x + 20, y)
    assert mounted.state()["data"]["step"] == "50"
    mounted.page.mouse.move(x, y)
    mounted.page.mouse.down()
    for point in (2, 3):
        mounted.page.mouse.move(lanes_at(mounted, point, 0.5, 5)[0], y)
    mounted.page.mouse.up()
    assert mounted.state()["data"]["step"] == "1655"
    share = float(run.roles["encoder"][2, 0, 1, 0])
    mark = lanes_at(mounted, 2, share, 3)
    mounted.page.mouse.move(*mark)
    title = mounted.page.locator("canvas.lanes").get_attribute("title")
    assert plain(title or "") == (
        "encoder 2.1, previous token: from step 400 on; 82 % at the last point. Click to show it."
    )
    mounted.page.mouse.click(*mark)
    said = mounted.state()
    assert said["data"]["step"] == "400" and said["explorer"]["layer"] == "1"


def test_an_aligning_head_says_how_much_of_it_is_near_the_diagonal(mounted: Mounted) -> None:
    run = AttentionSnapshots.load(CHECKPOINTS / "scratch-de-en" / FILE)
    said = mounted.show(run)
    text = said["marks"][said["marks"].index("cross-attention: aligning") + 1]
    near, rows = 0, 0
    for maps in run.maps["cross"]:
        Q, K = maps.shape[-2:]
        for q, key in enumerate(maps[-1, 0, 0].argmax(-1)):
            near += abs(key - q * (K - 1) / (Q - 1)) <= 1
            rows += 1
    assert f"1.1 step 5,418, {100 * near / rows:.0f} % near the diagonal" in plain(text)


# The link.


def test_the_link_holds_sentence_step_and_view(mounted: Mounted) -> None:
    mounted.show(snapshots())
    go(mounted, 3)
    mounted.page.wait_for_function("location.search.includes('step=1655')")
    assert "sentence" not in mounted.state()["search"]
    mounted.do(SECOND)
    mounted.page.wait_for_function("location.search.includes('sentence=1')")
    kind_of(mounted, "decoder", 2, 0)
    mounted.page.wait_for_function("location.search.includes('kind=decoder')")
    query = dict(part.split("=") for part in mounted.state()["search"][1:].split("&"))
    assert query == {"kind": "decoder", "layer": "2", "head": "0", "step": "1655", "sentence": "1"}
    go(mounted, 4)
    mounted.page.wait_for_function("!location.search.includes('step')")


def test_a_link_opens_its_point(mounted: Mounted) -> None:
    run = snapshots()
    said = mounted.show(run, sentence=1, step=400, kind="encoder", layer=1, head=1)
    assert (said["data"]["sentence"], said["data"]["step"]) == ("1", "400")
    assert [said["explorer"][n] for n in ("kind", "layer", "head")] == ["encoder", "1", "1"]
    assert mounted.show(run, step=60)["data"]["step"] == "50", "the nearest point"
    assert mounted.show(run, step=999_999, sentence=77)["data"]["sentence"] == "1"
    assert mounted.state()["data"]["step"] == "2900"


def test_another_network_keeps_the_choice(mounted: Mounted) -> None:
    run = snapshots()
    mounted.show(run)
    go(mounted, 1)
    kind_of(mounted, "decoder", 1, 1)
    other = AttentionSnapshots.load(CHECKPOINTS / "captions-de-en" / FILE)
    said = mounted.show(other, again=True)
    assert said["data"]["step"] == "50" and said["data"]["sentence"] == "0"
    assert [said["explorer"][n] for n in ("kind", "layer", "head")] == ["decoder", "1", "1"]
    expected = float(other.maps["decoder"][0][1, 1, 1, 4, 2])
    assert weight_shown(mounted, 4, 2) == f"{expected:.4f}"
    moved = mounted.show(other, again=True, step=400, sentence=2)
    assert (moved["data"]["step"], moved["data"]["sentence"]) == ("400", "2"), "a new link wins"


# Files.


def test_the_csv_holds_every_measure(mounted: Mounted) -> None:
    run = snapshots()
    mounted.show(run)
    lines = list(csv.reader(io.StringIO(mounted.file("csv").removeprefix("\ufeff"))))
    assert lines[0] == ["step", "kind", "layer", "head", "measure", "value"]
    values = {tuple(line[:5]): float(line[5]) for line in lines[1:]}
    heads = sum(count * HEADS for count in LAYERS.values())
    measured = 5 * LAYERS["encoder"] + 4 * LAYERS["decoder"] + 4 * LAYERS["cross"]
    assert len(values) == len(lines) - 1 == len(STEPS) * (2 + HEADS * measured) and heads == 16
    for p, step in enumerate(STEPS):
        assert values[str(step), "", "", "", "loss"] == pytest.approx(run.loss[p], abs=1e-4)
        assert values[str(step), "", "", "", "BLEU"] == pytest.approx(run.bleu[p], abs=0.01)
        at = values[str(step), "decoder", "3", "1", "token just fed in"]
        assert at == pytest.approx(run.roles["decoder"][p, 1, 2, 0], rel=1e-6)
        at = values[str(step), "cross", "2", "2", "entropy"]
        assert at == pytest.approx(run.entropy["cross"][p, 1, 1], rel=1e-6)


def test_the_maps_files_name_the_step(mounted: Mounted) -> None:
    run = snapshots()
    mounted.show(run)
    go(mounted, 3)
    text = mounted.page.evaluate(
        """async () => {
          saved.length = 0;
          training().querySelector("[data-export=map-csv]").click();
          while (!saved.length) await new Promise((go) => setTimeout(go, 5));
          return saved[0].text();
        }"""
    )
    lines = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"))))
    assert "small, German to English, step 1,655 of 2,900" in lines[0][0]
    assert "numbers rounded, at most 0.0002 off" in lines[0][0]
    for q, line in enumerate(lines[1:]):
        expected = run.maps["cross"][0][3, 1, 1, q].astype(np.float32)
        np.testing.assert_allclose([float(cell) for cell in line[1:]], expected, rtol=1e-6)


# The page.


def test_the_page_says_what_was_measured_and_what_a_mark_means() -> None:
    run = AttentionSnapshots.load(CHECKPOINTS / "scratch-de-en" / FILE)
    page = render("training", model="scratch", direction="de-en")
    targets = sum(len(s.target_in) for s in run.sentences)
    sources = sum(len(s.source) for s in run.sentences)
    page.claim(
        "**What was measured.** Loss and BLEU (greedy): on up to 64 validation sentences. "
        f"Everything else: averages over the {len(run.sentences)} sentences in the list above, "
        f"{targets} target and {sources} source tokens. The decoder is fed their given "
        "translations, so all points have the same rows and columns. These samples are too small "
        "for intervals: compare the course of a curve, not neighbouring points. Points are drawn "
        "at equal distances; the steps between them differ. Attention weights are stored as 16-bit "
        "floats. The weights on the other pages: the mean of the last 5 snapshots, 200 steps apart."
    )
    chance = np.mean(
        [
            (1 - 1 / len(s.source)) ** (len(s.target_in) - 1)
            for s in run.sentences
            for _ in s.target_in
        ]
    )
    match = page.claim_matching(r"\*\*What a mark means\.\*\*(.*)", "training_notes")
    assert re.findall(r"\d+\u00a0%", match[1]) == [
        "30\u00a0%",
        f"{100 * (chance + 0.2):.0f}\u00a0%",
        f"{100 * chance:.0f}\u00a0%",
        "50\u00a0%",
    ]
    assert match[1].count("at least 10 percentage points") == 2
    assert "was not checked here: *Heads* checks it against manual alignments." in match[1]
    sent, _ = unpacked(page.payload("training"))
    assert sent["name"] == "scratch-de-en" and sent["languages"] == ["German", "English"]
    assert sent["steps"] == run.steps.tolist()
    page.everything_was_claimed(
        but=lambda item: item.kind == "help" or item.where in ("search", "model_note")
    )


def test_links_are_said_to_be_checked_only_where_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(atlases, "FILE", str(tmp_path / "atlas.npz"))
    page = render("training", model="scratch", direction="de-en")
    page.claim_matching(r".*whether the links are right was not checked here\. The links may.*")
    (tmp_path / "atlas.npz").write_bytes(b"nonsense")
    page = render("training", model="scratch", direction="de-en")
    page.claim_matching(r".*whether the links are right was not checked here\. The links may.*")


def test_a_link_reaches_the_component() -> None:
    asked: Any = {"kind": "encoder", "layer": "2", "head": "mean", "step": "1655", "sentence": "3"}
    opened, _ = unpacked(
        render("training", model="scratch", direction="de-en", **asked).payload("training")
    )
    assert opened["opened"] == {
        "sentence": 3,
        "step": 1655,
        "kind": "encoder",
        "layer": 2,
        "head": "mean",
    }
    wrong: Any = {"kind": "x", "layer": "99", "head": "-1", "step": "½", "sentence": "9999999999"}
    opened, _ = unpacked(
        render("training", model="captions", direction="en-de", **wrong).payload("training")
    )
    # At the last point, this head has the most queries whose strongest key no other query shares.
    run = AttentionSnapshots.load(CHECKPOINTS / "captions-en-de" / FILE)
    tops = [maps[-1].argmax(-1) for maps in run.maps["cross"]]
    own = np.zeros(tops[0].shape[:2])
    for top in tops:
        for layer, head, q in np.ndindex(top.shape):
            own[layer, head] += (top[layer, head] == top[layer, head, q]).sum() == 1
    layer, head = divmod(int(np.argmax(own)), tops[0].shape[1])
    expected = {"sentence": 0, "step": None, "kind": "cross", "layer": layer, "head": head}
    assert opened["opened"] == expected


@pytest.fixture
def other_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of a checkpoint, the only one that the app lists."""
    folder = tmp_path / "captions-de-en"
    shutil.copytree(CHECKPOINTS / "captions-de-en", folder)
    monkeypatch.setattr(models, "CHECKPOINTS", tmp_path)
    models._listed.clear()
    yield folder
    models._listed.clear()


def test_a_network_without_snapshots_is_said_in_one_line(other_folder: Path) -> None:
    (other_folder / FILE).unlink()
    page = render("training", model="captions", direction="de-en")
    page.claim(
        "captions has no training snapshots (history.npz). They are recorded during training, by "
        "the recipes `captions` and `mixed`."
    )
    assert "training" not in page.payloads


@pytest.mark.parametrize("case", ["damaged", "another network", "not an archive"])
def test_an_unusable_file_is_said_in_one_line(other_folder: Path, case: str) -> None:
    file = other_folder / FILE
    if case == "damaged":
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif case == "another network":
        snapshots().save(file)
    else:
        file.write_text("<script>alert(1)</script>")
    page = render("training", model="captions", direction="de-en")
    (error,) = [item.text for item in page.items if item.kind == "error"]
    assert "\n" not in error and "history.npz" in error and "delete" in error
    assert "training" not in page.payloads
    if case == "another network":
        assert "2 × 2 heads (layers × heads), not 4 × 4" in error
    assert any("million weights" in item.text for item in page.items), "the rest works"


def test_the_page_names_the_recipes_that_record_snapshots() -> None:
    recording = {name for name, recipe in RECIPES.items() if recipe.snapshots}
    assert set(view.RECORDING) == {name for name in recording if not name.startswith("smoke")}
