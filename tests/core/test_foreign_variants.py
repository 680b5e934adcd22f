"""Marian folders as people have them: converted with the original's numbers, or a true reason."""

import json
import pickle  # only to write files that must be refused
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import sentencepiece
import torch

from core.checkpoint.folder import load
from core.foreign.family import Options
from core.foreign.importing import import_network
from tests.core.saved_folders import (
    LENGTH,
    Change,
    D,
    all_of,
    config,
    drop,
    every,
    halves,
    prefixed,
    put,
    reference,
    renamed,
    vocabulary,
    weights,
    write,
)
from tests.core.saved_folders import tokenizers as write_tokenizers


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "opus"
    write(folder, "marian", "swish")
    return folder


@pytest.fixture
def folder(original, tmp_path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "theirs"))


def convert(folder: Path, reference: Path | None = None):
    options = Options(languages=("de", "en"))
    given = reference or folder / "reference.npz"
    return import_network("marian", folder, folder.parent / "mine-de-en", options, given)


def as_links(folder: Path) -> None:
    """Arrange the folder as Hugging Face's cache does: each file is a link to a blob."""
    blobs = folder.parent / "blobs"
    blobs.mkdir()
    for file in list(folder.iterdir()):
        file.rename(blobs / file.name)
        file.symlink_to(Path("..") / "blobs" / file.name)


def trainer(folder: Path) -> None:
    """Leave what transformers' Trainer saved before it used safetensors."""
    state = safetensors.torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"):
        (folder / name).write_bytes(pickle.dumps({"a": 1}))
    (folder / "trainer_state.json").write_text("{}")


def untied(state) -> None:
    """Store the one table under three names more, as transformers 5 does for an untied network."""
    for name in ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        state[f"{name}.weight"] = state["model.shared.weight"].clone()
    state["model.shared.weight"] = torch.randn_like(state["model.shared.weight"])


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
OLD_HUB = config(  # what the hub's folders of 2020 carry
    **{"_num_labels": 3, "add_bias_logits": False, "add_final_layer_norm": False},
    **{"bad_words_ids": [[58100]], "bos_token_id": 0, "classif_dropout": 0.0},
    **{"extra_pos_embeddings": 2, "force_bos_token_to_be_generated": False},
    **{"id2label": {"0": "LABEL_0"}, "init_std": 0.02, "label2id": {"LABEL_0": 0}},
    **{"max_length": 512, "normalize_before": False, "normalize_embedding": False},
    **{"num_beams": 6, "num_hidden_layers": 6, "static_position_embeddings": True},
)
GENERATE = {
    **{"do_sample": False, "temperature": 1.0, "top_k": 50, "top_p": 1.0, "min_length": 0},
    **{"early_stopping": False, "num_return_sequences": 1, "repetition_penalty": 1.0},
    **{"no_repeat_ngram_size": 0, "diversity_penalty": 0.0, "num_beam_groups": 1},
    **{"output_scores": False, "return_dict_in_generate": False, "length_penalty": 1.0},
    **{"encoder_no_repeat_ngram_size": 0, "remove_invalid_values": False, "typical_p": 1.0},
    **{"renormalize_logits": True, "max_length": 20, "bad_words_ids": None, "prefix": None},
}
CONVERTED: dict[str, Change] = {
    "as it was saved": lambda folder: None,
    "the hub's folder of 2020": OLD_HUB,
    "output_past of transformers 2": config(output_past=True),
    "defaults of generate, transformers 3": config(**GENERATE),
    "suppressed tokens": config(suppress_tokens=None, begin_suppress_tokens=None),
    "pruned_heads": config(pruned_heads={}),
    "problem_type and chunks": config(problem_type=None, chunk_size_feed_forward=0),
    "bookkeeping": config(
        **{"_attn_implementation_autoset": True, "_commit_hash": "abc", "torchscript": False},
        **{"use_bfloat16": False, "finetuning_task": None, "tf_legacy_loss": False},
        **{"tie_encoder_decoder": False, "cross_attention_hidden_size": None},
    ),
    "unknown settings that are null": config(sep_token_id=None, tokenizer_class=None, odd=None),
    "no model_type": config(model_type=...),
    "dtype": config(dtype="float32"),
    "defaults left out": config(tie_word_embeddings=..., is_encoder_decoder=...),
    "files for other tools": all_of(
        put("tf_model.h5"), put("rust_model.ot"), put("pytorch_model.bin", b"\x80\x02")
    ),
    "files of a tokenizer": all_of(
        put("added_tokens.json", b"{}"), put("tokenizer.json", b"{}"), put("README.md")
    ),
    "a folder of links, as in the library's cache": as_links,
    "float64 weights": every(torch.Tensor.double),
    "counters": weights(lambda s: s.update({"steps": torch.tensor(7), "seen": torch.ones(3) > 0})),
    "a wrapper's prefix": prefixed("module."),
    "prefixes of three wrappers": prefixed("model.module._orig_mod."),
    "an untied network": all_of(weights(untied), config(tie_word_embeddings=False)),
    "an untied network that stores one table": all_of(
        weights(lambda s: s.update({"lm_head.weight": s["model.shared.weight"].clone()})),
        config(tie_word_embeddings=False),
    ),
}


