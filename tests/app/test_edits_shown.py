"""An edit is seen where one looks: thumbnails, map, captions, both translations, and the next step."""

# ruff: noqa: E501 (page texts on one line)

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from app.components.assets import joined
from app.components.edits import listed
from app.components.explorer.answers import again_answer
from app.components.explorer.payload import effects_answer, payload
from core.kinds import KINDS
from core.record.edits import Edits
from tests.app.axes import png_marks, svg_marks
from tests.app.drawn import Mark, marks_of
from tests.app.explorer_drawn import Scene, at, box, mount, near
from tests.app.explorer_harness import Record, Token, synthetic_record
from tests.app.mounted import Mounted, plain
from tests.app.test_explorer_arithmetic import groups

__all__ = ["at"]
LAYERS, HEADS = 3, 4
WORD = 4  # “red”


def looking_at(key: int, cross: np.ndarray) -> np.ndarray:
    """Return maps in which three heads of layer 2 look at one key while writing `WORD`."""
    cross = cross.copy()
    cross[1, :3, WORD] = 0.3 / (cross.shape[-1] - 1)
    cross[1, :3, WORD, key] = 0.7
    return cross


_made = synthetic_record("short", LAYERS, HEADS)
BEFORE = replace(_made, cross=looking_at(5, _made.cross))
STEPS = len(BEFORE.target_out)
VIEW = {"kind": "cross", "layer": 0, "head": 1, "q": WORD}


def edited(edits: str, falls: float = 2.0) -> Record:
    """Return the record of another pass over the same target, in which `WORD` is less likely."""
    maps = {
        kind: np.roll(getattr(BEFORE, kind), 1, axis=1) if kind != "decoder" else BEFORE.decoder
        for kind in KINDS
    }
    maps["cross"] = looking_at(2, maps["cross"])
    change = np.linspace(-0.3, 0.3, STEPS).astype(np.float32)
    change[WORD] = -falls
    log_probs = BEFORE.log_probs + change
    return replace(
        BEFORE, id=f"edited-{edits}", **maps, log_probs=log_probs, log_prob=float(log_probs.sum())
    )


def sent(
    edits: str, view: dict[str, Any] | None = None, request: int | None = None, **more: Any
) -> dict[str, Any]:
    """Return the payload of the pass under some edits, as the page sends it."""
    parsed, problems = Edits.parse(edits)
    assert not problems
    after = edited(edits, **more) if edits else BEFORE
    change = (after.log_probs - BEFORE.log_probs).round(6).tolist() if edits else None
    what_if = {
        "text": edits,
        "edits": listed(parsed, BEFORE),
        "problems": [],
        "before": BEFORE.log_prob,
        "change": change,
        "request": request,
    }
    return payload(after, view or VIEW, what_if=what_if, before=BEFORE if edits else None)


def translated(edits: str, text: str, own: str = BEFORE.translation) -> dict[str, Any]:
    """Return the answer with a new translation."""
    words = [Token(word, starts_word=word != ".") for word in text.split(" ")]
    again = replace(BEFORE, translation=text, target_out=(*words, Token("<eos>", special=True)))
    return again_answer(edited(edits), again, "beam 5", own)


def effects(record_id: str, of: dict[tuple[str, int, int], float], default: float = 0.0) -> dict:
    """Return an answer in which some heads have an effect on `WORD`."""
    arrays = {kind: np.full((LAYERS, HEADS, STEPS), default, np.float32) for kind in KINDS}
    for (kind, layer, head), nats in of.items():
        arrays[kind][layer, head, WORD] = nats
    return {"sentence": record_id, "name": "effects", "request": None, **effects_answer(arrays)}


def parts(said: dict[str, Any]) -> dict[str, str]:
    return {name: text for name, text in said["parts"].items() if name not in said["hidden"]}


def overview(at: Mounted) -> list[Mark]:
    return marks_of(at.page.locator("#host .overview-maps"))


