"""The kinds of hostile checkpoint folders: how each is made, and what its refusal must say."""

import json
from typing import Any, NamedTuple

import torch

from core.text.tokenizer import SPECIALS
from tests.core import strange_folders as s
from tests.core.strange_folders import TOKENIZER, WEIGHTS, Change

DEEP = 100_000
TABLE, NORM = "embeddings.source_table.weight", "encoder_norm.bias"


class Kind(NamedTuple):
    """`late` ones are known only once the weights were read."""

    name: str
    change: Change
    says: str
    late: bool = False


def nested(depth: int) -> list:
    inner: list = []
    for _ in range(depth - 1):
        inner = [inner]
    return inner


def all_of(**changes: Any) -> Change:
    """Sizes whose parameters config.json tells truly: only the size itself can be refused."""
    from core.config import ModelConfig
    from core.model.shapes import count_parameters, weight_shapes

    def change(folder) -> None:
        values = json.loads((folder / "config.json").read_text())
        values["model"] |= changes
        shapes = weight_shapes("scratch", ModelConfig.from_json(values["model"]))
        values["parameters"] = count_parameters(shapes)
        s.write(folder, values)

    return change


def many_tensors(count: int) -> Change:
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    return s.header(lambda values: {f"t{i}": entry for i in range(count)})


def twice(values: dict[str, Any]) -> bytes:
    """A header in which one tensor stands twice."""
    again = json.dumps({NORM: values[NORM]})
    return (json.dumps(values)[:-1] + ", " + again[1:]).encode()


def swapped(values: dict[str, Any]) -> None:
    """<eos> and the last token change places."""
    vocabulary = values["vocabulary"]
    last = max(vocabulary, key=vocabulary.get)
    vocabulary["<eos>"], vocabulary[last] = vocabulary[last], 2


def called_otherwise(values: dict[str, Any]) -> None:
    vocabulary = values["vocabulary"]
    vocabulary["<UNK>"] = vocabulary.pop("<unk>")


def one_less(values: dict[str, Any]) -> None:
    del values["vocabulary"][s.spare(values)[0]]


def one_more(values: dict[str, Any]) -> None:
    values["vocabulary"]["more"] = len(values["vocabulary"])


def a_special_made(values: dict[str, Any]) -> None:
    """A merge would turn the typed text "<eos>" into the control id."""
    vocabulary = values["vocabulary"]
    first, second = (s.spare(values) for _ in range(2))
    del vocabulary[first[0]], vocabulary[second[0]]
    vocabulary["<eo"], vocabulary["s>"] = first[1], second[1]
    values["merges"].append(["<eo", "s>"])


def merges(given: Any) -> Change:
    return s.tokens(lambda values: values | {"merges": given})


def vocabulary(given: Any) -> Change:
    return s.tokens(lambda values: values | {"vocabulary": given})


ESCAPE = "\x1b]0;owned\x07\x1b[2J"
PICKLE = (
    b"\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R."
)
BAD_JSON = {
    "nothing": b"",
    "cut": b'{"format": 1, "files": {',
    "a pickle": PICKLE,
    "a page": b"<!DOCTYPE html><html><body>404</body></html>",
    "UTF-16": '{"format": 1}'.encode("utf-16"),
    "a mark of byte order": b'\xef\xbb\xbf{"format": 1}',
    "latin-1": '{"format": "ä"}'.encode("latin-1"),
    "a list": b"[]",
    "null": b"null",
    "a number": b"1",
    "a text": b'"x"',
    "a deep list": b"[" * 60_000,
    "a deep object": b'{"a":' * 10_000,
    "zeros": b"\0" * 500,
    "a long number": b'{"format": ' + b"1" * 60_000 + b"}",
}


