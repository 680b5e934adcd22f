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

from app.components.training.payload import NAMES, SmallCurves, payload
from app.state import atlases, models
from app.views import training as view
from core.analysis import appearance
from core.record.attention_snapshots import FILE, AttentionSnapshots, Sentence
from core.training.recipes import RECIPES
from tests.app.atlases import told
from tests.app.mounted import plain
from tests.app.rendered import render, unpacked
from tests.app.test_heads_atlas import percent
from tests.app.training_run import OPENED, STEPS, Mounted, snapshots

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINTS = ROOT / "checkpoints"


def sent(run: AttentionSnapshots) -> dict[str, Any]:
    return payload(run, name="small", languages=("German", "English"), opened=OPENED)


# What is sent.


def test_tokens_become_words_and_text() -> None:
    first, second = sent(snapshots())["sentences"]
    assert (first["source_text"], first["translation"]) == ("Ein Hund bellt.", "A dog barks")
    assert [t["text"] for t in first["source"]] == ["Ein", "Hund", "be", "llt", ".", "<eos>"]
    assert ["starts_word" in t for t in first["source"]] == [True, True, True, False, False, True]
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


def weight_is_shown(mounted: Mounted, weights: np.ndarray, *at: int) -> dict[str, Any]:
    """Point at the cell [point, layer, head, query, key]; the explorer shows its weight."""
    said = mounted.do("([q, k]) => point(q, k)", *at[-2:])
    explorer = said["explorer"]
    assert [explorer[name] for name in ("layer", "head")] == [str(n) for n in at[1:3]]
    assert explorer["weight"] == f"{float(weights[at]):.4f}"
    return said


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
            assert go(mounted, point)["data"]["step"] == str(STEPS[point])
            said = weight_is_shown(mounted, run.maps[kind][0], point, layer, head, query, key)
            assert said["explorer"]["kind"] == kind
            weight = run.maps[kind][0][point, layer, head, query, key]
            # Printed to the precision of 16 bits.
            assert plain(said["second"]).startswith(f"{float(weight):.3f} ± 0.001")
        meanings = {name: f"{name}: {meaning}" for name, meaning in NAMES[kind].values() if meaning}
        assert plain(said["meanings"]).startswith("entropy: entropy of a row")
        assert plain(said["meanings"]).endswith("; ".join(meanings.values()) + ".")


def test_nothing_is_said_about_probabilities(mounted: Mounted) -> None:
    mounted.show(snapshots())
    said = mounted.do("() => training().querySelector('.target .token:nth-child(1)').click()")
    assert said["bars"] == 0 and said["checked"] == "saved maps: not checked here"
    assert said["notes"] == "given, not written by the model"
    assert not mounted.page.locator(".steps").is_visible()
    for query in range(5):
        press = "([q]) => training().querySelectorAll('.target .token')[q + 1].click()"
        said = mounted.do(press, query)
        assert not re.search("robability|NaN", said["first"] + said["second"])
    labels = mounted.page.locator(".target .token").evaluate_all(
        "tokens => tokens.map((token) => token.getAttribute('aria-label'))"
    )
    assert [plain(label) for label in labels[:2]] == ["<bos>, fed in first", "A, step 1"]


def test_an_unpinned_cell_is_no_longer_followed(mounted: Mounted) -> None:
    said = mounted.show(snapshots(), q="3", k="1", kind="decoder", layer=1, head=0)
    assert "pinned weight" in said["valuetext"]
    assert "pinned weight" not in mounted.do("() => part('unpin').click()")["valuetext"]


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
    weight_is_shown(mounted, run.maps["cross"][1], 1, 1, 1, 5, 3)


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
    assert mounted.do("() => part('run').click()")["run"] == "Replay the training"
    assert mounted.page.evaluate("window.tick") is None, "paused"
    said = mounted.do("() => part('run').click()")
    assert (said["data"]["step"], said["run"]) == ("400", "Pause"), "goes on from there"
    for step in STEPS[3:]:
        assert mounted.do("() => tick()")["data"]["step"] == str(step)
    assert mounted.page.evaluate("window.tick") is None, "stops at the end"
    assert mounted.state()["run"] == "Replay the training"


