"""Shares of the logit difference that copied states and heads restore, over minimal pairs.

Axes: N pairs, R bootstrap replicates, C sets of copies.
"""

from __future__ import annotations

import math
import re
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from core.atlas.atlas import FETCH_FILE
from core.atlas.corpus import drawn
from core.atlas.intervals import interval
from core.atlas.lens import greedy
from core.atlas.sums import bootstrap_weights
from core.checkpoint.folder import Checkpoint, load
from core.command import progress_bar, refuse_unwritable, table, whole_number, write_credit
from core.command import write_result as write_json
from core.data.text_files import read_lines
from core.device import limit_threads, pick_device
from core.experiments.experiment import Ids
from core.experiments.head_effects import heads_of
from core.experiments.patching import (
    Copies,
    Direction,
    Pairs,
    contrast_of,
    head_copies,
    paired,
    shares,
)
from core.frozen import Doubles
from core.kinds import KINDS, SIDES, Side, side_of
from core.model.interface import Seq2Seq
from core.record.edits import Head
from core.record.state_edits import Patch
from core.text.line import tokens_and_words
from core.text.tokenizer import EOS, Token, special, with_first

_CHUNK = 50  # pairs that are translated at a time
_CLASSES = {"changed": "changed tokens", "others": "all other tokens"}
_REASONS = 3  # for which pairs are left out, printed


def measure_pairs(
    checkpoint: Checkpoint,
    pairs: Sequence[tuple[str, str]],
    direction: Direction = "restore",
    on_progress: Callable[[int], object] = lambda count: None,
) -> dict[str, Any]:
    """Measure minimal pairs, clean and corrupted, by their greedy translations.

    Returns `states`, `heads` and `kinds`: rows with the mean share of a set of copies over the
    pairs, and the bounds of its 95 % bootstrap interval, None for fewer than 2 pairs. States are
    copied together by class: "changed" are the source tokens that differ, or the last fed target
    token, which writes the first word that differs; "others" are all the rest. `kinds` has the sum
    over a kind's heads. `left_out` counts pairs without a share, by reason. Raises ValueError if no
    pair has a share.
    """
    rows, indices, left_out = [], [], Counter[str]()
    for start in range(0, len(pairs), _CHUNK):
        for number, pair in enumerate(_translated(checkpoint, pairs[start : start + _CHUNK])):
            try:
                rows.append(_shares(checkpoint.model, *pair, direction))
                indices.append(start + number)
            except ValueError as error:
                left_out[re.sub(r"\d+(\.\d+)?", "N", str(error).partition(":")[0])] += 1
            on_progress(1)
    if not rows:
        reason = f" ({min(left_out)})" if left_out else ""
        raise ValueError(f"no pair has a difference to restore{reason}: give other pairs")
    states, heads = _sets(checkpoint.model)
    shares_NC = np.array(rows)
    of_kind = [[len(states) + i for i, head in enumerate(heads) if head[0] == k] for k in KINDS]
    sums_NK = np.stack([shares_NC[:, of].sum(1) for of in of_kind], axis=1)
    weights_NR = bootstrap_weights(indices)
    with np.errstate(invalid="ignore"):  # a replicate that drew no pair is NaN
        totals_RC = weights_NR.T @ np.concatenate((shares_NC, sums_NK), axis=1)
        found = iter(interval(totals_RC / weights_NR.sum(0)[:, None], len(rows)).tolist())

    def named(names: Sequence[str], sets: Sequence[tuple]) -> list[dict[str, Any]]:
        values = [[None if math.isnan(value) else value for value in next(found)] for _ in sets]
        names = (*names, "share", "low", "high")
        return [
            dict(zip(names, (*of, *row), strict=True)) for of, row in zip(sets, values, strict=True)
        ]

    return {
        "direction": direction,
        "pairs": len(rows),
        "left_out": dict(left_out),
        "states": named(("side", "layer", "tokens"), states),
        "heads": named(("kind", "layer", "head"), heads),
        "kinds": named(("kind",), [(kind,) for kind in KINDS]),
    }


def _sets(model: Seq2Seq) -> tuple[list[tuple[Side, int, str]], list[Head]]:
    """Return the names of all sets of copies."""
    states = [
        (side, layer, tokens)
        for side in SIDES
        for layer in range(len(model.stack(side).layers) + 1)
        for tokens in _CLASSES
    ]
    return states, heads_of(model)


def _translated(
    checkpoint: Checkpoint, pairs: Sequence[tuple[str, str]]
) -> Iterator[tuple[list[tuple[Token, ...]], list[list[int]]]]:
    """Yield the source tokens of each pair, with <eos>, and the ids of its translations.

    A text that is too long has no tokens.
    """
    tokenizer, limit = checkpoint.source_tokenizer, checkpoint.card.model.max_length
    sources = [
        (*with_first(tokenizer, tokens_and_words(tokenizer, text)[0]), special(EOS))
        for pair in pairs
        for text in pair
    ]
    kept: list[tuple[Token, ...]] = [one if 1 < len(one) <= limit else () for one in sources]
    targets = greedy(checkpoint, [[t.id for t in tokens[:-1]] for tokens in kept])
    for i in range(0, len(kept), 2):
        yield kept[i : i + 2], targets[i : i + 2]


def _shares(
    model: Seq2Seq, sources: list[tuple[Token, ...]], targets: Sequence[Ids], direction: Direction
) -> Doubles:
    """Return the share of each set of `_sets`, [C]. Raises ValueError if it is not defined."""
    if not all(sources):
        raise ValueError("a sentence is empty or too long")
    contrast = contrast_of(*([t.id for t in tokens] for tokens in sources), *targets)
    into, other = sources[::-1] if direction == "restore" else sources
    places: dict[str, Pairs] = {
        "encoder": paired(into, other),
        "decoder": tuple((p, p) for p in range(len(contrast.fed))),
    }
    changed = {
        "encoder": {p for p, q in places["encoder"] if into[p].id != other[q].id},
        "decoder": {len(contrast.fed) - 1},
    }
    states, heads = _sets(model)
    rows: list[Copies] = [
        [
            Patch(side, layer, *pair)
            for pair in places[side]
            if (pair[0] in changed[side]) == (tokens == "changed")
        ]
        for side, layer, tokens in states
    ]
    for kind, layer, head in heads:
        rows.append(head_copies(kind, layer, head, places[side_of(kind)]))
    found_C, _ = shares(model, contrast, rows, direction)
    if np.isnan(found_C).any():
        raise ValueError("both sentences differ too little in their first different words")
    return found_C


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
        write_json(file, values | found)


def _print(found: dict[str, Any]) -> None:
    table([("pairs", found["pairs"]), ("left out", sum(found["left_out"].values()))])
    table(Counter(found["left_out"]).most_common(_REASONS))
    table([("copied state (layer 0: embeddings)", f"share that it brings, {found['direction']}")])
    table(
        (f"{row['side']} layer {row['layer']}, {_CLASSES[row['tokens']]}", _shown(row))
        for row in found["states"]
    )
    table([("copied head (from 1)", "share that it brings")])
    table(
        (f"{row['kind']} layer {row['layer'] + 1} head {row['head'] + 1}", _shown(row))
        for row in sorted(found["heads"], key=lambda row: -row["share"])
    )
    table((f"{row['kind']} heads, sum", _shown(row)) for row in found["kinds"])


def _shown(row: dict[str, Any]) -> str:
    share, *bounds = (
        "—" if row[name] is None else f"{round(row[name], 3) + 0.0:+.3f}"  # no "-0.000"
        for name in ("share", "low", "high")
    )
    return f"{share} [{', '.join(bounds)}]"


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