def _files() -> list[Kind]:
    kinds = []
    for name in ("config.json", WEIGHTS, TOKENIZER):
        kinds.append(Kind(f"{name} is missing", s.gone(name), "is missing"))
        for what, put in s.NOT_FILES.items():
            says = "link" if "link" in what else "not a regular file"
            kinds.append(Kind(f"{name} is a {what}", s.replaced(name, put), says))
    for name, kind in (("weights", WEIGHTS), ("tokenizer", TOKENIZER)):
        kinds += [
            Kind(f"{name} empty", s.edited(kind, lambda raw: b""), "0 bytes, expected"),
            Kind(f"{name} cut", s.edited(kind, lambda raw: raw[:-7]), "expected"),
            Kind(f"{name} one byte longer", s.edited(kind, lambda raw: raw + b" "), "expected"),
            Kind(f"{name} of 1 GB, not told", s.sparse(kind, 1 << 30, False), "the limit is"),
            Kind(f"{name} of 1 GB, told", s.sparse(kind, 1 << 30, True), "the limit is"),
        ]
    return [
        *kinds,
        Kind(
            "config of 64 KB and a byte",
            s.edited("config.json", lambda raw: raw.ljust((64 << 10) + 1)),
            "the limit is 65,536",
        ),
        Kind("config of 1 GB", s.sparse("config.json", 1 << 30, False), "the limit is 65,536"),
        Kind("tokenizer, a bit", s.flipped(TOKENIZER, 0.5), "SHA-256 differs"),
        Kind("weights, a bit", s.flipped(WEIGHTS, 0.9), "SHA-256 differs", late=True),
        Kind("the pipe that fills the kernel's log", _kernel_log, "link"),
    ]


def _kernel_log(folder) -> None:
    (folder / TOKENIZER).unlink()
    (folder / TOKENIZER).symlink_to("/proc/kmsg")
    s.entry(TOKENIZER, bytes=0)(folder)


def _json() -> list[Kind]:
    kinds = [
        Kind(f"config: {what}", s.content("config.json", raw), "") for what, raw in BAD_JSON.items()
    ]
    return [
        *kinds,
        Kind("config: nine levels", s.inside("training", more=nested(8)), "deeper than 8"),
        Kind(
            "config: a name twice",
            s.edited("config.json", lambda raw: raw.replace(b"{", b'{"format": 1,', 1)),
            "twice",
        ),
        Kind(
            "config: a size twice",
            s.edited(
                "config.json", lambda raw: raw.replace(b'"d_model"', b'"d_model": 9, "d_model"')
            ),
            "twice",
        ),
        Kind("config: a NaN", s.network(layer_norm_eps=float("nan")), "NaN"),
        Kind("config: an infinity", s.network(dropout=float("inf")), "Infinity"),
        Kind(
            "config: items without end", s.content("config.json", b"[" + b"0," * 32_000 + b"0]"), ""
        ),
    ]


