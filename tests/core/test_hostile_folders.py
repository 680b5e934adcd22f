"""Hostile checkpoint folders are rejected with one line, and, if possible, before reading weights.

A case changes a valid folder; the error must contain `says`. `late` cases are detectable only after
reading the weights.
"""

import json
import shutil
from typing import Any, NamedTuple

import pytest
import torch

from core.checkpoint.folder import CheckpointError, list_cards, load
from core.config import ModelConfig
from core.model.shapes import count_parameters, weight_shapes
from core.typed import typed as typed_as
from tests.core import strange_folders as s
from tests.core.strange_folders import CONFIG, TOKENIZER, WEIGHTS, Change

TABLE, NORM = "embeddings.source_table.weight", "encoder_norm.bias"
ESCAPE = "\x1b]0;owned\x07\x1b[2J"
PICKLE = (
    b"\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R."
)
BAD_JSON = {
    "cut": b'{"format": 1, "files": {',
    "a pickle": PICKLE,
    "a byte-order mark": b'\xef\xbb\xbf{"format": 1}',
    "a list": b"[]",
    "a deep list": b"[" * 60_000,
    "a long number": b'{"format": ' + b"1" * 60_000 + b"}",
}


class Case(NamedTuple):
    name: str
    change: Change
    says: str = ""
    late: bool = False


def cases(group: str, table: dict[str, tuple[Change, str]], late: bool = False) -> list[Case]:
    return [Case(f"{group}: {name}", *row, late) for name, row in table.items()]


def kernel_log(folder) -> None:
    (folder / TOKENIZER).unlink()
    (folder / TOKENIZER).symlink_to("/proc/kmsg")
    s.entry(TOKENIZER, bytes=0)(folder)


def file_cases() -> list[Case]:
    found = []
    for name in (CONFIG, WEIGHTS, TOKENIZER):
        found.append(Case(f"{name} is missing", s.removed(name), "is missing"))
        for what, put in s.NOT_FILES.items():
            says = "link" if "link" in what else "regular file"
            found.append(Case(f"{name} is a {what}", s.replaced(name, put), says))
    for name in (WEIGHTS, TOKENIZER):
        found += [
            Case(f"{name} empty", s.edited(name, lambda raw: b""), "0 bytes, expected"),
            Case(f"{name} cut", s.edited(name, lambda raw: raw[:-7]), "expected"),
            Case(f"{name} one byte longer", s.edited(name, lambda raw: raw + b" "), "expected"),
            Case(f"{name} of 1 GB, unlisted", s.sparse(name, 1 << 30, False), "the limit is"),
            Case(f"{name} of 1 GB, listed", s.sparse(name, 1 << 30, True), "the limit is"),
        ]
    too_long = s.edited(CONFIG, lambda raw: raw.ljust((64 << 10) + 1))
    return [
        *found,
        Case("config of 64 KB and a byte", too_long, "the limit is 65,536"),
        Case("config of 1 GB", s.sparse(CONFIG, 1 << 30, False), "the limit is 65,536"),
        Case("tokenizer, a bit", s.flipped(TOKENIZER, 0.5), "SHA-256 differs"),
        Case("weights, a bit", s.flipped(WEIGHTS, 0.9), "SHA-256 differs", late=True),
        Case("a link to the kernel's log", kernel_log, "link"),
    ]


def nested(depth: int) -> list:
    return [nested(depth - 1)] if depth > 1 else []


def patched(old: bytes, new: bytes) -> Change:
    return s.edited(CONFIG, lambda raw: raw.replace(old, new, 1))


CONFIG_JSON: dict[str, tuple[Change, str]] = {
    **{what: (s.content(CONFIG, raw), "") for what, raw in BAD_JSON.items()},
    "nine levels": (s.inside("training", more=nested(8)), "deeper than 8"),
    "a name twice": (patched(b"{", b'{"format": 1,'), "twice"),
    "a NaN": (s.network(layer_norm_eps=float("nan")), "NaN"),
}

