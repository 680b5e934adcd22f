"""The page Tokens agrees with the tokenizer's file and with its output."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from playwright.sync_api import Page, expect

from app.components.merges import payload
from app.examples import EXAMPLES
from core.text import load
from core.text.pieces import PieceTokenizer
from core.text.splitting import split
from tests.app.drawn import drawn_component
from tests.app.foreign_models import SENTENCES
from tests.app.page_checks import ROOT, nothing_else
from tests.app.rendered import render
from tests.app.test_foreign_models import ARABIC, named, root

__all__ = ["named", "root"]

MAIN = ROOT / "app/main.py"
VALUES = json.loads((ROOT / "checkpoints/scratch-de-en/tokenizer.json").read_text())


def ladder(word: str, values: dict = VALUES) -> tuple[list[list[str]], list[int]]:
    """Merge a word by the tokenizer's file; return each step's symbols, and the merges' ranks."""
    ranks = {tuple(merge): rank for rank, merge in enumerate(values["merges"])}
    symbols = list("▁" + word)
    states, used = [symbols], []
    while True:
        found = [
            (ranks[symbols[i], symbols[i + 1]], i)
            for i in range(len(symbols) - 1)
            if (symbols[i], symbols[i + 1]) in ranks
        ]
        if not found:
            return states, used
        rank, i = min(found)
        symbols = [*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :]]
        states.append(symbols)
        used.append(rank)


SENTENCE = "Ein Zauberwürfel liegt im Gras."


def test_a_sentence_without_a_split_word_opens_on_the_word_of_an_example():
    page = render("tokens", source="Der Hund schläft.")
    (own,) = page.payload("tokens_own")["units"]
    assert len(own["symbols"]) > 1
    word = page.app.text_input(key="tokens_word").value
    assert any(word in example.de for example in EXAMPLES)
    assert page.payload("address_tokens_word")["values"]["word"] is None
    split = render("tokens", source=f"{word}.")
    assert "tokens_own" not in split.payloads
    units = split.payload("tokens_sentence")
    assert len(units["units"][units["opened"]]["symbols"]) > 1


def test_the_page_counts_what_is_split_and_sends_the_merges():
    page = render("tokens", source=SENTENCE, word="Dogge")
    words = SENTENCE.rstrip(".").split()
    final = {word: ladder(word)[0][-1] for word in words}
    split_words = [word for word in words if len(final[word]) > 1]
    assert split_words == ["Zauberwürfel"], "an example with one split word"
    total = sum(map(len, final.values()))
    parts = [part.lstrip("▁") for part in final["Zauberwürfel"]]
    page.claim(
        f"In this sentence one word is split (words: {len(words)}, tokens: {total}, not counting "
        f"punctuation). No word has more tokens than “Zauberwürfel”, which has {len(parts)}: "
        + " \\| ".join(parts)
        + ".",
        "token_counts",
    )
    page.claim_matching(
        rf"This tokenizer uses byte-pair encoding .* list of {len(VALUES['merges']):,} merges .*",
        "tokens_how",
    )
    nothing_else(page)
    sent = page.payload("tokens_sentence")
    assert sent["rules"] == len(VALUES["merges"]) and sent["entries"] == len(VALUES["vocabulary"])
    assert [unit["isEntry"] for unit in sent["units"]] == [True, False, True, True, True, True]
    assert sent["opened"] == 1
    for word, unit in zip(words, sent["units"], strict=False):
        states, ranks = ladder(word)
        assert [text for text, _ in unit["first"]] == states[0]
        assert [rank for _, rank in unit["merges"]] == ranks
        ids = [VALUES["vocabulary"][part] for part in states[-1]]
        assert unit["symbols"] == [[part, id, ""] for part, id in zip(states[-1], ids, strict=True)]
    (own,) = page.payload("tokens_own")["units"]
    assert [text for text, *_ in own["symbols"]] == ladder("Dogge")[0][-1]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("Ein Mann.", r"In this sentence no word is split \(words: 2, tokens: 2, .*"),
        ("Zauberwürfel Dogge", r"In this sentence 2 of 2 words are split \(tokens: \d, .*"),
        # A word of two tokens is split, and the first split word need not have the most tokens.
        (
            "Ein Igel mag Rathaus und Laterne.",
            r"In this sentence 3 of 6 words are split \(tokens: 10, .*“Rathaus”, which has 3: "
            r"R \\\| ath \\\| aus\.",
        ),
    ],
)
def test_the_page_says_how_many_words_are_split(source, said):
    page = render("tokens", source=source)
    page.claim_matching(said, "token_counts")
    assert page.texts("token_notes") == []


