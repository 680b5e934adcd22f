"""Folders that cannot be converted, and hostile ones, are refused in one true line."""

import json
import os
import pickle  # only to write files that must be refused
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from core.foreign.importing import import_network
from tests.core import saved_folders as s
from tests.core.seed_networks import Seed, make_seed
from tests.core.strange_folders import NOT_FILES

TABLE = "model.encoder.embed_positions.weight"
LAYER = "model.encoder.layers.0"


SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "end -1": ({"eos_token_id": -1}, "the end id -1 is not in the vocabulary of"),
    "start too large": ({"decoder_start_token_id": 10**6}, "the start id 1000000 is not in the"),
    "end 2**70": ({"eos_token_id": 2**70}, "eos_token_id is 1180591620717411303424, not a whole"),
    "pad is end": ({"pad_token_id": 0}, "pad and end are both id 0"),
    "start is <unk>": ({"decoder_start_token_id": 1}, "start and unknown are both id 1"),
    "end is a word": (
        {"eos_token_id": 9},
        "the end id 9 is '.+', a piece that its source model finds",
    ),
    "classes are objects": (
        {"model_type": None, "architectures": [{}]},
        "names neither a model_type nor an architecture of marian",
    ),
    "model_type is a list": ({"model_type": ["marian"]}, "is of a .* network, not --from"),
    "another class": (
        {"model_type": ..., "architectures": ["PegasusForConditionalGeneration"]},
        "'pegasus' network, not --from marian: use --from pegasus",
    ),
    "a class with a known reason": ({"model_type": "led"}, "its encoder attends to a part"),
    "a class of an unknown type": ({"model_type": "x"}, "of a 'x' network.*cannot be converted"),
    "a flag is null": ({"scale_embedding": None}, "scale_embedding is None, not true or false"),
    "an unknown flag": ({"embedding_norm_scale": 2}, "sets embedding_norm_scale to 2, which"),
    "a norm of the embeddings": ({"normalize_embedding": True}, "sets normalize_embedding to True"),
    "pruned heads": ({"pruned_heads": {"0": [1]}}, r"sets pruned_heads to .*: only \{\}"),
    "a control character": ({"\x1b[31mred": 1}, "which this converter does not know"),
    "gelu": ({"activation_function": "tanh"}, "is .tanh., which cannot be .* only relu, silu"),
    "the other activation": (
        {"activation_function": "relu"},
        "first in the encoder attention of layer 2",
    ),
    "no scale": ({"scale_embedding": False}, "first in the encoder attention of layer 1"),
    "width 2**40": ({"d_model": 2**40}, "config.json: d_model is 1099511627776, not"),
    "odd width": ({"d_model": 15}, "config.json: num_heads 2 must divide d_model 15"),
    "a class of another family": ({"model_type": "m2m_100"}, "use --from m2m100"),
    "other heads": ({"decoder_attention_heads": 3}, "decoder_heads 3 must divide d_model 16"),
    "other feed-forward": ({"decoder_ffn_dim": 8}, r"fc1.weight is \[24, 16\], not \[8, 16\]"),
    "a million layers": ({"decoder_layers": 10**6}, "num_decoder_layers is 1000000, not"),
    "more layers": ({"encoder_layers": 3}, r"lacks model\.encoder\.layers\.2\."),
    "fewer layers": ({"encoder_layers": 1}, r"model\.encoder\.layers\.1\..* is not used"),
    "a wide network": ({"d_model": 16_384}, "has 8,.+ weights, but the limit is"),
    "a million positions": ({"max_position_embeddings": 10**6}, "max_length is 1000000, not"),
    "a smaller table": ({"vocab_size": 20}, "but the network's table has 20 rows"),
    "lm_head missing, untied": ({"tie_word_embeddings": False}, r"lacks lm_head\.weight"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_of_another_network(theirs, case):
    changes, says = SETTINGS[case]
    s.config(**changes)(theirs)
    s.refused(theirs, says)


def table(edit: Callable[[torch.Tensor], torch.Tensor]) -> s.Change:
    """Store the right position table in the file of weights, changed by `edit`."""

    def change(folder: Path) -> None:
        right = torch.from_numpy(np.load(folder / "reference.npz")["positions"]).float()
        s.weights(lambda state: state.update({TABLE: edit(right.clone())}))(folder)

    return change


def one(value: float, place: tuple[int, int] = (63, 0)):
    def edit(values: torch.Tensor) -> torch.Tensor:
        values[place] = value
        return values

    return edit


def model(edit: Callable[[Any], object], name: str = "source.spm") -> s.Change:
    """Change a SentencePiece model through its protocol buffer."""

    def change(folder: Path) -> None:
        from sentencepiece import sentencepiece_model_pb2

        proto = sentencepiece_model_pb2.ModelProto.FromString((folder / name).read_bytes())
        edit(proto)
        (folder / name).write_bytes(proto.SerializeToString())

    return change


def charsmap(content: bytes) -> Callable[[Any], object]:
    return lambda proto: setattr(proto.normalizer_spec, "precompiled_charsmap", content)


def score(value: float) -> Callable[[Any], object]:
    return lambda proto: setattr(proto.pieces[8], "score", value)


def shards(weight_map: object) -> s.Change:
    def change(folder: Path) -> None:
        text = json.dumps({"weight_map": weight_map})
        (folder / "model.safetensors.index.json").write_text(text)

    return change


SHARED = "model.shared.weight"
NAMES = ("config.json", "vocab.json", "source.spm", "model.safetensors", "reference.npz")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


def exchange(first: str, second: str) -> Callable[[dict[str, torch.Tensor]], object]:
    return lambda state: state.update({first: state[second], second: state[first]})


def flipped_rows(name: str) -> s.Change:
    return s.weights(lambda state: state.update({name: state[name].flip(0)}))


def gap(ids: dict[str, int]) -> None:
    ids[next(piece for piece, id in ids.items() if id == 9)] = len(ids) + 5


def trainer(folder: Path) -> None:
    """Leave what transformers' Trainer saved before it used safetensors."""
    state = safetensors.torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"):
        (folder / name).write_bytes(pickle.dumps({"a": 1}))
    (folder / "trainer_state.json").write_text("{}")


FILES: dict[str, tuple[s.Change, str]] = {
    "one NaN in the positions": (table(one(np.nan)), "position 63 differs by nan"),
    "a learned table": (table(torch.randn_like), "is not the table of sines and cosines"),
    "65,537 positions": (
        table(lambda _: torch.zeros(65_537, s.D)),
        "not a table of up to 65,536 positions",
    ),
    "a position table without axes": (
        s.weights(lambda state: state.update({TABLE: torch.tensor(1.0)})),
        r"is \[0\], not a table",
    ),
    "a huge bias": (
        s.weights(lambda state: state["final_logits_bias"].fill_(1e30)),
        "values beyond ±65,504",
    ),
    "a character map of one byte": (model(charsmap(b"x")), r"source\.spm is damaged: Sentence"),
    "a score that is no number": (model(score(np.nan)), r"source\.spm has a piece whose score"),
    "a piece twice": (
        model(lambda p: setattr(p.pieces[9], "piece", p.pieces[8].piece), "target.spm"),
        r"target\.spm is damaged: SentencePiece",
    ),
    "a shard name of 5,000 characters": (shards({"a": "x" * 5_000}), "lacks the shard x{100},"),
    "a shard without the tensor": (
        shards({"a": "model.safetensors"}),
        "a is not in the shard model.safetensors",
    ),
    "settings that are a list": (s.put("config.json", b"[1]"), r"is \[1\], not an object"),
    "ids of 40 MB": (s.put("vocab.json", b" " * (40 << 20)), "the limit is 33,554,432"),
    "queries and keys exchanged": (
        s.weights(exchange(f"{LAYER}.self_attn.q_proj.weight", f"{LAYER}.self_attn.k_proj.weight")),
        "first in the encoder attention of layer 1: its queries or keys",
    ),
    "a matrix whose rows have another order": (
        flipped_rows(f"{LAYER}.self_attn.out_proj.weight"),
        "first in the encoder attention of layer 2: .* what encoder layer 1 writes: .*output",
    ),
    "the vocabulary shifted by one": (
        s.weights(lambda state: state.update({SHARED: state[SHARED].roll(1, 0)})),
        "first in the encoder attention of layer 1: .*the embeddings",
    ),
    "a bias of the classifier": (
        s.weights(lambda state: state["final_logits_bias"][0, 7].add_(1)),
        "logits, float64 differ .* most for the original's id 7",
    ),
    "no bias at all": (
        s.weights(lambda state: state.pop(f"{LAYER}.fc1.bias")),
        r"lacks model\.encoder\.layers\.0\.fc1\.bias: save the complete state dict",
    ),
    "an extra tensor": (
        s.weights(
            lambda state: state.update({"model.encoder.layernorm_embedding.weight": torch.ones(16)})
        ),
        "layernorm_embedding.weight is not used",
    ),
    "two networks": (
        s.weights(
            lambda state: state.update({f"teacher.{n}": t.clone() for n, t in list(state.items())})
        ),
        "holds two networks, '' and 'teacher.'",
    ),
    "a name that is a piece twice over": (  # without both prefixes, the names would collide
        s.all_of(
            s.prefixed("module."),
            s.weights(lambda state: state.update({"module.x.gate": torch.ones(2)})),
        ),
        "x.gate is not used",
    ),
    "gaps in the ids": (s.vocabulary(gap), "has gaps: no piece has id 9"),
    "an id less": (s.vocabulary(dict.popitem), "pieces, but the network's table has"),
    "no <unk>": (s.vocabulary(lambda ids: ids.update({"unk": ids.pop("<unk>")})), "has no <unk>"),
    "languages": (s.language, "name one with --first"),
    "OPUS' vocab.yml": (
        s.renamed("vocab.json", "opus.spm32k-spm32k.vocab.yml"),
        r"opus.spm32k-spm32k.vocab.yml is in Marian's own format.*convert_marian_to_pytorch",
    ),
    "Marian's own folder": (
        s.all_of(s.drop("model.safetensors"), s.put("decoder.yml"), s.put("opus.npz")),
        r"decoder.yml is in Marian's own format",
    ),
    "target.spm missing": (s.drop("target.spm"), r"target\.spm is missing: give the whole folder"),
    "vocab.json missing": (s.drop("vocab.json"), r"vocab\.json is missing: give the whole folder"),
    "one spiece.model": (
        s.renamed("source.spm", "spiece.model"),
        "networks that summarise",
    ),
    "target.spm empty": (s.put("target.spm", b""), "has 0 pieces"),
    "source.spm of another kind": (
        s.put("source.spm", b"\xff\xff"),
        "is not a SentencePiece model",
    ),
    **{
        f"LFS pointer: {name}": (s.put(name, POINTER), "LFS pointer.*git lfs pull")
        for name in NAMES
    },
    "a web page": (s.put("config.json", b"<!DOCTYPE html><html>"), "is a web page: download"),
    "a Trainer's folder": (
        trainer,
        r"pytorch_model\.bin is a pickle.*write model\.safetensors into this folder.*"
        r'load\("pytorch_model\.bin"',
    ),
    "a pickle named model.safetensors": (
        s.all_of(trainer, s.renamed("pytorch_model.bin", "model.safetensors")),
        r"model\.safetensors is a pickle.*put the new file into its place",
    ),
    "a Trainer's folder without weights": (
        s.all_of(trainer, s.drop("pytorch_model.bin")),
        r"has no model\.safetensors: save the network again",
    ),
    "a checkpoint beside an optimiser": (
        s.all_of(trainer, s.renamed("pytorch_model.bin", "weights.ckpt")),
        r"weights\.ckpt is a pickle",
    ),
    "a Trainer's parent folder": (
        s.all_of(
            s.drop("model.safetensors"),
            lambda folder: [(folder / f"checkpoint-{n}").mkdir() for n in (500, 1000)],
        ),
        "give one, such as checkpoint-1000",
    ),
    "shards of pickles": (
        s.all_of(s.drop("model.safetensors"), s.put("pytorch_model.bin.index.json")),
        "holds shards of pickles.*save_pretrained",
    ),
    "an adapter": (
        s.all_of(s.drop("model.safetensors"), s.put("adapter_model.safetensors")),
        "holds an adapter only: merge it",
    ),
    "weights for Rust": (
        s.all_of(s.drop("model.safetensors"), s.put("rust_model.ot")),
        "holds weights for Rust only",
    ),
    "another name": (
        s.renamed("model.safetensors", "net.safetensors"),
        r"no model\.safetensors, but net\.safetensors: .*rename it",
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_files_of_another_network(theirs, case):
    change, says = FILES[case]
    change(theirs)
    s.refused(theirs, says)


@pytest.mark.parametrize("kind", [kind for kind in NOT_FILES if kind != "link"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_file(theirs, name, kind):
    """Nothing waits for a pipe or reads a device; a link to a file is followed."""
    (theirs / name).unlink()
    NOT_FILES[kind](theirs / name)
    s.refused(
        theirs, "is missing|missing file|not a regular file|Too many levels|No such dev", name
    )


@pytest.mark.parametrize("kind", ["pipe", "socket", "link to a device", "link to nothing"])
def test_a_source_that_is_no_file(tmp_path, kind):
    NOT_FILES[kind](tmp_path / "odd")
    s.refused(tmp_path / "odd", "cannot be read|missing file", "odd", reference=False)


def test_a_source_of_one_file(theirs):
    with pytest.raises(ValueError, match="is one file, but --from marian needs a folder"):
        s.convert(theirs / "model.safetensors", reference=False)


def at(name: str, place: tuple[int, ...] | slice, value: float) -> s.Change:
    return s.arrays(lambda values: values[name].__setitem__(place, value))


def only(name: str, part: object) -> s.Change:
    return s.arrays(lambda values: values.update({name: values[name][part]}))  # ty: ignore


def every_pass(of: Callable[[np.ndarray, str], np.ndarray]) -> s.Change:
    return s.arrays(lambda values: values.update({n: of(a, n) for n, a in values.items()}))


def first_token_only(values: np.ndarray, name: str) -> np.ndarray:
    """Keep one token of each sentence, so that every attention weight is 1."""
    kind = name.partition("_")[0]
    if kind in ("source", "target", "logits"):
        return values[:, :1]
    return values[..., :1, :1] if kind in ("encoder", "decoder", "cross") else values


REFERENCES: dict[str, tuple[s.Change, str]] = {
    "greedy ids of 2**62": (at("greedy_64", (3, 2), 2**62), "greedy_64 holds the id 4611686018"),
    "negative greedy ids": (at("greedy_64", (0, 1), -1), "greedy_64 holds the id -1"),
    "fewer greedy rows": (only("greedy_64", slice(3)), r"greedy_64 is \(3, 15\), not \(8"),
    "a negative source id": (at("source", (5, 1), -1), "source holds id -1"),
    "infinite logits": (at("logits_32", (1, 1, 1), np.inf), "logits_32 holds numbers that are not"),
    "NaN positions": (at("positions", (9, 3), np.nan), "positions hold numbers that are not"),
    "narrow positions": (only("positions", (slice(None), slice(8))), r"positions are \(64, 8\)"),
    "no sentences": (
        every_pass(lambda values, name: values[:, :0] if values.ndim == 5 else values[:0]),
        "hold 0 and 0 sentences",
    ),
    "one token a sentence": (
        every_pass(first_token_only),
        "have 1 and 1 columns: at least 2 must be compared",
    ),
    "padding only": (
        s.arrays(lambda v: v["source"].__setitem__(slice(None), v["target"][0, 0])),
        "padding only, so nothing would be compared",
    ),
    "more targets than sources": (only("target", slice(5)), "hold 8 and 5 sentences"),
    "a line of 3,000,000 characters": (
        s.tokens(lambda t: t["lines"].__setitem__(0, "x" * 3_000_000)),
        "the longest of 3,000,000 characters: the limit is 2,000 lines of 4,096",
    ),
    "fewer ids than lines": (s.tokens(lambda t: t["ids"].pop()), r"lines, but \d+ lists of ids"),
    "no tokens": (s.arrays(lambda v: v.pop("tokens")), "tokens is missing"),
}


@pytest.mark.parametrize("case", REFERENCES)
def test_hostile_references(theirs, case):
    change, says = REFERENCES[case]
    change(theirs)
    s.refused(theirs, says, "")


@pytest.fixture(scope="module")
def seed(tmp_path_factory) -> Seed:
    return make_seed("friendshipkim", tmp_path_factory.mktemp("seed"))


def lists(text: str) -> Callable[[Path], object]:
    return lambda file: file.write_text(text)


WORDS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "a pipe": ("words", os.mkfifo, "not a regular file"),
    "a training text that is a pipe": ("words_from", os.mkfifo, "not a regular file"),
    "a missing file": ("words", lambda f: f, "is missing"),
    "a training line of 3,000,000 characters": (
        "words_from",
        lists("ein Mann\n" + "x" * 3_000_000),
        "line 2 has more than 100,000 bytes",
    ),
    "a word of 600 characters": ("words", lists("x" * 600 + "\n"), "which cannot be a word"),
    "an empty word": ("words", lists("a\n\nb\n"), "which cannot be a word"),
    "a word twice": ("words", lists("a\nb\na\n"), "'a' twice: every word needs one id"),
    "a pointer": ("words", lists("version https://git-lfs.github.com/spec/v1\n"), "git lfs pull"),
}


@pytest.mark.parametrize("case", WORDS)
def test_hostile_word_lists(seed, case, tmp_path):
    option, make, says = WORDS[case]
    make(tmp_path / "odd.de")
    good = seed.options().words_from[1]
    given = {"words": (), "words_from": ()} | {option: (tmp_path / "odd.de", good)}
    # The table has as many rows as the list has words, so that the words themselves are checked.
    count = {"an empty word": 3, "a word twice": 3}.get(case, 1)
    state = seed.network.state_dict()
    state["src_tok_emb.embedding.weight"] = torch.zeros(4 + count, 16)
    source = seed.save(state, tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match=says) as error:
        import_network(seed.family, source, tmp_path / "x-de-en", seed.options(**given))
    assert "odd.de" in str(error.value) and str(error.value).isprintable()


def test_the_hostile_folders_are_good_without_their_changes(theirs):
    table(lambda right: right)(theirs)
    assert s.convert(theirs).imported.passed
