"""Headlight's core: translate, record, intervene and analyse, without the UI.

    import core
    t = core.load("scratch-de-en")
    r = t.inspect("Ein Hund läuft.", beam=5)
    r.attention["cross", 2, 0]
    core.shapley(t, r).values

Public names are imported on first use, because importing torch takes seconds.
"""

# ruff: noqa: F401
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

_PUBLIC = {
    "load": "core.translator",
    "Translator": "core.translator",
    "InputError": "core.translator",
    "DecodeConfig": "core.config",
    "Edits": "core.record.edits",
    "EditError": "core.record.edits",
    "TranslationRecord": "core.record.record",
    # experiments: f(translator, record, …)
    "attributions": "core.experiments.attribution",
    "batch_masks": "core.experiments.batch_masks",
    "decoder_lens": "core.experiments.logit_lens",
    "embedded": "core.experiments.score_parts",
    "equivariance": "core.experiments.positions",
    "extrapolation": "core.experiments.positions",
    "head_effects": "core.experiments.head_effects",
    "lens": "core.experiments.logit_lens",
    "padding_effect": "core.experiments.padding",
    "pair_effects": "core.experiments.head_effects",
    "position_encodings": "core.experiments.positions",
    "rivals": "core.experiments.word_choice",
    "score_parts": "core.experiments.score_parts",
    "score_split": "core.experiments.score_split",
    "scores": "core.experiments.score_parts",
    "shapley": "core.experiments.attribution",
    "site": "core.experiments.site",
    "state_dict_map": "core.parity.state_dicts",
    "true_change": "core.experiments.word_choice",
    "value_norms": "core.experiments.values",
    "word_choice": "core.experiments.word_choice",
}
__all__ = [*_PUBLIC, "__version__"]

if TYPE_CHECKING:
    from core.config import DecodeConfig
    from core.experiments.attribution import attributions, shapley
    from core.experiments.batch_masks import batch_masks
    from core.experiments.head_effects import head_effects, pair_effects
    from core.experiments.logit_lens import decoder_lens, lens
    from core.experiments.padding import padding_effect
    from core.experiments.positions import equivariance, extrapolation, position_encodings
    from core.experiments.score_parts import embedded, score_parts, scores
    from core.experiments.score_split import score_split
    from core.experiments.site import site
    from core.experiments.values import value_norms
    from core.experiments.word_choice import rivals, true_change, word_choice
    from core.parity.state_dicts import state_dict_map
    from core.record.edits import EditError, Edits
    from core.record.record import TranslationRecord
    from core.translator import InputError, Translator, load


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'core' has no attribute {name!r}")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if sys.argv[:1] == ["-m"]:  # `python -m core.…` is about to import a command, which takes seconds
    from core.command import exit_on_signals

    exit_on_signals()