def test_unknown_and_invisible_characters_are_explained():
    page = render("tokens", source="Dog\u00adge aus 東京 und \u200fx.", word="東")
    (unknown, removed) = page.texts("token_notes", "caption")
    assert unknown.startswith("The vocabulary has no entry for “東京”.")
    assert removed.endswith("U+00AD, U+200F.")
    assert page.texts("own_notes", "caption")[0].startswith("The vocabulary has no entry for “東”.")
    hidden = render("tokens", source="Ein\u2061 Mann.")
    assert any("‹U+…›" in line for line in hidden.texts("token_notes", "caption"))
    symbols = [s for unit in hidden.payload("tokens_sentence")["units"] for s in unit["symbols"]]
    assert ["‹U+2061›", None, ""] in symbols


def test_a_long_own_word_is_refused_in_one_line():
    page = render("tokens", word="x" * 61)
    assert "The text has 61 characters, and the limit is 60: shorten it." in page.texts()
    assert "tokens_own" not in page.payloads
    assert "tokens_own" in render("tokens", word="x" * 60).payloads


def test_the_tokenizer_is_offered_by_side_only_if_the_sides_differ():
    assert "Tokenizer" not in render("tokens").texts()


def test_a_word_is_built_up_step_by_step(local_page: Page, serve):
    states, ranks = ladder("Zauberwürfel")
    address = f"{serve(MAIN)}/tokens?source={SENTENCE.replace(' ', '+')}&step=2"
    local_page.goto(address)
    root = local_page.locator(".st-key-tokens_sentence .merges")
    rows = root.locator(".ladder li")
    expect(rows).to_have_count(len(states), timeout=60_000)

    def shown() -> list[list[str]]:
        return rows.locator(":scope:not(.later)").evaluate_all(
            "rows => rows.map(row => [...row.querySelectorAll('bdi')].map(one => one.textContent))"
        )

    assert shown() == states[:3]
    expect(root.locator(".left")).to_have_text("")
    root.get_by_role("button", name="Next merge").click()
    assert shown() == states[:4]
    expect(root.locator("[data-part=place]")).to_have_text(f"3 of {len(ranks)} merges applied")
    expect(local_page).to_have_url(re.compile("step=3"))
    root.get_by_role("slider").fill(str(len(ranks)))
    assert shown() == states
    ids = [str(VALUES["vocabulary"][part]) for part in states[-1]]
    expect(rows.last.locator(".symbol i")).to_have_text(ids)
    pairs = zip(states[-1], states[-1][1:], strict=False)
    expect(root.locator(".left")).to_have_text(
        "No learned merge joins "
        + " or ".join(f"{a} + {b}" for a, b in pairs)
        + ". The whole unit "
        f"is not among the vocabulary's {len(VALUES['vocabulary']):,} entries."
    )
    root.get_by_role("radio").first.check()
    assert shown() == ladder("Ein")[0]
    expect(root.locator(".left")).to_contain_text("All of it is one token, one of")
    expect(local_page).to_have_url(re.compile("unit=0"))


LOOKS = """[[...at.querySelectorAll(".symbol")].map((one) =>
  [...one.querySelectorAll("bdi, i")].map((part) => part.textContent)),
  at.querySelector(".said")?.textContent ?? "",
  [...at.querySelectorAll(".symbol")].map((one) => one.classList.contains("unknown"))]"""
SYMBOLS = """[at.className.trim(), [...at.querySelectorAll(".symbol")].map((one) => [
  one.querySelector("bdi").textContent, one.querySelector("i")?.textContent ?? "",
  ["made", "next", "unknown"].filter((name) => one.classList.contains(name))]),
  at.querySelector(".said").textContent]"""


