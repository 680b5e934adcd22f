"""The tour's stops about one map agree with the record, for every model."""

from __future__ import annotations

import re

import numpy as np
import pytest

from app.lessons.texts import text
from app.look.labels import ATTENTION
from app.stops import PAGES, TOURS, Stop
from app.views.tour.finders import find
from core.record.record import TranslationRecord
from tests.app.page_checks import map_row, names, nothing_else, percent, translator
from tests.app.rendered import Rendered, questions, read, render, skip, unpacked

ON_ONE_MAP = {d: [stop for stop in stops if not stop.trial] for d, stops in TOURS.items()}
"""The stops that do not run the network again; test_tour_trials.py has the others."""
SENTENCES = {d: tuple(stop.source for stop in stops) for d, stops in ON_ONE_MAP.items()}
PAIRS = {
    "fussball": [("soccer", "Fußball", 0)],
    "strassenmusiker": [("street", "Straßenmusiker", 0), ("musician", "Straßenmusiker", 0)],
    "hemd": [("shirt", "Hemd", 0), ("shirt", "Hemd", 1)],
    "buy": [("kaufen", "buy", 0)],
    "preparing": [("bereitet", "preparing", 0), ("zu", "preparing", 0)],
    "shirt": [("Hemd", "shirt", 0), ("Hemd", "shirt", 1)],
}
"""By stop: (target word, its source word, which occurrence of both), counted from 0."""


def places(tokens, word: str) -> list[list[int]]:
    """Return the token indices of each occurrence of a word."""
    spans = [
        range(start, end)
        for start in range(len(tokens))
        for end in range(start + 1, len(tokens) + 1)
    ]
    return [list(span) for span in spans if "".join(tokens[i].text for i in span) == word]


def cells(record: TranslationRecord, stop: Stop) -> list[tuple[int, list[int]]]:
    """Return a cross-attention stop's rows and keys; raise IndexError if a word is missing."""
    source, target = record.source, record.target_out
    if stop.id == "street-musician":
        rows = places(target, "Straßenmusiker")[0]
        return list(
            zip(rows, [places(source, word)[0] for word in ("street", "musician")], strict=False)
        )
    return [
        (places(target, word)[which][0], places(source, other)[which])
        for word, other, which in PAIRS[stop.id]
    ]


def shares(record: TranslationRecord, direction: str, number: int) -> tuple[str, np.ndarray]:
    """Return the kind of a stop's map, and each head's share of weight on its cells."""
    stop, maps = ON_ONE_MAP[direction][number], record.decoder
    if stop.id == "back":
        maps = record.encoder
        return "encoder", np.mean([maps[..., i, i - 1] for i in range(1, maps.shape[-1])], axis=0)
    if stop.id == "sink":
        return "decoder", maps[:, :, 2:, 0].mean(-1)
    if stop.id == "ahead":
        return "decoder", np.mean([maps[..., i, i] for i in range(2, maps.shape[-1])], axis=0)
    at = cells(record, stop)
    return "cross", np.mean([record.cross[..., q, keys].sum(-1) for q, keys in at], axis=0)


