"""Rule-based warnings about a translation, from its source, its text and its probability.

Warnings are rare on held-out captions and everyday sentences, the domain of the shipped models. A
word split into several tokens gives no warning, because 60 to 84 % of these sentences have
such a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from core.record.record import RecordToken, TranslationRecord
from core.text.line import describe, marks
from core.text.tokenizer import Token, normalise

LOW = 0.4
"""Warn if the geometric mean of a translation's token probabilities is below this."""

_SHOWN = 3  # items quoted per warning; the explorer marks every unknown token

# Common words of each language, mostly function words. A word counts for every language that has
# it.
_WORDS = {
    "German": """aber alle als am an andere auch auf aus bei beim bin bis bist da damit das dass
        dein dem den denn der des dich die dir doch dort du durch ein eine einem einen einer eines
        er es etwas euch für gegen hab habe haben hast hat hatte heute hier hinter ich ihm ihn
        ihnen ihr ihre ihren im immer in ins ist ja jeden jemand jetzt kann kannst kein keine
        könnte können machen man mehr mein meine mich mir mit muss musst nach nicht nichts nie noch
        nur oder ohne schon sehr sein seine seinen sich sie sind so soll über um und uns unser
        unter viel vom von vor während war waren warum was weil wenn wer werde werden wie wieder
        will wir wird wirst wo wollte wurde würde zu zum zur zwei zwischen""",
    "English": """a about above after all am an and another any are aren't around as at away back
        be because been before behind being by can can't could did didn't do does doesn't don't
        down else every few for from front get going had has have he he'll he's her here him his
        how i i'd i'll i'm i've if in into is isn't it it's its just let's like many me men more
        most must my near never next no not now of off on one only or other our out outside over
        people she she's should so some than that that's the their them then there these they
        they're this those through to too two under up us very was wasn't watch we we're were what
        when where which while who why will with without woman women won't would you you're your""",
    "French": """au aux avec ce cette chez comme dans de des du elle elles en est et être était eux
        fait il ils j'ai je la le les leur lui ma mais mes moi mon ne nous on ont ou où par pas
        plus pour qu'il quand que qui sa sans se ses son sont suis sur ta tes toi ton très tu un
        une vous à c'est d'une d'un n'est s'est l'homme""",
    "Spanish": """al como con cuando de del dónde el ella ellos en era es esta está estaba están
        este estoy fue ha hay la las le lo los me mi muy más nada ni no nos o para pero por porque
        puede que quiero qué se ser si sin sobre su sus son también te tiene todo tu un una usted y
        ya yo""",
    "Italian": """al alla anche che chi ci come con cosa da dal dalla dei del della delle di dove e
        è era gli ha hanno ho i il in io la le lei lo loro lui ma mi mia mio molto nei nel nella
        non per perché più quando quella quello questa questo se si sono su sul sulla ti tu un una
        uno""",
    "Dutch": """aan al als bij dan dat de deze die dit door een en er geen goed had hebben heeft het
        hij hoe hun ik in is je kan maar man me meer met mij mijn naar niet nog of om ook op over
        te toch tot uit van veel voor waar was wat we wel werd wij wordt zal ze zich zij zijn zo
        zou""",
    "Portuguese": """ao as com como da das de do dos e ela ele eles em entre era essa está estava
        eu foi há isso já mais mas me meu minha muito na nas no nos não nós o onde os ou para pela
        pelo por quando que quem se sem seu sua são também te tem tenho um uma você à é""",
    "Polish": """ale bardzo by być był była było co czy dla do gdzie go i ich ja jak jest jestem już
        kto ma mam mi mnie na nie o od on ona po pod przez się są ta tak tam ten to tu tylko w we z
        za ze że""",
    "Swedish": """alla att av de dem den det du efter eller en ett från för han har hon hur i inte
        jag kan med men mig min mycket nu när och om på sig sin ska som så till upp ut var vi vid
        är över""",
    "Turkish": """ama bana ben benim bir bu çok da daha de değil gibi hiç için ile kadar ki mi mı
        ne nerede o olan olarak onun sen şey şu siz tüm var ve ya yok""",
}
FUNCTION_WORDS = {language: frozenset(words.split()) for language, words in _WORDS.items()}
"""Common words by language, mostly function words."""