def _config() -> list[Kind]:
    def named(part: str, says: str, *values: Any) -> list[Kind]:
        return [Kind(f"{part} {v!r}"[:60], s.config(**{part: v}), says) for v in values]

    def trained(says: str, **values: Any) -> list[Kind]:
        return [
            Kind(f"training {k} {v!r}"[:60], s.inside("training", **{k: v}), says or k)
            for k, each in values.items()
            for v in each
        ]

    return [
        *named("format", "format", 2, "1", True, None, ..., 10**30),
        *named("architecture", "architecture", "lstm", "../scratch", [], None, ..., ESCAPE),
        *named(
            "source_language",
            "no code of a language",
            *("", "f", "DE", "de\n", "de-at", "fr1", "français", "x" * 9, "![x](//a)", ESCAPE),
            *({}, [], None, 3, ...),
        ),
        *named("target_language", "no code of a language", "FR", "de ", "zh-hans", [], ESCAPE),
        *named("parameters", "parameters", -1, True, "many", None, ..., 1e4, 10**30),
        *named("training", "trained", None, [], "x"),
        *trained(
            "",
            longest=("x", [1], [0, 1], [1, True], [1, 10**30], {}),
            recipe=(3, "a b", "", ESCAPE, None),
            corpora=([], {"x": -1}, {ESCAPE: 1}),
            config=([], {"seed": "x"}, {"max_pair_tokens": -1}, {"steps": 0.5}),
            kept=(None, "a\x00b"),
        ),
        *named("files", "files", [], None, ..., {}, "x"),
        *named("tokenizers", "tokenizer", [], None, ..., {}, {"source": TOKENIZER}),
        *named(
            "tokenizers",
            "files are not",
            {"source": TOKENIZER, "target": "another.json"},
            {"source": TOKENIZER, "target": None},
            {"source": TOKENIZER, "target": [TOKENIZER]},
            {"source": TOKENIZER, "target": WEIGHTS},
        ),
        Kind("a third tokenizer", s.inside("tokenizers", third=TOKENIZER), "tokenizer"),
        Kind("a third file", s.inside("files", **{"x.json": {}}), "files are not"),
        Kind(
            "a thousand files",
            s.inside("files", **{f"f{i}": 0 for i in range(1_000)}),
            "files are not",
        ),
        *(
            Kind(f"weights called {name!r}"[:60], s.renamed(name), "plain name")
            for name in (
                "../model.safetensors",
                "/etc/passwd",
                "sub/model.safetensors",
                "..",
                ".",
                "",
                "x" * 300,
                "a\0b",
                "a\nb",
                ESCAPE,
                "C:model",
                "a\\b",
            )
        ),
        *(
            Kind(f"weights called {name!r}", s.renamed(name), "keeps for another file")
            for name in (
                "config.json",
                "CONFIG.JSON",
                "metrics.json",
                "MODEL_CARD.md",
                "head_means.safetensors",
                "Head_Means.safetensors",
                "history.npz",
                "state.safetensors",
                "snapshot-00000001.safetensors",
                "model.safetensors.part",
                "model-0123456789ab.safetensors",
                "metrics-0123456789ab.json",
            )
        ),
        Kind(
            "a tokenizer called metrics.json",
            s.renamed("metrics.json", TOKENIZER),
            "keeps for another file",
        ),
        Kind("a tokenizer elsewhere", s.renamed("../tokenizer.json", TOKENIZER), "plain name"),
        *(
            Kind(f"a file's entry {value!r}", s.inside("files", **{WEIGHTS: value}), "bytes")
            for value in (None, "x", [], 3)
        ),
        *(
            Kind(f"bytes {value!r}", s.entry(bytes=value), "how many bytes")
            for value in (..., -1, "9", True, 1e3, None)
        ),
        *(
            Kind(f"sha256 {value!r}"[:40], s.entry(sha256=value), "SHA-256 of")
            for value in (..., "", "0" * 63, "A" * 64, "x" * 64, None, 3, ["0"])
        ),
        Kind("no own hash", s.edited("config.json", _without_seal), "core.checkpoint.add_checksum"),
        *(
            Kind(f"own hash {value!r}"[:40], s.unsigned("sha256", value=value), "SHA-256")
            for value in ("", "0" * 64, None, 3, [])
        ),
        Kind("a norm elsewhere", s.unsigned("model", "norm_first", value=True), "SHA-256"),
        Kind("heads of another size", s.unsigned("model", "num_heads", value=4), "SHA-256"),
        Kind("another direction", s.unsigned("source_language", value="en"), "SHA-256"),
        Kind("another code", s.unsigned("architecture", value="baseline"), "SHA-256"),
    ]


def _without_seal(raw: bytes) -> bytes:
    values = json.loads(raw)
    del values["sha256"]
    return json.dumps(values).encode()