TOP_LEVEL: list[tuple[str, str, tuple]] = [
    ("format", "format is", (2,)),
    ("architecture", "architecture", ("lstm",)),
    ("source_language", "a language code", ("f", "DE", "de\n", "français", "x" * 9)),
    ("files", "files are not", ({},)),
    ("tokenizers", "tokenizers.target is missing", ({"source": TOKENIZER},)),
    *(
        ("tokenizers", "files are not", ({"source": TOKENIZER, "target": target},))
        for target in ("another.json", WEIGHTS)
    ),
]
COMPARED = {"what": "logits", "max_abs_diff": 0.5, "limit": 1.0, "passed": True}
FROM = {"family": "marian", "source": "opus-mt", "sha256": "0" * 64}
IMPORTED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("a list of length from 0 to 40", {"compared": [COMPARED] * 41}),
    ("compared.0.max_abs_diff is -1.0", {"compared": [COMPARED | {"max_abs_diff": -1.0}]}),
    ("verdict", {"compared": [COMPARED | {"max_abs_diff": 2.0}]}),
)
BAD_NAMES = (
    *("../model.safetensors", "/etc/passwd", "sub/model.safetensors", "..", ".", "", "x" * 300),
    *("a\0b", "a\nb", ESCAPE, "C:model", "a\\b"),
)
RESERVED = (
    *("config.json", "CONFIG.JSON", "metrics.json", "MODEL_CARD.md", "history.npz", "atlas.npz"),
    *("head_means.safetensors", "Head_Means.safetensors", "state.safetensors"),
    *("snapshot-00000001.safetensors", "model.safetensors.part"),
    *("model-0123456789ab.safetensors", "metrics-0123456789ab.json"),
)


def without_hash(raw: bytes) -> bytes:
    values = json.loads(raw)
    del values["sha256"]
    return json.dumps(values).encode()


def config_cases() -> list[Case]:
    listed = {"bytes": 0, "sha256": "0" * 64}
    return [
        *(
            Case(f"{name} {value!r}"[:60], s.config(**{name: value}), says)
            for name, says, values in TOP_LEVEL
            for value in values
        ),
        *(
            Case(f"recipe {name!r}"[:60], s.inside("training", recipe=name), "recipe")
            for name in ("a b", "", "x" * 201)
        ),
        Case("longest", s.inside("training", longest=[0, 1]), "longest"),
        *(
            Case(f"imported {changes!r}"[:60], s.inside("training", imported=FROM | changes), says)
            for says, changes in IMPORTED
        ),
        Case("imported without a family", s.inside("training", imported={}), "family"),
        Case("a third file", s.inside("files", **{"x.json": listed}), "files are not"),
        *(Case(f"weights called {n!r}"[:60], s.renamed(n), "plain file name") for n in BAD_NAMES),
        *(Case(f"weights called {n!r}", s.renamed(n), "reserved file name") for n in RESERVED),
        Case("a tokenizer called metrics.json", s.renamed("metrics.json", TOKENIZER), "reserved"),
        Case("a tokenizer elsewhere", s.renamed("../tokenizer.json", TOKENIZER), "plain file name"),
        Case("no own hash", s.edited(CONFIG, without_hash), "core.checkpoint.add_checksum"),
        Case("another own hash", s.unsigned("sha256", value="0" * 64), "its own SHA-256"),
        Case("a stale hash", s.unsigned("model", "num_heads", value=4), "its own SHA-256"),
    ]


def consistent(**sizes: Any) -> Change:
    """Change the model's sizes and adapt the number of parameters."""

    def change(folder) -> None:
        values = s.read(folder)
        values["model"] |= sizes
        shapes = weight_shapes("scratch", typed_as(ModelConfig, values["model"]))
        s.write(folder, values | {"parameters": count_parameters(shapes)})

    return change


def vocabularies(size: int) -> dict[str, int]:
    return {"source_vocab_size": size, "target_vocab_size": size}


def layers(encoder: int, decoder: int) -> dict[str, int]:
    return {"num_encoder_layers": encoder, "num_decoder_layers": decoder}


NETWORK: dict[str, tuple[Change, str]] = {
    "60 + 60 layers": (s.network(**layers(60, 60)), "96 together"),
    "5,000 heads": (s.network(d_model=128, num_heads=128, **layers(20, 10)), "the limit is 4,096"),
    "800 million parameters": (
        consistent(d_model=4_000, **vocabularies(200_000)),
        "the limit is 700,000,000",
    ),
    "too many parameters claimed": (s.config(parameters=10**8), "claims 100,000,000 parameters"),
    "too many tensors": (consistent(**layers(46, 50)), "2,041 tensors, the limit is 2,000"),
    "a bias that the file lacks": (consistent(tied_bias=True), "missing or unexpected"),
}


def twice(values: dict[str, Any]) -> bytes:
    """Return a header with a duplicate tensor."""
    return (json.dumps(values)[:-1] + ", " + json.dumps({NORM: values[NORM]})[1:]).encode()


def blank(size: int) -> Change:
    return s.header(lambda values: json.dumps(values).encode() + b" " * size)


def raw_header(raw: bytes) -> Change:
    return s.header(lambda _: raw)


