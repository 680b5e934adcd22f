"""How long each answer on this page will take, estimated from the last answer of this network."""

import core
from app.state import results
from app.views.shared.lesson import Lesson
from core.analysis.attribution import MAX_LIVE, source_words

PERMUTATIONS = 64


def heads(lesson: Lesson) -> int:
    """All heads of the network."""
    config = lesson.card.model
    return config.num_heads * (config.num_encoder_layers + 2 * config.num_decoder_layers)


def pairs_passes(lesson: Lesson, kind: str) -> int:
    """Each head of a kind off, and each pair of them."""
    config = lesson.card.model
    layers = config.num_encoder_layers if kind == "encoder" else config.num_decoder_layers
    return layers * config.num_heads * (layers * config.num_heads + 1) // 2


def shapley_passes(lesson: Lesson) -> int:
    """The subsets of source words: all of them, or those on the way of the sampled orders."""
    words = len(source_words(lesson.record.source))
    return 2**words if words <= MAX_LIVE else PERMUTATIONS * (words - 1)


def sources_passes(lesson: Lesson) -> int:
    """Shapley values, and of the seven methods the gradients, the words zeroed and left out."""
    words = len(source_words(lesson.record.source))
    return shapley_passes(lesson) + 3 * len(lesson.record.target_out) + 2 * words


def seconds(lesson: Lesson, passes: int) -> float | None:
    """The time of so many passes over this sentence, at the pace of the last head effects.

    None before the first; they are the first answer on this page.
    """
    last = results.took(lesson.card, core.head_effects)
    if last is None:
        return None
    tokens = len(lesson.record.source) + len(lesson.record.target_out)
    pace = last.seconds / (1 + heads(lesson)) / last.tokens
    return pace * passes * tokens
