"""Marian and Pegasus folders are converted, compared with torch's layers, and refused if wrong."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from core.accelerate import kernels
from core.accelerate.library import library
from core.checkpoint.folder import load
from core.foreign import comparison, family, hugging_face, importing
from core.foreign.family import Options
from core.foreign.importing import import_network
from core.translator import Translator
from tests.core.saved_folders import TEXTS, write

FAMILIES = {"marian": "swish", "pegasus": "relu"}


@pytest.fixture(scope="module", params=FAMILIES)
def saved(request, tmp_path_factory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("saved") / f"opus-{request.param}"
    write(folder, request.param, FAMILIES[request.param])
    return request.param, folder


def convert(saved, out: Path, folder: Path | None = None, reference: Path | None = None, **options):
    family, original = saved
    chosen = Options(languages=("de", "en"), **options)
    given = reference or original / "reference.npz"
    return import_network(family, folder or original, out, chosen, given, "OPUS", "CC-BY 4.0")


@pytest.fixture
def copy(saved, tmp_path) -> Path:
    return Path(shutil.copytree(saved[1], tmp_path / "copy"))


def change_weights(folder: Path, change) -> None:
    state = safetensors.torch.load_file(folder / "model.safetensors")
    change(state)
    state = {name: tensor.contiguous() for name, tensor in state.items()}
    safetensors.torch.save_file(state, folder / "model.safetensors")


def change_json(file: Path, change) -> None:
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))


def test_a_saved_network_gives_the_originals_numbers(saved, tmp_path):
    result = convert(saved, tmp_path / "opus-de-en")
    compared = {one.what: one for one in result.imported.compared}
    for what in ("attention maps", "logits", "log-probabilities", "logits of single steps"):
        assert compared[f"{what}, float64"].max_abs_diff < 1e-12
        assert compared[f"{what}, float32"].max_abs_diff < 1e-4
    assert compared["greedy ids, float64"].max_abs_diff == 0
    assert compared["tokens of 200 generated source lines"].passed
    assert compared["tokens of 200 generated target lines"].passed
    assert result.imported.not_proven == ()
    translator = Translator.load(tmp_path / "opus-de-en", "cpu")
    assert translator.card.imported == result.imported
    assert translator.card.model.activation == {"marian": "silu", "pegasus": "relu"}[saved[0]]
    record = translator.inspect("Ein Mann läuft </s> im Schnee.", beam=2)
    assert all(check.passed for check in record.checks)
    ids = [token.id for token in record.source]
    assert ids.count(2) == 1 and ids[-1] == 2  # a typed </s> is text
    both = translator.inspect(TEXTS["source"][0], TEXTS["target"][0])
    other = translator.other_implementation().inspect(TEXTS["source"][0], TEXTS["target"][0])
    assert np.allclose(both.cross, other.cross, atol=1e-5)


def test_converting_twice_writes_equal_files(saved, tmp_path):
    for name in ("a", "b"):
        convert(saved, tmp_path / f"{name}-de-en")
    for file in (tmp_path / "a-de-en").iterdir():
        if file.name != "MODEL_CARD.md":
            assert file.read_bytes() == (tmp_path / "b-de-en" / file.name).read_bytes()
    weights = safetensors.torch.load_file(tmp_path / "a-de-en/model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}


def test_shards_are_read(saved, copy, tmp_path):
    state = safetensors.torch.load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    names = sorted(state)
    shards = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for shard, held in shards.items():
        safetensors.torch.save_file({name: state[name] for name in held}, copy / shard)
    index = {"weight_map": {name: shard for shard, held in shards.items() for name in held}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    convert(saved, tmp_path / "a-de-en", copy)
    convert(saved, tmp_path / "b-de-en")
    same = [(tmp_path / f"{x}-de-en/model.safetensors").read_bytes() for x in "ab"]
    assert same[0] == same[1]
    (copy / "model-2.safetensors").unlink()
    with pytest.raises(ValueError, match=r"lacks the shard model-2\.safetensors"):
        convert(saved, tmp_path / "c-de-en", copy)


def test_a_stored_position_table_is_compared(saved, copy, tmp_path):
    table = torch.from_numpy(np.load(copy / "reference.npz")["positions"]).float()
    name = "model.encoder.embed_positions.weight"
    change_weights(copy, lambda state: state.update({name: table.clone()}))
    convert(saved, tmp_path / "a-de-en", copy)
    change_weights(copy, lambda state: state.update({name: table.roll(1, 0)}))
    with pytest.raises(ValueError, match="embed_positions.* is not the table of sines"):
        convert(saved, tmp_path / "b-de-en", copy)


def test_a_copied_table_must_be_equal(saved, copy, tmp_path):
    change_weights(
        copy, lambda state: state.update({"lm_head.weight": state["model.shared.weight"].clone()})
    )
    convert(saved, tmp_path / "a-de-en", copy)
    change_weights(copy, lambda state: state["lm_head.weight"].mul_(1.5))
    with pytest.raises(ValueError, match="lm_head.weight differs from model.shared.weight"):
        convert(saved, tmp_path / "b-de-en", copy)


def exchange(first: str, second: str):
    def change(state) -> None:
        state[first], state[second] = state[second], state[first]

    return change


LAYER = "model.encoder.layers.0"
WEIGHTS = {
    "queries and keys": (
        exchange(f"{LAYER}.self_attn.q_proj.weight", f"{LAYER}.self_attn.k_proj.weight"),
        "first in the encoder attention of layer 1: its queries or keys",
    ),
    "a matrix whose rows have another order": (
        lambda state: state.update(
            {
                f"{LAYER}.self_attn.out_proj.weight": state[
                    f"{LAYER}.self_attn.out_proj.weight"
                ].flip(0)
            }
        ),
        "first in the encoder attention of layer 2: .* what encoder layer 1 writes: .*output",
    ),
    "a bias of zeros": (
        lambda state: state[f"{LAYER}.fc1.bias"].zero_(),
        "first in the encoder attention of layer 2: .* what encoder layer 1 writes: .*feed-forward",
    ),
    "no bias at all": (
        lambda state: state.pop(f"{LAYER}.fc1.bias"),
        r"lacks model\.encoder\.layers\.0\.fc1\.bias",
    ),
    "a bias of the classifier": (
        lambda state: state["final_logits_bias"][0, 7].add_(1),
        "logits, float64 differ .* most for the original's id 7",
    ),
    "an extra tensor": (
        lambda state: state.update({"model.encoder.layernorm_embedding.weight": torch.ones(16)}),
        "layernorm_embedding.weight is not used",
    ),
    "another shape": (
        lambda state: state.update({f"{LAYER}.fc2.bias": torch.ones(3)}),
        r"fc2.bias is \[3\], not \[16\]",
    ),
    "the vocabulary shifted by one": (
        lambda state: state.update(
            {"model.shared.weight": state["model.shared.weight"].roll(1, 0)}
        ),
        "first in the encoder attention of layer 1: .*the embeddings",
    ),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_weights_of_another_network_are_refused_by_name(saved, copy, tmp_path, case):
    change, says = WEIGHTS[case]
    change_weights(copy, change)
    with pytest.raises(ValueError, match=says) as error:
        convert(saved, tmp_path / "x-de-en", copy)
    assert "\n" not in str(error.value) and not (tmp_path / "x-de-en").exists()


def exchanged(monkeypatch) -> None:
    parts = hugging_face.NAMES.parts
    query, key = (parts[f"self_attention.{part}"] for part in ("query", "key"))
    monkeypatch.setitem(parts, "self_attention.query", key)
    monkeypatch.setitem(parts, "self_attention.key", query)


def not_reordered(monkeypatch) -> None:
    real = family._reordered

    def reordered(name, value, features):
        return value if name.endswith("output.weight") else real(name, value, features)

    monkeypatch.setattr(family, "_reordered", reordered)


def shifted(monkeypatch) -> None:
    real = family._copy_rows

    def copied(parameter, value, vocabulary, bias):
        rows = np.array([*vocabulary.rows[:4], *np.roll(vocabulary.rows[4:], 1)])
        real(parameter, value, replace(vocabulary, rows=rows), bias)

    monkeypatch.setattr(family, "_copy_rows", copied)


def relu_in_steps(monkeypatch) -> None:
    if library() is None:
        pytest.skip("no C compiler")
    monkeypatch.setitem(kernels._ACTIVATIONS, "silu", kernels._ACTIVATIONS["relu"])


def pad_in_softmax(monkeypatch) -> None:
    monkeypatch.setattr(family, "NEVER", 0.0)


def other_start(monkeypatch) -> None:
    real = family.special_rows

    def rows(pad, start, end, unknown, size):
        return real(pad, 5, end, unknown, size)

    monkeypatch.setattr("core.foreign.pieces.special_rows", rows)


def position_offset(monkeypatch) -> None:
    real = comparison.position_formula
    monkeypatch.setattr(comparison, "position_formula", lambda c: np.roll(real(c), -1, axis=0))


CONVERTER_FAULTS = {
    "queries and keys exchanged": (exchanged, "encoder attention of layer 1: its queries or keys"),
    "one matrix not permuted": (
        not_reordered,
        "encoder attention of layer 2: .* what encoder layer 1 writes: .*output projection",
    ),
    "ids shifted by one": (shifted, "encoder attention of layer 1: .*the embeddings"),
    "positions shifted by one": (position_offset, "wrong positions: position 0 .* an offset"),
    "<pad> in the softmax": (pad_in_softmax, "such as <pad>, is left in the softmax"),
    "another start": (other_start, r"wrong start token: .* id \d+, the conversion with id 5"),
    "ReLU in single steps": (
        relu_in_steps,
        "single steps, float32 differ .* one path of the network uses another activation",
    ),
}


@pytest.mark.parametrize("case", CONVERTER_FAULTS)
def test_a_fault_of_the_converter_is_named(saved, tmp_path, monkeypatch, case):
    inject, says = CONVERTER_FAULTS[case]
    if inject is relu_in_steps and FAMILIES[saved[0]] == "relu":
        pytest.skip("this network has ReLU")
    inject(monkeypatch)
    with pytest.raises(ValueError, match=says) as error:
        convert(saved, tmp_path / "x-de-en")
    assert "\n" not in str(error.value) and not (tmp_path / "x-de-en").exists()


def test_a_bias_that_the_converter_drops_is_named(saved, tmp_path, monkeypatch):
    """The dropped tensor is unused, which is an error even if zeros take its place."""
    real = family._fill

    def fill(parameter, name, weights, plan):
        if name == "decoder.1.feed_forward.outer.bias":
            parameter.zero_()
        else:
            real(parameter, name, weights, plan)

    monkeypatch.setattr(family, "_fill", fill)
    with pytest.raises(ValueError, match=r"decoder\.layers\.1\.fc2\.bias is not used"):
        convert(saved, tmp_path / "x-de-en")


SETTINGS = {
    "an unknown flag": ({"embedding_norm_scale": 2}, "sets embedding_norm_scale to 2, which"),
    "a norm of the embeddings": ({"normalize_embedding": True}, "sets normalize_embedding to True"),
    "another activation": ({"activation_function": "gelu"}, "activation_function is 'gelu'"),
    "another family": ({"model_type": "bart"}, "is of a 'bart' network"),
    "other heads": ({"decoder_attention_heads": 4}, "2 and decoder_attention_heads 4 differ"),
    "a width as text": ({"d_model": "16"}, "d_model is '16', not a whole number"),
    "the other activation": (None, "first in the encoder attention of layer 2"),
    "no scale": ({"scale_embedding": False}, "first in the encoder attention of layer 1"),
    "more layers": ({"encoder_layers": 3}, r"lacks model\.encoder\.layers\.2\."),
    "fewer layers": ({"encoder_layers": 1}, r"model\.encoder\.layers\.1\..* is not used"),
    "a wrong start": (
        {"decoder_start_token_id": 5},
        "start id 5 is '.+', a piece that .*finds in texts",
    ),
    "start and end the same": (
        {"decoder_start_token_id": 0},
        "start and end are both id 0",
    ),
    "a smaller table": ({"vocab_size": 20}, "but the network's table has 20 rows"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_of_another_network_are_refused_by_name(saved, copy, tmp_path, case):
    changes, says = SETTINGS[case]
    other = {"swish": "relu", "relu": "swish"}[FAMILIES[saved[0]]]
    changed = changes or {"activation_function": other}
    change_json(copy / "config.json", lambda values: values.update(changed))
    with pytest.raises(ValueError, match=says) as error:
        convert(saved, tmp_path / "x-de-en", copy)
    assert "\n" not in str(error.value) and not (tmp_path / "x-de-en").exists()


def gap(ids) -> None:
    ids[next(piece for piece, id in ids.items() if id == 9)] = len(ids) + 5


VOCABULARIES = {
    "gaps": (gap, "has gaps: no piece has id 9"),
    "too short": (lambda ids: ids.popitem(), "pieces, but the network's table has"),
    "no <unk>": (lambda ids: ids.update({"unk": ids.pop("<unk>")}), "has no <unk>"),
    "ids as text": (lambda ids: ids.update({"</s>": "0"}), "is '0', not a whole number"),
    "languages": (
        lambda ids: ids.update(
            {">>fra<<": ids.pop(next(p for p in ids if ids[p] == len(ids) - 2))}
        ),
        "name one with --first",
    ),
}


@pytest.mark.parametrize("case", VOCABULARIES)
def test_a_bad_vocabulary_is_refused(saved, copy, tmp_path, case):
    change, says = VOCABULARIES[case]
    change_json(copy / "vocab.json", change)
    with pytest.raises(ValueError, match=says):
        convert(saved, tmp_path / "x-de-en", copy)
    assert not (tmp_path / "x-de-en").exists()


def test_pieces_of_control_characters_are_shown_by_their_codes(saved, copy, tmp_path):
    """Joint vocabularies of web text contain such pieces; the tables' rows keep their order."""
    ids = json.loads((copy / "vocab.json").read_text())
    read = json.loads(np.load(copy / "reference.npz")["tokens"].tobytes())["ids"]
    free = [id for id in range(4, len(ids) - 1) if all(id not in line for line in read)][:3]
    piece_of = {id: piece for piece, id in ids.items()}
    for id, piece in zip(free, ("▁\x85", "a\x1b[31m", "\u2028"), strict=True):
        ids[piece] = ids.pop(piece_of[id])
    (copy / "vocab.json").write_text(json.dumps(ids))
    result = convert(saved, tmp_path / "x-de-en", copy)
    tokenizer = load(tmp_path / "x-de-en").target_tokenizer
    convert(saved, tmp_path / "unchanged-de-en")
    unchanged = load(tmp_path / "unchanged-de-en").target_tokenizer
    shown = {tokenizer.token(id).piece: id for id in range(tokenizer.size)}
    expected = (
        "▁white space U+0085",
        "characters U+0061 U+001B U+005B U+0033 U+0031 U+006D",
        "white space U+2028",
    )
    for id, piece in zip(free, expected, strict=True):
        assert unchanged.token(shown[piece]).piece == piece_of[id]
    assert tokenizer.token(shown["▁white space U+0085"]).starts_word
    said = [
        f"3 pieces of the {side} vocabulary contain control characters or line ends: they are "
        "shown by their codes, and no text is encoded as one of them."
        for side in ("source", "target")
    ]
    assert list(result.imported.not_proven[:2]) == said
    typed = tokenizer.encode("a\x1b[31m \x85 \u2028 characters U+0061 white space U+2028")
    assert not {token.id for token in typed} & {shown[piece] for piece in expected}