def test_marks_are_listed_and_open_their_head(mounted: Mounted) -> None:
    for run in (AttentionSnapshots.load(CHECKPOINTS / "scratch-de-en" / FILE), snapshots()):
        expected: dict[str, list[str]] = {}
        for mark in appearance.marks(run):
            kind = "cross-attention" if mark.kind == "cross" else mark.kind
            text = f"{mark.layer + 1}.{mark.head + 1} step {run.steps[mark.point]:,}"
            if mark.diagonal is not None:
                text += f", {percent(mark.diagonal)} near the diagonal"
            expected.setdefault(f"{kind}: {NAMES[mark.kind][mark.role][0]}", []).append(text)
        said = mounted.show(run)
        rows = [text for name, marks in expected.items() for text in (name, "".join(marks))]
        assert [plain(text) for text in said["marks"]] == rows
    assert said["pressed"] == []
    said = mounted.do("() => training().querySelector('[data-part=marks] button').click()")
    assert said["explorer"]["kind"] == "encoder"
    assert said["data"]["step"] == "400" and said["pressed"] == ["2.1 step 400"]
    weight_is_shown(mounted, run.maps["encoder"][0], 2, 1, 0, 3, 4)


def lanes_at(mounted: Mounted, point: int, value: float, lane: int) -> tuple[float, float]:
    """Return where on the page a value 0..1 is drawn in a lane, which is 62 px high."""
    box = mounted.page.locator("canvas.lanes").bounding_box()
    assert box is not None
    data = mounted.page.locator("canvas.lanes").evaluate("canvas => ({...canvas.dataset})")
    left, tops = float(data["left"]), [float(top) for top in data["tops"].split()]
    plot = box["width"] - left - 46
    x = box["x"] + left + 8 + point * (plot - 16) / (len(STEPS) - 1)
    return x, box["y"] + tops[lane] + 52 * (1 - value)


@pytest.mark.parametrize(("window", "width", "look"), [(900, 880, "wide"), (390, 358, "narrow")])
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


def test_slider_and_curves_are_seen_with_the_map(mounted: Mounted) -> None:
    """The slider is above the maps and the curves are beside them, from the same height on."""
    assert mounted.show(snapshots())["data"]["width"] == "beside"
    slider, curves, maps = (
        mounted.page.locator(part).bounding_box()
        for part in ("[data-part=point]", "canvas.lanes", ".explorer")
    )
    assert slider["y"] + slider["height"] <= min(curves["y"], maps["y"])
    assert maps["x"] + maps["width"] <= curves["x"] and abs(curves["y"] - maps["y"]) < 2


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
    assert said["explorer"]["kind"] == "decoder"
    weight_is_shown(mounted, other.maps["decoder"][0], 1, 1, 1, 4, 2)
    moved = mounted.show(other, again=True, step=400, sentence=2)
    assert (moved["data"]["step"], moved["data"]["sentence"]) == ("400", "2"), "a new link wins"


@pytest.mark.parametrize("chosen", [None, 1])
def test_a_training_shows_the_head_that_found_something_first(
    mounted: Mounted, chosen: int | None
) -> None:
    """A head that the visitor has chosen stays."""
    run, start = snapshots(), {"layer": 0, "head": 0}
    quality = {"title": "right", "meaning": "", "values": [0.0] * len(STEPS), "share": True}

    def shows(*marks: appearance.Mark, again: bool = True) -> tuple[str, str]:
        said = mounted.show(run, again, small=SmallCurves(quality, (), marks), **start)["explorer"]
        return said["layer"], said["head"]

    found = [appearance.Mark("cross", "day", *at, 0.9) for at in ((2, 1, 3), (1, 0, 2), (0, 1, 1))]
    assert shows(again=False) == ("0", "0")
    if chosen is not None:
        kind_of(mounted, "cross", 0, chosen)
        assert shows(*found[:2]) == ("0", "1")
        return
    assert shows(found[0]) == ("2", "1")
    assert shows(*found[:2]) == ("1", "0")
    kind_of(mounted, "cross", 0, 0)
    assert shows(*found) == ("0", "0")


