"""What a notebook imports from core: names, signatures, and how a model is found."""

import inspect
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import core
from core.analysis.attribution import Shapley
from core.checkpoint.errors import CheckpointError

ROOT = Path(__file__).parents[2]


EXPERIMENTS = [name for name in core._PUBLIC if core._PUBLIC[name].startswith("core.experiments.")]


def test_every_public_name_is_there():
    for name in core.__all__:
        assert getattr(core, name) is not None
    assert {"load", "Edits", "DecodeConfig", "TranslationRecord"} < set(dir(core))
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        core.no_such_name  # noqa: B018


def test_importing_core_does_not_import_torch():
    code = "import core, sys; core.DecodeConfig, core.Edits; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_signatures_are_those_that_a_caller_uses():
    owned = {"batch_masks", "position_encodings"}  # of a model and rows, not of a record
    for name in set(EXPERIMENTS) - owned:
        experiment = getattr(core, name)
        first, second, *rest = inspect.signature(experiment).parameters
        assert first == "translator" and second in ("record", "records"), name
        assert not {"borrow", "model", "source", "target", "words", "edits"} & set(rest) or (
            name in ("word_choice", "true_change")
        ), name
        assert hasattr(experiment, "steps") == ("on_progress" in rest), name
    signature = inspect.signature(core.shapley)
    assert list(signature.parameters)[2:] == ["exact", "permutations", "seed", "on_progress"]
    assert signature.parameters["permutations"].default == 64
    assert signature.return_annotation is Shapley


def test_a_shipped_model_is_loaded_by_its_name():
    translator = core.load("captions-de-en", device="cpu")
    assert translator.card.folder == ROOT / "checkpoints/captions-de-en"
    record = translator.inspect("Ein Hund.", beam=1)
    assert core.value_norms(translator, record)["cross"].shape == record.cross.shape
    for wrong in ("no-such-model", "../captions-de-en"):
        with pytest.raises(CheckpointError):
            core.load(wrong)
    with pytest.raises(CheckpointError, match="choose .*captions-de-en, .*scratch-en-de"):
        core.load("no-such-model")


def test_attention_is_indexed_as_numpy_is():
    record = core.load("captions-de-en", device="cpu").inspect("Ein Hund läuft.", beam=1)
    attention = record.attention
    assert (attention["cross", 2, 0] == record.cross[2, 0]).all()
    assert (attention("cross", 2, 0) == record.cross[2, 0]).all()
    assert (attention["encoder", -1] == record.encoder[-1]).all()
    assert np.shares_memory(attention["decoder"], record.decoder)
    assert attention["cross", :, 1].shape == record.cross[:, 1].shape
    for wrong in ("crosss", ("cross", 99), ("cross", 0, -99), ("self", 0, 0)):
        with pytest.raises(ValueError, match="unknown kind|cross has no"):
            attention[wrong]
    for call in (record.maps, record.mask, record.entropy):
        with pytest.raises(ValueError, match="unknown kind 'x': choose encoder, decoder or cross"):
            call("x")


def test_words_and_entropies_of_a_record():
    record = core.load("scratch-de-en", device="cpu").inspect("Ein Brillenputztuch, bitte.", beam=1)
    words = ["".join(record.source[i].text for i in word) for word in record.words("source")]
    assert words == ["Ein", "Brillenputztuch", ",", "bitte", ".", "<eos>"]
    entropy = record.entropy("cross")
    for layer, head, query in ((0, 0, 0), (2, 1, 3)):
        bits = -sum(w * math.log2(w) for w in record.cross[layer, head, query] if w)
        assert entropy[layer, head, query] == pytest.approx(bits, abs=1e-5)
    with pytest.raises(ValueError, match="unknown side 'both'"):
        record.words("both")
