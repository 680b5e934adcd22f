"""What the original network computes: read from reference.npz, or computed by transformers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from core.config import ModelConfig
from core.files import printable, release_memory
from core.foreign import library
from core.foreign.sources import shown
from core.kinds import KINDS, Kind
from core.record.archive import Archive, archive
from core.typed import typed

LIBRARY = ("marian", "pegasus", "bart", "mbart", "m2m100", "fsmt", "t5")
"""The families that transformers runs."""
PRECISIONS = (64, 32)
MAX_REFERENCE = 2 << 30  # bytes of a file
_MAX_TEXT = 4 << 20
_MAX_LINE = 4_096  # characters
_MAX_LINES, _MAX_SENTENCES, _MAX_POSITIONS = 2_000, 64, 1 << 16
_LEAST = 2  # tokens of the longest source and target: with one, every weight is 1
_REMEDY = "make it again with the script that --reference-script prints"


@dataclass(frozen=True)
class Pass:
    """The results in one precision, for N sentences.

    `logits` are [N, position, id], `maps` by kind [layer, N, head, query, key], and `greedy` [N,
    step] the ids of greedy translations.
    """

    logits: np.ndarray
    maps: dict[Kind, np.ndarray]
    greedy: np.ndarray


@dataclass(frozen=True)
class Reference:
    """What the original computes, in the original's ids; `target` is what the decoder is fed.

    `positions` is the position table [position, feature], or None if it was not saved. `tokens` are
    source lines with their ids, without <eos>.
    """

    source: np.ndarray
    target: np.ndarray
    passes: dict[int, Pass]
    positions: np.ndarray | None
    tokens: tuple[tuple[str, tuple[int, ...]], ...]


class _Tokens(TypedDict):
    lines: tuple[str, ...]
    ids: tuple[tuple[int, ...], ...]


def from_file(file: Path, config: ModelConfig, vocabulary: int) -> Reference:
    """Read reference.npz. Raises ValueError if it does not fit the network."""
    with archive(file, "a reference", _REMEDY, MAX_REFERENCE, MAX_REFERENCE) as found:
        return _reference(found, config, vocabulary)


def from_library(
    folder: Path, lines: list[str], config: ModelConfig, vocabulary: int, language: str | None
) -> Reference:
    """Run transformers on the folder. `language` is the source's code, if there are codes.

    Raises ImportError if transformers is not installed, ValueError if it cannot run the folder.
    """
    from io import BytesIO

    file = BytesIO()
    try:
        measured: dict[str, Any] = dict(library.measure(str(folder), lines, language))
    except ImportError:
        raise
    except Exception as error:  # of any kind: transformers reads an unknown folder
        reason = printable(f"{type(error).__name__}: {error}")[:200]
        raise ValueError(
            f"transformers cannot run {shown(folder)} ({reason}): get the folder again, or give a "
            "reference with --reference"
        ) from None
    np.savez(file, **measured)
    del measured
    release_memory()  # the library's network refers to itself
    with archive(file, "a reference", _REMEDY, MAX_REFERENCE, MAX_REFERENCE) as found:
        return _reference(found, config, vocabulary)


def _reference(found: Archive, config: ModelConfig, vocabulary: int) -> Reference:
    """Check all shapes before any array is read. Raises ValueError."""
    sizes = {name: found.shape(name, [np.int64], 2) for name in ("source", "target")}
    (count, source), (also, target) = sizes.values()
    if count != also or not 1 <= count <= _MAX_SENTENCES:
        raise ValueError(
            f"source and target hold {count:,} and {also:,} sentences: both need the same number, "
            f"from 1 to {_MAX_SENTENCES}"
        )
    if not _LEAST <= min(source, target) <= max(source, target) <= config.max_length:
        raise ValueError(
            f"source and target have {source:,} and {target:,} columns: at least {_LEAST} must be "
            f"compared, and at most {config.max_length:,} fit the network"
        )
    axes: dict[Kind, tuple[int, int, int]] = {
        "encoder": (config.num_encoder_layers, source, source),
        "decoder": (config.num_decoder_layers, target, target),
        "cross": (config.num_decoder_layers, target, source),
    }
    for bits in PRECISIONS:
        kind = [np.dtype(f"float{bits}")]
        name = f"logits_{bits}"
        _expect(name, found.shape(name, kind, 3), (count, target, vocabulary), "vocabulary")
        for of, (layers, queries, keys) in axes.items():
            name, shape = f"{of}_{bits}", (layers, count, config.heads(of), queries, keys)
            _expect(name, found.shape(name, kind, 5), shape, "number of heads or layers")
        steps = found.shape(f"greedy_{bits}", [np.int64], 2)
        if steps[0] != count or not 1 <= steps[1] <= config.max_length:
            raise ValueError(
                f"greedy_{bits} is {steps}, not ({count}, steps) with 1 to {config.max_length:,} "
                "steps"
            )
    return Reference(
        found.array("source", [np.int64], 2),
        found.array("target", [np.int64], 2),
        {bits: _pass(found, bits, vocabulary) for bits in PRECISIONS},
        _positions(found, config),
        _tokens(found),
    )


def _pass(found: Archive, bits: int, vocabulary: int) -> Pass:
    kind = [np.dtype(f"float{bits}")]
    arrays = {"logits": found.array(f"logits_{bits}", kind, 3)}
    arrays |= {name: found.array(f"{name}_{bits}", kind, 5) for name in KINDS}
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name}_{bits} holds numbers that are not finite")
    ids = found.array(f"greedy_{bits}", [np.int64], 2)
    if (wrong := ids[(ids < 0) | (ids >= vocabulary)]).size:
        raise ValueError(
            f"greedy_{bits} holds the id {wrong[0]}, but the vocabulary has {vocabulary:,} ids"
        )
    logits = arrays.pop("logits")
    return Pass(logits, {name: arrays[name] for name in KINDS}, ids)


def _expect(name: str, found: tuple[int, ...], shape: tuple[int, ...], what: str) -> None:
    if found != shape:
        raise ValueError(f"{name} is {found}, not {shape} as in the network: another {what}")


def _positions(found: Archive, config: ModelConfig) -> np.ndarray | None:
    if not found.has("positions"):
        return None
    kinds = [np.float32, np.float64]
    rows, width = found.shape("positions", kinds, 2)
    if width != config.d_model or not 1 <= rows <= _MAX_POSITIONS:
        raise ValueError(
            f"positions are ({rows:,}, {width:,}), not 1 to {_MAX_POSITIONS:,} rows of "
            f"{config.d_model}"
        )
    table = found.array("positions", kinds, 2)[: config.max_length].astype(np.float64)
    if not np.isfinite(table).all():
        raise ValueError("positions hold numbers that are not finite")
    return table


def _tokens(found: Archive) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return each line with its ids; the sizes are limited, as encoding takes time."""
    values: _Tokens = typed(_Tokens, found.json("tokens", _MAX_TEXT), "tokens")
    lines, ids = values["lines"], values["ids"]
    if len(lines) != len(ids):
        raise ValueError(f"tokens hold {len(lines):,} lines, but {len(ids):,} lists of ids")
    longest = max(map(len, lines), default=0)
    if len(lines) > _MAX_LINES or longest > _MAX_LINE:
        raise ValueError(
            f"tokens hold {len(lines):,} lines, the longest of {longest:,} characters: the limit "
            f"is {_MAX_LINES:,} lines of {_MAX_LINE:,} characters"
        )
    return tuple(zip(lines, ids, strict=True))


