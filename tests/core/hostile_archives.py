"""The kinds of hostile .npz files: each is made from the members of a good one.

A kind changes the members by name (`change`) or the packed bytes (`spoil`); `says` is what the
refusal must say.
"""

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Members = dict[str, bytes]


class Kind(NamedTuple):
    name: str
    says: str
    change: Callable[[Members], Any] = lambda members: None
    spoil: Callable[[bytes], bytes] = bytes
    packed: int = zipfile.ZIP_DEFLATED


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def members_of(content: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def packed(members: Members, by: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", by) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return buffer.getvalue()


def hostile(content: bytes, kind: Kind) -> bytes:
    """The good file `content` as this kind leaves it."""
    members = members_of(content)
    kind.change(members)
    return kind.spoil(packed(members, kind.packed))


def text(raw: bytes) -> Callable[[Members], Any]:
    return lambda members: members.update({"words.npy": npy(np.frombuffer(raw, np.uint8))})


def words(change: Callable[[dict], Any]) -> Callable[[Members], Any]:
    """Other words; a change that returns a value puts it in their place."""

    def changed(members: Members) -> None:
        values = json.loads(np.load(io.BytesIO(members["words.npy"])).tobytes())
        given = change(values)
        text(json.dumps(values if given is None else given).encode())(members)

    return changed


def array(name: str, change: Callable[[np.ndarray], Any]) -> Callable[[Members], Any]:
    """Another array; a change that returns one puts it in the old one's place."""

    def changed(members: Members) -> None:
        found = np.load(io.BytesIO(members[f"{name}.npy"])).copy()
        given = change(found)
        members[f"{name}.npy"] = npy(found if given is None else given)

    return changed


def raw(name: str, content: bytes) -> Callable[[Members], Any]:
    return lambda members: members.update({f"{name}.npy": content})


def header(name: str, old: bytes, new: bytes) -> Callable[[Members], Any]:
    """Another header of the same length before the same numbers."""

    def changed(members: Members) -> None:
        content = members[f"{name}.npy"]
        start = content[:128].replace(old, new)
        assert start != content[:128], "the header holds what is replaced"
        members[f"{name}.npy"] = start[:127].rstrip().ljust(127) + b"\n" + content[128:]

    return changed


def put(at: tuple[int, ...], number: float) -> Callable[[np.ndarray], Any]:
    return lambda found: found.__setitem__(at, number)


def more(count: int) -> Callable[[Members], Any]:
    return lambda members: members.update({f"x{i}.npy": b"" for i in range(count)})


def flagged(content: bytes) -> bytes:
    """Every member is said to be encrypted."""
    found = bytearray(content)
    for mark, at in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        start = -1
        while (start := content.find(mark, start + 1)) >= 0:
            found[start + at] |= 1
    return bytes(found)


def of_any_archive(map_name: str) -> list[Kind]:
    """What no reader of an archive may take; `map_name` is one of its arrays of weights."""
    bomb = bytes(65 << 20)
    missing = f"{map_name} is missing"
    return [
        Kind("nothing", "", spoil=lambda c: b""),
        Kind("text", "", spoil=lambda c: b"no archive"),
        Kind("a pickle", "", spoil=lambda c: b"\x80\x04N."),
        Kind("an array", "", spoil=lambda c: npy(np.zeros(3))),
        Kind("cut", "", spoil=lambda c: c[: len(c) // 2]),
        Kind("encrypted", "", spoil=flagged),
        Kind("packed by bzip2", "", packed=zipfile.ZIP_BZIP2),
        Kind("packed by lzma", "", packed=zipfile.ZIP_LZMA),
        Kind("a bomb", "it unpacks to", lambda m: m.update({f"x{i}": bomb for i in range(4)})),
        Kind("a bomb of the words", "its words take more than", raw("words", bytes(5 << 20))),
        Kind("5,000 arrays", "arrays, the limit is 4,096", more(5_000)),
        Kind("no words", "words is missing", lambda m: m.pop("words.npy")),
        Kind("words of another type", "words is missing", raw("words", npy(np.zeros(9)))),
        Kind(
            "words with two axes", "should have 1 axes", raw("words", npy(np.zeros((3, 3), "u1")))
        ),
        Kind("a deep list", "nested deeper", text(b"[" * 100_000)),
        Kind("a deep object", "nested deeper", text(b'{"a":' * 100_000)),
        Kind("nine levels", "nested deeper than 8", text(b"[" * 9 + b"]" * 9)),
        Kind("no JSON", "not JSON", text(b"{]")),
        Kind("no UTF-8", "not UTF-8", text(b"\xff\xfe")),
        Kind("items without end", "the limit is 500,000", text(b"[" + b"0," * 500_001 + b"0]")),
        Kind("empty lists without end", "its words", text(b"[" + b"[]," * 500_001 + b"0]")),
        Kind("a name twice", "stands twice", text(b'{"format": 2, "format": 2}')),
        Kind("a long number", "", text(b'{"format": ' + b"1" * 60_000 + b"}")),
        Kind("a list for words", "words", text(b"[]")),
        Kind("another format", "format", words(lambda w: w.update(format=99))),
        Kind("no map", missing, lambda m: m.pop(f"{map_name}.npy")),
        Kind("an empty map", missing, raw(map_name, b"")),
        Kind("a map that is no array", missing, raw(map_name, b"\x93NUMPY\x01\x00")),
        Kind("a map of objects", missing, raw(map_name, npy(np.array([[None]], object)))),
        Kind("a map of doubles", missing, array(map_name, lambda a: a.astype(np.float64))),
        Kind(
            "a map of other order",
            missing,
            array(map_name, lambda a: a.astype(a.dtype.newbyteorder())),
        ),
        Kind("a map of fewer axes", "axes", array(map_name, lambda a: a[0])),
        Kind(
            "a map of version 2",
            missing,
            lambda m: m.update(
                {f"{map_name}.npy": m[f"{map_name}.npy"].replace(b"NUMPY\x01", b"NUMPY\x02", 1)}
            ),
        ),
        Kind(
            "a map that is cut",
            "has a different size",
            lambda m: m.update({f"{map_name}.npy": m[f"{map_name}.npy"][:-1]}),
        ),
        Kind(
            "a map with more behind it",
            "has a different size",
            lambda m: m.update({f"{map_name}.npy": m[f"{map_name}.npy"] + b"\0"}),
        ),
        Kind(
            "a shape of 10^18", "", header(map_name, b"'shape': (", b"'shape': (10000000000000000")
        ),
        Kind("a negative shape", "", header(map_name, b"'shape': (", b"'shape': (-")),
        Kind("a NaN in a map", "", array(map_name, put((0,) * 4, np.nan))),
        Kind("a weight above 1", "", array(map_name, put((0,) * 4, 1.5))),
        Kind("a weight below 0", "", array(map_name, put((0,) * 4, -0.5))),
    ]


def _tokens(name: str, **changes: Any) -> Callable[[Members], Any]:
    return words(lambda w: w[name][0].update(changes))


RECORDS = [
    *of_any_archive("cross"),
    *(
        Kind(
            f"{value} in {name} {at}",
            f"{name} holds a number that is not finite",
            array(name, put(at, value)),
        )
        for name, at in (
            ("log_probs", (0,)),
            ("log_probs", (-1,)),
            ("alternative_log_probs", (0, 0)),
            ("alternative_log_probs", (-1, -1)),
            ("source_positions", (0, 0)),
            ("target_positions", (-1, -1)),
        )
        for value in (np.nan, np.inf, -np.inf)
    ),
    Kind(
        "a log-probability above 0",
        "log_probs holds a value above 0",
        array("log_probs", put((0,), 0.5)),
    ),
    Kind(
        "an alternative above 0",
        "alternative_log_probs holds a value above 0",
        array("alternative_log_probs", put((0, 0), 0.5)),
    ),
    *(
        Kind(
            f"a hypothesis with {name} {value}",
            "a hypothesis has a log-probability",
            words(lambda w, name=name, value=value: w["hypotheses"][-1].update({name: value})),
        )
        for name in ("log_prob", "score")
        for value in (float("nan"), float("inf"), -float("inf"))
    ),
    Kind(
        "a hypothesis above 0",
        "a hypothesis",
        words(lambda w: w["hypotheses"][0].update(log_prob=1.0)),
    ),
    Kind("a long token", "a token of 1,001 characters", _tokens("source", text="x" * 1_001)),
    Kind("a long piece", "a token of 1,001 characters", _tokens("target_out", piece="x" * 1_001)),
    Kind(
        "a long alternative",
        "a token of 1,001 characters",
        words(lambda w: w["alternatives"][-1][-1].update(text="x" * 1_001)),
    ),
    Kind(
        "513 tokens", "513 tokens are too many", raw("cross", npy(np.zeros((2, 2, 3, 513), "f4")))
    ),
    Kind(
        "4,097 maps",
        "4,097 maps, the limit is 4,096",
        lambda m: m.update(
            {
                f"{kind}.npy": npy(np.zeros(shape, "f4"))
                for kind, shape in (
                    ("encoder", (1, 1, 1, 1)),
                    ("decoder", (64, 32, 1, 1)),
                    ("cross", (64, 32, 1, 1)),
                )
            }
        ),
    ),
    Kind(
        "16,777,217 weights",
        "16,777,217 weights, the limit is 16,777,216",
        lambda m: m.update(
            {
                f"{kind}.npy": npy(np.zeros(shape, "f4"))
                for kind, shape in (
                    ("encoder", (1, 1, 1, 1)),
                    ("decoder", (64, 1, 512, 256)),
                    ("cross", (64, 1, 512, 256)),
                )
            }
        ),
    ),
    Kind("edits of another text", "edits", words(lambda w: w.update(edits="off=cross.9.9"))),
]


FILMS = [
    *of_any_archive("cross_0"),
    Kind("sentences that are no list", "not a list", words(lambda w: w.update(sentences={}))),
    Kind(
        "a sentence that is none",
        "should hold source",
        words(lambda w: w["sentences"].__setitem__(0, 3)),
    ),
    Kind(
        "a sentence as text",
        "not a list of texts",
        words(lambda w: w["sentences"][0].update(source="abc")),
    ),
    Kind(
        "tokens that are no texts",
        "not a list of texts",
        words(lambda w: w["sentences"][-1].update(target_out=[1])),
    ),
    Kind("no tokens", "an empty side", words(lambda w: w["sentences"][0].update(source=[]))),
    Kind("more words", "should hold format and sentences", words(lambda w: w.update(more=1))),
    Kind("steps of doubles", "steps is missing", array("steps", lambda a: a.astype(float))),
    Kind("steps that fall", "the steps do not increase", array("steps", lambda a: a[::-1].copy())),
    Kind("a negative step", "the steps do not increase", array("steps", put((0,), -1))),
    Kind("a loss too few", "loss must hold", array("loss", lambda a: a[1:])),
    *(
        Kind(
            f"a {name} of {value}",
            f"{name} must hold a finite, nonnegative number",
            array(name, put((-1,), value)),
        )
        for name in ("loss", "bleu")
        for value in (np.nan, np.inf, -1)
    ),
    Kind(
        "an entropy above 1", "a value outside 0..1", array("entropy_cross", put((-1, -1, -1), 1.5))
    ),
    Kind("a NaN role", "a value outside 0..1", array("roles_decoder", put((0, -1, 0, 0), np.nan))),
    Kind(
        "a file of 4 MB",
        "the limit is 3,145,728",
        lambda m: m.update(x=np.random.default_rng(0).bytes(4 << 20)),
    ),
]
