"""Shares of the logit difference that copied states and heads restore, over minimal pairs.

Axes: N pairs, R bootstrap replicates, C sets of copies.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from core.atlas.atlas import FETCH_FILE
from core.atlas.corpus import drawn
from core.atlas.intervals import interval
from core.atlas.sums import bootstrap_weights
from core.checkpoint.folder import Checkpoint, load
from core.command import progress_bar, refuse_unwritable, table, whole_number, write_credit
from core.command import write_result as write_json
from core.config import DecodeConfig
from core.data.text_files import read_lines
from core.device import limit_threads, pick_device
from core.experiments.patching import (
    Contrast,
    Copies,
    Direction,
    Pairs,
    contrast_of,
    head_copies,
    paired,
    shares,
)
from core.frozen import Doubles
from core.kinds import KINDS, SIDES, Side
from core.model.interface import Seq2Seq
from core.record.edits import Head
from core.record.state_edits import Patch
from core.search.many import translate_ids
from core.text.line import tokens_and_words
from core.text.tokenizer import EOS, Token, special, with_first

_CHUNK = 50  # pairs that are translated at a time
_CLASSES = {"changed": "changed tokens", "others": "all other tokens"}
_REASONS = 3  # for which pairs are left out, printed


class Statistic(NamedTuple):
    """A mean share over the pairs, with the bounds of its 95 % bootstrap interval."""

    share: float
    low: float
    high: float


@dataclass(frozen=True)
class PatchShares:
    """Mean shares of `core.patch_all` over minimal pairs, each pair counting once.

    `states` by (side, layer, class): class "changed" are the source tokens that differ, or the last
    fed target token, which writes the first word that differs; "others" are the rest, copied
    together. `heads` by (kind, layer, head), and `kinds` their sums by kind. `left_out` counts
    pairs without a share, by reason.
    """

    direction: Direction
    pairs: int
    left_out: dict[str, int]
    states: dict[tuple[Side, int, str], Statistic]
    heads: dict[Head, Statistic]
    kinds: dict[str, Statistic]

    def to_values(self) -> dict[str, Any]:
        """Return plain values: lists of rows."""

        def rows(found: dict[Any, Statistic], *names: str) -> list[dict[str, Any]]:
            return [
                dict(zip(names, at if isinstance(at, tuple) else (at,), strict=True))
                | {name: None if np.isnan(x) else x for name, x in of._asdict().items()}
                for at, of in found.items()
            ]

        return {
            "direction": self.direction,
            "pairs": self.pairs,
            "left_out": self.left_out,
            "states": rows(self.states, "side", "layer", "tokens"),
            "heads": rows(self.heads, "kind", "layer", "head"),
            "kinds": rows(self.kinds, "kind"),
        }


def measure_pairs(
    checkpoint: Checkpoint,
    pairs: Sequence[tuple[str, str]],
    direction: Direction = "restore",
    on_progress: Callable[[int], object] = lambda count: None,
) -> PatchShares:
    """Measure minimal pairs: texts of the source language, clean and corrupted.

    Raises ValueError if no pair has a share.
    """
    rows, indices, left_out = [], [], Counter[str]()
    for start in range(0, len(pairs), _CHUNK):
        for number, contrast in enumerate(_contrasts(checkpoint, pairs[start : start + _CHUNK])):
            try:
                rows.append(_row(checkpoint.model, *_checked(contrast), direction))
                indices.append(start + number)
            except ValueError as error:
                left_out[re.sub(r"\d+(\.\d+)?", "N", str(error).partition(":")[0])] += 1
            on_progress(1)
    if not rows:
        reason = f" ({min(left_out)})" if left_out else ""
        raise ValueError(f"no pair has a difference to restore{reason}: give other pairs")
    states, heads = _sets(checkpoint.model)
    shares_NC = np.array(rows)
    kinds = {kind: [len(states) + i for i, h in enumerate(heads) if h[0] == kind] for kind in KINDS}
    sums_NK = np.stack([shares_NC[:, of].sum(1) for of in kinds.values()], axis=1)
    found = _statistics(np.concatenate((shares_NC, sums_NK), axis=1), indices)
    by_set = dict(zip((*states, *heads, *kinds), found, strict=True))
    return PatchShares(
        direction,
        len(rows),
        dict(left_out),
        {at: by_set[at] for at in states},
        {at: by_set[at] for at in heads},
        {kind: by_set[kind] for kind in kinds},
    )


def _sets(model: Seq2Seq) -> tuple[list[tuple[Side, int, str]], list[Head]]:
    """Return the names of all sets of copies."""
    states = [
        (side, layer, tokens)
        for side in SIDES
        for layer in range(len(model.stack(side).layers) + 1)
        for tokens in ("changed", "others")
    ]
    sites = sorted(model.attention_sites(), key=lambda s: (KINDS.index(s.kind), s.layer))
    return states, [(s.kind, s.layer, head) for s in sites for head in range(s.num_heads)]


class _Pair(NamedTuple):
    """Source tokens and translated ids of two sentences, clean and corrupted."""

    sources: tuple[tuple[Token, ...], tuple[Token, ...]]
    targets: tuple[Sequence[int], Sequence[int]]


def _contrasts(checkpoint: Checkpoint, pairs: Sequence[tuple[str, str]]) -> Iterator[_Pair]:
    """Yield the tokens of each pair with its greedy translations; empty ones if it is too long."""
    tokenizer, limit = checkpoint.source_tokenizer, checkpoint.card.model.max_length
    sources = [
        (*with_first(tokenizer, tokens_and_words(tokenizer, text)[0]), special(EOS))
        for pair in pairs
        for text in pair
    ]
    sources = [tokens if 1 < len(tokens) <= limit else () for tokens in sources]
    ids = [[t.id for t in tokens[:-1]] for tokens in sources]
    device = str(next(checkpoint.model.parameters()).device)
    with torch.inference_mode():
        found = translate_ids(checkpoint.model, ids, DecodeConfig(beam=1), device)
    for i in range(0, len(sources), 2):
        both = found[i][0].ids, found[i + 1][0].ids
        yield _Pair((sources[i], sources[i + 1]), both)


def _checked(pair: _Pair) -> tuple[Contrast, _Pair]:
    if not all(pair.sources):
        raise ValueError("a sentence is empty or too long")
    ids = [[t.id for t in tokens] for tokens in pair.sources]
    return contrast_of(*ids, *pair.targets), pair


def _row(model: Seq2Seq, contrast: Contrast, pair: _Pair, direction: Direction) -> Doubles:
    """Return the share of each set of `_sets`, [C]. Raises ValueError if it is not defined."""
    clean, corrupted = pair.sources
    into, other = (corrupted, clean) if direction == "restore" else (clean, corrupted)
    pairs = paired(into, other)
    last = len(contrast.fed) - 1
    places = {"encoder": pairs, "decoder": tuple((p, p) for p in range(last + 1))}
    changed = {
        "encoder": {p for p, q in pairs if into[p].id != other[q].id},
        "decoder": {last},
    }
    states, heads = _sets(model)
    rows: list[Copies] = []
    for side, layer, tokens in states:
        chosen: Pairs = tuple(
            pair for pair in places[side] if (pair[0] in changed[side]) == (tokens == "changed")
        )
        rows.append([Patch(side, layer, *pair) for pair in chosen])
    for kind, layer, head in heads:
        at = places["encoder" if kind == "encoder" else "decoder"]
        rows.append(head_copies(kind, layer, head, at))
    found_C, _ = shares(model, contrast, rows, direction)
    if np.isnan(found_C).any():
        raise ValueError("both sentences differ too little in their first different words")
    return found_C


def _statistics(shares_NC: Doubles, indices: Sequence[int]) -> list[Statistic]:
    weights_NR = bootstrap_weights(indices)
    with np.errstate(invalid="ignore"):  # a replicate that drew no pair is NaN
        means_RC = weights_NR.T @ shares_NC / weights_NR.sum(0)[:, None]
    return [Statistic(*map(float, row)) for row in interval(means_RC, len(indices))]


def swapped(lines: Sequence[str], words: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Make minimal pairs: replace the only occurrence of a word, or of several, by its partner.

    Case counts. The first entry of `words` that a line has exactly once is used.
    """
    pairs = []
    for line in lines:
        for word, other in words:
            parts = re.split(rf"(?<!\w){re.escape(word)}(?!\w)", line)
            if len(parts) == 2:
                pairs.append((line, other.join(parts)))
                break
    return pairs


