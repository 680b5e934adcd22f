"""Lines as people have them: their words, what a network reads of each, and marks of other tools.

`WORDS[i]` of a line is what the tokens that begin in given word i spell, "" if there are none.
Python and the offline page are checked against the same table, with the shipped German tokenizer.
"""

from __future__ import annotations

from typing import NamedTuple


class Given(NamedTuple):
    """A line, what is read of each of its words, and the kinds of marks in it."""

    line: str
    words: list[str]
    marks: tuple[str, ...] = ()


GIVEN = [
    Given("Ein Hund läuft .", ["Ein", "Hund", "läuft", "."]),
    Given("  Ein   Hund ", ["Ein", "Hund"]),
    Given("Ein Hund läuft.", ["Ein", "Hund", "läuft."]),
    Given("Rund 10\u00a0000 Hunde .", ["Rund", "10000", "Hunde", "."]),
    Given("Rund 10\u202f000 Hunde .", ["Rund", "10000", "Hunde", "."]),
    Given("z.\u202fB. der Hund", ["z.B.", "der", "Hund"]),
    Given("Ein\u3000Hund läuft", ["EinHund", "läuft"]),
    Given("Ein\u0085Hund läuft", ["EinHund", "läuft"]),
    Given("Ein\u2028Hund läuft", ["EinHund", "läuft"]),
    Given("Ein\u2009\u2003Hund \u205f läuft", ["EinHund", "", "läuft"]),
    Given("Ein\u000bHund\u001f läuft", ["EinHund", "läuft"]),
    Given("Ein \u200b Hund läuft", ["Ein", "", "Hund", "läuft"]),
    Given("Ein \u00ad Hund \ufeff läuft", ["Ein", "", "Hund", "", "läuft"]),
    Given("Ein \u2029 Hund", ["Ein", "", "Hund"]),
    Given("Hun\u00adde lau\u200bfen", ["Hunde", "laufen"]),
    Given("\u00a0 Hunde \u00a0", ["", "Hunde", ""]),
    Given("Ma\u0308nner im Park", ["Männer", "im", "Park"]),
    Given("Der \ufb02inke Hund", ["Der", "flinke", "Hund"]),
    Given("Ein 漢字 😀\u00a0😀 Hund", ["Ein", "漢字", "😀😀", "Hund"]),
    Given("Ein\tHund läuft", ["EinHund", "läuft"], ("tab",)),
    Given("Ein Hund .\tA dog .", ["Ein", "Hund", ".A", "dog", "."], ("tab",)),
    Given("0\tEin Hund läuft .", ["Ein", "Hund", "läuft", "."], ("id",)),
    Given("17\t Ein Hund", ["", "Ein", "Hund"], ("id",)),
    Given("1234\tdeu\tEin Hund", ["Ein", "Hund"], ("id",)),
    Given(
        "Er sagt &quot; ja &quot; &amp; geht",
        ["Er", "sagt", '"', "ja", '"', "&", "geht"],
        ("escape",),
    ),
    Given("Toms&apos; Hund &amp;apos;s", ["Toms'", "Hund", "'s"], ("escape",)),
    Given("M&auml;nner&nbsp;am&#32;See &#x2026;", ["Männeram&#32;See", "…"], ("escape",)),
    Given("&#91; Hund &#93; &bar;", ["[", "Hund", "]", "|"], ("escape",)),
    Given("AT&T und R&D; &foo; &", ["AT&T", "und", "R&D;", "&foo;", "&"]),
    Given("ein orange @-@ farbener Hut", ["ein", "orange", "-", "farbener", "Hut"], ("hyphen",)),
    Given("oran@@ gen@@ farbenen Hut", ["orangen", "", "farbenen", "Hut"], ("bpe",)),
    Given("@@ Hund @ Hut@", ["@@", "Hund", "@", "Hut@"]),
    Given("bell \uffedt \uffed.", ["bellt", "", "."], ("joiner",)),
    Given("( \uffedja \uffed)", ["(", "ja", ")"], ("joiner",)),
    Given("(\uffed ja \uffed)", ["(", "ja", ")"], ("joiner",)),
    Given(
        "der\uffe8C hund\uffe8C läuft\uffe8L usa\uffe8U",
        ["Der", "Hund", "läuft", "USA"],
        ("case",),
    ),
    Given(">>deu<< Der Hund", ["", "Der", "Hund"], ("language",)),
    Given("__de__ Der Hund", ["", "Der", "Hund"], ("language",)),
    Given("<2de> Der Hund", ["", "Der", "Hund"], ("language",)),
    Given("Der Hund __en__", ["Der", "Hund", ""], ("language",)),
    Given("ein Hund##e ##n", ["ein", "Hund##en", ""], ("wordpiece",)),
    Given("<b>Ein</b> Hund<br/>", ["<b>Ein</b>", "Hund<br/>"], ("tag",)),
    Given("a < b und c > d", ["a", "<", "b", "und", "c", ">", "d"]),
    Given("»Ein Hund läuft«, sagt er", ['"Ein', "Hund", 'läuft",', "sagt", "er"]),
    Given("„Ja”, sagt «er»", ["„Ja“,", "sagt", '"er"']),
    Given("“Ja”, sagt ‹er›", ['"Ja",', "sagt", "'er'"]),
    Given("``Ja'' geht`s", ['"Ja"', "geht's"]),
    Given("„Ja“ ’s", ["„Ja“", "’s"]),
]
"""Lines with other white space, invisible characters, marks of other tools and quotation marks."""