def test_pieces_in_another_order_are_named(saved, copy, tmp_path):
    def change(ids) -> None:
        first, second = (next(p for p in ids if ids[p] == id) for id in (5, 6))
        ids[first], ids[second] = 6, 5

    change_json(copy / "vocab.json", change)
    with pytest.raises(ValueError, match="tokens of . of 4 source lines differ"):
        convert(saved, tmp_path / "x-de-en", copy)


def test_lines_that_are_simplified_first_are_counted(saved, copy, tmp_path):
    """White space is simplified here for every model, whatever its original does."""
    arrays = dict(np.load(copy / "reference.npz"))
    tokens = json.loads(arrays["tokens"].tobytes())
    tokens["lines"].append("Ein\u00a0Mann läuft")
    tokens["ids"].append([1, 1])
    arrays["tokens"] = np.frombuffer(json.dumps(tokens).encode(), np.uint8)
    np.savez(copy / "reference.npz", **arrays)
    result = convert(saved, tmp_path / "x-de-en", copy, copy / "reference.npz")
    assert result.imported.not_proven == (
        "1 of 5 source lines have other tokens than in the original, because unusual white space, "
        "hyphens or ligatures are simplified here first.",
    )
    assert "tokens of 4 source lines" in {one.what for one in result.imported.compared}


