"""Hostile folders and references: each is refused in one true line that names the file."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from core.foreign.family import Options
from core.foreign.importing import import_network
from tests.core.saved_folders import (
    Change,
    D,
    all_of,
    arrays,
    config,
    prefixed,
    put,
    tokens,
    weights,
    write,
)
from tests.core.seed_networks import Seed, make_seed
from tests.core.strange_folders import NOT_FILES

TABLE = "model.encoder.embed_positions.weight"


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "opus"
    write(folder, "marian", "swish")
    return folder


@pytest.fixture
def folder(original, tmp_path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "theirs"))


def refused(folder: Path, says: str, name: str = "theirs") -> None:
    """Convert with the reference, which must fail in one line that names the file or folder."""
    out, options = folder.parent / "x-de-en", Options(languages=("de", "en"))
    with pytest.raises(ValueError, match=says) as error:
        import_network("marian", folder, out, options, folder / "reference.npz")
    text = str(error.value)
    assert name in text and len(text) < 1_500 and text.isprintable()
    assert not list(folder.parent.glob("*de-en*")) + list(folder.parent.glob(".*"))


SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "end -1": ({"eos_token_id": -1}, "the end id -1 is not in the vocabulary of"),
    "end -5": ({"eos_token_id": -5}, "the end id -5 is not in the vocabulary of"),
    "pad -1": ({"pad_token_id": -1}, "the pad id -1 is not in the vocabulary of"),
    "start -44": ({"decoder_start_token_id": -44}, "the start id -44 is not in the vocabulary"),
    "end too large": ({"eos_token_id": 10**6}, "the end id 1000000 is not in the vocabulary"),
    "end 2**70": ({"eos_token_id": 2**70}, "eos_token_id is 1180591620717411303424, not a whole"),
    "pad is end": ({"pad_token_id": 0}, "pad and end are both id 0"),
    "pad is <unk>": ({"pad_token_id": 1}, "pad and unknown are both id 1"),
    "start is end": ({"decoder_start_token_id": 0}, "start and end are both id 0"),
    "start is <unk>": ({"decoder_start_token_id": 1}, "start and unknown are both id 1"),
    "end is <unk>": ({"eos_token_id": 1}, "end and unknown are both id 1"),
    "end is a word": ({"eos_token_id": 9}, "the end id 9 is '.+', a piece that source.spm"),
    "pad is a word": ({"pad_token_id": 8}, "the pad id 8 is '.+', a piece that source.spm"),
    "ids are true": ({"eos_token_id": True}, "eos_token_id is True, not a whole number"),
    "ids are a list": ({"eos_token_id": [0]}, r"eos_token_id is \[0\], not a whole number"),
    "ids are fractions": ({"pad_token_id": 3.0}, "pad_token_id is 3.0, not a whole number"),
    "activation is a list": ({"activation_function": ["x"]}, r"is \['x'\], not one of relu, silu"),
    "model_type is a list": ({"model_type": ["marian"]}, "is of a .* network, not --from"),
    "classes are objects": (
        {"model_type": None, "architectures": [{}]},
        "names neither a model_type nor",
    ),
    "a flag is text": ({"tie_word_embeddings": "no"}, "tie_word_embeddings is 'no', not true or"),
    "a flag is null": ({"scale_embedding": None}, "scale_embedding is None, not true or false"),
    "width 2**40": ({"d_model": 2**40}, "config.json: d_model is 1099511627776, not"),
    "width 0": ({"d_model": 0}, "config.json: d_model is 0, not"),
    "odd width": ({"d_model": 15}, "config.json: num_heads 2 must divide d_model 15"),
    "no layers": ({"encoder_layers": 0}, "config.json: num_encoder_layers is 0, not"),
    "a million layers": ({"decoder_layers": 10**6}, "num_decoder_layers is 1000000, not"),
    "negative layers": ({"decoder_layers": -1}, "num_decoder_layers is -1, not"),
    "a wide network": ({"d_model": 16_384}, "has 8,.+ weights, but the limit is"),
    "no heads": (
        {"encoder_attention_heads": 0, "decoder_attention_heads": 0},
        "config.json: num_heads is 0, not",
    ),
    "a million positions": ({"max_position_embeddings": 10**6}, "max_length is 1000000, not"),
    "decoder_vocab_size as text": (
        {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": "9"},
        "decoder_vocab_size is '9', not a whole number",
    ),
    "a control character": ({"\x1b[31mred": 1}, "which this converter does not know"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_hostile_settings(folder, case):
    changes, says = SETTINGS[case]
    config(**changes)(folder)
    refused(folder, says)


def table(edit: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """Store the right position table in the file of weights, changed by `edit`."""

    def change(folder: Path) -> None:
        right = torch.from_numpy(np.load(folder / "reference.npz")["positions"]).float()
        weights(lambda state: state.update({TABLE: edit(right.clone())}))(folder)

    return change


def one(value: float, place: tuple[int, int] = (63, 0)):
    def edit(values: torch.Tensor) -> torch.Tensor:
        values[place] = value
        return values

    return edit


def sparse(shape: list[int]) -> Change:
    """Add a position table of this shape without writing it: the file has a hole."""

    def change(folder: Path) -> None:
        file = folder / "model.safetensors"
        raw = file.read_bytes()
        end = 8 + int.from_bytes(raw[:8], "little")
        header, size = json.loads(raw[8:end]), len(raw) - end
        more = int(np.prod(shape)) * 4
        header[TABLE] = {"dtype": "F32", "shape": shape, "data_offsets": [size, size + more]}
        text = json.dumps(header).encode()
        file.write_bytes(len(text).to_bytes(8, "little") + text + raw[end:])
        os.truncate(file, 8 + len(text) + size + more)

    return change


def model(edit: Callable[[Any], object], name: str = "source.spm") -> Change:
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


def shards(weight_map: object) -> Change:
    def change(folder: Path) -> None:
        text = json.dumps({"weight_map": weight_map})
        (folder / "model.safetensors.index.json").write_text(text)

    return change


FILES: dict[str, tuple[Change, str]] = {
    "one NaN in the positions": (table(one(np.nan)), "position 63 differs by nan"),
    "NaN in random positions": (
        table(lambda right: one(np.nan)(torch.randn_like(right))),
        "is not the table of sines and cosines",
    ),
    "infinity in the positions": (table(one(np.inf)), "position 63 differs by inf"),
    "a learned table": (table(torch.randn_like), "is not the table of sines and cosines"),
    "positions of 2.2 GB": (sparse([35_000_000, D]), "not a table of up to 65,536 positions"),
    "a wider position table": (sparse([64, D + 1]), r"is \[64, 17\], not a table"),
    "a position table without axes": (
        weights(lambda state: state.update({TABLE: torch.tensor(1.0)})),
        r"is \[0\], not a table",
    ),
    "positions of whole numbers": (
        weights(lambda state: state.update({TABLE: torch.ones(64, D).long()})),
        r"holds whole numbers \(I64\), not weights",
    ),
    "NaN in the embeddings": (
        weights(lambda state: state["model.shared.weight"][3].fill_(torch.nan)),
        "values that are not finite",
    ),
    "a huge bias": (
        weights(lambda state: state["final_logits_bias"].fill_(1e30)),
        "values beyond ±65,504",
    ),
    "layers numbered with gaps": (
        weights(lambda s: s.update({"model.encoder.layers.9.fc1.bias": torch.ones(24)})),
        "layers.9.fc1.bias is not used",
    ),
    "a copy of another shape": (
        weights(lambda state: state.update({"lm_head.weight": torch.ones(3)})),
        "lm_head.weight differs from model.shared.weight",
    ),
    "a character map of one byte": (model(charsmap(b"x")), r"source\.spm is damaged: Sentence"),
    "a character map of no tree": (
        model(charsmap((1 << 20).to_bytes(4, "little") + bytes(2_000))),
        r"source\.spm is damaged|the source vocabulary cannot be used",
    ),
    "a score that is no number": (model(score(np.nan)), r"source\.spm has a piece whose score"),
    "an infinite score": (model(score(-np.inf)), r"source\.spm has a piece whose score"),
    "a piece twice": (
        model(lambda p: setattr(p.pieces[9], "piece", p.pieces[8].piece), "target.spm"),
        r"target\.spm is damaged: SentencePiece",
    ),
    "an index that is a list": (shards([]), r"weight_map is \[\], not an object"),
    "an index of nothing": (shards({}), "lists no weights"),
    "a shard name of 5,000 characters": (shards({"a": "x" * 5_000}), "lacks the shard x{100},"),
    "a shard elsewhere": (shards({"a": "../secret"}), r"lacks the shard \.\./secret"),
    "a shard without the tensor": (
        shards({"a": "model.safetensors"}),
        "a is not in the shard model.safetensors",
    ),
    "settings that are a list": (put("config.json", b"[1]"), r"is \[1\], not an object"),
    "settings nested without end": (put("config.json", b"[" * 60_000), "config.json cannot be"),
    "settings of 1 MB": (put("config.json", b" " * (1 << 20)), "the limit is 65,536"),
    "ids that are a list": (put("vocab.json", b"[1]"), r"is \[1\], not an object"),
    "ids of 40 MB": (put("vocab.json", b" " * (40 << 20)), "the limit is 33,554,432"),
}


@pytest.mark.parametrize("case", FILES)
def test_hostile_files(folder, case):
    change, says = FILES[case]
    change(folder)
    refused(folder, says)


NAMES = ("config.json", "vocab.json", "source.spm", "model.safetensors", "reference.npz")


@pytest.mark.parametrize("kind", [kind for kind in NOT_FILES if kind != "link"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_file(folder, name, kind):
    """Nothing waits for a pipe or reads a device; a link to a file is followed."""
    (folder / name).unlink()
    NOT_FILES[kind](folder / name)
    refused(folder, "is missing|missing file|not a regular file|Too many levels|No such dev", name)


def test_a_source_that_is_no_file(folder):
    for kind in ("pipe", "socket", "link to a device", "link to nothing"):
        odd = folder.parent / kind.replace(" ", "-")
        NOT_FILES[kind](odd)
        options = Options(languages=("de", "en"))
        with pytest.raises(ValueError, match="cannot be read|missing file"):
            import_network("marian", odd, folder.parent / "x-de-en", options)


def at(name: str, place: tuple[int, ...] | slice, value: float) -> Change:
    return arrays(lambda values: values[name].__setitem__(place, value))


def only(name: str, part: object) -> Change:
    return arrays(lambda values: values.update({name: values[name][part]}))  # ty: ignore


def every_pass(of: Callable[[np.ndarray, str], np.ndarray]) -> Change:
    return arrays(lambda values: values.update({n: of(a, n) for n, a in values.items()}))


def first_token_only(values: np.ndarray, name: str) -> np.ndarray:
    """Keep one token of each sentence, so that every attention weight is 1."""
    kind = name.partition("_")[0]
    if kind in ("source", "target", "logits"):
        return values[:, :1]
    return values[..., :1, :1] if kind in ("encoder", "decoder", "cross") else values


REFERENCES: dict[str, tuple[Change, str]] = {
    "greedy ids of 2**62": (at("greedy_64", (3, 2), 2**62), "greedy_64 holds the id 4611686018"),
    "greedy ids of the size": (
        arrays(lambda v: v["greedy_32"].__setitem__((7, 0), v["logits_32"].shape[-1])),
        "greedy_32 holds the id",
    ),
    "negative greedy ids": (at("greedy_64", (0, 1), -1), "greedy_64 holds the id -1"),
    "fewer greedy rows": (only("greedy_64", slice(3)), r"greedy_64 is \(3, 15\), not \(8"),
    "no greedy steps": (
        only("greedy_32", (slice(None), slice(0))),
        r"greedy_32 is \(8, 0\), not \(8",
    ),
    "a source id of the size": (
        arrays(lambda v: v["source"].__setitem__((5, 1), v["logits_32"].shape[-1])),
        "source holds id",
    ),
    "a negative source id": (at("source", (5, 1), -1), "source holds id -1"),
    "a negative target id": (at("target", (5, 1), -1), "target holds id -1"),
    "infinite logits": (at("logits_32", (1, 1, 1), np.inf), "logits_32 holds numbers that are not"),
    "NaN logits": (at("logits_64", (7, 9, 3), np.nan), "logits_64 holds numbers that are not"),
    "NaN maps": (at("cross_64", (2, 7, 1, 1, 0), np.nan), "cross_64 holds numbers that are not"),
    "NaN positions": (at("positions", (9, 3), np.nan), "positions hold numbers that are not"),
    "no positions": (only("positions", slice(0)), r"positions are \(0, 16\), not 1 to"),
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
        arrays(lambda v: v["source"].__setitem__(slice(None), v["target"][0, 0])),
        "padding only, so nothing would be compared",
    ),
    "targets of padding only": (
        arrays(lambda v: v["target"].__setitem__(slice(None), v["target"][0, 0])),
        "padding only, so nothing would be compared",
    ),
    "more targets than sources": (only("target", slice(5)), "hold 8 and 5 sentences"),
    "a line of 3,000,000 characters": (
        tokens(lambda t: t["lines"].__setitem__(0, "x" * 3_000_000)),
        "the longest of 3,000,000 characters: the limit is 2,000 lines of 4,096",
    ),
    "100,000 lines": (
        tokens(lambda t: t.update({"lines": ["a"] * 100_000, "ids": [[1]] * 100_000})),
        "tokens hold 100,000 lines",
    ),
    "fractions as ids": (tokens(lambda t: t["ids"][0].append(1.5)), r"ids\.0\.\d+ is 1\.5, not"),
    "fewer ids than lines": (tokens(lambda t: t["ids"].pop()), r"lines, but \d+ lists of ids"),
    "no tokens": (arrays(lambda v: v.pop("tokens")), "tokens is missing"),
}


@pytest.mark.parametrize("case", REFERENCES)
def test_hostile_references(folder, case):
    change, says = REFERENCES[case]
    change(folder)
    refused(folder, says, "")


def test_a_name_that_is_a_piece_twice_over_is_no_prefix(folder):
    """A wrapped network whose prefix is removed twice would collide: it is refused by name."""
    all_of(prefixed("module."), weights(lambda s: s.update({"module.x.gate": torch.ones(2)})))(
        folder
    )
    refused(folder, "x.gate is not used")


@pytest.fixture(scope="module")
def seed(tmp_path_factory) -> Seed:
    return make_seed("friendshipkim", tmp_path_factory.mktemp("seed"))


def lists(text: str) -> Callable[[Path], object]:
    return lambda file: file.write_text(text)


WORDS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "a pipe": ("words", os.mkfifo, "not a regular file"),
    "a training text that is a pipe": ("words_from", os.mkfifo, "not a regular file"),
    "a device": ("words", lambda f: f.symlink_to("/dev/zero"), "not a regular file"),
    "a folder": ("words_from", Path.mkdir, "it is a folder, not a regular file"),
    "a missing file": ("words", lambda f: f, "is missing"),
    "a line of 3,000,000 characters": (
        "words",
        lists("x" * 3_000_000),
        "line 1 has more than 100,000 bytes",
    ),
    "a training line of 3,000,000 characters": (
        "words_from",
        lists("ein Mann\n" + "x" * 3_000_000),
        "line 2 has more than 100,000 bytes",
    ),
    "a word of 600 characters": ("words", lists("x" * 600 + "\n"), "which cannot be a word"),
    "a word of 200 control characters": ("words", lists("\x01" * 200 + "\n"), "cannot be a word"),
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


def test_the_hostile_folders_are_good_without_their_changes(folder):
    out = folder.parent / "good-de-en"
    options = Options(languages=("de", "en"))
    table(lambda right: right)(folder)
    assert import_network("marian", folder, out, options, folder / "reference.npz").imported.passed
