"""Generate test sentences, and check translations against the model's own."""

from itertools import product

WHO = "Ein Mann|Eine Frau|Ein Kind|Ein Mädchen|Ein Junge|Ein alter Mann|Eine junge Frau|Ein Hund"
WHAT = "läuft|steht|sitzt|wartet|schläft|spielt|lacht|singt|liest|arbeitet"
HOW = "allein|ruhig|fröhlich|müde|lange|heute"
WHERE = "im Park|am Strand|vor einem Haus|auf der Straße|im Garten|in der Küche|im Schnee|am Fluss"


MOST = 3840


def sentences(count: int) -> list[str]:
    """Return distinct German sentences of 6 to 8 words."""
    every = [
        f"{who} {what} {how} {where}."
        for how, where, what, who in product(*(t.split("|") for t in (HOW, WHERE, WHAT, WHO)))
    ]
    if count > len(every):
        raise ValueError(f"{count} sentences are too many: there are {len(every)}")
    step = 7919  # a prime: no repeats; large: neighbours differ in several words
    return [every[i * step % len(every)] for i in range(count)]


def mismatches(answers: list[tuple[str, str | None]]) -> list[str]:
    """Describe the answers (sentence, translation) that differ from the model's own."""
    from core.device import limit_threads
    from core.translator import Translator

    translator = Translator.load("checkpoints/scratch-de-en", device="cpu")
    limit_threads(translator.card.parameters)
    alone = {text: translator.translate([text])[0].text for text in {text for text, _ in answers}}
    return [f"{text} → {got}, not {alone[text]}" for text, got in answers if got != alone[text]]
