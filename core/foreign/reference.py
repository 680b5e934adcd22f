"""What the original network computes: read from reference.npz, or computed by transformers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.config import ModelConfig
from core.foreign import library
from core.kinds import KINDS, Kind
from core.record.archive import Archive, archive

PRECISIONS = (64, 32)
_MAX_BYTES = 2 << 30
_MAX_TEXT = 4 << 20
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


def from_file(file: Path, config: ModelConfig, vocabulary: int) -> Reference:
    """Read reference.npz. Raises ValueError if it does not fit the network."""
    with archive(file, "a reference", _REMEDY, _MAX_BYTES, _MAX_BYTES) as found:
        return _reference(found, config, vocabulary)


def from_library(folder: Path, lines: list[str], config: ModelConfig, vocabulary: int) -> Reference:
    """Run transformers on the folder. Raises ImportError if transformers is not installed."""
    from io import BytesIO

    file = BytesIO()
    measured: dict[str, Any] = dict(library.measure(str(folder), lines))
    np.savez(file, **measured)
    with archive(file, "a reference", _REMEDY, _MAX_BYTES, _MAX_BYTES) as found:
        return _reference(found, config, vocabulary)


def _reference(found: Archive, config: ModelConfig, vocabulary: int) -> Reference:
    source, target = (found.array(name, [np.int64], 2) for name in ("source", "target"))
    if len(source) != len(target) or not len(source):
        raise ValueError("source and target need the same number of sentences, at least 1")
    count, lengths = len(source), {"source": source.shape[1], "target": target.shape[1]}
    axes: dict[Kind, tuple[int, int, int]] = {
        "encoder": (config.num_encoder_layers, lengths["source"], lengths["source"]),
        "decoder": (config.num_decoder_layers, lengths["target"], lengths["target"]),
        "cross": (config.num_decoder_layers, lengths["target"], lengths["source"]),
    }
    passes = {}
    for bits in PRECISIONS:
        kind = [np.dtype(f"float{bits}")]
        logits = found.array(f"logits_{bits}", kind, 3)
        _expect(f"logits_{bits}", logits, (count, lengths["target"], vocabulary), "vocabulary")
        maps = {}
        for name in KINDS:
            layers, queries, keys = axes[name]
            maps[name] = found.array(f"{name}_{bits}", kind, 5)
            shape = (layers, count, config.num_heads, queries, keys)
            _expect(f"{name}_{bits}", maps[name], shape, "number of heads or layers")
        passes[bits] = Pass(logits, maps, found.array(f"greedy_{bits}", [np.int64], 2))
    return Reference(source, target, passes, _positions(found, config), _tokens(found))


def _expect(name: str, array: np.ndarray, shape: tuple[int, ...], what: str) -> None:
    if array.shape != shape:
        raise ValueError(f"{name} is {array.shape}, not {shape} as in the network: another {what}")


def _positions(found: Archive, config: ModelConfig) -> np.ndarray | None:
    if not found.has("positions"):
        return None
    table = found.array("positions", [np.float32, np.float64], 2)
    if table.shape[1] != config.d_model:
        raise ValueError(f"positions have {table.shape[1]} features, not {config.d_model}")
    return table[: config.max_length].astype(np.float64)


def _tokens(found: Archive) -> tuple[tuple[str, tuple[int, ...]], ...]:
    values: Any = found.json("tokens", _MAX_TEXT)
    try:
        pairs = zip(values["lines"], values["ids"], strict=True)
        return tuple((str(line), tuple(map(int, ids))) for line, ids in pairs)
    except (KeyError, TypeError, ValueError):
        raise ValueError("tokens are not lines with their ids") from None


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
    if family in ("marian", "pegasus"):
        return Path(library.__file__).read_text(encoding="utf-8")
    return SEED_SCRIPT
