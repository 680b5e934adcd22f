"""Callers in Python: any sequence of texts, any defaults of torch, copies of a Translator."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from core.checkpoint.folder import load
from core.config import DecodeConfig
from core.record.edits import Edits
from core.translator import Translator

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "checkpoints/captions-de-en"
SOURCES = ["Ein Hund läuft.", "Eine Katze schläft.", "Ein Kind lacht."]
TARGETS = ["A dog runs.", "A cat sleeps.", "A child laughs."]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(FOLDER, device="cpu")


@pytest.fixture(scope="module")
def texts(translator) -> list[str]:
    return [one.text for one in translator.translate(SOURCES)]


def sequences(texts: list[str], tmp_path: Path) -> dict[str, object]:
    file = tmp_path / "texts"
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return {
        "tuple": tuple(texts),
        "generator": (text for text in texts),
        "map": map(str.strip, texts),
        "array": np.array(texts),
        "objects": np.array(texts, dtype=object),
        "series": pd.Series(texts, index=[7, 0, 1]),
        "labels out of order": pd.Series(texts, index=[2, 1, 0]),
        "open file": file.open(encoding="utf-8"),
    }


def test_every_sequence_is_translated_in_its_order(translator, texts, tmp_path):
    assert len(set(texts)) == 3
    for kind, given in sequences(SOURCES, tmp_path).items():
        assert [one.text for one in translator.translate(given)] == texts, kind
    for given in sequences(SOURCES, tmp_path).values():
        assert translator.count_tokens(given) == translator.count_tokens(SOURCES)


def test_targets_are_paired_by_order_and_not_by_label(translator, tmp_path):
    expected = [translator.inspect(*pair).log_prob for pair in zip(SOURCES, TARGETS, strict=True)]
    sources, targets = sequences(SOURCES, tmp_path), sequences(TARGETS, tmp_path)
    for kind in sources:
        if kind == "open file":  # both would be the one file
            continue
        records = translator.inspect_many(sources[kind], targets[kind])
        assert [r.source_text for r in records] == SOURCES, kind
        assert [r.log_prob for r in records] == pytest.approx(expected, abs=1e-4), kind
    frame = pd.DataFrame({"de": SOURCES, "en": TARGETS}).sort_values("de", ascending=False)
    records = translator.inspect_many(frame.de, frame.en)
    found = {r.source_text: r.log_prob for r in records}
    assert found == pytest.approx(dict(zip(SOURCES, expected, strict=True)), abs=1e-4)
    with pytest.raises(ValueError, match="3 sources and 2 targets"):
        translator.inspect_many(iter(SOURCES), iter(TARGETS[:2]))


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        (None, "takes a list of texts, not None"),
        (b"Ein Hund.", "not bytes: decode them first"),
        (5, "not a value of type int"),
        ({"de": "Ein Hund."}, "choose one of its columns"),
        (pd.DataFrame({"de": SOURCES}), "choose one of its columns"),
        ({"Ein Hund.", "Eine Katze."}, "not a value of type set"),
        (["Ein Hund.", None], "text 2 must be a string, not None"),
        (["Ein Hund.", float("nan")], "text 2 must be a string, not NaN, which pandas puts"),
        ([b"Ein Hund."], "text 1 must be a string, not bytes"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_list_of_texts_is_refused_in_one_line(translator, texts, line):
    with pytest.raises(TypeError, match=line) as caught:
        translator.translate(texts)
    assert "\n" not in str(caught.value)
    for call in (translator.inspect, translator.inspect_many):
        with pytest.raises(TypeError, match=line):
            call(texts)


def test_one_text_or_several(translator, texts):
    """One text gives one value, an iterable of texts a list."""
    assert translator.translate(SOURCES[0]).text == texts[0]
    assert translator.inspect(SOURCES[0]).translation == texts[0]
    assert translator.inspect(SOURCES) == translator.inspect_many(SOURCES)
    (given,) = translator.inspect(SOURCES[:1], TARGETS[:1])
    assert given.translation == TARGETS[0]
    with pytest.raises(TypeError, match="put a single one in brackets"):
        translator.inspect_many(SOURCES[0])
    with pytest.raises(TypeError, match="target_ids go with one source"):
        translator.inspect(SOURCES, target_ids=(5, 2))
    edits = Edits(heads_off={("cross", 0, 0)})
    edited = translator.inspect(SOURCES, edits=edits)
    assert edited == [translator.inspect(text, edits=edits) for text in SOURCES]


def test_a_beam_is_short_for_its_settings(translator):
    for beam in (1, 3):
        decode = DecodeConfig(beam=beam)
        assert translator.translate(SOURCES, beam=beam) == translator.translate(SOURCES, decode)
        assert translator.inspect(SOURCES[0], beam=beam).decode == decode
    assert translator.inspect(SOURCES[0]).decode == DecodeConfig()
    for wrong, line in (
        ({"decode": 5}, "decode must be a DecodeConfig, not int: write beam=5"),
        ({"decode": DecodeConfig(), "beam": 5}, "both given"),
    ):
        for call in (translator.translate, translator.inspect, translator.inspect_many):
            with pytest.raises(TypeError, match=line):
                call(SOURCES, **wrong)
    with pytest.raises(ValueError, match="beam 17 is out of range"):
        translator.translate(SOURCES, beam=17)


def test_edits_of_another_form_are_refused_in_one_line(translator):
    with pytest.raises(TypeError, match="Edits.parse returns .edits, problems., pass the first"):
        translator.inspect(SOURCES[0], edits=Edits.parse("off.cross.0.1"))
    with pytest.raises(ValueError, match=r"write heads_off={\('cross', 0, 1\)}"):
        Edits(heads_off=("cross", 0, 1))
    for wrong in (["cross"], [("cross", 0)], [("self", 0, 0)], [("cross", "0", 0)], [None]):
        with pytest.raises(ValueError, match="is not a head: give .kind, layer, head."):
            Edits(heads_off=wrong)


@pytest.mark.parametrize("text", [None, b"Ein Hund.", 5, float("nan"), ["Ein Hund."]])
def test_one_sentence_must_be_a_string(translator, text):
    with pytest.raises(TypeError, match="source must be a string, not"):
        translator.search_tree(text)
    if text is not None:
        with pytest.raises(TypeError, match="target must be a string, not"):
            translator.inspect("Ein Hund.", text)


@pytest.mark.parametrize("device", [0, None, "gpu"])
def test_an_unknown_device_is_named(device):
    with pytest.raises(ValueError, match="unknown device .*: choose auto"):
        Translator.load(FOLDER, device=device)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_a_translator_is_copied_by_its_folder(translator, texts, again):
    for one in (translator, translator.other_implementation()):
        other = again(one)
        assert other.card == one.card and other is not one
        assert [t.text for t in other.translate(SOURCES)] == texts


def test_a_folder_may_be_a_string():
    assert load(str(FOLDER)).card == load(FOLDER).card


SETTINGS = {
    "device after": ("", "torch.set_default_device('meta')"),
    "device before": ("torch.set_default_device('meta')", ""),
    "type before": ("torch.set_default_dtype(torch.float64)", ""),
    "type after": ("", "torch.set_default_dtype(torch.float64)"),
    "autocast": ("", "torch.autocast('cpu', dtype=torch.bfloat16).__enter__()"),
    "inference": ("", "torch.inference_mode().__enter__()"),
}
SCRIPT = """
import torch
from core.config import DecodeConfig
from core.record.edits import Edits
from core.translator import Translator
from core.config import DecodeConfig
torch.set_num_threads(1)
{before}
t = Translator.load("checkpoints/captions-de-en", device="cpu")
{after}
r = t.inspect("Ein Hund läuft.")
assert all(c.passed for c in r.checks), [c.name for c in r.checks if not c.passed]
(many,) = t.inspect_many(["Ein Hund läuft."])
tree = t.search_tree("Ein Hund läuft.")
twin = t.other_implementation().inspect("Ein Hund läuft.")
print(r.translation, t.translate(["Ein Hund läuft."])[0].text, many.translation, tree.texts[0],
      twin.translation, sep="|")
print(f"{{r.log_prob:.3f}} {{twin.log_prob:.3f}}")
from core.experiments.head_effects import head_effects
print(f"{{head_effects(t, r).ranked()[0].change:.3f}}")
"""


@pytest.fixture(scope="module")
def usual() -> str:
    return run_with("", "")


def run_with(before: str, after: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(before=before, after=after)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("setting", SETTINGS)
def test_torchs_own_defaults_change_nothing(setting, usual):
    """A segmentation fault, another type's numbers or half the digits would show here."""
    assert run_with(*SETTINGS[setting]) == usual
    assert usual.count("|") == 4 and len(set(usual.split("\n")[0].split("|"))) == 1