def extra(**values: Any) -> Change:
    """Add entries to the header."""
    return s.header(lambda header: header | values)


def named(name: str) -> Change:
    """Add a tensor with this name."""
    return s.header(lambda values: values | {name: values[NORM]})


def many_tensors(count: int) -> Change:
    tensor = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    return s.header(lambda _: {f"t{i}": tensor for i in range(count)})


def typed(dtype: torch.dtype) -> Change:
    return s.tensors(lambda t: t.update({name: value.to(dtype) for name, value in t.items()}))


HEADER: dict[str, tuple[Change, str]] = {
    "length 0": (s.length(0), "not JSON"),
    "length 2^63": (s.length(1 << 63), "the limit is 1,048,576"),
    "a length beyond its end": (s.length(1_000_000), "it ends after"),
    "2 MB of blanks": (blank(2 << 20), "the limit"),
    "a list": (raw_header(b"[]"), "its header is [], not an object"),
    "UTF-16": (s.header(lambda values: json.dumps(values).encode("utf-16")), "UTF-8"),
    "a tensor twice": (s.header(twice), "twice"),
    "nested metadata": (extra(__metadata__={"a": {}}), "metadata"),
    "2,001 tensors": (many_tensors(2_001), "the limit is 2,000"),
    "items without end": (raw_header(b"[" + b"0," * 500_000 + b"0]"), "the limit is"),
    "no tensor": (raw_header(b"{}"), "missing or unexpected"),
    "a missing tensor": (s.header(lambda v: v.pop(NORM) and None), "missing or unexpected"),
    "a name for a terminal": (named(ESCAPE), "unexpected"),
    "an extra tensor": (s.tensors(lambda t: t.update(extra=torch.zeros(1))), "extra"),
    "another shape": (s.tensors(lambda t: t.update({NORM: torch.zeros(3)})), "is [3], not [8]"),
    "a transposed shape": (s.of(TABLE, shape=[8, 60]), "is [8, 60], not [60, 8]"),
    "an empty dimension": (s.of(NORM, shape=[0], data_offsets=[0, 0]), "shape.0 is"),
    "float64": (typed(torch.float64), ""),
    "two types": (s.tensors(lambda t: t.update({NORM: t[NORM].half()})), "several types"),
    "backward offsets": (s.of(NORM, data_offsets=[32, 0]), "do not match its shape"),
    "an overlap": (s.of(NORM, data_offsets=[0, 32]), "overlap"),
    "a gap": (s.header(lambda v: v, more=b"1234"), "bytes, but the file has"),
    "a pickle": (s.content(WEIGHTS, PICKLE), "header of"),
}

NAN, INF = float("nan"), float("inf")
VALUES: dict[str, tuple[Change, str]] = {
    **{str(value): (s.value(value), "that are not finite") for value in (NAN, -INF)},
    **{str(value): (s.value(value, TABLE), "beyond ±65,504") for value in (7e4, -7e4)},
    "NaN in float16": (s.both(s.value(NAN), typed(torch.float16)), "that are not finite"),
}


def eos_swapped(values: dict[str, Any]) -> None:
    """Swap the ids of <eos> and the last token."""
    vocabulary = values["vocabulary"]
    last = max(vocabulary, key=vocabulary.get)
    vocabulary["<eos>"], vocabulary[last] = vocabulary[last], 2


def one_more(values: dict[str, Any]) -> None:
    values["vocabulary"]["more"] = len(values["vocabulary"])


def merged_eos(values: dict[str, Any]) -> None:
    """Add a merge that would turn the typed text "<eos>" into the control id."""
    vocabulary = values["vocabulary"]
    for part in ("<eo", "s>"):
        old, id = s.spare(values)
        del vocabulary[old]
        vocabulary[part] = id
    values["merges"].append(["<eo", "s>"])


def tokens(**changes: Any) -> Change:
    return s.tokens(lambda values: s.updated(values, changes))