def place_of(at: Mounted, layer: int, head: int) -> tuple[float, float, float]:
    """Return left, top and side of a thumbnail."""
    script = "(at) => [at.offsetLeft, at.offsetTop, at.offsetWidth]"
    thumbnail = at.page.locator(f"#host .thumbnail[data-l='{layer}'][data-h='{head}']")
    return tuple(thumbnail.evaluate(script))


def orange(at: Mounted, theme: str = "light") -> tuple[int, int, int]:
    return Scene(at, BEFORE, theme, "cross", 0, 0).ink("wrong")


def captions(at: Mounted, layer: int, head: int) -> list[Mark]:
    left, top, side = place_of(at, layer, head)
    texts = [m for m in overview(at) if m.what == "text" and m.words]
    return [m for m in texts if near((m.x,), (left,)) and top + side < m.y < top + side + 40]


@pytest.fixture(autouse=True)
def light(at: Mounted) -> None:
    mount(at, "light", BEFORE)  # the theme stays


# The shown head.


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("edits", "caption", "is_crossed", "title"),
    [
        ("off.cross.1.2", "off", True, "off"),
        ("mean.cross.1.2", "average", False, "output set to its average"),
        ("uniform.cross.1.2", "equal", False, "weights set equal"),
        ("temp.cross.1.2.0.5", None, False, "sharpened"),
        ("temp.cross.1.2.2", None, False, "flattened"),
        ("cut.cross.1.2.3.5", None, False, "edge cut"),
        ("times.cross.1.2.3.5.4", None, False, "edge strengthened"),
        ("row.cross.1.2.3.0.5-0.5", None, False, "row drawn by hand"),
    ],
)
def test_an_edited_head_is_marked_in_its_thumbnail_and_title(
    at: Mounted, theme: str, edits: str, caption: str | None, is_crossed: bool, title: str
) -> None:
    mount(at, theme, BEFORE)
    at.show(sent(edits))
    left, top, side = place_of(at, 1, 2)
    ink = orange(at, theme)
    marked = [m for m in overview(at) if m.what in ("line", "frame") and m.stroke == ink]
    assert len(marked) == 1, "only the edited head is marked"
    if is_crossed:
        right, bottom = left + side, top + side
        ends = [[(left, top), (right, bottom)], [(left, bottom), (right, top)]]
        for line, end in zip(marked[0].lines, ends, strict=True):
            assert all(near(one, other) for one, other in zip(line, end, strict=True))
    else:
        assert near(box(marked[0]), (left + 1, top + 1, side - 2, side - 2))
    if caption:
        (text,) = captions(at, 1, 2)
        assert (text.words, text.fill) == (caption, ink)
    spoken = at.page.locator("#host .thumbnail[data-l='1'][data-h='2']").get_attribute("aria-label")
    assert caption is None or plain(spoken).endswith(f" {caption}")
    said = at.does(("press", ".thumbnail[data-l='1'][data-h='2']"))
    assert said["parts"]["title"].startswith(f"Layer 2, head 3 {title}")
    other = at.does(("press", ".thumbnail[data-l='1'][data-h='1']"))
    assert not other["parts"]["title"].startswith(f"Layer 2, head 2 {title}")


