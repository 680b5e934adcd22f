"""Data augmentation: names, numbers, concatenation, source noise and random segmentation."""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from core.data.batches import BREAK
from core.data.names import RESERVED
from core.data.source_noise import (
    SENTENCE_BREAK,
    TextPair,
    add_to_reservoir,
    concatenated,
    lower_cased,
    without_final_marks,
)


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """Augmentation probabilities per pair; every epoch draws again.

    `source_noise`: lower-case the source, drop its final mark or commas; the target keeps its case
    (Karpukhin et al. 2019). `concatenation`: join the pair with others to a text of up to
    `concatenate_up_to` pairs (Nguyen, Murray & Chiang 2021; Kondo et al. 2021). `names`, `numbers`:
    replace a name or number that occurs on both sides, so that the model learns to copy (after
    Luong et al. 2015, who use placeholders). Pairs with the same numbers on both sides are rare, so
    each is used `number_copies` times. `segmentation`: split a word at a random position before
    subword segmentation, so that names are not read as meaningful subwords (Kudo 2018; Provilkov,
    Emelianenko & Voita 2020); this probability is per word.
    """

    source_noise: float = 0.0
    concatenation: float = 0.0
    concatenate_up_to: int = 2
    names: float = 0.0
    numbers: float = 0.0
    number_copies: int = 1
    segmentation: float = 0.0


# Names that occur on both sides of corpus pairs, with their spellings in the two languages.
_MEN = "Tom John George James Michael Thomas Charles Louis Tim Joe Daniel Karl Benjamin"
_WOMEN = "Mary|Maria Alice Lisa Helen Laura Helena"
_PLACES = (
    "Boston London Paris Chicago Tokyo|Tokio Osaka Kyoto|Kioto Berlin Madrid Barcelona Seattle "
    "Sydney Oxford Amsterdam Bangkok Toronto Cambridge Liverpool Detroit Dublin Nagoya Kobe "
    "Yokohama Hiroshima Honolulu Melbourne Shanghai Oslo Washington"
)

# Replacements: everyday names, none of them in the generated test set.
_NEW_MEN = (
    "Adam Ahmed Albert Alexander Ali Anton Arne Arthur Ben Bernd Boris Carl Carlos Christian "
    "Daniel David Dennis Dieter Dirk Edward Emil Erik Ernst Felix Finn Frank Franz Fritz Georg "
    "Georgios Gerd Hans Harald Harry Heinz Henry Hugo Igor Ivan Jack Jakob Jan Jens Jim Johann "
    "Johannes Jonas Josef Juan Julian Jürgen Kai Karim Kevin Klaus Konrad Kurt Lars Leo Leon "
    "Liam Lorenz Luca Lukas Manfred Marc Marco Mario Mark Markus Martin Matthias Max Mehmet "
    "Mohammed Moritz Nick Nils Noah Oliver Oskar Otto Pablo Patrick Paul Pedro Peter Philipp "
    "Pierre Rainer Ralf René Richard Robert Roland Rudi Sam Samuel Sebastian Simon Stefan Steve "
    "Sven Theo Thomas Till Tim Timo Tobias Uwe Vincent Walter Werner William Willi Wolfgang Yuki"
).split()
_NEW_WOMEN = (
    "Agnes Alina Amelie Amy Andrea Angela Anita Anja Anke Anna Anne Antje Ayşe Barbara Beate "
    "Bettina Birgit Britta Carla Carmen Charlotte Christina Clara Claudia Daniela Diana Doris "
    "Elena Elisabeth Ella Emily Emma Erika Esther Eva Fatma Franziska Frieda Gabi Gisela Greta "
    "Hanna Hannah Heike Helga Ida Ingrid Irene Isabel Jana Jane Jasmin Jenny Jessica Johanna "
    "Judith Julia Karin Katharina Kathrin Katja Kim Lara Lea Lena Leonie Lilly Linda Lotte Louise "
    "Lucia Luise Magda Maja Margarete Marie Marina Marlene Marta Martina Mia Mila Miriam Monika "
    "Nele Nicole Nina Nora Paula Petra Pia Regina Renate Rita Rosa Ruth Sabine Sandra Sara Sarah "
    "Silke Simone Sofia Sonja Sophie Stella Susanne Tanja Tina Uta Vera Verena Yvonne Zoe"
).split()
_NEW_PLACES = (
    "Aachen Athen Augsburg Baden Basel Berlin Bern Birmingham Bochum Bonn Bordeaux Boston Bremen "
    "Bristol Brno Budapest Celle Chemnitz Cottbus Dallas Darmstadt Delhi Denver Dresden Dublin "
    "Duisburg Düsseldorf Edinburgh Emden Erlangen Essen Frankfurt Freiburg Fulda Gera Graz Greven "
    "Hagen Halle Hamburg Hamm Heidelberg Heilbronn Houston Ingolstadt Innsbruck Istanbul Jena "
    "Kiel Koblenz Konstanz Krefeld Leipzig Linz London Lyon Madrid Magdeburg Mainz Mannheim "
    "Marburg Marseille Melbourne Memmingen Miami Minden Montreal Münster Nairobi Offenbach "
    "Oldenburg Osnabrück Oslo Paderborn Paris Portland Recklinghausen Salzburg Schwerin Seoul "
    "Siegen Solingen Speyer Stockholm Straubing Stuttgart Sydney Toronto Toulouse Trier Ulm "
    "Vancouver Weimar Wiesbaden Wismar Wolfsburg Worms Würzburg Zwickau"
).split()

