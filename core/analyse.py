"""Ask a checkpoint what its heads do: what they align, what they are worth, and to which word.

python -m core.analyse alignment --checkpoint DIR --src FILE --ref FILE --gold FILE [--json FILE]
python -m core.analyse importance --checkpoint DIR --src FILE --ref FILE [--method zero]
python -m core.analyse words --checkpoint DIR --src FILE --ref FILE [--tokens 200] [--json FILE]
python -m core.analyse means --checkpoint DIR --src FILE --ref FILE   (for what switches a head to
its mean: writes DIR/head_means.safetensors)
"""

import math
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from core.analysis.alignment import read_gold
from core.checkpoint.folder import Checkpoint, load
from core.checkpoint.head_means import FILE, HeadMeans, save_means
from core.command import (
    Parser,
    counting,
    main,
    refuse_unwritable,
    table,
    whole_number,
    write_result,
)
from core.data.batches import encode_pairs
from core.data.text_files import LinePairs, read_lines
from core.device import pick_device
from core.experiments.aligning import Row, align, best
from core.experiments.importance import METHODS, batches_of, head_means, importance
from core.experiments.prediction import Agreement, prediction_error
from core.kinds import KINDS

_SHOWN = 12  # rows of the table for people; all are in the JSON


def alignment(arguments: Namespace) -> None:
    """Score every head of the cross-attention against hand-made alignments."""
    device = pick_device(arguments.device)
    checkpoint = load(arguments.checkpoint, device)
    pairs = _pairs(arguments)
    gold = read_gold(
        read_lines(arguments.gold),
        len(pairs),
        str(arguments.gold),
        arguments.one_based,
        arguments.gold_target_first,
    )
    with counting(len(pairs)) as done:
        rows = align(checkpoint, pairs, gold, device, done)
    first = sorted(rows, key=lambda row: row.score.aer)[:_SHOWN]
    table([("reading, quantity, layer, head", "AER, precision, recall")])
    table((_name(row), _figures(row)) for row in first)
    write_result(
        arguments.json,
        {
            "checkpoint": checkpoint.card.folder.name,
            "sentences": len(pairs),
            "rows": [_values(row) for row in rows],
            "best": _values(best(rows)),
        },
    )


def importances(arguments: Namespace) -> None:
    """How the loss changes without each head."""
    checkpoint, pairs, device = _encoded(arguments)
    heads = len(checkpoint.model.attention_sites()) * checkpoint.card.model.num_heads
    with counting(heads, " heads") as done:
        loss, rows = importance(checkpoint.model, pairs, arguments.method, device, done)
    table([("loss, nats per token", f"{loss:.4f}"), ("head (from 1)", "change of the loss, 95 %")])
    table(
        (
            f"{row.kind} layer {row.layer + 1} head {row.head + 1}",
            f"{row.loss_change:+.4f} [{row.low:+.4f}, {row.high:+.4f}]",
        )
        for row in sorted(rows, key=lambda row: -row.loss_change)
    )
    write_result(
        arguments.json,
        {
            "checkpoint": checkpoint.card.folder.name,
            "sentences": len(pairs),
            "method": arguments.method,
            "loss": loss,
            "rows": [asdict(row) for row in rows],
        },
    )


def words(arguments: Namespace) -> None:
    """How well a head's direct effect on a choice of words predicts what switching it off does."""
    checkpoint, pairs, device = _encoded(arguments)
    heads = 2 * checkpoint.card.model.num_decoder_layers * checkpoint.card.model.num_heads
    with counting(heads, " heads") as done:
        found = prediction_error(checkpoint.model, pairs, arguments.tokens, device, done)
    largest = found.largest(arguments.largest)
    rows: list[dict[str, Any]] = []
    for kind, layer in dict.fromkeys(head.place[:2] for head in found.heads):
        own = largest & np.array([head.place[:2] == (kind, layer) for head in found.heads])
        if own.any():
            rows.append({"kind": kind, "layer": layer} | _agreement(found.agreement(own)))
    over_all = _agreement(found.agreement(largest))
    table([("nats", "mean |predicted − true|, mean |true|, correlation, of how many")])
    table([(f"{arguments.largest} largest of {len(found.words)} tokens", _agreed(over_all))])
    table((f"{row['kind']} layer {row['layer'] + 1}", _agreed(row)) for row in rows)
    write_result(
        arguments.json,
        {
            "checkpoint": checkpoint.card.folder.name,
            "sentences": found.sentences,
            "tokens": len(found.words),
            "largest": arguments.largest,
            **over_all,
            "rows": rows,
        },
    )


