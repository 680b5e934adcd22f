"""Generated test pairs with names, places, numbers and dates that no training pair contains."""

import random
import re
from collections import Counter

Pairs = list[tuple[str, str]]

SIZE = 300

# None of these names occurs in the training corpora or among the names inserted in training.
_TEST_NAMES = (
    "Annika Bastian Bogdan Chiara Clemens Dimitri Dorothea Elif Friederike Giulia Gunther Hakan "
    "Henrike Ingolf Jamila Jolanda Korbinian Leila Leopold Mateusz Mechthild Nadia Norbert Olga "
    "Ottilie Priya Quirin Rashid Siegfried Svetlana Tariq Thekla Ulrike Viktor Volkmar Wanda "
    "Wiebke Xaver Yannick Yusuf Zeynep Zoltan"
).split()
_TEST_PLACES = (
    "Bamberg Bielefeld Dortmund Erfurt Flensburg Glasgow Göttingen Helsinki Kassel Ljubljana "
    "Manchester Passau Potsdam Regensburg Rostock Tübingen Utrecht Wuppertal Zagreb"
).split()
_VAL_NAMES = (
    "Benno Carsten Detlef Edeltraud Fridolin Gernot Hedwig Isolde Kordula Leander Malwina Noemi "
    "Oksana Pascal Ricarda Selma Tomasz Ursula Winfried Xenia Yara Zdenka"
).split()
_VAL_PLACES = (
    "Aalen Bayreuth Cardiff Coburg Debrecen Delmenhorst Eisenach Hildesheim Iserlohn "
    "Kaiserslautern Lüneburg Malmö Neubrandenburg Odense Pforzheim Quedlinburg Reutlingen "
    "Saarbrücken Tampere Vilnius"
).split()
_SPLITS = {"test": (_TEST_NAMES, _TEST_PLACES, 24), "val": (_VAL_NAMES, _VAL_PLACES, 25)}
SPLITS = tuple(_SPLITS)
RESERVED = frozenset(_TEST_NAMES + _TEST_PLACES + _VAL_NAMES + _VAL_PLACES)

_GERMAN = "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
_ENGLISH = "January February March April May June July August September October November December"
MONTHS = dict(zip(_GERMAN.split(), _ENGLISH.split(), strict=True))

# {n}, {m}: names, {p}, {q}: places, {i}: a number, {d}: a date.
_TEMPLATES = (
    ("Ich heiße {n} und komme aus {p}.", "My name is {n} and I come from {p}."),
    ("{n} und {m} wohnen in {p}.", "{n} and {m} live in {p}."),
    ("Wo ist {n}?", "Where is {n}?"),
    ("{n} hat heute Geburtstag.", "It is {n}'s birthday today."),
    ("Kennst du {n}?", "Do you know {n}?"),
    ("Das hier ist {n}.", "This here is {n}."),
    ("{n} arbeitet in {p}.", "{n} works in {p}."),
    ("Ich habe {n} in {p} getroffen.", "I met {n} in {p}."),
    ("{n} liebt {m}.", "{n} loves {m}."),
    ("Hallo, {n}! Wie geht es dir?", "Hello, {n}! How are you?"),
    ("Unser Hund heißt {n}.", "Our dog's name is {n}."),
    ("Ich möchte mit {n} sprechen.", "I want to speak with {n}."),
    ("{n} ist größer als {m}.", "{n} is taller than {m}."),
    ("Wir fahren morgen nach {p}.", "We are going to {p} tomorrow."),
    ("Der Zug von {p} nach {q} hat Verspätung.", "The train from {p} to {q} is late."),
    ("{p} ist eine schöne Stadt.", "{p} is a beautiful city."),
    ("Ich wurde in {p} geboren.", "I was born in {p}."),
    ("Wie weit ist es nach {p}?", "How far is it to {p}?"),
    ("Das Buch kostet {i} Euro.", "The book costs {i} euros."),
    ("In dieser Stadt leben {i} Menschen.", "{i} people live in this city."),
    ("Meine Zimmernummer ist {i}.", "My room number is {i}."),
    ("{n} hat {i} Bücher.", "{n} has {i} books."),
    ("Es sind {i} Kilometer bis {p}.", "It is {i} kilometers to {p}."),
    ("{n} wurde am {d} geboren.", "{n} was born on {d}."),
    ("Heute ist der {d}.", "Today is {d}."),
    ("Der Krieg begann am {d}.", "The war began on {d}."),
)


def read(split: str) -> Pairs:
    """Generate `SIZE` (German, English) pairs, always the same ones for "val" and for "test"."""
    names, places, seed = _SPLITS[split]
    rng = random.Random(seed)
    pairs = []
    for number in range(SIZE):
        german, english = _TEMPLATES[number % len(_TEMPLATES)]
        n, m = rng.sample(names, 2)
        p, q = rng.sample(places, 2)
        day, year = rng.randint(2, 28), rng.randint(1203, 1788)
        month = rng.choice(list(MONTHS))
        same = {"n": n, "m": m, "p": p, "q": q, "i": rng.randint(203, 9876)}
        dates = f"{day}. {month} {year}", f"{MONTHS[month]} {day}, {year}"
        pairs.append((german.format(**same, d=dates[0]), english.format(**same, d=dates[1])))
    return pairs


def copied(pairs: Pairs, outputs: list[str]) -> dict[str, float]:
    """Return the shares of names, numbers and capitals that are right, each from 0 to 1.

    Names and numbers: the share of those in the sources that the outputs copy exactly, allowing
    "5th" for 5 and a German genitive "s" for "'s". Capitals: of the reference words that the
    outputs contain in any case, the share in the same case as in the reference.
    """
    right, total = Counter[str](), Counter[str]()
    for (source, reference), output in zip(pairs, outputs, strict=True):
        written, expected = (Counter(re.findall(r"\w+", text)) for text in (output, source))
        digits = Counter(re.findall(r"\d+", output))
        for word, count in expected.items():
            if word in RESERVED:
                key, copies = "names_copied", written[word]
                if f"{word}'s" in source:
                    copies += written[f"{word}s"]
            elif word.isdigit():
                key, copies = "numbers_copied", digits[word]
            else:
                continue
            right[key] += min(count, copies)
            total[key] += count
        words = Counter(re.findall(r"[^\W\d_]+", reference))
        right["capitals_right"] += (words & written).total()
        total["capitals_right"] += (_case_folded(words) & _case_folded(written)).total()
    keys = ("names_copied", "numbers_copied", "capitals_right")
    return {key: round(right[key] / max(total[key], 1), 4) for key in keys}


def _case_folded(words: Counter[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word, count in words.items():
        counts[word.casefold()] += count
    return counts
