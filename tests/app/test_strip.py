"""The strip between the sentences: words below tokens, layers, grey layers, cards, keys, tables."""

# ruff: noqa: E501 (lines of script)

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.components.explorer.payload import lens_answer, payload
from app.state import models
from app.views.shared.explorer import _readings
from core import analyse
from core.checkpoint.folder import read_card
from core.translator import Translator
from tests.app.conftest import clear_caches
from tests.app.explorer_drawn import at, mount
from tests.app.explorer_harness import Token, synthetic_record
from tests.app.mounted import Mounted, plain
from tests.app.rendered import render, unpacked
from tests.core import strange_folders

__all__ = ["at"]
LAYERS, BEST = 3, 5
VIEW = {"kind": "cross", "layer": 0, "head": 1}
RECORD = synthetic_record("short", LAYERS, 2)
S, T = len(RECORD.source), len(RECORD.target_out)
TOKENS = {7 * n + 3: Token(f"word{n}", starts_word=n != 4) for n in range(30)}
WORDS = {id: token.text if token.starts_word else f"‐{token.text}" for id, token in TOKENS.items()}
HIT, NULL = (0.654, 0.633, 0.676), (0.133, 0.12, 0.16)
ABOUT = SimpleNamespace(
    tested=200,
    sentences=48,
    table={
        # The interval of layer 1 reaches that of its null, although its value does not.
        "jacobian_hits": ((0.47, 0.457, 0.491), (0.2, 0.11, 0.29), HIT, (0.691, 0.669, 0.715)),
        "jacobian_null": ((0.06, 0.052, 0.071), (0.1, 0.08, 0.12), NULL, (0.172, 0.156, 0.188)),
        "jacobian_agree": ((0.1, 0.05, 0.15), (0.2, 0.18, 0.22), (0.832, 0.818, 0.844), (1, 1, 1)),
        "random_agree": ((0.1, 0.04, 0.2), (0, 0, 0), (0.001, 0, 0.002), (0, 0, 0)),
    },
)


def made_readings(record: Any) -> SimpleNamespace:
    """Return readings whose numbers all differ, for a record of any length."""
    random = np.random.default_rng(5)
    ids = np.array(list(TOKENS))

    def side(positions: int) -> SimpleNamespace:
        shape = LAYERS + 1, positions
        said = np.array([random.permutation(ids) for _ in range(np.prod(shape))]).reshape(
            *shape, -1
        )
        ranks = np.array([random.permutation(900) + 1 for _ in range(np.prod(shape))])
        return SimpleNamespace(
            ids=said[..., :BEST],
            logit_ids=said[..., BEST : 2 * BEST],
            probabilities=-np.sort(-random.dirichlet(np.ones(9), shape)[..., :BEST]),
            ranks=ranks[:, : len(record.target_out)].reshape(*shape, -1),
        )

    return SimpleNamespace(encoder=side(len(record.source)), decoder=side(len(record.target_out)))


READINGS = made_readings(RECORD)


def answer(record: Any = RECORD, readings: Any = READINGS) -> dict[str, Any]:
    about = {"sentence": record.id, "name": "lens", "request": None}
    return about | lens_answer(readings, TOKENS, ABOUT)


def show(at: Mounted, record: Any = RECORD, **offer: Any) -> None:
    at.show(payload(record, VIEW, lens=offer or {"unasked": True}))


def cells(at: Mounted, row: str) -> list[list[str]]:
    """Return the words below each token of a sentence, from the first layer shown."""
    script = """(at, row) => [...at.querySelectorAll(`.${row} .column`)].map((column) =>
        [...column.querySelectorAll('.cell')].map((cell) => cell.textContent))"""
    return at.page.locator("#explorer").evaluate(script, row)


def expected(reading: Any, layers: slice) -> list[list[str]]:
    best = reading.ids[layers, :, 0].T
    return [[WORDS[int(one)] for one in column] for column in best]


def text(at: Mounted, part: str) -> str:
    return plain(at.page.locator(f"#host [data-part={part}]").inner_text())


@pytest.fixture
def read(at: Mounted) -> Mounted:
    mount(at, "light", RECORD)
    show(at)
    at.answer(answer())
    return at


def unfold(at: Mounted, *rows: str) -> None:
    for row in rows or ("source",):
        at.does(("press", f"[data-part={row}-strip]"))


