"""The grids of states in the browser: picking, dropping, what is marked, and what is asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from csv import reader
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, Page, expect

from app.components.assets import as_module, joined, palette, read

FOLDER = Path(__file__).resolve().parents[2] / "app/components/states"
DRIVER = """
window.asked = [];
window.show = (data, pictures) => {
  const host = document.querySelector("#host");
  if (host.dataset.key !== data.key) {
    host.replaceChildren(document.createElement("div"));
    host.firstChild.append(document.querySelector("#markup").content.cloneNode(true));
    host.dataset.key = data.key;
  }
  const setStateValue = (name, { turn, ...chosen }) => window.asked.push(chosen);
  render({ data, parentElement: host.firstChild, setStateValue });
  if (!pictures) return;
  const text = new TextEncoder().encode(JSON.stringify(pictures));
  const bytes = new Uint8Array(4 + text.length);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 4);
  mailboxOf(data.key).put("pictures", bytes);
};
"""
WORDS = ["Ein", "Mann", "geht", "<eos>"]


def tokens(words: list[str]) -> list[dict[str, Any]]:
    return [
        {"id": 10 * len(word) + ord(word[0]), "text": word, "starts_word": True}
        | ({"special": True} if word[0] == "<" else {})
        for word in words
    ]


def read_as(name: str, layers: int, count: int) -> list[list[list[Any]]]:
    return [[[f"{name}{layer}{n}", 0.2 + 0.1 * n] for n in range(count)] for layer in range(layers)]


def copying(**more: Any) -> dict[str, Any]:
    """Three layers of states; B's source is one token longer, its last word has no partner."""
    after = read_as("b", 3, 5)
    after[1][1] = after[2][1] = ["a11", 0.9]
    data = {
        "mode": "copy",
        "key": "k",
        "about": "here",
        "turn": 0,
        "way": "restore",
        "side": "encoder",
        "layers": 3,
        "donor": {"name": "A", "tokens": tokens(WORDS), "words": read_as("a", 3, 4),
                  "source": "Ein Mann geht.", "translation": "A man walks."},
        "receiver": {"name": "B", "tokens": tokens([*WORDS[:1], "Frau", "geht", "dort", "<eos>"]),
                     "words": read_as("b", 3, 5),
                     "source": "Ein Frau geht dort.", "translation": "A woman walks over there."},
        "pairs": [[0, 0], [1, 1], [2, 2], [3, 4]],
        "copy": {"layer": 1, "from": 1, "to": 1},
        "after": after,
        "after_text": "A man walks over there.",
        "measure": {"share": 1.25, "own": "woman", "other": "man", "before": -3.0, "now": 2.0,
                    "goal": 1.0},
        "problem": "",
    }  # fmt: skip
    return data | more


PICTURES = {
    "about": "here",
    "problem": "",
    "cells": [[0.01, 0.9, 0, None, -0.2], [0, 0.8, 0.1, None, 0], [0, 0.7, 0.02, None, 0]],
    "heads": {"cross": [[0.1, -0.3], [0.05, 0.6]], "encoder": [[0, 0], [0.01, 0.02]]},
}


def pushing(**more: Any) -> dict[str, Any]:
    data = {
        "mode": "push",
        "key": "p",
        "turn": 0,
        "source": "Ein Mann geht.",
        "tokens": tokens(WORDS),
        "layers": 3,
        "typed": None,
        "problem": "",
        "push": {"position": 1, "layer": 0, "old": {"id": 7, "text": "man"},
                 "new": {"id": 8, "text": "dog"}, "strength": 4, "length": 10.2},
        "olds": [{"id": 6, "text": "A"}, {"id": 7, "text": "man"}],
        "news": [{"text": "dog"}],
        "curve": {"strengths": [0, 2, 4, 6], "old": [0.8, 0.6, 0.2, 0.1],
                  "new": [0.01, 0.1, 0.5, 0.7],
                  "random_old": [[0.8, 0.7, 0.6, 0.5], [0.8, 0.5, 0.2, 0]],
                  "random_new": [[0, 0, 0, 0], [0, 0.1, 0.3, 0.95]]},
        "before": "A man walks.",
        "after": "A dog walks.",
        "random": "A man is walking.",
    }  # fmt: skip
    return data | more


