"""Marian and Pegasus folders, as people have them, are converted with torch's numbers."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from core.checkpoint.folder import load
from core.foreign import importing
from core.foreign.family import Options
from core.foreign.pieces import read_tokenizers
from core.translator import Translator
from tests.core import saved_folders as s


@pytest.mark.parametrize(
    ("family", "untied"), [("marian", False), ("marian", True), ("pegasus", False)]
)
def test_a_saved_network_gives_the_originals_numbers(family, untied, tmp_path):
    """An untied network has three tables, all different: exchanging two shows in its logits."""
    folder = s.write(tmp_path / "theirs", family, untied)
    result = s.convert(folder, family)
    compared = {one.what: one for one in result.imported.compared}
    for what in ("attention maps", "logits", "log-probabilities", "logits of single steps"):
        assert compared[f"{what}, float64"].max_abs_diff < 1e-12
        assert compared[f"{what}, float32"].max_abs_diff < 1e-4
    assert compared["greedy ids, float64"].max_abs_diff == 0
    assert compared["tokens of 200 generated source lines"].passed
    assert compared["tokens of 200 generated target lines"].passed
    assert result.imported.not_proven == ()
    translator = Translator.load(tmp_path / "mine-de-en", "cpu")
    assert translator.card.imported == result.imported
    assert translator.card.model.activation == {"marian": "silu", "pegasus": "relu"}[family]
    record = translator.inspect("Ein Mann läuft </s> im Schnee.", beam=2)
    assert all(check.passed for check in record.checks)
    ids = [token.id for token in record.source]
    assert ids.count(2) == 1 and ids[-1] == 2  # a typed </s> is text
    both = translator.inspect(s.TEXTS["source"][0], s.TEXTS["target"][0])
    other = translator.other_implementation().inspect(s.TEXTS["source"][0], s.TEXTS["target"][0])
    assert np.allclose(both.cross, other.cross, atol=1e-5)


def as_links(folder: Path) -> None:
    """Arrange the folder as Hugging Face's cache does: each file is a link to a blob."""
    blobs = folder.parent / "blobs"
    blobs.mkdir()
    for file in list(folder.iterdir()):
        file.rename(blobs / file.name)
        file.symlink_to(Path("..") / "blobs" / file.name)