@dataclass(frozen=True)
class QualityWarnings:
    """Reasons to doubt a translation; falsy if there are none.

    `unknown` lists the parts of the source that map to <unk>, as typed, each once. `language` is
    the language that the source seems to be in, if not the expected one. `probability` is the
    geometric mean of the translation's token probabilities, if below LOW. `wordless` says that the
    source has neither letters nor digits, `capitals` that it is written in capitals. `lost` lists
    the addresses, the numbers above 12 and the units after a number that are missing from the
    translation. `marks` are the marks of other tools in the source, see `core.text.line`.
    """

    unknown: tuple[str, ...] = ()
    language: str | None = None
    probability: float | None = None
    wordless: bool = False
    capitals: bool = False
    lost: tuple[str, ...] = ()
    marks: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return self != QualityWarnings()

    def reasons(self, source_language: str, shown: Callable[[str], str] = str) -> list[str]:
        """Return one clause per reason; `shown` makes invisible characters visible."""
        found = []
        if self.wordless:
            found.append("the sentence has no word, so the words of the translation are made up")
        if self.capitals:
            found.append("the sentence is in capitals, which the network has hardly seen")
        if self.marks:
            found.append(f"the source has {describe(self.marks, shown)}: give plain text")
        if self.language:
            found.append(f"this looks like {self.language}, but it is read as {source_language}")
        if self.unknown:
            listed = _listed(self.unknown, shown)
            it = "it" if len(self.unknown) == 1 else "them"
            found.append(f"the network has no token for {listed} and reads {it} as <unk>")
        if self.lost:
            found.append(f"the translation lacks {_listed(self.lost, shown)} from the source")
        if self.probability is not None:
            percent = 100 * self.probability
            size = f"only {percent:.0f}" if percent >= 1 else "below 1"
            found.append(f"the geometric mean of its tokens' probabilities is {size} %")
        return found


def quality_warnings(record: TranslationRecord) -> QualityWarnings:
    """Return the warnings about a record; the probability of a user-supplied target is ignored."""
    return warnings_about(
        record.source_text,
        record.translation,
        record.source_language,
        tuple(token.text for token in record.source if token.unknown),
        float(np.exp(record.log_probs[record.forced :].mean())) if record.hypotheses else 1.0,
        known_marks(record.source),
    )


def warnings_about(
    source: str,
    translation: str,
    source_language: str,
    unknown: tuple[str, ...],
    probability: float,
    known: Collection[str] = (),
) -> QualityWarnings:
    """Return the warnings about a translation; `source` is the given line.

    `unknown` lists the parts of the source that map to <unk>. `probability` is the geometric mean
    of the translation's token probabilities. `known` are entries of the network's vocabulary that
    are no marks of another tool, such as the language code that it needs.
    """
    found = marks(source, known)
    source = normalise(source)
    return QualityWarnings(
        tuple(dict.fromkeys(unknown)),
        other_language(source, source_language),
        probability if probability < LOW else None,
        bool(source) and not any(c.isalnum() for c in source),
        _in_capitals(source),
        _lost(source, translation),
        found,
    )


def known_marks(tokens: Iterable[Token | RecordToken]) -> frozenset[str]:
    """Return the vocabulary entries among a source's tokens, without their boundary marks."""
    return frozenset(token.piece.lstrip("\u2581") for token in tokens if not token.unknown)


def least_certain(record: TranslationRecord) -> tuple[int, float] | None:
    """Return the position and probability of the least probable target token that a search chose.

    Return None for a user-supplied target, whose tokens no search chose.
    """
    if not record.hypotheses:
        return None
    position = record.forced + int(record.log_probs[record.forced :].argmin())
    return position, float(np.exp(record.log_probs[position]))


