"""Generated tasks: answers and alignments, checked by rules written here a second time."""

import random
from datetime import date

import pytest

from core.data.names import MONTHS
from core.data.tasks import TASKS, Example, pasted

GERMAN = list(MONTHS)
ARTICLES = ("der", "die", "das", "den")
TENS = {
    word: 10 * n
    for n, word in enumerate(
        "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split(), start=2
    )
}
TEENS = "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn".split()
UNITS = "null ein zwei drei vier fünf sechs sieben acht neun".split()
WORDS = dict(
    pair.split("=")
    for pair in (
        "hund=dog vogel=bird mann=man ball=ball katze=cat frau=woman maus=mouse kuh=cow kind=child "
        "pferd=horse buch=book auto=car klein=small alt=old rot=red blau=blue schnell=fast "
        "jung=young sieht=sees sucht=seeks findet=finds kennt=knows liebt=loves holt=fetches "
        "dass=that weil=because wenn=when ob=whether"
    ).split()
)


def drawn(task: str, count: int = 300) -> list[Example]:
    rng = random.Random(7)
    return [TASKS[task].draw(rng) for _ in range(count)]


def answer_of_date(source: str) -> str:
    day, month, year = source.split(" ")
    return date(int(year), GERMAN.index(month) + 1, int(day.rstrip("."))).isoformat()


def answer_of_number(source: str) -> str:
    total = 0
    words = source.split(" ")
    for i, word in enumerate(words):
        if word in ("tausend", "hundert", "und"):
            continue
        value = TENS.get(word) or (10 + TEENS.index(word) if word in TEENS else 0)
        value = value or UNITS.index("ein" if word == "eins" else word)
        after = words[i + 1] if i + 1 < len(words) else ""
        total += value * {"tausend": 1000, "hundert": 100}.get(after, 1)
    return str(total)


def word_of(german: str) -> str:
    """Translate a German word, whatever its ending."""
    known = next(w for w in WORDS if german.lower() in (w, f"{w}e", f"{w}en"))
    return WORDS[known]


def answer_of_clause(source: str) -> str:
    words = source.split(" ")
    has_conjunction = words[0] in WORDS
    begin, rest = (words[:1], words[1:]) if has_conjunction else ([], words)
    if has_conjunction:
        rest, verb = rest[:-1], rest[-1]
    else:
        verb = next(w for w in rest if w in WORDS and WORDS[w].endswith("s") and w not in ("das",))
        rest = [w for w in rest if w != verb]
    second = [i for i, w in enumerate(rest) if w in ARTICLES][1]
    before, after = (
        ["the" if w in ARTICLES else word_of(w) for w in part]
        for part in (rest[:second], rest[second:])
    )
    return " ".join([*map(word_of, begin), *before, WORDS[verb], *after])


ANSWERS = {
    "dates": answer_of_date,
    "numbers": answer_of_number,
    "reversal": lambda source: source[::-1],
    "sorting": lambda source: " ".join(sorted(source.split(" "))),
    "grammar": answer_of_clause,
}


@pytest.mark.parametrize("task", TASKS)
def test_each_answer_follows_the_rule(task):
    examples = drawn(task)
    assert len({one.source for one in examples}) > 200
    for one in examples:
        assert one.target == ANSWERS[task](one.source)


@pytest.mark.parametrize("task", TASKS)
def test_links_lead_from_what_is_written_to_what_says_so(task):
    for one in drawn(task):
        assert {link.part for link in one.links} <= set(TASKS[task].parts)
        assert len({link.target for link in one.links}) == len(one.links)
        for link in one.links:
            written = one.target[link.target]
            read = "".join(one.source[i] for i in link.source)
            if task == "dates":
                month = GERMAN.index(read) + 1 if read in GERMAN else None
                wanted = f"{month:02}"[link.target - 5] if month else read
                assert written == wanted or (written == "0" and link.target == 8)
            elif task == "numbers":
                digit = answer_of_number(read)
                power = len(one.target) - 1 - link.target
                assert written == (digit[0] if power or len(digit) == 1 else digit[1])
            elif task == "reversal":
                assert link.source == (len(one.source) - 1 - link.target,)
            elif task == "sorting":
                assert set(read) == {written} and len(read) == one.source.count(written)
            else:
                word = next(w for w in one.target.split(" ") if w == word_of(read))
                assert written in word
    parts = {link.part for one in drawn(task) for link in one.links}
    assert parts == set(TASKS[task].parts)


def test_the_same_seed_draws_the_same_examples():
    for task in TASKS.values():
        again = [task.draw(random.Random(3)) for _ in range(2)]
        assert again[0] == again[1]


def test_pasted_lines_are_pairs():
    text = "ein Hund\ta dog\n\n zwei → two \nx = y = z\n"
    assert pasted(text) == (("ein Hund", "a dog"), ("zwei", "two"), ("x", "y = z"))
    for wrong, said in (
        ("ein Hund\ta dog", "1 pairs: paste 2 to 5,000"),
        ("", "0 pairs"),
        ("a = b\nein Hund", "line 2 is not a pair"),
        ("a = b\nc =", "line 2 is not a pair"),
        ("a = b\n" + "x" * 101 + " = y", "line 2 has a side of 101 characters: the limit is 100"),
        ("a = b\n" * 5_001, "more than 5,000 pairs"),
    ):
        with pytest.raises(ValueError, match=said):
            pasted(wrong)
