"""The Python API: any iterable of texts, any torch defaults, copies of a Translator."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from core.config import DecodeConfig
from core.experiments.head_effects import head_effects
from core.record.edits import Edits
from core.translator import Translator
from tests.small import refused

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


def test_any_iterable_is_translated_in_order(translator, texts, tmp_path):
    assert len(set(texts)) == 3
    for kind, given in sequences(SOURCES, tmp_path).items():
        assert [one.text for one in translator.translate(given)] == texts, kind
    for given in sequences(SOURCES, tmp_path).values():
        assert translator.count_tokens(given) == translator.count_tokens(SOURCES)


def test_targets_are_paired_by_position_not_label(translator, tmp_path):
    expected = [translator.inspect(*pair).log_prob for pair in zip(SOURCES, TARGETS, strict=True)]
    sources, targets = sequences(SOURCES, tmp_path), sequences(TARGETS, tmp_path)
    for kind in sources:
        if kind == "open file":  # both would be the same file
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
        (["Ein Hund.", float("nan")], "text 2 must be a string, not NaN, which pandas uses"),
        ([b"Ein Hund."], "text 1 must be a string, not bytes"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_arguments_are_rejected_with_one_line(translator, texts, line):
    with refused(line, TypeError):
        translator.translate(texts)
    for call in (translator.inspect, translator.inspect_many):
        with pytest.raises(TypeError, match=line):
            call(texts)


def test_one_text_gives_a_value_and_several_give_a_list(translator, texts):
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


def test_beam_is_a_shorthand_for_a_decode_config(translator):
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
    with pytest.raises(ValueError, match="beam is 17, not a whole number from 1 to 16"):
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
def test_an_unknown_device_is_rejected(device):
    with pytest.raises(ValueError, match="unknown device .*: choose auto"):
        Translator.load(FOLDER, device=device)


def test_a_translator_can_be_copied_and_pickled(translator, texts):
    for one, again in (
        (translator, copy.deepcopy),
        (translator.other_implementation(), lambda t: pickle.loads(pickle.dumps(t))),
    ):
        other = again(one)
        assert other.card == one.card and other is not one
        assert [t.text for t in other.translate(SOURCES)] == texts


def answers(before: Callable = nullcontext, after: Callable = nullcontext) -> str:
    """Return what a Translator computes when torch settings change before or after loading."""
    with ExitStack() as stack:
        stack.enter_context(before())
        translator = Translator.load(FOLDER, device="cpu")
        stack.enter_context(after())
        record = translator.inspect("Ein Hund läuft.")
        assert all(check.passed for check in record.checks)
        (many,) = translator.inspect_many(["Ein Hund läuft."])
        (translation,) = translator.translate(["Ein Hund läuft."])
        tree = translator.search_tree("Ein Hund läuft.")
        other = translator.other_implementation().inspect("Ein Hund läuft.")
        change = head_effects(translator, record).ranked()[0].change
    (text,) = {r.translation for r in (record, many, other)} | {translation.text, tree.texts[0]}
    return f"{text} {record.log_prob:.3f} {other.log_prob:.3f} {change:.3f}"


@contextmanager
def other_defaults() -> Generator[None]:
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)


@contextmanager
def other_modes() -> Generator[None]:
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        yield


def test_torch_settings_change_no_result():
    expected = answers()
    for before, after in (
        (other_defaults, nullcontext),
        (nullcontext, other_defaults),
        (nullcontext, other_modes),
    ):
        assert answers(before, after) == expected