@pytest.mark.parametrize(
    ("network", "sentence"),
    [("scratch-de-en", "Ein Zauberwürfel Łódź"), ("captions-en-de", "a skateboarder žut")],
)
def test_each_merge_of_each_word_is_drawn(page: Page, network: str, sentence: str):
    """Every row of every word: its symbols, what was merged, what comes next, and the ids."""
    file = ROOT / "checkpoints" / network / "tokenizer.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    splitting = split(load(values), sentence)
    for unit, word in enumerate(sentence.split()):
        states, ranks = ladder(word, values)
        last = len(states) - 1
        merged = [
            next(i for i, (old, new) in enumerate(zip(*pair, strict=False)) if old != new)
            for pair in itertools.pairwise(states)
        ]
        for step in {0, last // 2, last}:
            data = payload(splitting, {"unit": unit, "step": step}, in_url=False)
            drawn = drawn_component(page, "merges", ".merges", data)
            rows = drawn(".ladder li", SYMBOLS)
            assert len(rows) == len(states)
            for n, (looks, symbols, said) in enumerate(rows):
                where = f"{word}, row {n} at step {step}"
                assert looks.split() == ["later"] * (n > step) + ["now"] * (n == step), where
                assert [text for text, *_ in symbols] == states[n], where
                coming = [merged[n], merged[n] + 1] if n == step < last else []
                looks_of = {i: "next" for i in coming} | {i: "made" for i in merged[:n][-1:]}
                for i, (text, id, names) in enumerate(symbols):
                    known = text in values["vocabulary"]
                    expected = [looks_of[i]] if i in looks_of else []
                    assert names == expected + ["unknown"] * (not known), f"{where}, {text}"
                    shown = str(values["vocabulary"].get(text, "<unk>")) if n == last else ""
                    assert id == shown, f"{where}, {text}"
                if n:
                    left, right = values["merges"][ranks[n - 1]]
                    of = f"merge {ranks[n - 1] + 1:,}"
                    if n == 1:
                        of += f" of {len(values['merges']):,}"
                    assert said == f"{left} + {right} {of}", where
            place = drawn("[data-part=place]", "at.textContent")[0]
            assert place.startswith(f"{step} of {last} merge")
            chosen = drawn("[type=radio]", "at.checked")
            assert chosen == [n == unit for n in range(len(chosen))]


def test_a_word_list_of_another_language_is_looked_up(named):
    shown = render(
        "tokens",
        direction="ar-en",
        model="opus",
        source=f"{ARABIC} قطة",
        word="dog",
        tokens_side="decoder",
        search="greedy",
    )
    sent = shown.payload("tokens_sentence")
    words = [unit["symbols"][0] for unit in sent["units"]]
    assert [word for word, *_ in words] == [*ARABIC.split(), "قطة"]
    assert all(id is not None for _, id, _ in words[:-1]) and words[-1][1] is None
    vocabulary = len({word for line in SENTENCES["ar"] for word in line.split()}) + 4
    shown.claim_matching(
        rf"This tokenizer knows whole words only\. .* its {vocabulary} entries\. .*", "tokens_how"
    )
    assert any("“قطة”" in text for text in shown.texts("token_notes", "caption"))
    assert shown.texts("tokens_side", "label") == ["Tokenizer"]
    assert shown.texts("tokens_side", "option") == ["Arabic", "English"]
    assert shown.payload("tokens_own")["units"][0]["symbols"] == [["dog", None, ""]]
    english = render(
        "tokens", direction="ar-en", model="opus", source=ARABIC, word="dog", search="greedy"
    )
    assert english.payload("tokens_own")["entries"] == vocabulary, "that of the source"
    assert shown.payload("tokens_own")["entries"] != vocabulary


def test_scored_segmentations_and_lookups_are_sent_and_drawn(page: Page):
    pieces = {"▁": -4.0, "▁ab": -2.0, "c": -6.0, "▁a": -3.0, "bc": -4.5}
    scored = split(PieceTokenizer(list(pieces), list(pieces.values())), "abc abx")
    known, unknown = payload(scored, {})["units"]
    assert known["symbols"] == [["▁a", 7, "−3.00"], ["bc", 8, "−4.50"]]
    assert known["sum"] == "−7.50"
    assert known["others"] == [{"pieces": ["▁ab", "c"], "sum": "−8.00"}]
    assert unknown["symbols"] == [["▁ab", 5, "−2.00"], ["x", None, ""]] and not unknown["sum"]
    values = {"kind": "words", "language": "en", "lower": False, "vocabulary": ["dog"]}
    looked_up = split(load(values), "dog cat")
    cases = (
        (scored, 0, [["▁a", "7", "−3.00"], ["bc", "8", "−4.50"]], "log-probability −7.50, the"),
        (scored, 1, [["▁ab", "5", "−2.00"], ["x", "<unk>"]], "the largest sum"),
        (looked_up, 0, [["dog", "4"]], ""),
        (looked_up, 1, [["cat", "<unk>"]], ""),
    )
    for splitting, unit, symbols, said in cases:
        data = payload(splitting, {"unit": unit, "step": None}, in_url=False)
        drawn = drawn_component(page, "merges", ".merges", data)
        row, *others = drawn(".ladder li", LOOKS)
        assert row[0] == symbols and row[1].startswith(said), row
        assert [symbol[-1] == "<unk>" for symbol in symbols] == row[2]
        told = [[[["▁ab"], ["c"]], "log-probability −8.00", [False, False]]]
        assert others == (told if (splitting, unit) == (scored, 0) else [])
        assert drawn("[type=range]", "at.checkVisibility()") in ([], [False])
