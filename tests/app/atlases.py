"""Random atlases with every part (3 or more layers, 2 or more heads), for the page on heads."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np

from core.atlas.atlas import ALL, DISTANCES, AlignmentHeads, Atlas, Origin, Quoted, TokenLoss
from core.kinds import KINDS

ROLES = {
    "encoder": ("previous token", "next token", "<eos>", "punctuation"),
    "decoder": ("previous token", "sentence start", "punctuation"),
    "cross": ("diagonal", "aligned to the token fed", "<eos>", "punctuation", "rarest token"),
}
COMMAND = (
    "python -m core.analyse atlas --checkpoint checkpoints/scratch-de-en --src val.de.gz "
    "--ref val.en.gz --other baseline-de-en --out atlas.npz"
)


def origin(**changes: Any) -> Origin:
    fields: dict[str, Any] = {
        "command": COMMAND,
        "corpus": "val.de.gz, val.en.gz",
        "sources_sha256": "1" * 64,
        "references_sha256": "2" * 64,
        "weights_sha256": "3" * 64,
        "checkpoint": "scratch-de-en",
        "source_language": "de",
        "target_language": "en",
        "sentences": 1000,
        "source_tokens": 14_211,
        "target_tokens": 13_870,
        "skipped": 3,
        "gold": "gold.align",
        "gold_sha256": "4" * 64,
        "gold_sentences": 500,
    }
    return Origin(**fields | changes)


def atlas(
    seed: int = 0, layers: int | tuple[int, int, int] = 4, heads: int = 4, **changes: Any
) -> Atlas:
    """Return a random atlas; `changes` replace its fields, such as `origin`.

    `layers` are those of each kind, or one number for all.
    """
    random = np.random.default_rng(seed)
    of_kind = dict(zip(KINDS, (layers,) * 3 if isinstance(layers, int) else layers, strict=True))
    L, H = of_kind["cross"], heads
    sizes = {kind: count * H for kind, count in of_kind.items()}
    starts = {
        "encoder": 0,
        "decoder": sizes["encoder"],
        "cross": sizes["encoder"] + sizes["decoder"],
    }
    N, A, P = sum(sizes.values()), len(DISTANCES), 40

    def interval(value: np.ndarray, width: float, least: float = -9, most: float = 9) -> np.ndarray:
        spread = width * random.uniform(0.3, 1, (2, *value.shape))
        both = np.stack([value, value - spread[0], value + spread[1]], -1)
        return np.clip(both, least, most).astype(np.float32)

    def shares(*shape: int) -> np.ndarray:
        return interval(random.beta(0.6, 2, shape), 0.02, 0, 1)

    zero = interval(random.standard_gamma(0.25, N) * 0.25 - 0.004, 0.012)
    distance = random.dirichlet(np.full(A, 0.08), N)
    arrays: dict[str, Any] = {
        "loss": interval(np.array(1.62), 0.03),
        "bleu": interval(np.array(38.4), 0.9, 0, 99),
        "zero": zero,
        "mean": interval(zero[:, 0] * random.uniform(0.3, 1.1, N), 0.012),
        "bleu_zero": interval(-14 * zero[:, 0] + random.normal(0, 0.1, N), 0.4, -99, 99),
        "entropy": shares(N),
        "largest": shares(N),
        "distance": distance,
        "aer": shares(2, 2, L + 1, H + 1),
        "precision": shares(2, 2, L + 1, H + 1)[..., 0],
        "recall": shares(2, 2, L + 1, H + 1)[..., 0],
        "aer_diagonal": np.array([0.61, 0.59, 0.63]),
        "aer_random": np.array([0.83, 0.82, 0.84]),
        "partner": np.concatenate(
            [starts[kind] + random.permutation(sizes[kind]) for kind in KINDS]
        ),
        "similarity": shares(N),
        "strength": random.standard_gamma(0.5, (N, P)) * zero[:, :1]
        + random.normal(0, 0.01, (N, P)),
        "deciles": np.sort(random.standard_gamma(0.5, (N, 9)) * zero[:, :1], -1),
        "cell": random.integers(0, 9, (N, P, 2)),
    }
    for name in ("zero", "mean", "bleu_zero"):
        crosses = (arrays[name][:, 1] <= 0) & (arrays[name][:, 2] >= 0)
        arrays[f"{name}_p"] = np.where(
            crosses, random.uniform(0.06, 1, N), random.uniform(0, 0.04, N)
        )
    for at, kind in enumerate((*KINDS, ALL)):
        count = N if kind == ALL else sizes[kind]
        arrays[f"prune_{kind}_order"] = random.permutation(count)
        rise = np.cumsum(random.standard_gamma(0.2, count + 1)) * 0.05
        arrays[f"prune_{kind}_loss"] = interval(1.62 + rise, 0.03)
        arrays[f"prune_{kind}_bleu"] = interval(38.4 - (5 + at) * rise, 0.8, 0, 99)
    for kind in KINDS:
        names, n = len(ROLES[kind]), sizes[kind]
        arrays[f"role_{kind}"] = shares(names, n)
        arrays[f"role_{kind}_shuffled"] = random.uniform(0.02, 0.3, (names, n))
        arrays[f"role_{kind}_random"] = random.uniform(0.05, 0.4, names)
        shuffled = arrays[f"role_{kind}_shuffled"]
        arrays[f"role_{kind}_profile"] = 0.3 - 0.9 * shuffled
        arrays[f"role_{kind}_profile"][0] = np.nan  # as for a positional role
        arrays[f"role_{kind}_rows"] = 1 - 2 * shuffled[:, 0]
        arrays[f"single_{kind}"] = random.normal(0, 0.1, n)
        pair = random.normal(0, 0.02, (n, n))
        arrays[f"pair_{kind}"] = interval(pair + pair.T, 0.02)
    arrays["similarity_unmatched"] = shares(N)
    order = ("_order", "partner", "cell")
    fields: dict[str, Any] = {
        "origin": origin(),
        "layers": of_kind,
        "num_heads": H,
        "roles": ROLES,
        "arrays": {
            name: np.asarray(array, np.int16 if name.endswith(order) else np.float32)
            for name, array in arrays.items()
        },
        "tokens": tuple(
            tuple(
                TokenLoss(f"word{h}·{i}", float(f"{0.9 / (i + 1):.4f}"), 5 + h + i)
                for i in range(12)
            )
            for h in range(N)
        ),
        "quoted": tuple(
            Quoted(f"Satz {p} <b>läuft</b> & steht.", f"Sentence {p} runs & stands.")
            for p in range(P)
        ),
        "alignment_heads": AlignmentHeads(((0, 0), (2, 1)), "input", "weights", 0.31, 0.29, 0.33),
    }
    return Atlas(**fields | changes)


def without(whole: Atlas, *parts: str, **changes: Any) -> Atlas:
    """Return an atlas without the arrays whose names start with one of `parts`."""
    arrays = {name: a for name, a in whole.arrays.items() if not name.startswith(parts)}
    return dataclasses.replace(whole, arrays=arrays, **changes)


def with_arrays(whole: Atlas, **arrays: np.ndarray) -> Atlas:
    """Return an atlas with some arrays replaced."""
    changed = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
    return dataclasses.replace(whole, arrays={**whole.arrays, **changed})


def bare(whole: Atlas) -> Atlas:
    """Return an atlas without BLEU, pruning, pairs of heads, word alignment and counterparts."""
    parts = ("bleu", "prune", "pair", "single", "aer", "precision", "recall", "partner", "simil")
    return without(whole, *parts, alignment_heads=None)


def told(text: str) -> list[float]:
    """Return the numbers in a text, in order."""
    found = re.findall(r"[+−]?\d[\d,]*(?:\.\d+)?", text)
    return [float(number.replace("−", "-").replace(",", "")) for number in found]


def reported(values: np.ndarray) -> list[float]:
    """Return the numbers that report a change: its value and ±, or its value and both bounds."""
    value, low, high = map(float, values)
    is_even = abs((low + high) / 2 - value) <= 0.1 * (high - low)
    return [value, (high - low) / 2] if is_even else [value, low, high]
