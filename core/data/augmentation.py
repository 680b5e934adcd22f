"""What an epoch changes in its pairs: names, numbers, concatenation and source noise."""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from core.data.batches import BREAK
from core.data.names import RESERVED
from core.data.source_noise import (
    BETWEEN,
    TextPair,
    in_a_row,
    lower_cased,
    remember,
    without_last_mark,
)


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """How often a pair is changed, as probabilities; each epoch draws anew.

    `source_noise`: the source as people type it, lower-cased, without its last mark or its commas;
    the target keeps its case (Karpukhin et al. 2019). `concatenation`: the pair and others, up to
    `concatenate_up_to` in all, as one text (Nguyen, Murray & Chiang 2021; Kondo et al. 2021).
    `names` and `numbers`: what stands letter for letter on both sides becomes another name or
    number on both, so that copying is learned rather than a few names by heart (the placeholder
    idea of Luong et al. 2015, with real names in place of a placeholder). Pairs whose sides hold
    the same numbers are rare: each is shown `number_copies` times. `segmentation`: of each word on
    either side that no subword reaches across a place in it drawn by chance, so that no name is
    known by pieces that mean something (Kudo 2018; Provilkov, Emelianenko & Voita 2020).
    """

    source_noise: float = 0.0
    concatenation: float = 0.0
    concatenate_up_to: int = 2
    names: float = 0.0
    numbers: float = 0.0
    number_copies: int = 1
    segmentation: float = 0.0


# Names that the corpora's pairs hold on both sides, by what may stand in their place.
_MEN = "Tom John George James Michael Thomas Charles Louis Tim Joe Daniel Karl Benjamin"
_WOMEN = "Mary|Maria Alice Lisa Helen Laura Helena"
_PLACES = (
    "Boston London Paris Chicago Tokyo|Tokio Osaka Kyoto|Kioto Berlin Madrid Barcelona Seattle "
    "Sydney Oxford Amsterdam Bangkok Toronto Cambridge Liverpool Detroit Dublin Nagoya Kobe "
    "Yokohama Hiroshima Honolulu Melbourne Shanghai Oslo Washington"
)

# What is put there: everyday names, none of them in the generated test set.
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

_OF_HIM = re.compile(
    r"\b(er|ihn|ihm|sein\w{0,2}|he|him|his|himself|herr|mr|mann|man|vater|father|bruder|brother|"
    r"sohn|son|onkel|uncle|freund|boy|junge)\b",
    re.IGNORECASE,
)


def _known() -> dict[str, tuple[str, str]]:
    """By spelling: the name's own key and its group."""
    names = {}
    for group, text in (("man", _MEN), ("woman", _WOMEN), ("place", _PLACES)):
        for name in text.split():
            for spelling in name.split("|"):
                names[spelling] = (name, group)
    return names


_KNOWN = _known()
_NAME = re.compile(rf"\b({'|'.join(sorted(_KNOWN, key=len, reverse=True))})(['’]s|s)?\b")
_NUMBER = re.compile(r"\d+(?=([^\W\d_]?))")

_ONSETS = (
    "b bl br ch d dr f fl fr g gl gr h j k kl kr l m n p pl pr r s sch st t tr v w y z".split()
)
_NUCLEI = "a e i o u ä ö ü ai au ei eu ie oo ou y é".split()
_INNER = ["", "", "", *"l m n r s".split()]
_CODAS = ["", "", *"l m n r s t ck ff ld ll lt nd ng nn rd rk rn rt ss st tz x".split()]
_HISSING = ("s", "x", "z", "ß", "ce")
_ENDINGS = (
    "au bach berg burg dorf feld furt hafen hausen heim hof ingen itz mund ow stadt tal wald "
    "bury field ford ham land ley mouth port ton ville wood "
    "a e i o us in ine an ian ke bert brecht fried hild mann mar rich son ter wig wina zan"
).split()
_WORD = re.compile(r"[^\W\d_]{3,}")
_INVENTED = 0.75  # of the names that are put in
_LONGEST = 14  # letters of an invented name


def augmented(
    texts: Iterable[tuple[Iterable[TextPair], int]],
    how: Augmentation,
    seed: int,
    epoch: int,
) -> Iterator[tuple[TextPair, TextPair]]:
    """One epoch: each pair of each text, as many times as the text is repeated, as (changed, own).

    `own` is what to take where `changed` is too long. Seed and epoch (from 0) alone decide what is
    drawn, so a run that is resumed sees the same.
    """
    drawn = random.Random(f"{seed}/{epoch}")
    for text, times in texts:
        earlier: list[TextPair] = []
        for count, own in enumerate(_shown(text, times, how.number_copies)):
            pair = own
            if drawn.random() < how.names:
                pair = with_other_names(pair, drawn, earlier)
            if drawn.random() < how.numbers:
                pair = with_other_numbers(pair, drawn)
            single = pair
            if drawn.random() < how.concatenation and earlier:
                more = drawn.choices(earlier, k=drawn.randrange(1, how.concatenate_up_to))
                pair = in_a_row(drawn.sample([pair, *more], 1 + len(more)))
            if drawn.random() < how.source_noise:
                pair = with_source_noise(pair, drawn)
            if how.segmentation:
                pair = broken(pair, how.segmentation, drawn)
            yield pair, own
            remember(earlier, single, count, drawn)


def _shown(text: Iterable[TextPair], times: int, number_copies: int) -> Iterator[TextPair]:
    for _ in range(times):
        for pair in text:
            yield from [pair] * (number_copies if _numbers_alike(pair) else 1)