def test_the_map_of_a_head_that_is_off_is_hatched_and_keeps_its_numbers(at: Mounted) -> None:
    press = [("press", ".thumbnail[data-l='1'][data-h='2']"), ("key", "Escape")]

    def drawn(edits: str) -> tuple[list[Mark], dict[str, str]]:
        at.show(sent(edits))
        said = at.does(*press)
        return marks_of(at.page.locator("#host [data-part=map]")), parts(said)

    scene = Scene(at, BEFORE, "light", "cross", 1, 2)
    for edits, note in (
        ("off.cross.1.2", "Off: its weights add nothing."),
        ("mean.cross.1.2", "Its output is its average over sample sentences, whatever its weights."),
        ("off.cross.1.1", "Edited: cross-attention, layer 2, head 2 off."),
        ("uniform.cross.1.2", "Each row gives the same weight to every key that is not masked."),
    ):  # fmt: skip
        marks, said = drawn(edits)
        g = scene.geometry()
        rows, columns = BEFORE.cross_mask.shape
        hatch = [m for m in marks if m.what == "line" and m.stroke == scene.ink("hatch") and m.clip]
        grid = (g.left, g.top, columns * g.cell, rows * g.cell)
        is_shown = edits in ("off.cross.1.2", "mean.cross.1.2")
        assert [m.clip for m in hatch if near(m.clip, grid)] == [m.clip for m in hatch]
        assert len(hatch) == is_shown
        assert said["map-note"] == note
        numbers = [m for m in marks if (m.what == "text" and m.words in (".95", "1")) or (m.words.startswith(".") and m.align == "center")]  # fmt: skip
        values = edited(edits).cross[1, 2]
        above = marks[marks.index(hatch[0]) :] if hatch else marks
        kept = [m for m in numbers if m in above]
        assert len(kept) >= (values >= 0.0951).sum() * (g.cell >= 23)
    first = drawn("off.cross.1.2")[1]["readout-first"]
    assert first.startswith("Off: ")
    scores = at.does(("cell", 2, 3), ("leave",))["first"]
    assert scores.startswith("Off: While") and " would give " in scores


def test_cut_and_strengthened_edges_drawn_rows_and_hidden_words_are_marked(at: Mounted) -> None:
    scene = Scene(at, BEFORE, "light", "cross", 1, 2)
    ink = scene.ink("wrong")

    def marked(edits: str) -> list[Mark]:
        at.show(sent(edits))
        at.does(("press", ".thumbnail[data-l='1'][data-h='2']"))
        marks = marks_of(at.page.locator("#host [data-part=map]"))
        return [m for m in marks if m.what in ("line", "frame") and m.stroke == ink]

    (cross,) = marked("cut.cross.1.2.3.5")
    g = scene.geometry()
    assert len(cross.lines) == 2
    assert near(cross.middle, (g.x(5.5), g.y(3.5)))
    (frame,) = marked("times.cross.1.2.3.5.4")
    assert near(box(frame), (g.x(5) + 1, g.y(3) + 1, g.cell - 3, g.cell - 3))
    (frame,) = marked("row.cross.1.2.3.0.5-0.5")
    assert near(box(frame)[1:], (g.y(3), BEFORE.cross.shape[-1] * g.cell - 1, g.cell - 1))
    assert not marked("cut.cross.1.1.3.5"), "the edge of another head"
    (strike,) = marked("hide.5")
    start, end = strike.lines[0]
    assert g.x(5) < start[0] < g.x(7) and start[1] > end[1], "along the slanted label"
    struck = at.page.locator("#host .source .token.gone")
    assert struck.evaluate_all("(all) => all.map((one) => one.dataset.index)") == ["5"]


def test_a_pass_that_is_edited_as_a_whole_says_so(at: Mounted) -> None:
    for edits, kind, title, note in (
        ("causal", "decoder", "no causal mask", "Edited: no causal mask."),
        ("causal", "cross", "English", "Edited: no causal mask."),
        ("hide.5", "encoder", "word hidden", "Edited: “Hemd” hidden."),
        ("positions.source.scale-0", "cross", "English", "Edited: no positions in the source."),
        ("hide.5~positions.source.scale-0", "decoder", "English", "Edited: “Hemd” hidden, and 1 more."),
    ):  # fmt: skip
        at.show(sent(edits))
        said = parts(at.does(("press", f"[data-kind-option={kind}]")))
        assert said["map-note"] == note
        rest = said["title"].partition("head 2")[2]
        assert rest.strip().startswith(title)
    at.show(sent(""))
    assert "map-note" not in parts(at.does())