def test_the_strip_is_requested_after_painting_and_folded_to_the_last_layer(at: Mounted) -> None:
    mount(at, "light", RECORD)
    show(at)
    height = at.page.locator("#host .source").bounding_box()["height"]
    assert cells(at, "source") == [[]] * S
    at.page.wait_for_function("requests.some(([name]) => name === 'lens')")
    assert [v["sentence"] for name, v in at.requests() if name == "lens"] == [RECORD.id]
    at.answer(answer())
    assert cells(at, "source") == [*expected(READINGS.encoder, slice(-1, None))[:-1], []]
    assert cells(at, "target") == [[]] * (T + 1)
    assert at.page.locator("#host .source").bounding_box()["height"] == height, "it was reserved"
    assert text(at, "source-strip") == "already says"
    assert at.page.locator("#host [data-part=target-strip]").is_hidden()


def test_unfolded_it_has_a_row_per_layer_and_the_decoder_one(read: Mounted) -> None:
    unfold(read)
    assert cells(read, "source") == [*expected(READINGS.encoder, slice(None))[:-1], []]
    below = expected(READINGS.decoder, slice(-2, -1))  # below the token that the state writes
    assert cells(read, "target") == [[], *below]
    assert text(read, "target-strip") == f"layer {LAYERS - 1}"
    unfold(read, "target")
    assert cells(read, "target") == [[], *expected(READINGS.decoder, slice(None))]
    labels = read.page.locator("#host .source .layer-names > *").all_inner_texts()
    assert [*labels, text(read, "source-strip")] == ["embeddings", "layer 1", "layer 2", "layer 3"]
    tops = "at => [...at.querySelectorAll('{}')].map(a => a.getBoundingClientRect().top)"
    rows = read.page.locator("#host .source .column").first.evaluate(tops.format(".cell"))
    named = read.page.locator("#explorer").evaluate(tops.format(".source .layer-names > *"))
    assert named == pytest.approx(rows[:-1], abs=1), "each name is beside its row"
    unfold(read)
    assert cells(read, "target") == [[]] * (T + 1)


@pytest.mark.parametrize("states", ["encoder", "both"])
def test_a_link_unfolds_it(at: Mounted, states: str) -> None:
    mount(at, "light", RECORD)
    at.show(payload(RECORD, {**VIEW, "states": states}, lens={"unasked": True}))
    at.answer(answer())
    assert cells(at, "source") == [*expected(READINGS.encoder, slice(None))[:-1], []]
    shown = slice(None) if states == "both" else slice(-2, -1)
    assert cells(at, "target") == [[], *expected(READINGS.decoder, shown)]


def test_shades_are_probabilities_and_layers_at_chance_are_grey(read: Mounted) -> None:
    unfold(read, "source", "target")
    script = """(at, row) => [...at.querySelectorAll(`.${row} .cell`)].map((cell) => [
        Number(cell.dataset.layer), Number(cell.dataset.at), cell.classList.contains("unread"),
        parseFloat(cell.style.getPropertyValue("--p"))])"""
    grey = {"source": {1}, "target": {0}}
    for row, reading, shift in (("source", READINGS.encoder, 0), ("target", READINGS.decoder, 1)):
        found = read.page.locator("#explorer").evaluate(script, row)
        assert {layer for layer, _, unread, _ in found if unread} == grey[row]
        for layer, index, unread, shade in found:
            probability = reading.probabilities[layer, index - shift, 0]
            wanted = 0 if unread else 100 * probability**0.7
            assert shade == pytest.approx(wanted, abs=0.01)
    assert "Layers in grey letters" in text(read, "strip-note")


def test_the_note_has_two_digits_of_each_interval(read: Mounted) -> None:
    unfold(read)
    note = text(read, "strip-note")
    assert "a fitted average, not a calibrated probability" in note
    assert "the first of the five tokens of the output vocabulary, whatever their language" in note
    assert "in layer 3, one of the five best tokens is in the translation for" in note
    assert "On 200 other sentences, in layer 3" in note
    assert "69.1 ± 2.3 % of tokens" in note and "17.2 ± 1.6 %" in note