@pytest.mark.parametrize("model", ["scratch", "captions"])
@pytest.mark.parametrize(
    ("direction", "number"), [(d, n) for d, stops in ON_ONE_MAP.items() for n in range(len(stops))]
)
def test_a_stop_matches_the_record(model, direction, number):
    """An unanswered stop hides the answer; then its texts, map and link show the same head."""
    stop, record = ON_ONE_MAP[direction][number], None
    asked = []

    def look_then_skip(app) -> None:
        page = read(app)
        asked.extend(questions(app))
        if stop.teaches and not asked:
            return
        assert f"tour_{number}" not in page.payloads
        assert not re.search("weight of|puts", " ".join(page.texts("tour_text")))
        if (key := f"tour_map_{number}") in page.payloads:  # it covers what is asked about
            header, _ = map_row(page, key)
            asks = re.search(r" attends \w+\.\d+\.\d+\.(\d+) at stop", asked[0]["question"])
            assert header["covered"] == (answering(int(asks[1])) if asks else [])
            if stop.id == "ahead":  # the zeros of the decoder's map would answer the question
                assert header["site"] == "Encoder"
            assert header["outlined"] is None
        skip(app)

    def answering(query: int) -> list[int]:
        """Return the rows of words that should look where the row asked about should."""
        if stop.id not in {*PAIRS, "street-musician"}:
            return [query]
        seen = record_of()
        *others, (last, keys) = cells(seen, stop)
        if query != last:
            return [query]
        word = next(word for word in seen.words("target") if last in word)
        return [row for row, same in others if same == keys] + [i for i in word if i >= last]

    def record_of() -> TranslationRecord:
        return translator(f"{model}-{direction}").inspect(stop.source)

    at = str(number + 1)
    page = render(
        "tour", f"tour_all_{number}", act=look_then_skip, direction=direction, model=model, stop=at
    )
    record = record_of()
    page.claim(f"Stop {at} of {len(TOURS[direction])}", "tour_links")
    claim_tokens(page, record)
    # The only other sentence with numbers is the measured one.
    fixed = (stop.measured[:20], stop.look_for, "Row: a token", "Each of the")
    nothing_else(page, but=lambda item: item.where == "tour_taught", fixed=fixed)
    try:
        kind, share = shares(record, direction, number)
    except IndexError:
        page.claim_matching(
            r"This model did not write .*, so there is nothing to measure here\. .*"
        )
        assert f"tour_map_{number}" not in page.payloads
        return
    layer, head = map(int, np.unravel_index(share.argmax(), share.shape))
    if model == "scratch":  # the bundled default shows every effect
        assert share.max() > {"back": 0.4, "sink": 0.3, "ahead": 0.5}.get(stop.id, 0.6)
    where = {"attention": ATTENTION[kind], "layer": layer + 1, "head": head + 1}
    said = stop.measured.format(share=f"**{percent(share.max())}**", **where)
    if kind == "cross":
        said += described(record, stop, layer, head)
    page.claim(said, "tour_text")
    header, (values,) = map_row(page, f"tour_map_{number}")
    np.testing.assert_array_equal(values, record.maps(kind))
    assert header["covered"] == []
    if stop.teaches:
        assert asked == []
        claim_taught(page, record, cells(record, stop)[-1][0], (layer, head), header["pinned"])
        return
    assert asked[0]["name"] == ("masked" if stop.id == "ahead" else "attends")
    if stop.id != "ahead":
        assert f"layer {layer + 1} head {head + 1} of the {ATTENTION[kind]}" in asked[0]["prompt"]
    if kind == "cross":
        row = names(record.target_out, 1)[cells(record, stop)[-1][0]]
        assert f"“{row}”" in asked[0]["prompt"], "the pinned row is asked about"
    assert header["site"] == kind.capitalize()
    opened = header["opened"]
    assert (opened["layer"], opened["head"], opened["names"]) == (layer, head, None)
    link = page.app.main.get("page_link")[0].proto.query_string
    assert f"layer={layer}&head={head}" in link and f"kind={kind}" in link
    view = unpacked(page.payload(f"tour_{number}"))[0]["view"]
    assert [view[name] for name in ("kind", "layer", "head")] == [kind, layer, head]
    row = cells(record, stop)[-1][0] if kind == "cross" else None
    assert view.get("q") == row


def test_the_last_stop_pins_the_cell_that_its_text_is_about():
    stops = TOURS["de-en"]
    page = render("tour", stop=str(len(stops)))
    record = translator("scratch-de-en").inspect(stops[-1].source)
    query, key = map_row(page, f"tour_map_{len(stops) - 1}")[0]["pinned"]
    words = record.target_out[query - 1].text, record.source[key].text
    assert tuple(word.strip() for word in words) == ("man", "Mann")


def test_no_map_spells_the_winner_beside_an_open_question_about_it():
    number = next(n for n, stop in enumerate(TOURS["de-en"]) if stop.asks == "wins")
    page = render("tour", lesson="1", stop=str(number + 1))
    assert [one["name"] for one in questions(page.app)] == ["wins"]
    assert f"tour_map_{number}" not in page.payloads