def test_saved_pictures_of_a_head_that_is_off_are_crossed_and_hatched(at: Mounted) -> None:
    scene = Scene(at, BEFORE, "light", "cross", 1, 2)
    for edits, count in (("off.cross.1.2", 1), ("", 0)):
        at.show(sent(edits))
        at.does(("press", ".thumbnail[data-l='1'][data-h='2']"))
        for name, wanted in (("overview", "wrong"), ("map", "hatch")):
            press = lambda name=name: at.does(("press", f"[data-export={name}-png]"))  # noqa: E731
            for marks in (svg_marks(at.saves(f"{name}-svg")), png_marks(at.page, press)):
                lines = [m for m in marks if m.what == "line" and m.stroke == scene.ink(wanted)]
                assert len(lines) == count, name


# The other heads.


def keys(record: Record, kind: str) -> np.ndarray:
    """Return the key that each row looks at most, [layer, head, query]."""
    found = np.empty(getattr(record, kind).shape[:3], int)
    for place in np.ndindex(*found.shape):
        row = {k: w for k, w in enumerate(getattr(record, kind)[place]) if getattr(record, f"{kind}_mask")[place[2], k]}  # fmt: skip
        found[place] = max(row, key=lambda k: row[k])
    return found


def test_captions_whose_word_has_changed_are_orange(at: Mounted) -> None:
    edits = "off.cross.0.1"
    now, before = (keys(record, "cross")[..., WORD] for record in (edited(edits), BEFORE))
    at.show(sent(edits))
    names = [token.text for token in BEFORE.source]
    changed = 0
    for layer, head in np.ndindex(LAYERS, HEADS):
        if (layer, head) == (0, 1):
            continue
        word = captions(at, layer, head)[0]
        assert word.words.startswith(names[now[layer, head]][:3])
        moved = now[layer, head] != before[layer, head]
        assert (word.fill == orange(at)) == moved
        thumbnail = at.page.locator(f"#host .thumbnail[data-l='{layer}'][data-h='{head}']")
        spoken = re.sub("[₀-₉]", "", plain(thumbnail.get_attribute("aria-label")))
        assert spoken.endswith(f"before the edit at {names[before[layer, head]]}") == moved
        changed += moved
    assert 0 < changed < LAYERS * HEADS - 1
    at.does(("press", "[data-part=hide-eos]"))
    last = len(names) - 1  # <eos>: what was looked at most among the other keys is not known
    unknown = [(int(la), int(h)) for la, h in np.argwhere(before == last) if (la, h) != (0, 1)]
    assert unknown
    for layer, head in unknown:
        assert captions(at, layer, head)[0].fill != orange(at)
    at.does(("press", "[data-part=hide-eos]"))
    at.does(("press", "[data-unit-option=words]"))
    for layer, head in np.ndindex(LAYERS, HEADS):
        if (layer, head) != (0, 1):
            assert captions(at, layer, head)[0].fill != orange(at), "words are not compared"


def test_a_payload_names_the_keys_of_both_passes() -> None:
    data = sent("off.cross.0.1")
    for kind in KINDS:
        found = np.frombuffer(data[f"looked_at_{kind}"], "<u2").reshape(2, LAYERS, HEADS, -1)
        np.testing.assert_array_equal(found[0], keys(BEFORE, kind))
        np.testing.assert_array_equal(found[1], keys(edited("off.cross.0.1"), kind))
    assert not [name for name in sent("") if name.startswith("looked_at")]


# Both translations.

TEXT = BEFORE.translation.replace("red", "blue")


@pytest.mark.parametrize(
    ("before", "after", "fates"),
    [
        ("a red shirt", "a blue shirt", [("a", 1), ("blue", 0), ("shirt", 1)]),
        ("a man sleeps", "a man sleeps", [("a", 1), ("man", 1), ("sleeps", 1)]),
        ("shirt is talking to", "shirt talking to", [("shirt", 1), ("", 0), ("talking", 1), ("to", 1)]),
        ("a b", "a x b y", [("a x", 1), ("b y", 1)]),
        ("two men", "a man in", [("a", 0), ("man in", 0)]),
        ("b", "x b", [("b", 1)]),
        ("a", "", [("", 0)]),
    ],
)  # fmt: skip
def test_words_are_aligned(blank: Page, before: str, after: str, fates: list) -> None:
    script = joined(Path(__file__).parents[2] / "app/components/explorer/edited_target.js")
    found = blank.evaluate(
        f"(args) => {{ {script}\n return alignWords(...args); }}", [before.split(), after.split()]
    )
    assert [(" ".join(one["words"]), int(one["isSame"])) for one in found["fates"]] == fates
    words = [*found["before"], *(word for one in found["fates"] for word in one["words"])]
    assert words == after.split(), "no word is lost, and their order stays"