def _numbers_alike(pair: TextPair) -> Counter[str]:
    """The numbers of both sides, if they hold the same ones as often; else none."""
    source, target = (Counter(m[0] for m in _NUMBER.finditer(side)) for side in pair)
    return source if source == target else Counter()


def broken(pair: TextPair, share: float, drawn: random.Random) -> TextPair:
    """The pair with a `BREAK`, across which no subword reaches, within so many of its words."""

    def cut(match: re.Match) -> str:
        word = match[0]
        if drawn.random() >= share:
            return word
        at = drawn.randrange(1, len(word))
        return word[:at] + BREAK + word[at:]

    return _WORD.sub(cut, pair[0]), _WORD.sub(cut, pair[1])


def with_other_names(
    pair: TextPair, drawn: random.Random, earlier: Sequence[TextPair] = ()
) -> TextPair:
    """The pair with each known name that both sides hold as often replaced by another on both.

    Some of the new names are invented, also of what `earlier` pairs' words begin with.

    A man's name becomes a woman's only where no word speaks of a man. A name beside an 's', as in
    "Toms", becomes none that ends in a hissing sound, for German writes those otherwise.
    """
    counts = [Counter(_KNOWN[m[1]] for m in _NAME.finditer(side)) for side in pair]
    with_s = {_KNOWN[m[1]][0] for side in pair for m in _NAME.finditer(side) if m[2]}
    new: dict[str, str] = {}
    for (name, group), count in counts[0].items():
        if counts[1][name, group] != count:
            continue
        if group == "place":
            some = _NEW_PLACES
        elif group == "woman":
            some = _NEW_WOMEN
        else:
            of_him = _OF_HIM.search(" ".join(pair))
            some = _NEW_MEN if of_him or drawn.random() < 0.5 else _NEW_WOMEN
        while True:
            invented = drawn.random() < _INVENTED
            other = invented_name(drawn, earlier) if invented else drawn.choice(some)
            hissing = name in with_s and other.endswith(_HISSING)
            if other not in new.values() and not hissing:
                break
        new[name] = other
    if not new:
        return pair

    def put(match: re.Match) -> str:
        name, _ = _KNOWN[match[1]]
        return new.get(name, match[1]) + (match[2] or "")

    return _NAME.sub(put, pair[0]), _NAME.sub(put, pair[1])


def invented_name(drawn: random.Random, earlier: Sequence[TextPair] = ()) -> str:
    """A pronounceable name that nobody has.

    Of two to four syllables; or of what a word of `earlier` pairs begins with, and an ending or a
    bit of another word: many a town begins with rain or with a passport (Regensburg, Passau), and
    is not to be translated.
    """
    while True:
        words = _WORD.findall(" ".join(drawn.choice(earlier))) if earlier else []
        if words and drawn.random() < 0.6:
            start, other = drawn.choice(words)[: drawn.randint(2, 6)], drawn.choice(words)
            middle = drawn.choice(_NUCLEI) if drawn.random() < 0.2 else ""
            at = drawn.randrange(len(other) - 1)
            bit = other[at : at + drawn.randint(2, 5)]
            name = (start + middle + drawn.choice((drawn.choice(_ENDINGS), bit))).capitalize()
        else:
            codas = [_INNER] * drawn.choice((1, 1, 2, 3)) + [_CODAS]
            name = "".join(
                drawn.choice(_ONSETS) + drawn.choice(_NUCLEI) + drawn.choice(coda) for coda in codas
            ).capitalize()
        if len(name) <= _LONGEST and name not in RESERVED:
            return name


def with_other_numbers(pair: TextPair, drawn: random.Random) -> TextPair:
    """The pair with its numbers, if both sides hold the same digits, replaced on both.

    A number stays of its kind: an hour, a day, a minute, mostly a year, or of as many digits. 1
    stays, for what is counted would change its form, and so does what letters follow, as in "3rd".
    """
    fixed = {m[0] for side in pair for m in _NUMBER.finditer(side) if m[1]}
    alike = sorted(_numbers_alike(pair))
    new = {old: old if old in fixed else _other_number(old, drawn) for old in alike}
    if not new:
        return pair
    source, target = (_NUMBER.sub(lambda m: new[m[0]], side) for side in pair)
    return source, target


def _other_number(old: str, drawn: random.Random) -> str:
    if old in ("0", "1"):
        return old
    if old.startswith("0"):  # of a decimal, a group of thousands or a telephone
        return _digits(len(old), drawn)
    number = int(old)
    for limit in (12, 24, 31, 59):
        if number <= limit:
            return str(drawn.randint(2, limit))
    if 1000 <= number < 2100 and drawn.random() < 0.7:
        return str(drawn.randrange(1000, 2100))
    return drawn.choice("123456789") + _digits(len(old) - 1, drawn)


def _digits(count: int, drawn: random.Random) -> str:
    """So many digits; every third is the one before it again, which is the harder to copy."""
    digits = ""
    for _ in range(count):
        again = digits and drawn.random() < 1 / 3
        digits += digits[-1] if again else drawn.choice("0123456789")
    return digits


def with_source_noise(pair: TextPair, drawn: random.Random) -> TextPair:
    """The pair with its source as people type it, and its target in its own case.

    A target loses its last mark with its source: what a text does not end with, its translation
    does not end with.
    """
    source, target = pair
    if drawn.random() < 0.5:
        between = drawn.choice((", ", " "))
        source = BETWEEN.sub(lambda match: between + match[1].lower(), source)
    if drawn.random() < 0.2:
        source = source.replace(", ", " ")
    if drawn.random() < 0.6:
        source, target = without_last_mark(source, target)
    case = drawn.choice(("kept", "lower", "lower", "lower first"))
    return lower_cased(source, case), target