def claim_taught(
    page: Rendered, record: TranslationRecord, row: int, at: tuple[int, int], pinned: list[int]
) -> None:
    """Claim the first stop's sentence and its cell, which is pinned."""
    weights = record.cross[*at, row]
    key = int(weights.argmax())
    read_, written = names(record.source, 1)[key], names(record.target_out, 1)[row]
    (said,) = page.texts("tour_taught", "markdown")
    for part in (f"**{read_}** is token {key + 1};", f"**{written}** is token {row + 1}."):
        assert part in said
    page.claim_matching(rf".*: here {re.escape(percent(weights.max()))}\.", "tour_text")
    count = sum(record.maps(kind)[..., 0, 0].size for kind in ATTENTION)
    layer, head = at
    page.claim_matching(
        rf"Each of the {count} heads .*; this is head {head + 1} of layer {layer + 1} in .*",
        "tour_text",
    )
    assert pinned == [row, key]


def described(record: TranslationRecord, stop: Stop, layer: int, head: int) -> str:
    """Return where each row of a cross-attention stop looks most."""
    produced, read_ = names(record.target_out, 1), names(record.source, 1)
    rows = [(q, int(record.cross[layer, head, q].argmax())) for q, _ in cells(record, stop)]
    said = "; ".join(
        f"“{produced[q]}”, token {q + 1} of {len(produced)}, looks most at “{read_[k]}”, token "
        f"{k + 1} of {len(read_)}"
        for q, k in rows
    )
    words = [places(record.target_out, word)[n] for word, _, n in PAIRS.get(stop.id, [])]
    first = " If a produced word has several tokens, the row of its first token is measured."
    return f" {said}.{first if any(len(word) > 1 for word in words) else ''}"


def claim_tokens(page: Rendered, record: TranslationRecord) -> None:
    texts = [token.text for token in record.source]
    said = f"The model reads {len(texts)} tokens: whole words, punctuation and \\<eos\\>"
    word = next((w for w in re.findall(r"\w+", record.source_text) if w not in texts), None)
    if word is not None:
        parts = [texts[i] for i in places(record.source, word)[0]]
        said += ", and parts of words, such as " + " \\| ".join(parts)
    page.claim(f"{said}.", "tour_text")


def test_another_model_opens_its_own_head_at_the_same_stop():
    """A row of maps keeps the chosen head until `turn` changes."""
    pages = [render("tour", model=m) for m in ("scratch", "baseline", "captions")]
    assert len({map_row(page, "tour_map_0")[0]["opened"]["turn"] for page in pages}) == 3


def test_only_the_last_stop_links_to_the_lessons():
    pages = [render("tour", stop=str(stop)) for stop in (1, len(TOURS["de-en"]))]
    pages_linked = []
    for page in pages:
        labels = [link.proto.label for link in page.app.get("page_link")]
        pages_linked.append([label for label in labels if not label.startswith("Glossary")][1:])
        disabled = {name: page.app.button(key=f"tour_{name}").disabled for name in ("back", "next")}
        assert disabled == {"back": page is pages[0], "next": page is pages[1]}
    lessons = [page.title for name, page in PAGES.items() if name not in ("translate", "bugs")]
    assert pages_linked == [[], lessons]
    assert pages[1].texts("tour_other", "label") == ["The same tour, English → German"]
    pages[0].app.button(key="tour_next").click().run()
    assert pages[0].app.session_state["stop"] == 2


def test_the_map_outlines_the_row_that_is_asked_about():
    for number, outlined in ((3, True), (5, False)):  # the sixth stop asks about cells
        page = render("tour", stop=str(number + 1))
        (question,) = questions(page.app)
        skip(page.app)
        shown, _ = map_row(read(page.app), f"tour_map_{number}")
        if outlined:
            row = int(question["question"].split(" at stop ")[0].rpartition(".")[2])
            assert row > 0 and shown["outlined"] == row
        else:
            assert shown["outlined"] is None
        assert shown["maps"][0]["note"] == text("tour", "page.outlined") * outlined


@pytest.mark.parametrize(
    ("direction", "id", "target", "error"),
    [
        ("de-en", "fussball", "A dog.", "did not write 'soccer' for 'Fußball'"),
        ("en-de", "street-musician", "Ein Hund.", "did not write 'Straßenmusiker'"),
        ("de-en", "sink", "Two", "too few tokens to have a third row"),
        ("de-en", "ahead", "Two", "too few tokens to have a third row"),
    ],
)
def test_what_a_translation_lacks_is_named(direction, id, target, error):
    stop = next(stop for stop in TOURS[direction] if stop.id == id)
    record = translator(f"scratch-{direction}").inspect(stop.source, target)
    with pytest.raises(LookupError, match=error):
        find(stop.find, record)