def rows(at: Mounted) -> list[dict[str, Any]]:
    """Return the words of the new translation, with the changes above them."""
    script = """(all) => all.map((one) => ({
        changes: [...one.querySelectorAll("small")].map((at) => at.textContent),
        text: one.querySelector(".form")?.textContent.trim() ?? null,
        bold: [...one.querySelectorAll("b")].map((at) => at.textContent), left: one.getBoundingClientRect().left,
    }))"""
    found = at.page.locator("#host .edited-word").evaluate_all(script)
    clean = lambda text: text if text is None else " ".join(plain(text).split())  # noqa: E731
    return [
        {**one, "text": clean(one["text"]), "bold": list(map(clean, one["bold"]))} for one in found
    ]


def test_the_new_translation_stands_below_the_old_one(at: Mounted) -> None:
    edits = "off.cross.0.1"
    at.show(sent(edits))
    waiting = rows(at)
    assert {one["text"] for one in waiting} == {None}, "the changes come with the maps"
    at.answer(translated(edits, TEXT))
    said = parts(at.does())
    change = edited(edits).log_probs - BEFORE.log_probs
    ordinary = [i for i, token in enumerate(BEFORE.target_out) if not token.special]
    word = groups(BEFORE.target_out)[ordinary]
    seen = rows(at)
    assert [one["changes"] for one in seen] == [one["changes"] for one in waiting]
    shown = [text.replace("−", "-") for one in seen for text in one["changes"]]
    for text, nats in zip(shown, change[ordinary], strict=True):
        assert text == (f"{nats:+.1f}" if abs(nats) >= 0.05 else "")
    assert len(seen) == len(set(word))
    assert " ".join(one["text"] for one in seen).replace(" .", ".").replace(" ,", ",") == TEXT.replace(" .", ".")  # fmt: skip
    assert [one["bold"] for one in seen if one["bold"]] == [["blue"]]
    struck = at.page.locator("#host .target .token.gone .form").all_text_contents()
    assert struck == ["red"]
    lefts = at.page.locator("#host .target .word").evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().left)")  # fmt: skip
    assert [one["left"] for one in seen] == pytest.approx(lefts[1 : 1 + len(seen)], abs=1)
    assert said["edited-target"].startswith("change, natshead 1.2 off")
    assert f"now writes: {TEXT}" in said["spoken"]
    assert "The new translation has" in said["edit-sum"]
    thumbnail = at.page.locator("#host .thumbnail[data-l='0'][data-h='0']")
    thumbnail.focus()
    at.show(sent(""), again=True)
    assert thumbnail.evaluate("(it) => it === document.activeElement"), "the grid stays"
    assert "edited-target" not in parts(at.does())
    assert not at.page.locator("#host .token.gone").count()


def test_removed_words_have_a_dash_and_a_failed_search_one_line(at: Mounted) -> None:
    edits = "hide.5"
    at.show(sent(edits))
    at.answer(translated(edits, BEFORE.translation.replace("red ", "")))
    assert [one["text"] for one in rows(at)][WORD] == "–"
    at.show(sent("causal"))
    at.answer(again_answer(edited("causal"), None, "beam 5", "", "decoding requires the causal mask"))  # fmt: skip
    said = parts(at.does())
    assert said["edited-target"].endswith("decoding requires the causal mask")
    assert said["spoken"].startswith("decoding requires the causal mask")
    assert "readout-first" in said and "causal mask" not in said["readout-first"]


