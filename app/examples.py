"""Example sentences in both languages, each with a question that its maps answer."""

from dataclasses import dataclass

from app.lessons.texts import rows

_DIRECTIONS = ("de-en", "en-de")


@dataclass(frozen=True)
class Example:
    """A sentence in both languages, each also with one thing changed, and a hint per direction.

    A hint states facts about the source sentence only. It asks about the translation, because
    networks translate differently.
    """

    title: str
    look_for: tuple[str, str]  # from German, from English
    de: str
    en: str
    changed: tuple[str, str]  # de and en

    def hint(self, direction: str) -> str:
        """Return what to look for in a direction; "" in an unsupported one."""
        return dict(zip(_DIRECTIONS, self.look_for, strict=True)).get(direction, "")

    def text(self, direction: str) -> str:
        """Return the sentence in the direction's source language; "" if there is none."""
        return self.texts(direction)[0]

    def texts(self, direction: str) -> tuple[str, str]:
        """Return the sentence and the changed one in the source language; empty if unsupported."""
        pairs = {"de": (self.de, self.changed[0]), "en": (self.en, self.changed[1])}
        return pairs.get(direction.split("-")[0], ("", ""))


def _table(group: str) -> tuple[Example, ...]:
    """Read the rows of a group of the table of stops."""
    return tuple(
        Example(
            title=row["title"],
            look_for=(row.get("look_for.de-en", ""), row.get("look_for.en-de", "")),
            de=row["de"][0],
            en=row["en"][0],
            changed=(row["de"][1], row["en"][1]),
        )
        for row in rows("stops", group).values()
    )


EXAMPLES = _table("example")
MINIMAL_PAIRS = _table("pair")
"""Sentences without a hint, to be compared with the changed ones."""


def examples(direction: str) -> tuple[Example, ...]:
    """Return the examples in the direction's source language."""
    return tuple(example for example in EXAMPLES if example.text(direction))


def minimal_pairs(direction: str) -> tuple[Example, ...]:
    """Return the minimal pairs in the direction's source language."""
    return tuple(pair for pair in MINIMAL_PAIRS if pair.text(direction))


def minimal_change(text: str, direction: str) -> str:
    """Return the known sentence that differs from `text` in one thing, else `text` itself."""
    for first, second in (pair.texts(direction) for pair in MINIMAL_PAIRS + EXAMPLES):
        if text and text in (first, second):
            return second if text == first else first
    return text