def read_pairs(file: Path) -> list[tuple[str, str]]:
    """Read two texts a line, with a tab between them. Raises ValueError for another line."""
    pairs = []
    for number, line in enumerate(read_lines(file), start=1):
        parts = tuple(part.strip() for part in line.split("\t"))
        if not line.strip():
            continue
        if len(parts) != 2 or not all(parts):
            raise ValueError(f"{file}, line {number}: give two texts with a tab between them")
        pairs.append(parts)
    return pairs


def run_patch(arguments: Namespace) -> None:
    """Measure what copied states and heads restore, over minimal pairs."""
    if (arguments.pairs is None) == (arguments.src is None or arguments.words is None):
        raise ValueError("give either --pairs FILE or both --src FILE and --words FILE")
    if arguments.out is not None:
        refuse_unwritable("--out", arguments.out)
    if arguments.pairs is not None:
        pairs = read_pairs(arguments.pairs)
    else:
        pairs = swapped(read_lines(arguments.src), read_pairs(arguments.words))
    if arguments.seed is not None:
        pairs = drawn(pairs, arguments.first or len(pairs), arguments.seed)
    pairs = pairs[: arguments.first]
    if not pairs:
        raise ValueError("there is no pair to measure: at least 1 is needed")
    checkpoint = load(arguments.checkpoint, pick_device(arguments.device))
    card = checkpoint.card
    write_credit(card.folder.name, card.credit)
    limit_threads(card.parameters)
    with progress_bar(len(pairs), " pairs") as on_progress:
        found = measure_pairs(checkpoint, pairs, arguments.direction, on_progress)
    _print(found)
    values = {"checkpoint": card.folder.name, "weights_sha256": card.weights_sha256}
    for file in (arguments.json, arguments.out):
        write_json(file, values | found.to_values())


