"""Words are those of the given line: in tokens, alignments, their error, warnings and scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core import analyse, evaluate
from core.analysis.quality_warnings import quality_warnings, warnings_about
from core.checkpoint.folder import Checkpoint, load
from core.text.line import marks, plain, read_by, tokens_and_words, words_of_line
from core.text.tokenizer import normalise
from core.text.words import WordTokenizer
from core.translator import Translator
from tests.given_lines import GIVEN
from tests.small import SENTENCES

SHIPPED = Path(__file__).resolve().parents[2] / "checkpoints/scratch-de-en"
SPACED = "Rund 10\u00a0000 Hunde laufen im Schnee ."
REFERENCE = "About 10,000 dogs run in the snow ."
GOLD = "0-0 1-1 2-2 3-3 4-4 5-6 6-7"


@pytest.fixture(scope="module")
def shipped() -> Checkpoint:
    return load(SHIPPED)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(SHIPPED, device="cpu")


@pytest.mark.parametrize("given", GIVEN, ids=[ascii(given.line) for given in GIVEN])
def test_tokens_belong_to_the_words_of_the_given_line(shipped, given):
    assert len(words_of_line(given.line)) == len(given.words)
    tokens, words = tokens_and_words(shipped.source_tokenizer, given.line)
    spelled = [""] * len(given.words)
    for token, word in zip(tokens, words, strict=True):
        spelled[word] += token.text
    assert spelled == given.words
    assert words == sorted(words)
    assert tuple(kind for kind, _ in marks(given.line)) == given.marks
    line = read_by(shipped.source_tokenizer, given.line)
    assert normalise(line.text) == line.text and len(line.owners) == len(line.text)


@pytest.mark.parametrize("given", GIVEN, ids=[ascii(given.line) for given in GIVEN])
def test_white_space_other_than_the_blank_starts_no_word(shipped, given):
    tokens, words = tokens_and_words(shipped.source_tokenizer, given.line)
    for place, token in enumerate(tokens[1:], start=1):
        is_new = words[place] != words[place - 1]
        is_first = place == 1 and tokens[0].text == ""  # a boundary, then a mark, both at 0
        assert is_new or is_first or not token.starts_word


def test_texts_of_the_domain_are_read_as_before(shipped):
    for pair in SENTENCES:
        for text, tokenizer in zip(
            pair, (shipped.source_tokenizer, shipped.target_tokenizer), strict=True
        ):
            assert tokens_and_words(tokenizer, text)[0] == tokenizer.encode(text)
            assert not marks(text) and plain(text, tokenizer) is text


def test_a_word_of_several_tokens_of_a_word_vocabulary_is_one_word():
    tokenizer = WordTokenizer.train(["Der Hund, der z. B. bellt."], "de", 1)
    tokens, words = tokens_and_words(tokenizer, "Der Hund, z.\u00a0B. \u00ad bellt.")
    assert [token.text for token in tokens] == ["Der", "Hund", ",", "z.", "B.", "bellt", "."]
    assert words == [0, 1, 1, 2, 2, 4, 4]


@pytest.mark.parametrize(
    ("vocabulary", "line", "read"),
    [
        (["apos", "quot"], "a &apos; @-@ b", "a &apos; @-@ b"),
        (["apos"], "a &apos; b @-@ c", "a ' b-c"),
        ([">>deu<<"], ">>deu<< a", ">>deu<< a"),
        (["gen@@"], "a@@ b", "a@@ b"),
        (["\uffedt"], "a \uffedb", "a \uffedb"),
        (["##t"], "a ##b", "a ##b"),
        (["x"], ">>deu<< a ##b @@c d@@ e", "ab @@c de"),
    ],
)
def test_marks_that_a_vocabulary_has_learnt_are_kept(vocabulary, line, read):
    assert read_by(WordTokenizer("de", vocabulary), line).text == read


def run(monkeypatch, tmp_path, command: str, sides: tuple[str, str], gold: str) -> dict:
    """Run core.analyse on lines of text and return its JSON."""
    for name, content in zip(("src", "ref", "gold"), (*sides, gold), strict=True):
        (tmp_path / name).write_text(content, "utf-8")
    files = [word for n in ("src", "ref", "gold") for word in (f"--{n}", str(tmp_path / n))]
    out = tmp_path / "out.json"
    arguments = [command, "--checkpoint", str(SHIPPED), *files, "--json", str(out)]
    parsed = analyse.parser().parse_args([*arguments, "--device", "cpu"])
    parsed.run(parsed)
    return json.loads(out.read_text())


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u3000", "\u0085", "\u2028", "\u2009"])
def test_a_space_inside_a_number_shifts_no_link(monkeypatch, tmp_path, space):
    text = SPACED.replace("\u00a0", space) + "\n"
    found = run(monkeypatch, tmp_path, "alignment", (text, REFERENCE + "\n"), GOLD + "\n")
    assert found["best"]["aer"] == pytest.approx(1 / 15) and found["best"]["layer"] == 1
    sides = (SPACED.replace("\u00a0", "."), REFERENCE)
    plain = run(monkeypatch, tmp_path, "alignment", sides, GOLD)
    assert plain["best"]["aer"] == pytest.approx(1 / 15)


def test_links_have_the_numbers_of_the_given_words(monkeypatch, tmp_path, capsys):
    sources = [SPACED, "17\t" + SPACED, SPACED.replace("im", "\u200b im"), ">>deu<< " + SPACED]
    files = [str(tmp_path / name) for name in ("src", "ref")]
    Path(files[0]).write_text("\n".join(sources) + "\n", "utf-8")
    Path(files[1]).write_text(f"{REFERENCE}\n" * 3 + f"{REFERENCE} \u00ad .\n", "utf-8")
    arguments = ["align", "--checkpoint", str(SHIPPED), "--src", files[0], "--ref", files[1]]
    parsed = analyse.parser().parse_args([*arguments, "--device", "cpu"])
    parsed.run(parsed)
    printed = capsys.readouterr()
    lines = [dict(link.split("-")[::-1] for link in x.split()) for x in printed.out.splitlines()]
    right = {str(t): s for t, s in enumerate("01234456")}
    assert lines[:2] == [right, right]
    assert lines[2] == {t: str(int(s) + (int(s) > 3)) for t, s in right.items()}
    assert {t: str(int(s) - 1) for t, s in lines[3].items() if int(t) < 7} == {
        t: s for t, s in right.items() if int(t) < 7
    }
    assert "8" not in lines[3] and "9" in lines[3]  # word 8 is a soft hyphen
    assert "src line 2 has an id in front (“17”): give plain text" in printed.err
    assert "src line 4 has a language code (“>>deu<<”): give plain text" in printed.err


SHORT = ("Eine Frau liest heute .", "A woman reads today .")


@pytest.mark.parametrize("gold", [f"{GOLD}\n\n", "\n".join(
    f"1 {int(s) + 1} {int(t) + 1}" for s, t in (link.split("-") for link in GOLD.split())
)])  # fmt: skip
def test_sentences_without_gold_links_are_left_out(monkeypatch, tmp_path, capsys, gold):
    alone = run(monkeypatch, tmp_path, "alignment", (SPACED + "\n", REFERENCE + "\n"), GOLD)
    assert "without_gold" not in alone and "no gold links" not in capsys.readouterr().err
    sides = tuple(f"{a}\n{b}\n" for a, b in zip((SPACED, REFERENCE), SHORT, strict=True))
    found = run(monkeypatch, tmp_path, "alignment", sides, gold)
    assert found["rows"] == alone["rows"]
    assert (found["sentences"], found["without_gold"]) == (1, 1)
    line = "gold: 1 of 2 sentences have no gold links and are not scored"
    assert line in capsys.readouterr().err
    with pytest.raises(ValueError, match="none of the 2 sentences has gold links"):
        run(monkeypatch, tmp_path, "alignment", sides, "\n\n")


@pytest.mark.parametrize("given", [given for given in GIVEN if given.marks])
def test_a_warning_names_each_mark(translator, given):
    record = translator.inspect(given.line)
    found = quality_warnings(record)
    assert tuple(kind for kind, _ in found.marks) == given.marks
    assert any(reason.endswith(": give plain text") for reason in found.reasons("German"))
    assert all(check.passed for check in record.checks)
    own = quality_warnings(translator.inspect(given.line, "A dog."))
    assert own.marks == found.marks


def test_a_mark_that_the_network_knows_is_no_reason():
    line = ">>deu<< A dog."
    assert warnings_about(line, "Ein Hund.", "English", (), 1.0).marks
    assert not warnings_about(line, "Ein Hund.", "English", (), 1.0, {">>deu<<"}).marks


@pytest.mark.parametrize(
    ("source", "translation", "lost"),
    [
        ("Ein Hund läuft 5 km/h.", "A dog runs 5 kilograms.", ("km/h",)),
        ("Ein Hund läuft 5\u00a0km/h.", "A dog runs 5 km/h.", ()),
        ("Ein Hund läuft 5 km/h.", "A dog runs 5 kilometers per hour.", ()),
        ("Er wiegt 9 kg.", "He weighs 9 kilometers.", ("kg",)),
        ("Nur 5 % davon.", "Only 5 percent.", ()),
        ("It costs $5.", "Es kostet 5 Euro.", ("$",)),
        ("Das sind 5 kmx.", "That is 5.", ()),
    ],
)
def test_a_lost_unit_is_named(source, translation, lost):
    assert warnings_about(source, translation, "German", (), 1.0).lost == lost


def test_guillemets_are_read_as_the_quotes_of_training(translator):
    straight = translator.inspect('"Ein Hund läuft", sagt der Mann.')
    for opening, closing in ("»«", "«»", "“”", "””", "‟‟"):
        record = translator.inspect(f"{opening}Ein Hund läuft{closing}, sagt der Mann.")
        assert [t.id for t in record.source] == [t.id for t in straight.source]
    german = translator.inspect("„Ein Hund läuft“, sagt der Mann.")
    assert [t.id for t in german.source] != [t.id for t in straight.source]


def test_given_targets_and_references_are_read_without_marks(translator, tmp_path, capsys):
    escaped, plain_ = "A dog &apos;s house &amp; a cat .", "A dog 's house & a cat ."
    ids = [[t.id for t in translator.inspect("Ein Hund.", x).target_out] for x in (escaped, plain_)]
    assert ids[0] == ids[1]
    scores = []
    for reference in (escaped, plain_):
        (tmp_path / "src").write_text("Ein Hund .\n")
        (tmp_path / "ref").write_text(reference + "\n")
        arguments = ["--checkpoint", str(SHIPPED), "--src", str(tmp_path / "src")]
        arguments += ["--ref", str(tmp_path / "ref"), "--beam", "1", "--device", "cpu"]
        out = tmp_path / "out.json"
        evaluate.run(evaluate.parser().parse_args([*arguments, "--json", str(out)]))
        scores.append(json.loads(out.read_text()) | {"seconds": 0})
        printed = capsys.readouterr().err
        assert ("ref line 1 has HTML or Moses escapes (“&apos;”)" in printed) == (
            reference is escaped
        )
    assert scores[0] == scores[1]
