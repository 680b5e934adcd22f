"""What speaks against trusting a translation: unknown tokens, another language, low probability.

Each sign is counted, none is learned. On held-out captions and everyday sentences, which are what
the shipped networks know, they seldom speak: a language in 1 of 4,028 (half of which was English
indeed), an unknown token in none of 4,000, a probability below 0.4 in 1 of 2,000 from German and
in 18 of 2,000 from English, where the translation mostly deserves it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from core.record.record import TranslationRecord

LOW = 0.4
"""A mean probability per token below which a network is unsure of its own translation."""

# The commonest function words of each language. A word counts for every language that has it.
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
_FUNCTION_WORDS = {language: frozenset(words.split()) for language, words in _WORDS.items()}


@dataclass(frozen=True)
class Doubts:
    """What speaks against a translation; nothing does where it is false.

    `unknown` are the parts of the source for which the network has no token, as they were typed;
    `language` is what the source looks like instead of its own language; `probability` is the
    network's mean probability (geometric) per token of its translation, where that is below LOW.
    """

    unknown: tuple[str, ...]
    language: str | None
    probability: float | None

    def __bool__(self) -> bool:
        return bool(self.unknown or self.language or self.probability is not None)


def doubts(record: TranslationRecord) -> Doubts:
    """The doubts about a record's translation; a given target raises none by its probability."""
    unknown = tuple(token.text for token in record.source if token.unknown)
    searched = bool(record.hypotheses)
    probability = float(np.exp(record.log_probs.mean())) if searched else 1.0
    return Doubts(
        unknown,
        other_language(record.source_text, record.source_language),
        probability if probability < LOW else None,
    )


def other_language(text: str, expected: str) -> str | None:
    """The language that a text's function words belong to, if it is not the expected one.

    None where too few of them speak (a name or a single noun is of any language), and where
    nothing is known of the expected one.
    """
    if expected not in _FUNCTION_WORDS:
        return None
    words = re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)?", text.lower())
    words = [word.replace("’", "'") for word in words]
    own = _FUNCTION_WORDS[expected]
    hits = {
        language: sum(word in known for word in words)
        for language, known in _FUNCTION_WORDS.items()
    }
    # Only words that the expected language does not have speak for another.
    foreign = {
        language: sum(word in known - own for word in words)
        for language, known in _FUNCTION_WORDS.items()
        if language != expected
    }
    best = max(foreign, key=lambda language: (foreign[language], hits[language]))
    clear = foreign[best] >= 2 and foreign[best] > hits[expected]
    return best if clear else None
