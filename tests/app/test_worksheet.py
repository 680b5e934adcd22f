"""The worksheet: its answer key agrees with the records, and each sheet prints on its own page."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest
from playwright.sync_api import Page

from app.export.worksheet import Sheet, sheet, worksheet
from tests.app.page_checks import names, percent, record
from tests.app.rendered import render
from tests.app.test_tour_page import SENTENCES as SENTENCES_OF_THE_TOUR
from tests.app.test_tour_page import shares

SENTENCES = [SENTENCES_OF_THE_TOUR["de-en"][number] for number in (0, 2, 5)]


class Read:
    """The worksheet's list items by section, its tables' masked cells, and its picture count."""

    def __init__(self, text: str) -> None:
        parts = re.split(r'<section>|<div class="answers">', text)[1:]
        self.sections = [[text_of(item) for item in inner("li", part)] for part in parts]
        self.grids = [
            [
                ['class="masked"' in cell for cell in re.findall("<td(?! class=.corner).*?>", row)]
                for row in inner("tr", table)
            ]
            for table in inner("table", text)
        ]
        self.svgs = text.count("<figure ")


def inner(tag: str, text: str) -> list[str]:
    """Return what the elements of a tag hold."""
    return re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", text, re.DOTALL)


def text_of(item: str) -> str:
    """Return the text of an element, without its tables."""
    return html.unescape(re.sub("<table.*?</table>|<[^>]*>", "", item, flags=re.DOTALL))


def sheets(model: str) -> list[Sheet]:
    """Return sheets of each kind of attention."""
    records = [record(sentence, f"{model}-de-en") for sentence in SENTENCES]
    encoder = Sheet(record(SENTENCES[0], f"{model}-de-en"), "encoder", 1, 2)
    decoder = Sheet(records[2], "decoder", 3, 1)
    return [*(sheet(one) for one in records), encoder, decoder]


def words_of(tokens) -> list[list[int]]:
    """Return the positions of the tokens of each word."""
    words: list[list[int]] = []
    for place, token in enumerate(tokens):
        joins = place and not token.starts_word and token.text.isalnum()
        if joins and tokens[place - 1].text.isalnum():
            words[-1].append(place)
        else:
            words.append([place])
    return words


def sides(shown: Sheet):
    """Return query tokens and key tokens, each side with the number of its first token."""
    rec = shown.record
    queries = (rec.source, 1) if shown.kind == "encoder" else (rec.target_out, 1)
    return queries, (rec.target_in, 0) if shown.kind == "decoder" else (rec.source, 1)


def named(tokens, first: int, word: list[int], words: list[list[int]]) -> str:
    text = "".join(tokens[i].text for i in word)
    again = sum("".join(tokens[i].text for i in one) == text for one in words) > 1
    return text + (names(tokens, first)[word[0]][len(tokens[word[0]].text) :] if again else "")


def quoted(tokens, first: int, word: list[int], words: list[list[int]]) -> str:
    """Return a word in quotes, followed by its columns if it is split."""
    name = f"“{named(tokens, first, word, words)}”"
    if len(word) == 1:
        return name
    columns = ", ".join(f"“{names(tokens, first)[i]}”" for i in word)
    return f"{name} (the columns {columns})"


def check_row(shown: Sheet, asked: str, answer: str) -> None:
    (queries, first), (keys, first_key) = sides(shown)
    name, number, count = re.match(
        r"Find the row “(.+)”, number (\d+) of (\d+) from the top\.", asked
    ).groups()
    query = int(number) - 1
    assert int(count) == len(queries) and name == names(queries, first)[query]
    row = shown.record.maps(shown.kind)[shown.layer, shown.head, query].astype(float)
    words = words_of(keys)
    shares = np.array([row[word].sum() for word in words])
    order = np.argsort(-shares)
    best = order[0]
    word = quoted(keys, first_key, words[best], words)
    expected = f"{word}, with {percent(shares[best])} of the row's weight"
    near = [i for i in range(len(words)) if i != best and shares[best] - shares[i] <= 0.05]
    for i in near:
        name = quoted(keys, first_key, words[i], words)
        expected += f"; {name} counts as well, with {percent(shares[i])}"
    assert answer == expected + "."
    assert shares[best] >= 0.3


def check_half(shown: Sheet, asked: str, answer: str) -> None:
    (queries, first), (keys, first_key) = sides(shown)
    row, column = re.match(
        r"Is the weight of the row “(.+)” on the token “(.+)” above or below one half \(50 %\)\?",
        asked,
    ).groups()
    at = names(queries, first).index(row), names(keys, first_key).index(column)
    map_QK = shown.record.maps(shown.kind)[shown.layer, shown.head]
    weight = float(map_QK[at])
    assert abs(weight - 0.5) >= 0.1
    larger = int((map_QK[at[0]] > weight).sum())
    assert larger == int(shown.record.id[:8], 16) % 2  # not always the darkest cell
    side = "Above" if weight > 0.5 else "Below"
    assert answer == f"{side}: it is {percent(weight)}."


@pytest.mark.parametrize("model", ["scratch", "captions"])
def test_the_key_agrees_with_the_records(model):
    shown = sheets(model)
    read = Read(worksheet(shown))
    count = len(shown) + 1  # the last page is about sums and masks
    assert len(read.sections) == 2 * count and read.svgs == len(shown)
    asked, answers = read.sections[:count], read.sections[count:]
    rows = halves = 0
    for one, questions, answered in zip(shown, asked, answers, strict=False):
        assert len(questions) == len(answered)
        for question, answer in zip(questions, answered, strict=True):
            question, answer = question.strip(), answer.strip()
            if question.startswith("Find the row"):
                check_row(one, question, answer)
                rows += 1
            elif question.startswith("Is the weight"):
                check_half(one, question, answer)
                halves += 1
            else:
                assert question.startswith("No row of this head is clear enough")
    assert rows >= 6 and halves >= 3
    sums, masks = asked[-1]
    first = shown[0].record
    cells = int(first.mask("cross")[0].sum())
    row = names(first.target_out, 1)[0]
    assert f"In its first row, “{row}”, the number of unmasked cells is {cells}." in sums
    assert answers[-1][0] == "1, in every row."
    fed = [token.text for token in first.target_in[:6]]
    assert f"“{' '.join(fed)}”" in masks
    blank, hatched = ([row for row in grid[1:]] for grid in read.grids)
    assert np.array(blank).shape == (6, 6) and not np.array(blank).any()
    np.testing.assert_array_equal(np.array(hatched), ~first.mask("decoder")[:6, :6])
    np.testing.assert_array_equal(np.array(hatched), np.triu(np.ones((6, 6), bool), 1))


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_the_sum_is_asked_of_the_first_row_with_its_unmasked_cells(kind):
    """In the decoder, the first row has one unmasked cell and many masked ones."""
    rec = record(SENTENCES[1])
    read = Read(worksheet([Sheet(rec, kind, 1, 2), Sheet(rec, "cross", 0, 3)]))
    cells = {"encoder": len(rec.source), "decoder": 1, "cross": len(rec.source)}[kind]
    row = names(rec.source if kind == "encoder" else rec.target_out, 1)[0]
    assert f"“{row}”, the number of unmasked cells is {cells}." in read.sections[2][0]
    headings = re.findall(r"<h([23])>(\d)\. ([^<]*)<", worksheet([Sheet(rec, kind, 1, 2)] * 2))
    assert [(level, number) for level, number, _ in headings] == [
        (level, number) for level in "23" for number in "123"
    ]
    assert [title for *_, title in headings] == [
        rec.source_text,
        rec.source_text,
        "Sums and masks",
    ] * 2


def test_the_page_prints_the_head_of_each_stop(monkeypatch):
    """Layer and head differ; the tour's head comes first for a sentence that a lesson shares."""
    made = {}
    monkeypatch.setattr(
        "streamlit.download_button",
        lambda label, data, **options: made.update({options["key"]: data}),
    )
    shared = SENTENCES_OF_THE_TOUR["en-de"][0]
    plan = f"1~masks.{shared}~tour.buy~tour.back~tour.ahead~masks.A dog barks."
    render("class", plan=plan, direction="en-de", model="scratch")
    text = made["class_worksheet"]().decode()
    sheets_made = text.split("<section>")[1:5]
    places = []
    for number, one in zip((0, 4, 6), sheets_made, strict=False):
        sentence = SENTENCES_OF_THE_TOUR["en-de"][number]
        rec = record(sentence, "scratch-en-de")
        kind, share = shares(rec, "en-de", number)
        layer, head = map(int, np.unravel_index(share.argmax(), share.shape))
        places.append((layer, head))
        assert sentence in one and f"layer {layer + 1}, head {head + 1}" in one
        weights = rec.maps(kind)[layer, head][rec.mask(kind)]
        assert re.findall(r"<title>(\d\.\d{4})</title>", one) == [f"{w:.4f}" for w in weights]
    assert all(layer != head for layer, head in places)
    assert "A dog barks." in sheets_made[3]