def sharded(folder: Path) -> None:
    state = safetensors.torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    index = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(sorted(state))}
    for shard in set(index.values()):
        held = {name: state[name] for name in index if index[name] == shard}
        safetensors.torch.save_file(held, folder / shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


def untied(state) -> None:
    """Store the one table under three names more, as transformers 5 does for an untied network."""
    for name in ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        state[f"{name}.weight"] = state["model.shared.weight"].clone()
    state["model.shared.weight"] = torch.randn_like(state["model.shared.weight"])


copied = s.weights(
    lambda state: state.update({"lm_head.weight": state["model.shared.weight"].clone()})
)
# What the hub's folders of 2020 carry, defaults of `generate` and bookkeeping.
HARMLESS = s.config(
    **{"_num_labels": 3, "add_bias_logits": False, "add_final_layer_norm": False},
    **{"bad_words_ids": [[58100]], "bos_token_id": 0, "classif_dropout": 0.0, "min_length": 0},
    **{"extra_pos_embeddings": 2, "force_bos_token_to_be_generated": False, "prefix": None},
    **{"id2label": {"0": "LABEL_0"}, "init_std": 0.02, "label2id": {"LABEL_0": 0}, "odd": None},
    **{"max_length": 512, "normalize_before": False, "normalize_embedding": False},
    **{"num_beams": 6, "num_hidden_layers": 6, "static_position_embeddings": True},
    **{"do_sample": False, "temperature": 1.0, "repetition_penalty": 1.0, "length_penalty": 1.0},
    **{"no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "suppress_tokens": None},
    **{"begin_suppress_tokens": [], "pruned_heads": {}, "chunk_size_feed_forward": 0},
    **{"tie_encoder_decoder": False, "_commit_hash": "abc", "output_past": True, "dtype": "x"},
    **{"tie_word_embeddings": ..., "is_encoder_decoder": ..., "model_type": ...},
)
CONVERTED: dict[str, tuple[s.Change, tuple[str, ...]]] = {
    "as it was saved": (lambda folder: None, ()),
    "settings that change nothing": (HARMLESS, ()),
    "files for other tools": (
        s.all_of(
            s.put("tf_model.h5"), s.put("rust_model.ot"), s.put("pytorch_model.bin", b"\x80\x02")
        ),
        (),
    ),
    "a folder of links, as in the library's cache": (as_links, ()),
    "two shards": (sharded, ()),
    "float64 weights": (
        s.every(torch.Tensor.double),
        (r"^\d+ tensors were rounded from float64 to float32\.$",),
    ),
    "counters": (
        s.weights(
            lambda state: state.update({"steps": torch.tensor(7), "seen": torch.ones(3) > 0})
        ),
        ("^Whole numbers that are not weights were ignored: seen, steps.$",),
    ),
    "a wrapper's prefix": (
        s.prefixed("module."),
        ("^The prefix 'module.' of the weights' names was removed.$",),
    ),
    "prefixes of three wrappers": (
        s.prefixed("model.module._orig_mod."),
        ("^The prefix 'model.module._orig_mod.' of",),
    ),
    "a copy of its table": (copied, ()),
    "an untied network": (s.all_of(s.weights(untied), s.config(tie_word_embeddings=False)), ()),
    "an untied network that stores one table": (
        s.all_of(copied, s.config(tie_word_embeddings=False)),
        (),
    ),
    "settings of another search": (
        s.config(repetition_penalty=1.2, no_repeat_ngram_size=3, do_sample=False, num_beams=6),
        ("search are not applied here: no_repeat_ngram_size 3, repetition_penalty 1.2.$",),
    ),
}


@pytest.mark.parametrize("case", CONVERTED)
def test_a_folder_is_converted_and_what_was_read_differently_is_said(theirs, case):
    change, notes = CONVERTED[case]
    change(theirs)
    result = s.convert(theirs)
    differences = {one.what: one.max_abs_diff for one in result.imported.compared}
    assert result.imported.passed and differences["logits, float64"] < 1e-12
    assert load(theirs.parent / "mine-de-en").card.model.max_length == s.LENGTH
    card = (theirs.parent / "mine-de-en/MODEL_CARD.md").read_text()
    for sentence, says in zip(result.notes, notes, strict=True):
        assert re.search(says, sentence) and f"\n- {sentence}\n" in card


def test_pieces_of_control_characters_are_shown_by_their_codes(theirs):
    """Joint vocabularies of web text contain such pieces; the tables' rows keep their order."""
    ids = json.loads((theirs / "vocab.json").read_text())
    read = json.loads(np.load(theirs / "reference.npz")["tokens"].tobytes())["ids"]
    free = [id for id in range(4, len(ids) - 1) if all(id not in line for line in read)][:3]
    piece_of = {id: piece for piece, id in ids.items()}
    shown = {
        "▁\x85": "▁white space U+0085",
        "a\x1b[31m": "characters U+0061 U+001B U+005B U+0033 U+0031 U+006D",
        "\u2028": "white space U+2028",
    }
    changed = s.vocabulary(
        lambda v: [v.update({p: v.pop(piece_of[id])}) for id, p in zip(free, shown, strict=True)]
    )
    options, size = Options(languages=("de", "en")), len(ids)
    special = {"pad": size - 1, "start": size - 1, "end": 0}
    _, before = read_tokenizers(theirs, options, (size, size), special, shared=True)
    changed(theirs)
    result = s.convert(theirs)
    tokenizer = load(theirs.parent / "mine-de-en").target_tokenizer
    found = {tokenizer.token(id).piece: id for id in range(tokenizer.size)}
    for id, piece in zip(free, shown.values(), strict=True):
        assert before.tokenizer.token(found[piece]).piece == piece_of[id]
    assert tokenizer.token(found["▁white space U+0085"]).starts_word
    for side, said in zip(("source", "target"), result.imported.not_proven[:2], strict=True):
        assert said.startswith(f"3 pieces of the {side} vocabulary contain control characters")
    typed = tokenizer.encode("a\x1b[31m \x85 \u2028 characters U+0061 white space U+2028")
    assert not {token.id for token in typed} & {found[piece] for piece in shown.values()}


def test_lines_that_are_simplified_first_are_counted(theirs):
    """White space is simplified here for every model, whatever its original does."""
    added = {"lines": "Ein\u00a0Mann läuft", "ids": [1, 1]}
    s.tokens(lambda t: [t[name].append(value) for name, value in added.items()])(theirs)
    result = s.convert(theirs)
    (said,) = result.imported.not_proven
    assert said.startswith("1 of 5 source lines have other tokens than in the original, because")
    assert "tokens of 4 source lines" in {one.what for one in result.imported.compared}


def test_the_language_token_is_the_first_of_every_source(theirs):
    s.language(theirs)
    s.refused(theirs, "check --first", first=">>spa<<")
    code = json.loads((theirs / "vocab.json").read_text())[">>fra<<"]
    s.tokens(lambda t: [ids.insert(0, code) for ids in t["ids"]])(theirs)
    s.convert(theirs, first=">>fra<<")
    tokenizer = load(theirs.parent / "mine-de-en").source_tokenizer
    assert tokenizer.token(tokenizer.first[0]).piece == ">>fra<<"


def test_without_library_and_reference_not_proven_says_so(theirs, monkeypatch):
    def missing(*_: object):
        raise ImportError

    monkeypatch.setattr(importing, "from_library", missing)
    result = s.convert(theirs, reference=False)
    assert "transformers is not installed" in " ".join(result.imported.not_proven)
    assert [one.what for one in result.imported.compared] == [
        f"tokens of 200 generated {side} lines" for side in ("source", "target")
    ]


def test_two_vocabularies_keep_the_sources_piece_with_the_id_of_the_start(tmp_path):
    """The start token is one of the target's: the source's piece with that id can be read."""
    pieces = s.tokenizers(tmp_path)
    (tmp_path / "target_vocab.json").write_text(
        json.dumps({("<s>" if id == 6 else piece): id for piece, id in pieces.items()})
    )
    size = len(pieces)
    ids = {"pad": size - 1, "start": 6, "end": 0}
    options = Options(languages=("de", "en"))
    source, target = read_tokenizers(tmp_path, options, (size, size), ids, shared=False)
    assert target.start == 6 and 6 in source.rows[4:]
    assert len(source.rows) == size + 1 and len(target.rows) == size
