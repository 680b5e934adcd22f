"""Estimates the time of each experiment on this page from the last one of this model."""

import core
from app.state import results
from app.views.shared.lesson import Lesson
from core.analysis.attribution import MAX_LIVE, source_words

PERMUTATIONS = 64


def heads(lesson: Lesson) -> int:
    """Return the number of heads in the model."""
    config = lesson.card.model
    return config.num_heads * (config.num_encoder_layers + 2 * config.num_decoder_layers)


def pairs_passes(lesson: Lesson, kind: str) -> int:
    """Count the passes for pairs of a kind: each head ablated, and each pair."""
    config = lesson.card.model
    layers = config.num_encoder_layers if kind == "encoder" else config.num_decoder_layers
    return layers * config.num_heads * (layers * config.num_heads + 1) // 2


def shapley_passes(lesson: Lesson) -> int:
    """Count the subsets of source words: all, or those of the sampled permutations."""
    words = len(source_words(lesson.record.source))
    return 2**words if words <= MAX_LIVE else PERMUTATIONS * (words - 1)


def sources_passes(lesson: Lesson) -> int:
    """Count the passes for Shapley values and for the methods that need passes of their own."""
    words = len(source_words(lesson.record.source))
    return shapley_passes(lesson) + 3 * len(lesson.record.target_out) + 2 * words


def seconds(lesson: Lesson, passes: int) -> float | None:
    """Estimate the time of `passes` passes over this sentence from the last head effects.

    None before the first head effects, which the page always computes first.
    """
    last = results.took(lesson.card, core.head_effects)
    if last is None:
        return None
    tokens = len(lesson.record.source) + len(lesson.record.target_out)
    pace = last.seconds / (1 + heads(lesson)) / last.tokens
    return pace * passes * tokens