LONG = {
    "de-en": "Ein kleiner Junge mit einem roten Hemd und einer blauen Mütze läuft an einem Tag im "
    "Sommer mit seinem Hund.",
    "en-de": "A young man in a red shirt and blue jeans is walking with his big brown dog along "
    "the beach.",
}
SPLIT = {"de-en": "Ein Hund jagt ein Kaninchen.", "en-de": "A dog is chasing a rabbit."}


def sheets_of(direction: str) -> list[Sheet]:
    """Return three sheets: a sentence of twenty words, one with split words, the first again."""
    assert len(LONG[direction].split()) == 20
    return [sheet(record(one[direction], f"scratch-{direction}")) for one in (LONG, SPLIT, LONG)]


@pytest.mark.parametrize("direction", LONG)
def test_a_word_of_several_columns_is_said_below_its_picture(direction):
    shown = sheets_of(direction)
    pages = worksheet(shown).split("<section>")[1:]
    for one, page in zip(shown, pages, strict=False):
        keys = one.record.source
        words = [word for word in words_of(keys) if len(word) > 1]
        said = "; ".join(
            f"{named(keys, 1, word, words_of(keys))} = "
            + " + ".join(names(keys, 1)[i] for i in word)
            for word in words
        )
        assert bool(said) == ("A word may take several columns" in page)
        assert f"Here: {said}." in page or not said
    assert " = " in pages[1]  # the sentence has a split word