SEED_SCRIPT = '''"""Write reference.npz: what your network computes. Edit the lines marked <-."""
import json, numpy as np, torch

model = ...                            # <- your network with its weights loaded
positions = None                       # <- its table of sines [position, d_model], if it has one
UNKNOWN, PAD, START, END = range(4)    # <- the ids of its special words
N_ENCODER = 6                          # <- the number of its encoder layers
lines = open("lines.txt").read().splitlines()[:200]  # <- source sentences, eight or more

def encode(text): return [...]         # <- ids of a source's words, without START and END
def run(source, target):
    return model(source, target)       # <- logits [sentence, position, word]

def padded(rows): return torch.tensor([r + [PAD] * (max(map(len, rows)) - len(r)) for r in rows])
ids = [encode(line) for line in lines]
source, arrays = padded([[START, *i[:20], END] for i in ids[:8]]), {}
real, maps = torch.Tensor.softmax, []
def softmax(x, *a, **k): maps.append(real(x, *a, **k)); return maps[-1]
torch.Tensor.softmax = softmax         # every attention calls it; the maps are kept in order
torch.backends.mha.set_fastpath_enabled(False)
for m in model.modules():
    if isinstance(m, torch.nn.MultiheadAttention):
        weights = lambda m, a, k: (a, k | {"need_weights": True})
        m.register_forward_pre_hook(weights, with_kwargs=True)
for bits in (32, 64):
    model.to(getattr(torch, f"float{bits}")).eval()
    fed, open_rows = [[START] for _ in source], set(range(len(source)))
    with torch.no_grad():
        while open_rows and len(fed[0]) <= 20:
            last = run(source, torch.tensor(fed))[:, -1]
            last[:, [PAD, START]] = -1e30
            for n, word in enumerate(last.argmax(-1).tolist()):
                fed[n].append(word if n in open_rows else PAD)
                open_rows -= {n} if word == END else set()
        arrays[f"greedy_{bits}"] = np.array(fed)[:, 1:]
        target = arrays.setdefault("target", np.array([r[:-1] for r in fed]))
        target[target == END] = PAD
        maps.clear()
        arrays[f"logits_{bits}"] = run(source, torch.from_numpy(target)).numpy()
    maps[:] = [m.reshape(len(source), -1, *m.shape[-2:]) for m in maps]
    kinds = maps[:N_ENCODER], maps[N_ENCODER::2], maps[N_ENCODER + 1::2]
    for name, found in zip(("encoder", "decoder", "cross"), kinds):
        arrays[f"{name}_{bits}"] = torch.stack(found).numpy()
if positions is not None: arrays["positions"] = np.asarray(positions)
tokens = json.dumps({"lines": lines, "ids": [[START, *i] for i in ids]}).encode()
np.savez("reference.npz", source=source.numpy(), tokens=np.frombuffer(tokens, np.uint8), **arrays)
'''


def script(family: str) -> str:
    """Return the script that writes reference.npz, to be run where the original network runs."""
    if family in LIBRARY:
        return Path(library.__file__).read_text(encoding="utf-8")
    return SEED_SCRIPT