def test_for_a_given_target_the_models_own_words_are_compared(at: Mounted) -> None:
    edits = "off.cross.0.1"
    at.show(sent(edits))
    at.answer(translated(edits, "A dog sleeps .", own="A cat sleeps ."))
    said = parts(at.does())
    assert said["edited-target"].endswith("The model itself now writes: A dog sleeps .")
    assert at.page.locator("#host .edited-row p b").all_text_contents() == ["dog"]
    assert not at.page.locator("#host .token.gone").count()
    assert said["readout-first"].startswith("Without it the log-probability of red goes from")


# The sentence.


def number(value: float) -> str:
    return f"{value:.1f}".replace("-", "−")


@pytest.mark.parametrize(
    ("kind", "text", "fate"),
    [
        ("cross", TEXT, "becomes blue: "),
        ("cross", BEFORE.translation, "stays, but "),
        ("decoder", TEXT, "becomes blue: "),
    ],
)
def test_the_sentence_counts_the_later_heads_that_look_elsewhere(
    at: Mounted, kind: str, text: str, fate: str
) -> None:
    edits = "off.cross.0.1"
    at.show(sent(edits))
    at.does(("press", f"[data-kind-option={kind}]"))
    at.answer(translated(edits, text))
    first = re.sub("[₀-₉]", "", parts(at.does())["readout-first"])
    before, now = (keys(record, kind)[1:, :, WORD] for record in (BEFORE, edited(edits)))
    pairs = Counter(zip(before[now != before].tolist(), now[now != before].tolist(), strict=True))
    if kind == "decoder":
        assert not pairs, "these maps are the same"
        log_prob = float(BEFORE.log_probs[WORD])
        course = f"goes from {number(log_prob)} to {number(log_prob - 2)}"
        assert first == f"Without cross head 1.2 red {fate}its log-probability {course}."
        return
    most, later = max(pairs.values()), LAYERS * HEADS - HEADS
    assert most > 1
    assert first in {
        f"Without it red {fate}{most} of the {later} later cross heads now look at "
        f"{BEFORE.source[b].text}, not at {BEFORE.source[a].text}."
        for (a, b), count in pairs.items()
        if count == most
    }


@pytest.mark.parametrize(
    ("edit", "layers"), [("copy.decoder.1.2.0", 2), ("pushrandom.decoder.3.2.0.4", 0)]
)
def test_heads_after_an_edited_state_are_the_later_ones(
    at: Mounted, edit: str, layers: int
) -> None:
    """State l is read by layer l, counted from 0. The pass that copies come from is no edit."""
    edits = f"pass.9-2.1-30~{edit}" if edit.startswith("copy") else edit
    at.show(sent(edits))
    at.answer(translated(edits, BEFORE.translation))
    first = parts(at.does())["readout-first"]
    assert first.startswith("With this edit red")
    assert ("later cross heads" in first) == bool(layers)
    if layers:
        assert f"of the {layers * HEADS} later" in first


def test_the_sentence_says_what_became_of_the_pinned_word(at: Mounted) -> None:
    edits = "temp.cross.0.1.2"
    for text, words in (
        (BEFORE.translation, "With this edit red stays, but "),
        (BEFORE.translation.replace("red ", ""), "With this edit red is no longer written"),
        (BEFORE.translation.replace("a red", "dark blue old"), "With this edit a red becomes dark blue old"),
    ):  # fmt: skip
        at.show(sent(edits))
        before = parts(at.does())["readout-first"]
        assert before.startswith("While "), "before the translation comes, the row is described"
        at.answer(translated(edits, text))
        said = at.does()
        first = re.sub("[₀-₉]", "", said["first"])
        assert first.startswith(words)
        assert said["second"].startswith("While "), "the row is still described"
        pointed = at.does(("over", 2, 3))
        assert pointed["first"].startswith("While ")
        assert at.does(("leave",))["first"] == said["first"]
    unpinned = at.does(("key", "Escape"))["first"]
    after = edited(edits).log_prob
    assert unpinned == (
        "With this edit the log-probability of the translation goes from "
        f"{number(BEFORE.log_prob)} to {number(after)}."
    )


