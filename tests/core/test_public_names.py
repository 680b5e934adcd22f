"""The public names of core: imports, signatures and loading a model by name."""

import inspect
import math
import subprocess
import sys
from pathlib import Path

import pytest

import core
from core.analysis.attribution import Shapley
from core.checkpoint.errors import CheckpointError

ROOT = Path(__file__).parents[2]


EXPERIMENTS = [name for name in core._PUBLIC if core._PUBLIC[name].startswith("core.experiments.")]


def test_every_public_name_exists():
    for name in core.__all__:
        assert getattr(core, name) is not None
    assert {"load", "Edits", "DecodeConfig", "TranslationRecord"} < set(dir(core))
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        core.no_such_name  # noqa: B018


def test_importing_core_does_not_import_torch():
    code = "import core, sys; core.DecodeConfig, core.Edits; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_signatures_match_the_documented_call():
    owned = {"batch_masks", "position_encodings"}  # these take no record
    for name in set(EXPERIMENTS) - owned:
        experiment = getattr(core, name)
        first, second, *rest = inspect.signature(experiment).parameters
        assert first == "translator" and second in ("record", "records", "clean"), name
        assert not {"borrow", "model", "source", "target", "words", "edits"} & set(rest) or (
            name in ("word_choice", "true_change")
        ), name
        assert hasattr(experiment, "steps") == ("on_progress" in rest), name
    signature = inspect.signature(core.shapley)
    assert list(signature.parameters)[2:] == ["exact", "permutations", "seed", "on_progress"]
    assert signature.parameters["permutations"].default == 64
    assert signature.return_annotation is Shapley


def test_a_shipped_model_is_loaded_by_name():
    translator = core.load("captions-de-en", device="cpu")
    assert translator.card.folder == ROOT / "checkpoints/captions-de-en"
    record = translator.inspect("Ein Hund.", beam=1)
    assert core.value_norms(translator, record)["cross"].shape == record.cross.shape
    for wrong in ("no-such-model", "../captions-de-en"):
        with pytest.raises(CheckpointError):
            core.load(wrong)
    with pytest.raises(CheckpointError, match="choose .*captions-de-en, .*scratch-en-de"):
        core.load("no-such-model")


def test_a_record_gives_words_and_entropies_in_bits():
    record = core.load("scratch-de-en", device="cpu").inspect("Ein Brillenputztuch, bitte.", beam=1)
    words = ["".join(record.source[i].text for i in word) for word in record.words("source")]
    assert words == ["Ein", "Brillenputztuch", ",", "bitte", ".", "<eos>"]
    entropy = record.entropy("cross")
    for layer, head, query in ((0, 0, 0), (2, 1, 3)):
        bits = -sum(w * math.log2(w) for w in record.cross[layer, head, query] if w)
        assert entropy[layer, head, query] == pytest.approx(bits, abs=1e-5)
