"""From text to record: the maps are the search's own, and a record refuses to be wrong."""

import dataclasses

import numpy as np
import pytest
import torch

from core.capture import capture
from core.checkpoint import load
from core.config import DecodeConfig
from core.record import TranslationRecord
from core.replay import replay
from core.text.tokenizer import BOS, EOS
from core.translator import InputError, Translator

SENTENCE = "Zwei junge Männer spielen im Park Fußball."


@pytest.fixture(scope="module")
def translator(checkpoint_folder):
    return Translator.load(checkpoint_folder, device="cpu")


@pytest.fixture(scope="module")
def record(translator):
    return translator.inspect(SENTENCE)


def test_a_record_is_what_was_translated(translator, record):
    (translation,) = translator.translate([SENTENCE])
    assert record.translation == translation.text
    assert record.source_text == SENTENCE
    assert (record.source_language, record.target_language) == ("German", "English")
    assert record.search == "beam 5"
    assert record.source[-1].id == EOS and record.target_in[0].id == BOS
    assert tuple(t.id for t in record.target_out) == record.hypotheses[0].ids
    assert record.log_prob == pytest.approx(record.hypotheses[0].log_prob, abs=1e-3)


def test_maps_have_the_models_layers_and_heads(record):
    S, T = len(record.source), len(record.target_out)
    assert record.encoder.shape == (1, 2, S, S)
    assert record.decoder.shape == (2, 2, T, T)
    assert record.cross.shape == (2, 2, T, S)
    assert record.source_positions.shape == (S, 16)
    assert not record.decoder[:, :, ~record.decoder_mask].any()
    assert np.array_equal(record.decoder_mask, np.tri(T, dtype=bool))


def test_a_row_of_the_replay_is_a_step_of_the_search(checkpoint_folder):
    """Row t of one full pass equals the last row of a pass over the first t+1 tokens."""
    model = load(checkpoint_folder).model
    source, target = [9, 8, 7, 6, EOS], [30, 40, 50, 60, EOS]
    whole = replay(model, source, target)
    for t in range(len(target)):
        with torch.inference_mode(), capture(model) as captured:
            logits = model(torch.tensor([source]), torch.tensor([[BOS, *target[:-1]][: t + 1]]))
        torch.testing.assert_close(whole.cross[:, :, t], captured.maps("cross")[:, 0, :, -1])
        decoder = captured.maps("decoder")[:, 0, :, -1]
        torch.testing.assert_close(whole.decoder[:, :, t, : t + 1], decoder)
        expected = logits[0, -1].log_softmax(-1)[target[t]]
        torch.testing.assert_close(whole.log_probs[t], expected, rtol=1e-5, atol=1e-5)


def test_capturing_changes_nothing_and_leaves_nothing(checkpoint_folder):
    model = load(checkpoint_folder).model
    source, target = torch.tensor([[9, 8, 7, EOS]]), torch.tensor([[BOS, 30, 40]])
    before = model(source, target)
    with pytest.raises(RuntimeError, match="oops"), capture(model) as captured:
        model(source, target)
        raise RuntimeError("oops")
    assert captured.maps("cross").shape == (2, 1, 2, 3, 4)
    assert torch.equal(model(source, target), before)
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())


def test_two_passes_in_one_capture_are_refused(checkpoint_folder):
    model = load(checkpoint_folder).model
    source, target = torch.tensor([[9, EOS]]), torch.tensor([[BOS]])
    with pytest.raises(RuntimeError, match="ran twice"), capture(model):
        model(source, target)
        model(source, target)


def test_alternatives_are_the_likeliest_first(record):
    assert len(record.alternatives) == len(record.target_out)
    for tokens, log_probs in zip(record.alternatives, record.alternative_log_probs, strict=True):
        assert len(tokens) == 5
        assert (np.diff(log_probs) <= 0).all()
    for t, chosen in enumerate(record.target_out):
        ids = [token.id for token in record.alternatives[t]]
        if chosen.id in ids:
            alternative = record.alternative_log_probs[t][ids.index(chosen.id)]
            assert alternative == pytest.approx(record.log_probs[t], abs=1e-5)
        else:
            assert record.log_probs[t] <= record.alternative_log_probs[t][-1]


@pytest.mark.parametrize("text", [SENTENCE, "Ein Hund."])
def test_the_twin_shows_the_same_picture(translator, text):
    ours, theirs = translator.inspect(text), translator.twin().inspect(text)
    assert theirs.translation == ours.translation
    for kind in ("encoder", "decoder", "cross"):
        np.testing.assert_allclose(theirs.maps(kind), ours.maps(kind), rtol=0, atol=1e-5)
    np.testing.assert_allclose(theirs.log_probs, ours.log_probs, rtol=0, atol=1e-4)
    back = translator.twin().twin()
    assert back.inspect(text).id == ours.id


