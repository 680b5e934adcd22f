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

_NAMES = {
    "core.translator": "load Translator InputError",
    "core.config": "DecodeConfig",
    "core.record.edits": "Donor Edits EditError HeadPatch Patch Push RandomPush",
    "core.record.record": "TranslationRecord",
    "core.analysis.attribution": "agreement",
    "core.analysis.inside_head": "inside_head",
    # experiments: f(translator, record, …)
    "core.experiments.attribution": "attributions shapley",
    "core.experiments.batch_masks": "batch_masks",
    "core.experiments.head_effects": "head_effects pair_effects",
    "core.experiments.jacobian_lens": "jacobian_lens",
    "core.experiments.logit_lens": "decoder_lens lens",
    "core.experiments.padding": "padding_effect",
    "core.experiments.patching": "patch_all",
    "core.experiments.positions": "equivariance extrapolation position_encodings",
    "core.experiments.push_curve": "push_curve",
    "core.experiments.score_parts": "embedded score_parts scores",
    "core.experiments.score_split": "score_split",
    "core.experiments.site": "site",
    "core.experiments.steering": "steer",
    "core.experiments.values": "value_norms",
    "core.experiments.word_choice": "rivals true_change word_choice",
    "core.parity.state_dicts": "state_dict_map",
    "core.small.session": "train_small",
}
_PUBLIC = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [*_PUBLIC, "__version__"]

if TYPE_CHECKING:
    from core.analysis.attribution import agreement
    from core.analysis.inside_head import inside_head
    from core.config import DecodeConfig
    from core.experiments.attribution import attributions, shapley
    from core.experiments.batch_masks import batch_masks
    from core.experiments.head_effects import head_effects, pair_effects
    from core.experiments.jacobian_lens import jacobian_lens
    from core.experiments.logit_lens import decoder_lens, lens
    from core.experiments.padding import padding_effect
    from core.experiments.patching import patch_all
    from core.experiments.positions import equivariance, extrapolation, position_encodings
    from core.experiments.push_curve import push_curve
    from core.experiments.score_parts import embedded, score_parts, scores
    from core.experiments.score_split import score_split
    from core.experiments.site import site
    from core.experiments.steering import steer
    from core.experiments.values import value_norms
    from core.experiments.word_choice import rivals, true_change, word_choice
    from core.parity.state_dicts import state_dict_map
    from core.record.edits import Donor, EditError, Edits, HeadPatch, Patch, Push, RandomPush
    from core.record.record import TranslationRecord
    from core.small.session import train_small
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
