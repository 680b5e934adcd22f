"""Analyse a checkpoint's heads over a corpus: importance, roles, word alignment, single words.

python -m core.analyse alignment --checkpoint DIR --src FILE --ref FILE --gold FILE [--json FILE]
python -m core.analyse atlas --checkpoint DIR --src FILE --ref FILE [--gold FILE] --out FILE.npz
python -m core.analyse importance --checkpoint DIR --src FILE --ref FILE [--method zero]
python -m core.analyse words --checkpoint DIR --src FILE --ref FILE [--tokens 200] [--json FILE]
python -m core.analyse means --checkpoint DIR --src FILE --ref FILE

`means` writes DIR/head_means.safetensors, which mean ablation needs.
"""

import math
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from core.analysis.alignment import read_gold
from core.checkpoint.folder import Checkpoint, load
from core.checkpoint.head_means import FILE, HeadMeans, save_means
from core.command import (
    Parser,
    main,
    progress_bar,
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
from core.training.scoring import refuse_long

_TABLE_ROWS = 12  # the JSON has all rows


def alignment(arguments: Namespace) -> None:
    """Score every cross-attention head against manual alignments."""
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
    with progress_bar(len(pairs)) as on_progress:
        rows = align(checkpoint, pairs, gold, device, on_progress)
    first = sorted(rows, key=lambda row: row.score.aer)[:_TABLE_ROWS]
    table([("reading, quantity, layer, head", "AER, precision, recall")])
    table((_name(row), _scores(row)) for row in first)
    write_result(
        arguments.json,
        {
            "checkpoint": checkpoint.card.folder.name,
            "sentences": len(pairs),
            "rows": [_values(row) for row in rows],
            "best": _values(best(rows)),
        },
    )


def atlas(arguments: Namespace) -> None:
    """Compute everything that is known of each head over a corpus, and write it to one file."""
    refuse_unwritable("--out", arguments.out)
    if arguments.shards > 1 and arguments.device not in ("auto", "cpu"):
        raise ValueError("--shards are processes on the CPU: leave out --device or --shards")
    device = "cpu" if arguments.shards > 1 else pick_device(arguments.device)
    torch.set_num_threads(1)  # so that shards agree; with more, small networks are no faster
    network = load(arguments.checkpoint, device)
    text = corpus(network, _pairs(arguments))
    extras, gold = _extras(arguments, network, text, device)
    for line in (*text.skipped[:_TABLE_ROWS], *Facts.of(text).notes):
        print(f"{arguments.src.name}: {line}", file=sys.stderr)
    origin = origin_of(network, text, _names(arguments.src, arguments.ref), _command(arguments), **gold)
    partial = Partial(arguments.out.with_name(f"{arguments.out.name}.partial"), repr(origin))
    with (
        _runner(arguments, network) as run,
        progress_bar(count_passes(network, text, extras), " passes") as on_progress,
    ):
        found = build(network, text, origin, Work(run, partial, on_progress), extras)
    found.save(arguments.out)
    partial.remove()
    heads = report(found)
    _atlas_tables(found, heads)
    write_result(
        arguments.json,
        {
            "checkpoint": network.card.folder.name,
            "sentences": origin.sentences,
            "origin": asdict(origin),
            "heads": heads,
            "alignment_heads": found.alignment_heads and asdict(found.alignment_heads),
        },
    )


def _extras(
    arguments: Namespace, network: Checkpoint, text: Corpus, device: str
) -> tuple[Extras, dict[str, Any]]:
    """Return the gold, the other network and whether to translate; and what identifies the gold."""
    other = load(arguments.other, device) if arguments.other else None
    if (arguments.gold_src is None) != (arguments.gold_ref is None):
        raise ValueError("--gold-src and --gold-ref go together: give both, or none")
    if arguments.gold is None:
        if arguments.gold_src is not None:
            raise ValueError("--gold-src needs --gold, the alignments of that text")
        return Extras(None, other, not arguments.no_bleu), {}
    own = arguments.gold_src is None
    pairs = _pairs(arguments) if own else list(LinePairs(arguments.gold_src, arguments.gold_ref))
    lines = read_lines(arguments.gold)
    gold = read_gold(
        lines,
        len(pairs),
        str(arguments.gold),
        arguments.one_based,
        arguments.gold_target_first,
    )
    aligned = corpus(network, pairs, gold)
    identity = {
        "gold": arguments.gold.name if own else f"{arguments.gold.name} of {_names(arguments.gold_src, arguments.gold_ref)}",
        "gold_sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        "gold_sentences": len(aligned.sentences),
    }
    return Extras(aligned, other, not arguments.no_bleu), identity


def _runner(arguments: Namespace, network: Checkpoint) -> AbstractContextManager[Runner]:
    if arguments.ray:
        return nullcontext(on_ray(arguments.shards))
    return in_processes(arguments.shards) if arguments.shards > 1 else nullcontext(in_process(network))


def _names(*files: Path) -> str:
    return ", ".join(file.name for file in files)


def _command(arguments: Namespace) -> str:
    """Return the command that reproduces an atlas, with the names of its files alone."""
    words = ["python -m core.analyse atlas"]
    for option in ("checkpoint", "src", "ref", "gold", "gold_src", "gold_ref", "other", "out"):
        if (file := getattr(arguments, option)) is not None:
            words.append(f"--{option.replace('_', '-')} {shlex.quote(file.name)}")
    for option in ("one_based", "gold_target_first", "no_bleu"):
        if getattr(arguments, option):
            words.append(f"--{option.replace('_', '-')}")
    if arguments.first is not None:
        words.append(f"--first {arguments.first}")
    return " ".join(words)


def _atlas_tables(found: Atlas, heads: list[dict[str, Any]]) -> None:
    origin = found.origin
    table(
        [
            ("sentences", f"{origin.sentences:,}"),
            ("loss, nats per token", _with_bounds(found.arrays["loss"], 4)),
            *([("BLEU, greedy", _with_bounds(found.arrays["bleu"], 2))] if "bleu" in found.arrays else []),
        ]
    )
    table([("head (from 1)", "change in loss, 95 % CI, zero ablation", "roles beyond chance")])
    table(
        (
            f"{head['kind']} layer {head['layer'] + 1} head {head['head'] + 1}",
            _with_bounds([head["loss_change"], head["low"], head["high"]], 4, "+"),
            ", ".join(name for name, role in head["roles"].items() if role["label"]) or "none",
        )
        for head in sorted(heads, key=lambda head: -head["loss_change"])
    )
    if (chosen := found.alignment_heads) is not None:
        names = ", ".join(f"{layer + 1}.{head + 1}" for layer, head in chosen.heads)
        error = _with_bounds([chosen.aer, chosen.low, chosen.high], 3)
        table([("alignment heads (from 1)", f"{names}; {chosen.reading} reading, AER {error}")])


def _with_bounds(values: Sequence[float | None], digits: int, sign: str = "") -> str:
    value, low, high = ("—" if v is None or math.isnan(v) else f"{v:{sign}.{digits}f}" for v in values)
    return f"{value} [{low}, {high}]"


def importances(arguments: Namespace) -> None:
    """Measure how ablating each head changes the loss."""
    checkpoint, pairs, device = _encoded(arguments)
    heads = len(checkpoint.model.attention_sites()) * checkpoint.card.model.num_heads
    with progress_bar(heads, " heads") as on_progress:
        loss, rows = importance(checkpoint.model, pairs, arguments.method, device, on_progress)
    table([("loss, nats per token", f"{loss:.4f}"), ("head (from 1)", "change in loss, 95 % CI")])
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
    """Compare each head's direct logit effect on a word with the effect of ablating the head."""
    checkpoint, pairs, device = _encoded(arguments)
    heads = 2 * checkpoint.card.model.num_decoder_layers * checkpoint.card.model.num_heads
    with progress_bar(heads, " heads") as on_progress:
        result = prediction_error(checkpoint.model, pairs, arguments.tokens, device, on_progress)
    largest = result.largest(arguments.largest)
    rows: list[dict[str, Any]] = []
    for kind, layer in dict.fromkeys(head.place[:2] for head in result.heads):
        chosen = largest & np.array([head.place[:2] == (kind, layer) for head in result.heads])
        if chosen.any():
            rows.append({"kind": kind, "layer": layer} | _agreement(result.agreement(chosen)))
    over_all = _agreement(result.agreement(largest))
    table([("nats", "mean |predicted − true|, mean |true|, correlation, count")])
    table(
        [(f"{arguments.largest} largest of {len(result.words)} tokens", _agreement_text(over_all))]
    )
    table((f"{row['kind']} layer {row['layer'] + 1}", _agreement_text(row)) for row in rows)
    write_result(
        arguments.json,
        {
            "checkpoint": checkpoint.card.folder.name,
            "sentences": result.sentences,
            "tokens": len(result.words),
            "largest": arguments.largest,
            **over_all,
            "rows": rows,
        },
    )


def means(arguments: Namespace) -> None:
    """Write each head's mean output to the checkpoint folder, for mean ablation."""
    refuse_unwritable("--checkpoint", arguments.checkpoint / FILE)
    checkpoint, pairs, device = _encoded(arguments)
    with progress_bar(len(pairs)) as on_progress:
        parts = head_means(checkpoint.model, batches_of(pairs, device), on_progress)
    corpus = f"{arguments.src.name}, {arguments.ref.name}"
    save_means(arguments.checkpoint, HeadMeans(parts, len(pairs), corpus))
    lengths = [
        (kind, layer, head, part_D.norm().item())
        for kind, layer in sorted(parts, key=lambda at: (KINDS.index(at[0]), at[1]))
        for head, part_D in enumerate(parts[kind, layer])
    ]
    table([("written", arguments.checkpoint / FILE), ("sentences", len(pairs))])
    table([("head (from 1)", "norm of its mean output")])
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


def _agreement(result: Agreement) -> dict[str, Any]:
    values = asdict(result)
    if math.isnan(result.correlation):
        values["correlation"] = None
    return values


def _agreement_text(row: dict[str, Any]) -> str:
    correlation = "—" if row["correlation"] is None else f"{row['correlation']:+.3f}"
    return f"{row['mean_error']:.4f}  {row['mean_true']:.4f}  {correlation}  {row['count']:,}"


def _pairs(arguments: Namespace) -> list[tuple[str, str]]:
    pairs = list(LinePairs(arguments.src, arguments.ref))[: arguments.first]
    if not pairs:
        raise ValueError(f"{arguments.src} contains no sentences: at least 1 is needed")
    return pairs


def _encoded(arguments: Namespace) -> tuple[Checkpoint, list[Any], str]:
    """Return the checkpoint, the pairs as ids, and the device. Raises ValueError if too long."""
    device = pick_device(arguments.device)
    checkpoint = load(arguments.checkpoint, device)
    both = checkpoint.source_tokenizer, checkpoint.target_tokenizer
    pairs = list(encode_pairs(_pairs(arguments), *both))
    refuse_long(pairs, checkpoint.card.model.max_length)
    return checkpoint, pairs, device


def _name(row: Row) -> str:
    layer, head = ("mean" if i is None else str(i + 1) for i in (row.layer, row.head))
    return f"{row.reading}, {row.quantity}, layer {layer}, head {head}"


def _scores(row: Row) -> str:
    return f"{row.score.aer:.4f}  {row.score.precision:.4f}  {row.score.recall:.4f}"


def _values(row: Row) -> dict[str, Any]:
    named = {"reading": row.reading, "quantity": row.quantity, "layer": row.layer, "head": row.head}
    return named | asdict(row.score)


def _command(subparsers: Any, name: str, help: str, run: Callable[[Namespace], None]) -> Parser:
    """Add a subcommand with the options that all of them share."""
    p = subparsers.add_parser(name, help=help)
    p.set_defaults(run=run, first=None)
    p.add_argument("--checkpoint", type=Path, required=True)
    p.add_argument("--src", type=Path, required=True, help="source sentences, one per line")
    p.add_argument("--ref", type=Path, required=True, help="translations, line for line")
    p.add_argument("--device", default="auto")
    p.add_argument("--json", type=Path, help="write all rows here")
    return p


def parser() -> Parser:
    p = Parser(prog="python -m core.analyse", description=__doc__)
    subparsers = p.add_subparsers(required=True, metavar="alignment|importance|words|means")
    aligning, ranking, choosing, averaging = (
        _command(subparsers, *command)
        for command in (
            ("alignment", "alignment error of each cross-attention head", alignment),
            ("importance", "change in loss when a head is ablated", importances),
            ("words", "predicted and true effect of heads on a word", words),
            ("means", "write the mean output of each head", means),
        )
    )
    aligning.add_argument(
        "--gold",
        type=Path,
        required=True,
        help="links i-j (sure) and i?j (possible), one sentence per line, or NAACL format",
    )
    aligning.add_argument("--one-based", action="store_true", help="links count words from 1")
    aligning.add_argument(
        "--gold-target-first", action="store_true", help="links name the target word first"
    )
    ranking.add_argument(
        "--method",
        choices=METHODS,
        default="zero",
        help="zero: zero ablation; mean: mean ablation; gradient: signed first-order estimate of "
        "zero ablation (Molchanov et al. take its absolute value)",
    )
    for command in (ranking, averaging):
        command.add_argument(
            "--first", type=whole_number(1), help="use only the first N pairs", metavar="N"
        )
    choosing.add_argument(
        "--tokens", type=whole_number(1), default=200, help="minimum number of target tokens"
    )
    choosing.add_argument(
        "--largest", type=whole_number(1), default=5, help="largest terms to compare per token"
    )
    return p


if __name__ == "__main__":
    main(parser(), lambda arguments: arguments.run(arguments))