def test_a_given_target_is_shown_instead(translator):
    record = translator.inspect(SENTENCE, target="A dog runs.")
    assert record.translation == "A dog runs."
    assert record.search == "given target" and record.hypotheses == ()
    assert record.target_out[-1].id == EOS


def test_saving_and_loading(record, tmp_path):
    record.save(tmp_path / "record.npz")
    again = TranslationRecord.load(tmp_path / "record.npz")
    assert again.id == record.id
    assert again.source == record.source and again.hypotheses == record.hypotheses
    assert again.checks == record.checks and len(again.checks) == 5
    assert np.array_equal(again.cross, record.cross)
    with np.load(tmp_path / "record.npz", allow_pickle=False) as arrays:
        assert not any(array.dtype.hasobject for array in arrays.values())


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04broken"])
def test_a_file_that_is_no_record_is_refused(tmp_path, content):
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(ValueError, match="not a saved record"):
        TranslationRecord.load(tmp_path / "x.npz")


def test_a_record_cannot_be_changed(record):
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.translation = "something else"
    with pytest.raises(ValueError, match="read-only"):
        record.cross[0, 0, 0, 0] = 1


def test_the_id_names_exactly_one_picture(translator, record):
    assert translator.inspect(SENTENCE).id == record.id
    assert translator.inspect(SENTENCE, decode=DecodeConfig(beam=1)).id != record.id
    weights = record.cross.copy()
    weights[0, 0, 0] = weights[0, 0, 0][::-1]
    assert dataclasses.replace(record, cross=weights).id != record.id
    assert dataclasses.replace(record, checks=()).id == record.id


def spoiled(array: np.ndarray, change) -> np.ndarray:
    array = array.copy()
    change(array)
    return array


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("cross", lambda r: r.cross.swapaxes(2, 3).copy(), "axis"),
        ("cross", lambda r: r.cross.astype(np.float64), "float64"),
        ("cross", lambda r: r.cross * np.float32(0.9), "does not sum to 1"),
        ("encoder", lambda r: r.encoder[:, :1].copy(), "axis H"),
        ("encoder", lambda r: spoiled(r.encoder, lambda a: a.fill(np.nan)), "no probabilities"),
        ("decoder", lambda r: r.decoder[..., ::-1].copy(), "masked cell"),
        ("target_in", lambda r: r.target_out, "moved one place"),
        ("source", lambda r: r.source[1:], "axis S"),
        ("alternatives", lambda r: r.alternatives[1:], "differ in length"),
    ],
)
def test_a_wrong_record_is_refused(translator, name, spoil, message):
    record = translator.inspect(SENTENCE, target="A dog runs.")
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(record, **{name: spoil(record)})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "nothing to translate"),
        ("   \n", "nothing to translate"),
        ("x" * 501, "501 characters are too many: the limit is 500"),
        ("x " * 120, "tokens are too many: the limit is 100"),
    ],
)
def test_bad_input_is_one_line_before_any_work(translator, monkeypatch, text, message):
    monkeypatch.setattr("core.translator.search", None)
    with pytest.raises(InputError, match=message) as caught:
        translator.inspect(text)
    assert "\n" not in str(caught.value)


def test_translating_keeps_order_and_empty_lines(translator):
    texts = ["Ein Hund.", "", SENTENCE, "Eine Frau liest ein Buch."]
    together = translator.translate(texts, batch_tokens=64)
    assert [t.source for t in together] == texts
    assert together[1].text == ""
    assert [t.text for t in together] == [translator.translate([t])[0].text for t in texts]


def test_a_sentence_longer_than_the_positions_is_refused(translator):
    with pytest.raises(InputError, match="sentence 2 has"):
        translator.translate(["Ein Hund.", "x " * 200])


def test_many_threads_see_their_own_maps(translator):
    """Hooks are process-wide: without the lock a capture would hold another thread's maps."""
    from concurrent.futures import ThreadPoolExecutor

    sentences = ["Ein Hund.", SENTENCE, "Eine Frau liest ein Buch.", "Der Mann trägt ein Hemd."]
    alone = {s: translator.inspect(s).id for s in sentences}
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda s: (s, translator.inspect(s).id), sentences * 15))
    assert all(alone[s] == id for s, id in found)