# Files.


def test_the_csv_holds_every_measure(mounted: Mounted) -> None:
    run = snapshots()
    mounted.show(run)
    assert mounted.file("pdf").startswith("%PDF")
    plain = mounted.file("svg")
    mounted.page.evaluate("training().querySelector('.saves input').click()")
    assert mounted.file("svg").count("cursor at") == plain.count("cursor at") + 1
    head, *lines = csv.reader(io.StringIO(mounted.file("csv").removeprefix("\ufeff")))
    assert head == ["step", "kind", "layer", "head", "measure", "value"]
    found = {tuple(line[:5]): float(line[5]) for line in lines}
    expected = {}
    for p, step in enumerate(map(str, STEPS)):
        expected[step, "", "", "", "loss"] = run.loss[p]
        expected[step, "", "", "", "BLEU"] = run.bleu[p]
        for kind, measures in appearance.measures(run).items():
            for measure in measures:
                name = NAMES[kind].get(measure.name, [measure.name])[0]
                for (layer, head), value in np.ndenumerate(measure.values[p]):
                    expected[step, kind, str(layer + 1), str(head + 1), name] = value
    assert len(lines) == len(found) and found == pytest.approx(expected, abs=1e-4)


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
    found = np.array([line[1:] for line in lines[1:]], float)
    np.testing.assert_allclose(found, run.maps["cross"][0][3, 1, 1].astype(float), rtol=1e-6)


# The page.