def _network() -> list[Kind]:
    wrong: dict[str, tuple] = {
        "d_model": (0, -8, 7, 8.0, "8", True, None, ..., 10**9, 10**30),
        "num_heads": (0, -2, 3, 2.5, True, 10**6),
        "num_encoder_layers": (0, -1, 97, 2_000, 100_000, 10**18, [1]),
        "num_decoder_layers": (0, 97, 2_000, "1"),
        "dim_feedforward": (0, -1, 10**7, {}),
        "max_length": (0, 1, -5, 4_097, 4_000_000, 10**8, 20.0),
        "source_vocab_size": (0, 300_001, 10**9, None, ...),
        "target_vocab_size": (0, 61, True),
        "dropout": (1, -1, 5, "x", None, [0.1]),
        "attention_dropout": (1, -0.1, "0.1"),
        "layer_norm_eps": ("x", 0, -1e9, 1, 1e-300, None, 10**400),
        "norm_first": (1, "yes", None),
        "share_embeddings": (0, "no"),
        "qkv_bias": ("false",),
        "mask_score": (0, 1, -1e-30, -1, -50, -87.0, -104, -999.9, -1e300, "low", [], True),
        "a_further_one": (1,),
    }
    kinds = [
        Kind(f"{name} {value!r}"[:50], s.network(**{name: value}), "")
        for name, values in wrong.items()
        for value in values
    ]
    sizes = dict(source_vocab_size=200_000, target_vocab_size=200_000)
    return [
        *kinds,
        Kind("a model that is a list", s.config(model=[]), "sizes"),
        Kind(
            "60 + 60 layers", s.network(num_encoder_layers=60, num_decoder_layers=60), "96 together"
        ),
        Kind(
            "5,000 heads",
            s.network(d_model=128, num_heads=128, num_encoder_layers=20, num_decoder_layers=10),
            "the limit is 4,096",
        ),
        Kind("400 million parameters", all_of(d_model=2_000, **sizes), "the limit is 300,000,000"),
        Kind("few that are called many", s.config(parameters=10**8), "not the 100,000,000"),
        Kind("many that are called few", s.network(dim_feedforward=100_000), "that it claims"),
        Kind(
            "too many tensors",
            all_of(num_encoder_layers=46, num_decoder_layers=50),
            "2,041 tensors, the limit is 2,000",
        ),
        Kind(
            "a vocabulary of 100,000",
            all_of(source_vocab_size=100_000, target_vocab_size=100_000),
            "vocabulary of 60",
        ),
        Kind("more layers than there are", all_of(num_encoder_layers=2), "missing or unexpected"),
    ]


def _header() -> list[Kind]:
    odd: dict[str, tuple[Change, str]] = {
        "length 0": (s.length(0), "not JSON"),
        "length 2^63": (s.length(1 << 63), "the limit is 1,048,576"),
        "length 10^9": (s.length(10**9), "the limit is 1,048,576"),
        "a length beyond its end": (s.length(1_000_000), "it ends after"),
        "seven bytes": (s.content(WEIGHTS, b"1234567"), "it ends after"),
        "2 MB of blanks": (
            s.header(lambda v: json.dumps(v).encode() + b" " * (2 << 20)),
            "the limit",
        ),
        "90 MB of blanks": (
            s.header(lambda v: json.dumps(v).encode() + b" " * (90 << 20)),
            "the limit",
        ),
        "no JSON": (s.header(lambda v: b"{" + b"x" * 100), "not JSON"),
        "a list": (s.header(lambda v: b"[]"), "no object"),
        "null": (s.header(lambda v: b"null"), "no object"),
        "deep": (s.header(lambda v: b"[" * DEEP), "deeper"),
        "UTF-16": (s.header(lambda v: json.dumps(v).encode("utf-16")), "UTF-8"),
        "a tensor twice": (s.header(twice), "twice"),
        "metadata that is a text": (s.header(lambda v: v | {"__metadata__": "x"}), "metadata"),
        "nested metadata": (s.header(lambda v: v | {"__metadata__": {"a": {}}}), "metadata"),
        "2,001 tensors": (many_tensors(2_001), "the limit is 2,000"),
        "20,000 tensors": (many_tensors(14_000), "the limit is"),
        "items without end": (s.header(lambda v: b"[" + b"0," * 500_000 + b"0]"), "the limit is"),
        "no tensor": (s.header(lambda v: b"{}"), "missing or unexpected"),
        "a tensor less": (s.header(lambda v: v.pop(NORM) and None), "missing or unexpected"),
        "a tensor of no name": (s.header(lambda v: v | {"": v[NORM]}), "missing or unexpected"),
        "a name for a terminal": (s.header(lambda v: v | {ESCAPE: v[NORM]}), "unexpected"),
        "a name of 100,000": (s.header(lambda v: v | {"x" * 100_000: v[NORM]}), "unexpected"),
        "a tensor more": (s.tensors(lambda t: t.update(extra=torch.zeros(1))), "extra"),
        "another shape": (s.tensors(lambda t: t.update({NORM: torch.zeros(3)})), "is [3], not [8]"),
        "a shape turned": (s.of(TABLE, shape=[8, 60]), "is [8, 60], not [60, 8]"),
        "an empty dimension": (
            s.of(NORM, shape=[0, 10**12], data_offsets=[0, 0]),
            "empty dimension",
        ),
        "a negative dimension": (s.of(NORM, shape=[-8]), "empty dimension"),
        "a broken dimension": (s.of(NORM, shape=[8.0]), "empty dimension"),
        "a true dimension": (s.of(NORM, shape=[True]), "empty dimension"),
        "no list of dimensions": (s.of(NORM, shape=8), "empty dimension"),
        "a dimension of 2^64": (s.of(NORM, shape=[1 << 64]), "not [8]"),
        "dimensions in dimensions": (s.of(NORM, shape=[[8]]), "empty dimension"),
        "8 bytes a number": (
            s.tensors(lambda t: t.update({k: v.double() for k, v in t.items()})),
            "",
        ),
        "whole numbers": (s.tensors(lambda t: t.update({k: v.int() for k, v in t.items()})), "I32"),
        "two types": (s.tensors(lambda t: t.update({NORM: t[NORM].half()})), "several types"),
        "type F8": (s.of(NORM, dtype="F8_E4M3"), "of type"),
        "type of no kind": (s.of(NORM, dtype=None), "of type"),
        "type for a terminal": (s.of(NORM, dtype=ESCAPE), "of type"),
        "a type less": (s.of(NORM, dtype=...), "and nothing else"),
        "an item more": (s.of(NORM, more=1), "and nothing else"),
        "an entry that is a list": (s.header(lambda v: v | {NORM: [1]}), "and nothing else"),
        "a place that is a text": (s.of(NORM, data_offsets="x"), "place"),
        "a place of three": (s.of(NORM, data_offsets=[0, 1, 2]), "place"),
        "a negative place": (s.of(NORM, data_offsets=[-32, 0]), "place"),
        "a place backwards": (s.of(NORM, data_offsets=[32, 0]), "bytes that its shape"),
        "a place too large": (s.of(NORM, data_offsets=[0, 1 << 60]), "bytes that its shape"),
        "an overlap": (s.of(NORM, data_offsets=[0, 32]), "overlap"),
        "a hole": (s.header(lambda v: v, more=b"1234"), "bytes, and it has"),
        "a pickle": (s.content(WEIGHTS, PICKLE), "header of"),
        "a zip": (s.content(WEIGHTS, b"PK\x03\x04" + b"\0" * 5_000), "header of"),
        "a page": (s.content(WEIGHTS, b"<!DOCTYPE html><html></html>"), "header of"),
    }
    return [Kind(f"header: {what}", change, says) for what, (change, says) in odd.items()]


