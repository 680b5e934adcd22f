"""Example sentences in both languages, each with a question that its maps answer."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """One sentence in both languages, with a hint for each direction.

    A hint states facts about the source sentence only. It asks about the translation, because
    networks translate differently.
    """

    title: str
    look_for: tuple[str, str]  # from German, from English
    de: str
    en: str
    changed: tuple[str, str]  # de and en, with one thing changed

    def hint(self, direction: str) -> str:
        """Return what to look for in a direction; "" in an unsupported one."""
        return dict(zip(("de-en", "en-de"), self.look_for, strict=True)).get(direction, "")

    def text(self, direction: str) -> str:
        """Return the sentence in the direction's source language; "" if there is none."""
        return {"de": self.de, "en": self.en}.get(direction.split("-")[0], "")

    def variant(self, direction: str) -> str:
        """Return the changed sentence in the direction's source language; "" if there is none."""
        return dict(zip(("de", "en"), self.changed, strict=True)).get(direction.split("-")[0], "")


@dataclass(frozen=True)
class MinimalPair:
    """Two sentences in each language that differ in one thing."""

    title: str
    de: tuple[str, str]
    en: tuple[str, str]

    def texts(self, direction: str) -> tuple[str, str]:
        """Return both sentences in the direction's source language; empty if there are none."""
        return {"de": self.de, "en": self.en}.get(direction.split("-")[0], ("", ""))


MINIMAL_PAIRS = (
    MinimalPair(
        "er, sie",
        ("Er spielt mit seinem Hund im Park.", "Sie spielt mit ihrem Hund im Park."),
        ("He is playing with his dog in the park.", "She is playing with her dog in the park."),
    ),
    MinimalPair(
        "with and without nicht",
        ("Ich habe das Buch gelesen.", "Ich habe das Buch nicht gelesen."),
        ("I have read the book.", "I have not read the book."),
    ),
    MinimalPair(
        "one, many",
        ("Der Hund läuft durch den Schnee.", "Die Hunde laufen durch den Schnee."),
        ("The dog is running through the snow.", "The dogs are running through the snow."),
    ),
    MinimalPair(
        "who sees whom",
        ("Der Mann sieht die Frau.", "Den Mann sieht die Frau."),
        ("The man sees the woman.", "The woman sees the man."),
    ),
)


def minimal_change(text: str, direction: str) -> str:
    """Return the known sentence that differs from `text` in one thing, else `text` itself."""
    known = [pair.texts(direction) for pair in MINIMAL_PAIRS]
    known += [(example.text(direction), example.variant(direction)) for example in EXAMPLES]
    for first, second in known:
        if text and text in (first, second):
            return second if text == first else first
    return text


def minimal_pairs(direction: str) -> tuple[MinimalPair, ...]:
    """Return the minimal pairs in the direction's source language."""
    return tuple(pair for pair in MINIMAL_PAIRS if any(pair.texts(direction)))


EXAMPLES = (
    Example(
        "A word twice",
        (
            "Two men, two shirts: which of them does each word of the translation look at?",
            "Two men, two shirts: which of them does each word of the translation look at?",
        ),
        "Ein Mann in einem roten Hemd spricht mit einem Mann in einem blauen Hemd.",
        "A man in a red shirt is talking to a man in a blue shirt.",
        (
            "Ein Mann in einem blauen Hemd spricht mit einem Mann in einem roten Hemd.",
            "A man in a blue shirt is talking to a man in a red shirt.",
        ),
    ),
    Example(
        "Word order",
        (
            "Fußball comes last. Where is it in English?",
            "soccer comes in the middle. Where is it in German?",
        ),
        "Zwei junge Männer spielen im Park Fußball.",
        "Two young men are playing soccer in the park.",
        (
            "Zwei junge Frauen spielen im Park Fußball.",
            "Two young women are playing soccer in the park.",
        ),
    ),
    Example(
        "Compounds",
        (
            "How many words is Straßenmusiker in English?",
            "How many words is street musician in German?",
        ),
        "Ein Straßenmusiker spielt an einer Bushaltestelle Gitarre.",
        "A street musician is playing guitar at a bus stop.",
        (
            "Ein Straßenmusiker spielt an einem Bahnhof Gitarre.",
            "A street musician is playing guitar at a train station.",
        ),
    ),
    Example(
        "A split verb",
        (
            "bereitet … zu is one verb. What is it in English?",
            "is preparing is one verb. In how many places is it in German?",
        ),
        "Eine Frau bereitet in der Küche das Essen zu.",
        "A woman is preparing the food in the kitchen.",
        (
            "Ein Mann bereitet in der Küche das Essen zu.",
            "A man is preparing the food in the kitchen.",
        ),
    ),
    Example(
        "A verb at the end",
        (
            "After wenn, the verb comes last. Where is it after if?",
            "rains is the third word. Where is it in German?",
        ),
        "Wenn es morgen regnet, bleiben wir zu Hause.",
        "If it rains tomorrow, we will stay at home.",
        (
            "Wenn es morgen nicht regnet, bleiben wir zu Hause.",
            "If it does not rain tomorrow, we will stay at home.",
        ),
    ),
    Example(
        "Unknown letters",
        (
            "Characters outside the vocabulary are marked.",
            "Characters outside the vocabulary are marked.",
        ),
        "Ein Tourist aus 東京 fotografiert einen Hund.",
        "A tourist from 東京 takes a picture of a dog.",
        (
            "Ein Tourist aus Berlin fotografiert einen Hund.",
            "A tourist from Berlin takes a picture of a dog.",
        ),
    ),
)


def examples(direction: str) -> tuple[Example, ...]:
    """Return the examples in the direction's source language."""
    return tuple(example for example in EXAMPLES if example.text(direction))