DUPLICATE = b'"vocabulary":{', b'"vocabulary":{"<pad>":0,'
LIBRARY_FORMAT = {"model": {"type": "BPE"}, "normalizer": {"pattern": "(a+)+$"}}
TOKENIZERS: dict[str, tuple[Change, str]] = {
    **{what: (s.content(TOKENIZER, raw), "") for what, raw in BAD_JSON.items()},
    "8 MB of blanks": (s.edited(TOKENIZER, lambda raw: raw + b" " * (8 << 20), True), "the limit"),
    "the library's own format": (s.tokens(lambda v: LIBRARY_FORMAT), "kind is missing"),
    "an empty vocabulary": (tokens(vocabulary={}), "must be <pad>"),
    "a merge to an unknown token": (tokens(merges=[["a", "a"]]), "is not in the vocabulary"),
    "a merge to <eos>": (s.tokens(merged_eos), "produces the special token <eos>"),
    "<eos> elsewhere": (s.tokens(eos_swapped), "must be <eos>"),
    "an extra token": (s.tokens(one_more), "a vocabulary of 61 tokens, but 60"),
    "a token twice": (s.edited(TOKENIZER, lambda raw: raw.replace(*DUPLICATE), True), "twice"),
    **{f"id {id!r}": (s.numbered(id), "ids are not 0, 1, 2") for id in (60, -1, 5)},
    **{
        f"token {text[:20]!r}": (s.piece(text), "characters without control")
        for text in ("", ESCAPE, "a\0", "\u2028", "\x9b31m", "x" * 501, "\ud800", "a\nb")
    },
    "words of one language for both": (s.words(), "its language is 'de', not 'en'"),
}
WORDS: list[tuple[dict[str, Any], str]] = [
    ({"vocabulary": ["a"] * 56}, "contains a word twice"),
    ({"vocabulary": ["<eos>"]}, "contains the special token <eos>"),
    ({"vocabulary": ["a"]}, "a vocabulary of 5 tokens"),
]
SCORED = [-1.0] * 55
PIECES: list[tuple[dict[str, Any], str]] = [
    ({"vocabulary": ["a"] * 56}, "contains a word twice"),
    ({"vocabulary": [f"▁{i}" for i in range(55)] + ["<eos>"]}, "special token <eos>"),
    ({"vocabulary": ["a"], "scores": [0]}, "a vocabulary of 5 tokens"),
    ({"scores": SCORED}, "56 pieces, but 55 scores"),
    ({"scores": [None] * 56}, "no piece has a score"),
    ({"charsmap": "AAA"}, "the character map is not base64"),
    ({"unlisted": {"▁3": -1.0}}, "'▁3' is unlisted, but has an id"),
    ({"unlisted": {"<eos>": -1.0}}, "'<eos>' is unlisted, but has an id"),
    ({"unlisted": {"\n": -1.0}}, "characters without control"),
    ({"unlisted": {f"u{i}": -1.0 for i in range(57)}}, "57 unlisted pieces"),
]
FIRST: list[tuple[Any, str]] = [
    ([1] * 5, "a list of length from 0 to 4"),
    *(([id], f"{id!r} cannot be in front") for id in (0, 2, 3, 60, -1)),
]

CASES = [
    *file_cases(),
    *cases("config", CONFIG_JSON),
    *config_cases(),
    *cases("network", NETWORK),
    *cases("header", HEADER),
    *cases("value", VALUES, late=True),
    Case("no room for a sentence", s.network(max_length=7), "no sentence fits", late=True),
    *cases("tokenizer", TOKENIZERS),
    *(Case(f"words: {changes!r}"[:60], s.words(**changes), says) for changes, says in WORDS),
    *(
        Case(f"pieces {i}: {changes!r}"[:60], s.pieces(**changes), says)
        for i, (changes, says) in enumerate(PIECES)
    ),
    *(Case(f"first {first!r}", tokens(first=first), says) for first, says in FIRST),
    Case(
        "ids in front of a target",
        s.own_target(first=[1]),
        "only the source's tokenizer may put ids",
    ),
]


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return s.good(tmp_path_factory.mktemp("good") / "good-de-en")


class WeightsRead(BaseException):
    """Raised when weights are read; not an Exception, so that no handler reports it as a defect."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_hostile_folder_is_refused_in_one_line_and_hides_no_other(
    case, good, tmp_path, monkeypatch
):
    shutil.copytree(good, tmp_path / "good-de-en")
    folder = shutil.copytree(good, tmp_path / "bad-de-en")
    case.change(folder)
    if not case.late:

        def read(*_: object) -> None:
            raise WeightsRead

        monkeypatch.setattr("core.checkpoint.validate.read_exactly", read)
    with pytest.raises(CheckpointError) as caught:
        load(folder)
    line = str(caught.value)
    assert line.isprintable() and "`" not in line.split("`")[0] and len(line) < 900
    assert case.says in line, line
    assert any(remedy in line for remedy in ("git checkout -- ", "core.checkpoint.add_checksum"))
    cards, problems = list_cards(tmp_path)
    assert [card.folder.name for card in cards if card.folder != folder] == ["good-de-en"]
    assert len(problems) == (folder not in [card.folder for card in cards])
    assert all(problem.isprintable() for problem in problems)