def test_the_key_names_the_columns_of_a_split_word():
    shown = sheets_of("en-de")[1]
    read = Read(worksheet([shown]))
    pairs = list(zip(read.sections[0], read.sections[2], strict=True))
    rows = [pair for pair in pairs if pair[0].startswith("Find the row")]
    for asked, answer in rows:
        check_row(shown, asked.strip(), answer.strip())
    assert any("“rabbit” (the columns “r”, “ab”, “b”, “it”), with" in answer for _, answer in rows)


@pytest.mark.parametrize(("paper", "direction"), [("A4", "de-en"), ("Letter", "en-de")])
def test_each_sentence_has_a_legible_page_of_its_own(page: Page, paper, direction):
    shown = sheets_of(direction)
    page.set_content(worksheet(shown))
    pdf = page.pdf(format=paper)
    assert b"/Subtype /Image" not in pdf  # lines, not pictures of lines
    width, height = {"A4": (210, 297), "Letter": (215.9, 279.4)}[paper]
    page.emulate_media(media="print")
    page.set_viewport_size({"width": round((width - 32) * 96 / 25.4), "height": 1000})
    for place, figure in enumerate(page.locator("figure svg").all()):
        box, whole = (one.bounding_box() for one in (figure, page.locator("body")))
        assert box["x"] >= 0 and box["x"] + box["width"] <= whole["x"] + whole["width"]
        letters = 13 * box["height"] / float(figure.get_attribute("height")) * 0.75
        assert letters >= (7 if place == 0 else 9)  # points
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    heights = page.locator("section, .key").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().height)"
    )
    limit = (height - 30) * 96 / 25.4
    assert all(one < limit for one in heights[:-1])
    assert len(re.findall(rb"/Type /Page\b", pdf)) == len(shown) + 1 + -(-heights[-1] // limit)
    assert page.locator("script").count() == 0


def test_the_picture_is_that_of_the_sheet():
    rec = record(SENTENCES[0])
    text = worksheet([Sheet(rec, "encoder", 1, 2)])
    assert "Map of the encoder&#x27;s self-attention, layer 2, head 3" in text
    titles = re.findall(r"<title>(\d\.\d{4})</title>", text)
    expected = [f"{weight:.4f}" for weight in rec.encoder[1, 2].ravel()]
    assert titles == expected


def test_a_sentence_is_never_markup():
    rec = record("Ein <b>Hund</b> & <script>x</script>.")
    text = worksheet([sheet(rec)])
    assert "<b>" not in text and "<script" not in text
    assert "Ein &lt;b&gt;Hund&lt;/b&gt; &amp; &lt;script&gt;x&lt;/script&gt;." in text