def means(arguments: Namespace) -> None:
    """Write what each head adds in the mean beside the weights, for edits that put it there."""
    refuse_unwritable("--checkpoint", arguments.checkpoint / FILE)
    checkpoint, pairs, device = _encoded(arguments)
    with counting(len(pairs)) as done:
        parts = head_means(checkpoint.model, batches_of(pairs, device), done)
    corpus = f"{arguments.src.name}, {arguments.ref.name}"
    save_means(arguments.checkpoint, HeadMeans(parts, len(pairs), corpus))
    lengths = [
        (kind, layer, head, part_D.norm().item())
        for kind, layer in sorted(parts, key=lambda at: (KINDS.index(at[0]), at[1]))
        for head, part_D in enumerate(parts[kind, layer])
    ]
    table([("written", arguments.checkpoint / FILE), ("sentences", len(pairs))])
    table([("head (from 1)", "length of its mean part")])
    table(
        (f"{kind} layer {layer + 1} head {head + 1}", f"{length:.4f}")
        for kind, layer, head, length in lengths
    )
    write_result(
        arguments.json,
        {
            "checkpoint": checkpoint.card.folder.name,
            "sentences": len(pairs),
            "corpus": corpus,
            "rows": [dict(zip(("kind", "layer", "head", "norm"), r, strict=True)) for r in lengths],
        },
    )


def _agreement(found: Agreement) -> dict[str, Any]:
    values = asdict(found)
    if math.isnan(found.correlation):
        values["correlation"] = None
    return values


def _agreed(row: dict[str, Any]) -> str:
    correlation = "—" if row["correlation"] is None else f"{row['correlation']:+.3f}"
    return f"{row['mean_error']:.4f}  {row['mean_true']:.4f}  {correlation}  {row['count']:,}"


def _pairs(arguments: Namespace) -> list[tuple[str, str]]:
    pairs = list(LinePairs(arguments.src, arguments.ref))[: arguments.first]
    if not pairs:
        raise ValueError(f"{arguments.src} holds no sentence: at least 1 is needed")
    return pairs


def _encoded(arguments: Namespace) -> tuple[Checkpoint, list[Any], str]:
    """The checkpoint, the pairs as ids that fit it, and the device."""
    device = pick_device(arguments.device)
    checkpoint = load(arguments.checkpoint, device)
    both = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    pairs = list(encode_pairs(_pairs(arguments), *both))
    _fit(checkpoint, pairs)
    return checkpoint, pairs, device


def _fit(checkpoint: Checkpoint, pairs: list[Any]) -> None:
    limit = checkpoint.card.model.max_length
    for number, pair in enumerate(pairs, start=1):
        if (longest := max(map(len, pair))) > limit:
            raise ValueError(
                f"pair {number} has {longest} tokens with <eos>: the limit is {limit}, "
                "leave it out or shorten it"
            )


def _name(row: Row) -> str:
    layer, head = ("mean" if i is None else str(i + 1) for i in (row.layer, row.head))
    return f"{row.reading}, {row.quantity}, layer {layer}, head {head}"


def _figures(row: Row) -> str:
    return f"{row.score.aer:.4f}  {row.score.precision:.4f}  {row.score.recall:.4f}"


def _values(row: Row) -> dict[str, Any]:
    named = {"reading": row.reading, "quantity": row.quantity, "layer": row.layer, "head": row.head}
    return named | asdict(row.score)


def parser() -> Parser:
    """The command line."""
    p = Parser(prog="python -m core.analyse", description=__doc__)
    questions = p.add_subparsers(required=True, metavar="alignment|importance|words|means")
    aligning = questions.add_parser("alignment", help="alignment error of each cross-attention")
    worth = questions.add_parser("importance", help="loss change without each head")
    choosing = questions.add_parser("words", help="predicted and true effect of heads on a word")
    average = questions.add_parser("means", help="write the mean part of each head")
    for question, run in (
        (aligning, alignment),
        (worth, importances),
        (choosing, words),
        (average, means),
    ):
        question.set_defaults(run=run)
        question.add_argument("--checkpoint", type=Path, required=True)
        question.add_argument("--src", type=Path, required=True, help="source sentences, a line")
        question.add_argument("--ref", type=Path, required=True, help="target, line for line")
        question.add_argument("--device", default="auto")
        question.add_argument("--json", type=Path, help="write all rows here")
    aligning.add_argument(
        "--gold",
        type=Path,
        required=True,
        help="links i-j and i?j, a line each, or NAACL's",
    )
    aligning.add_argument("--one-based", action="store_true", help="words are counted from 1")
    aligning.add_argument(
        "--gold-target-first", action="store_true", help="the first word of a link is the target's"
    )
    aligning.set_defaults(first=None)
    worth.add_argument(
        "--method",
        choices=METHODS,
        default="zero",
        help="zero removes a head, mean puts its mean in its place, gradient estimates zero by "
        "the signed first-order slope (Molchanov et al. take its absolute value)",
    )
    for question in (worth, average):
        question.add_argument(
            "--first", type=whole_number(1), help="only so many pairs", metavar="N"
        )
    choosing.add_argument(
        "--tokens", type=whole_number(1), default=200, help="of the target, at least"
    )
    choosing.add_argument(
        "--largest", type=whole_number(1), default=5, help="terms of each token to compare"
    )
    choosing.set_defaults(first=None)
    return p


if __name__ == "__main__":
    main(parser(), lambda arguments: arguments.run(arguments))