def _values() -> list[Kind]:
    finite = "holds values that are not finite"
    odd: dict[str, tuple[Change, str]] = {
        "NaN": (s.value(float("nan")), finite),
        "infinity": (s.value(float("inf")), finite),
        "minus infinity": (s.value(-float("inf")), finite),
        "NaN in a table": (s.value(float("nan"), TABLE), finite),
        "1e30": (s.value(1e30), "beyond ±65,504"),
        "1e30 in one row of a table": (s.value(1e30, TABLE), "beyond ±65,504"),
        "70,000": (s.value(7e4), "beyond ±65,504"),
        "NaN in half precision": (
            s.both(
                s.value(float("nan")),
                s.tensors(lambda t: t.update({k: v.half() for k, v in t.items()})),
            ),
            finite,
        ),
    }
    return [Kind(f"value: {what}", c, says, late=True) for what, (c, says) in odd.items()]


def _tokenizer() -> list[Kind]:
    odd: dict[str, tuple[Change, str]] = {
        **{what: (s.content(TOKENIZER, raw), "") for what, raw in BAD_JSON.items()},
        "8 MB of blanks": (
            s.edited(TOKENIZER, lambda raw: raw + b" " * (8 << 20), True),
            "the limit",
        ),
        "2 million merges": (merges([["a", "b"]] * 2_000_000), "the limit is"),
        "10,000 merges": (merges([["a", "b"]] * 4_000), "the limit is"),
        "no kind": (s.tokens(lambda v: v.pop("kind") and None), "unknown kind"),
        "kind null": (s.tokens(lambda v: v | {"kind": None}), "unknown kind"),
        "kind pickle": (s.tokens(lambda v: v | {"kind": "pickle"}), "unknown kind"),
        "kind list": (s.tokens(lambda v: v | {"kind": []}), "unknown kind"),
        "the library's own form": (
            s.tokens(lambda v: {"model": {"type": "BPE"}, "normalizer": {"pattern": "(a+)+$"}}),
            "unknown kind",
        ),
        "a rule for splitting": (
            s.tokens(lambda v: v | {"pre_tokenizer": "(a+)+$"}),
            "has no 'pre_",
        ),
        "vocabulary missing": (s.tokens(lambda v: v.pop("vocabulary") and None), "vocabulary"),
        "vocabulary a path": (vocabulary("/etc/passwd"), "vocabulary"),
        "vocabulary a list": (vocabulary([]), "vocabulary"),
        "vocabulary empty": (vocabulary({}), "must be <pad>"),
        "merges missing": (s.tokens(lambda v: v.pop("merges") and None), "merges"),
        "merges an object": (merges({}), "merges"),
        "a merge of three": (merges([["a", "b", "c"]]), "no pair"),
        "a merge of numbers": (merges([[1, 2]]), "no pair"),
        "a merge as text": (merges(["a b"]), "no pair"),
        "a merge of strangers": (merges([["§", "¶"]]), "leaves the vocabulary"),
        "a merge to a stranger": (merges([["a", "a"]]), "leaves the vocabulary"),
        "a merge to <eos>": (s.tokens(a_special_made), "which nobody may type"),
        "digits maybe": (s.tokens(lambda v: v | {"single_digits": "no"}), "single_digits"),
        "<eos> elsewhere": (s.tokens(swapped), "must be <eos>"),
        "<unk> by another name": (s.tokens(called_otherwise), "must be <unk>"),
        "a token less": (s.tokens(one_less), "a vocabulary of 59 tokens, and 60"),
        "no word": (
            s.tokens(
                lambda v: {
                    **v,
                    "merges": [],
                    "vocabulary": dict(zip(SPECIALS, range(4), strict=True)),
                }
            ),
            "no token of a language",
        ),
        "a token more": (s.tokens(one_more), "a vocabulary of 61 tokens, and 60"),
        "a token twice": (
            s.edited(
                TOKENIZER,
                lambda raw: raw.replace(b'"vocabulary":{', b'"vocabulary":{"<pad>":0,'),
                True,
            ),
            "twice",
        ),
        **{
            f"id {id!r}": (s.numbered(id), "do not run from 0")
            for id in (60, 10**6, 1 << 31, -1, 5, "59", True, 59.0, None)
        },
        **{
            f"token {text[:20]!r}": (s.piece(text), "is no token")
            for text in ("", ESCAPE, "a\0", "\u2028", "\x9b31m", "x" * 501, "\ud800", "a\nb")
        },
        "words: of a language whose rules are not known": (
            s.both(s.words(language="fr"), s.config(source_language="fr", target_language="fr")),
            "the rules of German and English alone, not fr",
        ),
        **{
            f"words: {what}": (s.words(**changes), says)
            for what, changes, says in (
                ("a path as language", {"language": "../../os"}, "no code"),
                ("no language", {"language": ...}, "language"),
                ("another language", {"language": "fr"}, "its language is 'fr'"),
                ("of one language only", {}, "its language is 'de', not 'en'"),
                ("a path", {"vocabulary": "/etc/passwd"}, "vocabulary"),
                ("numbers", {"vocabulary": [1] * 56}, "no text"),
                ("twice", {"vocabulary": ["a"] * 56}, "stands twice"),
                ("<eos>", {"vocabulary": ["<eos>"]}, "id of its own"),
                ("too few", {"vocabulary": ["a"]}, "a vocabulary of 5 tokens"),
                ("lower maybe", {"lower": 1}, "lower"),
                ("a rule", {"rule": "x"}, "has no 'rule'"),
                ("for a terminal", {"vocabulary": [ESCAPE]}, "is no token"),
            )
        },
    }
    return [Kind(f"tokenizer: {what}", change, says) for what, (change, says) in odd.items()]


KINDS = [*_files(), *_json(), *_config(), *_network(), *_header(), *_values(), *_tokenizer()]
