"""Estimates the time of each experiment on this page from the model's last run of head effects."""

import numpy as np

import core
from app.state import results
from app.views.shared.inspection import Inspection
from core.analysis.attribution import MAX_LIVE, source_words
from core.analysis.head_effects import HeadEffects, products_without
from core.kinds import KINDS, Kind

PERMUTATIONS = 64


def count_heads(inspection: Inspection) -> int:
    """Return the number of heads in the model."""
    config = inspection.card.model
    decoder = 2 * config.num_decoder_layers * config.heads("decoder")
    return config.num_encoder_layers * config.num_heads + decoder


def seconds_left(inspection: Inspection, effects: HeadEffects) -> float:
    """Estimate the time of the heads that are still to be ablated, from that of the others."""
    tokens = len(inspection.record.source), len(inspection.record.target_out)
    taken = results.seconds_so_far(inspection.card, core.head_effects, inspection.record)
    done = left = 0.0
    for kind in KINDS:
        for layer, of in enumerate(effects.of(kind)):
            each = products_without(inspection.card.model, kind, layer, *tokens)
            missing = int(np.isnan(of).sum())
            left += each * missing
            done += each * (len(of) - missing)
    return taken * left / done if done else 0.0


def pairs_passes(inspection: Inspection, kind: Kind) -> int:
    """Count the passes for pairs of a kind: one for each head, and one for each pair."""
    config = inspection.card.model
    layers = config.num_encoder_layers if kind == "encoder" else config.num_decoder_layers
    heads = layers * config.heads(kind)
    return heads * (heads + 1) // 2


def shapley_passes(inspection: Inspection) -> int:
    """Count the subsets of source words: all, or those of the sampled permutations."""
    words = len(source_words(inspection.record.source))
    return 2**words if words <= MAX_LIVE else PERMUTATIONS * (words - 1)


def sources_passes(inspection: Inspection) -> int:
    """Count the passes for Shapley values and for the methods that rerun the network."""
    words = len(source_words(inspection.record.source))
    return shapley_passes(inspection) + 6 * len(inspection.record.target_out) + 2 * words


def estimate_seconds(inspection: Inspection, passes: int) -> float | None:
    """Estimate the time of `passes` passes over this sentence from the last head effects.

    Return None before the first head effects, which the page always computes first.
    """
    last_run = results.last_run(inspection.card, core.head_effects)
    if last_run is None:
        return None
    tokens = len(inspection.record.source) + len(inspection.record.target_out)
    seconds_per_token = last_run.seconds / (1 + count_heads(inspection)) / last_run.tokens
    return seconds_per_token * passes * tokens