def _print(found: PatchShares) -> None:
    table([("pairs", found.pairs), ("left out", sum(found.left_out.values()))])
    table(Counter(found.left_out).most_common(_REASONS))
    table([("copied state (layer 0: embeddings)", f"share that it brings, {found.direction}")])
    table(
        (f"{side} layer {layer}, {_CLASSES[tokens]}", _shown(share))
        for (side, layer, tokens), share in found.states.items()
    )
    table([("copied head (from 1)", "share that it brings")])
    ranked = sorted(found.heads.items(), key=lambda item: -item[1].share)
    table(
        (f"{kind} layer {layer + 1} head {head + 1}", _shown(share))
        for (kind, layer, head), share in ranked
    )
    table((f"{kind} heads, sum", _shown(share)) for kind, share in found.kinds.items())


def _shown(statistic: Statistic) -> str:
    share, low, high = (round(value, 3) + 0.0 for value in statistic)  # no "-0.000"
    return f"{share:+.3f} [{low:+.3f}, {high:+.3f}]"


def add_patch_arguments(p: ArgumentParser) -> None:
    """Add the options of this command."""
    p.add_argument("--checkpoint", type=Path, required=True)
    p.add_argument("--pairs", type=Path, help="two sentences per line, with a tab between them")
    p.add_argument("--src", type=Path, help="make the pairs from these sentences, one per line")
    p.add_argument(
        "--words", type=Path, help="with --src: a word and its replacement per line, with a tab"
    )
    p.add_argument("--first", type=whole_number(1), metavar="N", help="use only N pairs")
    p.add_argument("--seed", type=whole_number(0), help="draw the pairs instead of the first ones")
    p.add_argument(
        "--direction",
        choices=("restore", "damage"),
        default="restore",
        help="clean states into the corrupted pass, or corrupted states into the clean pass",
    )
    p.add_argument(
        "--out", type=Path, help=f"write all rows here; Heads reads {FETCH_FILE} of the checkpoint"
    )
    p.add_argument("--device", default="auto")
    p.add_argument("--json", type=Path, help="write all rows here")