def test_a_focused_cell_says_five_words_ranks_and_the_logit_lens(read: Mounted) -> None:
    unfold(read, "source", "target")
    layer, index = 2, 4
    cell = f"#host .source .cell[data-layer='{layer}'][data-at='{index}']"
    read.page.locator(cell).hover()
    card = read.page.locator("#host .card")
    rows = [
        [plain(c) for c in r.split("\t")] for r in card.locator("table").inner_text().split("\n")
    ]
    of = [READINGS.encoder.ids[layer, index], READINGS.encoder.logit_ids[layer, index]]
    words, logit = ([WORDS[int(one)] for one in ids] for ids in of)
    chances = [f"{p:.2f}" for p in READINGS.encoder.probabilities[layer, index]]
    assert rows[1:] == [list(row) for row in zip(words, chances, logit, strict=True)]
    said = plain(card.inner_text())
    assert "65.4 ± 2.2 % of tokens, in another sentence’s for 13.3 % (12.0 to 16.0)" in said
    ranks = READINGS.encoder.ranks[layer, index]
    best = {}
    for place in np.argsort(ranks):
        if not (token := RECORD.target_out[place]).special:
            best.setdefault(token.text, ranks[place])
    three = ", ".join(f"{word} {rank}" for word, rank in list(best.items())[:3])
    assert f"Ranks of the translation’s words: {three}." in said
    assert read.page.locator(cell).get_attribute("aria-describedby") == card.get_attribute("id")
    assert read.page.locator("#explorer").get_attribute("data-query") == "", "nothing is pinned"
    read.page.locator("#host .target .cell[data-layer='1'][data-at='6']").hover()
    assert f"{RECORD.target_out[5].text} {READINGS.decoder.ranks[1, 5, 5]}." in plain(
        card.inner_text()
    )
    read.page.locator("#host .says").hover()
    assert card.is_hidden()


def test_arrows_walk_the_cells_and_escape_closes_the_card(read: Mounted) -> None:
    unfold(read)
    read.page.locator("#host .source .cell[tabindex='0']").focus()
    where = (
        """() => { const { layer, at } = document.activeElement.dataset; return [+layer, +at]; }"""
    )
    assert read.page.evaluate(where) == [LAYERS, 0], "one tab stop, in the last layer"
    for key, place in (
        ("ArrowRight", [3, 1]),
        ("ArrowUp", [2, 1]),
        ("ArrowUp", [1, 1]),
        ("ArrowLeft", [1, 0]),
        ("ArrowLeft", [1, 0]),
    ):
        read.page.keyboard.press(key)
        assert read.page.evaluate(where) == place, key
    label = plain(read.page.evaluate("document.activeElement.getAttribute('aria-label')"))
    word, chance = READINGS.encoder.ids[1, 0, 0], READINGS.encoder.probabilities[1, 0, 0]
    assert label == f"layer 1 at {RECORD.source[0].text}: {WORDS[int(word)]}, {chance:.2f}"
    assert read.page.locator("#host .card").is_visible()
    read.page.keyboard.press("Escape")
    assert read.page.locator("#host .card").is_hidden()
    assert read.page.evaluate(where) == [1, 0]
    assert read.page.locator("#host .source .cell[tabindex='0']").count() == 1


def test_screen_readers_get_a_table_once_it_is_unfolded(read: Mounted) -> None:
    table = read.page.locator("#host [data-part=source-table] tr")
    assert table.count() == 0
    unfold(read)
    found = [[plain(c) for c in row.split("\t")] for row in table.all_inner_texts()]
    assert [row[0] for row in found[1:]] == ["embeddings", "layer 1", "layer 2", "layer 3"]
    for layer, row in enumerate(found[1:]):
        for index, shown in enumerate(row[1:]):
            best, chance = (READINGS.encoder.ids, READINGS.encoder.probabilities)
            assert shown == f"{WORDS[int(best[layer, index, 0])]} {chance[layer, index, 0]:.2f}"


def test_without_a_lens_the_options_name_the_command(at: Mounted) -> None:
    mount(at, "light", RECORD)
    show(at, command="python -m core.analyse lens --checkpoint X --src FILE")
    assert at.page.locator("#host [data-part=source-strip]").is_hidden()
    at.page.locator("#host [data-part=options-button]").click()
    assert text(at, "lens-command") == "python -m core.analyse lens --checkpoint X --src FILE"
    at.page.wait_for_timeout(400)
    assert not [name for name, _ in at.requests() if name == "lens"]
    show(at)
    assert at.page.locator("#host [data-part=lens-fit]").is_hidden()


def test_a_large_network_is_asked_only_when_the_strip_is_unfolded(at: Mounted) -> None:
    mount(at, "light", RECORD)
    show(at, unasked=False)
    at.page.wait_for_timeout(400)
    asked = lambda: [name for name, _ in at.requests() if name == "lens"]  # noqa: E731
    assert not asked()
    unfold(at)
    at.page.wait_for_function("requests.some(([name]) => name === 'lens')")
    assert text(at, "strip-note") == "Reading the states…"
    at.answer(
        {
            "sentence": RECORD.id,
            "name": "lens",
            "request": at.requests()[-1][1]["request"],
            "failed": "No lens.",
        }
    )
    assert text(at, "request-note") == "No lens."