def _in_capitals(text: str) -> bool:
    """Return whether at least 80 % of the letters are capitals.

    One-letter words are ignored. Return False for a single word, which may be an abbreviation.
    """
    words = [word for word in re.findall(r"[^\W\d_]+", text) if len(word) > 1]
    cased = [c for c in "".join(words) if c.upper() != c.lower() or c == "ß"]
    return len(words) > 1 and sum(c.isupper() for c in cased) >= 0.8 * len(cased) > 0


_ADDRESS = re.compile(r"\b(?:[\w.+-]+@[\w-]+\.[\w.-]*\w|https?://\S*\w|www\.\S*\w)")
_NUMBER = re.compile(r"\d+(?:[ .,\u00a0\u202f]\d{3}\b)*", re.ASCII)
_UNIT = re.compile(
    r"[0-9][ \u00a0]?(km/h|m/s|km|cm|mm|kg|°C|°F|%|€|\$)(?![\w/])|([€$])[ \u00a0]?[0-9]"
)
_UNITS = {
    "km/h": ("km/h", "kph", "kmh", "mph", "kilomet"),
    "m/s": ("m/s", "met"),
    "km": ("km", "kilomet"),
    "cm": ("cm", "centimet", "zentimet"),
    "mm": ("mm", "millimet"),
    "kg": ("kg", "kilogram", "kilos", "kilo "),
    "°C": ("°", "degree", "grad", "celsius"),
    "°F": ("°", "degree", "grad", "fahrenheit"),
    "%": ("%", "percent", "per cent", "prozent"),
    "€": ("€", "euro"),
    "$": ("$", "dollar"),
}
"""Units, and what any translation of each between German and English contains."""
_WRITTEN_OUT = 12
"""Numbers up to this may be written as words: 2 as "two"."""


def _lost(source: str, translation: str) -> tuple[str, ...]:
    """Return the addresses, larger numbers and units of a source that its translation lacks.

    Numbers are compared by their digits, so 1.234 matches 1,234. A number up to 12 in
    the translation also counts as 12 more, since 15 Uhr may become 3 pm.
    """
    addresses = [found for found in _ADDRESS.findall(source) if found not in translation]
    rest = _ADDRESS.sub(" ", source)
    written = {_digits(number) for number in _NUMBER.findall(translation)}
    written |= {str(int(number) + 12) for number in written if int(number) <= 12}
    numbers = [
        number
        for number in _NUMBER.findall(rest)
        if int(_digits(number)) > _WRITTEN_OUT and _digits(number) not in written
    ]
    lower = translation.lower()
    units = [
        unit
        for unit in dict.fromkeys(one or other for one, other in _UNIT.findall(rest))
        if not any(text in lower for text in _UNITS[unit])
    ]
    return (*addresses, *numbers, *units)


def _digits(number: str) -> str:
    return str(int(re.sub(r"\D", "", number)))


def _listed(texts: Sequence[str], shown: Callable[[str], str]) -> str:
    """Quote the first few texts and count the rest."""
    words = ", ".join(f"“{shown(text)}”" for text in texts[:_SHOWN])
    return f"{words} and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else words


def other_language(text: str, expected: str) -> str | None:
    """Return the language that a text's function words suggest, if it is not the expected one.

    Return None if too few words suggest another language (a name or a single noun fits every
    language), or if the expected language has no word list.
    """
    if expected not in FUNCTION_WORDS:
        return None
    words = re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)?", text.lower())
    words = [word.replace("’", "'") for word in words]
    hits = {
        language: sum(word in known for word in words) for language, known in FUNCTION_WORDS.items()
    }
    # Only words that the expected language lacks are evidence for another.
    foreign = {
        language: sum(word in known - FUNCTION_WORDS[expected] for word in words)
        for language, known in FUNCTION_WORDS.items()
        if language != expected
    }
    best = max(foreign, key=lambda language: (foreign[language], hits[language]))
    clear = foreign[best] >= 2 and foreign[best] > hits[expected]
    return best if clear else None