_MASCULINE = re.compile(
    r"\b(er|ihn|ihm|sein\w{0,2}|he|him|his|himself|herr|mr|mann|man|vater|father|bruder|brother|"
    r"sohn|son|onkel|uncle|freund|boy|junge)\b",
    re.IGNORECASE,
)


# Spelling → the name as listed above, and its group.
_KNOWN: dict[str, tuple[str, str]] = {
    spelling: (name, group)
    for group, names in (("man", _MEN), ("woman", _WOMEN), ("place", _PLACES))
    for name in names.split()
    for spelling in name.split("|")
}
_NAME = re.compile(rf"\b({'|'.join(sorted(_KNOWN, key=len, reverse=True))})(['’]s|s)?\b")
_NUMBER = re.compile(r"\d+(?=([^\W\d_]?))")

_ONSETS = (
    "b bl br ch d dr f fl fr g gl gr h j k kl kr l m n p pl pr r s sch st t tr v w y z".split()
)
_NUCLEI = "a e i o u ä ö ü ai au ei eu ie oo ou y é".split()
_INNER = ["", "", "", *"l m n r s".split()]
_CODAS = ["", "", *"l m n r s t ck ff ld ll lt nd ng nn rd rk rn rt ss st tz x".split()]
_SIBILANTS = ("s", "x", "z", "ß", "ce")
_ENDINGS = (
    "au bach berg burg dorf feld furt hafen hausen heim hof ingen itz mund ow stadt tal wald "
    "bury field ford ham land ley mouth port ton ville wood "
    "a e i o us in ine an ian ke bert brecht fried hild mann mar rich son ter wig wina zan"
).split()
_WORD = re.compile(r"[^\W\d_]{3,}")
_INVENTED_SHARE = 0.75  # of all replacement names
_MAX_LETTERS = 14  # of an invented name


def augmented(
    texts: Iterable[tuple[Iterable[TextPair], int]], settings: Augmentation, seed: int, epoch: int
) -> Iterator[tuple[TextPair, TextPair]]:
    """Yield one epoch's pairs as (augmented, original); `texts` holds (text, repetitions).

    The caller uses the original if the augmented pair is too long. The result depends only on the
    arguments, so a resumed run sees the same pairs. Epochs are counted from 0.
    """
    rng = random.Random(f"{seed}/{epoch}")
    for text, times in texts:
        earlier: list[TextPair] = []
        for count, original in enumerate(_repeated(text, times, settings.number_copies)):
            pair = original
            if rng.random() < settings.names:
                pair = with_other_names(pair, rng, earlier)
            if rng.random() < settings.numbers:
                pair = with_other_numbers(pair, rng)
            single = pair
            if rng.random() < settings.concatenation and earlier:
                more = rng.choices(earlier, k=rng.randrange(1, settings.concatenate_up_to))
                pair = concatenated(rng.sample([pair, *more], 1 + len(more)))
            if rng.random() < settings.source_noise:
                pair = with_source_noise(pair, rng)
            if settings.segmentation:
                pair = with_breaks(pair, settings.segmentation, rng)
            yield pair, original
            add_to_reservoir(earlier, single, count, rng)


def _repeated(text: Iterable[TextPair], times: int, number_copies: int) -> Iterator[TextPair]:
    for _ in range(times):
        for pair in text:
            yield from [pair] * (number_copies if _shared_numbers(pair) else 1)


def _shared_numbers(pair: TextPair) -> Counter[str]:
    """Return the numbers of a pair if both sides contain the same numbers, each equally often."""
    source, target = (Counter(m[0] for m in _NUMBER.finditer(side)) for side in pair)
    return source if source == target else Counter()


def with_breaks(pair: TextPair, share: float, rng: random.Random) -> TextPair:
    """Insert a `BREAK`, which no subword crosses, into a random share of the words."""

    def cut(match: re.Match) -> str:
        word = match[0]
        if rng.random() >= share:
            return word
        at = rng.randrange(1, len(word))
        return word[:at] + BREAK + word[at:]

    return _WORD.sub(cut, pair[0]), _WORD.sub(cut, pair[1])