@pytest.mark.parametrize("case", ["hundred", "hostile", "2"])
@pytest.mark.parametrize("width", [980, 374])
def test_no_sentence_breaks_the_strip(at: Mounted, case: str, width: int) -> None:
    """Long, right-to-left and one-word sentences: cells stay below their tokens, inside the page."""
    record = synthetic_record(case, LAYERS, 2)
    mount(at, "light", RECORD)
    at.page.evaluate("(width) => (host.style.width = `${width}px`)", width)
    try:
        show(at, record)
        at.answer(answer(record, made_readings(record)))
        folded = len([column for column in cells(at, "source") if column])
        assert folded == (0 if width < 700 else len(record.source) - 1), (
            "on a phone, behind a button"
        )
        if not folded:  # beside another sentence, it is not behind the button
            at.show(payload(record, VIEW, lens={"unasked": True}, together="two"))
            at.answer(answer(record, made_readings(record)))
            assert [len(column) for column in cells(at, "source")] == [1] * (
                len(record.source) - 1
            ) + [0]
        unfold(at, "source", "target")
        script = """(at) => [...at.querySelectorAll('.column')].filter((c) => c.querySelector('.cell'))
            .map((c) => [c.querySelector('.token'), ...c.querySelectorAll('.cell')].map((part) => {
                const { left, right, top, bottom } = part.getBoundingClientRect();
                return [left, right, top, bottom]; }))"""
        columns = at.page.locator("#explorer").evaluate(script)
        assert len(columns) == len(record.source) - 1 + len(record.target_out)
        for parts in columns:
            for (_, _, _, above), (left, right, top, _) in pairwise(parts):
                assert top >= above - 1 and left >= -1 and right <= width + 1
    finally:
        at.page.evaluate("host.style.width = ''")


def test_an_edited_pass_is_read_again(read: Mounted) -> None:
    """Readings of one pass never stand below another: the strip waits for those of the edited."""
    other = synthetic_record("short", LAYERS, 2)
    object.__setattr__(other, "id", "edited")
    data = payload(other, VIEW, lens={"unasked": True})
    read.show(data, again=True)
    assert cells(read, "source") == [[]] * S
    read.page.wait_for_function(
        "requests.some(([n, v]) => n === 'lens' && v.sentence === 'edited')"
    )


@pytest.fixture
def small_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = strange_folders.good(tmp_path / "scratch-de-en")
    strange_folders.network(max_length=200)(folder)
    monkeypatch.setattr(models, "CHECKPOINTS", tmp_path)
    clear_caches()
    yield folder
    clear_caches()


@pytest.mark.parametrize(("most", "asks"), [(0, True), (10**9, None)])
def test_effects_of_a_large_networks_heads_are_computed_only_if_asked(
    small_network: Path, monkeypatch: pytest.MonkeyPatch, most: int, asks: bool | None
) -> None:
    monkeypatch.setattr("app.views.shared.explorer._MOST_UNASKED", most)
    page = render("", source="Ein Hund.", search="greedy")
    assert unpacked(page.payload("explorer"))[0].get("effects_if_asked") is asks


def test_a_network_gets_its_strip_once_a_lens_is_fitted(small_network: Path) -> None:
    def offer() -> dict[str, Any]:
        return unpacked(render("", source="Ein Hund.", search="greedy").payload("explorer"))[0][
            "lens_offer"
        ]

    command = offer()["command"]
    assert str(small_network) in command
    source = small_network.parent / "lines.txt"
    source.write_text("".join(f"Ein Hund {n}.\n" for n in range(5)))
    given = [*shlex.split(command)[3:-1], str(source), "--sentences", "2", "--device", "cpu"]
    arguments = analyse.parser().parse_args(given)
    arguments.run(arguments)
    assert offer() == {"unasked": True}
    card = read_card(small_network)
    record = Translator.load(small_network, "cpu").inspect("Ein Hund.", beam=1)
    readings, tokens, about = _readings(card, record)
    assert readings.encoder.ids.shape[:2] == (card.model.num_encoder_layers + 1, len(record.source))
    assert about.sentences == 2 and set(np.unique(readings.decoder.ids)) <= set(tokens)
    assert lens_answer(readings, tokens, about)["lens"]["tested"] == 3