def test_the_language_token_is_the_first_of_every_source(saved, copy, tmp_path):
    change_json(copy / "vocab.json", VOCABULARIES["languages"][0])
    with pytest.raises(ValueError, match="check --first"):
        convert(saved, tmp_path / "x-de-en", copy, first=">>spa<<")
    arrays = dict(np.load(copy / "reference.npz"))
    tokens = json.loads(arrays["tokens"].tobytes())
    code = json.loads((copy / "vocab.json").read_text())[">>fra<<"]
    tokens["ids"] = [[code, *ids] for ids in tokens["ids"]]
    arrays["tokens"] = np.frombuffer(json.dumps(tokens).encode(), np.uint8)
    np.savez(copy / "reference.npz", **arrays)
    convert(saved, tmp_path / "x-de-en", copy, copy / "reference.npz", first=">>fra<<")
    loaded = load(tmp_path / "x-de-en")
    assert loaded.source_tokenizer.token(loaded.source_tokenizer.first[0]).piece == ">>fra<<"


SPM = {
    "not a model": (b"\xff\xff\xff", "is not a SentencePiece model"),
    "empty": (b"", "has 0 pieces"),
}


@pytest.mark.parametrize("case", SPM)
def test_a_bad_sentencepiece_model_is_refused(saved, copy, tmp_path, case):
    content, says = SPM[case]
    (copy / "source.spm").write_bytes(content)
    with pytest.raises(ValueError, match=says):
        convert(saved, tmp_path / "x-de-en", copy)


def test_missing_files_are_named(saved, copy, tmp_path):
    for name in ("vocab.json", "target.spm", "config.json"):
        kept = (copy / name).read_bytes()
        (copy / name).unlink()
        with pytest.raises(
            ValueError, match=f"{re.escape(name)} is missing: give the whole folder"
        ):
            convert(saved, tmp_path / "x-de-en", copy)
        (copy / name).write_bytes(kept)
    (copy / "source.spm").rename(copy / "spiece.model")
    with pytest.raises(ValueError, match="networks that summarise"):
        convert(saved, tmp_path / "x-de-en", copy)


def test_without_library_and_reference_not_proven_says_so(saved, tmp_path, monkeypatch):
    def missing(*_: object):
        raise ImportError

    monkeypatch.setattr(importing, "from_library", missing)
    family, folder = saved
    result = import_network(family, folder, tmp_path / "x-de-en", Options(languages=("de", "en")))
    assert "transformers is not installed" in " ".join(result.imported.not_proven)
    assert [one.what for one in result.imported.compared] == [
        "tokens of 200 generated source lines",
        "tokens of 200 generated target lines",
    ]