def with_other_names(
    pair: TextPair, rng: random.Random, earlier: Sequence[TextPair] = ()
) -> TextPair:
    """Replace each known name that occurs equally often on both sides.

    Most of the new names are invented, partly from beginnings of words in `earlier` pairs. A man's
    name becomes a woman's only if no word of the pair is masculine. A name in the possessive, such
    as "Toms", is not replaced by a name that ends with a sibilant, because German writes the
    possessive of such names differently.
    """
    counts = [Counter(_KNOWN[m[1]] for m in _NAME.finditer(side)) for side in pair]
    with_s = {_KNOWN[m[1]][0] for side in pair for m in _NAME.finditer(side) if m[2]}
    new: dict[str, str] = {}
    for (name, group), count in counts[0].items():
        if counts[1][name, group] != count:
            continue
        if group == "place":
            choices = _NEW_PLACES
        elif group == "woman":
            choices = _NEW_WOMEN
        else:
            masculine = _MASCULINE.search(" ".join(pair))
            choices = _NEW_MEN if masculine or rng.random() < 0.5 else _NEW_WOMEN
        while True:
            invented = rng.random() < _INVENTED_SHARE
            other = invented_name(rng, earlier) if invented else rng.choice(choices)
            bad_possessive = name in with_s and other.endswith(_SIBILANTS)
            if other not in new.values() and not bad_possessive:
                break
        new[name] = other
    if not new:
        return pair

    def replace(match: re.Match) -> str:
        name, _ = _KNOWN[match[1]]
        return new.get(name, match[1]) + (match[2] or "")

    return _NAME.sub(replace, pair[0]), _NAME.sub(replace, pair[1])


def invented_name(rng: random.Random, earlier: Sequence[TextPair] = ()) -> str:
    """Invent a pronounceable name.

    The name consists of two to four random syllables, or of the beginning of a word of `earlier`
    pairs and an ending or part of another word. Names such as Regensburg (Regen, rain) and Passau
    (Pass, passport) begin like words but must not be translated.
    """
    while True:
        words = _WORD.findall(" ".join(rng.choice(earlier))) if earlier else []
        if words and rng.random() < 0.6:
            start, other = rng.choice(words)[: rng.randint(2, 6)], rng.choice(words)
            middle = rng.choice(_NUCLEI) if rng.random() < 0.2 else ""
            at = rng.randrange(len(other) - 1)
            part = other[at : at + rng.randint(2, 5)]
            name = (start + middle + rng.choice((rng.choice(_ENDINGS), part))).capitalize()
        else:
            codas = [_INNER] * rng.choice((1, 1, 2, 3)) + [_CODAS]
            name = "".join(
                rng.choice(_ONSETS) + rng.choice(_NUCLEI) + rng.choice(coda) for coda in codas
            ).capitalize()
        if len(name) <= _MAX_LETTERS and name not in RESERVED:
            return name


def with_other_numbers(pair: TextPair, rng: random.Random) -> TextPair:
    """Replace the numbers of a pair, if both sides contain the same numbers.

    A number up to 12, 24, 31 or 59 is replaced by one up to the same limit, so that hours, days and
    minutes remain valid. One with a leading zero ("05") becomes any digits, even in a time. A year
    usually becomes another year. Any other number keeps its count of digits. Numbers followed by
    letters ("3rd") are kept, and so are 0 and 1, because replacing 1 would need a plural.
    """
    fixed = {m[0] for side in pair for m in _NUMBER.finditer(side) if m[1]}
    shared = sorted(_shared_numbers(pair))
    new = {old: old if old in fixed else _other_number(old, rng) for old in shared}
    if not new:
        return pair
    source, target = (_NUMBER.sub(lambda m: new[m[0]], side) for side in pair)
    return source, target


def _other_number(old: str, rng: random.Random) -> str:
    if old in ("0", "1"):
        return old
    if old.startswith("0"):  # of a decimal, a group of thousands, a telephone number or a time
        return _digits(len(old), rng)
    number = int(old)
    for limit in (12, 24, 31, 59):
        if number <= limit:
            return str(rng.randint(2, limit))
    if 1000 <= number < 2100 and rng.random() < 0.7:
        return str(rng.randrange(1000, 2100))
    return rng.choice("123456789") + _digits(len(old) - 1, rng)


def _digits(count: int, rng: random.Random) -> str:
    """Draw digits. A third repeat the one before, because repetitions need practice."""
    digits = ""
    for _ in range(count):
        repeat = digits and rng.random() < 1 / 3
        digits += digits[-1] if repeat else rng.choice("0123456789")
    return digits


def with_source_noise(pair: TextPair, rng: random.Random) -> TextPair:
    """Make the source look casually typed; the target keeps its case.

    If the source loses its final mark, so does the target.
    """
    source, target = pair
    if rng.random() < 0.5:
        between = rng.choice((", ", " "))
        source = SENTENCE_BREAK.sub(lambda match: between + match[1].lower(), source)
    if rng.random() < 0.2:
        source = source.replace(", ", " ")
    if rng.random() < 0.6:
        source, target = without_final_marks(source, target)
    case = rng.choice(("kept", "lower", "lower", "lower first"))
    return lower_cased(source, case), target
