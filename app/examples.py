"""Example sentences in both languages, each with what to look for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """One sentence as it is typed in either direction."""

    title: str
    look_for: str
    de: str
    en: str

    def text(self, direction: str) -> str:
        """The sentence in the language that a direction starts from."""
        return {"de": self.de, "en": self.en}[direction.split("-")[0]]


EXAMPLES = (
    Example(
        "A word twice",
        "Which man, which shirt does it look at?",
        "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd.",
        "A man in a red shirt is talking to a man in a blue shirt.",
    ),
    Example(
        "A word that moves",
        "Fußball stands last, soccer does not.",
        "Zwei junge Männer spielen im Park Fußball.",
        "Two young men are playing soccer in the park.",
    ),
    Example(
        "Compounds",
        "One German word, several English ones.",
        "Ein Straßenmusiker spielt an einer Bushaltestelle Gitarre.",
        "A street musician is playing guitar at a bus stop.",
    ),
    Example(
        "A split verb",
        "bereitet … zu is one verb in English.",
        "Eine Frau bereitet in der Küche das Essen für ihre Kinder zu.",
        "A woman is preparing the food for her children in the kitchen.",
    ),
    Example(
        "A verb at the end",
        "After wenn, German keeps the verb for last.",
        "Wenn es morgen regnet, bleiben wir zu Hause.",
        "If it rains tomorrow, we will stay at home.",
    ),
    Example(
        "Unknown letters",
        "What the vocabulary lacks is marked.",
        "Ein Tourist aus 東京 fotografiert einen Hund.",
        "A tourist from 東京 takes a picture of a dog.",
    ),
)