@pytest.mark.parametrize("case", CONVERTED)
def test_a_folder_is_converted_with_the_originals_numbers(folder, case):
    CONVERTED[case](folder)
    result = convert(folder)
    differences = {one.what: one.max_abs_diff for one in result.imported.compared}
    assert result.imported.passed and differences["logits, float64"] < 1e-12
    assert load(folder.parent / "mine-de-en").card.model.max_length == LENGTH


REFUSED: dict[str, tuple[Change, str]] = {
    "gelu": (config(activation_function="gelu"), "'gelu': only relu, silu, swish"),
    "no activation": (config(activation_function=...), "activation_function to None: only"),
    "quantised": (config(quantization_config={"bits": 8}), "sets quantization_config to"),
    "pruned heads": (config(pruned_heads={"0": [1]}), r"sets pruned_heads to .*: only \{\}"),
    "neither model_type nor class": (
        config(model_type=..., architectures=None),
        "names neither a model_type nor an architecture of marian",
    ),
    "another class": (
        config(model_type=..., architectures=["PegasusForConditionalGeneration"]),
        "'pegasus' network, not --from marian: use --from pegasus",
    ),
    "a class that is converted by nothing": (
        config(model_type="m2m_100"),
        "'m2m_100' network, not --from marian: its first target token is forced",
    ),
    "a class of a stranger": (config(model_type="x"), "of a 'x' network.*cannot be converted"),
    "vocab.json missing": (drop("vocab.json"), r"vocab\.json is missing: give the whole folder"),
    "OPUS' vocab.yml": (
        renamed("vocab.json", "opus.spm32k-spm32k.vocab.yml"),
        r"opus.spm32k-spm32k.vocab.yml is in Marian's own format.*convert_marian_to_pytorch",
    ),
    "Marian's own folder": (
        all_of(drop("model.safetensors"), put("decoder.yml"), put("opus.npz")),
        r"decoder.yml is in Marian's own format",
    ),
    "source.spm missing": (drop("source.spm"), r"source\.spm is missing: give the whole folder"),
    "target.spm empty": (put("target.spm", b""), "has 0 pieces"),
    "a mark at the start of vocab.json": (
        lambda f: put("vocab.json", b"\xef\xbb\xbf" + (f / "vocab.json").read_bytes())(f),
        "vocab.json cannot be read",
    ),
    "one piece too many": (
        vocabulary(lambda ids: ids.update({"▁extra": len(ids)})),
        "pieces, but the network's table has",
    ),
    "only tokenizer.json": (
        all_of(drop("vocab.json"), drop("source.spm"), put("tokenizer.json", b"{}")),
        "is missing: give the whole folder",
    ),
    "LFS pointer: weights": (put("model.safetensors", POINTER), "LFS pointer.*git lfs pull"),
    "LFS pointer: pieces": (put("source.spm", POINTER), "LFS pointer.*git lfs pull"),
    "LFS pointer: ids": (put("vocab.json", POINTER), "LFS pointer.*git lfs pull"),
    "LFS pointer: settings": (put("config.json", POINTER), "LFS pointer.*git lfs pull"),
    "LFS pointer: reference": (put("reference.npz", POINTER), "LFS pointer.*git lfs pull"),
    "a web page": (put("config.json", b"<!DOCTYPE html><html>"), "is a web page: download"),
    "a Trainer's folder": (
        trainer,
        r"pytorch_model\.bin is a pickle.*write model\.safetensors into this folder.*"
        r'load\("pytorch_model\.bin"',
    ),
    "a pickle of old versions": (
        all_of(drop("model.safetensors"), put("pytorch_model.bin", b"\x80\x02}q\x00.")),
        r"pytorch_model\.bin is a pickle",
    ),
    "a pickle named model.safetensors": (
        all_of(trainer, renamed("pytorch_model.bin", "model.safetensors")),
        r"model\.safetensors is a pickle.*put the new file into its place",
    ),
    "a Trainer's folder without weights": (
        all_of(trainer, drop("pytorch_model.bin")),
        r"has no model\.safetensors: save the network again",
    ),
    "a checkpoint beside an optimiser": (
        all_of(trainer, renamed("pytorch_model.bin", "weights.ckpt")),
        r"weights\.ckpt is a pickle",
    ),
    "a Trainer's parent folder": (
        all_of(
            drop("model.safetensors"),
            lambda folder: [(folder / f"checkpoint-{n}").mkdir() for n in (500, 1000)],
        ),
        "give one, such as checkpoint-1000",
    ),
    "shards of pickles": (
        all_of(drop("model.safetensors"), put("pytorch_model.bin.index.json")),
        "holds shards of pickles.*save_pretrained",
    ),
    "an adapter": (
        all_of(drop("model.safetensors"), put("adapter_model.safetensors")),
        "holds an adapter only: merge it",
    ),
    "weights for Rust, and a reference": (
        all_of(drop("model.safetensors"), put("rust_model.ot")),
        "holds weights for Rust only",
    ),
    "another name": (
        renamed("model.safetensors", "net.safetensors"),
        r"no model\.safetensors, but net\.safetensors: .*rename it",
    ),
    "lm_head missing, untied": (config(tie_word_embeddings=False), r"lacks lm_head\.weight"),
    "other heads per side": (config(decoder_attention_heads=4), "4 differ: such a network"),
    "other feed-forward per side": (config(decoder_ffn_dim=8), "8 differ: such a network"),
    "two networks": (
        weights(lambda s: s.update({f"teacher.{n}": t.clone() for n, t in list(s.items())})),
        "holds two networks, '' and 'teacher.'",
    ),
    "one file": (lambda folder: folder, "is one file, but --from marian needs a folder"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_folder_is_refused_with_a_true_reason(folder, case):
    change, says = REFUSED[case]
    change(folder)
    source = folder / "model.safetensors" if case == "one file" else folder
    with pytest.raises(ValueError, match=says) as error:
        convert(source, folder / "reference.npz")
    text = str(error.value)
    assert "\n" not in text and text.isprintable() and str(folder) in text
    assert not (source.parent / "mine-de-en").exists()


NOTES = {
    "as it was saved": (),
    "float64 weights": (r"^\d+ tensors were rounded from float64 to float32\.$",),
    "counters": ("^Whole numbers that are not weights were ignored: seen, steps.$",),
    "a wrapper's prefix": ("^The prefix 'module.' of the weights' names was removed.$",),
    "prefixes of three wrappers": ("^The prefix 'model.module._orig_mod.' of",),
}


@pytest.mark.parametrize("case", NOTES)
def test_what_was_read_differently_is_said(folder, case):
    CONVERTED[case](folder)
    result = convert(folder)
    assert len(result.notes) == len(NOTES[case])
    card = (folder.parent / "mine-de-en/MODEL_CARD.md").read_text()
    for sentence, says in zip(result.notes, NOTES[case], strict=True):
        assert re.search(says, sentence) and f"\n- {sentence}\n" in card


def test_settings_of_the_originals_search_are_named(folder):
    config(repetition_penalty=1.2, no_repeat_ngram_size=3, do_sample=False, num_beams=6)(folder)
    assert convert(folder).notes == (
        "Settings of the original's search are not applied here: no_repeat_ngram_size 3, "
        "repetition_penalty 1.2.",
    )


def test_an_untied_network_uses_its_three_tables(folder, tmp_path):
    """Each table is another one, so that exchanging two shows in maps or logits."""
    network = write(tmp_path / "other", "marian", "swish")
    torch.manual_seed(3)
    tables = [torch.nn.Parameter(torch.randn_like(network.table) * D**-0.5) for _ in range(3)]

    def forward(source, target):
        dtype = network.bias.dtype
        x, y = (
            table[ids].to(dtype) * D**0.5 + halves().to(dtype)[: ids.shape[1]]
            for table, ids in ((tables[0], source), (tables[1], target))
        )
        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        hidden = source == network.pad
        states = network.core(
            x, y, tgt_mask=future, src_key_padding_mask=hidden, memory_key_padding_mask=hidden
        )
        return states @ tables[2].to(network.bias.dtype).T + network.bias

    network.forward = forward  # ty: ignore[invalid-assignment]
    ids = json.loads((folder / "vocab.json").read_text())
    processor = sentencepiece.SentencePieceProcessor(str(folder / "source.spm"))
    text = "Ein Mann läuft"
    lines = {text: [ids.get(piece, 1) for piece in processor.encode(text, out_type=str)]}
    arrays: dict[str, Any] = dict(reference(network, lines))
    np.savez(folder / "reference.npz", **arrays)
    state = network.saved()
    names = "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"
    for name, table in zip(names, tables, strict=True):
        state[f"{name}.weight"] = table.detach()
    safetensors.torch.save_file(state, folder / "model.safetensors")
    config(tie_word_embeddings=False)(folder)
    result = convert(folder)
    differences = {one.what: one.max_abs_diff for one in result.imported.compared}
    assert result.imported.passed and differences["logits, float64"] < 1e-12


def test_two_vocabularies_keep_the_sources_piece_with_the_id_of_the_start(tmp_path):
    """The start token is one of the target's: the source's piece with that id can be read."""
    from core.foreign.pieces import read_tokenizers

    pieces = write_tokenizers(tmp_path)
    (tmp_path / "target_vocab.json").write_text(
        json.dumps({("<s>" if id == 6 else piece): id for piece, id in pieces.items()})
    )
    size = len(pieces)
    ids = {"pad": size - 1, "start": 6, "end": 0}
    options = Options(languages=("de", "en"))
    source, target = read_tokenizers(tmp_path, options, (size, size), ids, shared=False)
    assert target.start == 6 and 6 in source.rows[4:]
    assert len(source.rows) == size + 1 and len(target.rows) == size


def test_a_killed_conversion_is_not_listed(tmp_path):
    from core.checkpoint.folder import list_cards

    (tmp_path / ".writing-mine-de-en-x/mine-de-en").mkdir(parents=True)
    assert list_cards(tmp_path) == ([], [])