def test_the_page_says_what_was_measured_and_what_a_mark_means(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Links are said to be checked on Heads only if its atlas has manual alignments."""
    run = AttentionSnapshots.load(CHECKPOINTS / "scratch-de-en" / FILE)
    page = render("training", model="scratch", direction="de-en")
    targets = sum(len(s.target_in) for s in run.sentences)
    sources = sum(len(s.source) for s in run.sentences)
    measured = page.claim_matching(r"\*\*What was measured\.\*\*(.*)", "training_notes")[1]
    assert told(measured) == [64, len(run.sentences), targets, sources, 16, 5, 200]
    rows = [(len(s.source), len(s.target_in)) for s in run.sentences for _ in s.target_in]
    chance = 100 * np.mean([(1 - 1 / K) ** (Q - 1) for K, Q in rows])
    aligning = [m.point for m in appearance.marks(run) if m.role == appearance.ALIGNING]
    ends = min(aligning), max(aligning)
    opening = page.claim_matching(r"Press Replay: between steps .* heads find their words\.")
    numbers = page.claim_matching(
        r"BLEU .*, the last\. Opened at step .*, where head .* takes its role\.", "training_notes"
    )
    opened = unpacked(page.payload("training"))[0]["opened"]
    shown_at = [opened["start"], float(f"{opened['layer'] + 1}.{opened['head'] + 1}")]
    steps = [int(run.steps[point]) for point in ends]
    bleu = [n for p in (*ends, -1) for n in (round(run.bleu[p]), int(run.steps[p]))]
    assert told(opening[0]) == [*steps, len(aligning)]
    assert told(numbers[0]) == [64, *bleu, *shown_at]
    marks = r"\*\*What a mark means\.\*\*(.*)"
    match = page.claim_matching(marks, "training_notes")
    assert told(match[1]) == pytest.approx([30, 10, chance + 20, chance, 10, 50], abs=0.51)
    assert ": *Heads* checks it against manual alignments." in match[1]
    shown, _ = unpacked(page.payload("training"))
    assert shown["name"] == "scratch-de-en" and shown["languages"] == ["German", "English"]
    assert shown["steps"] == run.steps.tolist()
    page.everything_was_claimed(
        but=lambda item: item.kind == "help" or item.where in ("search", "model_note")
    )
    monkeypatch.setattr(atlases, "FILE", str(tmp_path / "atlas.npz"))
    for content in (None, b"nonsense"):
        if content:
            (tmp_path / "atlas.npz").write_bytes(content)
        page = render("training", model="scratch", direction="de-en")
        assert "*Heads* checks" not in page.claim_matching(marks, "training_notes")[1]


def test_a_link_reaches_the_component() -> None:
    def opened(model: str, direction: str, **asked: Any) -> dict[str, Any]:
        page = render("training", model=model, direction=direction, **asked)
        return unpacked(page.payload("training"))[0]["opened"]

    asked: Any = {"kind": "encoder", "layer": "2", "head": "mean", "step": "1655", "sentence": "3"}
    view = {"kind": "encoder", "layer": 2, "head": "mean"}
    assert opened("scratch", "de-en", **asked) == {
        **{"sentence": 3, "step": 1655, "start": None},
        **view,
    }
    wrong: Any = {"kind": "x", "layer": "99", "head": "-1", "step": "½", "sentence": "9999999999"}
    # At the last point, this head has the most queries whose strongest key no other query shares.
    run = AttentionSnapshots.load(CHECKPOINTS / "captions-en-de" / FILE)
    own = np.zeros(run.entropy["cross"].shape[1:])
    for maps in run.maps["cross"]:
        for layer, head, *_ in np.ndindex(maps.shape[1:3]):
            top = list(maps[-1, layer, head].argmax(-1))
            own[layer, head] += sum(top.count(key) == 1 for key in top)
    layer, head = divmod(int(np.argmax(own)), own.shape[1])
    expected = {"sentence": 0, "step": None, "kind": "cross", "layer": layer, "head": head}
    found = opened("captions", "en-de", **wrong)
    start = found.pop("start")
    assert found == expected
    # From its start on, and not before, each row's strongest key is nearly always that of the end.
    top = [[maps[:, layer, head].argmax(-1)] for maps in run.maps["cross"]]
    kept = np.mean(np.concatenate([(of == of[-1]) for (of,) in top], axis=1), axis=1)
    at = run.steps.tolist().index(start)
    assert 0 < at < len(kept) - 1 and (kept[at:] >= 0.5).all()


@pytest.fixture
def other_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of a checkpoint, the only one that the app lists."""
    folder = tmp_path / "captions-de-en"
    shutil.copytree(CHECKPOINTS / "captions-de-en", folder)
    monkeypatch.setattr(models, "CHECKPOINTS", tmp_path)
    models._listed.clear()
    yield folder
    models._listed.clear()


@pytest.mark.parametrize("case", ["none", "damaged", "another network", "not an archive"])
def test_an_unusable_file_is_said_in_one_line(other_folder: Path, case: str) -> None:
    file = other_folder / FILE
    if case == "none":
        file.unlink()
    elif case == "damaged":
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif case == "another network":
        snapshots().save(file)
    else:
        file.write_text("<script>alert(1)</script>")
    page = render("training", model="captions", direction="de-en")
    kind, remedy = (
        ("caption", "recorded during training") if case == "none" else ("error", "delete")
    )
    (line,) = [item.text for item in page.items if item.kind == kind and FILE in item.text]
    assert "\n" not in line and remedy in line
    assert "training" not in page.payloads
    if case == "another network":
        assert "2 × 2 heads (layers × heads), not 4 × 4" in line
    assert any("million weights" in item.text for item in page.items), "the rest works"


def test_the_page_names_the_recipes_that_record_snapshots() -> None:
    recording = {name for name, recipe in RECIPES.items() if recipe.snapshots}
    assert set(view.RECORDING) == {name for name in recording if not name.startswith("smoke")}