@pytest.fixture(scope="module")
def blank(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    script = as_module(joined(FOLDER / "main.js")).replace("export default", "window.render =")
    page.set_content(
        f"<style>{palette('.states')}\n{read(FOLDER / 'states.css')}</style>"
        f"<template id='markup'>{read(FOLDER / 'states.html')}</template>"
        "<div id='host' style='width: 1000px'></div>"
    )
    page.add_script_tag(content=f"{{ {script} {DRIVER} }}")
    yield page
    page.close()


def show(page: Page, data: dict[str, Any], pictures: dict[str, Any] | None = None) -> None:
    page.evaluate("asked.length = 0")
    page.evaluate(f"show({json.dumps(data)}, {json.dumps(pictures)})")


def text_of(page: Page, selector: str) -> str:
    """Return a text without bidi isolates and with plain spaces."""
    found = page.locator(selector).evaluate_all(
        "parts => parts.map(p => p.textContent).join(' | ')"
    )
    return re.sub("[\u2068\u2069]", "", found).replace("\u00a0", " ")


def marked(page: Page, looks: str) -> list[str]:
    return page.locator(f".main .cell.{looks}").evaluate_all(
        "cells => cells.map(c => c.dataset.at)"
    )


def asked(page: Page) -> list[Any]:
    return page.evaluate("asked.splice(0)")


def copied(text: str, **more: str) -> dict[str, str]:
    return {"way": "restore", "side": "encoder", "copy": text, "mode": "copy"} | more


def test_the_copy_and_all_that_it_changes_are_marked(blank):
    show(blank, copying())
    assert (marked(blank, "source"), marked(blank, "goal")) == (["donor 1 1"], ["receiver 1 1"])
    assert marked(blank, "changed") == ["receiver 1 1", "receiver 2 1"]
    assert text_of(blank, ".main .cell.changed") == "a11 | a11"
    assert text_of(blank, ".say") == (
        "Copy one state of Mann from A into B: woman becomes man, and nothing else changes."
    )
    assert text_of(blank, ".result b") == "man | 1.25"  # not clamped
    measure = text_of(blank, ".measure")
    assert "Logit of man minus that of woman" in measure
    assert "B −3.00, with the copy +2.00, A +1.00 nats" in measure
    assert "(copy − B) / (A − B) = +5.00 / +4.00. Above 1: it overshoots A." in measure
    assert "uncertain" not in measure
    strong = blank.locator(".main .column.strong").all_inner_texts()
    assert [re.sub("[\u2068\u2069]", "", word) for word in strong] == ["Mann", "Frau", "dort"]
    label = blank.locator('[data-at="donor 2 3"]').get_attribute("aria-label")
    assert label and re.sub("[\u2068\u2069]", "", label) == "<eos>, layer 2: a23, 0.50"


@pytest.mark.parametrize("words", ["Wort", "كلمة"])
def test_a_cut_grid_fades_and_shows_the_copied_cell(blank, words):
    many = tokens([f"{words}{n}" for n in range(40)])
    side = {"tokens": many, "words": read_as("w", 3, 40)}
    data = copying(copy={"layer": 1, "from": 30, "to": 30}, after=None, after_text=None,
                   measure=None, pairs=[[n, n] for n in range(40)])  # fmt: skip
    data |= {name: data[name] | side for name in ("donor", "receiver")}
    show(blank, data)
    for name, looks in (("donor", "source"), ("receiver", "goal")):
        scroll = blank.locator(".main .scroll", has=blank.locator(f'[data-at="{name} 0 0"]'))
        expect(scroll).to_have_class("scroll cut-left cut-right")
        outer, cell, corner = (part.bounding_box() for part in (
            scroll, scroll.locator(f".{looks}"), scroll.locator(".corner")))  # fmt: skip
        assert outer and cell and corner
        left, right = outer["x"], outer["x"] + outer["width"]
        assert left <= corner["x"] and corner["x"] + corner["width"] <= right
        if words == "Wort":
            left = corner["x"] + corner["width"]
        else:
            right = corner["x"]
        assert left + 36 <= cell["x"] and cell["x"] + cell["width"] <= right - 36
    show(blank, copying())
    expect(blank.locator(".main .scroll").first).to_have_class("scroll")


def saved(page: Page, name: str) -> bytes:
    """Return a saved file by its button's name, such as "push csv", with a caption."""
    button = page.locator(f'[data-save="{name}"]')
    button.locator("xpath=..").locator("input").evaluate("tick => (tick.checked = true)")
    with page.expect_download() as download:
        button.evaluate("button => button.click()")
    assert download.value.suggested_filename == f"headlight_states_{name.replace(' ', '.')}"
    return Path(download.value.path()).read_bytes()


def rows_of(csv: bytes) -> list[list[str]]:
    return list(reader(csv.decode("utf-8-sig").splitlines()))


def drawn(svg: bytes) -> tuple[list[tuple[str, float]], list[tuple[str, str]]]:
    """Return an SVG's texts, each with its x, and its boxes: colour and opacity."""
    root = ElementTree.fromstring(svg)
    name = "{http://www.w3.org/2000/svg}"
    return (
        [(text.text or "", float(text.attrib["x"])) for text in root.iter(f"{name}text")],
        [(box.attrib["fill"], box.get("opacity", "1")) for box in root.iter(f"{name}rect")],
    )


def test_grids_are_saved_with_all_that_they_show(blank):
    show(blank, copying(), PICTURES)
    lines = rows_of(saved(blank, "encoder_words csv"))
    data = copying()
    shown = {"A": data["donor"]["words"], "B": data["after"]}
    names = {name: [token["text"] for token in data[role]["tokens"]]
             for name, role in (("A", "donor"), ("B", "receiver"))}  # fmt: skip
    assert lines[0] == ["sentence", "layer", "token", "word", "probability"]
    assert [[*line[:4], float(line[4])] for line in lines[1:]] == [
        [name, str(layer), f"{n + 1} {names[name][n]}", *cell]
        for name, grid in shown.items()
        for layer, row in enumerate(grid)
        for n, cell in enumerate(row)
    ]
    cells = rows_of(saved(blank, "encoder_cells csv"))[1:]
    assert [(layer, token) for layer, token, _ in cells[:6]] == [
        *(("0", f"{n + 1} {name}") for n, name in enumerate(names["B"])),
        ("1", "1 Ein"),
    ]
    shares = [share for row in PICTURES["cells"] for share in row]
    assert [float(share) if share else None for *_, share in cells] == shares
    heads = rows_of(saved(blank, "cross_heads csv"))[1:]
    assert heads == [["cross", "1", "1", "0.1"], ["cross", "1", "2", "-0.3"],
                     ["cross", "2", "1", "0.05"], ["cross", "2", "2", "0.6"]]  # fmt: skip
    texts, boxes = drawn(saved(blank, "encoder_words svg"))
    words = [text for text, _ in texts]
    for grid in shown.values():
        for row in grid:
            at = words.index(row[0][0])
            assert words[at : at + len(row)] == [word for word, _ in row]
            xs = [x for _, x in texts[at : at + len(row)]]
            assert xs == sorted(xs)
    said = blank.locator(".states").evaluate(
        "at => getComputedStyle(at).getPropertyValue('--said')"
    )
    opacity = [float(o) for colour, o in boxes if colour == said]
    kept = [
        p for grid in shown.values() for row in grid for word, p in row if word != "a11" or p < 0.5
    ]
    assert opacity == pytest.approx([p**0.7 for p in kept], abs=0.01)
    caption = " ".join(words[-4:])
    assert "Ein Mann geht. → A man walks." in caption and "woman becomes man" in caption
    assert saved(blank, "encoder_heads pdf").startswith(b"%PDF")
    assert saved(blank, "cross_heads png").startswith(b"\x89PNG")


def test_grids_of_a_sentence_from_right_to_left_are_saved_as_shown(blank):
    data = copying()
    for side in ("donor", "receiver"):
        data[side] |= {
            "tokens": tokens(["رجل", "يقرأ", "كتاب", "هنا", "<eos>"][: len(data[side]["tokens"])])
        }
    show(blank, data, PICTURES)
    texts, _ = drawn(saved(blank, "encoder_words svg"))
    xs = {text: x for text, x in texts}
    assert xs["a00"] > xs["a01"] > xs["a03"] and xs["layer 2"] > xs["a00"]


def test_the_curve_is_saved_with_its_random_directions(blank):
    show(blank, pushing())
    curve = pushing()["curve"]
    lines = rows_of(saved(blank, "push csv"))
    assert lines[0] == ["strength", "man", "dog", "man, random 1", "dog, random 1",
                        "man, random 2", "dog, random 2"]  # fmt: skip
    assert [[float(number) for number in line] for line in lines[1:]] == [
        list(line)
        for line in zip(curve["strengths"], curve["old"], curve["new"], *(
                line for both in zip(curve["random_old"], curve["random_new"], strict=True)
                for line in both), strict=True)
    ]  # fmt: skip
    texts = [text for text, _ in drawn(saved(blank, "push svg"))[0]]
    assert {"man", "dog", "man, random", "dog, random", "100\u00a0%"} <= set(texts)
    assert "between strengths 2 and 4" in " ".join(texts[-4:])


def test_damage_is_named_and_a_small_difference_has_no_share(blank):
    less = {"share": -0.4, "own": "woman", "other": "man", "before": -3.0, "now": -3.6}
    show(blank, copying(measure=less | {"goal": -1.5}))
    assert text_of(blank, ".measure b") == "−0.40"
    assert blank.locator(".meter.less i").evaluate("bar => bar.style.width") == "40%"
    said = text_of(blank, ".measure")
    assert "= −0.60 / +1.50. Below 0: it moves away from A. A and B are less than 2 nats" in said
    show(blank, copying(measure=less | {"goal": -1.5}), PICTURES)
    assert "at most 0.10. A and B are less than 2 nats apart" in text_of(blank, ".more .note")
    measure = less | {"share": None, "before": 0.1, "now": 0.2, "goal": 0.3}
    show(blank, copying(way="damage", measure=measure, after_text="A woman sees two dogs there."))
    assert "lost" in text_of(blank, ".result") and "not defined" in text_of(blank, ".measure")
    assert text_of(blank, ".say").endswith(
        "walks over becomes sees two dogs, and nothing else changes."
    )
    other = copying(after_text="A woman, walks over the dog.")
    other["receiver"]["translation"] = "A woman, walks over the house. "
    show(blank, other)
    assert text_of(blank, ".say").endswith(": house becomes dog, and nothing else changes.")
    longer = copying(after_text="A woman, walks there.")
    longer["receiver"]["translation"] = "A woman, walks."
    show(blank, longer)
    assert text_of(blank, ".result .text b") == "there", "neither walks nor the full stop"
    assert text_of(blank, ".result .now .text") == "A woman, walks there."
    assert text_of(blank, ".say").endswith(": there is added, and nothing else changes.")
    show(blank, copying(problem="These cannot be paired.", copy=None, after=None, after_text=None,
                        measure=None, pairs=[]))  # fmt: skip
    assert text_of(blank, ".say") == "These cannot be paired."
    assert blank.locator(".main .cell").count() == 3 * (4 + 5)


@pytest.mark.parametrize("over", ["receiver 2 3", "receiver 0 3"])
def test_a_dragged_cell_stays_in_its_layer(blank, over):
    show(blank, copying())
    boxes = [blank.locator(f'[data-at="{at}"]').bounding_box() for at in ("donor 2 1", over)]
    (x, y), (to_x, to_y) = ((b["x"] + 8, b["y"] + 8) for b in boxes if b)
    blank.mouse.move(x, y)
    blank.mouse.down()
    blank.mouse.move(to_x, to_y, steps=3)
    assert marked(blank, "over") == ["receiver 2 3"]
    blank.mouse.up()
    assert asked(blank) == [copied("copy.encoder.2.3.1")] and marked(blank, "picked") == []
    blank.mouse.move(x, y)
    blank.mouse.down()
    blank.mouse.move(x, 5, steps=3)
    blank.mouse.up()  # dropped nowhere
    assert asked(blank) == [] and marked(blank, "picked") == []


def test_a_cell_is_picked_and_dropped_by_keys(blank):
    show(blank, copying(side="decoder"))
    press, focused = blank.keyboard.press, "document.activeElement.dataset.at"
    blank.locator('[data-at="donor 0 3"]').focus()
    press("Enter")
    assert marked(blank, "picked") == ["donor 0 3"]
    assert blank.evaluate(focused) == "receiver 0 4"  # its partner
    assert "Picked <eos>, embeddings" in text_of(blank, ".main .foot .note")
    press("Escape")
    assert blank.evaluate(focused) == "donor 0 3" and marked(blank, "picked") == []
    for key in ("ArrowLeft", "ArrowDown", "Enter", "ArrowRight", "ArrowUp", "Enter"):
        press(key)
    assert asked(blank) == [copied("copy.decoder.1.3.2", side="decoder")]
    assert blank.locator(".main .grid").first.locator("[tabindex='0']").count() == 1


def test_a_lower_cell_alone_gets_the_state_of_its_partner(blank):
    show(blank, copying())
    blank.locator('[data-at="receiver 2 4"]').click()
    assert asked(blank) == [copied("copy.encoder.2.4.3")]
    blank.locator('[data-at="receiver 2 3"]').click()
    assert asked(blank) == [] and "No token of A" in text_of(blank, ".main .foot .note")
    blank.locator(".segment", has_text="Damage").click()
    blank.locator(".segment", has_text="Decoder").click()
    assert asked(blank) == [copied("", way="damage"), copied("", side="decoder")]


def test_the_pictures_show_shares_and_offer_them(blank):
    show(blank, copying(), PICTURES)
    notes = blank.locator(".more .note").all_inner_texts()
    assert re.sub("[\u2068\u2069]", "", notes[0]) == (
        "Frau carries it in every layer. All other columns: at most 0.10."
    )
    assert notes[1:] == ["The best, 2.2, restores 0.60.", "The best, 2.2, restores 0.02."]
    grounds = [
        blank.locator(f'[data-at="{at}"]').evaluate("cell => cell.style.background")
        for at in ("cells 0 1", "cells 0 4", "cells 0 2")
    ]
    reds = [int(found[1]) for g in grounds if (found := re.search(r"rgb\((\d+)", g))]
    blues = [int(found[1]) for g in grounds if (found := re.search(r"(\d+)\)", g))]
    assert reds[0] < blues[0] and reds[1] > blues[1] and min(reds[2], blues[2]) > 240
    blank.locator('[data-at="cells 1 4"]').click()
    blank.locator('[data-at="cells 1 3"]').click()  # no partner
    blank.locator('[data-at="heads-cross 1 0"]').click()
    assert asked(blank) == [copied("copy.encoder.1.4.3"), copied("copyhead.cross.1.0")]
    show(blank, copying(about="another pair"))
    assert "Patching every cell" in text_of(blank, ".more")  # old shares are not shown


def test_what_is_so_by_construction_or_not_measurable_is_said(blank):
    def notes(pictures: dict[str, Any], **more: Any) -> list[str]:
        show(blank, copying(about="there", **more), PICTURES | pictures | {"about": "there"})
        found = blank.locator(".more .note").all_inner_texts()
        return [re.sub("[\u2068\u2069]", "", note) for note in found]

    none = {"cross": [[0.004, -0.3], [0, 0]]}
    two = copying()["receiver"] | {"tokens": tokens(["Ein", "Frau", "sitzt", "<eos>"])}
    same = {"pairs": [[n, n] for n in range(4)]}
    cells = [[0.01, 0.2, 0, 0], [0, 0.001, 0, 0], [0.003, 0, 0, 0]]
    said = notes({"heads": none, "cells": cells}, **same, receiver=two)
    assert said == ["No single cell restores half of it; the best restores 0.20.",
                    "No head restores anything measurable."]  # fmt: skip
    one = two | {"tokens": tokens(["Ein", "Frau", "geht", "<eos>"])}
    cells = [[0, 1, 0, 0], [0, 0.001, 0, 0], [0, 0, 0, 0]]
    said = notes({"heads": none, "cells": cells}, **same, receiver=one, way="damage")
    assert said == [
        "By construction, Frau (embeddings) takes away 1: no other token differs. "
        "No other cell takes away anything measurable.",
        "No head takes away anything measurable.",
    ]
    cells = [[0, 0, 0, 0], [0, 0.7, 0, 0], [0, 1, 0, 0]]
    decoder = {"side": "decoder", "pairs": [[0, 0], [1, 1]]}
    said = notes({"cells": cells}, **decoder, copy={"layer": 2, "from": 1, "to": 1})
    assert said[0] == (
        "By construction, Frau (layer 2) restores 1: only the last state becomes the word. "
        "Frau carries it. All other columns: nothing measurable."
    )
    assert "1 by construction: only the last state" in text_of(blank, ".measure")
    assert text_of(blank, ".say").startswith("Copy one state that writes Mann from A into B")
    assert "the word at the head of its column" in text_of(blank, ".main .foot .note")
    strong = blank.locator(".main .column.strong").all_inner_texts()
    assert [re.sub("[\u2068\u2069]", "", word) for word in strong] == ["Mann", "Frau"]


def test_a_push_is_chosen_and_its_slider_reads_the_curve(blank):
    show(blank, pushing())
    assert text_of(blank, ".say") == (
        "Push one state of Mann away from man, towards dog: "
        "between strengths 2 and 4 it becomes more probable than man."
    )
    assert text_of(blank, ".more b") == "dog | is | walking"
    said = text_of(blank, ".more")
    assert "man 20 %, dog 50 %, other words 30 % after the unpushed beginning" in said
    assert (
        "2 random directions of the same length. At strength 4, dog has at most 30 % with" in said
    )
    assert "1 of 2 makes it more probable than man" in said
    slider = blank.locator("[data-at=strength]")
    assert slider.get_attribute("aria-valuetext") == "4: man 20 %, dog 50 %".replace(
        " %", "\u00a0%"
    )
    slider.focus()
    blank.keyboard.press("ArrowRight")
    assert "At 6: man 10 %, dog 70 %" in (
        blank.locator(".curve").get_attribute("aria-label") or ""
    ).replace("\u00a0", " ")
    blank.locator("[data-at=layer]").select_option("2")
    blank.locator("[data-at=old]").select_option("6")
    blank.locator("[data-at=new]").fill(" cat ")
    blank.locator("[data-at=new]").press("Enter")
    blank.locator('[data-at="token 2"]').click()
    now = {"mode": "push", "position": 1, "layer": 0, "old": 7, "new": "dog", "strength": 4}
    assert asked(blank) == [
        now | {"strength": 6},
        now | {"layer": 2, "strength": None},
        now | {"old": 6, "strength": None},
        now | {"new": "cat", "strength": None},
        now | {"position": 2, "old": None, "new": "", "strength": None},
    ]
    show(blank, pushing(typed="zebras", problem="'zebras' is 2 tokens"))
    assert text_of(blank, ".say") == "'zebras' is 2 tokens"
    assert blank.locator("[data-at=new]").input_value() == "zebras"
    opacity = "at => getComputedStyle(at).opacity"
    parts = (".more", ".curve-box")  # they are those of the push before
    assert [blank.locator(part).evaluate(opacity) for part in parts] == ["0.5", "0.5"]
    show(blank, pushing(random="A dog walks."))
    assert blank.locator(".more").evaluate(opacity) == "1"
    assert "same length" + "The same sentence as pushed." in text_of(blank, ".more")
    show(blank, pushing(random="A man walks.", after="A man walks."))
    assert "same length" + "The same as not pushed." in text_of(blank, ".more")