# The next step.


def step(at: Mounted) -> str | None:
    return parts(at.does()).get("next-step")


def test_the_next_step_is_the_head_that_the_word_needs_most(at: Mounted) -> None:
    at.show(sent(""))
    assert step(at) is None, "without effects there is no step"
    needed = "encoder", 2, 3
    at.answer(effects(BEFORE.id, {needed: -3.0, ("cross", 0, 1): -2.9, ("cross", 1, 1): 4.0}))
    assert step(at) == "Next: switch off the head that “red” needs most"
    said = at.does()
    offered = {name: (words, disabled) for name, words, disabled in said["buttons"]}
    assert next(iter(offered)) == "most"
    assert offered["most"] == ("Switch off encoder head 3.4, which “red” needs most (−3.0 nats)", False)  # fmt: skip
    said = at.does(("press", "[data-part=next-step]"))
    assert at.edits() == ["+off.encoder.2.3"]
    assert (said["data"]["kind"], said["data"]["layer"], said["data"]["head"]) == ("encoder", "2", "3")  # fmt: skip


@pytest.mark.parametrize(("text", "fate"), [(TEXT, "comes back"), (BEFORE.translation, "stays")])
def test_the_step_after_a_head_is_off_is_the_head_that_repairs_it(
    at: Mounted, text: str, fate: str
) -> None:
    edits, repair = "off.cross.0.1", ("decoder", 1, 0)
    at.show(sent(edits))
    assert step(at) is None
    at.answer(translated(edits, text))
    at.answer(effects(edited(edits).id, {repair: 1.5, ("cross", 0, 1): 7.0, ("cross", 2, 2): 1.4}))
    assert step(at) == "Next: switch off a second head that repairs it", (
        "never the head that is off already"
    )
    said = at.does(("press", "[data-part=next-step]"))
    assert at.edits() == ["+off.decoder.1.0"]
    assert said["data"]["kind"] == "decoder" and said["data"]["query"] == str(WORD)
    both, request = f"off.decoder.1.0~{edits}", at.requests()[-1][1]["request"]
    if fate == "comes back":  # on a page that links to one head's arithmetic
        at.page.evaluate(
            "window.headPage = {url: () => '#', open: () => requests.push(['inside']), "
            "listen: () => () => {}}"
        )
    at.show(sent(both, request=request, falls=0.5), again=True)
    at.answer(translated(both, BEFORE.translation))
    log_prob = float(BEFORE.log_probs[WORD])
    assert at.does()["first"] == (
        f"Without decoder head 2.1 as well red {fate}: its log-probability goes from "
        f"{number(log_prob - 2)} to {number(log_prob - 0.5)}."
    )
    assert step(at) == (
        "Next: undo the edits"
        if fate == "stays"
        else "Next: see how cross head 1.2 gets its weights"
    )
    said = at.does(("press", "[data-part=next-step]"))
    assert said["data"]["kind"] == ("decoder" if fate == "stays" else "cross")
    at.page.evaluate("window.headPage = null")
    assert at.edits()[-1] == "" if fate == "stays" else at.requests()[-1] == ["inside"]


def test_no_step_is_offered_that_would_not_do_what_it_says(at: Mounted) -> None:
    at.show(sent(""))
    at.answer(effects(BEFORE.id, {("cross", 0, 1): 5.0}, 0.01))
    assert step(at) is None, "no head helps this word"
    edits = "off.cross.0.1"
    at.show(sent(edits))
    at.answer(translated(edits, TEXT))
    at.answer(effects(edited(edits).id, {("cross", 2, 2): -1.4}, -0.01))
    assert step(at) == "Next: undo the edit", "no second head repairs it"
    at.show(payload(BEFORE, VIEW))  # a page that cannot edit
    at.answer(effects(BEFORE.id, {("cross", 0, 1): -5.0}))
    assert step(at) is None


def test_effects_are_requested_once_after_painting(at: Mounted) -> None:
    at.show(sent(""))
    assert not at.requests(), "never before the first paint"
    at.page.wait_for_function("requests.length > 0")
    assert [name for name, _ in at.requests()] == ["effects"]
    (_, asked) = at.requests()[0]
    assert asked["sentence"] == BEFORE.id
    number = asked["request"]
    failed = {"sentence": BEFORE.id, "name": "effects", "request": number, "failed": "No memory."}
    at.answer(failed)
    at.page.wait_for_timeout(700)
    assert len(at.requests()) == 1, "not again"
    assert parts(at.does())["request-note"] == "", "the visitor did not ask for it"
    long = synthetic_record("long", 2, 3)
    none = {"text": "", "edits": [], "problems": [], "before": long.log_prob, "change": None}
    at.show(payload(long, {"kind": "cross", "layer": 0, "head": 0}, what_if=none))
    at.page.wait_for_timeout(700)
    assert "effects" not in dict(at.requests()), "effects of long sentences take seconds"
    at.does(("set", "[data-part=sort]", "effect"))
    assert "effects" in dict(at.requests())


# The view that the page opens with.

STRONGEST = {("cross", 2, 3): -4.0, ("encoder", 0, 0): 9.0, ("decoder", 1, 1): 3.5}


def opened(at: Mounted, **view: Any) -> None:
    at.show(sent("", {"kind": "cross", "layer": 1, "head": 0, "q": 2, **view}))


def shown(at: Mounted) -> tuple[str, ...]:
    data = at.does()["data"]
    return tuple(data[name] for name in ("kind", "layer", "head", "query"))


def test_the_page_opens_with_the_word_that_one_head_changes_most(at: Mounted) -> None:
    opened(at, suggested=1)
    assert shown(at) == ("cross", "1", "0", "2")
    at.answer(effects(BEFORE.id, STRONGEST))
    assert shown(at) == ("cross", "2", "3", str(WORD)), "encoder maps have no row of this word"
    opened(at, suggested=1)
    at.answer(effects(BEFORE.id, {**STRONGEST, ("decoder", 0, 2): 5.0}))
    assert shown(at) == ("decoder", "0", "2", str(WORD))
    opened(at)
    at.answer(effects(BEFORE.id, STRONGEST))
    assert shown(at) == ("cross", "1", "0", "2"), "the link named the cell"


def test_going_back_shows_the_view_of_the_link(at: Mounted) -> None:
    """Two steps at once bring the sentence of the first and the link of the second."""
    opened(at, suggested=1)
    at.does(("back",))
    view = {"kind": "cross", "layer": 1, "head": 0, "q": 2, "suggested": 1}
    other = synthetic_record("other", STEPS - 1, STEPS)
    none = {"text": "", "edits": [], "problems": [], "before": other.log_prob, "change": None}
    at.show(payload(other, view, what_if=none), again=True)
    few = {kind: np.zeros((LAYERS, HEADS, len(other.target_out)), np.float32) for kind in KINDS}
    few["cross"][2, 3] = -4.0
    about = {"sentence": other.id, "name": "effects", "request": None}
    at.answer({**about, **effects_answer(few)})
    assert shown(at)[:3] == ("cross", "1", "0")


@pytest.mark.parametrize(
    "act",
    [
        ("press", ".thumbnail[data-l='0'][data-h='1']"),
        ("cell", 3, 3),
        ("over", 3, 3),
        ("press", "[data-part=step-on]"),
    ],
)
def test_the_pin_never_moves_after_the_visitor_did_something(at: Mounted, act: tuple) -> None:
    opened(at, suggested=1)
    at.does(act)
    before = shown(at)
    at.answer(effects(BEFORE.id, STRONGEST))
    assert shown(at) == before
    at.does(("leave",))
    at.answer({**effects(BEFORE.id, STRONGEST), "request": 2})
    assert shown(at)[:3] == before[:3]
